/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIB_BACKEND_CPU_ROWS_H
#define NIB_BACKEND_CPU_ROWS_H

#include "kernels/kernels.h"

/* The best row at or below the one named `isa` that a processor with `bits` can run; isa NULL: the
 * best of all. NULL when there is no row of that name. */
const nib_cpu_row *nib_cpu_choose_row(const char *isa, unsigned bits);
/* "avx512, avx2, scalar": the rows of this build, into `out`. */
void nib_cpu_list_rows(char *out, size_t out_bytes);

#endif
