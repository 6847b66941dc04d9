/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/half.h"

#include "nibble/tensor.h"

uint16_t nib_half_from_float(float value)
{
    return nib_half_narrow(value);
}

float nib_half_to_float(uint16_t half)
{
    return nib_half_widen(half);
}
