/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled pipelines on disk: one file an entry, named by a hash of its key. A file holds the whole key and a checksum, so
 * a hash collision, a torn write or a damaged file is an absent entry. Both callbacks come from any thread and share
 * nothing but the folder's name; files appear by rename, so readers never see half of one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

typedef struct entry_header {
    char magic[8];
    uint64_t key_bytes, value_bytes;
    uint64_t value_sum;
} entry_header;

static const char magic[8] = {'n', 'i', 'b', 'p', 'i', 'p', 'e', '1'};
enum { PATH_BYTES = 1024, MAX_VALUE_BYTES = 64 << 20 };

static uint64_t sum_of(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t hash = seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static bool path_of(const nib_wgpu_blobs *blobs, const void *key, size_t key_bytes, char path[PATH_BYTES])
{
    const uint64_t a = sum_of(key, key_bytes, 0), b = sum_of(key, key_bytes, 0x9e3779b97f4a7c15u);
    const int length = snprintf(path, PATH_BYTES, "%s/%016llx%016llx.bin", blobs->directory, (unsigned long long)a,
                                (unsigned long long)b);
    return length > 0 && length < PATH_BYTES;
}

static bool read_all(int file, void *data, size_t bytes)
{
    unsigned char *p = data;
    while (bytes > 0) {
        const ssize_t got = read(file, p, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int file, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    while (bytes > 0) {
        const ssize_t put = write(file, p, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        p += put;
        bytes -= (size_t)put;
    }
    return true;
}

/* The stored key is compared piece by piece: no memory is needed. */
static bool key_matches(int file, const unsigned char *key, size_t key_bytes)
{
    unsigned char piece[512];
    while (key_bytes > 0) {
        const size_t bytes = key_bytes < sizeof piece ? key_bytes : sizeof piece;
        if (!read_all(file, piece, bytes) || memcmp(piece, key, bytes) != 0)
            return false;
        key += bytes;
        key_bytes -= bytes;
    }
    return true;
}

static size_t read_entry(int file, const void *key, size_t key_bytes, void *value, size_t value_bytes)
{
    entry_header header;
    if (!read_all(file, &header, sizeof header) || memcmp(header.magic, magic, sizeof magic) != 0 ||
        header.key_bytes != key_bytes || header.value_bytes > MAX_VALUE_BYTES ||
        !key_matches(file, key, key_bytes))
        return 0;
    if (value_bytes == 0)
        return (size_t)header.value_bytes;
    if (value_bytes != header.value_bytes || !read_all(file, value, value_bytes) ||
        sum_of(value, value_bytes, 0) != header.value_sum)
        return 0;
    return value_bytes;
}

static size_t load(void *user, const void *key, size_t key_bytes, void *value, size_t value_bytes)
{
    nib_wgpu_blobs *blobs = user;
    char path[PATH_BYTES];
    if (!path_of(blobs, key, key_bytes, path))
        return 0;
    atomic_fetch_add(&blobs->loads, value_bytes == 0 ? 1u : 0u);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const size_t bytes = read_entry(file, key, key_bytes, value, value_bytes);
    close(file);
    if (value_bytes > 0 && bytes > 0)
        atomic_fetch_add(&blobs->hits, 1u);
    return bytes;
}

static bool write_entry(int file, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    entry_header header = {.key_bytes = key_bytes,
                           .value_bytes = value_bytes,
                           .value_sum = sum_of(value, value_bytes, 0)};
    memcpy(header.magic, magic, sizeof magic);
    return write_all(file, &header, sizeof header) && write_all(file, key, key_bytes) &&
           write_all(file, value, value_bytes);
}

/* A cache that cannot be written is slow, not wrong: failures are silent. */
static void store(void *user, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    nib_wgpu_blobs *blobs = user;
    char path[PATH_BYTES], temporary[PATH_BYTES + 32];
    if (value_bytes == 0 || value_bytes > MAX_VALUE_BYTES || !path_of(blobs, key, key_bytes, path))
        return;
    const unsigned number = atomic_fetch_add(&blobs->stores, 1u);
    snprintf(temporary, sizeof temporary, "%s.%ld.%u", path, (long)getpid(), number);
    const int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    const bool written = write_entry(file, key, key_bytes, value, value_bytes);
    if (close(file) != 0 || !written || rename(temporary, path) != 0)
        unlink(temporary);
}

bool nib_wgpu_blobs_keep_text(const nib_wgpu_blobs *blobs, const char *text, char *path, size_t path_bytes)
{
    const size_t bytes = strlen(text);
    const int length = snprintf(path, path_bytes, "%s/failed-%016llx.wgsl", blobs->directory,
                                (unsigned long long)sum_of(text, bytes, 0));
    if (length <= 0 || (size_t)length >= path_bytes)
        return false;
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    const bool written = write_all(file, text, bytes);
    return close(file) == 0 && written;
}

/* The folder and those above it, as mkdir -p does. */
static bool make_directory(const char *directory)
{
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s", directory);
    if (length <= 0 || length >= PATH_BYTES - 64)
        return false;
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    struct stat info;
    return (mkdir(path, 0700) == 0 || errno == EEXIST) && stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
           access(path, W_OK | X_OK) == 0;
}

nib_status nib_wgpu_blobs_open(nib_context *context, const char *directory, nib_wgpu_blobs **out, nib_error *error)
{
    *out = NULL;
    if (!make_directory(directory))
        return nib_fail(error, NIB_IO, "the pipeline cache '%s' is not a folder that can be written", directory);
    nib_wgpu_blobs *blobs = nib_allocate(&context->allocator, 1, sizeof *blobs);
    if (!blobs)
        return nib_fail_memory(error);
    blobs->directory_bytes = strlen(directory) + 1;
    blobs->directory = nib_allocate(&context->allocator, blobs->directory_bytes, 1);
    if (!blobs->directory) {
        nib_release(&context->allocator, blobs, 1, sizeof *blobs);
        return nib_fail_memory(error);
    }
    memcpy(blobs->directory, directory, blobs->directory_bytes);
    blobs->callbacks = (nib_dawn_cache){load, store, blobs};
    *out = blobs;
    return NIB_OK;
}

void nib_wgpu_blobs_close(nib_context *context, nib_wgpu_blobs *blobs)
{
    if (!blobs)
        return;
    nib_release(&context->allocator, blobs->directory, blobs->directory_bytes, 1);
    nib_release(&context->allocator, blobs, 1, sizeof *blobs);
}
