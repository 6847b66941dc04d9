/* SPDX-License-Identifier: Apache-2.0
 *
 * Independent chains of multiply-adds. Included with VECTOR (a vector of floats), LANES, CHAINS and
 * FMA(a, b, c).
 */
#include "ceilings.h"

static volatile float keep_result;

double FUNCTION(size_t rounds)
{
    VECTOR sums[CHAINS];
    VECTOR factor, addend;
    for (int i = 0; i < LANES; i++) {
        factor[i] = 0.5f;
        addend[i] = 0.25f + (float)i;
    }
    for (int c = 0; c < CHAINS; c++)
        sums[c] = addend;
    for (size_t r = 0; r < rounds; r++) {
        _Pragma("GCC unroll 32") for (int c = 0; c < CHAINS; c++) sums[c] =
            FMA(sums[c], factor, addend);
    }
    float total = 0;
    for (int c = 0; c < CHAINS; c++)
        total += sums[c][0] + sums[c][LANES - 1];
    keep_result = total;
    return (double)rounds * CHAINS * LANES * 2;
}
