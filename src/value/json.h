/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text to values and back. Reading is strict (RFC 8259), keeps key order, refuses duplicate
 * keys and nesting deeper than NIB_JSON_MAX_DEPTH; every number is a binary64.
 */
#ifndef NIB_VALUE_JSON_H
#define NIB_VALUE_JSON_H

#include "base/buf.h"
#include "base/error.h"
#include "value/value.h"

#define NIB_JSON_MAX_DEPTH 100

/* `source` names the document in errors; line and column are set. errors: FORMAT, LIMIT,
 * OUT_OF_MEMORY */
nib_status nib_json_parse(nib_arena *arena, const char *text, size_t text_bytes, const char *source,
                          nib_value *out, nib_error *error);

/* What NaN and the infinities, which JSON has no word for, become: null as JavaScript writes them,
 * the text "Infinity", or the bare word. */
typedef enum nib_json_nonfinite {
    NIB_NONFINITE_NULL,
    NIB_NONFINITE_TEXT,
    NIB_NONFINITE_BARE,
} nib_json_nonfinite;

/* Append compact JSON ("[1, 2]" with spaces when `spaced`), or indented by `indent` blanks per
 * level when it is not 0. Undefined, functions and views become null. */
typedef struct nib_json_style {
    unsigned indent;
    bool spaced;
    nib_json_nonfinite nonfinite;
} nib_json_style;
void nib_json_write(nib_buf *buf, nib_value value, nib_json_style style);
/* Append one JSON string literal. */
void nib_json_write_string(nib_buf *buf, nib_str s);

#endif
