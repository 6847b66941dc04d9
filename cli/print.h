/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and their elements, for people and as JSON.
 */
#ifndef NIBBLE_CLI_PRINT_H
#define NIBBLE_CLI_PRINT_H

#include "session.h"

/* One element as a double (int64 beyond 2^53 loses digits). */
double cli_element(nib_tensor *tensor, size_t index);
/* Store a double as one element, rounded to the dtype; integers wrap around at their width
 * (format 9.1). */
void cli_set_element(nib_tensor *tensor, size_t index, double value);
/* Store an integer, modulo the width of an integer dtype. */
void cli_set_integer(nib_tensor *tensor, size_t index, uint64_t value);
size_t cli_elements(const nib_tensor *tensor);

/* "float32[2,3]" in a buffer of the caller. */
#define CLI_DESC_MAX 400
const char *cli_desc_text(const nib_tensor_desc *desc, char out[CLI_DESC_MAX]);

/* Print dtype, shape, min, max, mean and the first values. */
void cli_print_tensor(FILE *out, const char *title, nib_tensor *tensor);
/* {"dtype", "shape", "min", "max", "mean", "nan", "first"}: "nan" counts NaN elements, which min,
 * max and mean leave out; values that JSON cannot write are the texts "NaN", "Infinity",
 * "-Infinity". */
json_t *cli_tensor_json(nib_tensor *tensor);
/* Shortest text that reads back as the same value of the tensor's dtype. */
void cli_number_text(nib_dtype dtype, double value, char out[32]);

/* Print a JSON value on standard output, a real in its shortest form. */
void cli_print_value(const json_t *value);

/* For lists of {variant, verdict, reason}: with dozens of variants most have the same reason, and a
 * reason is printed once. Whether entry `index` is the first with its verdict and reason; and the
 * names of all that have them, "a, b, c", with `indent` blanks before each further line. */
bool cli_is_first_reason(const json_t *list, size_t index);
void cli_print_same_reason(const json_t *list, size_t index, int indent);

#endif
