/* SPDX-License-Identifier: Apache-2.0
 *
 * The helper functions of manifest expressions: format 3.7.
 */
#ifndef NIB_EXPR_HELPERS_H
#define NIB_EXPR_HELPERS_H

#include "expr/expr.h"

/* NULL when there is no helper of that name. The two flags are those of nib_scope. */
const nib_function *nib_expr_helper(nib_str name, bool device_has_f16, bool list_dialect);
/* The name of helper `index`, NULL behind the last; those of the list dialect come last. */
const char *nib_expr_helper_name(size_t index, bool list_dialect);

#endif
