/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIB_TENSOR_TENSOR_H
#define NIB_TENSOR_TENSOR_H

#include "base/context.h"
#include "base/error.h"
#include "base/str.h"
#include "nibble/tensor.h"

struct nib_tensor {
    nib_context *context;
    nib_tensor_desc desc;
    size_t elements, bytes;
    void *data; /* host memory; NULL when the tensor lives on a device only */
    void (*release)(void *user, void *data); /* NULL: borrowed */
    void *release_user;
    bool constant; /* the host memory does not change: a device's copy of it stays good */
    /* A device's copy or buffer, opaque here: one slot, released before the host memory. */
    void *device_state;
    void (*device_release)(nib_tensor *tensor);
};

/* "float32[2,3]" into an error message buffer. */
#define NIB_DESC_TEXT_BYTES 256
bool nib_desc_equal(const nib_tensor_desc *a, const nib_tensor_desc *b);

/* nib_dtype_from_name for a text without an end mark. */
nib_dtype nib_dtype_of(nib_str name);
/* "float16, float32, ...": all of them, for messages. */
const char *nib_dtype_list(void);

/* Bytes of one element in GPU storage (5.1): small integers are widened to 4. */
size_t nib_dtype_storage_bytes(nib_dtype dtype);
/* WGSL scalar of the storage dtype: "f32", "u32", "vec2<u32>". */
const char *nib_dtype_wgsl(nib_dtype dtype);
/* ONNX TensorProto code (3.7); 0 for none. */
int nib_dtype_onnx_code(nib_dtype dtype);

#endif
