/* SPDX-License-Identifier: Apache-2.0
 *
 * Size arithmetic that reports overflow instead of wrapping.
 */
#ifndef NIB_BASE_CHECKED_H
#define NIB_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool nib_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool nib_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Round up to a multiple of a power of two. */
static inline bool nib_size_align(size_t a, size_t alignment, size_t *out)
{
    if (!nib_size_add(a, alignment - 1, out))
        return false;
    *out &= ~(alignment - 1);
    return true;
}

#endif
