/* SPDX-License-Identifier: Apache-2.0
 *
 * The older list dialect (format 2.B): tensors and attributes. Its variants are in variants_list.c.
 */
#include "package/reader.h"

/* ---- ports: inputs and outputs are lists of roles; args give them their keys (2.B.6) ---- */

typedef struct list_port {
    nib_str role;
    nib_port port;
    bool bound; /* an argument names it */
} list_port;

typedef struct tensor_argument {
    nib_str name, semantic, role, dtype_text;
    bool optional;
} tensor_argument;

/* The declared tensors until their arguments are known. */
struct nib_list_state {
    list_port *inputs, *outputs;
    size_t input_count, output_count;
};

static nib_status read_port_rank(nib_reader *r, const nib_value *value, void *target)
{
    return nib_read_rank(r, value, &((list_port *)target)->port);
}

static nib_status read_port_shape(nib_reader *r, const nib_value *value, void *target)
{
    return nib_read_shape(r, *value, &((list_port *)target)->port.shape);
}

#define LIST_PORT_ROWS                                                                             \
    {"role", NIB_KEY_TEXT, .required = true, NIB_STORED(list_port, role)},                         \
        {"dtype", NIB_KEY_TEXT, NIB_STORED(list_port, port.dtype_text)},                           \
        {"rank", NIB_KEY_ANY, .set = read_port_rank},                                              \
        {"optional", NIB_KEY_BOOL, NIB_STORED(list_port, port.optional)},                          \
    {                                                                                              \
        "description", NIB_KEY_STRING, NIB_STORED(list_port, port.description)                     \
    }

static const nib_key input_rows[] = {LIST_PORT_ROWS, {"shape", NIB_KEY_ANY, NIB_ACCEPTED}};
static const nib_key output_rows[] = {LIST_PORT_ROWS,
                                      {"shape", NIB_KEY_ANY, .set = read_port_shape}};
static const nib_keys input_keys = NIB_KEYS("an input", input_rows);
static const nib_keys output_keys = NIB_KEYS("an output", output_rows);

static list_port *find_role(list_port *ports, size_t count, nib_str role)
{
    for (size_t i = 0; i < count; i++) {
        if (nib_str_eq(ports[i].role, role))
            return &ports[i];
    }
    return NULL;
}

static nib_status read_section(nib_reader *r, nib_value value, const nib_keys *keys,
                               list_port **ports, size_t *count)
{
    const nib_list *list = value.as.list;
    NIB_TRY(nib_check_count(r, "a list of tensors", list->count));
    *ports = NIB_ARENA_ARRAY(r->arena, list_port, list->count);
    if (!*ports)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        list_port *port = &(*ports)[i];
        NIB_TRY(nib_at_index(r, i, nib_keys_read(r, keys, list->items[i], port)));
        if (find_role(*ports, i, port->role))
            return nib_at_index(r, i,
                                nib_at_name(r, "role",
                                            nib_refuse(r, "two tensors have the role \"%.*s\"",
                                                       NIB_SHOW_STR(port->role))));
        nib_resolve_port_dtype(r->contract, &port->port);
        (*count)++;
    }
    return NIB_OK;
}

static nib_status read_inputs(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    nib_list_state *m = r->list;
    return read_section(r, *value, &input_keys, &m->inputs, &m->input_count);
}

static nib_status read_outputs(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    nib_list_state *m = r->list;
    return read_section(r, *value, &output_keys, &m->outputs, &m->output_count);
}

/* ---- args ---- */

typedef struct argument_entry {
    nib_str kind, semantic, role, dtype_text, description;
    nib_value required, one_of;
} argument_entry;

static const nib_key argument_rows[] = {
    {"kind", NIB_KEY_TEXT, .required = true, NIB_STORED(argument_entry, kind)},
    {"semantic", NIB_KEY_TEXT, NIB_STORED(argument_entry, semantic)},
    {"role", NIB_KEY_TEXT, NIB_STORED(argument_entry, role)},
    {"dtype", NIB_KEY_TEXT, NIB_STORED(argument_entry, dtype_text)},
    {"required", NIB_KEY_ANY, NIB_STORED(argument_entry, required)},
    {"oneOf", NIB_KEY_ANY, NIB_STORED(argument_entry, one_of)},
    {"description", NIB_KEY_STRING, NIB_STORED(argument_entry, description)},
};
static const nib_keys argument_keys = NIB_KEYS("an argument", argument_rows);

static nib_status check_tensor_argument(nib_reader *r, nib_str name, const argument_entry *entry)
{
    if (!nib_str_is_identifier(name))
        return nib_refuse(r, "the argument name \"%.*s\" is not an identifier", NIB_SHOW_STR(name));
    if (entry->semantic.len == 0)
        return nib_at_name(r, "semantic",
                           nib_refuse(r, "a tensor argument needs \"semantic\", the role of the "
                                         "tensor it carries"));
    if (entry->role.len == 0)
        return nib_at_name(r, "role",
                           nib_refuse(r, "a tensor argument needs \"role\": input, output or "
                                         "inout"));
    if (entry->one_of.type != NIB_VALUE_UNDEFINED)
        return nib_at_name(r, "oneOf",
                           nib_refuse(r, "\"oneOf\" is only for an argument of kind string"));
    return NIB_OK;
}

/* Give one declared tensor the name of its argument. */
static nib_status bind_port(nib_reader *r, list_port *port, const char *section, nib_str name,
                            const argument_entry *entry, nib_role role)
{
    if (!port)
        return nib_at_name(r, "semantic",
                           nib_refuse(r, "\"%.*s\" is the role of no tensor in \"%s\"",
                                      NIB_SHOW_STR(entry->semantic), section));
    if (port->bound)
        return nib_at_name(r, "semantic",
                           nib_refuse(r, "the tensor \"%.*s\" already has the argument \"%.*s\"",
                                      NIB_SHOW_STR(port->role), NIB_SHOW_STR(port->port.key)));
    const bool optional = entry->required.type == NIB_VALUE_BOOL && !entry->required.as.boolean;
    port->bound = true;
    port->port.key = name;
    port->port.onnx = entry->semantic;
    port->port.role = role;
    port->port.optional = port->port.optional || optional;
    port->port.output_optional = port->port.optional;
    if (entry->dtype_text.len == 0 || nib_str_eq(entry->dtype_text, port->port.dtype_text))
        return NIB_OK;
    if (port->port.dtype_text.len)
        return nib_at_name(r, "dtype",
                           nib_refuse(r, "the argument has dtype \"%.*s\", its tensor \"%.*s\"",
                                      NIB_SHOW_STR(entry->dtype_text),
                                      NIB_SHOW_STR(port->port.dtype_text)));
    port->port.dtype_text = entry->dtype_text;
    nib_resolve_port_dtype(r->contract, &port->port);
    return NIB_OK;
}

/* Roles other than output and inout ("weights" in the oldest manifests) are inputs. */
static nib_status read_tensor(nib_reader *r, nib_list_state *m, nib_str name,
                              const argument_entry *entry)
{
    NIB_TRY(check_tensor_argument(r, name, entry));
    const bool inout = nib_str_is(entry->role, "inout");
    list_port *input = find_role(m->inputs, m->input_count, entry->semantic);
    list_port *output = find_role(m->outputs, m->output_count, entry->semantic);
    if (nib_str_is(entry->role, "output"))
        return bind_port(r, output, "outputs", name, entry, NIB_OUTPUT);
    NIB_TRY(bind_port(r, input, "inputs", name, entry, inout ? NIB_INOUT : NIB_INPUT));
    if (!inout)
        return NIB_OK;
    NIB_TRY(bind_port(r, output, "outputs", name, entry, NIB_INOUT));
    if (!nib_str_eq(input->port.dtype_text, output->port.dtype_text))
        return nib_refuse(r,
                          "the inout tensor \"%.*s\" has dtype \"%.*s\" as an input and "
                          "\"%.*s\" as an output",
                          NIB_SHOW_STR(name), NIB_SHOW_STR(input->port.dtype_text),
                          NIB_SHOW_STR(output->port.dtype_text));
    input->port.output_optional = output->port.output_optional;
    input->port.shape = output->port.shape;
    return NIB_OK;
}

static nib_status read_argument(nib_reader *r, nib_list_state *m, const nib_entry *member,
                                nib_str *tensor_role)
{
    argument_entry entry = {.required = NIB_UNDEFINED};
    nib_contract *contract = r->contract;
    NIB_TRY(nib_keys_read(r, &argument_keys, member->value, &entry));
    if (nib_str_is(entry.kind, "tensor")) {
        *tensor_role = entry.role;
        return read_tensor(r, m, member->key, &entry);
    }
    nib_argument *argument = &contract->arguments[contract->argument_count];
    NIB_TRY(nib_read_argument(r, member->key, entry.kind, entry.required, entry.one_of, argument));
    argument->description = entry.description;
    contract->argument_count++;
    return NIB_OK;
}

/* ---- from list ports to the contract ---- */

static nib_status refuse_unbound(nib_reader *r, const list_port *ports, size_t count,
                                 const char *section)
{
    for (size_t i = 0; i < count; i++) {
        if (!ports[i].bound)
            return nib_refuse(r, "no argument carries the tensor \"%.*s\" of \"%s\"",
                              NIB_SHOW_STR(ports[i].role), section);
    }
    return NIB_OK;
}

static size_t index_of_port(const nib_contract *contract, nib_str key)
{
    size_t i = 0;
    while (i < contract->port_count && !nib_str_eq(contract->ports[i].key, key))
        i++;
    return i;
}

static nib_status collect_ports(nib_reader *r, const nib_list_state *m)
{
    nib_contract *contract = r->contract;
    contract->ports = NIB_ARENA_ARRAY(r->arena, nib_port, m->input_count + m->output_count);
    contract->outputs = NIB_ARENA_ARRAY(r->arena, size_t, m->output_count);
    if (!contract->ports || !contract->outputs)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < m->input_count; i++)
        contract->ports[contract->port_count++] = m->inputs[i].port;
    for (size_t i = 0; i < m->output_count; i++) {
        const nib_port *port = &m->outputs[i].port;
        const size_t index = index_of_port(contract, port->key);
        contract->outputs[contract->output_count++] = index;
        if (index == contract->port_count)
            contract->ports[contract->port_count++] = *port;
    }
    return NIB_OK;
}

/* A tensor is also known by its semantic and its argument's role, unless several tensors are
 * (2.B.2). */
static size_t count_named(const nib_contract *contract, const nib_str *roles, nib_str name)
{
    size_t count = 0;
    for (size_t i = 0; i < contract->port_count; i++) {
        const nib_port *port = &contract->ports[i];
        if (nib_str_eq(port->key, name) || nib_str_eq(port->onnx, name) ||
            nib_str_eq(roles[i], name))
            count++;
    }
    return count;
}

static void name_ports(nib_contract *contract, const nib_str *roles)
{
    for (size_t i = 0; i < contract->port_count; i++) {
        nib_port *port = &contract->ports[i];
        const nib_str names[] = {port->onnx, roles[i]};
        for (size_t k = 0; k < 2; k++) {
            const bool seen = nib_str_eq(names[k], port->key) ||
                              (port->alias_count && nib_str_eq(names[k], port->aliases[0]));
            if (!seen && count_named(contract, roles, names[k]) == 1)
                port->aliases[port->alias_count++] = names[k];
        }
    }
}

/* The roles of the arguments, in port order. */
static nib_status port_roles(nib_reader *r, const nib_map *arguments, const nib_str *argument_roles,
                             nib_str **out)
{
    const nib_contract *contract = r->contract;
    *out = NIB_ARENA_ARRAY(r->arena, nib_str, contract->port_count);
    if (!*out)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < arguments->count; i++) {
        const size_t index = index_of_port(contract, arguments->entries[i].key);
        if (index < contract->port_count)
            (*out)[index] = argument_roles[i];
    }
    return NIB_OK;
}

static nib_status read_arguments(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    nib_list_state *m = r->list;
    const nib_map *map = value->as.map;
    NIB_TRY(nib_check_count(r, "\"args\"", map->count));
    nib_str *argument_roles = NIB_ARENA_ARRAY(r->arena, nib_str, map->count);
    nib_str *roles;
    r->contract->arguments = NIB_ARENA_ARRAY(r->arena, nib_argument, map->count);
    if (!argument_roles || !r->contract->arguments)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++)
        NIB_TRY(nib_at_key(r, map->entries[i].key,
                           read_argument(r, m, &map->entries[i], &argument_roles[i])));
    NIB_TRY(refuse_unbound(r, m->inputs, m->input_count, "inputs"));
    NIB_TRY(refuse_unbound(r, m->outputs, m->output_count, "outputs"));
    NIB_TRY(collect_ports(r, m));
    NIB_TRY(port_roles(r, map, argument_roles, &roles));
    name_ports(r->contract, roles);
    return NIB_OK;
}

/* ---- attributes and tunables: bare values, descriptions apart ---- */

static nib_status read_attributes(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    NIB_TRY(nib_check_count(r, "\"attributes\"", value->as.map->count));
    for (size_t i = 0; i < value->as.map->count; i++) {
        const nib_entry *entry = &value->as.map->entries[i];
        if (entry->key.len == 0)
            return nib_refuse(r, "an attribute name must not be empty");
        NIB_TRY(nib_add_attribute(r, (nib_attribute){.name = entry->key,
                                                     .has_default = true,
                                                     .default_value = entry->value}));
    }
    return NIB_OK;
}

static nib_status read_constraints(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    NIB_TRY(nib_check_count(r, "\"attributeConstraints\"", value->as.map->count));
    return nib_read_attribute_constraints(r, *value, true);
}

static nib_status read_attribute_names(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    NIB_TRY(nib_check_count(r, "\"attributeNames\"", value->as.list->count));
    for (size_t i = 0; i < value->as.list->count; i++) {
        const nib_value name = value->as.list->items[i];
        NIB_TRY(nib_at_index(r, i, nib_keys_check(r, NIB_KEY_TEXT, "an attribute name", name)));
        if (!nib_find_attribute(r->contract, name.as.string))
            NIB_TRY(nib_add_attribute(r, (nib_attribute){.name = name.as.string}));
    }
    return NIB_OK;
}

/* A text about something undeclared is prose, so it is let pass. */
static nib_status describe_attributes(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    for (size_t i = 0; i < value->as.map->count; i++) {
        const nib_entry *entry = &value->as.map->entries[i];
        nib_attribute *attribute = nib_find_attribute(r->contract, entry->key);
        NIB_TRY(nib_at_key(r, entry->key,
                           nib_keys_check(r, NIB_KEY_STRING, "a description", entry->value)));
        if (attribute)
            attribute->description = entry->value.as.string;
    }
    return NIB_OK;
}

static nib_status read_tunables(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    return nib_read_bare_tunables(r, *value, &r->contract->tunables, &r->contract->tunable_count);
}

static nib_status describe_tunables(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    nib_contract *contract = r->contract;
    for (size_t i = 0; i < value->as.map->count; i++) {
        const nib_entry *entry = &value->as.map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key,
                           nib_keys_check(r, NIB_KEY_STRING, "a description", entry->value)));
        for (size_t k = 0; k < contract->tunable_count; k++) {
            if (nib_str_eq(contract->tunables[k].name, entry->key))
                contract->tunables[k].description = entry->value.as.string;
        }
    }
    return NIB_OK;
}

/* ---- the manifest ---- */

static nib_status on_when(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    return nib_read_list_when(r, *value, &r->when);
}

static nib_status on_constants(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    return nib_read_constants(r, *value, &r->contract->constants);
}

static nib_status on_variants(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    return nib_expand_plain(r, value->as.list, &r->expansion);
}

static nib_status on_families(nib_reader *r, const nib_value *value, void *target)
{
    (void)target;
    return nib_expand_products(r, value->as.list, &r->expansion);
}

static const nib_key manifest_rows[] = {
    {"$schema", NIB_KEY_ANY, NIB_ACCEPTED},
    {"schemaVersion", NIB_KEY_ANY, NIB_ACCEPTED},
    {"domain", NIB_KEY_STRING, NIB_STORED(nib_contract, domain), .set = nib_check_domain},
    {"name", NIB_KEY_TEXT, .required = true, NIB_STORED(nib_contract, name)},
    {"description", NIB_KEY_STRING, NIB_STORED(nib_contract, description)},
    {"conformance", NIB_KEY_STRING, .set = nib_check_conformance},
    {"sinceVersion", NIB_KEY_ANY, .set = nib_read_since_version},
    {"onnx", NIB_KEY_ANY, NIB_ACCEPTED},
    {"staticShapes", NIB_KEY_ANY, NIB_ACCEPTED},
    {"typeConstraints", NIB_KEY_MAP, .set = nib_read_type_constraints},
    {"inputs", NIB_KEY_LIST, .required = true, .set = read_inputs},
    {"outputs", NIB_KEY_LIST, .required = true, .set = read_outputs},
    {"args", NIB_KEY_MAP, .required = true, .set = read_arguments},
    {"attributes", NIB_KEY_MAP, .set = read_attributes},
    {"attributeConstraints", NIB_KEY_MAP, .set = read_constraints},
    {"attributeNames", NIB_KEY_LIST, .set = read_attribute_names},
    {"attributeDescriptions", NIB_KEY_MAP, .set = describe_attributes},
    {"tunables", NIB_KEY_MAP, .set = read_tunables},
    {"tunableDescriptions", NIB_KEY_MAP, .set = describe_tunables},
    {"derive", NIB_KEY_MAP, .set = nib_read_manifest_derive},
    {"constants", NIB_KEY_MAP, .set = on_constants},
    {"when", NIB_KEY_ANY, .set = on_when},
    {"requires", NIB_KEY_MAP, .set = nib_read_manifest_requires},
    {"bindingSets", NIB_KEY_MAP, .set = nib_read_binding_sets},
    {"variants", NIB_KEY_LIST, .set = on_variants},
    {"variantFamilies", NIB_KEY_LIST, .set = on_families},
};
static const nib_keys manifest_keys = NIB_KEYS("the list-style manifest", manifest_rows);

nib_status nib_read_list_manifest(nib_reader *r, nib_value manifest)
{
    nib_list_state state = {0};
    r->list = &state;
    r->contract->domain = NIB_STR("ai.onnx");
    NIB_TRY(nib_keys_read(r, &manifest_keys, manifest, r->contract));
    r->list = NULL;
    if (r->expansion.count == 0)
        return nib_at_name(r, "variants", nib_refuse(r, "the manifest declares no variant"));
    return nib_read_list_variants(r, &r->expansion);
}
