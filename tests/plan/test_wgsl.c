/* SPDX-License-Identifier: Apache-2.0
 *
 * From a package folder to WGSL, through the public interface.
 */
#include "support.h"

#include "nibble/nibble.h"

#define PACKAGE NIB_SOURCE_DIR "/tests/plan/packages/twice"

static nib_package *package;

static char *render(const nib_plan *plan)
{
    char *text;
    nib_error error = {0};
    if (nib_plan_wgsl(plan, 0, &text, &error) != NIB_OK) {
        char line[2600];
        nib_error_format(&error, line, sizeof line);
        fail_msg("%s", line);
    }
    return text;
}

#define DECLARATIONS(type)                                                                         \
    "struct Params { count: u32, _pad0: u32, _pad1: u32, _pad2: u32 };\n"                          \
    "@group(0) @binding(0) var<storage, read> x: array<" type ">;\n"                               \
    "@group(0) @binding(1) var<storage, read_write> y: array<" type ">;\n"                         \
    "@group(0) @binding(2) var<uniform> params: Params;\n"
#define REST(size, sum)                                                                            \
    "@compute @workgroup_size(" size ")\n"                                                         \
    "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"                                    \
    "    if (id.x < params.count) {\n"                                                             \
    "        y[id.x] = " sum ";\n"                                                                 \
    "    }\n"                                                                                      \
    "}"

static const struct {
    const char *request, *caps, *expected;
} renderings[] = {
    {"x=float32[2,3]", NULL,
     DECLARATIONS("f32") "// 4  [2, 3] f32 false\n" REST("64", "x[id.x] + x[id.x]")},
    {"X=float16[5] +WORKGROUP=8",
     "{\"features\": [\"subgroups\"], \"limits\": {\"maxBindGroups\": 5},"
     " \"adapterInfo\": {\"vendor\": \"Acme\"}}",
     "enable f16;\nenable subgroups;\n" DECLARATIONS("f16") "// 5 acme [5] f16 true\n" REST(
         "8", "subgroupAdd(x[id.x])")},
    /* nothing runs, and rendering must still succeed (package format 7.7, step 1) */
    {"x=float32[0]", NULL,
     DECLARATIONS("f32") "// 4  [0] f32 false\n" REST("64", "x[id.x] + x[id.x]")},
};

static void templates_see_the_pass_and_the_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof renderings / sizeof renderings[0]; i++) {
        nib_plan *plan = must_plan(package, renderings[i].request, renderings[i].caps);
        char *text = render(plan);
        assert_string_equal(text, renderings[i].expected);
        nib_text_free(test_context(), text);
        nib_plan_free(plan);
    }
}

static void arithmetic_on_int64_is_refused(void **state)
{
    (void)state;
    char *text;
    nib_error error = {0};
    nib_plan *plan = must_plan(package, "x=int64[3]", NULL);
    assert_int_equal(nib_plan_wgsl(plan, 0, &text, &error), NIB_CONTRACT);
    assert_null(text);
    expect_message(&error, "pass 'main'|int64 element 'x'");
    nib_plan_free(plan);
}

static void passes_are_counted(void **state)
{
    (void)state;
    char *text;
    nib_error error = {0};
    nib_plan *plan = must_plan(package, "x=float32[3]", NULL);
    assert_int_equal(nib_plan_pass_count(plan), 1);
    assert_int_equal(nib_plan_wgsl(plan, 1, &text, &error), NIB_INVALID_ARGUMENT);
    assert_null(text);
    expect_message(&error, "1 passes|no pass 1");
    nib_plan_free(plan);
}

/* Line 14 of the rendering as "file:line"; declarations take lines 1 to 4. */
static void lines_lead_back_to_the_template(void **state)
{
    (void)state;
    char *lines = NULL, *wgsl;
    nib_error error = {0};
    nib_plan *plan = must_plan(package, "x=float16[5]", "{\"features\": [\"shader-f16\"]}");
    wgsl = render(plan);
    assert_int_equal(nib_plan_wgsl_lines(plan, 0, &lines, &error), NIB_OK);
    /* the enable directive is nobody's; a line after it is where its last text stands */
    assert_int_equal(strncmp(wgsl, "enable f16;\nstruct", 18), 0);
    assert_int_equal(lines[0], '\n');
    assert_non_null(strstr(lines, "\ntwice.wgsl.jinja:1\ntwice.wgsl.jinja:1\n"));
    const char *text = wgsl, *from = lines;
    while (strncmp(text, "fn main", 7) != 0) {
        text = strchr(text, '\n') + 1;
        from = strchr(from, '\n') + 1;
    }
    assert_int_equal(strncmp(from, "twice.wgsl.jinja:11\n", 20), 0);
    nib_text_free(test_context(), lines);
    nib_text_free(test_context(), wgsl);
    assert_int_equal(nib_plan_wgsl_lines(plan, 1, &lines, &error), NIB_INVALID_ARGUMENT);
    assert_null(lines);
    nib_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_see_the_pass_and_the_device),
        cmocka_unit_test(arithmetic_on_int64_is_refused),
        cmocka_unit_test(passes_are_counted),
        cmocka_unit_test(lines_lead_back_to_the_template),
    };
    nib_error error = {0};
    if (nib_package_load(test_context(), PACKAGE, NULL, &package, &error) != NIB_OK) {
        printf("%s\n", error.message);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    nib_package_free(package);
    free_test_context();
    return failed;
}
