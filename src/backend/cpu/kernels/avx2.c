/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX2 row (with FMA and F16C).
 *
 * Decode works on chunks of 64 four-bit codes, 32 bytes: the lower half of a register holds codes 0..31 and the upper
 * half codes 32..63, so that blocks of 32 fall together with halves. Codes become float32 by byte table look-ups
 * (vpshufb): one look-up for each byte of the float that is not always zero. All steps stay within halves, which leaves
 * the values in a fixed scattered order; arrange() puts the activations into the same order, once per call.
 */
#include "vec_avx2.h"

enum { CHUNK = 64, CHUNK_BYTES = 32, TILE_M = 6, TILE_N = 16, TILE_K = 256 };

#include "elementwise.h"
#include "kernels.h"
#include "panel.h"
#include "unroll.h"
#include "view.h"

/* ---- decode ---- */

static bool takes_rows(const nib_cpu_weights *w)
{
    return w->bits == 4 && w->block % 32 == 0 && is_row_aligned(w);
}

static size_t chunk_count(const nib_cpu_weights *w)
{
    return (w->K + CHUNK - 1) / CHUNK;
}

static size_t arranged_bytes(const nib_cpu_weights *w)
{
    return sizeof(float) * chunk_count(w) * CHUNK;
}

/* Which code of a chunk lane `lane` of expanded vector `v` holds; see expand_nbits and expand_codebook. */
static size_t code_at(const nib_cpu_weights *w, size_t v, size_t lane)
{
    const size_t group = lane / 4, element = lane % 4;
    if (w->codebook) { /* the even code is in the high nibble, and the high nibbles are vectors 4..7 */
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

/* The values -8..7 have zeros in the lower 16 bits of the float: two look-ups make the upper ones. */
INLINE void expand_nbits_half(const planes *p, __m256i codes, __m256 *v)
{
    const __m256i low = _mm256_shuffle_epi8(p->plane[2], codes), high = _mm256_shuffle_epi8(p->plane[3], codes);
    const __m256i first = _mm256_unpacklo_epi8(low, high), second = _mm256_unpackhi_epi8(low, high);
    const __m256i mask = _mm256_set1_epi32((int)0xffff0000u);
    v[0] = _mm256_castsi256_ps(_mm256_slli_epi32(first, 16));
    v[1] = _mm256_castsi256_ps(_mm256_and_si256(first, mask));
    v[2] = _mm256_castsi256_ps(_mm256_slli_epi32(second, 16));
    v[3] = _mm256_castsi256_ps(_mm256_and_si256(second, mask));
}

INLINE void expand_codebook_half(const planes *p, __m256i codes, __m256 *v)
{
    const __m256i b0 = _mm256_shuffle_epi8(p->plane[0], codes), b1 = _mm256_shuffle_epi8(p->plane[1], codes);
    const __m256i b2 = _mm256_shuffle_epi8(p->plane[2], codes), b3 = _mm256_shuffle_epi8(p->plane[3], codes);
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

/* A stretch of one weight row. */
enum { STRETCH_CHUNKS = 64, STRETCH_SCALES = 2 * STRETCH_CHUNKS };

typedef struct stretch {
    const uint8_t *codes;
    const float *x;      /* arranged */
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
    _mm_prefetch((const char *)((uintptr_t)codes + 1024), _MM_HINT_T0);
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
INLINE __m256 dot_stretch(const planes *p, bool codebook, bool pairs, const stretch *s, __m256 total)
{
    for (size_t c = 0; c < s->chunks; c++) {
        const __m256i bytes = _mm256_loadu_si256((const void *)(s->codes + c * CHUNK_BYTES));
        prefetch(s->codes + c * CHUNK_BYTES);
        const __m256 sum = dot_chunk(p, codebook, bytes, s->x + c * CHUNK);
        total = _mm256_fmadd_ps(sum, scales_of(s, pairs, c), total);
    }
    return total;
}

/* Several activation rows: the scale is applied to the weights. */
INLINE void dot_stretch_rows(const planes *p, bool codebook, const stretch *s, size_t m, __m256 *total)
{
    for (size_t c = 0; c < s->chunks; c++) {
        const __m256i bytes = _mm256_loadu_si256((const void *)(s->codes + c * CHUNK_BYTES));
        prefetch(s->codes + c * CHUNK_BYTES);
        const __m256 scale = scales_of(s, s->pairs, c);
        for (int high = 0; high < 2; high++) {
            __m256 v[4];
            expand_half(p, codebook, bytes, high, v);
            for (int i = 0; i < 4; i++)
                v[i] = _mm256_mul_ps(v[i], scale);
            const float *x = s->x + c * CHUNK * m + high * 32;
            for (size_t row = 0; row < m; row++) {
                for (int i = 0; i < 4; i++)
                    total[row] = _mm256_fmadd_ps(v[i], _mm256_load_ps(x + row * CHUNK + i * 8), total[row]);
            }
        }
    }
}

INLINE float add_lanes(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

/* Scales [first, first + count) of the matrix, as float32: in place, or converted into `copy`. */
static const float *find_scales(const nib_cpu_weights *w, size_t first, size_t count, float *copy)
{
    if (!w->half_scales)
        return (const float *)w->scales + first;
    const uint16_t *from = (const uint16_t *)w->scales + first;
    for (size_t i = 0; i < count; i += LANES)
        store_some(copy, false, i, count, load_some(from, true, i, count));
    return copy;
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

/* A row that ends with half a chunk: its last chunk from a padded copy. */
typedef struct padded_chunk {
    uint8_t codes[CHUNK_BYTES];
    float scales[2];
} padded_chunk;

static stretch tail_of(const stretch *s, size_t m, padded_chunk *copy)
{
    *copy = (padded_chunk){0};
    memcpy(copy->codes, s->codes + s->chunks * CHUNK_BYTES, CHUNK_BYTES / 2);
    copy->scales[0] = nib_load(s->scales, false, s->pairs ? 2 * s->chunks : s->chunks >> s->shift);
    return (stretch){copy->codes, s->x + s->chunks * CHUNK * m, copy->scales, s->pairs, s->shift, 1};
}

/* How the blocks of a matrix lie in chunks. */
static stretch begin_stretch(const nib_cpu_weights *w)
{
    stretch s = {.pairs = w->block == 32};
    while (((size_t)CHUNK << s.shift) < w->block)
        s.shift++;
    return s;
}

/* Dot products of weight row n with m activation rows. */
INLINE void dot_row(const nib_cpu_weights *w, const row_view *view, const planes *p, bool codebook, stretch s,
                           size_t n, const float *arranged, size_t m, __m256 *total)
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
        s.x = arranged + c * CHUNK * m;
        s.chunks = whole - c < STRETCH_CHUNKS ? whole - c : STRETCH_CHUNKS;
        const bool has_tail = whole < chunks && s.chunks < STRETCH_CHUNKS;
        padded_chunk tail;
        for (int part = 0; part <= has_tail; part++) {
            dot(p, codebook, &s, m, total);
            if (part < has_tail)
                s = tail_of(&s, m, &tail);
        }
    }
}

INLINE void decode_as(const nib_cpu_weights *w, bool codebook, const float *arranged, size_t m, size_t n0,
                             size_t n1, float *y, size_t y_stride)
{
    const planes p = cut_planes(w);
    const row_view view = view_rows(w);
    const stretch s = begin_stretch(w);
    for (size_t n = n0; n < n1; n++) {
        __m256 total[NIB_CPU_DECODE_ROWS];
        dot_row(w, &view, &p, codebook, s, n, arranged, m, total);
        for (size_t row = 0; row < m; row++)
            y[row * y_stride + n - n0] = add_lanes(total[row]);
    }
}

/* A constant m and format, so that each has code of its own with its sums in registers. */
#define DECODE_FOR(count)                                                                          \
    case count:                                                                                    \
        if (w->codebook)                                                                           \
            decode_as(w, true, arranged, count, n0, n1, y, y_stride);                              \
        else                                                                                       \
            decode_as(w, false, arranged, count, n0, n1, y, y_stride);                             \
        break

static void decode(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1, float *y,
                   size_t y_stride)
{
    switch (m) {
        DECODE_FOR(1);
        DECODE_FOR(2);
        DECODE_FOR(3);
        DECODE_FOR(4);
        DECODE_FOR(5);
        DECODE_FOR(6);
        DECODE_FOR(7);
        DECODE_FOR(8);
    }
}

/* ---- prefill: panels ---- */

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

static panel_rows find_rows(const nib_cpu_weights *w, size_t n0)
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

/* `count` words (1..8) of the eight rows, from byte `offset` of each; no byte beyond them is read. */
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

/* Codes of one word of eight rows, times their scales, to 32 / bits lines of the panel. */
INLINE void expand_word_nbits(__m256i word, int bits, __m256 scale, size_t lines, float *out)
{
    const uint32_t flip = bits == 2 ? 0xaaaaaaaau : bits == 4 ? 0x88888888u : 0x80808080u;
    word = _mm256_xor_si256(word, _mm256_set1_epi32((int)flip)); /* code - middle, as a signed number of `bits` bits */
    for (int j = 0; j < 32 / bits; j++) {
        if ((size_t)j >= lines)
            break;
        const __m256i value = _mm256_srai_epi32(_mm256_slli_epi32(word, 32 - bits * (j + 1)), 32 - bits);
        _mm256_store_ps(out + j * TILE_N, _mm256_mul_ps(_mm256_cvtepi32_ps(value), scale));
    }
}

INLINE void expand_word_codebook(__m256i word, __m256 low, __m256 high, __m256 scale, float *out)
{
    for (int j = 0; j < 8; j++) {
        const int shift = j / 2 * 8 + (j % 2 ? 0 : 4);
        const __m256i index = _mm256_srli_epi32(word, shift); /* the look-up reads its lowest 3 bits */
        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(word, 28 - shift));
        const __m256 value = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index),
                                              upper);
        _mm256_store_ps(out + j * TILE_N, _mm256_mul_ps(value, scale));
    }
}

INLINE void panel_of_eight(const nib_cpu_weights *w, int bits, bool codebook, size_t n0, size_t k0, size_t kc,
                                  float *out)
{
    const panel_rows rows = find_rows(w, n0);
    const size_t per_word = 32 / (size_t)bits;
    const __m256 low = codebook ? _mm256_loadu_ps(w->codebook) : _mm256_setzero_ps();
    const __m256 high = codebook ? _mm256_loadu_ps(w->codebook + 8) : _mm256_setzero_ps();
    __m256 scale = _mm256_setzero_ps();
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

INLINE void tile_of(size_t rows, size_t kc, const float *a, const float *weights, float *c, bool accumulate)
{
    __m256 sums[TILE_M][2];
    UNROLL for (size_t i = 0; i < rows; i++)
        sums[i][0] = sums[i][1] = _mm256_setzero_ps();
    for (size_t k = 0; k < kc; k++) {
        const __m256 left = _mm256_load_ps(weights + k * TILE_N), right = _mm256_load_ps(weights + k * TILE_N + 8);
        UNROLL for (size_t i = 0; i < rows; i++) {
            const __m256 x = _mm256_broadcast_ss(a + k * TILE_M + i);
            sums[i][0] = _mm256_fmadd_ps(x, left, sums[i][0]);
            sums[i][1] = _mm256_fmadd_ps(x, right, sums[i][1]);
        }
    }
    UNROLL for (size_t i = 0; i < rows; i++) {
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

static void tile(size_t rows, size_t kc, const void *a, const void *weights, float *c, bool accumulate)
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

static bool takes_all(const nib_cpu_weights *w)
{
    (void)w;
    return true;
}

static const nib_cpu_gemv gemv = {
    .takes = takes_rows,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange,
    .decode = decode,
};

static const nib_cpu_gemm gemm = {
    .takes = takes_all,
    .tile_m = TILE_M,
    .tile_n = TILE_N,
    .tile_k = TILE_K,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .panel_bytes = panel_bytes,
    .panel = panel,
    .tile = tile,
};

const nib_cpu_row nib_cpu_avx2 = {
    .name = "avx2",
    .needs = NIB_CPU_AVX2,
    .normalize = normalize,
    .finish = finish,
    .dequantize = nib_scalar_dequantize,
    .gemv = &gemv,
    .gemm = &gemm,
};
