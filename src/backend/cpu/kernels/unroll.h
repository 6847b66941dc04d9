/* SPDX-License-Identifier: Apache-2.0
 *
 * UNROLL stands before a loop with a constant count over an array of vectors, so that the array
 * lives in registers. INLINE functions have parameters that are constants in each call, and such
 * loops over them.
 */
#ifndef NIB_BACKEND_CPU_UNROLL_H
#define NIB_BACKEND_CPU_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLL /* gcc ignores the annotation of an instrumented loop, and says so */
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#define INLINE static inline __attribute__((always_inline))

#endif
