/* SPDX-License-Identifier: Apache-2.0
 *
 * How long dispatches take, by the GPU's clock where it has one, and the ceilings of a roofline. Many dispatches go into one
 * pass between two timestamps, so that a coarse clock does not matter.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

/* ---- timestamps ---- */

/* Two timestamps on their way to host memory; `set` is NULL on a device without the feature. */
typedef struct gpu_clock {
    WGPUQuerySet set;
    WGPUBuffer resolved, staging;
} gpu_clock;

enum { CLOCK_BYTES = 16 };

static void close_clock(gpu_clock *clock)
{
    if (clock->set)
        wgpuQuerySetRelease(clock->set);
    nib_wgpu_buffer_free(clock->resolved);
    nib_wgpu_buffer_free(clock->staging);
}

static nib_status open_clock(nib_wgpu_device *device, gpu_clock *clock, nib_error *error)
{
    *clock = (gpu_clock){0};
    if (!wgpuDeviceHasFeature(device->device, WGPUFeatureName_TimestampQuery))
        return NIB_OK;
    const WGPUQuerySetDescriptor descriptor = {.type = WGPUQueryType_Timestamp, .count = 2};
    nib_wgpu_scope_begin(device);
    clock->set = wgpuDeviceCreateQuerySet(device->device, &descriptor);
    nib_status status = nib_wgpu_scope_end(device, "creating timestamps", error);
    if (status == NIB_OK)
        status = nib_wgpu_buffer_create(device, "timestamps", CLOCK_BYTES,
                                        WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc, false, &clock->resolved,
                                        error);
    if (status == NIB_OK)
        status = nib_wgpu_staging_create(device, CLOCK_BYTES, &clock->staging, error);
    if (status != NIB_OK)
        close_clock(clock);
    return status;
}

/* Seconds between the two timestamps; negative when there are none, or when they make no sense. */
static nib_status read_clock(nib_wgpu_device *device, gpu_clock *clock, double *seconds, nib_error *error)
{
    const unsigned char *mapped;
    uint64_t ticks[2];
    *seconds = -1;
    if (!clock->set)
        return NIB_OK;
    NIB_TRY(nib_wgpu_staging_map(device, clock->staging, CLOCK_BYTES, &mapped, error));
    memcpy(ticks, mapped, sizeof ticks);
    wgpuBufferUnmap(clock->staging);
    if (ticks[1] > ticks[0])
        *seconds = (double)(ticks[1] - ticks[0]) * 1e-9;
    return NIB_OK;
}

/* ---- one timed submission ---- */

typedef void (*recorder)(void *user, WGPUComputePassEncoder pass);

static void encode_batch(nib_wgpu_device *device, const gpu_clock *clock, recorder record, void *user)
{
    const WGPUPassTimestampWrites writes = {
        .querySet = clock->set, .beginningOfPassWriteIndex = 0, .endOfPassWriteIndex = 1};
    const WGPUComputePassDescriptor descriptor = {.timestampWrites = clock->set ? &writes : NULL};
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device->device, NULL);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, &descriptor);
    record(user, pass);
    wgpuComputePassEncoderEnd(pass);
    wgpuComputePassEncoderRelease(pass);
    if (clock->set) {
        wgpuCommandEncoderResolveQuerySet(encoder, clock->set, 0, 2, clock->resolved, 0);
        wgpuCommandEncoderCopyBufferToBuffer(encoder, clock->resolved, 0, clock->staging, 0, CLOCK_BYTES);
    }
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuQueueSubmit(device->queue, 1, &commands);
    wgpuCommandBufferRelease(commands);
    wgpuCommandEncoderRelease(encoder);
}

static nib_status time_with(nib_wgpu_device *device, gpu_clock *clock, recorder record, void *user, nib_timing *out,
                            nib_error *error)
{
    const double start = nib_seconds();
    nib_wgpu_scope_begin(device);
    encode_batch(device, clock, record, user);
    out->host = nib_seconds() - start;
    NIB_TRY(nib_wgpu_scope_end(device, "timing", error));
    NIB_TRY(nib_wgpu_wait_idle(device, error));
    out->wall = nib_seconds() - start;
    return read_clock(device, clock, &out->device, error);
}

static nib_status time_batch(nib_wgpu_device *device, recorder record, void *user, nib_timing *out, nib_error *error)
{
    gpu_clock clock;
    NIB_TRY(open_clock(device, &clock, error));
    const nib_status status = time_with(device, &clock, record, user, out, error);
    close_clock(&clock);
    return status;
}

/* ---- calls ---- */

typedef struct call_batch {
    nib_wgpu_call *call;
    uint32_t repeats;
} call_batch;

static void record_call(void *user, WGPUComputePassEncoder pass)
{
    const call_batch *batch = user;
    for (uint32_t i = 0; i < batch->repeats; i++)
        nib_wgpu_record(batch->call, pass, 0, batch->call->step_count);
}

/* A call that waits for the queue in the middle cannot be one submission: the runs are timed, transfers included. */
static nib_status time_waiting(nib_call *call, uint32_t repeats, nib_timing *out, nib_error *error)
{
    const double start = nib_seconds();
    for (uint32_t i = 0; i < repeats; i++)
        NIB_TRY(nib_wgpu_run(call, error));
    *out = (nib_timing){.wall = nib_seconds() - start, .device = -1, .host = 0};
    return NIB_OK;
}

nib_status nib_wgpu_time(nib_call *common, uint32_t repeats, nib_timing *out, nib_error *error)
{
    nib_wgpu_call *call = (nib_wgpu_call *)common;
    nib_wgpu_device *device = (nib_wgpu_device *)common->device;
    NIB_TRY(nib_wgpu_check(device, error));
    if (call->step_count == 0 && !call->split)
        return NIB_OK;
    if (call->waits)
        return time_waiting(common, repeats, out, error);
    NIB_TRY(nib_wgpu_link(call, false, error));
    call_batch batch = {call, repeats};
    NIB_TRY(time_batch(device, record_call, &batch, out, error));
    nib_wgpu_mark_written(call);
    return NIB_OK;
}

/* ---- ceilings ---- */

/* Every invocation reads its share, whole 16-byte words beside those of its neighbours. */
static const char read_wgsl[] =
    "@group(0) @binding(0) var<storage, read> words: array<vec4<u32>>;\n"
    "@group(0) @binding(1) var<storage, read_write> sums: array<u32>;\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {\n"
    "    var sum = vec4<u32>();\n"
    "    for (var i = id.x; i < arrayLength(&words); i += groups.x * 256u) {\n"
    "        sum += words[i];\n"
    "    }\n"
    "    sums[id.x] = sum.x + sum.y + sum.z + sum.w;\n"
    "}\n";

enum { FMA_ROUNDS = 512, FMA_SUMS = 8 };

/* Eight independent sums of four lanes each; 512 rounds. The input keeps the compiler from knowing the result. */
static const char fma_wgsl[] =
    "@group(0) @binding(0) var<storage, read> words: array<vec4<u32>>;\n"
    "@group(0) @binding(1) var<storage, read_write> sums: array<u32>;\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
    "    let a = vec4<f32>(words[0] & vec4<u32>(1u)) * 0.25 + 0.5;\n"
    "    let b = vec4<f32>(words[1] & vec4<u32>(1u)) + f32(id.x & 7u);\n"
    "    var s0 = a; var s1 = a + 1.0; var s2 = a + 2.0; var s3 = a + 3.0;\n"
    "    var s4 = a + 4.0; var s5 = a + 5.0; var s6 = a + 6.0; var s7 = a + 7.0;\n"
    "    for (var i = 0u; i < 512u; i++) {\n"
    "        s0 = fma(s0, a, b); s1 = fma(s1, a, b); s2 = fma(s2, a, b); s3 = fma(s3, a, b);\n"
    "        s4 = fma(s4, a, b); s5 = fma(s5, a, b); s6 = fma(s6, a, b); s7 = fma(s7, a, b);\n"
    "    }\n"
    "    let s = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;\n"
    "    sums[id.x] = bitcast<u32>(s.x + s.y + s.z + s.w);\n"
    "}\n";

/* Enough workgroups to fill a GPU; a software adapter is busy with far fewer. */
enum { MAX_GROUPS = 4096, SOFTWARE_GROUPS = 128, SUM_BYTES = MAX_GROUPS * 256 * 4, ATTEMPTS = 3 };

/* A probe: a pipeline, its memory, and how it is dispatched. */
typedef struct probe {
    nib_wgpu_pipeline *pipeline;
    WGPUBindGroup group;
    uint32_t groups, repeats;
} probe;

static void record_probe(void *user, WGPUComputePassEncoder pass)
{
    const probe *p = user;
    wgpuComputePassEncoderSetPipeline(pass, p->pipeline->pipeline);
    wgpuComputePassEncoderSetBindGroup(pass, 0, p->group, 0, NULL);
    for (uint32_t i = 0; i < p->repeats; i++)
        wgpuComputePassEncoderDispatchWorkgroups(pass, p->groups, 1, 1);
}

/* The least seconds of one dispatch. Repeats grow until a submission takes a good while. */
static nib_status run_probe(nib_wgpu_device *device, probe *p, double *best, nib_error *error)
{
    const double long_enough = 0.02;
    *best = 0;
    p->repeats = 1;
    for (int done = 0; done < ATTEMPTS;) {
        nib_timing timing = {0};
        NIB_TRY(time_batch(device, record_probe, p, &timing, error));
        const double seconds = timing.device > 0 ? timing.device : timing.wall;
        if (seconds < long_enough && p->repeats < 256) {
            p->repeats *= 2;
            continue;
        }
        const double one = seconds / p->repeats;
        *best = *best == 0 || one < *best ? one : *best;
        done++;
    }
    return NIB_OK;
}

static bool is_software(const nib_wgpu_device *device)
{
    WGPUAdapterInfo info = {0};
    const bool known = wgpuDeviceGetAdapterInfo(device->device, &info) == WGPUStatus_Success;
    const bool software = known && info.adapterType == WGPUAdapterType_CPU;
    wgpuAdapterInfoFreeMembers(info);
    return software;
}

static uint32_t groups_of(const nib_wgpu_device *device)
{
    return is_software(device) ? SOFTWARE_GROUPS : MAX_GROUPS;
}

static nib_status measure(nib_wgpu_device *device, const char *name, const char *wgsl, WGPUBuffer words,
                          size_t word_bytes, WGPUBuffer sums, double *seconds, nib_error *error)
{
    probe p = {.groups = groups_of(device)};
    const WGPUBindGroupEntry entries[2] = {{.binding = 0, .buffer = words, .size = word_bytes},
                                           {.binding = 1, .buffer = sums, .size = SUM_BYTES}};
    NIB_TRY(nib_wgpu_build_own(device, name, wgsl, "rw", &p.pipeline, error));
    const WGPUBindGroupDescriptor descriptor = {
        .layout = p.pipeline->layout->group, .entryCount = 2, .entries = entries};
    nib_wgpu_scope_begin(device);
    p.group = wgpuDeviceCreateBindGroup(device->device, &descriptor);
    nib_status status = nib_wgpu_scope_end(device, name, error);
    if (status == NIB_OK)
        status = run_probe(device, &p, seconds, error);
    if (p.group)
        wgpuBindGroupRelease(p.group);
    nib_wgpu_pipeline_release(device, p.pipeline);
    return status;
}

/* Far beyond the caches of a GPU; a software adapter gets less, for it is slow. */
static size_t probe_bytes(const nib_wgpu_device *device)
{
    const size_t wanted = (size_t)(is_software(device) ? 64 : 512) << 20;
    return wanted < device->max_binding_bytes ? wanted : device->max_binding_bytes / 16 * 16;
}

static nib_status measure_both(nib_wgpu_device *device, WGPUBuffer words, size_t bytes, WGPUBuffer sums,
                               nib_ceilings *out, nib_error *error)
{
    const double flops = 2.0 * FMA_ROUNDS * FMA_SUMS * 4 * groups_of(device) * 256;
    double seconds;
    NIB_TRY(measure(device, "reading memory", read_wgsl, words, bytes, sums, &seconds, error));
    out->bytes_per_second = seconds > 0 ? (double)bytes / seconds : 0;
    NIB_TRY(measure(device, "multiplying", fma_wgsl, words, bytes, sums, &seconds, error));
    out->flops_per_second = seconds > 0 ? flops / seconds : 0;
    return NIB_OK;
}

nib_status nib_wgpu_ceilings(nib_device *common, nib_ceilings *out, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)common;
    WGPUBuffer words = NULL, sums = NULL;
    NIB_TRY(nib_wgpu_check(device, error));
    const size_t bytes = probe_bytes(device);
    nib_status status =
        nib_wgpu_buffer_create(device, "ceilings", bytes, WGPUBufferUsage_Storage, false, &words, error);
    if (status == NIB_OK)
        status = nib_wgpu_buffer_create(device, "ceilings", SUM_BYTES, WGPUBufferUsage_Storage, false, &sums, error);
    if (status == NIB_OK)
        status = measure_both(device, words, bytes, sums, out, error);
    nib_wgpu_buffer_free(words);
    nib_wgpu_buffer_free(sums);
    return status;
}
