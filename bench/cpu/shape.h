/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes from a text file, and random problems of those shapes.
 */
#ifndef NIB_BENCH_SHAPE_H
#define NIB_BENCH_SHAPE_H

#include <stdio.h>

#include "backend/cpu/problem.h"

typedef enum bench_op { BENCH_QKV, BENCH_MLP, BENCH_BNB4 } bench_op;

typedef struct bench_shape {
    bench_op op;
    size_t M, K, N, Nkv, block, copies;
    int bits, quant_type, level;
    bool half;
    char text[160]; /* the line without comment and surplus spaces */
} bench_shape;

/* The next shape of a file: 1, 0 at its end, -1 (with a line on standard error) for a line that is
 * wrong. */
int bench_shape_read(FILE *file, bench_shape *shape);

/* A problem with `copies` sets of weights; bench_problem_use chooses one. */
typedef struct bench_problem {
    nib_cpu_problem problem;
    size_t copies;
    nib_cpu_weights (*sets)[NIB_CPU_MAX_WEIGHTS];
    double bytes,
        operations; /* of one run: bytes of weights and scales; multiplications and additions */
} bench_problem;

void bench_problem_make(bench_problem *b, const bench_shape *shape);
void bench_problem_use(bench_problem *b, size_t copy);
void bench_problem_free(bench_problem *b);

#endif
