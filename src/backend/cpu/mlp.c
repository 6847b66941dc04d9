/* SPDX-License-Identifier: Apache-2.0
 *
 * com.microsoft.MatMulNBitsMlp: Y = silu(X gate + gate_bias) * (X up + up_bias), where X is A,
 * RMSNorm(A) or RMSNorm(A + skip). Source: the operator's specification in ONNX Runtime's
 * ContribOperators.md.
 */
#include <string.h>

#include "operator.h"

#include "base/error.h"

static nib_status check_activation(const nib_cpu_statement *s, nib_error *error)
{
    const char *activation = nib_plan_attribute_string(s->plan, "activation");
    if (!activation)
        return nib_fail(error, NIB_REQUEST, "attribute activation is missing");
    if (strcmp(activation, "silu") != 0)
        return nib_fail(error, NIB_REQUEST, "attribute activation is \"%s\": it must be \"silu\"",
                        activation);
    return NIB_OK;
}

nib_status nib_cpu_state_mlp(nib_cpu_statement *s, nib_error *error)
{
    size_t K, N, block;
    int bits;
    NIB_TRY(nib_cpu_size_attribute(s, "K", 0, 1, &K, error));
    NIB_TRY(nib_cpu_size_attribute(s, "N", 0, 1, &N, error));
    NIB_TRY(nib_cpu_state_blocks(s, &bits, &block, error));
    NIB_TRY(nib_cpu_state_accuracy(s, error));
    NIB_TRY(check_activation(s, error));
    NIB_TRY(nib_cpu_state_activations(s, K, error));
    NIB_TRY(nib_cpu_state_norm(s, true, 1e-5, error));
    NIB_TRY(nib_cpu_state_nbits(s, "gate", N, bits, block, error));
    NIB_TRY(nib_cpu_state_nbits(s, "up", N, bits, block, error));
    NIB_TRY(nib_cpu_state_tensor(s, "gate_bias", true, false, N, &s->slots.bias[0], error));
    NIB_TRY(nib_cpu_state_tensor(s, "up_bias", true, false, N, &s->slots.bias[1], error));
    s->problem.gated = true;
    return nib_cpu_state_output(s, 0, "Y", N, error);
}
