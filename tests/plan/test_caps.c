/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "support.h"

#include "expr/expr.h"

typedef struct log_lines {
    char text[4096];
} log_lines;

static void keep_line(void *user, nib_log_level level, const char *line)
{
    log_lines *lines = user;
    const size_t used = strlen(lines->text);
    if (level == NIB_LOG_WARNING)
        snprintf(lines->text + used, sizeof lines->text - used, "%s\n", line);
}

static nib_caps *parse(const char *json)
{
    nib_caps *caps;
    nib_error error = {0};
    if (nib_caps_parse(test_context(), json, &caps, &error) != NIB_OK)
        fail_msg("%s", error.message);
    return caps;
}

/* Evaluate an expression with only `device` in scope, and compare its JSON. */
static void expect_eval(const nib_caps *caps, const char *expression, const char *expected)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_map *frame = nib_map_new(&arena, 1);
    assert_true(nib_map_set_cstr(&arena, frame, "device", caps->device_view));
    const nib_scope scope = {.frames = {frame}, .frame_count = 1};
    nib_error error = {0};
    nib_expr expr;
    nib_value value = NIB_UNDEFINED;
    if (nib_expr_compile(&arena, nib_str_from(expression), &expr, &error) ||
        nib_expr_eval(&expr, &scope, &arena, &value, &error))
        fail_msg("%s: %s", expression, error.message);
    nib_buf text;
    nib_buf_init(&text, &nib_default_allocator, 0);
    nib_json_write(&text, value, (nib_json_style){0});
    assert_string_equal(text.data, expected);
    nib_buf_free(&text);
    nib_arena_free(&arena);
}

static void defaults_are_those_of_the_format(void **state)
{
    (void)state;
    nib_caps *caps = parse(NULL);
    assert_true(nib_caps_limit(caps, "maxStorageBuffersPerShaderStage") == 10);
    assert_true(nib_caps_limit(caps, "maxComputeWorkgroupStorageSize") == 16384);
    assert_true(nib_caps_limit(caps, "maxBufferSize") == 268435456);
    assert_true(nib_caps_limit(caps, "maxImmediateSize") == 0);
    assert_true(isnan(nib_caps_limit(caps, "maxStorageBuffersInVertexStage")));
    assert_false(nib_caps_has_feature(caps, "subgroups"));
    assert_int_equal(caps->limits->count, 32);
    expect_eval(caps, "device.features.size", "0");
    expect_eval(caps, "device.adapterInfo.vendor ~ device.adapterInfo.architecture", "\"\"");
    expect_eval(caps, "device.adapterInfo.isFallbackAdapter", "false");
    expect_eval(caps, "has(device.adapterInfo, 'subgroupMinSize')", "false");
    nib_caps_free(caps);
    caps = parse("");
    assert_int_equal(caps->limits->count, 32);
    nib_caps_free(caps);
}

static void a_record_overlays_the_defaults(void **state)
{
    (void)state;
    nib_caps *caps = parse(
        "{\"features\": [\"subgroups\", \"shader-f16\", \"subgroups\"],"
        " \"limits\": {\"maxBufferSize\": 1024, \"maxComputeWorkgroupsPerDimension\": 1000000},"
        " \"wgslLanguageFeatures\": [\"packed_4x8_integer_dot_product\"],"
        " \"adapterInfo\": {\"vendor\": \"NVidia\", \"architecture\": \"Hopper-X\","
        "   \"device\": \"H200\", \"description\": \"a card\", \"subgroupMinSize\": 32}}");
    assert_int_equal(caps->feature_count, 2);
    assert_true(nib_caps_has_feature(caps, "shader-f16"));
    assert_true(nib_caps_limit(caps, "maxBufferSize") == 1024);
    expect_eval(caps, "device.limits.maxComputeWorkgroupsPerDimension", "65535");
    expect_eval(caps, "device.limits.maxBufferSize + device.limits.maxBindGroups", "1028");
    expect_eval(caps, "device.features.has('subgroups') and not device.features.has('x')", "true");
    expect_eval(caps, "device.wgslLanguageFeatures.has('packed_4x8_integer_dot_product')", "true");
    expect_eval(caps, "device.adapterInfo.vendor ~ ' ' ~ device.adapterInfo.architecture",
                "\"nvidia hopper-x\"");
    expect_eval(caps, "device.adapterInfo.device is defined", "false");
    expect_eval(caps, "device.adapterInfo.description is defined", "false");
    expect_eval(caps, "device.adapterInfo.subgroupMinSize", "32");
    expect_eval(caps, "device.limits.maxFoo is defined", "false");
    nib_caps_free(caps);
}

static void matrix_configurations_are_normalised(void **state)
{
    (void)state;
    nib_caps *caps = parse(
        "{\"adapterInfo\": {\"subgroupMatrixConfigs\": ["
        "{\"componentType\":\"f32\",\"resultComponentType\":\"f32\",\"M\":8,\"N\":8,\"K\":8},"
        "{\"componentType\":\"f64\",\"resultComponentType\":\"f32\",\"M\":8,\"N\":8,\"K\":8},"
        "{\"componentType\":\"f16\",\"resultComponentType\":\"f32\",\"M\":16,\"N\":8,\"K\":8.5},"
        "{\"componentType\":\"f16\",\"resultComponentType\":\"f32\",\"M\":16,\"N\":8,\"K\":16}, "
        "3]}}");
    expect_eval(caps, "device.adapterInfo.subgroupMatrixConfigs|length", "2");
    expect_eval(caps, "device.adapterInfo.subgroupMatrixConfigs[0].componentType", "\"f16\"");
    expect_eval(caps, "device.adapterInfo.subgroupMatrixConfigs[1].K", "8");
    nib_caps_free(caps);
}

static void unknown_names_are_kept_and_logged(void **state)
{
    (void)state;
    log_lines lines = {""};
    nib_context *context;
    const nib_context_options options = {.log = keep_line, .log_user = &lines};
    assert_int_equal(nib_context_create(&options, &context, NULL), NIB_OK);
    nib_caps *caps;
    assert_int_equal(
        nib_caps_parse(context,
                       "{\"features\": [\"telepathy\"], \"limits\": {\"maxDreams\": 3},"
                       " \"adapterInfo\": {\"mood\": \"good\"}, \"colour\": 1}",
                       &caps, NULL),
        NIB_OK);
    assert_true(nib_caps_has_feature(caps, "telepathy"));
    expect_eval(caps, "device.limits.maxDreams", "3");
    expect_eval(caps, "device.adapterInfo.mood is defined", "false");
    assert_non_null(strstr(lines.text, "'telepathy'"));
    assert_non_null(strstr(lines.text, "'maxDreams'"));
    assert_non_null(strstr(lines.text, "'mood'"));
    assert_non_null(strstr(lines.text, "'colour'"));
    nib_caps_free(caps);
    nib_context_free(context);
}

static void malformed_records_name_the_member(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[]", "capabilities|must be an object"},
        {"{\"features\": \"subgroups\"}", "capabilities|features: must be an array"},
        {"{\"features\": [\"subgroups\", 3]}", "features[1]: must be a string"},
        {"{\"limits\": {\"maxBufferSize\": \"big\"}}", "limits.maxBufferSize|number"},
        {"{\"limits\": {\"maxBufferSize\": -1}}", "limits.maxBufferSize|not negative"},
        {"{\"adapterInfo\": {\"vendor\": 3}}", "adapterInfo.vendor|string"},
        {"{\"adapterInfo\": {\"subgroupMinSize\": 2.5}}", "adapterInfo.subgroupMinSize|integer"},
        {"{\"limits\": 3}", "limits: must be an object"},
        {"{\"limits\"", "capabilities:1:|JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_caps *caps;
        nib_error error = {0};
        assert_int_equal(nib_caps_parse(test_context(), cases[i][0], &caps, &error), NIB_FORMAT);
        assert_null(caps);
        expect_message(&error, cases[i][1]);
    }
}

static void setters_of_backends_ignore_what_is_not_finite(void **state)
{
    (void)state;
    nib_caps *caps;
    assert_int_equal(nib_caps_create(test_context(), &caps, NULL), NIB_OK);
    assert_int_equal(nib_caps_set_limit(caps, "maxBufferSize", (double)INFINITY, NULL), NIB_OK);
    assert_int_equal(nib_caps_set_limit(caps, "maxBindGroups", (double)NAN, NULL), NIB_OK);
    assert_int_equal(nib_caps_set_limit(caps, "maxVertexBuffers", 9, NULL), NIB_OK);
    expect_eval(caps, "device.limits.maxVertexBuffers", "8"); /* not finished yet */
    assert_int_equal(nib_caps_finish(caps, NULL), NIB_OK);
    expect_eval(caps,
                "[device.limits.maxBufferSize, device.limits.maxBindGroups, "
                "device.limits.maxVertexBuffers]",
                "[268435456,4,9]");
    nib_caps_free(caps);
}

static void json_gives_the_same_record_back(void **state)
{
    (void)state;
    const char *json =
        "{\"features\": [\"subgroups\", \"shader-f16\"], \"limits\": {\"maxBufferSize\": "
        "4294967292}, \"adapterInfo\": {\"vendor\": \"X\", \"device\": \"Y\", "
        "\"subgroupMaxSize\": 64}, \"wgslLanguageFeatures\": [\"a\"]}";
    nib_caps *caps = parse(json);
    char *first, *second;
    assert_int_equal(nib_caps_json(caps, &first, NULL), NIB_OK);
    nib_caps *again = parse(first);
    assert_int_equal(nib_caps_json(again, &second, NULL), NIB_OK);
    assert_string_equal(first, second);
    document doc;
    open_document(&doc, first);
    expect_json(&doc, "features", "[\"subgroups\",\"shader-f16\"]");
    expect_json(&doc, "limits.maxBufferSize", "4294967292");
    expect_json(&doc, "limits.maxBindGroups", "4");
    expect_json(&doc, "adapterInfo.vendor", "x");
    expect_json(&doc, "adapterInfo.device", "Y");
    expect_json(&doc, "wgslLanguageFeatures", "[\"a\"]");
    close_document(&doc);
    nib_text_free(test_context(), first);
    nib_text_free(test_context(), second);
    nib_caps_free(caps);
    nib_caps_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_format),
        cmocka_unit_test(a_record_overlays_the_defaults),
        cmocka_unit_test(matrix_configurations_are_normalised),
        cmocka_unit_test(unknown_names_are_kept_and_logged),
        cmocka_unit_test(malformed_records_name_the_member),
        cmocka_unit_test(setters_of_backends_ignore_what_is_not_finite),
        cmocka_unit_test(json_gives_the_same_record_back),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
