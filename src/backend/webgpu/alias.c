/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

static bool overlap(const nib_wgpu_range *a, const nib_wgpu_range *b)
{
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* Within one dispatch WebGPU refuses a buffer that is both read-only and writable whatever the ranges, because usage is
 * per buffer, and writable ranges that overlap. Reading twice is fine. */
nib_status nib_wgpu_check_ranges(const nib_wgpu_range *ranges, size_t count, nib_str pass, nib_error *error)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            const nib_wgpu_range *a = &ranges[i], *b = &ranges[j];
            if (a->buffer != b->buffer || (!a->written && !b->written))
                continue;
            if (a->written && b->written && !overlap(a, b))
                continue;
            return nib_fail(error, NIB_ALIAS,
                            a->written && b->written
                                ? "%.*s and %.*s are both written and overlap in one buffer (pass %.*s)"
                                : "%.*s and %.*s lie in one buffer, and one of them is written (pass %.*s): WebGPU does "
                                  "not allow that, whatever the ranges",
                            NIB_STR_ARG(a->name), NIB_STR_ARG(b->name), NIB_STR_ARG(pass));
        }
    }
    return NIB_OK;
}
