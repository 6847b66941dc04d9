/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans as callers see them: making one, and reading it.
 */
#include "plan/plan.h"

#include "plan/planner.h"

static bool lacks_a_list(const nib_request *request)
{
    return (request->tensor_count > 0 && !request->tensors) ||
           (request->attribute_count > 0 && !request->attributes) ||
           (request->argument_count > 0 && !request->arguments) ||
           (request->tunable_count > 0 && !request->tunables) ||
           (request->want_count > 0 && !request->want);
}

nib_status nib_plan_create(const nib_package *package, const nib_request *request,
                           const nib_caps *caps, nib_plan **out, nib_error *error)
{
    *out = NULL;
    if (!package || !request || !caps)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "a plan needs a package, a request and capabilities");
    if (lacks_a_list(request))
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "a list of the request is NULL, but its count is not 0");
    nib_error inner = {0};
    nib_status status = nib_plan_try(package, request, caps, false, out, &inner);
    if (status == NIB_EVAL)
        status = nib_planner_blame(package, request, caps, &inner);
    if (status != NIB_OK && error && error->code == NIB_OK)
        *error = inner;
    return status;
}

/* ---- reading a plan ---- */

const char *nib_plan_variant(const nib_plan *plan)
{
    return plan->variant_id;
}

size_t nib_plan_pass_count(const nib_plan *plan)
{
    return plan->pass_count;
}

const char *nib_plan_pass_id(const nib_plan *plan, size_t pass)
{
    return pass < plan->pass_count ? plan->passes[pass].id.data : NULL;
}

size_t nib_plan_tensor_count(const nib_plan *plan)
{
    return plan->tensor_count;
}

nib_plan_tensor_info nib_plan_tensor_at(const nib_plan *plan, size_t index)
{
    if (index >= plan->tensor_count)
        return (nib_plan_tensor_info){0};
    const nib_plan_tensor *tensor = &plan->tensors[index];
    return (nib_plan_tensor_info){.key = tensor->port->key.data,
                                  .onnx = tensor->port->onnx.data,
                                  .role = tensor->port->role,
                                  .desc = tensor->desc};
}

const nib_plan_tensor *nib_plan_find_tensor(const nib_plan *plan, nib_str name)
{
    const size_t port = nib_contract_find_port(plan->contract, name);
    for (size_t i = 0; i < plan->tensor_count; i++) {
        if (plan->tensors[i].port == plan->contract->ports + port)
            return &plan->tensors[i];
    }
    return NULL;
}

double nib_plan_attribute(const nib_plan *plan, const char *name, double fallback)
{
    const nib_value *value = nib_map_get_cstr(plan->attributes, name);
    if (!value)
        return fallback;
    if (value->type == NIB_VALUE_BOOL)
        return value->as.boolean ? 1 : 0;
    return nib_value_is_number(*value) ? value->as.number : fallback;
}

const char *nib_plan_attribute_string(const nib_plan *plan, const char *name)
{
    const nib_value *value = nib_map_get_cstr(plan->attributes, name);
    return value && value->type == NIB_VALUE_STRING ? value->as.string.data : NULL;
}
