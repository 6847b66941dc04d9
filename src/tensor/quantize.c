/* SPDX-License-Identifier: Apache-2.0
 *
 * Float matrices to the block formats of blocks.h. Scales are rounded to the dtype they are stored
 * in before codes are chosen, so that every code is the nearest one for the scale a kernel will
 * read.
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "nibble/quant.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

/* Larger blocks are legal in the operators, but one partial block is as large as a full one. */
enum { MIN_BLOCK = 16, MAX_BLOCK = 1 << 20 };

typedef struct quantizer {
    nib_context *context;
    const void *weight;
    nib_dtype weight_dtype, scale_dtype;
    size_t n, k, block_size;
    float *block; /* block_size values of the weight, widened */
    uint8_t *packed;
    void *scales;
    double max_abs, error_squares, weight_squares;
    nib_error *error;
} quantizer;

/* ---- common steps ---- */

static nib_status check_weight(quantizer *q, nib_tensor *weight, int64_t block_size,
                               nib_dtype scale_dtype)
{
    const nib_tensor_desc *desc = nib_tensor_describe(weight);
    if (desc->rank != 2 || (desc->dtype != NIB_FLOAT32 && desc->dtype != NIB_FLOAT16)) {
        char text[NIB_DESC_TEXT_BYTES];
        nib_tensor_desc_format(desc, text, sizeof text);
        return nib_fail(q->error, NIB_INVALID_ARGUMENT,
                        "the weight is %s: it must be float32 or float16 [N,K]", text);
    }
    if (!nib_tensor_data(weight))
        return nib_fail(q->error, NIB_INVALID_ARGUMENT, "the weight is not in host memory");
    if (block_size < MIN_BLOCK || block_size > MAX_BLOCK || (block_size & (block_size - 1)))
        return nib_fail(q->error, NIB_INVALID_ARGUMENT,
                        "block_size is %lld: it must be a power of two from %d to %d",
                        (long long)block_size, MIN_BLOCK, MAX_BLOCK);
    if (scale_dtype != NIB_FLOAT32 && scale_dtype != NIB_FLOAT16)
        return nib_fail(q->error, NIB_INVALID_ARGUMENT, "scales cannot be %s: float32 or float16",
                        nib_dtype_name(scale_dtype));
    q->weight = nib_tensor_data(weight);
    q->weight_dtype = desc->dtype;
    q->scale_dtype = scale_dtype;
    q->n = (size_t)desc->dims[0];
    q->k = (size_t)desc->dims[1];
    q->block_size = (size_t)block_size;
    return NIB_OK;
}

/* Read `count` weights from flat index `first` into q->block; they must be finite. */
static nib_status load_block(quantizer *q, size_t first, size_t count)
{
    if (q->weight_dtype == NIB_FLOAT32) {
        memcpy(q->block, (const char *)q->weight + first * sizeof(float), count * sizeof(float));
    } else {
        const char *halves = (const char *)q->weight + first * sizeof(uint16_t);
        for (size_t i = 0; i < count; i++) {
            uint16_t half;
            memcpy(&half, halves + i * sizeof half, sizeof half);
            q->block[i] = nib_half_widen(half);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(q->block[i]))
            return nib_fail(q->error, NIB_INVALID_ARGUMENT, "weight[%zu,%zu] is not finite",
                            (first + i) / q->k, (first + i) % q->k);
    }
    return NIB_OK;
}

static float round_scale(const quantizer *q, double scale)
{
    return q->scale_dtype == NIB_FLOAT16 ? nib_half_widen(nib_half_narrow((float)scale))
                                         : (float)scale;
}

static void store_scale(const quantizer *q, size_t index, float scale)
{
    if (q->scale_dtype == NIB_FLOAT16)
        ((uint16_t *)q->scales)[index] = nib_half_narrow(scale);
    else
        ((float *)q->scales)[index] = scale;
}

static nib_status fail_scale(const quantizer *q, size_t first)
{
    return nib_fail(q->error, NIB_INVALID_ARGUMENT,
                    "the block that starts at weight[%zu,%zu] needs a scale beyond %s",
                    first / q->k, first % q->k, nib_dtype_name(q->scale_dtype));
}

static void count_loss(quantizer *q, double weight, double quantized)
{
    const double error = fabs(weight - quantized);
    if (error > q->max_abs)
        q->max_abs = error;
    q->error_squares += error * error;
    q->weight_squares += weight * weight;
}

static void report_loss(const quantizer *q, nib_quant_error *loss)
{
    if (!loss)
        return;
    const double elements = (double)q->n * (double)q->k;
    loss->max_abs = q->max_abs;
    loss->rms = elements > 0 ? sqrt(q->error_squares / elements) : 0;
    loss->relative = q->weight_squares > 0 ? sqrt(q->error_squares / q->weight_squares) : 0;
}

/* Make both results and the scratch block, run `fill`, and clean up after a failure. */
static nib_status quantize_into(quantizer *q, const nib_tensor_desc *packed_desc,
                                const nib_tensor_desc *scales_desc,
                                nib_status (*fill)(quantizer *q, int format), int format,
                                nib_tensor **packed, nib_tensor **scales)
{
    nib_status status = nib_tensor_create(q->context, packed_desc, packed, q->error);
    if (status == NIB_OK)
        status = nib_tensor_create(q->context, scales_desc, scales, q->error);
    if (status == NIB_OK) {
        q->block = nib_allocate(&q->context->allocator, q->block_size, sizeof(float));
        status = q->block ? NIB_OK : nib_fail_memory(q->error);
    }
    if (status == NIB_OK) {
        q->packed = nib_tensor_data(*packed);
        q->scales = nib_tensor_data(*scales);
        status = fill(q, format);
    }
    nib_release(&q->context->allocator, q->block, q->block_size, sizeof(float));
    if (status != NIB_OK) {
        nib_tensor_free(*packed);
        nib_tensor_free(*scales);
        *packed = *scales = NULL;
    }
    return status;
}

/* ---- nbits ---- */

/* How well a scale serves a block. */
typedef struct fit {
    float scale;
    double error; /* sum of squares */
    double x_level,
        level_2; /* sums of x * level and level^2, for the least-squares scale of these levels */
} fit;

/* The level in [-middle, middle - 1] nearest to x / scale. */
static double nearest_level(double x, double inverse_scale, double middle)
{
    double level = x * inverse_scale;
    if (level < -middle)
        level = -middle;
    if (level > middle - 1)
        level = middle - 1;
    return (level + 0x1.8p52) - 0x1.8p52; /* round to nearest even, without a call */
}

static fit try_scale(const float *block, size_t count, float scale, double middle)
{
    fit result = {.scale = scale};
    const double inverse = scale != 0 ? 1 / (double)scale : 0;
    for (size_t i = 0; i < count; i++) {
        const double x = (double)block[i];
        const double level = nearest_level(x, inverse, middle);
        const double error = x - level * (double)scale;
        result.error += error * error;
        result.x_level += x * level;
        result.level_2 += level * level;
    }
    return result;
}

static float largest_by_magnitude(const float *block, size_t count)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (fabsf(block[i]) > fabsf(largest))
            largest = block[i];
    }
    return largest;
}

/* The first candidate maps the largest magnitude to the lowest level, the one that has no positive
 * twin, as Q4_0 does. The others move it by half a level or give the scale the other sign; then one
 * least-squares step from the best. */
static fit find_scale(const quantizer *q, size_t count, double middle)
{
    const double largest = (double)largest_by_magnitude(q->block, count);
    const double divisors[] = {-middle, -middle + 0.5, -middle - 0.5, -middle - 1, middle - 0.5};
    fit best = try_scale(q->block, count, round_scale(q, largest / divisors[0]), middle);
    for (size_t i = 1; i < sizeof divisors / sizeof divisors[0] && best.error > 0; i++) {
        const float scale = round_scale(q, largest / divisors[i]);
        const fit next = try_scale(q->block, count, scale, middle);
        if (next.error < best.error)
            best = next;
    }
    if (best.error > 0 && best.level_2 > 0) {
        const float scale = round_scale(q, best.x_level / best.level_2);
        const fit next = try_scale(q->block, count, scale, middle);
        if (next.error < best.error)
            best = next;
    }
    return best;
}

static void write_codes(quantizer *q, uint8_t *blob, int bits, size_t count, float scale)
{
    const int middle = nib_nbits_middle(bits);
    const double inverse = scale != 0 ? 1 / (double)scale : 0;
    for (size_t i = 0; i < count; i++) {
        const double x = (double)q->block[i];
        const double level = nearest_level(x, inverse, middle);
        nib_nbits_put_code(blob, bits, i, (unsigned)((int)level + middle));
        count_loss(q, x, level * (double)scale);
    }
    for (size_t i = count; i < q->block_size; i++) /* padding reads as zero */
        nib_nbits_put_code(blob, bits, i, (unsigned)middle);
}

static nib_status fill_nbits(quantizer *q, int bits)
{
    const size_t blocks = nib_nbits_block_count(q->k, q->block_size);
    const size_t blob_bytes = nib_nbits_blob_bytes(bits, q->block_size);
    for (size_t i = 0; i < q->n * blocks; i++) {
        const size_t start = i % blocks * q->block_size;
        const size_t count = q->k - start < q->block_size ? q->k - start : q->block_size;
        const size_t first = i / blocks * q->k + start;
        NIB_TRY(load_block(q, first, count));
        const fit best = find_scale(q, count, nib_nbits_middle(bits));
        if (!isfinite(best.scale))
            return fail_scale(q, first);
        store_scale(q, i, best.scale);
        write_codes(q, q->packed + i * blob_bytes, bits, count, best.scale);
    }
    return NIB_OK;
}

nib_status nib_nbits_quantize(nib_context *context, nib_tensor *weight, int bits,
                              int64_t block_size, nib_dtype scale_dtype, nib_tensor **packed,
                              nib_tensor **scales, nib_quant_error *loss, nib_error *error)
{
    *packed = *scales = NULL;
    quantizer q = {.context = context, .error = error};
    NIB_TRY(check_weight(&q, weight, block_size, scale_dtype));
    if (!nib_nbits_is_width(bits))
        return nib_fail(error, NIB_INVALID_ARGUMENT, "bits is %d: it must be 2, 4 or 8", bits);
    const int64_t blocks = (int64_t)nib_nbits_block_count(q.k, q.block_size);
    const int64_t blob = (int64_t)nib_nbits_blob_bytes(bits, q.block_size);
    const nib_tensor_desc packed_desc = {NIB_UINT8, 3, {(int64_t)q.n, blocks, blob}};
    const nib_tensor_desc scales_desc = {scale_dtype, 2, {(int64_t)q.n, blocks}};
    NIB_TRY(quantize_into(&q, &packed_desc, &scales_desc, fill_nbits, bits, packed, scales));
    report_loss(&q, loss);
    return NIB_OK;
}

/* ---- bnb4 ---- */

/* A codebook in ascending order, and the borders half-way between neighbours. */
typedef struct sorted_codebook {
    unsigned codes[16];
    double values[16], borders[15];
    unsigned zero_code;
    size_t count;
} sorted_codebook;

static void sort_codebook(const float *codebook, sorted_codebook *out)
{
    for (unsigned code = 0; code < 16; code++) {
        const double value = (double)codebook[code];
        if (code > 0 && value == 0 && signbit(codebook[code])) /* FP4's -0 is never produced */
            continue;
        if (value == 0)
            out->zero_code = code;
        size_t at = out->count++;
        for (; at > 0 && out->values[at - 1] > value; at--) {
            out->values[at] = out->values[at - 1];
            out->codes[at] = out->codes[at - 1];
        }
        out->values[at] = value;
        out->codes[at] = code;
    }
    for (size_t i = 0; i + 1 < out->count; i++)
        out->borders[i] = (out->values[i] + out->values[i + 1]) / 2;
}

/* Position of the value nearest to x; on a border, the lower one (as bitsandbytes). */
static size_t find_nearest(const sorted_codebook *book, double x)
{
    size_t at = 0;
    for (size_t i = 0; i + 1 < book->count; i++)
        at += x > book->borders[i];
    return at;
}

static nib_status fill_bnb4(quantizer *q, int quant_type)
{
    sorted_codebook book = {0};
    sort_codebook(nib_bnb4_codebook(quant_type), &book);
    const size_t elements = q->n * q->k;
    for (size_t first = 0, block = 0; first < elements; first += q->block_size, block++) {
        const size_t left = elements - first;
        const size_t count = left < q->block_size ? left : q->block_size;
        NIB_TRY(load_block(q, first, count));
        const double largest = fabs((double)largest_by_magnitude(q->block, count));
        const float absmax = round_scale(q, largest);
        if (!isfinite(absmax))
            return fail_scale(q, first);
        store_scale(q, block, absmax);
        for (size_t i = 0; i < count; i++) {
            const double x = (double)q->block[i];
            const size_t at = find_nearest(&book, absmax != 0 ? x / (double)absmax : 0);
            nib_bnb4_put_code(q->packed, first + i, book.codes[at]);
            count_loss(q, x, book.values[at] * (double)absmax);
        }
    }
    if (elements % 2)
        nib_bnb4_put_code(q->packed, elements, book.zero_code);
    return NIB_OK;
}

nib_status nib_bnb4_quantize(nib_context *context, nib_tensor *weight, int quant_type,
                             int64_t block_size, nib_dtype absmax_dtype, nib_tensor **packed,
                             nib_tensor **absmax, nib_quant_error *loss, nib_error *error)
{
    *packed = *absmax = NULL;
    quantizer q = {.context = context, .error = error};
    NIB_TRY(check_weight(&q, weight, block_size, absmax_dtype));
    if (!nib_bnb4_codebook(quant_type))
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "quant_type is %d: it must be 0 (FP4) or 1 (NF4)", quant_type);
    const size_t elements = q.n * q.k;
    const nib_tensor_desc packed_desc = {NIB_UINT8, 1, {(int64_t)nib_bnb4_packed_bytes(elements)}};
    const nib_tensor_desc absmax_desc = {
        absmax_dtype, 1, {(int64_t)nib_bnb4_block_count(elements, q.block_size)}};
    NIB_TRY(quantize_into(&q, &packed_desc, &absmax_desc, fill_bnb4, quant_type, packed, absmax));
    report_loss(&q, loss);
    return NIB_OK;
}
