/* SPDX-License-Identifier: Apache-2.0 */
#include "package/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "package/reader.h"

/* ---- paths ---- */

static bool is_path_char(char c)
{
    return nib_is_digit(c) || nib_is_alpha(c) || c == '.' || c == '_' || c == '-';
}

static nib_status check_segment(nib_str path, nib_str segment, nib_error *error)
{
    if (segment.len == 0)
        return nib_fail(error, NIB_CONTRACT,
                        "the path \"%.*s\" must be segments joined by single \"/\"",
                        NIB_SHOW_STR(path));
    for (size_t i = 0; i < segment.len; i++) {
        if (!is_path_char(segment.data[i]))
            return nib_fail(error, NIB_CONTRACT,
                            "the path \"%.*s\" may hold letters, digits, \".\", \"_\", \"-\" and "
                            "\"/\" only",
                            NIB_SHOW_STR(path));
        if (segment.data[i] == '.' && i > 0 && segment.data[i - 1] == '.')
            return nib_fail(error, NIB_CONTRACT, "the path \"%.*s\" must not contain \"..\"",
                            NIB_SHOW_STR(path));
    }
    if (nib_is_forbidden_key(segment))
        return nib_fail(error, NIB_CONTRACT, "the path \"%.*s\" has a forbidden segment",
                        NIB_SHOW_STR(path));
    return NIB_OK;
}

nib_status nib_check_path(nib_str path, nib_error *error)
{
    size_t start = 0;
    for (size_t i = 0; i <= path.len; i++) {
        if (i < path.len && path.data[i] != '/')
            continue;
        NIB_TRY(check_segment(path, (nib_str){path.data + start, i - start}, error));
        start = i + 1;
    }
    return NIB_OK;
}

bool nib_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool nib_file_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ---- reading ---- */

static nib_status fail_errno(nib_error *error, const char *path)
{
    char text[128];
    const int code = errno;
    const char *reason = strerror_r(code, text, sizeof text);
    const nib_status status = nib_fail(error, NIB_IO, "the file cannot be read: %s", reason);
    nib_error_source(error, path);
    return status;
}

static nib_status read_all(nib_arena *arena, int file, size_t size, nib_str *bytes,
                           const char *path, nib_error *error)
{
    char *data = nib_arena_alloc(arena, size + 1, 1);
    if (!data)
        return nib_fail_memory(error);
    size_t used = 0;
    while (used < size) {
        const ssize_t got = read(file, data + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(error, path);
        if (got == 0)
            break; /* it was truncated since fstat */
        used += (size_t)got;
    }
    data[used] = '\0';
    *bytes = (nib_str){data, used};
    return NIB_OK;
}

static nib_status read_open(nib_arena *arena, int file, const char *path, size_t limit,
                            nib_str *bytes, nib_error *error)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return fail_errno(error, path);
    nib_status status = NIB_OK;
    if (!S_ISREG(info.st_mode))
        status = nib_fail(error, NIB_IO, "this is not a regular file");
    else if ((unsigned long long)info.st_size > limit)
        status = nib_fail(error, NIB_LIMIT, "the file has %lld bytes, %zu are allowed",
                          (long long)info.st_size, limit);
    if (status == NIB_OK)
        return read_all(arena, file, (size_t)info.st_size, bytes, path, error);
    nib_error_source(error, path);
    return status;
}

/* O_NONBLOCK: a named pipe must not stall the caller before fstat tells what it is. */
static nib_status read_path(nib_arena *arena, const char *path, int flags, size_t limit,
                            nib_str *bytes, nib_error *error)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (file < 0)
        return fail_errno(error, path);
    const nib_status status = read_open(arena, file, path, limit, bytes, error);
    close(file);
    return status;
}

nib_status nib_read_file(nib_arena *arena, const char *path, size_t limit, nib_str *bytes,
                         nib_error *error)
{
    return read_path(arena, path, 0, limit, bytes, error);
}

/* `real` is below the real path of the directory. */
static bool is_inside(const char *real_directory, const char *real)
{
    const size_t len = strlen(real_directory);
    if (strcmp(real_directory, "/") == 0)
        return true;
    return strncmp(real, real_directory, len) == 0 && real[len] == '/';
}

nib_status nib_read_file_inside(nib_arena *arena, const char *directory, nib_str path, size_t limit,
                                nib_str *bytes, nib_error *error)
{
    char joined[PATH_MAX], real_directory[PATH_MAX], real[PATH_MAX];
    NIB_TRY(nib_check_path(path, error));
    const int len = snprintf(joined, sizeof joined, "%s/%.*s", directory, NIB_STR_ARG(path));
    if (len < 0 || (size_t)len >= sizeof joined)
        return nib_fail(error, NIB_LIMIT, "the path \"%.*s\" is too long", NIB_SHOW_STR(path));
    if (!realpath(directory, real_directory) || !realpath(joined, real))
        return fail_errno(error, joined);
    if (!is_inside(real_directory, real)) {
        const nib_status status =
            nib_fail(error, NIB_CONTRACT, "a symbolic link leads out of the package");
        nib_error_source(error, joined);
        return status;
    }
    /* The last segment is no link any more, so a link put there since then is refused. */
    return read_path(arena, real, O_NOFOLLOW, limit, bytes, error);
}
