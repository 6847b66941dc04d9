/* SPDX-License-Identifier: Apache-2.0
 *
 * accuracy_level 4: activations become int8 by blocks, with a scale of max|x| / 127 each, and
 * products with the 4-bit codes (0..15, unsigned) are summed as integers by groups of 32. Because a
 * weight is code - 8, a group's sum is corrected by 8 times the sum of its activations. Everything
 * up to the group sums is exact, so that all rows of kernels agree up to the order of the last
 * additions.
 */
#ifndef NIB_BACKEND_CPU_INT8_H
#define NIB_BACKEND_CPU_INT8_H

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels.h"
#include "unroll.h"

enum { GROUP = 32, INT8_MAX_BLOCK = 256 };

static bool takes_int8(const nib_cpu_weights *w)
{
    return !w->codebook && w->bits == 4 && w->block % GROUP == 0 && w->block <= INT8_MAX_BLOCK;
}

/* A group of 32 quantized activations. */
typedef struct int8_group {
    int8_t q[GROUP];
    float scale;
    int32_t correction; /* 8 * the sum of q */
} int8_group;

#if defined(__AVX2__)

/* The largest magnitude of `count` activations; NaN when one is not finite. */
static float largest_magnitude(const float *x, size_t count)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), top = _mm256_set1_ps(3.4028234663852886e38f);
    __m256 largest = _mm256_setzero_ps(), bad = _mm256_setzero_ps();
    for (size_t i = 0; i < count; i += 8) {
        float copy[8] = {0};
        if (count - i < 8)
            memcpy(copy, x + i, (count - i) * sizeof *x);
        const __m256 v = _mm256_andnot_ps(sign, _mm256_loadu_ps(count - i < 8 ? copy : x + i));
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(v, top, _CMP_NLE_UQ));
        largest = _mm256_max_ps(largest, v);
    }
    if (_mm256_movemask_ps(bad))
        return NAN;
    float lanes[8], max = 0;
    _mm256_storeu_ps(lanes, largest);
    for (int i = 0; i < 8; i++)
        max = lanes[i] > max ? lanes[i] : max;
    return max;
}

/* Up to 32 activations times `inverse`, to the nearest integer. */
static void round_group(const float *x, size_t count, float inverse, int8_group *group)
{
    float copy[GROUP] = {0};
    if (count < GROUP) {
        memcpy(copy, x, count * sizeof *x);
        x = copy;
    }
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i v[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), factor));
    const __m256i sum =
        _mm256_add_epi32(_mm256_add_epi32(v[0], v[1]), _mm256_add_epi32(v[2], v[3]));
    const __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((void *)group->q, _mm256_permutevar8x32_epi32(bytes, order));
    int32_t lanes[8];
    _mm256_storeu_si256((void *)lanes, sum);
    group->correction = 0;
    for (int i = 0; i < 8; i++)
        group->correction += 8 * lanes[i];
}

#else

static float largest_magnitude(const float *x, size_t count)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return NAN;
        largest = fmaxf(largest, fabsf(x[i]));
    }
    return largest;
}

static void round_group(const float *x, size_t count, float inverse, int8_group *group)
{
    int32_t sum = 0;
    for (size_t i = 0; i < GROUP; i++) {
        const int32_t q = i < count ? (int32_t)nearbyintf(x[i] * inverse) : 0;
        group->q[i] = (int8_t)q;
        sum += q;
    }
    group->correction = 8 * sum;
}

#endif

/* Quantize `count` activations, at most a block of `block`, to ceil(count / 32) groups. Magnitudes
 * below 2^-100 become zero; a block with a value that is not finite gets a scale of NaN. */
static size_t quantize_block(const float *x, size_t count, int8_group *groups)
{
    const float largest = largest_magnitude(x, count);
    const bool zero = largest < 0x1p-100f, finite = largest == largest;
    size_t made = 0;
    for (size_t i = 0; i < count; i += GROUP, made++) {
        if (zero || !finite)
            groups[made] = (int8_group){.scale = zero ? 0 : NAN};
        else {
            groups[made].scale = largest / 127;
            round_group(x + i, count - i < GROUP ? count - i : GROUP, 127 / largest, &groups[made]);
        }
    }
    return made;
}

#endif
