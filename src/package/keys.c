/* SPDX-License-Identifier: Apache-2.0 */
#include "package/keys.h"

#include <stdio.h>

#include "package/reader.h"
#include "value/number.h"

nib_status nib_refuse(nib_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    nib_fail_v(r->error, NIB_CONTRACT, format, args);
    va_end(args);
    return NIB_CONTRACT;
}

/* ---- paths ---- */

/* A key that can follow a dot as it is. */
static bool is_plain_key(nib_str key)
{
    if (key.len == 0 || key.len > 60)
        return false;
    for (size_t i = 0; i < key.len; i++) {
        const char c = key.data[i];
        if (!nib_is_digit(c) && !nib_is_alpha(c) && c != '_' && c != '$' && c != '-')
            return false;
    }
    return true;
}

nib_status nib_at_key(nib_reader *r, nib_str key, nib_status status)
{
    if (status == NIB_OK)
        return NIB_OK;
    if (is_plain_key(key)) {
        nib_error_path_prefix(r->error, "%.*s", NIB_STR_ARG(key));
        return status;
    }
    char safe[64];
    size_t len = 0;
    for (; len < key.len && len < sizeof safe - 1; len++)
        safe[len] = (unsigned char)key.data[len] < ' ' ? '?' : key.data[len];
    safe[len] = '\0';
    nib_error_path_prefix(r->error, "[\"%s\"]", safe);
    return status;
}

nib_status nib_at_name(nib_reader *r, const char *key, nib_status status)
{
    return nib_at_key(r, nib_str_from(key), status);
}

nib_status nib_at_index(nib_reader *r, size_t index, nib_status status)
{
    if (status != NIB_OK)
        nib_error_path_prefix(r->error, "[%zu]", index);
    return status;
}

void nib_add_note(nib_reader *r, nib_str note)
{
    if (!r->error || note.len == 0)
        return;
    const size_t used = strlen(r->error->message);
    snprintf(r->error->message + used, sizeof r->error->message - used, " (%.*s)",
             NIB_SHOW_STR(note));
}

nib_status nib_check_count(nib_reader *r, const char *what, size_t count)
{
    if (count <= NIB_MAX_MEMBERS)
        return NIB_OK;
    return nib_fail(r->error, NIB_LIMIT, "%s must have at most %d members, not %zu", what,
                    NIB_MAX_MEMBERS, count);
}

/* ---- values in messages ---- */

nib_shown nib_show(nib_value value)
{
    nib_shown shown;
    char number[NIB_NUMBER_TEXT_BYTES];
    const char *text = nib_value_type_name(value);
    switch (value.type) {
    case NIB_VALUE_STRING: {
        const nib_str s = value.as.string;
        const bool cut = s.len > 80;
        snprintf(shown.text, sizeof shown.text, "the string \"%.*s%s\"", cut ? 80 : (int)s.len,
                 s.data, cut ? "..." : "");
        return shown;
    }
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        nib_number_format(value.as.number, number);
        text = number;
        break;
    case NIB_VALUE_BOOL:
        text = value.as.boolean ? "true" : "false";
        break;
    case NIB_VALUE_NULL:
        text = "null";
        break;
    case NIB_VALUE_LIST:
        text = value.as.list->count ? "a list" : "an empty list";
        break;
    case NIB_VALUE_MAP:
        text = "an object";
        break;
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_TUPLE:
    case NIB_VALUE_NAMESPACE:
    case NIB_VALUE_FUNCTION:
    case NIB_VALUE_VIEW:
        break;
    }
    snprintf(shown.text, sizeof shown.text, "%s", text);
    return shown;
}

/* ---- kinds ---- */

static bool is_kind(nib_key_kind kind, nib_value value)
{
    switch (kind) {
    case NIB_KEY_ANY:
        return true;
    case NIB_KEY_STRING:
        return value.type == NIB_VALUE_STRING;
    case NIB_KEY_TEXT:
        return value.type == NIB_VALUE_STRING && value.as.string.len > 0;
    case NIB_KEY_BOOL:
        return value.type == NIB_VALUE_BOOL;
    case NIB_KEY_NUMBER:
        return nib_value_is_number(value);
    case NIB_KEY_MAP:
        return value.type == NIB_VALUE_MAP;
    case NIB_KEY_LIST:
        return value.type == NIB_VALUE_LIST;
    case NIB_KEY_ITEMS:
        return value.type == NIB_VALUE_LIST && value.as.list->count > 0;
    case NIB_KEY_REFUSED:
        break;
    }
    return false;
}

nib_status nib_keys_check(nib_reader *r, nib_key_kind kind, const char *what, nib_value value)
{
    static const char *const names[] = {
        [NIB_KEY_ANY] = "anything",
        [NIB_KEY_STRING] = "a string",
        [NIB_KEY_TEXT] = "a non-empty string",
        [NIB_KEY_BOOL] = "true or false",
        [NIB_KEY_NUMBER] = "a finite number",
        [NIB_KEY_MAP] = "an object",
        [NIB_KEY_LIST] = "a list",
        [NIB_KEY_ITEMS] = "a non-empty list",
        [NIB_KEY_REFUSED] = "absent",
    };
    if (is_kind(kind, value))
        return NIB_OK;
    return nib_refuse(r, "%s must be %s, not %s", what, names[kind], nib_show(value).text);
}

/* ---- objects ---- */

static const nib_key *find_row(const nib_keys *keys, nib_str name)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (nib_str_is(name, keys->rows[i].name))
            return &keys->rows[i];
    }
    return NULL;
}

static nib_status refuse_unknown(nib_reader *r, const nib_keys *keys, nib_str name)
{
    char known[1200];
    size_t used = 0;
    known[0] = '\0';
    for (size_t i = 0; i < keys->count && used < sizeof known; i++) {
        if (keys->rows[i].kind != NIB_KEY_REFUSED)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     keys->rows[i].name);
    }
    return nib_refuse(r, "%s has no key \"%.*s\"; known keys: %s", keys->what, NIB_SHOW_STR(name),
                      known);
}

static nib_status check_names(nib_reader *r, const nib_keys *keys, const nib_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const nib_str name = map->entries[i].key;
        const nib_key *row = find_row(keys, name);
        if (row && row->kind == NIB_KEY_REFUSED)
            return nib_at_key(r, name, nib_refuse(r, "\"%s\" %s", row->name, row->hint));
        if (!row && !keys->open)
            return nib_at_key(r, name, refuse_unknown(r, keys, name));
    }
    return NIB_OK;
}

static void store(const nib_key *row, nib_value value, void *target)
{
    char *at = (char *)target + row->offset;
    switch (row->kind) {
    case NIB_KEY_STRING:
    case NIB_KEY_TEXT:
        memcpy(at, &value.as.string, sizeof value.as.string);
        return;
    case NIB_KEY_BOOL:
        memcpy(at, &value.as.boolean, sizeof value.as.boolean);
        return;
    case NIB_KEY_NUMBER:
        memcpy(at, &value.as.number, sizeof value.as.number);
        return;
    case NIB_KEY_ANY:
    case NIB_KEY_MAP:
    case NIB_KEY_LIST:
    case NIB_KEY_ITEMS:
    case NIB_KEY_REFUSED:
        break;
    }
    memcpy(at, &value, sizeof value);
}

static nib_status read_row(nib_reader *r, const nib_key *row, const nib_value *value, void *target)
{
    char what[64];
    snprintf(what, sizeof what, "\"%s\"", row->name);
    NIB_TRY(nib_keys_check(r, row->kind, what, *value));
    if (row->stored)
        store(row, *value, target);
    return row->set ? row->set(r, value, target) : NIB_OK;
}

nib_status nib_keys_read(nib_reader *r, const nib_keys *keys, nib_value value, void *target)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, keys->what, value));
    const nib_map *map = value.as.map;
    NIB_TRY(check_names(r, keys, map));
    for (size_t i = 0; i < keys->count; i++) {
        const nib_key *row = &keys->rows[i];
        const nib_value *member = nib_map_get_cstr(map, row->name);
        if (member)
            NIB_TRY(nib_at_name(r, row->name, read_row(r, row, member, target)));
        else if (row->required)
            return nib_at_name(r, row->name,
                               nib_refuse(r, "%s needs the key \"%s\"", keys->what, row->name));
    }
    return NIB_OK;
}
