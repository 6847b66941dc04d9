/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's device: used as it is, watched for loss, never destroyed.
 */
#include "problem.h"

typedef struct host {
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    WGPUQueue queue;
    int errors;
    bool timed;
} host;

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *out, void *unused)
{
    (void)status, (void)message, (void)unused;
    *(WGPUDevice *)out = device;
}

static void on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *errors, void *unused)
{
    (void)device, (void)type, (void)unused;
    print_message("the application's device: %.*s\n", (int)message.length, message.data);
    ++*(int *)errors;
}

/* A device with WebGPU's default limits and no features, on the adapter that nibble would take. */
static host open_host(bool timed)
{
    host h = {.timed = timed};
    static const WGPUInstanceFeatureName features[] = {WGPUInstanceFeatureName_TimedWaitAny};
    const WGPUInstanceDescriptor descriptor = {.requiredFeatureCount = timed ? 1 : 0, .requiredFeatures = features};
    h.instance = wgpuCreateInstance(&descriptor);
    assert_non_null(h.instance);
    nib_wgpu_sync sync;
    nib_wgpu_adapters adapters;
    const nib_device_options options = {.backend = "webgpu", .adapter = test_adapter()};
    size_t chosen;
    nib_wgpu_sync_init(&sync, h.instance, &nib_default_allocator, timed);
    ASSERT_OK(nib_wgpu_adapters_list(&sync, false, &adapters, &error));
    ASSERT_OK(nib_wgpu_adapter_choose(&adapters, &options, &chosen, &error));
    h.adapter = adapters.items[chosen].adapter;
    wgpuAdapterAddRef(h.adapter);
    nib_wgpu_adapters_free(&adapters);
    nib_wgpu_sync_free(&sync);
    return h;
}

static void open_host_device(host *h)
{
    const WGPUDeviceDescriptor descriptor = {
        .uncapturedErrorCallbackInfo = {.callback = on_error, .userdata1 = &h->errors}};
    const WGPURequestDeviceCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_device, .userdata1 = &h->device};
    wgpuAdapterRequestDevice(h->adapter, &descriptor, info);
    for (int i = 0; i < 1000 && !h->device; i++)
        wgpuInstanceProcessEvents(h->instance);
    assert_non_null(h->device);
    h->queue = wgpuDeviceGetQueue(h->device);
}

static void close_host(host *h)
{
    assert_int_equal(h->errors, 0);
    wgpuQueueRelease(h->queue);
    wgpuDeviceRelease(h->device);
    wgpuAdapterRelease(h->adapter);
    wgpuInstanceRelease(h->instance);
}

static nib_device *wrap(nib_context *context, const host *h)
{
    const nib_webgpu_handles handles = {h->instance, h->adapter, h->device, h->queue, h->timed};
    nib_device *device;
    ASSERT_OK(nib_webgpu_device_wrap(context, &handles, &device, &error));
    return device;
}

/* Solve a Qkv problem on the device; returns the variant. */
static void run_qkv(nib_context *context, nib_device *device, char *variant, size_t variant_bytes)
{
    const shape s = {.op = OP_QKV, .rows = 5, .K = 64, .N = 24, .Nkv = 8, .block_size = 32, .bits = 4,
                     .dtype = NIB_FLOAT32, .norm = true, .skip = true, .residual = true};
    const nib_device_options options = {.backend = "cpu"};
    nib_device *cpu;
    ASSERT_OK(nib_device_open(context, &options, &cpu, &error));
    nib_package *package = load_op(context, OP_QKV);
    rng r = {99};
    problem p;
    make_problem(context, &s, &r, &p);
    solve_problem(context, cpu, package, &p);
    const nib_request request = request_of(&p, NULL);
    nib_plan *plan;
    nib_call *call;
    ASSERT_OK(nib_plan_create(package, &request, nib_device_caps(device), &plan, &error));
    snprintf(variant, variant_bytes, "%s", nib_plan_variant(plan));
    ASSERT_OK(nib_call_prepare(device, plan, NULL, &call, &error));
    for (size_t i = 0; i < p.input_count; i++)
        ASSERT_OK(nib_call_bind(call, p.tensors[i].name, p.inputs[i], &error));
    ASSERT_OK(nib_call_run(call, &error));
    for (size_t i = 0; i < p.output_count; i++) {
        nib_tensor *out = nib_call_tensor(call, p.outputs[i]);
        char text[256] = "";
        assert_false(differs(nib_tensor_describe(out), nib_tensor_data(out), nib_tensor_data(p.expected[i]), text,
                             sizeof text));
    }
    nib_call_free(call);
    nib_plan_free(plan);
    free_problem(&p);
    nib_package_free(package);
    nib_device_free(cpu);
}

/* The adapter could do more, but the device has 8 or 10 storage buffers: the variant that needs few is taken. */
static void plans_with_the_limits_of_the_device(void **state)
{
    (void)state;
    nib_context *context = new_context();
    host h = open_host(true);
    open_host_device(&h);
    nib_device *device = wrap(context, &h);
    WGPULimits limits = {0};
    wgpuDeviceGetLimits(h.device, &limits);
    const nib_caps *caps = nib_device_caps(device);
    assert_true(nib_caps_limit(caps, "maxStorageBuffersPerShaderStage") ==
                (double)limits.maxStorageBuffersPerShaderStage);
    assert_false(nib_caps_has_feature(caps, "subgroups"));
    char variant[64];
    run_qkv(context, device, variant, sizeof variant);
    print_message("%u storage buffers: variant %s\n", limits.maxStorageBuffersPerShaderStage, variant);
    assert_string_equal(variant, limits.maxStorageBuffersPerShaderStage < 10 ? "split_skipsum" : "skipsum");
    nib_webgpu_handles back;
    ASSERT_OK(nib_webgpu_device_handles(device, &back, &error));
    assert_ptr_equal(back.device, h.device);
    assert_ptr_equal(back.queue, h.queue);
    nib_device_free(device);
    nib_context_free(context);
    close_host(&h);
}

/* An instance without TimedWaitAny: waits poll, and still end in time. */
static void works_without_timed_waits(void **state)
{
    (void)state;
    nib_context *context = new_context();
    host h = open_host(false);
    open_host_device(&h);
    nib_device *device = wrap(context, &h);
    char variant[64];
    run_qkv(context, device, variant, sizeof variant);
    assert_false(gpu_of(device)->sync.timed);
    nib_device_free(device);
    nib_context_free(context);
    close_host(&h);
}

/* Freeing nibble leaves device, queue and buffers alive; wrapping again works. */
static void leaves_the_device_alive(void **state)
{
    (void)state;
    nib_context *context = new_context();
    host h = open_host(true);
    open_host_device(&h);
    const WGPUBufferDescriptor descriptor = {
        .usage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, .size = 256};
    WGPUBuffer buffer = wgpuDeviceCreateBuffer(h.device, &descriptor);
    for (int i = 0; i < 3; i++) {
        nib_device *device = wrap(context, &h);
        const nib_tensor_desc desc = desc_of("float32[64]");
        nib_tensor *tensor;
        ASSERT_OK(nib_webgpu_tensor_wrap(device, buffer, 0, 256, &desc, NIB_WEBGPU_NATURAL, &tensor, &error));
        float in[64], out[64];
        for (int k = 0; k < 64; k++)
            in[k] = (float)(k + i);
        ASSERT_OK(nib_webgpu_tensor_write(device, tensor, in, sizeof in, &error));
        if (i == 1) { /* the device goes first */
            ASSERT_OK(nib_webgpu_wait(device, &error));
            nib_device_free(device);
            nib_tensor_free(tensor);
            continue;
        }
        ASSERT_OK(nib_webgpu_tensor_read(device, tensor, out, sizeof out, &error));
        assert_memory_equal(in, out, sizeof in);
        nib_tensor_free(tensor);
        nib_device_free(device);
    }
    assert_int_equal(wgpuBufferGetSize(buffer), 256);
    wgpuBufferRelease(buffer);
    nib_context_free(context);
    close_host(&h);
}

static void notices_that_the_device_was_destroyed(void **state)
{
    (void)state;
    nib_context *context = new_context();
    host h = open_host(true);
    open_host_device(&h);
    nib_device *device = wrap(context, &h);
    ASSERT_OK(nib_webgpu_device_status(device, &error));
    wgpuDeviceDestroy(h.device);
    ASSERT_FAILS(nib_webgpu_device_status(device, &error), NIB_DEVICE_LOST, "lost or destroyed");
    ASSERT_FAILS(nib_webgpu_wait(device, &error), NIB_DEVICE_LOST, "lost");
    nib_device *again;
    const nib_webgpu_handles handles = {h.instance, h.adapter, h.device, h.queue, true};
    ASSERT_FAILS(nib_webgpu_device_wrap(context, &handles, &again, &error), NIB_DEVICE_LOST, "lost");
    nib_device_free(device);
    nib_context_free(context);
    close_host(&h);
}

static void needs_instance_and_device(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *device;
    const nib_webgpu_handles none = {0};
    ASSERT_FAILS(nib_webgpu_device_wrap(context, &none, &device, &error), NIB_INVALID_ARGUMENT, "needs its instance");
    const nib_device_options options = {.backend = "cpu"};
    nib_device *cpu;
    nib_webgpu_handles handles;
    ASSERT_OK(nib_device_open(context, &options, &cpu, &error));
    ASSERT_FAILS(nib_webgpu_device_handles(cpu, &handles, &error), NIB_INVALID_ARGUMENT, "not a WebGPU device");
    ASSERT_FAILS(nib_webgpu_wait(cpu, &error), NIB_INVALID_ARGUMENT, "not a WebGPU device");
    nib_webgpu_set_timeout(cpu, 5);
    nib_device_free(cpu);
    nib_context_free(context);
}

/* Errors of ours never reach the application's callback: they are scoped and returned. */
static void keeps_its_errors_to_itself(void **state)
{
    (void)state;
    nib_context *context = new_context();
    host h = open_host(true);
    open_host_device(&h);
    nib_device *device = wrap(context, &h);
    nib_wgpu_pipeline *pipeline;
    ASSERT_FAILS(nib_wgpu_build_own(gpu_of(device), "bad", "fn nonsense(", "w", &pipeline, &error), NIB_SHADER, "WGSL");
    assert_int_equal(h.errors, 0);
    nib_device_free(device);
    nib_context_free(context);
    close_host(&h);
}

/* A device of somebody else's is asked for its loss on each call, and still encoding is cheap. */
static void encoding_is_cheap_there_too(void **state)
{
    (void)state;
    nib_context *context = new_context();
    host h = open_host(true);
    open_host_device(&h);
    nib_device *device = wrap(context, &h);
    const shape s = {.op = OP_BNB4, .rows = 1, .K = 64, .N = 8, .block_size = 64, .dtype = NIB_FLOAT32};
    nib_package *package = load_op(context, OP_BNB4);
    rng r = {5};
    problem p;
    make_problem(context, &s, &r, &p);
    const nib_request request = request_of(&p, NULL);
    nib_plan *plan;
    nib_call *call;
    ASSERT_OK(nib_plan_create(package, &request, nib_device_caps(device), &plan, &error));
    ASSERT_OK(nib_call_prepare(device, plan, NULL, &call, &error));
    for (size_t i = 0; i < p.input_count; i++)
        ASSERT_OK(nib_call_bind(call, p.tensors[i].name, p.inputs[i], &error));
    ASSERT_OK(nib_webgpu_call_upload(call, &error));
    double best = 1;
    for (int round = 0; round < 20; round++) {
        WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(h.device, NULL);
        WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
        const double start = nib_seconds();
        for (int i = 0; i < 500; i++)
            ASSERT_OK(nib_webgpu_call_encode_pass(call, pass, &error));
        const double each = (nib_seconds() - start) / 500;
        best = each < best ? each : best;
        wgpuComputePassEncoderEnd(pass);
        wgpuComputePassEncoderRelease(pass);
        wgpuCommandEncoderRelease(encoder);
    }
    print_message("encode: %.2f us a pass on a device of the application's\n", best * 1e6);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(best < 5e-6);
#endif
    nib_call_free(call);
    nib_plan_free(plan);
    free_problem(&p);
    nib_package_free(package);
    nib_device_free(device);
    nib_context_free(context);
    close_host(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_with_the_limits_of_the_device), cmocka_unit_test(works_without_timed_waits),
        cmocka_unit_test(leaves_the_device_alive),             cmocka_unit_test(notices_that_the_device_was_destroyed),
        cmocka_unit_test(needs_instance_and_device),           cmocka_unit_test(keeps_its_errors_to_itself),
        cmocka_unit_test(encoding_is_cheap_there_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
