/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifest expressions: the language plus the rule that every free name must resolve, the manifest
 * helper functions (ceilDiv, dim, broadcastShape ...), and scopes. Source: package format 3.6-3.8.
 */
#ifndef NIB_EXPR_EXPR_H
#define NIB_EXPR_EXPR_H

#include <stdint.h>

#include "jinja/jinja.h"

typedef struct nib_expr {
    nib_str text; /* as written in the manifest */
    const nib_program *program;
} nib_expr;

/* What an expression can see: maps searched in order, then the helper functions. */
#define NIB_SCOPE_MAX_FRAMES 8
typedef struct nib_scope {
    const nib_map *frames[NIB_SCOPE_MAX_FRAMES];
    size_t frame_count;
    bool device_has_f16; /* what f16Ok(dtype) answers from */
    bool list_dialect;   /* adds the helpers rank, cols, f16Allowed (2.B.5) */
} nib_scope;

/* The text is copied into the arena. Errors name the expression as their source; line and column
 * are inside it. errors: SYNTAX, LIMIT, OUT_OF_MEMORY */
nib_status nib_expr_compile(nib_arena *arena, nib_str text, nib_expr *out, nib_error *error);

/* Check that every free name resolves, then evaluate; the result is exported (numbers re-tagged by
 * integrality). errors: EVAL (unknown name: lists namespaces and helpers and suggests quoting),
 * LIMIT, OUT_OF_MEMORY */
nib_status nib_expr_eval(const nib_expr *expr, const nib_scope *scope, nib_arena *arena,
                         nib_value *out, nib_error *error);

/* Lookup over a scope, for templates: frames, then helpers. Usable as nib_names.lookup with user =
 * scope. */
bool nib_scope_lookup(const void *scope, nib_str name, nib_value *out);

/* True for a name a derive must not use (format E.1): namespaces, helpers, pre-bound names. */
bool nib_expr_name_is_reserved(nib_str name);

/* The size, dispatch or count that an expression gave: a finite integer from 0 to 2^53. `what`
 * names it ("dispatch.x"). errors: EVAL, naming `what` and the value */
nib_status nib_value_to_size(nib_value value, const char *what, uint64_t *out, nib_error *error);

/* A set-like host object with has(name) and size (device.features). `names` must outlive the
 * arena's users. */
bool nib_expr_set_view(nib_arena *arena, const nib_str *names, size_t count, nib_value *out);

#endif
