/* SPDX-License-Identifier: Apache-2.0
 *
 * A growable text buffer that is born with a maximum. Failures are sticky: append freely, test once at the end.
 */
#ifndef NIB_BASE_BUF_H
#define NIB_BASE_BUF_H

#include <stdarg.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/str.h"

typedef struct nib_buf {
    const nib_allocator *allocator;
    char *data; /* NUL-terminated when not NULL */
    size_t len, capacity, limit;
    nib_status status; /* NIB_OK, NIB_OUT_OF_MEMORY or NIB_LIMIT */
} nib_buf;

#define NIB_BUF_DEFAULT_LIMIT ((size_t)64 << 20)
/* limit 0 means NIB_BUF_DEFAULT_LIMIT */
void nib_buf_init(nib_buf *buf, const nib_allocator *allocator, size_t limit);
void nib_buf_free(nib_buf *buf);
void nib_buf_append(nib_buf *buf, const char *data, size_t len);
void nib_buf_str(nib_buf *buf, nib_str s);
void nib_buf_puts(nib_buf *buf, const char *text);
void nib_buf_putc(nib_buf *buf, char c);
void nib_buf_printf(nib_buf *buf, const char *format, ...) NIB_PRINTF(2, 3);
/* Fail with the sticky status, naming `what` ("the rendered template"). */
nib_status nib_buf_check(const nib_buf *buf, const char *what, nib_error *error);
/* Hand the text over as an exact-size allocation for nib_text_free; frees the buffer on failure. */
nib_status nib_buf_take(nib_buf *buf, const char *what, char **text, nib_error *error);

#endif
