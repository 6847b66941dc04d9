/* SPDX-License-Identifier: Apache-2.0
 *
 * Float32 prefill with bfloat16 tiles. An activation is cut into three bfloat16 numbers of 8
 * significant bits each, which together are exactly it; a code minus its middle is one exactly, and
 * a codebook value is three. Products are summed in float32 over a block, then scaled. So the
 * result has the accuracy of float32; of the nine products of a codebook the three smallest, below
 * 2^-24 of the largest, are left out.
 *
 * Tiles flush numbers below 2^-126, and know no scale that a block's sum could overflow with.
 * Activation rows are therefore brought to a largest magnitude of about 1 by a power of two, slice
 * by slice; what is not finite or spans too many powers of two, and weights with extreme scales, go
 * the plain way: the same data, multiplied and summed by vectors, one weight at a time.
 *
 * Included with WEIGHT_PARTS (1: nbits, 3: codebook), TILE_N and TILE_K.
 */
#include "amx.h"

enum { PARTS = 3, COLUMN_TILES = TILE_N / SIDE, GROUPS = TILE_K / GROUP_K };

/* One slice of 16 activation rows. */
typedef struct packed_rows {
    uint16_t parts[GROUPS][PARTS][SIDE][GROUP_K];
    float factor[SIDE]; /* power of two that the row was divided by */
    bool plain;         /* then float32 activations [kc][SIDE] lie where `parts` is */
} packed_rows;

typedef struct weight_column { /* 16 weight rows */
    uint16_t parts[GROUPS][WEIGHT_PARTS][GROUP_K / 2][SIDE][2];
    float scale[GROUPS][SIDE];
} weight_column;

typedef struct weight_panel {
    weight_column columns[COLUMN_TILES];
    size_t span; /* groups of a block, at most those of a slice */
    bool plain;
} weight_panel;

static bool takes_whole_groups(const nib_cpu_weights *w)
{
    return (w->codebook != NULL) == (WEIGHT_PARTS > 1) && has_whole_words(w) &&
           w->block % GROUP_K == 0 && (w->block & (w->block - 1)) == 0;
}

static size_t packed_bytes(size_t kc)
{
    (void)kc;
    return sizeof(packed_rows);
}

static size_t panel_bytes(size_t kc)
{
    (void)kc;
    return sizeof(weight_panel);
}

/* ---- activations ---- */

/* Whether three bfloat16 parts hold a row, whose power of two is then set. */
static bool find_factor(const float *x, size_t count, float *factor)
{
    const __m512 infinity = _mm512_set1_ps(INFINITY);
    __m512 largest = _mm512_setzero_ps(), least = infinity;
    __mmask16 bad = 0;
    for (size_t k = 0; k < count; k += 16) {
        const __mmask16 mask = (__mmask16)(count - k < 16 ? (1u << (count - k)) - 1 : 0xffffu);
        const __m512 v = _mm512_abs_ps(_mm512_maskz_loadu_ps(mask, x + k));
        const __mmask16 zero = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ);
        bad = (__mmask16)(bad | _mm512_cmp_ps_mask(v, infinity, _CMP_NLT_UQ));
        largest = _mm512_max_ps(largest, v);
        least = _mm512_mask_min_ps(least, (__mmask16)~zero, least, v);
    }
    const float high = _mm512_reduce_max_ps(largest), low = _mm512_reduce_min_ps(least);
    *factor = 1;
    if (bad || high >= 0x1p100f)
        return false;
    if (high == 0)
        return true;
    if (high < 0x1p-100f || low < high * 0x1p-90f)
        return false;
    const uint32_t bits = nib_bits_of_float(high) & 0x7f800000u;
    memcpy(factor, &bits, sizeof bits);
    return true;
}

/* The upper halves of 32 floats. */
INLINE __m512i upper_halves(__m512 low, __m512 high)
{
    const __m512i odd =
        _mm512_setr_epi32(0x00030001, 0x00070005, 0x000b0009, 0x000f000d, 0x00130011, 0x00170015,
                          0x001b0019, 0x001f001d, 0x00230021, 0x00270025, 0x002b0029, 0x002f002d,
                          0x00330031, 0x00370035, 0x003b0039, 0x003f003d);
    return _mm512_permutex2var_epi16(_mm512_castps_si512(low), odd, _mm512_castps_si512(high));
}

INLINE __m512 upper_part(__m512 v)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int)0xffff0000u)));
}

/* 32 activations of row i, `count` of them real, times `inverse`. */
INLINE void cut_group(const float *x, size_t count, float inverse, size_t i,
                      uint16_t parts[PARTS][SIDE][GROUP_K])
{
    const __mmask32 mask = count < GROUP_K ? (1u << count) - 1 : 0xffffffffu;
    __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, x),
           high = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), x + 16);
    low = _mm512_mul_ps(low, _mm512_set1_ps(inverse));
    high = _mm512_mul_ps(high, _mm512_set1_ps(inverse));
    UNROLL
    for (size_t p = 0; p < PARTS; p++) {
        _mm512_store_si512(parts[p][i], upper_halves(low, high));
        low = _mm512_sub_ps(low, upper_part(low));
        high = _mm512_sub_ps(high, upper_part(high));
    }
}

static void pack_plain(const float *x, size_t rows, size_t stride, size_t kc, packed_rows *to)
{
    float *out = (float *)(void *)to->parts;
    to->plain = true;
    for (size_t k = 0; k < kc; k++) {
        for (size_t i = 0; i < SIDE; i++)
            *out++ = i < rows ? x[i * stride + k] : 0;
    }
}

static void pack(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride, size_t kc,
                 void *packed)
{
    (void)w;
    packed_rows *to = packed;
    const size_t groups = group_count(kc);
    to->plain = false;
    for (size_t i = 0; i < SIDE; i++) {
        to->factor[i] = 1;
        if (i < rows && !find_factor(x + i * stride, kc, &to->factor[i])) {
            pack_plain(x, rows, stride, kc, to);
            return;
        }
        for (size_t g = 0; g < groups; g++) {
            const size_t k = g * GROUP_K, left = kc - k < GROUP_K ? kc - k : GROUP_K;
            cut_group(x + (i < rows ? i * stride + k : 0), i < rows ? left : 0, 1 / to->factor[i],
                      i, to->parts[g]);
        }
    }
}

/* ---- weights ---- */

/* bfloat16 values by code, twice, as the look-up reads five bits. Codes of two bits: every fourth.
 */
static __m512i cut_table(const nib_cpu_weights *w, size_t part)
{
    uint16_t table[32];
    for (int code = 0; code < 32; code++) {
        float value = w->codebook ? w->codebook[code % 16]
                                  : (float)(code % (1 << w->bits) - (1 << w->bits) / 2);
        for (size_t p = 0; p < part; p++)
            value -= nib_float_of_bits(nib_bits_of_float(value) & 0xffff0000u);
        table[code] = (uint16_t)(nib_bits_of_float(value) >> 16);
    }
    return _mm512_loadu_si512(table);
}

/* Codes 2p and 2p + 1 of each word to the lower and upper half of it: their lowest bits. */
INLINE __m512i two_codes(__m512i words, int bits, bool codebook, int p)
{
    const int even = codebook ? 8 * p + 4 : 2 * bits * p, odd = codebook ? 8 * p : even + bits;
    const __m512i upper = odd <= 16 ? _mm512_slli_epi32(words, (unsigned)(16 - odd))
                                    : _mm512_srli_epi32(words, (unsigned)(odd - 16));
    return _mm512_mask_mov_epi16(_mm512_srli_epi32(words, (unsigned)even), 0xaaaaaaaau, upper);
}

/* The same of 8-bit codes, as bfloat16: code - 128 has 8 significant bits. */
INLINE __m512i two_bytes(__m512i words, int p)
{
    const __m512i flipped = _mm512_xor_si512(words, _mm512_set1_epi32((int)0x80808080u));
    const __m512 even = _mm512_cvtepi32_ps(
        _mm512_srai_epi32(_mm512_slli_epi32(flipped, (unsigned)(24 - 16 * p)), 24));
    const __m512 odd = _mm512_cvtepi32_ps(
        _mm512_srai_epi32(_mm512_slli_epi32(flipped, (unsigned)(16 - 16 * p)), 24));
    return _mm512_or_si512(_mm512_castps_si512(odd),
                           _mm512_srli_epi32(_mm512_castps_si512(even), 16));
}

INLINE void fill_column(const nib_cpu_weights *w, int bits, const panel_rows *rows, size_t k0,
                        size_t kc, weight_column *to)
{
    const int per_word = 32 / bits;
    const size_t padded = group_count(kc) * GROUP_K;
    __m512i table[WEIGHT_PARTS];
    UNROLL
    for (size_t p = 0; p < WEIGHT_PARTS; p++)
        table[p] = bits < 8 ? cut_table(w, p) : _mm512_setzero_si512();
    for (size_t k = 0; k < kc; k += WORDS * (size_t)per_word) {
        const size_t left = (kc - k + (size_t)per_word - 1) / (size_t)per_word;
        __m512i words[WORDS];
        load_words(rows, (k0 + k) / (size_t)per_word, left < WORDS ? left : WORDS, words);
        for (size_t i = 0; i < WORDS && k + i * (size_t)per_word < padded; i++) {
            const size_t at = k + i * (size_t)per_word, g = at / GROUP_K;
            UNROLL
            for (int p = 0; p < per_word / 2; p++) {
                const size_t pair = at % GROUP_K / 2 + (size_t)p;
                if (bits == 8) {
                    _mm512_store_si512(to->parts[g][0][pair], two_bytes(words[i], p));
                    continue;
                }
                const __m512i codes = two_codes(words[i], bits, WEIGHT_PARTS > 1, p);
                UNROLL
                for (size_t part = 0; part < WEIGHT_PARTS; part++)
                    _mm512_store_si512(to->parts[g][part][pair],
                                       _mm512_permutexvar_epi16(codes, table[part]));
            }
        }
    }
}

/* Scales that a block's sum can be multiplied by instead of each weight. */
INLINE bool are_moderate(__m512 scales)
{
    const __m512 v = _mm512_abs_ps(scales);
    const __mmask16 inside = _mm512_cmp_ps_mask(v, _mm512_set1_ps(0x1p-80f), _CMP_GE_OQ) &
                             _mm512_cmp_ps_mask(v, _mm512_set1_ps(0x1p80f), _CMP_LE_OQ);
    return (inside | _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ)) == 0xffff;
}

static void panel(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *out)
{
    weight_panel *to = out;
    const size_t block_groups = w->block / GROUP_K;
    to->span = block_groups < GROUPS ? block_groups : GROUPS;
    to->plain = false;
    for (size_t j = 0; j < COLUMN_TILES; j++) {
        const panel_rows rows = find_rows(w, n0 + j * SIDE);
        weight_column *column = &to->columns[j];
        prefetch_words(&rows, (k0 + kc) * (size_t)w->bits / 8, kc * (size_t)w->bits / 8);
        if (WEIGHT_PARTS > 1 || w->bits == 4)
            fill_column(w, 4, &rows, k0, kc, column);
        else if (w->bits == 2)
            fill_column(w, 2, &rows, k0, kc, column);
        else
            fill_column(w, 8, &rows, k0, kc, column);
        for (size_t g = 0; g < group_count(kc); g++) {
            const __m512 scale = block_scales(w, &rows, (k0 + g * GROUP_K) / w->block);
            _mm512_store_ps(column->scale[g], scale);
            to->plain |= !are_moderate(scale);
        }
    }
}

/* ---- tiles ---- */

/* Products of the activations in tiles 2 to 4 with group g of a column. */
#if WEIGHT_PARTS > 1
#define MULTIPLY_COLUMN(sums, column, g)                                                           \
    do {                                                                                           \
        _tile_loadd(1, (column).parts[g][0], 4 * SIDE);                                            \
        _tile_dpbf16ps(sums, 2, 1);                                                                \
        _tile_dpbf16ps(sums, 3, 1);                                                                \
        _tile_dpbf16ps(sums, 4, 1);                                                                \
        _tile_loadd(1, (column).parts[g][1], 4 * SIDE);                                            \
        _tile_dpbf16ps(sums, 2, 1);                                                                \
        _tile_dpbf16ps(sums, 3, 1);                                                                \
        _tile_loadd(1, (column).parts[g][2], 4 * SIDE);                                            \
        _tile_dpbf16ps(sums, 2, 1);                                                                \
    } while (0)
#else
#define MULTIPLY_COLUMN(sums, column, g)                                                           \
    do {                                                                                           \
        _tile_loadd(1, (column).parts[g][0], 4 * SIDE);                                            \
        _tile_dpbf16ps(sums, 2, 1);                                                                \
        _tile_dpbf16ps(sums, 3, 1);                                                                \
        _tile_dpbf16ps(sums, 4, 1);                                                                \
    } while (0)
#endif

#define LOAD_ROWS(a, g)                                                                            \
    do {                                                                                           \
        _tile_loadd(2, (a)->parts[g][0], 2 * GROUP_K);                                             \
        _tile_loadd(3, (a)->parts[g][1], 2 * GROUP_K);                                             \
        _tile_loadd(4, (a)->parts[g][2], 2 * GROUP_K);                                             \
    } while (0)

#include "amx_steps.h"

INLINE void add_scaled(const packed_rows *a, const step *s, size_t j, const void *sums)
{
    const float *block_sums = sums;
    const __m512 scale = _mm512_load_ps(s->b[j].scale[s->g]);
    float *c = s->c + j * SIDE;
    UNROLL
    for (size_t i = 0; i < SIDE; i++) {
        const __m512 before = s->accumulate ? _mm512_load_ps(c + i * TILE_N) : _mm512_setzero_ps();
        const __m512 scaled = _mm512_mul_ps(_mm512_load_ps(block_sums + i * SIDE), scale);
        _mm512_store_ps(c + i * TILE_N,
                        _mm512_fmadd_ps(scaled, _mm512_set1_ps(a->factor[i]), before));
    }
}

static void tile_of_columns(const packed_rows *a, const weight_panel *b, size_t groups, float *c,
                            bool accumulate)
{
    step steps[COLUMN_TILES / 2 * GROUPS];
    size_t count = 0;
    for (size_t j = 0; j < COLUMN_TILES; j += 2) {
        for (size_t g = 0; g < groups; g += b->span)
            steps[count++] = (step){&b->columns[j], g, g + b->span < groups ? g + b->span : groups,
                                    c + j * SIDE, accumulate || g > 0};
    }
    run_steps(a, steps, count);
}

static float activation(const packed_rows *a, size_t k, size_t i)
{
    if (a->plain)
        return ((const float *)(const void *)a->parts)[k * SIDE + i];
    float sum = 0;
    for (size_t p = 0; p < PARTS; p++)
        sum += nib_float_of_bits((uint32_t)a->parts[k / GROUP_K][p][i][k % GROUP_K] << 16);
    return sum * a->factor[i];
}

/* Weight k of 16 rows, scaled. */
static __m512 plain_weights(const weight_column *b, size_t k)
{
    const size_t g = k / GROUP_K, pair = k % GROUP_K / 2;
    __m512 value = _mm512_setzero_ps();
    for (size_t p = 0; p < WEIGHT_PARTS; p++) {
        const __m512i two = _mm512_load_si512(b->parts[g][p][pair]);
        const __m512 part = k % 2 ? upper_part(_mm512_castsi512_ps(two))
                                  : _mm512_castsi512_ps(_mm512_slli_epi32(two, 16));
        value = _mm512_add_ps(value, part);
    }
    return _mm512_mul_ps(value, _mm512_load_ps(b->scale[g]));
}

static void plain_tile(const packed_rows *a, const weight_column *b, size_t kc, size_t rows,
                       float *c, bool accumulate)
{
    for (size_t i = 0; i < rows; i++) {
        __m512 sum = _mm512_setzero_ps();
        for (size_t k = 0; k < kc; k++)
            sum = _mm512_fmadd_ps(_mm512_set1_ps(activation(a, k, i)), plain_weights(b, k), sum);
        if (accumulate)
            sum = _mm512_add_ps(sum, _mm512_load_ps(c + i * TILE_N));
        _mm512_store_ps(c + i * TILE_N, sum);
    }
}

static void tile(size_t rows, size_t kc, const void *packed, const void *weights, float *c,
                 bool accumulate)
{
    const packed_rows *a = packed;
    const weight_panel *b = weights;
    if (!a->plain && !b->plain) {
        tile_of_columns(a, b, group_count(kc), c, accumulate);
        return;
    }
    for (size_t j = 0; j < COLUMN_TILES; j++)
        plain_tile(a, &b->columns[j], kc, rows, c + j * SIDE, accumulate);
}

static void begin_tiles(void)
{
    static const tile_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    load_config(&config);
}

#define DEFINE_AMX_GEMM(name)                                                                      \
    const nib_cpu_gemm name = {                                                                    \
        .takes = takes_whole_groups,                                                               \
        .tile_m = SIDE,                                                                            \
        .tile_n = TILE_N,                                                                          \
        .tile_k = TILE_K,                                                                          \
        .group_n = AMX_GROUP_N,                                                                    \
        .packed_bytes = packed_bytes,                                                              \
        .pack = pack,                                                                              \
        .panel_bytes = panel_bytes,                                                                \
        .panel = panel,                                                                            \
        .tile = tile,                                                                              \
        .begin = begin_tiles,                                                                      \
        .end = release_tiles,                                                                      \
    }
