/* SPDX-License-Identifier: Apache-2.0
 *
 * The variants that need float32 subgroup matrices, which no adapter at hand has: emulated (the rendered WGSL with its
 * matrices rewritten as plain arrays runs on the adapter) and validated (the unmodified WGSL compiles against the feature
 * on Dawn's null backend). Neither is a run on matrix hardware.
 */
#include "emulate.h"
#include "problem.h"

typedef struct world {
    nib_context *context;
    nib_device *cpu, *gpu, *null;
    nib_package *package;
} world;

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    const nib_device_options cpu = {.backend = "cpu"}, null = {.backend = "webgpu", .adapter = "null"};
    w->context = new_context();
    ASSERT_OK(nib_device_open(w->context, &cpu, &w->cpu, &error));
    ASSERT_OK(nib_wgpu_open(w->context, &null, &w->null, &error));
    w->gpu = open_gpu(w->context);
    gpu_of(w->gpu)->rewrite = emulate_subgroup_matrices;
    w->package = load_op(w->context, OP_BNB4);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    nib_package_free(w->package);
    nib_device_free(w->gpu);
    nib_device_free(w->null);
    nib_device_free(w->cpu);
    nib_context_free(w->context);
    free(w);
    return 0;
}

/* An adapter with float32 matrices, and subgroups of 32 only, or of 16 to 64 with control over the size. */
static nib_caps *matrix_profile(world *w, bool sized, const char *invocations)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{\"features\": [\"shader-f16\", \"subgroups\", \"subgroup-size-control\", "
             "\"chromium-experimental-subgroup-matrix\"], "
             "\"limits\": {\"maxComputeInvocationsPerWorkgroup\": %s, \"maxComputeWorkgroupSizeX\": %s, "
             "\"maxComputeWorkgroupStorageSize\": 32768}, "
             "\"adapterInfo\": {\"subgroupMinSize\": %d, \"subgroupMaxSize\": %d, \"subgroupMatrixConfigs\": "
             "[{\"componentType\": \"f32\", \"resultComponentType\": \"f32\", \"M\": 8, \"N\": 8, \"K\": 8}]}}",
             invocations, invocations, sized ? 16 : 32, sized ? 64 : 32);
    nib_caps *caps;
    ASSERT_OK(nib_caps_parse(w->context, json, &caps, &error));
    return caps;
}

typedef struct row {
    const char *variant;
    shape shape;
    bool sized;
    const char *invocations;
    bool run; /* emulation takes a software driver ten seconds a shader, so not all */
} row;

#define BNB4(m, k, n, block, quant, type)                                                          \
    {                                                                                              \
        .op = OP_BNB4, .rows = (m), .K = (k), .N = (n), .block_size = (block), .quant_type = (quant), .dtype = (type) \
    }

static const row rows[] = {
    {"sgmat", BNB4(64, 64, 64, 64, 1, NIB_FLOAT32), false, "1024", true},
    {"sgmat", BNB4(64, 32, 128, 32, 0, NIB_FLOAT32), true, "1024", false},
    {"sgmat", BNB4(128, 96, 64, 16, 1, NIB_FLOAT32), false, "256", false},
    {"sgmat", BNB4(256, 64, 64, 32, 0, NIB_FLOAT32), true, "256", true},
    {"sgmat_widened", BNB4(64, 64, 64, 64, 0, NIB_FLOAT16), false, "1024", false},
    {"sgmat_widened", BNB4(128, 32, 128, 16, 1, NIB_FLOAT16), true, "256", true},
};

static nib_plan *plan_row(world *w, const row *wanted, const problem *p)
{
    nib_caps *caps = matrix_profile(w, wanted->sized, wanted->invocations);
    const nib_request request = request_of(p, NULL);
    nib_plan *plan;
    ASSERT_OK(nib_plan_create(w->package, &request, caps, &plan, &error));
    assert_string_equal(nib_plan_variant(plan), wanted->variant); /* such an adapter gets it without asking */
    nib_caps_free(caps);
    return plan;
}

static void emulated_matrices_give_the_cpus_result(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].run)
            continue;
        rng r = {4000 + i};
        problem p;
        make_problem(w->context, &rows[i].shape, &r, &p);
        solve_problem(w->context, w->cpu, w->package, &p);
        nib_plan *plan = plan_row(w, &rows[i], &p);
        nib_call *call;
        ASSERT_OK(nib_call_prepare(w->gpu, plan, NULL, &call, &error));
        for (size_t k = 0; k < p.input_count; k++)
            ASSERT_OK(nib_call_bind(call, p.tensors[k].name, p.inputs[k], &error));
        ASSERT_OK(nib_call_run(call, &error));
        nib_tensor *y = nib_call_tensor(call, "Y");
        char text[256] = "";
        if (differs(nib_tensor_describe(y), nib_tensor_data(y), nib_tensor_data(p.expected[0]), text, sizeof text))
            fail_msg("row %zu (%s): %s", i, rows[i].variant, text);
        print_message("EMULATED: %s %s %lldx%lldx%lld\n", rows[i].variant, nib_dtype_name(rows[i].shape.dtype),
                      (long long)rows[i].shape.rows, (long long)rows[i].shape.K, (long long)rows[i].shape.N);
        nib_call_free(call);
        nib_plan_free(plan);
        free_problem(&p);
    }
}

static void unmodified_shaders_compile_against_the_feature(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rng r = {4000 + i};
        problem p;
        make_problem(w->context, &rows[i].shape, &r, &p);
        nib_plan *plan = plan_row(w, &rows[i], &p);
        nib_call *call;
        ASSERT_OK(nib_call_prepare(w->null, plan, NULL, &call, &error));
        print_message("VALIDATED: %s, %s\n", rows[i].variant, nib_call_description(call));
        nib_call_free(call);
        nib_plan_free(plan);
        free_problem(&p);
    }
    ASSERT_OK(nib_webgpu_device_status(w->null, &error));
}

/* An adapter without the float32 configuration is not given these variants. */
static void other_matrices_do_not_do(void **state)
{
    world *w = *state;
    rng r = {1};
    problem p;
    make_problem(w->context, &rows[0].shape, &r, &p);
    const nib_request request = request_of(&p, "sgmat"), open_request = request_of(&p, NULL);
    nib_plan *plan;
    ASSERT_FAILS(nib_plan_create(w->package, &request, nib_device_caps(w->gpu), &plan, &error), NIB_NO_VARIANT, "sgmat");
    ASSERT_OK(nib_plan_create(w->package, &open_request, nib_device_caps(w->gpu), &plan, &error));
    assert_string_equal(nib_plan_variant(plan), "tiled");
    nib_plan_free(plan);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulated_matrices_give_the_cpus_result),
        cmocka_unit_test(unmodified_shaders_compile_against_the_feature),
        cmocka_unit_test(other_matrices_do_not_do),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
