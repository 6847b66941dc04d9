/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch buffers of the chosen variant (package format 2.A.12).
 */
#include <stdio.h>

#include "base/checked.h"
#include "plan/planner.h"
#include "tensor/tensor.h"

static nib_status size_intermediate(nib_planner *p, const nib_intermediate *from,
                                    const nib_scope *scope, nib_plan_intermediate *to)
{
    char what[200];
    snprintf(what, sizeof what, "intermediate '%.*s'", NIB_STR_ARG(from->id));
    if (p->all_empty) {
        to->desc.rank = 1;
        return NIB_OK;
    }
    NIB_TRY(nib_planner_eval_shape(p, &from->shape, scope, what, true, &to->desc));
    if (to->desc.rank == 0)
        return nib_fail(p->error, NIB_EVAL, "%s: the shape is empty", what);
    size_t elements = 0;
    if (nib_tensor_desc_elements(&to->desc, &elements, NULL) != NIB_OK ||
        !nib_size_mul(elements, nib_dtype_storage_bytes(from->dtype), &to->bytes))
        return nib_fail(p->error, NIB_LIMIT, "%s is too large", what);
    return NIB_OK;
}

nib_status nib_planner_size_intermediates(nib_planner *p, const nib_scope *scope)
{
    const nib_variant *variant = p->plan->variant;
    const size_t count = variant->intermediate_count;
    p->plan->intermediates = NIB_ARENA_ARRAY(p->arena, nib_plan_intermediate, count);
    if (!p->plan->intermediates)
        return nib_fail_memory(p->error);
    p->plan->intermediate_count = count;
    for (size_t i = 0; i < count; i++) {
        const nib_intermediate *from = &variant->intermediates[i];
        nib_plan_intermediate *to = &p->plan->intermediates[i];
        *to = (nib_plan_intermediate){
            .id = from->id, .dtype = from->dtype, .zero_init = from->zero_init};
        to->desc.dtype = from->dtype;
        const nib_status status = size_intermediate(p, from, scope, to);
        if (status != NIB_OK) {
            nib_error_path_prefix(p->error, "variants[%zu].intermediates[%zu].shape",
                                  (size_t)(variant - p->contract->variants), i);
            return status;
        }
    }
    return NIB_OK;
}
