/* SPDX-License-Identifier: Apache-2.0 */
#include "io/file.h"

#include <string.h>

#include "base/checked.h"

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
