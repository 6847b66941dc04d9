/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "io/file.h"
#include "nibble/quant.h"

static builder gguf;

enum { U8 = 0, U32 = 4, F32 = 6, STRING = 8, ARRAY = 9, U64 = 10 };
enum { T_F32 = 0, T_F16 = 1, T_Q4_0 = 2, T_Q8_0 = 8, T_Q2_K = 10, T_I8 = 24, T_BF16 = 30 };

static void put_name(const char *text)
{
    put_u64(&gguf, strlen(text));
    put_text(&gguf, text);
}

static void start(uint32_t version, uint64_t tensors, uint64_t entries)
{
    gguf.size = 0;
    put_text(&gguf, "GGUF");
    put_u32(&gguf, version);
    put_u64(&gguf, tensors);
    put_u64(&gguf, entries);
}

static void put_key(const char *key, uint32_t type)
{
    put_name(key);
    put_u32(&gguf, type);
}

/* dims innermost first, as in the file */
static void put_tensor(const char *name, uint32_t rank, const uint64_t *dims, uint32_t type,
                       uint64_t offset)
{
    put_name(name);
    put_u32(&gguf, rank);
    for (uint32_t i = 0; i < rank; i++)
        put_u64(&gguf, dims[i]);
    put_u32(&gguf, type);
    put_u64(&gguf, offset);
}

static nib_status open_bytes(void **state, nib_file **file, nib_error *error)
{
    return nib_file_parse(context_of(state), NIB_FILE_ANY, gguf.data, gguf.size, "test.gguf", file,
                          error);
}

static void expect_failure(void **state, nib_status status, const char *part)
{
    nib_file *file = (nib_file *)state;
    nib_error error = {0};
    const nib_status got = open_bytes(state, &file, &error);
    assert_error(&error, status, part);
    assert_error(&error, status, "test.gguf: ");
    assert_int_equal(got, status);
    assert_null(file);
}

/* Metadata of every type, a nested array, an own alignment. */
static void put_all_metadata(void)
{
    static const unsigned sizes[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint32_t type = 0; type < 13; type++) {
        char key[16];
        snprintf(key, sizeof key, "key.%u", type);
        put_key(key, type);
        if (type == STRING) {
            put_name("value");
        } else if (type == ARRAY) {
            put_u32(&gguf, ARRAY); /* [["a", "b"], [], [[7]]] */
            put_u64(&gguf, 3);
            put_u32(&gguf, STRING);
            put_u64(&gguf, 2);
            put_name("a");
            put_name("b");
            put_u32(&gguf, U64);
            put_u64(&gguf, 0);
            put_u32(&gguf, ARRAY);
            put_u64(&gguf, 1);
            put_u32(&gguf, U8);
            put_u64(&gguf, 1);
            put_u8(&gguf, 7);
        } else {
            put_zeros(&gguf, sizes[type]);
        }
    }
    put_key("general.alignment", U32);
    put_u32(&gguf, 8);
}

static void files_of_both_versions_are_read(void **state)
{
    for (uint32_t version = 2; version <= 3; version++) {
        start(version, 4, 14);
        put_all_metadata();
        put_tensor("matrix", 2, (const uint64_t[]){3, 2}, T_F32, 0);
        put_tensor("half", 1, (const uint64_t[]){3}, T_F16, 24);
        put_tensor("bf", 3, (const uint64_t[]){2, 1, 1}, T_BF16, 32);
        put_tensor("scalar", 0, NULL, T_I8, 40);
        pad_to(&gguf, 8);
        const float matrix[6] = {1, 2, 3, 4, 5, 6};
        put(&gguf, matrix, sizeof matrix);
        put_u16(&gguf, 0x3c00);
        put_u16(&gguf, 0xbc00);
        put_u16(&gguf, 0x7e00);
        pad_to(&gguf, 8);
        put_u16(&gguf, 0x3f80);
        put_u16(&gguf, 0xc000);
        pad_to(&gguf, 8);
        put_u8(&gguf, 0xff);
        nib_file *file;
        nib_error error = {0};
        assert_ok(open_bytes(state, &file, &error), &error);
        assert_int_equal(nib_file_count(file), 4);
        nib_tensor *tensor;
        /* dims come out outermost first */
        const nib_file_entry entry = nib_file_describe(file, nib_file_find(file, "matrix"));
        assert_true(entry.desc.rank == 2 && entry.desc.dims[0] == 2 && entry.desc.dims[1] == 3);
        assert_string_equal(entry.stored, "F32");
        assert_false(entry.quantized);
        assert_ok(nib_file_read(file, nib_file_find(file, "matrix"), &tensor, &error), &error);
        assert_memory_equal(nib_tensor_data(tensor), matrix, sizeof matrix);
        nib_tensor_free(tensor);
        assert_ok(nib_file_read(file, nib_file_find(file, "half"), &tensor, &error), &error);
        assert_int_equal(tensor->desc.dtype, NIB_FLOAT16);
        assert_int_equal(((const uint16_t *)nib_tensor_data(tensor))[2], 0x7e00);
        nib_tensor_free(tensor);
        assert_ok(nib_file_read(file, nib_file_find(file, "bf"), &tensor, &error), &error);
        assert_true(((const float *)nib_tensor_data(tensor))[1] == -2.0f);
        nib_tensor_free(tensor);
        assert_ok(nib_file_read(file, nib_file_find(file, "scalar"), &tensor, &error), &error);
        assert_int_equal(*(const int8_t *)nib_tensor_data(tensor), -1);
        nib_tensor_free(tensor);
        nib_file_free(file);
    }
}

/* Random blocks: nibbles, and scales of every kind but NaN. */
static void put_q4_0_blocks(size_t blocks, uint64_t seed)
{
    noise n = {seed};
    for (size_t i = 0; i < blocks; i++) {
        put_u16(&gguf, (next_bits(&n) & 0x83ffu) | (next_bits(&n) % 31) << 10);
        for (int j = 0; j < 4; j++)
            put_u32(&gguf, next_bits(&n));
    }
}

/* The values of the nbits form are those that the file's own form decodes to. */
static void q4_0_becomes_nbits_without_loss(void **state)
{
    enum { N = 5, K = 96 };
    start(3, 1, 0);
    put_tensor("w", 2, (const uint64_t[]){K, N}, T_Q4_0, 0);
    pad_to(&gguf, 32);
    put_q4_0_blocks(N * K / 32, 77);
    nib_file *file;
    nib_tensor *floats, *packed, *scales, *back;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_true(nib_file_describe(file, 0).quantized);
    assert_ok(nib_file_read(file, 0, &floats, &error), &error);
    assert_ok(nib_file_read_nbits(file, 0, &packed, &scales, &error), &error);
    char text[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(&packed->desc, text, sizeof text);
    assert_string_equal(text, "uint8[5,3,16]");
    nib_tensor_desc_format(&scales->desc, text, sizeof text);
    assert_string_equal(text, "float16[5,3]");
    assert_ok(nib_nbits_dequantize(context_of(state), packed, scales, 4, K, &back, &error), &error);
    assert_int_equal(nib_tensor_bytes(back), nib_tensor_bytes(floats));
    const float *a = nib_tensor_data(back), *b = nib_tensor_data(floats);
    for (size_t i = 0; i < N * K; i++)
        assert_true(a[i] == b[i]);
    /* By hand: element 17 is the high nibble of byte 1 of its block, and byte 8 of the packed
     * block, high half. */
    const uint8_t *block = gguf.data + gguf.size - N * K / 32 * 18;
    assert_int_equal(((const uint8_t *)nib_tensor_data(packed))[8] >> 4, block[2 + 1] >> 4);
    nib_tensor_free(floats);
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(back);
    nib_file_free(file);
}

static void only_q4_0_matrices_become_nbits(void **state)
{
    start(3, 3, 0);
    put_tensor("q8", 2, (const uint64_t[]){32, 1}, T_Q8_0, 0);
    put_tensor("vector", 1, (const uint64_t[]){32}, T_Q4_0, 64);
    put_tensor("q2", 1, (const uint64_t[]){256}, T_Q2_K, 96);
    pad_to(&gguf, 32);
    put_zeros(&gguf, 200);
    nib_file *file;
    nib_tensor *a, *b;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_int_equal(nib_file_read_nbits(file, 0, &a, &b, &error), NIB_UNSUPPORTED);
    assert_error(&error, NIB_UNSUPPORTED, "tensor 'q8': only a Q4_0 matrix");
    assert_true(!a && !b);
    error = (nib_error){0};
    assert_int_equal(nib_file_read_nbits(file, 1, &a, &b, &error), NIB_UNSUPPORTED);
    error = (nib_error){0};
    assert_int_equal(nib_file_read_nbits(file, 9, &a, &b, &error), NIB_INVALID_ARGUMENT);
    error = (nib_error){0};
    assert_int_equal(nib_file_read(file, 2, &a, &error), NIB_UNSUPPORTED);
    assert_error(&error, NIB_UNSUPPORTED, "tensor 'q2': the encoding Q2_K cannot be read");
    nib_file_free(file);
}

static void hostile_starts_are_named(void **state)
{
    static const struct {
        uint32_t version;
        uint64_t tensors, entries;
        nib_status status;
        const char *part;
    } cases[] = {
        {1, 0, 0, NIB_UNSUPPORTED, "GGUF version 1 is not known"},
        {4, 0, 0, NIB_UNSUPPORTED, "GGUF version 4 is not known"},
        {0x03000000, 0, 0, NIB_UNSUPPORTED, "big-endian"},
        {3, 0, 1, NIB_FORMAT, "1 metadata entries do not fit"},
        {3, 0, UINT64_MAX, NIB_FORMAT, "18446744073709551615 metadata entries do not fit"},
        {3, 1, 0, NIB_FORMAT, "1 tensors do not fit"},
        {3, UINT64_MAX / 24, 0, NIB_FORMAT, "tensors do not fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(cases[i].version, cases[i].tensors, cases[i].entries);
        expect_failure(state, cases[i].status, cases[i].part);
    }
    gguf.size = 0;
    put_text(&gguf, "FUGG\3\2\1\1");
    expect_failure(state, NIB_FORMAT, "no little-endian GGUF");
    assert_true(allocator_of(state)->peak_bytes < 100000);
}

/* One metadata entry, given as bytes after the key "k", followed by zeros. */
static void hostile_metadata_is_named(void **state)
{
    static const struct {
        uint32_t type, inner;
        uint64_t count;
        nib_status status;
        const char *part;
    } cases[] = {
        {13, 0, 0, NIB_FORMAT, "unknown type 13"},
        {UINT32_MAX, 0, 0, NIB_FORMAT, "unknown type 4294967295"},
        {STRING, UINT32_MAX, UINT32_MAX, NIB_FORMAT, "cut off in a metadata string"},
        {ARRAY, U64, UINT64_MAX, NIB_FORMAT, "cut off in a metadata array"},
        {ARRAY, U64, UINT64_MAX / 8 + 2, NIB_FORMAT, "cut off in a metadata array"},
        {ARRAY, U8, 1000, NIB_FORMAT, "cut off in a metadata array"},
        {ARRAY, STRING, UINT64_MAX, NIB_FORMAT, "cut off in a metadata string"},
        {ARRAY, 13, 1, NIB_FORMAT, "unknown type 13"},
        {ARRAY, ARRAY, UINT64_MAX, NIB_FORMAT, "cut off in a metadata array"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(3, 0, 1);
        put_key("k", cases[i].type);
        put_u32(&gguf, cases[i].inner);
        put_u64(&gguf, cases[i].count);
        put_zeros(&gguf, 40);
        expect_failure(state, cases[i].status, cases[i].part);
    }
    for (int depth = 1; depth < 12; depth++) {
        start(3, 0, 1);
        put_key("k", ARRAY);
        for (int i = 1; i < depth; i++) {
            put_u32(&gguf, ARRAY);
            put_u64(&gguf, 1);
        }
        put_u32(&gguf, U8);
        put_u64(&gguf, 0);
        nib_file *file;
        nib_error error = {0};
        assert_int_equal(open_bytes(state, &file, &error), depth <= 8 ? NIB_OK : NIB_LIMIT);
        if (depth > 8)
            assert_error(&error, NIB_LIMIT, "nested deeper than 8 levels");
        nib_file_free(file);
    }
    start(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_key("same", U8);
        put_u8(&gguf, 1);
    }
    expect_failure(state, NIB_FORMAT, "the metadata key 'same' occurs twice");
    start(3, 0, 1);
    put_u64(&gguf, 65536);
    put_zeros(&gguf, 70000);
    expect_failure(state, NIB_LIMIT, "a metadata key has 65536 bytes, more than 65535");
}

static void alignments_are_checked(void **state)
{
    static const struct {
        uint32_t type;
        uint64_t value;
        nib_status status;
        const char *part;
    } cases[] = {
        {U32, 0, NIB_FORMAT, "general.alignment is 0, no power of two"},
        {U32, 48, NIB_FORMAT, "general.alignment is 48"},
        {U32, UINT32_MAX, NIB_FORMAT, "general.alignment is 4294967295"},
        {U64, 32, NIB_FORMAT, "general.alignment has the value type 10"},
        {STRING, 1, NIB_FORMAT, "general.alignment has the value type 8"},
        {U32, 0x80000000u, NIB_FORMAT, "tensor 't': its 4 bytes of data reach beyond"},
        {U32, 16, NIB_FORMAT, "its offset 8 is no multiple of the alignment 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(3, 1, 1);
        put_key("general.alignment", cases[i].type);
        if (cases[i].type == U32)
            put_u32(&gguf, (uint32_t)cases[i].value);
        else
            put_u64(&gguf, cases[i].value);
        put_tensor("t", 1, (const uint64_t[]){1}, T_F32, cases[i].value == 16 ? 8 : 0);
        put_zeros(&gguf, 64);
        expect_failure(state, cases[i].status, cases[i].part);
    }
    /* An alignment of one byte is odd but well-formed. */
    start(3, 1, 1);
    put_key("general.alignment", U32);
    put_u32(&gguf, 1);
    put_tensor("t", 1, (const uint64_t[]){1}, T_F32, 1);
    put_zeros(&gguf, 1);
    const float value = 2.5f;
    put(&gguf, &value, sizeof value);
    nib_file *file;
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_ok(nib_file_read(file, 0, &tensor, &error), &error);
    assert_memory_equal(nib_tensor_data(tensor), &value, 4);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void hostile_tensors_are_named(void **state)
{
    const uint64_t big = (uint64_t)1 << 42;
    const struct {
        uint32_t rank;
        uint64_t dims[4];
        uint32_t type;
        uint64_t offset;
        nib_status status;
        const char *part;
    } cases[] = {
        {2, {INT64_MAX, 2}, T_F32, 0, NIB_FORMAT, "tensor 't': the size of the tensor overflows"},
        {2, {(uint64_t)INT64_MAX + 1, 1}, T_F32, 0, NIB_FORMAT, "dim 0 is 9223372036854775808"},
        {2, {1, UINT64_MAX}, T_F32, 0, NIB_FORMAT, "dim 1 is 18446744073709551615"},
        {2, {big + 1, big}, T_F32, 0, NIB_FORMAT, "tensor 't': the product of the dims overflows"},
        {4, {65536, 65536, 65536, 65536}, T_F32, 0, NIB_FORMAT, "product of the dims overflows"},
        {2, {INT64_MAX / 32 * 32, 3}, T_Q4_0, 0, NIB_FORMAT, "product of the dims overflows"},
        {2, {INT64_MAX / 32 * 32, 2}, T_Q4_0, 0, NIB_LIMIT, "the size of the tensor overflows"},
        {1, {(uint64_t)1 << 60}, T_Q4_0, 0, NIB_FORMAT, "reach beyond the end"},
        {5, {1, 1, 1, 1}, T_F32, 0, NIB_FORMAT, "it has 5 dims, more than 4"},
        {UINT32_MAX, {1}, T_F32, 0, NIB_FORMAT, "it has 4294967295 dims"},
        {1,
         {33},
         T_Q4_0,
         0,
         NIB_FORMAT,
         "a row of 33 elements is no multiple of Q4_0's block of 32"},
        {2, {16, 2}, T_Q8_0, 0, NIB_FORMAT, "a row of 16 elements"},
        {0, {0}, T_Q8_0, 0, NIB_FORMAT, "a row of 1 elements"},
        {1, {1}, 4, 0, NIB_UNSUPPORTED, "encoding number 4 is not known"},
        {1, {1}, UINT32_MAX, 0, NIB_UNSUPPORTED, "encoding number 4294967295"},
        {1, {1}, T_F32, UINT64_MAX, NIB_FORMAT, "begins beyond the end"},
        {1, {1}, T_F32, 32, NIB_FORMAT, "its 4 bytes of data reach beyond the end"},
        {1, {9}, T_F32, 0, NIB_FORMAT, "its 36 bytes of data reach beyond the end"},
        {1, {1}, T_F32, 4, NIB_FORMAT, "its offset 4 is no multiple of the alignment 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start(3, 1, 0);
        const uint32_t written = cases[i].rank < 4 ? cases[i].rank : 4;
        put_name("t");
        put_u32(&gguf, cases[i].rank);
        for (uint32_t d = 0; d < written; d++)
            put_u64(&gguf, cases[i].dims[d]);
        put_u32(&gguf, cases[i].type);
        put_u64(&gguf, cases[i].offset);
        pad_to(&gguf, 32);
        put_zeros(&gguf, 32);
        expect_failure(state, cases[i].status, cases[i].part);
    }
    assert_true(allocator_of(state)->peak_bytes < 200000);
}

static void names_and_ranges_must_differ(void **state)
{
    start(3, 2, 0);
    put_tensor("same", 1, (const uint64_t[]){8}, T_F32, 0);
    put_tensor("same", 1, (const uint64_t[]){8}, T_F32, 32);
    pad_to(&gguf, 32);
    put_zeros(&gguf, 64);
    expect_failure(state, NIB_FORMAT, "tensor 'same': the name occurs twice");
    start(3, 2, 0);
    put_tensor("b", 1, (const uint64_t[]){8}, T_F32, 32);
    put_tensor("a", 1, (const uint64_t[]){9}, T_F32, 0);
    pad_to(&gguf, 32);
    put_zeros(&gguf, 64);
    expect_failure(state, NIB_FORMAT, "tensor 'b': its data overlaps that of tensor 'a'");
    start(3, 1, 0);
    put_u64(&gguf, 3);
    put(&gguf, "a\0b", 3);
    put_u32(&gguf, 0);
    put_u32(&gguf, T_F32);
    put_u64(&gguf, 0);
    pad_to(&gguf, 32);
    put_zeros(&gguf, 64);
    expect_failure(state, NIB_FORMAT, "tensor 'a?b': the name has a NUL character inside");
    start(3, 1, 0);
    put_u64(&gguf, 2000);
    put_zeros(&gguf, 3000);
    expect_failure(state, NIB_LIMIT, "a tensor name has 2000 bytes, more than 1024");
}

static void empty_tensors_are_fine(void **state)
{
    start(3, 2, 0);
    put_tensor("none", 2, (const uint64_t[]){0, INT64_MAX}, T_F32, 0);
    put_tensor("one", 1, (const uint64_t[]){1}, T_F32, 0);
    pad_to(&gguf, 32);
    put_u32(&gguf, 0x3f800000);
    nib_file *file;
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_ok(nib_file_read(file, 0, &tensor, &error), &error);
    assert_int_equal(nib_tensor_bytes(tensor), 0);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void build_small(void)
{
    start(3, 2, 14);
    put_all_metadata();
    put_tensor("w", 2, (const uint64_t[]){32, 2}, T_Q4_0, 0);
    put_tensor("v", 1, (const uint64_t[]){3}, T_F32, 40);
    pad_to(&gguf, 8);
    put_q4_0_blocks(2, 5);
    pad_to(&gguf, 8);
    put_zeros(&gguf, 12);
}

static void every_truncation_is_an_error(void **state)
{
    build_small();
    const size_t whole = gguf.size;
    for (gguf.size = 0; gguf.size < whole; gguf.size++) {
        nib_file *file;
        nib_error error = {0};
        assert_int_equal(open_bytes(state, &file, &error), NIB_FORMAT);
    }
}

/* A damaged byte is an error or harmless, and what opens can be read. */
static void damaged_bytes_are_survived(void **state)
{
    build_small();
    for (size_t at = 0; at < gguf.size; at++) {
        const uint8_t kept = gguf.data[at];
        static const uint8_t masks[] = {0x01, 0x80, 0xff};
        for (size_t m = 0; m < sizeof masks; m++) {
            gguf.data[at] = kept ^ masks[m];
            nib_file *file;
            nib_error error = {0};
            if (open_bytes(state, &file, &error) != NIB_OK)
                continue;
            for (size_t i = 0; i < nib_file_count(file); i++) {
                nib_tensor *tensor;
                error = (nib_error){0};
                const nib_status status = nib_file_read(file, i, &tensor, &error);
                assert_true(status == NIB_OK || status == NIB_UNSUPPORTED);
                nib_tensor_free(tensor);
            }
            nib_file_free(file);
        }
        gguf.data[at] = kept;
    }
    assert_true(allocator_of(state)->peak_bytes < 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IO_TEST(files_of_both_versions_are_read), IO_TEST(q4_0_becomes_nbits_without_loss),
        IO_TEST(only_q4_0_matrices_become_nbits), IO_TEST(hostile_starts_are_named),
        IO_TEST(hostile_metadata_is_named),       IO_TEST(alignments_are_checked),
        IO_TEST(hostile_tensors_are_named),       IO_TEST(names_and_ranges_must_differ),
        IO_TEST(empty_tensors_are_fine),          IO_TEST(every_truncation_is_an_error),
        IO_TEST(damaged_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
