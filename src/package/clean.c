/* SPDX-License-Identifier: Apache-2.0 */
#include "package/reader.h"

bool nib_is_forbidden_key(nib_str key)
{
    static const char *const names[] = {
        "constructor",      "__defineGetter__", "__defineSetter__", "hasOwnProperty",
        "__lookupGetter__", "__lookupSetter__", "isPrototypeOf",    "propertyIsEnumerable",
        "toString",         "valueOf",          "__proto__",        "toLocaleString",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nib_str_is(key, names[i]))
            return true;
    }
    return false;
}

bool nib_is_stable_id(nib_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.data[i];
        if (!nib_is_digit(c) && !nib_is_alpha(c) && (c != '_' || i == 0))
            return false;
    }
    return text.len > 0;
}

static nib_status clean_at_depth(nib_reader *r, nib_value value, unsigned depth, nib_value *out);

static nib_status clean_list(nib_reader *r, const nib_list *list, unsigned depth, nib_value *out)
{
    nib_list *copy = nib_list_new(r->arena, list->count);
    if (!copy)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        NIB_TRY(nib_at_index(r, i, clean_at_depth(r, list->items[i], depth + 1, &copy->items[i])));
        copy->count++;
    }
    *out = nib_value_of_list(copy);
    return NIB_OK;
}

static nib_status clean_map(nib_reader *r, const nib_map *map, unsigned depth, nib_value *out)
{
    nib_map *copy = nib_map_new(r->arena, map->count);
    if (!copy)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        if (nib_is_forbidden_key(entry->key))
            return nib_at_key(r, entry->key,
                              nib_refuse(r, "the key \"%.*s\" is forbidden anywhere in a manifest",
                                         NIB_SHOW_STR(entry->key)));
        if (nib_str_is(entry->key, "$comment")) {
            NIB_TRY(nib_at_key(r, entry->key,
                               nib_keys_check(r, NIB_KEY_STRING, "\"$comment\"", entry->value)));
            continue;
        }
        nib_value member;
        NIB_TRY(nib_at_key(r, entry->key, clean_at_depth(r, entry->value, depth + 1, &member)));
        if (!nib_map_set(r->arena, copy, entry->key, member))
            return nib_fail_memory(r->error);
    }
    *out = nib_value_of_map(copy);
    return NIB_OK;
}

static nib_status clean_at_depth(nib_reader *r, nib_value value, unsigned depth, nib_value *out)
{
    if (depth > NIB_VALUE_MAX_DEPTH)
        return nib_fail(r->error, NIB_LIMIT, "the manifest is nested deeper than %d levels",
                        NIB_VALUE_MAX_DEPTH);
    if (value.type == NIB_VALUE_LIST)
        return clean_list(r, value.as.list, depth, out);
    if (value.type == NIB_VALUE_MAP)
        return clean_map(r, value.as.map, depth, out);
    *out = value;
    return NIB_OK;
}

nib_status nib_clean(nib_reader *r, nib_value value, nib_value *out)
{
    return clean_at_depth(r, value, 0, out);
}
