/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef _WIN32
#include <windows.h>
#define mkdir(a, b) mkdir(a)
#else
#include <sys/file.h>
#endif

#define FOLDER_DEPTH_LIMIT 32

char *cli_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = cli_alloc((size_t)(length < 0 ? 0 : length) + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)(length < 0 ? 0 : length) + 1, format, args);
    va_end(args);
    return text;
}

static nib_status fail(nib_error *error, const char *path, const char *what)
{
    return cli_error(error, NIB_IO, path, "%s: %s", what, strerror(errno));
}

/* ---- questions ---- */

bool cli_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool cli_is_plain_file(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool cli_is_link(const char *path)
{
#ifdef _WIN32
    const DWORD attributes = GetFileAttributesA(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_REPARSE_POINT);
#else
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
#endif
}

/* ---- folders ---- */

nib_status cli_make_folders(const char *path, nib_error *error)
{
    char *text = cli_dup(path, strlen(path));
    nib_status status = NIB_OK;
    for (char *at = text + 1; status == NIB_OK && text[0]; at++) {
        const char c = *at;
        if (c != '/' && c != '\0')
            continue;
        *at = '\0';
        if (mkdir(text, 0777) != 0 && !cli_is_folder(text))
            status = fail(error, text, "cannot create the folder");
        *at = c;
        if (c == '\0')
            break;
    }
    free(text);
    return status;
}

nib_status cli_make_folder_of(const char *path, nib_error *error)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return NIB_OK;
    char *folder = cli_dup(path, (size_t)(slash - path));
    const nib_status status = cli_make_folders(folder, error);
    free(folder);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **cli_list_folder(const char *path, size_t *count)
{
    size_t capacity = 16;
    char **names = cli_alloc(capacity * sizeof *names);
    DIR *folder = opendir(path);
    *count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (*count + 1 == capacity) {
            char **larger = cli_alloc(2 * capacity * sizeof *names);
            memcpy(larger, names, capacity * sizeof *names);
            free(names);
            names = larger;
            capacity *= 2;
        }
        names[(*count)++] = cli_dup(entry->d_name, strlen(entry->d_name));
    }
    if (folder)
        closedir(folder);
    qsort(names, *count, sizeof *names, compare_names);
    return names;
}

void cli_free_names(char **names)
{
    for (size_t i = 0; names[i]; i++)
        free(names[i]);
    free(names);
}

static void remove_below(const char *path, int depth)
{
    size_t count;
    if (cli_is_folder(path) && !cli_is_link(path) && depth < FOLDER_DEPTH_LIMIT) {
        char **names = cli_list_folder(path, &count);
        for (size_t i = 0; i < count; i++) {
            char *inner = cli_format("%s/%s", path, names[i]);
            remove_below(inner, depth + 1);
            free(inner);
        }
        cli_free_names(names);
        rmdir(path);
        return;
    }
    unlink(path);
}

void cli_remove_tree(const char *path)
{
    remove_below(path, 0);
}

/* ---- files ---- */

static nib_status read_stream(FILE *stream, size_t limit, const char *path, char **bytes,
                              size_t *count, nib_error *error)
{
    struct stat info;
    if (fstat(fileno(stream), &info) != 0)
        return fail(error, path, "cannot read the file");
    if (!S_ISREG(info.st_mode))
        return cli_error(error, NIB_IO, path, "this is not a regular file");
    if ((unsigned long long)info.st_size > limit)
        return cli_error(error, NIB_LIMIT, path, "the file has %lld bytes, %zu are allowed",
                         (long long)info.st_size, limit);
    const size_t size = (size_t)info.st_size;
    *bytes = cli_alloc(size + 1);
    *count = fread(*bytes, 1, size, stream);
    if (!ferror(stream))
        return NIB_OK;
    free(*bytes);
    *bytes = NULL;
    return fail(error, path, "cannot read the file");
}

nib_status cli_read_bytes(const char *path, size_t limit, char **bytes, size_t *count,
                          nib_error *error)
{
    *bytes = NULL;
    *count = 0;
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return fail(error, path, "cannot open the file");
    const nib_status status = read_stream(stream, limit, path, bytes, count, error);
    fclose(stream);
    return status;
}

nib_status cli_move(const char *from, const char *to, nib_error *error)
{
#ifdef _WIN32
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return NIB_OK;
    return cli_error(error, NIB_IO, to, "cannot put the file in place");
#else
    return rename(from, to) == 0 ? NIB_OK : fail(error, to, "cannot put the file in place");
#endif
}

/* ---- replaced in one step ---- */

/* The standard stream that this file is: opened once more it would be written from its start. */
static FILE *standard_stream(const struct stat *info)
{
    FILE *const streams[] = {stdout, stderr};
    for (size_t i = 0; i < CLI_LENGTH(streams); i++) {
        struct stat own;
        if (info->st_ino && fstat(fileno(streams[i]), &own) == 0 && own.st_dev == info->st_dev &&
            own.st_ino == info->st_ino)
            return streams[i];
    }
    return NULL;
}

/* Where a link leads; the path itself when that does not exist. */
static char *resolve(const char *path)
{
#ifdef _WIN32
    char *real = NULL;
#else
    char *real = realpath(path, NULL);
#endif
    return real ? real : cli_dup(path, strlen(path));
}

static nib_status open_beside(cli_output *output, const struct stat *info, nib_error *error)
{
    output->beside = cli_format("%s.%ld.tmp", output->path, (long)getpid());
    output->stream = fopen(output->beside, "wb");
    if (!output->stream)
        return fail(error, output->path, "cannot create the file");
#ifndef _WIN32
    /* The new file may be read by those who could read the old one. Where that is refused, so be
     * it. */
    if (info && fchmod(fileno(output->stream), info->st_mode & 0777) != 0)
        return NIB_OK;
#else
    (void)info;
#endif
    return NIB_OK;
}

nib_status cli_output_open(cli_output *output, const char *path, nib_error *error)
{
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    *output = (cli_output){.path = resolve(path)};
    output->stream = exists ? standard_stream(&info) : NULL;
    nib_status status = NIB_OK;
    if (output->stream)
        return NIB_OK;
    if ((exists && S_ISREG(info.st_mode)) || (!exists && !cli_is_link(path)))
        status = open_beside(output, exists ? &info : NULL, error);
    else if (!(output->stream = fopen(path, "wb")))
        status = fail(error, path, "cannot create the file");
    if (status != NIB_OK) {
        free(output->path);
        free(output->beside);
        *output = (cli_output){0};
    }
    return status;
}

/* A standard stream stays open. */
static bool finish_stream(FILE *stream)
{
    const bool complete = !ferror(stream);
    if (stream == stdout || stream == stderr)
        return fflush(stream) == 0 && complete;
    return fclose(stream) == 0 && complete;
}

nib_status cli_output_close(cli_output *output, nib_error *error)
{
    nib_status status = NIB_OK;
    if (!finish_stream(output->stream))
        status = fail(error, output->path, "cannot write the file");
    if (status == NIB_OK && output->beside)
        status = cli_move(output->beside, output->path, error);
    if (status != NIB_OK && output->beside)
        unlink(output->beside);
    free(output->path);
    free(output->beside);
    *output = (cli_output){0};
    return status;
}

nib_status cli_replace_file(const char *path, const void *bytes, size_t count, nib_error *error)
{
    cli_output output;
    const nib_status status = cli_output_open(&output, path, error);
    if (status != NIB_OK)
        return status;
    fwrite(bytes, 1, count, output.stream); /* its failure shows when the stream is closed */
    return cli_output_close(&output, error);
}

/* The two folders change places in one step where the system can; else there is a moment without
 * either, after which the next attempt starts afresh. */
static bool exchange(const char *from, const char *to)
{
#if defined(__linux__) && defined(RENAME_EXCHANGE)
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0;
#else
    (void)from, (void)to;
    return false;
#endif
}

nib_status cli_replace_folder(const char *from, const char *to, nib_error *error)
{
    if (cli_is_folder(to) && exchange(from, to)) {
        cli_remove_tree(from);
        return NIB_OK;
    }
    if (cli_is_folder(to) || cli_is_link(to))
        cli_remove_tree(to);
    return cli_move(from, to, error);
}

nib_status cli_link_file(const char *from, const char *to, nib_error *error)
{
    char *bytes;
    size_t count;
    unlink(to);
#ifdef _WIN32
    if (CreateHardLinkA(to, from, NULL))
        return NIB_OK;
#else
    if (link(from, to) == 0)
        return NIB_OK;
#endif
    nib_status status = cli_read_bytes(from, SIZE_MAX / 2, &bytes, &count, error);
    if (status == NIB_OK)
        status = cli_write_file(to, bytes, count, error);
    free(bytes);
    return status;
}

/* ---- locks ---- */

int cli_lock(const cli_session *session, const char *path, const char *waiting, nib_error *error)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
        fail(error, path, "cannot open the lock");
        return -1;
    }
#ifndef _WIN32
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        cli_note(session, "%s", waiting);
        /* A file system without locks is used without one. */
        while (flock(file, LOCK_EX) != 0 && errno == EINTR)
            continue;
    }
#else
    (void)session, (void)waiting;
#endif
    return file;
}

void cli_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}
