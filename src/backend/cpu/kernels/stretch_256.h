/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking along rows of 4-bit weights in chunks of 64 codes (32 bytes), with blocks of 32 or a multiple. 256-bit registers.
 */
#ifndef NIB_BACKEND_CPU_STRETCH_256_H
#define NIB_BACKEND_CPU_STRETCH_256_H

#include "elementwise.h"
#include "unroll.h"
#include "view.h"

enum { CHUNK = 64, CHUNK_BYTES = 32 };

static inline bool takes_rows(const nib_cpu_weights *w)
{
    return w->bits == 4 && w->block % 32 == 0 && is_row_aligned(w);
}

static inline size_t chunk_count(const nib_cpu_weights *w)
{
    return (w->K + CHUNK - 1) / CHUNK;
}

/* A stretch of one weight row. */
enum { STRETCH_CHUNKS = 64, STRETCH_SCALES = 2 * STRETCH_CHUNKS };

typedef struct stretch {
    const uint8_t *codes;
    const char *x;       /* arranged activations, x_bytes for each chunk */
    size_t x_bytes;
    const float *scales; /* float32, one for each block */
    bool pairs;          /* blocks of 32: a chunk has two */
    unsigned shift;      /* larger blocks: chunk c is in block c >> shift */
    size_t chunks;
} stretch;

/* { a, a, a, a, b, b, b, b } of the two blocks of a chunk, or all the same */
INLINE __m256 scales_of(const stretch *s, bool pairs, size_t c)
{
    if (!pairs)
        return _mm256_broadcast_ss(s->scales + (c >> s->shift));
    return _mm256_blend_ps(_mm256_broadcast_ss(s->scales + 2 * c), _mm256_broadcast_ss(s->scales + 2 * c + 1), 0xf0);
}

/* Ask for weights a little ahead; the address may lie past their end. */
INLINE void prefetch(const uint8_t *codes)
{
    _mm_prefetch((const char *)((uintptr_t)codes + 2048), _MM_HINT_T0);
}

INLINE float add_lanes(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

/* Scales [first, first + count) of the matrix, as float32: in place, or converted into `copy`. */
static inline const float *find_scales(const nib_cpu_weights *w, size_t first, size_t count, float *copy)
{
    if (!w->half_scales)
        return (const float *)w->scales + first;
    const uint16_t *from = (const uint16_t *)w->scales + first;
    for (size_t i = 0; i < count; i += LANES)
        store_some(copy, false, i, count, load_some(from, true, i, count));
    return copy;
}

/* A row that ends with half a chunk: its last chunk from a padded copy. */
typedef struct padded_chunk {
    uint8_t codes[CHUNK_BYTES];
    float scales[2];
} padded_chunk;

static inline stretch tail_of(const stretch *s, padded_chunk *copy)
{
    *copy = (padded_chunk){0};
    memcpy(copy->codes, s->codes + s->chunks * CHUNK_BYTES, CHUNK_BYTES / 2);
    copy->scales[0] = nib_load(s->scales, false, s->pairs ? 2 * s->chunks : s->chunks >> s->shift);
    return (stretch){copy->codes, s->x + s->chunks * s->x_bytes, s->x_bytes, copy->scales, s->pairs, s->shift, 1};
}

/* How the blocks of a matrix lie in chunks. */
static inline stretch begin_stretch(const nib_cpu_weights *w, size_t x_bytes)
{
    stretch s = {.x_bytes = x_bytes, .pairs = w->block == 32};
    while (((size_t)CHUNK << s.shift) < w->block)
        s.shift++;
    return s;
}

/* Adds the dot products of a stretch with m activation rows to `total`. */
typedef void (*stretch_dot)(const void *tables, const stretch *s, size_t m, __m256 *total);

/* Dot products of weight row n with m activation rows. */
INLINE void dot_row(const nib_cpu_weights *w, const row_view *view, stretch_dot dot, const void *tables, stretch s,
                    size_t n, const char *arranged, size_t m, __m256 *total)
{
    const size_t chunks = chunk_count(w), in_row = view->row_bytes / CHUNK_BYTES;
    const size_t whole = in_row < chunks ? in_row : chunks;
    const uint8_t *codes = view->codes + n * view->row_bytes;
    float copy[STRETCH_SCALES];
    for (size_t row = 0; row < m; row++)
        total[row] = _mm256_setzero_ps();
    for (size_t c = 0; c < chunks; c += STRETCH_CHUNKS) {
        const size_t first = c * CHUNK / w->block;
        const size_t left = view->row_scales - first;
        s.scales = find_scales(w, n * view->row_scales + first, left < STRETCH_SCALES ? left : STRETCH_SCALES, copy);
        s.codes = codes + c * CHUNK_BYTES;
        s.x = arranged + c * s.x_bytes;
        s.chunks = whole - c < STRETCH_CHUNKS ? whole - c : STRETCH_CHUNKS;
        const bool has_tail = whole < chunks && s.chunks < STRETCH_CHUNKS;
        padded_chunk tail;
        for (int part = 0; part <= has_tail; part++) {
            dot(tables, &s, m, total);
            if (part < has_tail)
                s = tail_of(&s, &tail);
        }
    }
}

#endif
