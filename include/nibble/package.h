/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel packages: a folder with a declarative contract (manifest.json), digests (metadata.json) and
 * shader templates (*.wgsl.jinja). Format: docs/format.md.
 */
#ifndef NIBBLE_PACKAGE_H
#define NIBBLE_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "nibble/context.h"
#include "nibble/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nib_package nib_package;

/* Zero means default. */
typedef struct nib_package_options {
    bool skip_verify;          /* do not compare digests (--no-verify) */
    const char *manifest_file; /* use this manifest instead of the package's own; its digest and the
                                  variant list of metadata.json are then not consulted */
    const char *expected_op;   /* refuse the package unless its op id is this one; NULL: any */
    unsigned version;          /* contract version: N takes the directory if its metadata.json says N,
                                  else looks for the same package in the folder vN beside
                                  (kernels/NAME is version 1, kernels/v2/NAME is version 2); 0: the
                                  directory as given */
} nib_package_options;

/* Load a package from a directory: a repository root (with build/webgpu inside) or that folder
 * itself. Reads metadata.json and manifest.json, checks every rule of the format, and verifies
 * digests. A folder without metadata.json loads, and nib_package_verified() is false. Templates are
 * read (and verified) when a plan needs them.
 * errors: IO, FORMAT, INTEGRITY, CONTRACT, SYNTAX, LIMIT, OUT_OF_MEMORY | owns: *out (nib_package_free)
 * threads: a loaded package is immutable and may be shared */
NIB_API NIB_CHECKED nib_status nib_package_load(nib_context *context, const char *directory,
                                                const nib_package_options *options,
                                                nib_package **out, nib_error *error);
NIB_API void nib_package_free(nib_package *package);

/* "com.microsoft.MatMulBnb4" */
NIB_API const char *nib_package_op(const nib_package *package);
/* The folder that holds manifest.json. */
NIB_API const char *nib_package_directory(const nib_package *package);
/* Hex SHA-256 over the manifest and the digest table: changes when any file of the contract does. */
NIB_API const char *nib_package_digest(const nib_package *package);
/* True when the manifest's digest was compared with metadata.json and matched. */
NIB_API bool nib_package_verified(const nib_package *package);

/* The contract, converted to one JSON object whatever its dialect was: domain, name, inputs, outputs,
 * attributes, tunables, variants ... Meant for people and tools ("nibble inspect --json").
 * owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_package_json(const nib_package *package, char **text,
                                                nib_error *error);

/* The templates that each variant reads, included ones too, as metadata.json lists them: a JSON
 * object, variant id -> sorted paths. Every template is read, verified and parsed.
 * errors: IO, INTEGRITY, CONTRACT (a path), SYNTAX, LIMIT, OUT_OF_MEMORY | owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_package_templates_json(const nib_package *package, char **text,
                                                          nib_error *error);

typedef enum nib_role { NIB_INPUT, NIB_OUTPUT, NIB_INOUT } nib_role;

/* A declared tensor. Strings live as long as the package. */
typedef struct nib_port_info {
    const char *key;         /* bind key: "qBT" */
    const char *onnx;        /* upstream name: "q_B"; the key when the manifest gives none */
    const char *dtype;       /* a dtype name or a type variable; NULL: untyped */
    const char *description; /* "" when the manifest gives none */
    nib_role role;
    bool optional;
    bool packed; /* stored four bytes a word on a GPU */
} nib_port_info;

NIB_API size_t nib_package_port_count(const nib_package *package);
NIB_API nib_port_info nib_package_port_at(const nib_package *package, size_t index);
/* Index of the port with this bind key or ONNX name; SIZE_MAX when there is none. */
NIB_API size_t nib_package_find_port(const nib_package *package, const char *name);

/* The SHA-256 of a file's bytes as metadata.json writes it: Base64 with padding, NUL-terminated.
 * errors: INTERNAL, OUT_OF_MEMORY */
#define NIB_DIGEST_TEXT_BYTES 45
NIB_API NIB_CHECKED nib_status nib_digest_text(const void *bytes, size_t count,
                                               char out[NIB_DIGEST_TEXT_BYTES], nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
