/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/tensor.h"

typedef struct dtype_row {
    const char *name;
    size_t bytes;         /* of one element in host memory */
    size_t storage_bytes; /* of one element on a GPU */
    const char *wgsl;
    int onnx_code;
} dtype_row;

/* What the public list lacks: GPU storage (format 5.1) and TensorProto codes (format 3.7). A dtype
 * that is added there and not here does not compile. */
#define MORE_FLOAT16 2, "f16", 10
#define MORE_FLOAT32 4, "f32", 1
#define MORE_INT8    4, "i32", 3
#define MORE_INT16   4, "i32", 5
#define MORE_INT32   4, "i32", 6
#define MORE_INT64   8, "vec2<u32>", 7
#define MORE_UINT8   4, "u32", 2
#define MORE_UINT32  4, "u32", 12
#define MORE_BOOL    4, "u32", 9

static const dtype_row rows[NIB_DTYPE_COUNT] = {[NIB_DTYPE_NONE] = {"none", 0, 0, "", 0},
#define XX(name, text, bytes) [NIB_##name] = {text, bytes, MORE_##name},
                                                NIB_DTYPE_MAP(XX)
#undef XX
};

static const dtype_row *row_of(nib_dtype dtype)
{
    const unsigned index = (unsigned)dtype;
    return &rows[index < NIB_DTYPE_COUNT ? index : NIB_DTYPE_NONE];
}

const char *nib_dtype_name(nib_dtype dtype)
{
    return row_of(dtype)->name;
}

nib_dtype nib_dtype_of(nib_str name)
{
    for (unsigned i = NIB_DTYPE_NONE + 1; i < NIB_DTYPE_COUNT; i++) {
        if (nib_str_is(name, rows[i].name))
            return (nib_dtype)i;
    }
    return NIB_DTYPE_NONE;
}

nib_dtype nib_dtype_from_name(const char *name)
{
    return name ? nib_dtype_of(nib_str_from(name)) : NIB_DTYPE_NONE;
}

const char *nib_dtype_list(void)
{
#define XX(name, text, bytes) ", " text
    static const char list[] = NIB_DTYPE_MAP(XX);
#undef XX
    return list + strlen(", ");
}

size_t nib_dtype_bytes(nib_dtype dtype)
{
    return row_of(dtype)->bytes;
}

size_t nib_dtype_storage_bytes(nib_dtype dtype)
{
    return row_of(dtype)->storage_bytes;
}

const char *nib_dtype_wgsl(nib_dtype dtype)
{
    return row_of(dtype)->wgsl;
}

int nib_dtype_onnx_code(nib_dtype dtype)
{
    return row_of(dtype)->onnx_code;
}
