/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as one JSON object (docs/planning.md).
 */
#include "base/buf.h"
#include "base/error.h"
#include "plan/plan.h"
#include "value/json.h"

/* Builds values; the first allocation that fails makes everything after it a no-op. */
typedef struct dump {
    nib_arena arena;
    bool failed;
} dump;

static nib_map *new_map(dump *d)
{
    nib_map *map = nib_map_new(&d->arena, 4);
    d->failed = d->failed || !map;
    return map;
}

static nib_list *new_list(dump *d, size_t count)
{
    nib_list *list = nib_list_new(&d->arena, count);
    d->failed = d->failed || !list;
    return list;
}

static void set(dump *d, nib_map *map, nib_str key, nib_value value)
{
    if (!d->failed && !nib_map_set(&d->arena, map, key, value))
        d->failed = true;
}

static void put(dump *d, nib_map *map, const char *key, nib_value value)
{
    set(d, map, nib_str_from(key), value);
}

static void put_text(dump *d, nib_map *map, const char *key, nib_str text)
{
    put(d, map, key, nib_value_string(text));
}

static void put_map(dump *d, nib_map *map, const char *key, nib_map *member)
{
    put(d, map, key, nib_value_of_map(member));
}

static void push(dump *d, nib_list *list, nib_value value)
{
    if (!d->failed && !nib_list_push(&d->arena, list, value))
        d->failed = true;
}

static nib_value number(double value)
{
    return nib_value_number(value);
}

/* ---- parts ---- */

static nib_value shape_value(dump *d, const nib_tensor_desc *desc)
{
    nib_list *dims = new_list(d, desc->rank);
    for (uint32_t i = 0; i < desc->rank; i++)
        push(d, dims, number((double)desc->dims[i]));
    return nib_value_of_list(dims);
}

static nib_map *tensors_map(dump *d, const nib_plan *plan, bool outputs)
{
    nib_map *map = new_map(d);
    for (size_t i = 0; i < plan->tensor_count; i++) {
        const nib_plan_tensor *tensor = &plan->tensors[i];
        if (tensor->port->role != NIB_INOUT && (tensor->port->role == NIB_OUTPUT) != outputs)
            continue;
        nib_map *entry = new_map(d);
        put(d, entry, "dtype", nib_value_cstr(nib_dtype_name(tensor->desc.dtype)));
        put(d, entry, "shape", shape_value(d, &tensor->desc));
        set(d, map, tensor->port->key, nib_value_of_map(entry));
    }
    return map;
}

static nib_list *rejected_list(dump *d, const nib_plan *plan)
{
    nib_list *list = new_list(d, plan->rejected_count);
    for (size_t i = 0; i < plan->rejected_count; i++) {
        nib_map *entry = new_map(d);
        put_text(d, entry, "variant", plan->rejected[i].variant);
        put_text(d, entry, "reason", plan->rejected[i].reason);
        push(d, list, nib_value_of_map(entry));
    }
    return list;
}

/* Manifest and variant derives; the list dialect's constants are a member of that name, which no
 * derive may have. */
static nib_map *derive_map(dump *d, const nib_plan *plan)
{
    nib_map *map = new_map(d);
    for (size_t i = 0; plan->derive && i < plan->derive->count; i++)
        set(d, map, plan->derive->entries[i].key, plan->derive->entries[i].value);
    if (plan->constants)
        put_map(d, map, "constants", plan->constants);
    return map;
}

static nib_list *intermediates_list(dump *d, const nib_plan *plan)
{
    nib_list *list = new_list(d, plan->intermediate_count);
    for (size_t i = 0; i < plan->intermediate_count; i++) {
        const nib_plan_intermediate *from = &plan->intermediates[i];
        nib_map *entry = new_map(d);
        put_text(d, entry, "id", from->id);
        put(d, entry, "dtype", nib_value_cstr(nib_dtype_name(from->dtype)));
        put(d, entry, "shape", shape_value(d, &from->desc));
        put(d, entry, "bytes", number((double)from->bytes));
        push(d, list, nib_value_of_map(entry));
    }
    return list;
}

/* ---- passes ---- */

static const char *kind_word(nib_binding_kind kind)
{
    switch (kind) {
    case NIB_BINDING_READ:
        return "read-only-storage";
    case NIB_BINDING_STORAGE:
        return "storage";
    case NIB_BINDING_UNIFORM:
        break;
    }
    return "uniform";
}

static nib_value resource_value(const nib_plan *plan, const nib_plan_binding *bound)
{
    switch (bound->kind) {
    case NIB_RESOURCE_TENSOR:
        return nib_value_string(plan->tensors[bound->index].port->key);
    case NIB_RESOURCE_INTERMEDIATE:
        return nib_value_string(plan->intermediates[bound->index].id);
    case NIB_RESOURCE_UNIFORM:
    case NIB_RESOURCE_MISSING:
        break;
    }
    return NIB_NULL;
}

/* What is bound, rounded up to a multiple of four as on a GPU (format 5.2). */
static double bound_bytes(const nib_plan *plan, const nib_plan_pass *pass,
                          const nib_plan_binding *bound)
{
    size_t bytes = 0;
    switch (bound->kind) {
    case NIB_RESOURCE_TENSOR:
        bytes = plan->tensors[bound->index].gpu_bytes;
        break;
    case NIB_RESOURCE_INTERMEDIATE:
        bytes = plan->intermediates[bound->index].bytes;
        break;
    case NIB_RESOURCE_UNIFORM:
        bytes = pass->uniforms[bound->index].size;
        break;
    case NIB_RESOURCE_MISSING:
        return 0;
    }
    const double words = (double)(bytes / 4 + (bytes % 4 != 0));
    return words > 1 ? 4 * words : 4;
}

static nib_list *bindings_list(dump *d, const nib_plan *plan, const nib_plan_pass *pass)
{
    nib_list *list = new_list(d, pass->binding_count);
    for (size_t i = 0; i < pass->binding_count; i++) {
        const nib_plan_binding *bound = &pass->bindings[i];
        nib_map *entry = new_map(d);
        put(d, entry, "binding", number((double)i));
        put_text(d, entry, "name", bound->binding->name);
        put(d, entry, "kind", nib_value_cstr(kind_word(bound->binding->kind)));
        put(d, entry, "tensor", resource_value(plan, bound));
        put(d, entry, "elementType",
            bound->element_type.len ? nib_value_string(bound->element_type) : NIB_NULL);
        if (bound->binding->has_length)
            put(d, entry, "length", number(bound->length));
        put(d, entry, "bytes", number(bound_bytes(plan, pass, bound)));
        push(d, list, nib_value_of_map(entry));
    }
    return list;
}

static nib_value hex_value(dump *d, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    char *text = d->failed ? NULL : nib_arena_alloc(&d->arena, size * 2 + 1, 1);
    if (!text) {
        d->failed = true;
        return NIB_NULL;
    }
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    return nib_value_string((nib_str){text, size * 2});
}

static nib_map *uniforms_map(dump *d, const nib_plan_pass *pass)
{
    nib_map *map = new_map(d);
    for (size_t i = 0; i < pass->uniform_count; i++)
        set(d, map, pass->uniforms[i].name,
            hex_value(d, pass->uniforms[i].bytes, pass->uniforms[i].size));
    return map;
}

/* The pass's own derives or constants, taken from everything it sees. */
static void put_own(dump *d, nib_map *entry, const char *key, const nib_derives *own,
                    const nib_map *all)
{
    if (own->count == 0 || !all)
        return;
    nib_map *map = new_map(d);
    for (size_t i = 0; i < own->count; i++) {
        const nib_value *value = nib_map_get(all, own->items[i].name);
        set(d, map, own->items[i].name, value ? *value : NIB_NULL);
    }
    put_map(d, entry, key, map);
}

static nib_value pass_value(dump *d, const nib_plan *plan, const nib_plan_pass *pass)
{
    nib_map *entry = new_map(d);
    nib_list *dispatch = new_list(d, 3);
    for (size_t i = 0; i < 3; i++)
        push(d, dispatch, number((double)pass->dispatch[i]));
    put_text(d, entry, "id", pass->id);
    put_text(d, entry, "label", pass->label);
    put_text(d, entry, "shader", pass->pass->shader);
    put(d, entry, "active", nib_value_bool(pass->active));
    put(d, entry, "dispatch", nib_value_of_list(dispatch));
    put_own(d, entry, "derive", &pass->pass->derive, pass->derive);
    put_own(d, entry, "constants", &pass->pass->constants, pass->constants);
    put(d, entry, "bindings", nib_value_of_list(bindings_list(d, plan, pass)));
    put_text(d, entry, "declarations", pass->declarations);
    put_map(d, entry, "uniforms", uniforms_map(d, pass));
    return nib_value_of_map(entry);
}

static nib_list *passes_list(dump *d, const nib_plan *plan)
{
    nib_list *list = new_list(d, plan->pass_count);
    for (size_t i = 0; i < plan->pass_count && !d->failed; i++)
        push(d, list, pass_value(d, plan, &plan->passes[i]));
    return list;
}

static nib_map *plan_map(dump *d, const nib_plan *plan)
{
    nib_map *map = new_map(d);
    put_text(d, map, "op", plan->contract->op_id);
    put(d, map, "variant", plan->variant_id ? nib_value_cstr(plan->variant_id) : NIB_NULL);
    put(d, map, "demoted", nib_value_bool(plan->demoted));
    put(d, map, "relaxed", nib_value_bool(plan->relaxed));
    put(d, map, "rejected", nib_value_of_list(rejected_list(d, plan)));
    put_map(d, map, "attributes", plan->attributes);
    put_map(d, map, "args", plan->arguments);
    put_map(d, map, "tunables", plan->tunables ? plan->tunables : new_map(d));
    put_map(d, map, "inputs", tensors_map(d, plan, false));
    put_map(d, map, "outputs", tensors_map(d, plan, true));
    put_map(d, map, "derive", derive_map(d, plan));
    put(d, map, "intermediates", nib_value_of_list(intermediates_list(d, plan)));
    put(d, map, "passes", nib_value_of_list(passes_list(d, plan)));
    return map;
}

nib_status nib_plan_json(const nib_plan *plan, char **text, nib_error *error)
{
    *text = NULL;
    const nib_allocator *allocator = &plan->context->allocator;
    dump d = {0};
    nib_arena_init(&d.arena, allocator, 0);
    nib_buf buf;
    nib_buf_init(&buf, allocator, 0);
    nib_map *map = plan_map(&d, plan);
    nib_status status;
    if (d.failed) {
        status = nib_fail_memory(error);
    } else {
        nib_json_write(&buf, nib_value_of_map(map),
                       (nib_json_style){.indent = 2, .nonfinite = NIB_NONFINITE_TEXT});
        nib_buf_putc(&buf, '\n');
        status = nib_buf_take(&buf, "the plan", text, error);
    }
    nib_arena_free(&d.arena);
    return status;
}
