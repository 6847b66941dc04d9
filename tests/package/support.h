/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PACKAGE_SUPPORT_H
#define TESTS_PACKAGE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "package/package.h"

/* The text of a file, NUL-terminated, from malloc; NULL when it cannot be read. */
char *read_text(const char *path, size_t *bytes);
void write_text(const char *path, const char *text);
/* printf into a fresh string from malloc. */
char *format_text(const char *format, ...) NIB_PRINTF(1, 2);

/* A directory of its own below the build folder, removed with everything in it. */
char *make_directory(void);
void remove_directory(char *path);

/* The member at a path like "variants[0].passes[1].id"; undefined when there is none. */
nib_value find_member(nib_value root, const char *path);

/* An allocator that counts live bytes and can fail at its Nth call. */
typedef struct counting {
    nib_allocator allocator;
    size_t calls, fail_at; /* 0: never */
    size_t live_bytes;
} counting;
void counting_init(counting *c);

#endif
