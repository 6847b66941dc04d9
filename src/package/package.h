/* SPDX-License-Identifier: Apache-2.0
 *
 * A loaded package: the contract, and verified access to its files. Source: package format section 1.
 */
#ifndef NIB_PACKAGE_PACKAGE_H
#define NIB_PACKAGE_PACKAGE_H

#include "base/context.h"
#include "package/contract.h"
#include "template/template.h"

struct nib_package {
    nib_context *context;
    nib_arena arena;
    const nib_contract *contract;
    char *directory;   /* the folder that holds manifest.json */
    char digest[65];   /* hex, see nib_package_digest */
    bool verify;       /* templates are compared with their digests */
    bool verified;     /* the manifest was */
    nib_map *digests;  /* path -> base64 SHA-256; NULL without metadata.json */
};

/* Read a package file into `arena`: the path is checked (1.6, no traversal, no symlink out of the package), the bytes
 * are compared with their digest. errors: IO, INTEGRITY, CONTRACT (path), LIMIT, OUT_OF_MEMORY */
nib_status nib_package_read(const nib_package *package, nib_arena *arena, nib_str path, nib_str *bytes,
                            nib_error *error);

/* A template loader over nib_package_read. */
nib_template_loader nib_package_templates(const nib_package *package);

#endif
