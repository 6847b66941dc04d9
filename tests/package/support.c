/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *read_text(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    fclose(file);
    if (bytes)
        *bytes = (size_t)size;
    return text;
}

void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

char *format_text(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    const int len = vasprintf(&text, format, args);
    va_end(args);
    assert_true(len >= 0);
    return text;
}

char *make_directory(void)
{
    char *path =
        format_text("%s/nibble-package-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void remove_directory(char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

static nib_value step(nib_value value, const char *name, size_t len)
{
    const nib_value *member =
        value.type == NIB_VALUE_MAP ? nib_map_get(value.as.map, (nib_str){name, len}) : NULL;
    return member ? *member : NIB_UNDEFINED;
}

nib_value find_member(nib_value root, const char *path)
{
    nib_value value = root;
    while (*path) {
        if (*path == '[') {
            char *end;
            const unsigned long index = strtoul(path + 1, &end, 10);
            if (value.type != NIB_VALUE_LIST || index >= value.as.list->count)
                return NIB_UNDEFINED;
            value = value.as.list->items[index];
            path = end + 1;
        } else {
            path += *path == '.';
            const size_t len = strcspn(path, ".[");
            value = step(value, path, len);
            path += len;
        }
    }
    return value;
}

static void *counting_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    counting *c = user;
    if (new_bytes > 0) {
        c->calls++;
        if (c->calls == c->fail_at)
            return NULL;
    }
    if (new_bytes == 0) {
        free(ptr);
        c->live_bytes -= old_bytes;
        return NULL;
    }
    void *moved = realloc(ptr, new_bytes);
    if (moved)
        c->live_bytes += new_bytes - old_bytes;
    return moved;
}

void counting_init(counting *c)
{
    *c = (counting){.allocator = {counting_resize, NULL}};
    c->allocator.user = c;
}
