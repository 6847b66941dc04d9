/* SPDX-License-Identifier: Apache-2.0
 *
 * {name} substitution in variant templates (format 2.A.10).
 */
#include "base/buf.h"
#include "package/reader.h"
#include "value/number.h"

/* Bounds what a small file can blow up to: values plus bytes of text. */
enum { MAX_WORK = 16 << 20 };

typedef struct substituter {
    nib_reader *r;
    nib_substitution by;
    size_t *work;
} substituter;

static nib_status spend(substituter *s, size_t amount)
{
    *s->work += amount;
    if (amount <= MAX_WORK && *s->work <= MAX_WORK)
        return NIB_OK;
    return nib_fail(s->r->error, NIB_LIMIT,
                    "the variant families expand to more than %d values "
                    "and bytes",
                    MAX_WORK);
}

static size_t count_values(nib_value value)
{
    size_t count = 1;
    if (value.type == NIB_VALUE_LIST) {
        for (size_t i = 0; i < value.as.list->count; i++)
            count += count_values(value.as.list->items[i]);
    } else if (value.type == NIB_VALUE_MAP) {
        for (size_t i = 0; i < value.as.map->count; i++)
            count += count_values(value.as.map->entries[i].value);
    } else if (value.type == NIB_VALUE_STRING) {
        count += value.as.string.len;
    }
    return count;
}

/* ---- placeholders ---- */

/* The length of "{identifier}" at `at`, 0 when there is none. */
static size_t placeholder_at(nib_str text, size_t at, nib_str *name)
{
    size_t end = at + 1;
    while (end < text.len &&
           (nib_is_alpha(text.data[end]) || nib_is_digit(text.data[end]) || text.data[end] == '_'))
        end++;
    *name = (nib_str){text.data + at + 1, end - at - 1};
    const bool closed = text.data[at] == '{' && end < text.len && text.data[end] == '}';
    return closed && nib_str_is_identifier(*name) ? end + 1 - at : 0;
}

static const nib_value *lookup(const substituter *s, nib_str name)
{
    return nib_map_get(s->by.values, name);
}

/* The value that a whole string stands for; NULL when it is no placeholder of a known name. */
static const nib_value *whole_placeholder(const substituter *s, nib_value value)
{
    nib_str name;
    if (value.type != NIB_VALUE_STRING || value.as.string.len == 0 || s->by.text_only ||
        placeholder_at(value.as.string, 0, &name) != value.as.string.len)
        return NULL;
    return lookup(s, name);
}

/* ---- inside a string ---- */

static nib_status append_scalar(substituter *s, nib_str name, nib_value value, nib_buf *out)
{
    char number[NIB_NUMBER_TEXT_BYTES];
    if (value.type == NIB_VALUE_STRING)
        nib_buf_str(out, value.as.string);
    else if (value.type == NIB_VALUE_BOOL)
        nib_buf_puts(out, value.as.boolean ? "true" : "false");
    else if (nib_value_is_number(value))
        nib_buf_append(out, number, nib_number_format(value.as.number, number));
    else
        return nib_refuse(s->r, "{%.*s} is used as text, but its value is %s", NIB_SHOW_STR(name),
                          nib_show(value).text);
    return NIB_OK;
}

static nib_status append_text(substituter *s, nib_str text, nib_buf *out)
{
    for (size_t at = 0; at < text.len;) {
        nib_str name;
        const size_t len = placeholder_at(text, at, &name);
        const nib_value *value = len ? lookup(s, name) : NULL;
        if (value) {
            NIB_TRY(append_scalar(s, name, *value, out));
            at += len;
        } else {
            nib_buf_putc(out, text.data[at++]);
        }
    }
    return NIB_OK;
}

static nib_status substitute_text(substituter *s, nib_str text, nib_str *out)
{
    *out = text;
    if (!text.len || !memchr(text.data, '{', text.len))
        return NIB_OK;
    nib_buf buf;
    nib_buf_init(&buf, s->r->arena->allocator, MAX_WORK);
    nib_status status = append_text(s, text, &buf);
    if (status == NIB_OK)
        status = nib_buf_check(&buf, "a substituted string", s->r->error);
    if (status == NIB_OK)
        status = spend(s, buf.len);
    if (status == NIB_OK) {
        *out = nib_arena_str(s->r->arena, buf.data ? buf.data : "", buf.len);
        if (!out->data)
            status = nib_fail_memory(s->r->error);
    }
    nib_buf_free(&buf);
    return status;
}

/* ---- trees ---- */

static nib_status substitute(substituter *s, nib_value value, nib_value *out);

static nib_status push(substituter *s, nib_list *list, nib_value value)
{
    NIB_TRY(spend(s, 1));
    return nib_list_push(s->r->arena, list, value) ? NIB_OK : nib_fail_memory(s->r->error);
}

static nib_status push_item(substituter *s, nib_list *list, nib_value item)
{
    const nib_value *whole = whole_placeholder(s, item);
    nib_value value;
    if (whole && whole->type == NIB_VALUE_NULL)
        return nib_refuse(s->r, "%.*s is null, which cannot delete a list element",
                          NIB_SHOW_STR(item.as.string));
    NIB_TRY(substitute(s, item, &value));
    if (!whole || value.type != NIB_VALUE_LIST)
        return push(s, list, value);
    for (size_t i = 0; i < value.as.list->count; i++)
        NIB_TRY(push(s, list, value.as.list->items[i]));
    return NIB_OK;
}

static nib_status substitute_list(substituter *s, const nib_list *list, nib_value *out)
{
    nib_list *copy = nib_list_new(s->r->arena, list->count);
    if (!copy)
        return nib_fail_memory(s->r->error);
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(nib_at_index(s->r, i, push_item(s, copy, list->items[i])));
    *out = nib_value_of_list(copy);
    return NIB_OK;
}

static nib_status substitute_entry(substituter *s, const nib_entry *entry, nib_map *copy)
{
    nib_str key;
    nib_value value;
    NIB_TRY(substitute_text(s, entry->key, &key));
    if (nib_map_get(copy, key))
        return nib_refuse(s->r, "two keys become \"%.*s\" after substitution", NIB_SHOW_STR(key));
    const nib_value *whole = whole_placeholder(s, entry->value);
    if (whole && whole->type == NIB_VALUE_NULL) {
        if (nib_str_is(key, "id"))
            return nib_refuse(s->r, "%.*s is null, which cannot delete an \"id\"",
                              NIB_SHOW_STR(entry->value.as.string));
        return NIB_OK;
    }
    NIB_TRY(substitute(s, entry->value, &value));
    NIB_TRY(spend(s, 1));
    return nib_map_set(s->r->arena, copy, key, value) ? NIB_OK : nib_fail_memory(s->r->error);
}

static nib_status substitute_map(substituter *s, const nib_map *map, nib_value *out)
{
    nib_map *copy = nib_map_new(s->r->arena, map->count);
    if (!copy)
        return nib_fail_memory(s->r->error);
    for (size_t i = 0; i < map->count; i++)
        NIB_TRY(nib_at_key(s->r, map->entries[i].key, substitute_entry(s, &map->entries[i], copy)));
    *out = nib_value_of_map(copy);
    return NIB_OK;
}

/* Inserted values are not substituted again. */
static nib_status substitute(substituter *s, nib_value value, nib_value *out)
{
    const nib_value *whole = whole_placeholder(s, value);
    if (whole) {
        *out = *whole;
        return spend(s, count_values(*whole));
    }
    if (value.type == NIB_VALUE_LIST)
        return substitute_list(s, value.as.list, out);
    if (value.type == NIB_VALUE_MAP)
        return substitute_map(s, value.as.map, out);
    *out = value;
    if (value.type != NIB_VALUE_STRING)
        return NIB_OK;
    return substitute_text(s, value.as.string, &out->as.string);
}

/* ---- what must not be left ---- */

static nib_status refuse_left_over(nib_reader *r, nib_str text)
{
    for (size_t at = 0; at < text.len; at++) {
        nib_str name;
        if (placeholder_at(text, at, &name))
            return nib_refuse(r, "{%.*s} names no value of the family", NIB_SHOW_STR(name));
    }
    return NIB_OK;
}

static nib_status check_left_over(nib_reader *r, nib_value value)
{
    if (value.type == NIB_VALUE_STRING)
        return refuse_left_over(r, value.as.string);
    if (value.type == NIB_VALUE_LIST) {
        for (size_t i = 0; i < value.as.list->count; i++)
            NIB_TRY(nib_at_index(r, i, check_left_over(r, value.as.list->items[i])));
    } else if (value.type == NIB_VALUE_MAP) {
        for (size_t i = 0; i < value.as.map->count; i++) {
            const nib_entry *entry = &value.as.map->entries[i];
            NIB_TRY(nib_at_key(r, entry->key, refuse_left_over(r, entry->key)));
            NIB_TRY(nib_at_key(r, entry->key, check_left_over(r, entry->value)));
        }
    }
    return NIB_OK;
}

/* The parts of a variant that a null must not delete. */
static nib_status check_undeletable(const substituter *s, nib_value template_value)
{
    const nib_value *whole = whole_placeholder(s, template_value);
    if (whole && whole->type == NIB_VALUE_NULL)
        return nib_refuse(s->r, "a null cannot delete a whole variant");
    if (template_value.type != NIB_VALUE_MAP)
        return NIB_OK;
    const nib_value *passes = nib_map_get_cstr(template_value.as.map, "passes");
    whole = passes ? whole_placeholder(s, *passes) : NULL;
    if (whole && whole->type == NIB_VALUE_NULL)
        return nib_at_name(s->r, "passes",
                           nib_refuse(s->r, "a null cannot delete the passes of a variant"));
    return NIB_OK;
}

nib_status nib_substitute(nib_reader *r, nib_substitution by, nib_value template_value,
                          size_t *work, nib_value *out)
{
    substituter s = {r, by, work};
    NIB_TRY(check_undeletable(&s, template_value));
    NIB_TRY(substitute(&s, template_value, out));
    return by.text_only ? NIB_OK : check_left_over(r, *out);
}
