/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector that elementwise.h works on: 16 floats.
 */
#ifndef NIB_BACKEND_CPU_VEC_H
#define NIB_BACKEND_CPU_VEC_H

#include <immintrin.h>
#include <stdint.h>

typedef __m512 vec;
enum { LANES = 16 };

static inline vec vec_load(const void *from)
{
    return _mm512_loadu_ps(from);
}

static inline void vec_store(void *to, vec v)
{
    _mm512_storeu_ps(to, v);
}

static inline vec vec_load_half(const void *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

static inline void vec_store_half(void *to, vec v)
{
    _mm256_storeu_si256(to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_set(float value)
{
    return _mm512_set1_ps(value);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_clamp(vec v, float low, float high)
{
    return _mm512_min_ps(_mm512_max_ps(v, vec_set(low)), vec_set(high));
}

static inline vec vec_round(vec v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^n for whole n in [-126, 127]. */
static inline vec vec_power(vec n)
{
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}

/* Sums of squares, in float64. */
typedef struct squares {
    __m512d low, high;
} squares;

static inline squares squares_add(squares s, vec v)
{
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    s.low = _mm512_fmadd_pd(low, low, s.low);
    s.high = _mm512_fmadd_pd(high, high, s.high);
    return s;
}

static inline squares squares_zero(void)
{
    return (squares){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

static inline double squares_total(squares s)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(s.low, s.high));
}

#endif
