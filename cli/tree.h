/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a package as metadata.json lists them: digest.files (format 1.2, 1.6).
 */
#ifndef NIBBLE_CLI_TREE_H
#define NIBBLE_CLI_TREE_H

#include "session.h"

/* What the library would read at most (format 1.8 sets none). */
#define CLI_PACKAGE_FILE_LIMIT ((size_t)64 << 20)
#define CLI_PACKAGE_JSON_LIMIT ((size_t)8 << 20)
/* Where the package lies in its repository. */
#define CLI_PACKAGE_FOLDER "build/webgpu"

typedef struct cli_tree_file {
    char *path;                         /* below build/webgpu */
    char digest[NIB_DIGEST_TEXT_BYTES]; /* Base64 */
    char name[65];                      /* the same in hexadecimal */
} cli_tree_file;

typedef struct cli_tree {
    cli_tree_file *files;
    size_t count;
} cli_tree;

/* A path that stays inside the package (format 1.6). */
bool cli_tree_is_path(const char *path);

/* Read digest.files of a metadata.json; `source` names it in errors. Free `tree` in any case. */
nib_status cli_tree_read(const char *text, size_t length, const char *source, cli_tree *tree,
                         nib_error *error);
void cli_tree_free(cli_tree *tree);

/* Does the file at `path` have this digest? errors: IO, LIMIT, INTEGRITY */
nib_status cli_tree_check_file(const cli_tree_file *file, const char *path, nib_error *error);
/* All files of the table, below `folder`; symbolic links do not count. */
nib_status cli_tree_check(const cli_tree *tree, const char *folder, nib_error *error);

#endif
