/* SPDX-License-Identifier: Apache-2.0
 *
 * Before a loop with a constant count over an array of vectors: unroll it, so that the array lives in registers.
 */
#ifndef NIB_BACKEND_CPU_UNROLL_H
#define NIB_BACKEND_CPU_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#endif
