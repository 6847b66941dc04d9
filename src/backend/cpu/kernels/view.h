/* SPDX-License-Identifier: Apache-2.0
 *
 * Both weight formats seen as rows of blocks, for the kernels that can. Included after TILE_N and TILE_K.
 */
#ifndef NIB_BACKEND_CPU_VIEW_H
#define NIB_BACKEND_CPU_VIEW_H

#include "kernels.h"
#include "load.h"

typedef struct row_view {
    const uint8_t *codes;
    size_t row_bytes, row_scales;
} row_view;

/* nbits always; bnb4 when no block crosses rows and every row starts with a whole word of codes. */
static inline bool is_row_aligned(const nib_cpu_weights *w)
{
    return !w->codebook || (w->K % w->block == 0 && w->K % 8 == 0);
}

static inline row_view view_rows(const nib_cpu_weights *w)
{
    if (w->codebook)
        return (row_view){w->codes, w->K / 2, w->K / w->block};
    return (row_view){w->codes, w->row_bytes, w->blocks};
}

/* Whether blocks are whole words of 4 bytes, and a word has one scale. */
static inline bool has_whole_words(const nib_cpu_weights *w)
{
    return is_row_aligned(w) && w->block * (size_t)w->bits % 32 == 0;
}

/* A panel of weights that no faster way exists for: by rows, through the scalar kernel. */
static inline void panel_by_rows(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, float *out)
{
    float values[TILE_K];
    for (size_t j = 0; j < TILE_N; j++) {
        const bool exists = n0 + j < w->N;
        if (exists)
            nib_scalar_dequantize(w, n0 + j, k0, kc, values);
        for (size_t k = 0; k < kc; k++)
            out[k * TILE_N + j] = exists ? values[k] : 0;
    }
}

#endif
