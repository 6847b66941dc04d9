/* SPDX-License-Identifier: Apache-2.0
 *
 * Variant families (format 2.A.10): records of values times variant templates.
 */
#include <stdio.h>

#include "package/reader.h"

/* ---- the expanded list ---- */

static nib_status push_expanded(nib_reader *r, nib_expansion *out, nib_expanded item)
{
    NIB_TRY(nib_check_count(r, "\"variants\"", out->count + 1));
    if (out->count == out->capacity) {
        const size_t capacity = out->capacity ? out->capacity * 2 : 8;
        nib_expanded *items = NIB_ARENA_ARRAY(r->arena, nib_expanded, capacity);
        if (!items)
            return nib_fail_memory(r->error);
        for (size_t i = 0; i < out->count; i++)
            items[i] = out->items[i];
        out->items = items;
        out->capacity = capacity;
    }
    out->items[out->count++] = item;
    return NIB_OK;
}

static nib_status format_text(nib_reader *r, nib_str *out, const char *format, ...)
    NIB_PRINTF(3, 4);

static nib_status format_text(nib_reader *r, nib_str *out, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *out = nib_arena_str(r->arena, text, strlen(text));
    return out->data ? NIB_OK : nib_fail_memory(r->error);
}

static nib_status push_plain(nib_reader *r, nib_value value, const char *path, nib_expansion *out)
{
    nib_expanded item = {.value = value};
    NIB_TRY(format_text(r, &item.path, "%s", path));
    return push_expanded(r, out, item);
}

/* One record of values applied to every template of a family. `path` is the family's. */
static nib_status push_members(nib_reader *r, nib_substitution by, const nib_list *templates,
                               const char *path, nib_str note, nib_expansion *out)
{
    for (size_t i = 0; i < templates->count; i++) {
        nib_expanded item = {.note = note};
        const nib_status status =
            nib_substitute(r, by, templates->items[i], &out->work, &item.value);
        if (status != NIB_OK) {
            nib_add_note(r, note);
            return nib_at_name(r, "variants", nib_at_index(r, i, status));
        }
        NIB_TRY(format_text(r, &item.path, "%s.variants[%zu]", path, i));
        NIB_TRY(push_expanded(r, out, item));
    }
    return NIB_OK;
}

/* ---- records ---- */

static nib_status check_value_name(nib_reader *r, nib_str name)
{
    if (nib_str_is_identifier(name))
        return NIB_OK;
    return nib_at_key(
        r, name, nib_refuse(r, "the value name \"%.*s\" is not an identifier", NIB_SHOW_STR(name)));
}

static nib_status check_case(nib_reader *r, nib_value value)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "a case", value));
    if (value.as.map->count == 0)
        return nib_refuse(r, "a case must not be empty");
    for (size_t i = 0; i < value.as.map->count; i++)
        NIB_TRY(check_value_name(r, value.as.map->entries[i].key));
    return NIB_OK;
}

static nib_status merge_values(nib_reader *r, nib_map *into, const nib_map *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const nib_entry *entry = &from->entries[i];
        if (!nib_str_is(entry->key, "$key") &&
            !nib_map_set(r->arena, into, entry->key, entry->value))
            return nib_fail_memory(r->error);
    }
    return NIB_OK;
}

/* ---- the form with cases ---- */

typedef struct family {
    nib_value cases, variants, axes, exclude;
} family;

static nib_status expand_cases(nib_reader *r, const family *f, const char *path, nib_expansion *out)
{
    const nib_list *cases = f->cases.as.list;
    NIB_TRY(nib_at_name(r, "cases", nib_check_count(r, "\"cases\"", cases->count)));
    for (size_t i = 0; i < cases->count; i++)
        NIB_TRY(nib_at_name(r, "cases", nib_at_index(r, i, check_case(r, cases->items[i]))));
    for (size_t i = 0; i < cases->count; i++) {
        const nib_substitution by = {.values = cases->items[i].as.map};
        nib_str note;
        NIB_TRY(format_text(r, &note, "case %zu of the family", i));
        NIB_TRY(push_members(r, by, f->variants.as.list, path, note, out));
    }
    return NIB_OK;
}

/* ---- the form with two axes ---- */

typedef struct axis {
    nib_str name;
    const nib_list *records;
} axis;

static nib_str key_of(nib_value record)
{
    return nib_map_get_cstr(record.as.map, "$key")->as.string;
}

static size_t find_record(const axis *a, nib_str key)
{
    size_t i = 0;
    while (i < a->records->count && !nib_str_eq(key_of(a->records->items[i]), key))
        i++;
    return i;
}

static nib_status check_record(nib_reader *r, const axis *a, size_t index)
{
    const nib_value record = a->records->items[index];
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "an axis record", record));
    const nib_value *key = nib_map_get_cstr(record.as.map, "$key");
    if (!key || key->type != NIB_VALUE_STRING || !nib_str_is_identifier(key->as.string))
        return nib_at_name(r, "$key",
                           nib_refuse(r, "an axis record needs \"$key\", an identifier"));
    for (size_t i = 0; i < index; i++) {
        if (nib_str_eq(key_of(a->records->items[i]), key->as.string))
            return nib_at_name(r, "$key",
                               nib_refuse(r, "the axis has two records with \"$key\" \"%.*s\"",
                                          NIB_SHOW_STR(key->as.string)));
    }
    for (size_t i = 0; i < record.as.map->count; i++) {
        const nib_str name = record.as.map->entries[i].key;
        if (!nib_str_is(name, "$key"))
            NIB_TRY(check_value_name(r, name));
    }
    return NIB_OK;
}

static nib_status read_axis(nib_reader *r, const nib_entry *entry, axis *out)
{
    if (!nib_str_is_identifier(entry->key))
        return nib_refuse(r, "the axis name \"%.*s\" is not an identifier",
                          NIB_SHOW_STR(entry->key));
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "an axis", entry->value));
    *out = (axis){entry->key, entry->value.as.list};
    NIB_TRY(nib_check_count(r, "an axis", out->records->count));
    for (size_t i = 0; i < out->records->count; i++)
        NIB_TRY(nib_at_index(r, i, check_record(r, out, i)));
    return NIB_OK;
}

static bool axis_has_value(const axis *a, nib_str name)
{
    for (size_t i = 0; i < a->records->count; i++) {
        if (nib_map_get(a->records->items[i].as.map, name))
            return true;
    }
    return false;
}

static nib_status check_axis_names(nib_reader *r, const axis axes[2], size_t which)
{
    const axis *a = &axes[which];
    for (size_t i = 0; i < a->records->count; i++) {
        const nib_map *record = a->records->items[i].as.map;
        for (size_t k = 0; k < record->count; k++) {
            const nib_str name = record->entries[k].key;
            nib_status status = NIB_OK;
            if (nib_str_eq(name, axes[0].name) || nib_str_eq(name, axes[1].name))
                status =
                    nib_refuse(r, "the value \"%.*s\" has the name of an axis", NIB_SHOW_STR(name));
            else if (!nib_str_is(name, "$key") && axis_has_value(&axes[1 - which], name))
                status =
                    nib_refuse(r, "the value \"%.*s\" occurs in both axes", NIB_SHOW_STR(name));
            NIB_TRY(nib_at_key(r, a->name, nib_at_index(r, i, nib_at_key(r, name, status))));
        }
    }
    return NIB_OK;
}

static nib_status read_axes(nib_reader *r, nib_value value, axis axes[2])
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "\"axes\"", value));
    if (value.as.map->count != 2)
        return nib_refuse(r, "\"axes\" must name exactly two axes, not %zu", value.as.map->count);
    for (size_t i = 0; i < 2; i++) {
        const nib_entry *entry = &value.as.map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key, read_axis(r, entry, &axes[i])));
    }
    NIB_TRY(check_axis_names(r, axes, 0));
    return check_axis_names(r, axes, 1);
}

/* What stands in one cell: excluded, or with overriding values. */
typedef struct cell {
    bool excluded;
    const nib_map *override;
} cell;

typedef struct grid {
    axis axes[2];
    cell *cells; /* first axis outer */
} grid;

static nib_status read_selector(nib_reader *r, const axis *a, nib_value record, size_t *index)
{
    const nib_value *key = nib_map_get(record.as.map, a->name);
    if (!key || key->type != NIB_VALUE_STRING)
        return nib_at_key(
            r, a->name,
            nib_refuse(r, "a \"$key\" of axis \"%.*s\" is needed here", NIB_SHOW_STR(a->name)));
    *index = find_record(a, key->as.string);
    if (*index == a->records->count)
        return nib_at_key(r, a->name,
                          nib_refuse(r, "axis \"%.*s\" has no record with \"$key\" \"%.*s\"",
                                     NIB_SHOW_STR(a->name), NIB_SHOW_STR(key->as.string)));
    return NIB_OK;
}

static nib_status select_cell(nib_reader *r, const grid *g, nib_value record, cell **out)
{
    size_t at[2];
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "the selection of a cell", record));
    for (size_t i = 0; i < 2; i++)
        NIB_TRY(read_selector(r, &g->axes[i], record, &at[i]));
    *out = &g->cells[at[0] * g->axes[1].records->count + at[1]];
    return NIB_OK;
}

static nib_status read_exclusion(nib_reader *r, const grid *g, nib_value record)
{
    cell *c;
    NIB_TRY(select_cell(r, g, record, &c));
    if (record.as.map->count != 2)
        return nib_refuse(r, "an exclusion names the two axes and nothing else");
    if (c->excluded)
        return nib_refuse(r, "this cell is excluded twice");
    c->excluded = true;
    return NIB_OK;
}

static nib_status read_override(nib_reader *r, const grid *g, nib_value record)
{
    cell *c;
    NIB_TRY(select_cell(r, g, record, &c));
    for (size_t i = 0; i < record.as.map->count; i++)
        NIB_TRY(check_value_name(r, record.as.map->entries[i].key));
    if (c->excluded)
        return nib_refuse(r, "this cell is excluded, so it cannot have a case");
    if (c->override)
        return nib_refuse(r, "this cell has two cases");
    c->override = record.as.map;
    return NIB_OK;
}

static nib_status read_cells(nib_reader *r, const family *f, grid *g)
{
    const size_t count = g->axes[0].records->count * g->axes[1].records->count;
    NIB_TRY(nib_check_count(r, "the cells of a family", count));
    g->cells = NIB_ARENA_ARRAY(r->arena, cell, count);
    if (!g->cells)
        return nib_fail_memory(r->error);
    const nib_list none = {0};
    const nib_list *exclude = f->exclude.type == NIB_VALUE_LIST ? f->exclude.as.list : &none;
    const nib_list *cases = f->cases.type == NIB_VALUE_LIST ? f->cases.as.list : &none;
    for (size_t i = 0; i < exclude->count; i++)
        NIB_TRY(
            nib_at_name(r, "exclude", nib_at_index(r, i, read_exclusion(r, g, exclude->items[i]))));
    for (size_t i = 0; i < cases->count; i++)
        NIB_TRY(nib_at_name(r, "cases", nib_at_index(r, i, read_override(r, g, cases->items[i]))));
    if (exclude->count == count)
        return nib_at_name(r, "exclude", nib_refuse(r, "every cell of the family is excluded"));
    return NIB_OK;
}

/* The values of a cell: first axis, second axis, then the overriding case. Axis names are selectors
 * only. */
static nib_status cell_values(nib_reader *r, const grid *g, size_t i, size_t k, nib_map **out)
{
    const cell *c = &g->cells[i * g->axes[1].records->count + k];
    nib_map *values = nib_map_new(r->arena, 0);
    if (!values)
        return nib_fail_memory(r->error);
    *out = values;
    NIB_TRY(merge_values(r, values, g->axes[0].records->items[i].as.map));
    NIB_TRY(merge_values(r, values, g->axes[1].records->items[k].as.map));
    for (size_t n = 0; c->override && n < c->override->count; n++) {
        const nib_entry *entry = &c->override->entries[n];
        if (nib_str_eq(entry->key, g->axes[0].name) || nib_str_eq(entry->key, g->axes[1].name))
            continue;
        if (!nib_map_set(r->arena, values, entry->key, entry->value))
            return nib_fail_memory(r->error);
    }
    return NIB_OK;
}

static nib_status push_cell(nib_reader *r, const family *f, const grid *g, size_t i, size_t k,
                            const char *path, nib_expansion *out)
{
    nib_map *values = NULL;
    nib_str note;
    NIB_TRY(cell_values(r, g, i, k, &values));
    NIB_TRY(format_text(r, &note, "cell %.40s, %.40s of the family",
                        key_of(g->axes[0].records->items[i]).data,
                        key_of(g->axes[1].records->items[k]).data));
    const nib_substitution by = {.values = values};
    return push_members(r, by, f->variants.as.list, path, note, out);
}

static nib_status expand_axes(nib_reader *r, const family *f, const char *path, nib_expansion *out)
{
    grid g;
    NIB_TRY(nib_at_name(r, "axes", read_axes(r, f->axes, g.axes)));
    NIB_TRY(read_cells(r, f, &g));
    for (size_t i = 0; i < g.axes[0].records->count; i++) {
        for (size_t k = 0; k < g.axes[1].records->count; k++) {
            if (!g.cells[i * g.axes[1].records->count + k].excluded)
                NIB_TRY(push_cell(r, f, &g, i, k, path, out));
        }
    }
    return NIB_OK;
}

/* ---- a family ---- */

static const nib_key family_rows[] = {
    {"axes", NIB_KEY_MAP, NIB_STORED(family, axes)},
    {"cases", NIB_KEY_ITEMS, NIB_STORED(family, cases)},
    {"exclude", NIB_KEY_LIST, NIB_STORED(family, exclude)},
    {"variants", NIB_KEY_ITEMS, .required = true, NIB_STORED(family, variants)},
    {"description", NIB_KEY_STRING, NIB_ACCEPTED},
};
static const nib_keys family_keys = NIB_KEYS("a variant family", family_rows);

static nib_status expand_family(nib_reader *r, nib_value value, const char *path,
                                nib_expansion *out)
{
    family f = {.cases = NIB_UNDEFINED};
    NIB_TRY(nib_keys_read(r, &family_keys, value, &f));
    if (f.axes.type == NIB_VALUE_MAP)
        return expand_axes(r, &f, path, out);
    if (f.exclude.type == NIB_VALUE_LIST)
        return nib_at_name(r, "exclude",
                           nib_refuse(r, "\"exclude\" is only for a family with \"axes\""));
    return expand_cases(r, &f, path, out);
}

static bool is_family(nib_value value)
{
    return value.type == NIB_VALUE_MAP &&
           (nib_map_get_cstr(value.as.map, "cases") || nib_map_get_cstr(value.as.map, "axes") ||
            nib_map_get_cstr(value.as.map, "exclude"));
}

static nib_status expand_element(nib_reader *r, nib_value value, size_t index, nib_expansion *out)
{
    char path[40];
    if (value.type == NIB_VALUE_MAP && nib_map_get_cstr(value.as.map, "use"))
        return nib_at_name(r, "use",
                           nib_refuse(r, "\"use\" is a shared variant that was not expanded; a "
                                         "package must be published without it"));
    snprintf(path, sizeof path, "variants[%zu]", index);
    return is_family(value) ? expand_family(r, value, path, out) : push_plain(r, value, path, out);
}

nib_status nib_expand_variants(nib_reader *r, const nib_list *elements, nib_expansion *out)
{
    for (size_t i = 0; i < elements->count; i++)
        NIB_TRY(nib_at_index(r, i, expand_element(r, elements->items[i], i, out)));
    return NIB_OK;
}

nib_status nib_expand_plain(nib_reader *r, const nib_list *elements, nib_expansion *out)
{
    for (size_t i = 0; i < elements->count; i++) {
        char path[40];
        snprintf(path, sizeof path, "variants[%zu]", i);
        NIB_TRY(push_plain(r, elements->items[i], path, out));
    }
    return NIB_OK;
}

/* ---- the older form: a cross product of value lists, substituted as text (2.B.1) ---- */

static nib_status product_values(nib_reader *r, const nib_map *axes, size_t index, nib_map **out)
{
    nib_map *values = nib_map_new(r->arena, axes->count);
    if (!values)
        return nib_fail_memory(r->error);
    for (size_t i = axes->count; i-- > 0;) { /* the last axis runs fastest */
        const nib_list *list = axes->entries[i].value.as.list;
        if (!nib_map_set(r->arena, values, axes->entries[i].key, list->items[index % list->count]))
            return nib_fail_memory(r->error);
        index /= list->count;
    }
    *out = values;
    return NIB_OK;
}

static nib_status count_product(nib_reader *r, const nib_map *axes, size_t *count)
{
    *count = 1;
    for (size_t i = 0; i < axes->count; i++) {
        const nib_entry *entry = &axes->entries[i];
        NIB_TRY(check_value_name(r, entry->key));
        NIB_TRY(
            nib_at_key(r, entry->key, nib_keys_check(r, NIB_KEY_ITEMS, "an axis", entry->value)));
        NIB_TRY(nib_check_count(r, "an axis", entry->value.as.list->count));
        *count *= entry->value.as.list->count;
        NIB_TRY(nib_check_count(r, "a family", *count));
    }
    return NIB_OK;
}

static const nib_key product_rows[] = {
    {"axes", NIB_KEY_MAP, .required = true, NIB_STORED(family, axes)},
    {"variants", NIB_KEY_ITEMS, .required = true, NIB_STORED(family, variants)},
    {"description", NIB_KEY_STRING, NIB_ACCEPTED},
};
static const nib_keys product_keys = NIB_KEYS("a variant family", product_rows);

static nib_status expand_product(nib_reader *r, nib_value value, size_t index, nib_expansion *out)
{
    family f = {.cases = NIB_UNDEFINED};
    size_t count;
    char path[40];
    snprintf(path, sizeof path, "variantFamilies[%zu]", index);
    NIB_TRY(nib_keys_read(r, &product_keys, value, &f));
    NIB_TRY(nib_at_name(r, "axes", count_product(r, f.axes.as.map, &count)));
    for (size_t i = 0; i < count; i++) {
        nib_map *values = NULL;
        nib_str note;
        NIB_TRY(product_values(r, f.axes.as.map, i, &values));
        NIB_TRY(format_text(r, &note, "member %zu of the family", i));
        const nib_substitution by = {.values = values, .text_only = true};
        NIB_TRY(push_members(r, by, f.variants.as.list, path, note, out));
    }
    return NIB_OK;
}

nib_status nib_expand_products(nib_reader *r, const nib_list *families, nib_expansion *out)
{
    for (size_t i = 0; i < families->count; i++)
        NIB_TRY(nib_at_index(r, i, expand_product(r, families->items[i], i, out)));
    return NIB_OK;
}
