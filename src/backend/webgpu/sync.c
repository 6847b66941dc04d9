/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the device. Every question is asked with AllowProcessEvents, which both ways of waiting serve: WaitAny with
 * a timeout where the instance has it, else polling.
 */
#include <string.h>
#include <time.h>

#include "backend/webgpu/wgpu.h"

WGPUStringView nib_wgpu_text(const char *text)
{
    return (WGPUStringView){text, WGPU_STRLEN};
}

void nib_wgpu_sync_init(nib_wgpu_sync *sync, WGPUInstance instance, const nib_allocator *allocator, bool timed)
{
    memset(sync, 0, sizeof *sync);
    sync->instance = instance;
    sync->allocator = allocator;
    sync->timed = timed;
    sync->timeout_ns = (uint64_t)NIB_WGPU_DEFAULT_TIMEOUT_MS * 1000000u;
    pthread_mutex_init(&sync->lock, NULL);
}

void nib_wgpu_sync_free(nib_wgpu_sync *sync)
{
    while (sync->pool) {
        nib_wgpu_wait *wait = sync->pool;
        sync->pool = wait->next;
        nib_release(sync->allocator, wait, 1, sizeof *wait);
    }
    pthread_mutex_destroy(&sync->lock);
}

nib_wgpu_wait *nib_wgpu_wait_new(nib_wgpu_sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    nib_wgpu_wait *wait = sync->pool;
    if (wait)
        sync->pool = wait->next;
    sync->outstanding++;
    pthread_mutex_unlock(&sync->lock);
    if (!wait)
        wait = nib_allocate(sync->allocator, 1, sizeof *wait);
    if (!wait) {
        pthread_mutex_lock(&sync->lock);
        sync->outstanding--;
        pthread_mutex_unlock(&sync->lock);
        return NULL;
    }
    wait->next = NULL;
    wait->sync = sync;
    wait->status = wait->type = 0;
    wait->object = NULL;
    wait->discard = NULL;
    wait->line = wait->column = 0;
    wait->message[0] = '\0';
    atomic_store(&wait->done, false);
    atomic_store(&wait->refs, 2);
    return wait;
}

void nib_wgpu_wait_drop(nib_wgpu_wait *wait)
{
    if (atomic_fetch_sub(&wait->refs, 1) != 1)
        return;
    nib_wgpu_sync *sync = wait->sync;
    if (wait->object && wait->discard)
        wait->discard(wait->object);
    pthread_mutex_lock(&sync->lock);
    wait->next = sync->pool;
    sync->pool = wait;
    sync->outstanding--;
    pthread_mutex_unlock(&sync->lock);
}

void nib_wgpu_copy_text(WGPUStringView from, char *to, size_t to_bytes)
{
    size_t length = from.length;
    if (!from.data)
        length = 0;
    else if (length == WGPU_STRLEN)
        length = strlen(from.data);
    if (length >= to_bytes)
        length = to_bytes - 1;
    if (length > 0)
        memcpy(to, from.data, length);
    to[length] = '\0';
}

void nib_wgpu_wait_answer(nib_wgpu_wait *wait, int status, int type, void *object, WGPUStringView message)
{
    wait->status = status;
    wait->type = type;
    wait->object = object;
    nib_wgpu_copy_text(message, wait->message, sizeof wait->message);
    atomic_store(&wait->done, true);
    nib_wgpu_wait_drop(wait);
}

void *nib_wgpu_wait_take(nib_wgpu_wait *wait)
{
    void *object = wait->object;
    wait->object = NULL;
    return object;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ns(long nanoseconds)
{
    const struct timespec t = {.tv_nsec = nanoseconds};
    nanosleep(&t, NULL);
}

/* Poll, ever more lazily, until the answer is there or the time is over. */
static void poll_until_done(nib_wgpu_sync *sync, const nib_wgpu_wait *wait, uint64_t deadline)
{
    long pause = 1000;
    while (!atomic_load(&wait->done) && now_ns() < deadline) {
        wgpuInstanceProcessEvents(sync->instance);
        if (atomic_load(&wait->done))
            return;
        sleep_ns(pause);
        pause = pause < 500000 ? pause * 2 : pause;
    }
}

nib_status nib_wgpu_wait_for(nib_wgpu_sync *sync, WGPUFuture future, nib_wgpu_wait *wait, const char *what,
                             nib_error *error)
{
    const uint64_t deadline = now_ns() + sync->timeout_ns;
    if (sync->timed && !atomic_load(&wait->done)) {
        WGPUFutureWaitInfo info = {.future = future};
        const WGPUWaitStatus status = wgpuInstanceWaitAny(sync->instance, 1, &info, sync->timeout_ns);
        sync->timed = status != WGPUWaitStatus_Error; /* a caller was wrong about its instance */
    }
    /* Another thread may be inside the callback: WaitAny then returns before the answer is complete. */
    poll_until_done(sync, wait, deadline);
    if (atomic_load(&wait->done))
        return NIB_OK;
    return nib_fail(error, NIB_TIMEOUT, "%s: the device did not answer within %llu ms", what,
                    (unsigned long long)(sync->timeout_ns / 1000000u));
}

bool nib_wgpu_sync_drain(nib_wgpu_sync *sync)
{
    const uint64_t deadline = now_ns() + sync->timeout_ns;
    for (;;) {
        pthread_mutex_lock(&sync->lock);
        const size_t outstanding = sync->outstanding;
        pthread_mutex_unlock(&sync->lock);
        if (outstanding == 0)
            return true;
        if (now_ns() >= deadline)
            return false;
        wgpuInstanceProcessEvents(sync->instance);
        sleep_ns(100000);
    }
}
