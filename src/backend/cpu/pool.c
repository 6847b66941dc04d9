/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <stdatomic.h>

#if defined(__linux__)
#include <sched.h>
#else
#include <unistd.h>
#endif
#if defined(NIB_HAVE_PTHREADPOOL)
#include <pthreadpool.h>
#endif

#include "base/error.h"

static size_t count_cores(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (size_t)CPU_COUNT(&set);
    return 1;
#else
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (size_t)cores : 1;
#endif
}

nib_status nib_cpu_pool_open(nib_cpu_pool *pool, const nib_device_options *options,
                             nib_error *error)
{
    enum { MAX_LANES = 1024 };
    *pool = (nib_cpu_pool){.lanes = options->threads ? options->threads : count_cores()};
    if (pool->lanes > MAX_LANES)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "%zu threads asked for; at most %d",
                        pool->lanes, MAX_LANES);
    if (options->parallel_for) {
        pool->parallel_for = options->parallel_for;
        pool->user = options->parallel_user;
        return NIB_OK;
    }
    if (pool->lanes == 1)
        return NIB_OK;
#if defined(NIB_HAVE_PTHREADPOOL)
    pool->threads = pthreadpool_create(pool->lanes);
    return pool->threads ? NIB_OK : nib_fail_memory(error);
#else
    if (options->threads > 1)
        return nib_fail(error, NIB_UNSUPPORTED,
                        "%u threads asked for, but this build has no thread pool: pass a "
                        "parallel_for, or build with pthreadpool",
                        options->threads);
    pool->lanes = 1;
    return NIB_OK;
#endif
}

void nib_cpu_pool_close(nib_cpu_pool *pool)
{
#if defined(NIB_HAVE_PTHREADPOOL)
    if (pool->threads)
        pthreadpool_destroy(pool->threads);
#endif
    *pool = (nib_cpu_pool){0};
}

/* One parallel loop: lanes draw the next item until all are taken. */
typedef struct draw {
    nib_cpu_task task;
    void *arg;
    size_t count;
    atomic_size_t next;
} draw;

static void run_lane(void *arg, size_t lane)
{
    draw *d = arg;
    for (;;) {
        const size_t item = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed);
        if (item >= d->count)
            return;
        d->task(d->arg, lane, item);
    }
}

void nib_cpu_pool_run(const nib_cpu_pool *pool, size_t count, nib_cpu_task task, void *arg)
{
    draw d = {.task = task, .arg = arg, .count = count};
    atomic_init(&d.next, 0);
    const size_t lanes = count < pool->lanes ? count : pool->lanes;
    if (lanes <= 1) {
        run_lane(&d, 0);
    } else if (pool->parallel_for) {
        pool->parallel_for(pool->user, lanes, run_lane, &d);
    } else {
#if defined(NIB_HAVE_PTHREADPOOL)
        /* Workers wait in the kernel afterwards instead of spinning. */
        pthreadpool_parallelize_1d(pool->threads, run_lane, &d, lanes,
                                   PTHREADPOOL_FLAG_YIELD_WORKERS);
#else
        run_lane(&d, 0);
#endif
    }
}
