/* SPDX-License-Identifier: Apache-2.0
 *
 * From template files to WGSL: includes, enable directives, the line map, errors in files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nibble/lang.h"
#include "support.h"

/* ---- a package in memory ---- */

typedef struct file {
    const char *path, *text;
} file;

typedef struct files {
    const file *items;
    size_t reads;
} files;

static nib_status read_file(void *user, nib_arena *arena, nib_str path, nib_str *text,
                            nib_error *error)
{
    files *f = user;
    f->reads++;
    for (const file *item = f->items; item->path; item++) {
        if (nib_str_is(path, item->path)) {
            *text = nib_arena_str(arena, item->text, strlen(item->text));
            return text->data ? NIB_OK : nib_fail_memory(error);
        }
    }
    return nib_fail(error, NIB_IO, "there is no file \"%.*s\"", NIB_STR_ARG(path));
}

typedef struct render {
    nib_arena arena;
    nib_buf out;
    nib_error error;
    nib_status status;
    nib_line_map lines;
    size_t reads;
} render;

static render *start(const file *items, const char *path, nib_template_options options,
                     const char *scope_text)
{
    render *r = calloc(1, sizeof *r);
    assert_non_null(r);
    nib_arena_init(&r->arena, &nib_default_allocator, 0);
    nib_buf_init(&r->out, &nib_default_allocator, 0);
    files f = {items, 0};
    const nib_template_loader loader = {read_file, &f};
    const nib_scope scope = {.frames = {lang_json(&r->arena, scope_text).as.map}, .frame_count = 1};
    options.line_map = &r->lines;
    r->status = nib_template_render_wgsl(&r->arena, nib_str_from(path), &loader, &scope, &options,
                                         &r->out, &r->error);
    r->reads = f.reads;
    return r;
}

static void finish(render *r)
{
    nib_buf_free(&r->out);
    nib_arena_free(&r->arena);
    free(r);
}

static void assert_renders(const file *items, const char *path, nib_template_options options,
                           const char *wanted)
{
    render *r = start(items, path, options, "{\"n\": 4, \"list\": [1, 2]}");
    if (r->status != NIB_OK || strcmp(r->out.data ? r->out.data : "", wanted) != 0)
        fail_msg("%s: %s, wanted %s (%s)", path, r->out.data ? r->out.data : "", wanted,
                 r->error.message);
    finish(r);
}

/* ---- includes ---- */

static const nib_template_options plain = {.infer_enables = false};

static void test_includes(void **state)
{
    (void)state;
    static const file items[] = {
        {"main", "a\n  {% include \"lib/one\" %}  \nb\n"},
        {"inline", "a {% include 'lib/one' %} b\n"},
        {"last", "a\n{% include 'lib/one' %}"},
        {"crlf", "a\r\n\t{%include\"lib/one\"%}\r\nb"},
        {"cr", "a\r{% include 'lib/one' %}\nb"},
        {"twice", "{% include 'lib/one' %}\n{% include 'lib/one' %}\n{% include 'lib/one' %}{% "
                  "include 'lib/one' %}"},
        {"false", "{% if 0 %}{% include 'lib/one' %}{% endif %}{# {% include 'lib/one' %} #}x"},
        {"nested", "{% include 'lib/two' %}\nz"},
        {"macros", "{% include 'lib/macro' %}\n{{ f(n) }}"},
        {"odd", "{% include ' lib/one' %}"},
        {"not", "{% includes 'lib/one' %}"},
        {"dashed", "{%- include 'lib/one' %}"},
        {"variable", "{% include name %}"},
        {"dots", "{% include './lib/../lib//one' %}\n{% include 'lib\\\\one' %}\n"},
        {"lib/one", "[{{ n }}]\n"},
        {"lib/two",
         "{% include './one' %}\n{% include '../lib/one' %}\n{% include \"lib/one\" %}\n"},
        {"lib/macro", "{% macro f(x) %}<{{ x }}>{% endmacro %}\n"},
        {NULL, NULL},
    };
    assert_renders(items, "main", plain, "a\n[4]\nb");
    assert_renders(items, "inline", plain, "a [4]\n b");
    assert_renders(items, "last", plain, "a\n[4]");
    assert_renders(items, "crlf", plain, "a\r\n[4]\nb");
    assert_renders(items, "cr", plain, "a\r[4]\nb");
    assert_renders(items, "twice", plain, "[4]\n[4]\n[4]\n[4]");
    assert_renders(items, "false", plain, "x");
    assert_renders(items, "nested", plain, "[4]\n[4]\n[4]\nz");
    assert_renders(items, "macros", plain, "<4>");
    assert_renders(items, "dots", plain, "[4]\n[4]");
    static const struct {
        const char *path;
        nib_status status;
    } bad[] = {{"odd", NIB_IO},
               {"not", NIB_SYNTAX},
               {"dashed", NIB_SYNTAX},
               {"variable", NIB_SYNTAX},
               {"missing", NIB_IO}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        render *r = start(items, bad[i].path, plain, "{}");
        assert_int_equal(r->status, bad[i].status);
        finish(r);
    }
}

static void test_include_keeps_line(void **state)
{
    (void)state;
    static const file items[] = {
        {"main", "a\n  {% include \"one\" %}  \nb\n"}, {"one", "x\n"}, {NULL, NULL}};
    assert_renders(items, "main", (nib_template_options){.include_keeps_line = true},
                   "a\n  x\n  \nb");
}

static void test_include_bounds(void **state)
{
    (void)state;
    static const file items[] = {
        {"a", "{% include 'b' %}"},
        {"b", "1\n{% include './c' %}"},
        {"c", "2\n\n {% include 'b' %}"},
        {"self", "{% include 'x/../self' %}"},
        {"out", "1\n{% include '../out' %}"},
        {"up", "{% include 'a/../../b' %}"},
        {"sub/out", "{% include './../../x' %}"},
        {"miss", "ok\n{% include 'nope' %}"},
        {NULL, NULL},
    };
    static const struct {
        const char *path;
        nib_status status;
        const char *source;
        unsigned line;
        const char *part;
    } cases[] = {
        {"a", NIB_SYNTAX, "c", 3, "b <- c <- b"},
        {"self", NIB_SYNTAX, "self", 1, "itself"},
        {"out", NIB_CONTRACT, "out", 2, "../out"},
        {"up", NIB_CONTRACT, "up", 1, "leaves"},
        {"sub/out", NIB_CONTRACT, "sub/out", 1, "leaves"},
        {"miss", NIB_IO, "nope", 0, "included from miss line 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        render *r = start(items, cases[i].path, plain, "{}");
        if (r->status != cases[i].status || strcmp(r->error.source, cases[i].source) != 0 ||
            r->error.line != cases[i].line || !strstr(r->error.message, cases[i].part))
            fail_msg("%s: %s %s:%u %s", cases[i].path, nib_status_name(r->status), r->error.source,
                     r->error.line, r->error.message);
        finish(r);
    }
}

/* Few small files that would include each other exponentially often. */
static void test_include_explosion_is_refused(void **state)
{
    (void)state;
    char paths[31][16], texts[31][64];
    file items[32] = {{NULL, NULL}};
    for (int i = 0; i < 31; i++) {
        snprintf(paths[i], sizeof paths[i], "f%d", i);
        snprintf(texts[i], sizeof texts[i], "{%% include 'f%d' %%}{%% include 'f%d' %%}", i + 1,
                 i + 1);
        items[i] = (file){paths[i], i == 30 ? "" : texts[i]};
    }
    render *r = start(items, "f0", plain, "{}");
    assert_int_equal(r->status, NIB_LIMIT);
    assert_true(r->reads < 100);
    finish(r);
}

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *base, *path, *wanted; /* NULL: refused */
    } cases[] = {
        {"", "a/b", "a/b"},
        {"x", "a/b", "a/b"},
        {"x", "./a", "x/a"},
        {"x/y/", "../a", "x/a"},
        {"x", "../a", "a"},
        {"x", "../../a", NULL},
        {"", "..", NULL},
        {"", "a/../..", NULL},
        {"", "/a//b/", "a/b"},
        {"", "a\\b\\..\\c", "a/c"},
        {"x", ".", "x"},
        {"", ".", ""},
        {"x", ".hidden", "x/.hidden"},
        {"", "a/./b", "a/b"},
        {"", "...", "..."},
    };
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_str out;
        nib_error error = {0};
        const nib_status status = nib_template_normalise_path(
            &arena, nib_str_from(cases[i].base), nib_str_from(cases[i].path), &out, &error);
        if (!cases[i].wanted)
            assert_int_equal(status, NIB_CONTRACT);
        else if (status != NIB_OK || !nib_str_is(out, cases[i].wanted))
            fail_msg("%s + %s: %s", cases[i].base, cases[i].path,
                     status ? error.message : out.data);
    }
    nib_arena_free(&arena);
}

/* ---- errors ---- */

static void test_errors_name_the_included_file(void **state)
{
    (void)state;
    static const file items[] = {
        {"main", "one\n{% include \"lib/bad\" %}\ntwo\n{{ n + none }}\n"},
        {"lib/bad", "x\n  {{ n }}\n  {{ n * }}\n"},
        {"late", "{% include \"lib/good\" %}\ntwo\n  {{ n + none }}\n"},
        {"lib/good", "{# three\nlines #}\n{{ n }}\n"},
        {"call", "{% include \"lib/macro\" %}\n\n{{ f(none) }}"},
        {"lib/macro", "\n{% macro f(x) %}\n    {{ x + 1 }}\n{% endmacro %}\n"},
        {NULL, NULL},
    };
    static const struct {
        const char *path, *source, *excerpt;
        nib_status status;
        unsigned line, column;
    } cases[] = {
        {"main", "lib/bad", "  {{ n * }}\n         ^", NIB_SYNTAX, 3, 10},
        {"late", "late", "  {{ n + none }}\n       ^", NIB_EVAL, 3, 8},
        {"call", "lib/macro", "    {{ x + 1 }}\n         ^", NIB_EVAL, 3, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        render *r = start(items, cases[i].path, plain, "{\"n\": 1}");
        if (r->status != cases[i].status || strcmp(r->error.source, cases[i].source) != 0 ||
            r->error.line != cases[i].line || r->error.column != cases[i].column ||
            strcmp(r->error.excerpt, cases[i].excerpt) != 0)
            fail_msg("%s: %s %s:%u:%u %s\n%s", cases[i].path, nib_status_name(r->status),
                     r->error.source, r->error.line, r->error.column, r->error.message,
                     r->error.excerpt);
        finish(r);
    }
}

/* ---- line map ---- */

static void test_line_map(void **state)
{
    (void)state;
    static const file items[] = {
        {"main", "{# head #}\n"                 /* 1 */
                 "{% set k = 3 %}\n"            /* 2 */
                 "fn main() {\n"                /* 3 -> out 2 */
                 "{% for i in list %}\n"        /* 4 */
                 "  let a{{ i }} = {{ i }}h;\n" /* 5 -> out 3, 4 */
                 "{% endfor %}\n"               /* 6 */
                 "{% include 'body' %}\n"       /* 7 */
                 "  {{ 'x\ny' }}\n"             /* 8, 9 -> out 7, 8 */
                 "}\n"},                        /* 10 -> out 9 */
        {"body", "\n  b();\n"},                 /* out 5, 6 */
        {NULL, NULL},
    };
    static const struct {
        const char *file;
        unsigned line;
    } wanted[] = {{"", 0},     {"main", 3}, {"main", 5}, {"main", 5}, {"body", 1},
                  {"body", 2}, {"main", 8}, {"main", 9}, {"main", 10}};
    render *r =
        start(items, "main", (nib_template_options){.infer_enables = true}, "{\"list\": [1, 2]}");
    assert_int_equal(r->status, NIB_OK);
    assert_string_equal(
        r->out.data,
        "enable f16;\nfn main() {\n  let a1 = 1h;\n  let a2 = 2h;\n\n  b();\n  x\ny\n}");
    assert_int_equal(r->lines.count, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < r->lines.count; i++) {
        if (!nib_str_is(r->lines.lines[i].file, wanted[i].file) ||
            r->lines.lines[i].line != wanted[i].line)
            fail_msg("output line %zu: %.*s:%u", i + 1, NIB_STR_ARG(r->lines.lines[i].file),
                     r->lines.lines[i].line);
    }
    finish(r);
}

/* Text of an iteration that "continue" drops does not count. */
static void test_line_map_of_dropped_text(void **state)
{
    (void)state;
    static const file items[] = {
        {"main", "{% for i in list %}\na\nb\n{% if i == 1 %}{% continue %}{% endif %}\nc{{ i "
                 "}}\n{% endfor %}\nend"},
        {NULL, NULL},
    };
    render *r = start(items, "main", plain, "{\"list\": [1, 2]}");
    assert_string_equal(r->out.data, "a\nb\nc2\nend");
    static const unsigned lines[] = {2, 3, 5, 7};
    assert_int_equal(r->lines.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(r->lines.lines[i].line, lines[i]);
    finish(r);
}

/* ---- enable directives ---- */

static void assert_enables(const char *wgsl, const char *wanted)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_buf out;
    nib_buf_init(&out, &nib_default_allocator, 0);
    nib_template_enables(&arena, nib_str_from(wgsl), &out);
    if (strcmp(out.data ? out.data : "", wanted) != 0)
        fail_msg("%s: %s, wanted %s", wgsl, out.data ? out.data : "", wanted);
    nib_buf_free(&out);
    nib_arena_free(&arena);
}

static void test_enable_f16(void **state)
{
    (void)state;
    static const char *const with[] = {
        "f16",
        "var x: f16;",
        "vec2<f16>",
        "2h",
        "1.0h",
        "1.h",
        ".5h",
        "1e5h",
        "1.5e-3h",
        "0x1p3h",
        "0x1.8p-3h",
        "0X.8P3h",
        "(2h)",
        "-2h",
        "a=1h+x",
        "f16(1)",
        "1.e5h",
        "enable f32;\nf16",
        "enable f16\nf16",
        " x enable f16; f16",
        "/* enable f16; */ f16",
        "enable f16x; f16",
        "a /*b*/ f16",
        "// c\nf16",
        "x\rf16",
    };
    static const char *const without[] = {
        "",
        "f32",
        "af16",
        "f16x",
        "f16_t",
        "_f16",
        "x2h",
        "2hx",
        "a.5h",
        "1.2.3h",
        "0x1h",
        "0x1.8h",
        "1eh",
        "h",
        "e5h",
        "// f16",
        "/* f16 */",
        "/* a /* f16 */ f16 */",
        "f/**/16x",
        "enable f16;\nf16",
        "  enable f16 ;\nf16",
        "\tenable subgroups, f16;\nf16",
        "enable\n f16,\n subgroups;\nf16",
        "enable /* c */ f16;\nf16",
        "2 h",
        "0x2h",
        "x\nenable f16; 2h",
    };
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        assert_enables(with[i], "enable f16;\n");
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        assert_enables(without[i], "");
}

static void test_enable_subgroups(void **state)
{
    (void)state;
    static const char *const functions[] = {
        "subgroupAdd",
        "subgroupExclusiveAdd",
        "subgroupInclusiveAdd",
        "subgroupMul",
        "subgroupExclusiveMul",
        "subgroupInclusiveMul",
        "subgroupAnd",
        "subgroupOr",
        "subgroupXor",
        "subgroupMin",
        "subgroupMax",
        "subgroupAll",
        "subgroupAny",
        "subgroupBallot",
        "subgroupElect",
        "subgroupBroadcast",
        "subgroupBroadcastFirst",
        "subgroupShuffle",
        "subgroupShuffleXor",
        "subgroupShuffleUp",
        "subgroupShuffleDown",
        "quadBroadcast",
        "quadSwapX",
        "quadSwapY",
        "quadSwapDiagonal",
    };
    char text[64];
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        snprintf(text, sizeof text, "x = %s \n(a);", functions[i]);
        assert_enables(text, "enable subgroups;\n");
        snprintf(text, sizeof text, "x = %s;", functions[i]);
        assert_enables(text, "");
        snprintf(text, sizeof text, "my_%s(a);", functions[i]);
        assert_enables(text, "");
    }
    static const char *const with[] = {
        "@builtin(subgroup_size) s: u32",
        "@builtin ( subgroup_invocation_id ) s",
        "@builtin(\nnum_subgroups)",
        "@builtin(subgroup_id)",
        "subgroupAdd/* */(x)",
    };
    static const char *const without[] = {
        "@builtin(position)",
        "@builtin(subgroup_sizes)",
        "subgroup_size",
        "subgroupFoo(1)",
        "enable subgroups;\nsubgroupAdd(x)",
        "// subgroupAdd(x)",
        "@builtin(local_invocation_id)",
    };
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        assert_enables(with[i], "enable subgroups;\n");
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        assert_enables(without[i], "");
}

static void test_enable_order(void **state)
{
    (void)state;
    assert_enables("@subgroup_size (32) fn", "enable subgroup_size_control;\n");
    assert_enables("@subgroup_size fn", "");
    assert_enables("enable subgroup_size_control;\n@subgroup_size(32)", "");
    assert_enables("@subgroup_size(32) subgroupAdd(2h)",
                   "enable f16;\nenable subgroups;\nenable subgroup_size_control;\n");
    assert_enables("enable subgroups;\n@subgroup_size(32) subgroupAdd(2h)",
                   "enable f16;\nenable subgroup_size_control;\n");
}

static void test_strip_comments(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"a // b\nc", "a \nc"}, {"a /* b\nc */ d", "a \n d"},
        {"/*/* a */*/b", "b"},  {"a /* b", "a "},
        {"a / b", "a / b"},     {"a//", "a"},
        {"//*\nb", "\nb"},      {"/* // */a", "a"},
        {"a*/b", "a*/b"},       {"", ""},
    };
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const nib_str out = nib_template_strip_comments(&arena, nib_str_from(cases[i].text));
        if (!nib_str_is(out, cases[i].wanted))
            fail_msg("%s: %.*s", cases[i].text, NIB_STR_ARG(out));
    }
    nib_arena_free(&arena);
}

static void test_enables_are_prepended(void **state)
{
    (void)state;
    static const file items[] = {{"main", "// {{ n }}\nvar x: f16;\n"}, {NULL, NULL}};
    assert_renders(items, "main", (nib_template_options){.infer_enables = true},
                   "enable f16;\n// 4\nvar x: f16;");
    assert_renders(items, "main", plain, "// 4\nvar x: f16;");
}

/* ---- include/nibble/lang.h ---- */

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void test_public_render(void **state)
{
    (void)state;
    char directory[] = "/tmp/nibble-template-XXXXXX";
    assert_non_null(mkdtemp(directory));
    write_file(directory, "inc", "<{{ n }}>");
    write_file(directory, "bad", "\n{{ 1 + }}");
    nib_context *context;
    nib_error error = {0};
    char *text;
    assert_int_equal(nib_context_create(NULL, &context, &error), NIB_OK);
    const nib_render_options options = {
        .name = "dir/t.jinja", .directory = directory, .infer_enables = true};
    assert_int_equal(nib_template_render(context, "{{ n }}h {% include './inc' %}", "{\"n\": 2}",
                                         &options, &text, &error),
                     NIB_OK);
    assert_string_equal(text, "enable f16;\n2h <2>");
    nib_text_free(context, text);
    assert_int_equal(
        nib_template_render(context, "{{ 1 }}\n{{ ceilDiv(3, 2) }}", NULL, NULL, &text, &error),
        NIB_OK);
    assert_string_equal(text, "1\n2");
    nib_text_free(context, text);
    assert_int_equal(nib_template_render(context, "\n{{ x + 1 }}", NULL, &options, &text, &error),
                     NIB_EVAL);
    assert_string_equal(error.source, "dir/t.jinja");
    assert_int_equal(error.line, 2);
    assert_null(text);
    error = (nib_error){0};
    assert_int_equal(
        nib_template_render(context, "{% include 'bad' %}", NULL, &options, &text, &error),
        NIB_SYNTAX);
    assert_string_equal(error.source, "bad");
    assert_int_equal(error.line, 2);
    error = (nib_error){0};
    assert_int_equal(nib_template_render(context, "{% include 'inc' %}", NULL, NULL, &text, &error),
                     NIB_IO);
    error = (nib_error){0};
    assert_int_equal(
        nib_template_render(context, "{% include '../x' %}", NULL, &options, &text, &error),
        NIB_CONTRACT);
    error = (nib_error){0};
    assert_int_equal(
        nib_template_render(context, "{% include 'nope' %}", NULL, &options, &text, &error),
        NIB_IO);
    assert_int_equal(nib_template_render(context, NULL, NULL, NULL, &text, NULL),
                     NIB_INVALID_ARGUMENT);
    nib_context_free(context);
    char path[512];
    snprintf(path, sizeof path, "%s/inc", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/bad", directory);
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_includes),
        cmocka_unit_test(test_include_keeps_line),
        cmocka_unit_test(test_include_bounds),
        cmocka_unit_test(test_include_explosion_is_refused),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_errors_name_the_included_file),
        cmocka_unit_test(test_line_map),
        cmocka_unit_test(test_line_map_of_dropped_text),
        cmocka_unit_test(test_enable_f16),
        cmocka_unit_test(test_enable_subgroups),
        cmocka_unit_test(test_enable_order),
        cmocka_unit_test(test_strip_comments),
        cmocka_unit_test(test_enables_are_prepended),
        cmocka_unit_test(test_public_render),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
