/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed words (4 bytes of codes) of eight weight rows, transposed: what panels are made from.
 * 256-bit registers.
 */
#ifndef NIB_BACKEND_CPU_WORDS_256_H
#define NIB_BACKEND_CPU_WORDS_256_H

#include "unroll.h"
#include "vec_avx2.h"
#include "view.h"

/* 8 rows of 8 words -> 8 words of 8 rows. */
INLINE void transpose_words(__m256i *r)
{
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* Eight weight rows of a panel; rows past the end repeat the last one with a scale of zero. */
typedef struct panel_rows {
    const uint8_t *codes[8];
    size_t scale[8];
    size_t valid;
} panel_rows;

static inline panel_rows find_rows(const nib_cpu_weights *w, size_t n0)
{
    const row_view view = view_rows(w);
    panel_rows rows;
    rows.valid = n0 >= w->N ? 0 : w->N - n0 < 8 ? w->N - n0 : 8;
    for (size_t i = 0; i < 8; i++) {
        const size_t n = n0 + i < w->N ? n0 + i : w->N - 1;
        rows.codes[i] = view.codes + n * view.row_bytes;
        rows.scale[i] = n * view.row_scales;
    }
    return rows;
}

INLINE __m256 block_scales(const nib_cpu_weights *w, const panel_rows *rows, size_t block)
{
    if (w->half_scales) {
        uint16_t scales[8] = {0};
        for (size_t i = 0; i < rows->valid; i++)
            memcpy(&scales[i], (const char *)w->scales + 2 * (rows->scale[i] + block), 2);
        return vec_load_half(scales);
    }
    float scales[8] = {0};
    for (size_t i = 0; i < rows->valid; i++)
        memcpy(&scales[i], (const char *)w->scales + 4 * (rows->scale[i] + block), 4);
    return vec_load(scales);
}

/* `count` words (1..8) of the eight rows, from byte `offset` of each; no byte beyond them is read.
 */
INLINE void load_words(const panel_rows *rows, size_t offset, size_t count, __m256i *words)
{
    for (int i = 0; i < 8; i++) {
        if (count == 8) {
            words[i] = _mm256_loadu_si256((const void *)(rows->codes[i] + offset));
        } else {
            uint32_t copy[8] = {0};
            memcpy(copy, rows->codes[i] + offset, count * sizeof *copy);
            words[i] = _mm256_loadu_si256((const void *)copy);
        }
    }
    transpose_words(words);
}

/* Ask for the words that the next slice of K will need, `offset` bytes into each row; they may lie
 * past its end. */
INLINE void prefetch_words(const panel_rows *rows, size_t offset, size_t bytes)
{
    for (size_t i = 0; i < 8; i++) {
        for (size_t line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)((uintptr_t)rows->codes[i] + offset + line), _MM_HINT_T0);
    }
}

#endif
