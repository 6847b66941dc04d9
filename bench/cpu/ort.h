/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX Runtime as a peer. The library is loaded at run time and spoken to through its C interface,
 * whose table of functions only ever grows at its end; the few entries that are used are declared
 * here by their place in it.
 */
#ifndef NIB_BENCH_ORT_H
#define NIB_BENCH_ORT_H

#include "backend/cpu/problem.h"

typedef struct bench_ort bench_ort;
typedef struct bench_ort_session bench_ort_session;

/* NULL, and a line on standard error, when the library cannot be used. */
bench_ort *bench_ort_open(const char *library);
const char *bench_ort_version(const bench_ort *ort);
void bench_ort_close(bench_ort *ort);

/* A session for the problem with `threads` threads; its outputs are allocated and stay the same.
 * NULL on failure. */
bench_ort_session *bench_ort_session_make(bench_ort *ort, const nib_cpu_problem *problem,
                                          int quant_type, size_t threads);
bool bench_ort_session_run(bench_ort_session *session);
const void *bench_ort_session_output(const bench_ort_session *session, size_t which);
void bench_ort_session_free(bench_ort_session *session);

#endif
