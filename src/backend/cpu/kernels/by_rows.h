/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode for any weights: a stretch of a weight row is dequantized into a local array and
 * multiplied. For the formats whose blocks do not fall together with words. Included after vec_*.h,
 * elementwise.h and the macro DEQUANTIZE.
 */
#ifndef NIB_BACKEND_CPU_BY_ROWS_H
#define NIB_BACKEND_CPU_BY_ROWS_H

#include "unroll.h"

enum { BY_ROWS_STRETCH = 512 };

static bool takes_any(const nib_cpu_weights *w)
{
    (void)w;
    return true;
}

/* Activation rows are padded with zeros to whole vectors. */
static size_t by_rows_stride(const nib_cpu_weights *w)
{
    return (w->K + LANES - 1) / LANES * LANES;
}

static size_t by_rows_bytes(const nib_cpu_weights *w)
{
    return by_rows_stride(w) * sizeof(float);
}

static void by_rows_arrange(const nib_cpu_weights *w, const float *x, size_t m, void *arranged)
{
    const size_t stride = by_rows_stride(w);
    float *to = arranged;
    for (size_t row = 0; row < m; row++, to += stride) {
        memcpy(to, x + row * w->K, w->K * sizeof *x);
        memset(to + w->K, 0, (stride - w->K) * sizeof *x);
    }
}

static void by_rows_decode(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0,
                           size_t n1, float *y, size_t y_stride)
{
    const float *x = arranged;
    const size_t stride = by_rows_stride(w);
    for (size_t n = n0; n < n1; n++) {
        vec total[NIB_CPU_DECODE_ROWS];
        for (size_t row = 0; row < m; row++)
            total[row] = vec_set(0);
        for (size_t k = 0; k < w->K; k += BY_ROWS_STRETCH) {
            float values[BY_ROWS_STRETCH];
            const size_t count = w->K - k < BY_ROWS_STRETCH ? w->K - k : BY_ROWS_STRETCH;
            DEQUANTIZE(w, n, k, count, values);
            for (size_t i = count; i % LANES; i++)
                values[i] = 0;
            for (size_t row = 0; row < m; row++) {
                vec sums[2] = {total[row], vec_set(0)};
                for (size_t i = 0; i < count; i += 2 * LANES) {
                    sums[0] =
                        vec_fma(vec_load(values + i), vec_load(x + row * stride + k + i), sums[0]);
                    if (i + LANES < count)
                        sums[1] = vec_fma(vec_load(values + i + LANES),
                                          vec_load(x + row * stride + k + i + LANES), sums[1]);
                }
                total[row] = vec_add(sums[0], sums[1]);
            }
        }
        for (size_t row = 0; row < m; row++) {
            float lanes[LANES], sum = 0;
            vec_store(lanes, total[row]);
            for (size_t i = 0; i < LANES; i++)
                sum += lanes[i];
            y[row * y_stride + n - n0] = sum;
        }
    }
}

#endif
