/* SPDX-License-Identifier: Apache-2.0
 *
 * The two block formats of include/nibble/quant.h: sizes, and the scalar decoding of one element,
 * which every other decoder must equal. Only this header and half.h may be included by kernels.
 */
#ifndef NIB_TENSOR_BLOCKS_H
#define NIB_TENSOR_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- nbits: [N, blocks, blob], codes low bits first, value = (code - 2^(bits-1)) * scale ---- */

static inline bool nib_nbits_is_width(int bits)
{
    return bits == 2 || bits == 4 || bits == 8;
}

static inline size_t nib_nbits_block_count(size_t k, size_t block_size)
{
    return k / block_size + (k % block_size != 0);
}

static inline size_t nib_nbits_blob_bytes(int bits, size_t block_size)
{
    return block_size / 8 * (size_t)bits;
}

/* The code that stands for zero: there are no zero points. */
static inline int nib_nbits_middle(int bits)
{
    return 1 << (bits - 1);
}

/* Code i of one block. */
static inline unsigned nib_nbits_code(const uint8_t *blob, int bits, size_t i)
{
    const size_t per_byte = 8u / (unsigned)bits;
    const unsigned shift = (unsigned)(i % per_byte) * (unsigned)bits;
    return (unsigned)blob[i / per_byte] >> shift & ((1u << bits) - 1u);
}

static inline float nib_nbits_value(const uint8_t *blob, int bits, size_t i, float scale)
{
    return (float)((int)nib_nbits_code(blob, bits, i) - nib_nbits_middle(bits)) * scale;
}

/* Set code i of a block that starts zeroed. */
static inline void nib_nbits_put_code(uint8_t *blob, int bits, size_t i, unsigned code)
{
    const size_t per_byte = 8u / (unsigned)bits;
    const unsigned shift = (unsigned)(i % per_byte) * (unsigned)bits;
    blob[i / per_byte] = (uint8_t)(blob[i / per_byte] | code << shift);
}

/* ---- bnb4: flat [N*K], the even flat index in the high nibble, value = codebook[code] * absmax
 * ---- */

enum { NIB_BNB4_FP4 = 0, NIB_BNB4_NF4 = 1, NIB_BNB4_TYPES };

extern const float nib_bnb4_codebooks[NIB_BNB4_TYPES][16];

static inline size_t nib_bnb4_packed_bytes(size_t elements)
{
    return elements / 2 + elements % 2;
}

static inline size_t nib_bnb4_block_count(size_t elements, size_t block_size)
{
    return elements / block_size + (elements % block_size != 0);
}

static inline unsigned nib_bnb4_code(const uint8_t *packed, size_t flat)
{
    return (unsigned)packed[flat / 2] >> (flat % 2 ? 0 : 4) & 15u;
}

static inline void nib_bnb4_put_code(uint8_t *packed, size_t flat, unsigned code)
{
    packed[flat / 2] = (uint8_t)(packed[flat / 2] | code << (flat % 2 ? 0 : 4));
}

#endif
