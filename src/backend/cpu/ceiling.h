/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIB_BACKEND_CPU_CEILING_H
#define NIB_BACKEND_CPU_CEILING_H

#include "kernels/kernels.h"
#include "pool.h"

/* Measure what memory and multiply-add units give, with the instructions that `row` may use.
 * errors: OUT_OF_MEMORY */
nib_status nib_cpu_measure_ceilings(const nib_allocator *allocator, const nib_cpu_row *row,
                                    const nib_cpu_pool *pool, nib_ceilings *out, nib_error *error);

#endif
