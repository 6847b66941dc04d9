/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a request: every name must be one the contract declares (package format 7.3, step 1).
 */
#include <math.h>
#include <stdio.h>

#include "plan/planner.h"
#include "value/number.h"

/* ---- texts for messages ---- */

static const char *role_word(const nib_port *port)
{
    return port->role == NIB_OUTPUT ? "output" : "input";
}

nib_label nib_port_label(const nib_port *port)
{
    nib_label label;
    if (port->onnx.len && !nib_str_eq(port->onnx, port->key))
        snprintf(label.text, sizeof label.text, "%s '%.*s' (%.*s)", role_word(port),
                 NIB_STR_ARG(port->key), NIB_STR_ARG(port->onnx));
    else
        snprintf(label.text, sizeof label.text, "%s '%.*s'", role_word(port),
                 NIB_STR_ARG(port->key));
    return label;
}

nib_label nib_value_label(nib_value value)
{
    nib_label label;
    char number[NIB_NUMBER_TEXT_BYTES];
    switch (value.type) {
    case NIB_VALUE_STRING:
        snprintf(label.text, sizeof label.text, "\"%.*s\"", NIB_STR_ARG(value.as.string));
        return label;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        nib_number_format(value.as.number, number);
        snprintf(label.text, sizeof label.text, "%s", number);
        return label;
    case NIB_VALUE_BOOL:
        snprintf(label.text, sizeof label.text, "%s", value.as.boolean ? "true" : "false");
        return label;
    default:
        snprintf(label.text, sizeof label.text, "%s", nib_value_type_name(value));
        return label;
    }
}

/* Fails with "<message>; known: a, b" where `list` appends the known names. */
static nib_status fail_unknown(nib_planner *p, const char *kind, const char *name,
                               void (*list)(const nib_contract *, nib_buf *))
{
    nib_buf known;
    nib_buf_init(&known, p->arena->allocator, 0);
    list(p->contract, &known);
    const nib_status status =
        nib_fail(p->error, NIB_REQUEST, "%.*s has no %s '%s'; it knows %s",
                 NIB_STR_ARG(p->contract->op_id), kind, name, known.len ? known.data : "none");
    nib_buf_free(&known);
    return status;
}

static void append_name(nib_buf *out, nib_str name)
{
    if (out->len)
        nib_buf_puts(out, ", ");
    nib_buf_str(out, name);
}

static void list_ports(const nib_contract *contract, nib_buf *out)
{
    for (size_t i = 0; i < contract->port_count; i++) {
        const nib_port *port = &contract->ports[i];
        append_name(out, port->key);
        if (port->onnx.len && !nib_str_eq(port->key, port->onnx))
            nib_buf_printf(out, " (%.*s)", NIB_STR_ARG(port->onnx));
    }
}

static void list_attributes(const nib_contract *contract, nib_buf *out)
{
    for (size_t i = 0; i < contract->attribute_count; i++)
        append_name(out, contract->attributes[i].name);
}

static void list_arguments(const nib_contract *contract, nib_buf *out)
{
    for (size_t i = 0; i < contract->argument_count; i++)
        append_name(out, contract->arguments[i].name);
}

static void list_tunables(const nib_contract *contract, nib_buf *out)
{
    for (size_t i = 0; i < contract->tunable_count; i++)
        append_name(out, contract->tunables[i].name);
}

/* ---- tensors ---- */

static bool port_has_alias(const nib_port *port, nib_str name)
{
    for (size_t i = 0; i < port->alias_count; i++) {
        if (nib_str_eq(port->aliases[i], name))
            return true;
    }
    return false;
}

size_t nib_contract_find_port(const nib_contract *contract, nib_str name)
{
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_eq(contract->ports[i].key, name))
            return i;
    }
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_eq(contract->ports[i].onnx, name))
            return i;
    }
    for (size_t i = 0; i < contract->port_count; i++) {
        if (port_has_alias(&contract->ports[i], name))
            return i;
    }
    return contract->port_count;
}

static nib_status find_operand(nib_planner *p, const char *name, nib_operand **out)
{
    if (!name)
        return nib_fail(p->error, NIB_INVALID_ARGUMENT, "a tensor of the request has no name");
    const size_t index = nib_contract_find_port(p->contract, nib_str_from(name));
    if (index == p->contract->port_count)
        return fail_unknown(p, "tensor", name, list_ports);
    *out = &p->operands[index];
    return NIB_OK;
}

/* Sizes must stay exact as expression numbers, which are binary64. */
static const size_t max_elements = (size_t)1 << 53;

static nib_status check_desc(nib_planner *p, const nib_operand *operand,
                             const nib_tensor_desc *desc)
{
    const nib_label label = nib_port_label(operand->port);
    if (desc->dtype >= NIB_DTYPE_COUNT ||
        (desc->dtype == NIB_DTYPE_NONE && operand->port->role != NIB_OUTPUT))
        return nib_fail(p->error, NIB_REQUEST, "%s has no dtype", label.text);
    if (desc->rank > NIB_MAX_RANK)
        return nib_fail(p->error, NIB_REQUEST, "%s has rank %u; at most %d is supported",
                        label.text, (unsigned)desc->rank, NIB_MAX_RANK);
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0)
            return nib_fail(p->error, NIB_REQUEST, "%s has the negative dim %lld", label.text,
                            (long long)desc->dims[i]);
    }
    nib_tensor_desc sized = *desc;
    if (sized.dtype == NIB_DTYPE_NONE)
        sized.dtype = NIB_FLOAT32;
    size_t elements = 0, bytes = 0;
    if (nib_tensor_desc_elements(&sized, &elements, NULL) != NIB_OK || elements > max_elements ||
        nib_tensor_desc_bytes(&sized, &bytes, NULL) != NIB_OK)
        return nib_fail(p->error, NIB_REQUEST, "%s is too large: more than 2^53 elements",
                        label.text);
    return NIB_OK;
}

static nib_status read_tensor(nib_planner *p, const nib_named_desc *given)
{
    nib_operand *operand;
    NIB_TRY(find_operand(p, given->name, &operand));
    if (operand->given)
        return nib_fail(p->error, NIB_REQUEST, "%s is named twice",
                        nib_port_label(operand->port).text);
    NIB_TRY(check_desc(p, operand, &given->desc));
    operand->given = true;
    operand->wanted = operand->port->role != NIB_INPUT;
    operand->desc = given->desc;
    return NIB_OK;
}

static nib_status read_wanted(nib_planner *p, const char *name)
{
    nib_operand *operand;
    NIB_TRY(find_operand(p, name, &operand));
    if (operand->port->role == NIB_INPUT)
        return nib_fail(p->error, NIB_REQUEST, "%s is wanted, but it is no output",
                        nib_port_label(operand->port).text);
    operand->wanted = true;
    return NIB_OK;
}

static nib_status read_tensors(nib_planner *p)
{
    const nib_contract *contract = p->contract;
    p->operands = NIB_ARENA_ARRAY(&p->scratch, nib_operand, contract->port_count);
    if (!p->operands)
        return nib_fail_memory(p->error);
    for (size_t i = 0; i < contract->port_count; i++)
        p->operands[i].port = &contract->ports[i];
    for (size_t i = 0; i < p->request->tensor_count; i++)
        NIB_TRY(read_tensor(p, &p->request->tensors[i]));
    for (size_t i = 0; i < p->request->want_count; i++)
        NIB_TRY(read_wanted(p, p->request->want[i]));
    return NIB_OK;
}

/* ---- scalars ---- */

static nib_status read_scalar(nib_planner *p, const nib_named_scalar *scalar, nib_value *out)
{
    switch (scalar->kind) {
    case NIB_SCALAR_NUMBER:
        *out = nib_value_number(scalar->number);
        return NIB_OK;
    case NIB_SCALAR_BOOL:
        *out = nib_value_bool(scalar->boolean);
        return NIB_OK;
    case NIB_SCALAR_STRING:
        break;
    }
    const char *text = scalar->string ? scalar->string : "";
    *out = nib_value_string(nib_arena_str(p->arena, text, strlen(text)));
    return out->as.string.data ? NIB_OK : nib_fail_memory(p->error);
}

/* Put a scalar into `into` under the contract's own `name`. */
static nib_status keep_scalar(nib_planner *p, const nib_named_scalar *scalar, const char *kind,
                              nib_str name, nib_map *given, nib_map *into)
{
    if (nib_map_get(given, name))
        return nib_fail(p->error, NIB_REQUEST, "%s '%s' is given twice", kind, scalar->name);
    nib_value value;
    NIB_TRY(read_scalar(p, scalar, &value));
    if (!nib_map_set(&p->scratch, given, name, value) || !nib_map_set(p->arena, into, name, value))
        return nib_fail_memory(p->error);
    return NIB_OK;
}

static nib_status start_map(nib_planner *p, nib_map **given, nib_map **effective)
{
    *given = nib_map_new(&p->scratch, 0);
    *effective = nib_map_new(p->arena, 8);
    return *given && *effective ? NIB_OK : nib_fail_memory(p->error);
}

static const nib_attribute *find_attribute(const nib_contract *contract, const char *name)
{
    for (size_t i = 0; name && i < contract->attribute_count; i++) {
        if (nib_str_is(contract->attributes[i].name, name))
            return &contract->attributes[i];
    }
    return NULL;
}

/* Defaults overlaid by the request, in the contract's order. */
static nib_status read_attributes(nib_planner *p)
{
    nib_map *given, *effective;
    NIB_TRY(start_map(p, &given, &effective));
    p->plan->attributes = effective;
    for (size_t i = 0; i < p->contract->attribute_count; i++) {
        const nib_attribute *attribute = &p->contract->attributes[i];
        if (attribute->has_default &&
            !nib_map_set(p->arena, effective, attribute->name, attribute->default_value))
            return nib_fail_memory(p->error);
    }
    for (size_t i = 0; i < p->request->attribute_count; i++) {
        const nib_named_scalar *scalar = &p->request->attributes[i];
        const nib_attribute *attribute = find_attribute(p->contract, scalar->name);
        if (!attribute)
            return fail_unknown(p, "attribute", scalar->name ? scalar->name : "", list_attributes);
        NIB_TRY(keep_scalar(p, scalar, "attribute", attribute->name, given, effective));
    }
    return NIB_OK;
}

static const nib_argument *find_argument(const nib_contract *contract, const char *name)
{
    for (size_t i = 0; name && i < contract->argument_count; i++) {
        if (nib_str_is(contract->arguments[i].name, name))
            return &contract->arguments[i];
    }
    return NULL;
}

static nib_status read_arguments(nib_planner *p)
{
    nib_map *given, *effective;
    NIB_TRY(start_map(p, &given, &effective));
    p->plan->arguments = effective;
    for (size_t i = 0; i < p->request->argument_count; i++) {
        const nib_named_scalar *scalar = &p->request->arguments[i];
        const nib_argument *argument = find_argument(p->contract, scalar->name);
        if (!argument)
            return fail_unknown(p, "argument", scalar->name ? scalar->name : "", list_arguments);
        NIB_TRY(keep_scalar(p, scalar, "argument", argument->name, given, effective));
    }
    return NIB_OK;
}

static const nib_tunable *find_in(const nib_tunable *tunables, size_t count, const char *name)
{
    for (size_t i = 0; name && i < count; i++) {
        if (nib_str_is(tunables[i].name, name))
            return &tunables[i];
    }
    return NULL;
}

static const nib_tunable *find_tunable(const nib_contract *contract, const char *name)
{
    const nib_tunable *found = find_in(contract->tunables, contract->tunable_count, name);
    for (size_t i = 0; !found && i < contract->variant_count; i++)
        found = find_in(contract->variants[i].tunables, contract->variants[i].tunable_count, name);
    return found;
}

static bool same_kind(nib_value a, nib_value b)
{
    return a.type == b.type || (nib_value_is_number(a) && nib_value_is_number(b));
}

static nib_status read_tunables(nib_planner *p)
{
    nib_map *given;
    NIB_TRY(start_map(p, &given, &p->overrides));
    for (size_t i = 0; i < p->request->tunable_count; i++) {
        const nib_named_scalar *scalar = &p->request->tunables[i];
        const nib_tunable *tunable = find_tunable(p->contract, scalar->name);
        if (!tunable)
            return fail_unknown(p, "tunable", scalar->name ? scalar->name : "", list_tunables);
        NIB_TRY(keep_scalar(p, scalar, "tunable", tunable->name, given, p->overrides));
        const nib_value value = *nib_map_get(p->overrides, tunable->name);
        if (!same_kind(value, tunable->default_value) ||
            (nib_value_is_number(value) && !isfinite(value.as.number)))
            return nib_fail(p->error, NIB_REQUEST, "tunable '%s' is %s; its default is %s",
                            scalar->name, nib_value_label(value).text,
                            nib_value_label(tunable->default_value).text);
    }
    return NIB_OK;
}

nib_status nib_planner_read_request(nib_planner *p)
{
    NIB_TRY(read_tensors(p));
    NIB_TRY(read_attributes(p));
    NIB_TRY(read_arguments(p));
    return read_tunables(p);
}
