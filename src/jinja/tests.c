/* SPDX-License-Identifier: Apache-2.0
 *
 * "is" tests: format 4.3.
 */
#include "jinja/machine.h"

#include <math.h>

static bool is_boolean(nib_value v)
{
    return v.type == NIB_VALUE_BOOL;
}

static bool is_callable(nib_value v)
{
    return v.type == NIB_VALUE_FUNCTION;
}

static bool is_true(nib_value v)
{
    return v.type == NIB_VALUE_BOOL && v.as.boolean;
}

static bool is_false(nib_value v)
{
    return v.type == NIB_VALUE_BOOL && !v.as.boolean;
}

static bool is_none(nib_value v)
{
    return v.type == NIB_VALUE_NULL;
}

static bool is_string(nib_value v)
{
    return v.type == NIB_VALUE_STRING;
}

static bool is_integer(nib_value v)
{
    return v.type == NIB_VALUE_INTEGER;
}

static bool is_iterable(nib_value v)
{
    return v.type == NIB_VALUE_LIST || v.type == NIB_VALUE_STRING;
}

static bool is_mapping(nib_value v)
{
    return v.type == NIB_VALUE_MAP || v.type == NIB_VALUE_VIEW;
}

static bool is_sequence(nib_value v)
{
    return is_iterable(v) || is_mapping(v) || v.type == NIB_VALUE_TUPLE;
}

static bool has_no_letter_between(nib_value v, char first, char last)
{
    if (v.type != NIB_VALUE_STRING)
        return false;
    for (size_t i = 0; i < v.as.string.len; i++) {
        if (v.as.string.data[i] >= first && v.as.string.data[i] <= last)
            return false;
    }
    return true;
}

static bool is_lower(nib_value v)
{
    return has_no_letter_between(v, 'A', 'Z');
}

static bool is_upper(nib_value v)
{
    return has_no_letter_between(v, 'a', 'z');
}

static bool is_defined(nib_value v)
{
    return v.type != NIB_VALUE_UNDEFINED;
}

static bool is_undefined(nib_value v)
{
    return v.type == NIB_VALUE_UNDEFINED;
}

static const struct {
    const char *name;
    bool (*test)(nib_value v);
} tests[] = {
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"true", is_true},
    {"false", is_false},
    {"none", is_none},
    {"string", is_string},
    {"number", nib_value_is_number},
    {"integer", is_integer},
    {"iterable", is_iterable},
    {"mapping", is_mapping},
    {"sequence", is_sequence},
    {"lower", is_lower},
    {"upper", is_upper},
    {"defined", is_defined},
    {"undefined", is_undefined},
};

bool nib_jinja_test_exists(nib_str name)
{
    static const char *const others[] = {"odd", "even", "eq", "equalto"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (nib_str_is(name, others[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (nib_str_is(name, tests[i].name))
            return true;
    }
    return false;
}

nib_status nib_jinja_fail_unknown_test(machine *m, nib_str name)
{
    return nib_jinja_fail(m, "there is no test \"%.*s\"", NIB_STR_ARG(name));
}

static nib_status test_parity(machine *m, nib_str name, nib_value operand, double remainder,
                              bool *out)
{
    if (operand.type != NIB_VALUE_INTEGER)
        return nib_jinja_fail(m, "the test \"%.*s\" needs an integer, not %s", NIB_STR_ARG(name),
                              nib_value_type_name(operand));
    *out = fabs(fmod(operand.as.number, 2)) == remainder;
    if (isnan(fmod(operand.as.number, 2)))
        *out = remainder != 0; /* JavaScript: NaN !== 0 */
    return NIB_OK;
}

nib_status nib_jinja_test(machine *m, nib_str name, nib_value operand, const nib_value *args,
                          size_t count, bool *out)
{
    if (nib_str_is(name, "odd"))
        return test_parity(m, name, operand, 1, out);
    if (nib_str_is(name, "even"))
        return test_parity(m, name, operand, 0, out);
    if (nib_str_is(name, "eq") || nib_str_is(name, "equalto")) {
        if (count == 0)
            return nib_jinja_fail(
                m, "the test \"%.*s\" has nothing to compare with; use ==", NIB_STR_ARG(name));
        *out = nib_jinja_same(operand, args[0], false);
        return NIB_OK;
    }
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (nib_str_is(name, tests[i].name)) {
            *out = tests[i].test(operand);
            return NIB_OK;
        }
    }
    return nib_jinja_fail_unknown_test(m, name);
}
