/* SPDX-License-Identifier: Apache-2.0
 *
 * com.microsoft.MatMulNBitsQkv: Q, K, V = RMSNorm(A + skip, norm_scale) times three nbits matrices;
 * optionally A + skip. Source: the operator's specification in ONNX Runtime's ContribOperators.md.
 */
#include "operator.h"

#include "base/error.h"

nib_status nib_cpu_state_qkv(nib_cpu_statement *s, nib_error *error)
{
    static const char *const prefixes[] = {"q", "k", "v"};
    static const char *const outputs[] = {"Q", "K", "V"};
    const double epsilon = 9.999999974752427e-7; /* float32(1e-6) */
    size_t K, Nq, Nkv, block;
    int bits;
    NIB_TRY(nib_cpu_size_attribute(s, "K", 0, 1, &K, error));
    NIB_TRY(nib_cpu_size_attribute(s, "Nq", 0, 1, &Nq, error));
    NIB_TRY(nib_cpu_size_attribute(s, "Nkv", 0, 1, &Nkv, error));
    NIB_TRY(nib_cpu_state_blocks(s, &bits, &block, error));
    NIB_TRY(nib_cpu_state_accuracy(s, error));
    NIB_TRY(nib_cpu_state_activations(s, K, error));
    NIB_TRY(nib_cpu_state_norm(s, false, epsilon, error));
    for (size_t i = 0; i < 3; i++) {
        const size_t N = i == 0 ? Nq : Nkv;
        NIB_TRY(nib_cpu_state_nbits(s, prefixes[i], N, bits, block, error));
        NIB_TRY(nib_cpu_state_output(s, i, outputs[i], N, error));
    }
    return NIB_OK;
}
