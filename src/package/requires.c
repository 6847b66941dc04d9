/* SPDX-License-Identifier: Apache-2.0
 *
 * What a variant requires of a device (format 2.A.11).
 */
#include "package/requires.h"

#include "package/reader.h"

/* format D.2 */
static const char *const feature_names[] = {
    "shader-f16",
    "subgroups",
    "subgroup-size-control",
    "chromium-experimental-subgroup-matrix",
    "timestamp-query",
    "texture-formats-tier1",
    "texture-formats-tier2",
};

/* format D.1; the last four have no default value */
static const char *const limit_names[] = {
    "maxTextureDimension1D",
    "maxTextureDimension2D",
    "maxTextureDimension3D",
    "maxTextureArrayLayers",
    "maxBindGroups",
    "maxBindGroupsPlusVertexBuffers",
    "maxBindingsPerBindGroup",
    "maxDynamicUniformBuffersPerPipelineLayout",
    "maxDynamicStorageBuffersPerPipelineLayout",
    "maxSampledTexturesPerShaderStage",
    "maxSamplersPerShaderStage",
    "maxStorageBuffersPerShaderStage",
    "maxStorageTexturesPerShaderStage",
    "maxUniformBuffersPerShaderStage",
    "maxUniformBufferBindingSize",
    "maxStorageBufferBindingSize",
    "minUniformBufferOffsetAlignment",
    "minStorageBufferOffsetAlignment",
    "maxVertexBuffers",
    "maxBufferSize",
    "maxVertexAttributes",
    "maxVertexBufferArrayStride",
    "maxInterStageShaderVariables",
    "maxColorAttachments",
    "maxColorAttachmentBytesPerSample",
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY",
    "maxComputeWorkgroupSizeZ",
    "maxComputeWorkgroupStorageSize",
    "maxComputeWorkgroupsPerDimension",
    "maxImmediateSize",
    "maxStorageBuffersInVertexStage",
    "maxStorageBuffersInFragmentStage",
    "maxStorageTexturesInVertexStage",
    "maxStorageTexturesInFragmentStage",
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool is_among(nib_str name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (nib_str_is(name, names[i]))
            return true;
    }
    return false;
}

bool nib_is_feature_name(nib_str name)
{
    return is_among(name, feature_names, COUNT_OF(feature_names));
}

size_t nib_feature_name_count(void)
{
    return COUNT_OF(feature_names);
}

bool nib_is_limit_name(nib_str name)
{
    return is_among(name, limit_names, COUNT_OF(limit_names));
}

size_t nib_limit_name_count(void)
{
    return COUNT_OF(limit_names);
}

/* ---- features ---- */

static bool has_feature(const nib_requires *needs, nib_str name)
{
    for (size_t i = 0; i < needs->feature_count; i++) {
        if (nib_str_eq(needs->features[i], name))
            return true;
    }
    return false;
}

static nib_status read_feature(nib_reader *r, nib_value value, nib_requires *needs)
{
    if (value.type != NIB_VALUE_STRING || !nib_is_feature_name(value.as.string))
        return nib_refuse(r, "%s is not a device feature that the format knows",
                          nib_show(value).text);
    if (!has_feature(needs, value.as.string))
        needs->features[needs->feature_count++] = value.as.string;
    return NIB_OK;
}

nib_status nib_read_features(nib_reader *r, const nib_value *value, void *target)
{
    nib_requires *needs = target;
    const nib_list *list = value->as.list;
    needs->features = NIB_ARENA_ARRAY(r->arena, nib_str, list->count);
    if (!needs->features)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(nib_at_index(r, i, read_feature(r, list->items[i], needs)));
    return NIB_OK;
}

/* ---- limits ---- */

static nib_limit_rule *find_limit(nib_requires *needs, nib_str name)
{
    for (size_t i = 0; i < needs->limit_count; i++) {
        if (nib_str_eq(needs->limits[i].name, name))
            return &needs->limits[i];
    }
    return NULL;
}

static nib_status read_limit(nib_reader *r, nib_str name, nib_value value, nib_limit_rule *out)
{
    if (!nib_is_limit_name(name))
        return nib_refuse(r, "\"%.*s\" is not a WebGPU limit that the format knows",
                          NIB_SHOW_STR(name));
    NIB_TRY(nib_keys_check(r, NIB_KEY_NUMBER, "a limit", value));
    *out = (nib_limit_rule){name, value.as.number};
    return NIB_OK;
}

nib_status nib_read_limits(nib_reader *r, const nib_value *value, void *target)
{
    nib_requires *needs = target;
    const nib_map *map = value->as.map;
    needs->limits = NIB_ARENA_ARRAY(r->arena, nib_limit_rule, map->count);
    if (!needs->limits)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        NIB_TRY(
            nib_at_key(r, entry->key, read_limit(r, entry->key, entry->value, &needs->limits[i])));
        needs->limit_count++;
    }
    return NIB_OK;
}

/* ---- subgroups ---- */

static nib_status read_positive(nib_reader *r, const char *what, nib_value value, unsigned *out)
{
    if (!nib_value_is_number(value) || !nib_is_safe_integer(value.as.number) ||
        value.as.number < 1 || value.as.number > 4294967295.0)
        return nib_refuse(r, "%s must be a positive integer, not %s", what, nib_show(value).text);
    *out = (unsigned)value.as.number;
    return NIB_OK;
}

nib_status nib_read_subgroup_min_size(nib_reader *r, const nib_value *value, void *target)
{
    return read_positive(r, "\"subgroupMinSize\"", *value,
                         &((nib_requires *)target)->subgroup_min_size);
}

static nib_status read_component(nib_reader *r, const nib_value *value, nib_str *out)
{
    static const char *const names[] = {"f32", "f16", "u32", "i32", "u8", "i8"};
    if (value->type != NIB_VALUE_STRING || !is_among(value->as.string, names, COUNT_OF(names)))
        return nib_refuse(r, "a component type must be f32, f16, u32, i32, u8 or i8, not %s",
                          nib_show(*value).text);
    *out = value->as.string;
    return NIB_OK;
}

static nib_status read_component_type(nib_reader *r, const nib_value *value, void *pattern)
{
    return read_component(r, value, &((nib_matrix_pattern *)pattern)->component_type);
}

static nib_status read_result_type(nib_reader *r, const nib_value *value, void *pattern)
{
    return read_component(r, value, &((nib_matrix_pattern *)pattern)->result_type);
}

static nib_status read_m(nib_reader *r, const nib_value *value, void *pattern)
{
    return read_positive(r, "\"M\"", *value, &((nib_matrix_pattern *)pattern)->m);
}

static nib_status read_n(nib_reader *r, const nib_value *value, void *pattern)
{
    return read_positive(r, "\"N\"", *value, &((nib_matrix_pattern *)pattern)->n);
}

static nib_status read_k(nib_reader *r, const nib_value *value, void *pattern)
{
    return read_positive(r, "\"K\"", *value, &((nib_matrix_pattern *)pattern)->k);
}

static const nib_key pattern_rows[] = {
    {"componentType", NIB_KEY_ANY, .set = read_component_type},
    {"resultComponentType", NIB_KEY_ANY, .set = read_result_type},
    {"M", NIB_KEY_ANY, .set = read_m},
    {"N", NIB_KEY_ANY, .set = read_n},
    {"K", NIB_KEY_ANY, .set = read_k},
};
static const nib_keys pattern_keys = NIB_KEYS("a subgroup matrix pattern", pattern_rows);

static nib_status read_pattern(nib_reader *r, nib_value value, nib_matrix_pattern *pattern)
{
    NIB_TRY(nib_keys_read(r, &pattern_keys, value, pattern));
    if (value.as.map->count == 0)
        return nib_refuse(r, "a subgroup matrix pattern needs at least one field");
    return NIB_OK;
}

static nib_status read_matrix_configs(nib_reader *r, const nib_value *value, void *target)
{
    nib_requires *needs = target;
    const nib_list *list = value->as.list;
    needs->matrix_configs = NIB_ARENA_ARRAY(r->arena, nib_matrix_pattern, list->count);
    if (!needs->matrix_configs)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        NIB_TRY(nib_at_index(r, i, read_pattern(r, list->items[i], &needs->matrix_configs[i])));
        needs->matrix_config_count++;
    }
    return NIB_OK;
}

static const nib_key requires_rows[] = {
    {"features", NIB_KEY_LIST, .set = nib_read_features},
    {"limits", NIB_KEY_MAP, .set = nib_read_limits},
    {"subgroupMinSize", NIB_KEY_ANY, .set = nib_read_subgroup_min_size},
    {"subgroupMatrixConfigs", NIB_KEY_ITEMS, .set = read_matrix_configs},
};
static const nib_keys requires_keys = NIB_KEYS("\"requires\"", requires_rows);

nib_status nib_read_requires(nib_reader *r, nib_value value, nib_requires *out)
{
    return nib_keys_read(r, &requires_keys, value, out);
}

/* ---- merging ---- */

static nib_status merge_features(nib_reader *r, const nib_requires *from, nib_requires *into)
{
    nib_requires merged = {0};
    merged.features = NIB_ARENA_ARRAY(r->arena, nib_str, from->feature_count + into->feature_count);
    if (!merged.features)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < from->feature_count; i++)
        merged.features[merged.feature_count++] = from->features[i];
    for (size_t i = 0; i < into->feature_count; i++) {
        if (!has_feature(&merged, into->features[i]))
            merged.features[merged.feature_count++] = into->features[i];
    }
    into->features = merged.features;
    into->feature_count = merged.feature_count;
    return NIB_OK;
}

static nib_status merge_limits(nib_reader *r, const nib_requires *from, nib_requires *into)
{
    nib_requires merged = {0};
    merged.limits =
        NIB_ARENA_ARRAY(r->arena, nib_limit_rule, from->limit_count + into->limit_count);
    if (!merged.limits)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < from->limit_count; i++)
        merged.limits[merged.limit_count++] = from->limits[i];
    for (size_t i = 0; i < into->limit_count; i++) {
        nib_limit_rule *known = find_limit(&merged, into->limits[i].name);
        if (!known)
            merged.limits[merged.limit_count++] = into->limits[i];
        else if (known->minimum < into->limits[i].minimum)
            known->minimum = into->limits[i].minimum;
    }
    into->limits = merged.limits;
    into->limit_count = merged.limit_count;
    return NIB_OK;
}

nib_status nib_merge_requires(nib_reader *r, const nib_requires *manifest, nib_requires *variant)
{
    NIB_TRY(merge_features(r, manifest, variant));
    NIB_TRY(merge_limits(r, manifest, variant));
    if (variant->subgroup_min_size < manifest->subgroup_min_size)
        variant->subgroup_min_size = manifest->subgroup_min_size;
    if (manifest->matrix_config_count && variant->matrix_config_count)
        return nib_at_name(r, "requires",
                           nib_at_name(r, "subgroupMatrixConfigs",
                                       nib_refuse(r, "\"subgroupMatrixConfigs\" may stand in the "
                                                     "manifest's \"requires\" or in the "
                                                     "variant's, not in both")));
    if (manifest->matrix_config_count) {
        variant->matrix_configs = manifest->matrix_configs;
        variant->matrix_config_count = manifest->matrix_config_count;
    }
    return NIB_OK;
}
