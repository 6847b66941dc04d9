/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in files: npy (1.0-3.0), npz, safetensors, GGUF. Files are hostile until validated.
 */
#ifndef NIBBLE_FILE_H
#define NIBBLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "nibble/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An opened container of named tensors. Its file stays mapped (or read) until it is freed. */
typedef struct nib_file nib_file;

/* One stored tensor. `stored` names the encoding in the file ("F32", "BF16", "Q4_0", "<f4"). `desc` is what
 * nib_file_read gives, dims outermost first; its dtype is NIB_DTYPE_NONE for an encoding that cannot be read.
 * quantized: a GGUF block format, readable as float32 or, for Q4_0, as nbits weights. Strings live as long as the
 * file. */
typedef struct nib_file_entry {
    const char *name;
    const char *stored;
    nib_tensor_desc desc;
    bool quantized;
} nib_file_entry;

/* Open by content, not by suffix. A .npy file has one entry, named "". Limits and conversions: docs/files.md.
 * errors: IO, FORMAT, LIMIT, UNSUPPORTED, OUT_OF_MEMORY | owns: *out (nib_file_free) | threads: reads may run in parallel */
NIB_API NIB_CHECKED nib_status nib_file_open(nib_context *context, const char *path, nib_file **out,
                                             nib_error *error);
NIB_API void nib_file_free(nib_file *file);

NIB_API size_t nib_file_count(const nib_file *file);
NIB_API nib_file_entry nib_file_describe(const nib_file *file, size_t index);
/* SIZE_MAX when there is none of that name. */
NIB_API size_t nib_file_find(const nib_file *file, const char *name);

/* Read one tensor. Data that lies in the file as it is needed is borrowed from the mapping (the tensor must then be
 * freed before the file); anything else is copied or converted: BF16, float64 and GGUF blocks become float32.
 * Weights read from a file do not change, so the tensor is constant (nib_tensor_set_constant): a device keeps its copy.
 * A caller who writes into it takes that back first, nib_tensor_set_constant(tensor, false); the file never changes.
 * errors: FORMAT, UNSUPPORTED, LIMIT, OUT_OF_MEMORY | owns: *out (nib_tensor_free) */
NIB_API NIB_CHECKED nib_status nib_file_read(nib_file *file, size_t index, nib_tensor **out,
                                             nib_error *error);

/* Read a GGUF Q4_0 matrix [N,K] as nbits weights without requantizing: *packed uint8 [N, K/32, 16] and *scales
 * float16 [N, K/32], both constant. Dequantized values are equal to the file's. errors: UNSUPPORTED for any other encoding */
NIB_API NIB_CHECKED nib_status nib_file_read_nbits(nib_file *file, size_t index, nib_tensor **packed,
                                                   nib_tensor **scales, nib_error *error);

/* "FILE.npy", "FILE.npz:member", "FILE.safetensors:tensor", "FILE.gguf:tensor", or a literal "float32[2,3]=0.5",
 * "int64[3]=1,2,3", "float32[4,576]=rand:7" (docs/files.md). The result owns all it needs; from a file it is constant
 * (nib_file_read), a literal is not. errors: as nib_file_open and nib_file_read, INVALID_ARGUMENT | owns: *out (nib_tensor_free) */
NIB_API NIB_CHECKED nib_status nib_tensor_from_spec(nib_context *context, const char *spec,
                                                    nib_tensor **out, nib_error *error);

/* Write one tensor as .npy (version 1.0, C order). The file appears whole or not at all.
 * errors: IO, UNSUPPORTED, OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_npy_write(nib_context *context, const char *path,
                                             nib_tensor *tensor, nib_error *error);

typedef struct nib_named_tensor {
    const char *name;
    nib_tensor *tensor;
} nib_named_tensor;

/* Write tensors (and string metadata: key, value, key, value ...) as safetensors. Wide elements come first, so that
 * every tensor is aligned. The file appears whole or not at all.
 * errors: IO, INVALID_ARGUMENT (names that repeat), UNSUPPORTED, OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_safetensors_write(nib_context *context, const char *path,
                                                     const nib_named_tensor *tensors, size_t count,
                                                     const char *const *metadata,
                                                     size_t metadata_pairs, nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
