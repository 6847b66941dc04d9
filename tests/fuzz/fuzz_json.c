/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text: what is read must be written as text that reads back the same; a refusal must say
 * where.
 */
#include <stdint.h>
#include <stdlib.h>

#include "value/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void write(nib_value value, nib_buf *buf)
{
    nib_buf_init(buf, &nib_default_allocator, 0);
    nib_json_write(buf, value, (nib_json_style){0});
    require(buf->status == NIB_OK && buf->len > 0);
}

static void check_round_trip(nib_arena *arena, nib_value value)
{
    nib_buf first, second;
    nib_value again;
    nib_error error = {0};
    write(value, &first);
    require(nib_json_parse(arena, first.data, first.len, "again", &again, &error) == NIB_OK);
    write(again, &second);
    require(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    nib_buf_free(&first);
    nib_buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nib_arena arena;
    nib_value value;
    nib_error error = {0};
    nib_arena_init(&arena, &nib_default_allocator, (size_t)64 << 20);
    const nib_status status =
        nib_json_parse(&arena, (const char *)data, size, "input", &value, &error);
    if (status == NIB_OK)
        check_round_trip(&arena, value);
    else
        require(error.code == status && error.message[0] &&
                (status != NIB_FORMAT || error.line > 0));
    nib_arena_free(&arena);
    return 0;
}
