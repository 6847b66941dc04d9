/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ftw.h>

#include "nibble/status.h"

typedef struct fixture {
    counting_allocator allocator;
    nib_context *context;
} fixture;

enum { PREFIX = 64 };

static void *counting_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    counting_allocator *c = user;
    c->calls++;
    if (new_bytes && c->fail_from && c->calls >= c->fail_from)
        return NULL;
    char *block = ptr ? (char *)ptr - PREFIX : NULL;
    if (block) {
        size_t recorded;
        memcpy(&recorded, block, sizeof recorded);
        assert_int_equal(recorded, old_bytes);
    } else {
        assert_int_equal(old_bytes, 0);
    }
    c->live_bytes += new_bytes - old_bytes;
    if (c->live_bytes > c->peak_bytes)
        c->peak_bytes = c->live_bytes;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    block = realloc(block, new_bytes + PREFIX);
    if (!block) {
        c->live_bytes -= new_bytes - old_bytes;
        return NULL;
    }
    memcpy(block, &new_bytes, sizeof new_bytes);
    return block + PREFIX;
}

int setup_context(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const nib_context_options options = {.allocator = {counting_resize, &f->allocator}};
    if (nib_context_create(&options, &f->context, NULL) != NIB_OK)
        return -1;
    *state = f;
    return 0;
}

int teardown_context(void **state)
{
    fixture *f = *state;
    nib_context_free(f->context);
    const size_t leaked = f->allocator.live_bytes;
    free(f);
    if (leaked)
        fprintf(stderr, "%zu bytes leaked\n", leaked);
    return leaked ? -1 : 0;
}

counting_allocator *allocator_of(void **state)
{
    return &((fixture *)*state)->allocator;
}

nib_context *context_of(void **state)
{
    return ((fixture *)*state)->context;
}

void put(builder *b, const void *data, size_t size)
{
    assert_true(size <= sizeof b->data - b->size);
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

void put_text(builder *b, const char *text)
{
    put(b, text, strlen(text));
}

void put_u8(builder *b, unsigned value)
{
    put_u64(b, value);
    b->size -= 7;
}

void put_u16(builder *b, unsigned value)
{
    put_u64(b, value);
    b->size -= 6;
}

void put_u32(builder *b, uint32_t value)
{
    put(b, &value, sizeof value);
}

void put_u64(builder *b, uint64_t value)
{
    put(b, &value, sizeof value);
}

void put_zeros(builder *b, size_t count)
{
    while (count--)
        put(b, "", 1);
}

void pad_to(builder *b, size_t alignment)
{
    while (b->size % alignment)
        put(b, "", 1);
}

/* ---- files ---- */

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *temporary_path(const char *name)
{
    static char path[256];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/nibble-test-XXXXXX");
        assert_non_null(mkdtemp(folder));
        atexit(remove_folder);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- errors ---- */

const char *error_text(const nib_error *error)
{
    static char text[4096];
    nib_error_format(error, text, sizeof text);
    return text;
}

void assert_error(const nib_error *error, nib_status code, const char *part)
{
    const char *text = error_text(error);
    if (error->code != code || !strstr(text, part) || strchr(text, '\n'))
        fail_msg("expected %s with '%s', got %s: %s", nib_status_name(code), part,
                 nib_status_name(error->code), text);
}

void assert_ok(nib_status status, const nib_error *error)
{
    if (status != NIB_OK)
        fail_msg("%s: %s", nib_status_name(status), error_text(error));
}

/* ---- noise: xorshift64* ---- */

uint32_t next_bits(noise *n)
{
    n->state ^= n->state >> 12;
    n->state ^= n->state << 25;
    n->state ^= n->state >> 27;
    return (uint32_t)(n->state * 0x2545f4914f6cdd1dull >> 32);
}

double next_uniform(noise *n)
{
    return next_bits(n) * 0x1p-32;
}

double next_normal(noise *n)
{
    const double u = next_uniform(n) + 0x1p-33;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * next_uniform(n));
}
