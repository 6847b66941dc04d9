/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to one of the operators with random data, and its answer from the CPU backend. Shared by the tests that
 * compare the GPU with it.
 */
#ifndef GPU_TEST_PROBLEM_H
#define GPU_TEST_PROBLEM_H

#include "gpu_test.h"

typedef enum op_kind { OP_QKV, OP_MLP, OP_BNB4 } op_kind;

typedef struct shape {
    op_kind op;
    int64_t batch; /* 0: A has rank 2 */
    int64_t rows, K, N, Nkv;
    int64_t block_size, bits, quant_type;
    nib_dtype dtype;
    bool norm, skip, residual, gate_bias, up_bias;
} shape;

enum { MAX_TENSORS = 12, MAX_OUTPUTS = 4 };

typedef struct problem {
    shape shape;
    nib_named_desc tensors[MAX_TENSORS];
    nib_tensor *inputs[MAX_TENSORS];
    size_t input_count;
    const char *outputs[MAX_OUTPUTS];
    nib_tensor *expected[MAX_OUTPUTS]; /* from the CPU */
    size_t output_count;
    const char *want[1];
    size_t want_count;
    nib_named_scalar attributes[8];
    size_t attribute_count;
} problem;

const char *op_name(op_kind op); /* "MatMulNBitsQkv" */
/* The operator's own package, or the manifest that NIBBLE_TEST_MANIFEST_<op> names with that package's templates. */
nib_package *load_op(nib_context *context, op_kind op);

void make_problem(nib_context *context, const shape *s, rng *r, problem *out);
/* Solve it on the CPU; fills `expected`. */
void solve_problem(nib_context *context, nib_device *cpu, const nib_package *package, problem *p);
void free_problem(problem *p);
nib_request request_of(const problem *p, const char *variant);

/* The first element that is not close to the expected one, in words; false when all are. */
bool differs(const nib_tensor_desc *desc, const void *got, const void *expected, char *text, size_t text_bytes);

#endif
