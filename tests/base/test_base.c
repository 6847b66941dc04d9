/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/checked.h"
#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"

/* An allocator that checks the sizes it is given back, and fails from a chosen call on. */
typedef struct counting {
    size_t live_bytes, calls, fail_from;
} counting;

static void *counting_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    counting *c = user;
    c->calls++;
    if (new_bytes && c->fail_from && c->calls >= c->fail_from)
        return NULL;
    char *block = ptr ? (char *)ptr - 16 : NULL;
    if (block) {
        size_t recorded;
        memcpy(&recorded, block, sizeof recorded);
        assert_int_equal(recorded, old_bytes);
    } else {
        assert_int_equal(old_bytes, 0);
    }
    c->live_bytes += new_bytes - old_bytes;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    block = realloc(block, new_bytes + 16);
    assert_non_null(block);
    memcpy(block, &new_bytes, sizeof new_bytes);
    return block + 16;
}

static void every_status_has_a_name_and_a_text(void **state)
{
    (void)state;
#define XX(name, value, text)                                                                      \
    assert_string_equal(nib_status_name(NIB_##name), "NIB_" #name);                                \
    assert_string_equal(nib_status_text(NIB_##name), text);
    NIB_STATUS_MAP(XX)
#undef XX
    assert_string_equal(nib_status_name((nib_status)999), "NIB_UNKNOWN");
}

static void the_first_failure_wins(void **state)
{
    (void)state;
    nib_error error = {0};
    assert_int_equal(nib_fail(&error, NIB_IO, "first %d", 1), NIB_IO);
    assert_int_equal(nib_fail(&error, NIB_EVAL, "second"), NIB_EVAL);
    assert_int_equal(error.code, NIB_IO);
    assert_string_equal(error.message, "first 1");
    assert_int_equal(nib_fail(NULL, NIB_IO, "no error object"), NIB_IO);
}

static void messages_are_one_line(void **state)
{
    (void)state;
    nib_error error = {0};
    (void)nib_fail(&error, NIB_IO, "a\nb");
    assert_string_equal(error.message, "a b");
}

static void json_paths_grow_from_the_inside(void **state)
{
    (void)state;
    nib_error error = {0};
    (void)nib_fail(&error, NIB_CONTRACT, "bad");
    nib_error_path_prefix(&error, "x");
    nib_error_path_prefix(&error, "dispatch");
    nib_error_path_prefix(&error, "passes[%d]", 0);
    nib_error_path_prefix(&error, "variants[%d]", 2);
    nib_error_source(&error, "manifest.json");
    char line[512];
    nib_error_format(&error, line, sizeof line);
    assert_string_equal(line, "manifest.json: variants[2].passes[0].dispatch.x: bad");
}

static void positions_have_a_caret(void **state)
{
    (void)state;
    const char text[] = "one\ntwo + + three\nfour";
    nib_error error = {0};
    (void)nib_fail(&error, NIB_SYNTAX, "unexpected +");
    nib_error_position(&error, text, sizeof text - 1, 10);
    assert_int_equal(error.line, 2);
    assert_int_equal(error.column, 7);
    assert_string_equal(error.excerpt, "two + + three\n      ^");
}

static void a_caret_in_a_very_long_line_stays_inside(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    for (size_t offset = 0; offset <= sizeof text; offset += 97) {
        nib_error error = {0};
        nib_error_position(&error, text, sizeof text, offset);
        assert_int_equal(error.column, offset + 1);
        const char *caret = strchr(error.excerpt, '^');
        assert_non_null(caret);
        assert_true((size_t)(caret - error.excerpt) < sizeof error.excerpt);
    }
}

static void arenas_align_zero_and_stop_at_their_limit(void **state)
{
    (void)state;
    counting c = {0};
    const nib_allocator allocator = {counting_resize, &c};
    nib_arena arena;
    nib_arena_init(&arena, &allocator, 100000);
    for (size_t n = 0; n < 200; n += 7) {
        unsigned char *p = nib_arena_alloc(&arena, n, 1);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
    }
    assert_non_null(nib_arena_alloc(&arena, 50000, 1));
    assert_null(nib_arena_alloc(&arena, 50000, 1));
    assert_null(nib_arena_alloc(&arena, SIZE_MAX / 2, 4));
    nib_arena_free(&arena);
    assert_int_equal(c.live_bytes, 0);
}

static void buffers_keep_their_first_failure(void **state)
{
    (void)state;
    counting c = {0};
    const nib_allocator allocator = {counting_resize, &c};
    nib_buf buf;
    nib_buf_init(&buf, &allocator, 300);
    for (int i = 0; i < 40; i++)
        nib_buf_printf(&buf, "%08d", i);
    nib_buf_puts(&buf, "x");
    nib_error error = {0};
    assert_int_equal(nib_buf_check(&buf, "the text", &error), NIB_LIMIT);
    assert_string_equal(error.message, "the text is longer than 300 bytes");
    char *text;
    assert_int_equal(nib_buf_take(&buf, "the text", &text, NULL), NIB_LIMIT);
    assert_null(text);
    assert_int_equal(c.live_bytes, 0);
}

static void texts_go_back_to_the_context_they_came_from(void **state)
{
    (void)state;
    counting c = {0};
    const nib_context_options options = {.allocator = {counting_resize, &c}};
    nib_context *context;
    assert_int_equal(nib_context_create(&options, &context, NULL), NIB_OK);
    nib_buf buf;
    nib_buf_init(&buf, &context->allocator, 0);
    nib_buf_puts(&buf, "hello");
    char *text;
    assert_int_equal(nib_buf_take(&buf, "text", &text, NULL), NIB_OK);
    assert_string_equal(text, "hello");
    nib_text_free(context, text);
    nib_text_free(context, NULL);
    nib_context_free(context);
    nib_context_free(NULL);
    assert_int_equal(c.live_bytes, 0);
}

static void a_failing_allocator_is_a_status(void **state)
{
    (void)state;
    counting c = {.fail_from = 1};
    const nib_context_options options = {.allocator = {counting_resize, &c}};
    nib_context *context = (nib_context *)&c;
    nib_error error = {0};
    assert_int_equal(nib_context_create(&options, &context, &error), NIB_OUT_OF_MEMORY);
    assert_null(context);
    assert_int_equal(error.code, NIB_OUT_OF_MEMORY);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t out;
    assert_false(nib_size_mul(SIZE_MAX / 2, 3, &out));
    assert_false(nib_size_add(SIZE_MAX, 1, &out));
    assert_false(nib_size_align(SIZE_MAX - 2, 16, &out));
    assert_true(nib_size_align(33, 16, &out));
    assert_int_equal(out, 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_text),
        cmocka_unit_test(the_first_failure_wins),
        cmocka_unit_test(messages_are_one_line),
        cmocka_unit_test(json_paths_grow_from_the_inside),
        cmocka_unit_test(positions_have_a_caret),
        cmocka_unit_test(a_caret_in_a_very_long_line_stays_inside),
        cmocka_unit_test(arenas_align_zero_and_stop_at_their_limit),
        cmocka_unit_test(buffers_keep_their_first_failure),
        cmocka_unit_test(texts_go_back_to_the_context_they_came_from),
        cmocka_unit_test(a_failing_allocator_is_a_status),
        cmocka_unit_test(sizes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
