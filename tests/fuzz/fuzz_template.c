/* SPDX-License-Identifier: Apache-2.0
 *
 * A template under tight limits: rendering it twice must give the same text, with a trace that fits
 * it, and whatever comes out is fit for the scanners that look at WGSL.
 */
#include <stdint.h>
#include <stdlib.h>

#include "template/template.h"
#include "value/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static const char scope_text[] =
    "{\"n\": 7, \"s\": \"text\", \"l\": [4, 5, 6], \"o\": {\"a\": 1, \"b\": [1]}, \"t\": true}";

typedef struct outcome {
    nib_status status;
    nib_buf text;
} outcome;

static void check_trace(const nib_render_trace *trace, size_t output_bytes, size_t source_bytes)
{
    for (size_t i = 0; i < trace->count; i++) {
        require(trace->marks[i].output_offset <= output_bytes);
        require(trace->marks[i].source_offset <= source_bytes);
        require(i == 0 || trace->marks[i].output_offset >= trace->marks[i - 1].output_offset);
    }
}

static void check_scanners(nib_arena *arena, nib_str text)
{
    nib_buf enables;
    nib_buf_init(&enables, arena->allocator, 0);
    nib_template_enables(arena, text, &enables);
    nib_buf_free(&enables);
    require(nib_template_strip_comments(arena, text).len <= text.len);
}

static outcome render(nib_str text)
{
    static const nib_jinja_limits limits = {.output_bytes = 1 << 16, .steps = 50000, .depth = 300};
    outcome o = {.status = NIB_OK};
    nib_arena arena;
    nib_value scope_value;
    nib_error error = {0};
    const nib_program *program;
    nib_render_trace trace = {0};
    nib_arena_init(&arena, &nib_default_allocator, (size_t)64 << 20);
    nib_buf_init(&o.text, &nib_default_allocator, 0);
    require(nib_json_parse(&arena, scope_text, sizeof scope_text - 1, "scope", &scope_value,
                           &error) == NIB_OK);
    const nib_scope scope = {.frames = {scope_value.as.map}, .frame_count = 1};
    const nib_names names = {.lookup = nib_scope_lookup, .user = &scope, .template_globals = true};
    o.status = nib_jinja_parse_template(&arena, text, "input", &program, &error);
    if (o.status == NIB_OK)
        o.status = nib_jinja_render(program, &names, &limits, &arena, &o.text, &trace, &error);
    if (o.status == NIB_OK) {
        check_trace(&trace, o.text.len, text.len);
        check_scanners(&arena, (nib_str){o.text.data ? o.text.data : "", o.text.len});
    } else {
        require(error.code == o.status && error.message[0] && error.line > 0);
        require(o.status == NIB_SYNTAX || o.status == NIB_EVAL || o.status == NIB_LIMIT);
    }
    nib_arena_free(&arena);
    return o;
}

static nib_status include_itself(void *user, nib_arena *arena, nib_str path, nib_str *text,
                                 nib_error *error)
{
    const nib_str *input = user;
    *text = nib_arena_str(arena, input->data, path.len < input->len ? input->len - path.len : 0);
    return text->data ? NIB_OK : nib_fail_memory(error);
}

static void expand(nib_str text)
{
    nib_arena arena;
    nib_str out;
    nib_error error = {0};
    const nib_template_loader loader = {include_itself, &text};
    nib_arena_init(&arena, &nib_default_allocator, (size_t)64 << 20);
    const nib_status status =
        nib_template_expand(&arena, NIB_STR("in"), &loader, text.len % 2, &out, &error);
    require(status == NIB_OK || error.message[0]);
    nib_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const nib_str text = {(const char *)data, size};
    outcome first = render(text), second = render(text);
    require(first.status == second.status && first.text.len == second.text.len);
    require(first.text.len == 0 || memcmp(first.text.data, second.text.data, first.text.len) == 0);
    nib_buf_free(&first.text);
    nib_buf_free(&second.text);
    expand(text);
    return 0;
}
