/* SPDX-License-Identifier: Apache-2.0
 *
 * Uniform buffers: field values to bytes (package format 5.4).
 */
#include <math.h>

#include "base/checked.h"
#include "plan/planner.h"

enum { MIN_UNIFORM_BYTES = 16, FIELD_BYTES = 4 };

typedef struct field_build {
    nib_pass_build *b;
    const nib_binding *binding;
    const nib_uniform_field *field;
} field_build;

static nib_status fail_field(const field_build *f, nib_status status, nib_value value,
                             const char *rule)
{
    return nib_fail(f->b->p->error, status, "pass '%.*s': uniform %.*s.%.*s is %s; it must be %s",
                    NIB_STR_ARG(f->b->pass->id), NIB_STR_ARG(f->binding->name),
                    NIB_STR_ARG(f->field->name), nib_value_label(value).text, rule);
}

static nib_status eval_field(const field_build *f, const nib_expr *expr, nib_value *out)
{
    nib_planner *p = f->b->p;
    nib_error inner = {0};
    nib_error *outer = p->error;
    p->error = &inner;
    const nib_status status = nib_planner_eval(p, expr, f->b->scope, out);
    p->error = outer;
    if (status == NIB_OK)
        return NIB_OK;
    return nib_fail_around(outer, &inner,
                           "pass '%.*s': uniform %.*s.%.*s failed: ", NIB_STR_ARG(f->b->pass->id),
                           NIB_STR_ARG(f->binding->name), NIB_STR_ARG(f->field->name));
}

/* A scalar argument of the field's name; the text of a string argument is an expression, odd as
 * that is. */
static nib_status argument_value(const field_build *f, nib_value *out)
{
    nib_planner *p = f->b->p;
    const nib_value *argument = nib_map_get(p->plan->arguments, f->field->name);
    *out = argument ? *argument : NIB_UNDEFINED;
    if (out->type != NIB_VALUE_STRING)
        return NIB_OK;
    nib_expr expr;
    NIB_TRY(nib_expr_compile(&p->scratch, out->as.string, &expr, p->error));
    return eval_field(f, &expr, out);
}

/* `value`, else the argument of the same name, else `default`; null counts as absent. */
static nib_status field_value(const field_build *f, nib_value *out)
{
    const nib_uniform_field *field = f->field;
    *out = field->value;
    if (field->value_expr.program)
        return eval_field(f, &field->value_expr, out);
    if (nib_value_is_absent(*out))
        NIB_TRY(argument_value(f, out));
    if (!nib_value_is_absent(*out))
        return NIB_OK;
    if (field->default_expr.program)
        return eval_field(f, &field->default_expr, out);
    *out = field->default_value;
    return NIB_OK;
}

/* Whether the field has any source of a value, expressions included. */
static bool has_source(const field_build *f)
{
    const nib_uniform_field *field = f->field;
    return field->value_expr.program || field->default_expr.program ||
           !nib_value_is_absent(field->value) || !nib_value_is_absent(field->default_value) ||
           nib_map_get(f->b->p->plan->arguments, field->name) != NULL;
}

/* Checked for every pass, an inactive one too. */
static nib_status check_number(const field_build *f, nib_value value)
{
    if (!nib_value_is_number(value) || isnan(value.as.number))
        return fail_field(f, NIB_EVAL, value, "a number");
    if (isinf(value.as.number) && f->field->type != NIB_FIELD_F32)
        return fail_field(f, NIB_EVAL, value, "a finite number");
    return NIB_OK;
}

static nib_status pack_integer(const field_build *f, nib_value value, double least, double most,
                               const char *rule, uint32_t *word)
{
    const double number = value.as.number;
    if (!(number >= least && number <= most && trunc(number) == number))
        return fail_field(f, NIB_EVAL, value, rule);
    *word = (uint32_t)(int64_t)number;
    return NIB_OK;
}

static nib_status pack_word(const field_build *f, nib_value value, uint32_t *word)
{
    switch (f->field->type) {
    case NIB_FIELD_U32:
        return pack_integer(f, value, 0, 4294967295.0, "an integer in [0, 4294967295]", word);
    case NIB_FIELD_I32:
        return pack_integer(f, value, -2147483648.0, 2147483647.0,
                            "an integer in [-2147483648, 2147483647]", word);
    case NIB_FIELD_F32:
        break;
    }
    /* A conversion out of range is undefined in C; the format makes it an infinity. */
    double number = value.as.number;
    static const double overflow = 0x1.ffffffp127; /* halfway between the largest float and 2^128 */
    float single;
    if (fabs(number) >= overflow)
        single = copysignf(HUGE_VALF, number < 0 ? -1.0f : 1.0f);
    else
        single = (float)number;
    memcpy(word, &single, sizeof *word);
    return NIB_OK;
}

static void store_word(unsigned char *bytes, uint32_t word)
{
    for (unsigned i = 0; i < FIELD_BYTES; i++)
        bytes[i] = (unsigned char)(word >> (8 * i));
}

/* Range and presence matter only when the buffer is really made. */
static nib_status build_field(const field_build *f, unsigned char *bytes)
{
    nib_value value;
    if (!has_source(f)) {
        if (f->field->required && f->b->pass->active)
            return nib_fail(f->b->p->error, NIB_REQUEST,
                            "pass '%.*s': uniform %.*s.%.*s needs the argument '%.*s'",
                            NIB_STR_ARG(f->b->pass->id), NIB_STR_ARG(f->binding->name),
                            NIB_STR_ARG(f->field->name), NIB_STR_ARG(f->field->name));
        return NIB_OK;
    }
    NIB_TRY(field_value(f, &value));
    NIB_TRY(check_number(f, value));
    if (!f->b->pass->active)
        return NIB_OK;
    uint32_t word = 0;
    NIB_TRY(pack_word(f, value, &word));
    store_word(bytes, word);
    return NIB_OK;
}

static nib_status build_uniform(nib_pass_build *b, const nib_binding *binding,
                                nib_plan_uniform *uniform)
{
    nib_planner *p = b->p;
    size_t size = 0;
    if (!nib_size_mul(binding->field_count, FIELD_BYTES, &size) || !nib_size_align(size, 16, &size))
        return nib_fail(p->error, NIB_LIMIT, "uniform '%.*s' is too large",
                        NIB_STR_ARG(binding->name));
    uniform->name = binding->name;
    uniform->size = size < MIN_UNIFORM_BYTES ? MIN_UNIFORM_BYTES : size;
    uniform->bytes = NIB_ARENA_ARRAY(p->arena, unsigned char, uniform->size);
    if (!uniform->bytes)
        return nib_fail_memory(p->error);
    if (p->all_empty)
        return NIB_OK;
    for (size_t i = 0; i < binding->field_count; i++) {
        const field_build f = {b, binding, &binding->fields[i]};
        NIB_TRY(build_field(&f, uniform->bytes + i * FIELD_BYTES));
    }
    return NIB_OK;
}

nib_status nib_pass_uniforms(nib_pass_build *b)
{
    const nib_pass *pass = b->pass->pass;
    size_t count = 0;
    for (size_t i = 0; i < pass->binding_count; i++)
        count += pass->bindings[i].kind == NIB_BINDING_UNIFORM;
    b->pass->uniforms = NIB_ARENA_ARRAY(b->p->arena, nib_plan_uniform, count);
    if (!b->pass->uniforms)
        return nib_fail_memory(b->p->error);
    for (size_t i = 0; i < pass->binding_count; i++) {
        if (pass->bindings[i].kind != NIB_BINDING_UNIFORM)
            continue;
        const nib_status status =
            build_uniform(b, &pass->bindings[i], &b->pass->uniforms[b->pass->uniform_count++]);
        if (status != NIB_OK) {
            nib_error_path_prefix(b->p->error, "bindings[%zu].struct", i);
            return status;
        }
    }
    return NIB_OK;
}
