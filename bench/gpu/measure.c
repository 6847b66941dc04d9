/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void wait_for(bench_timer *timer, WGPUFuture future)
{
    WGPUFutureWaitInfo wait = {.future = future};
    if (wgpuInstanceWaitAny(timer->gpu.instance, 1, &wait, 60000000000u) == WGPUWaitStatus_Success)
        return;
    fprintf(stderr, "the GPU did not finish in a minute\n");
    exit(1);
}

static void on_done(WGPUQueueWorkDoneStatus status, WGPUStringView text, void *a, void *b)
{
    (void)status, (void)text, (void)a, (void)b;
}

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView text, void *a, void *b)
{
    (void)status, (void)text, (void)a, (void)b;
}

static WGPUBuffer make_buffer(bench_timer *timer, uint64_t size, WGPUBufferUsage usage)
{
    const WGPUBufferDescriptor descriptor = {.usage = usage, .size = size};
    return wgpuDeviceCreateBuffer(timer->gpu.device, &descriptor);
}

bool bench_timer_open(bench_timer *timer, nib_device *device)
{
    nib_error error = {0};
    *timer = (bench_timer){0};
    if (nib_webgpu_device_handles(device, &timer->gpu, &error) != NIB_OK)
        return false;
    if (!wgpuDeviceHasFeature(timer->gpu.device, WGPUFeatureName_TimestampQuery))
        return true;
    const WGPUQuerySetDescriptor descriptor = {.type = WGPUQueryType_Timestamp, .count = 2};
    timer->queries = wgpuDeviceCreateQuerySet(timer->gpu.device, &descriptor);
    timer->resolved = make_buffer(timer, 256, WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc);
    timer->readable = make_buffer(timer, 256, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
    return true;
}

void bench_timer_close(bench_timer *timer)
{
    if (!timer->queries)
        return;
    wgpuBufferRelease(timer->readable);
    wgpuBufferRelease(timer->resolved);
    wgpuQuerySetRelease(timer->queries);
}

/* ---- one span ---- */

typedef struct span {
    WGPUCommandEncoder encoder;
    WGPUComputePassEncoder pass;
    double begun;
} span;

static span begin(bench_timer *timer)
{
    span s = {.begun = now()};
    const WGPUPassTimestampWrites writes = {.querySet = timer->queries, .beginningOfPassWriteIndex = 0,
                                            .endOfPassWriteIndex = 1};
    const WGPUComputePassDescriptor descriptor = {.timestampWrites = timer->queries ? &writes : NULL};
    s.encoder = wgpuDeviceCreateCommandEncoder(timer->gpu.device, NULL);
    s.pass = wgpuCommandEncoderBeginComputePass(s.encoder, &descriptor);
    return s;
}

static double read_queries(bench_timer *timer)
{
    wait_for(timer, wgpuBufferMapAsync(timer->readable, WGPUMapMode_Read, 0, 16,
                                       (WGPUBufferMapCallbackInfo){.mode = WGPUCallbackMode_WaitAnyOnly,
                                                                   .callback = on_mapped}));
    uint64_t times[2];
    memcpy(times, wgpuBufferGetConstMappedRange(timer->readable, 0, 16), sizeof times);
    wgpuBufferUnmap(timer->readable);
    return (double)(times[1] - times[0]) * 1e-9;
}

/* Submits and waits; seconds on the GPU (or of wall time, without timestamps) and of wall time. */
static void end(bench_timer *timer, span *s, double *gpu, double *wall)
{
    wgpuComputePassEncoderEnd(s->pass);
    wgpuComputePassEncoderRelease(s->pass);
    if (timer->queries) {
        wgpuCommandEncoderResolveQuerySet(s->encoder, timer->queries, 0, 2, timer->resolved, 0);
        wgpuCommandEncoderCopyBufferToBuffer(s->encoder, timer->resolved, 0, timer->readable, 0, 16);
    }
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(s->encoder, NULL);
    wgpuQueueSubmit(timer->gpu.queue, 1, &commands);
    wait_for(timer, wgpuQueueOnSubmittedWorkDone(timer->gpu.queue,
                                                 (WGPUQueueWorkDoneCallbackInfo){.mode = WGPUCallbackMode_WaitAnyOnly,
                                                                                 .callback = on_done}));
    *wall = now() - s->begun;
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(s->encoder);
    *gpu = timer->queries ? read_queries(timer) : *wall;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* ---- calls ---- */

static void raise_clock(bench_timer *timer);

/* Wall seconds a call in steady state: command buffers of a few calls each, so that recording one overlaps with running
 * another, and one wait at the end. */
static nib_status time_wall(bench_timer *timer, nib_call *const *calls, size_t count, size_t repeats, double *wall, double *host,
                            nib_error *error)
{
    enum { BUFFERS = 16 };
    const double begun = now();
    nib_status status = NIB_OK;
    *host = 0;
    for (size_t first = 0; first < repeats && status == NIB_OK;) {
        const size_t end_of_buffer = first + (repeats + BUFFERS - 1) / BUFFERS;
        const double recorded = now();
        WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(timer->gpu.device, NULL);
        WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
        for (; first < repeats && first < end_of_buffer && status == NIB_OK; first++)
            status = nib_webgpu_call_encode_pass(calls[first % count], pass, error);
        wgpuComputePassEncoderEnd(pass);
        wgpuComputePassEncoderRelease(pass);
        WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
        wgpuQueueSubmit(timer->gpu.queue, 1, &commands);
        *host += now() - recorded;
        wgpuCommandBufferRelease(commands);
        wgpuCommandEncoderRelease(encoder);
    }
    wait_for(timer, wgpuQueueOnSubmittedWorkDone(timer->gpu.queue,
                                                 (WGPUQueueWorkDoneCallbackInfo){.mode = WGPUCallbackMode_WaitAnyOnly,
                                                                                 .callback = on_done}));
    *wall = (now() - begun) / (double)repeats;
    *host /= (double)repeats;
    return status;
}

nib_status bench_time_calls(bench_timer *timer, nib_call *const *calls, size_t count, size_t repeats, bench_times *out,
                            nib_error *error)
{
    double gpu[ROUNDS], wall[ROUNDS], host[ROUNDS];
    raise_clock(timer);
    for (size_t round = 0; round < ROUNDS; round++) {
        span s = begin(timer);
        for (size_t i = 0; i < repeats; i++) {
            const nib_status status = nib_webgpu_call_encode_pass(calls[i % count], s.pass, error);
            if (status != NIB_OK)
                return status;
        }
        end(timer, &s, &gpu[round], &wall[round]);
        gpu[round] /= (double)repeats;
        const nib_status status = time_wall(timer, calls, 1, repeats, &wall[round], &host[round], error);
        if (status != NIB_OK)
            return status;
    }
    qsort(gpu, ROUNDS, sizeof *gpu, ascending);
    qsort(wall, ROUNDS, sizeof *wall, ascending);
    qsort(host, ROUNDS, sizeof *host, ascending);
    *out = (bench_times){.gpu = gpu[ROUNDS / 2], .gpu_least = gpu[0], .wall = wall[ROUNDS / 2], .host = host[ROUNDS / 2]};
    return NIB_OK;
}

size_t bench_repeats(bench_timer *timer, nib_call *const *calls, size_t count, double seconds, nib_error *error)
{
    double gpu = 0, wall = 0;
    for (size_t round = 0; round < 2; round++) {
        span s = begin(timer);
        if (nib_webgpu_call_encode_pass(calls[round % count], s.pass, error) != NIB_OK) {
            wgpuComputePassEncoderEnd(s.pass);
            return 1;
        }
        end(timer, &s, &gpu, &wall);
    }
    const double repeats = seconds / (gpu > 1e-6 ? gpu : 1e-6);
    return repeats < 4 ? 4 : repeats > 4000 ? 4000 : (size_t)repeats;
}

/* ---- ceilings ---- */

static WGPUComputePipeline make_pipeline(bench_timer *timer, const char *wgsl)
{
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL}, .code = {wgsl, WGPU_STRLEN}};
    const WGPUShaderModuleDescriptor module_descriptor = {.nextInChain = &source.chain};
    WGPUShaderModule module = wgpuDeviceCreateShaderModule(timer->gpu.device, &module_descriptor);
    const WGPUComputePipelineDescriptor descriptor = {.compute = {.module = module, .entryPoint = {"main", WGPU_STRLEN}}};
    WGPUComputePipeline pipeline = wgpuDeviceCreateComputePipeline(timer->gpu.device, &descriptor);
    wgpuShaderModuleRelease(module);
    return pipeline;
}

/* Seconds of one dispatch of `wgsl` over `groups` workgroups, the least of several; two buffers at bindings 0 and 1. */
static double time_kernel(bench_timer *timer, const char *wgsl, uint32_t groups, uint64_t bytes, int rounds)
{
    const WGPUBufferUsage usage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst;
    WGPUBuffer in = make_buffer(timer, bytes, usage), out = make_buffer(timer, 1 << 24, usage);
    WGPUComputePipeline pipeline = make_pipeline(timer, wgsl);
    const WGPUBindGroupEntry entries[] = {{.binding = 0, .buffer = in, .size = bytes},
                                          {.binding = 1, .buffer = out, .size = 1 << 24}};
    WGPUBindGroupLayout layout = wgpuComputePipelineGetBindGroupLayout(pipeline, 0);
    const WGPUBindGroupDescriptor descriptor = {.layout = layout, .entryCount = 2, .entries = entries};
    WGPUBindGroup group = wgpuDeviceCreateBindGroup(timer->gpu.device, &descriptor);
    double least = 1e9;
    for (int round = 0; round < rounds; round++) {
        double gpu, wall;
        span s = begin(timer);
        wgpuComputePassEncoderSetPipeline(s.pass, pipeline);
        wgpuComputePassEncoderSetBindGroup(s.pass, 0, group, 0, NULL);
        for (int i = 0; i < 4; i++)
            wgpuComputePassEncoderDispatchWorkgroups(s.pass, groups, 1, 1);
        end(timer, &s, &gpu, &wall);
        least = gpu / 4 < least ? gpu / 4 : least;
    }
    wgpuBindGroupRelease(group);
    wgpuBindGroupLayoutRelease(layout);
    wgpuComputePipelineRelease(pipeline);
    wgpuBufferRelease(in);
    wgpuBufferRelease(out);
    return least;
}

/* 1 GiB, each invocation 16 reads of 16 bytes a step. */
static const char read_wgsl[] =
    "@group(0) @binding(0) var<storage, read> a: array<vec4<u32>>;\n"
    "@group(0) @binding(1) var<storage, read_write> y: array<u32>;\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {\n"
    "  var s = vec4<u32>();\n"
    "  for (var i = 0u; i < 16u; i++) { s ^= a[g.x * 4096u + i * 256u + t]; }\n"
    "  if ((s.x ^ s.y ^ s.z ^ s.w) == 1234567u) { y[t] = s.x; }\n"
    "}\n";

static const char fma_wgsl[] =
    "@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;\n"
    "@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {\n"
    "  let m = a[t]; var p = m; var q = m + 1.0; var r = m + 2.0; var s = m + 3.0;\n"
    "  for (var i = 0u; i < 1024u; i++) { p = fma(p, m, q); q = fma(q, m, r); r = fma(r, m, s); s = fma(s, m, p); }\n"
    "  if (p.x + q.x + r.x + s.x == 12345.0) { y[t] = p + q + r + s; }\n"
    "}\n";

#define MATRIX_WGSL(size)                                                                                              \
    "enable f16;\nenable chromium_experimental_subgroup_matrix;\n"                                                     \
    "@group(0) @binding(0) var<storage, read> a: array<f16>;\n"                                                        \
    "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"                                                  \
    "alias L = subgroup_matrix_left<f16, " size ", " size ">;\nalias R = subgroup_matrix_right<f16, " size ", " size   \
    ">;\nalias C = subgroup_matrix_result<f32, " size ", " size ">;\n"                                                 \
    "@compute @workgroup_size(128)\n"                                                                                  \
    "fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {\n"                        \
    "  let l0 = subgroupMatrixLoad<L>(&a, 0u, false, " size "u); let l1 = subgroupMatrixLoad<L>(&a, 256u, false, "     \
    size "u);\n"                                                                                                       \
    "  let r0 = subgroupMatrixLoad<R>(&a, 512u, false, " size "u); let r1 = subgroupMatrixLoad<R>(&a, 768u, false, "   \
    size "u);\n"                                                                                                       \
    "  var c0: C; var c1: C; var c2: C; var c3: C;\n"                                                                  \
    "  for (var i = 0u; i < 1024u; i++) {\n"                                                                           \
    "    c0 = subgroupMatrixMultiplyAccumulate(l0, r0, c0); c1 = subgroupMatrixMultiplyAccumulate(l0, r1, c1);\n"      \
    "    c2 = subgroupMatrixMultiplyAccumulate(l1, r0, c2); c3 = subgroupMatrixMultiplyAccumulate(l1, r1, c3);\n"      \
    "  }\n"                                                                                                            \
    "  subgroupMatrixStore(&y, g.x * 1024u, c0, false, " size "u);\n"                                                  \
    "  subgroupMatrixStore(&y, g.x * 1024u + 256u, c1, false, " size "u);\n"                                           \
    "  subgroupMatrixStore(&y, g.x * 1024u + 512u, c2, false, " size "u);\n"                                           \
    "  subgroupMatrixStore(&y, g.x * 1024u + 768u, c3, false, " size "u);\n"                                           \
    "}\n"

static bool is_software(bench_timer *timer)
{
    WGPUAdapterInfo info = {0};
    const bool software = timer->gpu.adapter && wgpuAdapterGetInfo(timer->gpu.adapter, &info) == WGPUStatus_Success &&
                          info.adapterType == WGPUAdapterType_CPU;
    wgpuAdapterInfoFreeMembers(info);
    return software;
}

static double fma_rate(bench_timer *timer, int rounds)
{
    const uint32_t groups = is_software(timer) ? 8 : 132 * 32;
    return groups * 256.0 * 1024 * 4 * 4 * 2 / time_kernel(timer, fma_wgsl, groups, 4096, rounds);
}

/* An idle card runs at a fraction of its clock (345 of 1980 MHz seen), and a benchmark that waits and compiles between
 * measurements leaves it idle: work until multiply-adds run as fast as they did at best. */
static void raise_clock(bench_timer *timer)
{
    const double begun = now();
    if (is_software(timer))
        return;
    while (now() - begun < 3) {
        const double rate = fma_rate(timer, 20);
        if (rate > timer->best_rate)
            timer->best_rate = rate;
        if (rate > 0.96 * timer->best_rate && now() - begun > 0.1)
            return;
    }
}

/* The largest square f16 -> f32 configuration, 0 without one. */
static uint32_t matrix_size(bench_timer *timer)
{
    if (!wgpuDeviceHasFeature(timer->gpu.device, WGPUFeatureName_ChromiumExperimentalSubgroupMatrix) || !timer->gpu.adapter)
        return 0;
    WGPUAdapterPropertiesSubgroupMatrixConfigs configs = {
        .chain = {.sType = WGPUSType_AdapterPropertiesSubgroupMatrixConfigs}};
    WGPUAdapterInfo info = {.nextInChain = &configs.chain};
    uint32_t best = 0;
    if (wgpuAdapterGetInfo(timer->gpu.adapter, &info) != WGPUStatus_Success)
        return 0;
    for (size_t i = 0; i < configs.configCount; i++) {
        const WGPUSubgroupMatrixConfig *c = &configs.configs[i];
        if (c->componentType == WGPUSubgroupMatrixComponentType_F16 &&
            c->resultComponentType == WGPUSubgroupMatrixComponentType_F32 && c->M == c->N && c->M == c->K && c->M > best)
            best = c->M;
    }
    wgpuAdapterInfoFreeMembers(info);
    return best;
}

double bench_canary(bench_timer *timer)
{
    const uint32_t size = matrix_size(timer);
    if (size != 16 && size != 8)
        return 0;
    WGPUAdapterInfo info = {0};
    wgpuAdapterGetInfo(timer->gpu.adapter, &info);
    const double subgroups = 128.0 / (info.subgroupMinSize ? info.subgroupMinSize : 32);
    const uint32_t groups = info.adapterType == WGPUAdapterType_CPU ? 4 : 132 * 8;
    wgpuAdapterInfoFreeMembers(info);
    const double flops = groups * subgroups * 1024 * 4 * 2.0 * size * size * size;
    return flops / time_kernel(timer, size == 16 ? MATRIX_WGSL("16") : MATRIX_WGSL("8"), groups, 4096, 5);
}

void bench_measure_ceilings(bench_timer *timer, bench_ceilings *out)
{
    const uint64_t bytes = is_software(timer) ? 1u << 24 : 1u << 30;
    raise_clock(timer);
    out->bytes = (double)bytes / time_kernel(timer, read_wgsl, (uint32_t)(bytes / 65536), bytes, 5);
    out->fma = fma_rate(timer, 5);
    out->matrix = bench_canary(timer);
}
