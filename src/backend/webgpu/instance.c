/* SPDX-License-Identifier: Apache-2.0
 *
 * Instance and adapters. webgpu.h has no list of adapters, only a request for the best of a kind; asking with every
 * backend, preference and the fallback flag finds one of each kind (two identical cards show up as one).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

static const char *const backend_names[] = {"undefined", "Null", "WebGPU", "D3D11", "D3D12",
                                            "Metal", "Vulkan", "OpenGL", "OpenGLES"};

const char *nib_wgpu_backend_name(WGPUBackendType backend)
{
    const size_t i = (size_t)backend;
    return i < sizeof backend_names / sizeof *backend_names ? backend_names[i] : "unknown";
}

const char *nib_wgpu_adapter_kind(WGPUAdapterType type)
{
    switch (type) {
    case WGPUAdapterType_DiscreteGPU:
        return "discrete";
    case WGPUAdapterType_IntegratedGPU:
        return "integrated";
    case WGPUAdapterType_CPU:
        return "software";
    case WGPUAdapterType_Unknown:
    case WGPUAdapterType_Force32:
        break;
    }
    return "unknown";
}

nib_status nib_wgpu_instance_create(WGPUInstance *out, nib_error *error)
{
    static const WGPUInstanceFeatureName features[] = {WGPUInstanceFeatureName_TimedWaitAny};
    nib_dawn_chain chain;
    const WGPUInstanceDescriptor descriptor = {
        .nextInChain = nib_dawn_toggles(&chain), .requiredFeatureCount = 1, .requiredFeatures = features};
    *out = wgpuCreateInstance(&descriptor);
    return *out ? NIB_OK : nib_fail(error, NIB_NO_DEVICE, "no WebGPU instance could be created");
}

/* ---- listing ---- */

static void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *wait,
                       void *unused)
{
    (void)unused;
    nib_wgpu_wait_answer(wait, (int)status, 0, adapter, message);
}

static void discard_adapter(void *adapter)
{
    wgpuAdapterRelease(adapter);
}

/* NULL when there is none of this kind. */
static nib_status request_adapter(nib_wgpu_sync *sync, const WGPURequestAdapterOptions *options, WGPUAdapter *out,
                                  nib_error *error)
{
    *out = NULL;
    nib_wgpu_wait *wait = nib_wgpu_wait_new(sync);
    if (!wait)
        return nib_fail_memory(error);
    wait->discard = discard_adapter;
    const WGPURequestAdapterCallbackInfo info = {
        .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_adapter, .userdata1 = wait};
    const WGPUFuture future = wgpuInstanceRequestAdapter(sync->instance, options, info);
    const nib_status status = nib_wgpu_wait_for(sync, future, wait, "looking for an adapter", error);
    if (status == NIB_OK && wait->status == WGPURequestAdapterStatus_Success)
        *out = nib_wgpu_wait_take(wait);
    nib_wgpu_wait_drop(wait);
    return status;
}

static bool describe_adapter(WGPUAdapter adapter, nib_wgpu_adapter *out)
{
    WGPUAdapterInfo info = {0};
    if (wgpuAdapterGetInfo(adapter, &info) != WGPUStatus_Success)
        return false;
    memset(out, 0, sizeof *out);
    out->adapter = adapter;
    out->type = info.adapterType;
    out->backend = info.backendType;
    out->vendor_id = info.vendorID;
    out->device_id = info.deviceID;
    nib_wgpu_copy_text(info.vendor, out->vendor, sizeof out->vendor);
    nib_wgpu_copy_text(info.architecture, out->architecture, sizeof out->architecture);
    nib_wgpu_copy_text(info.device, out->name, sizeof out->name);
    nib_wgpu_copy_text(info.description, out->driver, sizeof out->driver);
    wgpuAdapterInfoFreeMembers(info);
    return true;
}

static bool same_adapter(const nib_wgpu_adapter *a, const nib_wgpu_adapter *b)
{
    return a->backend == b->backend && a->vendor_id == b->vendor_id && a->device_id == b->device_id &&
           a->type == b->type && strcmp(a->name, b->name) == 0;
}

/* Keep an adapter, or drop one that is already there. */
static void keep_adapter(nib_wgpu_adapters *list, WGPUAdapter adapter)
{
    nib_wgpu_adapter found;
    bool known = !describe_adapter(adapter, &found) || list->count == NIB_WGPU_MAX_ADAPTERS;
    for (size_t i = 0; i < list->count && !known; i++)
        known = same_adapter(&list->items[i], &found);
    if (known)
        wgpuAdapterRelease(adapter);
    else
        list->items[list->count++] = found;
}

static int rank_of(const nib_wgpu_adapter *adapter)
{
    if (adapter->backend == WGPUBackendType_Null)
        return 4;
    switch (adapter->type) {
    case WGPUAdapterType_DiscreteGPU:
        return 0;
    case WGPUAdapterType_IntegratedGPU:
        return 1;
    case WGPUAdapterType_CPU:
        return 3;
    case WGPUAdapterType_Unknown: /* drivers of virtual machines */
    case WGPUAdapterType_Force32:
        break;
    }
    return 2;
}

/* Best first; equals stay in the order they were found. */
static void sort_adapters(nib_wgpu_adapters *list)
{
    for (size_t i = 1; i < list->count; i++) {
        const nib_wgpu_adapter moved = list->items[i];
        size_t at = i;
        for (; at > 0 && rank_of(&list->items[at - 1]) > rank_of(&moved); at--)
            list->items[at] = list->items[at - 1];
        list->items[at] = moved;
    }
}

typedef struct adapter_query {
    WGPUPowerPreference power;
    WGPUBool fallback;
} adapter_query;

static const adapter_query queries[] = {{WGPUPowerPreference_HighPerformance, 0},
                                        {WGPUPowerPreference_LowPower, 0},
                                        {WGPUPowerPreference_Undefined, 1}};

static nib_status list_backend(nib_wgpu_sync *sync, WGPUBackendType backend, nib_wgpu_adapters *out, nib_error *error)
{
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        nib_dawn_chain chain;
        const WGPURequestAdapterOptions options = {.nextInChain = nib_dawn_toggles(&chain),
                                                   .featureLevel = WGPUFeatureLevel_Core,
                                                   .powerPreference = queries[i].power,
                                                   .forceFallbackAdapter = queries[i].fallback,
                                                   .backendType = backend};
        WGPUAdapter adapter;
        NIB_TRY(request_adapter(sync, &options, &adapter, error));
        if (adapter)
            keep_adapter(out, adapter);
    }
    return NIB_OK;
}

nib_status nib_wgpu_adapters_list(nib_wgpu_sync *sync, bool with_null, nib_wgpu_adapters *out, nib_error *error)
{
    static const WGPUBackendType backends[] = {WGPUBackendType_Vulkan, WGPUBackendType_D3D12, WGPUBackendType_Metal,
                                               WGPUBackendType_Null};
    out->count = 0;
    nib_status status = NIB_OK;
    for (size_t i = 0; i < sizeof backends / sizeof *backends && status == NIB_OK; i++) {
        if (backends[i] != WGPUBackendType_Null || with_null)
            status = list_backend(sync, backends[i], out, error);
    }
    if (status != NIB_OK)
        nib_wgpu_adapters_free(out);
    sort_adapters(out);
    return status;
}

void nib_wgpu_adapters_free(nib_wgpu_adapters *adapters)
{
    for (size_t i = 0; i < adapters->count; i++)
        wgpuAdapterRelease(adapters->items[i].adapter);
    adapters->count = 0;
}

/* ---- choosing ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && lower(text[i]) == lower(part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return part[0] == '\0';
}

static bool matches(const nib_wgpu_adapter *adapter, const char *part)
{
    return contains(adapter->name, part) || contains(adapter->vendor, part) || contains(adapter->driver, part) ||
           contains(adapter->architecture, part) || contains(nib_wgpu_adapter_kind(adapter->type), part) ||
           contains(nib_wgpu_backend_name(adapter->backend), part);
}

/* SIZE_MAX unless the text is a plain number. */
static size_t index_of(const char *text)
{
    size_t index = 0;
    if (!*text)
        return SIZE_MAX;
    for (; *text; text++) {
        if (!nib_is_digit(*text) || index > NIB_WGPU_MAX_ADAPTERS)
            return SIZE_MAX;
        index = index * 10 + (size_t)(*text - '0');
    }
    return index;
}

static void list_names(const nib_wgpu_adapters *adapters, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < adapters->count && used < out_bytes; i++) {
        const nib_wgpu_adapter *a = &adapters->items[i];
        const int length = snprintf(out + used, out_bytes - used, "%s%zu: %s (%s, %s)", i ? "; " : "", i, a->name,
                                    nib_wgpu_adapter_kind(a->type), nib_wgpu_backend_name(a->backend));
        used += length > 0 ? (size_t)length : 0;
    }
}

static bool software_allowed(void)
{
    const char *value = getenv("NIBBLE_WEBGPU_SOFTWARE");
    return value && *value && strcmp(value, "0") != 0;
}

static nib_status choose_named(const nib_wgpu_adapters *adapters, const char *wanted, size_t *out, nib_error *error)
{
    *out = index_of(wanted);
    if (*out < adapters->count)
        return NIB_OK;
    for (size_t i = 0; i < adapters->count; i++) {
        if (matches(&adapters->items[i], wanted)) {
            *out = i;
            return NIB_OK;
        }
    }
    char names[1024];
    list_names(adapters, names, sizeof names);
    return nib_fail(error, NIB_NO_DEVICE, "no adapter '%s'; there is %s", wanted, names[0] ? names : "none");
}

/* A software adapter is slower than the cpu backend, so it is taken only when it was meant: named, allowed by the
 * environment, or the only one for a caller who named this backend. */
nib_status nib_wgpu_adapter_choose(const nib_wgpu_adapters *adapters, const nib_device_options *options, size_t *out,
                                   nib_error *error)
{
    if (options && options->adapter)
        return choose_named(adapters, options->adapter, out, error);
    const bool named = options && options->backend && strcmp(options->backend, "webgpu") == 0;
    *out = 0;
    if (adapters->count == 0)
        return nib_fail(error, NIB_NO_DEVICE,
                        "no WebGPU adapter: no driver for Vulkan, D3D12 or Metal was found (on Linux, is a Vulkan "
                        "driver installed, and does VK_DRIVER_FILES name it if it is set?)");
    if (rank_of(&adapters->items[0]) < 3 || named || software_allowed())
        return NIB_OK;
    char names[1024];
    list_names(adapters, names, sizeof names);
    return nib_fail(error, NIB_NO_DEVICE,
                    "no GPU, only software adapters: %s (name the backend or the adapter, or set "
                    "NIBBLE_WEBGPU_SOFTWARE=1, to use one)",
                    names);
}
