/* SPDX-License-Identifier: Apache-2.0
 *
 * Files on disk: mapping and reading them, tensors from specs, writing.
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

#include "io/file.h"
#include "tensor/half.h"

/* ---- mapping ---- */

static void mapped_and_read_bytes_are_equal(void **state)
{
    nib_context *context = context_of(state);
    const char *path = temporary_path("bytes");
    static char data[200000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    write_file(path, data, sizeof data);
    nib_mapping mapped, read;
    nib_error error = {0};
    assert_ok(nib_mapping_open(context, path, &mapped, &error), &error);
    assert_ok(nib_mapping_read(context, path, &read, &error), &error);
    assert_int_equal(mapped.allocated, 0);
    assert_int_equal(read.allocated, sizeof data);
    assert_int_equal(mapped.size, sizeof data);
    assert_memory_equal(mapped.data, data, sizeof data);
    assert_memory_equal(read.data, data, sizeof data);
    mapped.data[3] = 'x'; /* private to the process */
    nib_mapping_close(context, &mapped);
    nib_mapping_close(context, &read);
    assert_ok(nib_mapping_open(context, path, &mapped, &error), &error);
    assert_int_equal(mapped.data[3], 21);
    nib_mapping_close(context, &mapped);
}

static void empty_files_have_no_bytes(void **state)
{
    nib_mapping mapping;
    nib_error error = {0};
    const char *path = temporary_path("empty");
    write_file(path, "", 0);
    assert_ok(nib_mapping_open(context_of(state), path, &mapping, &error), &error);
    assert_int_equal(mapping.size, 0);
    nib_mapping_close(context_of(state), &mapping);
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    nib_file *file;
    nib_error error = {0};
    assert_int_equal(nib_file_open(context_of(state), "/nonexistent/x.npy", &file, &error), NIB_IO);
    assert_error(&error, NIB_IO, "/nonexistent/x.npy: cannot open the file: No such file");
    error = (nib_error){0};
    assert_int_equal(nib_file_open(context_of(state), "/tmp", &file, &error), NIB_IO);
    assert_error(&error, NIB_IO, "/tmp: is a directory");
    error = (nib_error){0};
    assert_int_equal(nib_file_open(context_of(state), "/dev/null", &file, &error), NIB_FORMAT);
    assert_error(&error, NIB_FORMAT, "/dev/null: the file is neither npy");
}

static void *write_into_pipe(void *arg)
{
    const char *path = arg;
    FILE *pipe = fopen(path, "wb");
    for (int i = 0; pipe && i < 100000; i++)
        fwrite("0123456789", 1, 10, pipe);
    if (pipe)
        fclose(pipe);
    return NULL;
}

static void pipes_are_read_to_their_end(void **state)
{
    char path[256];
    snprintf(path, sizeof path, "%s", temporary_path("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_into_pipe, path), 0);
    nib_mapping mapping;
    nib_error error = {0};
    assert_ok(nib_mapping_open(context_of(state), path, &mapping, &error), &error);
    pthread_join(writer, NULL);
    assert_int_equal(mapping.size, 1000000);
    assert_memory_equal(mapping.data + 999990, "0123456789", 10);
    nib_mapping_close(context_of(state), &mapping);
}

/* ---- writing ---- */

static nib_tensor *make(void **state, const char *spec)
{
    nib_tensor *tensor;
    nib_error error = {0};
    assert_ok(nib_tensor_from_spec(context_of(state), spec, &tensor, &error), &error);
    return tensor;
}

static void assert_same(nib_tensor *a, nib_tensor *b)
{
    assert_true(nib_desc_equal(nib_tensor_describe(a), nib_tensor_describe(b)));
    if (nib_tensor_bytes(a))
        assert_memory_equal(nib_tensor_data(a), nib_tensor_data(b), nib_tensor_bytes(a));
}

static const char *const every_kind[] = {
    "float32[2,3]=rand:1", "float16[7]=rand:2", "int8[5]=rand:3",
    "int16[3,1,2]=rand:4", "int32[4]=rand:5",   "int64[2,2]=rand:6",
    "uint8[15]=rand:7",    "uint32[3]=rand:8",  "bool[9]=rand:9",
    "float32[]=2.5",       "float32[0,4]=0",    "float16[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,3]=1,2,3",
};
enum { KINDS = sizeof every_kind / sizeof every_kind[0] };

static void npy_files_round_trip(void **state)
{
    for (size_t i = 0; i < KINDS; i++) {
        nib_tensor *tensor = make(state, every_kind[i]);
        const char *path = temporary_path("round.npy");
        nib_error error = {0};
        assert_ok(nib_npy_write(context_of(state), path, tensor, &error), &error);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(((size_t)info.st_size - nib_tensor_bytes(tensor)) % 64, 0);
        nib_tensor *back = make(state, path);
        assert_same(tensor, back);
        nib_tensor_free(tensor);
        nib_tensor_free(back);
    }
}

static void safetensors_files_round_trip(void **state)
{
    nib_named_tensor named[KINDS];
    static char names[KINDS][32];
    for (size_t i = 0; i < KINDS; i++) {
        snprintf(names[i], sizeof names[i], "t\"%zu\"\n\xc3\xa9", i);
        named[i] = (nib_named_tensor){names[i], make(state, every_kind[i])};
    }
    static const char *const metadata[] = {"format", "nbits", "note", "a \"quoted\"\nline"};
    const char *path = temporary_path("round.safetensors");
    nib_file *file;
    nib_error error = {0};
    assert_ok(nib_safetensors_write(context_of(state), path, named, KINDS, metadata, 2, &error),
              &error);
    assert_ok(nib_file_open(context_of(state), path, &file, &error), &error);
    assert_int_equal(nib_file_count(file), KINDS);
    for (size_t i = 0; i < KINDS; i++) {
        nib_tensor *back;
        assert_ok(nib_file_read(file, nib_file_find(file, names[i]), &back, &error), &error);
        assert_same(named[i].tensor, back);
        if (nib_tensor_bytes(back)) /* laid out so that nothing needs a copy */
            assert_null(back->release);
        nib_tensor_free(back);
        nib_tensor_free(named[i].tensor);
    }
    nib_file_free(file);
}

static void safetensors_arguments_are_checked(void **state)
{
    nib_tensor *tensor = make(state, "float32[1]=1");
    const nib_named_tensor twice[] = {{"a", tensor}, {"b", tensor}, {"a", tensor}};
    const nib_named_tensor reserved[] = {{"__metadata__", tensor}};
    static const char *const metadata[] = {"k", "1", "k", "2"};
    char path[256];
    snprintf(path, sizeof path, "%s", temporary_path("refused.safetensors"));
    nib_error error = {0};
    assert_int_equal(nib_safetensors_write(context_of(state), path, twice, 3, NULL, 0, &error),
                     NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT, "two tensors are named 'a'");
    error = (nib_error){0};
    assert_int_equal(nib_safetensors_write(context_of(state), path, reserved, 1, NULL, 0, &error),
                     NIB_INVALID_ARGUMENT);
    error = (nib_error){0};
    assert_int_equal(nib_safetensors_write(context_of(state), path, twice, 1, metadata, 2, &error),
                     NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT, "metadata key 'k' occurs twice");
    assert_int_equal(access(path, F_OK), -1);
    error = (nib_error){0};
    assert_ok(nib_safetensors_write(context_of(state), path, NULL, 0, NULL, 0, &error), &error);
    nib_file *file;
    assert_ok(nib_file_open(context_of(state), path, &file, &error), &error);
    assert_int_equal(nib_file_count(file), 0);
    nib_file_free(file);
    nib_tensor_free(tensor);
}

static size_t files_in_folder_of(const char *path)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    size_t count = 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void a_failed_write_leaves_nothing_behind(void **state)
{
    nib_tensor *tensor = make(state, "float32[4]=1");
    nib_error error = {0};
    assert_int_equal(nib_npy_write(context_of(state), "/nonexistent/y.npy", tensor, &error),
                     NIB_IO);
    assert_error(&error, NIB_IO, "/nonexistent/y.npy: cannot create the file: No such file");
    /* Renaming onto a folder fails after everything is written. */
    char path[256];
    snprintf(path, sizeof path, "%s", temporary_path("old.npy"));
    write_file(path, "old", 3);
    const size_t before = files_in_folder_of(path);
    counting_allocator *allocator = allocator_of(state);
    for (size_t i = 1;; i++) { /* no memory: the old file stays */
        error = (nib_error){0};
        allocator->fail_from = allocator->calls + i;
        const nib_status status = nib_npy_write(context_of(state), path, tensor, &error);
        allocator->fail_from = 0;
        if (status == NIB_OK)
            break;
        assert_int_equal(status, NIB_OUT_OF_MEMORY);
        assert_int_equal(files_in_folder_of(path), before);
        struct stat info;
        assert_true(stat(path, &info) == 0 && info.st_size == 3);
    }
    assert_int_equal(files_in_folder_of(path), before);
    error = (nib_error){0};
    assert_int_equal(nib_npy_write(context_of(state), "/dev/full", tensor, &error), NIB_IO);
    assert_error(&error, NIB_IO, "/dev/full: cannot write the file: No space left");
    nib_tensor_free(tensor);
}

static void links_and_devices_stay_what_they_are(void **state)
{
    nib_tensor *tensor = make(state, "float32[4]=1");
    char target[256], link[256];
    snprintf(target, sizeof target, "%s", temporary_path("target.npy"));
    snprintf(link, sizeof link, "%s", temporary_path("link.npy"));
    write_file(target, "old", 3);
    assert_int_equal(symlink(target, link), 0);
    nib_error error = {0};
    assert_ok(nib_npy_write(context_of(state), link, tensor, &error), &error);
    struct stat info;
    assert_true(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    nib_tensor *back = make(state, target);
    assert_same(tensor, back);
    assert_ok(nib_npy_write(context_of(state), "/dev/null", tensor, &error), &error);
    assert_true(lstat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
    nib_tensor_free(back);
    nib_tensor_free(tensor);
}

/* ---- specs ---- */

static void literals_fill(void **state)
{
    nib_tensor *tensor = make(state, "float32[2,3]=-0.25");
    for (size_t i = 0; i < 6; i++)
        assert_true(((float *)nib_tensor_data(tensor))[i] == -0.25f);
    nib_tensor_free(tensor);
    tensor = make(state, "int64[3]=9223372036854775807,-9223372036854775808,0");
    assert_true(((int64_t *)nib_tensor_data(tensor))[0] == INT64_MAX);
    assert_true(((int64_t *)nib_tensor_data(tensor))[1] == INT64_MIN);
    nib_tensor_free(tensor);
    tensor = make(state, "float16[4]=inf,-inf,nan,1e-7");
    const uint16_t *halfs = nib_tensor_data(tensor);
    assert_true(halfs[0] == 0x7c00 && halfs[1] == 0xfc00 && (halfs[2] & 0x7e00) == 0x7e00);
    assert_int_equal(halfs[3], 2); /* 1e-7 is 1.68 * 2^-24 */
    nib_tensor_free(tensor);
    tensor = make(state, "bool[3]=true,0,1");
    assert_memory_equal(nib_tensor_data(tensor), "\1\0\1", 3);
    nib_tensor_free(tensor);
    tensor = make(state, "uint8[]=255");
    assert_int_equal(*(uint8_t *)nib_tensor_data(tensor), 255);
    nib_tensor_free(tensor);
    tensor = make(state, "float32[0,5]=1");
    assert_int_equal(nib_tensor_bytes(tensor), 0);
    nib_tensor_free(tensor);
}

static void random_fills_are_repeatable(void **state)
{
    nib_tensor *a = make(state, "float32[1000]=rand:7"), *b = make(state, "float32[1000]=rand:7");
    nib_tensor *c = make(state, "float32[1000]=rand:8"), *d = make(state, "uint8[4096]=rand:7");
    assert_same(a, b);
    assert_memory_not_equal(nib_tensor_data(a), nib_tensor_data(c), 4000);
    const float *values = nib_tensor_data(a);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 1000; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(sum / 1000) < 0.15 && fabs(squares / 1000 - 1) < 0.2);
    /* Pinned, so that tests elsewhere may rely on the numbers. */
    assert_int_equal(nib_bits_of_float(values[0]), 0xbf801f44);
    bool seen[256] = {false};
    for (size_t i = 0; i < 4096; i++)
        seen[((const uint8_t *)nib_tensor_data(d))[i]] = true;
    size_t distinct = 0;
    for (size_t i = 0; i < 256; i++)
        distinct += seen[i];
    assert_true(distinct > 250);
    nib_tensor_free(a);
    nib_tensor_free(b);
    nib_tensor_free(c);
    nib_tensor_free(d);
}

static void bad_literals_are_named(void **state)
{
    static const struct {
        const char *spec;
        nib_status status;
        const char *part;
    } cases[] = {
        {"float32[2,3]", NIB_INVALID_ARGUMENT, "needs a value"},
        {"float32[2,3]=", NIB_INVALID_ARGUMENT, "'' is no float32"},
        {"float32[2,3]=x", NIB_INVALID_ARGUMENT, "'x' is no float32"},
        {"float32[2,3]=0x10", NIB_INVALID_ARGUMENT, "'0x10' is no float32"},
        {"float32[2,3]=1,2", NIB_INVALID_ARGUMENT, "2 numbers for 6 elements"},
        {"float32[2]=1,2,", NIB_INVALID_ARGUMENT, "3 numbers for 2 elements"},
        {"float32[3]=1,,3", NIB_INVALID_ARGUMENT, "'' is no float32"},
        {"float32[2,x]=1", NIB_INVALID_ARGUMENT, "whole numbers"},
        {"float32[1]=rand:", NIB_INVALID_ARGUMENT, "seed"},
        {"float32[1]=rand:-1", NIB_INVALID_ARGUMENT, "seed"},
        {"uint8[1]=256", NIB_INVALID_ARGUMENT, "'256' is no uint8"},
        {"uint8[1]=-1", NIB_INVALID_ARGUMENT, "'-1' is no uint8"},
        {"int8[1]=1.5", NIB_INVALID_ARGUMENT, "'1.5' is no int8"},
        {"bool[1]=2", NIB_INVALID_ARGUMENT, "'2' is no bool"},
        {"int64[1]=9223372036854775808", NIB_INVALID_ARGUMENT, "is no int64"},
        {"int64[1]=-", NIB_INVALID_ARGUMENT, "'-' is no int64"},
        {"float32[99999999999]=1", NIB_LIMIT, "a literal of 399999999996 bytes"},
        {"float32[9223372036854775807,9]=1", NIB_LIMIT, "overflows"},
        {"float64[2]=1", NIB_INVALID_ARGUMENT,
         "no such file, and 'float64' is no dtype; known: float16"},
        {"flaot32[2]", NIB_INVALID_ARGUMENT, "'flaot32' is no dtype"},
        {"flaot32[]=rand:1", NIB_INVALID_ARGUMENT, "'flaot32' is no dtype"},
        {"flaot32[2, 3]=x:y", NIB_INVALID_ARGUMENT, "float16, float32, int8, int16, int32"},
        {"float32=1", NIB_INVALID_ARGUMENT, "needs a shape"},
        {"flaot32[2].npy", NIB_IO, "cannot open"}, /* the name of a file */
        {"[2]=1", NIB_IO, "cannot open"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_tensor *tensor = (nib_tensor *)state;
        nib_error error = {0};
        const nib_status status =
            nib_tensor_from_spec(context_of(state), cases[i].spec, &tensor, &error);
        assert_error(&error, cases[i].status, cases[i].part);
        assert_int_equal(status, cases[i].status);
        assert_null(tensor);
    }
}

static void places_may_contain_colons(void **state)
{
    nib_tensor *tensor = make(state, "float32[2]=rand:3"),
               *other = make(state, "float32[2]=rand:4");
    const nib_named_tensor named[] = {{"a", tensor}, {"b:c", other}};
    char path[256], spec[300];
    snprintf(path, sizeof path, "%s", temporary_path("x:y.safetensors"));
    nib_error error = {0};
    assert_ok(nib_safetensors_write(context_of(state), path, named, 2, NULL, 0, &error), &error);
    snprintf(spec, sizeof spec, "%s:a", path);
    nib_tensor *back = make(state, spec);
    assert_same(tensor, back);
    nib_tensor_free(back);
    snprintf(spec, sizeof spec, "%s:b:c", path);
    back = make(state, spec);
    assert_same(other, back);
    nib_tensor_free(back);

    nib_tensor *missing;
    snprintf(spec, sizeof spec, "%s:z", path);
    assert_int_equal(nib_tensor_from_spec(context_of(state), spec, &missing, &error),
                     NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT, "x:y.safetensors: no tensor 'z' among the 2");
    assert_error(&error, NIB_INVALID_ARGUMENT, "('a', 'b:c' ...)");
    error = (nib_error){0};
    assert_int_equal(nib_tensor_from_spec(context_of(state), path, &missing, &error),
                     NIB_INVALID_ARGUMENT);
    assert_error(&error, NIB_INVALID_ARGUMENT, "holds 2 tensors, name one as FILE:TENSOR");
    error = (nib_error){0};
    assert_int_equal(nib_tensor_from_spec(context_of(state), "/no/such:file:x", &missing, &error),
                     NIB_IO);
    assert_error(&error, NIB_IO, "/no/such:file: cannot open");
    error = (nib_error){0};
    assert_int_equal(nib_tensor_from_spec(context_of(state), "", &missing, &error), NIB_IO);
    nib_tensor_free(tensor);
    nib_tensor_free(other);
}

static void nulls_are_refused(void **state)
{
    nib_error error = {0};
    nib_tensor *tensor = NULL;
    nib_file *file = NULL;
    assert_int_equal(nib_tensor_from_spec(context_of(state), NULL, &tensor, &error),
                     NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_tensor_from_spec(NULL, "float32[1]=1", &tensor, &error),
                     NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_file_open(context_of(state), NULL, &file, &error), NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_file_open(NULL, "x.npy", &file, &error), NIB_INVALID_ARGUMENT);
    assert_null(tensor);
    assert_null(file);
}

/* In a folder of its own, so that the name may be a bare word. */
static void a_file_named_like_a_literal_is_read(void **state)
{
    nib_tensor *tensor = make(state, "float32[2]=rand:8");
    char path[256], *before = getcwd(NULL, 0);
    snprintf(path, sizeof path, "%s", temporary_path("weights[0]"));
    nib_error error = {0};
    assert_ok(nib_npy_write(context_of(state), path, tensor, &error), &error);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(chdir(path), 0);
    nib_tensor *back = make(state, slash + 1);
    assert_int_equal(chdir(before), 0);
    assert_same(tensor, back);
    nib_tensor_free(back);
    nib_tensor_free(tensor);
    free(before);
}

/* Devices then send weights once (nib_tensor_set_constant). */
static void tensors_of_files_are_constant(void **state)
{
    nib_tensor *floats = make(state, "float32[4]=rand:5"), *halves = make(state, "float16[3]=0.5");
    assert_false(floats->constant);
    const nib_named_tensor named[] = {{"mapped", floats}, {"h", halves}};
    char path[256], spec[300];
    snprintf(path, sizeof path, "%s", temporary_path("constant.safetensors"));
    nib_error error = {0};
    assert_ok(nib_safetensors_write(context_of(state), path, named, 2, NULL, 0, &error), &error);
    snprintf(spec, sizeof spec, "%s:mapped", path);
    nib_tensor *back = make(state, spec);
    assert_true(back->constant);
    nib_tensor_set_constant(back, false);
    assert_false(back->constant);
    nib_tensor_free(back);

    nib_file *file;
    assert_ok(nib_file_open(context_of(state), path, &file, &error), &error);
    for (size_t i = 0; i < nib_file_count(file); i++) {
        assert_ok(nib_file_read(file, i, &back, &error), &error);
        assert_true(back->constant);
        nib_tensor_free(back);
    }
    nib_file_free(file);
    nib_tensor_free(halves);
    nib_tensor_free(floats);
}

/* A name is optional when there is one tensor, and a tensor from a spec stays valid on its own. */
static void a_single_tensor_needs_no_name(void **state)
{
    nib_tensor *tensor = make(state, "float32[64]=rand:5");
    const nib_named_tensor named[] = {{"only", tensor}};
    const char *path = temporary_path("single.safetensors");
    nib_error error = {0};
    assert_ok(nib_safetensors_write(context_of(state), path, named, 1, NULL, 0, &error), &error);
    nib_tensor *back = make(state, path);
    unlink(path);
    assert_same(tensor, back);
    nib_tensor_free(back);
    nib_tensor_free(tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IO_TEST(mapped_and_read_bytes_are_equal),
        IO_TEST(empty_files_have_no_bytes),
        IO_TEST(files_that_cannot_be_opened_are_named),
        IO_TEST(pipes_are_read_to_their_end),
        IO_TEST(npy_files_round_trip),
        IO_TEST(safetensors_files_round_trip),
        IO_TEST(safetensors_arguments_are_checked),
        IO_TEST(a_failed_write_leaves_nothing_behind),
        IO_TEST(links_and_devices_stay_what_they_are),
        IO_TEST(literals_fill),
        IO_TEST(random_fills_are_repeatable),
        IO_TEST(bad_literals_are_named),
        IO_TEST(nulls_are_refused),
        IO_TEST(places_may_contain_colons),
        IO_TEST(a_file_named_like_a_literal_is_read),
        IO_TEST(tensors_of_files_are_constant),
        IO_TEST(a_single_tensor_needs_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
