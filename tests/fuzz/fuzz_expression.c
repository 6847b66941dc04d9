/* SPDX-License-Identifier: Apache-2.0
 *
 * A manifest expression: evaluating it twice must give the same, and a refusal must say where.
 */
#include <stdint.h>
#include <stdlib.h>

#include "expr/expr.h"
#include "value/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static const char scope_text[] =
    "{\"n\": 7, \"m\": -3, \"h\": 0.5, \"s\": \"h\\u00e9llo \\ud83d\\ude00\", \"l\": [4, 5, 6], "
    "\"o\": {\"a\": 1, \"b\": [1]},"
    " \"shapes\": {\"A\": [2, 3, 4]}, \"t\": true, \"nul\": null}";

typedef struct outcome {
    nib_status status;
    nib_buf text;
} outcome;

static outcome evaluate(nib_str text)
{
    outcome o = {.status = NIB_OK};
    nib_arena arena;
    nib_value scope_value, value;
    nib_error error = {0};
    nib_expr expr;
    nib_arena_init(&arena, &nib_default_allocator, (size_t)64 << 20);
    nib_buf_init(&o.text, &nib_default_allocator, 0);
    require(nib_json_parse(&arena, scope_text, sizeof scope_text - 1, "scope", &scope_value,
                           &error) == NIB_OK);
    const nib_scope scope = {
        .frames = {scope_value.as.map}, .frame_count = 1, .list_dialect = true};
    o.status = nib_expr_compile(&arena, text, &expr, &error);
    if (o.status == NIB_OK)
        o.status = nib_expr_eval(&expr, &scope, &arena, &value, &error);
    if (o.status == NIB_OK)
        nib_json_write(&o.text, value, (nib_json_style){0});
    else
        require(error.code == o.status && error.message[0] && error.line > 0);
    require(o.status == NIB_OK || o.status == NIB_SYNTAX || o.status == NIB_EVAL ||
            o.status == NIB_LIMIT);
    nib_arena_free(&arena);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    outcome first = evaluate((nib_str){(const char *)data, size});
    outcome second = evaluate((nib_str){(const char *)data, size});
    require(first.status == second.status && first.text.len == second.text.len);
    require(first.text.len == 0 || memcmp(first.text.data, second.text.data, first.text.len) == 0);
    nib_buf_free(&first.text);
    nib_buf_free(&second.text);
    return 0;
}
