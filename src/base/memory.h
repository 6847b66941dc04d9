/* SPDX-License-Identifier: Apache-2.0
 *
 * The context's allocator, and arenas on top of it. An arena is dropped whole, so code that fills one needs no clean-up
 * on its error paths.
 */
#ifndef NIB_BASE_MEMORY_H
#define NIB_BASE_MEMORY_H

#include <stddef.h>

#include "base/str.h"
#include "nibble/context.h"

/* malloc/realloc/free. */
extern const nib_allocator nib_default_allocator;

/* count * bytes of zeroed memory; NULL when out of memory, when the product overflows, or for zero bytes. */
void *nib_allocate(const nib_allocator *allocator, size_t count, size_t bytes);
/* The same sizes as at allocation. NULL is fine. */
void nib_release(const nib_allocator *allocator, void *ptr, size_t count, size_t bytes);
/* Resize to new_count elements, the new ones not initialised; NULL on failure, and `ptr` is then still valid. */
void *nib_resize(const nib_allocator *allocator, void *ptr, size_t old_count, size_t new_count, size_t bytes);

typedef struct nib_arena_block nib_arena_block;

typedef struct nib_arena {
    const nib_allocator *allocator;
    nib_arena_block *blocks;
    char *next, *end; /* free space of the newest block */
    size_t used_bytes, limit_bytes;
} nib_arena;

/* limit_bytes bounds the sum of all allocations; 0 means NIB_ARENA_DEFAULT_LIMIT. */
#define NIB_ARENA_DEFAULT_LIMIT ((size_t)1 << 30)
void nib_arena_init(nib_arena *arena, const nib_allocator *allocator, size_t limit_bytes);
void nib_arena_free(nib_arena *arena);
/* Zeroed, aligned for any C type; NULL when out of memory or over the limit. Zero bytes give a valid pointer. */
void *nib_arena_alloc(nib_arena *arena, size_t count, size_t bytes);
/* Copies; the result is NUL-terminated for convenience. data = NULL on failure. */
nib_str nib_arena_str(nib_arena *arena, const char *data, size_t len);
char *nib_arena_cstr(nib_arena *arena, nib_str s);

#define NIB_ARENA_NEW(arena, type) ((type *)nib_arena_alloc((arena), 1, sizeof(type)))
#define NIB_ARENA_ARRAY(arena, type, count) ((type *)nib_arena_alloc((arena), (count), sizeof(type)))

#endif
