/* SPDX-License-Identifier: Apache-2.0
 *
 * All halfs, and many floats, against an independent conversion: the compiler's own _Float16 where
 * it has one, else arithmetic in double (crosscheck.py compares all halfs with numpy on every
 * compiler).
 */
#include <math.h>
#include <string.h>

#include "support.h"

#include "nibble/tensor.h"
#include "tensor/half.h"

/* By definition of binary16. */
static double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 31;
    const int fraction = half & 1023;
    const double sign = half >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(1024 + fraction, exponent - 25) : sign * ldexp(fraction, -24);
}

/* The half nearest to a value of normal or subnormal range, by rounding to its quantum in double.
 */
static uint16_t reference_narrow(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs((double)value);
    if (magnitude >= 65520) /* half-way to 65536 goes to the even side, which is infinity */
        return sign | 0x7c00;
    int exponent = magnitude > 0 ? ilogb(magnitude) : -14;
    if (exponent < -14)
        exponent = -14;
    const double units = rint(ldexp(magnitude, 10 - exponent)); /* 0 .. 2048 */
    return (uint16_t)(sign | (((exponent + 14) << 10) + (int)units));
}

static void check_narrow(float value)
{
    const uint16_t half = nib_half_from_float(value);
    if (isnan(value)) {
        assert_true((half & 0x7c00) == 0x7c00 && (half & 0x0200) && (half & 0x3ff));
        assert_int_equal(half >> 15, signbit(value) ? 1 : 0);
        return;
    }
    assert_int_equal(half, reference_narrow(value));
#if defined(__FLT16_MAX__) && !defined(__clang__)
    const _Float16 other = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &other, sizeof bits);
    assert_int_equal(half, bits);
#endif
}

static void every_half_widens_exactly(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t half = (uint16_t)i;
        const float value = nib_half_to_float(half);
        const double expected = half_value(half);
        assert_int_equal(signbit(value) != 0, half >> 15);
        if (isnan(expected))
            assert_true(isnan(value) && nib_bits_of_float(value) & 0x00400000);
        else
            assert_true((double)value == expected);
    }
}

static void every_half_round_trips(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t half = (uint16_t)i;
        const uint16_t back = nib_half_from_float(nib_half_to_float(half));
        const bool nan = (half & 0x7c00) == 0x7c00 && (half & 0x3ff);
        assert_int_equal(back, nan ? half | 0x0200 : half);
    }
}

static void ties_and_neighbours_round_to_even(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7c00; i++) {
        const float low = nib_half_to_float((uint16_t)i);
        const double high = i + 1 == 0x7c00 ? 65536 : half_value((uint16_t)(i + 1));
        const float tie = (float)(((double)low + high) / 2); /* exact: one more bit than a half */
        assert_int_equal(nib_half_from_float(tie), i & 1 ? i + 1 : i);
        assert_int_equal(nib_half_from_float(nextafterf(tie, -INFINITY)), i);
        assert_int_equal(nib_half_from_float(nextafterf(tie, INFINITY)), i + 1);
        check_narrow(-tie);
        check_narrow(nextafterf(low, INFINITY));
    }
}

static void a_large_sample_of_floats_narrows(void **state)
{
    (void)state;
    noise n = {42};
    for (int i = 0; i < 2000000; i++)
        check_narrow(nib_float_of_bits(next_bits(&n)));
    for (int i = 0; i < 2000000; i++) /* the exponents that matter */
        check_narrow(nib_float_of_bits(((100u + next_bits(&n) % 45u) << 23) |
                                       (next_bits(&n) & 0x807fffffu)));
    static const float edges[] = {
        0.0f,     -0.0f,    65504.0f,        65519.996f, 65520.0f, 65535.0f,  65536.0f, 0x1p-14f,
        0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1p-149f,  INFINITY, -INFINITY, NAN,      3.4e38f};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        check_narrow(edges[i]);
}

static void bfloat16_is_the_upper_half_of_a_float(void **state)
{
    (void)state;
    assert_true(nib_bfloat16_widen(0x3f80) == 1.0f);
    assert_true(nib_bfloat16_widen(0xc0a0) == -5.0f);
    assert_true(isinf(nib_bfloat16_widen(0x7f80)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_widens_exactly),
        cmocka_unit_test(every_half_round_trips),
        cmocka_unit_test(ties_and_neighbours_round_to_even),
        cmocka_unit_test(a_large_sample_of_floats_narrows),
        cmocka_unit_test(bfloat16_is_the_upper_half_of_a_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
