/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- errors ---- */

nib_status cli_error(nib_error *error, nib_status code, const char *source, const char *format, ...)
{
    va_list args;
    *error = (nib_error){.code = code};
    snprintf(error->source, sizeof error->source, "%s", source ? source : "");
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return code;
}

json_t *cli_json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    char *clean = cli_dup(text, strlen(text));
    for (char *c = clean; *c; c++)
        *c = (unsigned char)*c >= 0x80 ? '?' : *c;
    string = json_string(clean);
    free(clean);
    return string;
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text[0])
        json_object_set_new(object, name, cli_json_text(text));
}

static json_t *error_to_json(const nib_error *error)
{
    json_t *object = json_object();
    set_text(object, "status", nib_status_name(error->code));
    set_text(object, "source", error->source);
    set_text(object, "path", error->path);
    if (error->line) {
        json_object_set_new(object, "line", json_integer(error->line));
        json_object_set_new(object, "column", json_integer(error->column));
    }
    set_text(object, "message", error->message[0] ? error->message : nib_status_text(error->code));
    return object;
}

void cli_print_clean(FILE *out, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        fputc(c < ' ' || c == 0x7f ? '?' : c, out);
    }
}

void cli_print_text(const char *text)
{
    const size_t length = strlen(text);
    fputs(text, stdout);
    if (length == 0 || text[length - 1] != '\n')
        fputc('\n', stdout);
}

/* The source line, and the caret below it. */
static void print_excerpt(const char *excerpt)
{
    const size_t first = strcspn(excerpt, "\n");
    char *line = cli_dup(excerpt, first);
    fputs("  ", stderr);
    cli_print_clean(stderr, line);
    fputc('\n', stderr);
    if (excerpt[first])
        fprintf(stderr, "  %s\n", excerpt + first + 1);
    free(line);
}

int cli_fail(cli_session *session, const nib_error *error)
{
    char line[sizeof error->message + sizeof error->source + sizeof error->path + 64];
    nib_error_format(error, line, sizeof line);
    cli_progress_end(session);
    fputs("nibble: ", stderr);
    cli_print_clean(stderr, line);
    fputc('\n', stderr);
    if (error->excerpt[0])
        print_excerpt(error->excerpt);
    if (session->json) {
        json_t *object = json_object();
        json_object_set_new(object, "error", error_to_json(error));
        cli_print_json(object);
    }
    return CLI_FAILED;
}

void cli_note(const cli_session *session, const char *format, ...)
{
    va_list args;
    if (session->quiet)
        return;
    cli_progress_end(session);
    fputs("nibble: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- JSON ---- */

int cli_print_json(json_t *object)
{
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    fputc('\n', stdout);
    json_decref(object);
    return CLI_OK;
}

json_t *cli_json_number(double value)
{
    if (!isfinite(value))
        return json_null();
    if (value == floor(value) && fabs(value) < 1e15)
        return json_integer((json_int_t)value);
    return json_real(value);
}

/* ---- files ---- */

/* Texts (scopes, capabilities, templates, test cases) above this are a mistake. */
#define TEXT_LIMIT ((size_t)256 << 20)

static nib_status read_stream(FILE *stream, const char *path, char **text, nib_error *error)
{
    size_t used = 0, capacity = 1 << 16;
    char *data = cli_alloc(capacity);
    for (;;) {
        used += fread(data + used, 1, capacity - used - 1, stream);
        if (used + 1 < capacity)
            break;
        char *grown = capacity < TEXT_LIMIT ? realloc(data, capacity * 2) : NULL;
        if (!grown) {
            free(data);
            return cli_error(error, NIB_LIMIT, path, "the file is larger than %zu bytes",
                             capacity - 1);
        }
        data = grown;
        capacity *= 2;
    }
    data[used] = '\0';
    if (ferror(stream) || strlen(data) != used) {
        const bool unreadable = ferror(stream);
        free(data);
        return cli_error(error, unreadable ? NIB_IO : NIB_FORMAT, path,
                         unreadable ? "the file could not be read"
                                    : "a text file must not contain a NUL byte");
    }
    *text = data;
    return NIB_OK;
}

nib_status cli_read_file(const char *path, char **text, nib_error *error)
{
    *text = NULL;
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", text, error);
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return cli_error(error, NIB_IO, path, "cannot open the file: %s", strerror(errno));
    const nib_status status = read_stream(stream, path, text, error);
    fclose(stream);
    return status;
}

nib_status cli_read_scope(const cli_session *session, char **scope, nib_error *error)
{
    const char *path = cli_value(&session->args, CLI_OPT_SCOPE);
    *scope = NULL;
    return path ? cli_read_file(path, scope, error) : NIB_OK;
}

void cli_name_scope(const cli_session *session, nib_error *error)
{
    const char *path = cli_value(&session->args, CLI_OPT_SCOPE);
    if (path && strcmp(error->source, "scope") == 0)
        snprintf(error->source, sizeof error->source, "%s", path);
}

nib_status cli_write_file(const char *path, const char *text, size_t bytes, nib_error *error)
{
    FILE *stream = fopen(path, "wb");
    if (!stream)
        return cli_error(error, NIB_IO, path, "cannot create the file: %s", strerror(errno));
    const bool complete = fwrite(text, 1, bytes, stream) == bytes;
    if (fclose(stream) != 0 || !complete)
        return cli_error(error, NIB_IO, path, "cannot write the file: %s", strerror(errno));
    return NIB_OK;
}

double cli_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
