/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void *default_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_bytes);
}

const nib_allocator nib_default_allocator = {default_resize, NULL};

void *nib_allocate(const nib_allocator *allocator, size_t count, size_t bytes)
{
    size_t total;
    if (!nib_size_mul(count, bytes, &total) || total == 0)
        return NULL;
    void *ptr = allocator->resize(allocator->user, NULL, 0, total);
    if (ptr)
        memset(ptr, 0, total);
    return ptr;
}

void nib_release(const nib_allocator *allocator, void *ptr, size_t count, size_t bytes)
{
    if (ptr)
        allocator->resize(allocator->user, ptr, count * bytes, 0);
}

void *nib_resize(const nib_allocator *allocator, void *ptr, size_t old_count, size_t new_count, size_t bytes)
{
    size_t total;
    if (!nib_size_mul(new_count, bytes, &total) || total == 0)
        return NULL;
    return allocator->resize(allocator->user, ptr, old_count * bytes, total);
}

/* ---- arena ---- */

struct nib_arena_block {
    alignas(max_align_t) nib_arena_block *previous;
    size_t bytes; /* of the whole allocation */
};

enum { ARENA_BLOCK_BYTES = 16384 };

void nib_arena_init(nib_arena *arena, const nib_allocator *allocator, size_t limit_bytes)
{
    *arena = (nib_arena){0};
    arena->allocator = allocator;
    arena->limit_bytes = limit_bytes ? limit_bytes : NIB_ARENA_DEFAULT_LIMIT;
}

void nib_arena_free(nib_arena *arena)
{
    nib_arena_block *block = arena->blocks;
    while (block) {
        nib_arena_block *previous = block->previous;
        nib_release(arena->allocator, block, 1, block->bytes);
        block = previous;
    }
    arena->blocks = NULL;
    arena->next = arena->end = NULL;
    arena->used_bytes = 0;
}

static bool arena_grow(nib_arena *arena, size_t need)
{
    size_t bytes = sizeof(nib_arena_block) + need;
    if (bytes < ARENA_BLOCK_BYTES)
        bytes = ARENA_BLOCK_BYTES;
    nib_arena_block *block = arena->allocator->resize(arena->allocator->user, NULL, 0, bytes);
    if (!block)
        return false;
    block->previous = arena->blocks;
    block->bytes = bytes;
    arena->blocks = block;
    arena->next = (char *)(block + 1);
    arena->end = (char *)block + bytes;
    return true;
}

void *nib_arena_alloc(nib_arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (!nib_size_mul(count, bytes, &total) || !nib_size_align(total, alignof(max_align_t), &total))
        return NULL;
    if (total > arena->limit_bytes - arena->used_bytes)
        return NULL;
    if (!arena->next || total > (size_t)(arena->end - arena->next)) {
        if (!arena_grow(arena, total))
            return NULL;
    }
    void *ptr = arena->next;
    arena->next += total;
    arena->used_bytes += total;
    if (total)
        memset(ptr, 0, total);
    return ptr;
}

char *nib_arena_cstr(nib_arena *arena, nib_str s)
{
    char *copy = s.len < SIZE_MAX ? nib_arena_alloc(arena, s.len + 1, 1) : NULL;
    if (copy && s.len)
        memcpy(copy, s.data, s.len);
    return copy;
}

nib_str nib_arena_str(nib_arena *arena, const char *data, size_t len)
{
    const char *copy = nib_arena_cstr(arena, (nib_str){data, len});
    return (nib_str){copy, copy ? len : 0};
}
