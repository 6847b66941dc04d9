/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a nib_error. All functions accept error == NULL, and keep the first failure: an error that already has a
 * code is not overwritten.
 */
#ifndef NIB_BASE_ERROR_H
#define NIB_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include "nibble/status.h"

/* Set code and message; returns code, so that a failure is one statement: return nib_fail(error, NIB_IO, "..."). */
nib_status nib_fail(nib_error *error, nib_status code, const char *format, ...) NIB_PRINTF(3, 4);
nib_status nib_fail_v(nib_error *error, nib_status code, const char *format, va_list args)
    NIB_PRINTF(3, 0);
nib_status nib_fail_memory(nib_error *error);

/* Add context to a failure on its way up; each does nothing when the field is already set. */
void nib_error_source(nib_error *error, const char *source);
/* Put `prefix` in front of the JSON path: ("passes[0]", ".dispatch") gives "passes[0].dispatch". */
void nib_error_path_prefix(nib_error *error, const char *format, ...) NIB_PRINTF(2, 3);
/* Line, column and caret excerpt of the byte at `offset` in `text`. */
void nib_error_position(nib_error *error, const char *text, size_t text_bytes, size_t offset);

/* Return early on failure; for functions whose memory is an arena's. */
#define NIB_TRY(call)                                                                              \
    do {                                                                                           \
        const nib_status nib_try_status_ = (call);                                                 \
        if (nib_try_status_ != NIB_OK)                                                             \
            return nib_try_status_;                                                                \
    } while (0)

#endif
