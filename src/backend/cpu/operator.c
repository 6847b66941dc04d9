/* SPDX-License-Identifier: Apache-2.0 */
#include "operator.h"

#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/blocks.h"

static const nib_cpu_operator operators[] = {
    {"com.microsoft.MatMulNBitsQkv", nib_cpu_state_qkv},
    {"com.microsoft.MatMulNBitsMlp", nib_cpu_state_mlp},
    {"com.microsoft.MatMulBnb4", nib_cpu_state_bnb4},
};

static void clear_slots(nib_cpu_slots *slots)
{
    slots->a = slots->skip = slots->gain = slots->residual = NIB_CPU_NO_TENSOR;
    for (size_t i = 0; i < NIB_CPU_MAX_WEIGHTS; i++)
        slots->codes[i] = slots->scales[i] = slots->bias[i] = slots->out[i] = NIB_CPU_NO_TENSOR;
}

nib_status nib_cpu_match(const nib_plan *plan, nib_cpu_statement *s, nib_error *error)
{
    *s = (nib_cpu_statement){.plan = plan};
    clear_slots(&s->slots);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (nib_str_is(plan->contract->op_id, operators[i].op))
            return operators[i].state(s, error);
    }
    return nib_fail(
        error, NIB_UNSUPPORTED, "the cpu backend has no operator %.*s; it has %s, %s and %s",
        NIB_STR_ARG(plan->contract->op_id), operators[0].op, operators[1].op, operators[2].op);
}

nib_status nib_cpu_size_attribute(const nib_cpu_statement *s, const char *name, double fallback,
                                  size_t least, size_t *out, nib_error *error)
{
    const double value = nib_plan_attribute(s->plan, name, fallback);
    if (!(value >= (double)least && value <= 0x1p53) || value != floor(value))
        return nib_fail(error, NIB_REQUEST,
                        "attribute %s is %.17g: it must be an integer of at least %zu", name, value,
                        least);
    *out = (size_t)value;
    return NIB_OK;
}

static nib_dtype activation_dtype(const nib_cpu_statement *s)
{
    return s->problem.half ? NIB_FLOAT16 : NIB_FLOAT32;
}

nib_status nib_cpu_state_tensor(const nib_cpu_statement *s, const char *name, bool optional,
                                bool bytes, size_t elements, size_t *slot, nib_error *error)
{
    *slot = NIB_CPU_NO_TENSOR;
    const nib_plan_tensor *tensor = nib_plan_find_tensor(s->plan, nib_str_from(name));
    if (!tensor)
        return optional ? NIB_OK : nib_fail(error, NIB_REQUEST, "%s is missing", name);
    char text[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(&tensor->desc, text, sizeof text);
    const nib_dtype dtype = bytes ? NIB_UINT8 : activation_dtype(s);
    if (tensor->desc.dtype != dtype)
        return nib_fail(error, NIB_REQUEST, "%s is %s: the element type must be %s", name, text,
                        nib_dtype_name(dtype));
    if (tensor->elements != elements)
        return nib_fail(error, NIB_REQUEST, "%s is %s: it must have %zu elements", name, text,
                        elements);
    *slot = (size_t)(tensor - s->plan->tensors);
    return NIB_OK;
}

nib_status nib_cpu_state_activations(nib_cpu_statement *s, size_t K, nib_error *error)
{
    const nib_plan_tensor *a = nib_plan_find_tensor(s->plan, NIB_STR("A"));
    if (!a)
        return nib_fail(error, NIB_REQUEST, "A is missing");
    char text[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(&a->desc, text, sizeof text);
    if (a->desc.dtype != NIB_FLOAT32 && a->desc.dtype != NIB_FLOAT16)
        return nib_fail(error, NIB_REQUEST, "A is %s: the element type must be float32 or float16",
                        text);
    if (a->desc.rank < 1 || (size_t)a->desc.dims[a->desc.rank - 1] != K)
        return nib_fail(error, NIB_REQUEST, "A is %s: its last axis must be K = %zu", text, K);
    s->problem.half = a->desc.dtype == NIB_FLOAT16;
    s->problem.K = K;
    s->problem.M = a->elements / K;
    s->slots.a = (size_t)(a - s->plan->tensors);
    return NIB_OK;
}

nib_status nib_cpu_state_norm(nib_cpu_statement *s, bool optional, double epsilon, nib_error *error)
{
    const size_t all = s->problem.M * s->problem.K;
    NIB_TRY(nib_cpu_state_tensor(s, "norm_scale", optional, false, s->problem.K, &s->slots.gain,
                                 error));
    NIB_TRY(nib_cpu_state_tensor(s, "skip", true, false, all, &s->slots.skip, error));
    NIB_TRY(nib_cpu_state_tensor(s, "input_skip_bias_sum", true, false, all, &s->slots.residual,
                                 error));
    if (s->slots.skip != NIB_CPU_NO_TENSOR && s->slots.gain == NIB_CPU_NO_TENSOR)
        return nib_fail(error, NIB_REQUEST, "skip is given without norm_scale");
    if (s->slots.residual != NIB_CPU_NO_TENSOR && s->slots.skip == NIB_CPU_NO_TENSOR)
        return nib_fail(error, NIB_REQUEST, "input_skip_bias_sum is asked for without skip");
    s->problem.epsilon = nib_plan_attribute(s->plan, "epsilon", epsilon);
    if (!(s->problem.epsilon >= 0 && s->problem.epsilon < (double)INFINITY))
        return nib_fail(error, NIB_REQUEST,
                        "attribute epsilon is %g: it must be a number of at least 0",
                        s->problem.epsilon);
    return NIB_OK;
}

nib_status nib_cpu_state_blocks(const nib_cpu_statement *s, int *bits, size_t *block,
                                nib_error *error)
{
    size_t width = 0;
    NIB_TRY(nib_cpu_size_attribute(s, "bits", 4, 1, &width, error));
    NIB_TRY(nib_cpu_size_attribute(s, "block_size", 0, 1, block, error));
    if (width > 8 || !nib_nbits_is_width((int)width))
        return nib_fail(error, NIB_REQUEST, "attribute bits is %zu: it must be 2, 4 or 8", width);
    if ((*block & (*block - 1)) != 0)
        return nib_fail(error, NIB_REQUEST,
                        "attribute block_size is %zu: it must be a power of two", *block);
    if (*block * width % 8 != 0)
        return nib_fail(
            error, NIB_REQUEST,
            "attribute block_size is %zu: blocks of %zu-bit codes must fill whole bytes", *block,
            width);
    *bits = (int)width;
    return NIB_OK;
}

/* [N,blocks,blob] or any other shape of that many bytes is not told apart by size alone: check the
 * axes too. */
static nib_status check_codes_shape(const nib_cpu_statement *s, const char *name,
                                    const nib_cpu_weights *w, size_t blob_bytes, nib_error *error)
{
    const nib_tensor_desc *desc = &nib_plan_find_tensor(s->plan, nib_str_from(name))->desc;
    if (desc->rank == 3 && (size_t)desc->dims[0] == w->N && (size_t)desc->dims[1] == w->blocks &&
        (size_t)desc->dims[2] == blob_bytes)
        return NIB_OK;
    char text[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(desc, text, sizeof text);
    return nib_fail(error, NIB_REQUEST, "%s is %s: it must be uint8[%zu,%zu,%zu]", name, text, w->N,
                    w->blocks, blob_bytes);
}

nib_status nib_cpu_state_nbits(nib_cpu_statement *s, const char *prefix, size_t N, int bits,
                               size_t block, nib_error *error)
{
    const size_t which = s->problem.weight_count;
    nib_cpu_weights *w = &s->problem.weights[which];
    *w = nib_cpu_nbits(N, s->problem.K, bits, block, s->problem.half);
    const size_t blob_bytes = block * (size_t)bits / 8;
    char codes[64], scales[64];
    snprintf(codes, sizeof codes, "%s_B", prefix);
    snprintf(scales, sizeof scales, "%s_scales", prefix);
    size_t code_bytes, scale_count;
    if (!nib_size_mul(N, w->blocks, &scale_count) ||
        !nib_size_mul(scale_count, blob_bytes, &code_bytes))
        return nib_fail(error, NIB_LIMIT, "%s: %zu rows of %zu blocks are too many", codes, N,
                        w->blocks);
    NIB_TRY(nib_cpu_state_tensor(s, codes, false, true, code_bytes, &s->slots.codes[which], error));
    NIB_TRY(check_codes_shape(s, codes, w, blob_bytes, error));
    NIB_TRY(
        nib_cpu_state_tensor(s, scales, false, false, scale_count, &s->slots.scales[which], error));
    s->problem.weight_count++;
    return NIB_OK;
}

nib_status nib_cpu_state_output(nib_cpu_statement *s, size_t which, const char *name, size_t N,
                                nib_error *error)
{
    size_t elements;
    if (!nib_size_mul(s->problem.M, N, &elements))
        return nib_fail(error, NIB_LIMIT, "%s: %zu rows of %zu are too many", name, s->problem.M,
                        N);
    return nib_cpu_state_tensor(s, name, false, false, elements, &s->slots.out[which], error);
}

nib_status nib_cpu_state_accuracy(nib_cpu_statement *s, nib_error *error)
{
    size_t level = 0;
    NIB_TRY(nib_cpu_size_attribute(s, "accuracy_level", 0, 0, &level, error));
    if (level > 4)
        return nib_fail(error, NIB_REQUEST, "attribute accuracy_level is %zu: it must be 0 to 4",
                        level);
    s->accuracy_level = (int)level;
    return NIB_OK;
}
