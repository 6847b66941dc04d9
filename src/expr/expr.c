/* SPDX-License-Identifier: Apache-2.0 */
#include "expr/expr.h"

#include <math.h>
#include <stdio.h>

#include "expr/helpers.h"
#include "value/number.h"

/* How errors name an expression: its text, cut to one short line. */
enum { NAME_BYTES = 80 };

static nib_str name_expression(nib_arena *arena, nib_str text)
{
    char name[NAME_BYTES + 32];
    const bool whole = text.len <= NAME_BYTES;
    const int length =
        snprintf(name, sizeof name, "expression `%.*s%s`", whole ? (int)text.len : NAME_BYTES,
                 text.len ? text.data : "", whole ? "" : "...");
    for (char *c = name; *c; c++) {
        if ((unsigned char)*c < ' ')
            *c = ' ';
    }
    return nib_arena_str(arena, name, length > 0 ? (size_t)length : 0);
}

nib_status nib_expr_compile(nib_arena *arena, nib_str text, nib_expr *out, nib_error *error)
{
    *out = (nib_expr){.text = nib_arena_str(arena, text.data, text.len)};
    const nib_str name = name_expression(arena, text);
    if (!out->text.data || !name.data)
        return nib_fail_memory(error);
    return nib_jinja_parse_expression(arena, out->text, name.data, &out->program, error);
}

/* ---- free names ---- */

static void list_frame_names(const nib_scope *scope, nib_buf *text)
{
    for (size_t f = 0; f < scope->frame_count; f++) {
        const nib_map *frame = scope->frames[f];
        for (size_t i = 0; frame && i < frame->count; i++) {
            nib_buf_putc(text, ' ');
            nib_buf_str(text, frame->entries[i].key);
        }
    }
}

static nib_status fail_unknown(const nib_expr *expr, const nib_scope *scope, nib_arena *arena,
                               const nib_free_name *name, nib_error *error)
{
    nib_buf text;
    nib_buf_init(&text, arena->allocator, 1000); /* cut when there are many */
    list_frame_names(scope, &text);
    nib_fail(error, NIB_EVAL, "unknown name \"%.*s\" (a text is written in quotes: '%.*s'); %s%s",
             NIB_STR_ARG(name->name), NIB_STR_ARG(name->name), text.len ? "known here:" : "",
             text.len ? text.data : "no names are set here");
    nib_buf_free(&text);
    nib_buf_init(&text, arena->allocator, 1000);
    const char *helper;
    for (size_t i = 0; (helper = nib_expr_helper_name(i, scope->list_dialect)) != NULL; i++) {
        nib_buf_puts(&text, " ");
        nib_buf_puts(&text, helper);
    }
    if (error) {
        const size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, "; functions:%s",
                 text.len ? text.data : "");
    }
    nib_buf_free(&text);
    nib_error_position(error, expr->text.data, expr->text.len, name->offset);
    return NIB_EVAL;
}

static bool is_constant(nib_str name)
{
    static const char *const names[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nib_str_is(name, names[i]))
            return true;
    }
    return false;
}

/* Every name must resolve, also in branches that will not run (format 3.6). */
static nib_status check_free_names(const nib_expr *expr, const nib_scope *scope, nib_arena *arena,
                                   nib_error *error)
{
    size_t count;
    const nib_free_name *names = nib_jinja_free_names(expr->program, &count);
    for (size_t i = 0; i < count; i++) {
        nib_value ignored;
        if (!names[i].only_tested && !is_constant(names[i].name) &&
            !nib_scope_lookup(scope, names[i].name, &ignored))
            return fail_unknown(expr, scope, arena, &names[i], error);
    }
    return NIB_OK;
}

/* ---- evaluation ---- */

nib_status nib_expr_eval(const nib_expr *expr, const nib_scope *scope, nib_arena *arena,
                         nib_value *out, nib_error *error)
{
    *out = NIB_UNDEFINED;
    const nib_names names = {.lookup = nib_scope_lookup, .user = scope};
    nib_value result;
    nib_status status = check_free_names(expr, scope, arena, error);
    if (status == NIB_OK)
        status = nib_jinja_eval(expr->program, &names, NULL, arena, &result, error);
    if (status == NIB_OK && !nib_value_export(arena, result, out)) {
        *out = NIB_UNDEFINED;
        status =
            nib_fail(error, NIB_LIMIT, "the result is too large or nested deeper than %d levels",
                     NIB_VALUE_MAX_DEPTH);
    }
    if (status != NIB_OK)
        nib_error_source(error, nib_jinja_program_name(expr->program));
    return status;
}

nib_status nib_value_to_size(nib_value value, const char *what, uint64_t *out, nib_error *error)
{
    *out = 0;
    if (!nib_value_is_number(value))
        return nib_fail(error, NIB_EVAL, "%s must be an integer of at least 0, not %s", what,
                        nib_value_type_name(value));
    const double number = value.as.number;
    if (!(number >= 0 && number <= 0x1p53) || trunc(number) != number) {
        char text[NIB_NUMBER_TEXT_BYTES];
        nib_number_format(number, text);
        return nib_fail(error, NIB_EVAL, "%s must be an integer from 0 to 2^53, not %s", what,
                        text);
    }
    *out = (uint64_t)number;
    return NIB_OK;
}
