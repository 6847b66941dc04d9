/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that Dawn has and the webgpu.h standard has not: toggles, subgroup matrices, the pipeline cache callbacks.
 * Another implementation of webgpu.h needs another dawn.c and nothing else.
 */
#ifndef NIB_WEBGPU_DAWN_H
#define NIB_WEBGPU_DAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <webgpu/webgpu.h>

/* Room for a descriptor chain; filled by the functions below, and borrowed by the descriptor it is chained to. */
typedef struct nib_dawn_chain {
    union {
        max_align_t aligned;
        unsigned char bytes[256];
    } room;
} nib_dawn_chain;

/* Where compiled pipelines are kept between processes. Both functions are called from any thread, for as long as the
 * device lives. */
typedef struct nib_dawn_cache {
    /* Loads the value of `key` into value (value_bytes = 0: only asks for the size); returns its size, 0 when absent. */
    size_t (*load)(void *user, const void *key, size_t key_bytes, void *value, size_t value_bytes);
    void (*store)(void *user, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
    void *user;
} nib_dawn_cache;

/* Chain for an instance and for adapter options: shader-f16 on NVIDIA's Vulkan driver, experimental features. */
WGPUChainedStruct *nib_dawn_toggles(nib_dawn_chain *chain);
/* Chain for a device: the same, and the callbacks of `cache` unless it is NULL. */
WGPUChainedStruct *nib_dawn_device_chain(nib_dawn_chain *chain, nib_dawn_cache *cache);

/* The value of "chromium-experimental-subgroup-matrix"; false when this implementation has no such feature. */
bool nib_dawn_matrix_feature(WGPUFeatureName *out);

typedef struct nib_dawn_matrix_config {
    const char *component, *result; /* "f16" */
    unsigned m, n, k;
} nib_dawn_matrix_config;
/* The configurations of a device, or (device NULL) of an adapter that has the feature; at most `capacity` are stored.
 * Returns how many there are. */
size_t nib_dawn_matrix_configs(WGPUAdapter adapter, WGPUDevice device, nib_dawn_matrix_config *out, size_t capacity);

#endif
