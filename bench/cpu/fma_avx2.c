/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define VECTOR       __m256
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FUNCTION     bench_fma_avx2
enum { LANES = 8, CHAINS = 12 };

#include "fma.h"
