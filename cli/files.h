/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders, replaced in one step so that a killed process leaves the old state or the new.
 */
#ifndef NIBBLE_CLI_FILES_H
#define NIBBLE_CLI_FILES_H

#include <stdio.h>

#include "session.h"

/* printf into memory of its own; free() it. Never NULL. */
char *cli_format(const char *format, ...) __attribute__((__format__(__printf__, 1, 2)));

bool cli_is_folder(const char *path);
bool cli_is_plain_file(const char *path);
/* A symbolic link, whatever it points at. */
bool cli_is_link(const char *path);

/* Create a folder and those above it; existing ones are fine. */
nib_status cli_make_folders(const char *path, nib_error *error);
/* The same for the folder of a file. */
nib_status cli_make_folder_of(const char *path, nib_error *error);

/* Read a file whole, any bytes, NUL-terminated. free(*bytes). */
nib_status cli_read_bytes(const char *path, size_t limit, char **bytes, size_t *count,
                          nib_error *error);
/* A file that is written beside `path` and renamed when it is complete: readers see the old bytes
 * or the new ones. A link is followed. What is there and no regular file, such as a pipe, and
 * standard output are written to as they are. */
typedef struct cli_output {
    FILE *stream;
    char *path, *beside; /* beside is NULL when there is nothing to rename */
} cli_output;

nib_status cli_output_open(cli_output *output, const char *path, nib_error *error);
/* Close a file that was opened, whatever the result. */
nib_status cli_output_close(cli_output *output, nib_error *error);
/* The same for bytes at hand. */
nib_status cli_replace_file(const char *path, const void *bytes, size_t count, nib_error *error);
nib_status cli_move(const char *from, const char *to, nib_error *error);
/* Put the folder `from` in the place of `to`, which may exist; what was there is removed. */
nib_status cli_replace_folder(const char *from, const char *to, nib_error *error);
/* A second name for a file, or a copy where the file system has no hard links. */
nib_status cli_link_file(const char *from, const char *to, nib_error *error);
/* Remove a file or a folder with all it holds, without following links. Missing is fine. */
void cli_remove_tree(const char *path);

/* The entries of a folder but "." and "..", sorted; names[count] is NULL. A folder that cannot be
 * read has none. */
char **cli_list_folder(const char *path, size_t *count);
void cli_free_names(char **names);

/* Take a lock that ends with the process; `waiting` is noted when another one holds it. Returns a
 * handle for cli_unlock, negative after an error. */
int cli_lock(const cli_session *session, const char *path, const char *waiting, nib_error *error);
void cli_unlock(int lock);

#endif
