/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_test.h"

static void widens_with_sign_and_without(void **state)
{
    (void)state;
    const int8_t i8[] = {0, 1, -1, 127, -128};
    const uint8_t u8[] = {0, 1, 0x7f, 0x80, 0xff};
    const int16_t i16[] = {0, -1, 32767, -32768, 256};
    uint32_t words[5];
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_I8, NIB_INT8, i8, 0, 5, words, &error));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal((int32_t)words[i], i8[i]);
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_U8, NIB_UINT8, u8, 0, 5, words, &error));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(words[i], u8[i]);
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_I16, NIB_INT16, i16, 0, 5, words, &error));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal((int32_t)words[i], i16[i]);
}

/* Every layout gives back what went in, from addresses of every alignment. */
static void round_trips_at_any_alignment(void **state)
{
    (void)state;
    static const struct {
        nib_wgpu_layout layout;
        nib_dtype dtype;
    } rows[] = {{NIB_WGPU_RAW, NIB_FLOAT16}, {NIB_WGPU_RAW, NIB_FLOAT32}, {NIB_WGPU_RAW, NIB_INT64},
                {NIB_WGPU_RAW, NIB_UINT8},   {NIB_WGPU_I8, NIB_INT8},     {NIB_WGPU_I16, NIB_INT16},
                {NIB_WGPU_U8, NIB_UINT8},    {NIB_WGPU_U8, NIB_BOOL}};
    enum { COUNT = 77 };
    rng r = {12345};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        for (size_t shift = 0; shift < 8; shift++) {
            unsigned char source[COUNT * 8 + 8], back[COUNT * 8 + 8];
            uint32_t words[COUNT * 2];
            const size_t bytes = COUNT * nib_dtype_bytes(rows[row].dtype);
            rng_bytes(&r, source, sizeof source);
            memset(back, 0xa5, sizeof back);
            ASSERT_OK(nib_wgpu_layout_store(rows[row].layout, rows[row].dtype, source + shift, 0, COUNT, words, &error));
            nib_wgpu_layout_load(rows[row].layout, rows[row].dtype, words, COUNT, back + shift);
            assert_memory_equal(back + shift, source + shift, bytes);
            for (size_t i = 0; i < shift; i++)
                assert_int_equal(back[i], 0xa5);
            for (size_t i = shift + bytes; i < sizeof back; i++)
                assert_int_equal(back[i], 0xa5);
        }
    }
}

static void narrows_int64(void **state)
{
    (void)state;
    const int64_t in[] = {5, -7, INT32_MAX, INT32_MIN};
    int64_t out[4];
    uint32_t words[4];
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_I64_TO_I32, NIB_INT64, in, 0, 4, words, &error));
    nib_wgpu_layout_load(NIB_WGPU_I64_TO_I32, NIB_INT64, words, 4, out);
    assert_memory_equal(in, out, sizeof in);

    const int64_t big[] = {1, (int64_t)INT32_MAX + 1};
    ASSERT_FAILS(nib_wgpu_layout_store(NIB_WGPU_I64_TO_I32, NIB_INT64, big, 40, 2, words, &error), NIB_REQUEST,
                 "element 41 is 2147483648");
    ASSERT_FAILS(nib_wgpu_layout_store(NIB_WGPU_I64_TO_U32, NIB_INT64, in, 0, 2, words, &error), NIB_REQUEST,
                 "element 1 is -7, which does not fit uint32");
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_I64_TO_U32, NIB_INT64, big, 0, 2, words, &error));
    assert_int_equal(words[1], 0x80000000u);

    const int64_t far[] = {INT64_MIN, INT64_MAX};
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_I64_CLAMP_I32, NIB_INT64, far, 0, 2, words, &error));
    assert_int_equal((int32_t)words[0], INT32_MIN);
    assert_int_equal((int32_t)words[1], INT32_MAX);
    ASSERT_OK(nib_wgpu_layout_store(NIB_WGPU_I64_CLAMP_U32, NIB_INT64, far, 0, 2, words, &error));
    assert_int_equal(words[0], 0);
    assert_int_equal(words[1], UINT32_MAX);
}

static void rounds_sizes(void **state)
{
    (void)state;
    static const size_t rows[][2] = {{0, 4}, {1, 4}, {4, 4}, {5, 8}, {6, 8}, {1027, 1028}};
    size_t rounded;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(nib_wgpu_round(rows[i][0], &rounded));
        assert_int_equal(rounded, rows[i][1]);
    }
    assert_false(nib_wgpu_round(SIZE_MAX - 1, &rounded));
}

static nib_status check(const nib_wgpu_range *ranges, size_t count, nib_error *error)
{
    return nib_wgpu_check_ranges(ranges, count, NIB_STR("main"), error);
}

static void finds_aliases(void **state)
{
    (void)state;
    WGPUBuffer x = (WGPUBuffer)(uintptr_t)16, y = (WGPUBuffer)(uintptr_t)32;
    const nib_wgpu_range reads[] = {{x, 0, 64, false, NIB_STR("a")}, {x, 0, 64, false, NIB_STR("b")},
                                    {y, 0, 64, true, NIB_STR("y")}};
    ASSERT_OK(check(reads, 3, &error));
    const nib_wgpu_range mixed[] = {{x, 0, 64, false, NIB_STR("a")}, {x, 512, 64, true, NIB_STR("y")}};
    ASSERT_FAILS(check(mixed, 2, &error), NIB_ALIAS, "a and y lie in one buffer");
    const nib_wgpu_range apart[] = {{x, 0, 256, true, NIB_STR("q")}, {x, 256, 256, true, NIB_STR("k")}};
    ASSERT_OK(check(apart, 2, &error)); /* they touch, and do not overlap */
    const nib_wgpu_range over[] = {{x, 0, 260, true, NIB_STR("q")}, {x, 256, 256, true, NIB_STR("k")}};
    ASSERT_FAILS(check(over, 2, &error), NIB_ALIAS, "q and k are both written and overlap");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widens_with_sign_and_without), cmocka_unit_test(round_trips_at_any_alignment),
        cmocka_unit_test(narrows_int64),                cmocka_unit_test(rounds_sizes),
        cmocka_unit_test(finds_aliases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
