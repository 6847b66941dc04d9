/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed words (4 bytes of codes) of sixteen weight rows, transposed: what panels are made from.
 * 512-bit registers.
 */
#ifndef NIB_BACKEND_CPU_WORDS_512_H
#define NIB_BACKEND_CPU_WORDS_512_H

#include "unroll.h"
#include "vec_avx512.h"
#include "view.h"

enum { WORDS = 16 };

/* 16 rows of 16 words -> 16 words of 16 rows. */
INLINE void transpose_words(__m512i *r)
{
    __m512i a[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) { /* r[i + q]: word q of each lane, of rows i .. i+3 */
        r[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    UNROLL
    for (int q = 0; q < 4; q++) {
        const __m512i even_low = _mm512_shuffle_i32x4(r[q], r[q + 4], 0x88);
        const __m512i odd_low = _mm512_shuffle_i32x4(r[q], r[q + 4], 0xdd);
        const __m512i even_high = _mm512_shuffle_i32x4(r[q + 8], r[q + 12], 0x88);
        const __m512i odd_high = _mm512_shuffle_i32x4(r[q + 8], r[q + 12], 0xdd);
        a[q] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
        a[q + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
        a[q + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
        a[q + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
    }
    UNROLL
    for (int i = 0; i < 16; i++)
        r[i] = a[i];
}

/* Sixteen weight rows of a panel; rows past the end repeat the last one with a scale of zero. */
typedef struct panel_rows {
    const uint8_t *codes[WORDS];
    size_t scale[WORDS];
    size_t valid;
} panel_rows;

static inline panel_rows find_rows(const nib_cpu_weights *w, size_t n0)
{
    const row_view view = view_rows(w);
    panel_rows rows;
    rows.valid = n0 >= w->N ? 0 : w->N - n0 < WORDS ? w->N - n0 : WORDS;
    for (size_t i = 0; i < WORDS; i++) {
        const size_t n = n0 + i < w->N ? n0 + i : w->N - 1;
        rows.codes[i] = view.codes + n * view.row_bytes;
        rows.scale[i] = n * view.row_scales;
    }
    return rows;
}

INLINE __m512 block_scales(const nib_cpu_weights *w, const panel_rows *rows, size_t block)
{
    if (w->half_scales) {
        uint16_t scales[WORDS] = {0};
        for (size_t i = 0; i < rows->valid; i++)
            memcpy(&scales[i], (const char *)w->scales + 2 * (rows->scale[i] + block), 2);
        return vec_load_half(scales);
    }
    float scales[WORDS] = {0};
    for (size_t i = 0; i < rows->valid; i++)
        memcpy(&scales[i], (const char *)w->scales + 4 * (rows->scale[i] + block), 4);
    return vec_load(scales);
}

/* The words [first, first + count) of the sixteen rows, count <= 16; no byte beyond them is read.
 */
INLINE void load_words(const panel_rows *rows, size_t first, size_t count, __m512i *words)
{
    const __mmask16 mask = (__mmask16)((1u << count) - 1);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        words[i] = _mm512_maskz_loadu_epi32(mask, rows->codes[i] + first * 4);
    transpose_words(words);
}

/* Ask for the words that the next slice of K will need, `offset` bytes into each row; they may lie
 * past its end. */
INLINE void prefetch_words(const panel_rows *rows, size_t offset, size_t bytes)
{
    for (size_t i = 0; i < WORDS; i++) {
        for (size_t line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)((uintptr_t)rows->codes[i] + offset + line), _MM_HINT_T0);
    }
}

#endif
