/* SPDX-License-Identifier: Apache-2.0
 *
 * The AMX row: prefill with tiles. Float32 with whole-number weights is here (see amx_bf16.h), with
 * codebooks in amx_codebook.c, int8 in amx_int8.c. For the rest it is the AVX-512 VNNI row.
 */
#include "vec_avx512.h"

#include <math.h>

#include "kernels.h"

/* A slice of the activations and a panel fit the first-level cache. */
enum { TILE_N = 128, TILE_K = 128 };
#define WEIGHT_PARTS 1
#include "amx_bf16.h"

DEFINE_AMX_GEMM(nib_cpu_amx_gemm);

const nib_cpu_row nib_cpu_amx = {
    .name = "amx",
    .needs = NIB_CPU_AMX | NIB_CPU_AVX512_VNNI | NIB_CPU_AVX512 | NIB_CPU_AVX2,
    .normalize = nib_avx512_normalize,
    .finish = nib_avx512_finish,
    .dequantize = nib_avx2_dequantize,
    .gemv = {&nib_cpu_avx512_gemv, &nib_cpu_avx2_rows_gemv},
    .gemm = {&nib_cpu_amx_gemm, &nib_cpu_amx_codebook_gemm, &nib_cpu_avx512_gemm},
    .gemv8 = &nib_cpu_avx512vnni_gemv8,
    .gemm8 = &nib_cpu_amx_gemm8,
};
