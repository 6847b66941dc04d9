/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX models in memory, enough of them to time ONNX Runtime on what the kernels do: the
 * normalization and one node for each matrix, and for the gated product the activation after it.
 */
#ifndef NIB_BENCH_ONNX_MODEL_H
#define NIB_BENCH_ONNX_MODEL_H

#include "backend/cpu/problem.h"

typedef struct bench_bytes {
    unsigned char *data;
    size_t count, capacity;
} bench_bytes;

/* Serialized ModelProto of a problem: input "A" [M,K], outputs "Y0", "Y1", ... [M,N]. The caller
 * frees `data`. */
bench_bytes bench_onnx_model(const nib_cpu_problem *problem, int quant_type);

#endif
