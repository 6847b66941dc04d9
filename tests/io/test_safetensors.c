/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "io/file.h"

static builder st;

static void build(const char *header, const void *data, size_t size)
{
    st.size = 0;
    put_u64(&st, strlen(header));
    put_text(&st, header);
    put(&st, data, size);
}

static nib_status open_bytes(void **state, nib_file **file, nib_error *error)
{
    return nib_file_parse(context_of(state), NIB_FILE_SAFETENSORS, st.data, st.size,
                          "test.safetensors", file, error);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* An odd number of bytes in front leaves everything after it unaligned. */
static void unaligned_tensors_are_copied(void **state)
{
    builder data = {.size = 0};
    put(&data, "\1\2\3", 3);
    const float floats[2] = {1.25f, -7};
    put(&data, floats, sizeof floats);
    put_u16(&data, 0x3c00);
    build("{" T("b", "U8", "[3]", "[0,3]") "," T("f", "F32", "[2]", "[3,11]") "," T(
              "h", "F16", "[1]", "[11,13]") "," T("e", "F32", "[0,7]", "[13,13]") "}",
          data.data, data.size);
    nib_file *file;
    nib_error error = {0};
    assert_ok(nib_file_parse(context_of(state), NIB_FILE_ANY, st.data, st.size, "x", &file, &error),
              &error);
    assert_int_equal(nib_file_count(file), 4);
    nib_tensor *tensor;
    assert_ok(nib_file_read(file, nib_file_find(file, "f"), &tensor, &error), &error);
    assert_int_equal((uintptr_t)nib_tensor_data(tensor) % 4, 0);
    assert_memory_equal(nib_tensor_data(tensor), floats, sizeof floats);
    nib_tensor_free(tensor);
    assert_ok(nib_file_read(file, nib_file_find(file, "b"), &tensor, &error), &error);
    assert_memory_equal(nib_tensor_data(tensor), "\1\2\3", 3);
    nib_tensor_free(tensor);
    assert_ok(nib_file_read(file, nib_file_find(file, "e"), &tensor, &error), &error);
    assert_int_equal(nib_tensor_bytes(tensor), 0);
    assert_int_equal(tensor->desc.dims[1], 7);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void bfloat16_and_float64_become_float32(void **state)
{
    builder data = {.size = 0};
    const double wide[2] = {0.1, -1e300};
    put(&data, wide, sizeof wide);
    put_u16(&data, 0x3fc0);
    put_u16(&data, 0xff80);
    build("{" T("d", "F64", "[2]", "[0,16]") "," T("b", "BF16", "[2]", "[16,20]") "}", data.data,
          data.size);
    nib_file *file;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    nib_tensor *d, *b;
    assert_ok(nib_file_read(file, nib_file_find(file, "d"), &d, &error), &error);
    assert_ok(nib_file_read(file, nib_file_find(file, "b"), &b, &error), &error);
    assert_string_equal(nib_file_describe(file, nib_file_find(file, "b")).stored, "BF16");
    assert_int_equal(b->desc.dtype, NIB_FLOAT32);
    const float *values = nib_tensor_data(d);
    assert_true(values[0] == 0.1f && isinf(values[1]));
    values = nib_tensor_data(b);
    assert_true(values[0] == 1.5f && isinf(values[1]) && values[1] < 0);
    nib_tensor_free(d);
    nib_tensor_free(b);
    nib_file_free(file);
}

static void known_encodings_that_cannot_be_read_still_open(void **state)
{
    build("{\"__metadata__\":{\"a\":\"b\"}," T("x", "F8_E4M3", "[2]", "[0,2]") "," T(
              "y", "F4", "[2,2]", "[2,4]") "," T("z", "U8", "[]", "[4,5]") "}   ",
          "\1\2\3\4\5", 5);
    nib_file *file;
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_int_equal(nib_file_count(file), 3);
    assert_int_equal(nib_file_read(file, nib_file_find(file, "x"), &tensor, &error),
                     NIB_UNSUPPORTED);
    assert_error(&error, NIB_UNSUPPORTED,
                 "test.safetensors: tensor 'x': the encoding F8_E4M3 cannot be read");
    nib_error second = {0};
    assert_int_equal(nib_file_read(file, 3, &tensor, &second), NIB_INVALID_ARGUMENT);
    nib_file_free(file);
}

static void hostile_headers_are_named(void **state)
{
    static const struct {
        const char *header;
        nib_status status;
        const char *part;
    } cases[] = {
        {"", NIB_FORMAT, "not valid JSON"},
        {"{", NIB_FORMAT, "not valid JSON"},
        {"{\"a\":}", NIB_FORMAT, "not valid JSON"},
        {"{} x", NIB_FORMAT, "not valid JSON"},
        {"[]", NIB_FORMAT, "header is not an object"},
        {"{\"a\":1}", NIB_FORMAT, "tensor 'a': its entry is not an object"},
        {"{\"a\":{}}", NIB_FORMAT, "tensor 'a': dtype is not a string"},
        {"{" T("a", "F33", "[1]", "[0,4]") "}", NIB_FORMAT, "dtype 'F33' is not known"},
        {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", NIB_FORMAT,
         "dtype is not a string"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", NIB_FORMAT, "shape is not a list"},
        {"{" T("a", "F32", "1", "[0,4]") "}", NIB_FORMAT, "shape is not a list"},
        {"{" T("a", "F32", "[-1]", "[0,4]") "}", NIB_FORMAT, "shape[0] is not a whole number"},
        {"{" T("a", "F32", "[1,1.5]", "[0,4]") "}", NIB_FORMAT, "shape[1] is not a whole number"},
        {"{" T("a", "F32", "[1e300]", "[0,4]") "}", NIB_FORMAT, "shape[0] is not a whole number"},
        {"{" T("a", "F32", "[\"1\"]", "[0,4]") "}", NIB_FORMAT, "shape[0] is not a whole number"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") "}", NIB_LIMIT,
         "more than 16 dims"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", NIB_FORMAT,
         "product of the dims overflows"},
        {"{" T("a", "F32", "[9007199254740991,2047]", "[0,4]") "}", NIB_FORMAT,
         "product of the dims overflows"},
        {"{" T("a", "F32", "[2]", "[0,4]") "}", NIB_FORMAT,
         "the shape takes 8 bytes, data_offsets span 4"},
        {"{" T("a", "F4", "[3]", "[0,2]") "}", NIB_FORMAT, "F4 elements do not fill bytes"},
        {"{" T("a", "F32", "[1]", "[0]") "}", NIB_FORMAT, "data_offsets is not a list of two"},
        {"{" T("a", "F32", "[1]", "[0,4,8]") "}", NIB_FORMAT, "data_offsets is not a list of two"},
        {"{" T("a", "F32", "[1]", "{}") "}", NIB_FORMAT, "data_offsets is not a list of two"},
        {"{" T("a", "F32", "[1]", "[-4,0]") "}", NIB_FORMAT, "data_offsets is not a list of two"},
        {"{" T("a", "F32", "[1]", "[4,0]") "}", NIB_FORMAT, "data_offsets [4, 0] run backwards"},
        {"{" T("a", "F32", "[2]", "[0,8]") "}", NIB_FORMAT, "reach beyond the 4 bytes of data"},
        {"{" T("a", "F32", "[1]", "[9007199254740000,9007199254740004]") "}", NIB_FORMAT,
         "reach beyond"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":0}}", NIB_FORMAT,
         "a key other than"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[0,4]") "}", NIB_FORMAT,
         "not valid JSON: duplicate object key"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         NIB_FORMAT, "duplicate object key"},
        {"{" T("a", "U8", "[3]", "[0,3]") "," T("b", "U8", "[2]", "[2,4]") "}", NIB_FORMAT,
         "tensor 'b': its data overlaps that of tensor 'a'"},
        {"{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[2]", "[2,4]") "}", NIB_FORMAT,
         "tensor 'b': its data begins at 2, where 1 is the next free byte"},
        {"{" T("a", "U8", "[3]", "[1,4]") "}", NIB_FORMAT, "begins at 1, where 0"},
        {"{" T("a", "U8", "[3]", "[0,3]") "}", NIB_FORMAT, "1 bytes of data belong to no tensor"},
        {"{}", NIB_FORMAT, "4 bytes of data belong to no tensor"},
        {"{\"__metadata__\":1," T("a", "F32", "[1]", "[0,4]") "}", NIB_FORMAT,
         "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"n\":1}," T("a", "F32", "[1]", "[0,4]") "}", NIB_FORMAT,
         "a value that is not a string"},
        {"{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}", NIB_FORMAT, "not valid JSON"},
        {"{" T("a\\u001b[31m", "F33", "[1]", "[0,4]") "}", NIB_FORMAT, "tensor 'a?[31m': dtype"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_file *file = (nib_file *)state;
        nib_error error = {0};
        build(cases[i].header, "\0\0\0\0", 4);
        const nib_status status = open_bytes(state, &file, &error);
        assert_error(&error, cases[i].status, cases[i].part);
        assert_int_equal(status, cases[i].status);
        assert_error(&error, cases[i].status, "test.safetensors:");
        assert_null(file);
    }
}

static void deep_nesting_is_a_limit(void **state)
{
    char header[8192];
    header[0] = '\0';
    strcat(header, "{\"a\":");
    memset(header + 5, '[', 4000);
    header[4005] = '\0';
    build(header, "", 0);
    nib_file *file;
    nib_error error = {0};
    assert_int_equal(open_bytes(state, &file, &error), NIB_LIMIT);
}

static void header_lengths_are_checked_before_memory_is_taken(void **state)
{
    static const struct {
        uint64_t length;
        nib_status status;
        const char *part;
    } cases[] = {
        {UINT64_MAX, NIB_LIMIT, "18446744073709551615 bytes, more than 100000000"},
        {100000001, NIB_LIMIT, "100000001 bytes, more than 100000000"},
        {99999999, NIB_FORMAT, "99999999 bytes, the file only 10"},
        {3, NIB_FORMAT, "3 bytes, the file only 10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_file *file;
        nib_error error = {0};
        st.size = 0;
        put_u64(&st, cases[i].length);
        put_text(&st, "{}");
        assert_int_equal(open_bytes(state, &file, &error), cases[i].status);
        assert_error(&error, cases[i].status, cases[i].part);
    }
    for (st.size = 0; st.size < 8; st.size++) {
        nib_file *file;
        nib_error error = {0};
        assert_int_equal(open_bytes(state, &file, &error), NIB_FORMAT);
        assert_error(&error, NIB_FORMAT, "too short");
    }
    assert_true(allocator_of(state)->peak_bytes < 100000);
}

/* Many tensors, in an order that is not that of their data. */
static void many_tensors_are_found_by_name(void **state)
{
    enum { COUNT = 3000 };
    static char header[COUNT * 80];
    size_t used = (size_t)sprintf(header, "{");
    for (int i = 0; i < COUNT; i++) {
        const int at = (i * 1237) % COUNT; /* 1237 has no factor in common with COUNT */
        used += (size_t)sprintf(
            header + used, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
            i ? "," : "", at, at, at + 1);
    }
    strcat(header, "}");
    static uint8_t data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = (uint8_t)(i % 251);
    build(header, data, sizeof data);
    nib_file *file;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        nib_tensor *tensor;
        sprintf(name, "t%d", i);
        assert_ok(nib_file_read(file, nib_file_find(file, name), &tensor, &error), &error);
        assert_int_equal(*(const uint8_t *)nib_tensor_data(tensor), i % 251);
        nib_tensor_free(tensor);
    }
    assert_int_equal(nib_file_find(file, "t3000"), SIZE_MAX);
    nib_file_free(file);
}

static void every_truncation_is_an_error(void **state)
{
    build("{" T("a", "U8", "[3]", "[0,3]") "," T("b", "U8", "[2]", "[3,5]") "}", "\1\2\3\4\5", 5);
    const size_t whole = st.size;
    for (st.size = 0; st.size < whole; st.size++) {
        nib_file *file;
        nib_error error = {0};
        assert_int_equal(open_bytes(state, &file, &error), NIB_FORMAT);
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    counting_allocator *allocator = allocator_of(state);
    const float data[1] = {1};
    build("{" T("a", "F32", "[1]", "[0,4]") "}", data, sizeof data);
    for (size_t failures = 0;; failures++) {
        nib_file *file;
        nib_error error = {0};
        allocator->fail_from = allocator->calls + failures + 1;
        const nib_status status = open_bytes(state, &file, &error);
        allocator->fail_from = 0;
        nib_file_free(file);
        if (status == NIB_OK) {
            assert_true(failures >= 3);
            return;
        }
        assert_int_equal(status, NIB_OUT_OF_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IO_TEST(unaligned_tensors_are_copied),
        IO_TEST(bfloat16_and_float64_become_float32),
        IO_TEST(known_encodings_that_cannot_be_read_still_open),
        IO_TEST(hostile_headers_are_named),
        IO_TEST(deep_nesting_is_a_limit),
        IO_TEST(header_lengths_are_checked_before_memory_is_taken),
        IO_TEST(many_tensors_are_found_by_name),
        IO_TEST(every_truncation_is_an_error),
        IO_TEST(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
