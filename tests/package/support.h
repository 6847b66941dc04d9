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

/* A small package in a fresh directory: manifest.json, scale.wgsl.jinja, metadata.json with their
 * digests. Each text may be replaced before write_package; NULL leaves the file away. */
typedef struct sample {
    char *root;                               /* holds build/webgpu */
    char *folder;                             /* root/build/webgpu */
    const char *manifest, *shader, *metadata; /* metadata: see fill_metadata */
} sample;
void sample_init(sample *s);
void sample_write(const sample *s);
void sample_free(sample *s);
extern const char sample_manifest[], sample_list_manifest[], sample_shader[], sample_metadata[];
/* A path in the folder of the sample, to be freed. */
char *sample_path(const sample *s, const char *name);
/* `text` with "@MANIFEST" and "@SHADER" replaced by the digests of the two files, to be freed. */
char *fill_metadata(const sample *s, const char *text);
/* The text with the first `from` replaced by `to`, to be freed. */
char *replaced(const char *text, const char *from, const char *to);

/* An allocator that counts live bytes and can fail at its Nth call. */
typedef struct counting {
    nib_allocator allocator;
    size_t calls, fail_at; /* 0: never */
    size_t live_bytes;
} counting;
void counting_init(counting *c);

#endif
