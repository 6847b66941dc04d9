/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#define VECTOR       __m512
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FUNCTION     bench_fma_avx512
enum { LANES = 16, CHAINS = 24 };

#include "fma.h"
