/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kernel rows, best first. Choosing is reading it: the first row whose needs the
 * processor meets.
 */
#include "rows.h"

#include <stdio.h>
#include <string.h>

const nib_cpu_row *const nib_cpu_rows[] = {
#if defined(__x86_64__)
#if defined(__linux__) /* whose way of asking for tiles detect.c knows */
    &nib_cpu_amx,
#endif
    &nib_cpu_avx512vnni, &nib_cpu_avx512, &nib_cpu_avxvnni, &nib_cpu_avx2,
#elif defined(__aarch64__)
    &nib_cpu_neondot,
#endif
    &nib_cpu_scalar,
};
const size_t nib_cpu_row_count = sizeof nib_cpu_rows / sizeof *nib_cpu_rows;

const nib_cpu_row *nib_cpu_choose_row(const char *isa, unsigned bits)
{
    size_t first = 0;
    if (isa) {
        while (first < nib_cpu_row_count && strcmp(nib_cpu_rows[first]->name, isa) != 0)
            first++;
    }
    for (size_t i = first; i < nib_cpu_row_count; i++) {
        if ((nib_cpu_rows[i]->needs & ~bits) == 0)
            return nib_cpu_rows[i];
    }
    return NULL;
}

void nib_cpu_list_rows(char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < nib_cpu_row_count && used < out_bytes; i++) {
        const int n =
            snprintf(out + used, out_bytes - used, "%s%s", i ? ", " : "", nib_cpu_rows[i]->name);
        used += n > 0 ? (size_t)n : 0;
    }
}
