/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources use of POSIX and Windows calls otherwise. The build for Windows includes this
 * before everything else; no source names it.
 */
#ifndef NIB_WINDOWS_POSIX_H
#define NIB_WINDOWS_POSIX_H

#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#undef PATH_MAX
#define PATH_MAX 4096

/* Files are bytes, not text with line ends to convert. */
#define O_CLOEXEC  O_BINARY
#define O_NONBLOCK 0
#define O_NOFOLLOW 0

/* Windows has links too, but a program needs a privilege to make one; the C library follows them.
 */
#define S_ISLNK(mode)        0
#define _SC_NPROCESSORS_ONLN 0
#define lstat                stat

/* The C library has a function of this name, which no source calls, and some have one of their own.
 */
#define tell nib_windows_tell

int nib_windows_rename(const char *from, const char *to);
char *nib_windows_realpath(const char *path, char *resolved);
char *nib_windows_strerror(int code, char *text, size_t bytes);
long nib_windows_sysconf(int name);
void *nib_windows_memmem(const void *text, size_t bytes, const void *part, size_t part_bytes);

#define rename(from, to)             nib_windows_rename(from, to)
#define realpath(path, resolved)     nib_windows_realpath(path, resolved)
#define strerror_r(code, text, size) nib_windows_strerror(code, text, size)
#define sysconf(name)                nib_windows_sysconf(name)
#define memmem(text, n, part, m)     nib_windows_memmem(text, n, part, m)
#define fsync(file)                  _commit(file)

#endif
