/* SPDX-License-Identifier: Apache-2.0
 *
 * Values as text: format 4.8, the filter tojson, and JavaScript's String(value).
 */
#include "jinja/machine.h"

#include <math.h>
#include <string.h>

#include "value/json.h"
#include "value/number.h"

/* ---- JSON ---- */

typedef struct writer {
    machine *m; /* NULL outside an evaluation; then keys are not sorted */
    nib_buf *out;
    const json_options *options;
    nib_error *error;
} writer;

static nib_status write_value(writer *w, nib_value value, unsigned depth);

static void write_break(writer *w, unsigned depth)
{
    if (!w->options->indent)
        return;
    nib_buf_putc(w->out, '\n');
    for (size_t i = 0; i < w->options->indent * depth && w->out->status == NIB_OK; i++)
        nib_buf_putc(w->out, ' ');
}

static void write_unit(nib_buf *out, unsigned unit)
{
    static const char hex[] = "0123456789abcdef";
    const char escape[6] = {
        '\\', 'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15]};
    nib_buf_append(out, escape, sizeof escape);
}

static unsigned long decode(nib_str s, size_t bytes)
{
    static const unsigned char lead_mask[] = {0, 0xff, 0x1f, 0x0f, 0x07};
    unsigned long code = (unsigned char)s.data[0] & lead_mask[bytes];
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | ((unsigned char)s.data[i] & 0x3f);
    return code;
}

static void write_ascii_string(nib_buf *out, nib_str s)
{
    nib_buf quoted;
    nib_buf_init(&quoted, out->allocator, out->limit);
    nib_json_write_string(&quoted, s);
    for (size_t at = 0; at < quoted.len;) {
        const nib_str rest = {quoted.data + at, quoted.len - at};
        const size_t bytes = nib_jinja_code_point_bytes(rest);
        const unsigned long code = decode(rest, bytes);
        if (code < 0x80) {
            nib_buf_putc(out, (char)code);
        } else if (code < 0x10000) {
            write_unit(out, (unsigned)code);
        } else {
            write_unit(out, (unsigned)(0xd800 + ((code - 0x10000) >> 10)));
            write_unit(out, (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
        }
        at += bytes;
    }
    if (quoted.status != NIB_OK && out->status == NIB_OK)
        out->status = quoted.status;
    nib_buf_free(&quoted);
}

static void write_string(writer *w, nib_str s)
{
    if (w->options->ensure_ascii)
        write_ascii_string(w->out, s);
    else
        nib_json_write_string(w->out, s);
}

static nib_status write_list(writer *w, const nib_list *list, unsigned depth)
{
    nib_buf_putc(w->out, '[');
    write_break(w, depth + 1);
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) {
            nib_buf_str(w->out, w->options->item_separator);
            write_break(w, depth + 1);
        }
        NIB_TRY(write_value(w, list->items[i], depth + 1));
    }
    write_break(w, depth);
    nib_buf_putc(w->out, ']');
    return NIB_OK;
}

/* The order of String.prototype.localeCompare for ASCII: punctuation, digits, letters; case decides
 * last, lower first. */
static int collation_rank(char c)
{
    static const char order[] = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789";
    const char *found = c ? strchr(order, c) : NULL;
    if (found)
        return (int)(found - order) + 1;
    if (nib_is_alpha(c))
        return 100 + ((c | 0x20) - 'a');
    return 200 + (unsigned char)c;
}

static int collate(nib_str a, nib_str b)
{
    for (size_t i = 0; i < a.len && i < b.len; i++) {
        const int x = collation_rank(a.data[i]), y = collation_rank(b.data[i]);
        if (x != y)
            return x - y;
    }
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    for (size_t i = 0; i < a.len; i++) {
        if (a.data[i] != b.data[i])
            return a.data[i] > b.data[i] ? -1 : 1; /* 'a' is above 'A' in ASCII and comes first */
    }
    return 0;
}

/* A stable insertion sort: objects that are sorted for printing are small. */
static nib_status sorted_entries(writer *w, const nib_map *map, nib_entry **out)
{
    NIB_TRY(nib_jinja_spend(w->m, map->count > 1000000 ? SIZE_MAX : map->count * map->count / 16));
    nib_entry *entries = NIB_ARENA_ARRAY(w->m->evaluation.arena, nib_entry, map->count);
    if (!entries)
        return nib_jinja_out_of_memory(w->m);
    for (size_t i = 0; i < map->count; i++) {
        size_t k = i;
        for (; k > 0 && collate(entries[k - 1].key, map->entries[i].key) > 0; k--)
            entries[k] = entries[k - 1];
        entries[k] = map->entries[i];
    }
    *out = entries;
    return NIB_OK;
}

static nib_status write_map(writer *w, const nib_map *map, unsigned depth)
{
    nib_entry *entries = map->entries;
    if (w->options->sort_keys && w->m)
        NIB_TRY(sorted_entries(w, map, &entries));
    nib_buf_putc(w->out, '{');
    for (size_t i = 0; i < map->count; i++) {
        if (i > 0)
            nib_buf_str(w->out, w->options->item_separator);
        write_break(w, depth + 1);
        write_string(w, entries[i].key);
        nib_buf_str(w->out, w->options->key_separator);
        NIB_TRY(write_value(w, entries[i].value, depth + 1));
    }
    write_break(w, depth);
    nib_buf_putc(w->out, '}');
    return NIB_OK;
}

static void write_number(nib_buf *out, double number)
{
    char text[NIB_NUMBER_TEXT_BYTES];
    nib_buf_append(out, text, nib_number_format(number, text));
}

static nib_status write_value(writer *w, nib_value value, unsigned depth)
{
    if (depth > NIB_VALUE_MAX_DEPTH)
        return nib_fail(w->error, NIB_LIMIT, "a value is nested deeper than %d levels",
                        NIB_VALUE_MAX_DEPTH);
    if (w->out->status != NIB_OK)
        return NIB_OK; /* the owner of the buffer reports it */
    switch (value.type) {
    case NIB_VALUE_UNDEFINED:
        nib_buf_puts(w->out, w->options->undefined_as_null ? "null" : "undefined");
        return NIB_OK;
    case NIB_VALUE_NULL:
        nib_buf_puts(w->out, "null");
        return NIB_OK;
    case NIB_VALUE_BOOL:
        nib_buf_puts(w->out, value.as.boolean ? "true" : "false");
        return NIB_OK;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        if (isfinite(value.as.number))
            write_number(w->out, value.as.number);
        else
            nib_buf_puts(w->out, "null");
        return NIB_OK;
    case NIB_VALUE_STRING:
        if (nib_jinja_is_broken(value))
            nib_buf_puts(w->out, depth ? "" : "undefined");
        else
            write_string(w, value.as.string);
        return NIB_OK;
    case NIB_VALUE_LIST:
        return write_list(w, value.as.list, depth);
    case NIB_VALUE_MAP:
    case NIB_VALUE_NAMESPACE:
    case NIB_VALUE_VIEW:
        return write_map(w, value.as.map, depth);
    case NIB_VALUE_TUPLE:
    case NIB_VALUE_FUNCTION:
        break;
    }
    return nib_fail(w->error, NIB_EVAL, "a %s has no JSON text%s", nib_value_type_name(value),
                    value.type == NIB_VALUE_FUNCTION ? "; was a call meant?" : "");
}

nib_status nib_jinja_json(machine *m, nib_buf *out, nib_value value, const json_options *options,
                          nib_error *error)
{
    writer w = {.m = m, .out = out, .options = options, .error = error};
    return write_value(&w, value, 0);
}

/* ---- printing ---- */

static void print_float(nib_buf *out, double number)
{
    char text[NIB_NUMBER_TEXT_BYTES];
    if (isfinite(number) && trunc(number) == number && fabs(number) < 1e21) {
        nib_buf_append(out, text, nib_integer_format_exact(number, text));
        nib_buf_puts(out, ".0");
    } else {
        write_number(out, number);
    }
}

nib_status nib_jinja_print(nib_buf *out, nib_value value, nib_error *error)
{
    static const json_options options = {.item_separator = {", ", 2}, .key_separator = {": ", 2}};
    switch (value.type) {
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
        return NIB_OK;
    case NIB_VALUE_BOOL:
        nib_buf_puts(out, value.as.boolean ? "true" : "false");
        return NIB_OK;
    case NIB_VALUE_INTEGER:
        write_number(out, value.as.number);
        return NIB_OK;
    case NIB_VALUE_FLOAT:
        print_float(out, value.as.number);
        return NIB_OK;
    case NIB_VALUE_STRING:
        nib_buf_str(out, value.as.string);
        return NIB_OK;
    case NIB_VALUE_FUNCTION:
        return nib_fail(error, NIB_EVAL, "a function cannot be printed; was a call meant?");
    case NIB_VALUE_TUPLE:
        return nib_fail(error, NIB_EVAL, "a tuple cannot be printed; write a list with []");
    case NIB_VALUE_LIST:
    case NIB_VALUE_MAP:
    case NIB_VALUE_NAMESPACE:
    case NIB_VALUE_VIEW:
        break;
    }
    return nib_jinja_json(NULL, out, value, &options, error);
}

/* ---- JavaScript's String(value) ---- */

/* Elements print as 4.8 says, except that none and undefined give "undefined" (format 3.4). */
static nib_status join_text(nib_buf *out, const nib_list *list, nib_error *error)
{
    for (size_t i = 0; i < list->count && out->status == NIB_OK; i++) {
        if (i > 0)
            nib_buf_putc(out, ',');
        if (nib_value_is_absent(list->items[i]))
            nib_buf_puts(out, "undefined");
        else
            NIB_TRY(nib_jinja_print(out, list->items[i], error));
    }
    return NIB_OK;
}

nib_status nib_jinja_js_text(nib_buf *out, nib_value value, nib_error *error)
{
    switch (value.type) {
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
        nib_buf_puts(out, "undefined");
        return NIB_OK;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        write_number(out, value.as.number);
        return NIB_OK;
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
        return join_text(out, value.as.list, error);
    case NIB_VALUE_MAP:
    case NIB_VALUE_NAMESPACE:
    case NIB_VALUE_VIEW:
        nib_buf_puts(out, "[object Map]");
        return NIB_OK;
    case NIB_VALUE_BOOL:
    case NIB_VALUE_STRING:
        return nib_jinja_print(out, value, error);
    case NIB_VALUE_FUNCTION:
        break;
    }
    return nib_fail(error, NIB_EVAL, "a function has no text; was a call meant?");
}

bool nib_jinja_js_truthy(nib_value value)
{
    switch (value.type) {
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
        return false;
    case NIB_VALUE_BOOL:
        return value.as.boolean;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        return value.as.number != 0 && !isnan(value.as.number);
    case NIB_VALUE_STRING:
        return value.as.string.len > 0 && !nib_jinja_is_broken(value);
    default:
        return true;
    }
}

double nib_jinja_js_number(nib_arena *arena, nib_value value)
{
    switch (value.type) {
    case NIB_VALUE_BOOL:
        return value.as.boolean;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        return value.as.number;
    case NIB_VALUE_STRING:
        return nib_number_from_js_string(value.as.string);
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE: {
        nib_buf text;
        nib_buf_init(&text, arena->allocator, 0);
        double number = (double)NAN;
        if (nib_jinja_js_text(&text, value, NULL) == NIB_OK && text.status == NIB_OK)
            number = nib_number_from_js_string((nib_str){text.data, text.len});
        nib_buf_free(&text);
        return number;
    }
    default:
        return (double)NAN;
    }
}
