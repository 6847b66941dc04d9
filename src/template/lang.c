/* SPDX-License-Identifier: Apache-2.0
 *
 * The language on its own: include/nibble/lang.h.
 */
#include "nibble/lang.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "template/template.h"
#include "value/json.h"

static nib_status read_scope(nib_arena *arena, const char *scope_json, nib_scope *out,
                             nib_error *error)
{
    *out = (nib_scope){.device_has_f16 = true};
    if (!scope_json || !*scope_json)
        return NIB_OK;
    nib_value value;
    NIB_TRY(nib_json_parse(arena, scope_json, strlen(scope_json), "scope", &value, error));
    if (value.type != NIB_VALUE_MAP) {
        nib_fail(error, NIB_FORMAT, "the scope must be a JSON object, not %s",
                 nib_value_type_name(value));
        nib_error_source(error, "scope");
        return NIB_FORMAT;
    }
    out->frames[0] = value.as.map;
    out->frame_count = 1;
    return NIB_OK;
}

static nib_status eval_to(nib_arena *arena, const char *expression, const char *scope_json,
                          nib_buf *out, nib_error *error)
{
    nib_scope scope;
    nib_expr expr;
    nib_value value;
    NIB_TRY(read_scope(arena, scope_json, &scope, error));
    NIB_TRY(nib_expr_compile(arena, nib_str_from(expression), &expr, error));
    NIB_TRY(nib_expr_eval(&expr, &scope, arena, &value, error));
    if (value.type == NIB_VALUE_UNDEFINED)
        nib_buf_puts(out, "undefined");
    else
        nib_json_write(out, value,
                       (nib_json_style){.spaced = true, .nonfinite = NIB_NONFINITE_BARE});
    return NIB_OK;
}

nib_status nib_expression_eval(nib_context *context, const char *expression, const char *scope_json,
                               char **text, nib_error *error)
{
    *text = NULL;
    if (!expression)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the expression is NULL");
    nib_arena arena;
    nib_buf out;
    nib_arena_init(&arena, &context->allocator, 0);
    nib_buf_init(&out, &context->allocator, 0);
    const nib_status status = eval_to(&arena, expression, scope_json, &out, error);
    nib_arena_free(&arena);
    if (status == NIB_OK)
        return nib_buf_take(&out, "the value", text, error);
    nib_buf_free(&out);
    return status;
}

/* ---- templates ---- */

/* Included files are read from one directory. */
typedef struct folder {
    const char *directory;
} folder;

static nib_status read_stream(nib_arena *arena, FILE *file, nib_str *text, nib_error *error)
{
    nib_buf buf;
    nib_buf_init(&buf, arena->allocator, 0);
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        nib_buf_append(&buf, chunk, n);
    nib_status status = nib_buf_check(&buf, "the file", error);
    if (status == NIB_OK && ferror(file))
        status = nib_fail(error, NIB_IO, "the file could not be read");
    if (status == NIB_OK) {
        *text = nib_arena_str(arena, buf.data, buf.len);
        if (!text->data)
            status = nib_fail_memory(error);
    }
    nib_buf_free(&buf);
    return status;
}

static nib_status read_included(void *user, nib_arena *arena, nib_str path, nib_str *text,
                                nib_error *error)
{
    const folder *f = user;
    if (!f->directory)
        return nib_fail(error, NIB_IO, "\"%.*s\" cannot be included: no directory was given",
                        NIB_STR_ARG(path));
    char name[4096];
    const int length = snprintf(name, sizeof name, "%s/%.*s", f->directory, NIB_STR_ARG(path));
    if (length < 0 || (size_t)length >= sizeof name)
        return nib_fail(error, NIB_IO, "the path of an included file is too long");
    FILE *file = fopen(name, "rb");
    if (!file)
        return nib_fail(error, NIB_IO, "there is no readable file \"%.*s\"", NIB_STR_ARG(path));
    const nib_status status = read_stream(arena, file, text, error);
    fclose(file);
    return status;
}

/* The template itself counts as a file of the directory, so that "./x" is beside it; its folder
 * shows in errors only. */
static const char *base_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static nib_status render_to(nib_arena *arena, const char *source, const char *scope_json,
                            const nib_render_options *options, nib_buf *out, nib_error *error)
{
    nib_scope scope;
    folder f = {options->directory};
    const nib_template_loader loader = {read_included, &f};
    const nib_template_options template_options = {.infer_enables = options->infer_enables};
    const char *name = options->name ? options->name : "template";
    NIB_TRY(read_scope(arena, scope_json, &scope, error));
    const nib_status status =
        nib_template_render_text(arena, nib_str_from(base_name(name)), nib_str_from(source),
                                 &loader, &scope, &template_options, out, error);
    if (status != NIB_OK && error && strcmp(error->source, base_name(name)) == 0)
        snprintf(error->source, sizeof error->source, "%s", name);
    return status;
}

nib_status nib_template_render(nib_context *context, const char *source, const char *scope_json,
                               const nib_render_options *options, char **text, nib_error *error)
{
    static const nib_render_options defaults = {0};
    *text = NULL;
    if (!source)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "the template is NULL");
    nib_arena arena;
    nib_buf out;
    nib_arena_init(&arena, &context->allocator, 0);
    nib_buf_init(&out, &context->allocator, 0);
    const nib_status status =
        render_to(&arena, source, scope_json, options ? options : &defaults, &out, error);
    nib_arena_free(&arena);
    if (status == NIB_OK)
        return nib_buf_take(&out, "the rendered template", text, error);
    nib_buf_free(&out);
    return status;
}
