/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX2 row (with FMA and F16C).
 *
 * Decode works on chunks of 64 four-bit codes, 32 bytes: the lower half of a register holds codes
 * 0..31 and the upper half codes 32..63, so that blocks of 32 fall together with halves. Codes
 * become float32 by byte table look-ups (vpshufb): one look-up for each byte of the float that is
 * not always zero. All steps stay within halves, which leaves the values in a fixed scattered
 * order; arrange() puts the activations into the same order, once per call.
 */
#include "vec_avx2.h"

enum { TILE_M = 6, TILE_N = 16, TILE_K = 256 };

#define DEQUANTIZE nib_avx2_dequantize

#include "elementwise.h"
#include "by_rows.h"
#include "kernels.h"
#include "panel.h"
#include "stretch_256.h"
#include "words_256.h"

/* ---- dequantizing ---- */

/* Eight codes in four bytes, spread over the lanes at the bottom (codebook) or at the top (nbits,
 * as signed numbers). */
INLINE __m256 eight_values(const uint8_t *bytes, const nib_cpu_weights *w, bool codebook)
{
    int32_t four;
    memcpy(&four, bytes, 4);
    const __m256i word = _mm256_set1_epi32(four);
    if (!codebook) {
        const __m256i flipped = _mm256_xor_si256(word, _mm256_set1_epi32((int)0x88888888u));
        const __m256i top =
            _mm256_sllv_epi32(flipped, _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0));
        return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 28));
    }
    const __m256i index = _mm256_srlv_epi32(word, _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24));
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(w->codebook), index),
                            _mm256_permutevar8x32_ps(_mm256_loadu_ps(w->codebook + 8), index),
                            upper);
}

/* `count` values of one block, whose first code is code `at` of `codes`. */
INLINE void dequantize_block(const nib_cpu_weights *w, bool codebook, const uint8_t *codes,
                             size_t at, size_t count, float scale, float *out)
{
    const unsigned first_shift = codebook ? 4 : 0;
    size_t i = 0;
    for (; i < count; i++) {
        if ((at + i) % 2 == 0 && count - i >= 8)
            break;
        const unsigned code =
            (unsigned)codes[(at + i) / 2] >> ((at + i) % 2 ? 4 - first_shift : first_shift) & 15u;
        out[i] = (codebook ? w->codebook[code] : (float)((int)code - 8)) * scale;
    }
    for (; count - i >= 8; i += 8)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(eight_values(codes + (at + i) / 2, w, codebook),
                                                _mm256_set1_ps(scale)));
    for (; i < count; i++) {
        const unsigned code =
            (unsigned)codes[(at + i) / 2] >> ((at + i) % 2 ? 4 - first_shift : first_shift) & 15u;
        out[i] = (codebook ? w->codebook[code] : (float)((int)code - 8)) * scale;
    }
}

void nib_avx2_dequantize(const nib_cpu_weights *w, size_t n, size_t k0, size_t count, float *out)
{
    if (w->bits != 4 || w->block % 2 != 0) {
        nib_scalar_dequantize(w, n, k0, count, out);
        return;
    }
    /* Positions are flat in bnb4, and within the padded row in nbits. */
    const uint8_t *codes = w->codebook ? w->codes : w->codes + n * w->row_bytes;
    const size_t row_scale = w->codebook ? 0 : n * w->blocks;
    size_t at = w->codebook ? n * w->K + k0 : k0;
    while (count) {
        const size_t left = w->block - at % w->block, here = count < left ? count : left;
        const float scale = nib_load(w->scales, w->half_scales, row_scale + at / w->block);
        if (w->codebook)
            dequantize_block(w, true, codes, at, here, scale, out);
        else
            dequantize_block(w, false, codes, at, here, scale, out);
        at += here;
        out += here;
        count -= here;
    }
}

/* ---- decode ---- */

static size_t arranged_bytes(const nib_cpu_weights *w)
{
    return sizeof(float) * chunk_count(w) * CHUNK;
}

/* Which code of a chunk lane `lane` of expanded vector `v` holds; see expand_nbits and
 * expand_codebook. */
static size_t code_at(const nib_cpu_weights *w, size_t v, size_t lane)
{
    const size_t group = lane / 4, element = lane % 4;
    if (w->codebook) { /* the even code is in the high nibble, and the high nibbles are vectors 4..7
                        */
        const size_t byte = v % 4 / 2 * 8 + v % 2 * 4 + element;
        return group * 32 + 2 * byte + (v < 4);
    }
    const size_t byte = v % 4 / 2 * 8 + 2 * element + v % 2;
    return group * 32 + 2 * byte + v / 4;
}

static void arrange(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    float *to = arranged;
    uint8_t order[CHUNK];
    for (size_t i = 0; i < CHUNK; i++)
        order[i] = (uint8_t)code_at(w, i / LANES, i % LANES);
    for (size_t k = 0; k < w->K; k += CHUNK) {
        for (size_t row = 0; row < m; row++) {
            for (size_t i = 0; i < CHUNK; i++)
                *to++ = k + order[i] < w->K ? x[row * w->K + k + order[i]] : 0;
        }
    }
}

/* The 16 values of a code, cut into bytes: plane[b] holds byte b of each, in both halves. */
typedef struct planes {
    __m256i plane[4];
} planes;

static planes cut_planes(const nib_cpu_weights *w)
{
    planes p;
    for (int b = 0; b < 4; b++) {
        uint8_t bytes[16];
        for (int code = 0; code < 16; code++) {
            const float value = w->codebook ? w->codebook[code] : (float)(code - 8);
            bytes[code] = (uint8_t)(nib_bits_of_float(value) >> (8 * b));
        }
        p.plane[b] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)bytes));
    }
    return p;
}

/* The values -8..7 have zeros in the lower 16 bits of the float: two look-ups make the upper ones.
 */
INLINE void expand_nbits_half(const planes *p, __m256i codes, __m256 *v)
{
    const __m256i low = _mm256_shuffle_epi8(p->plane[2], codes),
                  high = _mm256_shuffle_epi8(p->plane[3], codes);
    const __m256i first = _mm256_unpacklo_epi8(low, high), second = _mm256_unpackhi_epi8(low, high);
    const __m256i mask = _mm256_set1_epi32((int)0xffff0000u);
    v[0] = _mm256_castsi256_ps(_mm256_slli_epi32(first, 16));
    v[1] = _mm256_castsi256_ps(_mm256_and_si256(first, mask));
    v[2] = _mm256_castsi256_ps(_mm256_slli_epi32(second, 16));
    v[3] = _mm256_castsi256_ps(_mm256_and_si256(second, mask));
}

INLINE void expand_codebook_half(const planes *p, __m256i codes, __m256 *v)
{
    const __m256i b0 = _mm256_shuffle_epi8(p->plane[0], codes),
                  b1 = _mm256_shuffle_epi8(p->plane[1], codes);
    const __m256i b2 = _mm256_shuffle_epi8(p->plane[2], codes),
                  b3 = _mm256_shuffle_epi8(p->plane[3], codes);
    const __m256i low0 = _mm256_unpacklo_epi8(b0, b1), high0 = _mm256_unpacklo_epi8(b2, b3);
    const __m256i low1 = _mm256_unpackhi_epi8(b0, b1), high1 = _mm256_unpackhi_epi8(b2, b3);
    v[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(low0, high0));
    v[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(low0, high0));
    v[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(low1, high1));
    v[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(low1, high1));
}

/* The low nibbles of a chunk become vectors 0..3, the high nibbles vectors 4..7. */
INLINE __m256i nibbles(__m256i bytes, bool high)
{
    return _mm256_and_si256(high ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
}

INLINE void expand_half(const planes *p, bool codebook, __m256i bytes, bool high, __m256 *v)
{
    if (codebook)
        expand_codebook_half(p, nibbles(bytes, high), v);
    else
        expand_nbits_half(p, nibbles(bytes, high), v);
}

INLINE __m256 dot_chunk(const planes *p, bool codebook, __m256i bytes, const float *x)
{
    __m256 v[4];
    expand_half(p, codebook, bytes, false, v);
    __m256 even = _mm256_mul_ps(v[0], _mm256_load_ps(x));
    __m256 odd = _mm256_mul_ps(v[1], _mm256_load_ps(x + 8));
    even = _mm256_fmadd_ps(v[2], _mm256_load_ps(x + 16), even);
    odd = _mm256_fmadd_ps(v[3], _mm256_load_ps(x + 24), odd);
    expand_half(p, codebook, bytes, true, v);
    even = _mm256_fmadd_ps(v[0], _mm256_load_ps(x + 32), even);
    odd = _mm256_fmadd_ps(v[1], _mm256_load_ps(x + 40), odd);
    even = _mm256_fmadd_ps(v[2], _mm256_load_ps(x + 48), even);
    odd = _mm256_fmadd_ps(v[3], _mm256_load_ps(x + 56), odd);
    return _mm256_add_ps(even, odd);
}

/* One activation row: the scale is applied to the sums of a chunk. */
INLINE __m256 dot_stretch(const planes *p, bool codebook, bool pairs, const stretch *s,
                          __m256 total)
{
    for (size_t c = 0; c < s->chunks; c++) {
        const __m256i bytes = _mm256_loadu_si256((const void *)(s->codes + c * CHUNK_BYTES));
        prefetch(s->codes + c * CHUNK_BYTES);
        const __m256 sum =
            dot_chunk(p, codebook, bytes, (const float *)(const void *)(s->x + c * s->x_bytes));
        total = _mm256_fmadd_ps(sum, scales_of(s, pairs, c), total);
    }
    return total;
}

/* Independent sums of each of m activation rows: enough of them to hide the latency of additions.
 */
INLINE size_t sums_of(size_t m)
{
    return m == 1 ? 1 : m == 2 ? 4 : m <= 4 ? 2 : 1;
}

/* Several activation rows: the scale is applied to the weights. */
INLINE void dot_stretch_rows(const planes *p, bool codebook, const stretch *s, size_t m,
                             __m256 *total)
{
    const size_t sums = sums_of(m);
    __m256 t[8];
    UNROLL
    for (size_t i = 0; i < m * sums; i++)
        t[i] = total[i];
    for (size_t c = 0; c < s->chunks; c++) {
        const __m256i bytes = _mm256_loadu_si256((const void *)(s->codes + c * CHUNK_BYTES));
        prefetch(s->codes + c * CHUNK_BYTES);
        const __m256 scale = scales_of(s, s->pairs, c);
        const float *x = (const float *)(const void *)(s->x + c * m * CHUNK * sizeof *x);
        UNROLL
        for (size_t high = 0; high < 2; high++) {
            __m256 v[4];
            expand_half(p, codebook, bytes, high, v);
            UNROLL
            for (size_t i = 0; i < 4; i++) {
                v[i] = _mm256_mul_ps(v[i], scale);
                UNROLL
                for (size_t row = 0; row < m; row++)
                    t[row * sums + i % sums] =
                        _mm256_fmadd_ps(v[i], _mm256_load_ps(x + row * CHUNK + high * 32 + i * 8),
                                        t[row * sums + i % sums]);
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < m * sums; i++)
        total[i] = t[i];
}

INLINE void dot(const planes *p, bool codebook, const stretch *s, size_t m, __m256 *total)
{
    if (m > 1)
        dot_stretch_rows(p, codebook, s, m, total);
    else if (s->pairs)
        total[0] = dot_stretch(p, codebook, true, s, total[0]);
    else
        total[0] = dot_stretch(p, codebook, false, s, total[0]);
}

INLINE void dot_nbits(const void *tables, const stretch *s, size_t m, __m256 *total)
{
    dot(tables, false, s, m, total);
}

INLINE void dot_codebook(const void *tables, const stretch *s, size_t m, __m256 *total)
{
    dot(tables, true, s, m, total);
}

INLINE void decode_as(const nib_cpu_weights *w, stretch_dot dot_one, const void *arranged, size_t m,
                      size_t n0, size_t n1, float *y, size_t y_stride)
{
    const planes p = cut_planes(w);
    dot_rows(w, dot_one, &p, CHUNK * sizeof(float), sums_of(m), arranged, m, n0, n1, y, y_stride);
}

/* A function for each m and format, so that each has its sums in registers. */
typedef void (*decode_function)(const nib_cpu_weights *w, const void *arranged, size_t n0,
                                size_t n1, float *y, size_t y_stride);

#define DEFINE_DECODE(m)                                                                           \
    static void decode_nbits_##m(const nib_cpu_weights *w, const void *arranged, size_t n0,        \
                                 size_t n1, float *y, size_t y_stride)                             \
    {                                                                                              \
        decode_as(w, dot_nbits, arranged, m, n0, n1, y, y_stride);                                 \
    }                                                                                              \
    static void decode_codebook_##m(const nib_cpu_weights *w, const void *arranged, size_t n0,     \
                                    size_t n1, float *y, size_t y_stride)                          \
    {                                                                                              \
        decode_as(w, dot_codebook, arranged, m, n0, n1, y, y_stride);                              \
    }

DEFINE_DECODE(1)
DEFINE_DECODE(2)
DEFINE_DECODE(3)
DEFINE_DECODE(4)
DEFINE_DECODE(5)
DEFINE_DECODE(6)
DEFINE_DECODE(7)
DEFINE_DECODE(8)

static void decode(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                   float *y, size_t y_stride)
{
    static const decode_function nbits[] = {decode_nbits_1, decode_nbits_2, decode_nbits_3,
                                            decode_nbits_4, decode_nbits_5, decode_nbits_6,
                                            decode_nbits_7, decode_nbits_8};
    static const decode_function codebook[] = {
        decode_codebook_1, decode_codebook_2, decode_codebook_3, decode_codebook_4,
        decode_codebook_5, decode_codebook_6, decode_codebook_7, decode_codebook_8};
    if (w->codebook)
        codebook[m - 1](w, arranged, n0, n1, y, y_stride);
    else
        nbits[m - 1](w, arranged, n0, n1, y, y_stride);
}

/* ---- prefill: panels ---- */

/* Codes of one word of eight rows, times their scales, to 32 / bits lines of the panel. */
INLINE void expand_word_nbits(__m256i word, int bits, __m256 scale, size_t lines, float *out)
{
    const uint32_t flip = bits == 2 ? 0xaaaaaaaau : bits == 4 ? 0x88888888u : 0x80808080u;
    word = _mm256_xor_si256(
        word, _mm256_set1_epi32((int)flip)); /* code - middle, as a signed number of `bits` bits */
    for (int j = 0; j < 32 / bits; j++) {
        if ((size_t)j >= lines)
            break;
        const __m256i value =
            _mm256_srai_epi32(_mm256_slli_epi32(word, 32 - bits * (j + 1)), 32 - bits);
        _mm256_store_ps(out + j * TILE_N, _mm256_mul_ps(_mm256_cvtepi32_ps(value), scale));
    }
}

INLINE void expand_word_codebook(__m256i word, __m256 low, __m256 high, __m256 scale, float *out)
{
    for (int j = 0; j < 8; j++) {
        const int shift = j / 2 * 8 + (j % 2 ? 0 : 4);
        const __m256i index =
            _mm256_srli_epi32(word, shift); /* the look-up reads its lowest 3 bits */
        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(word, 28 - shift));
        const __m256 value = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index),
                                              _mm256_permutevar8x32_ps(high, index), upper);
        _mm256_store_ps(out + j * TILE_N, _mm256_mul_ps(value, scale));
    }
}

INLINE void panel_of_eight(const nib_cpu_weights *w, int bits, bool codebook, size_t n0, size_t k0,
                           size_t kc, float *out)
{
    const panel_rows rows = find_rows(w, n0);
    const size_t per_word = 32 / (size_t)bits;
    const __m256 low = codebook ? _mm256_loadu_ps(w->codebook) : _mm256_setzero_ps();
    const __m256 high = codebook ? _mm256_loadu_ps(w->codebook + 8) : _mm256_setzero_ps();
    __m256 scale = _mm256_setzero_ps();
    prefetch_words(&rows, (k0 + kc) / per_word * 4, kc / per_word * 4);
    for (size_t k = 0; k < kc; k += 8 * per_word) {
        const size_t left = (kc - k + per_word - 1) / per_word;
        const size_t count = left < 8 ? left : 8;
        __m256i words[8];
        load_words(&rows, (k0 + k) / per_word * 4, count, words);
        for (size_t i = 0; i < count; i++) {
            const size_t at = k + i * per_word;
            if (at == 0 || (k0 + at) % w->block == 0)
                scale = block_scales(w, &rows, (k0 + at) / w->block);
            if (codebook)
                expand_word_codebook(words[i], low, high, scale, out + at * TILE_N);
            else
                expand_word_nbits(words[i], bits, scale, kc - at, out + at * TILE_N);
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
    for (size_t j = 0; j < TILE_N; j += 8) {
        if (w->codebook)
            panel_of_eight(w, 4, true, n0 + j, k0, kc, out + j);
        else if (w->bits == 4)
            panel_of_eight(w, 4, false, n0 + j, k0, kc, out + j);
        else if (w->bits == 2)
            panel_of_eight(w, 2, false, n0 + j, k0, kc, out + j);
        else
            panel_of_eight(w, 8, false, n0 + j, k0, kc, out + j);
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
    __m256 sums[TILE_M][2];
    UNROLL
    for (size_t i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    for (size_t k = 0; k < kc; k++) {
        const __m256 left = _mm256_load_ps(weights + k * TILE_N),
                     right = _mm256_load_ps(weights + k * TILE_N + 8);
        prefetch_next(a + k * TILE_M, kc * TILE_M);
        UNROLL
        for (size_t i = 0; i < rows; i++) {
            const __m256 x = _mm256_broadcast_ss(a + k * TILE_M + i);
            sums[i][0] = _mm256_fmadd_ps(x, left, sums[i][0]);
            sums[i][1] = _mm256_fmadd_ps(x, right, sums[i][1]);
        }
    }
    UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *to = c + i * TILE_N;
        if (accumulate) {
            sums[i][0] = _mm256_add_ps(sums[i][0], _mm256_load_ps(to));
            sums[i][1] = _mm256_add_ps(sums[i][1], _mm256_load_ps(to + 8));
        }
        _mm256_store_ps(to, sums[i][0]);
        _mm256_store_ps(to + 8, sums[i][1]);
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
    }
}

const nib_cpu_gemv nib_cpu_avx2_gemv = {
    .takes = takes_rows,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange,
    .decode = decode,
};

const nib_cpu_gemv nib_cpu_avx2_rows_gemv = {
    .takes = takes_any,
    .arranged_bytes = by_rows_bytes,
    .arrange = by_rows_arrange,
    .decode = by_rows_decode,
};

const nib_cpu_gemm nib_cpu_avx2_gemm = {
    .takes = takes_any,
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

void nib_avx2_normalize(const nib_cpu_norm *norm, float *x)
{
    normalize(norm, x);
}

void nib_avx2_finish(const nib_cpu_finish *f, const float *sums, size_t count)
{
    finish(f, sums, count);
}

/* ---- int8 activations ---- */

/* 16 sums of pairs as int16: at most 32 products of 15 * 127 each meet in two of them, which does
 * not overflow. */
typedef __m256i byte_sums;

static inline byte_sums byte_sums_zero(void)
{
    return _mm256_setzero_si256();
}

static inline byte_sums byte_sums_add(byte_sums s, __m256i codes, __m256i q)
{
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(codes, q));
    __asm__(""
            : "+x"(s)); /* gcc 12 regroups the additions of a whole group, and then runs out of
                           registers */
    return s;
}

static inline __m256i byte_sums_total(byte_sums s)
{
    return _mm256_madd_epi16(s, _mm256_set1_epi16(1));
}

#include "int8_256.h"

const nib_cpu_row nib_cpu_avx2 = {
    .name = "avx2",
    .needs = NIB_CPU_AVX2,
    .normalize = nib_avx2_normalize,
    .finish = nib_avx2_finish,
    .dequantize = nib_avx2_dequantize,
    .gemv = {&nib_cpu_avx2_gemv, &nib_cpu_avx2_words_gemv, &nib_cpu_avx2_rows_gemv},
    .gemm = {&nib_cpu_avx2_gemm},
    .gemv8 = &gemv8,
    .gemm8 = &gemm8,
};
