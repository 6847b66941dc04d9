/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-512 row (F, BW, DQ, VL).
 *
 * Codes are worked on as 32-bit words: a register holds 16 words, and shifting all of them brings
 * the next code of each to the bottom, where a 16-entry look-up (vpermps, which reads only the
 * lowest 4 bits) or a signed shift makes it a float32. In decode the 16 words follow each other in
 * a row, and arrange() puts the activations into the order in which that yields codes; in a panel
 * they belong to 16 rows.
 */
#include "vec_avx512.h"

enum { TILE_M = 12, TILE_N = 32, TILE_K = 256 };

#define DEQUANTIZE nib_avx2_dequantize

#include "chunks_512.h"
#include "elementwise.h"
#include "kernels.h"
#include "panel.h"

/* Where code j of a word is: low bits first, but the high nibble of a byte first in bnb4. */
INLINE unsigned shift_of(bool codebook, int bits, int j)
{
    return codebook ? (unsigned)(j / 2 * 8 + (j % 2 ? 0 : 4)) : (unsigned)(bits * j);
}

/* Values by the lowest four bits of a word; for 2-bit codes the upper two do not matter. */
INLINE __m512 make_table(const nib_cpu_weights *w)
{
    float table[16];
    for (int i = 0; i < 16; i++)
        table[i] = w->codebook    ? w->codebook[i]
                   : w->bits == 2 ? (float)(i % 4 - 2)
                                  : (float)(i - 8);
    return _mm512_loadu_ps(table);
}

/* Code j of each word as a float32, before scaling. */
INLINE __m512 expand(__m512i words, bool codebook, int bits, int j, __m512 table)
{
    if (bits < 8)
        return _mm512_permutexvar_ps(_mm512_srli_epi32(words, shift_of(codebook, bits, j)), table);
    const __m512i flipped =
        _mm512_xor_si512(words, _mm512_set1_epi32((int)0x80808080u)); /* code - 128 */
    return _mm512_cvtepi32_ps(
        _mm512_srai_epi32(_mm512_slli_epi32(flipped, (unsigned)(24 - 8 * j)), 24));
}

/* ---- decode ---- */

static bool takes_rows(const nib_cpu_weights *w)
{
    return has_whole_words(w) && w->block >= 16;
}

static size_t arranged_bytes(const nib_cpu_weights *w)
{
    return sizeof(float) * chunk_count(w) * codes_per_chunk(w);
}

/* For each chunk and row: vector j holds the activations of code j of the 16 words. */
static void arrange(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    float *to = arranged;
    const size_t per_word = 32 / (size_t)w->bits;
    for (size_t k0 = 0; k0 < w->K; k0 += codes_per_chunk(w)) {
        for (size_t row = 0; row < m; row++) {
            for (size_t j = 0; j < per_word; j++) {
                for (size_t word = 0; word < WORDS; word++) {
                    const size_t k = k0 + word * per_word + j;
                    *to++ = k < w->K ? x[row * w->K + k] : 0;
                }
            }
        }
    }
}

/* Independent sums of each of m activation rows: enough of them to hide the latency of additions.
 */
INLINE size_t sums_of(size_t m)
{
    return m == 1 ? 1 : m <= 4 ? 4 : 2;
}

/* One activation row and the chunks [c0, c1) of weight row n: the scale is applied to the sums of a
 * chunk. */
INLINE void dot_single(const nib_cpu_weights *w, bool codebook, int bits, const row_view *view,
                       const chunk_scales *plan, __m512 table, size_t n, size_t c0, size_t c1,
                       const float *x, __m512 *total)
{
    const int per_word = 32 / bits;
    const uint8_t *codes = view->codes + n * view->row_bytes;
    __m512 t = total[0];
    for (size_t c = c0; c < c1; c++, x += WORDS * per_word) {
        const __m512i words = load_chunk(codes + c * 4 * WORDS, view->row_bytes - c * 4 * WORDS);
        prefetch(codes + c * 4 * WORDS);
        const __m512 scale = load_chunk_scales(w, plan, n * view->row_scales, view->row_scales, c);
        __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        UNROLL
        for (int j = 0; j < per_word; j++)
            sum[j % 2] = _mm512_fmadd_ps(expand(words, codebook, bits, j, table),
                                         _mm512_load_ps(x + j * WORDS), sum[j % 2]);
        t = _mm512_fmadd_ps(_mm512_add_ps(sum[0], sum[1]), scale, t);
    }
    total[0] = t;
}

/* Several activation rows: the scale is applied to the weights. */
INLINE void dot_several(const nib_cpu_weights *w, bool codebook, int bits, const row_view *view,
                        const chunk_scales *plan, __m512 table, size_t n, size_t c0, size_t c1,
                        const float *x, size_t m, __m512 *total)
{
    const size_t per_word = 32 / (size_t)bits, sums = sums_of(m);
    const uint8_t *codes = view->codes + n * view->row_bytes;
    __m512 t[16];
    UNROLL
    for (size_t i = 0; i < m * sums; i++)
        t[i] = total[i];
    for (size_t c = c0; c < c1; c++, x += m * WORDS * per_word) {
        const __m512i words = load_chunk(codes + c * 4 * WORDS, view->row_bytes - c * 4 * WORDS);
        prefetch(codes + c * 4 * WORDS);
        const __m512 scale = load_chunk_scales(w, plan, n * view->row_scales, view->row_scales, c);
        UNROLL
        for (size_t j = 0; j < per_word; j++) {
            const __m512 v = _mm512_mul_ps(expand(words, codebook, bits, (int)j, table), scale);
            UNROLL
            for (size_t row = 0; row < m; row++)
                t[row * sums + j % sums] = _mm512_fmadd_ps(
                    v, _mm512_load_ps(x + (row * per_word + j) * WORDS), t[row * sums + j % sums]);
        }
    }
    UNROLL
    for (size_t i = 0; i < m * sums; i++)
        total[i] = t[i];
}

/* Several activation rows do not fit the first-level cache: K is then done in short stretches, each
 * for a group of weight rows. */
INLINE void decode_as(const nib_cpu_weights *w, bool codebook, int bits, const float *arranged,
                      size_t m, size_t n0, size_t n1, float *y, size_t y_stride)
{
    enum { ROWS = 8, MAX_SUMS = 16 };
    const row_view view = view_rows(w);
    const chunk_scales plan = plan_scales(w);
    const __m512 table = make_table(w);
    const size_t chunks = chunk_count(w), chunk_floats = m * codes_per_chunk(w), sums = sums_of(m);
    const size_t rows = m == 1 ? 1 : ROWS, length = m == 1 ? chunks : 4096 / chunk_floats;
    for (size_t g = n0; g < n1; g += rows) {
        __m512 total[ROWS][MAX_SUMS];
        const size_t end = n1 - g < rows ? n1 : g + rows;
        for (size_t n = g; n < end; n++) {
            UNROLL
            for (size_t i = 0; i < MAX_SUMS; i++)
                total[n - g][i] = _mm512_setzero_ps();
        }
        for (size_t c = 0; c < chunks; c += length) {
            const size_t c1 = chunks - c < length ? chunks : c + length;
            for (size_t n = g; n < end; n++) {
                if (m == 1)
                    dot_single(w, codebook, bits, &view, &plan, table, n, c, c1, arranged,
                               total[0]);
                else
                    dot_several(w, codebook, bits, &view, &plan, table, n, c, c1,
                                arranged + c * chunk_floats, m, total[n - g]);
            }
        }
        for (size_t n = g; n < end; n++) {
            for (size_t row = 0; row < m; row++) {
                __m512 sum = total[n - g][row * sums];
                for (size_t i = 1; i < sums; i++)
                    sum = _mm512_add_ps(sum, total[n - g][row * sums + i]);
                y[row * y_stride + n - n0] = _mm512_reduce_add_ps(sum);
            }
        }
    }
}

#include "decode_each.h"

DEFINE_DECODES(decode_codebook, true, 4)
DEFINE_DECODES(decode_bits2, false, 2)
DEFINE_DECODES(decode_bits4, false, 4)
DEFINE_DECODES(decode_bits8, false, 8)

static void decode(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                   float *y, size_t y_stride)
{
    const decode_function *functions = w->codebook    ? decode_codebook
                                       : w->bits == 2 ? decode_bits2
                                       : w->bits == 4 ? decode_bits4
                                                      : decode_bits8;
    functions[m - 1](w, arranged, n0, n1, y, y_stride);
}

/* ---- prefill: panels ---- */

INLINE void panel_of_sixteen(const nib_cpu_weights *w, bool codebook, int bits, size_t n0,
                             size_t k0, size_t kc, float *out)
{
    const panel_rows rows = find_rows(w, n0);
    const __m512 table = make_table(w);
    const size_t per_word = 32 / (size_t)bits;
    __m512 scale = _mm512_setzero_ps();
    prefetch_words(&rows, (k0 + kc) / per_word * 4, kc / per_word * 4);
    for (size_t k = 0; k < kc; k += WORDS * per_word) {
        const size_t left = (kc - k + per_word - 1) / per_word;
        const size_t count = left < WORDS ? left : WORDS;
        __m512i words[WORDS];
        load_words(&rows, (k0 + k) / per_word, count, words);
        for (size_t i = 0; i < count; i++) {
            const size_t at = k + i * per_word;
            if (at == 0 || (k0 + at) % w->block == 0)
                scale = block_scales(w, &rows, (k0 + at) / w->block);
            UNROLL
            for (int j = 0; j < 32 / bits; j++) {
                if (at + (size_t)j < kc)
                    _mm512_store_ps(
                        out + (at + (size_t)j) * TILE_N,
                        _mm512_mul_ps(expand(words[i], codebook, bits, j, table), scale));
            }
        }
    }
}

static void panel(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *to)
{
    float *out = to;
    if (!has_whole_words(w)) {
        panel_by_rows(w, n0, k0, kc, out);
        return;
    }
    for (size_t j = 0; j < TILE_N; j += WORDS) {
        if (w->codebook)
            panel_of_sixteen(w, true, 4, n0 + j, k0, kc, out + j);
        else if (w->bits == 4)
            panel_of_sixteen(w, false, 4, n0 + j, k0, kc, out + j);
        else if (w->bits == 2)
            panel_of_sixteen(w, false, 2, n0 + j, k0, kc, out + j);
        else
            panel_of_sixteen(w, false, 8, n0 + j, k0, kc, out + j);
    }
}

/* ---- prefill: tiles ---- */

/* Ask for what the next tile will need of the activations, which follows `floats` behind; it may
 * lie past their end. */
INLINE void prefetch_next(const float *a, size_t floats)
{
    _mm_prefetch((const char *)((uintptr_t)a + floats * sizeof *a), _MM_HINT_T0);
}

INLINE void tile_of(size_t rows, size_t kc, const float *a, const float *weights, float *c,
                    bool accumulate)
{
    __m512 sums[TILE_M][2];
    UNROLL
    for (size_t i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_ps();
    for (size_t k = 0; k < kc; k++) {
        const __m512 left = _mm512_load_ps(weights + k * TILE_N),
                     right = _mm512_load_ps(weights + k * TILE_N + 16);
        prefetch_next(a + k * TILE_M, kc * TILE_M);
        UNROLL
        for (size_t i = 0; i < rows; i++) {
            const __m512 x = _mm512_set1_ps(a[k * TILE_M + i]);
            sums[i][0] = _mm512_fmadd_ps(x, left, sums[i][0]);
            sums[i][1] = _mm512_fmadd_ps(x, right, sums[i][1]);
        }
    }
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *to = c + i * TILE_N;
        if (accumulate) {
            sums[i][0] = _mm512_add_ps(sums[i][0], _mm512_load_ps(to));
            sums[i][1] = _mm512_add_ps(sums[i][1], _mm512_load_ps(to + 16));
        }
        _mm512_store_ps(to, sums[i][0]);
        _mm512_store_ps(to + 16, sums[i][1]);
    }
}

#define TILE_FOR(count)                                                                            \
    case count:                                                                                    \
        tile_of(count, kc, a, weights, c, accumulate);                                             \
        break

static void tile(size_t rows, size_t kc, const void *a, const void *weights, float *c,
                 bool accumulate)
{
    switch (rows) {
        TILE_FOR(1);
        TILE_FOR(2);
        TILE_FOR(3);
        TILE_FOR(4);
        TILE_FOR(5);
        TILE_FOR(6);
        TILE_FOR(7);
        TILE_FOR(8);
        TILE_FOR(9);
        TILE_FOR(10);
        TILE_FOR(11);
        TILE_FOR(12);
    }
}

static bool takes_all(const nib_cpu_weights *w)
{
    (void)w;
    return true;
}

const nib_cpu_gemv nib_cpu_avx512_gemv = {
    .takes = takes_rows,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange,
    .decode = decode,
};

const nib_cpu_gemm nib_cpu_avx512_gemm = {
    .takes = takes_all,
    .tile_m = TILE_M,
    .tile_n = TILE_N,
    .tile_k = TILE_K,
    .group_n = 128,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .panel_bytes = panel_bytes,
    .panel = panel,
    .tile = tile,
};

void nib_avx512_normalize(const nib_cpu_norm *norm, float *x)
{
    normalize(norm, x);
}

void nib_avx512_finish(const nib_cpu_finish *f, const float *sums, size_t count)
{
    finish(f, sums, count);
}

/* ---- int8 activations ---- */

/* 32 sums of pairs as int16: at most 32 products of 15 * 127 each meet in two of them, which does
 * not overflow. */
typedef __m512i byte_sums;

static inline byte_sums byte_sums_zero(void)
{
    return _mm512_setzero_si512();
}

static inline byte_sums byte_sums_add(byte_sums s, __m512i codes, __m512i q)
{
    s = _mm512_add_epi16(s, _mm512_maddubs_epi16(codes, q));
    __asm__(""
            : "+v"(s)); /* gcc 12 regroups the additions of a whole group, and then runs out of
                           registers */
    return s;
}

static inline __m512i byte_sums_total(byte_sums s)
{
    return _mm512_madd_epi16(s, _mm512_set1_epi16(1));
}

#include "int8_512.h"

const nib_cpu_row nib_cpu_avx512 = {
    .name = "avx512",
    .needs = NIB_CPU_AVX512 | NIB_CPU_AVX2,
    .normalize = nib_avx512_normalize,
    .finish = nib_avx512_finish,
    .dequantize = nib_avx2_dequantize,
    .gemv = {&nib_cpu_avx512_gemv, &nib_cpu_avx2_rows_gemv},
    .gemm = {&nib_cpu_avx512_gemm},
    .gemv8 = &gemv8,
    .gemm8 = &gemm8,
};
