/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants (format 2.A.9), after families were expanded.
 */
#include <stdio.h>

#include "package/reader.h"

/* ---- members ---- */

nib_status nib_read_variant_id(nib_reader *r, const nib_value *value, void *variant)
{
    ((nib_variant *)variant)->id = value->as.string;
    if (nib_is_stable_id(value->as.string))
        return NIB_OK;
    return nib_refuse(r,
                      "the variant id \"%.*s\" must be letters, digits and \"_\", not starting "
                      "with \"_\"",
                      NIB_SHOW_STR(value->as.string));
}

nib_status nib_read_variant_when(nib_reader *r, const nib_value *value, void *variant)
{
    return nib_read_exprs(r, *value, &((nib_variant *)variant)->when);
}

nib_status nib_read_variant_demote(nib_reader *r, const nib_value *value, void *variant)
{
    return nib_read_exprs(r, *value, &((nib_variant *)variant)->demote_when);
}

/* The ids are resolved when all variants are known. */
nib_status nib_read_superseded_by(nib_reader *r, const nib_value *value, void *variant)
{
    const nib_list *list = value->as.list;
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(
            nib_at_index(r, i, nib_keys_check(r, NIB_KEY_TEXT, "a variant id", list->items[i])));
    r->superseded_by[(nib_variant *)variant - r->contract->variants] = list;
    return NIB_OK;
}

nib_status nib_read_variant_requires(nib_reader *r, const nib_value *value, void *variant)
{
    return nib_read_requires(r, *value, &((nib_variant *)variant)->needs);
}

nib_status nib_read_variant_derive(nib_reader *r, const nib_value *value, void *variant)
{
    return nib_read_derive(r, *value, &((nib_variant *)variant)->derive);
}

/* Passes come last: their bindings look at the intermediates and the derives. */
static const nib_key variant_rows[] = {
    {"id", NIB_KEY_TEXT, .set = nib_read_variant_id},
    {"description", NIB_KEY_STRING, NIB_STORED(nib_variant, description)},
    {"priority", NIB_KEY_NUMBER, NIB_STORED(nib_variant, priority)},
    {"when", NIB_KEY_ANY, .set = nib_read_variant_when},
    {"demoteWhen", NIB_KEY_ANY, .set = nib_read_variant_demote},
    {"supersededBy", NIB_KEY_ITEMS, .set = nib_read_superseded_by},
    {"requires", NIB_KEY_MAP, .set = nib_read_variant_requires},
    {"tunables", NIB_KEY_MAP, .set = nib_read_variant_tunables},
    {"derive", NIB_KEY_MAP, .set = nib_read_variant_derive},
    {"intermediates", NIB_KEY_LIST, .set = nib_read_intermediates},
    {"passes", NIB_KEY_ITEMS, .required = true, .set = nib_read_map_passes},
};
static const nib_keys variant_keys = NIB_KEYS("a variant", variant_rows);

/* ---- one variant ---- */

static void count_bindings(const nib_pass *passes, size_t count, nib_variant *variant)
{
    for (size_t i = 0; i < count; i++) {
        size_t storage = 0, uniform = 0;
        for (size_t k = 0; k < passes[i].binding_count; k++) {
            if (passes[i].bindings[k].kind == NIB_BINDING_UNIFORM)
                uniform++;
            else
                storage++;
        }
        if (variant->max_storage_bindings < storage)
            variant->max_storage_bindings = storage;
        if (variant->max_uniform_bindings < uniform)
            variant->max_uniform_bindings = uniform;
        count_bindings(passes[i].repeat_passes, passes[i].repeat_pass_count, variant);
    }
}

static nib_status default_id(nib_reader *r, size_t index, nib_str *id)
{
    char text[40];
    const int len = snprintf(text, sizeof text, "variant_%zu", index);
    *id = nib_arena_str(r->arena, text, (size_t)len);
    return id->data ? NIB_OK : nib_fail_memory(r->error);
}

static nib_status check_unique_id(nib_reader *r, size_t index)
{
    const nib_variant *variants = r->contract->variants;
    for (size_t i = 0; i < index; i++) {
        if (nib_str_eq(variants[i].id, variants[index].id))
            return nib_at_name(r, "id",
                               nib_refuse(r, "two variants have the id \"%.*s\"",
                                          NIB_SHOW_STR(variants[index].id)));
    }
    return NIB_OK;
}

static nib_status read_variant(nib_reader *r, nib_value value, size_t index, const nib_keys *keys)
{
    nib_variant *variant = &r->contract->variants[index];
    r->variant = variant;
    r->variant_bindings = NIB_UNDEFINED;
    NIB_TRY(nib_keys_read(r, keys, value, variant));
    if (variant->id.len == 0)
        NIB_TRY(default_id(r, index, &variant->id));
    NIB_TRY(check_unique_id(r, index));
    NIB_TRY(nib_join_exprs(r, r->when, variant->when, &variant->when));
    NIB_TRY(nib_merge_requires(r, &r->needs, &variant->needs));
    count_bindings(variant->passes, variant->pass_count, variant);
    return NIB_OK;
}

/* ---- supersededBy ---- */

static size_t find_variant(const nib_contract *contract, nib_str id)
{
    size_t i = 0;
    while (i < contract->variant_count && !nib_str_eq(contract->variants[i].id, id))
        i++;
    return i;
}

/* Tried earlier: higher priority, or equal and earlier in the list. */
static bool outranks(const nib_contract *contract, size_t a, size_t b)
{
    const double priority_a = contract->variants[a].priority;
    const double priority_b = contract->variants[b].priority;
    return priority_a > priority_b || (priority_a == priority_b && a < b);
}

static nib_status resolve_superseding(nib_reader *r, size_t index, nib_str id, size_t *out)
{
    const nib_contract *contract = r->contract;
    *out = find_variant(contract, id);
    if (*out == contract->variant_count)
        return nib_refuse(r, "there is no variant \"%.*s\"", NIB_SHOW_STR(id));
    if (*out == index)
        return nib_refuse(r, "a variant cannot supersede itself");
    if (!outranks(contract, *out, index))
        return nib_refuse(r,
                          "\"%.*s\" is tried after \"%.*s\" (lower priority, or equal and later "
                          "in the list), so it cannot supersede it",
                          NIB_SHOW_STR(id), NIB_SHOW_STR(contract->variants[index].id));
    return NIB_OK;
}

static nib_status resolve_superseded(nib_reader *r, size_t index)
{
    const nib_list *ids = r->superseded_by[index];
    nib_variant *variant = &r->contract->variants[index];
    if (!ids)
        return NIB_OK;
    variant->superseded_by = NIB_ARENA_ARRAY(r->arena, size_t, ids->count);
    if (!variant->superseded_by)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < ids->count; i++)
        NIB_TRY(nib_at_name(r, "supersededBy",
                            nib_at_index(r, i,
                                         resolve_superseding(r, index, ids->items[i].as.string,
                                                             &variant->superseded_by[i]))));
    variant->superseded_by_count = ids->count;
    return NIB_OK;
}

/* ---- the list ---- */

/* A failure inside a variant, with its place in the file and the family member it came from. */
static nib_status at_expanded(nib_reader *r, const nib_expanded *from, nib_status status)
{
    if (status == NIB_OK)
        return NIB_OK;
    nib_error_path_prefix(r->error, "%.*s", NIB_STR_ARG(from->path));
    nib_add_note(r, from->note);
    return status;
}

nib_status nib_read_variants(nib_reader *r, const nib_expansion *expansion, const nib_keys *keys)
{
    nib_contract *contract = r->contract;
    const nib_expanded *expanded = expansion->items;
    const size_t count = expansion->count;
    contract->variants = NIB_ARENA_ARRAY(r->arena, nib_variant, count);
    r->superseded_by = NIB_ARENA_ARRAY(r->arena, const nib_list *, count);
    if (!contract->variants || !r->superseded_by)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < count; i++) {
        NIB_TRY(at_expanded(r, &expanded[i], read_variant(r, expanded[i].value, i, keys)));
        contract->variant_count++;
    }
    r->variant = NULL;
    for (size_t i = 0; i < count; i++)
        NIB_TRY(at_expanded(r, &expanded[i], resolve_superseded(r, i)));
    return NIB_OK;
}

nib_status nib_read_map_variants(nib_reader *r, const nib_expansion *expansion)
{
    return nib_read_variants(r, expansion, &variant_keys);
}
