/* SPDX-License-Identifier: Apache-2.0
 *
 * metadata.json: which files a package has, their digests, and the templates of each variant
 * (format 1.2, 1.7).
 */
#ifndef NIB_PACKAGE_METADATA_H
#define NIB_PACKAGE_METADATA_H

#include "package/contract.h"

typedef struct nib_metadata {
    nib_str name;
    nib_str spec;            /* "2.1", "2.0" or empty */
    double version;          /* the contract version; 0 when absent or no number */
    nib_map *digests;        /* path -> Base64 SHA-256 */
    const nib_map *variants; /* id -> list of template paths; NULL when absent */
} nib_metadata;

/* The rules that hold whatever the manifest is. errors: FORMAT, CONTRACT, LIMIT, OUT_OF_MEMORY */
nib_status nib_metadata_read(nib_arena *arena, nib_str text, const char *source, nib_metadata *out,
                             nib_error *error);

/* The rules that tie it to its manifest. errors: CONTRACT */
nib_status nib_metadata_match(const nib_metadata *metadata, const nib_contract *contract,
                              nib_error *error);

#endif
