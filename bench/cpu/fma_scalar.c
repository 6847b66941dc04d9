/* SPDX-License-Identifier: Apache-2.0 */
typedef float four __attribute__((vector_size(16)));

#define VECTOR       four
#define FMA(a, b, c) ((a) * (b) + (c))
#define FUNCTION     bench_fma_scalar
enum { LANES = 4, CHAINS = 12 };

#include "fma.h"
