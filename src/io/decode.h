/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of stored elements to float32. `elements` is a multiple of the block size. Block
 * layouts: ggml's quantization formats, as GGUF files hold them.
 */
#ifndef NIB_IO_DECODE_H
#define NIB_IO_DECODE_H

#include <stddef.h>
#include <stdint.h>

void nib_decode_bf16(const uint8_t *from, size_t elements, void *to);
void nib_decode_f64(const uint8_t *from, size_t elements,
                    void *to); /* nearest; too large becomes infinity */
void nib_decode_q4_0(const uint8_t *from, size_t elements, void *to);
void nib_decode_q4_1(const uint8_t *from, size_t elements, void *to);
void nib_decode_q5_0(const uint8_t *from, size_t elements, void *to);
void nib_decode_q5_1(const uint8_t *from, size_t elements, void *to);
void nib_decode_q8_0(const uint8_t *from, size_t elements, void *to);
void nib_decode_q4_k(const uint8_t *from, size_t elements, void *to);
void nib_decode_q5_k(const uint8_t *from, size_t elements, void *to);
void nib_decode_q6_k(const uint8_t *from, size_t elements, void *to);

#endif
