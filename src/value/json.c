/* SPDX-License-Identifier: Apache-2.0 */
#include "value/json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "value/number.h"

/* ---- reading ---- */

typedef struct reader {
    nib_arena *arena;
    nib_error *error;
} reader;

static nib_status convert(reader *r, json_t *json, unsigned depth, nib_value *out);

static nib_status out_of_memory(reader *r)
{
    return nib_fail_memory(r->error);
}

static nib_status convert_list(reader *r, json_t *json, unsigned depth, nib_value *out)
{
    const size_t count = json_array_size(json);
    nib_list *list = nib_list_new(r->arena, count);
    if (!list)
        return out_of_memory(r);
    for (size_t i = 0; i < count; i++) {
        const nib_status status = convert(r, json_array_get(json, i), depth + 1, &list->items[i]);
        if (status != NIB_OK) {
            nib_error_path_prefix(r->error, "[%zu]", i);
            return status;
        }
        list->count++;
    }
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status convert_map(reader *r, json_t *json, unsigned depth, nib_value *out)
{
    nib_map *map = nib_map_new(r->arena, json_object_size(json));
    if (!map)
        return out_of_memory(r);
    const char *name;
    json_t *member;
    json_object_foreach(json, name, member)
    {
        nib_value value;
        const nib_status status = convert(r, member, depth + 1, &value);
        if (status != NIB_OK) {
            nib_error_path_prefix(r->error, "%s", name);
            return status;
        }
        const nib_str key = nib_arena_str(r->arena, name, strlen(name));
        if (!key.data || !nib_map_set(r->arena, map, key, value))
            return out_of_memory(r);
    }
    *out = nib_value_of_map(map);
    return NIB_OK;
}

static nib_status convert(reader *r, json_t *json, unsigned depth, nib_value *out)
{
    if (depth >= NIB_JSON_MAX_DEPTH && (json_is_object(json) || json_is_array(json)))
        return nib_fail(r->error, NIB_LIMIT, "the JSON text is nested deeper than %d levels",
                        NIB_JSON_MAX_DEPTH);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return convert_map(r, json, depth, out);
    case JSON_ARRAY:
        return convert_list(r, json, depth, out);
    case JSON_STRING:
        *out = nib_value_string(
            nib_arena_str(r->arena, json_string_value(json), json_string_length(json)));
        return out->as.string.data ? NIB_OK : out_of_memory(r);
    case JSON_INTEGER: /* does not occur: every number is decoded as a real */
    case JSON_REAL:
        *out = nib_value_number(json_number_value(json));
        return NIB_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = nib_value_bool(json_is_true(json));
        return NIB_OK;
    case JSON_NULL:
        break;
    }
    *out = NIB_NULL;
    return NIB_OK;
}

static nib_status fail_to_read(const json_error_t *problem, const char *text, size_t text_bytes,
                               const char *source, nib_error *error)
{
    const bool deep = json_error_code(problem) == json_error_stack_overflow;
    const bool memory = json_error_code(problem) == json_error_out_of_memory;
    if (memory)
        return nib_fail_memory(error);
    const nib_status status =
        nib_fail(error, deep ? NIB_LIMIT : NIB_FORMAT, "this is not valid JSON: %s", problem->text);
    /* The parser stands behind the token it refused. */
    const size_t offset = problem->position > 0 ? (size_t)problem->position - 1 : 0;
    nib_error_position(error, text, text_bytes, offset);
    nib_error_source(error, source);
    return status;
}

nib_status nib_json_parse(nib_arena *arena, const char *text, size_t text_bytes, const char *source,
                          nib_value *out, nib_error *error)
{
    *out = NIB_UNDEFINED;
    json_error_t problem;
    const size_t flags =
        JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *json = json_loadb(text ? text : "", text_bytes, flags, &problem);
    if (!json)
        return fail_to_read(&problem, text ? text : "", text_bytes, source, error);
    reader r = {.arena = arena, .error = error};
    const nib_status status = convert(&r, json, 0, out);
    json_decref(json);
    if (status != NIB_OK) {
        nib_error_source(error, source);
        *out = NIB_UNDEFINED;
    }
    return status;
}

/* ---- writing ---- */

void nib_json_write_string(nib_buf *buf, nib_str s)
{
    static const char hex[] = "0123456789abcdef";
    nib_buf_putc(buf, '"');
    for (size_t i = 0; i < s.len; i++) {
        const char c = s.data[i];
        static const char plain[] = "\"\\\b\f\n\r\t";
        static const char letters[] = "\"\\bfnrt";
        const char *found = c ? strchr(plain, c) : NULL;
        if (found) {
            const char escape[2] = {'\\', letters[found - plain]};
            nib_buf_append(buf, escape, 2);
        } else if ((unsigned char)c < 0x20) {
            const char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            nib_buf_append(buf, escape, 6);
        } else {
            nib_buf_putc(buf, c);
        }
    }
    nib_buf_putc(buf, '"');
}

static void write_number(nib_buf *buf, double number, nib_json_nonfinite nonfinite)
{
    char text[NIB_NUMBER_TEXT_BYTES];
    if (!isfinite(number) && nonfinite == NIB_NONFINITE_NULL) {
        nib_buf_puts(buf, "null");
        return;
    }
    const bool quoted = !isfinite(number) && nonfinite == NIB_NONFINITE_TEXT;
    nib_buf_puts(buf, quoted ? "\"" : "");
    nib_buf_append(buf, text, nib_number_format(number, text));
    nib_buf_puts(buf, quoted ? "\"" : "");
}

/* What stands between two members, and between a bracket and a member. */
static void write_break(nib_buf *buf, nib_json_style style, unsigned depth, bool after_comma)
{
    if (style.indent) {
        nib_buf_putc(buf, '\n');
        for (unsigned i = 0; i < style.indent * depth; i++)
            nib_buf_putc(buf, ' ');
    } else if (style.spaced && after_comma) {
        nib_buf_putc(buf, ' ');
    }
}

static void write_value(nib_buf *buf, nib_value value, nib_json_style style, unsigned depth);

static void write_list(nib_buf *buf, const nib_list *list, nib_json_style style, unsigned depth)
{
    nib_buf_putc(buf, '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            nib_buf_putc(buf, ',');
        write_break(buf, style, depth + 1, i > 0);
        write_value(buf, list->items[i], style, depth + 1);
    }
    if (list->count)
        write_break(buf, style, depth, false);
    nib_buf_putc(buf, ']');
}

static void write_map(nib_buf *buf, const nib_map *map, nib_json_style style, unsigned depth)
{
    nib_buf_putc(buf, '{');
    for (size_t i = 0; i < map->count; i++) {
        if (i > 0)
            nib_buf_putc(buf, ',');
        write_break(buf, style, depth + 1, i > 0);
        nib_json_write_string(buf, map->entries[i].key);
        nib_buf_puts(buf, style.indent || style.spaced ? ": " : ":");
        write_value(buf, map->entries[i].value, style, depth + 1);
    }
    if (map->count)
        write_break(buf, style, depth, false);
    nib_buf_putc(buf, '}');
}

static void write_value(nib_buf *buf, nib_value value, nib_json_style style, unsigned depth)
{
    if (depth > NIB_VALUE_MAX_DEPTH) {
        buf->status = buf->status == NIB_OK ? NIB_LIMIT : buf->status;
        return;
    }
    if (buf->status != NIB_OK) /* shared parts can make a value much longer than its memory */
        return;
    switch (value.type) {
    case NIB_VALUE_BOOL:
        nib_buf_puts(buf, value.as.boolean ? "true" : "false");
        return;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        write_number(buf, value.as.number, style.nonfinite);
        return;
    case NIB_VALUE_STRING:
        nib_json_write_string(buf, value.as.string);
        return;
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
        write_list(buf, value.as.list, style, depth);
        return;
    case NIB_VALUE_MAP:
    case NIB_VALUE_NAMESPACE:
        write_map(buf, value.as.map, style, depth);
        return;
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
    case NIB_VALUE_FUNCTION:
    case NIB_VALUE_VIEW:
        break;
    }
    nib_buf_puts(buf, "null");
}

void nib_json_write(nib_buf *buf, nib_value value, nib_json_style style)
{
    write_value(buf, value, style, 0);
}
