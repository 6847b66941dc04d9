/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-512 VNNI row: the float32 kernels of the avx512 row, and int8 kernels with one
 * instruction for four byte products.
 */
#include "vec_avx512.h"

#include "kernels.h"

/* 16 sums of four products. */
typedef __m512i byte_sums;

static inline byte_sums byte_sums_zero(void)
{
    return _mm512_setzero_si512();
}

static inline byte_sums byte_sums_add(byte_sums s, __m512i codes, __m512i q)
{
    /* _mm512_dpbusd_epi32; gcc 12 copies the sums around it. */
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(codes), "vm"(q));
    return s;
}

static inline __m512i byte_sums_total(byte_sums s)
{
    return s;
}

#include "int8_512.h"

const nib_cpu_gemv nib_cpu_avx512vnni_gemv8 = {
    .takes = takes_int8,
    .arranged_bytes = arranged8_bytes,
    .arrange = arrange8,
    .decode = decode8,
};

const nib_cpu_row nib_cpu_avx512vnni = {
    .name = "avx512vnni",
    .needs = NIB_CPU_AVX512_VNNI | NIB_CPU_AVX512 | NIB_CPU_AVX2,
    .normalize = nib_avx512_normalize,
    .finish = nib_avx512_finish,
    .dequantize = nib_avx2_dequantize,
    .gemv = {&nib_cpu_avx512_gemv, &nib_cpu_avx2_rows_gemv},
    .gemm = {&nib_cpu_avx512_gemm},
    .gemv8 = &gemv8,
    .gemm8 = &gemm8,
};
