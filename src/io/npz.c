/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npz: a zip archive of .npy members, stored or deflated. libzip works on the mapped
 * bytes. An archive handle belongs to one thread, so every read opens its own.
 */
#include <string.h>
#include <zip.h>

#include "io/records.h"

enum { MAX_MEMBERS = 65536 };
/* One member. Deflate shrinks at most 1032-fold, so a member that claims more than that is a lie.
 */
#define MAX_MEMBER_BYTES  ((uint64_t)1 << 33)
#define MAX_DEFLATE_RATIO 1032

static nib_status fail_zip(zip_error_t *problem, nib_status code, const char *what,
                           nib_error *error)
{
    return nib_fail(error, code, "%s: %s", what, zip_error_strerror(problem));
}

static nib_status open_archive(const nib_file *file, zip_t **out, nib_error *error)
{
    zip_error_t problem;
    zip_error_init(&problem);
    nib_status status = NIB_OK;
    *out = NULL;
    zip_source_t *source = zip_source_buffer_create(file->data, file->size, 0, &problem);
    if (source)
        *out = zip_open_from_source(source, ZIP_RDONLY, &problem);
    if (!*out) {
        const bool memory = zip_error_code_zip(&problem) == ZIP_ER_MEMORY;
        status = memory ? nib_fail_memory(error)
                        : fail_zip(&problem, NIB_FORMAT, "this zip archive cannot be read", error);
        if (source)
            zip_source_free(source);
    }
    zip_error_fini(&problem);
    return status;
}

/* ---- members ---- */

typedef struct member {
    zip_uint64_t index;
    nib_str name; /* with ".npy" */
    size_t bytes; /* uncompressed */
} member;

/* What the directory says about a member; false when it is no array. */
static bool describe_member(zip_t *archive, zip_uint64_t index, member *out, zip_stat_t *info)
{
    zip_stat_init(info);
    const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(archive, index, 0, info) != 0 || (info->valid & needed) != needed)
        return false;
    *out = (member){index, nib_str_from(info->name), 0};
    return nib_str_ends(out->name, NIB_STR(".npy"));
}

static nib_status check_member(const nib_file *file, const zip_stat_t *info, member *out,
                               nib_error *error)
{
    if (info->encryption_method != ZIP_EM_NONE)
        return nib_fail_tensor(error, NIB_UNSUPPORTED, out->name, "the member is encrypted");
    if (info->comp_method != ZIP_CM_STORE && info->comp_method != ZIP_CM_DEFLATE)
        return nib_fail_tensor(error, NIB_UNSUPPORTED, out->name,
                               "the member is neither stored nor deflated (method %u)",
                               (unsigned)info->comp_method);
    if (info->comp_size > file->size)
        return nib_fail_tensor(error, NIB_FORMAT, out->name,
                               "the member is larger than the archive");
    const uint64_t ratio = info->comp_method == ZIP_CM_STORE ? 1 : MAX_DEFLATE_RATIO;
    if (info->size / ratio > info->comp_size)
        return nib_fail_tensor(error, NIB_FORMAT, out->name,
                               "the member claims more bytes than its data can expand to");
    if (info->size > MAX_MEMBER_BYTES || info->size > PTRDIFF_MAX)
        return nib_fail_tensor(error, NIB_LIMIT, out->name, "the member has more than %llu bytes",
                               (unsigned long long)MAX_MEMBER_BYTES);
    out->bytes = (size_t)info->size;
    return NIB_OK;
}

static nib_status read_stream(zip_file_t *stream, nib_str name, uint8_t *to, size_t bytes,
                              nib_error *error)
{
    for (size_t at = 0; at < bytes;) {
        const zip_int64_t got = zip_fread(stream, to + at, bytes - at);
        if (got < 0)
            return nib_fail_tensor(error, NIB_FORMAT, name, "the member cannot be unpacked: %s",
                                   zip_error_strerror(zip_file_get_error(stream)));
        if (got == 0)
            return nib_fail_tensor(error, NIB_FORMAT, name, "the member is cut off");
        at += (size_t)got;
    }
    return NIB_OK;
}

/* The checksum is compared when the stream comes to its end. */
static nib_status expect_end(zip_file_t *stream, nib_str name, nib_error *error)
{
    uint8_t extra;
    const zip_int64_t got = zip_fread(stream, &extra, 1);
    if (got < 0)
        return nib_fail_tensor(error, NIB_FORMAT, name, "the member cannot be unpacked: %s",
                               zip_error_strerror(zip_file_get_error(stream)));
    if (got > 0)
        return nib_fail_tensor(error, NIB_FORMAT, name, "the member is longer than it says");
    return NIB_OK;
}

static nib_status open_member(zip_t *archive, uint64_t index, nib_str name, zip_file_t **out,
                              nib_error *error)
{
    *out = zip_fopen_index(archive, index, 0);
    if (!*out)
        return nib_fail_tensor(error, NIB_FORMAT, name, "the member cannot be opened: %s",
                               zip_error_strerror(zip_get_error(archive)));
    return NIB_OK;
}

/* ---- opening: the header of every member ---- */

enum { PREFIX_BYTES = NIB_NPY_HEADER_LIMIT + 12 };

static nib_status read_header(nib_file *file, zip_t *archive, const member *m, uint8_t *prefix,
                              nib_record *record, nib_error *error)
{
    zip_file_t *stream;
    NIB_TRY(open_member(archive, m->index, m->name, &stream, error));
    const size_t bytes = m->bytes < PREFIX_BYTES ? m->bytes : PREFIX_BYTES;
    nib_status status = read_stream(stream, m->name, prefix, bytes, error);
    zip_fclose(stream);
    if (status == NIB_OK)
        status = nib_npy_parse_header(&file->arena, prefix, bytes, m->bytes, record, error);
    if (status != NIB_OK)
        return status;
    const nib_str name = {m->name.data, m->name.len - strlen(".npy")};
    record->member = m->index;
    return nib_record_set_name(file, record, name, error);
}

/* An error of the npy header does not know which member it is in. */
static void name_member(nib_error *error, nib_str name)
{
    char shown[NIB_SHOWN_BYTES];
    if (error && error->code && strncmp(error->message, "tensor '", 8) != 0)
        nib_error_path_prefix(error, "member '%s'", nib_show_name(name, shown));
}

static nib_status read_members(nib_file *file, zip_t *archive, uint8_t *prefix, nib_error *error)
{
    const zip_int64_t total = zip_get_num_entries(archive, 0);
    if (total > MAX_MEMBERS)
        return nib_fail(error, NIB_LIMIT, "the archive has more than %d members", MAX_MEMBERS);
    NIB_TRY(nib_records_allocate(file, total > 0 ? (size_t)total : 0, error));
    size_t count = 0;
    for (zip_int64_t i = 0; i < total; i++) {
        member m;
        zip_stat_t info;
        if (!describe_member(archive, (zip_uint64_t)i, &m, &info))
            continue;
        NIB_TRY(check_member(file, &info, &m, error));
        const nib_status status =
            read_header(file, archive, &m, prefix, &file->records[count], error);
        if (status != NIB_OK) {
            name_member(error, m.name);
            return status;
        }
        count++;
    }
    file->count = count;
    return nib_records_index(file, error);
}

nib_status nib_npz_parse(nib_file *file, nib_error *error)
{
    zip_t *archive;
    file->archive = true;
    NIB_TRY(open_archive(file, &archive, error));
    const nib_allocator *allocator = &file->context->allocator;
    uint8_t *prefix = nib_allocate(allocator, PREFIX_BYTES, 1);
    const nib_status status =
        prefix ? read_members(file, archive, prefix, error) : nib_fail_memory(error);
    nib_release(allocator, prefix, PREFIX_BYTES, 1);
    zip_discard(archive);
    return status;
}

/* ---- reading ---- */

/* Unpack the bytes before the data into nowhere. */
static nib_status skip_stream(zip_file_t *stream, nib_str name, size_t bytes, nib_error *error)
{
    uint8_t ignored[4096];
    while (bytes > 0) {
        const size_t step = bytes < sizeof ignored ? bytes : sizeof ignored;
        NIB_TRY(read_stream(stream, name, ignored, step, error));
        bytes -= step;
    }
    return NIB_OK;
}

static nib_status unpack(zip_t *archive, const nib_record *record, uint8_t *to, nib_error *error)
{
    zip_file_t *stream;
    NIB_TRY(open_member(archive, record->member, record->name, &stream, error));
    nib_status status = skip_stream(stream, record->name, record->offset, error);
    if (status == NIB_OK)
        status = read_stream(stream, record->name, to, record->bytes, error);
    if (status == NIB_OK)
        status = expect_end(stream, record->name, error);
    zip_fclose(stream);
    return status;
}

nib_status nib_npz_read(const nib_file *file, const nib_record *record, void *to, nib_error *error)
{
    zip_t *archive;
    NIB_TRY(open_archive(file, &archive, error));
    const nib_status status = unpack(archive, record, to, error);
    zip_discard(archive);
    return status;
}
