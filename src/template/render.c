/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline of one pass: format 4.1. Errors and the line map speak of template files, not of the
 * expanded text.
 */
#include "template/expansion.h"

#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static size_t offset_of(nib_str text, uint32_t line, uint32_t column)
{
    size_t at = 0;
    for (uint32_t i = 1; i < line; i++) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        if (!end)
            return text.len;
        at = (size_t)(end - text.data) + 1;
    }
    at += column - 1;
    return at < text.len ? at : text.len;
}

/* Move an error from the expanded text to the file that the text came from. */
static void locate_error(const template_expansion *expansion, nib_error *error)
{
    if (!error || !error->line)
        return;
    size_t offset;
    const template_file *file = nib_template_origin(
        expansion, offset_of(expansion->text, error->line, error->column), &offset);
    error->line = error->column = 0;
    error->excerpt[0] = '\0';
    nib_error_position(error, file->text.data, file->text.len, offset);
    snprintf(error->source, sizeof error->source, "%.*s", NIB_STR_ARG(file->path));
}

/* ---- line map ---- */

static size_t count_lines(nib_str text)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    return lines;
}

/* Line numbers of ascending offsets would be cheap, but marks jump between files: count from the
 * last one where possible. */
typedef struct line_counter {
    const template_file *file;
    size_t offset;
    uint32_t line;
} line_counter;

static uint32_t line_at(line_counter *counter, const template_file *file, size_t offset)
{
    if (counter->file != file || offset < counter->offset)
        *counter = (line_counter){file, 0, 1};
    if (offset > file->text.len)
        offset = file->text.len;
    for (; counter->offset < offset; counter->offset++)
        counter->line += file->text.data[counter->offset] == '\n';
    return counter->line;
}

/* The last mark of each output line decides; a line without one continues the value printed before
 * it. */
static nib_status build_line_map(nib_arena *arena, const template_expansion *expansion,
                                 const nib_render_trace *trace, nib_str wgsl, size_t enable_lines,
                                 nib_line_map *map, nib_error *error)
{
    map->count = enable_lines + count_lines(wgsl);
    map->lines = NIB_ARENA_ARRAY(arena, nib_template_line, map->count);
    if (!map->lines)
        return nib_fail_memory(error);
    line_counter counter = {0};
    size_t mark = 0, end = 0;
    for (size_t line = enable_lines; line < map->count; line++) {
        const char *feed = end < wgsl.len ? memchr(wgsl.data + end, '\n', wgsl.len - end) : NULL;
        end = feed ? (size_t)(feed - wgsl.data) + 1 : wgsl.len + 1;
        while (mark < trace->count && trace->marks[mark].output_offset < end)
            mark++;
        if (mark == 0)
            continue;
        size_t offset;
        const template_file *file =
            nib_template_origin(expansion, trace->marks[mark - 1].source_offset, &offset);
        map->lines[line] = (nib_template_line){file->path, line_at(&counter, file, offset)};
    }
    return NIB_OK;
}

/* ---- pipeline ---- */

static nib_status render_program(nib_arena *arena, const template_expansion *expansion,
                                 const nib_scope *scope, nib_render_trace *trace, nib_buf *wgsl,
                                 nib_error *error)
{
    const nib_names names = {.lookup = nib_scope_lookup, .user = scope, .template_globals = true};
    const nib_program *program;
    const char *name = nib_arena_cstr(arena, expansion->files[0].path);
    if (!name)
        return nib_fail_memory(error);
    nib_status status = nib_jinja_parse_template(arena, expansion->text, name, &program, error);
    if (status == NIB_OK)
        status = nib_jinja_render(program, &names, NULL, arena, wgsl, trace, error);
    if (status != NIB_OK)
        locate_error(expansion, error);
    return status;
}

nib_status nib_template_check(nib_arena *arena, nib_str path, const nib_template_loader *loader,
                              bool include_keeps_line, nib_error *error)
{
    nib_str text;
    template_expansion expansion;
    const nib_program *program;
    NIB_TRY(loader->read(loader->user, arena, path, &text, error));
    NIB_TRY(nib_template_expand_text(arena, path, text, loader, include_keeps_line, &expansion,
                                     error));
    const char *name = nib_arena_cstr(arena, path);
    if (!name)
        return nib_fail_memory(error);
    const nib_status status =
        nib_jinja_parse_template(arena, expansion.text, name, &program, error);
    if (status != NIB_OK)
        locate_error(&expansion, error);
    return status;
}

static nib_status finish(nib_arena *arena, const template_expansion *expansion,
                         const nib_template_options *options, const nib_render_trace *trace,
                         nib_str wgsl, nib_buf *out, nib_error *error)
{
    const size_t before = out->len;
    if (options->infer_enables)
        nib_template_enables(arena, wgsl, out);
    NIB_TRY(nib_buf_check(out, "the rendered template", error));
    const nib_str enables = {out->data ? out->data + before : "", out->len - before};
    if (options->line_map)
        NIB_TRY(build_line_map(arena, expansion, trace, wgsl, count_lines(enables) - 1,
                               options->line_map, error));
    nib_buf_str(out, wgsl);
    return nib_buf_check(out, "the rendered template", error);
}

nib_status nib_template_render_text(nib_arena *arena, nib_str name, nib_str text,
                                    const nib_template_loader *loader, const nib_scope *scope,
                                    const nib_template_options *options, nib_buf *out,
                                    nib_error *error)
{
    template_expansion expansion;
    nib_render_trace trace = {0};
    NIB_TRY(nib_template_expand_text(arena, name, text, loader, options->include_keeps_line,
                                     &expansion, error));
    nib_buf wgsl;
    nib_buf_init(&wgsl, arena->allocator, 0);
    nib_status status =
        render_program(arena, &expansion, scope, options->line_map ? &trace : NULL, &wgsl, error);
    if (status == NIB_OK)
        status = finish(arena, &expansion, options, &trace,
                        (nib_str){wgsl.data ? wgsl.data : "", wgsl.len}, out, error);
    nib_buf_free(&wgsl);
    return status;
}

nib_status nib_template_render_wgsl(nib_arena *arena, nib_str path,
                                    const nib_template_loader *loader, const nib_scope *scope,
                                    const nib_template_options *options, nib_buf *out,
                                    nib_error *error)
{
    nib_str text;
    NIB_TRY(loader->read(loader->user, arena, path, &text, error));
    return nib_template_render_text(arena, path, text, loader, scope, options, out, error);
}
