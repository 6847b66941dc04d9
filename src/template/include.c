/* SPDX-License-Identifier: Apache-2.0
 *
 * Include tags, replaced in the text before the language sees it: format 4.4.
 */
#include "template/expansion.h"

#include <stdio.h>
#include <string.h>

#include "value/number.h"

/* Bounds that no sane package reaches; without them a few small files could include each other
 * without end. */
enum { MAX_NESTING = 32, MAX_INCLUDES = 10000, MAX_EXPANDED_BYTES = 16 << 20 };

/* ---- paths ---- */

/* Drop the last segment; false when there is none. */
static bool drop_segment(const char *path, size_t *len)
{
    if (*len == 0)
        return false;
    while (*len > 0 && path[*len - 1] != '/')
        (*len)--;
    if (*len > 0)
        (*len)--;
    return true;
}

static bool append_segments(char *path, size_t *len, nib_str from)
{
    for (size_t at = 0; at <= from.len;) {
        size_t end = at;
        while (end < from.len && from.data[end] != '/' && from.data[end] != '\\')
            end++;
        const nib_str segment = {from.data + at, end - at};
        at = end + 1;
        if (segment.len == 0 || nib_str_is(segment, "."))
            continue;
        if (nib_str_is(segment, "..")) {
            if (!drop_segment(path, len))
                return false;
            continue;
        }
        if (*len > 0)
            path[(*len)++] = '/';
        memcpy(path + *len, segment.data, segment.len);
        *len += segment.len;
    }
    return true;
}

nib_status nib_template_normalise_path(nib_arena *arena, nib_str base_dir, nib_str path,
                                       nib_str *out, nib_error *error)
{
    char *joined = nib_arena_alloc(arena, base_dir.len + path.len + 3, 1);
    size_t len = 0;
    if (!joined)
        return nib_fail_memory(error);
    const bool relative = path.len > 0 && path.data[0] == '.';
    if ((relative && !append_segments(joined, &len, base_dir)) ||
        !append_segments(joined, &len, path))
        return nib_fail(error, NIB_CONTRACT, "the path \"%.*s\" leaves the package",
                        NIB_STR_ARG(path));
    if (memchr(joined, '\0', len))
        return nib_fail(error, NIB_CONTRACT, "the path \"%.*s\" contains a NUL byte",
                        NIB_STR_ARG(path));
    joined[len] = '\0';
    *out = (nib_str){joined, len};
    return NIB_OK;
}

static nib_str directory_of(nib_str path)
{
    size_t len = path.len;
    while (len > 0 && path.data[len - 1] != '/')
        len--;
    return (nib_str){path.data, len};
}

/* ---- tags ---- */

typedef struct include_tag {
    size_t start, end; /* what the included text replaces */
    size_t tag;        /* where the tag itself starts */
    nib_str path;
} include_tag;

static size_t skip_space(nib_str text, size_t at)
{
    size_t n;
    while (at < text.len &&
           (n = nib_js_space_at_start((nib_str){text.data + at, text.len - at})) != 0)
        at += n;
    return at;
}

static bool starts_at(nib_str text, size_t at, const char *what)
{
    return at <= text.len &&
           nib_str_starts((nib_str){text.data + at, text.len - at}, nib_str_from(what));
}

/* {% include "path" %} at `at`, without dashes. */
static bool match_tag(nib_str text, size_t at, include_tag *tag)
{
    tag->start = tag->tag = at;
    if (!starts_at(text, at, "{%"))
        return false;
    at = skip_space(text, at + 2);
    if (!starts_at(text, at, "include"))
        return false;
    at = skip_space(text, at + strlen("include"));
    if (at >= text.len || (text.data[at] != '"' && text.data[at] != '\''))
        return false;
    const char quote = text.data[at++];
    const char *close = memchr(text.data + at, quote, text.len - at);
    if (!close || close == text.data + at)
        return false;
    tag->path = (nib_str){text.data + at, (size_t)(close - text.data) - at};
    at = skip_space(text, at + tag->path.len + 1);
    tag->end = at + 2;
    return starts_at(text, at, "%}");
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A tag alone on its line takes the whole line with it. */
static void widen_to_line(nib_str text, include_tag *tag)
{
    size_t start = tag->start, end = tag->end;
    while (start > 0 && is_blank(text.data[start - 1]))
        start--;
    if (start > 0 && text.data[start - 1] != '\n' && text.data[start - 1] != '\r')
        return;
    while (end < text.len && is_blank(text.data[end]))
        end++;
    if (starts_at(text, end, "\r\n"))
        end += 2;
    else if (starts_at(text, end, "\n"))
        end += 1;
    else
        return;
    tag->start = start;
    tag->end = end;
}

static bool next_tag(nib_str text, size_t from, bool keeps_line, include_tag *tag)
{
    for (size_t at = from; at + 2 <= text.len; at++) {
        if (text.data[at] != '{' || !match_tag(text, at, tag))
            continue;
        if (!keeps_line)
            widen_to_line(text, tag);
        if (tag->start < from) /* blanks that already went with the tag before */
            tag->start = from;
        return true;
    }
    return false;
}

/* ---- expansion ---- */

typedef struct expander {
    nib_arena *arena;
    const nib_template_loader *loader;
    bool keeps_line;
    template_expansion *expansion;
    nib_buf text;
    size_t includes;
    nib_error *error;
} expander;

/* The files being expanded, innermost first. */
typedef struct open_file {
    const struct open_file *parent;
    size_t file;
    unsigned depth;
} open_file;

static void set_source(nib_error *error, nib_str path)
{
    if (error)
        snprintf(error->source, sizeof error->source, "%.*s", NIB_STR_ARG(path));
}

static nib_status fail_at_tag(expander *x, size_t file, size_t tag, nib_status status)
{
    const template_file *f = &x->expansion->files[file];
    nib_error_position(x->error, f->text.data, f->text.len, tag);
    set_source(x->error, f->path);
    return status;
}

static bool add_file(expander *x, nib_str path, nib_str text, size_t *index)
{
    template_expansion *e = x->expansion;
    if (e->file_count == e->file_capacity) {
        const size_t capacity = e->file_capacity ? e->file_capacity * 2 : 8;
        template_file *files = NIB_ARENA_ARRAY(x->arena, template_file, capacity);
        if (!files)
            return false;
        if (e->file_count)
            memcpy(files, e->files, e->file_count * sizeof *files);
        e->files = files;
        e->file_capacity = capacity;
    }
    *index = e->file_count;
    e->files[e->file_count++] = (template_file){path, text};
    return true;
}

static bool add_piece(expander *x, size_t file, size_t offset)
{
    template_expansion *e = x->expansion;
    if (e->piece_count == e->piece_capacity) {
        const size_t capacity = e->piece_capacity ? e->piece_capacity * 2 : 16;
        template_piece *pieces = NIB_ARENA_ARRAY(x->arena, template_piece, capacity);
        if (!pieces)
            return false;
        if (e->piece_count)
            memcpy(pieces, e->pieces, e->piece_count * sizeof *pieces);
        e->pieces = pieces;
        e->piece_capacity = capacity;
    }
    e->pieces[e->piece_count++] = (template_piece){x->text.len, file, offset};
    return true;
}

static nib_status append_piece(expander *x, size_t file, size_t from, size_t end)
{
    if (!add_piece(x, file, from))
        return nib_fail_memory(x->error);
    nib_buf_append(&x->text, x->expansion->files[file].text.data + from, end - from);
    return nib_buf_check(&x->text, "a template with its includes", x->error);
}

static nib_status expand_file(expander *x, const open_file *open);

static nib_status fail_cycle(expander *x, const open_file *open, nib_str path)
{
    nib_buf chain;
    nib_buf_init(&chain, x->arena->allocator, 1500);
    nib_buf_str(&chain, path);
    for (const open_file *f = open; f; f = f->parent) {
        nib_buf_puts(&chain, " <- ");
        nib_buf_str(&chain, x->expansion->files[f->file].path);
        if (nib_str_eq(x->expansion->files[f->file].path, path))
            break;
    }
    const nib_status status =
        nib_fail(x->error, NIB_SYNTAX, "the file includes itself: %s", chain.len ? chain.data : "");
    nib_buf_free(&chain);
    return status;
}

static bool is_open(const expander *x, const open_file *open, nib_str path)
{
    for (; open; open = open->parent) {
        if (nib_str_eq(x->expansion->files[open->file].path, path))
            return true;
    }
    return false;
}

/* Errors of the loader name the file that was asked for; say who asked. */
static nib_status load(expander *x, const open_file *open, const include_tag *tag, nib_str path,
                       size_t *file)
{
    for (size_t i = 0; i < x->expansion->file_count; i++) {
        if (nib_str_eq(x->expansion->files[i].path, path)) {
            *file = i;
            return NIB_OK;
        }
    }
    nib_str text;
    const nib_status status = x->loader->read(x->loader->user, x->arena, path, &text, x->error);
    if (status == NIB_OK)
        return add_file(x, path, text, file) ? NIB_OK : nib_fail_memory(x->error);
    if (x->error) {
        const template_file *f = &x->expansion->files[open->file];
        nib_error place = {0};
        nib_error_position(&place, f->text.data, f->text.len, tag->tag);
        const size_t used = strlen(x->error->message);
        snprintf(x->error->message + used, sizeof x->error->message - used,
                 " (included from %.*s line %u)", NIB_STR_ARG(f->path), place.line);
        if (!x->error->source[0])
            set_source(x->error, path);
    }
    return status;
}

static nib_status find_included(expander *x, const open_file *open, const include_tag *tag,
                                nib_str *path)
{
    const nib_str from = x->expansion->files[open->file].path;
    NIB_TRY(nib_template_normalise_path(x->arena, directory_of(from), tag->path, path, x->error));
    if (is_open(x, open, *path))
        return fail_cycle(x, open, *path);
    if (open->depth >= MAX_NESTING)
        return nib_fail(x->error, NIB_LIMIT, "includes are nested deeper than %d files",
                        MAX_NESTING);
    if (++x->includes > MAX_INCLUDES)
        return nib_fail(x->error, NIB_LIMIT, "the template has more than %d includes",
                        MAX_INCLUDES);
    return NIB_OK;
}

static nib_status expand_include(expander *x, const open_file *open, const include_tag *tag)
{
    nib_str path;
    const nib_status status = find_included(x, open, tag, &path);
    if (status != NIB_OK)
        return fail_at_tag(x, open->file, tag->tag, status);
    open_file included = {.parent = open, .depth = open->depth + 1};
    NIB_TRY(load(x, open, tag, path, &included.file));
    return expand_file(x, &included);
}

static nib_status expand_file(expander *x, const open_file *open)
{
    const nib_str text = x->expansion->files[open->file].text;
    size_t at = 0;
    include_tag tag;
    while (next_tag(text, at, x->keeps_line, &tag)) {
        NIB_TRY(append_piece(x, open->file, at, tag.start));
        NIB_TRY(expand_include(x, open, &tag));
        at = tag.end;
    }
    return append_piece(x, open->file, at, text.len);
}

nib_status nib_template_expand_text(nib_arena *arena, nib_str path, nib_str text,
                                    const nib_template_loader *loader, bool include_keeps_line,
                                    template_expansion *out, nib_error *error)
{
    *out = (template_expansion){0};
    expander x = {.arena = arena,
                  .loader = loader,
                  .keeps_line = include_keeps_line,
                  .expansion = out,
                  .error = error};
    nib_buf_init(&x.text, arena->allocator, MAX_EXPANDED_BYTES);
    open_file root = {.depth = 1};
    nib_status status = NIB_OK;
    if (!add_file(&x, path, text, &root.file))
        status = nib_fail_memory(error);
    if (status == NIB_OK)
        status = expand_file(&x, &root);
    if (status == NIB_OK) {
        out->text = nib_arena_str(arena, x.text.data, x.text.len);
        if (!out->text.data)
            status = nib_fail_memory(error);
    }
    nib_buf_free(&x.text);
    return status;
}

const template_file *nib_template_origin(const template_expansion *expansion, size_t offset,
                                         size_t *file_offset)
{
    size_t low = 0, high = expansion->piece_count;
    while (high - low > 1) { /* the last piece that starts at or before the offset */
        const size_t middle = low + (high - low) / 2;
        if (expansion->pieces[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    const template_piece *piece = &expansion->pieces[low];
    *file_offset = piece->offset + (offset - piece->start);
    return &expansion->files[piece->file];
}

nib_status nib_template_expand(nib_arena *arena, nib_str path, const nib_template_loader *loader,
                               bool include_keeps_line, nib_str *out, nib_error *error)
{
    nib_str text;
    template_expansion expansion;
    NIB_TRY(loader->read(loader->user, arena, path, &text, error));
    NIB_TRY(
        nib_template_expand_text(arena, path, text, loader, include_keeps_line, &expansion, error));
    *out = expansion.text;
    return NIB_OK;
}
