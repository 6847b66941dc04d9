/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning from short texts, for tests.
 */
#ifndef NIB_TESTS_PLAN_SUPPORT_H
#define NIB_TESTS_PLAN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "value/json.h"

/* The context of the test program; made on first use. */
nib_context *test_context(void);
void free_test_context(void);

/* A package without files, from manifest text. In `quoted` text, ' stands for " and ` for \" (a
 * quote inside an expression). */
nib_package *package_from_json(nib_context *context, const char *json, nib_error *error);
nib_package *package_from_quoted(const char *quoted);
/* NULL when there is no such file; anything else that goes wrong fails the test. */
nib_package *package_from_file(const char *path);
void free_package(nib_package *package);
/* The whole file, NUL-terminated, to be freed with free(); NULL when there is none. */
char *read_text_file(const char *path);

/* A request as words:  aT=float32[1,64]  @attribute=4  #argument=1.5  +tunable=8  ?wanted  !variant
 * ~ (relaxed). Scalars are numbers, true, false, or else strings. */
typedef struct request_text {
    char storage[2048];
    size_t used;
    nib_named_desc tensors[24];
    nib_named_scalar attributes[24], arguments[8], tunables[8];
    const char *want[8];
    nib_request request;
} request_text;
void read_request_text(const char *text, request_text *out);

typedef struct planned {
    nib_status status;
    nib_plan *plan;
    nib_error error;
} planned;
/* caps: JSON, or NULL for the defaults */
planned plan_text(const nib_package *package, const char *request, const char *caps);
/* Fails the test when there is no plan. */
nib_plan *must_plan(const nib_package *package, const char *request, const char *caps);

/* ---- looking into JSON ---- */

typedef struct document {
    nib_arena arena;
    nib_value root;
} document;
void open_document(document *doc, const char *json);
void close_document(document *doc);
/* passes[0].bindings[2].name; undefined when there is no such member */
nib_value document_at(const document *doc, const char *path);
/* Fails unless the member at `path`, as compact JSON, is `expected` (or, both strings, the same
 * text). */
void expect_json(const document *doc, const char *path, const char *expected);

/* Fails unless the error says all of the `|`-separated fragments, in one line. */
void expect_message(const nib_error *error, const char *fragments);

#endif
