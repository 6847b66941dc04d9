/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "support.h"
#include "value/json.h"

static nib_status parse(nib_arena *arena, const char *text, size_t bytes, nib_value *out,
                        nib_error *error)
{
    return nib_json_parse(arena, text, bytes, "doc.json", out, error);
}

static void assert_written(const char *text, nib_json_style style, const char *wanted)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_buf buf;
    nib_buf_init(&buf, &nib_default_allocator, 0);
    nib_json_write(&buf, lang_json(&arena, text), style);
    assert_int_equal(buf.status, NIB_OK);
    assert_string_equal(buf.data, wanted);
    nib_buf_free(&buf);
    nib_arena_free(&arena);
}

static void test_reads_and_writes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *compact;
    } cases[] = {
        {"{\"b\": 1, \"a\": [true, false, null, -0.5e1]}", "{\"b\":1,\"a\":[true,false,null,-5]}"},
        {" [ ] ", "[]"},
        {"{}", "{}"},
        {"\"\\u00e9\\ud83d\\ude00\\n\\\"\"", "\"\xc3\xa9\xf0\x9f\x98\x80\\n\\\"\""},
        {"1e2", "100"},
        {"12345678901234567890", "12345678901234567000"},
        {"-0", "0"},
        {"0.1", "0.1"},
        {"\"a\\u0000b\"", "\"a\\u0000b\""},
        {"\"\\u001f\\/\"", "\"\\u001f/\""},
        {"[[[]],{\"a\":{}}]", "[[[]],{\"a\":{}}]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_written(cases[i].text, (nib_json_style){0}, cases[i].compact);
    assert_written("{\"a\": [1, {}], \"b\": []}", (nib_json_style){.spaced = true},
                   "{\"a\": [1, {}], \"b\": []}");
    assert_written("{\"a\": [1, {}], \"b\": []}", (nib_json_style){.indent = 2},
                   "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
}

static void test_what_json_cannot_say_is_null(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_list *list = nib_list_new(&arena, 4);
    assert_true(nib_list_push(&arena, list, nib_value_float((double)NAN)) &&
                nib_list_push(&arena, list, nib_value_float((double)INFINITY)) &&
                nib_list_push(&arena, list, NIB_UNDEFINED) &&
                nib_list_push(&arena, list, NIB_NULL));
    nib_buf buf;
    nib_buf_init(&buf, &nib_default_allocator, 0);
    nib_json_write(&buf, nib_value_of_list(list), (nib_json_style){0});
    assert_string_equal(buf.data, "[null,null,null,null]");
    nib_buf_free(&buf);
    nib_arena_free(&arena);
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned line;
    } cases[] = {
        {"", 1},
        {"{", 1},
        {"[1,]", 1},
        {"{\"a\":1,}", 1},
        {"[1 2]", 1},
        {"\n\n[01]", 3},
        {"[.5]", 1},
        {"[5.]", 1},
        {"[+1]", 1},
        {"[NaN]", 1},
        {"[Infinity]", 1},
        {"nul", 1},
        {"'a'", 1},
        {"{a:1}", 1},
        {"\"a", 1},
        {"\"\\x\"", 1},
        {"\"\\ud800\"", 1},
        {"\"a\nb\"", 1},
        {"[1]\n x", 2},
        {"{\"a\":1,\n\"a\":2}", 2},
        {"// c\n1", 1},
        {"1e400", 1},
        {"\xef\xbb\xbf{}", 1},
        {"\"\xff\"", 1},
        {"\"\xc0\x80\"", 1},
        {"\"\xed\xa0\x80\"", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_arena arena;
        nib_arena_init(&arena, &nib_default_allocator, 0);
        nib_value value;
        nib_error error = {0};
        const nib_status status =
            parse(&arena, cases[i].text, strlen(cases[i].text), &value, &error);
        if (status != NIB_FORMAT || error.line != cases[i].line)
            fail_msg("%s: %s line %u: %s", cases[i].text, nib_status_name(status), error.line,
                     error.message);
        assert_string_equal(error.source, "doc.json");
        assert_int_equal(value.type, NIB_VALUE_UNDEFINED);
        nib_arena_free(&arena);
    }
}

static void test_position(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    static const char text[] = "{\n  \"a\": tru\n}";
    nib_value value;
    nib_error error = {0};
    assert_int_equal(parse(&arena, text, strlen(text), &value, &error), NIB_FORMAT);
    assert_int_equal(error.line, 2);
    assert_true(error.column >= 8 && error.column <= 11);
    assert_non_null(strstr(error.excerpt, "tru"));
    nib_arena_free(&arena);
}

static nib_status parse_nested(unsigned depth, nib_error *error)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    char *text = malloc(2 * depth);
    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    nib_value value;
    const nib_status status = parse(&arena, text, 2 * depth, &value, error);
    free(text);
    nib_arena_free(&arena);
    return status;
}

static void test_depth(void **state)
{
    (void)state;
    nib_error error = {0};
    assert_int_equal(parse_nested(NIB_JSON_MAX_DEPTH, &error), NIB_OK);
    assert_int_equal(parse_nested(NIB_JSON_MAX_DEPTH + 1, &error), NIB_LIMIT);
    error = (nib_error){0};
    assert_int_equal(parse_nested(1000000, &error), NIB_LIMIT);
    assert_string_equal(error.source, "doc.json");
}

static void test_memory_limit(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 100);
    static const char text[] = "[\"0123456789\", \"0123456789\", \"0123456789\", \"0123456789\"]";
    nib_value value;
    nib_error error = {0};
    assert_int_equal(parse(&arena, text, strlen(text), &value, &error), NIB_OUT_OF_MEMORY);
    nib_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_and_writes),
        cmocka_unit_test(test_what_json_cannot_say_is_null),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_position),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_memory_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
