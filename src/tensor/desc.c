/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor descriptors: sizes, text form, comparison.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/str.h"
#include "tensor/tensor.h"

static nib_status check_desc(const nib_tensor_desc *desc, nib_error *error)
{
    if (nib_dtype_bytes(desc->dtype) == 0)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "a tensor needs a dtype");
    if (desc->rank > NIB_MAX_RANK)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "rank %" PRIu32 " is more than %d", desc->rank,
                        NIB_MAX_RANK);
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0)
            return nib_fail(error, NIB_INVALID_ARGUMENT, "dim %" PRIu32 " is %" PRId64 ", negative",
                            i, desc->dims[i]);
    }
    return NIB_OK;
}

static bool has_zero_dim(const nib_tensor_desc *desc)
{
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] == 0)
            return true;
    }
    return false;
}

nib_status nib_tensor_desc_elements(const nib_tensor_desc *desc, size_t *out, nib_error *error)
{
    *out = 0;
    NIB_TRY(check_desc(desc, error));
    if (has_zero_dim(desc)) /* format 5.2; the other dims may then be anything */
        return NIB_OK;
    size_t elements = 1;
    for (uint32_t i = 0; i < desc->rank; i++) {
        if ((uint64_t)desc->dims[i] > SIZE_MAX ||
            !nib_size_mul(elements, (size_t)desc->dims[i], &elements))
            return nib_fail(error, NIB_LIMIT, "the product of the dims overflows");
    }
    *out = elements;
    return NIB_OK;
}

nib_status nib_tensor_desc_bytes(const nib_tensor_desc *desc, size_t *out, nib_error *error)
{
    size_t elements, bytes;
    *out = 0;
    NIB_TRY(nib_tensor_desc_elements(desc, &elements, error));
    if (!nib_size_mul(elements, nib_dtype_bytes(desc->dtype), &bytes) || bytes > PTRDIFF_MAX)
        return nib_fail(error, NIB_LIMIT, "the size of the tensor overflows");
    *out = bytes;
    return NIB_OK;
}

bool nib_desc_equal(const nib_tensor_desc *a, const nib_tensor_desc *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0);
}

/* ---- text ---- */

static void skip_spaces(const char **cursor)
{
    while (**cursor == ' ')
        (*cursor)++;
}

/* Digits that fit an int64_t. */
static bool parse_dim(const char **cursor, int64_t *out)
{
    if (!nib_is_digit(**cursor))
        return false;
    int64_t dim = 0;
    for (; nib_is_digit(**cursor); (*cursor)++) {
        if (__builtin_mul_overflow(dim, 10, &dim) ||
            __builtin_add_overflow(dim, **cursor - '0', &dim))
            return false;
    }
    *out = dim;
    return true;
}

/* "2,3]" up to and with the bracket. */
static bool parse_dims(const char **cursor, nib_tensor_desc *out)
{
    skip_spaces(cursor);
    while (**cursor != ']') {
        if (out->rank == NIB_MAX_RANK || !parse_dim(cursor, &out->dims[out->rank]))
            return false;
        out->rank++;
        skip_spaces(cursor);
        if (**cursor == ']')
            break;
        if (**cursor != ',')
            return false;
        (*cursor)++;
        skip_spaces(cursor);
        if (**cursor == ']') /* "[2,]" */
            return false;
    }
    (*cursor)++;
    return true;
}

nib_status nib_tensor_desc_parse(const char *text, nib_tensor_desc *out, nib_error *error)
{
    *out = (nib_tensor_desc){0};
    const char *bracket = text ? strchr(text, '[') : NULL;
    if (!bracket)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "'%s' is no tensor type such as float32[2,3]",
                        text ? text : "");
    const nib_str name = {text, (size_t)(bracket - text)};
    nib_tensor_desc desc = {.dtype = nib_dtype_of(name)};
    if (desc.dtype == NIB_DTYPE_NONE)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "'%s': '%.*s' is no dtype; known: %s", text,
                        NIB_STR_ARG(name), nib_dtype_list());
    const char *cursor = bracket + 1;
    if (!parse_dims(&cursor, &desc) || *cursor)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "'%s': a shape is at most %d whole numbers, as in float32[2,3]", text,
                        NIB_MAX_RANK);
    *out = desc;
    return NIB_OK;
}

int nib_tensor_desc_format(const nib_tensor_desc *desc, char *out, size_t out_bytes)
{
    size_t used = 0;
#define PUT(...)                                                                                   \
    used += (size_t)snprintf(used < out_bytes ? out + used : NULL,                                 \
                             used < out_bytes ? out_bytes - used : 0, __VA_ARGS__)
    PUT("%s[", nib_dtype_name(desc->dtype));
    for (uint32_t i = 0; i < desc->rank && i < NIB_MAX_RANK; i++)
        PUT("%s%" PRId64, i ? "," : "", desc->dims[i]);
    PUT("]");
#undef PUT
    return (int)used;
}
