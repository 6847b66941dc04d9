/* SPDX-License-Identifier: Apache-2.0 */
#include "dawn.h"

#include <assert.h>
#include <string.h>

typedef struct chain {
    WGPUDawnTogglesDescriptor toggles;
    WGPUDawnCacheDeviceDescriptor cache;
} chain;
static_assert(sizeof(chain) <= sizeof(nib_dawn_chain), "nib_dawn_chain is too small");

/* Dawn hides shader-f16 on NVIDIA's Vulkan driver behind the first, and experimental features behind the second. */
static const char *const enabled_toggles[] = {"vulkan_enable_f16_on_nvidia", "allow_unsafe_apis"};

/* Coarse timestamps protect web pages from each other; here they only spoil measurements. */
static const char *const disabled_device_toggles[] = {"timestamp_quantization"};

static chain *open_chain(nib_dawn_chain *room)
{
    chain *c = (chain *)(void *)room->room.bytes;
    memset(c, 0, sizeof *c);
    c->toggles.chain.sType = WGPUSType_DawnTogglesDescriptor;
    c->toggles.enabledToggles = enabled_toggles;
    c->toggles.enabledToggleCount = sizeof enabled_toggles / sizeof *enabled_toggles;
    return c;
}

WGPUChainedStruct *nib_dawn_toggles(nib_dawn_chain *room)
{
    return &open_chain(room)->toggles.chain;
}

static size_t load_entry(size_t key_bytes, const uint8_t *key, size_t value_bytes, uint8_t *value, void *cache,
                         void *unused)
{
    (void)unused;
    const nib_dawn_cache *c = cache;
    return c->load(c->user, key, key_bytes, value, value_bytes);
}

static void store_entry(size_t key_bytes, const uint8_t *key, size_t value_bytes, const uint8_t *value, void *cache,
                        void *unused)
{
    (void)unused;
    const nib_dawn_cache *c = cache;
    c->store(c->user, key, key_bytes, value, value_bytes);
}

WGPUChainedStruct *nib_dawn_device_chain(nib_dawn_chain *room, nib_dawn_cache *cache)
{
    chain *c = open_chain(room);
    c->toggles.disabledToggles = disabled_device_toggles;
    c->toggles.disabledToggleCount = sizeof disabled_device_toggles / sizeof *disabled_device_toggles;
    if (!cache)
        return &c->toggles.chain;
    c->cache.chain.sType = WGPUSType_DawnCacheDeviceDescriptor;
    c->cache.isolationKey = (WGPUStringView){"nibble", WGPU_STRLEN};
    c->cache.dawnLoadCacheDataCallbackInfo.callback = load_entry;
    c->cache.dawnLoadCacheDataCallbackInfo.userdata1 = cache;
    c->cache.dawnStoreCacheDataCallbackInfo.callback = store_entry;
    c->cache.dawnStoreCacheDataCallbackInfo.userdata1 = cache;
    c->toggles.chain.next = &c->cache.chain;
    return &c->toggles.chain;
}

bool nib_dawn_matrix_feature(WGPUFeatureName *out)
{
    *out = WGPUFeatureName_ChromiumExperimentalSubgroupMatrix;
    return true;
}

static const char *component_name(WGPUSubgroupMatrixComponentType type)
{
    switch (type) {
    case WGPUSubgroupMatrixComponentType_F32:
        return "f32";
    case WGPUSubgroupMatrixComponentType_F16:
        return "f16";
    case WGPUSubgroupMatrixComponentType_U32:
        return "u32";
    case WGPUSubgroupMatrixComponentType_I32:
        return "i32";
    case WGPUSubgroupMatrixComponentType_U8:
        return "u8";
    case WGPUSubgroupMatrixComponentType_I8:
        return "i8";
    case WGPUSubgroupMatrixComponentType_Force32:
        break;
    }
    return NULL;
}

static size_t copy_configs(const WGPUAdapterPropertiesSubgroupMatrixConfigs *from, nib_dawn_matrix_config *out,
                           size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < from->configCount; i++) {
        const WGPUSubgroupMatrixConfig *c = &from->configs[i];
        const char *component = component_name(c->componentType), *result = component_name(c->resultComponentType);
        if (!component || !result || c->M == 0 || c->N == 0 || c->K == 0)
            continue; /* format 8.2: only known types and positive sizes */
        if (count < capacity)
            out[count] = (nib_dawn_matrix_config){component, result, c->M, c->N, c->K};
        count++;
    }
    return count;
}

size_t nib_dawn_matrix_configs(WGPUAdapter adapter, WGPUDevice device, nib_dawn_matrix_config *out, size_t capacity)
{
    const WGPUFeatureName feature = WGPUFeatureName_ChromiumExperimentalSubgroupMatrix;
    /* Asking an adapter without the feature for its configurations fails the whole question. */
    if (device ? !wgpuDeviceHasFeature(device, feature) : !wgpuAdapterHasFeature(adapter, feature))
        return 0;
    WGPUAdapterPropertiesSubgroupMatrixConfigs configs = {
        .chain = {.sType = WGPUSType_AdapterPropertiesSubgroupMatrixConfigs}};
    WGPUAdapterInfo info = {.nextInChain = &configs.chain};
    const WGPUStatus status =
        device ? wgpuDeviceGetAdapterInfo(device, &info) : wgpuAdapterGetInfo(adapter, &info);
    if (status != WGPUStatus_Success)
        return 0;
    const size_t count = copy_configs(&configs, out, capacity);
    wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers(configs);
    wgpuAdapterInfoFreeMembers(info);
    return count;
}
