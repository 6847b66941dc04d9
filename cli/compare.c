/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <math.h>

#include "print.h"

double cli_default_tolerance(nib_dtype dtype)
{
    if (dtype == NIB_FLOAT32)
        return 1e-5;
    return dtype == NIB_FLOAT16 ? 2e-3 : 0;
}

double cli_mixed_error(double actual, double expected, bool allow_nan)
{
    if (isnan(actual) || isnan(expected))
        return allow_nan && isnan(actual) && isnan(expected) ? 0 : HUGE_VAL;
    if (actual == expected)
        return 0;
    if (isinf(actual) || isinf(expected))
        return HUGE_VAL;
    return fabs(actual - expected) / fmax(1, fabs(expected));
}

bool cli_same_desc(const nib_tensor_desc *a, const nib_tensor_desc *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i])
            return false;
    }
    return true;
}

cli_difference cli_compare(nib_tensor *actual, nib_tensor *expected, double tolerance,
                           bool allow_nan)
{
    cli_difference difference = {.index = SIZE_MAX};
    for (size_t i = 0; i < cli_elements(actual); i++) {
        const double error =
            cli_mixed_error(cli_element(actual, i), cli_element(expected, i), allow_nan);
        difference.worst = fmax(difference.worst, error);
        if (error > tolerance && difference.index == SIZE_MAX)
            difference.index = i;
    }
    return difference;
}
