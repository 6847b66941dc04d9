/* SPDX-License-Identifier: Apache-2.0
 *
 * A contract as JSON. A contract of the map dialect comes out as a manifest that reads back to the
 * same contract (apart from `op` and `dialect`): families are expanded, bindings stand in their
 * passes, and the manifest's conditions and requirements stand in every variant.
 */
#include "package/reader.h"
#include "value/number.h"

/* An object under construction; a failed allocation is remembered and tested once, at the end. */
typedef struct writer {
    nib_arena *arena;
    bool failed;
} writer;

static nib_map *new_map(writer *w)
{
    nib_map *map = nib_map_new(w->arena, 0);
    w->failed = w->failed || !map;
    return map;
}

static nib_list *new_list(writer *w)
{
    nib_list *list = nib_list_new(w->arena, 0);
    w->failed = w->failed || !list;
    return list;
}

static void put(writer *w, nib_map *map, nib_str key, nib_value value)
{
    if (!w->failed)
        w->failed = !nib_map_set(w->arena, map, key, value);
}

static void put_value(writer *w, nib_map *map, const char *key, nib_value value)
{
    put(w, map, nib_str_from(key), value);
}

static void put_text(writer *w, nib_map *map, const char *key, nib_str text)
{
    if (text.len)
        put_value(w, map, key, nib_value_string(text));
}

static void put_true(writer *w, nib_map *map, const char *key, bool value)
{
    if (value)
        put_value(w, map, key, nib_value_bool(true));
}

static void put_map(writer *w, nib_map *map, const char *key, nib_map *value)
{
    if (!w->failed && value->count)
        put_value(w, map, key, nib_value_of_map(value));
}

static void push(writer *w, nib_list *list, nib_value value)
{
    if (!w->failed)
        w->failed = !nib_list_push(w->arena, list, value);
}

static void put_list(writer *w, nib_map *map, const char *key, nib_list *value)
{
    if (!w->failed && value->count)
        put_value(w, map, key, nib_value_of_list(value));
}

/* ---- expressions ---- */

static nib_value expr_value(nib_expr expr)
{
    return nib_value_string(expr.text);
}

static void put_expr(writer *w, nib_map *map, const char *key, nib_expr expr)
{
    if (expr.program)
        put_value(w, map, key, expr_value(expr));
}

static void put_exprs(writer *w, nib_map *map, const char *key, nib_exprs exprs)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < exprs.count; i++)
        push(w, list, expr_value(exprs.items[i]));
    put_list(w, map, key, list);
}

static void put_shape(writer *w, nib_map *map, const nib_shape_rule *shape)
{
    if (!shape->given)
        return;
    if (shape->whole) {
        put_expr(w, map, "shape", shape->items[0]);
        return;
    }
    nib_list *list = new_list(w);
    for (size_t i = 0; i < shape->count; i++)
        push(w, list, expr_value(shape->items[i]));
    if (!w->failed)
        put_value(w, map, "shape", nib_value_of_list(list));
}

static void put_derives(writer *w, nib_map *map, const char *key, const nib_derives *derives)
{
    nib_map *members = new_map(w);
    for (size_t i = 0; i < derives->count; i++) {
        const nib_derive_node *node = &derives->items[i].node;
        put(w, members, derives->items[i].name,
            node->kind == NIB_DERIVE_EXPR ? expr_value(node->expr) : node->literal);
    }
    put_map(w, map, key, members);
}

/* ---- declarations ---- */

static nib_str dtype_text(nib_dtype dtype)
{
    return dtype ? nib_str_from(nib_dtype_name(dtype)) : (nib_str){0};
}

static void put_port_texts(writer *w, nib_map *map, const nib_port *port)
{
    if (!nib_str_eq(port->onnx, port->key))
        put_text(w, map, "onnx", port->onnx);
    put_text(w, map, "description", port->description);
    put_text(w, map, "dtype", port->dtype_text);
    put_text(w, map, "rank", port->rank_text);
    put_text(w, map, "storage", dtype_text(port->storage));
}

static nib_map *input_map(writer *w, const nib_port *port)
{
    static const char *const narrowings[] = {
        [NIB_NARROWING_NONE] = "",
        [NIB_NARROWING_CHECKED] = "checked",
        [NIB_NARROWING_SATURATING] = "saturating",
    };
    nib_map *map = new_map(w);
    put_port_texts(w, map, port);
    put_true(w, map, "optional", port->optional);
    if (port->packed)
        put_text(w, map, "layout", NIB_STR("packed"));
    put_text(w, map, "narrowing", nib_str_from(narrowings[port->narrowing]));
    return map;
}

static nib_map *output_map(writer *w, const nib_port *port)
{
    nib_map *map = new_map(w);
    put_port_texts(w, map, port);
    put_true(w, map, "optional", port->output_optional);
    put_shape(w, map, &port->shape);
    return map;
}

/* Further names of the list dialect, by port. */
static nib_map *alias_map(writer *w, const nib_contract *contract)
{
    nib_map *map = new_map(w);
    for (size_t i = 0; i < contract->port_count; i++) {
        const nib_port *port = &contract->ports[i];
        nib_list *names = new_list(w);
        for (size_t k = 0; k < port->alias_count; k++)
            push(w, names, nib_value_string(port->aliases[k]));
        if (!w->failed && names->count)
            put(w, map, port->key, nib_value_of_list(names));
    }
    return map;
}

static void put_ports(writer *w, nib_map *root, const nib_contract *contract)
{
    nib_map *inputs = new_map(w), *outputs = new_map(w);
    for (size_t i = 0; i < contract->port_count; i++) {
        const nib_port *port = &contract->ports[i];
        if (port->role != NIB_OUTPUT)
            put(w, inputs, port->key, nib_value_of_map(input_map(w, port)));
    }
    for (size_t i = 0; i < contract->output_count; i++) {
        const nib_port *port = &contract->ports[contract->outputs[i]];
        put(w, outputs, port->key, nib_value_of_map(output_map(w, port)));
    }
    put_value(w, root, "inputs", nib_value_of_map(inputs));
    put_value(w, root, "outputs", nib_value_of_map(outputs));
    put_map(w, root, "aliases", alias_map(w, contract));
}

static void put_arguments(writer *w, nib_map *root, const nib_contract *contract)
{
    static const char *const kinds[] = {
        [NIB_ARG_U32] = "u32",   [NIB_ARG_I32] = "i32",       [NIB_ARG_F32] = "f32",
        [NIB_ARG_BOOL] = "bool", [NIB_ARG_STRING] = "string",
    };
    nib_map *arguments = new_map(w);
    for (size_t i = 0; i < contract->argument_count; i++) {
        const nib_argument *argument = &contract->arguments[i];
        nib_map *map = new_map(w);
        put_text(w, map, "kind", nib_str_from(kinds[argument->kind]));
        put_text(w, map, "description", argument->description);
        if (!argument->required)
            put_value(w, map, "required", nib_value_bool(false));
        if (argument->one_of.type == NIB_VALUE_LIST)
            put_value(w, map, "oneOf", argument->one_of);
        put(w, arguments, argument->name, nib_value_of_map(map));
    }
    put_map(w, root, "args", arguments);
}

static void put_attributes(writer *w, nib_map *root, const nib_contract *contract)
{
    nib_map *attributes = new_map(w), *constraints = new_map(w);
    for (size_t i = 0; i < contract->attribute_count; i++) {
        const nib_attribute *attribute = &contract->attributes[i];
        nib_map *map = new_map(w), *constraint = new_map(w);
        if (attribute->has_default)
            put_value(w, map, "default", attribute->default_value);
        put_text(w, map, "description", attribute->description);
        put(w, attributes, attribute->name, nib_value_of_map(map));
        put_true(w, constraint, "required", attribute->required);
        if (attribute->allowed.type == NIB_VALUE_LIST)
            put_value(w, constraint, "values", attribute->allowed);
        if (!w->failed && constraint->count)
            put(w, constraints, attribute->name, nib_value_of_map(constraint));
    }
    put_map(w, root, "attributes", attributes);
    put_map(w, root, "attributeConstraints", constraints);
}

static void put_type_variables(writer *w, nib_map *root, const nib_contract *contract)
{
    nib_map *map = new_map(w);
    for (size_t i = 0; i < contract->type_variable_count; i++) {
        const nib_type_variable *variable = &contract->type_variables[i];
        nib_list *list = new_list(w);
        for (size_t k = 0; k < variable->dtype_count; k++)
            push(w, list, nib_value_cstr(nib_dtype_name(variable->dtypes[k])));
        put(w, map, variable->name, nib_value_of_list(list));
    }
    put_map(w, root, "typeConstraints", map);
}

static void put_tunables(writer *w, nib_map *root, const nib_tunable *tunables, size_t count)
{
    nib_map *members = new_map(w);
    for (size_t i = 0; i < count; i++) {
        nib_map *map = new_map(w);
        put_value(w, map, "default", tunables[i].default_value);
        put_text(w, map, "description", tunables[i].description);
        put(w, members, tunables[i].name, nib_value_of_map(map));
    }
    put_map(w, root, "tunables", members);
}

/* ---- variants ---- */

static void put_size(writer *w, nib_map *map, const char *key, unsigned size)
{
    if (size)
        put_value(w, map, key, nib_value_number(size));
}

static void put_matrix_configs(writer *w, nib_map *map, const nib_requires *needs)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < needs->matrix_config_count; i++) {
        const nib_matrix_pattern *pattern = &needs->matrix_configs[i];
        nib_map *config = new_map(w);
        put_text(w, config, "componentType", pattern->component_type);
        put_text(w, config, "resultComponentType", pattern->result_type);
        put_size(w, config, "M", pattern->m);
        put_size(w, config, "N", pattern->n);
        put_size(w, config, "K", pattern->k);
        push(w, list, nib_value_of_map(config));
    }
    put_list(w, map, "subgroupMatrixConfigs", list);
}

static void put_requires(writer *w, nib_map *root, const nib_requires *needs)
{
    nib_map *map = new_map(w), *limits = new_map(w);
    nib_list *features = new_list(w);
    for (size_t i = 0; i < needs->feature_count; i++)
        push(w, features, nib_value_string(needs->features[i]));
    for (size_t i = 0; i < needs->limit_count; i++)
        put(w, limits, needs->limits[i].name, nib_value_number(needs->limits[i].minimum));
    put_list(w, map, "features", features);
    put_map(w, map, "limits", limits);
    put_size(w, map, "subgroupMinSize", needs->subgroup_min_size);
    put_matrix_configs(w, map, needs);
    put_map(w, root, "requires", map);
}

static void put_intermediates(writer *w, nib_map *root, const nib_variant *variant)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < variant->intermediate_count; i++) {
        const nib_intermediate *item = &variant->intermediates[i];
        nib_map *map = new_map(w);
        put_text(w, map, "id", item->id);
        put_text(w, map, "dtype", dtype_text(item->dtype));
        put_shape(w, map, &item->shape);
        put_true(w, map, "zeroInit", item->zero_init);
        push(w, list, nib_value_of_map(map));
    }
    put_list(w, root, "intermediates", list);
}

static void put_literal_or_expr(writer *w, nib_map *map, const char *key, nib_value literal,
                                nib_expr expr)
{
    if (expr.program)
        put_expr(w, map, key, expr);
    else if (nib_value_is_number(literal))
        put_value(w, map, key, literal);
}

static nib_value fields_value(writer *w, const nib_binding *binding)
{
    static const char *const types[] = {
        [NIB_FIELD_U32] = "u32", [NIB_FIELD_I32] = "i32", [NIB_FIELD_F32] = "f32"};
    nib_list *list = new_list(w);
    for (size_t i = 0; i < binding->field_count; i++) {
        const nib_uniform_field *field = &binding->fields[i];
        nib_map *map = new_map(w);
        put_text(w, map, "name", field->name);
        put_text(w, map, "type", nib_str_from(types[field->type]));
        put_literal_or_expr(w, map, "value", field->value, field->value_expr);
        put_literal_or_expr(w, map, "default", field->default_value, field->default_expr);
        put_true(w, map, "internal", field->internal);
        if (field->required == field->internal)
            put_value(w, map, "required", nib_value_bool(field->required));
        push(w, list, nib_value_of_map(map));
    }
    return w->failed ? NIB_UNDEFINED : nib_value_of_list(list);
}

static void put_length(writer *w, nib_map *map, const nib_binding *binding)
{
    if (!binding->has_length)
        return;
    if (binding->length_ref.len == 0) {
        put_value(w, map, "length", nib_value_number(binding->length));
        return;
    }
    const nib_str name = binding->length_ref; /* it stands behind its "$" in the manifest */
    put_text(w, map, "length", (nib_str){name.data - 1, name.len + 1});
}

static nib_map *binding_map(writer *w, const nib_binding *binding)
{
    static const char *const kinds[] = {
        [NIB_BINDING_READ] = "read-only-storage",
        [NIB_BINDING_STORAGE] = "storage",
        [NIB_BINDING_UNIFORM] = "uniform",
    };
    nib_map *map = new_map(w);
    put_text(w, map, "name", binding->name);
    put_text(w, map, "arg", binding->arg);
    put_text(w, map, "scratch", binding->scratch);
    put_text(w, map, "buffer", nib_str_from(kinds[binding->kind]));
    put_text(w, map, "elementType", binding->element_type);
    put_length(w, map, binding);
    put_text(w, map, "structName", binding->struct_name);
    if (binding->field_count)
        put_value(w, map, "struct", fields_value(w, binding));
    return map;
}

static void put_dispatch(writer *w, nib_map *root, const nib_dispatch *dispatch)
{
    static const char *const axes[] = {"x", "y", "z"};
    static const char *const counts[] = {
        [NIB_DISPATCH_EXPLICIT] = "",
        [NIB_DISPATCH_THREADS] = "threads",
        [NIB_DISPATCH_WORKGROUPS] = "workgroups",
        [NIB_DISPATCH_GRID_STRIDE] = "gridStride",
    };
    nib_map *map = new_map(w);
    put_expr(w, map, counts[dispatch->form], dispatch->count);
    put_expr(w, map, "workgroupSize", dispatch->workgroup_size);
    for (size_t i = 0; i < 3; i++)
        put_expr(w, map, axes[i], dispatch->axis[i]);
    put_map(w, root, "dispatch", map);
}

static void put_view_aliases(writer *w, nib_map *root, const nib_pass *pass)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < pass->view_alias_count; i++) {
        nib_map *map = new_map(w);
        put_text(w, map, "input", pass->view_aliases[i].input);
        put_text(w, map, "output", pass->view_aliases[i].output);
        push(w, list, nib_value_of_map(map));
    }
    put_list(w, root, "viewAlias", list);
}

static void put_collectives_width(writer *w, nib_map *map, nib_str width)
{
    double number;
    if (nib_number_parse(width, &number))
        put_value(w, map, "subgroupCollectivesWidth", nib_value_number(number));
    else
        put_text(w, map, "subgroupCollectivesWidth", width);
}

static nib_map *pass_map(writer *w, const nib_pass *pass)
{
    nib_map *map = new_map(w);
    nib_list *bindings = new_list(w);
    put_text(w, map, "id", pass->id);
    put_text(w, map, "name", pass->label);
    put_text(w, map, "shader", pass->shader);
    if (!nib_str_is(pass->entry_point, "main"))
        put_text(w, map, "entryPoint", pass->entry_point);
    put_derives(w, map, "derive", &pass->derive);
    put_derives(w, map, "constants", &pass->constants);
    for (size_t i = 0; i < pass->binding_count; i++)
        push(w, bindings, nib_value_of_map(binding_map(w, &pass->bindings[i])));
    put_list(w, map, "bindings", bindings);
    put_dispatch(w, map, &pass->dispatch);
    put_derives(w, map, "profile", &pass->profile);
    put_collectives_width(w, map, pass->collectives_width);
    put_true(w, map, "submitAfter", pass->submit_after);
    put_view_aliases(w, map, pass);
    return map;
}

static nib_list *pass_list(writer *w, const nib_pass *passes, size_t count);

static nib_map *group_map(writer *w, const nib_pass *group)
{
    nib_map *map = new_map(w), *repeat = new_map(w);
    put_text(w, map, "id", group->id);
    put_expr(w, repeat, "count", group->repeat_count);
    put_text(w, repeat, "index", group->repeat_index);
    put_map(w, map, "repeat", repeat);
    put_list(w, map, "passes", pass_list(w, group->repeat_passes, group->repeat_pass_count));
    return map;
}

static nib_list *pass_list(writer *w, const nib_pass *passes, size_t count)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < count; i++) {
        const nib_pass *pass = &passes[i];
        push(w, list,
             nib_value_of_map(pass->repeat_passes ? group_map(w, pass) : pass_map(w, pass)));
    }
    return list;
}

static void put_superseded_by(writer *w, nib_map *map, const nib_contract *contract,
                              const nib_variant *variant)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < variant->superseded_by_count; i++)
        push(w, list, nib_value_string(contract->variants[variant->superseded_by[i]].id));
    put_list(w, map, "supersededBy", list);
}

static nib_map *variant_map(writer *w, const nib_contract *contract, const nib_variant *variant)
{
    nib_map *map = new_map(w);
    put_text(w, map, "id", variant->id);
    put_text(w, map, "description", variant->description);
    put_value(w, map, "priority", nib_value_number(variant->priority));
    put_true(w, map, "default", variant->is_default);
    put_exprs(w, map, "when", variant->when);
    put_exprs(w, map, "demoteWhen", variant->demote_when);
    put_superseded_by(w, map, contract, variant);
    put_requires(w, map, &variant->needs);
    put_tunables(w, map, variant->tunables, variant->tunable_count);
    put_derives(w, map, "derive", &variant->derive);
    put_derives(w, map, "constants", &variant->constants);
    put_intermediates(w, map, variant);
    put_list(w, map, "passes", pass_list(w, variant->passes, variant->pass_count));
    return map;
}

static void put_variants(writer *w, nib_map *root, const nib_contract *contract)
{
    nib_list *list = new_list(w);
    for (size_t i = 0; i < contract->variant_count; i++)
        push(w, list, nib_value_of_map(variant_map(w, contract, &contract->variants[i])));
    put_list(w, root, "variants", list);
}

nib_status nib_contract_json(nib_arena *arena, const nib_contract *contract, nib_value *out,
                             nib_error *error)
{
    writer w = {.arena = arena};
    nib_map *root = new_map(&w);
    put_text(&w, root, "op", contract->op_id);
    put_text(&w, root, "dialect",
             contract->dialect == NIB_DIALECT_LIST ? NIB_STR("list") : NIB_STR("map"));
    put_text(&w, root, "domain", contract->domain);
    put_text(&w, root, "name", contract->name);
    put_text(&w, root, "description", contract->description);
    if (contract->since_version.type != NIB_VALUE_UNDEFINED)
        put_value(&w, root, "sinceVersion", contract->since_version);
    put_ports(&w, root, contract);
    put_arguments(&w, root, contract);
    put_attributes(&w, root, contract);
    put_type_variables(&w, root, contract);
    put_tunables(&w, root, contract->tunables, contract->tunable_count);
    put_derives(&w, root, "derive", &contract->derive);
    put_derives(&w, root, "constants", &contract->constants);
    put_variants(&w, root, contract);
    if (w.failed)
        return nib_fail_memory(error);
    *out = nib_value_of_map(root);
    return NIB_OK;
}
