/* SPDX-License-Identifier: Apache-2.0 */
#include "io/decode.h"

#include <string.h>

#include "tensor/half.h"

/* Half float at `from`. */
static float read_half(const uint8_t *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return nib_half_widen(half);
}

void nib_decode_bf16(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t i = 0; i < elements; i++) {
        uint16_t value;
        memcpy(&value, from + i * sizeof value, sizeof value);
        out[i] = nib_bfloat16_widen(value);
    }
}

void nib_decode_f64(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t i = 0; i < elements; i++) {
        double value;
        memcpy(&value, from + i * sizeof value, sizeof value);
        out[i] = (float)value;
    }
}

/* ---- blocks of 32: elements 0..15 in the low nibbles, 16..31 in the high ones ---- */

void nib_decode_q4_0(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 32, from += 18, out += 32) {
        const float scale = read_half(from);
        for (size_t i = 0; i < 16; i++) {
            out[i] = (float)((from[2 + i] & 15) - 8) * scale;
            out[i + 16] = (float)((from[2 + i] >> 4) - 8) * scale;
        }
    }
}

void nib_decode_q4_1(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 32, from += 20, out += 32) {
        const float scale = read_half(from), minimum = read_half(from + 2);
        for (size_t i = 0; i < 16; i++) {
            out[i] = (float)(from[4 + i] & 15) * scale + minimum;
            out[i + 16] = (float)(from[4 + i] >> 4) * scale + minimum;
        }
    }
}

/* The fifth bits stand in one word, bit i for element i. */
static int fifth_bit(uint32_t word, size_t i)
{
    return (int)(word >> i & 1) << 4;
}

void nib_decode_q5_0(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 32, from += 22, out += 32) {
        const float scale = read_half(from);
        uint32_t high;
        memcpy(&high, from + 2, sizeof high);
        for (size_t i = 0; i < 16; i++) {
            out[i] = (float)(((from[6 + i] & 15) | fifth_bit(high, i)) - 16) * scale;
            out[i + 16] = (float)((from[6 + i] >> 4 | fifth_bit(high, i + 16)) - 16) * scale;
        }
    }
}

void nib_decode_q5_1(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 32, from += 24, out += 32) {
        const float scale = read_half(from), minimum = read_half(from + 2);
        uint32_t high;
        memcpy(&high, from + 4, sizeof high);
        for (size_t i = 0; i < 16; i++) {
            out[i] = (float)((from[8 + i] & 15) | fifth_bit(high, i)) * scale + minimum;
            out[i + 16] = (float)(from[8 + i] >> 4 | fifth_bit(high, i + 16)) * scale + minimum;
        }
    }
}

void nib_decode_q8_0(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 32, from += 34, out += 32) {
        const float scale = read_half(from);
        for (size_t i = 0; i < 32; i++)
            out[i] = (float)(int8_t)from[2 + i] * scale;
    }
}

/* ---- blocks of 256 ---- */

/* Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes. The low six bits of bytes
 * 0..3 and 4..7 are the first four of each; the others have their low nibbles in bytes 8..11 and
 * their two high bits on top of bytes 0..7. */
static void unpack_scale(const uint8_t *packed, size_t i, int *scale, int *minimum)
{
    if (i < 4) {
        *scale = packed[i] & 63;
        *minimum = packed[i + 4] & 63;
    } else {
        *scale = (packed[i + 4] & 15) | packed[i - 4] >> 6 << 4;
        *minimum = packed[i + 4] >> 4 | packed[i] >> 6 << 4;
    }
}

/* Sub-block i (32 elements) of a Q4_K or Q5_K block whose first four bytes are the scale of the
 * scales and of the minima. `high` holds the fifth bits, bit i of byte j for element j, or is NULL.
 */
static void decode_k_sub_block(const uint8_t *block, const uint8_t *high, const uint8_t *nibbles,
                               size_t i, float *out)
{
    int scale6, minimum6;
    unpack_scale(block + 4, i, &scale6, &minimum6);
    const float scale = read_half(block) * (float)scale6;
    const float minimum = read_half(block + 2) * (float)minimum6;
    const unsigned shift = i % 2 ? 4 : 0;
    for (size_t j = 0; j < 32; j++) {
        int code = nibbles[i / 2 * 32 + j] >> shift & 15;
        if (high)
            code |= (high[j] >> i & 1) << 4;
        out[j] = scale * (float)code - minimum;
    }
}

void nib_decode_q4_k(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 256, from += 144, out += 256) {
        for (size_t i = 0; i < 8; i++)
            decode_k_sub_block(from, NULL, from + 16, i, out + i * 32);
    }
}

void nib_decode_q5_k(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 256, from += 176, out += 256) {
        for (size_t i = 0; i < 8; i++)
            decode_k_sub_block(from, from + 16, from + 48, i, out + i * 32);
    }
}

/* 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales (one per 16 elements), the scale
 * of the scales. Each half of 128 elements has four runs of 32: runs 0 and 1 in the low nibbles of
 * its 64 bytes, runs 2 and 3 in the high ones; the pairs of run r stand at bit 2r of its 32 high
 * bytes. */
static void decode_q6_k_half(const uint8_t *low, const uint8_t *high, const uint8_t *scales,
                             float block_scale, float *out)
{
    for (unsigned run = 0; run < 4; run++) {
        const unsigned shift = run < 2 ? 0 : 4;
        for (unsigned i = 0; i < 32; i++) {
            const int nibble = low[run % 2 * 32 + i] >> shift & 15;
            const int pair = high[i] >> 2 * run & 3;
            const float scale = block_scale * (float)(int8_t)scales[run * 2 + i / 16];
            out[run * 32 + i] = scale * (float)((nibble | pair << 4) - 32);
        }
    }
}

void nib_decode_q6_k(const uint8_t *from, size_t elements, void *to)
{
    float *out = to;
    for (size_t at = 0; at < elements; at += 256, from += 210, out += 256) {
        const float block_scale = read_half(from + 208);
        decode_q6_k_half(from, from + 128, from + 192, block_scale, out);
        decode_q6_k_half(from + 64, from + 160, from + 200, block_scale, out + 128);
    }
}
