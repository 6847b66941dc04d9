/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt at a plan, from the request to the passes.
 */
#include <stdio.h>

#include "base/checked.h"
#include "plan/planner.h"
#include "tensor/tensor.h"

/* ---- the tensor table ---- */

static nib_status add_tensor(nib_planner *p, const nib_operand *operand)
{
    nib_plan *plan = p->plan;
    nib_plan_tensor *tensor = &plan->tensors[plan->tensor_count];
    *tensor = (nib_plan_tensor){.port = operand->port,
                                .desc = operand->desc,
                                .storage = operand->storage,
                                .packed = operand->port->packed,
                                .destination = operand->given && operand->port->role != NIB_INPUT};
    NIB_TRY(nib_tensor_desc_elements(&tensor->desc, &tensor->elements, p->error));
    NIB_TRY(nib_tensor_desc_bytes(&tensor->desc, &tensor->host_bytes, p->error));
    const bool fits = tensor->packed
                          ? nib_size_align(tensor->elements, 4, &tensor->gpu_bytes)
                          : nib_size_mul(tensor->elements, nib_dtype_storage_bytes(tensor->storage),
                                         &tensor->gpu_bytes);
    if (!fits)
        return nib_fail(p->error, NIB_LIMIT, "%s is too large", nib_port_label(operand->port).text);
    plan->tensor_count++;
    return NIB_OK;
}

/* Inputs given in port order, then produced outputs in output order; an inout tensor stands once,
 * among the inputs. */
static nib_status list_tensors(nib_planner *p)
{
    p->plan->tensors = NIB_ARENA_ARRAY(p->arena, nib_plan_tensor, p->contract->port_count);
    if (!p->plan->tensors)
        return nib_fail_memory(p->error);
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        if (operand->given && operand->port->role != NIB_OUTPUT)
            NIB_TRY(add_tensor(p, operand));
    }
    for (size_t i = 0; i < p->contract->output_count; i++) {
        const nib_operand *operand = &p->operands[p->contract->outputs[i]];
        if (operand->produced && !(operand->given && operand->port->role == NIB_INOUT))
            NIB_TRY(add_tensor(p, operand));
    }
    return NIB_OK;
}

/* True when there is an output and none has an element (format 7.7). */
static bool outputs_are_empty(const nib_plan *plan)
{
    size_t outputs = 0, elements = 0;
    for (size_t i = 0; i < plan->tensor_count; i++) {
        if (plan->tensors[i].port->role == NIB_INPUT)
            continue;
        outputs++;
        elements += plan->tensors[i].elements != 0;
    }
    return outputs > 0 && elements == 0;
}

/* ---- making a plan ---- */

static nib_status derive_manifest(nib_planner *p, nib_scope *scope)
{
    nib_value device;
    NIB_TRY(nib_caps_view(p->caps, p->arena, &device, p->error));
    NIB_TRY(nib_planner_build_base(p, device, true));
    NIB_TRY(nib_planner_build_tunables(p, NULL, &p->tunables));
    p->derive = nib_map_new(p->arena, p->contract->derive.count);
    if (!p->derive)
        return nib_fail_memory(p->error);
    p->plan->derive = p->derive;
    p->plan->tunables = p->tunables;
    NIB_TRY(nib_planner_open_scope(p, &(nib_level){.derive = p->derive, .tunables = p->tunables},
                                   scope));
    const nib_status status = nib_planner_derive(p, &p->contract->derive, scope, p->derive);
    if (status != NIB_OK)
        nib_error_path_prefix(p->error, "derive");
    return status;
}

/* A relaxed plan survives a derive that fails: it then has no variant. */
static nib_status reject_all(nib_planner *p, const nib_error *inner)
{
    char reason[1024];
    snprintf(reason, sizeof reason, "%.200s failed: %.700s", inner->path, inner->message);
    const nib_str text = nib_arena_str(p->arena, reason, strlen(reason));
    nib_plan *plan = p->plan;
    plan->rejected = NIB_ARENA_ARRAY(p->arena, nib_rejection, p->contract->variant_count);
    if (!text.data || !plan->rejected)
        return nib_fail_memory(p->error);
    for (size_t i = 0; i < p->contract->variant_count; i++)
        plan->rejected[plan->rejected_count++] = (nib_rejection){p->contract->variants[i].id, text};
    return NIB_OK;
}

static nib_status derive_and_select(nib_planner *p)
{
    nib_scope scope;
    nib_error inner = {0};
    nib_error *outer = p->error;
    p->error = &inner;
    const nib_status status = derive_manifest(p, &scope);
    p->error = outer;
    if (status == NIB_OK)
        return nib_planner_select(p, &scope);
    if (status == NIB_EVAL && p->request->relaxed)
        return reject_all(p, &inner);
    if (outer && outer->code == NIB_OK)
        *outer = inner;
    return status;
}

static nib_status make_plan(nib_planner *p)
{
    NIB_TRY(nib_planner_read_request(p));
    NIB_TRY(nib_planner_check_inputs(p));
    NIB_TRY(nib_planner_check_attributes(p));
    NIB_TRY(nib_planner_check_arguments(p));
    NIB_TRY(nib_planner_check_dtypes(p));
    NIB_TRY(nib_planner_infer_outputs(p));
    NIB_TRY(nib_planner_check_dtypes(p));
    NIB_TRY(list_tensors(p));
    p->all_empty = outputs_are_empty(p->plan);
    NIB_TRY(derive_and_select(p));
    if (!p->plan->variant)
        return NIB_OK;
    p->plan->variant_id = nib_arena_cstr(p->arena, p->plan->variant->id);
    if (!p->plan->variant_id)
        return nib_fail_memory(p->error);
    return nib_planner_build_variant(p);
}

nib_status nib_plan_try(const nib_package *package, const nib_request *request,
                        const nib_caps *caps, bool trial, nib_plan **out, nib_error *error)
{
    *out = NULL;
    const nib_allocator *allocator = &package->context->allocator;
    nib_plan *plan = nib_allocate(allocator, 1, sizeof *plan);
    if (!plan)
        return nib_fail_memory(error);
    plan->package = package;
    plan->contract = package->contract;
    plan->context = package->context;
    plan->relaxed = request->relaxed;
    nib_arena_init(&plan->arena, allocator, 0);
    nib_planner p = {.plan = plan,
                     .arena = &plan->arena,
                     .error = error,
                     .contract = package->contract,
                     .request = request,
                     .caps = caps,
                     .trial = trial};
    nib_arena_init(&p.scratch, allocator, 0);
    nib_arena_init(&p.eval, allocator, 0);
    const nib_status status = make_plan(&p);
    nib_arena_free(&p.scratch);
    nib_arena_free(&p.eval);
    if (status != NIB_OK) {
        nib_plan_free(plan);
        return status;
    }
    *out = plan;
    return NIB_OK;
}

void nib_plan_free(nib_plan *plan)
{
    if (!plan)
        return;
    const nib_context *context = plan->context;
    nib_arena_free(&plan->arena);
    nib_release(&context->allocator, plan, 1, sizeof *plan);
}
