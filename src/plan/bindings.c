/* SPDX-License-Identifier: Apache-2.0
 *
 * What each binding of a pass stands for: element type and length, then the tensor or intermediate
 * behind it (package format 2.A.8, 5.2, 7.7).
 */
#include <math.h>

#include "base/checked.h"
#include "plan/planner.h"
#include "value/number.h"

/* ---- $X ---- */

static nib_status lookup(nib_pass_build *b, const nib_binding *binding, nib_str name,
                         nib_value *out)
{
    const nib_value *value = nib_map_get(b->names, name);
    if (value && !nib_value_is_absent(*value)) {
        *out = *value;
        return NIB_OK;
    }
    return nib_fail(b->p->error, NIB_EVAL, "pass '%.*s', binding '%.*s': $%.*s has no value",
                    NIB_STR_ARG(b->pass->id), NIB_STR_ARG(binding->name), NIB_STR_ARG(name));
}

static nib_status resolve_element_type(nib_pass_build *b, const nib_binding *binding, nib_str *out)
{
    const nib_str text = binding->element_type;
    if (text.len == 0 || text.data[0] != '$') {
        *out = text;
        return NIB_OK;
    }
    nib_value value;
    NIB_TRY(lookup(b, binding, (nib_str){text.data + 1, text.len - 1}, &value));
    nib_buf buf;
    nib_buf_init(&buf, b->p->arena->allocator, 0);
    nib_status status = nib_jinja_js_text(&buf, value, b->p->error);
    if (status == NIB_OK)
        status = nib_buf_check(&buf, "an element type", b->p->error);
    if (status == NIB_OK) {
        *out = nib_arena_str(b->p->arena, buf.data, buf.len);
        status = out->data ? NIB_OK : nib_fail_memory(b->p->error);
    }
    nib_buf_free(&buf);
    return status;
}

static const double max_safe_integer = 9007199254740991.0;

static nib_status resolve_length(nib_pass_build *b, const nib_binding *binding, double *out)
{
    if (!binding->has_length)
        return NIB_OK;
    nib_value value = nib_value_number(binding->length);
    if (binding->length_ref.len)
        NIB_TRY(lookup(b, binding, binding->length_ref, &value));
    double length = (double)NAN;
    if (nib_value_is_number(value))
        length = value.as.number;
    else if (value.type == NIB_VALUE_STRING)
        length = nib_number_from_js_string(value.as.string);
    if (!(length > 0 && length <= max_safe_integer && trunc(length) == length))
        return nib_fail(b->p->error, NIB_EVAL,
                        "pass '%.*s', binding '%.*s': length is %s; it must be a positive integer",
                        NIB_STR_ARG(b->pass->id), NIB_STR_ARG(binding->name),
                        nib_value_label(value).text);
    *out = length;
    return NIB_OK;
}

nib_status nib_pass_types(nib_pass_build *b)
{
    const nib_pass *pass = b->pass->pass;
    b->pass->bindings = NIB_ARENA_ARRAY(b->p->arena, nib_plan_binding, pass->binding_count);
    if (!b->pass->bindings)
        return nib_fail_memory(b->p->error);
    b->pass->binding_count = pass->binding_count;
    for (size_t i = 0; i < pass->binding_count; i++) {
        nib_plan_binding *bound = &b->pass->bindings[i];
        bound->binding = &pass->bindings[i];
        bound->kind = NIB_RESOURCE_MISSING;
        if (bound->binding->kind == NIB_BINDING_UNIFORM)
            continue;
        NIB_TRY(resolve_element_type(b, bound->binding, &bound->element_type));
        NIB_TRY(resolve_length(b, bound->binding, &bound->length));
    }
    return NIB_OK;
}

/* ---- resources ---- */

/* The last of two with one id, as element types are (format G.5). */
static bool find_intermediate(const nib_plan *plan, nib_str id, size_t *out)
{
    for (size_t i = plan->intermediate_count; id.len && i-- > 0;) {
        if (nib_str_eq(plan->intermediates[i].id, id)) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool find_tensor(const nib_plan *plan, nib_str key, size_t *out)
{
    for (size_t i = 0; key.len && i < plan->tensor_count; i++) {
        if (nib_str_eq(plan->tensors[i].port->key, key)) {
            *out = i;
            return true;
        }
    }
    return false;
}

static void find_resource(const nib_plan *plan, nib_plan_binding *bound)
{
    const nib_binding *binding = bound->binding;
    if (find_intermediate(plan, binding->scratch, &bound->index) ||
        find_intermediate(plan, binding->name, &bound->index))
        bound->kind = NIB_RESOURCE_INTERMEDIATE;
    else if (find_tensor(plan, binding->arg, &bound->index) ||
             find_tensor(plan, binding->name, &bound->index))
        bound->kind = NIB_RESOURCE_TENSOR;
}

/* Bytes between two elements of a fixed-length array; 0 for a type that cannot have a length. */
static size_t element_stride(nib_str type)
{
    static const struct {
        const char *name;
        size_t bytes;
    } scalars[] = {{"f32", 4}, {"u32", 4},         {"i32", 4},
                   {"f16", 2}, {"atomic<u32>", 4}, {"atomic<i32>", 4}};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        if (nib_str_is(type, scalars[i].name))
            return scalars[i].bytes;
    }
    if (type.len < 7 || !nib_str_starts(type, NIB_STR("vec")) || type.data[4] != '<' ||
        type.data[type.len - 1] != '>' || type.data[3] < '2' || type.data[3] > '4')
        return 0;
    const size_t lanes = type.data[3] == '2' ? 2 : 4; /* three elements are padded to four */
    for (size_t i = 0; i < 4; i++) {
        if (nib_str_eq((nib_str){type.data + 5, type.len - 6}, nib_str_from(scalars[i].name)))
            return lanes * scalars[i].bytes;
    }
    return 0;
}

static nib_str without_blanks(nib_arena *arena, nib_str text)
{
    char *copy = nib_arena_cstr(arena, text);
    size_t len = 0;
    for (size_t i = 0; copy && i < text.len; i++) {
        if (!nib_js_space_at_start((nib_str){text.data + i, text.len - i}))
            copy[len++] = text.data[i];
    }
    return (nib_str){copy, copy ? len : 0};
}

/* What a binding of this resource covers: whole words, at least one (format 5.2). */
static size_t binding_range(const nib_plan *plan, const nib_plan_binding *bound)
{
    const size_t bytes = bound->kind == NIB_RESOURCE_TENSOR
                             ? plan->tensors[bound->index].gpu_bytes
                             : plan->intermediates[bound->index].bytes;
    size_t rounded;
    if (!nib_size_align(bytes, 4, &rounded))
        rounded = bytes;
    return rounded < 4 ? 4 : rounded;
}

static nib_status check_length(nib_pass_build *b, const nib_plan_binding *bound)
{
    if (!bound->binding->has_length)
        return NIB_OK;
    const nib_str name = bound->binding->name;
    const nib_str type = without_blanks(&b->p->scratch, bound->element_type);
    if (!type.data)
        return nib_fail_memory(b->p->error);
    const size_t stride = element_stride(type);
    if (stride == 0)
        return nib_fail(b->p->error, NIB_CONTRACT,
                        "pass '%.*s', binding '%.*s': an array of %.*s cannot have a length",
                        NIB_STR_ARG(b->pass->id), NIB_STR_ARG(name),
                        NIB_STR_ARG(bound->element_type));
    const double needed = bound->length * (double)stride;
    const size_t provided = binding_range(b->p->plan, bound);
    if (needed <= (double)provided)
        return NIB_OK;
    return nib_fail(
        b->p->error, NIB_REQUEST,
        "pass '%.*s', binding '%.*s': %.0f elements of %.*s need %.0f bytes, %s has %zu",
        NIB_STR_ARG(b->pass->id), NIB_STR_ARG(name), bound->length,
        NIB_STR_ARG(bound->element_type), needed,
        bound->kind == NIB_RESOURCE_TENSOR
            ? nib_port_label(b->p->plan->tensors[bound->index].port).text
            : "the intermediate",
        provided);
}

/* int64 tensors are moved as pairs of words and never computed with (format 7.7, step 5). */
static nib_status check_int64(nib_pass_build *b, const nib_plan_binding *bound)
{
    if (bound->kind != NIB_RESOURCE_TENSOR ||
        b->p->plan->tensors[bound->index].storage != NIB_INT64)
        return NIB_OK;
    const nib_str type = without_blanks(&b->p->scratch, bound->element_type);
    if (!type.data)
        return nib_fail_memory(b->p->error);
    if (nib_str_is(type, "vec2<u32>"))
        return NIB_OK;
    return nib_fail(
        b->p->error, NIB_CONTRACT,
        "pass '%.*s', binding '%.*s': %s is int64 and needs element type vec2<u32>, not %.*s",
        NIB_STR_ARG(b->pass->id), NIB_STR_ARG(bound->binding->name),
        nib_port_label(b->p->plan->tensors[bound->index].port).text,
        NIB_STR_ARG(bound->element_type));
}

static nib_status bind_storage(nib_pass_build *b, nib_plan_binding *bound)
{
    find_resource(b->p->plan, bound);
    NIB_TRY(check_int64(b, bound));
    if (!b->pass->active)
        return NIB_OK;
    if (bound->kind == NIB_RESOURCE_MISSING) {
        const nib_str wanted = bound->binding->arg.len ? bound->binding->arg : bound->binding->name;
        return nib_fail(
            b->p->error, NIB_REQUEST, "pass '%.*s', binding '%.*s': the call has no tensor '%.*s'",
            NIB_STR_ARG(b->pass->id), NIB_STR_ARG(bound->binding->name), NIB_STR_ARG(wanted));
    }
    NIB_TRY(check_length(b, bound));
    if (bound->kind == NIB_RESOURCE_INTERMEDIATE)
        b->p->plan->intermediates[bound->index].used = true;
    return NIB_OK;
}

nib_status nib_pass_resources(nib_pass_build *b)
{
    size_t uniform = 0;
    for (size_t i = 0; i < b->pass->binding_count; i++) {
        nib_plan_binding *bound = &b->pass->bindings[i];
        if (bound->binding->kind == NIB_BINDING_UNIFORM) {
            bound->kind = NIB_RESOURCE_UNIFORM;
            bound->index = uniform++;
            continue;
        }
        const nib_status status = bind_storage(b, bound);
        if (status != NIB_OK) {
            nib_error_path_prefix(b->p->error, "bindings[%zu]", i);
            return status;
        }
    }
    return NIB_OK;
}
