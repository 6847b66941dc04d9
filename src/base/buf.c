/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

void nib_buf_init(nib_buf *buf, const nib_allocator *allocator, size_t limit)
{
    *buf = (nib_buf){.allocator = allocator, .limit = limit ? limit : NIB_BUF_DEFAULT_LIMIT};
}

void nib_buf_free(nib_buf *buf)
{
    nib_release(buf->allocator, buf->data, buf->capacity, 1);
    buf->data = NULL;
    buf->len = buf->capacity = 0;
}

/* Make room for `more` bytes and the final NUL. */
static bool reserve(nib_buf *buf, size_t more)
{
    if (buf->status != NIB_OK)
        return false;
    size_t need;
    if (!nib_size_add(buf->len, more, &need) || need > buf->limit) {
        buf->status = NIB_LIMIT;
        return false;
    }
    if (need < buf->capacity)
        return true;
    size_t capacity = buf->capacity ? buf->capacity : 128;
    while (capacity <= need)
        capacity *= 2;
    char *data = nib_resize(buf->allocator, buf->data, buf->capacity, capacity, 1);
    if (!data) {
        buf->status = NIB_OUT_OF_MEMORY;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void nib_buf_append(nib_buf *buf, const char *data, size_t len)
{
    if (!reserve(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void nib_buf_str(nib_buf *buf, nib_str s)
{
    nib_buf_append(buf, s.data, s.len);
}

void nib_buf_puts(nib_buf *buf, const char *text)
{
    nib_buf_append(buf, text, strlen(text));
}

void nib_buf_putc(nib_buf *buf, char c)
{
    nib_buf_append(buf, &c, 1);
}

void nib_buf_printf(nib_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0 || !reserve(buf, (size_t)len))
        return;
    va_start(args, format);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, format, args);
    va_end(args);
    buf->len += (size_t)len;
}

nib_status nib_buf_check(const nib_buf *buf, const char *what, nib_error *error)
{
    if (buf->status == NIB_LIMIT)
        return nib_fail(error, NIB_LIMIT, "%s is longer than %zu bytes", what, buf->limit);
    if (buf->status != NIB_OK)
        return nib_fail_memory(error);
    return NIB_OK;
}

/* Texts that leave the library are blocks of [size_t total][characters][NUL], so that nib_text_free can give the
 * allocator its exact size back. */
nib_status nib_buf_take(nib_buf *buf, const char *what, char **text, nib_error *error)
{
    *text = NULL;
    nib_status status = nib_buf_check(buf, what, error);
    if (status == NIB_OK) {
        const size_t total = sizeof(size_t) + buf->len + 1;
        char *block = nib_allocate(buf->allocator, total, 1);
        if (block) {
            memcpy(block, &total, sizeof total);
            if (buf->len)
                memcpy(block + sizeof total, buf->data, buf->len);
            *text = block + sizeof total;
        } else {
            status = nib_fail_memory(error);
        }
    }
    nib_buf_free(buf);
    return status;
}
