/* SPDX-License-Identifier: Apache-2.0
 *
 * metadata.json of a package folder, computed from its files (format 1.2, 1.6).
 */
#ifndef NIBBLE_CLI_PACK_H
#define NIBBLE_CLI_PACK_H

#include "session.h"

/* A package as its author has it: metadata.json, if any, is not believed. */
typedef struct cli_source {
    char *folder;   /* the one that holds manifest.json */
    char *manifest; /* its path */
    nib_package *package;
    json_t *contract;  /* nib_package_json */
    json_t *templates; /* nib_package_templates_json; NULL when a template is not sound */
    char **files;      /* all templates in the folder, sorted, NULL at the end */
    size_t file_count;
} cli_source;

/* Load the manifest of a repository root or its build/webgpu. Free `source` in any case. */
nib_status cli_source_load(const cli_session *session, const char *directory, cli_source *source,
                           nib_error *error);
/* Read its templates: source->templates. */
nib_status cli_source_read_templates(const cli_session *session, cli_source *source,
                                     nib_error *error);
void cli_source_free(cli_source *source);

/* The text that metadata.json should hold. Members that only the author knows (version, license,
 * provenance ...) stay as they are in `old`, which may be NULL; `version` 0 keeps the old one.
 * free() the text. */
nib_status cli_pack_text(const cli_source *source, const json_t *old, int64_t version, char **text,
                         nib_error *error);

#endif
