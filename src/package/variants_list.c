/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants and passes of the list dialect (format 2.B), older spellings included. What the map
 * dialect reads the same way is read by its setters.
 */
#include <stdio.h>

#include "package/reader.h"

/* ---- conditions ---- */

nib_status nib_read_list_when(nib_reader *r, nib_value value, nib_exprs *out)
{
    if (value.type == NIB_VALUE_LIST)
        return nib_read_exprs(r, value, out);
    nib_str text = value.type == NIB_VALUE_STRING ? value.as.string : NIB_STR("");
    if (value.type == NIB_VALUE_BOOL)
        text = value.as.boolean ? NIB_STR("true") : NIB_STR("false");
    else if (value.type != NIB_VALUE_STRING)
        return nib_refuse(r, "a condition must be an expression, a boolean or a list, not %s",
                          nib_show(value).text);
    out->items = NIB_ARENA_NEW(r->arena, nib_expr);
    if (!out->items)
        return nib_fail_memory(r->error);
    out->count = 1;
    return nib_read_expr(r, text, &out->items[0]);
}

static nib_status add_condition(nib_reader *r, nib_variant *variant, nib_str text)
{
    nib_expr expr;
    NIB_TRY(nib_read_expr(r, text, &expr));
    return nib_join_exprs(r, variant->when, (nib_exprs){&expr, 1}, &variant->when);
}

static nib_status read_when(nib_reader *r, const nib_value *value, void *variant)
{
    return nib_read_list_when(r, *value, &((nib_variant *)variant)->when);
}

static nib_status read_select_above(nib_reader *r, const nib_value *value, void *variant)
{
    return add_condition(r, variant, value->as.string);
}

/* ---- requirements of the older form, members of the variant itself ---- */

static nib_status refuse_twice(nib_reader *r, bool given)
{
    if (!given)
        return NIB_OK;
    return nib_refuse(r, "the same requirement stands in \"requires\"");
}

static nib_status read_features(nib_reader *r, const nib_value *value, void *target)
{
    nib_requires *needs = &((nib_variant *)target)->needs;
    NIB_TRY(refuse_twice(r, needs->features != NULL));
    return nib_read_features(r, value, needs);
}

static nib_status read_limits(nib_reader *r, const nib_value *value, void *target)
{
    nib_requires *needs = &((nib_variant *)target)->needs;
    NIB_TRY(refuse_twice(r, needs->limits != NULL));
    return nib_read_limits(r, value, needs);
}

static nib_status read_min_size(nib_reader *r, const nib_value *value, void *target)
{
    nib_requires *needs = &((nib_variant *)target)->needs;
    NIB_TRY(refuse_twice(r, needs->subgroup_min_size != 0));
    return nib_read_subgroup_min_size(r, value, needs);
}

static bool is_language_feature(nib_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.data[i];
        if (!nib_is_alpha(c) && !nib_is_digit(c) && c != '_' && c != '-')
            return false;
    }
    return name.len > 0 && name.len < 100;
}

/* The contract has no field for WGSL language features: each becomes a condition. */
static nib_status require_language_feature(nib_reader *r, nib_value name, nib_variant *variant)
{
    char text[160];
    if (name.type != NIB_VALUE_STRING || !is_language_feature(name.as.string))
        return nib_refuse(r, "a WGSL language feature must be a name, not %s", nib_show(name).text);
    const int len = snprintf(text, sizeof text, "device.wgslLanguageFeatures.has(\"%.*s\")",
                             NIB_STR_ARG(name.as.string));
    return add_condition(r, variant, (nib_str){text, (size_t)len});
}

static nib_status read_language_features(nib_reader *r, const nib_value *value, void *variant)
{
    for (size_t i = 0; i < value->as.list->count; i++)
        NIB_TRY(nib_at_index(r, i, require_language_feature(r, value->as.list->items[i], variant)));
    return NIB_OK;
}

/* ---- passes ---- */

static nib_status read_source_kind(nib_reader *r, const nib_value *value, void *pass)
{
    (void)pass;
    if (nib_str_is(value->as.string, "template"))
        return NIB_OK;
    return nib_refuse(r, "the kind of a source must be template, not \"%.*s\"",
                      NIB_SHOW_STR(value->as.string));
}

static nib_status refuse_source_inputs(nib_reader *r, const nib_value *value, void *pass)
{
    (void)pass;
    if (value->as.map->count == 0)
        return NIB_OK;
    return nib_refuse(r, "source inputs are not supported; use \"constants\"");
}

static const nib_key source_rows[] = {
    {"kind", NIB_KEY_TEXT, .required = true, .set = read_source_kind},
    {"shader", NIB_KEY_TEXT, .required = true, .set = nib_read_shader},
    {"version", NIB_KEY_ANY, NIB_ACCEPTED},
    {"inputs", NIB_KEY_MAP, .set = refuse_source_inputs},
};
static const nib_keys source_keys = NIB_KEYS("\"source\"", source_rows);

static nib_status read_source(nib_reader *r, const nib_value *value, void *target)
{
    if (((nib_pass *)target)->shader.len)
        return nib_refuse(r, "a pass has \"shader\" or \"source\", not both");
    return nib_keys_read(r, &source_keys, *value, target);
}

static nib_status read_constants(nib_reader *r, const nib_value *value, void *pass)
{
    return nib_read_constants(r, *value, &((nib_pass *)pass)->constants);
}

static nib_status read_bindings(nib_reader *r, const nib_value *value, void *pass)
{
    return nib_read_list_bindings(r, *value, pass);
}

static nib_status read_entry_point(nib_reader *r, const nib_value *value, void *pass)
{
    ((nib_pass *)pass)->entry_point = value->as.string;
    if (nib_str_is_identifier(value->as.string))
        return NIB_OK;
    return nib_refuse(r, "the entry point \"%.*s\" is not an identifier",
                      NIB_SHOW_STR(value->as.string));
}

static const nib_key pass_rows[] = {
    {"id", NIB_KEY_TEXT, NIB_STORED(nib_pass, id)},
    {"name", NIB_KEY_TEXT, NIB_STORED(nib_pass, label)},
    {"shader", NIB_KEY_TEXT, .set = nib_read_shader},
    {"source", NIB_KEY_MAP, .set = read_source},
    {"entryPoint", NIB_KEY_TEXT, .set = read_entry_point},
    {"derive", NIB_KEY_MAP, .set = nib_read_pass_derive},
    {"constants", NIB_KEY_MAP, .set = read_constants},
    {"bindings", NIB_KEY_ANY, .set = read_bindings},
    {"dispatch", NIB_KEY_MAP, .required = true, .set = nib_read_dispatch},
    {"uniforms", NIB_KEY_MAP, .set = nib_apply_uniform_overrides},
    {"reads", NIB_KEY_ANY, NIB_ACCEPTED},
    {"writes", NIB_KEY_ANY, NIB_ACCEPTED},
    {"profile", NIB_KEY_MAP, .set = nib_read_pass_profile},
    {"subgroupCollectivesWidth", NIB_KEY_ANY, .set = nib_read_collectives_width},
    {"submitAfter", NIB_KEY_BOOL, NIB_STORED(nib_pass, submit_after)},
    {"viewAlias", NIB_KEY_ITEMS, .set = nib_read_view_aliases},
};
static const nib_keys pass_keys = NIB_KEYS("a pass", pass_rows);

static nib_status check_shaders(nib_reader *r, const nib_pass *passes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const nib_pass *pass = &passes[i];
        nib_status status = NIB_OK;
        if (pass->repeat_passes)
            status = nib_at_name(r, "passes",
                                 check_shaders(r, pass->repeat_passes, pass->repeat_pass_count));
        else if (pass->shader.len == 0)
            status = nib_at_name(r, "shader", nib_refuse(r, "a pass needs the key \"shader\""));
        NIB_TRY(nib_at_index(r, i, status));
    }
    return NIB_OK;
}

static nib_status read_passes(nib_reader *r, const nib_value *value, void *target)
{
    nib_variant *variant = target;
    NIB_TRY(nib_read_passes(r, *value, &pass_keys, &variant->passes, &variant->pass_count));
    return check_shaders(r, variant->passes, variant->pass_count);
}

/* ---- variants ---- */

nib_status nib_read_bare_tunables(nib_reader *r, nib_value value, nib_tunable **out, size_t *count)
{
    const nib_map *map = value.as.map;
    NIB_TRY(nib_check_count(r, "\"tunables\"", map->count));
    *out = NIB_ARENA_ARRAY(r->arena, nib_tunable, map->count);
    if (!*out)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key, nib_check_tunable(r, entry->key, entry->value)));
        (*out)[i] = (nib_tunable){.name = entry->key, .default_value = entry->value};
    }
    *count = map->count;
    return NIB_OK;
}

static nib_status read_tunables(nib_reader *r, const nib_value *value, void *target)
{
    nib_variant *variant = target;
    return nib_read_bare_tunables(r, *value, &variant->tunables, &variant->tunable_count);
}

static nib_status read_variant_constants(nib_reader *r, const nib_value *value, void *variant)
{
    return nib_read_constants(r, *value, &((nib_variant *)variant)->constants);
}

static nib_status keep_bindings(nib_reader *r, const nib_value *value, void *variant)
{
    (void)variant;
    r->variant_bindings = *value;
    return NIB_OK;
}

static const nib_key variant_rows[] = {
    {"id", NIB_KEY_TEXT, .set = nib_read_variant_id},
    {"description", NIB_KEY_STRING, NIB_STORED(nib_variant, description)},
    {"version", NIB_KEY_ANY, NIB_ACCEPTED},
    {"priority", NIB_KEY_NUMBER, NIB_STORED(nib_variant, priority)},
    {"default", NIB_KEY_BOOL, NIB_STORED(nib_variant, is_default)},
    {"when", NIB_KEY_ANY, .set = read_when},
    {"selectAbove", NIB_KEY_TEXT, .set = read_select_above},
    {"demoteWhen", NIB_KEY_ANY, .set = nib_read_variant_demote},
    {"supersededBy", NIB_KEY_ITEMS, .set = nib_read_superseded_by},
    {"requires", NIB_KEY_MAP, .set = nib_read_variant_requires},
    {"requiredFeatures", NIB_KEY_LIST, .set = read_features},
    {"requiredLimits", NIB_KEY_MAP, .set = read_limits},
    {"requiredSubgroupMinSize", NIB_KEY_ANY, .set = read_min_size},
    {"requiredWGSLLanguageFeatures", NIB_KEY_LIST, .set = read_language_features},
    {"tunables", NIB_KEY_MAP, .set = read_tunables},
    {"derive", NIB_KEY_MAP, .set = nib_read_variant_derive},
    {"constants", NIB_KEY_MAP, .set = read_variant_constants},
    {"intermediates", NIB_KEY_LIST, .set = nib_read_intermediates},
    {"bindings", NIB_KEY_ANY, .set = keep_bindings},
    {"passes", NIB_KEY_ITEMS, .required = true, .set = read_passes},
};
static const nib_keys variant_keys = NIB_KEYS("a variant", variant_rows);

nib_status nib_read_list_variants(nib_reader *r, const nib_expansion *expansion)
{
    return nib_read_variants(r, expansion, &variant_keys);
}
