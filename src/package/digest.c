/* SPDX-License-Identifier: Apache-2.0 */
#include "package/digest.h"

#include <openssl/evp.h>

#include "nibble/package.h"

nib_status nib_digest_of(const nib_str *pieces, size_t count, nib_digest *out, nib_error *error)
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!hash)
        return nib_fail_memory(error);
    bool ok = EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; ok && i < count; i++)
        ok = EVP_DigestUpdate(hash, pieces[i].data, pieces[i].len) == 1;
    ok = ok && EVP_DigestFinal_ex(hash, out->bytes, NULL) == 1;
    EVP_MD_CTX_free(hash);
    return ok ? NIB_OK : nib_fail(error, NIB_INTERNAL, "SHA-256 is not available in libcrypto");
}

void nib_digest_base64(const nib_digest *digest, char out[NIB_DIGEST_BASE64])
{
    EVP_EncodeBlock((unsigned char *)out, digest->bytes, NIB_DIGEST_BYTES);
}

void nib_digest_hex(const nib_digest *digest, char out[NIB_DIGEST_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < NIB_DIGEST_BYTES; i++) {
        out[2 * i] = digits[digest->bytes[i] >> 4];
        out[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    out[NIB_DIGEST_HEX - 1] = '\0';
}

nib_status nib_digest_text(const void *bytes, size_t count, char out[NIB_DIGEST_TEXT_BYTES],
                           nib_error *error)
{
    nib_digest digest;
    const nib_str piece = {bytes, count};
    NIB_TRY(nib_digest_of(&piece, 1, &digest, error));
    nib_digest_base64(&digest, out);
    return NIB_OK;
}
