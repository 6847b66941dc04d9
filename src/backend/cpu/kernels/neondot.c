/* SPDX-License-Identifier: Apache-2.0
 *
 * The NEON row, for AArch64 with the dot product instructions.
 *
 * Decode works on chunks of 32 four-bit codes, 16 bytes, which is at most one block. Codes become
 * float32 by byte table look-ups, one for each byte of the float that is not always zero; arrange()
 * puts the activations into the order in which that yields codes: the low nibbles first, then the
 * high ones.
 */
#include "vec_neon.h"

enum { CHUNK = 32, CHUNK_BYTES = 16, TILE_M = 8, TILE_N = 12, TILE_K = 256 };

#define DEQUANTIZE nib_scalar_dequantize

#include "elementwise.h"
#include "by_rows.h"
#include "int8.h"
#include "kernels.h"
#include "panel.h"
#include "unroll.h"
#include "view.h"

/* ---- decode ---- */

static bool takes_rows(const nib_cpu_weights *w)
{
    return w->bits == 4 && w->block % CHUNK == 0 && is_row_aligned(w);
}

static size_t chunk_count(const nib_cpu_weights *w)
{
    return (w->K + CHUNK - 1) / CHUNK;
}

static size_t arranged_bytes(const nib_cpu_weights *w)
{
    return chunk_count(w) * CHUNK * sizeof(float);
}

static void arrange(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    float *to = arranged;
    const size_t low = w->codebook ? 1 : 0; /* which of the two codes of a byte the low nibble is */
    for (size_t k0 = 0; k0 < w->K; k0 += CHUNK) {
        for (size_t row = 0; row < m; row++) {
            for (size_t i = 0; i < CHUNK; i++) {
                const size_t k = k0 + i % CHUNK_BYTES * 2 + (i < CHUNK_BYTES ? low : 1 - low);
                *to++ = k < w->K ? x[row * w->K + k] : 0;
            }
        }
    }
}

/* The 16 values of a code, cut into bytes: plane[b] holds byte b of each. */
typedef struct planes {
    uint8x16_t plane[4];
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
        p.plane[b] = vld1q_u8(bytes);
    }
    return p;
}

/* 16 codes -> 4 vectors of values. */
INLINE void expand(const planes *p, bool codebook, uint8x16_t codes, vec *v)
{
    const uint8x16_t b2 = vqtbl1q_u8(p->plane[2], codes), b3 = vqtbl1q_u8(p->plane[3], codes);
    const uint16x8_t high0 = vreinterpretq_u16_u8(vzip1q_u8(b2, b3)),
                     high1 = vreinterpretq_u16_u8(vzip2q_u8(b2, b3));
    if (!codebook) { /* -8..7 have zeros in the lower 16 bits of the float */
        v[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high0), 16));
        v[1] = vreinterpretq_f32_u32(vshll_high_n_u16(high0, 16));
        v[2] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high1), 16));
        v[3] = vreinterpretq_f32_u32(vshll_high_n_u16(high1, 16));
        return;
    }
    const uint8x16_t b0 = vqtbl1q_u8(p->plane[0], codes), b1 = vqtbl1q_u8(p->plane[1], codes);
    const uint16x8_t low0 = vreinterpretq_u16_u8(vzip1q_u8(b0, b1)),
                     low1 = vreinterpretq_u16_u8(vzip2q_u8(b0, b1));
    v[0] = vreinterpretq_f32_u16(vzip1q_u16(low0, high0));
    v[1] = vreinterpretq_f32_u16(vzip2q_u16(low0, high0));
    v[2] = vreinterpretq_f32_u16(vzip1q_u16(low1, high1));
    v[3] = vreinterpretq_f32_u16(vzip2q_u16(low1, high1));
}

/* Dot products of one weight row with m activation rows. */
INLINE void dot_row(const nib_cpu_weights *w, const row_view *view, const planes *p, bool codebook,
                    size_t n, const float *x, size_t m, vec *total)
{
    const uint8_t *codes = view->codes + n * view->row_bytes;
    UNROLL
    for (size_t row = 0; row < NIB_CPU_DECODE_ROWS; row++)
        total[row] = vec_set(0);
    for (size_t c = 0; c < chunk_count(w); c++, x += m * CHUNK) {
        const uint8x16_t bytes = vld1q_u8(codes + c * CHUNK_BYTES);
        const vec scale = vec_set(
            nib_load(w->scales, w->half_scales, n * view->row_scales + c * CHUNK / w->block));
        vec v[8];
        expand(p, codebook, vandq_u8(bytes, vdupq_n_u8(15)), v);
        expand(p, codebook, vshrq_n_u8(bytes, 4), v + 4);
        UNROLL
        for (size_t row = 0; row < m; row++) {
            vec sums[2] = {vec_mul(v[0], vec_load(x + row * CHUNK)),
                           vec_mul(v[1], vec_load(x + row * CHUNK + LANES))};
            UNROLL
            for (size_t i = 2; i < 8; i++)
                sums[i % 2] = vec_fma(v[i], vec_load(x + row * CHUNK + i * LANES), sums[i % 2]);
            total[row] = vec_fma(vec_add(sums[0], sums[1]), scale, total[row]);
        }
    }
}

INLINE void decode_as(const nib_cpu_weights *w, bool codebook, const float *arranged, size_t m,
                      size_t n0, size_t n1, float *y, size_t y_stride)
{
    const planes p = cut_planes(w);
    const row_view view = view_rows(w);
    for (size_t n = n0; n < n1; n++) {
        vec total[NIB_CPU_DECODE_ROWS];
        dot_row(w, &view, &p, codebook, n, arranged, m, total);
        for (size_t row = 0; row < m; row++)
            y[row * y_stride + n - n0] = vaddvq_f32(total[row]);
    }
}

#define DECODE_FOR(count)                                                                          \
    case count:                                                                                    \
        if (w->codebook)                                                                           \
            decode_as(w, true, arranged, count, n0, n1, y, y_stride);                              \
        else                                                                                       \
            decode_as(w, false, arranged, count, n0, n1, y, y_stride);                             \
        break

static void decode(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                   float *y, size_t y_stride)
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

static const nib_cpu_gemv gemv = {
    .takes = takes_rows,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange,
    .decode = decode,
};

static const nib_cpu_gemv rows_gemv = {
    .takes = takes_any,
    .arranged_bytes = by_rows_bytes,
    .arrange = by_rows_arrange,
    .decode = by_rows_decode,
};

/* ---- prefill ---- */

/* Four weight rows of a panel; rows past the end repeat the last one with a scale of zero. */
typedef struct panel_rows {
    const uint8_t *codes[4];
    size_t scale[4];
    size_t valid;
} panel_rows;

static panel_rows find_rows(const nib_cpu_weights *w, size_t n0)
{
    const row_view view = view_rows(w);
    panel_rows rows;
    rows.valid = n0 >= w->N ? 0 : w->N - n0 < 4 ? w->N - n0 : 4;
    for (size_t i = 0; i < 4; i++) {
        const size_t n = n0 + i < w->N ? n0 + i : w->N - 1;
        rows.codes[i] = view.codes + n * view.row_bytes;
        rows.scale[i] = n * view.row_scales;
    }
    return rows;
}

static vec block_scales(const nib_cpu_weights *w, const panel_rows *rows, size_t block)
{
    float scales[4] = {0};
    for (size_t i = 0; i < rows->valid; i++)
        scales[i] = nib_load(w->scales, w->half_scales, rows->scale[i] + block);
    return vec_load(scales);
}

/* The word at byte `offset` of each of the four rows. */
static uint32x4_t load_word(const panel_rows *rows, size_t offset)
{
    uint32_t words[4];
    for (size_t i = 0; i < 4; i++)
        memcpy(&words[i], rows->codes[i] + offset, 4);
    return vld1q_u32(words);
}

/* The code at bit `shift` of each word as a float32, before scaling. `table` is a codebook as
 * bytes, or NULL. */
static vec expand_word(uint32x4_t words, int bits, unsigned shift, const uint8x16x4_t *table)
{
    const uint32x4_t code =
        vandq_u32(vshlq_u32(words, vdupq_n_s32(-(int32_t)shift)), vdupq_n_u32((1u << bits) - 1));
    if (!table)
        return vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(code), vdupq_n_s32(1 << (bits - 1))));
    const uint32x4_t index = vmlaq_u32(vdupq_n_u32(0x03020100u), code, vdupq_n_u32(0x04040404u));
    return vreinterpretq_f32_u8(vqtbl4q_u8(*table, vreinterpretq_u8_u32(index)));
}

static void panel_of_four(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, float *out)
{
    const panel_rows rows = find_rows(w, n0);
    const size_t per_word = 32 / (size_t)w->bits;
    uint8x16x4_t table = {{vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)}};
    for (size_t i = 0; w->codebook && i < 4; i++)
        table.val[i] = vreinterpretq_u8_f32(vec_load(w->codebook + 4 * i));
    vec scale = vec_set(0);
    for (size_t k = 0; k < kc; k += per_word) {
        const uint32x4_t words = load_word(&rows, (k0 + k) / per_word * 4);
        if (k == 0 || (k0 + k) % w->block == 0)
            scale = block_scales(w, &rows, (k0 + k) / w->block);
        for (size_t j = 0; j < per_word && k + j < kc; j++) {
            const unsigned shift =
                (unsigned)(w->codebook ? j / 2 * 8 + (j % 2 ? 0 : 4) : j * (size_t)w->bits);
            vec_store(
                out + (k + j) * TILE_N,
                vec_mul(expand_word(words, w->bits, shift, w->codebook ? &table : NULL), scale));
        }
    }
}

static void panel(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *to)
{
    if (!has_whole_words(w)) {
        panel_by_rows(w, n0, k0, kc, to);
        return;
    }
    for (size_t j = 0; j < TILE_N; j += 4)
        panel_of_four(w, n0 + j, k0, kc, (float *)to + j);
}

/* All eight rows are computed: those past the end are zeros, and there is room for their sums. */
static void tile(size_t rows, size_t kc, const void *packed, const void *panel_of, float *c,
                 bool accumulate)
{
    (void)rows;
    const float *a = packed, *weights = panel_of;
    vec sums[TILE_M][3];
    UNROLL
    for (int i = 0; i < TILE_M; i++)
        sums[i][0] = sums[i][1] = sums[i][2] = vec_set(0);
    for (size_t k = 0; k < kc; k++) {
        const vec low = vec_load(a + k * TILE_M), high = vec_load(a + k * TILE_M + 4);
        UNROLL
        for (int j = 0; j < 3; j++) {
            const vec v = vec_load(weights + k * TILE_N + 4 * j);
            sums[0][j] = vfmaq_laneq_f32(sums[0][j], v, low, 0);
            sums[1][j] = vfmaq_laneq_f32(sums[1][j], v, low, 1);
            sums[2][j] = vfmaq_laneq_f32(sums[2][j], v, low, 2);
            sums[3][j] = vfmaq_laneq_f32(sums[3][j], v, low, 3);
            sums[4][j] = vfmaq_laneq_f32(sums[4][j], v, high, 0);
            sums[5][j] = vfmaq_laneq_f32(sums[5][j], v, high, 1);
            sums[6][j] = vfmaq_laneq_f32(sums[6][j], v, high, 2);
            sums[7][j] = vfmaq_laneq_f32(sums[7][j], v, high, 3);
        }
    }
    UNROLL
    for (int i = 0; i < TILE_M; i++) {
        UNROLL
        for (int j = 0; j < 3; j++) {
            float *to = c + i * TILE_N + 4 * j;
            vec_store(to, accumulate ? vec_add(vec_load(to), sums[i][j]) : sums[i][j]);
        }
    }
}

static const nib_cpu_gemm gemm = {
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

/* ---- int8 activations; the products are of signed bytes, so codes become code - 8 and need no
 * correction ---- */

typedef struct chunk8 {
    int8_t low[CHUNK_BYTES], high[CHUNK_BYTES];
    float scale;
} chunk8;

static size_t arranged8_bytes(const nib_cpu_weights *w)
{
    return chunk_count(w) * sizeof(chunk8);
}

static void arrange8(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    chunk8 *to = arranged;
    for (size_t row = 0; row < m; row++) {
        for (size_t k = 0; k < w->K; k += w->block) {
            int8_group groups[INT8_MAX_BLOCK / GROUP];
            const size_t made = quantize_block(x + row * w->K + k,
                                               w->K - k < w->block ? w->K - k : w->block, groups);
            for (size_t g = 0; g < made; g++) {
                chunk8 *chunk = &to[(k / GROUP + g) * m + row];
                for (size_t i = 0; i < CHUNK_BYTES; i++) {
                    chunk->low[i] = groups[g].q[2 * i];
                    chunk->high[i] = groups[g].q[2 * i + 1];
                }
                chunk->scale = groups[g].scale;
            }
        }
    }
}

static int8x16_t signed_codes(uint8x16_t codes)
{
    return vsubq_s8(vreinterpretq_s8_u8(codes), vdupq_n_s8(8));
}

static void decode8(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                    float *y, size_t y_stride)
{
    const row_view view = view_rows(w);
    for (size_t n = n0; n < n1; n++) {
        const uint8_t *codes = view.codes + n * view.row_bytes;
        const chunk8 *x = arranged;
        vec total[NIB_CPU_DECODE_ROWS];
        for (size_t row = 0; row < m; row++)
            total[row] = vec_set(0);
        for (size_t c = 0; c < chunk_count(w); c++, x += m) {
            const uint8x16_t bytes = vld1q_u8(codes + c * CHUNK_BYTES);
            const int8x16_t low = signed_codes(vandq_u8(bytes, vdupq_n_u8(15))),
                            high = signed_codes(vshrq_n_u8(bytes, 4));
            const float scale =
                nib_load(w->scales, w->half_scales, n * view.row_scales + c * CHUNK / w->block);
            for (size_t row = 0; row < m; row++) {
                int32x4_t sum = vdotq_s32(vdupq_n_s32(0), low, vld1q_s8(x[row].low));
                sum = vdotq_s32(sum, high, vld1q_s8(x[row].high));
                total[row] = vec_fma(vcvtq_f32_s32(sum), vec_set(scale * x[row].scale), total[row]);
            }
        }
        for (size_t row = 0; row < m; row++)
            y[row * y_stride + n - n0] = vaddvq_f32(total[row]);
    }
}

static const nib_cpu_gemv gemv8 = {
    .takes = takes_int8,
    .arranged_bytes = arranged8_bytes,
    .arrange = arrange8,
    .decode = decode8,
};

/* A group is 8 steps of 4 codes. A word of 8 codes gives two steps: its low nibbles (codes 0, 2, 4,
 * 6) and its high nibbles (1, 3, 5, 7). */
enum { STEPS = 8 };

typedef struct packed_group {
    int8_t q[STEPS][TILE_M][4];
    float scale[TILE_M];
} packed_group;

typedef struct panel_group {
    int8_t codes[STEPS][TILE_N][4];
    float scale[TILE_N];
} panel_group;

static size_t packed8_bytes(size_t kc)
{
    return (kc + GROUP - 1) / GROUP * sizeof(packed_group);
}

static size_t panel8_bytes(size_t kc)
{
    return (kc + GROUP - 1) / GROUP * sizeof(panel_group);
}

static void pack8(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride, size_t kc,
                  void *packed)
{
    packed_group *to = packed;
    memset(to, 0, packed8_bytes(kc)); /* rows past the end */
    for (size_t row = 0; row < rows; row++) {
        for (size_t k = 0; k < kc; k += w->block) {
            int8_group groups[INT8_MAX_BLOCK / GROUP];
            const size_t made =
                quantize_block(x + row * stride + k, kc - k < w->block ? kc - k : w->block, groups);
            for (size_t g = 0; g < made; g++) {
                packed_group *group = &to[k / GROUP + g];
                for (size_t i = 0; i < GROUP; i++)
                    group->q[i / 8 * 2 + i % 2][row][i % 8 / 2] = groups[g].q[i];
                group->scale[row] = groups[g].scale;
            }
        }
    }
}

static void panel8_of_four(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, size_t first,
                           panel_group *to)
{
    const panel_rows rows = find_rows(w, n0 + first);
    for (size_t k = 0; k < kc; k += GROUP) {
        panel_group *group = &to[k / GROUP];
        vec_store(group->scale + first, block_scales(w, &rows, (k0 + k) / w->block));
        for (size_t word = 0; word < STEPS / 2;
             word++) { /* blocks are whole groups, so the words are there */
            const uint8x16_t bytes =
                vreinterpretq_u8_u32(load_word(&rows, (k0 + k) / 2 + 4 * word));
            vst1q_s8(group->codes[2 * word][first], signed_codes(vandq_u8(bytes, vdupq_n_u8(15))));
            vst1q_s8(group->codes[2 * word + 1][first], signed_codes(vshrq_n_u8(bytes, 4)));
        }
    }
}

static void panel8(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *panel_of)
{
    for (size_t first = 0; first < TILE_N; first += 4)
        panel8_of_four(w, n0, k0, kc, first, panel_of);
}

static void tile8_group(const packed_group *a, const panel_group *b, float *c, bool accumulate)
{
    int32x4_t sums[TILE_M][3];
    UNROLL
    for (int i = 0; i < TILE_M; i++)
        sums[i][0] = sums[i][1] = sums[i][2] = vdupq_n_s32(0);
    for (size_t step = 0; step < STEPS; step++) {
        const int8x16_t low = vld1q_s8(a->q[step][0]), high = vld1q_s8(a->q[step][4]);
        UNROLL
        for (int j = 0; j < 3; j++) {
            const int8x16_t codes = vld1q_s8(b->codes[step][4 * j]);
            sums[0][j] = vdotq_laneq_s32(sums[0][j], codes, low, 0);
            sums[1][j] = vdotq_laneq_s32(sums[1][j], codes, low, 1);
            sums[2][j] = vdotq_laneq_s32(sums[2][j], codes, low, 2);
            sums[3][j] = vdotq_laneq_s32(sums[3][j], codes, low, 3);
            sums[4][j] = vdotq_laneq_s32(sums[4][j], codes, high, 0);
            sums[5][j] = vdotq_laneq_s32(sums[5][j], codes, high, 1);
            sums[6][j] = vdotq_laneq_s32(sums[6][j], codes, high, 2);
            sums[7][j] = vdotq_laneq_s32(sums[7][j], codes, high, 3);
        }
    }
    UNROLL
    for (int i = 0; i < TILE_M; i++) {
        UNROLL
        for (int j = 0; j < 3; j++) {
            float *to = c + i * TILE_N + 4 * j;
            const vec factor = vec_mul(vec_load(b->scale + 4 * j), vec_set(a->scale[i]));
            vec_store(to, vec_fma(vcvtq_f32_s32(sums[i][j]), factor,
                                  accumulate ? vec_load(to) : vec_set(0)));
        }
    }
}

static void tile8(size_t rows, size_t kc, const void *packed, const void *panel_of, float *c,
                  bool accumulate)
{
    (void)rows;
    const packed_group *a = packed;
    const panel_group *b = panel_of;
    for (size_t g = 0; g * GROUP < kc; g++)
        tile8_group(a + g, b + g, c, accumulate || g > 0);
}

static const nib_cpu_gemm gemm8 = {
    .takes = takes_int8,
    .tile_m = TILE_M,
    .tile_n = TILE_N,
    .tile_k = TILE_K,
    .group_n = 128,
    .packed_bytes = packed8_bytes,
    .pack = pack8,
    .panel_bytes = panel8_bytes,
    .panel = panel8,
    .tile = tile8,
};

const nib_cpu_row nib_cpu_neondot = {
    .name = "neondot",
    .needs = NIB_CPU_NEON_DOT,
    .normalize = normalize,
    .finish = finish,
    .dequantize = nib_scalar_dequantize,
    .gemv = {&gemv, &rows_gemv},
    .gemm = {&gemm},
    .gemv8 = &gemv8,
    .gemm8 = &gemm8,
};
