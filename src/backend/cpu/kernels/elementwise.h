/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalization and finishing for vectors of LANES floats. Included by the source of each row after
 * its vec_*.h; a tail shorter than a vector goes through a local copy, so that nothing outside the
 * tensors is touched.
 */
#ifndef NIB_BACKEND_CPU_ELEMENTWISE_H
#define NIB_BACKEND_CPU_ELEMENTWISE_H

#include <math.h>
#include <string.h>

#include "kernels.h"

/* Elements [i, i + LANES) of a float32 or float16 array with `count` elements; zeros past its end.
 */
static inline vec load_some(const void *array, bool half, size_t i, size_t count)
{
    const size_t bytes = half ? 2 : 4, left = count - i;
    const char *from = (const char *)array + i * bytes;
    if (left >= LANES)
        return half ? vec_load_half(from) : vec_load(from);
    float copy[LANES] = {0};
    memcpy(copy, from, left * bytes);
    return half ? vec_load_half(copy) : vec_load(copy);
}

static inline void store_some(void *array, bool half, size_t i, size_t count, vec v)
{
    const size_t bytes = half ? 2 : 4, left = count - i;
    char *to = (char *)array + i * bytes;
    if (left >= LANES) {
        if (half)
            vec_store_half(to, v);
        else
            vec_store(to, v);
        return;
    }
    float copy[LANES];
    if (half)
        vec_store_half(copy, v);
    else
        vec_store(copy, v);
    memcpy(to, copy, left * bytes);
}

/* x = a + skip, and the sum of the squares of x. */
static inline double sum_row(const nib_cpu_norm *norm, bool half, float *x)
{
    squares total = squares_zero();
    for (size_t k = 0; k < norm->K; k += LANES) {
        vec v = load_some(norm->a, half, k, norm->K);
        if (norm->skip)
            v = vec_add(v, load_some(norm->skip, half, k, norm->K));
        if (norm->residual)
            store_some(norm->residual, half, k, norm->K, v);
        total = squares_add(total, v);
        store_some(x, false, k, norm->K, v);
    }
    return squares_total(total);
}

static inline void normalize_as(const nib_cpu_norm *norm, bool half, float *x)
{
    const double sum = sum_row(norm, half, x);
    if (!norm->gain)
        return;
    const vec factor = vec_set((float)(1 / sqrt(sum / (double)norm->K + norm->epsilon)));
    for (size_t k = 0; k < norm->K; k += LANES) {
        const vec v = vec_mul(load_some(x, false, k, norm->K), factor);
        store_some(x, false, k, norm->K, vec_mul(v, load_some(norm->gain, half, k, norm->K)));
    }
}

static inline void normalize(const nib_cpu_norm *norm, float *x)
{
    if (norm->half)
        normalize_as(norm, true, x);
    else
        normalize_as(norm, false, x);
}

/* exp(v) within 2 ulp: 2^n times a polynomial on [-ln2/2, ln2/2]. Infinity from 88.73 on, and what
 * is below the smallest normal number comes out as a subnormal or zero. NaN is the caller's
 * business. */
static inline vec vec_exp(vec v)
{
    v = vec_clamp(v, -104, 89);
    const vec n = vec_round(vec_mul(v, vec_set(1.44269504088896341f)));
    vec r = vec_fma(n, vec_set(-0.693145751953125f),
                    v); /* the upper bits of ln 2, so that the product is exact */
    r = vec_fma(n, vec_set(-1.428606820309417e-6f), r);
    vec p = vec_set(1.0f / 5040);
    p = vec_fma(p, r, vec_set(1.0f / 720));
    p = vec_fma(p, r, vec_set(1.0f / 120));
    p = vec_fma(p, r, vec_set(1.0f / 24));
    p = vec_fma(p, r, vec_set(1.0f / 6));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1));
    p = vec_fma(p, r, vec_set(1));
    /* 2^n in two factors, because n reaches 128 and -150. */
    const vec half = vec_round(vec_mul(n, vec_set(0.5f)));
    return vec_mul(vec_mul(p, vec_power(half)), vec_power(vec_sub(n, half)));
}

/* x / (1 + exp(-x)); the formula decides at the ends: -inf gives NaN. */
static inline vec vec_silu(vec x)
{
    return vec_div(x, vec_add(vec_exp(vec_sub(vec_set(0), x)), vec_set(1)));
}

static inline void finish_as(const nib_cpu_finish *f, bool half, const float *sums, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        vec v = load_some(sums, false, i, count);
        if (f->bias)
            v = vec_add(v, load_some(f->bias, half, i, count));
        if (f->up) {
            vec up = load_some(f->up, false, i, count);
            if (f->up_bias)
                up = vec_add(up, load_some(f->up_bias, half, i, count));
            v = vec_mul(vec_silu(v), up);
        }
        store_some(f->out, half, i, count, v);
    }
}

static inline void finish(const nib_cpu_finish *f, const float *sums, size_t count)
{
    if (f->half)
        finish_as(f, true, sums, count);
    else
        finish_as(f, false, sums, count);
}

#endif
