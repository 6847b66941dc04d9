/* SPDX-License-Identifier: Apache-2.0
 *
 * The capability record of a device: features, limits and adapter facts under the format's names (3.6, 8.2, D.1, D.2).
 */
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"
#include "plan/view.h"

size_t nib_wgpu_features(nib_wgpu_feature out[NIB_WGPU_MAX_FEATURES])
{
    static const nib_wgpu_feature standard[] = {
        {"shader-f16", WGPUFeatureName_ShaderF16, NULL},
        {"subgroups", WGPUFeatureName_Subgroups, NULL},
        {"subgroup-size-control", WGPUFeatureName_SubgroupSizeControl, "subgroups"},
        {"timestamp-query", WGPUFeatureName_TimestampQuery, NULL},
        {"texture-formats-tier1", WGPUFeatureName_TextureFormatsTier1, NULL},
        {"texture-formats-tier2", WGPUFeatureName_TextureFormatsTier2, "texture-formats-tier1"},
    };
    size_t count = sizeof standard / sizeof *standard;
    memcpy(out, standard, sizeof standard);
    nib_wgpu_feature matrix = {"chromium-experimental-subgroup-matrix", WGPUFeatureName_Force32, "subgroups"};
    if (nib_dawn_matrix_feature(&matrix.value))
        out[count++] = matrix;
    return count;
}

/* Where the facts come from: the device, or what a device of the adapter would have. */
typedef struct source {
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
} source;

static bool has_feature(const source *from, WGPUFeatureName feature)
{
    return from->device ? wgpuDeviceHasFeature(from->device, feature) : wgpuAdapterHasFeature(from->adapter, feature);
}

static nib_status add_features(nib_caps *caps, const source *from, nib_error *error)
{
    nib_wgpu_feature features[NIB_WGPU_MAX_FEATURES];
    const size_t count = nib_wgpu_features(features);
    for (size_t i = 0; i < count; i++) {
        if (has_feature(from, features[i].value))
            NIB_TRY(nib_caps_add_feature(caps, features[i].name, error));
    }
    return NIB_OK;
}

static nib_status add_limits(nib_caps *caps, const source *from, nib_error *error)
{
    WGPULimits limits = {0};
    const WGPUStatus status =
        from->device ? wgpuDeviceGetLimits(from->device, &limits) : wgpuAdapterGetLimits(from->adapter, &limits);
    if (status != WGPUStatus_Success)
        return nib_fail(error, NIB_DEVICE, "the device does not tell its limits");
    if (from->device) {
#define XX(name, fallback) NIB_TRY(nib_caps_set_limit(caps, #name, (double)limits.name, error));
        NIB_LIMIT_MAP(XX)
#undef XX
        return NIB_OK;
    }
    /* A device that is opened there gets the adapter's values for these alone. */
#define XX(name) NIB_TRY(nib_caps_set_limit(caps, #name, (double)limits.name, error));
    NIB_WGPU_LIMIT_MAP(XX)
#undef XX
    return NIB_OK;
}

static nib_status add_matrix_configs(nib_caps *caps, const source *from, nib_error *error)
{
    nib_dawn_matrix_config configs[64];
    size_t count = nib_dawn_matrix_configs(from->adapter, from->device, configs, 64);
    count = count < 64 ? count : 64;
    nib_list *list = nib_list_new(&caps->arena, count);
    if (!list)
        return nib_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        nib_map *map = nib_map_new(&caps->arena, 5);
        if (!map || !nib_map_set_cstr(&caps->arena, map, "componentType", nib_value_cstr(configs[i].component)) ||
            !nib_map_set_cstr(&caps->arena, map, "resultComponentType", nib_value_cstr(configs[i].result)) ||
            !nib_map_set_cstr(&caps->arena, map, "M", nib_value_number(configs[i].m)) ||
            !nib_map_set_cstr(&caps->arena, map, "N", nib_value_number(configs[i].n)) ||
            !nib_map_set_cstr(&caps->arena, map, "K", nib_value_number(configs[i].k)) ||
            !nib_list_push(&caps->arena, list, nib_value_of_map(map)))
            return nib_fail_memory(error);
    }
    return nib_caps_set_adapter(caps, "subgroupMatrixConfigs", nib_value_of_list(list), error);
}

static nib_status set_text(nib_caps *caps, const char *name, WGPUStringView text, nib_error *error)
{
    char copy[256];
    nib_wgpu_copy_text(text, copy, sizeof copy);
    return nib_caps_set_adapter(caps, name, nib_value_cstr(copy), error);
}

static nib_status set_info(nib_caps *caps, const WGPUAdapterInfo *info, bool subgroups, nib_error *error)
{
    NIB_TRY(set_text(caps, "vendor", info->vendor, error));
    NIB_TRY(set_text(caps, "architecture", info->architecture, error));
    NIB_TRY(set_text(caps, "device", info->device, error));
    NIB_TRY(set_text(caps, "description", info->description, error));
    NIB_TRY(nib_caps_set_adapter(caps, "isFallbackAdapter",
                                 nib_value_bool(info->adapterType == WGPUAdapterType_CPU), error));
    if (!subgroups || info->subgroupMinSize == 0)
        return NIB_OK;
    NIB_TRY(nib_caps_set_adapter(caps, "subgroupMinSize", nib_value_number(info->subgroupMinSize), error));
    return nib_caps_set_adapter(caps, "subgroupMaxSize", nib_value_number(info->subgroupMaxSize), error);
}

static nib_status add_adapter(nib_caps *caps, const source *from, nib_error *error)
{
    WGPUAdapterInfo info = {0};
    const WGPUStatus status =
        from->device ? wgpuDeviceGetAdapterInfo(from->device, &info) : wgpuAdapterGetInfo(from->adapter, &info);
    if (status != WGPUStatus_Success)
        return nib_fail(error, NIB_DEVICE, "the adapter does not describe itself");
    const nib_status set = set_info(caps, &info, has_feature(from, WGPUFeatureName_Subgroups), error);
    wgpuAdapterInfoFreeMembers(info);
    NIB_TRY(set);
    /* With the feature, the list is reported even when it is empty: patterns are then held against it (format 6.2). */
    WGPUFeatureName matrix;
    if (!nib_dawn_matrix_feature(&matrix) || !has_feature(from, matrix))
        return NIB_OK;
    return add_matrix_configs(caps, from, error);
}

typedef struct language_feature {
    WGPUWGSLLanguageFeatureName value;
    const char *name;
} language_feature;

static const language_feature language_features[] = {
    {WGPUWGSLLanguageFeatureName_ReadonlyAndReadwriteStorageTextures, "readonly_and_readwrite_storage_textures"},
    {WGPUWGSLLanguageFeatureName_Packed4x8IntegerDotProduct, "packed_4x8_integer_dot_product"},
    {WGPUWGSLLanguageFeatureName_UnrestrictedPointerParameters, "unrestricted_pointer_parameters"},
    {WGPUWGSLLanguageFeatureName_PointerCompositeAccess, "pointer_composite_access"},
    {WGPUWGSLLanguageFeatureName_UniformBufferStandardLayout, "uniform_buffer_standard_layout"},
    {WGPUWGSLLanguageFeatureName_SubgroupId, "subgroup_id"},
    {WGPUWGSLLanguageFeatureName_TextureAndSamplerLet, "texture_and_sampler_let"},
    {WGPUWGSLLanguageFeatureName_SubgroupUniformity, "subgroup_uniformity"},
    {WGPUWGSLLanguageFeatureName_TextureFormatsTier1, "texture_formats_tier1"},
    {WGPUWGSLLanguageFeatureName_LinearIndexing, "linear_indexing"},
};

static nib_status add_language(nib_caps *caps, const source *from, nib_error *error)
{
    for (size_t i = 0; i < sizeof language_features / sizeof *language_features; i++) {
        if (wgpuInstanceHasWGSLLanguageFeature(from->instance, language_features[i].value))
            NIB_TRY(nib_caps_add_language_feature(caps, language_features[i].name, error));
    }
    return NIB_OK;
}

nib_status nib_wgpu_caps_fill(nib_context *context, WGPUInstance instance, WGPUAdapter adapter, WGPUDevice device,
                              nib_caps **out, nib_error *error)
{
    const source from = {instance, adapter, device};
    NIB_TRY(nib_caps_create(context, out, error));
    nib_status status = add_features(*out, &from, error);
    if (status == NIB_OK)
        status = add_limits(*out, &from, error);
    if (status == NIB_OK)
        status = add_adapter(*out, &from, error);
    if (status == NIB_OK)
        status = add_language(*out, &from, error);
    if (status == NIB_OK)
        status = nib_caps_finish(*out, error);
    if (status != NIB_OK) {
        nib_caps_free(*out);
        *out = NULL;
    }
    return status;
}
