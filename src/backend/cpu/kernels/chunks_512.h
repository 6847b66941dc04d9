/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking along weight rows in chunks of 16 words (64 bytes). 512-bit registers.
 */
#ifndef NIB_BACKEND_CPU_CHUNKS_512_H
#define NIB_BACKEND_CPU_CHUNKS_512_H

#include "words_512.h"

static inline size_t codes_per_chunk(const nib_cpu_weights *w)
{
    return WORDS * 32 / (size_t)w->bits;
}

static inline size_t chunk_count(const nib_cpu_weights *w)
{
    return (w->K + codes_per_chunk(w) - 1) / codes_per_chunk(w);
}

/* The scales of a chunk: word i takes the scale number i * per_word / block of it. */
typedef struct chunk_scales {
    __m512i index;
    size_t per_chunk; /* scales of a chunk; 0: a block is a chunk or more */
    unsigned shift;   /* then chunk c is in block c >> shift */
} chunk_scales;

static inline chunk_scales plan_scales(const nib_cpu_weights *w)
{
    const size_t codes = codes_per_chunk(w), per_word = 32 / (size_t)w->bits;
    int index[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        index[i] = (int)(w->block < codes ? i * per_word / w->block : 0);
    chunk_scales s = {_mm512_loadu_si512(index), w->block < codes ? codes / w->block : 0, 0};
    while ((codes << s.shift) < w->block)
        s.shift++;
    return s;
}

/* The scales of chunk c of a row whose scales start at `row`; zero for blocks past the row's
 * `count`. */
INLINE __m512 load_chunk_scales(const nib_cpu_weights *w, const chunk_scales *s, size_t row,
                                size_t count, size_t c)
{
    const size_t first = s->per_chunk ? c * s->per_chunk : c >> s->shift;
    const size_t left = count - first, wanted = s->per_chunk ? s->per_chunk : 1;
    const __mmask16 mask = (__mmask16)((1u << (left < wanted ? left : wanted)) - 1);
    const char *from = (const char *)w->scales + (row + first) * (w->half_scales ? 2 : 4);
    const __m512 scales = w->half_scales ? _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from))
                                         : _mm512_maskz_loadu_ps(mask, from);
    return _mm512_permutexvar_ps(s->index, scales);
}

/* Words of a chunk that a row really has. */
INLINE __m512i load_chunk(const uint8_t *codes, size_t bytes_left)
{
    if (bytes_left >= 4 * WORDS)
        return _mm512_loadu_si512(codes);
    return _mm512_maskz_loadu_epi32((__mmask16)((1u << bytes_left / 4) - 1), codes);
}

/* Ask for weights a little ahead; the address may lie past their end. */
INLINE void prefetch(const uint8_t *codes)
{
    _mm_prefetch((const char *)((uintptr_t)codes + 2048), _MM_HINT_T0);
}

#endif
