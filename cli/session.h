/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of the program: its arguments, the library context, and how things are reported.
 */
#ifndef NIBBLE_CLI_SESSION_H
#define NIBBLE_CLI_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "memory.h"
#include "nibble/nibble.h"
#include "options.h"

typedef struct cli_session {
    cli_args args;
    nib_context *context;
    bool json;     /* exactly one JSON object goes to standard output */
    bool quiet;    /* only errors go to standard error */
    bool verbose;  /* the library's log goes to standard error */
    bool progress; /* a progress line may be shown: standard error is a terminal */
} cli_session;

/* Fill `error` (as the library would) and return its code. */
nib_status cli_error(nib_error *error, nib_status code, const char *source, const char *format, ...)
    __attribute__((__format__(__printf__, 4, 5)));
/* Report a failure: "nibble: ..." and the excerpt on standard error, and with --json an object
 * {"error": ...} on standard output. Returns CLI_FAILED. */
int cli_fail(cli_session *session, const nib_error *error);
/* Print "nibble: ..." on standard error unless --quiet. */
void cli_note(const cli_session *session, const char *format, ...)
    __attribute__((__format__(__printf__, 2, 3)));

/* Print text without the control characters that could drive a terminal: it may come from a hostile
 * package. */
void cli_print_clean(FILE *out, const char *text);

/* Print text on standard output, with a line end if it has none. */
void cli_print_text(const char *text);

/* Print `object` as the one JSON object of the run and drop it. Returns CLI_OK. */
int cli_print_json(json_t *object);
/* A JSON string; bytes that are not UTF-8 (a path may have them) become question marks. */
json_t *cli_json_text(const char *text);
/* A JSON number, or null where JSON has none (NaN, infinities). */
json_t *cli_json_number(double value);

/* Read a whole text file ("-" is standard input). NUL-terminated; free() it. */
nib_status cli_read_file(const char *path, char **text, nib_error *error);
/* The text of --scope, or NULL. free() it. */
nib_status cli_read_scope(const cli_session *session, char **scope, nib_error *error);
/* The library knows the scope as "scope": put the file's name in its place. */
void cli_name_scope(const cli_session *session, nib_error *error);
nib_status cli_write_file(const char *path, const char *text, size_t bytes, nib_error *error);

/* A line on a terminal that replaces itself; nothing anywhere else. total 0: no count. */
void cli_progress(const cli_session *session, size_t done, size_t total, const char *what);
void cli_progress_end(const cli_session *session);
bool cli_stderr_is_terminal(void);

/* Seconds on a clock that does not jump. */
double cli_seconds(void);

#endif
