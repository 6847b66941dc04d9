/* SPDX-License-Identifier: Apache-2.0
 *
 * The scalar row: plain C, and the numeric truth of the backend. Every other row is tested against
 * it.
 *
 * Weights are dequantized to float32 first (code minus middle, or codebook value, times scale) and
 * then multiplied; products are summed in float32 over the real K, by pieces of 32, so that the
 * error grows with the number of pieces.
 */
#include "kernels.h"

#include <math.h>
#include <string.h>

enum { PIECE = 32, TILE_M = 4, TILE_N = 8, TILE_K = 256 };

#define DEQUANTIZE nib_scalar_dequantize

#include "load.h"
#include "panel.h"
#include "tensor/blocks.h"

/* ---- activations ---- */

static float sum_element(const nib_cpu_norm *norm, size_t k)
{
    const float a = nib_load(norm->a, norm->half, k);
    return norm->skip ? a + nib_load(norm->skip, norm->half, k) : a;
}

/* SkipSimplifiedLayerNormalization: the statistics and the normalized value come from the float32
 * sum; only the returned sum is rounded to the tensor type. Squares are summed in float64. */
static void normalize(const nib_cpu_norm *norm, float *x)
{
    double squares = 0;
    for (size_t k = 0; k < norm->K; k++) {
        x[k] = sum_element(norm, k);
        squares += (double)x[k] * (double)x[k];
        if (norm->residual)
            nib_store(norm->residual, norm->half, k, x[k]);
    }
    if (!norm->gain)
        return;
    const float factor = (float)(1 / sqrt(squares / (double)norm->K + norm->epsilon));
    for (size_t k = 0; k < norm->K; k++)
        x[k] = x[k] * factor * nib_load(norm->gain, norm->half, k);
}

static float silu(float x)
{
    return (float)((double)x / (1 + exp(-(double)x)));
}

static float with_bias(float sum, const void *bias, bool half, size_t i)
{
    return bias ? sum + nib_load(bias, half, i) : sum;
}

static void finish(const nib_cpu_finish *f, const float *sums, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = with_bias(sums[i], f->bias, f->half, i);
        if (f->up)
            value = silu(value) * with_bias(f->up[i], f->up_bias, f->half, i);
        nib_store(f->out, f->half, i, value);
    }
}

/* ---- weights ---- */

static void dequantize_nbits(const nib_cpu_weights *w, size_t n, size_t k0, size_t count,
                             float *out)
{
    const size_t blob_bytes = w->block * (size_t)w->bits / 8;
    const uint8_t *row = w->codes + n * w->row_bytes;
    size_t block = k0 / w->block, within = k0 % w->block;
    while (count) {
        const size_t here = count < w->block - within ? count : w->block - within;
        const float scale = nib_load(w->scales, w->half_scales, n * w->blocks + block);
        const uint8_t *blob = row + block * blob_bytes;
        for (size_t i = 0; i < here; i++)
            *out++ = nib_nbits_value(blob, w->bits, within + i, scale);
        count -= here;
        within = 0;
        block++;
    }
}

static void dequantize_bnb4(const nib_cpu_weights *w, size_t n, size_t k0, size_t count, float *out)
{
    size_t flat = n * w->K + k0;
    while (count) {
        const size_t left = w->block - flat % w->block;
        const size_t here = count < left ? count : left;
        const float scale = nib_load(w->scales, w->half_scales, flat / w->block);
        for (size_t i = 0; i < here; i++)
            *out++ = w->codebook[nib_bnb4_code(w->codes, flat + i)] * scale;
        count -= here;
        flat += here;
    }
}

void nib_scalar_dequantize(const nib_cpu_weights *w, size_t n, size_t k0, size_t count, float *out)
{
    if (w->codebook)
        dequantize_bnb4(w, n, k0, count, out);
    else
        dequantize_nbits(w, n, k0, count, out);
}

float nib_scalar_dot(const nib_cpu_weights *w, size_t n, const float *x)
{
    float values[PIECE];
    float sum = 0;
    for (size_t k = 0; k < w->K; k += PIECE) {
        const size_t count = w->K - k < PIECE ? w->K - k : PIECE;
        nib_scalar_dequantize(w, n, k, count, values);
        float piece = 0;
        for (size_t i = 0; i < count; i++)
            piece += values[i] * x[k + i];
        sum += piece;
    }
    return sum;
}

static bool takes_all(const nib_cpu_weights *w)
{
    (void)w;
    return true;
}

/* ---- decode ---- */

static size_t arranged_bytes(const nib_cpu_weights *w)
{
    return w->K * sizeof(float);
}

static void arrange(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    memcpy(arranged, x, m * w->K * sizeof *x);
}

static void decode(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                   float *y, size_t y_stride)
{
    const float *x = arranged;
    for (size_t i = 0; i < m; i++) {
        for (size_t n = n0; n < n1; n++)
            y[i * y_stride + n - n0] = nib_scalar_dot(w, n, x + i * w->K);
    }
}

static const nib_cpu_gemv gemv = {
    .takes = takes_all,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange,
    .decode = decode,
};

/* ---- prefill ---- */

static void tile(size_t rows, size_t kc, const void *packed, const void *panel, float *c,
                 bool accumulate)
{
    const float *a = packed, *weights = panel;
    float sums[TILE_M * TILE_N] = {0};
    for (size_t k = 0; k < kc; k++) {
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < TILE_N; j++)
                sums[i * TILE_N + j] += a[k * TILE_M + i] * weights[k * TILE_N + j];
        }
    }
    for (size_t i = 0; i < rows * TILE_N; i++)
        c[i] = accumulate ? c[i] + sums[i] : sums[i];
}

static const nib_cpu_gemm gemm = {
    .takes = takes_all,
    .tile_m = TILE_M,
    .tile_n = TILE_N,
    .tile_k = TILE_K,
    .group_n = 128,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .panel_bytes = panel_bytes,
    .panel = panel_by_rows,
    .tile = tile,
};

/* ---- int8 activations (accuracy_level 4) ---- */

/* What the activations are after int8 quantization, as float32: the products below are then exact
 * but for the order of additions. By blocks, scale max|x| / 127; magnitudes below 2^-100 become
 * zero, and a block with a value that is not finite becomes NaN. */
static void quantize(const nib_cpu_weights *w, const float *x, size_t count, float *out)
{
    for (size_t k = 0; k < count; k += w->block) {
        const size_t here = count - k < w->block ? count - k : w->block;
        float largest = 0;
        bool finite = true;
        for (size_t i = k; i < k + here; i++) {
            finite = finite && isfinite(x[i]);
            largest = fmaxf(largest, fabsf(x[i]));
        }
        const float inverse = largest < 0x1p-100f ? 0 : 127 / largest,
                    scale = largest < 0x1p-100f ? 0 : largest / 127;
        for (size_t i = k; i < k + here; i++)
            out[i] = finite ? nearbyintf(x[i] * inverse) * scale : NAN;
    }
}

static void arrange8(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    float *out = arranged;
    for (size_t i = 0; i < m; i++)
        quantize(w, x + i * w->K, w->K, out + i * w->K);
}

static void pack8(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride, size_t kc,
                  void *packed)
{
    float values[TILE_M * TILE_K];
    for (size_t i = 0; i < rows; i++)
        quantize(w, x + i * stride, kc, values + i * kc);
    pack(w, values, rows, kc, kc, packed);
}

static bool takes_int8(const nib_cpu_weights *w)
{
    return !w->codebook && w->bits == 4 && w->block % 32 == 0 && w->block <= TILE_K;
}

static const nib_cpu_gemv gemv8 = {
    .takes = takes_int8,
    .arranged_bytes = arranged_bytes,
    .arrange = arrange8,
    .decode = decode,
};

static const nib_cpu_gemm gemm8 = {
    .takes = takes_int8,
    .tile_m = TILE_M,
    .tile_n = TILE_N,
    .tile_k = TILE_K,
    .group_n = 128,
    .packed_bytes = packed_bytes,
    .pack = pack8,
    .panel_bytes = panel_bytes,
    .panel = panel_by_rows,
    .tile = tile,
};

const nib_cpu_row nib_cpu_scalar = {
    .name = "scalar",
    .needs = 0,
    .normalize = normalize,
    .finish = finish,
    .dequantize = nib_scalar_dequantize,
    .gemv = {&gemv},
    .gemm = {&gemm},
    .gemv8 = &gemv8,
    .gemm8 = &gemm8,
};
