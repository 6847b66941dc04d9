/* SPDX-License-Identifier: Apache-2.0
 *
 * The two ways to solve a problem. Work is cut along M and N, never along K, and the cuts depend on
 * the sizes alone: the result does not depend on the number of threads.
 */
#ifndef NIB_BACKEND_CPU_SOLVE_H
#define NIB_BACKEND_CPU_SOLVE_H

#include "problem.h"

/* A few activation rows: weights are streamed once. */
void nib_cpu_decode(const nib_cpu_problem *problem, const nib_cpu_row *row,
                    const nib_cpu_method *method, const nib_cpu_pool *pool,
                    const nib_cpu_workspace *space);

/* Many rows: register tiles over dequantized panels that stay in cache. */
void nib_cpu_prefill(const nib_cpu_problem *problem, const nib_cpu_row *row,
                     const nib_cpu_method *method, const nib_cpu_pool *pool,
                     const nib_cpu_workspace *space);

/* Bytes of the parts of a workspace; false when they overflow. */
typedef struct nib_cpu_sizes {
    size_t x, packed, lane;
} nib_cpu_sizes;
bool nib_cpu_decode_sizes(const nib_cpu_problem *problem, const nib_cpu_method *method,
                          nib_cpu_sizes *sizes);
bool nib_cpu_prefill_sizes(const nib_cpu_problem *problem, const nib_cpu_method *method,
                           nib_cpu_sizes *sizes);

#endif
