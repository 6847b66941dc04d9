/* SPDX-License-Identifier: Apache-2.0
 *
 * Subgroup matrices in plain WGSL, so that shaders which need 8x8 float32 matrices and subgroups of 32 run on an adapter
 * that has neither. Each invocation holds whole matrices of 64 values; of 32 invocations that stand for a subgroup, the
 * first stores. This shows that the shader computes the right thing, and nothing about matrix hardware.
 */
#ifndef GPU_TEST_EMULATE_H
#define GPU_TEST_EMULATE_H

#include "nibble/context.h"

/* A rewrite hook for nib_wgpu_device: text without subgroup matrices gives NULL (kept as it is). */
char *emulate_subgroup_matrices(void *unused, nib_context *context, const char *wgsl);

#endif
