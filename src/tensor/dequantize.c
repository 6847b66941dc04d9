/* SPDX-License-Identifier: Apache-2.0
 *
 * The block formats of blocks.h back to float32, one element at a time: the numeric truth for
 * faster decoders.
 */
#include <inttypes.h>
#include <string.h>

#include "nibble/quant.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

static nib_status fail_desc(nib_error *error, const char *what, const nib_tensor_desc *desc,
                            const char *rule)
{
    char text[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(desc, text, sizeof text);
    return nib_fail(error, NIB_INVALID_ARGUMENT, "%s is %s: it must be %s", what, text, rule);
}

static nib_status check_packed(nib_tensor *packed, nib_error *error)
{
    if (packed->desc.dtype != NIB_UINT8 || !packed->data)
        return fail_desc(error, "packed", &packed->desc, "uint8, in host memory");
    return NIB_OK;
}

static nib_status check_scales(nib_tensor *scales, const char *what, nib_error *error)
{
    const nib_dtype dtype = scales->desc.dtype;
    if ((dtype != NIB_FLOAT32 && dtype != NIB_FLOAT16) || !scales->data)
        return fail_desc(error, what, &scales->desc, "float32 or float16, in host memory");
    return NIB_OK;
}

static float read_scale(const nib_tensor *scales, size_t index)
{
    if (scales->desc.dtype == NIB_FLOAT16) {
        uint16_t half;
        memcpy(&half, (const char *)scales->data + index * sizeof half, sizeof half);
        return nib_half_widen(half);
    }
    float scale;
    memcpy(&scale, (const char *)scales->data + index * sizeof scale, sizeof scale);
    return scale;
}

/* ---- nbits ---- */

typedef struct nbits_shape {
    size_t n, blocks, blob_bytes, block_size;
} nbits_shape;

static nib_status check_nbits(nib_tensor *packed, nib_tensor *scales, int bits, int64_t k,
                              nbits_shape *shape, nib_error *error)
{
    if (!nib_nbits_is_width(bits))
        return nib_fail(error, NIB_INVALID_ARGUMENT, "bits is %d: it must be 2, 4 or 8", bits);
    NIB_TRY(check_packed(packed, error));
    NIB_TRY(check_scales(scales, "scales", error));
    if (packed->desc.rank != 3)
        return fail_desc(error, "packed", &packed->desc, "uint8 [N, blocks, blob]");
    shape->n = (size_t)packed->desc.dims[0];
    shape->blocks = (size_t)packed->desc.dims[1];
    shape->blob_bytes = (size_t)packed->desc.dims[2];
    shape->block_size = shape->blob_bytes / (size_t)bits * 8;
    const size_t block_size = shape->block_size;
    if (shape->blob_bytes % (size_t)bits || block_size < 16 || (block_size & (block_size - 1)))
        return fail_desc(error, "packed", &packed->desc,
                         "such that blob * 8 / bits is a power of two, at least 16");
    if (k < 0 || nib_nbits_block_count((size_t)k, block_size) != shape->blocks)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "K = %" PRId64 " needs ceil(K / %zu) blocks, packed has %zu", k, block_size,
                        shape->blocks);
    if (scales->elements !=
        shape->n * shape->blocks) /* [N, blocks], or flat as old exporters wrote them */
        return fail_desc(error, "scales", &scales->desc, "[N, blocks] as packed");
    return NIB_OK;
}

nib_status nib_nbits_dequantize(nib_context *context, nib_tensor *packed, nib_tensor *scales,
                                int bits, int64_t K, nib_tensor **weight, nib_error *error)
{
    *weight = NULL;
    nbits_shape shape = {0};
    NIB_TRY(check_nbits(packed, scales, bits, K, &shape, error));
    const nib_tensor_desc desc = {NIB_FLOAT32, 2, {(int64_t)shape.n, K}};
    NIB_TRY(nib_tensor_create(context, &desc, weight, error));
    float *out = (*weight)->data;
    for (size_t row = 0; row < shape.n; row++) {
        for (size_t k = 0; k < (size_t)K; k++) {
            const size_t block = row * shape.blocks + k / shape.block_size;
            const uint8_t *blob = (const uint8_t *)packed->data + block * shape.blob_bytes;
            *out++ = nib_nbits_value(blob, bits, k % shape.block_size, read_scale(scales, block));
        }
    }
    return NIB_OK;
}

/* ---- bnb4 ---- */

nib_status nib_bnb4_dequantize(nib_context *context, nib_tensor *packed, nib_tensor *absmax,
                               int quant_type, int64_t block_size, int64_t N, int64_t K,
                               nib_tensor **weight, nib_error *error)
{
    *weight = NULL;
    const float *codebook = nib_bnb4_codebook(quant_type);
    if (!codebook)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "quant_type is %d: it must be 0 (FP4) or 1 (NF4)", quant_type);
    if (block_size < 16 || (block_size & (block_size - 1)))
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "block_size is %" PRId64 ": it must be a power of two, at least 16",
                        block_size);
    NIB_TRY(check_packed(packed, error));
    NIB_TRY(check_scales(absmax, "absmax", error));
    const nib_tensor_desc desc = {NIB_FLOAT32, 2, {N, K}};
    size_t elements;
    NIB_TRY(nib_tensor_desc_elements(&desc, &elements, error));
    const size_t packed_bytes = nib_bnb4_packed_bytes(elements);
    const size_t blocks = nib_bnb4_block_count(elements, (size_t)block_size);
    if (packed->elements != packed_bytes)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "packed has %zu bytes: N * K = %zu weights take ceil(N * K / 2) = %zu",
                        packed->elements, elements, packed_bytes);
    if (absmax->elements != blocks)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "absmax has %zu values: N * K = %zu weights take %zu blocks of %" PRId64,
                        absmax->elements, elements, blocks, block_size);
    NIB_TRY(nib_tensor_create(context, &desc, weight, error));
    float *out = (*weight)->data;
    for (size_t i = 0; i < elements; i++)
        out[i] =
            codebook[nib_bnb4_code(packed->data, i)] * read_scale(absmax, i / (size_t)block_size);
    return NIB_OK;
}
