/* SPDX-License-Identifier: Apache-2.0
 *
 * binary16 and bfloat16 in software, inline so that loops over them vectorize. Results are those of
 * the F16C and AArch64 conversion instructions: signalling NaNs come out quiet, with the upper
 * payload bits kept.
 */
#ifndef NIB_TENSOR_HALF_H
#define NIB_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float nib_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t nib_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float nib_half_widen(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) { /* infinity, NaN */
        const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0;
        return nib_float_of_bits(sign | 0x7f800000u | magnitude << 13 | quiet);
    }
    if (magnitude >= 0x0400u)
        return nib_float_of_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    /* Subnormal: magnitude * 2^-24, which is exact. */
    const float value = (float)magnitude * 0x1p-24f;
    return nib_float_of_bits(sign | nib_bits_of_float(value));
}

static inline uint16_t nib_half_narrow(float value)
{
    const uint32_t bits = nib_bits_of_float(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x03ffu));
    if (magnitude >= 0x47800000u) /* 65536 and more, infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >=
        0x38800000u) { /* normal; a carry out of the fraction raises the exponent, up to infinity */
        const uint32_t rebased = magnitude - ((127u - 15u) << 23);
        return (uint16_t)(sign | (rebased + 0x0fffu + (rebased >> 13 & 1u)) >> 13);
    }
    /* Subnormal: adding 0.5 puts the unit of the last place at 2^-24, so that the addition rounds
     * to nearest even. */
    const float shifted = nib_float_of_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (nib_bits_of_float(shifted) - 0x3f000000u));
}

static inline float nib_bfloat16_widen(uint16_t value)
{
    return nib_float_of_bits((uint32_t)value << 16);
}

#endif
