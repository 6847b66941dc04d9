/* SPDX-License-Identifier: Apache-2.0
 *
 * A shader error in terms of the template: the pass is rendered once more, with the map from WGSL lines to template
 * lines.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"
#include "package/package.h"

/* A line with its indentation. */
static nib_str raw_line(nib_str text, uint64_t number)
{
    for (uint64_t i = 1; i < number && text.len > 0; i++) {
        const char *end = memchr(text.data, '\n', text.len);
        const size_t skip = end ? (size_t)(end - text.data) + 1 : text.len;
        text = (nib_str){text.data + skip, text.len - skip};
    }
    const char *end = text.len > 0 ? memchr(text.data, '\n', text.len) : NULL;
    return end ? (nib_str){text.data, (size_t)(end - text.data)} : text;
}

/* The compiler's column, as far as both lines are the same up to there. */
static uint32_t column_in(nib_str template_line, nib_str wgsl_line, uint64_t column)
{
    size_t same = 0;
    while (same < template_line.len && same < wgsl_line.len && template_line.data[same] == wgsl_line.data[same])
        same++;
    return column > 0 && column - 1 < same ? (uint32_t)column : (uint32_t)same + 1;
}

/* Put the template's file, line and column into `error`; nothing for a line that no template wrote. */
static void locate(const nib_wgpu_report *report, nib_arena *arena, nib_error *error)
{
    nib_line_map map;
    nib_str text;
    if (nib_plan_line_map(report->plan, report->pass, arena, &map, NULL) != NIB_OK || report->line > map.count)
        return;
    const nib_template_line *from = &map.lines[report->line - 1];
    if (from->line == 0)
        return;
    snprintf(error->source, sizeof error->source, "%.*s", NIB_STR_ARG(from->file));
    error->line = from->line;
    if (nib_package_read(report->plan->package, arena, from->file, &text, NULL) == NIB_OK)
        error->column = column_in(raw_line(text, from->line), raw_line(nib_str_from(report->wgsl), report->line),
                                  report->column);
}

static void excerpt(nib_str line, uint64_t column, nib_error *error)
{
    const int shown = line.len > 100 ? 100 : (int)line.len;
    const int caret = column > 0 && column <= 100 ? (int)column - 1 : 0;
    snprintf(error->excerpt, sizeof error->excerpt, "%.*s\n%*s^", shown, line.data, caret, "");
}

nib_status nib_wgpu_report_shader(const nib_wgpu_report *report, nib_error *error)
{
    char where[64] = "";
    if (report->line > 0)
        snprintf(where, sizeof where, "WGSL line %llu:%llu: ", (unsigned long long)report->line,
                 (unsigned long long)report->column);
    if (!report->plan)
        return nib_fail(error, NIB_SHADER, "%s%s", where, report->message);
    const nib_plan *plan = report->plan;
    const nib_plan_pass *pass = &plan->passes[report->pass];
    char path[1100] = "";
    const bool kept = report->blobs && nib_wgpu_blobs_keep_text(report->blobs, report->wgsl, path, sizeof path);
    nib_fail(error, NIB_SHADER, "%.*s, variant %.*s, pass %.*s (%.*s): %s%s%s%s", NIB_STR_ARG(plan->contract->op_id),
             NIB_STR_ARG(plan->variant->id), NIB_STR_ARG(pass->id), NIB_STR_ARG(pass->pass->shader), where,
             report->message, kept ? "; the WGSL is in " : "", kept ? path : "");
    if (!error || report->line == 0)
        return NIB_SHADER;
    excerpt(raw_line(nib_str_from(report->wgsl), report->line), report->column, error);
    nib_arena arena;
    nib_arena_init(&arena, &plan->context->allocator, 0);
    locate(report, &arena, error);
    nib_arena_free(&arena);
    return NIB_SHADER;
}
