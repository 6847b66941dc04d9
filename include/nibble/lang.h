/* SPDX-License-Identifier: Apache-2.0
 *
 * The expression and template language on its own: what manifests and templates use, for tools and authors.
 * Reference: docs/language.md.
 */
#ifndef NIBBLE_LANG_H
#define NIBBLE_LANG_H

#include <stdbool.h>

#include "nibble/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Evaluate a manifest expression. `scope_json` is a JSON object whose members become names (attrs, shapes ...), on
 * top of the manifest helpers; NULL or "" is an empty scope. The result is JSON text, but what JSON has no
 * word for is written as JavaScript calls it: undefined, and the numbers NaN, Infinity and -Infinity. errors: SYNTAX, EVAL, LIMIT, FORMAT (scope), OUT_OF_MEMORY | owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_expression_eval(nib_context *context, const char *expression,
                                                   const char *scope_json, char **text,
                                                   nib_error *error);

typedef struct nib_render_options {
    const char *name;      /* names the template in errors; NULL: "template" */
    const char *directory; /* where include finds files; NULL: include is refused */
    bool infer_enables;    /* prepend WGSL enable directives (format 4.6) */
} nib_render_options;

/* Render a template with the members of `scope_json` as names.
 * errors: SYNTAX, EVAL, LIMIT, IO and CONTRACT (include), FORMAT (scope), OUT_OF_MEMORY | owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_template_render(nib_context *context, const char *source,
                                                   const char *scope_json,
                                                   const nib_render_options *options, char **text,
                                                   nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
