/* SPDX-License-Identifier: Apache-2.0
 *
 * An application with a WebGPU device of its own uses a kernel package on it:
 *
 *     example_own_device kernels/com.microsoft.MatMulBnb4
 *
 * One command encoder holds a shader of the application (it makes A), a nibble call (Y = A times a 4-bit weight), and
 * another shader of the application (it doubles Y), all on the application's buffers; there is one submission. Afterwards
 * nibble is freed and the device still works.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nibble/nibble.h>
#include <nibble/webgpu.h>

enum { M = 3, N = 48, K = 64, BLOCK = 32 };

static nib_error error;

static void check(nib_status status)
{
    char line[2600];
    if (status == NIB_OK)
        return;
    nib_error_format(&error, line, sizeof line);
    fprintf(stderr, "example_own_device: %s\n", line);
    exit(1);
}

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "example_own_device: %s\n", what);
    exit(1);
}

/* ---- the application's own WebGPU ---- */

typedef struct app {
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    WGPUQueue queue;
    int errors;
} app;

static void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *out, void *unused)
{
    (void)status, (void)message, (void)unused;
    *(WGPUAdapter *)out = adapter;
}

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *out, void *unused)
{
    (void)status, (void)message, (void)unused;
    *(WGPUDevice *)out = device;
}

static void on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *errors, void *unused)
{
    (void)device, (void)type, (void)unused;
    fprintf(stderr, "the application's device: %.*s\n", (int)message.length, message.data);
    ++*(int *)errors;
}

static void wait_for(const app *a, WGPUFuture future)
{
    WGPUFutureWaitInfo info = {.future = future};
    require(wgpuInstanceWaitAny(a->instance, 1, &info, 10000000000u) == WGPUWaitStatus_Success, "a wait took too long");
}

static void open_app(app *a)
{
    static const WGPUInstanceFeatureName features[] = {WGPUInstanceFeatureName_TimedWaitAny};
    const WGPUInstanceDescriptor instance = {.requiredFeatureCount = 1, .requiredFeatures = features};
    a->instance = wgpuCreateInstance(&instance);
    require(a->instance != NULL, "no instance");
    const WGPURequestAdapterCallbackInfo adapter = {
        .mode = WGPUCallbackMode_WaitAnyOnly, .callback = on_adapter, .userdata1 = &a->adapter};
    wait_for(a, wgpuInstanceRequestAdapter(a->instance, NULL, adapter));
    require(a->adapter != NULL, "no adapter");
    const WGPUDeviceDescriptor descriptor = {
        .uncapturedErrorCallbackInfo = {.callback = on_error, .userdata1 = &a->errors}};
    const WGPURequestDeviceCallbackInfo device = {
        .mode = WGPUCallbackMode_WaitAnyOnly, .callback = on_device, .userdata1 = &a->device};
    wait_for(a, wgpuAdapterRequestDevice(a->adapter, &descriptor, device));
    require(a->device != NULL, "no device");
    a->queue = wgpuDeviceGetQueue(a->device);
}

static WGPUComputePipeline new_pipeline(const app *a, const char *wgsl)
{
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL}, .code = {wgsl, WGPU_STRLEN}};
    const WGPUShaderModuleDescriptor module_descriptor = {.nextInChain = &source.chain};
    WGPUShaderModule module = wgpuDeviceCreateShaderModule(a->device, &module_descriptor);
    const WGPUComputePipelineDescriptor descriptor = {
        .compute = {.module = module, .entryPoint = {"main", WGPU_STRLEN}}};
    WGPUComputePipeline pipeline = wgpuDeviceCreateComputePipeline(a->device, &descriptor);
    wgpuShaderModuleRelease(module);
    return pipeline;
}

static WGPUBuffer new_buffer(const app *a, uint64_t size, WGPUBufferUsage usage)
{
    const WGPUBufferDescriptor descriptor = {.usage = usage, .size = size};
    return wgpuDeviceCreateBuffer(a->device, &descriptor);
}

/* Record one dispatch of a pipeline that takes one buffer. */
static void dispatch(const app *a, WGPUCommandEncoder encoder, WGPUComputePipeline pipeline, WGPUBuffer buffer,
                     uint64_t offset, uint64_t size, uint32_t groups)
{
    WGPUBindGroupLayout layout = wgpuComputePipelineGetBindGroupLayout(pipeline, 0);
    const WGPUBindGroupEntry entry = {.binding = 0, .buffer = buffer, .offset = offset, .size = size};
    const WGPUBindGroupDescriptor descriptor = {.layout = layout, .entryCount = 1, .entries = &entry};
    WGPUBindGroup group = wgpuDeviceCreateBindGroup(a->device, &descriptor);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    wgpuComputePassEncoderSetPipeline(pass, pipeline);
    wgpuComputePassEncoderSetBindGroup(pass, 0, group, 0, NULL);
    wgpuComputePassEncoderDispatchWorkgroups(pass, groups, 1, 1);
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    wgpuBindGroupRelease(group);
    wgpuBindGroupLayoutRelease(layout);
}

static void submit(const app *a, WGPUCommandEncoder encoder)
{
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuQueueSubmit(a->queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(encoder);
}

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *ok, void *unused)
{
    (void)message, (void)unused;
    *(int *)ok = status == WGPUMapAsyncStatus_Success;
}

static void read_buffer(const app *a, WGPUBuffer buffer, uint64_t offset, void *data, size_t bytes)
{
    WGPUBuffer staging = new_buffer(a, bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(a->device, NULL);
    wgpuCommandEncoderCopyBufferToBuffer(encoder, buffer, offset, staging, 0, bytes);
    submit(a, encoder);
    int ok = 0;
    const WGPUBufferMapCallbackInfo info = {
        .mode = WGPUCallbackMode_WaitAnyOnly, .callback = on_mapped, .userdata1 = &ok};
    wait_for(a, wgpuBufferMapAsync(staging, WGPUMapMode_Read, 0, bytes, info));
    require(ok, "reading back failed");
    memcpy(data, wgpuBufferGetConstMappedRange(staging, 0, bytes), bytes);
    wgpuBufferUnmap(staging);
    wgpuBufferRelease(staging);
}

static const char make_a[] = "@group(0) @binding(0) var<storage, read_write> a: array<f32>;\n"
                             "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
                             "  if (id.x < arrayLength(&a)) { a[id.x] = f32(id.x % 7u) - 3.0; }\n"
                             "}\n";
static const char double_y[] = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"
                               "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
                               "  if (id.x < arrayLength(&y)) { y[id.x] = 2.0 * y[id.x]; }\n"
                               "}\n";

/* ---- nibble on it ---- */

typedef struct kernel {
    nib_context *context;
    nib_device *device;
    nib_package *package;
    nib_plan *plan;
    nib_call *call;
    nib_tensor *packed, *absmax, *a, *y;
} kernel;

static void quantize_weight(kernel *k, float *weight)
{
    for (size_t i = 0; i < N * K; i++)
        weight[i] = (float)((i * 7919u) % 211u) / 105.0f - 1.0f;
    const nib_tensor_desc desc = {.dtype = NIB_FLOAT32, .rank = 2, .dims = {N, K}};
    nib_tensor *tensor, *back;
    check(nib_tensor_borrow(k->context, &desc, weight, N * K * sizeof *weight, &tensor, &error));
    check(nib_bnb4_quantize(k->context, tensor, 1, BLOCK, NIB_FLOAT32, &k->packed, &k->absmax, NULL, &error));
    /* What the weight is after quantizing: with it the product is exact. */
    check(nib_bnb4_dequantize(k->context, k->packed, k->absmax, 1, BLOCK, N, K, &back, &error));
    memcpy(weight, nib_tensor_data(back), N * K * sizeof *weight);
    nib_tensor_free(back);
    nib_tensor_free(tensor);
    nib_tensor_set_constant(k->packed, true); /* uploaded once */
    nib_tensor_set_constant(k->absmax, true);
}

static void open_kernel(kernel *k, const app *a, const char *package, float *weight)
{
    const nib_webgpu_handles handles = {a->instance, a->adapter, a->device, a->queue, true};
    check(nib_context_create(NULL, &k->context, &error));
    check(nib_webgpu_device_wrap(k->context, &handles, &k->device, &error));
    check(nib_package_load(k->context, package, NULL, &k->package, &error));
    quantize_weight(k, weight);
    const nib_tensor_desc a_desc = {.dtype = NIB_FLOAT32, .rank = 2, .dims = {M, K}};
    const nib_named_desc tensors[] = {
        {"A", a_desc}, {"B", *nib_tensor_describe(k->packed)}, {"absmax", *nib_tensor_describe(k->absmax)}};
    const nib_named_scalar attributes[] = {{.name = "N", .number = N},
                                           {.name = "K", .number = K},
                                           {.name = "block_size", .number = BLOCK},
                                           {.name = "quant_type", .number = 1}};
    const nib_request request = {.tensors = tensors, .tensor_count = 3, .attributes = attributes, .attribute_count = 4};
    check(nib_plan_create(k->package, &request, nib_device_caps(k->device), &k->plan, &error));
    check(nib_call_prepare(k->device, k->plan, NULL, &k->call, &error));
}

/* The application's buffers as the call's tensors. Y is a range in the middle of a larger buffer. */
static void bind_kernel(kernel *k, WGPUBuffer a, WGPUBuffer y, uint64_t y_offset)
{
    const nib_tensor_desc a_desc = {.dtype = NIB_FLOAT32, .rank = 2, .dims = {M, K}};
    const nib_tensor_desc y_desc = {.dtype = NIB_FLOAT32, .rank = 2, .dims = {M, N}};
    check(nib_webgpu_tensor_wrap(k->device, a, 0, M * K * 4, &a_desc, NIB_WEBGPU_NATURAL, &k->a, &error));
    check(nib_webgpu_tensor_wrap(k->device, y, y_offset, M * N * 4, &y_desc, NIB_WEBGPU_NATURAL, &k->y, &error));
    check(nib_call_bind(k->call, "A", k->a, &error));
    check(nib_call_bind(k->call, "B", k->packed, &error));
    check(nib_call_bind(k->call, "absmax", k->absmax, &error));
    check(nib_call_bind(k->call, "Y", k->y, &error));
    check(nib_webgpu_call_upload(k->call, &error)); /* warm-up: the weights go to the device now */
}

static void close_kernel(kernel *k)
{
    nib_call_free(k->call);
    nib_plan_free(k->plan);
    nib_package_free(k->package);
    nib_tensor_free(k->a);
    nib_tensor_free(k->y);
    nib_tensor_free(k->packed);
    nib_tensor_free(k->absmax);
    nib_device_free(k->device);
    nib_context_free(k->context);
}

static double worst_difference(const float *y, const float *weight)
{
    double worst = 0;
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += ((double)((m * K + k) % 7u) - 3.0) * (double)weight[n * K + k];
            worst = fmax(worst, fabs((double)y[m * N + n] - 2.0 * sum));
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    static float weight[N * K], y[M * N];
    const uint64_t y_offset = 256, y_bytes = 4096;
    app a = {0};
    kernel k = {0};
    open_app(&a);
    open_kernel(&k, &a, argc > 1 ? argv[1] : "kernels/com.microsoft.MatMulBnb4", weight);
    printf("%s\n%s\n", nib_device_description(k.device), nib_call_description(k.call));

    const WGPUBufferUsage usage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc;
    WGPUBuffer a_buffer = new_buffer(&a, M * K * 4, usage), y_buffer = new_buffer(&a, y_bytes, usage);
    WGPUComputePipeline before = new_pipeline(&a, make_a), after = new_pipeline(&a, double_y);
    bind_kernel(&k, a_buffer, y_buffer, y_offset);

    /* One encoder: ours, nibble's, ours. */
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(a.device, NULL);
    dispatch(&a, encoder, before, a_buffer, 0, M * K * 4, (M * K + 63) / 64);
    check(nib_webgpu_call_encode(k.call, encoder, &error));
    dispatch(&a, encoder, after, y_buffer, y_offset, M * N * 4, (M * N + 63) / 64);
    submit(&a, encoder);
    read_buffer(&a, y_buffer, y_offset, y, sizeof y);
    const double worst = worst_difference(y, weight);
    printf("largest difference from the product on the CPU: %.2g\n", worst);
    require(worst < 1e-3, "the result is wrong");

    /* Without nibble the device goes on. */
    close_kernel(&k);
    encoder = wgpuDeviceCreateCommandEncoder(a.device, NULL);
    dispatch(&a, encoder, after, y_buffer, y_offset, M * N * 4, (M * N + 63) / 64);
    submit(&a, encoder);
    float again[M * N];
    read_buffer(&a, y_buffer, y_offset, again, sizeof again);
    for (size_t i = 0; i < M * N; i++)
        require(again[i] == 2.0f * y[i], "the device does not work any more");
    require(a.errors == 0, "the device reported errors");
    printf("the device works on after nibble is gone\n");

    wgpuComputePipelineRelease(before);
    wgpuComputePipelineRelease(after);
    wgpuBufferRelease(a_buffer);
    wgpuBufferRelease(y_buffer);
    wgpuQueueRelease(a.queue);
    wgpuDeviceRelease(a.device);
    wgpuAdapterRelease(a.adapter);
    wgpuInstanceRelease(a.instance);
    return 0;
}
