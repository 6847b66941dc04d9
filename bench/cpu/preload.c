/* SPDX-License-Identifier: Apache-2.0
 *
 * LD_PRELOAD=libbench-preload.so PROGRAM, for a peer that is a program of its own:
 *   BENCH_MACHINE=avx2   the program sees an AVX2 machine, or does not start
 *   BENCH_PROCESSORS=N   it counts N processors (test-backend-ops uses half as many threads as it
 * counts)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hide_isa.h"

int get_nprocs(void); /* of the C library, which this takes the place of */

int get_nprocs(void)
{
    const char *text = getenv("BENCH_PROCESSORS");
    const long count = text ? strtol(text, NULL, 10) : 1;
    return count > 0 && count < 1 << 16 ? (int)count : 1;
}

__attribute__((constructor)) static void hide_at_start(void)
{
    const char *machine = getenv("BENCH_MACHINE");
    if (!machine || !*machine)
        return;
    const char *why = strcmp(machine, "avx2") == 0 ? bench_hide_isa() : "there is only avx2";
    if (why) {
        fprintf(stderr, "BENCH_MACHINE=%s: CANNOT HIDE AVX-512: %s\n", machine, why);
        _Exit(3);
    }
}
