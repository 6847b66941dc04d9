/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatches: into a caller's encoder, many calls at once, or one call from host memory to host memory. This is the path
 * that runs for every token of a model: no allocation, no string work.
 */
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

/* Nothing to do: every output is empty. */
static bool is_empty(const nib_wgpu_call *call)
{
    return call->step_count == 0 && !call->split;
}

void nib_wgpu_record(const nib_wgpu_call *call, WGPUComputePassEncoder pass, size_t first, size_t end)
{
    const nib_wgpu_pipeline *set = NULL;
    if (call->split)
        nib_wgpu_split_record(call, pass);
    for (size_t i = first; i < end; i++) {
        const nib_wgpu_step *step = &call->steps[i];
        if (step->skipped)
            continue;
        if (step->pipeline != set)
            wgpuComputePassEncoderSetPipeline(pass, step->pipeline->pipeline);
        set = step->pipeline;
        wgpuComputePassEncoderSetBindGroup(pass, 0, step->group, 0, NULL);
        wgpuComputePassEncoderDispatchWorkgroups(pass, step->dispatch[0], step->dispatch[1], step->dispatch[2]);
    }
}

/* ---- into the caller's encoder ---- */

/* A call that can be recorded now. */
static nib_status ready_to_encode(nib_call *common, nib_error *error)
{
    nib_wgpu_call *call = (nib_wgpu_call *)common;
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common->device, &device, error));
    NIB_TRY(nib_wgpu_check(device, error));
    if (call->waits)
        return nib_fail(error, NIB_UNSUPPORTED,
                        "a pass of this call waits for the queue (submitAfter): use nib_call_run");
    return nib_wgpu_link(call, false, error);
}

static void encode_ready(nib_wgpu_call *call, WGPUComputePassEncoder pass)
{
    nib_wgpu_record(call, pass, 0, call->step_count);
    nib_wgpu_mark_written(call);
}

nib_status nib_webgpu_call_encode_pass(nib_call *call, WGPUComputePassEncoder pass, nib_error *error)
{
    NIB_TRY(ready_to_encode(call, error));
    encode_ready((nib_wgpu_call *)call, pass);
    return NIB_OK;
}

nib_status nib_webgpu_call_encode(nib_call *call, WGPUCommandEncoder encoder, nib_error *error)
{
    NIB_TRY(ready_to_encode(call, error));
    if (is_empty((nib_wgpu_call *)call))
        return NIB_OK;
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    encode_ready((nib_wgpu_call *)call, pass);
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    return NIB_OK;
}

static void submit(nib_wgpu_device *device, WGPUCommandEncoder encoder)
{
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuQueueSubmit(device->queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
}

nib_status nib_webgpu_submit(nib_device *common, nib_call *const *calls, size_t count, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    for (size_t i = 0; i < count; i++)
        NIB_TRY(ready_to_encode(calls[i], error));
    nib_wgpu_scope_begin(device);
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device->device, NULL);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    for (size_t i = 0; i < count; i++)
        encode_ready((nib_wgpu_call *)calls[i], pass);
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    submit(device, encoder);
    wgpuCommandEncoderRelease(encoder);
    return nib_wgpu_scope_end(device, "submitting calls", error);
}

/* ---- from host memory to host memory ---- */

/* The outputs that are copied back: those with host memory and elements. */
static bool is_read_back(const nib_wgpu_call *call, size_t i)
{
    const nib_tensor *tensor = call->common.bound[i];
    return call->used[i] && call->common.plan->tensors[i].port->role != NIB_INPUT && tensor->data &&
           tensor->elements > 0;
}

static nib_status size_staging(nib_wgpu_call *call, nib_error *error)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->common.plan->tensor_count; i++) {
        if (is_read_back(call, i))
            bytes += call->copies[i]->rounded_bytes;
    }
    if (bytes <= call->staging_bytes)
        return NIB_OK;
    nib_wgpu_buffer_free(call->staging);
    call->staging = NULL;
    call->staging_bytes = 0;
    NIB_TRY(nib_wgpu_staging_create((nib_wgpu_device *)call->common.device, bytes, &call->staging, error));
    call->staging_bytes = bytes;
    return NIB_OK;
}

static size_t copy_to_staging(const nib_wgpu_call *call, WGPUCommandEncoder encoder)
{
    size_t at = 0;
    for (size_t i = 0; i < call->common.plan->tensor_count; i++) {
        if (!is_read_back(call, i))
            continue;
        const nib_wgpu_copy *copy = call->copies[i];
        wgpuCommandEncoderCopyBufferToBuffer(encoder, copy->buffer, copy->offset, call->staging, at,
                                             copy->rounded_bytes);
        at += copy->rounded_bytes;
    }
    return at;
}

/* The end of the stretch that goes into one submission: after a pass with submitAfter, or the end. */
static size_t stretch_end(const nib_wgpu_call *call, size_t first)
{
    for (size_t i = first; i < call->step_count; i++) {
        const nib_wgpu_step *step = &call->steps[i];
        if (step->pass && step->pass->pass->submit_after && !step->skipped)
            return i + 1;
    }
    return call->step_count;
}

/* Record and submit steps [first, end), and behind the last one the copies to staging. */
static nib_status submit_stretch(nib_wgpu_call *call, size_t first, size_t end, size_t *staged, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    nib_wgpu_scope_begin(device);
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device->device, NULL);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    nib_wgpu_record(call, pass, first, end);
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    if (end == call->step_count)
        *staged = copy_to_staging(call, encoder);
    submit(device, encoder);
    wgpuCommandEncoderRelease(encoder);
    return nib_wgpu_scope_end(device, "running the call", error);
}

static void copy_from_staging(nib_wgpu_call *call, const unsigned char *mapped)
{
    for (size_t i = 0; i < call->common.plan->tensor_count; i++) {
        if (!is_read_back(call, i))
            continue;
        nib_wgpu_copy *copy = call->copies[i];
        nib_wgpu_layout_load(copy->layout, copy->tensor->desc.dtype, mapped, copy->tensor->elements,
                             copy->tensor->data);
        mapped += copy->rounded_bytes;
        copy->ahead = false;
    }
}

static nib_status read_back(nib_wgpu_call *call, size_t staged, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    if (staged == 0)
        return nib_wgpu_wait_idle(device, error);
    const unsigned char *mapped;
    const nib_status status = nib_wgpu_staging_map(device, call->staging, staged, &mapped, error);
    if (status != NIB_OK) {
        /* The mapping may still be under way; the next run takes another buffer. */
        nib_wgpu_buffer_free(call->staging);
        call->staging = NULL;
        call->staging_bytes = 0;
        return status;
    }
    copy_from_staging(call, mapped);
    wgpuBufferUnmap(call->staging);
    /* A device that was lost meanwhile may have mapped anything. */
    return nib_wgpu_check(device, error);
}

nib_status nib_wgpu_run(nib_call *common, nib_error *error)
{
    nib_wgpu_call *call = (nib_wgpu_call *)common;
    nib_wgpu_device *device = (nib_wgpu_device *)common->device;
    NIB_TRY(nib_wgpu_check(device, error));
    if (is_empty(call))
        return NIB_OK;
    NIB_TRY(nib_wgpu_link(call, true, error));
    NIB_TRY(size_staging(call, error));
    size_t staged = 0, first = 0;
    do {
        const size_t end = stretch_end(call, first);
        NIB_TRY(submit_stretch(call, first, end, &staged, error));
        if (end < call->step_count)
            NIB_TRY(nib_wgpu_wait_idle(device, error));
        first = end;
    } while (first < call->step_count);
    nib_wgpu_mark_written(call);
    return read_back(call, staged, error);
}
