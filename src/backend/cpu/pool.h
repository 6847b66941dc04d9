/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads. Work is cut into a fixed number of items that does not depend on the threads; `lanes`
 * workers draw items until none is left, each with its own lane number for scratch memory. Idle
 * threads sleep.
 */
#ifndef NIB_BACKEND_CPU_POOL_H
#define NIB_BACKEND_CPU_POOL_H

#include "base/context.h"
#include "nibble/device.h"

typedef struct nib_cpu_pool {
    size_t lanes;                  /* >= 1 */
    nib_parallel_for parallel_for; /* the caller's; NULL: `threads`, or serial */
    void *user;
    void *threads; /* the library's pool; NULL: none */
} nib_cpu_pool;

/* lanes 0: one per core that the process may use. errors: OUT_OF_MEMORY, UNSUPPORTED (threads asked
 * for in a build without them) */
nib_status nib_cpu_pool_open(nib_cpu_pool *pool, const nib_device_options *options,
                             nib_error *error);
void nib_cpu_pool_close(nib_cpu_pool *pool);

typedef void (*nib_cpu_task)(void *arg, size_t lane, size_t item);
/* Run task(arg, lane, item) once for each item in [0, count); returns when all are done. */
void nib_cpu_pool_run(const nib_cpu_pool *pool, size_t count, nib_cpu_task task, void *arg);

#endif
