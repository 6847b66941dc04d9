/* SPDX-License-Identifier: Apache-2.0
 *
 * The vector that elementwise.h works on: 4 floats.
 */
#ifndef NIB_BACKEND_CPU_VEC_H
#define NIB_BACKEND_CPU_VEC_H

#include <arm_neon.h>

typedef float32x4_t vec;
enum { LANES = 4 };

/* Through bytes, because tensors have any alignment. */
static inline vec vec_load(const void *from)
{
    return vreinterpretq_f32_u8(vld1q_u8(from));
}

static inline void vec_store(void *to, vec v)
{
    vst1q_u8(to, vreinterpretq_u8_f32(v));
}

static inline vec vec_load_half(const void *from)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from)));
}

static inline void vec_store_half(void *to, vec v)
{
    vst1_u8(to, vreinterpret_u8_f16(vcvt_f16_f32(v)));
}

static inline vec vec_set(float value)
{
    return vdupq_n_f32(value);
}

static inline vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

/* a * b + c */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

/* Of NaN the low bound, as on x86. */
static inline vec vec_clamp(vec v, float low, float high)
{
    return vminq_f32(vmaxnmq_f32(v, vec_set(low)), vec_set(high));
}

static inline vec vec_round(vec v)
{
    return vrndnq_f32(v);
}

/* 2^n for whole n in [-126, 127]. */
static inline vec vec_power(vec n)
{
    const int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}

/* Sums of squares, in float64. */
typedef struct squares {
    float64x2_t low, high;
} squares;

static inline squares squares_add(squares s, vec v)
{
    const float64x2_t low = vcvt_f64_f32(vget_low_f32(v)), high = vcvt_high_f64_f32(v);
    s.low = vfmaq_f64(s.low, low, low);
    s.high = vfmaq_f64(s.high, high, high);
    return s;
}

static inline squares squares_zero(void)
{
    return (squares){vdupq_n_f64(0), vdupq_n_f64(0)};
}

static inline double squares_total(squares s)
{
    return vaddvq_f64(vaddq_f64(s.low, s.high));
}

#endif
