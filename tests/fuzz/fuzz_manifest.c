/* SPDX-License-Identifier: Apache-2.0
 *
 * A manifest: JSON text, then the contract of either dialect. The same text is read as a
 * metadata.json. A contract of the map dialect written as JSON must read back to itself; a failure
 * must say what it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "package/contract.h"
#include "package/metadata.h"
#include "value/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static nib_str json_text(nib_arena *arena, nib_value value)
{
    nib_buf buf;
    nib_buf_init(&buf, arena->allocator, 0);
    nib_json_write(&buf, value, (nib_json_style){0});
    require(buf.status == NIB_OK);
    const nib_str text = nib_arena_str(arena, buf.data, buf.len);
    nib_buf_free(&buf);
    require(text.data != NULL);
    return text;
}

/* What nib_contract_json adds to a manifest. */
static nib_value without_extras(nib_arena *arena, nib_value json)
{
    nib_map *map = nib_map_new(arena, 0);
    require(map != NULL);
    for (size_t i = 0; i < json.as.map->count; i++) {
        const nib_entry *entry = &json.as.map->entries[i];
        if (!nib_str_is(entry->key, "op") && !nib_str_is(entry->key, "dialect"))
            require(nib_map_set(arena, map, entry->key, entry->value));
    }
    return nib_value_of_map(map);
}

static void check_round_trip(nib_arena *arena, const nib_contract *contract)
{
    nib_error error = {0};
    nib_value first, second;
    const nib_contract *again;
    require(nib_contract_json(arena, contract, &first, &error) == NIB_OK);
    const nib_str text = json_text(arena, first);
    if (contract->dialect != NIB_DIALECT_MAP)
        return;
    require(nib_contract_read(arena, without_extras(arena, first), &again, &error) == NIB_OK);
    require(nib_contract_json(arena, again, &second, &error) == NIB_OK);
    require(nib_str_eq(text, json_text(arena, second)));
}

static void read_metadata(nib_arena *arena, nib_str text)
{
    nib_error error = {0};
    nib_metadata metadata;
    const nib_status status = nib_metadata_read(arena, text, "metadata.json", &metadata, &error);
    require(status == error.code);
    require(status != NIB_OK || nib_map_get_cstr(metadata.digests, "manifest.json") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nib_arena arena;
    nib_error error = {0};
    nib_value manifest;
    const nib_contract *contract;
    nib_arena_init(&arena, &nib_default_allocator, (size_t)512 << 20);
    nib_status status =
        nib_json_parse(&arena, (const char *)data, size, "manifest.json", &manifest, &error);
    if (status == NIB_OK)
        status = nib_contract_read(&arena, manifest, &contract, &error);
    require(status == error.code);
    require(status == NIB_OK || error.message[0] != '\0');
    if (status == NIB_OK)
        check_round_trip(&arena, contract);
    read_metadata(&arena, (nib_str){(const char *)data, size});
    nib_arena_free(&arena);
    return 0;
}
