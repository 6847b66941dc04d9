/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <windows.h>

#undef rename

/* rename() of the C library refuses a name that exists. */
int nib_windows_rename(const char *from, const char *to)
{
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return 0;
    errno = GetLastError() == ERROR_ACCESS_DENIED ? EACCES : EIO;
    return -1;
}

/* The full path with "/"; only of what exists, as POSIX has it. `resolved` has PATH_MAX bytes. */
char *nib_windows_realpath(const char *path, char *resolved)
{
    struct stat info;
    if (stat(path, &info) != 0 || !_fullpath(resolved, path, PATH_MAX))
        return NULL;
    for (char *c = resolved; *c; c++)
        *c = *c == '\\' ? '/' : *c;
    return resolved;
}

/* The GNU form, which returns the text. */
char *nib_windows_strerror(int code, char *text, size_t bytes)
{
    if (strerror_s(text, bytes, code) != 0)
        snprintf(text, bytes, "error %d", code);
    return text;
}

long nib_windows_sysconf(int name)
{
    SYSTEM_INFO info;
    (void)name; /* the number of processors */
    GetSystemInfo(&info);
    return (long)info.dwNumberOfProcessors;
}

void *nib_windows_memmem(const void *text, size_t bytes, const void *part, size_t part_bytes)
{
    const char *at = text;
    for (; bytes >= part_bytes; at++, bytes--) {
        if (memcmp(at, part, part_bytes) == 0)
            return (void *)(uintptr_t)at;
    }
    return NULL;
}
