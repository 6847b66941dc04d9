/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "io/file.h"

static builder npy;

/* Version, header text and data; the header is padded as numpy pads it when `pad` is set. */
static void build(unsigned major, const char *header, const void *data, size_t data_bytes)
{
    npy.size = 0;
    put(&npy, "\x93NUMPY", 6);
    put_u8(&npy, major);
    put_u8(&npy, 0);
    if (major == 1)
        put_u16(&npy, (unsigned)strlen(header));
    else
        put_u32(&npy, (uint32_t)strlen(header));
    put_text(&npy, header);
    put(&npy, data, data_bytes);
}

static nib_status open_bytes(void **state, nib_file **file, nib_error *error)
{
    return nib_file_parse(context_of(state), NIB_FILE_ANY, npy.data, npy.size, "test.npy", file,
                          error);
}

static void read_only(void **state, nib_file **file, nib_tensor **tensor)
{
    nib_error error = {0};
    assert_ok(open_bytes(state, file, &error), &error);
    assert_int_equal(nib_file_count(*file), 1);
    assert_string_equal(nib_file_describe(*file, 0).name, "");
    assert_ok(nib_file_read(*file, 0, tensor, &error), &error);
}

#define F4(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape ", }\n"

static void all_three_versions_are_read(void **state)
{
    const float data[6] = {1, 2, 3, 4, 5, -0.5f};
    for (unsigned major = 1; major <= 3; major++) {
        nib_file *file;
        nib_tensor *tensor;
        build(major, F4("(2, 3)"), data, sizeof data);
        read_only(state, &file, &tensor);
        assert_string_equal(nib_file_describe(file, 0).stored, "<f4");
        assert_int_equal(tensor->desc.dtype, NIB_FLOAT32);
        assert_int_equal(tensor->desc.rank, 2);
        assert_int_equal(tensor->desc.dims[1], 3);
        assert_memory_equal(nib_tensor_data(tensor), data, sizeof data);
        nib_tensor_free(tensor);
        nib_file_free(file);
    }
}

static void headers_are_read_as_python_writes_them(void **state)
{
    static const struct {
        const char *header;
        nib_dtype dtype;
        uint32_t rank;
        int64_t first_dim;
        size_t data_bytes;
    } cases[] = {
        {"{'shape':(3,),\"descr\":\"<f2\",'fortran_order':False}", NIB_FLOAT16, 1, 3, 6},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3L, 2L)}", NIB_UINT8, 2, 3, 6},
        {"{ 'descr' : '|b1' , 'fortran_order' : True , 'shape' : ( ) , }   \n", NIB_BOOL, 0, 0, 1},
        {"{'descr': '?', 'fortran_order': False, 'shape': (0, 5)}", NIB_BOOL, 2, 0, 0},
        {"{'descr': '=i4', 'fortran_order': False, 'shape': (1,)}", NIB_INT32, 1, 1, 4},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (1,)}", NIB_UINT32, 1, 1, 4},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", NIB_INT64, 1, 2, 16},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (2,)}", NIB_INT16, 1, 2, 4},
        {"{'descr': '>i1', 'fortran_order': False, 'shape': (2,)}", NIB_INT8, 1, 2, 2},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': "
         "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}",
         NIB_FLOAT32, 16, 1, 4},
    };
    static const uint8_t data[16] = {0, 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_file *file;
        nib_tensor *tensor;
        build(1, cases[i].header, data, cases[i].data_bytes);
        read_only(state, &file, &tensor);
        assert_int_equal(tensor->desc.dtype, cases[i].dtype);
        assert_int_equal(tensor->desc.rank, cases[i].rank);
        assert_int_equal(tensor->desc.dims[0], cases[i].first_dim);
        assert_int_equal(nib_tensor_bytes(tensor), cases[i].data_bytes);
        nib_tensor_free(tensor);
        nib_file_free(file);
    }
}

static void big_endian_elements_are_swapped(void **state)
{
    static const uint8_t data[8] = {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0};
    nib_file *file;
    nib_tensor *tensor;
    build(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", data, sizeof data);
    read_only(state, &file, &tensor);
    const float *values = nib_tensor_data(tensor);
    assert_true(values[0] == 1.0f && values[1] == -2.5f);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void float64_becomes_float32(void **state)
{
    const double data[4] = {0.1, 1e300, -1e-300, -3};
    nib_file *file;
    nib_tensor *tensor;
    build(2, "{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}", data, sizeof data);
    read_only(state, &file, &tensor);
    assert_int_equal(tensor->desc.dtype, NIB_FLOAT32);
    const float *values = nib_tensor_data(tensor);
    assert_true(values[0] == 0.1f && isinf(values[1]) && values[2] == 0 && values[3] == -3);
    nib_tensor_free(tensor);
    nib_file_free(file);
    /* big-endian too */
    const uint8_t swapped[8] = {0xc0, 0x08, 0, 0, 0, 0, 0, 0};
    build(1, "{'descr': '>f8', 'fortran_order': False, 'shape': (1,)}", swapped, 8);
    read_only(state, &file, &tensor);
    assert_true(*(const float *)nib_tensor_data(tensor) == -3);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void fortran_order_is_turned_into_c_order(void **state)
{
    int16_t stored[24], expected[24];
    /* element [a,b,c] of shape (2,3,4) holds 100a + 10b + c */
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 3; b++) {
            for (int c = 0; c < 4; c++) {
                stored[a + 2 * b + 6 * c] = (int16_t)(100 * a + 10 * b + c);
                expected[12 * a + 4 * b + c] = (int16_t)(100 * a + 10 * b + c);
            }
        }
    }
    nib_file *file;
    nib_tensor *tensor;
    build(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4)}", stored, sizeof stored);
    read_only(state, &file, &tensor);
    assert_memory_equal(nib_tensor_data(tensor), expected, sizeof expected);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void aligned_data_is_borrowed_and_other_data_copied(void **state)
{
    const float data[2] = {1, 2};
    for (int pad = 0; pad < 4; pad++) {
        char header[128];
        snprintf(header, sizeof header, "%.*s%s", pad, "   ",
                 "{'descr':'<f4','fortran_order':False,'shape':(2,)} ");
        build(1, header, data, sizeof data);
        nib_file *file;
        nib_tensor *tensor;
        read_only(state, &file, &tensor);
        const uint8_t *at = npy.data + npy.size - sizeof data;
        if ((uintptr_t)at % 4 == 0)
            assert_ptr_equal(nib_tensor_data(tensor), at);
        else
            assert_ptr_not_equal(nib_tensor_data(tensor), at);
        assert_int_equal((uintptr_t)nib_tensor_data(tensor) % 4, 0);
        assert_memory_equal(nib_tensor_data(tensor), data, sizeof data);
        nib_tensor_free(tensor);
        nib_file_free(file);
    }
}

static void hostile_headers_are_named(void **state)
{
    static const struct {
        const char *header;
        nib_status status;
        const char *part;
    } cases[] = {
        {"", NIB_FORMAT, "it is no dictionary"},
        {"[]", NIB_FORMAT, "it is no dictionary"},
        {"{", NIB_FORMAT, "a key and a colon"},
        {"{}", NIB_FORMAT, "is missing"},
        {"{'descr': '<f4', 'shape': (1,)}", NIB_FORMAT, "is missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", NIB_FORMAT, "text after"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", NIB_FORMAT, "a comma or brace"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", NIB_FORMAT,
         "a key other than"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", NIB_FORMAT,
         "a key occurs twice"},
        {"{'descr': <f4, 'fortran_order': False, 'shape': (1,)}", NIB_FORMAT,
         "descr is a short string"},
        {"{'descr': 'a-dtype-that-is-far-too-long-to-be-one', 'shape': (1,)}", NIB_FORMAT,
         "descr is a short string"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", NIB_FORMAT, "a comma or brace"},
        {"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}", NIB_FORMAT,
         "descr is a short string"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", NIB_UNSUPPORTED,
         "structured npy arrays"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", NIB_FORMAT,
         "fortran_order is True or False"},
        /* the word in another place is not taken for the flag */
        {"{'descr': 'True', 'fortran_order': Maybe, 'shape': (1,)}", NIB_FORMAT,
         "fortran_order is True or False"},
        {F4("1"), NIB_FORMAT, "shape is a tuple"},
        {F4("(1)"), NIB_FORMAT, "shape is a tuple"},
        {F4("[1]"), NIB_FORMAT, "shape is a tuple"},
        {F4("(-1,)"), NIB_FORMAT, "shape is a tuple"},
        {F4("(1.0,)"), NIB_FORMAT, "lacks a comma"},
        {F4("(1e3,)"), NIB_FORMAT, "lacks a comma"},
        {F4("(1 2)"), NIB_FORMAT, "lacks a comma"},
        {F4("(1,234,567)"), NIB_FORMAT, "cut off"},
        {F4("(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)"), NIB_LIMIT, "more than 16 dims"},
        {F4("(9223372036854775808,)"), NIB_FORMAT, "a dim of the shape overflows"},
        {F4("(9223372036854775807, 2)"), NIB_FORMAT, "product of the dims overflows"},
        {F4("(4294967296, 4294967296)"), NIB_FORMAT, "product of the dims overflows"},
        {F4("(4611686018427387904,)"), NIB_FORMAT, "overflows"},
        {F4("(1000000000000,)"), NIB_FORMAT, "takes 4000000000000 bytes, 4 are there"},
        {F4("(2,)"), NIB_FORMAT, "takes 8 bytes, 4 are there"},
        {F4("(0,)"), NIB_FORMAT, "4 bytes follow the array"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}", NIB_FORMAT,
         "overflows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_file *file = (nib_file *)state;
        nib_error error = {0};
        build(1 + (unsigned)(i % 3), cases[i].header, "\0\0\0\0", 4);
        assert_int_equal(open_bytes(state, &file, &error), cases[i].status);
        assert_error(&error, cases[i].status, cases[i].part);
        assert_error(&error, cases[i].status, "test.npy: ");
        assert_null(file);
    }
    assert_true(allocator_of(state)->peak_bytes < 100000);
}

static void odd_types_open_and_fail_on_reading(void **state)
{
    static const char *const types[] = {"<c16", "<u2", "<u8", "|O", "<U3",
                                        "<f16", "|V2", "",    "<",  "<M8[ns]"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr':'%s','fortran_order':False,'shape':(1,)}",
                 types[i]);
        build(1, header, "\0\0\0\0\0\0\0\0", 8);
        nib_file *file;
        nib_tensor *tensor;
        nib_error error = {0};
        assert_ok(open_bytes(state, &file, &error), &error);
        assert_int_equal(nib_file_describe(file, 0).desc.dtype, NIB_DTYPE_NONE);
        assert_int_equal(nib_file_read(file, 0, &tensor, &error), NIB_UNSUPPORTED);
        assert_error(&error, NIB_UNSUPPORTED, "test.npy: the encoding");
        nib_file_free(file);
    }
}

static void preambles_are_checked(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        nib_status status;
        const char *part;
    } cases[] = {
        {"\x93NUMPY", 6, NIB_FORMAT, "cut off in its first bytes"},
        {"\x93NUMPY\1\0\5", 9, NIB_FORMAT, "cut off in its first bytes"},
        {"\x93NUMPY\1\0\5\0", 10, NIB_FORMAT, "the npy header is cut off"},
        {"\x93NUMPY\2\0\5\0", 10, NIB_FORMAT, "the npy header is cut off"},
        {"\x93NUMPY\2\0\5\0\0\0", 12, NIB_FORMAT, "the npy header is cut off"},
        {"\x93NUMPY\2\0\xff\xff\xff\xff", 12, NIB_LIMIT, "4294967295 bytes, more than 65536"},
        {"\x93NUMPY\3\0\1\0\1\0", 12, NIB_LIMIT, "65537 bytes, more than 65536"},
        {"\x93NUMPY\0\0\1\0\1\0", 12, NIB_UNSUPPORTED, "version 0.0"},
        {"\x93NUMPY\4\0\1\0\1\0", 12, NIB_UNSUPPORTED, "version 4.0"},
        {"\x93NUMPY\1\1\1\0\1\0", 12, NIB_UNSUPPORTED, "version 1.1"},
        {"", 0, NIB_FORMAT, "neither npy, npz, safetensors nor GGUF"},
        {"\x93NUMPX\1\0\1\0\1\0", 12, NIB_FORMAT, "neither npy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_file *file;
        nib_error error = {0};
        npy.size = 0;
        put(&npy, cases[i].bytes, cases[i].size);
        assert_int_equal(open_bytes(state, &file, &error), cases[i].status);
        assert_error(&error, cases[i].status, cases[i].part);
    }
}

static void every_truncation_is_an_error(void **state)
{
    const float data[6] = {1, 2, 3, 4, 5, 6};
    build(1, F4("(2, 3)"), data, sizeof data);
    const size_t whole = npy.size;
    for (npy.size = 0; npy.size < whole; npy.size++) {
        nib_file *file;
        nib_error error = {0};
        assert_int_equal(open_bytes(state, &file, &error), NIB_FORMAT);
    }
}

static void every_failing_allocation_is_survived(void **state)
{
    const double data[4] = {1, 2, 3, 4};
    counting_allocator *allocator = allocator_of(state);
    build(1, "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 2)}", data, sizeof data);
    size_t failures = 0;
    for (;; failures++) {
        nib_file *file;
        nib_tensor *tensor = NULL;
        nib_error error = {0};
        allocator->fail_from = allocator->calls + failures + 1;
        nib_status status = open_bytes(state, &file, &error);
        if (status == NIB_OK)
            status = nib_file_read(file, 0, &tensor, &error);
        allocator->fail_from = 0;
        nib_tensor_free(tensor);
        nib_file_free(file);
        if (status == NIB_OK)
            break;
        assert_int_equal(status, NIB_OUT_OF_MEMORY);
    }
    assert_true(failures >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IO_TEST(all_three_versions_are_read),
        IO_TEST(headers_are_read_as_python_writes_them),
        IO_TEST(big_endian_elements_are_swapped),
        IO_TEST(float64_becomes_float32),
        IO_TEST(fortran_order_is_turned_into_c_order),
        IO_TEST(aligned_data_is_borrowed_and_other_data_copied),
        IO_TEST(hostile_headers_are_named),
        IO_TEST(odd_types_open_and_fail_on_reading),
        IO_TEST(preambles_are_checked),
        IO_TEST(every_truncation_is_an_error),
        IO_TEST(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
