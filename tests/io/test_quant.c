/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "nibble/quant.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

static nib_tensor *make_weight(void **state, nib_dtype dtype, int64_t n, int64_t k, double spread,
                               uint64_t seed)
{
    const nib_tensor_desc desc = {dtype, 2, {n, k}};
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(nib_tensor_create(context_of(state), &desc, &tensor, &error), &error);
    noise source = {seed};
    for (size_t i = 0; i < tensor->elements; i++) {
        const float value = (float)(next_normal(&source) * spread);
        if (dtype == NIB_FLOAT32)
            ((float *)tensor->data)[i] = value;
        else
            ((uint16_t *)tensor->data)[i] = nib_half_from_float(value);
    }
    return tensor;
}

static double weight_at(const nib_tensor *weight, size_t i)
{
    if (weight->desc.dtype == NIB_FLOAT32)
        return (double)((const float *)weight->data)[i];
    return (double)nib_half_to_float(((const uint16_t *)weight->data)[i]);
}

static double scale_at(const nib_tensor *scales, size_t i)
{
    return weight_at(scales, i);
}

/* The codebooks, from the two definitions rather than from the table under test. */
static void codebooks_are_the_published_ones(void **state)
{
    (void)state;
    static const double twelfths[8] = {0, 0.0625, 8, 12, 4, 6, 2, 3};
    const float *fp4 = nib_bnb4_codebook(0);
    for (unsigned i = 0; i < 16; i++) {
        /* The published decimals have eight significant digits; they are the nearest floats of the
         * fractions. */
        const float expected = (float)(twelfths[i & 7] / 12);
        assert_true(fabsf(fp4[i]) == expected || fabs((double)(fabsf(fp4[i]) - expected)) < 1e-8);
        assert_int_equal(signbit(fp4[i]) != 0, i >> 3);
    }
    static const uint32_t fp4_bits[8] = {0x00000000, 0x3baaaaab, 0x3f2aaaab, 0x3f800000,
                                         0x3eaaaaab, 0x3f000000, 0x3e2aaaab, 0x3e800000};
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(nib_bits_of_float(fp4[i]), fp4_bits[i]);
    static const uint32_t nf4_bits[16] = {0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0,
                                          0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0x00000000,
                                          0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a,
                                          0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000};
    const float *nf4 = nib_bnb4_codebook(1);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(nib_bits_of_float(nf4[i]), nf4_bits[i]);
    assert_null(nib_bnb4_codebook(2));
    assert_null(nib_bnb4_codebook(-1));
}

static void codes_are_packed_low_bits_first(void **state)
{
    (void)state;
    const uint8_t blob[2] = {0xe4, 0x1b}; /* 11 10 01 00, 00 01 10 11 */
    static const unsigned two[8] = {0, 1, 2, 3, 3, 2, 1, 0};
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(nib_nbits_code(blob, 2, i), two[i]);
    assert_int_equal(nib_nbits_code(blob, 4, 0), 0x4);
    assert_int_equal(nib_nbits_code(blob, 4, 1), 0xe);
    assert_int_equal(nib_nbits_code(blob, 8, 1), 0x1b);
    assert_true(nib_nbits_value(blob, 4, 0, 0.5f) == -2.0f);
    assert_int_equal(nib_bnb4_code(blob, 0), 0xe); /* bnb4: the even index in the high nibble */
    assert_int_equal(nib_bnb4_code(blob, 1), 0x4);
    assert_int_equal(nib_bnb4_code(blob, 3), 0xb);
}

/* Every code is the nearest one for the stored scale, every pad code is the middle, and the loss is
 * what it says. */
static void check_nbits(void **state, nib_tensor *weight, int bits, int64_t block_size,
                        nib_dtype scale_dtype)
{
    nib_tensor *packed, *scales, *back;
    nib_quant_error loss;
    nib_error error = {0};
    assert_ok(nib_nbits_quantize(context_of(state), weight, bits, block_size, scale_dtype, &packed,
                                 &scales, &loss, &error),
              &error);
    const size_t n = (size_t)weight->desc.dims[0], k = (size_t)weight->desc.dims[1];
    const size_t block = (size_t)block_size, blocks = (k + block - 1) / block;
    const size_t blob = block * (size_t)bits / 8;
    char text[NIB_DESC_TEXT_BYTES], expected[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(&packed->desc, text, sizeof text);
    snprintf(expected, sizeof expected, "uint8[%zu,%zu,%zu]", n, blocks, blob);
    assert_string_equal(text, expected);
    nib_tensor_desc_format(&scales->desc, text, sizeof text);
    snprintf(expected, sizeof expected, "%s[%zu,%zu]", nib_dtype_name(scale_dtype), n, blocks);
    assert_string_equal(text, expected);
    assert_ok(
        nib_nbits_dequantize(context_of(state), packed, scales, bits, (int64_t)k, &back, &error),
        &error);

    const int middle = 1 << (bits - 1);
    double max_abs = 0, squares = 0, all = 0;
    for (size_t row = 0; row < n; row++) {
        for (size_t i = 0; i < blocks * block; i++) {
            const size_t at = row * blocks + i / block;
            const uint8_t *bytes_at = (const uint8_t *)packed->data + at * blob;
            const unsigned shift = (unsigned)(i % block * (size_t)bits % 8);
            const int code = bytes_at[i % block * (size_t)bits / 8] >> shift & ((1 << bits) - 1);
            if (i >= k) {
                assert_int_equal(code, middle);
                continue;
            }
            const double scale = scale_at(scales, at), w = weight_at(weight, row * k + i);
            const double mine = fabs(w - (code - middle) * scale);
            for (int other = 0; other < 1 << bits; other++)
                assert_true(mine <= fabs(w - (other - middle) * scale) * (1 + 1e-12) + 1e-300);
            assert_true(((const float *)back->data)[row * k + i] ==
                        (float)(code - middle) * (float)scale);
            max_abs = fmax(max_abs, mine);
            squares += mine * mine;
            all += w * w;
        }
    }
    assert_true(fabs(loss.max_abs - max_abs) <= 1e-12 * max_abs);
    assert_true(fabs(loss.rms - sqrt(squares / (double)(n * k))) <= 1e-9 * loss.rms);
    assert_true(fabs(loss.relative - sqrt(squares / all)) <= 1e-9 * loss.relative);
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(back);
}

static void nbits_codes_are_the_nearest(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 16}, {2, 33}, {5, 100}, {1, 257}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int bits = 2; bits <= 8; bits *= 2) {
            for (int64_t block = 16; block <= 256; block *= 4) {
                nib_tensor *weight = make_weight(state, bits == 4 ? NIB_FLOAT16 : NIB_FLOAT32,
                                                 shapes[s][0], shapes[s][1], 0.3, 7 + s);
                check_nbits(state, weight, bits, block, NIB_FLOAT32);
                check_nbits(state, weight, bits, block, NIB_FLOAT16);
                nib_tensor_free(weight);
            }
        }
    }
}

/* The plain Q4_0 method, for comparison: scale = signed maximum / -8. */
static double plain_relative_error(const nib_tensor *weight, size_t block, int bits)
{
    const double middle = 1 << (bits - 1);
    double squares = 0, all = 0;
    for (size_t first = 0; first < weight->elements; first += block) {
        double largest = 0;
        for (size_t i = 0; i < block; i++) {
            if (fabs(weight_at(weight, first + i)) > fabs(largest))
                largest = weight_at(weight, first + i);
        }
        const double scale =
            (double)nib_half_to_float(nib_half_from_float((float)(largest / -middle)));
        for (size_t i = 0; i < block; i++) {
            const double w = weight_at(weight, first + i);
            const double level = fmin(fmax(rint(w / scale), -middle), middle - 1);
            squares += (w - level * scale) * (w - level * scale);
            all += w * w;
        }
    }
    return sqrt(squares / all);
}

static void nbits_loss_is_below_the_plain_method(void **state)
{
    nib_tensor *weight = make_weight(state, NIB_FLOAT32, 64, 512, 1, 3);
    static const double gain[3] = {0.95, 0.97, 0.97}; /* measured 0.93, 0.95, 0.96 */
    int row = 0;
    for (int bits = 2; bits <= 8; bits *= 2, row++) {
        nib_tensor *packed, *scales;
        nib_quant_error loss;
        nib_error error = {0};
        assert_ok(nib_nbits_quantize(context_of(state), weight, bits, 32, NIB_FLOAT16, &packed,
                                     &scales, &loss, &error),
                  &error);
        const double plain = plain_relative_error(weight, 32, bits);
        assert_true(loss.relative < plain * gain[row]);
        nib_tensor_free(packed);
        nib_tensor_free(scales);
    }
    nib_tensor_free(weight);
}

/* A weight that lies on the grid comes back exactly, whatever the sign of the largest magnitude. */
static void nbits_grid_points_are_exact(void **state)
{
    nib_tensor *weight = make_weight(state, NIB_FLOAT32, 4, 64, 1, 1);
    noise source = {5};
    for (size_t i = 0; i < weight->elements; i++) {
        const int level = i % 32 == 3 ? -8 : (int)(next_bits(&source) % 16) - 8;
        ((float *)weight->data)[i] = (float)level * (i < 128 ? 0.125f : -0.0625f);
    }
    nib_tensor *packed, *scales;
    nib_quant_error loss;
    nib_error error = {0};
    assert_ok(nib_nbits_quantize(context_of(state), weight, 4, 32, NIB_FLOAT16, &packed, &scales,
                                 &loss, &error),
              &error);
    assert_true(loss.max_abs == 0 && loss.relative == 0);
    assert_true(scale_at(scales, 0) == 0.125 && scale_at(scales, 7) == -0.0625);
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(weight);
}

static void zero_blocks_have_zero_scale(void **state)
{
    nib_tensor *weight = make_weight(state, NIB_FLOAT32, 2, 48, 0, 1);
    nib_tensor *packed, *scales;
    nib_quant_error loss = {9, 9, 9};
    nib_error error = {0};
    assert_ok(nib_nbits_quantize(context_of(state), weight, 4, 32, NIB_FLOAT32, &packed, &scales,
                                 &loss, &error),
              &error);
    assert_true(loss.max_abs == 0 && loss.rms == 0 && loss.relative == 0);
    for (size_t i = 0; i < packed->bytes; i++)
        assert_int_equal(((uint8_t *)packed->data)[i], 0x88);
    for (size_t i = 0; i < scales->elements; i++)
        assert_true(scale_at(scales, i) == 0);
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    for (int type = 0; type < 2; type++) {
        assert_ok(nib_bnb4_quantize(context_of(state), weight, type, 32, NIB_FLOAT32, &packed,
                                    &scales, NULL, &error),
                  &error);
        for (size_t i = 0; i < packed->bytes; i++)
            assert_int_equal(((uint8_t *)packed->data)[i], type ? 0x77 : 0x00);
        nib_tensor_free(packed);
        nib_tensor_free(scales);
    }
    nib_tensor_free(weight);
}

static void check_bnb4(void **state, nib_tensor *weight, int type, int64_t block_size,
                       nib_dtype absmax_dtype)
{
    nib_tensor *packed, *absmax, *back;
    nib_quant_error loss;
    nib_error error = {0};
    assert_ok(nib_bnb4_quantize(context_of(state), weight, type, block_size, absmax_dtype, &packed,
                                &absmax, &loss, &error),
              &error);
    const size_t elements = weight->elements, block = (size_t)block_size;
    assert_int_equal(packed->desc.rank, 1);
    assert_int_equal(packed->desc.dims[0], (elements + 1) / 2);
    assert_int_equal(absmax->desc.dims[0], (elements + block - 1) / block);
    assert_ok(nib_bnb4_dequantize(context_of(state), packed, absmax, type, block_size,
                                  weight->desc.dims[0], weight->desc.dims[1], &back, &error),
              &error);
    const float *book = nib_bnb4_codebook(type);
    double squares = 0, all = 0;
    for (size_t first = 0; first < elements; first += block) {
        /* Only real elements count, also in the last, partial block. */
        float largest = 0;
        for (size_t i = first; i < elements && i < first + block; i++)
            largest = fmaxf(largest, fabsf((float)weight_at(weight, i)));
        const float stored =
            absmax_dtype == NIB_FLOAT16 ? nib_half_to_float(nib_half_from_float(largest)) : largest;
        assert_true(scale_at(absmax, first / block) == (double)stored);
    }
    for (size_t i = 0; i < elements; i++) {
        const uint8_t byte = ((const uint8_t *)packed->data)[i / 2];
        const unsigned code = i % 2 ? byte & 15u : byte >> 4;
        const double w = weight_at(weight, i), scale = scale_at(absmax, i / block);
        const double mine = fabs(w - (double)book[code] * scale);
        for (unsigned other = 0; other < 16; other++)
            assert_true(mine <= fabs(w - (double)book[other] * scale) * (1 + 1e-12) + 1e-300);
        assert_false(type == 0 && code == 8);
        assert_true(((const float *)back->data)[i] == book[code] * (float)scale);
        squares += mine * mine;
        all += w * w;
    }
    if (elements % 2)
        assert_int_equal(((const uint8_t *)packed->data)[elements / 2] & 15, type ? 7 : 0);
    assert_true(fabs(loss.relative - sqrt(squares / all)) <= 1e-9 * loss.relative);
    nib_tensor_free(packed);
    nib_tensor_free(absmax);
    nib_tensor_free(back);
}

static void bnb4_codes_are_the_nearest(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 5}, {7, 16}, {5, 33}, {1, 300}, {17, 19}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int type = 0; type < 2; type++) {
            for (int64_t block = 16; block <= 256; block *= 4) {
                nib_tensor *weight = make_weight(state, type ? NIB_FLOAT16 : NIB_FLOAT32,
                                                 shapes[s][0], shapes[s][1], 0.3, 11 + s);
                check_bnb4(state, weight, type, block, NIB_FLOAT32);
                check_bnb4(state, weight, type, block, NIB_FLOAT16);
                nib_tensor_free(weight);
            }
        }
    }
}

static void wrong_quantizer_arguments_are_named(void **state)
{
    nib_context *context = context_of(state);
    nib_tensor *weight = make_weight(state, NIB_FLOAT32, 2, 32, 1, 1), *packed, *scales;
    const nib_tensor_desc vector_desc = {NIB_FLOAT32, 1, {8}};
    const nib_tensor_desc bytes_desc = {NIB_UINT8, 2, {2, 8}};
    nib_tensor *vector, *ints;
    nib_error error = {0};
    assert_ok(nib_tensor_create(context, &vector_desc, &vector, &error), &error);
    assert_ok(nib_tensor_create(context, &bytes_desc, &ints, &error), &error);
    const struct {
        nib_tensor *weight;
        int bits, type;
        int64_t block;
        nib_dtype scale;
        const char *part;
    } cases[] = {
        {weight, 3, 2, 32, NIB_FLOAT32, " is "},
        {weight, 4, 0, 8, NIB_FLOAT32, "block_size is 8"},
        {weight, 4, 0, 48, NIB_FLOAT32, "block_size is 48"},
        {weight, 4, 0, -32, NIB_FLOAT32, "block_size is -32"},
        {weight, 4, 0, (int64_t)1 << 40, NIB_FLOAT32, "block_size is 1099511627776"},
        {weight, 4, 0, 32, NIB_INT8, "scales cannot be int8"},
        {vector, 4, 0, 32, NIB_FLOAT32, "the weight is float32[8]"},
        {ints, 4, 0, 32, NIB_FLOAT32, "the weight is uint8[2,8]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error = (nib_error){0};
        assert_int_equal(nib_nbits_quantize(context, cases[i].weight, cases[i].bits, cases[i].block,
                                            cases[i].scale, &packed, &scales, NULL, &error),
                         NIB_INVALID_ARGUMENT);
        assert_error(&error, NIB_INVALID_ARGUMENT, cases[i].part);
        assert_true(!packed && !scales);
        error = (nib_error){0};
        assert_int_equal(nib_bnb4_quantize(context, cases[i].weight, cases[i].type, cases[i].block,
                                           cases[i].scale, &packed, &scales, NULL, &error),
                         NIB_INVALID_ARGUMENT);
        assert_error(&error, NIB_INVALID_ARGUMENT, cases[i].part);
    }
    nib_tensor_free(vector);
    nib_tensor_free(ints);
    nib_tensor_free(weight);
}

static void weights_that_cannot_be_stored_are_named(void **state)
{
    nib_context *context = context_of(state);
    nib_tensor *weight = make_weight(state, NIB_FLOAT32, 2, 40, 1, 1), *packed, *scales;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        ((float *)weight->data)[43] = bad[i];
        nib_error error = {0};
        assert_int_equal(
            nib_nbits_quantize(context, weight, 4, 32, NIB_FLOAT32, &packed, &scales, NULL, &error),
            NIB_INVALID_ARGUMENT);
        assert_error(&error, NIB_INVALID_ARGUMENT, "weight[1,3] is not finite");
        error = (nib_error){0};
        assert_int_equal(
            nib_bnb4_quantize(context, weight, 1, 32, NIB_FLOAT32, &packed, &scales, NULL, &error),
            NIB_INVALID_ARGUMENT);
        assert_error(&error, NIB_INVALID_ARGUMENT, "weight[1,3] is not finite");
    }
    ((float *)weight->data)[43] = 1e9f; /* fine as float32, too large for a float16 scale */
    nib_error error = {0};
    assert_int_equal(
        nib_nbits_quantize(context, weight, 4, 32, NIB_FLOAT16, &packed, &scales, NULL, &error),
        NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT,
                 "starts at weight[1,0] needs a scale beyond float16");
    error = (nib_error){0};
    assert_int_equal(
        nib_bnb4_quantize(context, weight, 1, 16, NIB_FLOAT16, &packed, &scales, NULL, &error),
        NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT,
                 "starts at weight[0,32] needs a scale beyond float16");
    error = (nib_error){0};
    assert_ok(
        nib_nbits_quantize(context, weight, 4, 32, NIB_FLOAT32, &packed, &scales, NULL, &error),
        &error);
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(weight);
}

static void wrong_dequantizer_arguments_are_named(void **state)
{
    nib_context *context = context_of(state);
    nib_tensor *weight = make_weight(state, NIB_FLOAT32, 3, 33, 1, 1), *out;
    nib_tensor *packed, *scales, *flat, *absmax;
    nib_error error = {0};
    assert_ok(
        nib_nbits_quantize(context, weight, 4, 16, NIB_FLOAT32, &packed, &scales, NULL, &error),
        &error);
    assert_ok(nib_bnb4_quantize(context, weight, 0, 16, NIB_FLOAT32, &flat, &absmax, NULL, &error),
              &error);
    const struct {
        nib_tensor *packed, *scales;
        int bits;
        int64_t k;
        const char *part;
    } nbits[] = {
        {packed, scales, 5, 33, "bits is 5"},
        {packed, scales, 4, 49, "K = 49 needs"},
        {packed, scales, 4, 32, "K = 32 needs"},
        {packed, scales, 4, -1, "K = -1 needs"},
        {packed, scales, 8, 33, "power of two"},
        {packed, absmax, 4, 33, "scales is float32[7]"},
        {packed, packed, 4, 33, "scales is uint8"},
        {scales, scales, 4, 33, "packed is float32"},
        {flat, scales, 4, 33, "packed is uint8[50]"},
    };
    for (size_t i = 0; i < sizeof nbits / sizeof nbits[0]; i++) {
        error = (nib_error){0};
        assert_int_equal(nib_nbits_dequantize(context, nbits[i].packed, nbits[i].scales,
                                              nbits[i].bits, nbits[i].k, &out, &error),
                         NIB_INVALID_ARGUMENT);
        assert_error(&error, NIB_INVALID_ARGUMENT, nbits[i].part);
    }
    const struct {
        int type;
        int64_t block, n, k;
        const char *part;
    } bnb4[] = {
        {2, 16, 3, 33, "quant_type is 2"}, {0, 24, 3, 33, "block_size is 24"},
        {0, 16, 3, 34, "packed has 50"},   {0, 32, 3, 33, "absmax has 7"},
        {0, 16, -3, 33, "negative"},       {0, 16, INT64_MAX, 33, "overflows"},
    };
    for (size_t i = 0; i < sizeof bnb4 / sizeof bnb4[0]; i++) {
        error = (nib_error){0};
        assert_int_not_equal(nib_bnb4_dequantize(context, flat, absmax, bnb4[i].type, bnb4[i].block,
                                                 bnb4[i].n, bnb4[i].k, &out, &error),
                             NIB_OK);
        assert_error(&error, error.code, bnb4[i].part);
    }
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(flat);
    nib_tensor_free(absmax);
    nib_tensor_free(weight);
}

/* No allocation that fails leaks or crashes. */
static void quantizers_survive_lack_of_memory(void **state)
{
    nib_tensor *weight = make_weight(state, NIB_FLOAT16, 2, 40, 1, 1), *packed, *scales;
    counting_allocator *allocator = allocator_of(state);
    for (size_t i = 1;; i++) {
        nib_error error = {0};
        allocator->fail_from = allocator->calls + i;
        const nib_status status = nib_nbits_quantize(context_of(state), weight, 4, 32, NIB_FLOAT32,
                                                     &packed, &scales, NULL, &error);
        allocator->fail_from = 0;
        if (status == NIB_OK) {
            assert_int_equal(i, 6);
            break;
        }
        assert_int_equal(status, NIB_OUT_OF_MEMORY);
    }
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codebooks_are_the_published_ones),
        cmocka_unit_test(codes_are_packed_low_bits_first),
        IO_TEST(nbits_codes_are_the_nearest),
        IO_TEST(nbits_loss_is_below_the_plain_method),
        IO_TEST(nbits_grid_points_are_exact),
        IO_TEST(zero_blocks_have_zero_scale),
        IO_TEST(bnb4_codes_are_the_nearest),
        IO_TEST(wrong_quantizer_arguments_are_named),
        IO_TEST(weights_that_cannot_be_stored_are_named),
        IO_TEST(wrong_dequantizer_arguments_are_named),
        IO_TEST(quantizers_survive_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
