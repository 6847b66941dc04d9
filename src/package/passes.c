/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes, repeat groups and dispatch of the map dialect (format 2.A.13, 2.A.14). The list dialect
 * reuses the setters with its own key table.
 */
#include <stdio.h>

#include "package/files.h"
#include "package/reader.h"

/* ---- small members ---- */

nib_status nib_read_shader(nib_reader *r, const nib_value *value, void *pass)
{
    ((nib_pass *)pass)->shader = value->as.string;
    return nib_check_path(value->as.string, r->error);
}

nib_status nib_read_pass_derive(nib_reader *r, const nib_value *value, void *pass)
{
    return nib_read_derive(r, *value, &((nib_pass *)pass)->derive);
}

nib_status nib_read_pass_profile(nib_reader *r, const nib_value *value, void *pass)
{
    return nib_read_profile(r, *value, &((nib_pass *)pass)->profile);
}

nib_status nib_read_collectives_width(nib_reader *r, const nib_value *value, void *target)
{
    static const char *const widths[] = {"4", "8", "16", "32", "64", "128"};
    nib_pass *pass = target;
    if (value->type == NIB_VALUE_STRING && nib_str_is(value->as.string, "portable")) {
        pass->collectives_width = value->as.string;
        return NIB_OK;
    }
    for (size_t i = 0; nib_value_is_number(*value) && i < sizeof widths / sizeof widths[0]; i++) {
        if (value->as.number == (double)(4u << i)) {
            pass->collectives_width = nib_str_from(widths[i]);
            return NIB_OK;
        }
    }
    return nib_refuse(r,
                      "\"subgroupCollectivesWidth\" must be \"portable\" or a power of two from 4 "
                      "to 128, not %s",
                      nib_show(*value).text);
}

/* ---- view aliases ---- */

static nib_status read_alias_name(nib_reader *r, nib_value pair, const char *key,
                                  const nib_pass *pass, nib_binding_kind kind, nib_str *out)
{
    const nib_value *name = nib_map_get_cstr(pair.as.map, key);
    if (!name || name->type != NIB_VALUE_STRING)
        return nib_refuse(r, "\"%s\" must be the name of a binding of this pass", key);
    *out = name->as.string;
    for (size_t i = 0; i < pass->binding_count; i++) {
        if (nib_str_eq(pass->bindings[i].name, *out) && pass->bindings[i].kind == kind)
            return NIB_OK;
    }
    return nib_refuse(r, "\"%.*s\" is no %s binding of this pass", NIB_SHOW_STR(*out),
                      kind == NIB_BINDING_READ ? "read-only-storage" : "storage");
}

static nib_status read_view_alias(nib_reader *r, nib_value pair, const nib_pass *pass,
                                  nib_view_alias *out)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "a view alias", pair));
    NIB_TRY(nib_at_name(r, "input",
                        read_alias_name(r, pair, "input", pass, NIB_BINDING_READ, &out->input)));
    return nib_at_name(r, "output",
                       read_alias_name(r, pair, "output", pass, NIB_BINDING_STORAGE, &out->output));
}

nib_status nib_read_view_aliases(nib_reader *r, const nib_value *value, void *target)
{
    nib_pass *pass = target;
    const nib_list *list = value->as.list;
    pass->view_aliases = NIB_ARENA_ARRAY(r->arena, nib_view_alias, list->count);
    if (!pass->view_aliases)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        NIB_TRY(
            nib_at_index(r, i, read_view_alias(r, list->items[i], pass, &pass->view_aliases[i])));
        pass->view_alias_count++;
    }
    return NIB_OK;
}

/* ---- dispatch (2.A.14, 2.B.1) ---- */

static nib_status read_axis_x(nib_reader *r, const nib_value *value, void *dispatch)
{
    return nib_read_size(r, *value, &((nib_dispatch *)dispatch)->axis[0]);
}

static nib_status read_axis_y(nib_reader *r, const nib_value *value, void *dispatch)
{
    return nib_read_size(r, *value, &((nib_dispatch *)dispatch)->axis[1]);
}

static nib_status read_axis_z(nib_reader *r, const nib_value *value, void *dispatch)
{
    return nib_read_size(r, *value, &((nib_dispatch *)dispatch)->axis[2]);
}

static nib_status read_count(nib_reader *r, const nib_value *value, void *dispatch)
{
    return nib_read_size(r, *value, &((nib_dispatch *)dispatch)->count);
}

static nib_status read_workgroup_size(nib_reader *r, const nib_value *value, void *dispatch)
{
    return nib_read_size(r, *value, &((nib_dispatch *)dispatch)->workgroup_size);
}

static const nib_key explicit_rows[] = {
    {"x", NIB_KEY_ANY, .required = true, .set = read_axis_x},
    {"y", NIB_KEY_ANY, .set = read_axis_y},
    {"z", NIB_KEY_ANY, .set = read_axis_z},
    {"gridStride", NIB_KEY_REFUSED, .hint = "is a form of the older dialect"},
    {"workgroupSize", NIB_KEY_REFUSED, .hint = "belongs to the form with \"threads\""},
};
static const nib_key threads_rows[] = {
    {"threads", NIB_KEY_ANY, .required = true, .set = read_count},
    {"workgroupSize", NIB_KEY_ANY, .required = true, .set = read_workgroup_size},
};
static const nib_key workgroups_rows[] = {
    {"workgroups", NIB_KEY_ANY, .required = true, .set = read_count},
};
static const nib_key pinned_threads_rows[] = {
    {"threads", NIB_KEY_ANY, .required = true, .set = read_count},
    {"workgroupSize", NIB_KEY_ANY, .required = true, .set = read_workgroup_size},
    {"x", NIB_KEY_ANY, .set = read_axis_x},
    {"y", NIB_KEY_ANY, .set = read_axis_y},
    {"z", NIB_KEY_ANY, .set = read_axis_z},
};
static const nib_key pinned_workgroups_rows[] = {
    {"workgroups", NIB_KEY_ANY, .required = true, .set = read_count},
    {"x", NIB_KEY_ANY, .set = read_axis_x},
    {"y", NIB_KEY_ANY, .set = read_axis_y},
    {"z", NIB_KEY_ANY, .set = read_axis_z},
};
static const nib_key grid_stride_rows[] = {
    {"gridStride", NIB_KEY_ANY, .required = true, .set = read_count},
    {"workgroupSize", NIB_KEY_ANY, .set = read_workgroup_size},
};

/* The forms of a dispatch, told apart by a key; the last one is the explicit form. */
typedef struct dispatch_form {
    const char *key;
    nib_dispatch_form form;
    bool list_only;
    nib_keys map_keys, list_keys;
} dispatch_form;

static const dispatch_form dispatch_forms[] = {
    {"threads", NIB_DISPATCH_THREADS, false, NIB_KEYS("a dispatch with \"threads\"", threads_rows),
     NIB_KEYS("a dispatch with \"threads\"", pinned_threads_rows)},
    {"workgroups", NIB_DISPATCH_WORKGROUPS, false,
     NIB_KEYS("a dispatch with \"workgroups\"", workgroups_rows),
     NIB_KEYS("a dispatch with \"workgroups\"", pinned_workgroups_rows)},
    {"gridStride", NIB_DISPATCH_GRID_STRIDE, true,
     NIB_KEYS("a dispatch with \"gridStride\"", grid_stride_rows),
     NIB_KEYS("a dispatch with \"gridStride\"", grid_stride_rows)},
    {NULL, NIB_DISPATCH_EXPLICIT, false, NIB_KEYS("a dispatch with \"x\"", explicit_rows),
     NIB_KEYS("a dispatch with \"x\"", explicit_rows)},
};

static const dispatch_form *find_form(const nib_map *map, bool list)
{
    const dispatch_form *form = dispatch_forms;
    while (form->key && (!nib_map_get_cstr(map, form->key) || (form->list_only && !list)))
        form++;
    return form;
}

nib_status nib_read_dispatch(nib_reader *r, const nib_value *value, void *target)
{
    nib_dispatch *dispatch = &((nib_pass *)target)->dispatch;
    const bool list = r->contract->dialect == NIB_DIALECT_LIST;
    const dispatch_form *form = find_form(value->as.map, list);
    dispatch->form = form->form;
    NIB_TRY(nib_keys_read(r, list ? &form->list_keys : &form->map_keys, *value, dispatch));
    size_t axes = 0;
    for (size_t i = 0; i < 3; i++)
        axes += dispatch->axis[i].program != NULL;
    if (form->key && axes > 1)
        return nib_refuse(r, "a dispatch with \"%s\" can pin one axis, not %zu", form->key, axes);
    return NIB_OK;
}

/* ---- a pass ---- */

static const nib_key pass_rows[] = {
    {"id", NIB_KEY_TEXT, NIB_STORED(nib_pass, id)},
    {"name", NIB_KEY_TEXT, NIB_STORED(nib_pass, label)},
    {"shader", NIB_KEY_TEXT, .required = true, .set = nib_read_shader},
    {"derive", NIB_KEY_MAP, .set = nib_read_pass_derive},
    {"bindings", NIB_KEY_ITEMS, .required = true, .set = nib_read_pass_bindings},
    {"dispatch", NIB_KEY_MAP, .required = true, .set = nib_read_dispatch},
    {"profile", NIB_KEY_MAP, .set = nib_read_pass_profile},
    {"subgroupCollectivesWidth", NIB_KEY_ANY, .set = nib_read_collectives_width},
    {"submitAfter", NIB_KEY_BOOL, NIB_STORED(nib_pass, submit_after)},
    {"viewAlias", NIB_KEY_ITEMS, .set = nib_read_view_aliases},
};
static const nib_keys pass_keys = NIB_KEYS("a pass", pass_rows);

static nib_status number_name(nib_reader *r, const char *prefix, size_t index, nib_str *out)
{
    char text[40];
    const int len = snprintf(text, sizeof text, "%s_%zu", prefix, index);
    *out = nib_arena_str(r->arena, text, (size_t)len);
    return out->data ? NIB_OK : nib_fail_memory(r->error);
}

static nib_status read_pass(nib_reader *r, nib_value value, size_t index, const nib_keys *keys,
                            nib_pass *pass)
{
    *pass = (nib_pass){.entry_point = NIB_STR("main")};
    if (r->contract->dialect == NIB_DIALECT_LIST)
        NIB_TRY(nib_inherit_bindings(r, value, pass));
    NIB_TRY(nib_keys_read(r, keys, value, pass));
    if (pass->id.len == 0)
        NIB_TRY(number_name(r, "pass", index, &pass->id));
    return nib_check_pass_bindings(r, pass);
}

/* ---- repeat groups ---- */

/* The groups around a pass, innermost first: an index name must differ from theirs. */
typedef struct group {
    const struct group *outer;
    nib_pass *pass;
} group;

static nib_status read_group_id(nib_reader *r, const nib_value *value, void *target)
{
    ((nib_pass *)target)->id = value->as.string;
    if (nib_is_stable_id(value->as.string))
        return NIB_OK;
    return nib_refuse(r,
                      "the id \"%.*s\" of a repeat group must be letters, digits and \"_\", not "
                      "starting with \"_\"",
                      NIB_SHOW_STR(value->as.string));
}

static nib_status read_repeat_count(nib_reader *r, const nib_value *value, void *target)
{
    if (nib_value_is_number(*value) && value->as.number > 65535)
        return nib_refuse(r, "a repeat count must be at most 65535, not %s", nib_show(*value).text);
    return nib_read_size(r, *value, &((nib_pass *)target)->repeat_count);
}

static nib_status read_repeat_index(nib_reader *r, const nib_value *value, void *target)
{
    const nib_str name = value->as.string;
    ((nib_pass *)target)->repeat_index = name;
    if (!nib_str_is_identifier(name) || nib_str_is(name, "index") || nib_str_is(name, "count"))
        return nib_refuse(r,
                          "the index name \"%.*s\" must be an identifier other than index and "
                          "count",
                          NIB_SHOW_STR(name));
    return NIB_OK;
}

static const nib_key repeat_rows[] = {
    {"count", NIB_KEY_ANY, .required = true, .set = read_repeat_count},
    {"index", NIB_KEY_TEXT, .required = true, .set = read_repeat_index},
};
static const nib_keys repeat_keys = {"\"repeat\"", repeat_rows, 2, .open = true};

static nib_status read_repeat(nib_reader *r, const nib_value *value, void *target)
{
    return nib_keys_read(r, &repeat_keys, *value, target);
}

static const nib_key group_rows[] = {
    {"id", NIB_KEY_TEXT, .set = read_group_id},
    {"repeat", NIB_KEY_ANY, .required = true, .set = read_repeat},
    {"passes", NIB_KEY_ITEMS, .required = true},
};
static const nib_keys group_keys = {"a repeat group", group_rows, 3, .open = true};

static nib_status read_elements(nib_reader *r, const nib_list *list, const nib_keys *keys,
                                const group *outer, nib_pass **passes, size_t *count);

static nib_status read_group(nib_reader *r, nib_value value, size_t index, const nib_keys *keys,
                             const group *outer, nib_pass *pass)
{
    *pass = (nib_pass){0};
    NIB_TRY(nib_keys_read(r, &group_keys, value, pass));
    if (pass->id.len == 0)
        NIB_TRY(number_name(r, "repeat", index, &pass->id));
    for (const group *g = outer; g; g = g->outer) {
        if (nib_str_eq(g->pass->repeat_index, pass->repeat_index))
            return nib_at_name(
                r, "repeat",
                nib_at_name(r, "index",
                            nib_refuse(r, "\"%.*s\" is already the index of an enclosing group",
                                       NIB_SHOW_STR(pass->repeat_index))));
    }
    const group self = {outer, pass};
    const nib_value *inner = nib_map_get_cstr(value.as.map, "passes");
    return nib_at_name(r, "passes",
                       read_elements(r, inner->as.list, keys, &self, &pass->repeat_passes,
                                     &pass->repeat_pass_count));
}

static nib_status read_element(nib_reader *r, nib_value value, size_t index, const nib_keys *keys,
                               const group *outer, nib_pass *pass)
{
    if (value.type == NIB_VALUE_MAP && nib_map_get_cstr(value.as.map, "repeat"))
        return read_group(r, value, index, keys, outer, pass);
    return read_pass(r, value, index, keys, pass);
}

static nib_status read_elements(nib_reader *r, const nib_list *list, const nib_keys *keys,
                                const group *outer, nib_pass **passes, size_t *count)
{
    *passes = NIB_ARENA_ARRAY(r->arena, nib_pass, list->count);
    if (!*passes)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(nib_at_index(r, i, read_element(r, list->items[i], i, keys, outer, &(*passes)[i])));
    *count = list->count;
    return NIB_OK;
}

nib_status nib_read_passes(nib_reader *r, nib_value value, const nib_keys *keys, nib_pass **passes,
                           size_t *count)
{
    return read_elements(r, value.as.list, keys, NULL, passes, count);
}

nib_status nib_read_map_passes(nib_reader *r, const nib_value *value, void *target)
{
    nib_variant *variant = target;
    return nib_read_passes(r, *value, &pass_keys, &variant->passes, &variant->pass_count);
}
