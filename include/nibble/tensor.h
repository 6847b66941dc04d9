/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: a dtype, a shape and memory. Row-major, tightly packed, little-endian. Semantics of
 * dtypes: docs/format.md, "Tensors" (package format section 5.1).
 */
#ifndef NIBBLE_TENSOR_H
#define NIBBLE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nibble/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, text, bytes of one element in host memory and in files */
#define NIB_DTYPE_MAP(XX)                                                                          \
    XX(FLOAT16, "float16", 2)                                                                      \
    XX(FLOAT32, "float32", 4)                                                                      \
    XX(INT8, "int8", 1)                                                                            \
    XX(INT16, "int16", 2)                                                                          \
    XX(INT32, "int32", 4)                                                                          \
    XX(INT64, "int64", 8)                                                                          \
    XX(UINT8, "uint8", 1)                                                                          \
    XX(UINT32, "uint32", 4)                                                                        \
    XX(BOOL, "bool", 1)

typedef enum nib_dtype {
    NIB_DTYPE_NONE, /* absent or unknown; zero, so that a zeroed descriptor is visibly empty */
#define XX(name, text, bytes) NIB_##name,
    NIB_DTYPE_MAP(XX)
#undef XX
    NIB_DTYPE_COUNT
} nib_dtype;

#define NIB_MAX_RANK 16

/* "float32" for NIB_FLOAT32; "none" for anything that is no dtype. threads: any */
NIB_API const char *nib_dtype_name(nib_dtype dtype);
/* NIB_DTYPE_NONE for an unknown name. */
NIB_API nib_dtype nib_dtype_from_name(const char *name);
/* Bytes of one element in host memory; 0 for NIB_DTYPE_NONE. */
NIB_API size_t nib_dtype_bytes(nib_dtype dtype);

/* dims[0] is the outermost. rank 0 is a scalar of one element; a zero dim gives an empty tensor. */
typedef struct nib_tensor_desc {
    nib_dtype dtype;
    uint32_t rank;
    int64_t dims[NIB_MAX_RANK];
} nib_tensor_desc;

/* Number of elements and of host bytes. errors: INVALID_ARGUMENT (negative dim, rank, no dtype), LIMIT (overflow) */
NIB_API NIB_CHECKED nib_status nib_tensor_desc_elements(const nib_tensor_desc *desc, size_t *out,
                                                        nib_error *error);
NIB_API NIB_CHECKED nib_status nib_tensor_desc_bytes(const nib_tensor_desc *desc, size_t *out,
                                                     nib_error *error);
/* Parse "float32[2,3]" ("float32[]" is a scalar). errors: INVALID_ARGUMENT */
NIB_API NIB_CHECKED nib_status nib_tensor_desc_parse(const char *text, nib_tensor_desc *out,
                                                     nib_error *error);
/* Write "float32[2,3]", NUL-terminated, truncated to fit; returns the length it would need. */
NIB_API int nib_tensor_desc_format(const nib_tensor_desc *desc, char *out, size_t out_bytes);

/* A tensor in host memory (or, made through a device's own header, in device memory). */
typedef struct nib_tensor nib_tensor;

/* A fresh zeroed tensor that owns its memory, aligned to 64 bytes.
 * errors: INVALID_ARGUMENT, LIMIT, OUT_OF_MEMORY | owns: *out (nib_tensor_free) */
NIB_API NIB_CHECKED nib_status nib_tensor_create(nib_context *context, const nib_tensor_desc *desc,
                                                 nib_tensor **out, nib_error *error);
/* A view of the caller's memory: `data` must hold nib_tensor_desc_bytes(desc) bytes, at any
 * alignment, and outlive the tensor. Nothing is copied. */
NIB_API NIB_CHECKED nib_status nib_tensor_borrow(nib_context *context, const nib_tensor_desc *desc,
                                                 void *data, size_t data_bytes, nib_tensor **out,
                                                 nib_error *error);
/* The same, and nibble takes the memory over: release(user, data) runs when the tensor is freed
 * (on failure the caller keeps it). */
NIB_API NIB_CHECKED nib_status nib_tensor_take(nib_context *context, const nib_tensor_desc *desc,
                                               void *data, size_t data_bytes,
                                               void (*release)(void *user, void *data), void *user,
                                               nib_tensor **out, nib_error *error);
/* Free a tensor. It must not be bound to a call that is still running. NULL is fine. */
NIB_API void nib_tensor_free(nib_tensor *tensor);

NIB_API const nib_tensor_desc *nib_tensor_describe(const nib_tensor *tensor);
/* Host memory of the tensor; NULL when it lives on a device only. Valid until the tensor is freed. */
NIB_API void *nib_tensor_data(nib_tensor *tensor);
NIB_API size_t nib_tensor_bytes(const nib_tensor *tensor);

/* Promise that the host memory will not change (or take the promise back): devices then keep their copy of it instead of
 * sending it again on every run. Meant for weights; tensors read from files (nibble/file.h) begin with the promise given. */
NIB_API void nib_tensor_set_constant(nib_tensor *tensor, bool constant);

/* IEEE binary16 <-> binary32. To half: round to nearest even, subnormals kept, overflow to infinity. */
NIB_API uint16_t nib_half_from_float(float value);
NIB_API float nib_half_to_float(uint16_t half);

#ifdef __cplusplus
}
#endif
#endif
