/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request must satisfy whatever the expressions say (package format 7.5, 7.6). Stricter than
 * the format in two points: a missing input is reported first and by name, and an attribute has the
 * type of its default.
 */
#include <math.h>

#include "plan/planner.h"
#include "tensor/tensor.h"

nib_status nib_planner_check_inputs(nib_planner *p)
{
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        const nib_port *port = operand->port;
        if (port->role != NIB_OUTPUT && !port->optional && !operand->given)
            return nib_fail(p->error, NIB_REQUEST, "missing required %s",
                            nib_port_label(port).text);
    }
    return NIB_OK;
}

/* ---- attributes ---- */

/* Equality of attribute values: numbers are compared as float32 (format 2.A.5). */
static bool values_equal(nib_value a, nib_value b)
{
    if (nib_value_is_number(a) && nib_value_is_number(b)) {
        if (isfinite(a.as.number) && isfinite(b.as.number))
            return (float)a.as.number == (float)b.as.number;
        return a.as.number == b.as.number;
    }
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case NIB_VALUE_BOOL:
        return a.as.boolean == b.as.boolean;
    case NIB_VALUE_STRING:
        return nib_str_eq(a.as.string, b.as.string);
    case NIB_VALUE_NULL:
    case NIB_VALUE_UNDEFINED:
        return true;
    default:
        return false;
    }
}

static bool is_among(const nib_list *list, nib_value value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (values_equal(list->items[i], value))
            return true;
    }
    return false;
}

static nib_status fail_not_among(nib_planner *p, const char *kind, nib_str name, nib_value value,
                                 const nib_list *allowed)
{
    nib_buf text;
    nib_buf_init(&text, p->arena->allocator, 0);
    for (size_t i = 0; i < allowed->count; i++) {
        nib_buf_puts(&text, i ? ", " : "");
        nib_buf_puts(&text, nib_value_label(allowed->items[i]).text);
    }
    const nib_status status =
        nib_fail(p->error, NIB_REQUEST, "%s '%.*s' is %s; supported: %s", kind, NIB_STR_ARG(name),
                 nib_value_label(value).text, text.data ? text.data : "");
    nib_buf_free(&text);
    return status;
}

static const char *scalar_kind(nib_value value)
{
    if (nib_value_is_number(value))
        return "a number";
    return value.type == NIB_VALUE_STRING ? "a string" : "a boolean";
}

static bool is_scalar(nib_value value)
{
    return nib_value_is_number(value) || value.type == NIB_VALUE_STRING ||
           value.type == NIB_VALUE_BOOL;
}

static nib_status check_attribute_type(nib_planner *p, const nib_attribute *attribute,
                                       nib_value value)
{
    const nib_value model = attribute->default_value;
    if (!attribute->has_default || !is_scalar(model) || !is_scalar(value))
        return NIB_OK;
    const char *want = scalar_kind(model);
    const char *have = scalar_kind(value);
    if (strcmp(want, have) == 0)
        return NIB_OK;
    return nib_fail(p->error, NIB_REQUEST,
                    "attribute '%.*s' is %s, %s; it must be %s like its default %s",
                    NIB_STR_ARG(attribute->name), nib_value_label(value).text, have, want,
                    nib_value_label(model).text);
}

static nib_status check_attribute(nib_planner *p, const nib_attribute *attribute)
{
    const nib_value *value = nib_map_get(p->plan->attributes, attribute->name);
    if (!value || value->type == NIB_VALUE_UNDEFINED) {
        if (attribute->required)
            return nib_fail(p->error, NIB_REQUEST, "missing required attribute '%.*s'",
                            NIB_STR_ARG(attribute->name));
        return NIB_OK;
    }
    NIB_TRY(check_attribute_type(p, attribute, *value));
    if (attribute->allowed.type != NIB_VALUE_LIST || is_among(attribute->allowed.as.list, *value))
        return NIB_OK;
    if (p->request->relaxed) {
        p->values_broken = true;
        return NIB_OK;
    }
    return fail_not_among(p, "attribute", attribute->name, *value, attribute->allowed.as.list);
}

nib_status nib_planner_check_attributes(nib_planner *p)
{
    for (size_t i = 0; i < p->contract->attribute_count; i++)
        NIB_TRY(check_attribute(p, &p->contract->attributes[i]));
    return NIB_OK;
}

/* ---- scalar arguments ---- */

static nib_status check_number(nib_planner *p, const nib_argument *argument, nib_value value)
{
    static const struct {
        const char *text;
        double least, most;
    } ranges[] = {
        [NIB_ARG_U32] = {"an integer in [0, 4294967295]", 0, 4294967295.0},
        [NIB_ARG_I32] = {"an integer in [-2147483648, 2147483647]", -2147483648.0, 2147483647.0},
        [NIB_ARG_F32] = {"a finite number", -HUGE_VAL, HUGE_VAL},
    };
    const double number = nib_value_is_number(value) ? value.as.number : (double)NAN;
    const bool integral = argument->kind == NIB_ARG_F32 || trunc(number) == number;
    if (isfinite(number) && integral && number >= ranges[argument->kind].least &&
        number <= ranges[argument->kind].most)
        return NIB_OK;
    return nib_fail(p->error, NIB_REQUEST, "argument '%.*s' is %s; it must be %s",
                    NIB_STR_ARG(argument->name), nib_value_label(value).text,
                    ranges[argument->kind].text);
}

static nib_status check_argument_value(nib_planner *p, const nib_argument *argument,
                                       nib_value value)
{
    if (argument->kind == NIB_ARG_BOOL && value.type != NIB_VALUE_BOOL)
        return nib_fail(p->error, NIB_REQUEST, "argument '%.*s' is %s; it must be a boolean",
                        NIB_STR_ARG(argument->name), nib_value_label(value).text);
    if (argument->kind == NIB_ARG_STRING && value.type != NIB_VALUE_STRING)
        return nib_fail(p->error, NIB_REQUEST, "argument '%.*s' is %s; it must be a string",
                        NIB_STR_ARG(argument->name), nib_value_label(value).text);
    if (argument->kind == NIB_ARG_BOOL)
        return NIB_OK;
    if (argument->kind != NIB_ARG_STRING)
        return check_number(p, argument, value);
    if (argument->one_of.type == NIB_VALUE_LIST && !is_among(argument->one_of.as.list, value))
        return fail_not_among(p, "argument", argument->name, value, argument->one_of.as.list);
    return NIB_OK;
}

nib_status nib_planner_check_arguments(nib_planner *p)
{
    for (size_t i = 0; i < p->contract->argument_count; i++) {
        const nib_argument *argument = &p->contract->arguments[i];
        const nib_value *value = nib_map_get(p->plan->arguments, argument->name);
        if (value)
            NIB_TRY(check_argument_value(p, argument, *value));
        else if (argument->required)
            return nib_fail(p->error, NIB_REQUEST, "missing required argument '%.*s'",
                            NIB_STR_ARG(argument->name));
    }
    return NIB_OK;
}

/* ---- dtypes ---- */

static bool variable_allows(const nib_type_variable *variable, nib_dtype dtype)
{
    for (size_t i = 0; i < variable->dtype_count; i++) {
        if (variable->dtypes[i] == dtype)
            return true;
    }
    return false;
}

bool nib_port_allows(const nib_port *port, nib_dtype dtype)
{
    if (port->dtype != NIB_DTYPE_NONE)
        return port->dtype == dtype;
    return !port->variable || variable_allows(port->variable, dtype);
}

static void list_dtypes(const nib_port *port, nib_buf *out)
{
    if (port->dtype != NIB_DTYPE_NONE) {
        nib_buf_printf(out, "it must be %s", nib_dtype_name(port->dtype));
        return;
    }
    if (!port->variable) {
        nib_buf_puts(out, "int64 must be declared");
        return;
    }
    nib_buf_printf(out, "%.*s allows ", NIB_STR_ARG(port->dtype_text));
    for (size_t i = 0; i < port->variable->dtype_count; i++)
        nib_buf_printf(out, "%s%s", i ? ", " : "", nib_dtype_name(port->variable->dtypes[i]));
}

static nib_status fail_dtype(nib_planner *p, const nib_operand *operand)
{
    nib_buf rule;
    nib_buf_init(&rule, p->arena->allocator, 0);
    list_dtypes(operand->port, &rule);
    if (operand->port->storage != NIB_DTYPE_NONE)
        nib_buf_printf(&rule, ", stored as %s", nib_dtype_name(operand->port->storage));
    const nib_status status =
        nib_fail(p->error, NIB_REQUEST, "%s has dtype %s; %s", nib_port_label(operand->port).text,
                 nib_dtype_name(operand->desc.dtype), rule.data ? rule.data : "");
    nib_buf_free(&rule);
    return status;
}

/* The only dtype the port admits, or NONE. */
static nib_dtype only_dtype(const nib_port *port)
{
    if (port->dtype != NIB_DTYPE_NONE)
        return port->dtype;
    return port->variable && port->variable->dtype_count == 1 ? port->variable->dtypes[0]
                                                              : NIB_DTYPE_NONE;
}

/* Storage and logical dtype of one present tensor (format 7.2, 7.6). */
static nib_status resolve_dtype(nib_planner *p, nib_operand *operand)
{
    const nib_port *port = operand->port;
    const nib_dtype given = operand->desc.dtype;
    if (given == NIB_INT64) {
        const bool declared = port->dtype != NIB_DTYPE_NONE || port->variable;
        if (!declared || !nib_port_allows(port, NIB_INT64))
            return fail_dtype(p, operand);
        operand->storage = port->storage != NIB_DTYPE_NONE ? port->storage : NIB_INT64;
        operand->logical = NIB_INT64;
        return NIB_OK;
    }
    operand->storage = given;
    /* int64 data may come in the 32-bit form that the port keeps it in */
    if (only_dtype(port) == NIB_INT64) {
        operand->logical = NIB_INT64;
        return given == port->storage ? NIB_OK : fail_dtype(p, operand);
    }
    operand->logical = given;
    if (port->storage != NIB_DTYPE_NONE && given != port->storage)
        return fail_dtype(p, operand);
    return nib_port_allows(port, given) ? NIB_OK : fail_dtype(p, operand);
}

/* Ports with the same dtype text must agree, unless it is an undeclared type variable. */
static nib_status check_agreement(nib_planner *p, size_t index)
{
    const nib_operand *operand = &p->operands[index];
    const nib_port *port = operand->port;
    if (port->dtype == NIB_DTYPE_NONE && !port->variable)
        return NIB_OK;
    for (size_t i = 0; i < index; i++) {
        const nib_operand *other = &p->operands[i];
        if ((!other->given && !other->produced) || other->desc.dtype == NIB_DTYPE_NONE ||
            !nib_str_eq(other->port->dtype_text, port->dtype_text))
            continue;
        if (other->logical != operand->logical || other->storage != operand->storage)
            return nib_fail(p->error, NIB_REQUEST,
                            "%s has dtype %s, but %s has %s and both are %.*s",
                            nib_port_label(port).text, nib_dtype_name(operand->desc.dtype),
                            nib_port_label(other->port).text, nib_dtype_name(other->desc.dtype),
                            NIB_STR_ARG(port->dtype_text));
    }
    return NIB_OK;
}

nib_status nib_planner_check_dtypes(nib_planner *p)
{
    for (size_t i = 0; i < p->contract->port_count; i++) {
        nib_operand *operand = &p->operands[i];
        if ((!operand->given && !operand->produced) || operand->desc.dtype == NIB_DTYPE_NONE)
            continue;
        NIB_TRY(resolve_dtype(p, operand));
        NIB_TRY(check_agreement(p, i));
    }
    return NIB_OK;
}
