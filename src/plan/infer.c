/* SPDX-License-Identifier: Apache-2.0
 *
 * Output inference (package format 7.3): which outputs a call produces, their shapes and dtypes. It
 * assumes the default device and sees only the tensors that the request describes.
 */
#include <string.h>

#include "plan/planner.h"
#include "tensor/tensor.h"

/* ---- the derives that output shapes need ---- */

static void mark_names(const nib_program *program, const nib_derives *derives, bool *needed)
{
    size_t count = 0;
    const nib_free_name *names = nib_jinja_free_names(program, &count);
    for (size_t n = 0; n < count; n++) {
        for (size_t i = 0; i < derives->count; i++) {
            if (nib_str_eq(derives->items[i].name, names[n].name))
                needed[i] = true;
        }
    }
}

static void mark_shape(const nib_shape_rule *rule, const nib_derives *derives, bool *needed)
{
    for (size_t i = 0; i < rule->count; i++)
        mark_names(rule->items[i].program, derives, needed);
}

static void mark_node(const nib_derive_node *node, const nib_derives *derives, bool *needed)
{
    if (node->kind == NIB_DERIVE_EXPR)
        mark_names(node->expr.program, derives, needed);
    for (size_t i = 0; i < node->part_count; i++)
        mark_names(node->parts[i].program, derives, needed);
}

/* An entry sees only earlier ones, so one walk from the end finds all that are needed. */
static void mark_needed(const nib_planner *p, bool *needed)
{
    const nib_derives *derives = &p->contract->derive;
    for (size_t i = 0; i < p->contract->output_count; i++)
        mark_shape(&p->contract->ports[p->contract->outputs[i]].shape, derives, needed);
    for (size_t i = derives->count; i-- > 0;) {
        if (needed[i])
            mark_node(&derives->items[i].node, derives, needed);
    }
}

/* Errors are swallowed: the name is then missing, and a shape that reads it says so. */
static nib_status derive_needed(nib_planner *p, const nib_scope *scope, nib_map *into)
{
    const nib_derives *derives = &p->contract->derive;
    bool *needed = NIB_ARENA_ARRAY(&p->scratch, bool, derives->count);
    if (!needed)
        return nib_fail_memory(p->error);
    mark_needed(p, needed);
    nib_error *outer = p->error;
    for (size_t i = 0; i < derives->count; i++) {
        if (!needed[i])
            continue;
        nib_value value;
        p->error = NULL;
        const nib_status status = nib_planner_eval_node(p, &derives->items[i].node, scope, &value);
        p->error = outer;
        if (status == NIB_OUT_OF_MEMORY ||
            (status == NIB_OK && !nib_map_set(p->arena, into, derives->items[i].name, value)))
            return nib_fail_memory(outer);
    }
    return NIB_OK;
}

/* ---- dtypes ---- */

static nib_dtype dtype_of_onnx_code(double code)
{
    for (int dtype = NIB_DTYPE_NONE + 1; dtype < NIB_DTYPE_COUNT; dtype++) {
        if ((double)nib_dtype_onnx_code((nib_dtype)dtype) == code)
            return (nib_dtype)dtype;
    }
    return NIB_DTYPE_NONE;
}

/* The dtype that a tensor of the request gave the port's type variable; the last one decides. */
static nib_dtype bound_dtype(const nib_planner *p, const nib_port *port)
{
    nib_dtype found = NIB_DTYPE_NONE;
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        if (operand->given && operand->desc.dtype != NIB_DTYPE_NONE &&
            nib_str_eq(operand->port->dtype_text, port->dtype_text))
            found = operand->logical;
    }
    return found;
}

/* Cast-like operators of the ONNX domain name their result in a required attribute `to`. */
static nib_dtype cast_dtype(const nib_planner *p)
{
    if (!nib_str_is(p->contract->domain, "ai.onnx"))
        return NIB_DTYPE_NONE;
    for (size_t i = 0; i < p->contract->attribute_count; i++) {
        const nib_attribute *attribute = &p->contract->attributes[i];
        const nib_value *value = nib_map_get(p->plan->attributes, attribute->name);
        if (attribute->required && nib_str_is(attribute->name, "to") && value &&
            nib_value_is_number(*value))
            return dtype_of_onnx_code(value->as.number);
    }
    return NIB_DTYPE_NONE;
}

static nib_dtype first_input_dtype(const nib_planner *p, const nib_port *port)
{
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        if (operand->port->role != NIB_OUTPUT && operand->given &&
            nib_port_allows(port, operand->storage))
            return operand->storage;
    }
    return NIB_DTYPE_NONE;
}

static nib_status infer_dtype(nib_planner *p, const nib_operand *operand, nib_dtype *out)
{
    const nib_port *port = operand->port;
    if (operand->given && operand->desc.dtype != NIB_DTYPE_NONE)
        *out = operand->desc.dtype;
    else if (port->dtype_text.len == 0)
        *out = NIB_FLOAT32;
    else if (port->dtype != NIB_DTYPE_NONE)
        *out = port->dtype;
    else
        *out = bound_dtype(p, port);
    if (*out != NIB_DTYPE_NONE)
        return NIB_OK;
    *out = cast_dtype(p);
    if (*out != NIB_DTYPE_NONE) {
        if (nib_port_allows(port, *out))
            return NIB_OK;
        return nib_fail(p->error, NIB_REQUEST,
                        "attribute 'to' asks for %s, which %s does not allow", nib_dtype_name(*out),
                        nib_port_label(port).text);
    }
    *out = port->variable && port->variable->dtype_count == 1 ? port->variable->dtypes[0]
                                                              : first_input_dtype(p, port);
    if (*out != NIB_DTYPE_NONE)
        return NIB_OK;
    return nib_fail(p->error, NIB_REQUEST,
                    "the dtype of %s does not follow from the inputs; give its destination",
                    nib_port_label(port).text);
}

/* ---- shapes ---- */

static bool same_dims(const nib_tensor_desc *a, const nib_tensor_desc *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* A destination has the shape that the kernel will write (format 7.4 leaves this to kernels). */
static nib_status check_destination(nib_planner *p, const nib_operand *operand,
                                    const nib_tensor_desc *inferred)
{
    if (same_dims(&operand->desc, inferred))
        return NIB_OK;
    char have[NIB_DESC_TEXT_BYTES], want[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc shown = operand->desc;
    shown.dtype = inferred->dtype;
    nib_tensor_desc_format(&shown, have, sizeof have);
    nib_tensor_desc_format(inferred, want, sizeof want);
    return nib_fail(p->error, NIB_REQUEST, "%s is given as %s, but the call makes %s",
                    nib_port_label(operand->port).text, have, want);
}

static nib_status check_size(nib_planner *p, const nib_operand *operand,
                             const nib_tensor_desc *desc)
{
    size_t elements = 0, bytes = 0;
    if (nib_tensor_desc_elements(desc, &elements, NULL) == NIB_OK && elements <= (size_t)1 << 53 &&
        nib_tensor_desc_bytes(desc, &bytes, NULL) == NIB_OK)
        return NIB_OK;
    char text[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(desc, text, sizeof text);
    return nib_fail(p->error, NIB_LIMIT, "%s would be %s: more than 2^53 elements",
                    nib_port_label(operand->port).text, text);
}

static nib_status infer_shape(nib_planner *p, const nib_scope *scope, const nib_port *port,
                              nib_tensor_desc *desc)
{
    nib_error inner = {0}, *outer = p->error;
    p->error = &inner;
    const nib_status status =
        nib_planner_eval_shape(p, &port->shape, scope, nib_port_label(port).text, false, desc);
    p->error = outer;
    return status == NIB_OK ? NIB_OK : nib_planner_explain_shape(p, scope, &port->shape, &inner);
}

static nib_status infer_output(nib_planner *p, const nib_scope *scope, nib_operand *operand)
{
    const nib_port *port = operand->port;
    nib_tensor_desc desc = operand->desc;
    NIB_TRY(infer_dtype(p, operand, &desc.dtype));
    if (port->shape.given) {
        NIB_TRY(infer_shape(p, scope, port, &desc));
        NIB_TRY(check_size(p, operand, &desc));
        if (operand->given)
            NIB_TRY(check_destination(p, operand, &desc));
    }
    operand->desc = desc;
    operand->produced = true;
    return NIB_OK;
}

/* The list dialect makes every optional output that has a shape; the map dialect only those asked
 * for (2.B.5). */
static bool is_produced(const nib_planner *p, const nib_operand *operand)
{
    if (!operand->port->output_optional || operand->wanted)
        return true;
    return p->contract->dialect == NIB_DIALECT_LIST && operand->port->shape.given;
}

static nib_operand *output_at(const nib_planner *p, size_t index)
{
    return &p->operands[p->contract->outputs[index]];
}

/* Before anything is evaluated: an output without a shape rule takes its destination's. */
static nib_status check_destinations(nib_planner *p)
{
    for (size_t i = 0; i < p->contract->output_count; i++) {
        const nib_operand *operand = output_at(p, i);
        if (is_produced(p, operand) && !operand->port->shape.given && !operand->given)
            return nib_fail(p->error, NIB_REQUEST,
                            "%s has no shape rule, so its destination must be given",
                            nib_port_label(operand->port).text);
    }
    return NIB_OK;
}

static nib_status infer_outputs(nib_planner *p)
{
    nib_value device;
    NIB_TRY(nib_caps_default_view(p->arena, &device, p->error));
    NIB_TRY(nib_planner_build_base(p, device, false));
    NIB_TRY(nib_planner_build_tunables(p, NULL, &p->tunables));
    nib_map *derive = nib_map_new(p->arena, 8);
    if (!derive)
        return nib_fail_memory(p->error);
    nib_scope scope;
    NIB_TRY(
        nib_planner_open_scope(p, &(nib_level){.derive = derive, .tunables = p->tunables}, &scope));
    scope.device_has_f16 = false;
    NIB_TRY(derive_needed(p, &scope, derive));
    for (size_t i = 0; i < p->contract->output_count; i++) {
        nib_operand *operand = output_at(p, i);
        if (is_produced(p, operand))
            NIB_TRY(infer_output(p, &scope, operand));
    }
    return NIB_OK;
}

nib_status nib_planner_infer_outputs(nib_planner *p)
{
    NIB_TRY(check_destinations(p));
    nib_arena *kept = p->arena;
    p->arena = &p->scratch; /* nothing evaluated here stays */
    const nib_status status = infer_outputs(p);
    p->arena = kept;
    return status;
}
