/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding sets of the list dialect (format 2.B.4), turned into the bindings of each pass.
 */
#include "package/reader.h"

typedef struct set_entry {
    nib_str name, role, semantic, arg;
    bool optional;
    double index, group;
    nib_value fields;
    nib_binding binding;
} set_entry;

/* ---- one entry ---- */

static nib_status read_buffer_type(nib_reader *r, const nib_value *value, void *target)
{
    set_entry *e = target;
    if (nib_binding_kind_from(value->as.string, &e->binding.kind))
        return NIB_OK;
    return nib_refuse(r,
                      "the buffer type must be read-only-storage, storage or uniform, not \"%.*s\"",
                      NIB_SHOW_STR(value->as.string));
}

static const nib_key buffer_rows[] = {
    {"type", NIB_KEY_TEXT, .required = true, .set = read_buffer_type},
};
static const nib_keys buffer_keys = NIB_KEYS("\"buffer\"", buffer_rows);

static nib_status read_buffer(nib_reader *r, const nib_value *value, void *target)
{
    return nib_keys_read(r, &buffer_keys, *value, target);
}

static nib_status read_entry_element(nib_reader *r, const nib_value *value, void *target)
{
    return nib_read_element_type(r, value, &((set_entry *)target)->binding);
}

static nib_status read_entry_length(nib_reader *r, const nib_value *value, void *target)
{
    return nib_read_length(r, value, &((set_entry *)target)->binding);
}

static nib_status read_struct_name(nib_reader *r, const nib_value *value, void *target)
{
    nib_binding *binding = &((set_entry *)target)->binding;
    binding->struct_name = value->as.string;
    if (nib_str_is_identifier(value->as.string))
        return NIB_OK;
    return nib_refuse(r, "the struct name \"%.*s\" is not an identifier",
                      NIB_SHOW_STR(value->as.string));
}

static nib_status read_struct_fields(nib_reader *r, const nib_value *value, void *target)
{
    return nib_read_uniform_fields(r, *value, &((set_entry *)target)->binding);
}

static const nib_key struct_rows[] = {
    {"name", NIB_KEY_TEXT, .set = read_struct_name},
    {"fields", NIB_KEY_ITEMS, .required = true, .set = read_struct_fields},
};
static const nib_keys struct_keys = NIB_KEYS("\"struct\"", struct_rows);

static nib_status read_struct(nib_reader *r, const nib_value *value, void *target)
{
    set_entry *e = target;
    e->fields = *value;
    return nib_keys_read(r, &struct_keys, *value, e);
}

static const nib_key set_entry_rows[] = {
    {"name", NIB_KEY_TEXT, NIB_STORED(set_entry, name)},
    {"role", NIB_KEY_TEXT, NIB_STORED(set_entry, role)},
    {"semantic", NIB_KEY_TEXT, NIB_STORED(set_entry, semantic)},
    {"arg", NIB_KEY_TEXT, NIB_STORED(set_entry, arg)},
    {"buffer", NIB_KEY_ANY, .required = true, .set = read_buffer},
    {"elementType", NIB_KEY_TEXT, .set = read_entry_element},
    {"length", NIB_KEY_ANY, .set = read_entry_length},
    {"struct", NIB_KEY_ANY, .set = read_struct},
    {"binding", NIB_KEY_NUMBER, NIB_STORED(set_entry, index)},
    {"group", NIB_KEY_NUMBER, NIB_STORED(set_entry, group)},
    {"optional", NIB_KEY_BOOL, NIB_STORED(set_entry, optional)},
    {"description", NIB_KEY_STRING, NIB_ACCEPTED},
};
static const nib_keys set_entry_keys = NIB_KEYS("a binding", set_entry_rows);

static nib_status check_uniform(nib_reader *r, const set_entry *e)
{
    if (e->binding.element_type.len || e->binding.has_length)
        return nib_refuse(r, "a uniform binding must have neither \"elementType\" nor \"length\"");
    if (e->fields.type == NIB_VALUE_UNDEFINED)
        return nib_at_name(r, "struct", nib_refuse(r, "a uniform binding needs \"struct\""));
    return NIB_OK;
}

static nib_status check_storage(nib_reader *r, const set_entry *e)
{
    if (e->fields.type != NIB_VALUE_UNDEFINED)
        return nib_at_name(r, "struct",
                           nib_refuse(r, "only a uniform binding may have \"struct\""));
    if (e->binding.element_type.len == 0)
        return nib_at_name(r, "elementType",
                           nib_refuse(r, "a storage binding of this dialect needs "
                                         "\"elementType\""));
    return NIB_OK;
}

static nib_status check_entry(nib_reader *r, const set_entry *e)
{
    const nib_str name = e->binding.name;
    if (!nib_str_is_identifier(name) || nib_is_forbidden_key(name))
        return nib_at_name(r, "name",
                           nib_refuse(r, "the binding name \"%.*s\" is not a usable identifier",
                                      NIB_SHOW_STR(name)));
    if (e->optional)
        return nib_at_name(r, "optional",
                           nib_refuse(r, "a binding cannot be optional; declare another variant"));
    if (e->group != 0)
        return nib_at_name(r, "group", nib_refuse(r, "bindings are in group 0 only"));
    return e->binding.kind == NIB_BINDING_UNIFORM ? check_uniform(r, e) : check_storage(r, e);
}

/* 2.B.4: intermediate by name, intermediate by semantic, tensor by arg, tensor by name.
 * Without a variant (a set on its own) nothing can be resolved yet. */
static nib_status resolve_entry(nib_reader *r, set_entry *e)
{
    nib_binding *binding = &e->binding;
    if (binding->kind == NIB_BINDING_UNIFORM) {
        if (binding->struct_name.len == 0)
            binding->struct_name = NIB_STR("Params");
        return NIB_OK;
    }
    if (!r->variant)
        return NIB_OK;
    if (nib_find_intermediate(r->variant, binding->name))
        binding->scratch = binding->name;
    else if (nib_find_intermediate(r->variant, e->semantic))
        binding->scratch = e->semantic;
    else if (e->arg.len && nib_find_port(r->contract, e->arg))
        binding->arg = e->arg;
    else if (!nib_find_port(r->contract, binding->name))
        return nib_refuse(r,
                          "the binding \"%.*s\" names no tensor and no intermediate of this "
                          "variant (name \"%.*s\", semantic \"%.*s\", arg \"%.*s\")",
                          NIB_SHOW_STR(binding->name), NIB_SHOW_STR(binding->name),
                          NIB_SHOW_STR(e->semantic), NIB_SHOW_STR(e->arg));
    return NIB_OK;
}

static nib_status read_set_entry(nib_reader *r, nib_value value, size_t position, set_entry *e)
{
    *e = (set_entry){.index = (double)position};
    NIB_TRY(nib_keys_read(r, &set_entry_keys, value, e));
    e->binding.name = e->name.len ? e->name : e->role.len ? e->role : e->semantic;
    NIB_TRY(check_entry(r, e));
    return resolve_entry(r, e);
}

/* ---- a set ---- */

/* Binding numbers, where they are written, must be 0, 1, 2 ... in some order. */
static nib_status place_entry(nib_reader *r, const set_entry *e, size_t count,
                              nib_binding *bindings)
{
    if (!(e->index >= 0) || !(e->index < (double)count) || (double)(size_t)e->index != e->index ||
        bindings[(size_t)e->index].name.len)
        return nib_at_name(r, "binding",
                           nib_refuse(r, "binding numbers must be 0 to %zu, each once", count - 1));
    bindings[(size_t)e->index] = e->binding;
    return NIB_OK;
}

static nib_status read_set(nib_reader *r, const nib_list *list, nib_pass *pass)
{
    NIB_TRY(nib_check_count(r, "a binding set", list->count));
    pass->bindings = NIB_ARENA_ARRAY(r->arena, nib_binding, list->count);
    if (!pass->bindings)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        set_entry e;
        NIB_TRY(nib_at_index(r, i, read_set_entry(r, list->items[i], i, &e)));
        NIB_TRY(nib_at_index(r, i, place_entry(r, &e, list->count, pass->bindings)));
    }
    pass->binding_count = list->count;
    return NIB_OK;
}

/* Every set is checked once without a variant, so that its own mistakes are reported where they
 * are. */
nib_status nib_read_binding_sets(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    const nib_map *sets = value->as.map;
    for (size_t i = 0; i < sets->count; i++) {
        const nib_entry *entry = &sets->entries[i];
        nib_pass unused = {0};
        NIB_TRY(nib_at_key(r, entry->key,
                           nib_keys_check(r, NIB_KEY_ITEMS, "a binding set", entry->value)));
        NIB_TRY(nib_at_key(r, entry->key, read_set(r, entry->value.as.list, &unused)));
    }
    r->binding_sets = sets;
    return NIB_OK;
}

static nib_status read_named_set(nib_reader *r, nib_str name, nib_pass *pass)
{
    const nib_value *set = r->binding_sets ? nib_map_get(r->binding_sets, name) : NULL;
    if (!set)
        return nib_refuse(r, "there is no binding set \"%.*s\"", NIB_SHOW_STR(name));
    return read_set(r, set->as.list, pass);
}

nib_status nib_read_list_bindings(nib_reader *r, nib_value value, nib_pass *pass)
{
    if (value.type == NIB_VALUE_STRING)
        return read_named_set(r, value.as.string, pass);
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "\"bindings\"", value));
    return read_set(r, value.as.list, pass);
}

nib_status nib_inherit_bindings(nib_reader *r, nib_value value, nib_pass *pass)
{
    if (value.type != NIB_VALUE_MAP || nib_map_get_cstr(value.as.map, "bindings"))
        return NIB_OK;
    nib_status status = NIB_OK;
    if (r->variant_bindings.type == NIB_VALUE_UNDEFINED)
        status = nib_refuse(r, "a pass needs the key \"bindings\"");
    else
        status = nib_read_list_bindings(r, r->variant_bindings, pass);
    return nib_at_name(r, "bindings", status);
}

/* ---- overrides of uniform values, of the dialect's older form ---- */

static nib_uniform_field *find_field(const nib_binding *binding, nib_str name)
{
    for (size_t i = 0; i < binding->field_count; i++) {
        if (nib_str_eq(binding->fields[i].name, name))
            return &binding->fields[i];
    }
    return NULL;
}

static nib_status override_fields(nib_reader *r, const nib_binding *binding, nib_value value)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "the values of a uniform", value));
    for (size_t i = 0; i < value.as.map->count; i++) {
        const nib_entry *entry = &value.as.map->entries[i];
        nib_uniform_field *field = find_field(binding, entry->key);
        if (!field)
            return nib_at_key(r, entry->key,
                              nib_refuse(r, "the uniform \"%.*s\" has no field \"%.*s\"",
                                         NIB_SHOW_STR(binding->name), NIB_SHOW_STR(entry->key)));
        field->value = NIB_UNDEFINED;
        field->value_expr = (nib_expr){0};
        NIB_TRY(
            nib_at_key(r, entry->key,
                       nib_read_uniform_value(r, entry->value, &field->value, &field->value_expr)));
    }
    return NIB_OK;
}

static const nib_binding *find_uniform(const nib_pass *pass, nib_str name)
{
    for (size_t i = 0; i < pass->binding_count; i++) {
        if (pass->bindings[i].kind == NIB_BINDING_UNIFORM &&
            nib_str_eq(pass->bindings[i].name, name))
            return &pass->bindings[i];
    }
    return NULL;
}

nib_status nib_apply_uniform_overrides(nib_reader *r, const nib_value *value, void *target)
{
    const nib_pass *pass = target;
    for (size_t i = 0; i < value->as.map->count; i++) {
        const nib_entry *entry = &value->as.map->entries[i];
        const nib_binding *binding = find_uniform(pass, entry->key);
        if (!binding)
            return nib_at_key(r, entry->key,
                              nib_refuse(r, "the pass has no uniform binding \"%.*s\"",
                                         NIB_SHOW_STR(entry->key)));
        NIB_TRY(nib_at_key(r, entry->key, override_fields(r, binding, entry->value)));
    }
    return NIB_OK;
}
