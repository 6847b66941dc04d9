/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF versions 2 and 3, little-endian: counts, metadata (walked, not kept), tensor descriptions,
 * aligned data. Source: ggml's docs/gguf.md. Dims in the file are innermost first; descriptors here
 * are outermost first.
 */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "io/decode.h"
#include "io/records.h"

enum {
    MAX_DIMS = 4,
    MAX_KEY_BYTES = 65535,
    MAX_TENSOR_NAME_BYTES = 1024, /* writers keep to 64 */
    MAX_ARRAY_DEPTH = 8,
    DEFAULT_ALIGNMENT = 32,
};

/* ---- encodings ---- */

typedef struct gguf_type {
    const char *name; /* NULL: a number that no encoding has */
    unsigned block_elements, block_bytes;
    nib_dtype dtype; /* NONE: known, but not readable */
    nib_decode decode;
} gguf_type;

/* Indexed by ggml_type. Q8_1 is missing: files do not hold it, and its size has changed over time.
 */
static const gguf_type types[] = {
    [0] = {"F32", 1, 4, NIB_FLOAT32, NULL},
    [1] = {"F16", 1, 2, NIB_FLOAT16, NULL},
    [2] = {"Q4_0", 32, 18, NIB_FLOAT32, nib_decode_q4_0},
    [3] = {"Q4_1", 32, 20, NIB_FLOAT32, nib_decode_q4_1},
    [6] = {"Q5_0", 32, 22, NIB_FLOAT32, nib_decode_q5_0},
    [7] = {"Q5_1", 32, 24, NIB_FLOAT32, nib_decode_q5_1},
    [8] = {"Q8_0", 32, 34, NIB_FLOAT32, nib_decode_q8_0},
    [10] = {"Q2_K", 256, 84, NIB_DTYPE_NONE, NULL},
    [11] = {"Q3_K", 256, 110, NIB_DTYPE_NONE, NULL},
    [12] = {"Q4_K", 256, 144, NIB_FLOAT32, nib_decode_q4_k},
    [13] = {"Q5_K", 256, 176, NIB_FLOAT32, nib_decode_q5_k},
    [14] = {"Q6_K", 256, 210, NIB_FLOAT32, nib_decode_q6_k},
    [15] = {"Q8_K", 256, 292, NIB_DTYPE_NONE, NULL},
    [16] = {"IQ2_XXS", 256, 66, NIB_DTYPE_NONE, NULL},
    [17] = {"IQ2_XS", 256, 74, NIB_DTYPE_NONE, NULL},
    [18] = {"IQ3_XXS", 256, 98, NIB_DTYPE_NONE, NULL},
    [19] = {"IQ1_S", 256, 50, NIB_DTYPE_NONE, NULL},
    [20] = {"IQ4_NL", 32, 18, NIB_DTYPE_NONE, NULL},
    [21] = {"IQ3_S", 256, 110, NIB_DTYPE_NONE, NULL},
    [22] = {"IQ2_S", 256, 82, NIB_DTYPE_NONE, NULL},
    [23] = {"IQ4_XS", 256, 136, NIB_DTYPE_NONE, NULL},
    [24] = {"I8", 1, 1, NIB_INT8, NULL},
    [25] = {"I16", 1, 2, NIB_INT16, NULL},
    [26] = {"I32", 1, 4, NIB_INT32, NULL},
    [27] = {"I64", 1, 8, NIB_INT64, NULL},
    [28] = {"F64", 1, 8, NIB_FLOAT32, nib_decode_f64},
    [29] = {"IQ1_M", 256, 56, NIB_DTYPE_NONE, NULL},
    [30] = {"BF16", 1, 2, NIB_FLOAT32, nib_decode_bf16},
    [34] = {"TQ1_0", 256, 54, NIB_DTYPE_NONE, NULL},
    [35] = {"TQ2_0", 256, 66, NIB_DTYPE_NONE, NULL},
    [39] = {"MXFP4", 32, 17, NIB_DTYPE_NONE, NULL},
    [40] = {"NVFP4", 64, 36, NIB_DTYPE_NONE, NULL},
    [41] = {"Q1_0", 128, 18, NIB_DTYPE_NONE, NULL},
};

enum { TYPE_Q4_0 = 2 };

static const gguf_type *find_type(uint32_t number)
{
    if (number >= sizeof types / sizeof types[0] || !types[number].name)
        return NULL;
    return &types[number];
}

/* ---- reading with a bound ---- */

/* Failures are sticky: once the status is not OK, everything that is read is zero or empty. */
typedef struct cursor {
    const uint8_t *data;
    size_t size, at;
    nib_status status;
    nib_error *error;
} cursor;

static size_t left(const cursor *c)
{
    return c->status == NIB_OK ? c->size - c->at : 0;
}

/* `size` bytes, or NULL when there are not so many; `what` says what they would have been. */
static const uint8_t *take(cursor *c, size_t size, const char *what)
{
    if (c->status == NIB_OK && size > left(c))
        c->status = nib_fail(c->error, NIB_FORMAT, "the file is cut off in %s", what);
    if (c->status != NIB_OK)
        return NULL;
    const uint8_t *data = c->data + c->at;
    c->at += size;
    return data;
}

static uint32_t take_u32(cursor *c, const char *what)
{
    const uint8_t *from = take(c, 4, what);
    return from ? nib_read_u32(from) : 0;
}

static uint64_t take_u64(cursor *c, const char *what)
{
    const uint8_t *from = take(c, 8, what);
    return from ? nib_read_u64(from) : 0;
}

/* A length and that many bytes, which stay where they are. */
static nib_str take_string(cursor *c, const char *what, uint64_t limit)
{
    const uint64_t len = take_u64(c, what);
    if (len > limit)
        c->status = nib_fail(c->error, NIB_LIMIT, "%s has %" PRIu64 " bytes, more than %" PRIu64,
                             what, len, limit);
    const uint8_t *text = take(c, len < SIZE_MAX ? (size_t)len : SIZE_MAX, what);
    return text ? (nib_str){(const char *)text, (size_t)len} : NIB_STR("");
}

/* ---- metadata ---- */

enum { VALUE_UINT32 = 4, VALUE_STRING = 8, VALUE_ARRAY = 9, VALUE_TYPES = 13 };

/* Bytes of a value of fixed size, by its type number; 0 for strings and arrays. */
static const uint8_t value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static void skip_value(cursor *c, uint32_t type, unsigned depth);

static void skip_array(cursor *c, unsigned depth)
{
    const uint32_t type = take_u32(c, "a metadata array");
    const uint64_t count = take_u64(c, "a metadata array");
    size_t bytes;
    if (type < VALUE_TYPES && value_bytes[type]) {
        if (count > SIZE_MAX || !nib_size_mul((size_t)count, value_bytes[type], &bytes))
            bytes = SIZE_MAX;
        take(c, bytes, "a metadata array");
        return;
    }
    /* Each element takes at least 8 bytes, so the file bounds the loop. */
    for (uint64_t i = 0; i < count && c->status == NIB_OK; i++)
        skip_value(c, type, depth);
}

static void skip_value(cursor *c, uint32_t type, unsigned depth)
{
    if (type >= VALUE_TYPES)
        c->status =
            nib_fail(c->error, NIB_FORMAT, "a metadata value has the unknown type %" PRIu32, type);
    else if (type == VALUE_STRING)
        take_string(c, "a metadata string", UINT64_MAX);
    else if (type != VALUE_ARRAY)
        take(c, value_bytes[type], "a metadata value");
    else if (depth == MAX_ARRAY_DEPTH)
        c->status = nib_fail(c->error, NIB_LIMIT,
                             "metadata arrays are nested deeper than %d levels", MAX_ARRAY_DEPTH);
    else
        skip_array(c, depth + 1);
}

static void take_alignment(cursor *c, uint32_t type, size_t *alignment)
{
    if (type != VALUE_UINT32) {
        c->status =
            nib_fail(c->error, NIB_FORMAT,
                     "general.alignment has the value type %" PRIu32 ", it must be %d (uint32)",
                     type, VALUE_UINT32);
        return;
    }
    const uint32_t value = take_u32(c, "general.alignment");
    if (c->status == NIB_OK && (value == 0 || (value & (value - 1))))
        c->status = nib_fail(c->error, NIB_FORMAT,
                             "general.alignment is %" PRIu32 ", no power of two", value);
    *alignment = value;
}

static int compare_keys(const void *a, const void *b)
{
    return nib_str_compare(*(const nib_str *)a, *(const nib_str *)b);
}

static nib_status refuse_duplicate_keys(nib_file *file, nib_str *keys, size_t count,
                                        nib_error *error)
{
    nib_str **order = NIB_ARENA_ARRAY(&file->arena, nib_str *, count);
    if (!order)
        return nib_fail_memory(error);
    for (size_t i = 0; i < count; i++)
        order[i] = &keys[i];
    nib_sort_pointers((void **)order, count, compare_keys);
    for (size_t i = 1; i < count; i++) {
        char shown[NIB_SHOWN_BYTES];
        if (nib_str_eq(*order[i - 1], *order[i]))
            return nib_fail(error, NIB_FORMAT, "the metadata key '%s' occurs twice",
                            nib_show_name(*order[i], shown));
    }
    return NIB_OK;
}

static nib_status read_metadata(nib_file *file, cursor *c, uint64_t count, size_t *alignment)
{
    if (count > left(c) / 13) /* a key's length, a type, a byte */
        return nib_fail(c->error, NIB_FORMAT,
                        "%" PRIu64 " metadata entries do not fit into the file", count);
    nib_str *keys = NIB_ARENA_ARRAY(&file->arena, nib_str, (size_t)count);
    if (!keys)
        return nib_fail_memory(c->error);
    for (size_t i = 0; i < count; i++) {
        keys[i] = take_string(c, "a metadata key", MAX_KEY_BYTES);
        const uint32_t type = take_u32(c, "a metadata entry");
        if (c->status != NIB_OK)
            return c->status;
        if (nib_str_is(keys[i], "general.alignment"))
            take_alignment(c, type, alignment);
        else
            skip_value(c, type, 0);
    }
    NIB_TRY(c->status);
    return refuse_duplicate_keys(file, keys, (size_t)count, c->error);
}

/* ---- tensors ---- */

static nib_status read_dims(cursor *c, nib_record *record)
{
    const uint32_t rank = take_u32(c, "a tensor description");
    if (rank > MAX_DIMS)
        return nib_fail_tensor(c->error, NIB_FORMAT, record->name,
                               "it has %" PRIu32 " dims, more than %d", rank, MAX_DIMS);
    record->desc.rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t dim = take_u64(c, "a tensor description");
        if (dim > INT64_MAX)
            return nib_fail_tensor(c->error, NIB_FORMAT, record->name,
                                   "dim %" PRIu32 " is %" PRIu64 ", too large", i, dim);
        record->desc.dims[rank - 1 - i] = (int64_t)dim;
    }
    return c->status;
}

/* Bytes of the data: rows of whole blocks. */
static nib_status measure(nib_record *record, const gguf_type *type, nib_error *error)
{
    nib_tensor_desc counted = record->desc;
    counted.dtype = NIB_UINT8;
    size_t elements, bytes;
    if (nib_tensor_desc_elements(&counted, &elements, NULL) != NIB_OK)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "the product of the dims overflows");
    const int64_t row = record->desc.rank ? record->desc.dims[record->desc.rank - 1] : 1;
    if (row % type->block_elements)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "a row of %" PRId64 " elements is no multiple of %s's block of %u",
                               row, type->name, type->block_elements);
    if (!nib_size_mul(elements / type->block_elements, type->block_bytes, &record->bytes))
        return nib_fail_tensor(error, NIB_FORMAT, record->name, "the size of the tensor overflows");
    if (record->desc.dtype != NIB_DTYPE_NONE &&
        nib_tensor_desc_bytes(&record->desc, &bytes, NULL) != NIB_OK)
        return nib_fail_tensor(error, NIB_LIMIT, record->name, "the size of the tensor overflows");
    return NIB_OK;
}

static nib_status read_tensor(nib_file *file, cursor *c, nib_record *record)
{
    const nib_str name = take_string(c, "a tensor name", MAX_TENSOR_NAME_BYTES);
    NIB_TRY(c->status);
    NIB_TRY(nib_record_set_name(file, record, name, c->error));
    NIB_TRY(read_dims(c, record));
    const uint32_t number = take_u32(c, "a tensor description");
    const uint64_t offset = take_u64(c, "a tensor description");
    NIB_TRY(c->status);
    const gguf_type *type = find_type(number);
    if (!type)
        return nib_fail_tensor(c->error, NIB_UNSUPPORTED, record->name,
                               "the encoding number %" PRIu32 " is not known", number);
    if (offset > file->size)
        return nib_fail_tensor(c->error, NIB_FORMAT, record->name,
                               "its data begins beyond the end of the file");
    record->stored = type->name;
    record->desc.dtype = type->dtype;
    record->decode = type->decode;
    record->quantized = type->block_elements > 1;
    record->q4_0 = number == TYPE_Q4_0;
    record->offset = (size_t)offset; /* in the data section, until that is known */
    return measure(record, type, c->error);
}

/* Turn offsets in the data section, which starts at `start`, into offsets in the file. */
static nib_status place_tensor(const nib_file *file, nib_record *record, size_t start,
                               size_t alignment, nib_error *error)
{
    if (record->offset % alignment)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "its offset %zu is no multiple of the alignment %zu", record->offset,
                               alignment);
    if (start > file->size || record->offset > file->size - start ||
        record->bytes > file->size - start - record->offset)
        return nib_fail_tensor(error, NIB_FORMAT, record->name,
                               "its %zu bytes of data reach beyond the end of the file",
                               record->bytes);
    record->offset += start;
    return NIB_OK;
}

static nib_status read_tensors(nib_file *file, cursor *c, uint64_t count, size_t alignment)
{
    if (count > left(c) / 24) /* a name's length, a rank, an encoding, an offset */
        return nib_fail(c->error, NIB_FORMAT, "%" PRIu64 " tensors do not fit into the file",
                        count);
    NIB_TRY(nib_records_allocate(file, (size_t)count, c->error));
    for (size_t i = 0; i < file->count; i++)
        NIB_TRY(read_tensor(file, c, &file->records[i]));
    size_t start;
    if (!nib_size_align(c->at, alignment, &start))
        return nib_fail(c->error, NIB_FORMAT, "the alignment overflows");
    for (size_t i = 0; i < file->count; i++)
        NIB_TRY(place_tensor(file, &file->records[i], start, alignment, c->error));
    return NIB_OK;
}

static nib_status read_version(cursor *c)
{
    const uint8_t *magic = take(c, 4, "the GGUF magic");
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return nib_fail(c->error, NIB_FORMAT, "this is no little-endian GGUF data");
    const uint32_t version = take_u32(c, "the GGUF version");
    NIB_TRY(c->status);
    if (version == 0x02000000 || version == 0x03000000)
        return nib_fail(c->error, NIB_UNSUPPORTED, "big-endian GGUF files cannot be read");
    if (version != 2 && version != 3)
        return nib_fail(c->error, NIB_UNSUPPORTED,
                        "GGUF version %" PRIu32 " is not known, 2 and 3 are", version);
    return NIB_OK;
}

nib_status nib_gguf_parse(nib_file *file, nib_error *error)
{
    cursor c = {.data = file->data, .size = file->size, .error = error};
    size_t alignment = DEFAULT_ALIGNMENT;
    NIB_TRY(read_version(&c));
    const uint64_t tensors = take_u64(&c, "the GGUF counts");
    const uint64_t entries = take_u64(&c, "the GGUF counts");
    NIB_TRY(c.status);
    NIB_TRY(read_metadata(file, &c, entries, &alignment));
    NIB_TRY(read_tensors(file, &c, tensors, alignment));
    NIB_TRY(nib_records_index(file, error));
    nib_record **order;
    return nib_records_in_order(file, &order, error);
}
