/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 as packages write it: Base64 with padding, or hex (format 1.6).
 */
#ifndef NIB_PACKAGE_DIGEST_H
#define NIB_PACKAGE_DIGEST_H

#include "base/error.h"
#include "base/str.h"

enum { NIB_DIGEST_BYTES = 32, NIB_DIGEST_BASE64 = 45, NIB_DIGEST_HEX = 65 };

typedef struct nib_digest {
    unsigned char bytes[NIB_DIGEST_BYTES];
} nib_digest;

/* The digest of several pieces of text as if they were one. errors: INTERNAL, OUT_OF_MEMORY */
nib_status nib_digest_of(const nib_str *pieces, size_t count, nib_digest *out, nib_error *error);
/* Both NUL-terminated. */
void nib_digest_base64(const nib_digest *digest, char out[NIB_DIGEST_BASE64]);
void nib_digest_hex(const nib_digest *digest, char out[NIB_DIGEST_HEX]);

#endif
