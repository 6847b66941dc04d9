/* SPDX-License-Identifier: Apache-2.0
 *
 * What the three operators have in common: activations, perhaps summed with a residual and
 * normalized, times up to three packed weight matrices. qkv.c, mlp.c and bnb4.c state an operator
 * as a problem; solve.c solves it. No plan, no tensors: a problem is sizes and pointers, so it can
 * be tested and timed by itself.
 */
#ifndef NIB_BACKEND_CPU_PROBLEM_H
#define NIB_BACKEND_CPU_PROBLEM_H

#include "kernels/kernels.h"
#include "pool.h"

enum { NIB_CPU_MAX_WEIGHTS = 3 };

/* All pointers may have any alignment. Outputs must not overlap anything else. */
typedef struct nib_cpu_problem {
    size_t M, K;
    bool half;        /* a, skip, gain, residual, biases and outputs are float16, else float32 */
    const void *a;    /* [M,K] */
    const void *skip; /* [M,K], or NULL */
    const void *gain; /* [K], or NULL: no normalization (skip is then NULL too) */
    void *residual;   /* [M,K]: a + skip; NULL: not wanted */
    double epsilon;
    nib_cpu_weights weights[NIB_CPU_MAX_WEIGHTS];
    size_t weight_count;
    bool int8; /* accuracy_level 4: activations may be quantized to int8 by blocks */
    bool
        gated; /* weights 0 and 1 are gate and up: out[0] = silu(gate + bias[0]) * (up + bias[1]) */
    const void *bias[NIB_CPU_MAX_WEIGHTS]; /* [N], or NULL */
    void *out[NIB_CPU_MAX_WEIGHTS];        /* [M,N] */
} nib_cpu_problem;

/* The sizes of a matrix in the nbits format; codes and scales are set by the caller. */
nib_cpu_weights nib_cpu_nbits(size_t N, size_t K, int bits, size_t block, bool half_scales);
/* The same for bnb4. quant_type 0 or 1. */
nib_cpu_weights nib_cpu_bnb4(size_t N, size_t K, int quant_type, size_t block, bool half_scales);

/* How a row of kernels will solve a problem: exactly one of the two is set. */
typedef struct nib_cpu_method {
    const nib_cpu_gemv *gemv;
    const nib_cpu_gemm *gemm;
    bool int8;
} nib_cpu_method;

nib_cpu_method nib_cpu_choose_method(const nib_cpu_problem *problem, const nib_cpu_row *row);
/* "decode with int8 activations" and the like. */
const char *nib_cpu_method_text(const nib_cpu_method *method);

/* Scratch memory of a problem, made once; solving allocates nothing. */
typedef struct nib_cpu_workspace {
    const nib_allocator *allocator;
    void *memory;
    size_t bytes;
    float *x;     /* decode: the activations [M,K] */
    char *packed; /* the activations as the kernels want them */
    char *lanes;  /* prefill: scratch of each lane */
    size_t lane_bytes;
} nib_cpu_workspace;

nib_status nib_cpu_workspace_make(nib_cpu_workspace *space, const nib_allocator *allocator,
                                  const nib_cpu_row *row, const nib_cpu_pool *pool,
                                  const nib_cpu_problem *problem, nib_error *error);
void nib_cpu_workspace_free(nib_cpu_workspace *space);

/* Solve a problem of the sizes that the workspace was made for. */
void nib_cpu_solve(const nib_cpu_problem *problem, const nib_cpu_row *row, const nib_cpu_pool *pool,
                   const nib_cpu_workspace *space);

#endif
