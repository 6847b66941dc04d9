/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/blocks.h"

#include "nibble/quant.h"

/* The binary32 values of bitsandbytes and of ONNX Runtime's MatMulBnb4. FP4: sign in bit 3, and the
 * magnitudes 0, 1/16, 8, 12, 4, 6, 2, 3 divided by 12. NF4: the quantiles of the QLoRA paper. */
const float nib_bnb4_codebooks[NIB_BNB4_TYPES][16] = {
    [NIB_BNB4_FP4] = {0.0f, 5.208333333e-03f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f,
                      0.25f, -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f,
                      -0.16666667f, -0.25f},
    [NIB_BNB4_NF4] = {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
                      -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
                      0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
                      0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
                      0.7229568362236023f, 1.0f},
};

const float *nib_bnb4_codebook(int quant_type)
{
    if (quant_type < 0 || quant_type >= NIB_BNB4_TYPES)
        return NULL;
    return nib_bnb4_codebooks[quant_type];
}
