/* SPDX-License-Identifier: Apache-2.0
 *
 * Device tensors as the public interface has them.
 */
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

static nib_status layout_for(const nib_tensor_desc *desc, nib_webgpu_layout layout, nib_wgpu_layout *out,
                             nib_error *error)
{
    if (layout != NIB_WEBGPU_NATURAL && layout != NIB_WEBGPU_PACKED)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "no such layout: %d", (int)layout);
    if (layout == NIB_WEBGPU_PACKED && desc->dtype != NIB_UINT8)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "only uint8 tensors have a packed layout, this one is %s",
                        nib_dtype_name(desc->dtype));
    *out = nib_wgpu_layout_plain(desc->dtype, layout == NIB_WEBGPU_PACKED);
    return NIB_OK;
}

/* A tensor without host memory. */
static nib_status new_tensor(nib_context *context, const nib_tensor_desc *desc, nib_tensor **out, nib_error *error)
{
    size_t elements, bytes;
    *out = NULL;
    NIB_TRY(nib_tensor_desc_elements(desc, &elements, error));
    NIB_TRY(nib_tensor_desc_bytes(desc, &bytes, error));
    nib_tensor *tensor = nib_allocate(&context->allocator, 1, sizeof *tensor);
    if (!tensor)
        return nib_fail_memory(error);
    tensor->context = context;
    tensor->desc = *desc;
    tensor->elements = elements;
    tensor->bytes = bytes;
    *out = tensor;
    return NIB_OK;
}

/* Storage bytes, rounded, within the binding limit. */
static nib_status storage_bytes(const nib_wgpu_device *device, const nib_tensor *tensor, nib_wgpu_layout layout,
                                size_t *out, nib_error *error)
{
    const size_t stride = nib_wgpu_layout_bytes(layout, tensor->desc.dtype);
    char text[NIB_DESC_TEXT_BYTES];
    if (tensor->elements <= SIZE_MAX / 8 && nib_wgpu_round(tensor->elements * stride, out) &&
        *out <= device->max_binding_bytes)
        return NIB_OK;
    nib_tensor_desc_format(&tensor->desc, text, sizeof text);
    return nib_fail(error, NIB_LIMIT, "%s needs %.0f bytes; maxStorageBufferBindingSize of the device is %zu", text,
                    (double)tensor->elements * (double)stride, device->max_binding_bytes);
}

static nib_status adopt_new_buffer(nib_wgpu_device *device, nib_tensor *tensor, nib_wgpu_layout layout,
                                   nib_error *error)
{
    size_t bytes;
    char label[NIB_DESC_TEXT_BYTES];
    WGPUBuffer buffer;
    nib_wgpu_copy *copy;
    nib_tensor_desc_format(&tensor->desc, label, sizeof label);
    NIB_TRY(storage_bytes(device, tensor, layout, &bytes, error));
    NIB_TRY(nib_wgpu_buffer_create(device, label, bytes,
                                   WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, false,
                                   &buffer, error));
    const nib_status status = nib_wgpu_copy_adopt(device, tensor, layout, buffer, 0, false, &copy, error);
    if (status != NIB_OK)
        nib_wgpu_buffer_free(buffer);
    return status;
}

nib_status nib_webgpu_tensor_create(nib_device *common, const nib_tensor_desc *desc, nib_webgpu_layout layout,
                                    nib_tensor **out, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    nib_wgpu_layout form;
    *out = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    NIB_TRY(layout_for(desc, layout, &form, error));
    nib_tensor *tensor;
    NIB_TRY(new_tensor(common->context, desc, &tensor, error));
    const nib_status status = adopt_new_buffer(device, tensor, form, error);
    if (status != NIB_OK) {
        nib_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return NIB_OK;
}

static nib_status check_range(const nib_wgpu_device *device, const nib_tensor *tensor, nib_wgpu_layout layout,
                              WGPUBuffer buffer, uint64_t offset, uint64_t size, nib_error *error)
{
    size_t need;
    const uint64_t whole = wgpuBufferGetSize(buffer);
    NIB_TRY(storage_bytes(device, tensor, layout, &need, error));
    if (!(wgpuBufferGetUsage(buffer) & WGPUBufferUsage_Storage))
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the buffer was created without usage Storage");
    if (offset % device->storage_alignment != 0)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "offset %llu is not a multiple of minStorageBufferOffsetAlignment, %zu",
                        (unsigned long long)offset, device->storage_alignment);
    if (offset > whole || size > whole - offset)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "bytes %llu to %llu lie outside the buffer, which has %llu",
                        (unsigned long long)offset, (unsigned long long)(offset + size), (unsigned long long)whole);
    if (size < need)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the tensor needs %zu bytes (rounded up to 4), the range has %llu",
                        need, (unsigned long long)size);
    return NIB_OK;
}

nib_status nib_webgpu_tensor_wrap(nib_device *common, WGPUBuffer buffer, uint64_t offset, uint64_t size,
                                  const nib_tensor_desc *desc, nib_webgpu_layout layout, nib_tensor **out,
                                  nib_error *error)
{
    nib_wgpu_device *device = NULL;
    nib_wgpu_layout form;
    nib_wgpu_copy *copy;
    *out = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    if (!buffer)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the buffer is NULL");
    NIB_TRY(layout_for(desc, layout, &form, error));
    nib_tensor *tensor;
    NIB_TRY(new_tensor(common->context, desc, &tensor, error));
    nib_status status = check_range(device, tensor, form, buffer, offset, size, error);
    if (status == NIB_OK)
        status = nib_wgpu_copy_adopt(device, tensor, form, buffer, offset, true, &copy, error);
    if (status != NIB_OK) {
        nib_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return NIB_OK;
}

nib_status nib_webgpu_tensor_buffer(nib_device *common, nib_tensor *tensor, nib_webgpu_layout layout,
                                    WGPUBuffer *buffer, uint64_t *offset, uint64_t *size, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    nib_wgpu_layout form;
    nib_wgpu_copy *copy;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    NIB_TRY(layout_for(&tensor->desc, layout, &form, error));
    NIB_TRY(nib_wgpu_copy_get(device, tensor, form, "the tensor", true, &copy, error));
    *buffer = copy->buffer;
    *offset = copy->offset;
    *size = copy->rounded_bytes;
    return NIB_OK;
}

/* ---- writing and reading ---- */

static nib_status check_host_bytes(const nib_tensor *tensor, const void *data, size_t bytes, nib_error *error)
{
    if (!data && !tensor->data && tensor->bytes > 0)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the tensor has no host memory: pass some");
    if (data && bytes != tensor->bytes)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "%zu bytes given, the tensor has %zu in host form", bytes,
                        tensor->bytes);
    return NIB_OK;
}

/* A caller's buffer may lack the usage. Buffers of ours have both. */
static nib_status check_usage(const nib_wgpu_copy *copy, WGPUBufferUsage usage, const char *name, nib_error *error)
{
    if (!copy->foreign || (wgpuBufferGetUsage(copy->buffer) & usage))
        return NIB_OK;
    return nib_fail(error, NIB_INVALID_ARGUMENT, "the buffer was created without usage %s", name);
}

static nib_wgpu_copy *first_on(const nib_wgpu_device *device, const nib_tensor *tensor)
{
    nib_wgpu_copy *copy = tensor->device_state;
    while (copy && copy->device != device)
        copy = copy->next_of_tensor;
    return copy;
}

nib_status nib_webgpu_tensor_write(nib_device *common, nib_tensor *tensor, const void *data, size_t bytes,
                                   nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    NIB_TRY(nib_wgpu_check(device, error));
    NIB_TRY(check_host_bytes(tensor, data, bytes, error));
    nib_wgpu_copy *copy = first_on(device, tensor);
    if (!copy && !tensor->data)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the tensor does not live on this device");
    for (; copy; copy = copy->next_of_tensor) {
        if (copy->device != device)
            continue;
        NIB_TRY(check_usage(copy, WGPUBufferUsage_CopyDst, "CopyDst", error));
        NIB_TRY(nib_wgpu_copy_write(copy, data ? data : tensor->data, error));
        copy->ahead = data != NULL && tensor->data != NULL && data != tensor->data;
    }
    return NIB_OK;
}

/* The copy that holds the values; one without any is as good as the next. */
static nib_wgpu_copy *filled_on(const nib_wgpu_device *device, const nib_tensor *tensor)
{
    for (nib_wgpu_copy *copy = tensor->device_state; copy; copy = copy->next_of_tensor) {
        if (copy->device == device && copy->filled)
            return copy;
    }
    return first_on(device, tensor);
}

nib_status nib_webgpu_tensor_read(nib_device *common, nib_tensor *tensor, void *data, size_t bytes, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    NIB_TRY(nib_wgpu_check(device, error));
    NIB_TRY(check_host_bytes(tensor, data, bytes, error));
    nib_wgpu_copy *copy = filled_on(device, tensor);
    if (!copy)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the tensor does not live on this device");
    NIB_TRY(check_usage(copy, WGPUBufferUsage_CopySrc, "CopySrc", error));
    NIB_TRY(nib_wgpu_copy_read(copy, data ? data : tensor->data, error));
    if (!data || data == tensor->data)
        copy->ahead = false;
    return NIB_OK;
}
