/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking along rows of 4-bit weights in chunks of 64 codes (32 bytes), with blocks of 32 or a
 * multiple. 256-bit registers.
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
    const char *x; /* arranged activations, x_bytes for each chunk */
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
    return _mm256_blend_ps(_mm256_broadcast_ss(s->scales + 2 * c),
                           _mm256_broadcast_ss(s->scales + 2 * c + 1), 0xf0);
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
static inline const float *find_scales(const nib_cpu_weights *w, size_t first, size_t count,
                                       float *copy)
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
    return (stretch){copy->codes,
                     s->x + s->chunks * s->x_bytes,
                     s->x_bytes,
                     copy->scales,
                     s->pairs,
                     s->shift,
                     1};
}

/* How the blocks of a matrix lie in chunks. */
static inline stretch begin_stretch(const nib_cpu_weights *w, size_t x_bytes)
{
    stretch s = {.x_bytes = x_bytes, .pairs = w->block == 32};
    while (((size_t)CHUNK << s.shift) < w->block)
        s.shift++;
    return s;
}

/* Adds the dot products of a stretch with m activation rows to `total`, whose layout is the
 * function's own. */
typedef void (*stretch_dot)(const void *tables, const stretch *s, size_t m, __m256 *total);

/* The stretch of weight row n that starts at chunk c and has at most `length` chunks. */
INLINE void dot_one_stretch(const nib_cpu_weights *w, const row_view *view, stretch_dot dot,
                            const void *tables, stretch s, size_t n, size_t c, size_t length,
                            const char *arranged, size_t m, __m256 *total)
{
    const size_t chunks = chunk_count(w), in_row = view->row_bytes / CHUNK_BYTES;
    const size_t whole = in_row < chunks ? in_row : chunks;
    const size_t first = c * CHUNK / w->block, left = view->row_scales - first;
    float copy[STRETCH_SCALES];
    s.scales =
        find_scales(w, n * view->row_scales + first, left < 2 * length ? left : 2 * length, copy);
    s.codes = view->codes + n * view->row_bytes + c * CHUNK_BYTES;
    s.x = arranged + c * s.x_bytes;
    s.chunks = whole - c < length ? whole - c : length;
    const bool has_tail = whole < chunks && s.chunks < length;
    padded_chunk tail;
    for (int part = 0; part <= has_tail; part++) {
        dot(tables, &s, m, total);
        if (part < has_tail)
            s = tail_of(&s, &tail);
    }
}

/* Dot products of the weight rows [n0, n1) with m activation rows, each as `sums` vectors to be
 * added up. Several activation rows do not fit the first-level cache: K is then done in short
 * stretches, each for a group of weight rows. */
INLINE void dot_rows(const nib_cpu_weights *w, stretch_dot dot, const void *tables,
                     size_t chunk_x_bytes, size_t sums, const char *arranged, size_t m, size_t n0,
                     size_t n1, float *y, size_t y_stride)
{
    enum { ROWS = 16, MAX_SUMS = 8 };
    const row_view view = view_rows(w);
    const stretch s = begin_stretch(w, m * chunk_x_bytes);
    const size_t rows = m == 1 ? 1 : ROWS, length = m == 1   ? STRETCH_CHUNKS
                                                    : m == 2 ? 32
                                                    : m <= 4 ? 16
                                                             : 8;
    for (size_t g = n0; g < n1; g += rows) {
        __m256 total[ROWS][MAX_SUMS];
        const size_t end = n1 - g < rows ? n1 : g + rows;
        for (size_t n = g; n < end; n++) {
            UNROLL
            for (size_t i = 0; i < MAX_SUMS; i++)
                total[n - g][i] = _mm256_setzero_ps();
        }
        for (size_t c = 0; c < chunk_count(w); c += length) {
            for (size_t n = g; n < end; n++)
                dot_one_stretch(w, &view, dot, tables, s, n, c, length, arranged, m, total[n - g]);
        }
        for (size_t n = g; n < end; n++) {
            for (size_t row = 0; row < m; row++) {
                __m256 sum = total[n - g][row * sums];
                for (size_t i = 1; i < sums; i++)
                    sum = _mm256_add_ps(sum, total[n - g][row * sums + i]);
                y[row * y_stride + n - n0] = add_lanes(sum);
            }
        }
    }
}

#endif
