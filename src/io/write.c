/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing npy and safetensors. A file is written under a temporary name next to its own and then
 * renamed, so that it appears whole or not at all. Something that is there and is no regular file
 * (a pipe, a device) is written in place.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "io/records.h"
#include "value/json.h"

/* ---- output ---- */

typedef struct output {
    const char *path;
    char target[PATH_MAX]; /* holds the path when it is a link */
    nib_buf temporary;     /* its name; empty when `path` is written in place */
    int fd;
    nib_error *error;
} output;

static nib_status fail_io(output *out, const char *what)
{
    const int code = errno;
    nib_fail(out->error, NIB_IO, "cannot %s: %s", what, strerror(code));
    nib_error_source(out->error, out->path);
    return NIB_IO;
}

static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

/* A link stays a link: what it names is replaced. */
static const char *follow_link(const char *path, char target[PATH_MAX])
{
    struct stat info;
    const bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    return is_link && realpath(path, target) ? target : path;
}

/* Create PATH.tmpPID-N for the first N that is free. */
static nib_status create_temporary(output *out)
{
    for (unsigned n = 0; n < 100; n++) {
        nib_buf_free(&out->temporary);
        nib_buf_printf(&out->temporary, "%s.tmp%ld-%u", out->path, (long)getpid(), n);
        NIB_TRY(nib_buf_check(&out->temporary, "the file name", out->error));
        out->fd = open(out->temporary.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd >= 0)
            return NIB_OK;
        if (errno != EEXIST)
            break;
    }
    nib_buf_free(&out->temporary);
    return fail_io(out, "create the file");
}

static nib_status open_output(output *out, nib_context *context, const char *path, nib_error *error)
{
    out->path = follow_link(path, out->target);
    out->fd = -1;
    out->error = error;
    nib_buf_init(&out->temporary, &context->allocator, 0);
    if (!is_special(path))
        return create_temporary(out);
    out->fd = open(path, O_WRONLY | O_CLOEXEC);
    return out->fd >= 0 ? NIB_OK : fail_io(out, "open the file");
}

static nib_status write_bytes(output *out, const void *data, size_t size)
{
    const char *from = data;
    while (size > 0) {
        const ssize_t n = write(out->fd, from, size < (1u << 30) ? size : 1u << 30);
        if (n < 0 && errno != EINTR)
            return fail_io(out, "write the file");
        if (n > 0) {
            from += n;
            size -= (size_t)n;
        }
    }
    return NIB_OK;
}

/* Keep the file when `status` is OK, drop it otherwise. */
static nib_status close_output(output *out, nib_status status)
{
    const bool temporary = out->temporary.len > 0;
    if (out->fd >= 0 && close(out->fd) != 0 && status == NIB_OK)
        status = fail_io(out, "close the file");
    if (temporary && status == NIB_OK && rename(out->temporary.data, out->path) != 0)
        status = fail_io(out, "rename the finished file");
    if (temporary && status != NIB_OK)
        unlink(out->temporary.data);
    nib_buf_free(&out->temporary);
    return status;
}

/* Write a header and the data of tensors behind it. */
static nib_status write_file(nib_context *context, const char *path, const nib_buf *header,
                             const nib_tensor *const *tensors, size_t count, nib_error *error)
{
    output out;
    nib_status status = open_output(&out, context, path, error);
    if (status == NIB_OK)
        status = write_bytes(&out, header->data, header->len);
    for (size_t i = 0; i < count && status == NIB_OK; i++)
        status = write_bytes(&out, tensors[i]->data, tensors[i]->bytes);
    return close_output(&out, status);
}

/* ---- dtypes ---- */

static const struct {
    const char *npy, *safetensors;
} names[NIB_DTYPE_COUNT] = {
    [NIB_FLOAT16] = {"<f2", "F16"}, [NIB_FLOAT32] = {"<f4", "F32"}, [NIB_INT8] = {"|i1", "I8"},
    [NIB_INT16] = {"<i2", "I16"},   [NIB_INT32] = {"<i4", "I32"},   [NIB_INT64] = {"<i8", "I64"},
    [NIB_UINT8] = {"|u1", "U8"},    [NIB_UINT32] = {"<u4", "U32"},  [NIB_BOOL] = {"|b1", "BOOL"},
};

static nib_status check_tensor(const nib_tensor *tensor, nib_error *error)
{
    if (!tensor || (!tensor->data && tensor->bytes))
        return nib_fail(error, NIB_UNSUPPORTED,
                        "a tensor that is not in host memory cannot be written");
    return NIB_OK;
}

/* ---- npy ---- */

/* Version 1.0; the header ends at a multiple of 64 bytes. */
static void build_npy_header(nib_buf *header, const nib_tensor_desc *desc)
{
    nib_buf_append(header, "\x93NUMPY\x01\x00\x00\x00", 10);
    nib_buf_printf(header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                   names[desc->dtype].npy);
    for (uint32_t i = 0; i < desc->rank; i++)
        nib_buf_printf(header, i ? ", %" PRId64 : "%" PRId64, desc->dims[i]);
    nib_buf_puts(header, desc->rank == 1 ? ",), }" : "), }");
    while (header->status == NIB_OK && header->len % 64 != 63)
        nib_buf_putc(header, ' ');
    nib_buf_putc(header, '\n');
    if (header->status != NIB_OK)
        return;
    const size_t bytes = header->len - 10;
    header->data[8] = (char)(bytes & 0xff);
    header->data[9] = (char)(bytes >> 8);
}

nib_status nib_npy_write(nib_context *context, const char *path, nib_tensor *tensor,
                         nib_error *error)
{
    NIB_TRY(check_tensor(tensor, error));
    nib_buf header;
    nib_buf_init(&header, &context->allocator, NIB_NPY_HEADER_LIMIT);
    build_npy_header(&header, &tensor->desc);
    nib_status status = nib_buf_check(&header, "the npy header", error);
    if (status == NIB_OK) {
        const nib_tensor *const one[] = {tensor};
        status = write_file(context, path, &header, one, 1, error);
    }
    nib_buf_free(&header);
    return status;
}

/* ---- safetensors ---- */

static int compare_for_layout(const void *a, const void *b)
{
    const nib_named_tensor *x = a, *y = b;
    const size_t wide = nib_dtype_bytes(x->tensor->desc.dtype);
    const size_t other = nib_dtype_bytes(y->tensor->desc.dtype);
    if (wide != other)
        return wide > other ? -1 : 1;
    return nib_str_compare(nib_str_from(x->name), nib_str_from(y->name));
}

static int compare_names(const void *a, const void *b)
{
    const nib_named_tensor *x = a, *y = b;
    return nib_str_compare(nib_str_from(x->name), nib_str_from(y->name));
}

static nib_status check_names(const nib_named_tensor **order, size_t count, nib_error *error)
{
    nib_sort_pointers((void **)(uintptr_t)order, count, compare_names);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(order[i]->name, "__metadata__") == 0)
            return nib_fail(error, NIB_INVALID_ARGUMENT, "no tensor can be named __metadata__");
        if (i > 0 && strcmp(order[i - 1]->name, order[i]->name) == 0)
            return nib_fail(error, NIB_INVALID_ARGUMENT, "two tensors are named '%s'",
                            order[i]->name);
    }
    return NIB_OK;
}

static void put_string(nib_buf *header, const char *text)
{
    nib_json_write_string(header, nib_str_from(text));
}

static nib_status put_metadata(nib_buf *header, const char *const *metadata, size_t pairs,
                               nib_error *error)
{
    nib_buf_puts(header, "\"__metadata__\":{");
    for (size_t i = 0; i < pairs; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(metadata[2 * j], metadata[2 * i]) == 0)
                return nib_fail(error, NIB_INVALID_ARGUMENT, "the metadata key '%s' occurs twice",
                                metadata[2 * i]);
        }
        nib_buf_puts(header, i ? "," : "");
        put_string(header, metadata[2 * i]);
        nib_buf_putc(header, ':');
        put_string(header, metadata[2 * i + 1]);
    }
    nib_buf_putc(header, '}');
    return NIB_OK;
}

static void put_tensor(nib_buf *header, const nib_named_tensor *named, size_t begin)
{
    const nib_tensor_desc *desc = &named->tensor->desc;
    put_string(header, named->name);
    nib_buf_printf(header, ":{\"dtype\":\"%s\",\"shape\":[", names[desc->dtype].safetensors);
    for (uint32_t i = 0; i < desc->rank; i++)
        nib_buf_printf(header, i ? ",%" PRId64 : "%" PRId64, desc->dims[i]);
    nib_buf_printf(header, "],\"data_offsets\":[%zu,%zu]}", begin, begin + named->tensor->bytes);
}

/* The length, the JSON text, blanks up to a multiple of 8. */
static nib_status build_safetensors_header(nib_buf *header, const nib_named_tensor **order,
                                           size_t count, const char *const *metadata, size_t pairs,
                                           nib_error *error)
{
    size_t begin = 0;
    nib_buf_append(header, "\0\0\0\0\0\0\0\0", 8);
    nib_buf_putc(header, '{');
    if (pairs)
        NIB_TRY(put_metadata(header, metadata, pairs, error));
    for (size_t i = 0; i < count; i++) {
        if (i > 0 || pairs)
            nib_buf_putc(header, ',');
        put_tensor(header, order[i], begin);
        if (!nib_size_add(begin, order[i]->tensor->bytes, &begin))
            return nib_fail(error, NIB_LIMIT, "the tensors' sizes overflow");
    }
    nib_buf_putc(header, '}');
    while (header->status == NIB_OK && header->len % 8)
        nib_buf_putc(header, ' ');
    NIB_TRY(nib_buf_check(header, "the safetensors header", error));
    const uint64_t bytes = header->len - 8;
    memcpy(header->data, &bytes, sizeof bytes);
    return NIB_OK;
}

/* Wide elements first, as the reference implementation does: every tensor is then aligned to its
 * element. */
static nib_status write_safetensors(nib_context *context, nib_arena *arena, const char *path,
                                    const nib_named_tensor *tensors, size_t count,
                                    const char *const *metadata, size_t pairs, nib_error *error)
{
    const nib_named_tensor **order = NIB_ARENA_ARRAY(arena, const nib_named_tensor *, count);
    const nib_tensor **data = NIB_ARENA_ARRAY(arena, const nib_tensor *, count);
    if (!order || !data)
        return nib_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        NIB_TRY(check_tensor(tensors[i].tensor, error));
        order[i] = &tensors[i];
    }
    NIB_TRY(check_names(order, count, error));
    nib_sort_pointers((void **)(uintptr_t)order, count, compare_for_layout);
    for (size_t i = 0; i < count; i++)
        data[i] = order[i]->tensor;
    nib_buf header;
    nib_buf_init(&header, &context->allocator, 0);
    nib_status status = build_safetensors_header(&header, order, count, metadata, pairs, error);
    if (status == NIB_OK)
        status = write_file(context, path, &header, data, count, error);
    nib_buf_free(&header);
    return status;
}

nib_status nib_safetensors_write(nib_context *context, const char *path,
                                 const nib_named_tensor *tensors, size_t count,
                                 const char *const *metadata, size_t metadata_pairs,
                                 nib_error *error)
{
    nib_arena arena;
    nib_arena_init(&arena, &context->allocator, 0);
    const nib_status status =
        write_safetensors(context, &arena, path, tensors, count, metadata, metadata_pairs, error);
    nib_arena_free(&arena);
    return status;
}
