/* SPDX-License-Identifier: Apache-2.0
 *
 * A processor with AVX-512 made to look like one that ends with AVX2, FMA and F16C, to this process
 * and to every library that it loads afterwards. Linux on x86-64, where the processor can make
 * CPUID fault.
 */
#ifndef NIB_BENCH_HIDE_ISA_H
#define NIB_BENCH_HIDE_ISA_H

/* From now on CPUID reports no AVX-512, AVX-VNNI, AVX10 or AMX in this thread and in those it
 * starts. NULL, or why that cannot be had. */
const char *bench_hide_isa(void);

#endif
