/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor's copies on devices: finding, making, filling, reading and forgetting them.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

static const WGPUBufferUsage TENSOR_USAGE =
    WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;

static nib_wgpu_copy *copies_of(const nib_tensor *tensor)
{
    return tensor->device_state;
}

nib_wgpu_copy *nib_wgpu_copy_find(const nib_wgpu_device *device, const nib_tensor *tensor, nib_wgpu_layout layout)
{
    for (nib_wgpu_copy *copy = copies_of(tensor); copy; copy = copy->next_of_tensor) {
        if (copy->device == device && copy->layout == layout)
            return copy;
    }
    return NULL;
}

/* ---- lists ---- */

static void unlink_from_device(nib_wgpu_copy *copy)
{
    if (copy->previous)
        copy->previous->next = copy->next;
    else
        copy->device->copies = copy->next;
    if (copy->next)
        copy->next->previous = copy->previous;
}

static void free_copy(nib_wgpu_copy *copy)
{
    if (copy->foreign)
        wgpuBufferRelease(copy->buffer);
    else
        nib_wgpu_buffer_free(copy->buffer);
    nib_release(&copy->device->common.context->allocator, copy, 1, sizeof *copy);
}

/* The tensor goes first. */
static void release_copies(nib_tensor *tensor)
{
    nib_wgpu_copy *copy = copies_of(tensor);
    tensor->device_state = NULL;
    while (copy) {
        nib_wgpu_copy *next = copy->next_of_tensor;
        unlink_from_device(copy);
        free_copy(copy);
        copy = next;
    }
}

static void unlink_from_tensor(nib_wgpu_copy *copy)
{
    nib_wgpu_copy *first = copies_of(copy->tensor);
    if (first == copy) {
        copy->tensor->device_state = copy->next_of_tensor;
        if (!copy->next_of_tensor)
            copy->tensor->device_release = NULL;
        return;
    }
    for (; first; first = first->next_of_tensor) {
        if (first->next_of_tensor == copy)
            first->next_of_tensor = copy->next_of_tensor;
    }
}

/* The device goes first. */
void nib_wgpu_copies_detach(nib_wgpu_device *device)
{
    while (device->copies) {
        nib_wgpu_copy *copy = device->copies;
        device->copies = copy->next;
        unlink_from_tensor(copy);
        free_copy(copy);
    }
}

static void link_copy(nib_wgpu_copy *copy)
{
    nib_wgpu_device *device = copy->device;
    copy->next = device->copies;
    if (device->copies)
        device->copies->previous = copy;
    device->copies = copy;
    copy->next_of_tensor = copies_of(copy->tensor);
    copy->tensor->device_state = copy;
    copy->tensor->device_release = release_copies;
}

/* ---- making ---- */

static nib_status new_copy(nib_wgpu_device *device, nib_tensor *tensor, nib_wgpu_layout layout, nib_wgpu_copy **out,
                           nib_error *error)
{
    size_t bytes, rounded;
    if (!nib_size_mul(tensor->elements, nib_wgpu_layout_bytes(layout, tensor->desc.dtype), &bytes) ||
        !nib_wgpu_round(bytes, &rounded))
        return nib_fail(error, NIB_LIMIT, "the tensor is too large");
    nib_wgpu_copy *copy = nib_allocate(&device->common.context->allocator, 1, sizeof *copy);
    if (!copy)
        return nib_fail_memory(error);
    copy->device = device;
    copy->tensor = tensor;
    copy->layout = layout;
    copy->bytes = bytes;
    copy->rounded_bytes = rounded;
    *out = copy;
    return NIB_OK;
}

nib_status nib_wgpu_copy_adopt(nib_wgpu_device *device, nib_tensor *tensor, nib_wgpu_layout layout, WGPUBuffer buffer,
                               uint64_t offset, bool foreign, nib_wgpu_copy **out, nib_error *error)
{
    nib_wgpu_copy *copy;
    NIB_TRY(new_copy(device, tensor, layout, &copy, error));
    if (foreign)
        wgpuBufferAddRef(buffer);
    copy->buffer = buffer;
    copy->offset = offset;
    copy->foreign = foreign;
    copy->filled = true;
    link_copy(copy);
    *out = copy;
    return NIB_OK;
}

/* Convert the tensor's host memory into a buffer that is mapped at creation, and unmap it: one copy, whatever the size.
 * The rest of the rounded range is zero. */
static nib_status fill_mapped(nib_wgpu_copy *copy, nib_error *error)
{
    const nib_tensor *tensor = copy->tensor;
    unsigned char *mapped = wgpuBufferGetMappedRange(copy->buffer, 0, copy->rounded_bytes);
    if (!mapped)
        return nib_fail(error, NIB_OUT_OF_MEMORY, "the device did not map a buffer of %zu bytes", copy->rounded_bytes);
    NIB_TRY(nib_wgpu_layout_store(copy->layout, tensor->desc.dtype, tensor->data, 0, tensor->elements, mapped, error));
    memset(mapped + copy->bytes, 0, copy->rounded_bytes - copy->bytes);
    wgpuBufferUnmap(copy->buffer);
    copy->filled = true;
    return NIB_OK;
}

/* Why there is nothing to make a copy from. */
static nib_status refuse(const nib_wgpu_device *device, const nib_tensor *tensor, const char *name, nib_error *error)
{
    for (const nib_wgpu_copy *copy = copies_of(tensor); copy; copy = copy->next_of_tensor) {
        if (copy->device == device)
            return nib_fail(error, NIB_REQUEST,
                            "%s: the values are on the device in another layout (packed or widened) than the call takes",
                            name);
    }
    if (copies_of(tensor))
        return nib_fail(error, NIB_REQUEST, "%s: the tensor lives on another device", name);
    return nib_fail(error, NIB_REQUEST, "%s: the tensor has no memory (its device was freed)", name);
}

static bool is_ahead(const nib_wgpu_device *device, const nib_tensor *tensor)
{
    for (const nib_wgpu_copy *copy = copies_of(tensor); copy; copy = copy->next_of_tensor) {
        if (copy->device == device && copy->ahead)
            return true;
    }
    return false;
}

nib_status nib_wgpu_copy_get(nib_wgpu_device *device, nib_tensor *tensor, nib_wgpu_layout layout, const char *name,
                             bool fill, nib_wgpu_copy **out, nib_error *error)
{
    nib_wgpu_copy *copy = nib_wgpu_copy_find(device, tensor, layout);
    *out = copy;
    if (copy && (copy->filled || !fill))
        return NIB_OK;
    if ((!tensor->data && tensor->bytes > 0) || is_ahead(device, tensor))
        return refuse(device, tensor, name, error);
    if (copy)
        return nib_wgpu_copy_write(copy, tensor->data, error);
    NIB_TRY(new_copy(device, tensor, layout, &copy, error));
    nib_status status =
        nib_wgpu_buffer_create(device, name, copy->bytes, TENSOR_USAGE, fill, &copy->buffer, error);
    if (status == NIB_OK && fill)
        status = fill_mapped(copy, error);
    if (status != NIB_OK) {
        free_copy(copy);
        return status;
    }
    link_copy(copy);
    *out = copy;
    return NIB_OK;
}

/* ---- writing and reading ---- */

static unsigned char *bounce_of(nib_wgpu_device *device)
{
    if (!device->bounce)
        device->bounce = nib_allocate(&device->common.context->allocator, NIB_WGPU_BOUNCE_BYTES, 1);
    return device->bounce;
}

/* The same bytes; a last, partial word is padded with zeros. */
static void write_raw(nib_wgpu_copy *copy, const unsigned char *data)
{
    const size_t whole = copy->bytes & ~(size_t)3, rest = copy->bytes - whole;
    if (whole > 0)
        wgpuQueueWriteBuffer(copy->device->queue, copy->buffer, copy->offset, data, whole);
    if (rest > 0) {
        unsigned char last[4] = {0};
        memcpy(last, data + whole, rest);
        wgpuQueueWriteBuffer(copy->device->queue, copy->buffer, copy->offset + whole, last, sizeof last);
    }
}

static nib_status write_converted(nib_wgpu_copy *copy, const unsigned char *data, nib_error *error)
{
    const nib_tensor *tensor = copy->tensor;
    const size_t host_bytes = nib_dtype_bytes(tensor->desc.dtype), block = NIB_WGPU_BOUNCE_BYTES / 4;
    unsigned char *bounce = bounce_of(copy->device);
    if (!bounce)
        return nib_fail_memory(error);
    for (size_t first = 0; first < tensor->elements; first += block) {
        const size_t count = tensor->elements - first < block ? tensor->elements - first : block;
        NIB_TRY(nib_wgpu_layout_store(copy->layout, tensor->desc.dtype, data + first * host_bytes, first, count, bounce,
                                      error));
        wgpuQueueWriteBuffer(copy->device->queue, copy->buffer, copy->offset + first * 4, bounce, count * 4);
    }
    return NIB_OK;
}

nib_status nib_wgpu_copy_write(nib_wgpu_copy *copy, const void *data, nib_error *error)
{
    nib_wgpu_device *device = copy->device;
    nib_status status = NIB_OK;
    nib_wgpu_scope_begin(device);
    if (copy->layout == NIB_WGPU_RAW)
        write_raw(copy, data);
    else
        status = write_converted(copy, data, error);
    const nib_status scope = nib_wgpu_scope_end(device, "writing a tensor", status == NIB_OK ? error : NULL);
    status = status == NIB_OK ? scope : status;
    copy->filled = copy->filled || status == NIB_OK;
    return status;
}

void nib_wgpu_copy_written(nib_wgpu_copy *copy)
{
    for (nib_wgpu_copy *other = copies_of(copy->tensor); other; other = other->next_of_tensor)
        other->filled = other->ahead = false;
    copy->filled = copy->ahead = true;
}

nib_status nib_wgpu_staging_create(nib_wgpu_device *device, size_t bytes, WGPUBuffer *out, nib_error *error)
{
    return nib_wgpu_buffer_create(device, "read-back staging", bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                  false, out, error);
}

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *wait, void *unused)
{
    (void)unused;
    nib_wgpu_wait_answer(wait, (int)status, 0, NULL, message);
}

nib_status nib_wgpu_staging_map(nib_wgpu_device *device, WGPUBuffer staging, size_t bytes, const unsigned char **data,
                                nib_error *error)
{
    nib_wgpu_wait *wait = nib_wgpu_wait_new(&device->sync);
    if (!wait)
        return nib_fail_memory(error);
    const WGPUBufferMapCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_mapped, .userdata1 = wait};
    const WGPUFuture future = wgpuBufferMapAsync(staging, WGPUMapMode_Read, 0, bytes, info);
    nib_status status = nib_wgpu_wait_for(&device->sync, future, wait, "reading back", error);
    if (status == NIB_OK && wait->status != WGPUMapAsyncStatus_Success) {
        status = nib_wgpu_check(device, error);
        if (status == NIB_OK)
            status = nib_fail(error, NIB_DEVICE, "reading back: %s", wait->message);
    }
    nib_wgpu_wait_drop(wait);
    if (status != NIB_OK)
        return status;
    *data = wgpuBufferGetConstMappedRange(staging, 0, bytes);
    return *data ? NIB_OK : nib_fail(error, NIB_DEVICE, "reading back: the buffer is not mapped");
}

static void submit_copy(nib_wgpu_copy *copy, WGPUBuffer staging)
{
    nib_wgpu_device *device = copy->device;
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device->device, NULL);
    wgpuCommandEncoderCopyBufferToBuffer(encoder, copy->buffer, copy->offset, staging, 0, copy->rounded_bytes);
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuQueueSubmit(device->queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(encoder);
}

nib_status nib_wgpu_copy_read(nib_wgpu_copy *copy, void *data, nib_error *error)
{
    nib_wgpu_device *device = copy->device;
    WGPUBuffer staging;
    NIB_TRY(nib_wgpu_staging_create(device, copy->rounded_bytes, &staging, error));
    nib_wgpu_scope_begin(device);
    submit_copy(copy, staging);
    nib_status status = nib_wgpu_scope_end(device, "reading a tensor", error);
    const unsigned char *mapped;
    if (status == NIB_OK)
        status = nib_wgpu_staging_map(device, staging, copy->rounded_bytes, &mapped, error);
    if (status == NIB_OK)
        nib_wgpu_layout_load(copy->layout, copy->tensor->desc.dtype, mapped, copy->tensor->elements, data);
    nib_wgpu_buffer_free(staging);
    return status;
}
