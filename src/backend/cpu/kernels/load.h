/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads and stores of one element at any alignment.
 */
#ifndef NIB_BACKEND_CPU_LOAD_H
#define NIB_BACKEND_CPU_LOAD_H

#include <stdbool.h>
#include <string.h>

#include "tensor/half.h"

/* Element i of a float32 or float16 array. */
static inline float nib_load(const void *array, bool half, size_t i)
{
    if (half) {
        uint16_t bits;
        memcpy(&bits, (const char *)array + i * sizeof bits, sizeof bits);
        return nib_half_widen(bits);
    }
    float value;
    memcpy(&value, (const char *)array + i * sizeof value, sizeof value);
    return value;
}

static inline void nib_store(void *array, bool half, size_t i, float value)
{
    if (half) {
        const uint16_t bits = nib_half_narrow(value);
        memcpy((char *)array + i * sizeof bits, &bits, sizeof bits);
    } else {
        memcpy((char *)array + i * sizeof value, &value, sizeof value);
    }
}

#endif
