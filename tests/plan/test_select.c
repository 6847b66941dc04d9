/* SPDX-License-Identifier: Apache-2.0
 *
 * Variant selection and the reasons it gives (package format 6).
 */
#include "support.h"

#define PASS "'passes': [{'id': 'p', 'shader': 's', 'bindings': ['x', 'y'], 'dispatch': {'x': 1}}]"

/* `variants` are the members of the array; manifest derives are fixed. */
static nib_package *package_with(const char *variants)
{
    char quoted[8192];
    const int length = snprintf(
        quoted, sizeof quoted,
        "{'domain': 'test', 'name': 'S', 'inputs': {'x': {'onnx': 'X', 'dtype': 'T', 'rank': 2},"
        "  'w': {'onnx': 'W', 'dtype': 'T', 'optional': true}},"
        " 'outputs': {'y': {'dtype': 'T', 'shape': 'shapes.x'}},"
        " 'typeConstraints': {'T': ['float32', 'float16']},"
        " 'attributes': {'n': {'default': 4}, 'm': {'default': 4}},"
        " 'tunables': {'T': {'default': 8}},"
        " 'derive': {'k': 'dim(shapes.x, ranks.x - 1)', 'small': 'k < 10', 'even': 'k %% 2 == 0',"
        "   'wOk': 'ranks.w == 1 and dim(shapes.w, 0) == k if present.w else true',"
        "   'nOk': 'attrs.n >= 1 and attrs.n <= k', 'allOk': 'even and nOk and wOk',"
        "   'deep': 'small and (even or nOk) and allOk', 'text': '`abc`'},"
        " 'variants': [%s]}",
        variants);
    assert_in_range(length, 1, sizeof quoted - 1);
    return package_from_quoted(quoted);
}

/* "chosen; rejected: reason | rejected: reason" */
static void describe(const nib_plan *plan, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s%s",
                                   nib_plan_variant(plan) ? nib_plan_variant(plan) : "none",
                                   plan->demoted ? " (demoted)" : "");
    for (size_t i = 0; i < plan->rejected_count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%.*s: %.*s", i ? " | " : "; ",
                                 NIB_STR_ARG(plan->rejected[i].variant),
                                 NIB_STR_ARG(plan->rejected[i].reason));
    assert_true(used < size);
}

static void expect_choice(const nib_package *package, const char *request, const char *caps,
                          const char *expected)
{
    char text[4096];
    nib_plan *plan = must_plan(package, request, caps);
    describe(plan, text, sizeof text);
    if (strcmp(text, expected) != 0)
        fail_msg("%s gives\n%s\nand not\n%s", request, text, expected);
    nib_plan_free(plan);
}

static void expect_none(const nib_package *package, const char *request, const char *caps,
                        const char *fragments)
{
    planned result = plan_text(package, request, caps);
    if (result.status != NIB_NO_VARIANT)
        fail_msg("%s gives %s: %s", request, nib_status_name(result.status), result.error.message);
    expect_message(&result.error, fragments);
}

static void priority_then_list_order(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "{'id': 'last', 'priority': -1, " PASS "}, {'id': 'b', 'when': ['even'], " PASS "},"
        "{'id': 'a', 'when': ['small'], " PASS
        "}, {'id': 'first', 'priority': 2.5, 'when': ['k == 3'], " PASS "}");
    expect_choice(package, "x=float32[1,3]", NULL, "first");
    expect_choice(package, "x=float32[1,4]", NULL,
                  "b; first: `k == 3` is false (4 == 3; input 'x' (X) is float32[1,4])");
    expect_choice(package, "x=float32[1,5]", NULL,
                  "a; first: `k == 3` is false (5 == 3; input 'x' (X) is float32[1,5])"
                  " | b: `even` is false (`k % 2 == 0`: 1 == 0; input 'x' (X) is float32[1,5])");
    expect_choice(package, "x=float32[1,11] !last", NULL, "last");
    free_package(package);
}

static void conditions_must_be_true_and_nothing_else(void **state)
{
    (void)state;
    nib_package *package = package_with("{'id': 'number', 'when': ['even and 1'], " PASS
                                        "}, {'id': 'string', 'when': ['text'], " PASS "},"
                                        "{'id': 'missing', 'when': ['attrs.zzz'], " PASS
                                        "}, {'id': 'none', 'when': ['none'], " PASS "},"
                                        "{'id': 'list', 'when': ['shapes.x'], " PASS
                                        "}, {'id': 'ok', 'when': ['even', '1 == 1'], " PASS "}");
    expect_choice(
        package, "x=float32[2,4]", NULL,
        "ok; number: `even and 1` is 1 | string: `text` is abc (`\"abc\"`) | missing: `attrs.zzz` "
        "is undefined"
        " | none: `none` is none | list: `shapes.x` is 2,4 (input 'x' (X) is float32[2,4])");
    free_package(package);
}

static void the_first_false_term_is_explained(void **state)
{
    (void)state;
    nib_package *package = package_with("{'id': 'v', 'when': ['deep'], " PASS "}");
    expect_choice(package, "x=float32[1,4]", NULL, "v");
    expect_none(
        package, "x=float32[1,12]", NULL,
        "test.S|v: `deep` is false (small: `k < 10`: 12 < 10; input 'x' (X) is float32[1,12])");
    expect_none(
        package, "x=float32[1,4] @n=7", NULL,
        "`deep` is false (allOk: nOk: `attrs.n <= k`: 7 <= 4; input 'x' (X) is float32[1,4])");
    expect_none(package, "x=float32[1,4] @n=0", NULL, "(allOk: nOk: `attrs.n >= 1`: 0 >= 1)");
    /* a conditional is not taken apart */
    expect_none(package, "x=float32[1,4] w=float32[3]", NULL,
                "(allOk: wOk: `ranks.w == 1 and dim(shapes.w, 0) == k if present.w else true`; "
                "input 'x' (X) is "
                "float32[1,4]; input 'w' (W) is float32[3])");
    free_package(package);
}

static void failing_conditions_reject_their_variant_only(void **state)
{
    (void)state;
    nib_package *package =
        package_with("{'id': 'new_limit', 'when': ['device.limits.maxFuture >= 4'], " PASS "},"
                     "{'id': 'new_feature', 'when': ['device.features.has(`future`)'], " PASS "},"
                     "{'id': 'unknown', 'when': ['unknownName'], " PASS "},"
                     "{'id': 'in', 'when': ['`subgroups` in device.features'], " PASS
                     "}, {'id': 'plain', " PASS "}");
    nib_plan *plan = must_plan(package, "x=float32[1,4]", NULL);
    assert_string_equal(nib_plan_variant(plan), "plain");
    assert_int_equal(plan->rejected_count, 4);
    static const char *const starts[] = {
        "`device.limits.maxFuture >= 4` failed: ", "`device.features.has(\"future\")` is false",
        "`unknownName` failed: ", "`\"subgroups\" in device.features` "};
    for (size_t i = 0; i < 4; i++) {
        if (!nib_str_starts(plan->rejected[i].reason, nib_str_from(starts[i])))
            fail_msg("%.*s", NIB_STR_ARG(plan->rejected[i].reason));
    }
    nib_plan_free(plan);
    plan = must_plan(package, "x=float32[1,4]", "{\"limits\": {\"maxFuture\": 4}}");
    assert_string_equal(nib_plan_variant(plan), "new_limit");
    nib_plan_free(plan);
    free_package(package);
}

static void requirements_of_the_device(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "{'id': 'f', 'requires': {'features': ['shader-f16', 'subgroups']}, " PASS "},"
        "{'id': 'l', 'requires': {'limits': {'maxBufferSize': 1000000000}}, " PASS "},"
        "{'id': 'l2', 'requires': {'limits': {'maxStorageBuffersInVertexStage': 1}}, " PASS "},"
        "{'id': 's', 'requires': {'subgroupMinSize': 16}, " PASS "},"
        "{'id': 'm', 'requires': {'features': ['subgroups'], 'subgroupMatrixConfigs': "
        "[{'componentType': 'f16', 'M': 8},"
        "   {'K': 32}]}, " PASS "},"
        "{'id': 'z', " PASS "}");
    expect_choice(package, "x=float32[1,4]", NULL,
                  "z; f: needs the device feature shader-f16 | l: needs maxBufferSize >= "
                  "1000000000, the device has 268435456"
                  " | l2: needs maxStorageBuffersInVertexStage >= 1, the device has no such limit"
                  " | s: needs subgroupMinSize >= 16, the adapter does not report it"
                  " | m: needs the device feature subgroups");
    expect_choice(package, "x=float32[1,4]",
                  "{\"features\": [\"subgroups\"], \"adapterInfo\": {\"subgroupMinSize\": 8,"
                  " \"subgroupMatrixConfigs\": "
                  "[{\"componentType\":\"f32\",\"resultComponentType\":\"f32\",\"M\":8,\"N\":8,"
                  "\"K\":8},{\"componentType\":\"f16\",\"resultComponentType\":\"f32\",\"M\":16,"
                  "\"N\":8,\"K\":16}]}}",
                  "z; f: needs the device feature shader-f16 | l: needs maxBufferSize >= "
                  "1000000000, the device has 268435456"
                  " | l2: needs maxStorageBuffersInVertexStage >= 1, the device has no such limit"
                  " | s: needs subgroupMinSize >= 16, the adapter has 8"
                  " | m: needs a subgroup matrix f16-*-8x*x* or *-*-*x*x32, the adapter has "
                  "f16-f32-16x8x16, f32-f32-8x8x8");
    /* an adapter that reports no list passes */
    nib_plan *plan = must_plan(package, "x=float32[1,4] !m", "{\"features\": [\"subgroups\"]}");
    nib_plan_free(plan);
    plan = must_plan(package, "x=float32[1,4]", "{\"features\": [\"subgroups\", \"shader-f16\"]}");
    assert_string_equal(nib_plan_variant(plan), "f");
    nib_plan_free(plan);
    plan = must_plan(package, "x=float32[1,4] !m",
                     "{\"features\": [\"subgroups\"], \"adapterInfo\": {\"subgroupMatrixConfigs\": "
                     "[{\"componentType\":"
                     "\"i8\",\"resultComponentType\":\"i32\",\"M\":1,\"N\":1,\"K\":32}]}}");
    nib_plan_free(plan);
    free_package(package);
}

static void budgets_count_the_fullest_pass(void **state)
{
    (void)state;
    nib_package *package =
        package_with("{'id': 'wide', 'when': ['1 == 2'], 'passes': [" /* the budget is tested before
                                                                         the conditions */
                     "  {'id': 'a', 'shader': 's', 'bindings': ['x'], 'dispatch': {'x': 1}},"
                     "  {'id': 'r', 'repeat': {'count': 0, 'index': 'i'}, 'passes': [{'shader': "
                     "'s', 'bindings': ["
                     "    {'name': 'x', 'elementType': 'f32'}, {'name': 'x2', 'arg': 'x', "
                     "'elementType': 'f32'}, 'y'],"
                     "    'dispatch': {'x': 1}}]}]},"
                     "{'id': 'uniform', 'passes': [{'shader': 's', 'bindings': ['x',"
                     "   {'name': 'a', 'struct': [{'name': 'n', 'type': 'u32', 'value': 1}]},"
                     "   {'name': 'b', 'struct': [{'name': 'n', 'type': 'u32', 'value': 1}]}], "
                     "'dispatch': {'x': 1}}]},"
                     "{'id': 'thin', " PASS "}");
    expect_choice(
        package, "x=float32[1,4]",
        "{\"limits\": {\"maxStorageBuffersPerShaderStage\": 2,"
        " \"maxUniformBuffersPerShaderStage\": 1}}",
        "thin; wide: needs 3 storage buffers in one pass, maxStorageBuffersPerShaderStage is 2"
        " | uniform: needs 2 uniform buffers in one pass, maxUniformBuffersPerShaderStage is 1");
    expect_choice(package, "x=float32[1,4]",
                  "{\"limits\": {\"maxStorageBuffersPerShaderStage\": 3,"
                  " \"maxUniformBuffersPerShaderStage\": 2}}",
                  "uniform; wide: `1 == 2` is false (1 == 2)");
    free_package(package);
}

static void demoted_variants_are_second_choice(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "{'id': 'd1', 'priority': 3, 'demoteWhen': ['attrs.n == 0', 'even'], " PASS "},"
        "{'id': 'd2', 'priority': 2, 'demoteWhen': ['small'], " PASS "},"
        "{'id': 'bad', 'priority': 2, 'demoteWhen': ['even', 'none + 1'], " PASS "},"
        "{'id': 'u', 'priority': 1, 'when': ['attrs.n > 5'], 'demoteWhen': ['1'], " PASS "}");
    expect_choice(package, "x=float32[1,3]", NULL, "d1");
    nib_plan *plan = must_plan(package, "x=float32[1,4] @n=6", NULL);
    assert_string_equal(nib_plan_variant(plan), "u"); /* 1 is not true, so not demoted */
    assert_false(plan->demoted);
    assert_int_equal(plan->rejected_count, 3);
    assert_true(nib_str_is(plan->rejected[0].reason, "demoted: `even` is true"));
    assert_true(nib_str_is(plan->rejected[1].reason, "demoted: `small` is true"));
    assert_true(nib_str_starts(plan->rejected[2].reason, NIB_STR("`none + 1` failed: ")));
    nib_plan_free(plan);
    plan = must_plan(package, "x=float32[1,4]", NULL);
    assert_string_equal(nib_plan_variant(plan), "d1");
    assert_true(plan->demoted);
    assert_int_equal(plan->rejected_count, 3);
    nib_plan_free(plan);
    plan = must_plan(package, "x=float32[1,4] !d2", NULL); /* a pinned variant is taken as it is */
    assert_false(plan->demoted);
    nib_plan_free(plan);
    free_package(package);
}

static void superseded_variants_yield_to_undemoted_ones(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "{'id': 'best', 'priority': 3, 'when': ['attrs.n > 5'], 'demoteWhen': ['attrs.m == "
        "0'], " PASS "},"
        "{'id': 'old', 'priority': 2, 'supersededBy': ['best'], 'demoteWhen': ['even'], " PASS "},"
        "{'id': 'older', 'priority': 1, 'supersededBy': ['old'], " PASS "}");
    expect_choice(package, "x=float32[1,3] @n=6", NULL, "best");
    expect_choice(package, "x=float32[1,3]", NULL, "old; best: `attrs.n > 5` is false (4 > 5)");
    /* `best` is demoted, so it supersedes nothing; `old` is demoted, so neither does it */
    expect_choice(package, "x=float32[1,4] @n=6 @m=0", NULL,
                  "older; best: demoted: `attrs.m == 0` is true | old: demoted: `even` is true");
    nib_plan *plan = must_plan(package, "x=float32[1,4] @n=6 !older", NULL);
    nib_plan_free(plan);
    free_package(package);
}

static void no_variant_names_each_with_its_reason(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "{'id': 'a', 'priority': 1, 'requires': {'features': ['subgroups']}, " PASS "},"
        "{'id': 'b', 'when': ['allOk'], " PASS "}, {'id': 'c', 'when': ['allOk'], " PASS "}");
    expect_none(package, "x=float32[1,5]", NULL,
                "no variant of test.S fits the request: a: needs the device feature subgroups; b: "
                "`allOk` is false "
                "(even: `k % 2 == 0`: 1 == 0; input 'x' (X) is float32[1,5]); c: the same");
    expect_none(package, "x=float32[5]", NULL,
                "input 'x' (X) has rank 1, it is declared with rank 2|a: |b: |c: the same");
    expect_none(package, "x=float32[1,5] !c", NULL, "fits the request: c: `allOk` is false (even");
    planned unknown = plan_text(package, "x=float32[1,5] !d", NULL);
    assert_int_equal(unknown.status, NIB_REQUEST);
    expect_message(&unknown.error, "test.S has no variant 'd'|a, b, c");
    free_package(package);
}

/* The list of reasons outgrows the message, and every variant is still named. */
static void long_lists_are_kept_short(void **state)
{
    (void)state;
    char variants[8000];
    size_t used = 0;
    for (int i = 0; i < 40; i++)
        used += (size_t)snprintf(variants + used, sizeof variants - used,
                                 "%s{'id': 'v%d', 'when': ['k == %d and allOk and nOk'], " PASS "}",
                                 i ? "," : "", i, i + 100);
    assert_true(used < 7000);
    nib_package *package = package_with(variants);
    expect_none(package, "x=float32[1,5]", NULL, "v0: |v20: |v39: ");
    free_package(package);
}

/* With many variants the reason that most of them share is still explained: it names tensor and rule. */
static void a_shared_reason_is_explained_once(void **state)
{
    (void)state;
    for (int count = 60; count <= 400; count += 340) {
        char family[7000];
        size_t used = (size_t)snprintf(family, sizeof family, "{'cases': [");
        for (int i = 0; i < count; i++)
            used += (size_t)snprintf(family + used, sizeof family - used, "%s{'i': %d}", i ? "," : "", i);
        snprintf(family + used, sizeof family - used,
                 "], 'variants': [{'id': 'variant_{i}', 'when': ['allOk'], " PASS "}]}");
        nib_package *package = package_with(family);
        expect_none(package, "x=float32[1,5]", NULL,
                    "variant_0: `allOk` is false (even: `k % 2 == 0`: 1 == 0; input 'x' (X) is "
                    "float32[1,5]); variant_1, variant_2, variant_3|: the same");
        expect_none(package, "x=float32[1,5]", NULL,
                    count == 60 ? ", variant_59: the same" : " and 396 more: the same");
        free_package(package);
    }
}

static void tunables_have_two_scopes(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        "{'name': 'S', 'inputs': {'x': {'dtype': 'float32'}}, 'outputs': {'y': {'dtype': "
        "'float32', 'shape': 'shapes.x'}},"
        " 'tunables': {'A': {'default': 1}, 'B': {'default': 2}}, 'derive': {'fromManifest': "
        "'tunables.A'},"
        " 'variants': [{'id': 'wrong', 'when': ['tunables.A == 10'], 'tunables': {'A': {'default': "
        "10}}, " PASS "},"
        " {'id': 'v', 'when': ['tunables.C is undefined or tunables.C == 7'], 'tunables': {'A': "
        "{'default': 10}, 'C':"
        "   {'default': 3}}, 'derive': {'fromVariant': 'tunables.A', 'c': 'tunables.C'}, " PASS
        "}]}");
    static const struct {
        const char *request, *manifest, *variant, *c, *b;
    } cases[] = {
        {"x=float32[1] !v", "1", "10", "3", "2"},
        {"x=float32[1] +A=4 +B=9 !v", "4", "4", "3", "9"},
        {"x=float32[1] +C=7", "1", "10", "7", "2"},
    };
    for (size_t i = 0; i < 3; i++) {
        char *json;
        document doc;
        nib_plan *plan = must_plan(package, cases[i].request, NULL);
        assert_int_equal(nib_plan_json(plan, &json, NULL), NIB_OK);
        open_document(&doc, json);
        expect_json(&doc, "derive.fromManifest", cases[i].manifest);
        expect_json(&doc, "derive.fromVariant", cases[i].variant);
        expect_json(&doc, "derive.c", cases[i].c);
        expect_json(&doc, "tunables.B", cases[i].b);
        expect_json(&doc, "variant", "v");
        close_document(&doc);
        nib_text_free(test_context(), json);
        nib_plan_free(plan);
    }
    planned wrong = plan_text(package, "x=float32[1] +A=many", NULL);
    assert_int_equal(wrong.status, NIB_REQUEST);
    expect_message(&wrong.error, "tunable 'A' is \"many\"|default is 1");
    wrong = plan_text(package, "x=float32[1] +Z=1", NULL);
    expect_message(&wrong.error, "tunable 'Z'|A, B");
    free_package(package);
}

static void relaxed_plans_may_lack_a_variant(void **state)
{
    (void)state;
    nib_package *package =
        package_from_quoted("{'name': 'S', 'inputs': {'x': {'dtype': 'float32'}}, 'outputs': {'y': "
                            "{'dtype': 'float32', 'shape': 'shapes.x'}},"
                            " 'attributes': {'bits': {'default': 4}, 'n': {'default': 1}}, "
                            "'attributeConstraints': {'bits': {'values': [4]}},"
                            " 'derive': {'before': '1', 'n': '8 / attrs.n + (none if attrs.n == 3 "
                            "else 1)', 'after': '2'},"
                            " 'variants': [{'id': 'v', 'when': ['attrs.n == 1'], " PASS "}]}");
    planned strict = plan_text(package, "x=float32[2] @bits=8", NULL);
    assert_int_equal(strict.status, NIB_REQUEST);
    expect_message(&strict.error, "attribute 'bits' is 8; supported: 4");
    static const struct {
        const char *request, *expected;
    } cases[] = {
        {"x=float32[2] ~", "v"},
        {"x=float32[2] @bits=8 ~",
         "none; v: an attribute has a value that the manifest does not support"},
        {"x=float32[2] @n=2 ~", "none; v: `attrs.n == 1` is false (2 == 1)"},
    };
    for (size_t i = 0; i < 3; i++)
        expect_choice(package, cases[i].request, NULL, cases[i].expected);
    nib_plan *plan = must_plan(package, "x=float32[2] @bits=8 @n=3 ~", NULL);
    assert_null(nib_plan_variant(plan));
    assert_int_equal(nib_plan_pass_count(plan), 0);
    assert_int_equal(nib_plan_tensor_count(plan), 2);
    assert_true(nib_plan_attribute(plan, "bits", 0) == 8);
    assert_int_equal(plan->rejected_count, 1);
    assert_true(nib_str_starts(plan->rejected[0].reason, NIB_STR("derive.n failed: ")));
    char *json;
    document doc;
    assert_int_equal(nib_plan_json(plan, &json, NULL), NIB_OK);
    open_document(&doc, json);
    expect_json(&doc, "variant", "null");
    expect_json(&doc, "passes", "[]");
    expect_json(&doc, "outputs.y.shape", "[2]");
    expect_json(&doc, "derive.before", "1");
    close_document(&doc);
    nib_text_free(test_context(), json);
    nib_plan_free(plan);
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priority_then_list_order),
        cmocka_unit_test(conditions_must_be_true_and_nothing_else),
        cmocka_unit_test(the_first_false_term_is_explained),
        cmocka_unit_test(failing_conditions_reject_their_variant_only),
        cmocka_unit_test(requirements_of_the_device),
        cmocka_unit_test(budgets_count_the_fullest_pass),
        cmocka_unit_test(demoted_variants_are_second_choice),
        cmocka_unit_test(superseded_variants_yield_to_undemoted_ones),
        cmocka_unit_test(no_variant_names_each_with_its_reason),
        cmocka_unit_test(long_lists_are_kept_short),
        cmocka_unit_test(a_shared_reason_is_explained_once),
        cmocka_unit_test(tunables_have_two_scopes),
        cmocka_unit_test(relaxed_plans_may_lack_a_variant),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
