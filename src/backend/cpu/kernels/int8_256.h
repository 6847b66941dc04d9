/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels with int8 activations on 256-bit registers. Included after these definitions, which are
 * all that instruction sets differ in: byte_sums, byte_sums_zero(), byte_sums_add(s, codes, q) sums
 * of products of 4 neighbouring bytes, for at most 32 in byte_sums_total(s) all; as 8 int32
 */
#ifndef NIB_BACKEND_CPU_INT8_256_H
#define NIB_BACKEND_CPU_INT8_256_H

#include "int8.h"
#include "stretch_256.h"
#include "words_256.h"

/* ---- decode: chunks of 64 codes, two groups ---- */

typedef struct chunk8 {
    int8_t low[CHUNK_BYTES], high[CHUNK_BYTES]; /* activations of the low and of the high nibbles */
    int32_t correction[8];                      /* of a group, in one lane of its half */
    float scale[8];
} chunk8;

static size_t arranged8_bytes(const nib_cpu_weights *w)
{
    return chunk_count(w) * sizeof(chunk8);
}

static void arrange_chunk8(const int8_group *groups, chunk8 *to)
{
    *to = (chunk8){0};
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < GROUP / 2; i++) {
            to->low[g * GROUP / 2 + i] = groups[g].q[2 * i];
            to->high[g * GROUP / 2 + i] = groups[g].q[2 * i + 1];
        }
        to->correction[4 * g] = groups[g].correction;
        for (size_t i = 0; i < 4; i++)
            to->scale[4 * g + i] = groups[g].scale;
    }
}

static void arrange8(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    chunk8 *to = arranged;
    const size_t step = w->block < CHUNK ? CHUNK : w->block;
    for (size_t row = 0; row < m; row++) {
        for (size_t k0 = 0; k0 < w->K; k0 += step) {
            int8_group groups[INT8_MAX_BLOCK / GROUP] = {0};
            size_t made = 0;
            for (size_t k = k0; k < k0 + step && k < w->K; k += w->block)
                made += quantize_block(x + row * w->K + k,
                                       w->K - k < w->block ? w->K - k : w->block, groups + made);
            for (size_t c = 0; 2 * c < made; c++)
                arrange_chunk8(groups + 2 * c, &to[(k0 / CHUNK + c) * m + row]);
        }
    }
}

INLINE void dot8(const void *tables, const stretch *s, size_t m, __m256 *total)
{
    (void)tables;
    const __m256i mask = _mm256_set1_epi8(15);
    __m256 t[NIB_CPU_DECODE_ROWS];
    UNROLL
    for (size_t row = 0; row < m; row++)
        t[row] = total[row];
    for (size_t c = 0; c < s->chunks; c++) {
        const __m256i bytes = _mm256_loadu_si256((const void *)(s->codes + c * CHUNK_BYTES));
        prefetch(s->codes + c * CHUNK_BYTES);
        const __m256i low = _mm256_and_si256(bytes, mask),
                      high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
        const __m256 scale = scales_of(s, s->pairs, c);
        const chunk8 *x = (const chunk8 *)(const void *)(s->x + c * m * sizeof *x);
        UNROLL
        for (size_t row = 0; row < m; row++) {
            byte_sums sums = byte_sums_zero();
            sums = byte_sums_add(sums, low, _mm256_load_si256((const void *)x[row].low));
            sums = byte_sums_add(sums, high, _mm256_load_si256((const void *)x[row].high));
            const __m256i exact = _mm256_sub_epi32(
                byte_sums_total(sums), _mm256_load_si256((const void *)x[row].correction));
            t[row] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(exact),
                                     _mm256_mul_ps(scale, _mm256_load_ps(x[row].scale)), t[row]);
        }
    }
    UNROLL
    for (size_t row = 0; row < m; row++)
        total[row] = t[row];
}

INLINE void decode8_as(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0,
                       size_t n1, float *y, size_t y_stride)
{
    dot_rows(w, dot8, NULL, sizeof(chunk8), 1, arranged, m, n0, n1, y, y_stride);
}

#define DECODE8_FOR(count)                                                                         \
    case count:                                                                                    \
        decode8_as(w, arranged, count, n0, n1, y, y_stride);                                       \
        break

static void decode8(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                    float *y, size_t y_stride)
{
    switch (m) {
        DECODE8_FOR(1);
        DECODE8_FOR(2);
        DECODE8_FOR(3);
        DECODE8_FOR(4);
        DECODE8_FOR(5);
        DECODE8_FOR(6);
        DECODE8_FOR(7);
        DECODE8_FOR(8);
    }
}

static const nib_cpu_gemv gemv8 = {
    .takes = takes_int8,
    .arranged_bytes = arranged8_bytes,
    .arrange = arrange8,
    .decode = decode8,
};

/* ---- prefill ---- */

/* A group is 8 steps of 4 codes. A word of 8 codes gives two steps: its low nibbles (codes 0, 2, 4,
 * 6) and its high nibbles (1, 3, 5, 7). */
enum { TILE8_M = 4, TILE8_N = 16, TILE8_K = 256, STEPS = 8 };

typedef struct packed_group {
    int8_t q[STEPS][TILE8_M][4];
    float scale[TILE8_M];
    int32_t correction[TILE8_M];
} packed_group;

typedef struct panel_group {
    uint8_t codes[STEPS][TILE8_N][4];
    float scale[TILE8_N];
} panel_group;

static size_t packed8_bytes(size_t kc)
{
    return (kc + GROUP - 1) / GROUP * sizeof(packed_group);
}

static size_t panel8_bytes(size_t kc)
{
    return (kc + GROUP - 1) / GROUP * sizeof(panel_group);
}

static void pack_group8(const int8_group *group, size_t row, packed_group *to)
{
    for (size_t word = 0; word < STEPS / 2; word++) {
        for (size_t i = 0; i < 4; i++) {
            to->q[2 * word][row][i] = group->q[8 * word + 2 * i];
            to->q[2 * word + 1][row][i] = group->q[8 * word + 2 * i + 1];
        }
    }
    to->scale[row] = group->scale;
    to->correction[row] = group->correction;
}

static void pack8(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride, size_t kc,
                  void *packed)
{
    packed_group *to = packed;
    for (size_t row = 0; row < rows; row++) {
        for (size_t k = 0; k < kc; k += w->block) {
            int8_group groups[INT8_MAX_BLOCK / GROUP];
            const size_t made =
                quantize_block(x + row * stride + k, kc - k < w->block ? kc - k : w->block, groups);
            for (size_t g = 0; g < made; g++)
                pack_group8(&groups[g], row, &to[k / GROUP + g]);
        }
    }
}

/* Eight weight rows of a panel, from column `first` of it on. */
static void panel8_of_eight(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, size_t first,
                            panel_group *to)
{
    const panel_rows rows = find_rows(w, n0 + first);
    const __m256i mask = _mm256_set1_epi8(15);
    for (size_t k = 0; k < kc; k += 2 * GROUP) {
        const size_t left = (kc - k + 7) / 8;
        __m256i words[8];
        load_words(&rows, (k0 + k) / 2, left < 8 ? left : 8, words);
        for (size_t i = 0; i < 8 && k + i / 4 * GROUP < kc; i++) {
            panel_group *group = &to[k / GROUP + i / 4];
            _mm256_storeu_si256((void *)group->codes[2 * (i % 4)][first],
                                _mm256_and_si256(words[i], mask));
            _mm256_storeu_si256((void *)group->codes[2 * (i % 4) + 1][first],
                                _mm256_and_si256(_mm256_srli_epi16(words[i], 4), mask));
        }
        for (size_t g = 0; g < 2 && k + g * GROUP < kc; g++)
            _mm256_storeu_ps(to[k / GROUP + g].scale + first,
                             block_scales(w, &rows, (k0 + k + g * GROUP) / w->block));
    }
}

static void panel8(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *panel)
{
    for (size_t first = 0; first < TILE8_N; first += 8)
        panel8_of_eight(w, n0, k0, kc, first, panel);
}

INLINE void tile8_group(size_t rows, const packed_group *a, const panel_group *b, float *c,
                        bool accumulate)
{
    byte_sums sums[TILE8_M][2];
    UNROLL
    for (size_t i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = byte_sums_zero();
    for (size_t step = 0; step < STEPS; step++) {
        const __m256i left = _mm256_loadu_si256((const void *)b->codes[step][0]);
        const __m256i right = _mm256_loadu_si256((const void *)b->codes[step][8]);
        UNROLL
        for (size_t i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, a->q[step][i], 4);
            const __m256i q = _mm256_set1_epi32(four);
            sums[i][0] = byte_sums_add(sums[i][0], left, q);
            sums[i][1] = byte_sums_add(sums[i][1], right, q);
        }
    }
    const __m256 scale[2] = {_mm256_loadu_ps(b->scale), _mm256_loadu_ps(b->scale + 8)};
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        const __m256i correction = _mm256_set1_epi32(a->correction[i]);
        const __m256 factor = _mm256_set1_ps(a->scale[i]);
        UNROLL
        for (size_t j = 0; j < 2; j++) {
            float *to = c + i * TILE8_N + j * 8;
            const __m256 exact =
                _mm256_cvtepi32_ps(_mm256_sub_epi32(byte_sums_total(sums[i][j]), correction));
            const __m256 before = accumulate ? _mm256_load_ps(to) : _mm256_setzero_ps();
            _mm256_store_ps(to, _mm256_fmadd_ps(exact, _mm256_mul_ps(factor, scale[j]), before));
        }
    }
}

INLINE void tile8_of(size_t rows, size_t kc, const packed_group *a, const panel_group *b, float *c,
                     bool accumulate)
{
    for (size_t g = 0; g * GROUP < kc; g++)
        tile8_group(rows, a + g, b + g, c, accumulate || g > 0);
}

/* A function for each number of rows, so that each has its sums in registers. */
#define DEFINE_TILE8(rows)                                                                         \
    static void tile8_##rows(size_t kc, const packed_group *a, const panel_group *b, float *c,     \
                             bool accumulate)                                                      \
    {                                                                                              \
        tile8_of(rows, kc, a, b, c, accumulate);                                                   \
    }

DEFINE_TILE8(1)
DEFINE_TILE8(2)
DEFINE_TILE8(3)
DEFINE_TILE8(4)

static void tile8(size_t rows, size_t kc, const void *packed, const void *panel, float *c,
                  bool accumulate)
{
    static void (*const functions[TILE8_M])(size_t kc, const packed_group *a, const panel_group *b,
                                            float *c,
                                            bool accumulate) = {tile8_1, tile8_2, tile8_3, tile8_4};
    functions[rows - 1](kc, packed, panel, c, accumulate);
}

static const nib_cpu_gemm gemm8 = {
    .takes = takes_int8,
    .tile_m = TILE8_M,
    .tile_n = TILE8_N,
    .tile_k = TILE8_K,
    .group_n = 128,
    .packed_bytes = packed8_bytes,
    .pack = pack8,
    .panel_bytes = panel8_bytes,
    .panel = panel8,
    .tile = tile8,
};

#endif
