/* SPDX-License-Identifier: Apache-2.0
 *
 * Running one expression or template as a test case.
 */
#ifndef TESTS_LANG_SUPPORT_H
#define TESTS_LANG_SUPPORT_H

#include "template/template.h"

typedef struct outcome {
    nib_status status;
    nib_buf text; /* nib_buf_free */
    nib_error error;
} outcome;

/* An expression (the result is JSON text, or "undefined") or a template, with `scope` and the host
 * names dev (a set view dev.features of "x") and f (a function that returns undefined). */
outcome lang_run(nib_arena *arena, bool expression, nib_str text, const nib_map *scope);
nib_str lang_text(const outcome *o);
/* A JSON literal that must be valid. */
nib_value lang_json(nib_arena *arena, const char *text);

#endif
