/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX2 decode for what avx2.c does not take: 2- and 8-bit codes, and blocks of 16. A register holds
 * 8 words of 4 bytes that follow each other in a row; shifting all of them brings the next code of
 * each to where it becomes a float32, and arrange() puts the activations into the order in which
 * that yields codes.
 */
#include "vec_avx2.h"

#include "elementwise.h"
#include "kernels.h"
#include "unroll.h"
#include "view.h"

enum { WORDS = 8, CHUNK_BYTES = 4 * WORDS };

static bool takes_words(const nib_cpu_weights *w)
{
    return has_whole_words(w) && w->block >= 16;
}

static size_t codes_per_chunk(const nib_cpu_weights *w)
{
    return WORDS * 32 / (size_t)w->bits;
}

static size_t chunk_count(const nib_cpu_weights *w)
{
    return (w->K + codes_per_chunk(w) - 1) / codes_per_chunk(w);
}

static size_t arranged_bytes(const nib_cpu_weights *w)
{
    return chunk_count(w) * codes_per_chunk(w) * sizeof(float);
}

/* For each chunk and row: vector j holds the activations of code j of the 8 words. */
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

/* What turns codes into values: the halves of a codebook, or the four values of 2-bit codes. */
typedef struct tables {
    __m256 low, high;
} tables;

static tables make_tables(const nib_cpu_weights *w)
{
    if (w->codebook)
        return (tables){_mm256_loadu_ps(w->codebook), _mm256_loadu_ps(w->codebook + 8)};
    const __m256 four = _mm256_setr_ps(-2, -1, 0, 1, -2, -1, 0, 1);
    return (tables){four, four};
}

/* Code j of each word as a float32, before scaling. */
INLINE __m256 expand(__m256i words, bool codebook, int bits, int j, const tables *t)
{
    if (codebook) {
        const int shift = j / 2 * 8 + (j % 2 ? 0 : 4);
        const __m256i index =
            _mm256_srli_epi32(words, shift); /* a look-up of 8 reads its lowest 3 bits */
        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(words, 28 - shift));
        return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t->low, index),
                                _mm256_permutevar8x32_ps(t->high, index), upper);
    }
    if (bits == 2) /* a look-up of 4 reads the lowest 2 bits */
        return _mm256_permutevar_ps(t->low, _mm256_srli_epi32(words, 2 * j));
    const __m256i flip =
        _mm256_set1_epi32((int)(bits == 4 ? 0x88888888u : 0x80808080u)); /* code - middle */
    const __m256i top = _mm256_slli_epi32(_mm256_xor_si256(words, flip), 32 - bits * (j + 1));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 32 - bits));
}

static inline __m256i first_lanes(size_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Words of a chunk that a row really has. */
INLINE __m256i load_chunk(const uint8_t *codes, size_t bytes_left)
{
    if (bytes_left >= CHUNK_BYTES)
        return _mm256_loadu_si256((const void *)codes);
    return _mm256_maskload_epi32((const void *)codes, first_lanes(bytes_left / 4));
}

/* The scales of a chunk: word i takes the scale number i * per_word / block of it. */
typedef struct chunk_scales {
    __m256i index;
    size_t per_chunk; /* scales of a chunk; 0: a block is a chunk or more */
    unsigned shift;   /* then chunk c is in block c >> shift */
} chunk_scales;

static chunk_scales plan_scales(const nib_cpu_weights *w)
{
    const size_t codes = codes_per_chunk(w), per_word = 32 / (size_t)w->bits;
    int index[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        index[i] = (int)(w->block < codes ? i * per_word / w->block : 0);
    chunk_scales s = {_mm256_loadu_si256((const void *)index),
                      w->block < codes ? codes / w->block : 0, 0};
    while ((codes << s.shift) < w->block)
        s.shift++;
    return s;
}

/* The scales of chunk c of a row whose scales start at `row`; zero for blocks past the row's
 * `count`. */
INLINE __m256 load_chunk_scales(const nib_cpu_weights *w, const chunk_scales *s, size_t row,
                                size_t count, size_t c)
{
    if (!s->per_chunk)
        return _mm256_set1_ps(nib_load(w->scales, w->half_scales, row + (c >> s->shift)));
    const size_t first = c * s->per_chunk, left = count - first;
    const size_t here = left < s->per_chunk ? left : s->per_chunk;
    __m256 scales;
    if (w->half_scales) {
        uint16_t copy[8] = {0};
        memcpy(copy, (const char *)w->scales + 2 * (row + first), 2 * here);
        scales = vec_load_half(copy);
    } else {
        scales = _mm256_maskload_ps((const float *)w->scales + row + first, first_lanes(here));
    }
    return _mm256_permutevar8x32_ps(scales, s->index);
}

INLINE void decode_row(const nib_cpu_weights *w, bool codebook, int bits, const row_view *view,
                       const chunk_scales *plan, const tables *t, size_t n, const float *x,
                       size_t m, __m256 *total)
{
    const size_t per_word = 32 / (size_t)bits;
    const uint8_t *codes = view->codes + n * view->row_bytes;
    UNROLL
    for (size_t row = 0; row < NIB_CPU_DECODE_ROWS; row++)
        total[row] = _mm256_setzero_ps();
    for (size_t c = 0; c < chunk_count(w); c++, x += m * WORDS * per_word) {
        const __m256i words =
            load_chunk(codes + c * CHUNK_BYTES, view->row_bytes - c * CHUNK_BYTES);
        const __m256 scale = load_chunk_scales(w, plan, n * view->row_scales, view->row_scales, c);
        if (m == 1) {
            __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
            UNROLL
            for (size_t j = 0; j < per_word; j++)
                sums[j % 2] = _mm256_fmadd_ps(expand(words, codebook, bits, (int)j, t),
                                              _mm256_load_ps(x + j * WORDS), sums[j % 2]);
            total[0] = _mm256_fmadd_ps(_mm256_add_ps(sums[0], sums[1]), scale, total[0]);
            continue;
        }
        UNROLL
        for (size_t j = 0; j < per_word; j++) {
            const __m256 v = _mm256_mul_ps(expand(words, codebook, bits, (int)j, t), scale);
            UNROLL
            for (size_t row = 0; row < m; row++)
                total[row] = _mm256_fmadd_ps(v, _mm256_load_ps(x + (row * per_word + j) * WORDS),
                                             total[row]);
        }
    }
}

static inline float add_lanes(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

INLINE void decode_as(const nib_cpu_weights *w, bool codebook, int bits, const float *arranged,
                      size_t m, size_t n0, size_t n1, float *y, size_t y_stride)
{
    const row_view view = view_rows(w);
    const chunk_scales plan = plan_scales(w);
    const tables t = make_tables(w);
    for (size_t n = n0; n < n1; n++) {
        __m256 total[NIB_CPU_DECODE_ROWS];
        decode_row(w, codebook, bits, &view, &plan, &t, n, arranged, m, total);
        for (size_t row = 0; row < m; row++)
            y[row * y_stride + n - n0] = add_lanes(total[row]);
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

const nib_cpu_gemv nib_cpu_avx2_words_gemv = {
    .takes = takes_words,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange,
    .decode = decode,
};
