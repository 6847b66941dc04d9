/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of devices, timed runs and ceilings, through the public interface.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nibble/nibble.h"

#define PACKAGE NIB_SOURCE_DIR "/kernels/com.microsoft.MatMulBnb4"

static nib_context *context;
static nib_error error;

static void the_cpu_is_always_listed(void **state)
{
    (void)state;
    char *text = NULL;
    assert_int_equal(nib_devices_json(context, &text, &error), NIB_OK);
    assert_int_equal(strncmp(text, "{\"devices\": [", 13), 0);
    assert_non_null(strstr(text, "{\"backend\": \"cpu\", \"name\": \"cpu\", \"kind\": \"cpu\""));
    assert_non_null(strstr(text, "{\"name\": \"scalar\", \"available\": true}"));
    nib_text_free(context, text);
    assert_int_equal(nib_devices_json(NULL, &text, &error), NIB_INVALID_ARGUMENT);
    assert_null(text);
}

/* A module that cannot be loaded is told, not an error. */
static void a_missing_backend_has_a_reason(void **state)
{
    (void)state;
    char *text = NULL;
    setenv("NIBBLE_WEBGPU_MODULE", "/nowhere/with a \"quote\".so", 1);
    assert_int_equal(nib_devices_json(context, &text, &error), NIB_OK);
    unsetenv("NIBBLE_WEBGPU_MODULE");
    const char *missing = strstr(text, "\"missing\": [{\"backend\": \"webgpu\", \"reason\": \"");
    assert_non_null(missing);
    assert_non_null(strstr(missing, "\\\"quote\\\""));
    nib_text_free(context, text);
}

static nib_device *open_cpu(const char *isa)
{
    nib_device *device = NULL;
    const nib_device_options options = {.backend = "cpu", .isa = isa};
    assert_int_equal(nib_device_open(context, &options, &device, &error), NIB_OK);
    return device;
}

/* Any machine of this century reads 10 MB and does 10 million operations in a second, and none a
 * hundred thousand times as much as a good server. */
static void ceilings_are_plausible(void **state)
{
    (void)state;
    static const char *const rows[] = {"scalar", NULL};
    nib_ceilings ceilings;
    for (size_t i = 0; i < 2; i++) {
        nib_device *device = open_cpu(rows[i]);
        assert_int_equal(nib_device_ceilings(device, &ceilings, &error), NIB_OK);
        assert_true(ceilings.bytes_per_second > 1e7 && ceilings.bytes_per_second < 1e14);
        assert_true(ceilings.flops_per_second > 1e7 && ceilings.flops_per_second < 1e16);
        nib_device_free(device);
    }
    assert_int_equal(nib_device_ceilings(NULL, &ceilings, &error), NIB_INVALID_ARGUMENT);
}

static const nib_named_desc tensors[] = {
    {"A", {NIB_FLOAT32, 2, {4, 64}}},
    {"B", {NIB_UINT8, 1, {512}}},
    {"absmax", {NIB_FLOAT32, 1, {16}}},
};
static const nib_named_scalar attributes[] = {
    {.name = "K", .number = 64},
    {.name = "N", .number = 16},
    {.name = "block_size", .number = 64},
    {.name = "quant_type", .number = 1},
};

static void runs_are_timed(void **state)
{
    (void)state;
    nib_package *package;
    nib_plan *plan;
    nib_call *call;
    nib_timing timing;
    nib_tensor *inputs[3];
    nib_device *device = open_cpu(NULL);
    const nib_request request = {
        .tensors = tensors, .tensor_count = 3, .attributes = attributes, .attribute_count = 4};
    assert_int_equal(nib_package_load(context, PACKAGE, NULL, &package, &error), NIB_OK);
    assert_int_equal(nib_plan_create(package, &request, nib_device_caps(device), &plan, &error),
                     NIB_OK);
    assert_int_equal(nib_call_prepare(device, plan, NULL, &call, &error), NIB_OK);
    assert_int_equal(nib_call_time(call, 3, &timing, &error), NIB_REQUEST); /* nothing is bound */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(nib_tensor_create(context, &tensors[i].desc, &inputs[i], &error), NIB_OK);
        memset(nib_tensor_data(inputs[i]), 0x3c, nib_tensor_bytes(inputs[i]));
        assert_int_equal(nib_call_bind(call, tensors[i].name, inputs[i], &error), NIB_OK);
    }
    assert_int_equal(nib_call_time(call, 0, &timing, &error), NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_call_time(NULL, 1, &timing, &error), NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_call_time(call, 50, &timing, &error), NIB_OK);
    assert_true(timing.device > 0 && timing.host >= 0 && timing.wall >= timing.device);
    assert_true(timing.wall - timing.device - timing.host < 1e-9);
    /* it is a run: the output is there */
    assert_true(*(const float *)nib_tensor_data(nib_call_tensor(call, "Y")) != 0);
    nib_call_free(call);
    nib_plan_free(plan);
    nib_package_free(package);
    nib_device_free(device);
    for (size_t i = 0; i < 3; i++)
        nib_tensor_free(inputs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_is_always_listed),
        cmocka_unit_test(a_missing_backend_has_a_reason),
        cmocka_unit_test(ceilings_are_plausible),
        cmocka_unit_test(runs_are_timed),
    };
    if (nib_context_create(NULL, &context, &error) != NIB_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    nib_context_free(context);
    return failed;
}
