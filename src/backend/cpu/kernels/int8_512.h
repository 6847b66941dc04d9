/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels with int8 activations on 512-bit registers. Included after the definitions of byte_sums
 * (see int8_256.h; here of 16 int32).
 */
#ifndef NIB_BACKEND_CPU_INT8_512_H
#define NIB_BACKEND_CPU_INT8_512_H

#include "chunks_512.h"
#include "int8.h"

/* ---- decode: chunks of 128 codes, four groups ---- */

enum { CHUNK = 128, CHUNK_BYTES = 64, CHUNK_GROUPS = CHUNK / GROUP };

typedef struct chunk8 {
    int8_t low[CHUNK_BYTES], high[CHUNK_BYTES]; /* activations of the low and of the high nibbles */
    int32_t correction[16];                     /* of a group, in one lane of its quarter */
    float scale[16];
} chunk8;

static size_t arranged8_bytes(const nib_cpu_weights *w)
{
    return (w->K + CHUNK - 1) / CHUNK * sizeof(chunk8);
}

static void arrange_group8(const int8_group *group, size_t g, chunk8 *to)
{
    for (size_t i = 0; i < GROUP / 2; i++) {
        to->low[g * GROUP / 2 + i] = group->q[2 * i];
        to->high[g * GROUP / 2 + i] = group->q[2 * i + 1];
    }
    to->correction[4 * g] = group->correction;
    for (size_t i = 0; i < 4; i++)
        to->scale[4 * g + i] = group->scale;
}

static void arrange8(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    chunk8 *to = arranged;
    memset(to, 0, m * arranged8_bytes(w)); /* groups past the end count nothing */
    for (size_t row = 0; row < m; row++) {
        for (size_t k = 0; k < w->K; k += w->block) {
            int8_group groups[INT8_MAX_BLOCK / GROUP];
            const size_t made = quantize_block(x + row * w->K + k,
                                               w->K - k < w->block ? w->K - k : w->block, groups);
            for (size_t g = 0; g < made; g++) {
                const size_t at = k / GROUP + g;
                arrange_group8(&groups[g], at % CHUNK_GROUPS, &to[at / CHUNK_GROUPS * m + row]);
            }
        }
    }
}

INLINE void dot8_row(const nib_cpu_weights *w, const row_view *view, const chunk_scales *plan,
                     size_t n, const chunk8 *x, size_t m, __m512 *total)
{
    const uint8_t *codes = view->codes + n * view->row_bytes;
    const __m512i mask = _mm512_set1_epi8(15);
    UNROLL
    for (size_t row = 0; row < NIB_CPU_DECODE_ROWS; row++)
        total[row] = _mm512_setzero_ps();
    for (size_t c = 0; c * CHUNK < w->K; c++, x += m) {
        const __m512i bytes =
            load_chunk(codes + c * CHUNK_BYTES, view->row_bytes - c * CHUNK_BYTES);
        prefetch(codes + c * CHUNK_BYTES);
        const __m512i low = _mm512_and_si512(bytes, mask),
                      high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
        const __m512 scale = load_chunk_scales(w, plan, n * view->row_scales, view->row_scales, c);
        UNROLL
        for (size_t row = 0; row < m; row++) {
            byte_sums sums = byte_sums_zero();
            sums = byte_sums_add(sums, low, _mm512_load_si512(x[row].low));
            sums = byte_sums_add(sums, high, _mm512_load_si512(x[row].high));
            const __m512i exact =
                _mm512_sub_epi32(byte_sums_total(sums), _mm512_load_si512(x[row].correction));
            total[row] =
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact),
                                _mm512_mul_ps(scale, _mm512_load_ps(x[row].scale)), total[row]);
        }
    }
}

INLINE void decode8_as(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0,
                       size_t n1, float *y, size_t y_stride)
{
    const row_view view = view_rows(w);
    const chunk_scales plan = plan_scales(w);
    for (size_t n = n0; n < n1; n++) {
        __m512 total[NIB_CPU_DECODE_ROWS];
        dot8_row(w, &view, &plan, n, arranged, m, total);
        UNROLL
        for (size_t row = 0; row < m; row++)
            y[row * y_stride + n - n0] = _mm512_reduce_add_ps(total[row]);
    }
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
enum { TILE8_M = 12, TILE8_N = 32, TILE8_K = 256, STEPS = 8 };

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

/* Sixteen weight rows of a panel, from column `first` of it on. */
static void panel8_of_sixteen(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc,
                              size_t first, panel_group *to)
{
    enum { PER_GROUP = GROUP / 8, GROUPS = WORDS / PER_GROUP };
    const panel_rows rows = find_rows(w, n0 + first);
    const __m512i mask = _mm512_set1_epi8(15);
    for (size_t k = 0; k < kc; k += GROUPS * GROUP) {
        const size_t left = (kc - k + 7) / 8;
        __m512i words[WORDS];
        load_words(&rows, (k0 + k) / 8, left < WORDS ? left : WORDS, words);
        for (size_t i = 0; i < WORDS && k + i / PER_GROUP * GROUP < kc; i++) {
            panel_group *group = &to[k / GROUP + i / PER_GROUP];
            const size_t step = 2 * (i % PER_GROUP);
            _mm512_storeu_si512(group->codes[step][first], _mm512_and_si512(words[i], mask));
            _mm512_storeu_si512(group->codes[step + 1][first],
                                _mm512_and_si512(_mm512_srli_epi16(words[i], 4), mask));
        }
        for (size_t g = 0; g < GROUPS && k + g * GROUP < kc; g++)
            _mm512_storeu_ps(to[k / GROUP + g].scale + first,
                             block_scales(w, &rows, (k0 + k + g * GROUP) / w->block));
    }
}

static void panel8(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *panel)
{
    for (size_t first = 0; first < TILE8_N; first += WORDS)
        panel8_of_sixteen(w, n0, k0, kc, first, panel);
}

INLINE void tile8_group(size_t rows, const packed_group *a, const panel_group *b, float *c,
                        bool accumulate)
{
    byte_sums sums[TILE8_M][2];
    UNROLL
    for (size_t i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = byte_sums_zero();
    for (size_t step = 0; step < STEPS; step++) {
        const __m512i left = _mm512_loadu_si512(b->codes[step][0]),
                      right = _mm512_loadu_si512(b->codes[step][16]);
        UNROLL
        for (size_t i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, a->q[step][i], 4);
            const __m512i q = _mm512_set1_epi32(four);
            sums[i][0] = byte_sums_add(sums[i][0], left, q);
            sums[i][1] = byte_sums_add(sums[i][1], right, q);
        }
    }
    const __m512 scale[2] = {_mm512_loadu_ps(b->scale), _mm512_loadu_ps(b->scale + 16)};
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        const __m512i correction = _mm512_set1_epi32(a->correction[i]);
        const __m512 factor = _mm512_set1_ps(a->scale[i]);
        UNROLL
        for (size_t j = 0; j < 2; j++) {
            float *to = c + i * TILE8_N + j * 16;
            const __m512 exact =
                _mm512_cvtepi32_ps(_mm512_sub_epi32(byte_sums_total(sums[i][j]), correction));
            const __m512 before = accumulate ? _mm512_load_ps(to) : _mm512_setzero_ps();
            _mm512_store_ps(to, _mm512_fmadd_ps(exact, _mm512_mul_ps(factor, scale[j]), before));
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
DEFINE_TILE8(5)
DEFINE_TILE8(6)
DEFINE_TILE8(7)
DEFINE_TILE8(8)
DEFINE_TILE8(9)
DEFINE_TILE8(10)
DEFINE_TILE8(11)
DEFINE_TILE8(12)

static void tile8(size_t rows, size_t kc, const void *packed, const void *panel, float *c,
                  bool accumulate)
{
    static void (*const functions[TILE8_M])(size_t kc, const packed_group *a, const panel_group *b,
                                            float *c, bool accumulate) = {
        tile8_1, tile8_2, tile8_3, tile8_4,  tile8_5,  tile8_6,
        tile8_7, tile8_8, tile8_9, tile8_10, tile8_11, tile8_12};
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
