/* SPDX-License-Identifier: Apache-2.0 */
#include "value/value.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

nib_value nib_value_bool(bool boolean)
{
    return (nib_value){.type = NIB_VALUE_BOOL, .as.boolean = boolean};
}

nib_value nib_value_number(double number)
{
    const bool integral = isfinite(number) && trunc(number) == number;
    return integral ? nib_value_integer(number) : nib_value_float(number);
}

nib_value nib_value_float(double number)
{
    return (nib_value){.type = NIB_VALUE_FLOAT, .as.number = number};
}

nib_value nib_value_integer(double number)
{
    return (nib_value){.type = NIB_VALUE_INTEGER, .as.number = number};
}

nib_value nib_value_string(nib_str string)
{
    return (nib_value){.type = NIB_VALUE_STRING, .as.string = string};
}

nib_value nib_value_cstr(const char *text)
{
    return nib_value_string(nib_str_from(text));
}

nib_value nib_value_of_list(nib_list *list)
{
    return (nib_value){.type = NIB_VALUE_LIST, .as.list = list};
}

nib_value nib_value_of_map(nib_map *map)
{
    return (nib_value){.type = NIB_VALUE_MAP, .as.map = map};
}

bool nib_value_is_number(nib_value value)
{
    return value.type == NIB_VALUE_INTEGER || value.type == NIB_VALUE_FLOAT;
}

bool nib_value_is_absent(nib_value value)
{
    return value.type == NIB_VALUE_UNDEFINED || value.type == NIB_VALUE_NULL;
}

const char *nib_value_type_name(nib_value value)
{
    static const char *const names[] = {
        [NIB_VALUE_UNDEFINED] = "undefined", [NIB_VALUE_NULL] = "none",
        [NIB_VALUE_BOOL] = "boolean",        [NIB_VALUE_INTEGER] = "integer",
        [NIB_VALUE_FLOAT] = "float",         [NIB_VALUE_STRING] = "string",
        [NIB_VALUE_LIST] = "list",           [NIB_VALUE_TUPLE] = "tuple",
        [NIB_VALUE_MAP] = "object",          [NIB_VALUE_NAMESPACE] = "namespace",
        [NIB_VALUE_FUNCTION] = "function",   [NIB_VALUE_VIEW] = "set view",
    };
    return names[value.type];
}

/* ---- lists ---- */

nib_list *nib_list_new(nib_arena *arena, size_t capacity)
{
    nib_list *list = NIB_ARENA_NEW(arena, nib_list);
    if (!list || capacity == 0)
        return list;
    list->items = NIB_ARENA_ARRAY(arena, nib_value, capacity);
    if (!list->items)
        return NULL;
    list->capacity = capacity;
    return list;
}

bool nib_list_push(nib_arena *arena, nib_list *list, nib_value value)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 4;
        nib_value *items = NIB_ARENA_ARRAY(arena, nib_value, capacity);
        if (!items)
            return false;
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = value;
    return true;
}

/* ---- maps ---- */

/* Up to this many entries a linear search is used. */
enum { MAP_LINEAR_ENTRIES = 8 };

static size_t hash_key(nib_str key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ (unsigned char)key.data[i]) * 1099511628211u;
    return (size_t)(hash ^ (hash >> 32));
}

/* The slot of `key`: it holds entry index + 1, or 0 when the key is absent. */
static size_t find_slot(const nib_map *map, nib_str key)
{
    size_t slot = hash_key(key) & (map->slot_count - 1);
    while (map->slots[slot] != 0 && !nib_str_eq(map->entries[map->slots[slot] - 1].key, key))
        slot = (slot + 1) & (map->slot_count - 1);
    return slot;
}

static nib_entry *find_entry(const nib_map *map, nib_str key)
{
    if (map->slots) {
        const size_t index = map->slots[find_slot(map, key)];
        return index ? &map->entries[index - 1] : NULL;
    }
    for (size_t i = 0; i < map->count; i++) {
        if (nib_str_eq(map->entries[i].key, key))
            return &map->entries[i];
    }
    return NULL;
}

static bool grow_entries(nib_arena *arena, nib_map *map)
{
    const size_t capacity = map->capacity ? map->capacity * 2 : 4;
    nib_entry *entries = NIB_ARENA_ARRAY(arena, nib_entry, capacity);
    if (!entries)
        return false;
    if (map->count)
        memcpy(entries, map->entries, map->count * sizeof *entries);
    map->entries = entries;
    map->capacity = capacity;
    return true;
}

/* Keep the slots at most half full. */
static bool grow_slots(nib_arena *arena, nib_map *map)
{
    size_t slot_count = 32;
    while (slot_count < map->capacity * 2)
        slot_count *= 2;
    size_t *slots = NIB_ARENA_ARRAY(arena, size_t, slot_count);
    if (!slots)
        return false;
    map->slots = slots;
    map->slot_count = slot_count;
    for (size_t i = 0; i < map->count; i++)
        slots[find_slot(map, map->entries[i].key)] = i + 1;
    return true;
}

nib_map *nib_map_new(nib_arena *arena, size_t capacity)
{
    nib_map *map = NIB_ARENA_NEW(arena, nib_map);
    if (!map || capacity == 0)
        return map;
    map->entries = NIB_ARENA_ARRAY(arena, nib_entry, capacity);
    if (!map->entries)
        return NULL;
    map->capacity = capacity;
    return map;
}

bool nib_map_set(nib_arena *arena, nib_map *map, nib_str key, nib_value value)
{
    nib_entry *entry = find_entry(map, key);
    if (entry) {
        entry->value = value;
        return true;
    }
    if (map->count == map->capacity && !grow_entries(arena, map))
        return false;
    const bool hashed = map->count + 1 > MAP_LINEAR_ENTRIES;
    if (hashed && (map->count + 1) * 2 > map->slot_count && !grow_slots(arena, map))
        return false;
    map->entries[map->count] = (nib_entry){key, value};
    if (hashed)
        map->slots[find_slot(map, key)] = map->count + 1;
    map->count++;
    return true;
}

bool nib_map_set_cstr(nib_arena *arena, nib_map *map, const char *key, nib_value value)
{
    return nib_map_set(arena, map, nib_str_from(key), value);
}

const nib_value *nib_map_get(const nib_map *map, nib_str key)
{
    const nib_entry *entry = find_entry(map, key);
    return entry ? &entry->value : NULL;
}

const nib_value *nib_map_get_cstr(const nib_map *map, const char *key)
{
    return nib_map_get(map, nib_str_from(key));
}

/* ---- leaving an evaluation ---- */

static bool export_at_depth(nib_arena *arena, nib_value value, unsigned depth, nib_value *out);

static bool export_list(nib_arena *arena, const nib_list *list, unsigned depth, nib_value *out)
{
    nib_list *copy = nib_list_new(arena, list->count);
    if (!copy)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!export_at_depth(arena, list->items[i], depth + 1, &copy->items[i]))
            return false;
        copy->count++;
    }
    *out = nib_value_of_list(copy);
    return true;
}

static bool export_map(nib_arena *arena, const nib_map *map, unsigned depth, nib_value *out)
{
    nib_map *copy = nib_map_new(arena, map->count);
    if (!copy)
        return false;
    for (size_t i = 0; i < map->count; i++) {
        nib_value member;
        const nib_str key = nib_arena_str(arena, map->entries[i].key.data, map->entries[i].key.len);
        if (!key.data || !export_at_depth(arena, map->entries[i].value, depth + 1, &member) ||
            !nib_map_set(arena, copy, key, member))
            return false;
    }
    *out = nib_value_of_map(copy);
    return true;
}

static bool export_at_depth(nib_arena *arena, nib_value value, unsigned depth, nib_value *out)
{
    if (depth > NIB_VALUE_MAX_DEPTH)
        return false;
    switch (value.type) {
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        *out = nib_value_number(value.as.number);
        return true;
    case NIB_VALUE_STRING:
        *out = nib_value_string(nib_arena_str(arena, value.as.string.data, value.as.string.len));
        return out->as.string.data != NULL;
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
        return export_list(arena, value.as.list, depth, out);
    case NIB_VALUE_MAP:
    case NIB_VALUE_NAMESPACE:
        return export_map(arena, value.as.map, depth, out);
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
    case NIB_VALUE_BOOL:
    case NIB_VALUE_FUNCTION:
    case NIB_VALUE_VIEW:
        break;
    }
    *out = value;
    return true;
}

bool nib_value_export(nib_arena *arena, nib_value value, nib_value *out)
{
    return export_at_depth(arena, value, 0, out);
}

nib_value nib_value_of_dims(nib_arena *arena, const long long *dims, size_t count)
{
    nib_list *list = nib_list_new(arena, count);
    if (!list)
        return NIB_UNDEFINED;
    for (size_t i = 0; i < count; i++)
        list->items[i] = nib_value_integer((double)dims[i]);
    list->count = count;
    return nib_value_of_list(list);
}
