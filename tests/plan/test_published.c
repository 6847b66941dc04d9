/* SPDX-License-Identifier: Apache-2.0
 *
 * Published manifests plan as they are: every case of Add's test.json, and Softmax over shapes that
 * reach its variants.
 */
#include "support.h"

#include "base/error.h"

#define ADD     NIB_SHARED_DIR "/packages/ai.onnx.Add/build/webgpu/"
#define SOFTMAX NIB_SHARED_DIR "/packages/ai.onnx.Softmax/build/webgpu/manifest.json"

static nib_package *add, *softmax;

static nib_tensor_desc desc_of(nib_value tensor)
{
    nib_tensor_desc desc = {0};
    const nib_list *shape = nib_map_get_cstr(tensor.as.map, "shape")->as.list;
    desc.dtype = nib_dtype_from_name(nib_map_get_cstr(tensor.as.map, "dtype")->as.string.data);
    desc.rank = (uint32_t)shape->count;
    for (size_t i = 0; i < shape->count; i++)
        desc.dims[i] = (int64_t)shape->items[i].as.number;
    assert_int_not_equal(desc.dtype, NIB_DTYPE_NONE);
    return desc;
}

static void expect_output(const nib_plan *plan, nib_str key, nib_value tensor, const char *name)
{
    const nib_plan_tensor *found = nib_plan_find_tensor(plan, key);
    assert_non_null(found);
    char have[128], want[128];
    const nib_tensor_desc expected = desc_of(tensor);
    nib_tensor_desc_format(&found->desc, have, sizeof have);
    nib_tensor_desc_format(&expected, want, sizeof want);
    if (strcmp(have, want) != 0)
        fail_msg("%s: %.*s is %s and not %s", name, NIB_STR_ARG(key), have, want);
}

/* Plans one case on the default device. false: refused because of its dtype, which a skipped case
 * may have. */
static bool plan_case(nib_value test)
{
    const nib_map *inputs = nib_map_get_cstr(test.as.map, "inputs")->as.map;
    const nib_map *outputs = nib_map_get_cstr(test.as.map, "outputs")->as.map;
    const char *name = nib_map_get_cstr(test.as.map, "name")->as.string.data;
    nib_named_desc tensors[4];
    assert_true(inputs->count <= 4);
    for (size_t i = 0; i < inputs->count; i++)
        tensors[i] =
            (nib_named_desc){inputs->entries[i].key.data, desc_of(inputs->entries[i].value)};
    const nib_request request = {.tensors = tensors, .tensor_count = inputs->count};
    nib_caps *caps;
    nib_plan *plan;
    nib_error error = {0};
    /* float16 cases need the feature; everything else of the device is the default */
    assert_int_equal(
        nib_caps_parse(test_context(), "{\"features\": [\"shader-f16\"]}", &caps, NULL), NIB_OK);
    const nib_status status = nib_plan_create(add, &request, caps, &plan, &error);
    nib_caps_free(caps);
    if (status == NIB_REQUEST && nib_map_get_cstr(test.as.map, "skipGpu") &&
        strstr(error.message, "has dtype"))
        return false;
    if (status != NIB_OK)
        fail_msg("%s: %s", name, error.message);
    for (size_t i = 0; i < outputs->count; i++)
        expect_output(plan, outputs->entries[i].key, outputs->entries[i].value, name);
    nib_plan_free(plan);
    return true;
}

static void every_case_of_add_has_its_shape(void **state)
{
    (void)state;
    char *text = read_text_file(ADD "test.json");
    assert_non_null(text);
    document doc;
    open_document(&doc, text);
    const nib_list *cases = document_at(&doc, "cases").as.list;
    size_t planned_cases = 0, excepted = 0;
    for (size_t i = 0; i < cases->count; i++) {
        if (plan_case(cases->items[i]))
            planned_cases++;
        else
            excepted++;
    }
    printf(
        "ai.onnx.Add: %zu cases planned, %zu excepted (a dtype that the manifest does not admit)\n",
        planned_cases, excepted);
    assert_int_equal(planned_cases + excepted, 51);
    assert_true(excepted <= 1);
    close_document(&doc);
    free(text);
}

static void add_chooses_by_shape(void **state)
{
    (void)state;
    static const struct {
        const char *request, *variant, *dispatch;
    } cases[] = {
        {"a=float32[2,8] b=float32[2,8]", "same_shape_vec4", "1 1"},
        {"A=float32[2,8] B=float32[1]", "scalar_b_vec4", "1 1"},
        {"a=float32[] b=float32[2,8]", "scalar_a_vec4", "1 1"},
        {"a=float32[2,1] b=float32[4]", "broadcast_vec4", "1 1"},
        {"a=float32[3] b=float32[3]", "broadcast", "1 1"},
        {"a=int8[3,0] b=int8[1]", "broadcast", "0 0"},
        {"a=float32[65537,4] b=float32[65537,4]", "same_shape_vec4", "65 1"},
        {"a=float32[4096,4097] b=float32[4096,4097]", "same_shape_vec4", "16388 1"},
        {"a=float32[8192,8196] b=float32[8192,8196]", "same_shape_vec4", "65535 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char dispatch[32];
        nib_plan *plan = must_plan(add, cases[i].request, NULL);
        snprintf(dispatch, sizeof dispatch, "%u %u", plan->passes[0].dispatch[0],
                 plan->passes[0].dispatch[1]);
        assert_string_equal(nib_plan_variant(plan), cases[i].variant);
        assert_string_equal(dispatch, cases[i].dispatch);
        nib_plan_free(plan);
    }
    planned wrong = plan_text(add, "a=float32[2,3] b=float32[2,4]", NULL);
    assert_int_equal(wrong.status, NIB_EVAL);
    expect_message(&wrong.error, "output 'c' (C)|broadcastShape(shapes.a, shapes.b)");
    wrong = plan_text(add, "a=float16[8] b=float16[8]", NULL);
    assert_int_equal(wrong.status, NIB_NO_VARIANT);
    expect_message(&wrong.error, "`f16Ok(dtypes.T)` is false");
    wrong = plan_text(add, "a=float32[8]", NULL);
    expect_message(&wrong.error, "missing required input 'b' (B)");
}

#define SUBGROUPS                                                                                  \
    "{\"features\": [\"subgroups\"], \"adapterInfo\": {\"subgroupMinSize\": 32, "                  \
    "\"subgroupMaxSize\": 32}}"

static void softmax_plans(void **state)
{
    (void)state;
    static const struct {
        const char *request, *caps, *variant;
        bool demoted;
    } cases[] = {
        {"x=float32[100,33]", NULL, "online_wg", false},
        {"x=float32[4,256]", NULL, "online_wg_vec4", false},
        /* fewer columns than WG_VEC4_MIN_COLS demote the vec4 shader, and a plainer one takes over
         */
        {"x=float32[4,64]", NULL, "online_wg", false},
        {"x=float32[4,16]", NULL, "online_local_vec4_nosg", false},
        {"x=float32[4,7]", NULL, "online_local_nosg", false},
        {"x=float32[2,131072]", NULL, "longrow_split", false},
        {"x=float32[512,64]", SUBGROUPS, NULL, false},
        {"x=float32[4,16,8] @axis=1", NULL, "strided_online_coop", false},
        {"x=float32[4,8,8] @axis=-1", NULL, "online_local_vec4_nosg", false},
        {"x=float32[0,16]", NULL, NULL, false},
        {"x=float32[40,32]", NULL, "online_packed_rows_vec4_nosg", false},
        {"x=float32[40,31]", NULL, "online_packed_rows_nosg", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_plan *plan = must_plan(softmax, cases[i].request, cases[i].caps);
        if (cases[i].variant && strcmp(nib_plan_variant(plan), cases[i].variant) != 0)
            fail_msg("%s takes %s and not %s", cases[i].request, nib_plan_variant(plan),
                     cases[i].variant);
        assert_int_equal(plan->demoted, cases[i].demoted);
        nib_plan_free(plan);
    }
    /* the demoted one says so, and its tunables are those of the variant that was chosen */
    nib_plan *plan = must_plan(softmax, "x=float32[4,64]", NULL);
    bool found = false;
    for (size_t i = 0; i < plan->rejected_count; i++)
        found =
            found || (nib_str_is(plan->rejected[i].variant, "online_wg_vec4") &&
                      nib_str_starts(plan->rejected[i].reason, NIB_STR("demoted: `dim(shapes.x")));
    assert_true(found);
    nib_plan_free(plan);
    plan = must_plan(softmax, "x=float32[4,16]", NULL);
    assert_true(nib_map_get_cstr(plan->tunables, "WORKGROUP_SIZE")->as.number == 8);
    assert_true(nib_map_get_cstr(plan->derive, "workgroupSize")->as.number == 8);
    nib_plan_free(plan);
}

/* Pin each variant in turn on a shape for which it is eligible; every one must give passes. */
static void every_softmax_variant_that_accepts_plans(void **state)
{
    (void)state;
    static const char *const shapes[] = {"x=float32[512,64]",
                                         "x=float32[2,131072]",
                                         "x=float32[64,33]",
                                         "x=float32[4,7]",
                                         "x=float32[4,16]",
                                         "x=float32[4,16,8] @axis=1",
                                         "x=float32[16,2048,256] @axis=1",
                                         "x=float32[40,32]",
                                         "x=float32[40,31]"};
    const nib_contract *contract = softmax->contract;
    for (size_t v = 0; v < contract->variant_count; v++) {
        bool accepted = false;
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            char request[256];
            snprintf(request, sizeof request, "%s !%.*s", shapes[i],
                     NIB_STR_ARG(contract->variants[v].id));
            planned result = plan_text(softmax, request, SUBGROUPS);
            if (result.status != NIB_OK && result.status != NIB_NO_VARIANT)
                fail_msg("%s: %s", request, result.error.message);
            accepted = accepted || result.status == NIB_OK;
            nib_plan_free(result.plan);
        }
        if (!accepted)
            fail_msg("no shape reaches %.*s", NIB_STR_ARG(contract->variants[v].id));
    }
}

int main(void)
{
    add = package_from_file(ADD "manifest.json");
    softmax = package_from_file(SOFTMAX);
    if (!add || !softmax) {
        printf("NOT RUN: the published manifests are not in %s/packages (set NIB_SHARED_DIR)\n",
               NIB_SHARED_DIR);
        free_package(add);
        free_package(softmax);
        free_test_context();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_add_has_its_shape),
        cmocka_unit_test(add_chooses_by_shape),
        cmocka_unit_test(softmax_plans),
        cmocka_unit_test(every_softmax_variant_that_accepts_plans),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_package(add);
    free_package(softmax);
    free_test_context();
    return failed;
}
