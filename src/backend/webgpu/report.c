/* SPDX-License-Identifier: Apache-2.0
 *
 * A shader error in terms of the template. Rendering keeps no map of lines, and does not need one: the line at fault is
 * looked up in the template, where the text between {{ }} and {% %} has to match and what stands inside may be anything;
 * of several lines that match, the one whose neighbours match too is meant.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"
#include "package/package.h"

typedef struct lines {
    const nib_str *items;
    size_t count;
} lines;

/* The place of the error in the WGSL. */
typedef struct place {
    lines wgsl;
    size_t line; /* index into wgsl */
    nib_str raw; /* the line with its indentation, which the compiler's column counts */
    uint64_t column;
} place;

static nib_str trim(nib_str s)
{
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s.data++;
        s.len--;
    }
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t' || s.data[s.len - 1] == '\r'))
        s.len--;
    return s;
}

static bool split_lines(nib_arena *arena, nib_str text, lines *out)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == '\n';
    nib_str *items = NIB_ARENA_ARRAY(arena, nib_str, count);
    if (!items)
        return false;
    size_t start = 0, n = 0;
    for (size_t i = 0; i <= text.len; i++) {
        if (i < text.len && text.data[i] != '\n')
            continue;
        items[n++] = trim((nib_str){text.data + start, i - start});
        start = i + 1;
    }
    *out = (lines){items, count};
    return true;
}

/* Cut the next literal piece off a template line; false at the end. *open tells whether a tag follows the piece. */
static bool next_piece(nib_str *rest, nib_str *piece, bool *open)
{
    if (rest->len == 0)
        return false;
    size_t i = 0;
    while (i + 1 < rest->len && !(rest->data[i] == '{' && (rest->data[i + 1] == '{' || rest->data[i + 1] == '%')))
        i++;
    *open = i + 1 < rest->len;
    *piece = (nib_str){rest->data, *open ? i : rest->len};
    if (!*open) {
        rest->len = 0;
        return true;
    }
    while (i + 1 < rest->len && !(rest->data[i + 1] == '}' && (rest->data[i] == '}' || rest->data[i] == '%')))
        i++;
    const size_t end = i + 2 < rest->len ? i + 2 : rest->len;
    rest->data += end;
    rest->len -= end;
    return true;
}

static size_t find(nib_str text, size_t from, nib_str part)
{
    for (size_t i = from; i + part.len <= text.len; i++) {
        if (part.len == 0 || memcmp(text.data + i, part.data, part.len) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Whether the template line can have produced the WGSL line; the longer its literal text, the better the match. */
static size_t match(nib_str template_line, nib_str wgsl)
{
    nib_str piece, rest = template_line;
    size_t at = 0, literal = 0;
    bool open = false, after_tag = false;
    while (next_piece(&rest, &piece, &open)) {
        const size_t found = after_tag ? find(wgsl, at, piece)
                                       : (nib_str_starts((nib_str){wgsl.data + at, wgsl.len - at}, piece) ? at : SIZE_MAX);
        if (found == SIZE_MAX)
            return 0;
        at = found + piece.len;
        literal += piece.len;
        after_tag = open;
    }
    return after_tag || at == wgsl.len ? literal : 0;
}

/* How well the neighbourhood of template line t fits that of WGSL line w. */
static size_t neighbours(const lines *source, size_t t, const lines *wgsl, size_t w)
{
    size_t score = 0;
    for (size_t d = 1; d <= 3; d++) {
        if (t >= d && w >= d && match(source->items[t - d], wgsl->items[w - d]) > 0)
            score++;
        if (t + d < source->count && w + d < wgsl->count && match(source->items[t + d], wgsl->items[w + d]) > 0)
            score++;
    }
    return score;
}

/* 1-based line of the template; 0 when none matches. */
static size_t locate(const lines *source, const lines *wgsl, size_t w)
{
    size_t best = 0, best_score = 0;
    for (size_t t = 0; t < source->count; t++) {
        const size_t literal = match(source->items[t], wgsl->items[w]);
        if (literal == 0)
            continue;
        const size_t score = literal + 16 * neighbours(source, t, wgsl, w);
        if (score > best_score) {
            best_score = score;
            best = t + 1;
        }
    }
    return best;
}

/* The path in the first include tag at or after *at; false when there is none. */
static bool next_include(nib_str text, size_t *at, nib_str *path)
{
    for (;;) {
        const size_t tag = find(text, *at, NIB_STR("include"));
        if (tag == SIZE_MAX)
            return false;
        size_t i = tag + 7;
        *at = i;
        while (i < text.len && text.data[i] == ' ')
            i++;
        if (i >= text.len || (text.data[i] != '"' && text.data[i] != '\''))
            continue;
        const char quote[1] = {text.data[i]};
        const size_t end = find(text, i + 1, (nib_str){quote, 1});
        if (end == SIZE_MAX)
            return false;
        *path = (nib_str){text.data + i + 1, end - i - 1};
        *at = end;
        return true;
    }
}

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

/* Look the line up in a template and what it includes; true when found, `error` then names the place. */
static bool locate_in(const nib_package *package, nib_arena *arena, nib_str path, const place *at, unsigned depth,
                      nib_error *error)
{
    nib_str text;
    lines source;
    if (depth == 0 || nib_package_read(package, arena, path, &text, NULL) != NIB_OK ||
        !split_lines(arena, text, &source))
        return false;
    const size_t line = locate(&source, &at->wgsl, at->line);
    if (line > 0) {
        snprintf(error->source, sizeof error->source, "%.*s", NIB_STR_ARG(path));
        error->line = (uint32_t)line;
        error->column = column_in(raw_line(text, line), at->raw, at->column);
        return true;
    }
    nib_str included, normal;
    const char *slash = memrchr(path.data, '/', path.len);
    const nib_str folder = {path.data, slash ? (size_t)(slash - path.data) : 0};
    for (size_t from = 0; next_include(text, &from, &included);) {
        if (nib_template_normalise_path(arena, folder, included, &normal, NULL) == NIB_OK &&
            locate_in(package, arena, normal, at, depth - 1, error))
            return true;
    }
    return false;
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
    const nib_str wgsl = nib_str_from(report->wgsl);
    place at = {.line = (size_t)report->line - 1, .raw = raw_line(wgsl, report->line), .column = report->column};
    excerpt(at.raw, report->column, error);
    nib_arena arena;
    nib_arena_init(&arena, &plan->context->allocator, 0);
    if (split_lines(&arena, wgsl, &at.wgsl) && at.line < at.wgsl.count)
        locate_in(plan->package, &arena, pass->pass->shader, &at, 8, error);
    nib_arena_free(&arena);
    return NIB_SHADER;
}
