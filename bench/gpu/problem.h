/* SPDX-License-Identifier: Apache-2.0
 *
 * One benchmark case: an operator, its sizes, random data, and a call on the GPU for each of several copies of the weights.
 */
#ifndef BENCH_GPU_PROBLEM_H
#define BENCH_GPU_PROBLEM_H

#include <nibble/nibble.h>
#include <nibble/webgpu.h>

typedef enum bench_op { BENCH_QKV, BENCH_MLP, BENCH_BNB4 } bench_op;

/* A line of the shapes file: "mlp f16 M=512 K=4096 N=14336 norm peer". */
typedef struct bench_shape {
    bench_op op;
    nib_dtype dtype;
    int64_t M, K, N, Nkv, block;
    bool norm, skip, peer;
} bench_shape;

enum { BENCH_MAX_TENSORS = 12, BENCH_MAX_COPIES = 64, BENCH_MAX_TUNABLES = 16, BENCH_MAX_VALUES = 16 };

/* The values a tunable takes in turn. */
typedef struct bench_choice {
    double values[BENCH_MAX_VALUES];
    size_t count, at;
} bench_choice;

typedef struct bench_context {
    nib_context *context;
    nib_device *gpu, *cpu;
    nib_package *package[3];
    const char *variant; /* pin this one; NULL: the choice of the manifest */
    nib_named_scalar tunables[BENCH_MAX_TUNABLES];
    bench_choice choices[BENCH_MAX_TUNABLES];
    size_t tunable_count;
    double rotate_bytes; /* copies of the weights together take at least this much */
} bench_context;

typedef struct bench_problem {
    bench_shape shape;
    nib_named_desc tensors[BENCH_MAX_TENSORS];
    nib_tensor *host[BENCH_MAX_TENSORS];
    bool weight[BENCH_MAX_TENSORS]; /* differs from copy to copy */
    size_t tensor_count;
    const char *outputs[3];
    nib_tensor *result[3];
    size_t output_count;
    nib_named_scalar attributes[8];
    size_t attribute_count;
    nib_plan *plan;
    nib_call *calls[BENCH_MAX_COPIES];
    nib_tensor *device[BENCH_MAX_COPIES][BENCH_MAX_TENSORS];
    size_t copies;
    double weight_bytes, bytes, flops; /* of one call: weights with scales, everything, 2 M N K */
} bench_problem;

bool bench_shape_parse(const char *line, bench_shape *out);
const char *bench_shape_text(const bench_shape *shape, char *out, size_t bytes);

/* Data on both sides; no calls yet. */
nib_status bench_problem_make(bench_context *bench, const bench_shape *shape, bench_problem *out, nib_error *error);

/* The plan and its calls with the variant and tunables that `bench` holds now, in place of those before. */
nib_status bench_problem_plan(bench_context *bench, bench_problem *problem, nib_error *error);
void bench_problem_free(bench_problem *problem);

/* Greatest |gpu - cpu| over the greatest |cpu| of the row, over some rows. */
nib_status bench_problem_check(bench_context *bench, bench_problem *problem, double *worst, nib_error *error);

#endif
