/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and scalar arguments of the map dialect (format 2.A.3, 2.A.4).
 */
#include "package/reader.h"
#include "tensor/tensor.h"
#include "value/number.h"

const nib_port *nib_find_port(const nib_contract *contract, nib_str key)
{
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_eq(contract->ports[i].key, key))
            return &contract->ports[i];
    }
    return NULL;
}

/* ---- dtypes ---- */

void nib_resolve_port_dtype(const nib_contract *contract, nib_port *port)
{
    port->dtype = nib_dtype_of(port->dtype_text);
    port->variable = NULL;
    for (size_t i = 0; i < contract->type_variable_count && port->dtype == NIB_DTYPE_NONE; i++) {
        if (nib_str_eq(contract->type_variables[i].name, port->dtype_text))
            port->variable = &contract->type_variables[i];
    }
}

/* The one dtype that the port's text stands for; NONE when it is open or there are several. */
static nib_dtype only_dtype(const nib_port *port)
{
    if (port->variable && port->variable->dtype_count == 1)
        return port->variable->dtypes[0];
    return port->dtype;
}

nib_dtype nib_port_held_dtype(const nib_port *port)
{
    return port->storage ? port->storage : only_dtype(port);
}

nib_status nib_read_rank(nib_reader *r, const nib_value *value, nib_port *port)
{
    if (value->type == NIB_VALUE_STRING) {
        port->rank_text = value->as.string;
    } else if (nib_value_is_number(*value)) {
        char text[NIB_NUMBER_TEXT_BYTES];
        const size_t len = nib_number_format(value->as.number, text);
        port->rank_text = nib_arena_str(r->arena, text, len);
        if (!port->rank_text.data)
            return nib_fail_memory(r->error);
    }
    return NIB_OK;
}

/* ---- one port ---- */

static nib_status read_port_rank(nib_reader *r, const nib_value *value, void *port)
{
    return nib_read_rank(r, value, port);
}

static nib_status read_output_shape(nib_reader *r, const nib_value *value, void *port)
{
    return nib_read_shape(r, *value, &((nib_port *)port)->shape);
}

static nib_status read_dtype(nib_reader *r, const nib_value *value, void *target)
{
    nib_port *port = target;
    port->dtype_text = value->as.string;
    nib_resolve_port_dtype(r->contract, port);
    return NIB_OK;
}

static nib_status read_layout(nib_reader *r, const nib_value *value, void *target)
{
    nib_port *port = target;
    if (!nib_str_is(value->as.string, "packed"))
        return nib_refuse(r, "the only layout is \"packed\", not \"%.*s\"",
                          NIB_SHOW_STR(value->as.string));
    if (only_dtype(port) != NIB_UINT8)
        return nib_refuse(r, "the packed layout needs a dtype that is uint8 alone, not \"%.*s\"",
                          NIB_SHOW_STR(port->dtype_text));
    port->packed = true;
    return NIB_OK;
}

static nib_status read_storage(nib_reader *r, const nib_value *value, void *target)
{
    nib_port *port = target;
    const nib_str text = value->as.string;
    port->storage = nib_dtype_of(text);
    if (port->storage == NIB_DTYPE_NONE)
        return nib_refuse(r, "\"storage\" must be a storage dtype, not \"%.*s\"",
                          NIB_SHOW_STR(text));
    if (port->dtype == NIB_DTYPE_NONE && !port->variable)
        return nib_refuse(r,
                          "\"storage\" needs a dtype that is concrete or a declared type "
                          "variable, not \"%.*s\"",
                          NIB_SHOW_STR(port->dtype_text));
    const nib_dtype only = only_dtype(port);
    if (only == NIB_INT64) {
        if (port->storage == NIB_INT32 || port->storage == NIB_UINT32 || port->storage == NIB_INT64)
            return NIB_OK;
        return nib_refuse(r, "an int64 tensor can be stored as int32, uint32 or int64, not %.*s",
                          NIB_SHOW_STR(text));
    }
    if (only != port->storage)
        return nib_refuse(r, "\"storage\" is %.*s, but the dtype \"%.*s\" is not that dtype alone",
                          NIB_SHOW_STR(text), NIB_SHOW_STR(port->dtype_text));
    return NIB_OK;
}

static nib_status read_narrowing(nib_reader *r, const nib_value *value, void *target)
{
    nib_port *port = target;
    if (nib_str_is(value->as.string, "checked"))
        port->narrowing = NIB_NARROWING_CHECKED;
    else if (nib_str_is(value->as.string, "saturating"))
        port->narrowing = NIB_NARROWING_SATURATING;
    else
        return nib_refuse(r, "\"narrowing\" must be checked or saturating, not \"%.*s\"",
                          NIB_SHOW_STR(value->as.string));
    return NIB_OK;
}

static bool is_narrowed(const nib_port *port)
{
    return only_dtype(port) == NIB_INT64 &&
           (port->storage == NIB_INT32 || port->storage == NIB_UINT32);
}

/* dtype stands first: the rows below it look at it. */
#define PORT_ROWS                                                                                  \
    {"description", NIB_KEY_STRING, NIB_STORED(nib_port, description)},                            \
        {"onnx", NIB_KEY_TEXT, NIB_STORED(nib_port, onnx)},                                        \
        {"dtype", NIB_KEY_TEXT, .set = read_dtype}, {"rank", NIB_KEY_ANY, .set = read_port_rank},  \
        {"optional", NIB_KEY_BOOL, NIB_STORED(nib_port, optional)},                                \
    {                                                                                              \
        "storage", NIB_KEY_TEXT, .set = read_storage                                               \
    }

static const nib_key input_rows[] = {
    PORT_ROWS,
    {"shape", NIB_KEY_ANY, NIB_ACCEPTED},
    {"layout", NIB_KEY_TEXT, .set = read_layout},
    {"narrowing", NIB_KEY_TEXT, .set = read_narrowing},
};
static const nib_key output_rows[] = {
    PORT_ROWS,
    {"shape", NIB_KEY_ANY, .set = read_output_shape},
    {"layout", NIB_KEY_REFUSED, .hint = "is for inputs only"},
    {"narrowing", NIB_KEY_REFUSED, .hint = "is for inputs only"},
};
static const nib_keys input_keys = NIB_KEYS("an input", input_rows);
static const nib_keys output_keys = NIB_KEYS("an output", output_rows);

static nib_status check_port_key(nib_reader *r, nib_str key)
{
    if (nib_str_is_identifier(key))
        return NIB_OK;
    return nib_refuse(r, "the tensor name \"%.*s\" is not an identifier", NIB_SHOW_STR(key));
}

static nib_status check_narrowing(nib_reader *r, const nib_port *port)
{
    if (is_narrowed(port) == (port->narrowing != NIB_NARROWING_NONE))
        return NIB_OK;
    if (is_narrowed(port))
        return nib_refuse(r,
                          "an int64 input stored as %s needs \"narrowing\": checked or "
                          "saturating",
                          nib_dtype_name(port->storage));
    return nib_refuse(r, "\"narrowing\" is only for an int64 input stored as int32 or uint32");
}

static nib_status read_port(nib_reader *r, nib_str key, nib_value value, const nib_keys *keys,
                            nib_port *port)
{
    *port = (nib_port){.key = key, .onnx = key};
    NIB_TRY(check_port_key(r, key));
    return nib_keys_read(r, keys, value, port);
}

static nib_status read_input(nib_reader *r, nib_str key, nib_value value, nib_port *port)
{
    NIB_TRY(read_port(r, key, value, &input_keys, port));
    port->role = NIB_INPUT;
    return nib_at_name(r, "narrowing", check_narrowing(r, port));
}

/* ---- sections ---- */

static nib_status refuse_port_list(nib_reader *r, const char *section, const nib_value *value)
{
    if (value->type == NIB_VALUE_LIST)
        return nib_refuse(r,
                          "\"%s\" must be an object; a list belongs to the older dialect, where "
                          "\"inputs\" is a list too",
                          section);
    return nib_keys_check(r, NIB_KEY_MAP, section, *value);
}

nib_status nib_read_inputs(nib_reader *r, const nib_value *value, void *target)
{
    nib_contract *contract = target;
    NIB_TRY(refuse_port_list(r, "inputs", value));
    const nib_map *map = value->as.map;
    NIB_TRY(nib_check_count(r, "\"inputs\"", map->count));
    contract->ports = NIB_ARENA_ARRAY(r->arena, nib_port, map->count);
    if (!contract->ports)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key,
                           read_input(r, entry->key, entry->value, &contract->ports[i])));
        contract->port_count++;
    }
    return NIB_OK;
}

/* The output entry of a tensor that is an input too (2.A.3). */
static nib_status join_inout(nib_reader *r, nib_port *port, const nib_port *output)
{
    if (!nib_str_eq(port->dtype_text, output->dtype_text))
        return nib_at_name(r, "dtype",
                           nib_refuse(r,
                                      "the inout tensor \"%.*s\" has dtype \"%.*s\" as an input "
                                      "and \"%.*s\" as an output",
                                      NIB_SHOW_STR(port->key), NIB_SHOW_STR(port->dtype_text),
                                      NIB_SHOW_STR(output->dtype_text)));
    if (port->storage != output->storage)
        return nib_at_name(r, "storage",
                           nib_refuse(r,
                                      "the inout tensor \"%.*s\" has storage %s as an input and "
                                      "%s as an output",
                                      NIB_SHOW_STR(port->key), nib_dtype_name(port->storage),
                                      nib_dtype_name(output->storage)));
    port->role = NIB_INOUT;
    port->output_optional = output->optional;
    port->shape = output->shape;
    return NIB_OK;
}

static nib_status read_output(nib_reader *r, nib_str key, nib_value value, size_t *index)
{
    nib_contract *contract = r->contract;
    nib_port output;
    NIB_TRY(read_port(r, key, value, &output_keys, &output));
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_eq(contract->ports[i].key, key)) {
            *index = i;
            return join_inout(r, &contract->ports[i], &output);
        }
    }
    output.role = NIB_OUTPUT;
    output.output_optional = output.optional;
    *index = contract->port_count;
    contract->ports[contract->port_count++] = output;
    return NIB_OK;
}

nib_status nib_read_outputs(nib_reader *r, const nib_value *value, void *target)
{
    nib_contract *contract = target;
    NIB_TRY(refuse_port_list(r, "outputs", value));
    const nib_map *map = value->as.map;
    NIB_TRY(nib_check_count(r, "\"outputs\"", map->count));
    nib_port *ports = NIB_ARENA_ARRAY(r->arena, nib_port, contract->port_count + map->count);
    contract->outputs = NIB_ARENA_ARRAY(r->arena, size_t, map->count);
    if (!ports || !contract->outputs)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < contract->port_count; i++)
        ports[i] = contract->ports[i];
    contract->ports = ports;
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key,
                           read_output(r, entry->key, entry->value, &contract->outputs[i])));
        contract->output_count++;
    }
    return NIB_OK;
}

/* ---- scalar arguments ---- */

static bool argument_kind_from(nib_str text, nib_argument_kind *out)
{
    static const char *const names[] = {
        [NIB_ARG_U32] = "u32",   [NIB_ARG_I32] = "i32",       [NIB_ARG_F32] = "f32",
        [NIB_ARG_BOOL] = "bool", [NIB_ARG_STRING] = "string",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nib_str_is(text, names[i])) {
            *out = (nib_argument_kind)i;
            return true;
        }
    }
    return false;
}

static nib_status check_choices(nib_reader *r, nib_argument_kind kind, nib_value choices)
{
    if (kind != NIB_ARG_STRING)
        return nib_refuse(r, "\"oneOf\" is only for an argument of kind string");
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "\"oneOf\"", choices));
    for (size_t i = 0; i < choices.as.list->count; i++)
        NIB_TRY(nib_at_index(
            r, i, nib_keys_check(r, NIB_KEY_STRING, "a choice", choices.as.list->items[i])));
    return NIB_OK;
}

nib_status nib_read_argument(nib_reader *r, nib_str name, nib_str kind, nib_value required,
                             nib_value one_of, nib_argument *out)
{
    out->name = name;
    out->one_of = one_of;
    out->required = required.type != NIB_VALUE_BOOL || required.as.boolean;
    if (!nib_str_is_identifier(name))
        return nib_refuse(r, "the argument name \"%.*s\" is not an identifier", NIB_SHOW_STR(name));
    if (nib_find_port(r->contract, name))
        return nib_refuse(r, "the argument \"%.*s\" has the name of a tensor", NIB_SHOW_STR(name));
    if (!argument_kind_from(kind, &out->kind))
        return nib_at_name(
            r, "kind",
            nib_refuse(r,
                       "the kind of an argument must be u32, i32, f32, bool or string, not "
                       "\"%.*s\"%s",
                       NIB_SHOW_STR(kind),
                       nib_str_is(kind, "tensor") ? " (tensors are declared in inputs and outputs)"
                                                  : ""));
    if (one_of.type == NIB_VALUE_UNDEFINED)
        return NIB_OK;
    return nib_at_name(r, "oneOf", check_choices(r, out->kind, one_of));
}

typedef struct argument_entry {
    nib_str kind, description;
    nib_value required, one_of;
} argument_entry;

static const nib_key argument_rows[] = {
    {"kind", NIB_KEY_TEXT, .required = true, NIB_STORED(argument_entry, kind)},
    {"description", NIB_KEY_STRING, NIB_STORED(argument_entry, description)},
    {"onnx", NIB_KEY_ANY, NIB_ACCEPTED},
    {"required", NIB_KEY_ANY, NIB_STORED(argument_entry, required)},
    {"oneOf", NIB_KEY_ANY, NIB_STORED(argument_entry, one_of)},
};
static const nib_keys argument_keys = NIB_KEYS("an argument", argument_rows);

static nib_status read_argument(nib_reader *r, nib_str name, nib_value value, nib_argument *out)
{
    argument_entry entry = {.required = NIB_UNDEFINED};
    NIB_TRY(nib_keys_read(r, &argument_keys, value, &entry));
    out->description = entry.description;
    return nib_read_argument(r, name, entry.kind, entry.required, entry.one_of, out);
}

nib_status nib_read_arguments(nib_reader *r, const nib_value *value, void *target)
{
    nib_contract *contract = target;
    const nib_map *map = value->as.map;
    NIB_TRY(nib_check_count(r, "\"args\"", map->count));
    contract->arguments = NIB_ARENA_ARRAY(r->arena, nib_argument, map->count);
    if (!contract->arguments)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key,
                           read_argument(r, entry->key, entry->value, &contract->arguments[i])));
        contract->argument_count++;
    }
    return NIB_OK;
}
