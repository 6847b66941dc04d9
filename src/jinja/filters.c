/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters: format 4.3. A filter written with parentheses is another one than that without: the
 * tables say which exist.
 */
#include "jinja/machine.h"

#include <math.h>
#include <string.h>

#include "value/number.h"

/* One application of a filter. Without parentheses there are no arguments. */
typedef struct application {
    machine *m;
    nib_str name;
    nib_value operand;
    const nib_value *args; /* positional */
    size_t count;
    const nib_map *keywords; /* NULL when there are none */
    bool has_keywords;
} application;

static nib_value argument(const application *a, size_t index, const char *keyword,
                          nib_value fallback)
{
    if (index < a->count)
        return a->args[index];
    const nib_value *named = a->keywords ? nib_map_get_cstr(a->keywords, keyword) : NULL;
    return named ? *named : fallback;
}

static nib_status take_flag(const application *a, size_t index, const char *name, bool fallback,
                            bool *out)
{
    const nib_value flag = argument(a, index, name, nib_value_bool(fallback));
    if (flag.type != NIB_VALUE_BOOL)
        return nib_jinja_fail(a->m, "%s must be true or false, not %s", name,
                              nib_value_type_name(flag));
    *out = flag.as.boolean;
    return NIB_OK;
}

/* ---- any operand ---- */

static nib_status filter_safe(const application *a, nib_value *out)
{
    *out = a->operand;
    return NIB_OK;
}

/* An indentation or a width: at most what can be printed anyway. */
static nib_status take_width(const application *a, nib_value width, const char *name, size_t *out)
{
    if (width.type != NIB_VALUE_INTEGER)
        return nib_jinja_fail(a->m, "%s must be an integer, not %s", name,
                              nib_value_type_name(width));
    if (!(width.as.number >= 0))
        return nib_jinja_fail(a->m, "%s must not be negative", name);
    if (width.as.number > (double)a->m->text_limit)
        return nib_fail(a->m->evaluation.error, NIB_LIMIT,
                        "%s is larger than the longest text, %zu", name, a->m->text_limit);
    *out = (size_t)width.as.number;
    return NIB_OK;
}

static nib_status take_separators(const application *a, json_options *options)
{
    const nib_value separators = argument(a, SIZE_MAX, "separators", NIB_NULL);
    if (separators.type == NIB_VALUE_NULL)
        return NIB_OK;
    const bool list = separators.type == NIB_VALUE_LIST || separators.type == NIB_VALUE_TUPLE;
    if (!list || separators.as.list->count != 2 ||
        separators.as.list->items[0].type != NIB_VALUE_STRING ||
        separators.as.list->items[1].type != NIB_VALUE_STRING)
        return nib_jinja_fail(a->m, "separators must be a list of two strings");
    options->item_separator = separators.as.list->items[0].as.string;
    options->key_separator = separators.as.list->items[1].as.string;
    return NIB_OK;
}

/* tojson(indent=, ensure_ascii=, sort_keys=, separators=): only keyword arguments count */
static nib_status filter_tojson(const application *a, nib_value *out)
{
    json_options options = {.undefined_as_null = true};
    const nib_value indent = argument(a, SIZE_MAX, "indent", NIB_NULL);
    if (indent.type != NIB_VALUE_NULL)
        NIB_TRY(take_width(a, indent, "indent", &options.indent));
    NIB_TRY(take_flag(a, SIZE_MAX, "ensure_ascii", false, &options.ensure_ascii));
    NIB_TRY(take_flag(a, SIZE_MAX, "sort_keys", false, &options.sort_keys));
    options.item_separator = nib_str_from(options.indent ? "," : ", ");
    options.key_separator = nib_str_from(": ");
    NIB_TRY(take_separators(a, &options));
    nib_buf buf;
    nib_jinja_start_text(a->m, &buf);
    const nib_status status =
        nib_jinja_json(a->m, &buf, a->operand, &options, a->m->evaluation.error);
    if (status != NIB_OK) {
        nib_buf_free(&buf);
        return status;
    }
    return nib_jinja_take_text(a->m, &buf, out);
}

/* default(value = "", boolean = false) */
static nib_status filter_default(const application *a, nib_value *out)
{
    bool replace_falsy = false;
    NIB_TRY(take_flag(a, 1, "boolean", false, &replace_falsy));
    /* Keyword arguments without positional ones take the place of the value, and print as nothing.
     */
    const nib_value fallback = a->count          ? a->args[0]
                               : a->has_keywords ? NIB_NULL
                                                 : nib_value_cstr("");
    const bool replace =
        a->operand.type == NIB_VALUE_UNDEFINED || (replace_falsy && !nib_jinja_truthy(a->operand));
    *out = replace ? fallback : a->operand;
    return NIB_OK;
}

/* ---- lists ---- */

static nib_status filter_length(const application *a, nib_value *out)
{
    *out = nib_value_integer((double)a->operand.as.list->count);
    return NIB_OK;
}

static nib_status filter_first(const application *a, nib_value *out)
{
    if (a->operand.as.list->count == 0)
        return nib_jinja_fail(a->m, "the filter first needs an item, and the list is empty");
    *out = a->operand.as.list->items[0];
    return NIB_OK;
}

static nib_status filter_last(const application *a, nib_value *out)
{
    const nib_list *list = a->operand.as.list;
    if (list->count == 0)
        return nib_jinja_fail(a->m, "the filter last needs an item, and the list is empty");
    *out = list->items[list->count - 1];
    return NIB_OK;
}

static nib_status copy_list(const application *a, nib_list **out)
{
    const nib_list *list = a->operand.as.list;
    NIB_TRY(nib_jinja_spend(a->m, list->count));
    NIB_TRY(nib_jinja_new_list(a->m, list->count, out));
    if (list->count)
        memcpy((*out)->items, list->items, list->count * sizeof *list->items);
    (*out)->count = list->count;
    return NIB_OK;
}

static nib_status filter_reverse(const application *a, nib_value *out)
{
    nib_list *list;
    NIB_TRY(copy_list(a, &list));
    for (size_t i = 0; i < list->count; i++)
        list->items[i] = a->operand.as.list->items[list->count - 1 - i];
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status filter_unique(const application *a, nib_value *out)
{
    const nib_list *from = a->operand.as.list;
    nib_list *list;
    NIB_TRY(nib_jinja_new_list(a->m, 0, &list));
    for (size_t i = 0; i < from->count; i++) {
        NIB_TRY(nib_jinja_spend(a->m, 1 + list->count / 16));
        bool known = false;
        for (size_t k = 0; k < list->count && !known; k++)
            known = nib_jinja_same(from->items[i], list->items[k], true);
        if (!known)
            NIB_TRY(nib_jinja_push(a->m, list, from->items[i]));
    }
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status filter_text(const application *a, nib_value *out)
{
    nib_buf buf;
    nib_jinja_start_text(a->m, &buf);
    const nib_status status = nib_jinja_print(&buf, a->operand, a->m->evaluation.error);
    if (status != NIB_OK) {
        nib_buf_free(&buf);
        return status;
    }
    return nib_jinja_take_text(a->m, &buf, out);
}

static nib_status join_items(const application *a, nib_buf *buf, nib_str separator)
{
    const nib_list *list = a->operand.as.list;
    NIB_TRY(nib_jinja_spend(a->m, list->count));
    for (size_t i = 0; i < list->count && buf->status == NIB_OK; i++) {
        if (i > 0)
            nib_buf_str(buf, separator);
        if (!nib_value_is_absent(list->items[i]))
            NIB_TRY(nib_jinja_js_text(buf, list->items[i], a->m->evaluation.error));
    }
    return NIB_OK;
}

static void join_code_points(nib_buf *buf, nib_str text, nib_str separator)
{
    for (size_t at = 0; at < text.len && buf->status == NIB_OK;) {
        const size_t bytes = nib_jinja_code_point_bytes((nib_str){text.data + at, text.len - at});
        if (at > 0)
            nib_buf_str(buf, separator);
        nib_buf_append(buf, text.data + at, bytes);
        at += bytes;
    }
}

/* join(separator = "") of a list or of the code points of a string */
static nib_status filter_join(const application *a, nib_value *out)
{
    const nib_value separator = argument(a, 0, "separator", nib_value_cstr(""));
    if (separator.type != NIB_VALUE_STRING)
        return nib_jinja_fail(a->m, "the separator of join() is a string, not %s",
                              nib_value_type_name(separator));
    nib_buf buf;
    nib_jinja_start_text(a->m, &buf);
    nib_status status = NIB_OK;
    if (a->operand.type == NIB_VALUE_STRING)
        join_code_points(&buf, a->operand.as.string, separator.as.string);
    else
        status = join_items(a, &buf, separator.as.string);
    if (status != NIB_OK) {
        nib_buf_free(&buf);
        return status;
    }
    return nib_jinja_take_text(a->m, &buf, out);
}

/* ---- attributes of items ---- */

static bool has_entries(nib_value v)
{
    return v.type == NIB_VALUE_MAP || v.type == NIB_VALUE_VIEW || v.type == NIB_VALUE_NAMESPACE;
}

static nib_value list_item(const nib_list *list, nib_str index)
{
    double position;
    if (index.len == 0 || !nib_is_digit(index.data[0]) || !nib_number_parse(index, &position))
        return NIB_UNDEFINED;
    return position < (double)list->count && trunc(position) == position
               ? list->items[(size_t)position]
               : NIB_UNDEFINED;
}

/* "a.b.0": keys of objects and positions in lists; undefined as soon as a part is missing. */
static nib_value follow_path(nib_value value, nib_str path)
{
    for (size_t at = 0; at <= path.len;) {
        size_t end = at;
        while (end < path.len && path.data[end] != '.')
            end++;
        const nib_str part = {path.data + at, end - at};
        if (has_entries(value)) {
            const nib_value *found = nib_map_get(value.as.map, part);
            value = found ? *found : NIB_UNDEFINED;
        } else if (value.type == NIB_VALUE_LIST || value.type == NIB_VALUE_TUPLE) {
            value = list_item(value.as.list, part);
        } else {
            return NIB_UNDEFINED;
        }
        at = end + 1;
    }
    return value;
}

static nib_status attribute_key(machine *m, nib_value item, const void *user, nib_value *out)
{
    const nib_value *attribute = user;
    if (attribute->type == NIB_VALUE_STRING) {
        *out = follow_path(item, attribute->as.string);
        return NIB_OK;
    }
    char text[NIB_NUMBER_TEXT_BYTES];
    (void)m;
    *out = follow_path(item, (nib_str){text, nib_number_format(attribute->as.number, text)});
    return NIB_OK;
}

/* sort(reverse = false, case_sensitive = false, attribute = none) */
static nib_status filter_sort(const application *a, nib_value *out)
{
    bool reverse = false, case_sensitive = false;
    NIB_TRY(take_flag(a, 0, "reverse", false, &reverse));
    NIB_TRY(take_flag(a, 1, "case_sensitive", false, &case_sensitive));
    const nib_value attribute = argument(a, 2, "attribute", NIB_NULL);
    if (attribute.type != NIB_VALUE_NULL && attribute.type != NIB_VALUE_STRING &&
        attribute.type != NIB_VALUE_INTEGER)
        return nib_jinja_fail(a->m, "the attribute of sort() is a string or an integer, not %s",
                              nib_value_type_name(attribute));
    nib_list *list;
    NIB_TRY(copy_list(a, &list));
    *out = nib_value_of_list(list);
    return nib_jinja_sort(a->m, list->items, list->count, case_sensitive, reverse,
                          attribute.type == NIB_VALUE_NULL ? NULL : attribute_key, &attribute);
}

/* map(attribute=, default=) */
static nib_status filter_map(const application *a, nib_value *out)
{
    const nib_value *attribute = a->keywords ? nib_map_get_cstr(a->keywords, "attribute") : NULL;
    if (!attribute || attribute->type != NIB_VALUE_STRING)
        return nib_jinja_fail(a->m, "map() works with attribute=\"name\" only");
    const nib_value fallback = argument(a, SIZE_MAX, "default", NIB_UNDEFINED);
    nib_list *list;
    NIB_TRY(copy_list(a, &list));
    for (size_t i = 0; i < list->count; i++) {
        if (!has_entries(list->items[i]))
            return nib_jinja_fail(a->m, "map() needs objects, not %s",
                                  nib_value_type_name(list->items[i]));
        list->items[i] = follow_path(list->items[i], attribute->as.string);
        if (list->items[i].type == NIB_VALUE_UNDEFINED)
            list->items[i] = fallback;
    }
    *out = nib_value_of_list(list);
    return NIB_OK;
}

/* selectattr(name), selectattr(name, test), selectattr(name, test, value): an item without the
 * attribute never passes. */
static nib_status attribute_passes(const application *a, nib_value item, bool *out)
{
    *out = false;
    if (!has_entries(item))
        return nib_jinja_fail(a->m, "%.*s() needs objects, not %s", NIB_STR_ARG(a->name),
                              nib_value_type_name(item));
    const nib_value *value = nib_map_get(item.as.map, a->args[0].as.string);
    if (!value)
        return NIB_OK;
    if (a->count > 1)
        return nib_jinja_test(a->m, a->args[1].as.string, *value, a->args + 2, a->count - 2, out);
    *out = nib_jinja_truthy(*value);
    return NIB_OK;
}

static nib_status filter_by_attribute(const application *a, nib_value *out)
{
    const bool wanted = nib_str_is(a->name, "selectattr");
    for (size_t i = 0; i < a->count; i++) {
        if (a->args[i].type != NIB_VALUE_STRING)
            return nib_jinja_fail(a->m, "%.*s() takes strings, not %s", NIB_STR_ARG(a->name),
                                  nib_value_type_name(a->args[i]));
    }
    if (a->count == 0 || a->has_keywords)
        return nib_jinja_fail(a->m, "%.*s() takes the name of an attribute", NIB_STR_ARG(a->name));
    if (a->count > 1 && !nib_jinja_test_exists(a->args[1].as.string))
        return nib_jinja_fail_unknown_test(a->m, a->args[1].as.string);
    nib_list *list;
    NIB_TRY(nib_jinja_new_list(a->m, 0, &list));
    for (size_t i = 0; i < a->operand.as.list->count; i++) {
        bool passes;
        NIB_TRY(nib_jinja_spend(a->m, 1));
        NIB_TRY(attribute_passes(a, a->operand.as.list->items[i], &passes));
        if (passes == wanted)
            NIB_TRY(nib_jinja_push(a->m, list, a->operand.as.list->items[i]));
    }
    *out = nib_value_of_list(list);
    return NIB_OK;
}

/* ---- strings ---- */

static nib_status filter_string_length(const application *a, nib_value *out)
{
    *out = nib_value_integer((double)nib_jinja_utf16_length(a->operand.as.string));
    return NIB_OK;
}

static nib_status filter_trim(const application *a, nib_value *out)
{
    *out = nib_value_string(nib_js_trim(a->operand.as.string));
    return NIB_OK;
}

/* The methods of strings and objects that are filters as well. */
static nib_status filter_method(const application *a, nib_value *out)
{
    bool found;
    return nib_jinja_call_method(a->m, a->operand, a->name, a->args, a->count + a->has_keywords,
                                 a->has_keywords, &found, out);
}

/* indent(width = 4, first = false, blank = false) */
static nib_status filter_indent(const application *a, nib_value *out)
{
    size_t width = 0;
    NIB_TRY(take_width(a, argument(a, 0, "width", nib_value_integer(4)), "the width of indent()",
                       &width));
    const bool first = nib_jinja_truthy(argument(a, 1, "first", nib_value_bool(false)));
    const bool blank = nib_jinja_truthy(argument(a, 2, "blank", nib_value_bool(false)));
    const nib_str text = a->operand.as.string;
    nib_buf buf;
    nib_jinja_start_text(a->m, &buf);
    for (size_t at = 0; at <= text.len && buf.status == NIB_OK;) {
        size_t end = at;
        while (end < text.len && text.data[end] != '\n')
            end++;
        const bool pad = (first || at > 0) && (blank || end > at);
        for (size_t i = 0; pad && i < width && buf.status == NIB_OK; i++)
            nib_buf_putc(&buf, ' ');
        nib_buf_append(&buf, text.data + at, end - at + (end < text.len));
        at = end + 1;
    }
    return nib_jinja_take_text(a->m, &buf, out);
}

/* JavaScript's parseInt(text, 10) and parseFloat(text): the longest prefix that is a number. */
static bool parse_prefix(nib_str text, bool fraction, double *out)
{
    for (size_t n; (n = nib_js_space_at_start(text)) != 0;)
        text = (nib_str){text.data + n, text.len - n};
    const bool sign = text.len > 0 && (text.data[0] == '-' || text.data[0] == '+');
    size_t end = sign, digits = 0;
    for (; end < text.len && nib_is_digit(text.data[end]); end++)
        digits++;
    if (fraction) {
        static const nib_str infinity = {"Infinity", 8};
        if (nib_str_starts((nib_str){text.data + sign, text.len - sign}, infinity)) {
            *out = sign && text.data[0] == '-' ? -(double)INFINITY : (double)INFINITY;
            return true;
        }
        if (end < text.len && text.data[end] == '.') {
            size_t after = end + 1;
            for (; after < text.len && nib_is_digit(text.data[after]); after++)
                digits++;
            end = digits ? after : end;
        }
        if (digits && end < text.len && (text.data[end] == 'e' || text.data[end] == 'E')) {
            size_t after = end + 1;
            after += after < text.len && (text.data[after] == '-' || text.data[after] == '+');
            if (after < text.len && nib_is_digit(text.data[after])) {
                while (after < text.len && nib_is_digit(text.data[after]))
                    after++;
                end = after;
            }
        }
    }
    if (digits == 0)
        return false;
    *out = nib_number_from_js_string((nib_str){text.data, end});
    return true;
}

static nib_status filter_string_int(const application *a, nib_value *out)
{
    double number;
    *out = parse_prefix(a->operand.as.string, false, &number)
               ? nib_value_integer(number)
               : argument(a, 0, "default", nib_value_integer(0));
    return NIB_OK;
}

static nib_status filter_string_float(const application *a, nib_value *out)
{
    double number;
    *out = parse_prefix(a->operand.as.string, true, &number)
               ? nib_value_float(number)
               : argument(a, 0, "default", nib_value_float(0));
    return NIB_OK;
}

/* ---- numbers and booleans ---- */

static nib_status filter_abs(const application *a, nib_value *out)
{
    *out = a->operand;
    out->as.number = fabs(a->operand.as.number);
    return NIB_OK;
}

static nib_status filter_int(const application *a, nib_value *out)
{
    *out = nib_value_integer(floor(a->operand.as.number));
    return NIB_OK;
}

static nib_status filter_float(const application *a, nib_value *out)
{
    *out = nib_value_float(a->operand.as.number);
    return NIB_OK;
}

static nib_status filter_bool_int(const application *a, nib_value *out)
{
    *out = nib_value_integer(a->operand.as.boolean);
    return NIB_OK;
}

static nib_status filter_bool_float(const application *a, nib_value *out)
{
    *out = nib_value_float(a->operand.as.boolean);
    return NIB_OK;
}

/* ---- objects ---- */

static nib_status filter_object_length(const application *a, nib_value *out)
{
    *out = nib_value_integer((double)a->operand.as.map->count);
    return NIB_OK;
}

/* ---- tables ---- */

typedef enum operand_class {
    OPERAND_ANY,
    OPERAND_LIST,
    OPERAND_STRING,
    OPERAND_NUMBER,
    OPERAND_BOOL,
    OPERAND_OBJECT,
    OPERAND_NONE,
} operand_class;

typedef struct filter {
    operand_class operand;
    const char *name;
    nib_status (*apply)(const application *a, nib_value *out);
} filter;

static const filter plain_filters[] = {
    {OPERAND_ANY, "safe", filter_safe},
    {OPERAND_ANY, "tojson", filter_tojson},
    {OPERAND_LIST, "list", filter_safe},
    {OPERAND_LIST, "first", filter_first},
    {OPERAND_LIST, "last", filter_last},
    {OPERAND_LIST, "length", filter_length},
    {OPERAND_LIST, "reverse", filter_reverse},
    {OPERAND_LIST, "sort", filter_sort},
    {OPERAND_LIST, "join", filter_join},
    {OPERAND_LIST, "string", filter_text},
    {OPERAND_LIST, "unique", filter_unique},
    {OPERAND_STRING, "length", filter_string_length},
    {OPERAND_STRING, "upper", filter_method},
    {OPERAND_STRING, "lower", filter_method},
    {OPERAND_STRING, "title", filter_method},
    {OPERAND_STRING, "capitalize", filter_method},
    {OPERAND_STRING, "trim", filter_trim},
    {OPERAND_STRING, "indent", filter_indent},
    {OPERAND_STRING, "join", filter_join},
    {OPERAND_STRING, "string", filter_safe},
    {OPERAND_STRING, "int", filter_string_int},
    {OPERAND_STRING, "float", filter_string_float},
    {OPERAND_NUMBER, "abs", filter_abs},
    {OPERAND_NUMBER, "int", filter_int},
    {OPERAND_NUMBER, "float", filter_float},
    {OPERAND_NUMBER, "string", filter_text},
    {OPERAND_BOOL, "bool", filter_safe},
    {OPERAND_BOOL, "int", filter_bool_int},
    {OPERAND_BOOL, "float", filter_bool_float},
    {OPERAND_BOOL, "string", filter_text},
    {OPERAND_OBJECT, "length", filter_object_length},
    {OPERAND_OBJECT, "items", filter_method},
    {OPERAND_OBJECT, "keys", filter_method},
    {OPERAND_OBJECT, "values", filter_method},
    {OPERAND_OBJECT, "get", filter_method},
    {OPERAND_OBJECT, "dictsort", filter_method},
    {OPERAND_NONE, NULL, NULL},
};

static const filter call_filters[] = {
    {OPERAND_ANY, "tojson", filter_tojson},
    {OPERAND_ANY, "default", filter_default},
    {OPERAND_LIST, "join", filter_join},
    {OPERAND_LIST, "sort", filter_sort},
    {OPERAND_LIST, "selectattr", filter_by_attribute},
    {OPERAND_LIST, "rejectattr", filter_by_attribute},
    {OPERAND_LIST, "map", filter_map},
    {OPERAND_STRING, "indent", filter_indent},
    {OPERAND_STRING, "replace", filter_method},
    {OPERAND_STRING, "join", filter_join},
    {OPERAND_STRING, "int", filter_string_int},
    {OPERAND_STRING, "float", filter_string_float},
    {OPERAND_NUMBER, "int", filter_safe},
    {OPERAND_NUMBER, "float", filter_safe},
    {OPERAND_BOOL, "int", filter_bool_int},
    {OPERAND_BOOL, "float", filter_bool_float},
    {OPERAND_OBJECT, "items", filter_method},
    {OPERAND_OBJECT, "keys", filter_method},
    {OPERAND_OBJECT, "values", filter_method},
    {OPERAND_OBJECT, "get", filter_method},
    {OPERAND_OBJECT, "dictsort", filter_method},
    {OPERAND_NONE, NULL, NULL},
};

static operand_class class_of(nib_value v)
{
    switch (v.type) {
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
        return OPERAND_LIST;
    case NIB_VALUE_STRING:
        return OPERAND_STRING;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        return OPERAND_NUMBER;
    case NIB_VALUE_BOOL:
        return OPERAND_BOOL;
    case NIB_VALUE_MAP:
    case NIB_VALUE_VIEW:
        return OPERAND_OBJECT;
    default:
        return OPERAND_NONE;
    }
}

static nib_status apply(const application *a, const filter *filters, const char *parentheses,
                        nib_value *out)
{
    const operand_class operand = class_of(a->operand);
    if (nib_jinja_is_broken(a->operand) && !nib_str_is(a->name, "safe") &&
        !nib_str_is(a->name, "tojson") && !nib_str_is(a->name, "string") &&
        !nib_str_is(a->name, "default"))
        return nib_jinja_fail(a->m, "a string was indexed out of range");
    for (; filters->name; filters++) {
        if ((filters->operand == OPERAND_ANY || filters->operand == operand) &&
            nib_str_is(a->name, filters->name))
            return filters->apply(a, out);
    }
    return nib_jinja_fail(a->m, "there is no filter \"%.*s%s\" for %s", NIB_STR_ARG(a->name),
                          parentheses, nib_value_type_name(a->operand));
}

nib_status nib_jinja_filter(machine *m, const node *n, nib_value operand, environment *env,
                            nib_value *out)
{
    application a = {.m = m, .name = n->as.applied.name, .operand = operand};
    if (!n->as.applied.arguments)
        return apply(&a, plain_filters, "", out);
    nib_value *args;
    size_t count;
    NIB_TRY(nib_jinja_evaluate_arguments(m, n->as.applied.arguments, env, &args, &count,
                                         &a.has_keywords));
    a.args = args;
    a.count = count - a.has_keywords;
    a.keywords = a.has_keywords ? args[count - 1].as.map : NULL;
    return apply(&a, call_filters, "()", out);
}
