/* SPDX-License-Identifier: Apache-2.0 */
#include "io/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* ---- names and order ---- */

const char *nib_show_name(nib_str name, char out[NIB_SHOWN_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < name.len && used < NIB_SHOWN_BYTES - 4; i++)
        out[used++] = name.data[i] >= ' ' && name.data[i] <= '~' ? name.data[i] : '?';
    strcpy(out + used, used < name.len ? "..." : "");
    return out;
}

nib_status nib_fail_tensor(nib_error *error, nib_status code, nib_str name, const char *format, ...)
{
    char shown[NIB_SHOWN_BYTES], message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (name.len == 0) /* npy */
        return nib_fail(error, code, "%s", message);
    return nib_fail(error, code, "tensor '%s': %s", nib_show_name(name, shown), message);
}

int nib_str_compare(nib_str a, nib_str b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len ? memcmp(a.data, b.data, len) : 0;
    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

static void sift_down(void **items, size_t root, size_t count,
                      int (*compare)(const void *, const void *))
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(items[child], items[child + 1]) < 0)
            child++;
        if (compare(items[root], items[child]) >= 0)
            return;
        void *swapped = items[root];
        items[root] = items[child];
        items[child] = swapped;
    }
}

void nib_sort_pointers(void **items, size_t count, int (*compare)(const void *a, const void *b))
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(items, i, count, compare);
    for (size_t end = count; end-- > 1;) {
        void *largest = items[0];
        items[0] = items[end];
        items[end] = largest;
        sift_down(items, 0, end, compare);
    }
}

static int compare_names(const void *a, const void *b)
{
    return nib_str_compare(((const nib_record *)a)->name, ((const nib_record *)b)->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const nib_record *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* ---- records ---- */

nib_status nib_records_allocate(nib_file *file, size_t count, nib_error *error)
{
    file->records = NIB_ARENA_ARRAY(&file->arena, nib_record, count);
    if (!file->records)
        return nib_fail_memory(error);
    file->count = count;
    return NIB_OK;
}

nib_status nib_record_set_name(nib_file *file, nib_record *record, nib_str name, nib_error *error)
{
    if (name.len && memchr(name.data, '\0', name.len))
        return nib_fail_tensor(error, NIB_FORMAT, name, "the name has a NUL character inside");
    record->name = nib_arena_str(&file->arena, name.data, name.len);
    return record->name.data ? NIB_OK : nib_fail_memory(error);
}

/* Pointers to all records, sorted. */
static nib_status sort_records(nib_file *file, int (*compare)(const void *, const void *),
                               nib_record ***out, nib_error *error)
{
    *out = NIB_ARENA_ARRAY(&file->arena, nib_record *, file->count);
    if (!*out)
        return nib_fail_memory(error);
    for (size_t i = 0; i < file->count; i++)
        (*out)[i] = &file->records[i];
    nib_sort_pointers((void **)*out, file->count, compare);
    return NIB_OK;
}

nib_status nib_records_index(nib_file *file, nib_error *error)
{
    NIB_TRY(sort_records(file, compare_names, &file->by_name, error));
    for (size_t i = 1; i < file->count; i++) {
        if (nib_str_eq(file->by_name[i - 1]->name, file->by_name[i]->name))
            return nib_fail_tensor(error, NIB_FORMAT, file->by_name[i]->name,
                                   "the name occurs twice");
    }
    return NIB_OK;
}

nib_status nib_records_in_order(nib_file *file, nib_record ***out, nib_error *error)
{
    NIB_TRY(sort_records(file, compare_offsets, out, error));
    const nib_record *previous = NULL;
    for (size_t i = 0; i < file->count; i++) {
        const nib_record *record = (*out)[i];
        if (record->bytes == 0)
            continue;
        if (previous && record->offset - previous->offset < previous->bytes) {
            char shown[NIB_SHOWN_BYTES];
            return nib_fail_tensor(error, NIB_FORMAT, record->name,
                                   "its data overlaps that of tensor '%s'",
                                   nib_show_name(previous->name, shown));
        }
        previous = record;
    }
    return NIB_OK;
}

/* ---- opening ---- */

static bool starts_with(const nib_file *file, const char *magic, size_t size)
{
    return file->size >= size && memcmp(file->data, magic, size) == 0;
}

static nib_file_kind detect(const nib_file *file)
{
    if (starts_with(file, "\x93NUMPY", 6))
        return NIB_FILE_NPY;
    if (starts_with(file, "PK\x03\x04", 4) || starts_with(file, "PK\x05\x06", 4))
        return NIB_FILE_NPZ;
    if (starts_with(file, "GGUF", 4) || starts_with(file, "FUGG", 4))
        return NIB_FILE_GGUF;
    if (file->size > 8 && file->data[8] == '{') /* after the length of the header */
        return NIB_FILE_SAFETENSORS;
    return NIB_FILE_ANY;
}

static nib_status parse(nib_file *file, nib_file_kind kind, nib_error *error)
{
    switch (kind == NIB_FILE_ANY ? detect(file) : kind) {
    case NIB_FILE_NPY:
        return nib_npy_parse(file, error);
    case NIB_FILE_NPZ:
        return nib_npz_parse(file, error);
    case NIB_FILE_SAFETENSORS:
        return nib_safetensors_parse(file, error);
    case NIB_FILE_GGUF:
        return nib_gguf_parse(file, error);
    case NIB_FILE_ANY:
        break;
    }
    return nib_fail(error, NIB_FORMAT, "the file is neither npy, npz, safetensors nor GGUF");
}

static nib_status create_file(nib_context *context, const char *path, nib_file **out,
                              nib_error *error)
{
    nib_file *file = nib_allocate(&context->allocator, 1, sizeof *file);
    *out = file;
    if (!file)
        return nib_fail_memory(error);
    file->context = context;
    nib_arena_init(&file->arena, &context->allocator, 0);
    file->path = nib_arena_cstr(&file->arena, nib_str_from(path));
    return file->path ? NIB_OK : nib_fail_memory(error);
}

/* Free the file after a failure, and name it in the error. */
static nib_status finish(nib_file **file, const char *path, nib_status status, nib_error *error)
{
    if (status != NIB_OK) {
        nib_error_source(error, path);
        nib_file_free(*file);
        *file = NULL;
    }
    return status;
}

nib_status nib_file_parse(nib_context *context, nib_file_kind kind, const void *data, size_t size,
                          const char *label, nib_file **out, nib_error *error)
{
    nib_status status = create_file(context, label, out, error);
    if (status == NIB_OK) {
        (*out)->data = data;
        (*out)->size = size;
        status = parse(*out, kind, error);
    }
    return finish(out, label, status, error);
}

nib_status nib_file_open(nib_context *context, const char *path, nib_file **out, nib_error *error)
{
    *out = NULL;
    if (!context || !path)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_file_open needs a context and a path");
    nib_status status = create_file(context, path, out, error);
    if (status == NIB_OK)
        status = nib_mapping_open(context, path, &(*out)->mapping, error);
    if (status == NIB_OK) {
        (*out)->data = (*out)->mapping.data;
        (*out)->size = (*out)->mapping.size;
        status = parse(*out, NIB_FILE_ANY, error);
    }
    return finish(out, path, status, error);
}

void nib_file_free(nib_file *file)
{
    if (!file)
        return;
    nib_context *context = file->context;
    nib_mapping_close(context, &file->mapping);
    nib_arena_free(&file->arena);
    nib_release(&context->allocator, file, 1, sizeof *file);
}

/* ---- looking around ---- */

size_t nib_file_count(const nib_file *file)
{
    return file->count;
}

nib_file_entry nib_file_describe(const nib_file *file, size_t index)
{
    if (index >= file->count)
        return (nib_file_entry){0};
    const nib_record *record = &file->records[index];
    return (nib_file_entry){record->name.data, record->stored, record->desc, record->quantized};
}

size_t nib_file_find(const nib_file *file, const char *name)
{
    const nib_str wanted = nib_str_from(name);
    size_t low = 0, high = file->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = nib_str_compare(file->by_name[middle]->name, wanted);
        if (order == 0)
            return (size_t)(file->by_name[middle] - file->records);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}
