/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/tensor.h"

#include <stdint.h>
#include <string.h>

#include "base/checked.h"

/* Tensor memory and files are little-endian, and nothing here swaps. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian machines are not supported");

enum { ALIGNMENT = 64 };

/* Stands right before the data of a tensor that owns its memory. */
typedef struct owned_block {
    void *start;
    size_t bytes;
} owned_block;

static void release_owned(void *user, void *data)
{
    const nib_context *context = user;
    owned_block block;
    memcpy(&block, (char *)data - sizeof block, sizeof block);
    nib_release(&context->allocator, block.start, block.bytes, 1);
}

/* Zeroed memory with an aligned start. It ends where the data ends, so that a sanitizer sees the
 * first byte beyond. */
static void *allocate_data(nib_context *context, size_t bytes)
{
    owned_block block;
    if (!nib_size_add(bytes, sizeof block + ALIGNMENT - 1, &block.bytes))
        return NULL;
    block.start = nib_allocate(&context->allocator, block.bytes, 1);
    if (!block.start)
        return NULL;
    const uintptr_t first = (uintptr_t)block.start + sizeof block;
    const size_t pad = (size_t)(-first & (ALIGNMENT - 1));
    char *data = (char *)block.start + sizeof block + pad;
    memcpy(data - sizeof block, &block, sizeof block);
    return data;
}

/* A tensor without data, of checked size. */
static nib_status create_empty(nib_context *context, const nib_tensor_desc *desc, nib_tensor **out,
                               nib_error *error)
{
    *out = NULL;
    size_t elements, bytes;
    NIB_TRY(nib_tensor_desc_elements(desc, &elements, error));
    NIB_TRY(nib_tensor_desc_bytes(desc, &bytes, error));
    nib_tensor *tensor = nib_allocate(&context->allocator, 1, sizeof *tensor);
    if (!tensor)
        return nib_fail_memory(error);
    tensor->context = context;
    tensor->desc = *desc;
    for (uint32_t i = desc->rank; i < NIB_MAX_RANK; i++)
        tensor->desc.dims[i] = 0;
    tensor->elements = elements;
    tensor->bytes = bytes;
    *out = tensor;
    return NIB_OK;
}

nib_status nib_tensor_create(nib_context *context, const nib_tensor_desc *desc, nib_tensor **out,
                             nib_error *error)
{
    NIB_TRY(create_empty(context, desc, out, error));
    nib_tensor *tensor = *out;
    tensor->data = allocate_data(context, tensor->bytes);
    if (!tensor->data) {
        nib_tensor_free(tensor);
        *out = NULL;
        return nib_fail_memory(error);
    }
    tensor->release = release_owned;
    tensor->release_user = context;
    return NIB_OK;
}

nib_status nib_tensor_take(nib_context *context, const nib_tensor_desc *desc, void *data,
                           size_t data_bytes, void (*release)(void *user, void *data), void *user,
                           nib_tensor **out, nib_error *error)
{
    size_t bytes;
    *out = NULL;
    NIB_TRY(nib_tensor_desc_bytes(desc, &bytes, error));
    if (data_bytes < bytes || (bytes && !data)) {
        char text[NIB_DESC_TEXT_BYTES];
        nib_tensor_desc_format(desc, text, sizeof text);
        return nib_fail(error, NIB_INVALID_ARGUMENT, "%s needs %zu bytes, the memory given has %zu",
                        text, bytes, data ? data_bytes : 0);
    }
    NIB_TRY(create_empty(context, desc, out, error));
    (*out)->data = data;
    (*out)->release = release;
    (*out)->release_user = user;
    return NIB_OK;
}

nib_status nib_tensor_borrow(nib_context *context, const nib_tensor_desc *desc, void *data,
                             size_t data_bytes, nib_tensor **out, nib_error *error)
{
    return nib_tensor_take(context, desc, data, data_bytes, NULL, NULL, out, error);
}

void nib_tensor_free(nib_tensor *tensor)
{
    if (!tensor)
        return;
    if (tensor->device_release)
        tensor->device_release(tensor);
    if (tensor->release)
        tensor->release(tensor->release_user, tensor->data);
    nib_release(&tensor->context->allocator, tensor, 1, sizeof *tensor);
}

const nib_tensor_desc *nib_tensor_describe(const nib_tensor *tensor)
{
    return &tensor->desc;
}

void *nib_tensor_data(nib_tensor *tensor)
{
    return tensor->data;
}

size_t nib_tensor_bytes(const nib_tensor *tensor)
{
    return tensor->bytes;
}

void nib_tensor_set_constant(nib_tensor *tensor, bool constant)
{
    tensor->constant = constant;
}
