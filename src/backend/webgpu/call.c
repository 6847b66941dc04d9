/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepare: everything that depends on the plan alone. Limits are checked first, then all shaders are compiled side by
 * side, then uniform blocks and scratch memory are made.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

/* ---- limits ---- */

static nib_status check_binding_size(const nib_wgpu_device *device, nib_str name, size_t bytes, nib_error *error)
{
    size_t rounded;
    if (nib_wgpu_round(bytes, &rounded) && rounded <= device->max_binding_bytes)
        return NIB_OK;
    return nib_fail(error, NIB_LIMIT,
                    "%.*s needs %zu bytes in one binding; maxStorageBufferBindingSize of the device is %zu",
                    NIB_STR_ARG(name), bytes, device->max_binding_bytes);
}

/* The size of what a storage binding binds; 0 for uniforms. */
static size_t bound_bytes(const nib_plan *plan, const nib_plan_binding *binding, nib_str *name)
{
    switch (binding->kind) {
    case NIB_RESOURCE_TENSOR:
        *name = plan->tensors[binding->index].port->onnx;
        return plan->tensors[binding->index].gpu_bytes;
    case NIB_RESOURCE_INTERMEDIATE:
        *name = plan->intermediates[binding->index].id;
        return plan->intermediates[binding->index].bytes;
    case NIB_RESOURCE_UNIFORM:
    case NIB_RESOURCE_MISSING:
        break;
    }
    return 0;
}

static nib_status check_pass(const nib_wgpu_device *device, const nib_plan *plan, const nib_plan_pass *pass,
                             nib_error *error)
{
    uint32_t storage = 0;
    for (size_t i = 0; i < pass->binding_count; i++) {
        const nib_plan_binding *binding = &pass->bindings[i];
        nib_str name = {0};
        if (binding->kind == NIB_RESOURCE_MISSING)
            return nib_fail(error, NIB_REQUEST, "pass %.*s binds %.*s, which the call does not have",
                            NIB_STR_ARG(pass->id), NIB_STR_ARG(binding->binding->name));
        NIB_TRY(check_binding_size(device, name, bound_bytes(plan, binding, &name), error));
        storage += binding->kind != NIB_RESOURCE_UNIFORM;
    }
    if (storage > device->max_storage_bindings)
        return nib_fail(error, NIB_LIMIT, "pass %.*s binds %u storage buffers; the device allows %u (was the plan made "
                        "for another device?)", NIB_STR_ARG(pass->id), storage, device->max_storage_bindings);
    for (size_t i = 0; i < 3; i++) {
        if (pass->dispatch[i] > device->max_groups)
            return nib_fail(error, NIB_LIMIT, "pass %.*s has a dispatch of %u workgroups; the device allows %u",
                            NIB_STR_ARG(pass->id), pass->dispatch[i], device->max_groups);
    }
    return NIB_OK;
}

static nib_status check_plan(const nib_wgpu_device *device, const nib_plan *plan, nib_error *error)
{
    if (plan->relaxed || !plan->variant)
        return nib_fail(error, NIB_UNSUPPORTED, "a relaxed plan runs on the CPU backend only");
    for (size_t i = 0; i < plan->pass_count; i++) {
        if (plan->passes[i].active)
            NIB_TRY(check_pass(device, plan, &plan->passes[i], error));
    }
    return NIB_OK;
}

/* ---- steps ---- */

static bool needs_fill(const nib_plan_intermediate *intermediate)
{
    return intermediate->used && intermediate->zero_init && intermediate->bytes > 0;
}

static size_t count_fills(const nib_plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->intermediate_count; i++)
        count += needs_fill(&plan->intermediates[i]);
    return count;
}

static size_t count_active(const nib_plan *plan)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->pass_count; i++)
        count += plan->passes[i].active;
    return count;
}

static void *array(nib_wgpu_call *call, size_t count, size_t bytes)
{
    return nib_allocate(&call->common.device->context->allocator, count ? count : 1, bytes);
}

static void *drop_array(nib_wgpu_call *call, void *items, size_t count, size_t bytes)
{
    nib_release(&call->common.device->context->allocator, items, count ? count : 1, bytes);
    return NULL;
}

static bool allocate_parts(nib_wgpu_call *call, bool split)
{
    const nib_plan *plan = call->common.plan;
    call->fill_count = split ? 0 : count_fills(plan);
    call->step_count = split ? 0 : call->fill_count + count_active(plan);
    call->steps = array(call, call->step_count, sizeof *call->steps);
    call->builds = array(call, call->step_count, sizeof *call->builds);
    call->scratch = array(call, plan->intermediate_count, sizeof *call->scratch);
    call->used = array(call, plan->tensor_count, sizeof *call->used);
    call->copies = array(call, plan->tensor_count, sizeof(nib_wgpu_copy *));
    return call->steps && call->builds && call->scratch && call->used && call->copies;
}

static void note_fill(nib_wgpu_step *step, const nib_plan *plan, size_t intermediate)
{
    const size_t groups = (plan->intermediates[intermediate].bytes / 4 + 256) / 256;
    step->intermediate = intermediate;
    step->dispatch[0] = (uint32_t)(groups < 65535 ? groups : 65535);
    step->dispatch[1] = (uint32_t)((groups + 65534) / 65535);
    step->dispatch[2] = 1;
}

static void note_steps(nib_wgpu_call *call)
{
    const nib_plan *plan = call->common.plan;
    size_t n = 0;
    for (size_t i = 0; i < plan->intermediate_count; i++) {
        if (needs_fill(&plan->intermediates[i]))
            note_fill(&call->steps[n++], plan, i);
    }
    for (size_t i = 0; i < plan->pass_count; i++) {
        const nib_plan_pass *pass = &plan->passes[i];
        if (!pass->active)
            continue;
        nib_wgpu_step *step = &call->steps[n++];
        step->pass = pass;
        for (size_t axis = 0; axis < 3; axis++)
            step->dispatch[axis] = pass->dispatch[axis];
        call->waits = call->waits || pass->pass->submit_after;
        for (size_t b = 0; b < pass->binding_count; b++) {
            if (pass->bindings[b].kind == NIB_RESOURCE_TENSOR)
                call->used[pass->bindings[b].index] = true;
        }
    }
}

/* ---- pipelines ---- */

static const char fill_wgsl[] =
    "@group(0) @binding(0) var<storage, read_write> words: array<u32>;\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n"
    "    let i = (group.x + group.y * 65535u) * 256u + lane;\n"
    "    if (i < arrayLength(&words)) {\n"
    "        words[i] = 0u;\n"
    "    }\n"
    "}\n";

static nib_status start_builds(nib_wgpu_call *call, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    if (call->fill_count > 0 && !device->fill)
        NIB_TRY(nib_wgpu_build_own(device, "fill with zero", fill_wgsl, "w", &device->fill, error));
    for (size_t i = 0; i < call->fill_count; i++) {
        call->steps[i].pipeline = device->fill;
        device->fill->refs++;
    }
    call->builds_started = call->fill_count;
    while (call->builds_started < call->step_count) {
        const size_t i = call->builds_started;
        const size_t pass = (size_t)(call->steps[i].pass - call->common.plan->passes);
        NIB_TRY(nib_wgpu_build_start(device, call->common.plan, pass, &call->builds[i], error));
        call->builds_started++;
    }
    return NIB_OK;
}

/* Finishes every build that was started, also after a failure. */
static nib_status finish_builds(nib_wgpu_call *call, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = call->fill_count; i < call->builds_started; i++) {
        nib_wgpu_build *build = &call->builds[i];
        const nib_status one =
            nib_wgpu_build_finish((nib_wgpu_device *)call->common.device, build, status == NIB_OK ? error : NULL);
        call->steps[i].pipeline = build->pipeline;
        status = status == NIB_OK ? one : status;
    }
    call->builds_started = 0;
    call->builds = drop_array(call, call->builds, call->step_count, sizeof *call->builds);
    return status;
}

/* ---- uniforms and scratch ---- */

static size_t uniform_stride(const nib_wgpu_device *device, size_t bytes)
{
    const size_t alignment = device->uniform_alignment;
    return (bytes + alignment - 1) / alignment * alignment;
}

static size_t place_uniforms(nib_wgpu_call *call)
{
    size_t at = 0;
    for (size_t i = call->fill_count; i < call->step_count; i++) {
        call->steps[i].uniforms_at = at;
        for (size_t u = 0; u < call->steps[i].pass->uniform_count; u++)
            at += uniform_stride((nib_wgpu_device *)call->common.device, call->steps[i].pass->uniforms[u].size);
    }
    return at;
}

uint64_t nib_wgpu_uniform_offset(const nib_wgpu_call *call, const nib_wgpu_step *step, size_t index)
{
    uint64_t at = step->uniforms_at;
    for (size_t u = 0; u < index; u++)
        at += uniform_stride((nib_wgpu_device *)call->common.device, step->pass->uniforms[u].size);
    return at;
}

static void copy_uniforms(const nib_wgpu_call *call, unsigned char *to)
{
    for (size_t i = call->fill_count; i < call->step_count; i++) {
        const nib_plan_pass *pass = call->steps[i].pass;
        for (size_t u = 0; u < pass->uniform_count; u++) {
            memcpy(to, pass->uniforms[u].bytes, pass->uniforms[u].size);
            to += uniform_stride((nib_wgpu_device *)call->common.device, pass->uniforms[u].size);
        }
    }
}

static nib_status make_uniforms(nib_wgpu_call *call, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    const size_t bytes = place_uniforms(call);
    if (bytes == 0)
        return NIB_OK;
    NIB_TRY(nib_wgpu_buffer_create(device, "uniforms", bytes, WGPUBufferUsage_Uniform, true, &call->uniforms, error));
    unsigned char *mapped = wgpuBufferGetMappedRange(call->uniforms, 0, bytes);
    if (!mapped)
        return nib_fail(error, NIB_OUT_OF_MEMORY, "the uniform buffer could not be mapped");
    copy_uniforms(call, mapped);
    wgpuBufferUnmap(call->uniforms);
    return NIB_OK;
}

/* Scratch memory is shared: slot n serves the n-th intermediate of every call, since a queue runs one call after the
 * other. A call keeps its reference when the slot moves on to a larger buffer. */
static nib_status take_slot(nib_wgpu_device *device, size_t slot, nib_str name, size_t bytes, WGPUBuffer *out,
                            nib_error *error)
{
    if (slot >= device->slot_count) {
        nib_wgpu_slot *grown = nib_resize(&device->common.context->allocator, device->slots, device->slot_count, slot + 1,
                                          sizeof *grown);
        if (!grown)
            return nib_fail_memory(error);
        device->slots = grown;
        device->slots[slot] = (nib_wgpu_slot){0};
        device->slot_count = slot + 1;
    }
    nib_wgpu_slot *s = &device->slots[slot];
    if (s->bytes < bytes) {
        char label[128];
        WGPUBuffer larger;
        snprintf(label, sizeof label, "scratch %.*s", NIB_STR_ARG(name));
        NIB_TRY(nib_wgpu_buffer_create(device, label, bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc, false,
                                       &larger, error));
        if (s->buffer)
            wgpuBufferRelease(s->buffer);
        *s = (nib_wgpu_slot){larger, bytes};
    }
    wgpuBufferAddRef(s->buffer);
    *out = s->buffer;
    return NIB_OK;
}

static nib_status take_scratch(nib_wgpu_call *call, nib_error *error)
{
    const nib_plan *plan = call->common.plan;
    size_t slot = 0;
    for (size_t i = 0; i < plan->intermediate_count; i++) {
        const nib_plan_intermediate *intermediate = &plan->intermediates[i];
        if (!intermediate->used)
            continue;
        NIB_TRY(take_slot((nib_wgpu_device *)call->common.device, slot++, intermediate->id,
                          intermediate->bytes < 4 ? 4 : intermediate->bytes, &call->scratch[i], error));
    }
    return NIB_OK;
}

/* ---- prepare and release ---- */

static void describe(nib_wgpu_call *call)
{
    const nib_plan *plan = call->common.plan;
    char *out = call->common.description;
    size_t left = sizeof call->common.description;
    int length = snprintf(out, left, "webgpu: variant %.*s", NIB_STR_ARG(plan->variant->id));
    if (call->split) {
        snprintf(out, left, "webgpu: variant %.*s, in %zu pieces to fit the device's bindings",
                 NIB_STR_ARG(plan->variant->id), nib_wgpu_split_count(call));
        return;
    }
    for (size_t i = 0; i < call->step_count && length > 0 && (size_t)length < left; i++) {
        const nib_wgpu_step *step = &call->steps[i];
        const nib_str name = step->pass ? step->pass->id : NIB_STR("fill");
        out += length;
        left -= (size_t)length;
        length = snprintf(out, left, ", %.*s %ux%ux%u", NIB_STR_ARG(name), step->dispatch[0], step->dispatch[1],
                          step->dispatch[2]);
    }
}

static nib_status start_prepare(nib_wgpu_device *device, const nib_plan *plan, nib_wgpu_call **out, nib_error *error)
{
    nib_call *common;
    size_t pieces = 1;
    *out = NULL;
    NIB_TRY(nib_wgpu_check(device, error));
    nib_error limit = {0};
    const nib_status fits = check_plan(device, plan, &limit);
    if (fits == NIB_LIMIT && !nib_wgpu_find_split(device, plan, &pieces))
        return nib_fail(error, fits, "%s", limit.message);
    if (fits != NIB_OK && fits != NIB_LIMIT)
        return nib_fail(error, fits, "%s", limit.message);
    NIB_TRY(nib_call_allocate(&device->common, plan, sizeof(nib_wgpu_call), &common, error));
    nib_wgpu_call *call = (nib_wgpu_call *)common;
    *out = call;
    if (!allocate_parts(call, pieces > 1))
        return nib_fail_memory(error);
    if (pieces > 1)
        return nib_wgpu_split_create(call, pieces, error);
    note_steps(call);
    return start_builds(call, error);
}

static nib_status finish_prepare(nib_wgpu_call *call, nib_error *error)
{
    NIB_TRY(finish_builds(call, error));
    NIB_TRY(make_uniforms(call, error));
    if (!call->split)
        NIB_TRY(take_scratch(call, error));
    describe(call);
    return NIB_OK;
}

static void release_steps(nib_wgpu_call *call)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    if (call->builds)
        finish_builds(call, NULL);
    nib_wgpu_unlink(call);
    if (call->split)
        nib_wgpu_split_free(call);
    for (size_t i = 0; call->steps && i < call->step_count; i++)
        nib_wgpu_pipeline_release(device, call->steps[i].pipeline);
    drop_array(call, call->steps, call->step_count, sizeof *call->steps);
}

void nib_wgpu_release(nib_call *common)
{
    nib_wgpu_call *call = (nib_wgpu_call *)common;
    const nib_plan *plan = common->plan;
    release_steps(call);
    for (size_t i = 0; call->scratch && i < plan->intermediate_count; i++) {
        if (call->scratch[i])
            wgpuBufferRelease(call->scratch[i]);
    }
    nib_wgpu_buffer_free(call->uniforms);
    nib_wgpu_buffer_free(call->staging);
    drop_array(call, call->scratch, plan->intermediate_count, sizeof *call->scratch);
    drop_array(call, call->used, plan->tensor_count, sizeof *call->used);
    drop_array(call, call->copies, plan->tensor_count, sizeof(nib_wgpu_copy *));
    nib_call_release_common(common, sizeof *call);
}

nib_status nib_webgpu_prepare(nib_device *common, const nib_plan *const *plans, size_t count, nib_call **calls,
                              nib_error *error)
{
    nib_wgpu_device *device = NULL;
    for (size_t i = 0; i < count; i++)
        calls[i] = NULL;
    NIB_TRY(nib_wgpu_of(common, &device, error));
    nib_status status = NIB_OK;
    for (size_t i = 0; i < count && status == NIB_OK; i++) {
        nib_wgpu_call *call;
        status = start_prepare(device, plans[i], &call, error);
        calls[i] = call ? &call->common : NULL;
    }
    for (size_t i = 0; i < count && status == NIB_OK; i++)
        status = finish_prepare((nib_wgpu_call *)calls[i], error);
    for (size_t i = 0; i < count && status != NIB_OK; i++) {
        if (calls[i])
            nib_wgpu_release(calls[i]);
        calls[i] = NULL;
    }
    return status;
}

nib_status nib_wgpu_prepare(nib_device *device, const nib_plan *plan, const nib_call_options *options, nib_call **out,
                            nib_error *error)
{
    (void)options;
    return nib_webgpu_prepare(device, &plan, 1, out, error);
}
