/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#include "value/json.h"

static nib_status give_undefined(nib_evaluation *evaluation, const void *user,
                                 const nib_value *args, size_t count, nib_value *out)
{
    (void)evaluation;
    (void)user;
    (void)args;
    (void)count;
    *out = NIB_UNDEFINED;
    return NIB_OK;
}

static bool host_names(nib_arena *arena, nib_map **out)
{
    static const nib_function function = {.name = "f", .call = give_undefined};
    static const nib_str features[] = {{"x", 1}};
    nib_value view;
    nib_map *device = nib_map_new(arena, 1);
    *out = nib_map_new(arena, 2);
    return device && *out && nib_expr_set_view(arena, features, 1, &view) &&
           nib_map_set_cstr(arena, device, "features", view) &&
           nib_map_set_cstr(arena, *out, "dev", nib_value_of_map(device)) &&
           nib_map_set_cstr(arena, *out, "f",
                            (nib_value){.type = NIB_VALUE_FUNCTION, .as.function = &function});
}

static nib_status refuse_include(void *user, nib_arena *arena, nib_str path, nib_str *text,
                                 nib_error *error)
{
    (void)user;
    (void)arena;
    (void)path;
    (void)text;
    return nib_fail(error, NIB_IO, "there are no files here");
}

static nib_status evaluate(nib_arena *arena, nib_str text, const nib_scope *scope, nib_buf *out,
                           nib_error *error)
{
    nib_expr expr;
    nib_value value;
    NIB_TRY(nib_expr_compile(arena, text, &expr, error));
    NIB_TRY(nib_expr_eval(&expr, scope, arena, &value, error));
    if (value.type == NIB_VALUE_UNDEFINED)
        nib_buf_puts(out, "undefined");
    else
        nib_json_write(out, value, (nib_json_style){.spaced = true});
    return NIB_OK;
}

outcome lang_run(nib_arena *arena, bool expression, nib_str text, const nib_map *scope)
{
    static const nib_template_options options = {.infer_enables = false};
    const nib_template_loader loader = {.read = refuse_include};
    outcome o = {.status = NIB_OUT_OF_MEMORY};
    nib_map *host;
    nib_buf_init(&o.text, &nib_default_allocator, 0);
    if (!host_names(arena, &host))
        return o;
    const nib_scope names = {.frames = {scope, host}, .frame_count = 2};
    if (expression)
        o.status = evaluate(arena, text, &names, &o.text, &o.error);
    else
        o.status = nib_template_render_text(arena, NIB_STR("case"), text, &loader, &names, &options,
                                            &o.text, &o.error);
    return o;
}

nib_str lang_text(const outcome *o)
{
    return (nib_str){o->text.data ? o->text.data : "", o->text.len};
}

nib_value lang_json(nib_arena *arena, const char *text)
{
    nib_value value;
    nib_error error = {0};
    if (nib_json_parse(arena, text, strlen(text), "test", &value, &error) != NIB_OK) {
        fprintf(stderr, "bad JSON in a test: %s: %s\n", error.message, text);
        abort();
    }
    return value;
}
