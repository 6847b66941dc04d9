/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, independent of the C locale.
 */
#ifndef NIB_VALUE_NUMBER_H
#define NIB_VALUE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* ECMAScript Number::toString: the shortest decimal that reads back as the same binary64, plain
 * notation for 1e-6 <= |x| < 1e21, "NaN", "Infinity", "0" for -0. Returns the length; the text is
 * NUL-terminated. */
#define NIB_NUMBER_TEXT_BYTES 32
size_t nib_number_format(double number, char out[NIB_NUMBER_TEXT_BYTES]);

/* All digits of an integral double below 1e21 (2^60 is 1152921504606846976), without a fraction;
 * keeps "-0". */
size_t nib_integer_format_exact(double number, char out[NIB_NUMBER_TEXT_BYTES]);

/* digits [ "." digits ] [ e [sign] digits ] with an optional sign, the whole string; false
 * otherwise. */
bool nib_number_parse(nib_str text, double *out);

/* ECMAScript white space and line ends (Unicode blanks and the byte order mark included): its bytes
 * at one end of the text, 0 when there is none; and String.prototype.trim. */
size_t nib_js_space_at_start(nib_str text);
size_t nib_js_space_at_end(nib_str text);
nib_str nib_js_trim(nib_str text);

/* ECMAScript ToNumber of a string: white space trimmed, "" is 0, "0x10" is 16, "Infinity"; NaN when
 * it is no number. */
double nib_number_from_js_string(nib_str text);

#endif
