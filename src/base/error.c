/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

const char *nib_status_name(nib_status status)
{
    switch (status) {
#define XX(name, value, text)                                                                      \
    case NIB_##name:                                                                               \
        return "NIB_" #name;
        NIB_STATUS_MAP(XX)
#undef XX
    }
    return "NIB_UNKNOWN";
}

const char *nib_status_text(nib_status status)
{
    switch (status) {
#define XX(name, value, text)                                                                      \
    case NIB_##name:                                                                               \
        return text;
        NIB_STATUS_MAP(XX)
#undef XX
    }
    return "unknown status";
}

int nib_error_format(const nib_error *error, char *out, uint64_t out_bytes)
{
    char position[32] = "";
    if (error->line)
        snprintf(position, sizeof position, ":%u:%u", error->line, error->column);
    const char *after_source = error->source[0] || error->line ? ": " : "";
    const char *after_path = error->path[0] ? ": " : "";
    const char *message = error->message[0] ? error->message : nib_status_text(error->code);
    return snprintf(out, (size_t)out_bytes, "%s%s%s%s%s%s", error->source, position, after_source,
                    error->path, after_path, message);
}

nib_status nib_fail_v(nib_error *error, nib_status code, const char *format, va_list args)
{
    if (error && error->code == NIB_OK) {
        memset(error, 0, sizeof *error);
        error->code = code;
        vsnprintf(error->message, sizeof error->message, format, args);
        for (char *c = error->message; *c; c++) {
            if (*c == '\n' || *c == '\r')
                *c = ' ';
        }
    }
    return code;
}

nib_status nib_fail(nib_error *error, nib_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    nib_fail_v(error, code, format, args);
    va_end(args);
    return code;
}

nib_status nib_fail_memory(nib_error *error)
{
    return nib_fail(error, NIB_OUT_OF_MEMORY, "out of memory");
}

void nib_error_source(nib_error *error, const char *source)
{
    if (error && error->source[0] == '\0')
        snprintf(error->source, sizeof error->source, "%s", source);
}

void nib_error_path_prefix(nib_error *error, const char *format, ...)
{
    if (!error)
        return;
    char joined[sizeof error->path * 2];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(joined, sizeof error->path, format, args);
    va_end(args);
    if (length < 0)
        return;
    const size_t used = strlen(joined);
    const char *rest = error->path;
    const char *dot = used && rest[0] && rest[0] != '[' && rest[0] != '.' ? "." : "";
    snprintf(joined + used, sizeof joined - used, "%s%s", dot, rest);
    joined[sizeof error->path - 1] = '\0';
    memcpy(error->path, joined, sizeof error->path);
}

void nib_error_position(nib_error *error, const char *text, size_t text_bytes, size_t offset)
{
    if (!error || error->line)
        return;
    if (offset > text_bytes)
        offset = text_bytes;
    size_t line_start = 0;
    uint32_t line = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    size_t line_end = offset;
    while (line_end < text_bytes && text[line_end] != '\n')
        line_end++;
    error->line = line;
    error->column = (uint32_t)(offset - line_start + 1);

    /* Show at most `window` bytes of the line, with the offending one among them. */
    const size_t window = 100;
    size_t from = line_start;
    if (offset - line_start > window * 3 / 4)
        from = offset - window * 3 / 4;
    const size_t to = line_end - from > window ? from + window : line_end;
    size_t used = 0;
    for (size_t i = from; i < to; i++)
        error->excerpt[used++] = text[i] == '\t' || (unsigned char)text[i] < ' ' ? ' ' : text[i];
    error->excerpt[used++] = '\n';
    for (size_t i = from; i < offset; i++)
        error->excerpt[used++] = ' ';
    error->excerpt[used++] = '^';
    error->excerpt[used] = '\0';
}
