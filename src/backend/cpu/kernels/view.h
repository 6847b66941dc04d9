/* SPDX-License-Identifier: Apache-2.0
 *
 * Both weight formats seen as rows of blocks, for the kernels that can.
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

#endif
