/* SPDX-License-Identifier: Apache-2.0 */
#include "package/digest.h"

#include "nibble/package.h"

#ifdef _WIN32

#include <windows.h>

#include <bcrypt.h>

static bool hash_pieces(BCRYPT_HASH_HANDLE hash, const nib_str *pieces, size_t count,
                        nib_digest *out)
{
    for (size_t i = 0; i < count; i++) {
        nib_str left = pieces[i];
        while (left.len) { /* BCryptHashData reads through a pointer that is not const */
            const ULONG part = left.len < (1u << 30) ? (ULONG)left.len : 1u << 30;
            if (BCryptHashData(hash, (PUCHAR)(uintptr_t)left.data, part, 0) != 0)
                return false;
            left = (nib_str){left.data + part, left.len - part};
        }
    }
    return BCryptFinishHash(hash, out->bytes, NIB_DIGEST_BYTES, 0) == 0;
}

nib_status nib_digest_of(const nib_str *pieces, size_t count, nib_digest *out, nib_error *error)
{
    BCRYPT_ALG_HANDLE algorithm = NULL;
    BCRYPT_HASH_HANDLE hash = NULL;
    bool ok = BCryptOpenAlgorithmProvider(&algorithm, BCRYPT_SHA256_ALGORITHM, NULL, 0) == 0;
    ok = ok && BCryptCreateHash(algorithm, &hash, NULL, 0, NULL, 0, 0) == 0 &&
         hash_pieces(hash, pieces, count, out);
    if (hash)
        BCryptDestroyHash(hash);
    if (algorithm)
        BCryptCloseAlgorithmProvider(algorithm, 0);
    return ok ? NIB_OK : nib_fail(error, NIB_INTERNAL, "SHA-256 is not available in bcrypt");
}

#else

#include <openssl/evp.h>

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

#endif

/* 256 bits are 42 digits of 6 bits, one of 4 bits, and a "=". */
void nib_digest_base64(const nib_digest *digest, char out[NIB_DIGEST_BASE64])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned held = 0, bits = 0;
    size_t used = 0;
    for (size_t i = 0; i < NIB_DIGEST_BYTES; i++) {
        held = (held & 0x3f) << 8 | digest->bytes[i];
        for (bits += 8; bits >= 6; bits -= 6)
            out[used++] = digits[held >> (bits - 6) & 63];
    }
    out[used++] = digits[held << (6 - bits) & 63];
    out[used++] = '=';
    out[used] = '\0';
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
