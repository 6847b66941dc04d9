/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a package: which paths are allowed, and reading them without leaving its folder.
 */
#ifndef NIB_PACKAGE_FILES_H
#define NIB_PACKAGE_FILES_H

#include "base/error.h"
#include "base/memory.h"

#define NIB_PACKAGE_FILE_LIMIT ((size_t)64 << 20)
#define NIB_PACKAGE_JSON_LIMIT ((size_t)8 << 20)

/* Path syntax of format 1.6: segments of [A-Za-z0-9._-]+ joined by "/", no "..", no forbidden key.
 * errors: CONTRACT */
nib_status nib_check_path(nib_str path, nib_error *error);

/* Read a regular file whole, NUL-terminated. errors: IO, LIMIT, OUT_OF_MEMORY */
nib_status nib_read_file(nib_arena *arena, const char *path, size_t limit, nib_str *bytes,
                         nib_error *error);

/* The same for a path below `directory`; a symbolic link that leads out of the folder is refused.
 * errors: CONTRACT (path), IO, LIMIT, OUT_OF_MEMORY */
nib_status nib_read_file_inside(nib_arena *arena, const char *directory, nib_str path, size_t limit,
                                nib_str *bytes, nib_error *error);

bool nib_is_directory(const char *path);
bool nib_file_exists(const char *path);

#endif
