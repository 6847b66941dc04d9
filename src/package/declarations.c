/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that both dialects share: type variables, attribute constraints, tunables,
 * intermediates, and the small top-level members.
 */
#include <math.h>

#include "package/reader.h"
#include "tensor/tensor.h"

/* ---- top level ---- */

/* a lower-case letter, then lower-case letters and digits */
static bool is_domain_head(nib_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.data[i];
        if (!(c >= 'a' && c <= 'z') && (i == 0 || !nib_is_digit(c)))
            return false;
    }
    return text.len > 0;
}

/* format 2.A.1 */
static bool is_domain(nib_str text)
{
    bool head = true;
    size_t start = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != '.')
            continue;
        const nib_str segment = {text.data + start, i - start};
        const bool tail_ok = nib_str_is_identifier(segment) && nib_is_alpha(segment.data[0]);
        if (head ? !is_domain_head(segment) : !tail_ok)
            return false;
        head = false;
        start = i + 1;
    }
    return true;
}

nib_status nib_check_domain(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    if (is_domain(value->as.string))
        return NIB_OK;
    return nib_refuse(r,
                      "the domain \"%.*s\" must be lower-case letters and digits, then optional "
                      "segments of letters, digits and \"_\" after dots",
                      NIB_SHOW_STR(value->as.string));
}

nib_status nib_check_conformance(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    const nib_str text = value->as.string;
    if (nib_str_is(text, "internal-lowering") || nib_str_is(text, "legacy-default-domain"))
        return NIB_OK;
    return nib_refuse(
        r, "\"conformance\" must be internal-lowering or legacy-default-domain, not \"%.*s\"",
        NIB_SHOW_STR(text));
}

nib_status nib_read_since_version(nib_reader *r, const nib_value *value, void *contract)
{
    (void)r;
    ((nib_contract *)contract)->since_version = *value;
    return NIB_OK;
}

nib_status nib_read_when(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    return nib_read_exprs(r, *value, &r->when);
}

nib_status nib_read_manifest_requires(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    return nib_read_requires(r, *value, &r->needs);
}

nib_status nib_read_manifest_derive(nib_reader *r, const nib_value *value, void *contract)
{
    return nib_read_derive(r, *value, &((nib_contract *)contract)->derive);
}

/* ---- type variables (2.A.2) ---- */

/* A dtype named twice counts once. */
static void add_dtype(nib_type_variable *variable, nib_dtype dtype)
{
    for (size_t i = 0; i < variable->dtype_count; i++) {
        if (variable->dtypes[i] == dtype)
            return;
    }
    variable->dtypes[variable->dtype_count++] = dtype;
}

static nib_status read_type_variable(nib_reader *r, nib_value value, nib_type_variable *variable)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "a type constraint", value));
    for (size_t i = 0; i < value.as.list->count; i++) {
        const nib_value item = value.as.list->items[i];
        const nib_dtype dtype =
            item.type == NIB_VALUE_STRING ? nib_dtype_of(item.as.string) : NIB_DTYPE_NONE;
        if (dtype == NIB_DTYPE_NONE)
            return nib_at_index(
                r, i,
                nib_refuse(r,
                           "a type constraint lists dtypes (float16, float32, int8, int16, int32, "
                           "int64, uint8, uint32, bool), not %s",
                           nib_show(item).text));
        add_dtype(variable, dtype);
    }
    return NIB_OK;
}

nib_status nib_read_type_constraints(nib_reader *r, const nib_value *value, void *target)
{
    nib_contract *contract = target;
    const nib_map *map = value->as.map;
    NIB_TRY(nib_check_count(r, "\"typeConstraints\"", map->count));
    contract->type_variables = NIB_ARENA_ARRAY(r->arena, nib_type_variable, map->count);
    if (!contract->type_variables)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        nib_type_variable *variable = &contract->type_variables[i];
        variable->name = map->entries[i].key;
        NIB_TRY(
            nib_at_key(r, variable->name, read_type_variable(r, map->entries[i].value, variable)));
        contract->type_variable_count++;
    }
    return NIB_OK;
}

/* ---- attributes (2.A.5) ---- */

bool nib_attribute_values_equal(nib_value a, nib_value b)
{
    if (nib_value_is_number(a) && nib_value_is_number(b))
        return isfinite(a.as.number) && isfinite(b.as.number) &&
               (float)a.as.number == (float)b.as.number;
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
        return true;
    case NIB_VALUE_BOOL:
        return a.as.boolean == b.as.boolean;
    case NIB_VALUE_STRING:
        return nib_str_eq(a.as.string, b.as.string);
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
    case NIB_VALUE_MAP:
    case NIB_VALUE_NAMESPACE:
    case NIB_VALUE_FUNCTION:
    case NIB_VALUE_VIEW:
        break;
    }
    return false;
}

static bool list_has(const nib_list *list, size_t count, nib_value value)
{
    for (size_t i = 0; i < count; i++) {
        if (nib_attribute_values_equal(list->items[i], value))
            return true;
    }
    return false;
}

nib_attribute *nib_find_attribute(const nib_contract *contract, nib_str name)
{
    for (size_t i = 0; i < contract->attribute_count; i++) {
        if (nib_str_eq(contract->attributes[i].name, name))
            return &contract->attributes[i];
    }
    return NULL;
}

/* Grows by doubling at powers of two. */
nib_status nib_add_attribute(nib_reader *r, nib_attribute attribute)
{
    nib_contract *contract = r->contract;
    const size_t count = contract->attribute_count;
    if ((count & (count - 1)) == 0) {
        nib_attribute *items = NIB_ARENA_ARRAY(r->arena, nib_attribute, count ? count * 2 : 1);
        if (!items)
            return nib_fail_memory(r->error);
        for (size_t i = 0; i < count; i++)
            items[i] = contract->attributes[i];
        contract->attributes = items;
    }
    contract->attributes[contract->attribute_count++] = attribute;
    return NIB_OK;
}

static nib_status check_allowed_value(nib_reader *r, const nib_list *list, size_t index)
{
    const nib_value value = list->items[index];
    if (value.type != NIB_VALUE_NULL && value.type != NIB_VALUE_STRING &&
        value.type != NIB_VALUE_BOOL && !nib_value_is_number(value))
        return nib_refuse(r,
                          "an allowed value must be null, a string, a boolean or a number, not %s",
                          nib_show(value).text);
    if (list_has(list, index, value))
        return nib_refuse(r, "%s is listed twice (numbers are compared as float32)",
                          nib_show(value).text);
    return NIB_OK;
}

static nib_status read_allowed_values(nib_reader *r, const nib_value *value, void *target)
{
    NIB_TRY(nib_check_count(r, "\"values\"", value->as.list->count));
    for (size_t i = 0; i < value->as.list->count; i++)
        NIB_TRY(nib_at_index(r, i, check_allowed_value(r, value->as.list, i)));
    ((nib_attribute *)target)->allowed = *value;
    return NIB_OK;
}

static const nib_key constraint_rows[] = {
    {"required", NIB_KEY_BOOL, NIB_STORED(nib_attribute, required)},
    {"values", NIB_KEY_ITEMS, .set = read_allowed_values},
};
static const nib_keys constraint_keys = NIB_KEYS("an attribute constraint", constraint_rows);

static nib_status read_constraint(nib_reader *r, nib_value value, nib_attribute *attribute)
{
    NIB_TRY(nib_keys_read(r, &constraint_keys, value, attribute));
    const nib_list *allowed =
        attribute->allowed.type == NIB_VALUE_LIST ? attribute->allowed.as.list : NULL;
    if (!attribute->required && !allowed)
        return nib_refuse(r, "a constraint needs \"required\": true or \"values\"");
    if (attribute->required && attribute->has_default)
        return nib_at_name(r, "required",
                           nib_refuse(r, "attribute \"%.*s\" is required and has a default",
                                      NIB_SHOW_STR(attribute->name)));
    if (allowed && attribute->has_default &&
        !list_has(allowed, allowed->count, attribute->default_value))
        return nib_at_name(r, "values",
                           nib_refuse(r, "the default of \"%.*s\", %s, is not among the values",
                                      NIB_SHOW_STR(attribute->name),
                                      nib_show(attribute->default_value).text));
    return NIB_OK;
}

nib_status nib_read_attribute_constraints(nib_reader *r, nib_value value, bool declares)
{
    for (size_t i = 0; i < value.as.map->count; i++) {
        const nib_str name = value.as.map->entries[i].key;
        nib_attribute *attribute = nib_find_attribute(r->contract, name);
        if (!attribute && declares) {
            NIB_TRY(nib_add_attribute(r, (nib_attribute){.name = name}));
            attribute = nib_find_attribute(r->contract, name);
        }
        if (!attribute)
            return nib_at_key(r, name,
                              nib_refuse(r,
                                         "attribute \"%.*s\" is constrained but not declared in "
                                         "\"attributes\"",
                                         NIB_SHOW_STR(name)));
        NIB_TRY(nib_at_key(r, name, read_constraint(r, value.as.map->entries[i].value, attribute)));
    }
    return NIB_OK;
}

/* ---- tunables (2.A.6) ---- */

nib_status nib_check_tunable(nib_reader *r, nib_str name, nib_value value)
{
    if (!nib_str_is_identifier(name))
        return nib_refuse(r, "the tunable name \"%.*s\" is not an identifier", NIB_SHOW_STR(name));
    if (nib_value_is_number(value) || value.type == NIB_VALUE_STRING ||
        value.type == NIB_VALUE_BOOL)
        return NIB_OK;
    return nib_refuse(r,
                      "the value of tunable \"%.*s\" must be a number, a string or a boolean, "
                      "not %s",
                      NIB_SHOW_STR(name), nib_show(value).text);
}

static const nib_key tunable_rows[] = {
    {"default", NIB_KEY_ANY, .required = true, NIB_STORED(nib_tunable, default_value)},
    {"description", NIB_KEY_STRING, NIB_STORED(nib_tunable, description)},
};
static const nib_keys tunable_keys = NIB_KEYS("a tunable", tunable_rows);

static nib_status read_tunable(nib_reader *r, nib_value value, nib_tunable *tunable)
{
    if (value.type != NIB_VALUE_MAP)
        return nib_refuse(r, "a tunable is an object {\"default\": ...}, not the bare value %s",
                          nib_show(value).text);
    NIB_TRY(nib_keys_read(r, &tunable_keys, value, tunable));
    return nib_check_tunable(r, tunable->name, tunable->default_value);
}

nib_status nib_read_tunables(nib_reader *r, nib_value value, nib_tunable **out, size_t *count)
{
    const nib_map *map = value.as.map;
    NIB_TRY(nib_check_count(r, "\"tunables\"", map->count));
    nib_tunable *items = NIB_ARENA_ARRAY(r->arena, nib_tunable, map->count);
    if (!items)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        items[i].name = map->entries[i].key;
        NIB_TRY(nib_at_key(r, items[i].name, read_tunable(r, map->entries[i].value, &items[i])));
    }
    *out = items;
    *count = map->count;
    return NIB_OK;
}

nib_status nib_read_manifest_tunables(nib_reader *r, const nib_value *value, void *target)
{
    nib_contract *contract = target;
    return nib_read_tunables(r, *value, &contract->tunables, &contract->tunable_count);
}

nib_status nib_read_variant_tunables(nib_reader *r, const nib_value *value, void *target)
{
    nib_variant *variant = target;
    return nib_read_tunables(r, *value, &variant->tunables, &variant->tunable_count);
}

/* ---- intermediates (2.A.12) ---- */

static nib_status read_intermediate_dtype(nib_reader *r, const nib_value *value, void *target)
{
    nib_intermediate *item = target;
    item->dtype = nib_dtype_of(value->as.string);
    if (item->dtype == NIB_DTYPE_NONE || item->dtype == NIB_INT64)
        return nib_refuse(r,
                          "the dtype of an intermediate must be a storage dtype other than "
                          "int64, not \"%.*s\"",
                          NIB_SHOW_STR(value->as.string));
    return NIB_OK;
}

static nib_status read_intermediate_shape(nib_reader *r, const nib_value *value, void *target)
{
    nib_intermediate *item = target;
    NIB_TRY(nib_read_shape(r, *value, &item->shape));
    if (item->shape.count == 0)
        return nib_refuse(r, "the shape of an intermediate must not be empty");
    return NIB_OK;
}

static nib_status read_zero_init(nib_reader *r, const nib_value *value, void *target)
{
    if (value->type != NIB_VALUE_BOOL || !value->as.boolean)
        return nib_refuse(r, "\"zeroInit\" must be true when it is given, not %s",
                          nib_show(*value).text);
    ((nib_intermediate *)target)->zero_init = true;
    return NIB_OK;
}

static const nib_key intermediate_rows[] = {
    {"id", NIB_KEY_TEXT, .required = true, NIB_STORED(nib_intermediate, id)},
    {"dtype", NIB_KEY_TEXT, .required = true, .set = read_intermediate_dtype},
    {"shape", NIB_KEY_ANY, .required = true, .set = read_intermediate_shape},
    {"zeroInit", NIB_KEY_ANY, .set = read_zero_init},
};
static const nib_keys intermediate_keys = {"an intermediate", intermediate_rows,
                                           sizeof intermediate_rows / sizeof intermediate_rows[0],
                                           .open = true};

static nib_status read_intermediate(nib_reader *r, nib_value value, nib_variant *variant)
{
    nib_intermediate *item = &variant->intermediates[variant->intermediate_count];
    NIB_TRY(nib_keys_read(r, &intermediate_keys, value, item));
    if (nib_find_port(r->contract, item->id))
        return nib_at_name(r, "id",
                           nib_refuse(r, "the intermediate \"%.*s\" has the name of a tensor",
                                      NIB_SHOW_STR(item->id)));
    if (nib_find_intermediate(variant, item->id))
        return nib_at_name(r, "id",
                           nib_refuse(r, "the variant declares the intermediate \"%.*s\" twice",
                                      NIB_SHOW_STR(item->id)));
    variant->intermediate_count++;
    return NIB_OK;
}

nib_status nib_read_intermediates(nib_reader *r, const nib_value *value, void *target)
{
    nib_variant *variant = target;
    const nib_list *list = value->as.list;
    NIB_TRY(nib_check_count(r, "\"intermediates\"", list->count));
    variant->intermediates = NIB_ARENA_ARRAY(r->arena, nib_intermediate, list->count);
    if (!variant->intermediates)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(nib_at_index(r, i, read_intermediate(r, list->items[i], variant)));
    return NIB_OK;
}
