/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector that elementwise.h works on: 8 floats.
 */
#ifndef NIB_BACKEND_CPU_VEC_H
#define NIB_BACKEND_CPU_VEC_H

#include <immintrin.h>
#include <stdint.h>

typedef __m256 vec;
enum { LANES = 8 };

static inline vec vec_load(const void *from)
{
    return _mm256_loadu_ps(from);
}

static inline void vec_store(void *to, vec v)
{
    _mm256_storeu_ps(to, v);
}

static inline vec vec_load_half(const void *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
}

static inline void vec_store_half(void *to, vec v)
{
    _mm_storeu_si128(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_set(float value)
{
    return _mm256_set1_ps(value);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec vec_clamp(vec v, float low, float high)
{
    return _mm256_min_ps(_mm256_max_ps(v, vec_set(low)), vec_set(high));
}

static inline vec vec_round(vec v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^n for whole n in [-126, 127]. */
static inline vec vec_power(vec n)
{
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

/* Sums of squares, in float64. */
typedef struct squares {
    __m256d low, high;
} squares;

static inline squares squares_add(squares s, vec v)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    s.low = _mm256_fmadd_pd(low, low, s.low);
    s.high = _mm256_fmadd_pd(high, high, s.high);
    return s;
}

static inline squares squares_zero(void)
{
    return (squares){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

static inline double squares_total(squares s)
{
    double parts[4];
    _mm256_storeu_pd(parts, _mm256_add_pd(s.low, s.high));
    return parts[0] + parts[1] + (parts[2] + parts[3]);
}

#endif
