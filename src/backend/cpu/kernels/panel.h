/* SPDX-License-Identifier: Apache-2.0
 *
 * Float32 panels, the plain way: packed[k][tile_m] and panel[k][tile_n]. Included after TILE_M,
 * TILE_N, TILE_K and DEQUANTIZE.
 */
#ifndef NIB_BACKEND_CPU_PANEL_H
#define NIB_BACKEND_CPU_PANEL_H

#include "kernels.h"

static inline size_t packed_bytes(size_t kc)
{
    return kc * TILE_M * sizeof(float);
}

static inline size_t panel_bytes(size_t kc)
{
    return kc * TILE_N * sizeof(float);
}

static inline void pack(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride,
                        size_t kc, void *packed)
{
    (void)w;
    float *to = packed;
    for (size_t k = 0; k < kc; k++) {
        for (size_t i = 0; i < TILE_M; i++)
            *to++ = i < rows ? x[i * stride + k] : 0;
    }
}

/* Any weights, by rows. */
static inline void panel_by_rows(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc,
                                 void *panel)
{
    float *out = panel;
    float values[TILE_K];
    for (size_t j = 0; j < TILE_N; j++) {
        const bool exists = n0 + j < w->N;
        if (exists)
            DEQUANTIZE(w, n0 + j, k0, kc, values);
        for (size_t k = 0; k < kc; k++)
            out[k * TILE_N + j] = exists ? values[k] : 0;
    }
}

#endif
