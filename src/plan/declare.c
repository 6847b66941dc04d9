/* SPDX-License-Identifier: Apache-2.0
 *
 * The WGSL declarations of a pass's bindings (package format 4.7). Templates print the text as it
 * is, so every byte counts.
 */
#include <stdio.h>

#include "plan/planner.h"

static const char *field_type(nib_field_type type)
{
    switch (type) {
    case NIB_FIELD_U32:
        return "u32";
    case NIB_FIELD_I32:
        return "i32";
    case NIB_FIELD_F32:
        break;
    }
    return "f32";
}

static nib_str struct_name(const nib_binding *binding)
{
    return binding->struct_name.len ? binding->struct_name : NIB_STR("Params");
}

static bool has_field(const nib_binding *binding, const char *name)
{
    for (size_t i = 0; i < binding->field_count; i++) {
        if (nib_str_is(binding->fields[i].name, name))
            return true;
    }
    return false;
}

/* u32 fields up to a multiple of four, so that the struct is as large as its buffer; used names are
 * skipped. */
static void write_padding(nib_buf *out, const nib_binding *binding)
{
    unsigned next = 0;
    for (size_t count = binding->field_count; count % 4 != 0; count++) {
        char name[32];
        do
            snprintf(name, sizeof name, "_pad%u", next++);
        while (has_field(binding, name));
        nib_buf_printf(out, ", %s: u32", name);
    }
}

static void write_struct(nib_buf *out, const nib_binding *binding)
{
    nib_buf_printf(out, "struct %.*s { ", NIB_STR_ARG(struct_name(binding)));
    for (size_t i = 0; i < binding->field_count; i++)
        nib_buf_printf(out, "%s%.*s: %s", i ? ", " : "", NIB_STR_ARG(binding->fields[i].name),
                       field_type(binding->fields[i].type));
    write_padding(out, binding);
    nib_buf_puts(out, " };");
}

static void write_variable(nib_buf *out, const nib_plan_binding *bound, size_t index)
{
    const nib_binding *binding = bound->binding;
    nib_buf_printf(out, "@group(0) @binding(%zu) var<", index);
    if (binding->kind == NIB_BINDING_UNIFORM) {
        nib_buf_printf(out, "uniform> %.*s: %.*s;", NIB_STR_ARG(binding->name),
                       NIB_STR_ARG(struct_name(binding)));
        return;
    }
    nib_buf_printf(out, "storage, %s> %.*s: array<%.*s",
                   binding->kind == NIB_BINDING_READ ? "read" : "read_write",
                   NIB_STR_ARG(binding->name), NIB_STR_ARG(bound->element_type));
    if (binding->has_length)
        nib_buf_printf(out, ", %.0fu", bound->length);
    nib_buf_puts(out, ">;");
}

static bool literals_equal(nib_value a, nib_value b)
{
    if (nib_value_is_number(a) && nib_value_is_number(b))
        return a.as.number == b.as.number;
    if (a.type == NIB_VALUE_BOOL && b.type == NIB_VALUE_BOOL)
        return a.as.boolean == b.as.boolean;
    return nib_value_is_absent(a) && nib_value_is_absent(b);
}

/* `value` may differ, the rest not. */
static bool fields_agree(const nib_uniform_field *a, const nib_uniform_field *b)
{
    return nib_str_eq(a->name, b->name) && a->type == b->type && a->required == b->required &&
           a->internal == b->internal && nib_str_eq(a->default_expr.text, b->default_expr.text) &&
           literals_equal(a->default_value, b->default_value);
}

static bool structs_agree(const nib_binding *a, const nib_binding *b)
{
    if (a->field_count != b->field_count)
        return false;
    for (size_t i = 0; i < a->field_count; i++) {
        if (!fields_agree(&a->fields[i], &b->fields[i]))
            return false;
    }
    return true;
}

/* Sets `repeated` when an earlier uniform of the pass declares the same struct. */
static nib_status check_struct(nib_pass_build *b, size_t index, bool *repeated)
{
    const nib_binding *binding = b->pass->bindings[index].binding;
    const nib_str name = struct_name(binding);
    *repeated = false;
    for (size_t i = 0; i < index; i++) {
        const nib_binding *other = b->pass->bindings[i].binding;
        if (other->kind != NIB_BINDING_UNIFORM || !nib_str_eq(struct_name(other), name))
            continue;
        *repeated = true;
        if (!structs_agree(other, binding))
            return nib_fail(
                b->p->error, NIB_CONTRACT,
                "pass '%.*s': the uniforms '%.*s' and '%.*s' declare struct %.*s differently",
                NIB_STR_ARG(b->pass->id), NIB_STR_ARG(other->name), NIB_STR_ARG(binding->name),
                NIB_STR_ARG(name));
    }
    return NIB_OK;
}

static nib_status write_declarations(nib_pass_build *b, nib_buf *out)
{
    for (size_t i = 0; i < b->pass->binding_count; i++) {
        const nib_binding *binding = b->pass->bindings[i].binding;
        bool repeated = false;
        if (binding->kind != NIB_BINDING_UNIFORM)
            continue;
        NIB_TRY(check_struct(b, i, &repeated));
        if (repeated)
            continue;
        nib_buf_puts(out, out->len ? "\n" : "");
        write_struct(out, binding);
    }
    for (size_t i = 0; i < b->pass->binding_count; i++) {
        nib_buf_puts(out, out->len ? "\n" : "");
        write_variable(out, &b->pass->bindings[i], i);
    }
    return nib_buf_check(out, "the declarations", b->p->error);
}

nib_status nib_pass_declarations(nib_pass_build *b)
{
    nib_buf out;
    nib_buf_init(&out, b->p->arena->allocator, 0);
    nib_status status = write_declarations(b, &out);
    if (status == NIB_OK) {
        b->pass->declarations = nib_arena_str(b->p->arena, out.data, out.len);
        status = b->pass->declarations.data ? NIB_OK : nib_fail_memory(b->p->error);
    }
    nib_buf_free(&out);
    return status;
}
