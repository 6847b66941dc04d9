/* SPDX-License-Identifier: Apache-2.0
 *
 * Shader modules, explicit layouts and pipelines (format 7.7 step 8), and the cache of them.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

/* ---- layouts ---- */

static WGPUBufferBindingType binding_type(char kind)
{
    switch (kind) {
    case 'r':
        return WGPUBufferBindingType_ReadOnlyStorage;
    case 'w':
        return WGPUBufferBindingType_Storage;
    default:
        return WGPUBufferBindingType_Uniform;
    }
}

static void make_layout(nib_wgpu_device *device, nib_wgpu_group_layout *layout)
{
    WGPUBindGroupLayoutEntry entries[NIB_WGPU_MAX_BINDINGS];
    memset(entries, 0, sizeof entries);
    const size_t count = strlen(layout->kinds);
    for (size_t i = 0; i < count; i++) {
        entries[i].binding = (uint32_t)i;
        entries[i].visibility = WGPUShaderStage_Compute;
        entries[i].buffer.type = binding_type(layout->kinds[i]);
    }
    const WGPUBindGroupLayoutDescriptor group = {.entryCount = count, .entries = entries};
    layout->group = wgpuDeviceCreateBindGroupLayout(device->device, &group);
    const WGPUPipelineLayoutDescriptor pipeline = {.bindGroupLayoutCount = 1, .bindGroupLayouts = &layout->group};
    layout->pipeline = wgpuDeviceCreatePipelineLayout(device->device, &pipeline);
}

static void free_layout(nib_wgpu_device *device, nib_wgpu_group_layout *layout)
{
    if (layout->pipeline)
        wgpuPipelineLayoutRelease(layout->pipeline);
    if (layout->group)
        wgpuBindGroupLayoutRelease(layout->group);
    nib_release(&device->common.context->allocator, layout, 1, sizeof *layout);
}

static nib_status get_layout(nib_wgpu_device *device, const char *kinds, const nib_wgpu_group_layout **out,
                             nib_error *error)
{
    for (nib_wgpu_group_layout *layout = device->layouts; layout; layout = layout->next) {
        if (strcmp(layout->kinds, kinds) == 0) {
            *out = layout;
            return NIB_OK;
        }
    }
    nib_wgpu_group_layout *layout = nib_allocate(&device->common.context->allocator, 1, sizeof *layout);
    if (!layout)
        return nib_fail_memory(error);
    snprintf(layout->kinds, sizeof layout->kinds, "%s", kinds);
    nib_wgpu_scope_begin(device);
    make_layout(device, layout);
    const nib_status status = nib_wgpu_scope_end(device, "creating a pipeline layout", error);
    if (status != NIB_OK) {
        free_layout(device, layout);
        return status;
    }
    layout->next = device->layouts;
    device->layouts = layout;
    *out = layout;
    return NIB_OK;
}

/* "rrwu": what each binding of a pass is. */
static nib_status kinds_of(const nib_plan_pass *pass, char kinds[NIB_WGPU_MAX_BINDINGS + 1], nib_error *error)
{
    static const char letters[] = {
        [NIB_BINDING_READ] = 'r', [NIB_BINDING_STORAGE] = 'w', [NIB_BINDING_UNIFORM] = 'u'};
    if (pass->binding_count > NIB_WGPU_MAX_BINDINGS)
        return nib_fail(error, NIB_UNSUPPORTED, "pass %.*s has %zu bindings; at most %d are supported",
                        NIB_STR_ARG(pass->id), pass->binding_count, NIB_WGPU_MAX_BINDINGS);
    for (size_t i = 0; i < pass->binding_count; i++)
        kinds[i] = letters[pass->bindings[i].binding->kind];
    kinds[pass->binding_count] = '\0';
    return NIB_OK;
}

/* ---- the cache ---- */

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static nib_wgpu_pipeline *find_pipeline(nib_wgpu_device *device, const nib_wgpu_pipeline *like)
{
    for (nib_wgpu_pipeline *p = device->pipelines; p; p = p->next) {
        if (p->hash == like->hash && !p->failed && p->layout == like->layout &&
            strcmp(p->entry_point, like->entry_point) == 0 && strcmp(p->wgsl, like->wgsl) == 0)
            return p;
    }
    return NULL;
}

static void free_pipeline(nib_wgpu_device *device, nib_wgpu_pipeline *pipeline)
{
    nib_context *context = device->common.context;
    if (pipeline->pipeline)
        wgpuComputePipelineRelease(pipeline->pipeline);
    nib_text_free(context, pipeline->wgsl);
    nib_release(&context->allocator, pipeline, 1, sizeof *pipeline);
}

static void remove_pipeline(nib_wgpu_device *device, nib_wgpu_pipeline *pipeline)
{
    nib_wgpu_pipeline **link = &device->pipelines;
    while (*link != pipeline)
        link = &(*link)->next;
    *link = pipeline->next;
    device->pipeline_count--;
    free_pipeline(device, pipeline);
}

/* Keep the cache bounded: drop the pipeline that was unused for longest. */
static void trim_pipelines(nib_wgpu_device *device)
{
    while (device->pipeline_count > NIB_WGPU_MAX_PIPELINES) {
        nib_wgpu_pipeline *oldest = NULL;
        for (nib_wgpu_pipeline *p = device->pipelines; p; p = p->next) {
            if (p->refs == 0 && (!oldest || p->last_use < oldest->last_use))
                oldest = p;
        }
        if (!oldest)
            return;
        remove_pipeline(device, oldest);
    }
}

void nib_wgpu_pipeline_release(nib_wgpu_device *device, nib_wgpu_pipeline *pipeline)
{
    if (!pipeline || --pipeline->refs > 0)
        return;
    if (pipeline->pipeline)
        trim_pipelines(device);
    else
        remove_pipeline(device, pipeline);
}

void nib_wgpu_pipelines_free(nib_wgpu_device *device)
{
    while (device->pipelines)
        remove_pipeline(device, device->pipelines);
    while (device->layouts) {
        nib_wgpu_group_layout *next = device->layouts->next;
        free_layout(device, device->layouts);
        device->layouts = next;
    }
}

/* ---- modules ---- */

/* Keeps the first error. */
static void on_compilation_info(WGPUCompilationInfoRequestStatus status, const WGPUCompilationInfo *info, void *wait,
                                void *unused)
{
    (void)unused;
    nib_wgpu_wait *w = wait;
    WGPUStringView text = {NULL, 0};
    for (size_t i = 0; info && i < info->messageCount; i++) {
        const WGPUCompilationMessage *message = &info->messages[i];
        if (message->type != WGPUCompilationMessageType_Error)
            continue;
        text = message->message;
        w->line = message->lineNum;
        w->column = message->linePos;
        break;
    }
    nib_wgpu_wait_answer(w, (int)status, 0, NULL, text);
}

/* The compiler's first error with its place; falls back to `message`. */
static nib_status report_module(nib_wgpu_device *device, const nib_wgpu_build *build, WGPUShaderModule module,
                                const char *message, nib_error *error)
{
    nib_wgpu_report report = {
        .plan = build->plan, .pass = build->pass, .wgsl = build->pipeline->wgsl, .message = message,
        .blobs = device->blobs};
    nib_wgpu_wait *wait = nib_wgpu_wait_new(&device->sync);
    if (!wait || !module)
        return nib_wgpu_report_shader(&report, error);
    const WGPUCompilationInfoCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_compilation_info, .userdata1 = wait};
    const WGPUFuture future = wgpuShaderModuleGetCompilationInfo(module, info);
    if (nib_wgpu_wait_for(&device->sync, future, wait, "compiling a shader", NULL) == NIB_OK && wait->message[0]) {
        report.message = wait->message;
        report.line = wait->line;
        report.column = wait->column;
    }
    const nib_status status = nib_wgpu_report_shader(&report, error);
    nib_wgpu_wait_drop(wait);
    return status;
}

static nib_status make_module(nib_wgpu_device *device, nib_wgpu_build *build, nib_error *error)
{
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPUSType_ShaderSourceWGSL},
                                   .code = nib_wgpu_text(build->pipeline->wgsl)};
    const WGPUShaderModuleDescriptor descriptor = {.nextInChain = &source.chain};
    nib_error caught = {0};
    nib_wgpu_scope_begin(device);
    WGPUShaderModule module = wgpuDeviceCreateShaderModule(device->device, &descriptor);
    nib_status status = nib_wgpu_scope_end(device, "creating a shader module", &caught);
    if (status == NIB_OK && module) {
        build->module = module;
        return NIB_OK;
    }
    if (status == NIB_DEVICE || status == NIB_OK)
        status = report_module(device, build, module, caught.message, error);
    else
        nib_fail(error, status, "%s", caught.message);
    if (module)
        wgpuShaderModuleRelease(module);
    return status;
}

/* ---- pipelines ---- */

static void on_pipeline(WGPUCreatePipelineAsyncStatus status, WGPUComputePipeline pipeline, WGPUStringView message,
                        void *wait, void *unused)
{
    (void)unused;
    nib_wgpu_wait_answer(wait, (int)status, 0, pipeline, message);
}

static void discard_pipeline(void *pipeline)
{
    wgpuComputePipelineRelease(pipeline);
}

static nib_status start_pipeline(nib_wgpu_device *device, nib_wgpu_build *build, const char *label, nib_error *error)
{
    build->wait = nib_wgpu_wait_new(&device->sync);
    if (!build->wait)
        return nib_fail_memory(error);
    build->wait->discard = discard_pipeline;
    const WGPUComputePipelineDescriptor descriptor = {
        .label = nib_wgpu_text(label),
        .layout = build->pipeline->layout->pipeline,
        .compute = {.module = build->module, .entryPoint = nib_wgpu_text(build->pipeline->entry_point)}};
    const WGPUCreateComputePipelineAsyncCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_pipeline, .userdata1 = build->wait};
    build->future = wgpuDeviceCreateComputePipelineAsync(device->device, &descriptor, info);
    return NIB_OK;
}

static void end_build(nib_wgpu_device *device, nib_wgpu_build *build, bool failed)
{
    if (build->wait)
        nib_wgpu_wait_drop(build->wait);
    if (build->module)
        wgpuShaderModuleRelease(build->module);
    build->wait = NULL;
    build->module = NULL;
    if (!failed)
        return;
    build->pipeline->failed = build->pipeline->pipeline == NULL;
    nib_wgpu_pipeline_release(device, build->pipeline);
    build->pipeline = NULL;
}

/* Take the pipeline from the cache, or start to make it. `key` holds text, entry point and layout; the text is taken
 * over. */
static nib_status start_build(nib_wgpu_device *device, const nib_wgpu_pipeline *key, const char *label,
                              nib_wgpu_build *out, nib_error *error)
{
    nib_context *context = device->common.context;
    nib_wgpu_pipeline *pipeline = find_pipeline(device, key);
    if (pipeline) {
        nib_text_free(context, key->wgsl);
        pipeline->refs++;
        pipeline->last_use = ++device->use_clock;
        out->pipeline = pipeline;
        return NIB_OK;
    }
    pipeline = nib_allocate(&context->allocator, 1, sizeof *pipeline);
    if (!pipeline) {
        nib_text_free(context, key->wgsl);
        return nib_fail_memory(error);
    }
    *pipeline = *key;
    pipeline->refs = 1;
    pipeline->last_use = ++device->use_clock;
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    device->pipeline_count++;
    out->pipeline = pipeline;
    nib_status status = make_module(device, out, error);
    if (status == NIB_OK)
        status = start_pipeline(device, out, label, error);
    if (status != NIB_OK)
        end_build(device, out, true);
    return status;
}

/* Rendered text, or what a test puts in its place. */
static nib_status wgsl_of(nib_wgpu_device *device, const nib_plan *plan, size_t pass, char **out, nib_error *error)
{
    NIB_TRY(nib_plan_wgsl(plan, pass, out, error));
    if (!device->rewrite)
        return NIB_OK;
    char *other = device->rewrite(device->rewrite_user, device->common.context, *out);
    if (other) {
        nib_text_free(device->common.context, *out);
        *out = other;
    }
    return NIB_OK;
}

nib_status nib_wgpu_build_start(nib_wgpu_device *device, const nib_plan *plan, size_t pass_index, nib_wgpu_build *out,
                                nib_error *error)
{
    const nib_plan_pass *pass = &plan->passes[pass_index];
    char kinds[NIB_WGPU_MAX_BINDINGS + 1], label[256];
    nib_wgpu_pipeline key = {0};
    *out = (nib_wgpu_build){.plan = plan, .pass = pass_index};
    NIB_TRY(nib_wgpu_check(device, error));
    NIB_TRY(kinds_of(pass, kinds, error));
    NIB_TRY(get_layout(device, kinds, &key.layout, error));
    const nib_str entry = pass->pass->entry_point;
    if (entry.len >= sizeof key.entry_point)
        return nib_fail(error, NIB_UNSUPPORTED, "pass %.*s: its entry point's name is too long", NIB_STR_ARG(pass->id));
    memcpy(key.entry_point, entry.data, entry.len);
    NIB_TRY(wgsl_of(device, plan, pass_index, &key.wgsl, error));
    key.hash = hash_text(key.wgsl);
    snprintf(label, sizeof label, "%.*s", NIB_STR_ARG(pass->label));
    return start_build(device, &key, label, out, error);
}

nib_status nib_wgpu_build_finish(nib_wgpu_device *device, nib_wgpu_build *build, nib_error *error)
{
    nib_wgpu_pipeline *pipeline = build->pipeline;
    nib_status status = NIB_OK;
    if (build->wait) {
        status = nib_wgpu_wait_for(&device->sync, build->future, build->wait, "compiling a pipeline", error);
        if (status == NIB_OK && build->wait->status == WGPUCreatePipelineAsyncStatus_Success)
            pipeline->pipeline = nib_wgpu_wait_take(build->wait);
    }
    if (status == NIB_OK && !pipeline->pipeline) {
        status = nib_wgpu_check(device, error);
        const nib_wgpu_report report = {.plan = build->plan,
                                        .pass = build->pass,
                                        .wgsl = pipeline->wgsl,
                                        .message = build->wait ? build->wait->message : "the pipeline was not built",
                                        .blobs = device->blobs};
        if (status == NIB_OK)
            status = nib_wgpu_report_shader(&report, error);
    }
    end_build(device, build, status != NIB_OK);
    return status;
}

nib_status nib_wgpu_build_own(nib_wgpu_device *device, const char *name, const char *wgsl, const char *kinds,
                              nib_wgpu_pipeline **out, nib_error *error)
{
    nib_wgpu_build build = {0};
    nib_wgpu_pipeline key = {.entry_point = "main"};
    NIB_TRY(nib_wgpu_check(device, error));
    NIB_TRY(get_layout(device, kinds, &key.layout, error));
    nib_buf text;
    nib_buf_init(&text, &device->common.context->allocator, 0);
    nib_buf_puts(&text, wgsl);
    NIB_TRY(nib_buf_take(&text, name, &key.wgsl, error));
    key.hash = hash_text(wgsl);
    NIB_TRY(start_build(device, &key, name, &build, error));
    *out = build.pipeline;
    return nib_wgpu_build_finish(device, &build, error);
}
