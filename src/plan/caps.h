/* SPDX-License-Identifier: Apache-2.0
 *
 * The capability record: what planning may know of a device. Plain data, filled by a backend or from JSON.
 */
#ifndef NIB_PLAN_CAPS_H
#define NIB_PLAN_CAPS_H

#include "base/context.h"
#include "nibble/plan.h"
#include "value/value.h"

/* name, default (format D.1). */
#define NIB_LIMIT_MAP(XX)                                                                          \
    XX(maxTextureDimension1D, 8192)                                                                \
    XX(maxTextureDimension2D, 8192)                                                                \
    XX(maxTextureDimension3D, 2048)                                                                \
    XX(maxTextureArrayLayers, 256)                                                                 \
    XX(maxBindGroups, 4)                                                                           \
    XX(maxBindGroupsPlusVertexBuffers, 24)                                                         \
    XX(maxBindingsPerBindGroup, 1000)                                                              \
    XX(maxDynamicUniformBuffersPerPipelineLayout, 8)                                               \
    XX(maxDynamicStorageBuffersPerPipelineLayout, 4)                                               \
    XX(maxSampledTexturesPerShaderStage, 16)                                                       \
    XX(maxSamplersPerShaderStage, 16)                                                              \
    XX(maxStorageBuffersPerShaderStage, 10)                                                        \
    XX(maxStorageTexturesPerShaderStage, 4)                                                        \
    XX(maxUniformBuffersPerShaderStage, 12)                                                        \
    XX(maxUniformBufferBindingSize, 65536)                                                         \
    XX(maxStorageBufferBindingSize, 134217728)                                                     \
    XX(minUniformBufferOffsetAlignment, 256)                                                       \
    XX(minStorageBufferOffsetAlignment, 256)                                                       \
    XX(maxVertexBuffers, 8)                                                                        \
    XX(maxBufferSize, 268435456)                                                                   \
    XX(maxVertexAttributes, 16)                                                                    \
    XX(maxVertexBufferArrayStride, 2048)                                                           \
    XX(maxInterStageShaderVariables, 16)                                                           \
    XX(maxColorAttachments, 8)                                                                     \
    XX(maxColorAttachmentBytesPerSample, 32)                                                       \
    XX(maxComputeInvocationsPerWorkgroup, 256)                                                     \
    XX(maxComputeWorkgroupSizeX, 256)                                                              \
    XX(maxComputeWorkgroupSizeY, 256)                                                              \
    XX(maxComputeWorkgroupSizeZ, 64)                                                               \
    XX(maxComputeWorkgroupStorageSize, 16384)                                                      \
    XX(maxComputeWorkgroupsPerDimension, 65535)                                                    \
    XX(maxImmediateSize, 0)

/* The features the format knows (D.2). */
#define NIB_FEATURE_MAP(XX)                                                                        \
    XX("shader-f16")                                                                               \
    XX("subgroups")                                                                                \
    XX("subgroup-size-control")                                                                    \
    XX("chromium-experimental-subgroup-matrix")                                                    \
    XX("timestamp-query")                                                                          \
    XX("texture-formats-tier1")                                                                    \
    XX("texture-formats-tier2")

struct nib_caps {
    nib_context *context;
    nib_arena arena;
    nib_map *limits; /* name -> number; every name with a default is present, workgroups clamped to 65535 */
    nib_str *features;
    size_t feature_count;
    nib_str *language_features;
    size_t language_feature_count;
    /* vendor, architecture (lower case), device, description, isFallbackAdapter; subgroupMinSize, subgroupMaxSize and
     * subgroupMatrixConfigs [{componentType, resultComponentType, M, N, K}] only if reported */
    nib_map *adapter;
    nib_value device_view; /* the expression view (3.6): features, limits, wgslLanguageFeatures, adapterInfo */
};

/* The defaults: what output inference uses. */
nib_status nib_caps_create(nib_context *context, nib_caps **out, nib_error *error);
/* Setters for backends; call nib_caps_finish once at the end. */
nib_status nib_caps_add_feature(nib_caps *caps, const char *name, nib_error *error);
nib_status nib_caps_set_limit(nib_caps *caps, const char *name, double value, nib_error *error);
nib_status nib_caps_set_adapter(nib_caps *caps, const char *name, nib_value value, nib_error *error);
nib_status nib_caps_finish(nib_caps *caps, nib_error *error);

bool nib_caps_has_feature(const nib_caps *caps, const char *name);
/* NaN when the device has no such limit. */
double nib_caps_limit(const nib_caps *caps, const char *name);

#endif
