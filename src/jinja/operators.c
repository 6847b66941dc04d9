/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators: format 3.4.
 */
#include "jinja/machine.h"

#include <math.h>

#include "value/number.h"

/* ---- equality ---- */

typedef enum raw_type { RAW_ABSENT, RAW_BOOL, RAW_NUMBER, RAW_STRING, RAW_OBJECT } raw_type;

static raw_type raw_type_of(nib_value v)
{
    switch (v.type) {
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
        return RAW_ABSENT;
    case NIB_VALUE_BOOL:
        return RAW_BOOL;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        return RAW_NUMBER;
    case NIB_VALUE_STRING:
        return nib_jinja_is_broken(v) ? RAW_ABSENT : RAW_STRING;
    default:
        return RAW_OBJECT;
    }
}

static bool same_object(nib_value a, nib_value b)
{
    const bool a_list = a.type == NIB_VALUE_LIST || a.type == NIB_VALUE_TUPLE;
    const bool b_list = b.type == NIB_VALUE_LIST || b.type == NIB_VALUE_TUPLE;
    if (a_list || b_list)
        return a_list && b_list && a.as.list == b.as.list;
    if (a.type == NIB_VALUE_FUNCTION || b.type == NIB_VALUE_FUNCTION)
        return a.type == b.type && a.as.function == b.as.function;
    return a.as.map == b.as.map;
}

bool nib_jinja_same(nib_value a, nib_value b, bool same_nan)
{
    const raw_type type = raw_type_of(a);
    if (type != raw_type_of(b))
        return false;
    switch (type) {
    case RAW_ABSENT:
        return true;
    case RAW_BOOL:
        return a.as.boolean == b.as.boolean;
    case RAW_NUMBER:
        return a.as.number == b.as.number || (same_nan && isnan(a.as.number) && isnan(b.as.number));
    case RAW_STRING:
        return nib_str_eq(a.as.string, b.as.string);
    case RAW_OBJECT:
        break;
    }
    return same_object(a, b);
}

/* An object against a string, number or boolean: its text takes its place. A function's text equals
 * nothing. */
static nib_status object_equals(machine *m, nib_value object, nib_value other, bool *equal)
{
    *equal = false;
    if (object.type == NIB_VALUE_FUNCTION)
        return NIB_OK;
    nib_buf text;
    nib_jinja_start_text(m, &text);
    nib_status status = nib_jinja_js_text(&text, object, m->evaluation.error);
    if (status == NIB_OK)
        status = nib_buf_check(&text, "the text of a list", m->evaluation.error);
    if (status == NIB_OK)
        status = nib_jinja_spend(m, text.len / 64);
    const nib_str words = {text.data ? text.data : "", text.len};
    if (status == NIB_OK)
        status = nib_jinja_loosely_equal(m, nib_value_string(words), other, equal);
    nib_buf_free(&text);
    return status;
}

nib_status nib_jinja_loosely_equal(machine *m, nib_value a, nib_value b, bool *equal)
{
    const raw_type x = raw_type_of(a), y = raw_type_of(b);
    *equal = false;
    if (x == y) {
        *equal = nib_jinja_same(a, b, false);
        return NIB_OK;
    }
    if (x == RAW_ABSENT || y == RAW_ABSENT)
        return NIB_OK;
    if (x == RAW_BOOL)
        return nib_jinja_loosely_equal(m, nib_value_integer(a.as.boolean), b, equal);
    if (y == RAW_BOOL)
        return nib_jinja_loosely_equal(m, a, nib_value_integer(b.as.boolean), equal);
    if (x == RAW_OBJECT)
        return object_equals(m, a, b, equal);
    if (y == RAW_OBJECT)
        return object_equals(m, b, a, equal);
    const nib_str text = x == RAW_STRING ? a.as.string : b.as.string;
    const double number = x == RAW_NUMBER ? a.as.number : b.as.number;
    *equal = nib_number_from_js_string(text) == number;
    return NIB_OK;
}

/* ---- failures ---- */

static const char *op_name(binary_op op)
{
    static const char *const names[] = {
        [OP_EQ] = "==", [OP_NE] = "!=",        [OP_LT] = "<",     [OP_GT] = ">",
        [OP_LE] = "<=", [OP_GE] = ">=",        [OP_IN] = "in",    [OP_NOT_IN] = "not in",
        [OP_ADD] = "+", [OP_SUB] = "-",        [OP_CONCAT] = "~", [OP_MUL] = "*",
        [OP_DIV] = "/", [OP_FLOOR_DIV] = "//", [OP_MOD] = "%",    [OP_POW] = "**",
    };
    return names[op];
}

static nib_status fail_types(machine *m, binary_op op, nib_value a, nib_value b)
{
    return nib_jinja_fail(m, "\"%s\" does not work on %s and %s", op_name(op),
                          nib_value_type_name(a), nib_value_type_name(b));
}

/* ---- arithmetic ---- */

/* JavaScript: 1 ** NaN, 1 ** Infinity and (-1) ** Infinity are NaN where C says 1. */
static double power(double base, double exponent)
{
    if (isnan(exponent) || (fabs(base) == 1 && isinf(exponent)))
        return (double)NAN;
    return pow(base, exponent);
}

static nib_value number_result(bool is_float, double number)
{
    return is_float ? nib_value_float(number) : nib_value_integer(number);
}

static bool is_numeric(nib_value v)
{
    return nib_value_is_number(v) || v.type == NIB_VALUE_BOOL;
}

static double number_of(nib_value v)
{
    return v.type == NIB_VALUE_BOOL ? (double)v.as.boolean : v.as.number;
}

static nib_status raise_to(machine *m, nib_value a, nib_value b, nib_value *out)
{
    if (!is_numeric(a) || !is_numeric(b))
        return fail_types(m, OP_POW, a, b);
    const double base = number_of(a), exponent = number_of(b);
    if (base == 0 && exponent < 0)
        return nib_jinja_fail(m, "zero cannot be raised to a negative power");
    const double result = power(base, exponent);
    if (!isfinite(result))
        return nib_jinja_fail(m, "the result of \"**\" is not a finite number");
    const bool is_float = a.type == NIB_VALUE_FLOAT || b.type == NIB_VALUE_FLOAT || exponent < 0;
    *out = number_result(is_float, result);
    return NIB_OK;
}

static nib_status calculate(machine *m, binary_op op, nib_value a, nib_value b, nib_value *out)
{
    const double x = a.as.number, y = b.as.number;
    const bool is_float = a.type == NIB_VALUE_FLOAT || b.type == NIB_VALUE_FLOAT;
    switch (op) {
    case OP_ADD:
        *out = number_result(is_float, x + y);
        return NIB_OK;
    case OP_SUB:
        *out = number_result(is_float, x - y);
        return NIB_OK;
    case OP_MUL:
        *out = number_result(is_float, x * y);
        return NIB_OK;
    case OP_DIV:
        *out = nib_value_float(x / y);
        return NIB_OK;
    case OP_FLOOR_DIV:
        *out = number_result(is_float, floor(x / y));
        return NIB_OK;
    case OP_MOD:
        *out = number_result(is_float, fmod(x, y));
        return NIB_OK;
    case OP_LT:
        *out = nib_value_bool(x < y);
        return NIB_OK;
    case OP_GT:
        *out = nib_value_bool(x > y);
        return NIB_OK;
    case OP_LE:
        *out = nib_value_bool(x <= y);
        return NIB_OK;
    case OP_GE:
        *out = nib_value_bool(x >= y);
        return NIB_OK;
    default:
        return fail_types(m, op, a, b);
    }
}

/* ---- text and lists ---- */

static nib_status append_text(machine *m, nib_buf *buf, nib_value v)
{
    if (nib_jinja_is_broken(v))
        return nib_jinja_fail(m, "a string was indexed out of range");
    return nib_jinja_js_text(buf, v, m->evaluation.error);
}

static nib_status concatenate(machine *m, nib_value a, nib_value b, nib_value *out)
{
    nib_buf buf;
    nib_jinja_start_text(m, &buf);
    nib_status status = append_text(m, &buf, a);
    if (status == NIB_OK)
        status = append_text(m, &buf, b);
    if (status != NIB_OK) {
        nib_buf_free(&buf);
        return status;
    }
    return nib_jinja_take_text(m, &buf, out);
}

static bool is_list(nib_value v)
{
    return v.type == NIB_VALUE_LIST || v.type == NIB_VALUE_TUPLE;
}

static nib_status join_lists(machine *m, const nib_list *a, const nib_list *b, nib_value *out)
{
    nib_list *list;
    NIB_TRY(nib_jinja_new_list(m, a->count + b->count, &list));
    for (size_t i = 0; i < a->count; i++)
        list->items[list->count++] = a->items[i];
    for (size_t i = 0; i < b->count; i++)
        list->items[list->count++] = b->items[i];
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static bool contains_text(nib_str text, nib_str part)
{
    for (size_t i = 0; i + part.len <= text.len; i++) {
        if (part.len == 0 || memcmp(text.data + i, part.data, part.len) == 0)
            return true;
    }
    return false;
}

static nib_status find_member(machine *m, binary_op op, nib_value item, nib_value holder,
                              bool *found)
{
    *found = false;
    if (is_list(holder) && !is_list(item)) {
        NIB_TRY(nib_jinja_spend(m, holder.as.list->count / 16));
        for (size_t i = 0; i < holder.as.list->count && !*found; i++)
            *found = nib_jinja_same(item, holder.as.list->items[i], false);
        return NIB_OK;
    }
    if (item.type == NIB_VALUE_STRING && holder.type == NIB_VALUE_STRING) {
        if (nib_jinja_is_broken(item) || nib_jinja_is_broken(holder))
            return nib_jinja_fail(m, "a string was indexed out of range");
        NIB_TRY(nib_jinja_spend(m, holder.as.string.len / 64));
        *found = contains_text(holder.as.string, item.as.string);
        return NIB_OK;
    }
    if (item.type == NIB_VALUE_STRING &&
        (holder.type == NIB_VALUE_MAP || holder.type == NIB_VALUE_VIEW)) {
        *found = nib_map_get(holder.as.map, item.as.string) != NULL;
        return NIB_OK;
    }
    return fail_types(m, op, item, holder);
}

/* ---- dispatch ---- */

static nib_status fail_absent(machine *m, binary_op op, const char *what)
{
    return nib_jinja_fail(m, "\"%s\" was used on %s value", op_name(op), what);
}

nib_status nib_jinja_binary(machine *m, binary_op op, nib_value a, nib_value b, nib_value *out)
{
    if (op == OP_EQ || op == OP_NE) {
        bool equal = false;
        NIB_TRY(nib_jinja_loosely_equal(m, a, b, &equal));
        *out = nib_value_bool(equal == (op == OP_EQ));
        return NIB_OK;
    }
    const bool membership = op == OP_IN || op == OP_NOT_IN;
    if (membership && b.type == NIB_VALUE_UNDEFINED) {
        *out = nib_value_bool(op == OP_NOT_IN);
        return NIB_OK;
    }
    if (a.type == NIB_VALUE_UNDEFINED || b.type == NIB_VALUE_UNDEFINED)
        return fail_absent(m, op, "an undefined");
    if (a.type == NIB_VALUE_NULL || b.type == NIB_VALUE_NULL)
        return fail_absent(m, op, "a none");
    if (op == OP_CONCAT)
        return concatenate(m, a, b, out);
    if (op == OP_POW)
        return raise_to(m, a, b, out);
    if (membership) {
        bool found;
        NIB_TRY(find_member(m, op, a, b, &found));
        *out = nib_value_bool(found == (op == OP_IN));
        return NIB_OK;
    }
    if (nib_value_is_number(a) && nib_value_is_number(b))
        return calculate(m, op, a, b, out);
    if (op == OP_ADD && is_list(a) && is_list(b))
        return join_lists(m, a.as.list, b.as.list, out);
    if (op == OP_ADD && (a.type == NIB_VALUE_STRING || b.type == NIB_VALUE_STRING))
        return concatenate(m, a, b, out);
    return fail_types(m, op, a, b);
}

nib_status nib_jinja_sign(machine *m, bool negate, nib_value operand, nib_value *out)
{
    if (!is_numeric(operand))
        return nib_jinja_fail(m, "a sign does not work on %s", nib_value_type_name(operand));
    const double number = negate ? -number_of(operand) : number_of(operand);
    *out = number_result(operand.type == NIB_VALUE_FLOAT, number);
    return NIB_OK;
}
