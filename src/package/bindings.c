/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding entries of the map dialect (format 2.A.8), and the checks that both dialects share.
 */
#include "package/reader.h"
#include "tensor/tensor.h"

/* An entry as written. */
typedef struct entry {
    nib_str name, arg, scratch, buffer, element_type, struct_name;
    nib_value length, fields;
} entry;

bool nib_binding_kind_from(nib_str text, nib_binding_kind *out)
{
    static const char *const names[] = {
        [NIB_BINDING_READ] = "read-only-storage",
        [NIB_BINDING_STORAGE] = "storage",
        [NIB_BINDING_UNIFORM] = "uniform",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nib_str_is(text, names[i])) {
            *out = (nib_binding_kind)i;
            return true;
        }
    }
    return false;
}

const nib_intermediate *nib_find_intermediate(const nib_variant *variant, nib_str id)
{
    for (size_t i = 0; variant && i < variant->intermediate_count; i++) {
        if (nib_str_eq(variant->intermediates[i].id, id))
            return &variant->intermediates[i];
    }
    return NULL;
}

/* ---- element types and lengths ---- */

static bool is_type_name(const nib_contract *contract, nib_str name)
{
    for (size_t i = 0; i < contract->type_variable_count; i++) {
        if (nib_str_eq(contract->type_variables[i].name, name))
            return true;
    }
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_eq(contract->ports[i].dtype_text, name))
            return true;
    }
    return false;
}

/* "$X": one name, no namespace and no dots. The name of a type variable is not checked (2.A.2). */
static nib_status read_reference(nib_reader *r, nib_str text, nib_str *name)
{
    *name = (nib_str){text.data + 1, text.len - 1};
    if (nib_str_is_identifier(*name) || is_type_name(r->contract, *name))
        return NIB_OK;
    return nib_refuse(r, "a reference must be \"$\" and one name, not \"%.*s\"",
                      NIB_SHOW_STR(text));
}

nib_status nib_read_element_type(nib_reader *r, const nib_value *value, void *target)
{
    nib_binding *binding = target;
    nib_str name;
    binding->element_type = value->as.string;
    if (value->as.string.data[0] == '$')
        return read_reference(r, value->as.string, &name);
    return NIB_OK;
}

nib_status nib_read_length(nib_reader *r, const nib_value *value, void *target)
{
    nib_binding *binding = target;
    binding->has_length = true;
    if (value->type == NIB_VALUE_STRING && value->as.string.len && value->as.string.data[0] == '$')
        return read_reference(r, value->as.string, &binding->length_ref);
    if (!nib_value_is_number(*value) || !nib_is_safe_integer(value->as.number) ||
        value->as.number < 1)
        return nib_refuse(r,
                          "\"length\" must be a positive integer or a reference \"$NAME\", not "
                          "%s",
                          nib_show(*value).text);
    binding->length = value->as.number;
    return NIB_OK;
}

/* ---- uniform fields ---- */

nib_status nib_read_uniform_value(nib_reader *r, nib_value value, nib_value *literal,
                                  nib_expr *expr)
{
    if (value.type == NIB_VALUE_STRING)
        return nib_read_expr(r, value.as.string, expr);
    if (nib_value_is_number(value)) {
        *literal = value;
        return NIB_OK;
    }
    if (value.type == NIB_VALUE_NULL) /* counts as absent (5.4) */
        return NIB_OK;
    return nib_refuse(r, "a uniform value must be a number or an expression, not %s",
                      nib_show(value).text);
}

static nib_status read_field_name(nib_reader *r, const nib_value *value, void *target)
{
    const nib_str name = value->as.string;
    ((nib_uniform_field *)target)->name = name;
    if (!nib_str_is_identifier(name) || nib_is_forbidden_key(name))
        return nib_refuse(r, "the uniform field name \"%.*s\" is not a usable identifier",
                          NIB_SHOW_STR(name));
    return NIB_OK;
}

static nib_status read_field_type(nib_reader *r, const nib_value *value, void *target)
{
    static const char *const names[] = {
        [NIB_FIELD_U32] = "u32", [NIB_FIELD_I32] = "i32", [NIB_FIELD_F32] = "f32"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nib_str_is(value->as.string, names[i])) {
            ((nib_uniform_field *)target)->type = (nib_field_type)i;
            return NIB_OK;
        }
    }
    return nib_refuse(r, "the type of a uniform field must be u32, i32 or f32, not \"%.*s\"",
                      NIB_SHOW_STR(value->as.string));
}

static nib_status read_field_value(nib_reader *r, const nib_value *value, void *target)
{
    nib_uniform_field *field = target;
    return nib_read_uniform_value(r, *value, &field->value, &field->value_expr);
}

static nib_status read_field_default(nib_reader *r, const nib_value *value, void *target)
{
    nib_uniform_field *field = target;
    return nib_read_uniform_value(r, *value, &field->default_value, &field->default_expr);
}

static nib_status read_field_internal(nib_reader *r, const nib_value *value, void *target)
{
    (void)r;
    nib_uniform_field *field = target;
    field->internal = value->as.boolean;
    field->required = !field->internal;
    return NIB_OK;
}

/* `internal` stands before `required`, whose default it is. */
static const nib_key field_rows[] = {
    {"name", NIB_KEY_TEXT, .required = true, .set = read_field_name},
    {"type", NIB_KEY_TEXT, .required = true, .set = read_field_type},
    {"value", NIB_KEY_ANY, .set = read_field_value},
    {"internal", NIB_KEY_BOOL, .set = read_field_internal},
    {"required", NIB_KEY_BOOL, NIB_STORED(nib_uniform_field, required)},
    {"default", NIB_KEY_ANY, .set = read_field_default},
};
static const nib_keys field_keys = NIB_KEYS("a uniform field", field_rows);

static nib_status read_field(nib_reader *r, nib_value value, nib_binding *binding)
{
    nib_uniform_field *field = &binding->fields[binding->field_count];
    field->required = true;
    NIB_TRY(nib_keys_read(r, &field_keys, value, field));
    for (size_t i = 0; i < binding->field_count; i++) {
        if (nib_str_eq(binding->fields[i].name, field->name))
            return nib_at_name(r, "name",
                               nib_refuse(r, "the struct has two fields named \"%.*s\"",
                                          NIB_SHOW_STR(field->name)));
    }
    binding->field_count++;
    return NIB_OK;
}

nib_status nib_read_uniform_fields(nib_reader *r, nib_value value, nib_binding *binding)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "the struct of a uniform", value));
    const nib_list *list = value.as.list;
    NIB_TRY(nib_check_count(r, "a uniform struct", list->count));
    binding->fields = NIB_ARENA_ARRAY(r->arena, nib_uniform_field, list->count);
    if (!binding->fields)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(nib_at_index(r, i, read_field(r, list->items[i], binding)));
    return NIB_OK;
}

/* ---- resolving one entry ---- */

static const nib_key entry_rows[] = {
    {"name", NIB_KEY_TEXT, NIB_STORED(entry, name)},
    {"arg", NIB_KEY_TEXT, NIB_STORED(entry, arg)},
    {"scratch", NIB_KEY_TEXT, NIB_STORED(entry, scratch)},
    {"buffer", NIB_KEY_TEXT, NIB_STORED(entry, buffer)},
    {"elementType", NIB_KEY_TEXT, NIB_STORED(entry, element_type)},
    {"length", NIB_KEY_ANY, NIB_STORED(entry, length)},
    {"struct", NIB_KEY_ANY, NIB_STORED(entry, fields)},
    {"structName", NIB_KEY_TEXT, NIB_STORED(entry, struct_name)},
};
static const nib_keys entry_keys = NIB_KEYS("a binding", entry_rows);

/* What an entry binds, as far as it is known where the entry is resolved. */
typedef struct binding_source {
    const nib_port *port;
    nib_str scratch;
    nib_dtype scratch_dtype; /* NONE: unknown */
} binding_source;

static nib_status check_name(nib_reader *r, const char *key, nib_str name)
{
    if (nib_is_forbidden_key(name))
        return nib_at_name(r, key,
                           nib_refuse(r, "\"%.*s\" is a forbidden name", NIB_SHOW_STR(name)));
    return NIB_OK;
}

static nib_status choose_name(nib_reader *r, nib_str handle, entry *e)
{
    NIB_TRY(check_name(r, "name", e->name));
    NIB_TRY(check_name(r, "arg", e->arg));
    NIB_TRY(check_name(r, "scratch", e->scratch));
    if (e->name.len == 0)
        e->name = handle.len ? handle : e->arg.len ? e->arg : e->scratch;
    if (e->name.len == 0)
        return nib_refuse(r, "a binding needs \"name\", \"arg\" or \"scratch\"");
    if (!nib_str_is_identifier(e->name))
        return nib_at_name(
            r, "name",
            nib_refuse(r, "the binding name \"%.*s\" is not an identifier", NIB_SHOW_STR(e->name)));
    return NIB_OK;
}

/* Rules 1 and 2. A handle is resolved without a variant, so its name does not reach an
 * intermediate. */
static binding_source find_source(const nib_reader *r, const entry *e, bool in_variant)
{
    binding_source source = {.scratch = e->scratch};
    const nib_variant *variant = in_variant ? r->variant : NULL;
    if (source.scratch.len == 0 && nib_find_intermediate(variant, e->name))
        source.scratch = e->name;
    if (source.scratch.len == 0) {
        source.port = nib_find_port(r->contract, e->arg.len ? e->arg : e->name);
        return source;
    }
    const nib_intermediate *item = nib_find_intermediate(variant, source.scratch);
    source.scratch_dtype = item ? item->dtype : NIB_DTYPE_NONE;
    return source;
}

/* Rule 3. */
static nib_status choose_kind(nib_reader *r, const entry *e, const binding_source *source,
                              nib_binding *out)
{
    if (e->buffer.len) {
        if (nib_binding_kind_from(e->buffer, &out->kind))
            return NIB_OK;
        return nib_at_name(
            r, "buffer",
            nib_refuse(r, "\"buffer\" must be read-only-storage, storage or uniform, not \"%.*s\"",
                       NIB_SHOW_STR(e->buffer)));
    }
    if (e->fields.type != NIB_VALUE_UNDEFINED)
        out->kind = NIB_BINDING_UNIFORM;
    else if (source->scratch.len)
        out->kind = NIB_BINDING_STORAGE;
    else if (source->port)
        out->kind = source->port->role == NIB_INPUT ? NIB_BINDING_READ : NIB_BINDING_STORAGE;
    else
        return nib_at_name(r, "buffer",
                           nib_refuse(r,
                                      "the binding \"%.*s\" names neither a tensor nor a known "
                                      "intermediate, so it needs \"buffer\"",
                                      NIB_SHOW_STR(e->name)));
    return NIB_OK;
}

/* Rule 4. */
static nib_status read_uniform(nib_reader *r, const entry *e, nib_binding *out)
{
    if (e->element_type.len)
        return nib_at_name(r, "elementType",
                           nib_refuse(r, "a uniform binding must not have \"elementType\""));
    if (e->length.type != NIB_VALUE_UNDEFINED)
        return nib_at_name(r, "length",
                           nib_refuse(r, "a uniform binding must not have \"length\""));
    out->struct_name = e->struct_name.len ? e->struct_name : NIB_STR("Params");
    if (!nib_str_is_identifier(out->struct_name))
        return nib_at_name(r, "structName",
                           nib_refuse(r, "the struct name \"%.*s\" is not an identifier",
                                      NIB_SHOW_STR(out->struct_name)));
    return nib_at_name(r, "struct", nib_read_uniform_fields(r, e->fields, out));
}

static nib_status choose_wgsl_scalar(nib_dtype dtype, nib_binding *out)
{
    out->element_type = nib_str_from(nib_dtype_wgsl(dtype));
    return NIB_OK;
}

/* Rule 5. */
static nib_status default_element_type(nib_reader *r, const entry *e, const binding_source *source,
                                       nib_binding *out)
{
    const nib_port *port = source->port;
    if (source->scratch_dtype)
        return choose_wgsl_scalar(source->scratch_dtype, out);
    if (port && port->storage)
        return choose_wgsl_scalar(port->storage, out);
    if (port && port->dtype)
        return choose_wgsl_scalar(port->dtype, out);
    if (!port || port->dtype_text.len == 0)
        return nib_at_name(
            r, "elementType",
            nib_refuse(r,
                       "the dtype behind the binding \"%.*s\" is not known here, so it needs "
                       "\"elementType\"",
                       NIB_SHOW_STR(e->name)));
    char *text = nib_arena_alloc(r->arena, port->dtype_text.len + 2, 1);
    if (!text)
        return nib_fail_memory(r->error);
    text[0] = '$';
    memcpy(text + 1, port->dtype_text.data, port->dtype_text.len);
    out->element_type = (nib_str){text, port->dtype_text.len + 1};
    return NIB_OK;
}

static nib_status read_storage(nib_reader *r, const entry *e, const binding_source *source,
                               nib_binding *out)
{
    if (e->fields.type != NIB_VALUE_UNDEFINED)
        return nib_at_name(r, "struct",
                           nib_refuse(r, "only a uniform binding may have \"struct\""));
    if (e->struct_name.len)
        return nib_at_name(r, "structName",
                           nib_refuse(r, "only a uniform binding may have \"structName\""));
    if (e->length.type != NIB_VALUE_UNDEFINED)
        NIB_TRY(nib_at_name(r, "length", nib_read_length(r, &e->length, out)));
    if (e->element_type.len == 0)
        return default_element_type(r, e, source, out);
    const nib_value text = nib_value_string(e->element_type);
    return nib_at_name(r, "elementType", nib_read_element_type(r, &text, out));
}

/* Rule 6: an int64 tensor is an array of two-word elements, whatever else the entry says. */
static nib_status check_int64_element(nib_reader *r, const nib_port *port,
                                      const nib_binding *binding)
{
    if (!port || nib_port_held_dtype(port) != NIB_INT64 || binding->element_type.data[0] == '$')
        return NIB_OK;
    char text[16];
    size_t len = 0;
    for (size_t i = 0; i < binding->element_type.len && len < sizeof text; i++) {
        const char c = binding->element_type.data[i];
        if (c != ' ' && (c < '\t' || c > '\r'))
            text[len++] = c;
    }
    if (nib_str_eq((nib_str){text, len}, NIB_STR("vec2<u32>")))
        return NIB_OK;
    return nib_refuse(r, "the int64 tensor \"%.*s\" must be bound as vec2<u32>, not \"%.*s\"",
                      NIB_SHOW_STR(port->key), NIB_SHOW_STR(binding->element_type));
}

static nib_status resolve(nib_reader *r, nib_str handle, bool in_variant, entry *e,
                          nib_binding *out)
{
    NIB_TRY(choose_name(r, handle, e));
    const binding_source source = find_source(r, e, in_variant);
    out->name = e->name;
    out->arg = e->arg;
    out->scratch = source.scratch;
    NIB_TRY(choose_kind(r, e, &source, out));
    if (out->kind == NIB_BINDING_UNIFORM)
        return read_uniform(r, e, out);
    NIB_TRY(read_storage(r, e, &source, out));
    return nib_at_name(r, "elementType", check_int64_element(r, source.port, out));
}

/* ---- handles ---- */

static nib_status read_handle(nib_reader *r, nib_str name, nib_value value, nib_handle *handle)
{
    handle->name = name;
    if (!nib_str_is_identifier(name))
        return nib_refuse(r, "the binding handle \"%.*s\" is not an identifier",
                          NIB_SHOW_STR(name));
    entry e = {0};
    NIB_TRY(nib_keys_read(r, &entry_keys, value, &e));
    return resolve(r, name, false, &e, &handle->binding);
}

nib_status nib_read_handles(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    const nib_map *map = value->as.map;
    NIB_TRY(nib_check_count(r, "\"bindings\"", map->count));
    r->handles = NIB_ARENA_ARRAY(r->arena, nib_handle, map->count);
    if (!r->handles)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *member = &map->entries[i];
        NIB_TRY(
            nib_at_key(r, member->key, read_handle(r, member->key, member->value, &r->handles[i])));
        r->handle_count++;
    }
    return NIB_OK;
}

/* ---- the bindings of a pass ---- */

static const nib_handle *find_handle(const nib_reader *r, nib_str name)
{
    for (size_t i = 0; i < r->handle_count; i++) {
        if (nib_str_eq(r->handles[i].name, name))
            return &r->handles[i];
    }
    return NULL;
}

/* A handle, a tensor, an intermediate: in this order. */
static nib_status resolve_text(nib_reader *r, nib_str text, nib_binding *out)
{
    const nib_handle *handle = find_handle(r, text);
    if (handle) {
        *out = handle->binding;
        return NIB_OK;
    }
    if (!nib_find_port(r->contract, text) && !nib_find_intermediate(r->variant, text))
        return nib_refuse(r,
                          "\"%.*s\" is no handle of \"bindings\", no tensor and no intermediate "
                          "of this variant",
                          NIB_SHOW_STR(text));
    entry e = {.name = text};
    return resolve(r, (nib_str){0}, true, &e, out);
}

static nib_status read_element(nib_reader *r, nib_value value, nib_binding *out)
{
    if (value.type == NIB_VALUE_STRING)
        return resolve_text(r, value.as.string, out);
    if (value.type != NIB_VALUE_MAP)
        return nib_refuse(r, "a binding must be a name or an object, not %s", nib_show(value).text);
    entry e = {0};
    NIB_TRY(nib_keys_read(r, &entry_keys, value, &e));
    return resolve(r, (nib_str){0}, true, &e, out);
}

/* The reference of an entry, once its variant is known. What a call would find by mere name is
 * written down: an intermediate comes before a tensor (7.7). */
static nib_status check_target(nib_reader *r, nib_binding *binding)
{
    if (binding->kind == NIB_BINDING_UNIFORM)
        return NIB_OK;
    if (binding->scratch.len == 0 && nib_find_intermediate(r->variant, binding->name))
        binding->scratch = binding->name;
    if (binding->scratch.len && !nib_str_eq(binding->scratch, binding->name)) {
        if (nib_find_intermediate(r->variant, binding->scratch))
            return NIB_OK;
        return nib_refuse(r,
                          "the binding \"%.*s\" names the intermediate \"%.*s\", which this "
                          "variant does not declare",
                          NIB_SHOW_STR(binding->name), NIB_SHOW_STR(binding->scratch));
    }
    const nib_str target = binding->arg.len ? binding->arg : binding->name;
    if (nib_find_intermediate(r->variant, binding->name) || nib_find_port(r->contract, target))
        return NIB_OK;
    return nib_refuse(r,
                      "the binding \"%.*s\" binds \"%.*s\", which is no tensor and no "
                      "intermediate of this variant",
                      NIB_SHOW_STR(binding->name), NIB_SHOW_STR(target));
}

nib_status nib_read_pass_bindings(nib_reader *r, const nib_value *value, void *target)
{
    nib_pass *pass = target;
    const nib_list *list = value->as.list;
    NIB_TRY(nib_check_count(r, "\"bindings\"", list->count));
    pass->bindings = NIB_ARENA_ARRAY(r->arena, nib_binding, list->count);
    if (!pass->bindings)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        NIB_TRY(nib_at_index(r, i, read_element(r, list->items[i], &pass->bindings[i])));
        NIB_TRY(nib_at_index(r, i, check_target(r, &pass->bindings[i])));
        pass->binding_count++;
    }
    return NIB_OK;
}

/* ---- checks of a whole pass ---- */

static bool derives_have(const nib_derives *derives, nib_str name)
{
    for (size_t i = 0; i < derives->count; i++) {
        if (nib_str_eq(derives->items[i].name, name))
            return true;
    }
    return false;
}

/* What "$X" can mean in a pass: derives in the map dialect, constants in the list dialect, and type
 * variables in both. */
static bool is_visible(const nib_reader *r, const nib_pass *pass, nib_str name)
{
    const nib_contract *c = r->contract;
    if (is_type_name(c, name))
        return true;
    if (c->dialect == NIB_DIALECT_LIST)
        return derives_have(&pass->constants, name) || derives_have(&r->variant->constants, name) ||
               derives_have(&c->constants, name);
    return derives_have(&pass->derive, name) || derives_have(&r->variant->derive, name) ||
           derives_have(&c->derive, name);
}

static nib_status check_reference(nib_reader *r, const nib_pass *pass, const nib_binding *binding,
                                  const char *what, nib_str name)
{
    if (is_visible(r, pass, name))
        return NIB_OK;
    return nib_refuse(r,
                      "the %s of the binding \"%.*s\" is $%.*s, which is neither a %s visible in "
                      "this pass nor a type variable",
                      what, NIB_SHOW_STR(binding->name), NIB_SHOW_STR(name),
                      r->contract->dialect == NIB_DIALECT_LIST ? "constant" : "derive");
}

static nib_status check_binding(nib_reader *r, const nib_pass *pass, size_t index)
{
    const nib_binding *binding = &pass->bindings[index];
    for (size_t i = 0; i < index; i++) {
        if (nib_str_eq(pass->bindings[i].name, binding->name))
            return nib_refuse(r, "the pass has two bindings named \"%.*s\"",
                              NIB_SHOW_STR(binding->name));
    }
    const nib_str element = binding->element_type;
    if (element.len && element.data[0] == '$') {
        const nib_str name = {element.data + 1, element.len - 1};
        NIB_TRY(check_reference(r, pass, binding, "element type", name));
    }
    if (binding->length_ref.len)
        NIB_TRY(check_reference(r, pass, binding, "length", binding->length_ref));
    return NIB_OK;
}

nib_status nib_check_pass_bindings(nib_reader *r, const nib_pass *pass)
{
    for (size_t i = 0; i < pass->binding_count; i++)
        NIB_TRY(nib_at_name(r, "bindings", nib_at_index(r, i, check_binding(r, pass, i))));
    return NIB_OK;
}

/* ---- names a request may use (7.3) ---- */

static nib_status collect_names(nib_reader *r, const nib_pass *passes, size_t count, nib_map *names)
{
    for (size_t i = 0; i < count; i++) {
        const nib_pass *pass = &passes[i];
        for (size_t k = 0; k < pass->binding_count; k++) {
            if (!nib_map_set(r->arena, names, pass->bindings[k].name, NIB_NULL))
                return nib_fail_memory(r->error);
        }
        NIB_TRY(collect_names(r, pass->repeat_passes, pass->repeat_pass_count, names));
    }
    return NIB_OK;
}

nib_status nib_collect_binding_names(nib_reader *r)
{
    nib_contract *contract = r->contract;
    nib_map *names = nib_map_new(r->arena, 0);
    if (!names)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < contract->variant_count; i++) {
        const nib_variant *variant = &contract->variants[i];
        NIB_TRY(collect_names(r, variant->passes, variant->pass_count, names));
    }
    contract->binding_names = NIB_ARENA_ARRAY(r->arena, nib_str, names->count);
    if (!contract->binding_names)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < names->count; i++)
        contract->binding_names[i] = names->entries[i].key;
    contract->binding_name_count = names->count;
    return NIB_OK;
}
