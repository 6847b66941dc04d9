/* SPDX-License-Identifier: Apache-2.0
 *
 * The AMX row: prefill with int8 activations (accuracy_level 4). A block of 32 fills half the depth
 * of a tile.
 */
#include "vec_avx512.h"

#include "amx.h"
#include "int8.h"
#include "kernels.h"

enum { TILE_N = 64, TILE_K = 256, GROUPS = TILE_K / GROUP, STEPS = GROUP / 4 };
_Static_assert((int)TILE_K >= (int)INT8_MAX_BLOCK, "blocks do not cross slices");

/* Steps of four codes in the order of weight_column. */
typedef struct packed_rows {
    int8_t q[GROUPS][SIDE][STEPS][4];
    float scale[GROUPS][SIDE];
} packed_rows;

/* 16 weight rows. A word of 8 codes gives two steps: its low nibbles (codes 0, 2, 4, 6) and its
 * high nibbles (1, 3, 5, 7). */
typedef struct weight_column {
    int8_t codes[GROUPS][STEPS][SIDE][4];
    float scale[GROUPS][SIDE];
} weight_column;

static size_t packed_bytes(size_t kc)
{
    (void)kc;
    return sizeof(packed_rows);
}

static size_t panel_bytes(size_t kc)
{
    (void)kc;
    return sizeof(weight_column) * (TILE_N / SIDE);
}

/* Bytes 0, 2, 4, 6 of every eight, then 1, 3, 5, 7. */
INLINE void store_steps(const int8_t *q, int8_t (*to)[4])
{
    const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0,
                                           2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const __m256i bytes = _mm256_loadu_si256((const void *)q);
    _mm256_store_si256((void *)to, _mm256_shuffle_epi8(bytes, order));
}

static void pack(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride, size_t kc,
                 void *packed)
{
    packed_rows *to = packed;
    if (rows < SIDE)
        memset(to, 0, sizeof *to);
    for (size_t row = 0; row < rows; row++) {
        for (size_t k = 0; k < kc; k += w->block) {
            int8_group groups[INT8_MAX_BLOCK / GROUP];
            const size_t made =
                quantize_block(x + row * stride + k, kc - k < w->block ? kc - k : w->block, groups);
            for (size_t g = 0; g < made; g++) {
                store_steps(groups[g].q, to->q[k / GROUP + g][row]);
                to->scale[k / GROUP + g][row] = groups[g].scale;
            }
        }
    }
}

/* The low nibbles of all bytes, minus 8. */
INLINE __m512i signed_codes(__m512i words)
{
    const __m512i codes = _mm512_and_si512(words, _mm512_set1_epi8(15));
    return _mm512_sub_epi8(codes, _mm512_set1_epi8(8));
}

static void fill_weight_column(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc,
                               weight_column *to)
{
    const panel_rows rows = find_rows(w, n0);
    const size_t groups = group_count(kc);
    for (size_t k = 0; k < kc; k += WORDS * 8) {
        const size_t left = (kc - k + 7) / 8;
        __m512i words[WORDS];
        load_words(&rows, (k0 + k) / 8, left < WORDS ? left : WORDS, words);
        for (size_t i = 0; i < WORDS && k + i * 8 < groups * GROUP; i++) {
            const size_t at = k + i * 8, step = at % GROUP / 4;
            _mm512_store_si512(to->codes[at / GROUP][step], signed_codes(words[i]));
            _mm512_store_si512(to->codes[at / GROUP][step + 1],
                               signed_codes(_mm512_srli_epi16(words[i], 4)));
        }
    }
    for (size_t g = 0; g < groups; g++)
        _mm512_store_ps(to->scale[g], block_scales(w, &rows, (k0 + g * GROUP) / w->block));
}

static void panel(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *panel)
{
    weight_column *columns = panel;
    for (size_t j = 0; j < TILE_N / SIDE; j++)
        fill_weight_column(w, n0 + j * SIDE, k0, kc, &columns[j]);
}

#define LOAD_ROWS(a, g) _tile_loadd(2, (a)->q[g], GROUP)
#define MULTIPLY_COLUMN(sums, column, g)                                                           \
    do {                                                                                           \
        _tile_loadd(1, (column).codes[g], 4 * SIDE);                                               \
        _tile_dpbssd(sums, 2, 1);                                                                  \
    } while (0)
#include "amx_steps.h"

INLINE void add_scaled(const packed_rows *a, const step *s, size_t j, const void *sums)
{
    const int32_t *group_sums = sums;
    const __m512 scale = _mm512_load_ps(s->b[j].scale[s->g]);
    float *c = s->c + j * SIDE;
    UNROLL
    for (size_t i = 0; i < SIDE; i++) {
        const __m512 before = s->accumulate ? _mm512_load_ps(c + i * TILE_N) : _mm512_setzero_ps();
        const __m512 exact = _mm512_cvtepi32_ps(_mm512_load_si512(group_sums + i * SIDE));
        const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(a->scale[s->g][i]));
        _mm512_store_ps(c + i * TILE_N, _mm512_fmadd_ps(exact, factor, before));
    }
}

static void tile(size_t rows, size_t kc, const void *packed, const void *panel, float *c,
                 bool accumulate)
{
    const weight_column *columns = panel;
    step steps[TILE_N / SIDE / 2 * GROUPS];
    size_t count = 0;
    (void)rows;
    for (size_t j = 0; j < TILE_N / SIDE; j += 2) {
        for (size_t g = 0; g < group_count(kc); g++)
            steps[count++] = (step){&columns[j], g, g + 1, c + j * SIDE, accumulate || g > 0};
    }
    run_steps(packed, steps, count);
}

static void begin_tiles(void)
{
    static const tile_config config = {.palette = 1,
                                       .row_bytes = {64, 64, GROUP, 64, 64, 64, 64, 64},
                                       .rows = {16, STEPS, 16, 16, 16, 16, 16, 16}};
    load_config(&config);
}

const nib_cpu_gemm nib_cpu_amx_gemm8 = {
    .takes = takes_int8,
    .tile_m = SIDE,
    .tile_n = TILE_N,
    .tile_k = TILE_K,
    .group_n = AMX_GROUP_N,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .panel_bytes = panel_bytes,
    .panel = panel,
    .tile = tile,
    .begin = begin_tiles,
    .end = release_tiles,
};
