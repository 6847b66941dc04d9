/* SPDX-License-Identifier: Apache-2.0
 *
 * com.microsoft.MatMulBnb4: Y = A times the transposed bnb4 matrix B [N,K]. Source: the operator's
 * specification in ONNX Runtime's ContribOperators.md. B and absmax must have exactly the length
 * that N, K and block_size imply.
 */
#include "operator.h"

#include "base/checked.h"
#include "base/error.h"
#include "tensor/blocks.h"

static nib_status check_flags(const nib_cpu_statement *s, nib_error *error)
{
    const double transposed = nib_plan_attribute(s->plan, "transB", 1);
    if (!(transposed > 0 && transposed < 2))
        return nib_fail(error, NIB_UNSUPPORTED, "attribute transB is %g: only 1 is implemented",
                        transposed);
    const double training = nib_plan_attribute(s->plan, "training_mode", 0);
    if (!(training <= 0 && training >= 0))
        return nib_fail(error, NIB_UNSUPPORTED,
                        "attribute training_mode is %g: only 0 is implemented", training);
    return NIB_OK;
}

static nib_status check_block(size_t block, nib_error *error)
{
    if (block < 16 || (block & (block - 1)) != 0)
        return nib_fail(error, NIB_REQUEST,
                        "attribute block_size is %zu: it must be a power of two of at least 16",
                        block);
    return NIB_OK;
}

nib_status nib_cpu_state_bnb4(nib_cpu_statement *s, nib_error *error)
{
    size_t K, N, block, type, elements;
    NIB_TRY(nib_cpu_size_attribute(s, "K", 0, 1, &K, error));
    NIB_TRY(nib_cpu_size_attribute(s, "N", 0, 1, &N, error));
    NIB_TRY(nib_cpu_size_attribute(s, "block_size", 0, 1, &block, error));
    NIB_TRY(nib_cpu_size_attribute(s, "quant_type", -1, 0, &type, error));
    NIB_TRY(check_block(block, error));
    NIB_TRY(check_flags(s, error));
    if (type >= NIB_BNB4_TYPES)
        return nib_fail(error, NIB_REQUEST,
                        "attribute quant_type is %zu: it must be 0 (FP4) or 1 (NF4)", type);
    if (!nib_size_mul(N, K, &elements))
        return nib_fail(error, NIB_LIMIT, "B: %zu rows of %zu are too many", N, K);
    NIB_TRY(nib_cpu_state_activations(s, K, error));
    s->problem.weights[0] = nib_cpu_bnb4(N, K, (int)type, block, s->problem.half);
    s->problem.weight_count = 1;
    NIB_TRY(nib_cpu_state_tensor(s, "B", false, true, nib_bnb4_packed_bytes(elements),
                                 &s->slots.codes[0], error));
    NIB_TRY(nib_cpu_state_tensor(s, "absmax", false, false, nib_bnb4_block_count(elements, block),
                                 &s->slots.scales[0], error));
    return nib_cpu_state_output(s, 0, "Y", N, error);
}
