/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch sizes of both dialects (package format 2.A.14, 2.B.5).
 */
#include "support.h"

static nib_package *map_package(const char *dispatch)
{
    char quoted[2048];
    snprintf(quoted, sizeof quoted,
             "{'name': 'G', 'inputs': {'x': {'dtype': 'float32'}},"
             " 'outputs': {'y': {'dtype': 'float32', 'shape': 'shapes.x'}},"
             " 'attributes': {'n': {'default': 1}, 'm': {'default': 1}},"
             " 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's.wgsl.jinja',"
             " 'bindings': ['x', 'y'], 'dispatch': %s}]}]}",
             dispatch);
    return package_from_quoted(quoted);
}

static nib_package *list_package(const char *dispatch)
{
    char quoted[2048];
    snprintf(quoted, sizeof quoted,
             "{'name': 'G', 'inputs': [{'role': 'X', 'dtype': 'float32'}],"
             " 'outputs': [{'role': 'Y', 'dtype': 'float32', 'shape': 'shapes.X'}],"
             " 'args': {'x': {'kind': 'tensor', 'semantic': 'X', 'role': 'input'},"
             "          'y': {'kind': 'tensor', 'semantic': 'Y', 'role': 'output'}},"
             " 'attributes': {'n': 1, 'm': 1},"
             " 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's.wgsl.jinja',"
             " 'bindings': [{'name': 'x', 'arg': 'x', 'buffer': {'type': 'read-only-storage'}, "
             "'elementType': 'f32'},"
             "              {'name': 'y', 'arg': 'y', 'buffer': {'type': 'storage'}, "
             "'elementType': 'f32'}],"
             " 'dispatch': %s}]}]}",
             dispatch);
    return package_from_quoted(quoted);
}

typedef struct geometry_case {
    const char *dispatch;
    const char *request; /* attributes n and m */
    const char *caps;
    const char *expected;
} geometry_case;

#define SMALL "{\"limits\": {\"maxComputeWorkgroupsPerDimension\": 100}}"

static void run_ok(nib_package *package, const geometry_case *c)
{
    char request[256], text[64];
    snprintf(request, sizeof request, "x=float32[5] %s", c->request);
    nib_plan *plan = must_plan(package, request, c->caps);
    const unsigned *d = plan->passes[0].dispatch;
    snprintf(text, sizeof text, "%u %u %u%s", d[0], d[1], d[2],
             plan->passes[0].active ? "" : " inactive");
    if (strcmp(text, c->expected) != 0)
        fail_msg("%s with %s is %s and not %s", c->dispatch, c->request, text, c->expected);
    nib_plan_free(plan);
    free_package(package);
}

static void run_wrong(nib_package *package, nib_status status, const geometry_case *c)
{
    char request[256];
    snprintf(request, sizeof request, "x=float32[5] %s", c->request);
    planned result = plan_text(package, request, c->caps);
    if (result.status != status)
        fail_msg("%s with %s: %s %s", c->dispatch, c->request, nib_status_name(result.status),
                 result.error.message);
    expect_message(&result.error, c->expected);
    free_package(package);
}

static void map_sizes(void **state)
{
    (void)state;
    static const geometry_case cases[] = {
        {"{'x': 3}", "", NULL, "3 1 1"},
        {"{'x': 'attrs.n', 'y': 4, 'z': 'attrs.m + 1'}", "@n=7", NULL, "7 4 2"},
        {"{'x': 'attrs.n', 'y': 2}", "@n=0", NULL, "0 2 1 inactive"},
        {"{'x': 2, 'y': 2, 'z': 'attrs.n - 1'}", "", NULL, "2 2 0 inactive"},
        {"{'x': 'attrs.n / 2'}", "@n=6", NULL, "3 1 1"},
        {"{'x': 65535}", "", NULL, "65535 1 1"},
        {"{'workgroups': 'attrs.n'}", "@n=65535", NULL, "65535 1 1"},
        {"{'workgroups': 'attrs.n'}", "@n=65536", NULL, "65535 2 1"},
        {"{'workgroups': 'attrs.n'}", "@n=131070", NULL, "65535 2 1"},
        {"{'workgroups': 'attrs.n'}", "@n=131071", NULL, "65535 3 1"},
        {"{'workgroups': 'attrs.n'}", "@n=4294836225", NULL, "65535 65535 1"},
        {"{'workgroups': 'attrs.n'}", "@n=0", NULL, "0 0 1 inactive"},
        {"{'workgroups': 'attrs.n'}", "@n=70000.5", NULL, "65535 2 1"},
        {"{'threads': 'attrs.n', 'workgroupSize': 'attrs.m'}", "@n=1000 @m=64", NULL, "16 1 1"},
        {"{'threads': 'attrs.n', 'workgroupSize': 64}", "@n=1", NULL, "1 1 1"},
        {"{'threads': 'attrs.n', 'workgroupSize': 64}", "@n=4194241", NULL, "65535 2 1"},
        {"{'threads': 'attrs.n', 'workgroupSize': 'attrs.m'}", "@n=9 @m=inf", NULL,
         "0 0 1 inactive"},
        /* the fold width is a constant, whatever the device allows */
        {"{'workgroups': 'attrs.n'}", "@n=100", SMALL, "100 1 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_ok(map_package(cases[i].dispatch), &cases[i]);
}

static void list_sizes(void **state)
{
    (void)state;
    static const geometry_case cases[] = {
        {"{'x': 'attrs.n', 'y': 'attrs.m'}", "@n=7 @m=2", NULL, "7 2 1"},
        {"{'workgroups': 'attrs.n'}", "@n=65536", NULL, "65535 2 1"},
        /* folds at the device's own limit */
        {"{'workgroups': 'attrs.n'}", "@n=250", SMALL, "100 3 1"},
        {"{'threads': 'attrs.n', 'workgroupSize': 2}", "@n=250", SMALL, "100 2 1"},
        /* a pinned axis: the other two take the pair in x, y, z order */
        {"{'workgroups': 'attrs.n', 'x': 3}", "@n=250", SMALL, "3 100 3"},
        {"{'workgroups': 'attrs.n', 'y': 3}", "@n=250", SMALL, "100 3 3"},
        {"{'workgroups': 'attrs.n', 'z': 'attrs.m'}", "@n=250 @m=5", SMALL, "100 3 5"},
        {"{'threads': 'attrs.n', 'workgroupSize': 4, 'z': 2}", "@n=9", NULL, "3 1 2"},
        /* gridStride clamps instead */
        {"{'gridStride': 'attrs.n'}", "@n=250", SMALL, "100 1 1"},
        {"{'gridStride': 'attrs.n'}", "@n=99", SMALL, "99 1 1"},
        {"{'gridStride': 'attrs.n', 'workgroupSize': 64}", "@n=250", SMALL, "4 1 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_ok(list_package(cases[i].dispatch), &cases[i]);
}

static void sizes_that_are_no_counts_are_named(void **state)
{
    (void)state;
    static const geometry_case cases[] = {
        {"{'x': 'attrs.n'}", "@n=1.5", NULL,
         "variants[0].passes[0].dispatch|pass 'p'|dispatch.x is 1.5"},
        {"{'x': 1, 'y': 'attrs.n'}", "@n=-1", NULL,
         "pass 'p'|dispatch.y is -1|non-negative integer"},
        {"{'x': 1, 'z': 'attrs.n / 0'}", "@n=1", NULL, "pass 'p'|dispatch.z is Infinity"},
        {"{'x': '0 / (attrs.n - 1)'}", "@n=1", NULL, "pass 'p'|dispatch.x is NaN"},
        {"{'x': 'attrs.n % 0'}", "@n=1", NULL, "pass 'p'|dispatch.x is NaN"},
        {"{'x': '`three`'}", "", NULL, "pass 'p'|dispatch.x is \"three\"|number"},
        {"{'x': 'attrs.n == 1'}", "", NULL, "pass 'p'|dispatch.x is true"},
        {"{'x': 'dim([], 0)'}", "", NULL, "pass 'p'|dispatch.x is none"},
        {"{'x': 'shapes.x'}", "", NULL, "pass 'p'|dispatch.x is list"},
        {"{'workgroups': 'attrs.n'}", "@n=2.5", NULL, "pass 'p'|dispatch.x is 2.5"},
        {"{'workgroups': 'attrs.n'}", "@n=nan", NULL, "pass 'p'|dispatch.x is NaN"},
        {"{'workgroups': 'attrs.n'}", "@n=-3", NULL, "pass 'p'|dispatch.x is -3"},
        {"{'workgroups': 'attrs.n'}", "@n=inf", NULL, "pass 'p'|dispatch.y is Infinity"},
        {"{'threads': 'attrs.n', 'workgroupSize': 'attrs.n - 1'}", "", NULL,
         "pass 'p'|dispatch.y is Infinity"},
        {"{'threads': 'attrs.n', 'workgroupSize': '`a`'}", "", NULL,
         "pass 'p'|dispatch.workgroupSize is \"a\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_wrong(map_package(cases[i].dispatch), NIB_EVAL, &cases[i]);
}

static void sizes_beyond_the_device_are_named(void **state)
{
    (void)state;
    static const geometry_case cases[] = {
        {"{'x': 'attrs.n'}", "@n=65536", NULL,
         "pass 'p'|dispatch.x is 65536|maxComputeWorkgroupsPerDimension is 65535"},
        {"{'x': 1, 'y': 'attrs.n'}", "@n=1e21", NULL, "pass 'p'|dispatch.y is 1e+21"},
        {"{'workgroups': 'attrs.n'}", "@n=101", SMALL, "dispatch.x is 101|is 100"},
        {"{'workgroups': 'attrs.n'}", "@n=4294836226", NULL, "dispatch.y is 65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_wrong(map_package(cases[i].dispatch), NIB_LIMIT, &cases[i]);
}

static void an_empty_output_runs_nothing_and_evaluates_no_size(void **state)
{
    (void)state;
    nib_package *package = map_package("{'x': '1 / 0 * dim([], 0)'}");
    nib_plan *plan = must_plan(package, "x=float32[5,0]", NULL);
    assert_false(plan->passes[0].active);
    assert_int_equal(
        plan->passes[0].dispatch[0] + plan->passes[0].dispatch[1] + plan->passes[0].dispatch[2], 0);
    nib_plan_free(plan);
    free_package(package);
}

static void repeat_groups_expand_in_order(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        "{'name': 'G', 'inputs': {'x': {'dtype': 'float32'}},"
        " 'outputs': {'y': {'dtype': 'float32', 'shape': 'shapes.x'}},"
        " 'attributes': {'n': {'default': 2}, 'm': {'default': 3}},"
        " 'variants': [{'id': 'v', 'derive': {'base': '10'}, 'passes': ["
        "  {'id': 'first', 'shader': 's', 'bindings': ['x', 'y'], 'dispatch': {'x': 1}},"
        "  {'id': 'outer', 'repeat': {'count': 'attrs.n', 'index': 'i'}, 'passes': ["
        "    {'id': 'a', 'shader': 's', 'bindings': ['x', 'y'], 'derive': {'k': 'base + repeat.i'},"
        "     'dispatch': {'x': 'k', 'y': 'repeat.i_count'}},"
        "    {'repeat': {'count': 'attrs.m - repeat.i - 1', 'index': 'j'}, 'passes': ["
        "      {'shader': 's', 'bindings': ['x', 'y'],"
        "       'dispatch': {'x': 'repeat.i + 1', 'y': 'repeat.j + 1', 'z': "
        "'repeat.count'}}]}]}]}]}");
    nib_plan *plan = must_plan(package, "x=float32[4]", NULL);
    static const char *const expected[] = {
        "first 1 1 1",
        "outer[0].a 10 2 1",
        "outer[0].repeat_1[0].pass_0 1 1 2",
        "outer[0].repeat_1[1].pass_0 1 2 2",
        "outer[1].a 11 2 1",
        "outer[1].repeat_1[0].pass_0 2 1 1",
    };
    assert_int_equal(nib_plan_pass_count(plan), 6);
    for (size_t i = 0; i < 6; i++) {
        const unsigned *d = plan->passes[i].dispatch;
        char text[128];
        snprintf(text, sizeof text, "%s %u %u %u", nib_plan_pass_id(plan, i), d[0], d[1], d[2]);
        assert_string_equal(text, expected[i]);
    }
    assert_null(nib_plan_pass_id(plan, 6));
    nib_plan_free(plan);
    planned none = plan_text(package, "x=float32[4] @n=2.5", NULL);
    assert_int_equal(none.status, NIB_EVAL);
    expect_message(&none.error, "variants[0].passes[1].repeat.count|'outer'|2.5");
    none = plan_text(package, "x=float32[4] @n=65536", NULL);
    expect_message(&none.error, "'outer'|65536|[0, 65535]");
    none = plan_text(package, "x=float32[4] @n=60000 @m=60003", NULL);
    assert_int_equal(none.status, NIB_LIMIT);
    expect_message(&none.error, "131072 passes");
    free_package(package);
}

#define ONE_VARIANT(passes)                                                                        \
    "{'name': 'G', 'inputs': {'x': {'dtype': 'float32'}},"                                         \
    " 'outputs': {'y': {'dtype': 'float32', 'shape': 'shapes.x'}},"                                \
    " 'attributes': {'n': {'default': 0}}, 'variants': [{'id': 'v', 'passes': [" passes "]}]}"

static void a_variant_must_expand_to_passes_with_distinct_ids(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        ONE_VARIANT("{'repeat': {'count': 'attrs.n', 'index': 'i'}, 'passes': [{'shader': 's',"
                    " 'bindings': ['x', 'y'], 'dispatch': {'x': 1}}]}"));
    planned result = plan_text(package, "x=float32[4]", NULL);
    assert_int_equal(result.status, NIB_EVAL);
    expect_message(&result.error, "variant 'v' expands to no passes");
    nib_plan_free(must_plan(package, "x=float32[4] @n=1", NULL));
    free_package(package);
    package = package_from_quoted(
        ONE_VARIANT("{'id': 'a', 'shader': 's', 'bindings': ['x', 'y'], 'dispatch': {'x': 1}},"
                    "{'id': 'a', 'shader': 's', 'bindings': ['x', 'y'], 'dispatch': {'x': 1}}"));
    result = plan_text(package, "x=float32[4]", NULL);
    assert_int_equal(result.status, NIB_CONTRACT);
    expect_message(&result.error, "two passes|'a'");
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_sizes),
        cmocka_unit_test(list_sizes),
        cmocka_unit_test(sizes_that_are_no_counts_are_named),
        cmocka_unit_test(sizes_beyond_the_device_are_named),
        cmocka_unit_test(an_empty_output_runs_nothing_and_evaluates_no_size),
        cmocka_unit_test(repeat_groups_expand_in_order),
        cmocka_unit_test(a_variant_must_expand_to_passes_with_distinct_ids),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
