/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_test.h"

static void opens_a_device_and_fills_the_record(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *device = open_gpu(context);
    print_message("%s\n", nib_device_description(device));
    const nib_caps *caps = nib_device_caps(device);
    WGPULimits limits = {0};
    wgpuDeviceGetLimits(gpu_of(device)->device, &limits);
    assert_true(nib_caps_limit(caps, "maxStorageBufferBindingSize") == (double)limits.maxStorageBufferBindingSize);
    assert_true(nib_caps_limit(caps, "maxComputeWorkgroupsPerDimension") == 65535.0);
    /* The device got the adapter's best for what kernels need, and defaults elsewhere. */
    WGPULimits best = {0};
    wgpuAdapterGetLimits(gpu_of(device)->adapter, &best);
    assert_int_equal(limits.maxStorageBuffersPerShaderStage, best.maxStorageBuffersPerShaderStage);
    assert_int_equal(limits.maxComputeWorkgroupStorageSize, best.maxComputeWorkgroupStorageSize);
    assert_int_equal(limits.minStorageBufferOffsetAlignment, 256);
    /* Features are the device's, not the adapter's. */
    assert_int_equal(nib_caps_has_feature(caps, "shader-f16"),
                     wgpuDeviceHasFeature(gpu_of(device)->device, WGPUFeatureName_ShaderF16));
    nib_device_free(device);
    nib_context_free(context);
}

static void leaves_disabled_features_off(void **state)
{
    (void)state;
    nib_context *context = new_context();
    static const char *const off[] = {"subgroups", "shader-f16"};
    const nib_device_options options = {.backend = "webgpu",
                                        .adapter = test_adapter(),
                                        .disabled_features = off,
                                        .disabled_feature_count = 2};
    nib_device *device;
    ASSERT_OK(nib_wgpu_open(context, &options, &device, &error));
    const nib_caps *caps = nib_device_caps(device);
    assert_false(nib_caps_has_feature(caps, "subgroups"));
    assert_false(nib_caps_has_feature(caps, "subgroup-size-control")); /* needs subgroups */
    assert_false(nib_caps_has_feature(caps, "chromium-experimental-subgroup-matrix"));
    assert_false(nib_caps_has_feature(caps, "shader-f16"));
    assert_null(nib_map_get_cstr(caps->adapter, "subgroupMinSize"));
    nib_device_free(device);

    static const char *const misspelt[] = {"shader_f16"};
    const nib_device_options wrong = {.backend = "webgpu",
                                      .adapter = test_adapter(),
                                      .disabled_features = misspelt,
                                      .disabled_feature_count = 1};
    ASSERT_FAILS(nib_wgpu_open(context, &wrong, &device, &error), NIB_INVALID_ARGUMENT, "'shader_f16'");
    assert_null(device);
    nib_context_free(context);
}

static nib_wgpu_adapters two_adapters(void)
{
    nib_wgpu_adapters list = {.count = 2};
    list.items[0] = (nib_wgpu_adapter){.type = WGPUAdapterType_DiscreteGPU, .backend = WGPUBackendType_Vulkan};
    strcpy(list.items[0].name, "Fast Card 9000");
    strcpy(list.items[0].vendor, "acme");
    list.items[1] = (nib_wgpu_adapter){.type = WGPUAdapterType_CPU, .backend = WGPUBackendType_Vulkan};
    strcpy(list.items[1].name, "softpipe");
    strcpy(list.items[1].vendor, "mesa");
    return list;
}

static void chooses_adapters_by_name_and_kind(void **state)
{
    (void)state;
    const nib_wgpu_adapters list = two_adapters();
    size_t chosen;
    static const struct {
        const char *wanted;
        size_t index;
    } rows[] = {{"0", 0}, {"1", 1}, {"fast", 0}, {"ACME", 0}, {"mesa", 1}, {"software", 1}, {"discrete", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const nib_device_options options = {.adapter = rows[i].wanted};
        ASSERT_OK(nib_wgpu_adapter_choose(&list, &options, &chosen, &error));
        assert_int_equal(chosen, rows[i].index);
    }
    const nib_device_options absent = {.adapter = "radeon"};
    ASSERT_FAILS(nib_wgpu_adapter_choose(&list, &absent, &chosen, &error), NIB_NO_DEVICE, "softpipe (software, Vulkan)");
    const nib_device_options beyond = {.adapter = "2"};
    ASSERT_FAILS(nib_wgpu_adapter_choose(&list, &beyond, &chosen, &error), NIB_NO_DEVICE, "no adapter '2'");
}

static void takes_software_only_when_meant(void **state)
{
    (void)state;
    nib_wgpu_adapters list = two_adapters();
    list.items[0] = list.items[1];
    list.count = 1;
    size_t chosen;
    const nib_device_options automatic = {.backend = "auto"}, named = {.backend = "webgpu"};
    unsetenv("NIBBLE_WEBGPU_SOFTWARE");
    ASSERT_FAILS(nib_wgpu_adapter_choose(&list, &automatic, &chosen, &error), NIB_NO_DEVICE, "no GPU, only software");
    ASSERT_FAILS(nib_wgpu_adapter_choose(&list, NULL, &chosen, &error), NIB_NO_DEVICE, "only software");
    ASSERT_OK(nib_wgpu_adapter_choose(&list, &named, &chosen, &error));
    setenv("NIBBLE_WEBGPU_SOFTWARE", "1", 1);
    ASSERT_OK(nib_wgpu_adapter_choose(&list, &automatic, &chosen, &error));
    list.count = 0;
    ASSERT_FAILS(nib_wgpu_adapter_choose(&list, &named, &chosen, &error), NIB_NO_DEVICE, "no WebGPU adapter");
}

static void lists_adapters_as_json(void **state)
{
    (void)state;
    nib_context *context = new_context();
    char *text;
    ASSERT_OK(nib_webgpu_devices_json(context, &text, &error));
    print_message("%s\n", text);
    assert_non_null(strstr(text, "\"caps\""));
    assert_non_null(strstr(text, "maxStorageBufferBindingSize"));
    nib_text_free(context, text);
    nib_context_free(context);
}

/* The backend as a program without Dawn gets it: through the library's loader. */
static void opens_through_the_module(void **state)
{
    (void)state;
    nib_context *context = new_context();
    const nib_device_options options = {.backend = "webgpu", .adapter = test_adapter()};
    nib_device *device;
    ASSERT_OK(nib_device_open(context, &options, &device, &error));
    assert_string_equal(nib_device_backend(device), "webgpu");
    nib_device_free(device);
    nib_context_free(context);
}

static void opens_the_null_backend_by_name_only(void **state)
{
    (void)state;
    nib_context *context = new_context();
    const nib_device_options options = {.backend = "webgpu", .adapter = "null"};
    nib_device *device;
    ASSERT_OK(nib_wgpu_open(context, &options, &device, &error));
    assert_non_null(strstr(nib_device_description(device), "Null"));
    assert_true(nib_caps_has_feature(nib_device_caps(device), "shader-f16"));
    nib_device_free(device);
    nib_context_free(context);
}

static void *failing_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    size_t *left = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    if (*left == 0)
        return NULL;
    (*left)--;
    return realloc(ptr, new_bytes);
}

/* Opening fails cleanly at each of our allocations. */
static void survives_running_out_of_memory(void **state)
{
    (void)state;
    bool opened = false;
    size_t n = 0;
    for (; n < 400 && !opened; n += n < 30 ? 1 : 7) {
        size_t left = 1000000;
        nib_context *context;
        const nib_context_options options = {.allocator = {failing_resize, &left}};
        ASSERT_OK(nib_context_create(&options, &context, &error));
        left = n;
        nib_device *device = NULL;
        const nib_device_options device_options = {.backend = "webgpu", .adapter = "null"};
        const nib_status status = nib_wgpu_open(context, &device_options, &device, NULL);
        assert_true(status == NIB_OK || status == NIB_OUT_OF_MEMORY);
        opened = status == NIB_OK;
        nib_device_free(device);
        nib_context_free(context);
    }
    assert_true(opened);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_a_device_and_fills_the_record), cmocka_unit_test(leaves_disabled_features_off),
        cmocka_unit_test(chooses_adapters_by_name_and_kind),   cmocka_unit_test(takes_software_only_when_meant),
        cmocka_unit_test(lists_adapters_as_json),              cmocka_unit_test(opens_through_the_module),
        cmocka_unit_test(opens_the_null_backend_by_name_only), cmocka_unit_test(survives_running_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
