/* SPDX-License-Identifier: Apache-2.0
 *
 * Random problems for the CPU kernels, with a float64 reference that shares no code with them.
 */
#ifndef NIB_TESTS_CPU_CASES_H
#define NIB_TESTS_CPU_CASES_H

#include "backend/cpu/problem.h"

typedef enum case_kind { CASE_QKV, CASE_MLP, CASE_BNB4 } case_kind;

/* What a case is made from; zero means absent or the default. */
typedef struct case_spec {
    case_kind kind;
    size_t M, K, N, Nkv;
    int bits; /* nbits: 4 when 0 */
    size_t block;
    int quant_type; /* bnb4 */
    bool half, norm, skip, residual, gate_bias, up_bias;
    bool int8;       /* accuracy_level 4: the expected values are those of quantized activations */
    size_t misalign; /* every array starts this many bytes after an aligned address */
    unsigned seed;
} case_spec;

enum { CASE_MAX_ARRAYS = 24, CASE_GUARD = 64 };

typedef struct case_array {
    unsigned char *memory; /* CASE_GUARD bytes of guard on both sides of the data */
    unsigned char *data;
    size_t bytes;
} case_array;

typedef struct test_case {
    case_spec spec;
    nib_cpu_problem problem; /* all pointers set */
    case_array arrays[CASE_MAX_ARRAYS];
    size_t array_count;
    /* Where the outputs are in `arrays`, the float64 values they should have, and the magnitude
     * that their error is relative to: the largest of the row; for a gated output what errors of
     * gate and up that are relative to the largest gate and up of their row become. */
    size_t outputs, output_array[4];
    double *expected[4], *magnitude[4];
    size_t expected_count[4], row_length[4];
} test_case;

/* Aborts the test program when out of memory. */
void case_make(test_case *c, const case_spec *spec);
void case_free(test_case *c);
/* Fill the expected values; done by case_make, again after inputs were changed. */
void case_reference(test_case *c);
/* Solve with a kernel row and a number of lanes; returns false when a guard byte changed. */
bool case_solve(test_case *c, const nib_cpu_row *row, size_t threads);
/* Largest error of all outputs in units of the documented bound (<= 1 passes):
 * float32: 1e-5 of the magnitude; float16: 1 ulp besides. NaN must meet NaN and infinities must be
 * equal. */
double case_error(const test_case *c);
/* One line that names the case. */
const char *case_text(const case_spec *spec, char *out, size_t out_bytes);
double case_output(const test_case *c, size_t output, size_t i);

/* Deterministic random numbers. */
unsigned case_random(unsigned *state);
double case_uniform(unsigned *state); /* [-1, 1) */

#endif
