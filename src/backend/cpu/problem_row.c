/* SPDX-License-Identifier: Apache-2.0 */
#include "problem_row.h"

/* Pointer to element i of a tensor of the problem's type; NULL stays NULL. */
static const void *at(const nib_cpu_problem *p, const void *array, size_t i)
{
    return array ? (const char *)array + i * (p->half ? 2 : 4) : NULL;
}

static void *at_output(const nib_cpu_problem *p, void *array, size_t i)
{
    return array ? (char *)array + i * (p->half ? 2 : 4) : NULL;
}

nib_cpu_norm nib_cpu_norm_of_row(const nib_cpu_problem *p, size_t m)
{
    return (nib_cpu_norm){
        .a = at(p, p->a, m * p->K),
        .skip = at(p, p->skip, m * p->K),
        .residual = at_output(p, p->residual, m * p->K),
        .gain = p->gain,
        .half = p->half,
        .epsilon = p->epsilon,
        .K = p->K,
    };
}

void nib_cpu_store_row(const nib_cpu_problem *p, const nib_cpu_row *row, size_t which, size_t m,
                       size_t n, const float *sums, const float *up, size_t count)
{
    const nib_cpu_finish finish = {
        .up = up,
        .bias = at(p, p->bias[which], n),
        .up_bias = up ? at(p, p->bias[which + 1], n) : NULL,
        .out = at_output(p, p->out[which], m * p->weights[which].N + n),
        .half = p->half,
    };
    row->finish(&finish, sums, count);
}
