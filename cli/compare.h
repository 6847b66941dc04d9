/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tensors that should hold the same values.
 */
#ifndef NIBBLE_CLI_COMPARE_H
#define NIBBLE_CLI_COMPARE_H

#include "session.h"

/* Used where nothing names a tolerance: exact for integers; for floats what the operators promise,
 * one rounding of the accumulated sum more or less. */
double cli_default_tolerance(nib_dtype dtype);

/* Error as the tolerance counts it: absolute up to 1, relative beyond; infinite when no tolerance
 * helps. NaN meets NaN only when it is allowed. */
double cli_mixed_error(double actual, double expected, bool allow_nan);

typedef struct cli_difference {
    double worst; /* greatest error */
    size_t index; /* of the first element beyond the tolerance; SIZE_MAX: none */
} cli_difference;

bool cli_same_desc(const nib_tensor_desc *a, const nib_tensor_desc *b);
/* Both have the same description. */
cli_difference cli_compare(nib_tensor *actual, nib_tensor *expected, double tolerance,
                           bool allow_nan);

#endif
