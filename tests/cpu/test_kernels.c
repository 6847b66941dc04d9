/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel row that this processor runs, on odd shapes, against float64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/detect.h"
#include "backend/cpu/rows.h"
#include "cases.h"
#include "nibble/quant.h"
#include "nibble/tensor.h"

static bool runs(const nib_cpu_row *row)
{
    return (row->needs & ~nib_cpu_detect()) == 0;
}

#define FOR_EACH_ROW(row)                                                                          \
    for (size_t row_index_ = 0; row_index_ < nib_cpu_row_count; row_index_++)                      \
        for (const nib_cpu_row *row = nib_cpu_rows[row_index_]; row && runs(row); row = NULL)

/* ---- shapes ---- */

/* clang-format off */
static const case_spec specs[] = {
    {.kind = CASE_QKV, .M = 1, .K = 21, .N = 5, .Nkv = 3, .block = 32, .norm = true},
    {.kind = CASE_QKV, .M = 1, .K = 576, .N = 576, .Nkv = 192, .block = 32, .norm = true},
    {.kind = CASE_QKV, .M = 2, .K = 100, .N = 33, .Nkv = 65, .block = 32, .norm = true, .skip = true},
    {.kind = CASE_QKV, .M = 3, .K = 192, .N = 17, .Nkv = 40, .block = 64, .norm = true, .skip = true, .residual = true},
    {.kind = CASE_QKV, .M = 9, .K = 130, .N = 50, .Nkv = 7, .block = 16, .norm = true, .skip = true, .residual = true},
    {.kind = CASE_QKV, .M = 40, .K = 520, .N = 70, .Nkv = 31, .block = 128, .norm = true},
    {.kind = CASE_QKV, .M = 8, .K = 1, .N = 1, .Nkv = 1, .block = 16, .norm = true},
    {.kind = CASE_QKV, .M = 1, .K = 300, .N = 9, .Nkv = 4, .bits = 2, .block = 32, .norm = true},
    {.kind = CASE_QKV, .M = 5, .K = 2048, .N = 37, .Nkv = 12, .block = 32, .norm = true},
    {.kind = CASE_MLP, .M = 2, .K = 16, .N = 4, .block = 8},
    {.kind = CASE_MLP, .M = 2, .K = 19, .N = 5, .bits = 8, .block = 1},
    {.kind = CASE_MLP, .M = 11, .K = 19, .N = 5, .bits = 4, .block = 2, .norm = true},
    {.kind = CASE_MLP, .M = 3, .K = 22, .N = 7, .bits = 2, .block = 4},
    {.kind = CASE_MLP, .M = 1, .K = 576, .N = 256, .block = 32, .norm = true},
    {.kind = CASE_MLP, .M = 1, .K = 77, .N = 35, .bits = 2, .block = 16, .gate_bias = true},
    {.kind = CASE_MLP, .M = 4, .K = 200, .N = 41, .bits = 8, .block = 32, .up_bias = true, .norm = true},
    {.kind = CASE_MLP, .M = 13, .K = 200, .N = 41, .bits = 8, .block = 64, .up_bias = true, .gate_bias = true},
    {.kind = CASE_MLP, .M = 13, .K = 333, .N = 29, .bits = 2, .block = 128, .norm = true, .skip = true, .residual = true},
    {.kind = CASE_MLP, .M = 65, .K = 257, .N = 66, .block = 32, .norm = true, .gate_bias = true, .up_bias = true},
    {.kind = CASE_MLP, .M = 530, .K = 96, .N = 37, .block = 32, .norm = true},
    {.kind = CASE_MLP, .M = 7, .K = 1024, .N = 130, .block = 256, .norm = true, .skip = true},
    {.kind = CASE_BNB4, .M = 1, .K = 1, .N = 1, .block = 16},
    {.kind = CASE_BNB4, .M = 1, .K = 7, .N = 13, .block = 16, .quant_type = 1},
    {.kind = CASE_BNB4, .M = 1, .K = 256, .N = 40, .block = 64, .quant_type = 1},
    {.kind = CASE_BNB4, .M = 1, .K = 576, .N = 33, .block = 64, .quant_type = 0},
    {.kind = CASE_BNB4, .M = 2, .K = 100, .N = 31, .block = 64, .quant_type = 1},
    {.kind = CASE_BNB4, .M = 3, .K = 101, .N = 31, .block = 32, .quant_type = 0},
    {.kind = CASE_BNB4, .M = 8, .K = 320, .N = 19, .block = 32, .quant_type = 1},
    {.kind = CASE_BNB4, .M = 1, .K = 384, .N = 21, .block = 4096, .quant_type = 1},
    {.kind = CASE_BNB4, .M = 17, .K = 129, .N = 47, .block = 64, .quant_type = 1},
    {.kind = CASE_BNB4, .M = 20, .K = 512, .N = 70, .block = 64, .quant_type = 0},
    {.kind = CASE_BNB4, .M = 33, .K = 600, .N = 30, .block = 128, .quant_type = 1},
};
/* clang-format on */
enum { SPECS = sizeof specs / sizeof *specs };

static void check_case(test_case *c, const nib_cpu_row *row, size_t threads)
{
    char text[256];
    const bool intact = case_solve(c, row, threads);
    const double error = case_error(c);
    if (!intact || !(error <= 1))
        print_error("%s, %s: error %g of the bound, guards %s\n", row->name,
                    case_text(&c->spec, text, sizeof text), error,
                    intact ? "intact" : "OVERWRITTEN");
    assert_true(intact);
    assert_true(error <= 1);
}

static void test_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        for (int half = 0; half < 2; half++) {
            case_spec spec = specs[i];
            spec.half = half;
            spec.seed = (unsigned)i + 1;
            test_case c;
            case_make(&c, &spec);
            FOR_EACH_ROW(row)
            check_case(&c, row, 1);
            case_free(&c);
        }
    }
}

/* Shapes drawn at random around the sizes where kernels change their way. */
static void test_random_shapes(void **state)
{
    (void)state;
    unsigned random = 20240607;
    for (unsigned i = 0; i < 150; i++) {
        case_spec spec = {.kind = (case_kind)(case_random(&random) % 3), .seed = i};
        spec.M = 1 + case_random(&random) % (i % 3 ? 9 : 70);
        spec.K = 1 + case_random(&random) % (i % 4 ? 300 : 1200);
        if (case_random(&random) % 2)
            spec.K = (spec.K + 31) / 32 * 32;
        spec.N = 1 + case_random(&random) % 90;
        spec.Nkv = 1 + case_random(&random) % 40;
        spec.bits = 2 << case_random(&random) % 3;
        spec.block = (size_t)16 << case_random(&random) % 5;
        spec.quant_type = (int)(case_random(&random) % 2);
        spec.half = case_random(&random) % 2;
        spec.norm = spec.kind == CASE_QKV || (spec.kind == CASE_MLP && case_random(&random) % 2);
        spec.skip = spec.norm && case_random(&random) % 2;
        spec.residual = spec.skip && case_random(&random) % 2;
        spec.gate_bias = spec.kind == CASE_MLP && case_random(&random) % 2;
        spec.up_bias = spec.kind == CASE_MLP && case_random(&random) % 2;
        spec.misalign = case_random(&random) % 4;
        test_case c;
        case_make(&c, &spec);
        FOR_EACH_ROW(row)
        check_case(&c, row, 1);
        case_free(&c);
    }
}

/* ---- what does not matter ---- */

static void copy_outputs(const test_case *c, unsigned char **copies)
{
    for (size_t o = 0; o < c->outputs; o++) {
        const case_array *array = &c->arrays[c->output_array[o]];
        copies[o] = malloc(array->bytes + 1);
        assert_non_null(copies[o]);
        memcpy(copies[o], array->data, array->bytes);
    }
}

static void test_threads_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        test_case c;
        case_spec spec = specs[i];
        spec.seed = 7;
        case_make(&c, &spec);
        FOR_EACH_ROW(row)
        {
            unsigned char *one[4];
            assert_true(case_solve(&c, row, 1));
            copy_outputs(&c, one);
            for (size_t threads = 2; threads <= 5; threads += 3) {
                assert_true(case_solve(&c, row, threads));
                for (size_t o = 0; o < c.outputs; o++)
                    assert_memory_equal(one[o], c.arrays[c.output_array[o]].data,
                                        c.arrays[c.output_array[o]].bytes);
            }
            for (size_t o = 0; o < c.outputs; o++)
                free(one[o]);
        }
        case_free(&c);
    }
}

static void test_alignment_does_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < SPECS; i++) {
        for (size_t misalign = 1; misalign < 4; misalign++) {
            case_spec spec = specs[i];
            spec.half = misalign != 2;
            spec.misalign = misalign;
            test_case c;
            case_make(&c, &spec);
            FOR_EACH_ROW(row)
            check_case(&c, row, 1);
            case_free(&c);
        }
    }
}

static void test_no_rows(void **state)
{
    (void)state;
    const case_spec spec = {.kind = CASE_MLP, .K = 64, .N = 32, .block = 32, .norm = true};
    test_case c;
    case_make(&c, &spec);
    FOR_EACH_ROW(row)
    assert_true(case_solve(&c, row, 2));
    case_free(&c);
}

/* ---- awkward numbers ---- */

static void put_float(const void *array, bool half, size_t i, float value)
{
    unsigned char *bytes = (unsigned char *)(uintptr_t)array;
    if (half) {
        const uint16_t bits = nib_half_from_float(value);
        memcpy(bytes + 2 * i, &bits, 2);
    } else {
        memcpy(bytes + 4 * i, &value, 4);
    }
}

/* Infinities and NaN in one activation row reach the outputs of that row and of no other. */
static void test_nonfinite_activations(void **state)
{
    (void)state;
    const float specials[] = {INFINITY, -INFINITY, NAN};
    const size_t rows[] = {1, 2, 8, 21};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t v = 0; v < 3; v++) {
            for (int kind = CASE_MLP; kind <= CASE_BNB4; kind++) {
                const case_spec spec = {.kind = (case_kind)kind,
                                        .M = rows[r],
                                        .K = 150,
                                        .N = 45,
                                        .block = 32,
                                        .quant_type = 1,
                                        .half = v % 2,
                                        .seed = (unsigned)(r + v)};
                test_case c;
                case_make(&c, &spec);
                put_float(c.problem.a, spec.half, (rows[r] - 1) * spec.K + 77, specials[v]);
                case_reference(&c);
                FOR_EACH_ROW(row)
                check_case(&c, row, 1);
                case_free(&c);
            }
        }
    }
}

/* Scales of zero, negative, infinite and NaN; a scale of infinity times a weight of zero is NaN. */
static void test_awkward_scales(void **state)
{
    (void)state;
    const float specials[] = {0, -0.5f, INFINITY, NAN};
    const size_t rows[] = {1, 3, 21};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t v = 0; v < 4; v++) {
            const case_spec spec = {.kind = CASE_QKV,
                                    .M = rows[r],
                                    .K = 150,
                                    .N = 45,
                                    .Nkv = 10,
                                    .block = 32,
                                    .norm = true,
                                    .half = v % 2,
                                    .seed = (unsigned)(r + v)};
            test_case c;
            case_make(&c, &spec);
            for (size_t n = 0; n < 45; n += 4)
                put_float(c.problem.weights[0].scales, spec.half, n * 5 + n % 5, specials[v]);
            case_reference(&c);
            FOR_EACH_ROW(row)
            check_case(&c, row, 1);
            case_free(&c);
        }
    }
}

/* Large float32 activations stay float32 (70000 does not fit float16); a float16 result out of
 * range is infinite. */
static void test_large_values(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        const case_spec spec = {
            .kind = CASE_BNB4, .M = 3, .K = 96, .N = 20, .block = 32, .half = half, .seed = 3};
        test_case c;
        case_make(&c, &spec);
        for (size_t k = 0; k < 96; k++)
            put_float(c.problem.a, half, k, half ? 60000 : 70000);
        case_reference(&c);
        FOR_EACH_ROW(row)
        check_case(&c, row, 1);
        case_free(&c);
    }
}

/* Rows that span many powers of two, next to ones that do not: subnormals, values of 2^±90 side by
 * side, and values whose products with a scale are out of range one way or the other. */
static void test_extreme_activations(void **state)
{
    (void)state;
    static const float factors[][2] = {{0x1p-130f, 0x1p-130f}, {0x1p90f, 0x1p-90f},
                                       {0x1p-60f, 0x1p60f},    {0x1p110f, 0x1p110f},
                                       {1, 0x1p-120f},         {0, 0x1p-105f}};
    enum { FACTORS = sizeof factors / sizeof *factors };
    const size_t rows[] = {1, 5, 40};
    for (size_t r = 0; r < 3; r++) {
        for (int kind = CASE_MLP; kind <= CASE_BNB4; kind++) {
            const case_spec spec = {.kind = (case_kind)kind,
                                    .M = rows[r],
                                    .K = 192,
                                    .N = 45,
                                    .block = 32,
                                    .seed = (unsigned)r};
            test_case c;
            case_make(&c, &spec);
            for (size_t m = 0; m < spec.M; m += 3) {
                unsigned random = (unsigned)m + 1;
                const float *f = factors[m / 3 % FACTORS];
                for (size_t k = 0; k < spec.K; k++)
                    put_float(c.problem.a, false, m * spec.K + k,
                              (float)case_uniform(&random) * f[k / 3 % 2]);
            }
            case_reference(&c);
            FOR_EACH_ROW(row)
            check_case(&c, row, 1);
            case_free(&c);
        }
    }
}

/* Large activations whose weights are all zero must not hide the small ones between them. */
static void test_hidden_activations(void **state)
{
    (void)state;
    enum { NF4_ZERO = 7 };
    const size_t rows[] = {1, 20};
    for (size_t r = 0; r < 2; r++) {
        const case_spec spec = {.kind = CASE_BNB4,
                                .M = rows[r],
                                .K = 128,
                                .N = 45,
                                .block = 32,
                                .quant_type = 1,
                                .seed = 5};
        test_case c;
        case_make(&c, &spec);
        unsigned char *codes = (unsigned char *)(uintptr_t)c.problem.weights[0].codes;
        for (size_t i = 0; i < spec.N * spec.K / 2; i++)
            codes[i] = (unsigned char)(NF4_ZERO << 4 | (codes[i] & 15));
        for (size_t i = 0; i < spec.M * spec.K; i++) {
            unsigned random = (unsigned)i;
            put_float(c.problem.a, false, i,
                      (float)case_uniform(&random) * (i % 2 ? 0x1p-85f : 0x1p85f));
        }
        case_reference(&c);
        FOR_EACH_ROW(row)
        check_case(&c, row, 1);
        case_free(&c);
    }
}

/* Very large and very small scales, where a block's sum must not be scaled in place of its weights.
 */
static void test_extreme_scales(void **state)
{
    (void)state;
    static const float scales[] = {0x1p120f, -0x1p-100f, 0x1p-90f, 0x1p100f};
    const size_t rows[] = {1, 20};
    for (size_t r = 0; r < 2; r++) {
        for (size_t v = 0; v < sizeof scales / sizeof *scales; v++) {
            const case_spec spec = {.kind = CASE_BNB4,
                                    .M = rows[r],
                                    .K = 128,
                                    .N = 45,
                                    .block = 32,
                                    .seed = (unsigned)(r + v)};
            test_case c;
            case_make(&c, &spec);
            for (size_t i = 0; i < spec.N * 4; i++)
                put_float(c.problem.weights[0].scales, false, i, scales[v]);
            for (size_t i = 0; i < spec.M * spec.K; i++) {
                unsigned random = (unsigned)i;
                put_float(c.problem.a, false, i,
                          (float)case_uniform(&random) * (v == 0 || v == 3 ? 0x1p-90f : 0x1p100f));
            }
            case_reference(&c);
            FOR_EACH_ROW(row)
            check_case(&c, row, 1);
            case_free(&c);
        }
    }
}

static void test_zero_row_is_zero(void **state)
{
    (void)state;
    const case_spec spec = {
        .kind = CASE_QKV, .M = 2, .K = 64, .N = 20, .Nkv = 20, .block = 32, .norm = true};
    test_case c;
    case_make(&c, &spec);
    for (size_t k = 0; k < 64; k++)
        put_float(c.problem.a, false, k, 0);
    case_reference(&c);
    FOR_EACH_ROW(row)
    {
        check_case(&c, row, 1);
        for (size_t n = 0; n < 20; n++)
            assert_true(case_output(&c, 0, n) == 0);
    }
    case_free(&c);
}

/* silu by the formula, at its ends: gate_bias makes the gate, weights are zero. */
static void test_silu(void **state)
{
    (void)state;
    static const float gates[] = {0,     1,        -1,        20,  -20,    88,     -88, 1e4f,
                                  -1e4f, INFINITY, -INFINITY, NAN, 1e-30f, -87.3f, -103};
    enum { N = sizeof gates / sizeof *gates };
    const size_t rows[] = {1, 12};
    for (size_t r = 0; r < 2; r++) {
        const case_spec spec = {.kind = CASE_MLP,
                                .M = rows[r],
                                .K = 32,
                                .N = N,
                                .block = 32,
                                .gate_bias = true,
                                .up_bias = true};
        test_case c;
        case_make(&c, &spec);
        memset((void *)(uintptr_t)c.problem.weights[0].codes, 0x88, N * 16);
        memset((void *)(uintptr_t)c.problem.weights[1].codes, 0x88, N * 16);
        for (size_t n = 0; n < N; n++) {
            put_float(c.problem.bias[0], false, n, gates[n]);
            put_float(c.problem.bias[1], false, n, 1);
        }
        FOR_EACH_ROW(row)
        {
            assert_true(case_solve(&c, row, 1));
            for (size_t n = 0; n < N; n++) {
                const double x = (double)gates[n], should = x / (1 + exp(-x)),
                             is = case_output(&c, 0, n);
                if (isnan(should))
                    assert_true(isnan(is));
                else
                    assert_true(is == should || fabs(is - should) <= 4e-7 * fabs(should) + 1e-36);
            }
        }
        case_free(&c);
    }
}

/* ---- int8 activations ---- */

/* A value that lies between two integers may be rounded either way, because the float32 norm is not
 * exactly the float64 one. So this asks for a small error against the float64 model of the
 * quantization, and for agreement with the scalar row within the same allowance: one step of one
 * activation. */
static void test_int8(void **state)
{
    (void)state;
    /* clang-format off */
    static const case_spec int8_specs[] = {
        {.kind = CASE_QKV, .M = 1, .K = 21, .N = 5, .Nkv = 3, .block = 32, .norm = true},
        {.kind = CASE_QKV, .M = 1, .K = 576, .N = 96, .Nkv = 32, .block = 32, .norm = true},
        {.kind = CASE_QKV, .M = 4, .K = 288, .N = 33, .Nkv = 7, .block = 64, .norm = true, .skip = true},
        {.kind = CASE_MLP, .M = 1, .K = 4096, .N = 35, .block = 32},
        {.kind = CASE_MLP, .M = 8, .K = 800, .N = 35, .block = 128, .gate_bias = true},
        {.kind = CASE_MLP, .M = 9, .K = 96, .N = 37, .block = 32},
        {.kind = CASE_MLP, .M = 30, .K = 1100, .N = 70, .block = 32, .up_bias = true},
        {.kind = CASE_QKV, .M = 19, .K = 600, .N = 33, .Nkv = 65, .block = 256, .norm = true},
        {.kind = CASE_QKV, .M = 13, .K = 65, .N = 16, .Nkv = 1, .block = 64, .norm = true},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof int8_specs / sizeof *int8_specs; i++) {
        for (int half = 0; half < 2; half++) {
            case_spec spec = int8_specs[i];
            spec.half = half;
            spec.int8 = true;
            spec.seed = (unsigned)i;
            test_case c;
            case_make(&c, &spec);
            FOR_EACH_ROW(row)
            {
                char text[256];
                const nib_cpu_method method = nib_cpu_choose_method(&c.problem, row);
                assert_true(method.int8);
                const bool intact = case_solve(&c, row, 1);
                const double error = case_error(&c), allowed = spec.norm ? 300 : 1;
                if (!intact || !(error <= allowed))
                    print_error("%s, %s: error %g of the bound\n", row->name,
                                case_text(&spec, text, sizeof text), error);
                assert_true(intact);
                assert_true(error <= allowed);
            }
            case_free(&c);
        }
    }
}

/* Blocks of zeros, and values that are not finite: those make their row NaN and no other. */
static void test_int8_awkward(void **state)
{
    (void)state;
    const size_t rows[] = {2, 15};
    for (size_t r = 0; r < 2; r++) {
        case_spec spec = {
            .kind = CASE_MLP, .M = rows[r], .K = 96, .N = 20, .block = 32, .int8 = true};
        test_case c;
        case_make(&c, &spec);
        for (size_t k = 0; k < 64; k++)
            put_float(c.problem.a, false, k, 0);
        case_reference(&c);
        FOR_EACH_ROW(row)
        check_case(&c, row, 1);
        put_float(c.problem.a, false, 96 + 40, INFINITY);
        FOR_EACH_ROW(row)
        {
            assert_true(case_solve(&c, row, 1));
            for (size_t i = 0; i < 20 * rows[r]; i++)
                assert_int_equal(isnan(case_output(&c, 0, i)), i / 20 == 1);
        }
        case_free(&c);
    }
}

/* What the quantization costs against exact activations, as docs/performance.md states it: below 2
 * % of the largest output for activations without outliers. */
static void test_int8_is_close(void **state)
{
    (void)state;
    case_spec spec = {
        .kind = CASE_QKV, .M = 3, .K = 1024, .N = 64, .Nkv = 32, .block = 32, .norm = true};
    test_case c;
    case_make(&c, &spec);
    c.problem.int8 = true;
    FOR_EACH_ROW(row)
    {
        assert_true(case_solve(&c, row, 1));
        const double error = case_error(&c) * 1e-5;
        assert_true(error > 1e-4 && error < 2e-2);
    }
    case_free(&c);
}

/* Weights that the int8 kernels do not take are multiplied in float32, and never the other way
 * round. */
static void test_int8_choice(void **state)
{
    (void)state;
    static const struct {
        case_kind kind;
        int bits;
        size_t block;
        bool int8, expected;
    } choices[] = {
        {CASE_MLP, 4, 32, true, true},   {CASE_MLP, 4, 32, false, false},
        {CASE_MLP, 4, 16, true, false},  {CASE_MLP, 2, 32, true, false},
        {CASE_MLP, 8, 32, true, false},  {CASE_BNB4, 4, 32, true, false},
        {CASE_MLP, 4, 512, true, false},
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        for (size_t M = 1; M < 20; M += 18) {
            const case_spec spec = {.kind = choices[i].kind,
                                    .M = M,
                                    .K = 128,
                                    .N = 8,
                                    .bits = choices[i].bits,
                                    .block = choices[i].block,
                                    .int8 = choices[i].int8};
            test_case c;
            case_make(&c, &spec);
            FOR_EACH_ROW(row)
            assert_int_equal(nib_cpu_choose_method(&c.problem, row).int8, choices[i].expected);
            case_free(&c);
        }
    }
}

/* ---- dequantization ---- */

/* All rows of the table give the same bits, and those are the ones of the float32 product. */
static void test_dequantize_bits(void **state)
{
    (void)state;
    enum { K = 203, N = 3 };
    for (int bits = 2; bits <= 8; bits *= 2) {
        for (int half = 0; half < 2; half++) {
            const case_spec spec = {
                .kind = CASE_MLP, .M = 1, .K = K, .N = N, .bits = bits, .block = 32, .half = half};
            test_case c;
            case_make(&c, &spec);
            float truth[K], values[K];
            FOR_EACH_ROW(row)
            {
                for (size_t n = 0; n < N; n++) {
                    nib_scalar_dequantize(&c.problem.weights[0], n, 0, K, truth);
                    for (size_t k0 = 0; k0 < K; k0 += 37) {
                        row->dequantize(&c.problem.weights[0], n, k0, K - k0, values);
                        assert_memory_equal(values, truth + k0, (K - k0) * sizeof *values);
                    }
                }
            }
            case_free(&c);
        }
    }
}

/* Rows that start in the middle of a byte and of a block. */
static void test_dequantize_crossing(void **state)
{
    (void)state;
    enum { K = 203, N = 5 };
    for (size_t block = 16; block <= 512; block *= 2) {
        for (int half = 0; half < 2; half++) {
            const case_spec spec = {.kind = CASE_BNB4,
                                    .M = 1,
                                    .K = K,
                                    .N = N,
                                    .block = block,
                                    .half = half,
                                    .quant_type = half};
            test_case c;
            case_make(&c, &spec);
            float truth[K], values[K];
            FOR_EACH_ROW(row)
            {
                for (size_t n = 0; n < N; n++) {
                    nib_scalar_dequantize(&c.problem.weights[0], n, 0, K, truth);
                    for (size_t k0 = 0; k0 < K; k0 += 13) {
                        row->dequantize(&c.problem.weights[0], n, k0, K - k0, values);
                        assert_memory_equal(values, truth + k0, (K - k0) * sizeof *values);
                    }
                }
            }
            case_free(&c);
        }
    }
}

static void test_codebooks(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++) {
        uint8_t codes[8];
        for (unsigned i = 0; i < 8; i++)
            codes[i] = (uint8_t)(2 * i << 4 | (2 * i + 1));
        const float one = 1;
        nib_cpu_weights w = nib_cpu_bnb4(1, 16, type, 16, false);
        w.codes = codes;
        w.scales = &one;
        FOR_EACH_ROW(row)
        {
            float values[16];
            row->dequantize(&w, 0, 0, 16, values);
            assert_memory_equal(values, nib_bnb4_codebook(type), sizeof values);
        }
    }
}

/* ---- the table ---- */

static void test_table(void **state)
{
    (void)state;
    const unsigned bits = nib_cpu_detect();
    assert_string_equal(nib_cpu_rows[nib_cpu_row_count - 1]->name, "scalar");
    assert_int_equal(nib_cpu_rows[nib_cpu_row_count - 1]->needs, 0);
    assert_ptr_equal(nib_cpu_choose_row("scalar", bits), &nib_cpu_scalar);
    assert_ptr_equal(nib_cpu_choose_row(NULL, 0), &nib_cpu_scalar);
    assert_null(nib_cpu_choose_row("mmx", bits));
    for (size_t i = 0; i < nib_cpu_row_count; i++) {
        const nib_cpu_row *row = nib_cpu_rows[i];
        assert_non_null(nib_cpu_choose_row(row->name, bits));
        if (runs(row))
            assert_ptr_equal(nib_cpu_choose_row(row->name, bits), row);
        if (runs(row))
            print_message("RAN: kernel row %s\n", row->name);
        else
            print_message("NOT RUN: kernel row %s, which this processor does not have\n",
                          row->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_dequantize_bits),
        cmocka_unit_test(test_dequantize_crossing),
        cmocka_unit_test(test_codebooks),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_alignment_does_not_matter),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_nonfinite_activations),
        cmocka_unit_test(test_awkward_scales),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_extreme_activations),
        cmocka_unit_test(test_extreme_scales),
        cmocka_unit_test(test_hidden_activations),
        cmocka_unit_test(test_zero_row_is_zero),
        cmocka_unit_test(test_silu),
        cmocka_unit_test(test_int8),
        cmocka_unit_test(test_int8_awkward),
        cmocka_unit_test(test_int8_is_close),
        cmocka_unit_test(test_int8_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
