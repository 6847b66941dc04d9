/* SPDX-License-Identifier: Apache-2.0
 *
 * The case files of tests/lang/cases, and the bounds of an evaluation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"
#include "value/json.h"

/* ---- case files ---- */

static unsigned hex(const char *digits)
{
    char text[5] = {digits[0], digits[1], digits[2], digits[3], '\0'};
    return (unsigned)strtoul(text, NULL, 16);
}

static size_t put_code_point(char *to, unsigned code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3f));
    to[2] = (char)(0x80 | (code >> 6 & 0x3f));
    to[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* \n \r \t \\ \uXXXX (pairs of surrogates too), in place. */
static nib_str unescape(char *text, size_t length)
{
    size_t to = 0;
    for (size_t at = 0; at < length; at++) {
        if (text[at] != '\\') {
            text[to++] = text[at];
            continue;
        }
        const char c = text[++at];
        if (c != 'u') {
            text[to++] = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
            continue;
        }
        unsigned code = hex(text + at + 1);
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && at + 6 < length + 1) {
            code = 0x10000 + ((code - 0xd800) << 10) + (hex(text + at + 3) - 0xdc00);
            at += 6;
        }
        to += put_code_point(text + to, code);
    }
    return (nib_str){text, to};
}

typedef struct case_file {
    nib_arena arena;
    const nib_map *scope;
    bool expression;
    size_t passed, failed;
} case_file;

static void run_case(case_file *f, char *line)
{
    char *arrow = strstr(line, " ==> ");
    if (!arrow)
        fail_msg("not a case: %s", line);
    char *result = arrow + 5;
    const bool refused = strcmp(result, "!") == 0;
    const nib_str text = unescape(line, (size_t)(arrow - line));
    const nib_str wanted = unescape(result, strlen(result));
    outcome o = lang_run(&f->arena, f->expression, text, f->scope);
    bool ok;
    if (refused)
        ok = (o.status == NIB_SYNTAX || o.status == NIB_EVAL) && o.error.line > 0 &&
             o.error.message[0];
    else
        ok = o.status == NIB_OK && nib_str_eq(wanted, lang_text(&o));
    if (ok) {
        f->passed++;
    } else {
        f->failed++;
        print_error("%.*s\n  wanted %.*s\n  got    %.*s %s\n", NIB_STR_ARG(text),
                    NIB_STR_ARG(wanted), NIB_STR_ARG(lang_text(&o)), o.error.message);
    }
    nib_buf_free(&o.text);
}

static void run_line(case_file *f, char *line)
{
    if (strncmp(line, "@kind ", 6) == 0)
        f->expression = strcmp(line + 6, "expression") == 0;
    else if (strncmp(line, "@scope ", 7) == 0)
        f->scope = lang_json(&f->arena, line + 7).as.map;
    else if (line[0] != '\0' && line[0] != '#')
        run_case(f, line);
}

/* `least` guards against a file that was emptied by accident. */
static void run_file(const char *name, size_t least)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/lang/cases/%s", NIB_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is missing", path);
    case_file f = {.scope = NULL};
    nib_arena_init(&f.arena, &nib_default_allocator, 0);
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0;) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        run_line(&f, line);
    }
    free(line);
    fclose(file);
    nib_arena_free(&f.arena);
    print_message("%s: %zu passed, %zu failed\n", name, f.passed, f.failed);
    assert_int_equal(f.failed, 0);
    assert_true(f.passed >= least);
}

static void test_vectors(void **state)
{
    (void)state;
    run_file("vectors.txt", 138);
}

static void test_operators(void **state)
{
    (void)state;
    run_file("operators.txt", 140);
}

static void test_filters(void **state)
{
    (void)state;
    run_file("filters.txt", 380);
}

static void test_statements(void **state)
{
    (void)state;
    run_file("statements.txt", 310);
    run_file("loose.txt", 20);
}

static void test_differences(void **state)
{
    (void)state;
    run_file("../differences.txt", 15);
}

/* ---- bounds ---- */

static nib_status run_limited(const char *text, const nib_jinja_limits *limits, nib_error *error)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, (size_t)256 << 20);
    nib_buf out;
    nib_buf_init(&out, &nib_default_allocator, 0);
    const nib_program *program;
    const nib_names names = {.template_globals = true};
    nib_status status = nib_jinja_parse_template(&arena, nib_str_from(text), "t", &program, error);
    if (status == NIB_OK)
        status = nib_jinja_render(program, &names, limits, &arena, &out, NULL, error);
    nib_buf_free(&out);
    nib_arena_free(&arena);
    return status;
}

static void assert_limited(const char *text)
{
    nib_error error = {0};
    if (run_limited(text, NULL, &error) != NIB_LIMIT)
        fail_msg("no limit: %.100s: %s", text, error.message);
    assert_true(error.message[0] != '\0');
}

/* `head`, then `count` times `part`, then `tail`. */
static char *repeat(const char *head, const char *part, size_t count, const char *tail)
{
    const size_t size = strlen(head) + strlen(part) * count + strlen(tail) + 1;
    char *text = malloc(size);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, size, "%s", head);
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, size - at, "%s", part);
    snprintf(text + at, size - at, "%s", tail);
    return text;
}

static void test_deep_nesting_is_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {"(",     "[",  "{",  "not ",    "- ",
                                        "1 if ", "x[", "f(", "{\"a\":", "-"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char *text = repeat("{{ ", parts[i], 100000, " }}");
        nib_error error = {0};
        const nib_status status = run_limited(text, NULL, &error);
        assert_true(status == NIB_LIMIT || status == NIB_SYNTAX);
        free(text);
    }
    static const char *const opened[] = {"{% if 1 %}",      "{% for i in [1] %}", "{% set x %}",
                                         "{% macro f() %}", "{% filter upper %}", "{% call f() %}"};
    for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++) {
        char *text = repeat("", opened[i], 10000, "");
        assert_limited(text);
        free(text);
    }
    static const char *const chained[] = {".a", "[0]", "()", "|safe", " is defined"};
    for (size_t i = 0; i < sizeof chained / sizeof chained[0]; i++) {
        char *text = repeat("{{ x", chained[i], 100000, " }}");
        assert_limited(text);
        free(text);
    }
}

static void test_long_flat_texts_work(void **state)
{
    (void)state;
    static const struct {
        const char *head, *part, *tail;
    } texts[] = {
        {"{{ 1", " + 1", " }}"},
        {"{{ 1", " and 1", " }}"},
        {"{{ 1", " ~ 'a'", " }}"},
        {"{{ [1", ", 1", "]|length }}"},
        {"{% if 0 %}", "{% elif 0 %}", "{% endif %}"},
        {"", "{{ 1 }} ", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *text = repeat(texts[i].head, texts[i].part, 2000, texts[i].tail);
        nib_error error = {0};
        if (run_limited(text, NULL, &error) != NIB_OK)
            fail_msg("%s: %s", texts[i].part, error.message);
        free(text);
    }
}

static void test_runaway_templates_end(void **state)
{
    (void)state;
    assert_limited("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
    assert_limited(
        "{% macro f(n) %}{% if n %}{% for i in [1, 2] %}{{ f(n) }}{% endfor %}{% endif %}"
        "{% endmacro %}{{ f(1) }}");
    assert_limited("{% macro f() %}{% call f() %}x{% endcall %}{% endmacro %}{{ f() }}");
    assert_limited("{{ range(1000000000)|length }}");
    assert_limited(
        "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}");
    assert_limited(
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
        "{% endfor %}");
    assert_limited(
        "{% set ns = namespace(x=[1, 2]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}");
    assert_limited("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}"
                   "{% endfor %}{{ ns.x }}");
    assert_limited("{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = ns %}{{ ns }}");
    assert_limited("{% for i in range(100000) %}{{ 'x' * 0 if 0 else '0123456789' * 0 if 0 else "
                   "range(100) }}{% endfor %}");
    assert_limited("{{ 'a'|indent(1000000000, true) }}");
    assert_limited("{{ [1]|tojson(indent=1000000000) }}");
}

static void test_limits_can_be_set(void **state)
{
    (void)state;
    const nib_jinja_limits output = {.output_bytes = 10}, steps = {.steps = 10},
                           depth = {.depth = 5};
    nib_error error = {0};
    assert_int_equal(run_limited("0123456789", &output, &error), NIB_OK);
    assert_int_equal(run_limited("0123456789a", &output, &error), NIB_LIMIT);
    error = (nib_error){0};
    assert_int_equal(run_limited("{{ 1 }}{{ 2 }}", &steps, &error), NIB_OK);
    assert_int_equal(run_limited("{{ 1 }}{{ 2 }}{{ 1 }}{{ 2 }}{{ 1 }}{{ 2 }}", &steps, &error),
                     NIB_LIMIT);
    error = (nib_error){0};
    assert_int_equal(run_limited("{{ (1) }}", &depth, &error), NIB_OK);
    assert_int_equal(run_limited("{{ [[[1]]] }}", &depth, &error), NIB_LIMIT);
}

/* A macro that calls itself a sensible number of times works. */
static void test_recursion_within_bounds(void **state)
{
    (void)state;
    nib_error error = {0};
    assert_int_equal(
        run_limited("{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}"
                    "{{ f(100) }}",
                    NULL, &error),
        NIB_OK);
}

/* An allocator that refuses after `left` calls. */
typedef struct failing {
    size_t left;
} failing;

static void *failing_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)old_bytes;
    failing *f = user;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    if (f->left == 0)
        return NULL;
    f->left--;
    return realloc(ptr, new_bytes);
}

static void test_out_of_memory_is_reported(void **state)
{
    (void)state;
    static const char text[] = "{% macro f(a) %}{{ a|tojson(sort_keys=true) }}{% endmacro %}"
                               "{% for i in range(50) %}{{ f({'k': [i, 'x' ~ i]}) }}{% endfor %}";
    nib_status status = NIB_OUT_OF_MEMORY;
    for (size_t allowed = 0; status == NIB_OUT_OF_MEMORY && allowed < 10000; allowed++) {
        failing f = {allowed};
        const nib_allocator allocator = {failing_resize, &f};
        nib_arena arena;
        nib_arena_init(&arena, &allocator, 0);
        nib_buf out;
        nib_buf_init(&out, &allocator, 0);
        const nib_program *program;
        const nib_names names = {.template_globals = true};
        nib_error error = {0};
        status = nib_jinja_parse_template(&arena, nib_str_from(text), "t", &program, &error);
        if (status == NIB_OK)
            status = nib_jinja_render(program, &names, NULL, &arena, &out, NULL, &error);
        nib_buf_free(&out);
        nib_arena_free(&arena);
    }
    assert_int_equal(status, NIB_OK);
}

/* ---- positions ---- */

static void assert_position(const char *text, nib_status wanted, unsigned line, unsigned column)
{
    nib_error error = {0};
    const nib_status status = run_limited(text, NULL, &error);
    if (status != wanted || error.line != line || error.column != column)
        fail_msg("%s: %s at %u:%u: %s", text, nib_status_name(status), error.line, error.column,
                 error.message);
    const char *caret = strchr(error.excerpt, '^');
    assert_non_null(caret);
    assert_string_equal(error.source, "t");
}

static void test_errors_have_positions(void **state)
{
    (void)state;
    assert_position("a\n{{ 1 + }}", NIB_SYNTAX, 2, 8);
    assert_position("a\n  {% if 1 %}\n  {{ none + 1 }}\n{% endif %}", NIB_EVAL, 3, 11);
    assert_position("{{ 1 }}\n{# open", NIB_SYNTAX, 2, 1);
    assert_position("{{ 'open }}", NIB_SYNTAX, 1, 4);
    assert_position("{{ 'a\\q' }}", NIB_SYNTAX, 1, 6);
    assert_position("x\n\n{% for i in [1] %}", NIB_SYNTAX, 3, 4);
    assert_position("{% macro f() %}\n{{ [1].x.y[0] }}{% endmacro %}\n{{ f() }}", NIB_EVAL, 2, 11);
    assert_position("\n\t{%- set x = 1 -%}\n\n {{ x|nope }}", NIB_EVAL, 4, 7);
    assert_position("{{ raise_exception('boo') }}", NIB_EVAL, 1, 4);
    assert_position("{{ 1 is nope }}", NIB_EVAL, 1, 9);
    assert_position("{{ \xc3\xa9 }}", NIB_SYNTAX, 1, 4);
    assert_position("{{ $ }}", NIB_SYNTAX, 1, 4);
    assert_position("{% break %}", NIB_EVAL, 1, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_statements),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_deep_nesting_is_refused),
        cmocka_unit_test(test_long_flat_texts_work),
        cmocka_unit_test(test_runaway_templates_end),
        cmocka_unit_test(test_limits_can_be_set),
        cmocka_unit_test(test_recursion_within_bounds),
        cmocka_unit_test(test_out_of_memory_is_reported),
        cmocka_unit_test(test_errors_have_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
