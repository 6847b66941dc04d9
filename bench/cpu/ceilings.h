/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine can do at most, measured next to the kernels.
 */
#ifndef NIB_BENCH_CEILINGS_H
#define NIB_BENCH_CEILINGS_H

#include "backend/cpu/pool.h"

double bench_now(void); /* seconds */

/* Bytes per second that all lanes together read from `bytes` of memory, once through. */
double bench_read_bandwidth(const nib_cpu_pool *pool, const void *memory, size_t bytes);

/* Operations per second of float32 multiply-adds in registers, with the vectors of kernel row
 * `row`. A multiply-add counts as two. */
double bench_fma_peak(const nib_cpu_pool *pool, const char *row);

/* `rounds` times 16 * lanes multiply-adds of vectors; returns the number of float operations. */
double bench_fma_scalar(size_t rounds);
double bench_fma_avx2(size_t rounds);
double bench_fma_avx512(size_t rounds);

#endif
