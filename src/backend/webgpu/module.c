/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library finds in this module.
 */
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

const nib_backend nib_backend_webgpu = {
    .abi = NIB_BACKEND_ABI,
    .name = "webgpu",
    .open = nib_wgpu_open,
    .close = nib_wgpu_close,
    .prepare = nib_wgpu_prepare,
    .release = nib_wgpu_release,
    .bind = nib_wgpu_bind,
    .run = nib_wgpu_run,
    .time = nib_wgpu_time,
    .list = nib_webgpu_devices_json,
    .ceilings = nib_wgpu_ceilings,
};

nib_status nib_wgpu_of(nib_device *device, nib_wgpu_device **out, nib_error *error)
{
    if (!device || device->backend != &nib_backend_webgpu)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "this is not a WebGPU device");
    *out = (nib_wgpu_device *)device;
    return NIB_OK;
}

nib_status nib_webgpu_device_handles(const nib_device *device, nib_webgpu_handles *out, nib_error *error)
{
    if (!device || device->backend != &nib_backend_webgpu)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "this is not a WebGPU device");
    const nib_wgpu_device *d = (const nib_wgpu_device *)device;
    *out = (nib_webgpu_handles){d->instance, d->adapter, d->device, d->queue, d->sync.timed};
    return NIB_OK;
}

nib_status nib_webgpu_device_status(nib_device *common, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    return nib_wgpu_check(device, error);
}

nib_status nib_webgpu_device_recover(nib_device *common, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    nib_wgpu_fault_clear(&device->fault);
    return nib_wgpu_check(device, error);
}

void nib_webgpu_set_timeout(nib_device *common, uint32_t milliseconds)
{
    nib_wgpu_device *device = NULL;
    if (nib_wgpu_of(common, &device, NULL) != NIB_OK)
        return;
    device->sync.timeout_ns = (uint64_t)(milliseconds ? milliseconds : NIB_WGPU_DEFAULT_TIMEOUT_MS) * 1000000u;
}

nib_status nib_webgpu_wait(nib_device *common, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    return nib_wgpu_wait_idle(device, error);
}
