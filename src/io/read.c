/* SPDX-License-Identifier: Apache-2.0
 *
 * From records to tensors: borrow the file's bytes when they are what is asked for, convert them
 * otherwise.
 */
#include <string.h>

#include "io/records.h"
#include "tensor/half.h"

/* ---- npy: byte order and axis order ---- */

static void swap_elements(uint8_t *data, size_t bytes, size_t width)
{
    for (size_t at = 0; at + width <= bytes; at += width) {
        for (size_t i = 0; i < width / 2; i++) {
            const uint8_t low = data[at + i];
            data[at + i] = data[at + width - 1 - i];
            data[at + width - 1 - i] = low;
        }
    }
}

/* Copy from first-dim-fastest to last-dim-fastest order. The index runs over the target; the offset
 * in the source follows it like an odometer. */
static void transpose_fortran(const nib_tensor *from, nib_tensor *to)
{
    const nib_tensor_desc *desc = &to->desc;
    const size_t width = nib_dtype_bytes(desc->dtype);
    size_t strides[NIB_MAX_RANK], index[NIB_MAX_RANK] = {0}, stride = 1, source = 0;
    for (uint32_t d = 0; d < desc->rank; d++) {
        strides[d] = stride;
        stride *= (size_t)desc->dims[d];
    }
    for (size_t i = 0; i < to->elements; i++) {
        memcpy((char *)to->data + i * width, (const char *)from->data + source * width, width);
        for (uint32_t d = desc->rank; d-- > 0;) {
            source += strides[d];
            if (++index[d] < (size_t)desc->dims[d])
                break;
            source -= strides[d] * index[d];
            index[d] = 0;
        }
    }
}

static nib_status reorder(nib_file *file, nib_tensor **tensor, nib_error *error)
{
    nib_tensor *from = *tensor;
    nib_status status = nib_tensor_create(file->context, &from->desc, tensor, error);
    if (status == NIB_OK)
        transpose_fortran(from, *tensor);
    nib_tensor_free(from);
    return status;
}

/* ---- conversion ---- */

static bool is_aligned(const nib_file *file, const nib_record *record)
{
    return (uintptr_t)(file->data + record->offset) % nib_dtype_bytes(record->desc.dtype) == 0;
}

static bool can_borrow(const nib_file *file, const nib_record *record)
{
    return !file->archive && !record->decode && !record->swap && !record->fortran &&
           record->bytes > 0 && is_aligned(file, record);
}

static nib_status borrow(nib_file *file, const nib_record *record, nib_tensor **out,
                         nib_error *error)
{
    uint8_t *data = (uint8_t *)(uintptr_t)file->data + record->offset; /* private pages */
    return nib_tensor_borrow(file->context, &record->desc, data, record->bytes, out, error);
}

/* The stored bytes in memory of their own, in this machine's byte order. */
static nib_status load(const nib_file *file, const nib_record *record, uint8_t *to,
                       nib_error *error)
{
    if (file->archive)
        NIB_TRY(nib_npz_read(file, record, to, error));
    else if (record->bytes)
        memcpy(to, file->data + record->offset, record->bytes);
    if (record->swap)
        swap_elements(to, record->bytes, record->swap);
    return NIB_OK;
}

static nib_status decode(const nib_file *file, const nib_record *record, nib_tensor *to,
                         nib_error *error)
{
    if (!record->decode)
        return load(file, record, to->data, error);
    if (!file->archive && !record->swap) {
        record->decode(file->data + record->offset, to->elements, to->data);
        return NIB_OK;
    }
    if (record->bytes == 0)
        return NIB_OK;
    const nib_allocator *allocator = &file->context->allocator;
    uint8_t *bytes = nib_allocate(allocator, record->bytes, 1);
    if (!bytes)
        return nib_fail_memory(error);
    const nib_status status = load(file, record, bytes, error);
    if (status == NIB_OK)
        record->decode(bytes, to->elements, to->data);
    nib_release(allocator, bytes, record->bytes, 1);
    return status;
}

static nib_status read_record(nib_file *file, const nib_record *record, nib_tensor **out,
                              nib_error *error)
{
    if (record->desc.dtype == NIB_DTYPE_NONE)
        return nib_fail_tensor(error, NIB_UNSUPPORTED, record->name,
                               "the encoding %s cannot be read", record->stored);
    if (can_borrow(file, record))
        return borrow(file, record, out, error);
    NIB_TRY(nib_tensor_create(file->context, &record->desc, out, error));
    nib_status status = decode(file, record, *out, error);
    if (status == NIB_OK && record->fortran && record->desc.rank > 1)
        return reorder(file, out, error);
    if (status != NIB_OK) {
        nib_tensor_free(*out);
        *out = NULL;
    }
    return status;
}

nib_status nib_file_read(nib_file *file, size_t index, nib_tensor **out, nib_error *error)
{
    *out = NULL;
    if (index >= file->count)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the file has %zu tensors, no number %zu",
                        file->count, index);
    const nib_status status = read_record(file, &file->records[index], out, error);
    if (status == NIB_OK)
        nib_tensor_set_constant(*out, true);
    else
        nib_error_source(error, file->path);
    return status;
}

/* ---- Q4_0 as nbits ---- */

/* A Q4_0 block keeps elements 0..15 in the low nibbles and 16..31 in the high ones; nbits keeps
 * neighbours together. Both have a zero of 8, so codes and scales carry over unchanged. */
static void repack_q4_0(const uint8_t *from, size_t blocks, uint8_t *packed, uint8_t *scales)
{
    for (size_t block = 0; block < blocks; block++, from += 18, packed += 16) {
        memcpy(scales + block * 2, from, 2);
        for (unsigned i = 0; i < 16; i++) {
            const unsigned first = 2 * i % 16, shift = i < 8 ? 0 : 4;
            const unsigned low = from[2 + first] >> shift & 15u;
            const unsigned high = from[2 + first + 1] >> shift & 15u;
            packed[i] = (uint8_t)(low | high << 4);
        }
    }
}

static nib_status read_nbits(nib_file *file, const nib_record *record, nib_tensor **packed,
                             nib_tensor **scales, nib_error *error)
{
    if (!record->q4_0 || record->desc.rank != 2)
        return nib_fail_tensor(error, NIB_UNSUPPORTED, record->name,
                               "only a Q4_0 matrix has nbits weights inside, this is %s of rank %u",
                               record->stored, record->desc.rank);
    const int64_t n = record->desc.dims[0], blocks = record->desc.dims[1] / 32;
    const nib_tensor_desc packed_desc = {NIB_UINT8, 3, {n, blocks, 16}};
    const nib_tensor_desc scales_desc = {NIB_FLOAT16, 2, {n, blocks}};
    NIB_TRY(nib_tensor_create(file->context, &packed_desc, packed, error));
    const nib_status status = nib_tensor_create(file->context, &scales_desc, scales, error);
    if (status != NIB_OK) {
        nib_tensor_free(*packed);
        *packed = NULL;
        return status;
    }
    repack_q4_0(file->data + record->offset, (size_t)(n * blocks), (*packed)->data,
                (*scales)->data);
    return NIB_OK;
}

nib_status nib_file_read_nbits(nib_file *file, size_t index, nib_tensor **packed,
                               nib_tensor **scales, nib_error *error)
{
    *packed = *scales = NULL;
    if (index >= file->count)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the file has %zu tensors, no number %zu",
                        file->count, index);
    const nib_status status = read_nbits(file, &file->records[index], packed, scales, error);
    if (status != NIB_OK) {
        nib_error_source(error, file->path);
        return status;
    }
    nib_tensor_set_constant(*packed, true);
    nib_tensor_set_constant(*scales, true);
    return NIB_OK;
}
