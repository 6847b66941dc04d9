/* SPDX-License-Identifier: Apache-2.0
 *
 * From plans to problems. An operator reads tensors and attributes of a plan by their ONNX names;
 * it never looks at the variant. Shapes are checked here again, because a relaxed plan did not
 * check them all.
 */
#ifndef NIB_BACKEND_CPU_OPERATOR_H
#define NIB_BACKEND_CPU_OPERATOR_H

#include "backend/backend.h"
#include "problem.h"

#define NIB_CPU_NO_TENSOR SIZE_MAX

/* Plan indices of the tensors behind a problem's pointers; NIB_CPU_NO_TENSOR: absent. */
typedef struct nib_cpu_slots {
    size_t a, skip, gain, residual;
    size_t codes[NIB_CPU_MAX_WEIGHTS], scales[NIB_CPU_MAX_WEIGHTS];
    size_t bias[NIB_CPU_MAX_WEIGHTS], out[NIB_CPU_MAX_WEIGHTS];
} nib_cpu_slots;

/* An operator on its way from a plan to a problem. */
typedef struct nib_cpu_statement {
    const nib_plan *plan;
    nib_cpu_problem problem; /* everything but the pointers */
    nib_cpu_slots slots;
    int accuracy_level; /* 0 to 4 */
} nib_cpu_statement;

/* Fill a statement; errors: REQUEST (names tensor or attribute and the rule), UNSUPPORTED. */
typedef nib_status (*nib_cpu_state)(nib_cpu_statement *s, nib_error *error);

typedef struct nib_cpu_operator {
    const char *op;
    nib_cpu_state state;
} nib_cpu_operator;

nib_status nib_cpu_state_qkv(nib_cpu_statement *s, nib_error *error);
nib_status nib_cpu_state_mlp(nib_cpu_statement *s, nib_error *error);
nib_status nib_cpu_state_bnb4(nib_cpu_statement *s, nib_error *error);

/* State the operator that the plan's package declares. errors: UNSUPPORTED (names the operators
 * there are) */
nib_status nib_cpu_match(const nib_plan *plan, nib_cpu_statement *s, nib_error *error);

/* ---- for the operators ---- */

/* An attribute that is a size: an integer >= least. */
nib_status nib_cpu_size_attribute(const nib_cpu_statement *s, const char *name, double fallback,
                                  size_t least, size_t *out, nib_error *error);
/* A: float32 or float16, any rank from 1, last axis K. Sets M, K, half and the slot. */
nib_status nib_cpu_state_activations(nib_cpu_statement *s, size_t K, nib_error *error);
/* skip, norm_scale, input_skip_bias_sum, epsilon; the norm may be absent when `optional`. */
nib_status nib_cpu_state_norm(nib_cpu_statement *s, bool optional, double epsilon,
                              nib_error *error);
/* Attributes bits and block_size. */
nib_status nib_cpu_state_blocks(const nib_cpu_statement *s, int *bits, size_t *block,
                                nib_error *error);
/* Append the nbits matrix <prefix>_B, <prefix>_scales with N rows. */
nib_status nib_cpu_state_nbits(nib_cpu_statement *s, const char *prefix, size_t N, int bits,
                               size_t block, nib_error *error);
/* Set out[which] to the tensor `name`, [M,N] in elements. */
nib_status nib_cpu_state_output(nib_cpu_statement *s, size_t which, const char *name, size_t N,
                                nib_error *error);
/* The attribute accuracy_level. */
nib_status nib_cpu_state_accuracy(nib_cpu_statement *s, nib_error *error);
/* The tensor `name` with `elements` elements of the activations' type (or of uint8 when `bytes`). A
 * tensor that is not there gives NIB_CPU_NO_TENSOR when `optional`. */
nib_status nib_cpu_state_tensor(const nib_cpu_statement *s, const char *name, bool optional,
                                bool bytes, size_t elements, size_t *slot, nib_error *error);

#endif
