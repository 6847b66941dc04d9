/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-VNNI row: the float32 kernels of the avx2 row, and int8 kernels with one instruction for
 * four byte products.
 */
#include "vec_avx2.h"

#include "kernels.h"

/* 8 sums of four products. */
typedef __m256i byte_sums;

static inline byte_sums byte_sums_zero(void)
{
    return _mm256_setzero_si256();
}

static inline byte_sums byte_sums_add(byte_sums s, __m256i codes, __m256i q)
{
    /* _mm256_dpbusd_avx_epi32; gcc 12 copies the sums around it. */
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(codes), "xm"(q));
    return s;
}

static inline __m256i byte_sums_total(byte_sums s)
{
    return s;
}

#include "int8_256.h"

const nib_cpu_row nib_cpu_avxvnni = {
    .name = "avxvnni",
    .needs = NIB_CPU_AVX_VNNI | NIB_CPU_AVX2,
    .normalize = nib_avx2_normalize,
    .finish = nib_avx2_finish,
    .dequantize = nib_avx2_dequantize,
    .gemv = {&nib_cpu_avx2_gemv, &nib_cpu_avx2_words_gemv, &nib_cpu_avx2_rows_gemv},
    .gemm = {&nib_cpu_avx2_gemm},
    .gemv8 = &gemv8,
    .gemm8 = &gemm8,
};
