/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "nibble/tensor.h"
#include "tensor/tensor.h"

static void every_dtype_has_name_sizes_and_code(void **state)
{
    (void)state;
    /* Format 5.1 and 3.7, written out again. */
    static const struct {
        const char *name;
        size_t bytes, storage;
        const char *wgsl;
        int onnx;
    } expected[] = {
        {"float16", 2, 2, "f16", 10}, {"float32", 4, 4, "f32", 1}, {"int8", 1, 4, "i32", 3},
        {"int16", 2, 4, "i32", 5},    {"int32", 4, 4, "i32", 6},   {"int64", 8, 8, "vec2<u32>", 7},
        {"uint8", 1, 4, "u32", 2},    {"uint32", 4, 4, "u32", 12}, {"bool", 1, 4, "u32", 9},
    };
    assert_int_equal(sizeof expected / sizeof expected[0], NIB_DTYPE_COUNT - 1);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const nib_dtype dtype = nib_dtype_from_name(expected[i].name);
        assert_int_not_equal(dtype, NIB_DTYPE_NONE);
        assert_string_equal(nib_dtype_name(dtype), expected[i].name);
        assert_int_equal(nib_dtype_bytes(dtype), expected[i].bytes);
        assert_int_equal(nib_dtype_storage_bytes(dtype), expected[i].storage);
        assert_string_equal(nib_dtype_wgsl(dtype), expected[i].wgsl);
        assert_int_equal(nib_dtype_onnx_code(dtype), expected[i].onnx);
    }
}

static void an_unknown_dtype_is_none(void **state)
{
    (void)state;
    assert_int_equal(nib_dtype_from_name("float64"), NIB_DTYPE_NONE);
    assert_int_equal(nib_dtype_from_name("none"), NIB_DTYPE_NONE);
    assert_int_equal(nib_dtype_from_name(""), NIB_DTYPE_NONE);
    assert_int_equal(nib_dtype_from_name(NULL), NIB_DTYPE_NONE);
    assert_string_equal(nib_dtype_name((nib_dtype)77), "none");
    assert_int_equal(nib_dtype_bytes((nib_dtype)-1), 0);
}

static void descriptors_parse_and_print(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"float32[2,3]", "float32[2,3]"},
        {"float16[]", "float16[]"},
        {"bool[0]", "bool[0]"},
        {"int64[ 1, 2 ,3 ]", "int64[1,2,3]"},
        {"uint8[9223372036854775807]", "uint8[9223372036854775807]"},
        {"int8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "int8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_tensor_desc desc;
        nib_error error = {0};
        assert_ok(nib_tensor_desc_parse(cases[i].text, &desc, &error), &error);
        char text[NIB_DESC_TEXT_BYTES];
        assert_int_equal(nib_tensor_desc_format(&desc, text, sizeof text),
                         strlen(cases[i].printed));
        assert_string_equal(text, cases[i].printed);
    }
}

static void malformed_descriptors_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "is no tensor type"},
        {"float32", "is no tensor type"},
        {"float64[2]", "'float64' is no dtype; known: float16, float32, int8, int16, int32, int64, "
                       "uint8, uint32, bool"},
        {"a-name-much-longer-than-any-dtype[2]", "'a-name-much-longer-than-any-dtype' is no dtype"},
        {" float32[2]", "is no dtype"},
        {"float32[2", "whole numbers"},
        {"float32[2,]", "whole numbers"},
        {"float32[,2]", "whole numbers"},
        {"float32[2 3]", "whole numbers"},
        {"float32[-1]", "whole numbers"},
        {"float32[+1]", "whole numbers"},
        {"float32[1.5]", "whole numbers"},
        {"float32[0x10]", "whole numbers"},
        {"float32[2]x", "whole numbers"},
        {"float32[9223372036854775808]", "whole numbers"},
        {"float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "at most 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_tensor_desc desc;
        nib_error error = {0};
        assert_int_equal(nib_tensor_desc_parse(cases[i].text, &desc, &error), NIB_INVALID_ARGUMENT);
        assert_error(&error, NIB_INVALID_ARGUMENT, cases[i].part);
        assert_int_equal(desc.dtype, NIB_DTYPE_NONE);
    }
}

static void printing_truncates_like_snprintf(void **state)
{
    (void)state;
    const nib_tensor_desc desc = {NIB_FLOAT32, 2, {12, 345}};
    char text[8];
    assert_int_equal(nib_tensor_desc_format(&desc, text, sizeof text), 15);
    assert_string_equal(text, "float32");
    assert_int_equal(nib_tensor_desc_format(&desc, NULL, 0), 15);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    static const struct {
        nib_tensor_desc desc;
        nib_status status;
        size_t bytes;
    } cases[] = {
        {{NIB_FLOAT32, 0, {0}}, NIB_OK, 4},
        {{NIB_FLOAT16, 3, {3, 5, 7}}, NIB_OK, 210},
        {{NIB_FLOAT32, 2, {0, INT64_MAX}}, NIB_OK, 0},
        {{NIB_INT64, 3, {INT64_MAX, INT64_MAX, 0}}, NIB_OK, 0},
        {{NIB_INT8, 2, {INT64_MAX, 2}}, NIB_LIMIT, 0},
        {{NIB_INT8, 1, {INT64_MAX}}, NIB_OK, INT64_MAX},
        {{NIB_INT16, 1, {INT64_MAX}}, NIB_LIMIT, 0},
        {{NIB_FLOAT32, 2, {((int64_t)1 << 42) + 1, (int64_t)1 << 22}}, NIB_LIMIT, 0},
        {{NIB_FLOAT32, 1, {-1}}, NIB_INVALID_ARGUMENT, 0},
        {{NIB_FLOAT32, 2, {0, -1}}, NIB_INVALID_ARGUMENT, 0},
        {{NIB_FLOAT32, 17, {1}}, NIB_INVALID_ARGUMENT, 0},
        {{NIB_DTYPE_NONE, 1, {1}}, NIB_INVALID_ARGUMENT, 0},
        {{(nib_dtype)99, 1, {1}}, NIB_INVALID_ARGUMENT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = 99;
        nib_error error = {0};
        assert_int_equal(nib_tensor_desc_bytes(&cases[i].desc, &bytes, &error), cases[i].status);
        assert_int_equal(bytes, cases[i].bytes);
        assert_int_equal(error.code, cases[i].status);
    }
}

static void created_tensors_are_zeroed_and_aligned(void **state)
{
    for (int64_t n = 0; n < 100; n++) {
        const nib_tensor_desc desc = {NIB_UINT8, 1, {n}};
        nib_tensor *tensor;
        nib_error error = {0};
        assert_ok(nib_tensor_create(context_of(state), &desc, &tensor, &error), &error);
        assert_non_null(nib_tensor_data(tensor));
        assert_int_equal((uintptr_t)nib_tensor_data(tensor) % 64, 0);
        assert_int_equal(nib_tensor_bytes(tensor), n);
        assert_true(nib_desc_equal(nib_tensor_describe(tensor), &desc));
        const uint8_t *data = nib_tensor_data(tensor);
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(data[i], 0);
        if (n)
            memset(nib_tensor_data(tensor), 0xff, (size_t)n);
        nib_tensor_free(tensor);
    }
}

static void out_of_memory_is_an_error(void **state)
{
    const nib_tensor_desc desc = {NIB_FLOAT32, 1, {1000}};
    for (size_t i = 1; i <= 2; i++) {
        nib_tensor *tensor = (nib_tensor *)state;
        nib_error error = {0};
        allocator_of(state)->fail_from = allocator_of(state)->calls + i;
        assert_int_equal(nib_tensor_create(context_of(state), &desc, &tensor, &error),
                         NIB_OUT_OF_MEMORY);
        assert_null(tensor);
        allocator_of(state)->fail_from = 0;
    }
}

static void borrowed_memory_is_not_copied(void **state)
{
    float data[6] = {1, 2, 3, 4, 5, 6};
    const nib_tensor_desc desc = {NIB_FLOAT32, 2, {2, 3}};
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(nib_tensor_borrow(context_of(state), &desc, data, sizeof data, &tensor, &error),
              &error);
    assert_ptr_equal(nib_tensor_data(tensor), data);
    nib_tensor_free(tensor);
    assert_int_equal(nib_tensor_borrow(context_of(state), &desc, data, 23, &tensor, &error),
                     NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT, "float32[2,3] needs 24 bytes");
    assert_null(tensor);
    nib_error second = {0};
    assert_int_equal(nib_tensor_borrow(context_of(state), &desc, NULL, 24, &tensor, &second),
                     NIB_INVALID_ARGUMENT);
}

static void count_release(void *user, void *data)
{
    (void)data;
    ++*(int *)user;
}

static void taken_memory_is_released_once(void **state)
{
    int released = 0;
    float data[2] = {1, 2};
    const nib_tensor_desc desc = {NIB_FLOAT32, 1, {2}};
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(nib_tensor_take(context_of(state), &desc, data, sizeof data, count_release, &released,
                              &tensor, &error),
              &error);
    assert_int_equal(released, 0);
    nib_tensor_free(tensor);
    assert_int_equal(released, 1);
    /* On failure the caller keeps it. */
    assert_int_equal(nib_tensor_take(context_of(state), &desc, data, 4, count_release, &released,
                                     &tensor, &error),
                     NIB_INVALID_ARGUMENT);
    assert_int_equal(released, 1);
    nib_tensor_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_has_name_sizes_and_code),
        cmocka_unit_test(an_unknown_dtype_is_none),
        cmocka_unit_test(descriptors_parse_and_print),
        cmocka_unit_test(malformed_descriptors_are_refused),
        cmocka_unit_test(printing_truncates_like_snprintf),
        cmocka_unit_test(sizes_are_checked),
        IO_TEST(created_tensors_are_zeroed_and_aligned),
        IO_TEST(out_of_memory_is_an_error),
        IO_TEST(borrowed_memory_is_not_copied),
        IO_TEST(taken_memory_is_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
