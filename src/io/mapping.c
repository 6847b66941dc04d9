/* SPDX-License-Identifier: Apache-2.0 */
#include "io/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#define HAVE_MMAP 1
#else
#define HAVE_MMAP 0
#endif

typedef struct source {
    int fd;
    bool regular;
    size_t size; /* of a regular file */
} source;

static nib_status open_source(const char *path, source *out, nib_error *error)
{
    struct stat info;
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0)
        return nib_fail(error, NIB_IO, "cannot open the file: %s", strerror(errno));
    nib_status status = NIB_OK;
    if (fstat(out->fd, &info) != 0)
        status = nib_fail(error, NIB_IO, "cannot examine the file: %s", strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = nib_fail(error, NIB_IO, "is a directory, not a file");
    else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > PTRDIFF_MAX)
        status = nib_fail(error, NIB_LIMIT, "the file is too large for the address space");
    if (status != NIB_OK) {
        close(out->fd);
        return status;
    }
    out->regular = S_ISREG(info.st_mode);
    out->size = out->regular ? (size_t)info.st_size : 0;
    return NIB_OK;
}

/* ---- reading ---- */

static nib_status grow(const nib_context *context, nib_mapping *out, nib_error *error)
{
    const size_t limit = NIB_MAPPING_PIPE_LIMIT;
    if (out->allocated >= limit)
        return nib_fail(error, NIB_LIMIT, "the file has no size and is longer than %zu bytes",
                        limit);
    const size_t capacity = out->allocated ? out->allocated * 2 : 1 << 16;
    uint8_t *data = nib_resize(&context->allocator, out->data, out->allocated, capacity, 1);
    if (!data)
        return nib_fail_memory(error);
    out->data = data;
    out->allocated = capacity;
    return NIB_OK;
}

/* Read what is left of `in`: up to `room` bytes, or to the end. False on a read error. */
static bool read_some(int fd, uint8_t *to, size_t room, size_t *got)
{
    *got = 0;
    while (*got < room) {
        const size_t chunk = room - *got < (1u << 30) ? room - *got : 1u << 30;
        const ssize_t n = read(fd, to + *got, chunk);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            *got += (size_t)n;
    }
    return true;
}

static nib_status read_source(const nib_context *context, const source *in, nib_mapping *out,
                              nib_error *error)
{
    if (in->regular && in->size > 0) {
        out->data = nib_allocate(&context->allocator, in->size, 1);
        if (!out->data)
            return nib_fail_memory(error);
        out->allocated = in->size;
    }
    for (;;) {
        size_t got;
        if (!in->regular && out->size == out->allocated)
            NIB_TRY(grow(context, out, error));
        if (!read_some(in->fd, out->data + out->size, out->allocated - out->size, &got))
            return nib_fail(error, NIB_IO, "cannot read the file: %s", strerror(errno));
        out->size += got;
        if (in->regular || out->size < out->allocated)
            return NIB_OK; /* a regular file that has become shorter is what was read of it */
    }
}

/* ---- mapping ---- */

/* Private and writable: a caller who writes into a borrowed tensor changes neither the file nor
 * other processes. */
static bool map_source(const source *in, nib_mapping *out)
{
#if HAVE_MMAP
    int flags = MAP_PRIVATE;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void *data = mmap(NULL, in->size, PROT_READ | PROT_WRITE, flags, in->fd, 0);
    if (data == MAP_FAILED)
        return false;
    *out = (nib_mapping){.data = data, .size = in->size};
    return true;
#else
    (void)in;
    (void)out;
    return false;
#endif
}

static nib_status get_bytes(const nib_context *context, const char *path, bool may_map,
                            nib_mapping *out, nib_error *error)
{
    source in = {0};
    *out = (nib_mapping){0};
    NIB_TRY(open_source(path, &in, error));
    nib_status status = NIB_OK;
    if (!(may_map && in.regular && in.size > 0 && map_source(&in, out)))
        status = read_source(context, &in, out, error);
    close(in.fd);
    if (status != NIB_OK)
        nib_mapping_close(context, out);
    return status;
}

nib_status nib_mapping_open(const nib_context *context, const char *path, nib_mapping *out,
                            nib_error *error)
{
    return get_bytes(context, path, true, out, error);
}

nib_status nib_mapping_read(const nib_context *context, const char *path, nib_mapping *out,
                            nib_error *error)
{
    return get_bytes(context, path, false, out, error);
}

void nib_mapping_close(const nib_context *context, nib_mapping *mapping)
{
    if (mapping->allocated)
        nib_release(&context->allocator, mapping->data, mapping->allocated, 1);
#if HAVE_MMAP
    else if (mapping->data)
        munmap(mapping->data, mapping->size);
#endif
    *mapping = (nib_mapping){0};
}
