/* SPDX-License-Identifier: Apache-2.0
 *
 * The two 4-bit weight formats of the operators, and quantizers for them.
 *
 * nbits (MatMulNBits*): rows of blocks along K. packed uint8 [N, blocks, blob], blob = block_size * bits / 8,
 *   codes low bits first; scales [N, blocks]; value = (code - 2^(bits-1)) * scale. blocks = ceil(K / block_size); codes
 *   past K are padding. Source: ONNX Runtime contrib operator MatMulNBits, symmetric form.
 * bnb4 (MatMulBnb4): blocks over the flattened [N*K] weight, crossing rows. packed uint8 [ceil(N*K/2)], the even flat
 *   index in the high nibble; absmax [ceil(N*K/block_size)]; value = codebook[code] * absmax. quant_type 0: FP4, 1: NF4.
 *   Source: bitsandbytes, ONNX Runtime contrib operator MatMulBnb4.
 */
#ifndef NIBBLE_QUANT_H
#define NIBBLE_QUANT_H

#include <stdint.h>

#include "nibble/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The 16 values of a codebook; NULL unless quant_type is 0 (FP4) or 1 (NF4). */
NIB_API const float *nib_bnb4_codebook(int quant_type);

/* What quantizing cost, against the float weights. */
typedef struct nib_quant_error {
    double max_abs, rms, relative; /* relative: ||w - q|| / ||w||, 0 for a zero matrix */
} nib_quant_error;

/* Quantize weight float32 or float16 [N,K]; scales get scale_dtype (float32 or float16), rounded before the codes are
 * chosen. bits 2, 4 or 8; block_size a power of two from 16 to 2^20. errors: INVALID_ARGUMENT (also a weight that is not
 * finite), OUT_OF_MEMORY | owns: *packed, *scales (nib_tensor_free); loss may be NULL */
NIB_API NIB_CHECKED nib_status nib_nbits_quantize(nib_context *context, nib_tensor *weight,
                                                  int bits, int64_t block_size,
                                                  nib_dtype scale_dtype, nib_tensor **packed,
                                                  nib_tensor **scales, nib_quant_error *loss,
                                                  nib_error *error);
/* The same for bnb4. The absmax of a last, partial block covers its real elements only. */
NIB_API NIB_CHECKED nib_status nib_bnb4_quantize(nib_context *context, nib_tensor *weight,
                                                 int quant_type, int64_t block_size,
                                                 nib_dtype absmax_dtype, nib_tensor **packed,
                                                 nib_tensor **absmax, nib_quant_error *loss,
                                                 nib_error *error);
/* Back to float32 [N,K]. */
NIB_API NIB_CHECKED nib_status nib_nbits_dequantize(nib_context *context, nib_tensor *packed,
                                                    nib_tensor *scales, int bits, int64_t K,
                                                    nib_tensor **weight, nib_error *error);
NIB_API NIB_CHECKED nib_status nib_bnb4_dequantize(nib_context *context, nib_tensor *packed,
                                                   nib_tensor *absmax, int quant_type,
                                                   int64_t block_size, int64_t N, int64_t K,
                                                   nib_tensor **weight, nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
