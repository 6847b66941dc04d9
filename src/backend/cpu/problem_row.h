/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a problem's tensors: what goes into it and where its sums go.
 */
#ifndef NIB_BACKEND_CPU_PROBLEM_ROW_H
#define NIB_BACKEND_CPU_PROBLEM_ROW_H

#include "problem.h"

/* The norm of row m. */
nib_cpu_norm nib_cpu_norm_of_row(const nib_cpu_problem *problem, size_t m);
/* Store `count` finished sums of row m at column n of output `which`. */
void nib_cpu_store_row(const nib_cpu_problem *problem, const nib_cpu_row *row, size_t which,
                       size_t m, size_t n, const float *sums, const float *up, size_t count);

#endif
