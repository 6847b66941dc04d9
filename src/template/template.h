/* SPDX-License-Identifier: Apache-2.0
 *
 * From a template file to WGSL: include expansion, rendering, enable directives, and the map back
 * from WGSL lines to template lines. Source: package format 4.1-4.6.
 */
#ifndef NIB_TEMPLATE_TEMPLATE_H
#define NIB_TEMPLATE_TEMPLATE_H

#include "expr/expr.h"

/* Reads the template at a package-relative path into the arena. */
typedef struct nib_template_loader {
    nib_status (*read)(void *user, nib_arena *arena, nib_str path, nib_str *text, nib_error *error);
    void *user;
} nib_template_loader;

/* Where a line of the output came from: the template line of the last thing that was printed on it.
 */
typedef struct nib_template_line {
    nib_str file;  /* empty for a line that no template wrote (an inferred enable directive) */
    uint32_t line; /* 1-based; 0 with an empty file */
} nib_template_line;

/* Line n of the output is lines[n - 1]. In the arena of the rendering. */
typedef struct nib_line_map {
    nib_template_line *lines;
    size_t count;
} nib_line_map;

typedef struct nib_template_options {
    bool infer_enables;      /* prepend enable directives (4.6) */
    bool include_keeps_line; /* list dialect: nothing else of the line is removed with an include
                                tag (2.B.5) */
    nib_line_map *line_map;  /* out; may be NULL */
} nib_template_options;

/* Render the template `path` in `scope`, appending to `out` (the line map counts from there). The
 * arena holds intermediates. errors: IO, INTEGRITY (from the loader), CONTRACT (include path),
 * SYNTAX, EVAL, LIMIT, OUT_OF_MEMORY; source, line, column and excerpt name the template file,
 * included files too */
nib_status nib_template_render_wgsl(nib_arena *arena, nib_str path,
                                    const nib_template_loader *loader, const nib_scope *scope,
                                    const nib_template_options *options, nib_buf *out,
                                    nib_error *error);

/* The same for a text that is at hand; `name` stands for it in errors and in the line map. */
nib_status nib_template_render_text(nib_arena *arena, nib_str name, nib_str text,
                                    const nib_template_loader *loader, const nib_scope *scope,
                                    const nib_template_options *options, nib_buf *out,
                                    nib_error *error);

/* Replace include tags (4.4), recursively. */
nib_status nib_template_expand(nib_arena *arena, nib_str path, const nib_template_loader *loader,
                               bool include_keeps_line, nib_str *out, nib_error *error);

/* Expand and parse the template `path` without rendering it. Errors as nib_template_render_wgsl. */
nib_status nib_template_check(nib_arena *arena, nib_str path, const nib_template_loader *loader,
                              bool include_keeps_line, nib_error *error);

/* Append the enable directives that the rendered `wgsl` needs (4.6), each with an LF. */
void nib_template_enables(nib_arena *arena, nib_str wgsl, nib_buf *out);

/* The WGSL without comments: line comments leave their LF, block comments only the LFs inside them.
 */
nib_str nib_template_strip_comments(nib_arena *arena, nib_str wgsl);

/* Normalise a package path (4.4): "\" to "/", empty segments and "." dropped, ".." resolved,
 * starting from `base_dir` when `path` starts with "." and from the package folder otherwise.
 * errors: CONTRACT when it leaves the package */
nib_status nib_template_normalise_path(nib_arena *arena, nib_str base_dir, nib_str path,
                                       nib_str *out, nib_error *error);

#endif
