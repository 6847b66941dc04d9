/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device reports: sticky faults from its callbacks, error scopes around calls of ours, and the end of submitted
 * work.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

void nib_wgpu_fault_init(nib_wgpu_fault *fault)
{
    memset(fault, 0, sizeof *fault);
    pthread_mutex_init(&fault->lock, NULL);
}

void nib_wgpu_fault_free(nib_wgpu_fault *fault)
{
    pthread_mutex_destroy(&fault->lock);
}

/* The first fault stays, but a loss replaces anything. */
void nib_wgpu_fault_set(nib_wgpu_fault *fault, nib_status status, WGPUStringView message)
{
    pthread_mutex_lock(&fault->lock);
    const int before = atomic_load(&fault->status);
    if (before == NIB_OK || (status == NIB_DEVICE_LOST && before != NIB_DEVICE_LOST)) {
        nib_wgpu_copy_text(message, fault->message, sizeof fault->message);
        atomic_store(&fault->status, (int)status);
    }
    pthread_mutex_unlock(&fault->lock);
}

void nib_wgpu_fault_clear(nib_wgpu_fault *fault)
{
    pthread_mutex_lock(&fault->lock);
    if (atomic_load(&fault->status) != NIB_DEVICE_LOST)
        atomic_store(&fault->status, NIB_OK);
    pthread_mutex_unlock(&fault->lock);
}

void nib_wgpu_on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *fault,
                      void *unused)
{
    (void)device;
    (void)reason;
    (void)unused;
    nib_wgpu_fault_set(fault, NIB_DEVICE_LOST, message);
}

static nib_status status_of(WGPUErrorType type)
{
    return type == WGPUErrorType_OutOfMemory ? NIB_OUT_OF_MEMORY : NIB_DEVICE;
}

void nib_wgpu_on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *fault,
                       void *unused)
{
    (void)device;
    (void)unused;
    nib_wgpu_fault_set(fault, status_of(type), message);
}

/* A device that somebody else made has somebody else's callbacks; its loss can only be asked for. */
static void ask_for_loss(nib_wgpu_device *device)
{
    WGPUFutureWaitInfo info = {.future = wgpuDeviceGetLostFuture(device->device)};
    if (wgpuInstanceWaitAny(device->instance, 1, &info, 0) == WGPUWaitStatus_Success)
        nib_wgpu_fault_set(&device->fault, NIB_DEVICE_LOST, nib_wgpu_text("the device was lost or destroyed"));
}

nib_status nib_wgpu_check(nib_wgpu_device *device, nib_error *error)
{
    if (device->foreign && atomic_load(&device->fault.status) != NIB_DEVICE_LOST)
        ask_for_loss(device);
    if (atomic_load(&device->fault.status) == NIB_OK)
        return NIB_OK;
    pthread_mutex_lock(&device->fault.lock);
    const nib_status status = (nib_status)atomic_load(&device->fault.status);
    nib_fail(error, status, "%s: %s", nib_status_text(status), device->fault.message);
    pthread_mutex_unlock(&device->fault.lock);
    return status;
}

/* ---- error scopes ---- */

enum { SCOPES = 3 };

void nib_wgpu_scope_begin(nib_wgpu_device *device)
{
    static const WGPUErrorFilter filters[SCOPES] = {WGPUErrorFilter_Internal, WGPUErrorFilter_OutOfMemory,
                                                    WGPUErrorFilter_Validation};
    for (size_t i = 0; i < SCOPES; i++)
        wgpuDevicePushErrorScope(device->device, filters[i]);
}

static void on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void *wait,
                     void *unused)
{
    (void)unused;
    if (wait)
        nib_wgpu_wait_answer(wait, (int)status, (int)type, NULL, message);
}

/* One line out of the device's many. */
static void flatten(char *text)
{
    size_t out = 0;
    for (size_t i = 0; text[i]; i++) {
        const bool space = text[i] == '\n' || text[i] == '\r' || text[i] == '\t' || text[i] == ' ';
        if (space && (out == 0 || text[out - 1] == ' '))
            continue;
        text[out++] = space ? ' ' : text[i];
    }
    while (out > 0 && text[out - 1] == ' ')
        out--;
    text[out] = '\0';
}

/* Pop one scope and turn what it caught into a status. */
static nib_status pop_scope(nib_wgpu_device *device, const char *what, nib_error *error)
{
    nib_wgpu_wait *wait = nib_wgpu_wait_new(&device->sync);
    const WGPUPopErrorScopeCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_scope, .userdata1 = wait};
    const WGPUFuture future = wgpuDevicePopErrorScope(device->device, info); /* without memory too: keep the balance */
    if (!wait)
        return nib_fail_memory(error);
    nib_status status = nib_wgpu_wait_for(&device->sync, future, wait, what, error);
    if (status == NIB_OK && wait->status == WGPUPopErrorScopeStatus_Success &&
        wait->type != WGPUErrorType_NoError) {
        flatten(wait->message);
        status = status_of((WGPUErrorType)wait->type);
        nib_fail(error, status, "%s: %s", what, wait->message);
        if (status == NIB_OUT_OF_MEMORY)
            nib_wgpu_fault_set(&device->fault, status, nib_wgpu_text(wait->message));
    }
    nib_wgpu_wait_drop(wait);
    return status;
}

nib_status nib_wgpu_scope_end(nib_wgpu_device *device, const char *what, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < SCOPES; i++) {
        const nib_status popped = pop_scope(device, what, status == NIB_OK ? error : NULL);
        status = status == NIB_OK ? popped : status;
    }
    /* A loss explains whatever else was reported. */
    if (status == NIB_OK || status == NIB_DEVICE) {
        const nib_status sticky = nib_wgpu_check(device, status == NIB_OK ? error : NULL);
        status = sticky == NIB_OK ? status : sticky;
    }
    return status;
}

/* ---- submitted work ---- */

static void on_work_done(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *wait, void *unused)
{
    (void)unused;
    nib_wgpu_wait_answer(wait, (int)status, 0, NULL, message);
}

nib_status nib_wgpu_wait_idle(nib_wgpu_device *device, nib_error *error)
{
    NIB_TRY(nib_wgpu_check(device, error));
    nib_wgpu_wait *wait = nib_wgpu_wait_new(&device->sync);
    if (!wait)
        return nib_fail_memory(error);
    const WGPUQueueWorkDoneCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_work_done, .userdata1 = wait};
    const WGPUFuture future = wgpuQueueOnSubmittedWorkDone(device->queue, info);
    nib_status status = nib_wgpu_wait_for(&device->sync, future, wait, "waiting for the queue", error);
    if (status == NIB_OK) {
        status = nib_wgpu_check(device, error);
        if (status == NIB_OK && wait->status != WGPUQueueWorkDoneStatus_Success)
            status = nib_fail(error, NIB_DEVICE, "waiting for the queue: %s", wait->message);
    }
    nib_wgpu_wait_drop(wait);
    return status;
}
