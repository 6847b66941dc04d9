/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

bool nib_wgpu_round(size_t bytes, size_t *out)
{
    if (!nib_size_align(bytes, 4, out))
        return false;
    *out = *out < 4 ? 4 : *out;
    return true;
}

nib_status nib_wgpu_buffer_create(nib_wgpu_device *device, const char *label, size_t bytes, WGPUBufferUsage usage,
                                  bool mapped, WGPUBuffer *out, nib_error *error)
{
    *out = NULL;
    NIB_TRY(nib_wgpu_check(device, error));
    size_t rounded;
    if (!nib_wgpu_round(bytes, &rounded) || rounded > device->max_buffer_bytes)
        return nib_fail(error, NIB_LIMIT, "%s: %zu bytes (%.1f MiB); maxBufferSize of the device is %zu (%.1f MiB)",
                        label, bytes, (double)bytes / 1048576.0, device->max_buffer_bytes,
                        (double)device->max_buffer_bytes / 1048576.0);
    char what[320];
    snprintf(what, sizeof what, "%s: creating a buffer of %zu bytes", label, rounded);
    const WGPUBufferDescriptor descriptor = {
        .label = nib_wgpu_text(label), .usage = usage, .size = rounded, .mappedAtCreation = mapped};
    nib_wgpu_scope_begin(device);
    WGPUBuffer buffer = wgpuDeviceCreateBuffer(device->device, &descriptor);
    nib_status status = nib_wgpu_scope_end(device, what, error);
    /* A failed mapping at creation is no error of the scope: the buffer is simply not there. */
    if (status == NIB_OK && !buffer) {
        nib_wgpu_fault_set(&device->fault, NIB_OUT_OF_MEMORY, nib_wgpu_text(what));
        status = nib_fail(error, NIB_OUT_OF_MEMORY, "%s: out of memory", what);
    }
    if (status != NIB_OK) {
        nib_wgpu_buffer_free(buffer);
        return status;
    }
    *out = buffer;
    return NIB_OK;
}

void nib_wgpu_buffer_free(WGPUBuffer buffer)
{
    if (!buffer)
        return;
    wgpuBufferDestroy(buffer);
    wgpuBufferRelease(buffer);
}
