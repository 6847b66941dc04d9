/* SPDX-License-Identifier: Apache-2.0
 *
 * The AMX row: float32 prefill with weights of a codebook.
 */
#include "vec_avx512.h"

#include <math.h>

#include "kernels.h"

enum { TILE_N = 32, TILE_K = 128 };
#define WEIGHT_PARTS 3
#include "amx_bf16.h"

DEFINE_AMX_GEMM(nib_cpu_amx_codebook_gemm);
