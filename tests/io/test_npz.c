/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives are made with libzip itself, and then damaged byte by byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "support.h"

#include "io/file.h"

typedef struct entry {
    const char *name;
    const void *data;
    size_t size;
    zip_int32_t method;
} entry;

static builder archive;

/* Write an archive and read it back into `archive`. */
static void build(const entry *entries, size_t count)
{
    const char *path = temporary_path("build.npz");
    int code;
    remove(path);
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    assert_non_null(zip);
    for (size_t i = 0; i < count; i++) {
        zip_source_t *source = zip_source_buffer(zip, entries[i].data, entries[i].size, 0);
        const zip_int64_t index = zip_file_add(zip, entries[i].name, source, ZIP_FL_ENC_UTF_8);
        assert_true(index >= 0);
        assert_int_equal(zip_set_file_compression(zip, (zip_uint64_t)index, entries[i].method, 0),
                         0);
    }
    assert_int_equal(zip_close(zip), 0);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    archive.size = fread(archive.data, 1, sizeof archive.data, file);
    fclose(file);
}

static nib_status open_bytes(void **state, nib_file **file, nib_error *error)
{
    return nib_file_parse(context_of(state), NIB_FILE_ANY, archive.data, archive.size, "test.npz",
                          file, error);
}

static const builder *array(const char *header, const void *data, size_t size)
{
    static builder pool[4];
    static size_t next;
    builder *b = &pool[next++ % 4];
    b->size = 0;
    put(b, "\x93NUMPY\1\0", 8);
    put_u16(b, (unsigned)strlen(header));
    put_text(b, header);
    put(b, data, size);
    return b;
}

static const float floats[6] = {1.5f, -2, 3, 4, 5, 6};
#define FLOATS  "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
#define FORTRAN "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"

/* Stored "a", deflated "b/c" in Fortran order, and something that is no array. */
static void build_good(void)
{
    const builder *a = array(FLOATS, floats, sizeof floats);
    const builder *b = array(FORTRAN, floats, sizeof floats);
    const entry entries[] = {
        {"a.npy", a->data, a->size, ZIP_CM_STORE},
        {"readme.txt", "hello", 5, ZIP_CM_STORE},
        {"b/c.npy", b->data, b->size, ZIP_CM_DEFLATE},
    };
    build(entries, 3);
}

static void members_are_found_and_read(void **state)
{
    build_good();
    nib_file *file;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_int_equal(nib_file_count(file), 2);
    assert_string_equal(nib_file_describe(file, 0).name, "a");
    assert_string_equal(nib_file_describe(file, 1).name, "b/c");
    assert_int_equal(nib_file_find(file, "b/c"), 1);
    assert_int_equal(nib_file_find(file, "readme"), SIZE_MAX);
    nib_tensor *a, *b;
    assert_ok(nib_file_read(file, 0, &a, &error), &error);
    assert_memory_equal(nib_tensor_data(a), floats, sizeof floats);
    assert_ok(nib_file_read(file, 1, &b, &error), &error);
    const float expected[6] = {1.5f, 3, 5, -2, 4, 6};
    assert_memory_equal(nib_tensor_data(b), expected, sizeof expected);
    nib_file_free(file);
    nib_tensor_free(a); /* members are unpacked, so they outlive the file */
    nib_tensor_free(b);
}

static void many_large_members_are_read(void **state)
{
    static float data[30000];
    noise source = {9};
    for (size_t i = 0; i < 30000; i++)
        data[i] = (float)next_normal(&source);
    const builder *a =
        array("{'descr': '<f4', 'fortran_order': False, 'shape': (300, 100)}", data, sizeof data);
    const entry entries[] = {{"x.npy", a->data, a->size, ZIP_CM_DEFLATE}};
    build(entries, 1);
    nib_file *file;
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_ok(nib_file_read(file, 0, &tensor, &error), &error);
    assert_memory_equal(nib_tensor_data(tensor), data, sizeof data);
    nib_tensor_free(tensor);
    nib_file_free(file);
}

static void bad_members_are_named(void **state)
{
    const builder *good = array(FLOATS, floats, sizeof floats);
    const builder *cut = array(FLOATS, floats, 20);
    const builder *hostile = array(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}", floats, 4);
    const struct {
        entry entry;
        nib_status status;
        const char *part;
    } cases[] = {
        {{"w.npy", "no array", 8, ZIP_CM_STORE}, NIB_FORMAT, "member 'w.npy': this is no npy data"},
        {{"w.npy", "", 0, ZIP_CM_STORE}, NIB_FORMAT, "member 'w.npy': this is no npy data"},
        {{"w.npy", cut->data, cut->size, ZIP_CM_STORE},
         NIB_FORMAT,
         "member 'w.npy': the data is cut off"},
        {{"w.npy", hostile->data, hostile->size, ZIP_CM_DEFLATE},
         NIB_FORMAT,
         "product of the dims overflows"},
        {{"w.npy", good->data, good->size, ZIP_CM_BZIP2},
         NIB_UNSUPPORTED,
         "neither stored nor deflated"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_file *file;
        nib_error error = {0};
        build(&cases[i].entry, 1);
        assert_int_equal(open_bytes(state, &file, &error), cases[i].status);
        assert_error(&error, cases[i].status, cases[i].part);
        assert_error(&error, cases[i].status, "test.npz: ");
    }
}

/* Offset of `what` in the archive, from the end. */
static size_t find_last(const void *what, size_t size)
{
    for (size_t at = archive.size - size + 1; at-- > 0;) {
        if (memcmp(archive.data + at, what, size) == 0)
            return at;
    }
    fail_msg("not in the archive");
    return 0;
}

static void a_wrong_checksum_is_found(void **state)
{
    build_good();
    archive.data[find_last(&floats[1], 4)] ^= 1; /* in the stored member */
    nib_file *file;
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_int_equal(nib_file_read(file, 0, &tensor, &error), NIB_FORMAT);
    assert_error(&error, NIB_FORMAT, "test.npz: tensor 'a': the member cannot be unpacked");
    assert_null(tensor);
    nib_file_free(file);
}

/* A directory entry that claims gigabytes costs nothing. */
static void a_member_cannot_claim_more_than_it_can_hold(void **state)
{
    build_good();
    const size_t at = find_last("PK\1\2", 4); /* of b/c.npy */
    const uint32_t claim = 0xfffffff0u;
    memcpy(archive.data + at + 24, &claim, 4);
    nib_file *file;
    nib_error error = {0};
    assert_int_equal(open_bytes(state, &file, &error), NIB_FORMAT);
    assert_true(strstr(error_text(&error), "than its data can expand to") ||
                strstr(error_text(&error), "cannot be"));
    assert_true(allocator_of(state)->peak_bytes < 1000000);
}

static void an_encrypted_member_is_refused(void **state)
{
    build_good();
    const size_t at = find_last("PK\1\2", 4);
    archive.data[at + 8] |= 1; /* general purpose bit 0 */
    uint32_t local;
    memcpy(&local, archive.data + at + 42, 4);
    archive.data[local + 6] |= 1;
    nib_file *file;
    nib_error error = {0};
    assert_int_equal(open_bytes(state, &file, &error), NIB_UNSUPPORTED);
    assert_error(&error, NIB_UNSUPPORTED, "the member is encrypted");
}

static void truncations_are_errors(void **state)
{
    build_good();
    const size_t whole = archive.size;
    for (archive.size = 4; archive.size < whole; archive.size++) {
        nib_file *file;
        nib_error error = {0};
        assert_int_not_equal(open_bytes(state, &file, &error), NIB_OK);
        assert_null(file);
    }
}

/* Any single damaged byte is an error or harmless: no crash, no leak, no giant allocation. */
static void damaged_bytes_are_survived(void **state)
{
    build_good();
    for (size_t at = 0; at < archive.size; at++) {
        const uint8_t kept = archive.data[at];
        for (unsigned bit = 0; bit < 8; bit += 3) {
            archive.data[at] = kept ^ (uint8_t)(1u << bit);
            nib_file *file;
            nib_error error = {0};
            if (open_bytes(state, &file, &error) != NIB_OK)
                continue;
            for (size_t i = 0; i < nib_file_count(file); i++) {
                nib_tensor *tensor;
                nib_error ignored = {0};
                if (nib_file_read(file, i, &tensor, &ignored) == NIB_OK)
                    nib_tensor_free(tensor);
            }
            nib_file_free(file);
        }
        archive.data[at] = kept;
    }
    assert_true(allocator_of(state)->peak_bytes < 1000000);
}

static void an_empty_archive_has_no_tensors(void **state)
{
    archive.size = 0;
    put(&archive, "PK\5\6", 4);
    put_zeros(&archive, 18);
    nib_file *file;
    nib_error error = {0};
    assert_ok(open_bytes(state, &file, &error), &error);
    assert_int_equal(nib_file_count(file), 0);
    assert_int_equal(nib_file_find(file, ""), SIZE_MAX);
    nib_file_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IO_TEST(members_are_found_and_read),
        IO_TEST(many_large_members_are_read),
        IO_TEST(bad_members_are_named),
        IO_TEST(a_wrong_checksum_is_found),
        IO_TEST(a_member_cannot_claim_more_than_it_can_hold),
        IO_TEST(an_encrypted_member_is_refused),
        IO_TEST(truncations_are_errors),
        IO_TEST(damaged_bytes_are_survived),
        IO_TEST(an_empty_archive_has_no_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
