/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements between host and GPU form (format 5.1, 7.2, 7.8). Packed and 16-bit data only ever moves as bytes: a pass
 * through a float type would change NaN patterns.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

nib_wgpu_layout nib_wgpu_layout_plain(nib_dtype dtype, bool packed)
{
    switch (dtype) {
    case NIB_INT8:
        return NIB_WGPU_I8;
    case NIB_INT16:
        return NIB_WGPU_I16;
    case NIB_UINT8:
        return packed ? NIB_WGPU_RAW : NIB_WGPU_U8;
    case NIB_BOOL:
        return NIB_WGPU_U8;
    default:
        return NIB_WGPU_RAW;
    }
}

nib_wgpu_layout nib_wgpu_layout_of(const nib_plan_tensor *tensor)
{
    if (tensor->desc.dtype != NIB_INT64 || tensor->storage == NIB_INT64)
        return nib_wgpu_layout_plain(tensor->desc.dtype, tensor->packed);
    const bool clamp = tensor->port->narrowing == NIB_NARROWING_SATURATING;
    if (tensor->storage == NIB_INT32)
        return clamp ? NIB_WGPU_I64_CLAMP_I32 : NIB_WGPU_I64_TO_I32;
    return clamp ? NIB_WGPU_I64_CLAMP_U32 : NIB_WGPU_I64_TO_U32;
}

size_t nib_wgpu_layout_bytes(nib_wgpu_layout layout, nib_dtype dtype)
{
    return layout == NIB_WGPU_RAW ? nib_dtype_bytes(dtype) : 4;
}

static void widen_i8(const unsigned char *src, size_t count, uint32_t *dst)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = (uint32_t)(int32_t)(int8_t)src[i];
}

static void widen_u8(const unsigned char *src, size_t count, uint32_t *dst)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = src[i];
}

static void widen_i16(const unsigned char *src, size_t count, uint32_t *dst)
{
    for (size_t i = 0; i < count; i++) {
        int16_t value;
        memcpy(&value, src + 2 * i, sizeof value);
        dst[i] = (uint32_t)(int32_t)value;
    }
}

static nib_status narrow(nib_wgpu_layout layout, const unsigned char *src, size_t first, size_t count, uint32_t *dst,
                         nib_error *error)
{
    const bool is_signed = layout == NIB_WGPU_I64_TO_I32 || layout == NIB_WGPU_I64_CLAMP_I32;
    const bool clamp = layout == NIB_WGPU_I64_CLAMP_I32 || layout == NIB_WGPU_I64_CLAMP_U32;
    const int64_t low = is_signed ? INT32_MIN : 0, high = is_signed ? INT32_MAX : (int64_t)UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        memcpy(&value, src + 8 * i, sizeof value);
        if (value < low || value > high) {
            if (!clamp)
                return nib_fail(error, NIB_REQUEST, "element %zu is %" PRId64 ", which does not fit %s", first + i,
                                value, is_signed ? "int32" : "uint32");
            value = value < low ? low : high;
        }
        dst[i] = (uint32_t)(value & 0xffffffff);
    }
    return NIB_OK;
}

nib_status nib_wgpu_layout_store(nib_wgpu_layout layout, nib_dtype dtype, const void *src, size_t first, size_t count,
                                 void *dst, nib_error *error)
{
    switch (layout) {
    case NIB_WGPU_RAW:
        if (count > 0)
            memcpy(dst, src, count * nib_dtype_bytes(dtype));
        return NIB_OK;
    case NIB_WGPU_I8:
        widen_i8(src, count, dst);
        return NIB_OK;
    case NIB_WGPU_I16:
        widen_i16(src, count, dst);
        return NIB_OK;
    case NIB_WGPU_U8:
        widen_u8(src, count, dst);
        return NIB_OK;
    case NIB_WGPU_I64_TO_I32:
    case NIB_WGPU_I64_TO_U32:
    case NIB_WGPU_I64_CLAMP_I32:
    case NIB_WGPU_I64_CLAMP_U32:
        return narrow(layout, src, first, count, dst, error);
    }
    return nib_fail(error, NIB_INTERNAL, "no such layout");
}

/* Wrapping, as typed arrays do (format 7.8). */
static void narrow_bytes(const uint32_t *src, size_t count, unsigned char *dst)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = (unsigned char)(src[i] & 0xff);
}

static void narrow_words(const uint32_t *src, size_t count, unsigned char *dst)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t value = (uint16_t)(src[i] & 0xffff);
        memcpy(dst + 2 * i, &value, sizeof value);
    }
}

static void widen_long(const uint32_t *src, size_t count, bool is_signed, unsigned char *dst)
{
    for (size_t i = 0; i < count; i++) {
        const int64_t value = is_signed ? (int64_t)(int32_t)src[i] : (int64_t)src[i];
        memcpy(dst + 8 * i, &value, sizeof value);
    }
}

void nib_wgpu_layout_load(nib_wgpu_layout layout, nib_dtype dtype, const void *src, size_t count, void *dst)
{
    switch (layout) {
    case NIB_WGPU_RAW:
        if (count > 0)
            memcpy(dst, src, count * nib_dtype_bytes(dtype));
        return;
    case NIB_WGPU_I8:
    case NIB_WGPU_U8:
        narrow_bytes(src, count, dst);
        return;
    case NIB_WGPU_I16:
        narrow_words(src, count, dst);
        return;
    case NIB_WGPU_I64_TO_I32:
    case NIB_WGPU_I64_CLAMP_I32:
        widen_long(src, count, true, dst);
        return;
    case NIB_WGPU_I64_TO_U32:
    case NIB_WGPU_I64_CLAMP_U32:
        widen_long(src, count, false, dst);
        return;
    }
}
