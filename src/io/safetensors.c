/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: the length of a JSON header, the header, and the tensors' bytes without gaps. Rules:
 * the format's own README and reference implementation. Offsets need no alignment.
 */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "io/decode.h"
#include "io/records.h"
#include "value/json.h"

/* The reference implementation's bound. */
#define MAX_HEADER_BYTES ((uint64_t)100 * 1000 * 1000)
/* Largest whole number that JSON's binary64 holds together with its neighbours. */
#define MAX_WHOLE 9007199254740991.0

typedef struct safetensors_type {
    const char *name;
    unsigned bits; /* of one stored element */
    nib_dtype dtype;
    nib_decode decode;
} safetensors_type;

static const safetensors_type types[] = {
    {"BOOL", 8, NIB_BOOL, NULL},
    {"U8", 8, NIB_UINT8, NULL},
    {"I8", 8, NIB_INT8, NULL},
    {"I16", 16, NIB_INT16, NULL},
    {"I32", 32, NIB_INT32, NULL},
    {"U32", 32, NIB_UINT32, NULL},
    {"I64", 64, NIB_INT64, NULL},
    {"F16", 16, NIB_FLOAT16, NULL},
    {"F32", 32, NIB_FLOAT32, NULL},
    {"BF16", 16, NIB_FLOAT32, nib_decode_bf16},
    {"F64", 64, NIB_FLOAT32, nib_decode_f64},
    /* known, so that a file that has some can be opened, but not readable */
    {"U16", 16, NIB_DTYPE_NONE, NULL},
    {"U64", 64, NIB_DTYPE_NONE, NULL},
    {"C64", 64, NIB_DTYPE_NONE, NULL},
    {"F8_E4M3", 8, NIB_DTYPE_NONE, NULL},
    {"F8_E5M2", 8, NIB_DTYPE_NONE, NULL},
    {"F8_E8M0", 8, NIB_DTYPE_NONE, NULL},
    {"F8_E4M3FNUZ", 8, NIB_DTYPE_NONE, NULL},
    {"F8_E5M2FNUZ", 8, NIB_DTYPE_NONE, NULL},
    {"F6_E2M3", 6, NIB_DTYPE_NONE, NULL},
    {"F6_E3M2", 6, NIB_DTYPE_NONE, NULL},
    {"F4", 4, NIB_DTYPE_NONE, NULL},
};

static const safetensors_type *find_type(nib_str name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (nib_str_is(name, types[i].name))
            return &types[i];
    }
    return NULL;
}

/* ---- one tensor ---- */

static bool whole_number(nib_value value, uint64_t *out)
{
    if (!nib_value_is_number(value) || !(value.as.number >= 0 && value.as.number <= MAX_WHOLE))
        return false;
    *out = (uint64_t)value.as.number;
    return (double)*out == value.as.number;
}

static nib_status read_shape(nib_record *record, const nib_value *shape, nib_error *error)
{
    if (!shape || shape->type != NIB_VALUE_LIST)
        return nib_fail_tensor(error, NIB_FORMAT, record->name, "shape is not a list");
    const nib_list *list = shape->as.list;
    if (list->count > NIB_MAX_RANK)
        return nib_fail_tensor(error, NIB_LIMIT, record->name, "shape has more than %d dims",
                               NIB_MAX_RANK);
    record->desc.rank = (uint32_t)list->count;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t dim;
        if (!whole_number(list->items[i], &dim))
            return nib_fail_tensor(error, NIB_FORMAT, record->name,
                                   "shape[%zu] is not a whole number", i);
        record->desc.dims[i] = (int64_t)dim;
    }
    return NIB_OK;
}

/* data_offsets: [begin, end) in the data section. */
static nib_status read_offsets(nib_record *record, const nib_value *offsets, size_t section,
                               nib_error *error)
{
    uint64_t begin, end;
    if (!offsets || offsets->type != NIB_VALUE_LIST || offsets->as.list->count != 2 ||
        !whole_number(offsets->as.list->items[0], &begin) ||
        !whole_number(offsets->as.list->items[1], &end))
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "data_offsets is not a list of two whole numbers");
    if (begin > end)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "data_offsets [%" PRIu64 ", %" PRIu64 "] run backwards", begin, end);
    if (end > section)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "data_offsets [%" PRIu64 ", %" PRIu64
                               "] reach beyond the %zu bytes of data in the file",
                               begin, end, section);
    record->offset = (size_t)begin;
    record->bytes = (size_t)(end - begin);
    return NIB_OK;
}

/* The shape and the offsets must tell the same size. */
static nib_status check_size(const nib_record *record, const safetensors_type *type,
                             nib_error *error)
{
    nib_tensor_desc counted = record->desc;
    counted.dtype = NIB_UINT8;
    size_t elements, bits, bytes;
    if (nib_tensor_desc_elements(&counted, &elements, NULL) != NIB_OK ||
        !nib_size_mul(elements, type->bits, &bits))
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "the product of the dims overflows");
    if (bits % 8)
        return nib_fail_tensor(error, NIB_FORMAT, record->name, "%s elements do not fill bytes",
                               type->name);
    bytes = bits / 8;
    if (bytes != record->bytes)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "the shape takes %zu bytes, data_offsets span %zu", bytes,
                               record->bytes);
    if (record->desc.dtype == NIB_DTYPE_NONE)
        return NIB_OK;
    if (nib_tensor_desc_bytes(&record->desc, &bytes, NULL) != NIB_OK)
        return nib_fail_tensor(error, NIB_LIMIT, record->name, "the size of the tensor overflows");
    return NIB_OK;
}

static nib_status read_tensor(nib_file *file, nib_record *record, const nib_entry *entry,
                              size_t section, nib_error *error)
{
    NIB_TRY(nib_record_set_name(file, record, entry->key, error));
    if (entry->value.type != NIB_VALUE_MAP)
        return nib_fail_tensor(error, NIB_FORMAT, record->name, "its entry is not an object");
    const nib_map *map = entry->value.as.map;
    const nib_value *dtype = nib_map_get_cstr(map, "dtype");
    if (!dtype || dtype->type != NIB_VALUE_STRING)
        return nib_fail_tensor(error, NIB_FORMAT, record->name, "dtype is not a string");
    const safetensors_type *type = find_type(dtype->as.string);
    if (!type) {
        char shown[NIB_SHOWN_BYTES];
        return nib_fail_tensor(error, NIB_FORMAT, record->name, "dtype '%s' is not known",
                               nib_show_name(dtype->as.string, shown));
    }
    record->stored = type->name;
    record->desc.dtype = type->dtype;
    record->decode = type->decode;
    NIB_TRY(read_shape(record, nib_map_get_cstr(map, "shape"), error));
    NIB_TRY(read_offsets(record, nib_map_get_cstr(map, "data_offsets"), section, error));
    if (map->count != 3)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "its entry has a key other than dtype, shape and data_offsets");
    return check_size(record, type, error);
}

/* ---- the header ---- */

static nib_status check_metadata(nib_value value, nib_error *error)
{
    if (value.type != NIB_VALUE_MAP)
        return nib_fail(error, NIB_FORMAT, "__metadata__ is not an object");
    for (size_t i = 0; i < value.as.map->count; i++) {
        if (value.as.map->entries[i].value.type != NIB_VALUE_STRING)
            return nib_fail(error, NIB_FORMAT, "__metadata__ has a value that is not a string");
    }
    return NIB_OK;
}

static nib_status read_tensors(nib_file *file, nib_value header, size_t section, nib_error *error)
{
    if (header.type != NIB_VALUE_MAP)
        return nib_fail(error, NIB_FORMAT, "the safetensors header is not an object");
    const nib_map *map = header.as.map;
    NIB_TRY(nib_records_allocate(file, map->count, error));
    size_t count = 0;
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        if (nib_str_is(entry->key, "__metadata__"))
            NIB_TRY(check_metadata(entry->value, error));
        else
            NIB_TRY(read_tensor(file, &file->records[count++], entry, section, error));
    }
    file->count = count;
    return nib_records_index(file, error);
}

/* Tensors fill the section from its first byte to its last. */
static nib_status check_section(nib_file *file, size_t section, nib_error *error)
{
    nib_record **order;
    NIB_TRY(nib_records_in_order(file, &order, error));
    size_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        if (order[i]->offset != at)
            return nib_fail_tensor(error, NIB_FORMAT, order[i]->name,
                                   "its data begins at %zu, where %zu is the next free byte",
                                   order[i]->offset, at);
        at += order[i]->bytes;
    }
    if (at != section)
        return nib_fail(error, NIB_FORMAT, "%zu bytes of data belong to no tensor", section - at);
    return NIB_OK;
}

static nib_status parse_header(nib_file *file, size_t header_bytes, nib_error *error)
{
    const size_t section = file->size - 8 - header_bytes;
    nib_arena scratch;
    nib_arena_init(&scratch, &file->context->allocator, 0);
    nib_value header;
    nib_status status = nib_json_parse(&scratch, (const char *)file->data + 8, header_bytes,
                                       file->path, &header, error);
    if (status == NIB_OK)
        status = read_tensors(file, header, section, error);
    nib_arena_free(&scratch);
    if (status == NIB_OK)
        status = check_section(file, section, error);
    for (size_t i = 0; status == NIB_OK && i < file->count; i++)
        file->records[i].offset += 8 + header_bytes;
    return status;
}

nib_status nib_safetensors_parse(nib_file *file, nib_error *error)
{
    if (file->size < 8)
        return nib_fail(error, NIB_FORMAT, "the file is too short for safetensors");
    const uint64_t header_bytes = nib_read_u64(file->data);
    if (header_bytes > MAX_HEADER_BYTES)
        return nib_fail(error, NIB_LIMIT,
                        "the safetensors header has %" PRIu64 " bytes, more than %" PRIu64,
                        header_bytes, MAX_HEADER_BYTES);
    if (header_bytes > file->size - 8)
        return nib_fail(error, NIB_FORMAT,
                        "the safetensors header has %" PRIu64 " bytes, the file only %zu",
                        header_bytes, file->size);
    return parse_header(file, (size_t)header_bytes, error);
}
