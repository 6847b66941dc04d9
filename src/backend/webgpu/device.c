/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a device of our own, or taking over a caller's.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

/* ---- the device object ---- */

static nib_status new_device(nib_context *context, WGPUInstance instance, bool timed, nib_wgpu_device **out,
                             nib_error *error)
{
    *out = nib_allocate(&context->allocator, 1, sizeof **out);
    if (!*out)
        return nib_fail_memory(error);
    (*out)->common.backend = &nib_backend_webgpu;
    (*out)->common.context = context;
    (*out)->instance = instance;
    nib_wgpu_sync_init(&(*out)->sync, instance, &context->allocator, timed);
    nib_wgpu_fault_init(&(*out)->fault);
    return NIB_OK;
}

/* What every use of the device asks for again and again. */
static nib_status note_limits(nib_wgpu_device *device, nib_error *error)
{
    WGPULimits limits = {0};
    if (wgpuDeviceGetLimits(device->device, &limits) != WGPUStatus_Success)
        return nib_fail(error, NIB_DEVICE, "the device does not tell its limits");
    device->max_buffer_bytes = (size_t)limits.maxBufferSize;
    device->max_binding_bytes = (size_t)limits.maxStorageBufferBindingSize;
    device->storage_alignment = limits.minStorageBufferOffsetAlignment;
    device->uniform_alignment = limits.minUniformBufferOffsetAlignment;
    device->max_groups = limits.maxComputeWorkgroupsPerDimension;
    device->max_storage_bindings = limits.maxStorageBuffersPerShaderStage;
    return NIB_OK;
}

static void describe(nib_wgpu_device *device)
{
    WGPUAdapterInfo info = {0};
    char name[128] = "";
    if (wgpuDeviceGetAdapterInfo(device->device, &info) == WGPUStatus_Success)
        nib_wgpu_copy_text(info.device, name, sizeof name);
    snprintf(device->common.description, sizeof device->common.description, "webgpu: %s, %s, %s%s", name,
             nib_wgpu_backend_name(info.backendType), nib_wgpu_adapter_kind(info.adapterType),
             device->foreign ? ", the application's device" : "");
    wgpuAdapterInfoFreeMembers(info);
}

/* Facts that both kinds of device need once their handles are there. */
static nib_status complete(nib_wgpu_device *device, nib_error *error)
{
    NIB_TRY(note_limits(device, error));
    NIB_TRY(nib_wgpu_caps_fill(device->common.context, device->instance, device->adapter, device->device,
                               &device->common.caps, error));
    describe(device);
    return NIB_OK;
}

/* The lost callback refers to the device object, so it must have run before that is freed. */
static void destroy_own(nib_wgpu_device *device)
{
    wgpuDeviceDestroy(device->device);
    WGPUFutureWaitInfo info = {.future = wgpuDeviceGetLostFuture(device->device)};
    wgpuInstanceWaitAny(device->instance, 1, &info, device->sync.timeout_ns);
}

static void release_handles(nib_wgpu_device *device)
{
    if (device->queue)
        wgpuQueueRelease(device->queue);
    if (device->device) {
        if (!device->foreign)
            destroy_own(device);
        wgpuDeviceRelease(device->device);
    }
    if (device->adapter)
        wgpuAdapterRelease(device->adapter);
    nib_wgpu_sync_drain(&device->sync);
    wgpuInstanceRelease(device->instance);
}

static void free_slots(nib_wgpu_device *device)
{
    for (size_t i = 0; i < device->slot_count; i++)
        nib_wgpu_buffer_free(device->slots[i].buffer);
    nib_release(&device->common.context->allocator, device->slots, device->slot_count, sizeof *device->slots);
}

void nib_wgpu_close(nib_device *common)
{
    nib_wgpu_device *device = (nib_wgpu_device *)common;
    nib_context *context = common->context;
    if (device->fill)
        nib_wgpu_pipeline_release(device, device->fill);
    nib_wgpu_pipelines_free(device);
    free_slots(device);
    nib_wgpu_copies_detach(device);
    nib_release(&context->allocator, device->bounce, NIB_WGPU_BOUNCE_BYTES, 1);
    release_handles(device);
    nib_wgpu_sync_free(&device->sync);
    nib_wgpu_fault_free(&device->fault);
    nib_wgpu_blobs_close(context, device->blobs);
    nib_caps_free(common->caps);
    nib_release(&context->allocator, device, 1, sizeof *device);
}

/* ---- a device of our own ---- */

static bool is_disabled(const nib_device_options *options, const char *name)
{
    for (size_t i = 0; options && i < options->disabled_feature_count; i++) {
        if (strcmp(options->disabled_features[i], name) == 0)
            return true;
    }
    return false;
}

/* A misspelt name must not leave a feature on. */
static nib_status check_disabled(const nib_device_options *options, nib_error *error)
{
    nib_wgpu_feature features[NIB_WGPU_MAX_FEATURES];
    const size_t count = nib_wgpu_features(features);
    for (size_t i = 0; options && i < options->disabled_feature_count; i++) {
        bool known = false;
        for (size_t j = 0; j < count; j++)
            known = known || strcmp(features[j].name, options->disabled_features[i]) == 0;
        if (!known)
            return nib_fail(error, NIB_INVALID_ARGUMENT,
                            "no feature '%s' to disable; there are shader-f16, subgroups, subgroup-size-control, "
                            "chromium-experimental-subgroup-matrix, timestamp-query, texture-formats-tier1, "
                            "texture-formats-tier2",
                            options->disabled_features[i]);
    }
    return NIB_OK;
}

/* The adapter's features that the format knows, less the disabled ones and what needs those. */
static size_t wanted_features(WGPUAdapter adapter, const nib_device_options *options,
                              WGPUFeatureName out[NIB_WGPU_MAX_FEATURES])
{
    nib_wgpu_feature features[NIB_WGPU_MAX_FEATURES];
    const size_t count = nib_wgpu_features(features);
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        const bool off = is_disabled(options, features[i].name) ||
                         (features[i].needs && is_disabled(options, features[i].needs));
        if (!off && wgpuAdapterHasFeature(adapter, features[i].value))
            out[wanted++] = features[i].value;
    }
    return wanted;
}

static nib_status wanted_limits(WGPUAdapter adapter, WGPULimits *out, nib_error *error)
{
    WGPULimits best = {0};
    if (wgpuAdapterGetLimits(adapter, &best) != WGPUStatus_Success)
        return nib_fail(error, NIB_DEVICE, "the adapter does not tell its limits");
    *out = (WGPULimits)WGPU_LIMITS_INIT;
#define XX(name) out->name = best.name;
    NIB_WGPU_LIMIT_MAP(XX)
#undef XX
    return NIB_OK;
}

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *wait,
                      void *unused)
{
    (void)unused;
    nib_wgpu_wait_answer(wait, (int)status, 0, device, message);
}

static void discard_device(void *device)
{
    wgpuDeviceRelease(device);
}

static nib_status request_device(nib_wgpu_device *device, const WGPUDeviceDescriptor *descriptor, nib_error *error)
{
    nib_wgpu_wait *wait = nib_wgpu_wait_new(&device->sync);
    if (!wait)
        return nib_fail_memory(error);
    wait->discard = discard_device;
    const WGPURequestDeviceCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_device, .userdata1 = wait};
    const WGPUFuture future = wgpuAdapterRequestDevice(device->adapter, descriptor, info);
    nib_status status = nib_wgpu_wait_for(&device->sync, future, wait, "opening the device", error);
    if (status == NIB_OK && wait->status != WGPURequestDeviceStatus_Success)
        status = nib_fail(error, NIB_DEVICE, "opening the device: %s", wait->message);
    if (status == NIB_OK)
        device->device = nib_wgpu_wait_take(wait);
    nib_wgpu_wait_drop(wait);
    return status;
}

static nib_status open_device(nib_wgpu_device *device, const nib_device_options *options, nib_error *error)
{
    WGPUFeatureName features[NIB_WGPU_MAX_FEATURES];
    WGPULimits limits;
    nib_dawn_chain chain;
    NIB_TRY(check_disabled(options, error));
    NIB_TRY(wanted_limits(device->adapter, &limits, error));
    if (options && options->cache_dir)
        NIB_TRY(nib_wgpu_blobs_open(device->common.context, options->cache_dir, &device->blobs, error));
    const WGPUDeviceDescriptor descriptor = {
        .nextInChain = nib_dawn_device_chain(&chain, device->blobs ? &device->blobs->callbacks : NULL),
        .label = nib_wgpu_text("nibble"),
        .requiredFeatureCount = wanted_features(device->adapter, options, features),
        .requiredFeatures = features,
        .requiredLimits = &limits,
        .deviceLostCallbackInfo = {.mode = WGPUCallbackMode_AllowSpontaneous,
                                   .callback = nib_wgpu_on_lost,
                                   .userdata1 = &device->fault},
        .uncapturedErrorCallbackInfo = {.callback = nib_wgpu_on_error, .userdata1 = &device->fault}};
    NIB_TRY(request_device(device, &descriptor, error));
    device->queue = wgpuDeviceGetQueue(device->device);
    return complete(device, error);
}

static nib_status choose_adapter(nib_wgpu_device *device, const nib_device_options *options, nib_error *error)
{
    const bool with_null = options && options->adapter && strcmp(options->adapter, "null") == 0;
    nib_wgpu_adapters adapters;
    NIB_TRY(nib_wgpu_adapters_list(&device->sync, with_null, &adapters, error));
    size_t chosen;
    const nib_status status = nib_wgpu_adapter_choose(&adapters, options, &chosen, error);
    if (status == NIB_OK) {
        device->adapter = adapters.items[chosen].adapter;
        wgpuAdapterAddRef(device->adapter);
    }
    nib_wgpu_adapters_free(&adapters);
    return status;
}

nib_status nib_wgpu_open(nib_context *context, const nib_device_options *options, nib_device **out, nib_error *error)
{
    *out = NULL;
    WGPUInstance instance;
    NIB_TRY(nib_wgpu_instance_create(&instance, error));
    nib_wgpu_device *device;
    nib_status status = new_device(context, instance, true, &device, error);
    if (status != NIB_OK) {
        wgpuInstanceRelease(instance);
        return status;
    }
    status = choose_adapter(device, options, error);
    if (status == NIB_OK)
        status = open_device(device, options, error);
    if (status != NIB_OK) {
        nib_wgpu_close(&device->common);
        return status;
    }
    *out = &device->common;
    return NIB_OK;
}

/* ---- a caller's device ---- */

nib_status nib_webgpu_device_wrap(nib_context *context, const nib_webgpu_handles *handles, nib_device **out,
                                  nib_error *error)
{
    *out = NULL;
    if (!handles->instance || !handles->device)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "wrapping a device needs its instance and the device itself");
    nib_wgpu_device *device;
    NIB_TRY(new_device(context, handles->instance, handles->timed_wait_any, &device, error));
    device->foreign = true;
    device->adapter = handles->adapter;
    device->device = handles->device;
    device->queue = handles->queue ? handles->queue : wgpuDeviceGetQueue(handles->device);
    wgpuInstanceAddRef(device->instance);
    wgpuDeviceAddRef(device->device);
    if (device->adapter)
        wgpuAdapterAddRef(device->adapter);
    if (handles->queue)
        wgpuQueueAddRef(device->queue);
    nib_status status = nib_wgpu_check(device, error);
    if (status == NIB_OK)
        status = complete(device, error);
    if (status != NIB_OK) {
        nib_wgpu_close(&device->common);
        return status;
    }
    *out = &device->common;
    return NIB_OK;
}
