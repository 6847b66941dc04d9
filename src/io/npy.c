/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy format, versions 1.0 to 3.0: a preamble, a Python dictionary as text, the elements.
 * Source: NumPy's documentation of numpy.lib.format.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "io/decode.h"
#include "io/records.h"

/* ---- element types ---- */

typedef struct npy_type {
    const char *code; /* kind and bytes, as in '<f4' */
    nib_dtype dtype;
    size_t stored_bytes;
    nib_decode decode;
} npy_type;

static const npy_type types[] = {
    {"f2", NIB_FLOAT16, 2, NULL},
    {"f4", NIB_FLOAT32, 4, NULL},
    {"f8", NIB_FLOAT32, 8, nib_decode_f64},
    {"i1", NIB_INT8, 1, NULL},
    {"i2", NIB_INT16, 2, NULL},
    {"i4", NIB_INT32, 4, NULL},
    {"i8", NIB_INT64, 8, NULL},
    {"u1", NIB_UINT8, 1, NULL},
    {"u4", NIB_UINT32, 4, NULL},
    {"b1", NIB_BOOL, 1, NULL},
};

static const npy_type *find_type(const char *code)
{
    if (strcmp(code, "?") == 0)
        code = "b1";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(code, types[i].code) == 0)
            return &types[i];
    }
    return NULL;
}

/* '<f4': byte order, then the code. An unknown type is no error here: it is one when the tensor is
 * read. */
static void set_type(nib_record *record, const char *descr)
{
    record->stored = descr;
    const bool has_order = descr[0] && strchr("<>=|", descr[0]);
    const npy_type *type = find_type(has_order ? descr + 1 : descr);
    if (!type)
        return;
    record->desc.dtype = type->dtype;
    record->decode = type->decode;
    record->bytes = type->stored_bytes; /* of one element, until the shape is known */
    if (descr[0] == '>' && type->stored_bytes > 1)
        record->swap = type->stored_bytes;
}

/* ---- the dictionary ---- */

typedef struct cursor {
    const char *at, *end;
    nib_arena *arena;
    nib_error *error;
} cursor;

static nib_status fail_header(cursor *c, const char *what)
{
    return nib_fail(c->error, NIB_FORMAT, "the npy header is malformed: %s", what);
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool accept(cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word)
{
    const size_t len = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

/* 'text' or "text", without escapes. */
static bool accept_string(cursor *c, nib_str *out)
{
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    const char *start = c->at + 1;
    const char *stop = memchr(start, *c->at, (size_t)(c->end - start));
    if (!stop || memchr(start, '\\', (size_t)(stop - start)))
        return false;
    *out = (nib_str){start, (size_t)(stop - start)};
    c->at = stop + 1;
    return true;
}

static nib_status read_dim(cursor *c, int64_t *out)
{
    skip_blanks(c);
    if (c->at == c->end || !nib_is_digit(*c->at))
        return fail_header(c, "shape is a tuple of whole numbers");
    int64_t dim = 0;
    for (; c->at < c->end && nib_is_digit(*c->at); c->at++) {
        if (__builtin_mul_overflow(dim, 10, &dim) ||
            __builtin_add_overflow(dim, *c->at - '0', &dim))
            return nib_fail(c->error, NIB_FORMAT, "a dim of the shape overflows");
    }
    if (c->at < c->end && *c->at == 'L') /* written by Python 2 */
        c->at++;
    *out = dim;
    return NIB_OK;
}

static nib_status read_shape(cursor *c, nib_tensor_desc *desc)
{
    if (!accept(c, '('))
        return fail_header(c, "shape is a tuple of whole numbers");
    while (!accept(c, ')')) {
        if (desc->rank == NIB_MAX_RANK)
            return nib_fail(c->error, NIB_LIMIT, "the shape has more than %d dims", NIB_MAX_RANK);
        NIB_TRY(read_dim(c, &desc->dims[desc->rank++]));
        if (accept(c, ','))
            continue;
        if (!accept(c, ')'))
            return fail_header(c, "shape lacks a comma or parenthesis");
        if (desc->rank == 1) /* "(3)" is a number in Python */
            return fail_header(c, "shape is a tuple of whole numbers");
        break;
    }
    return NIB_OK;
}

static nib_status read_descr(cursor *c, nib_record *record)
{
    nib_str descr;
    if (accept(c, '['))
        return nib_fail(c->error, NIB_UNSUPPORTED, "structured npy arrays cannot be read");
    if (!accept_string(c, &descr) || descr.len > 32)
        return fail_header(c, "descr is a short string");
    char shown[NIB_SHOWN_BYTES];
    const char *copy = nib_arena_cstr(c->arena, nib_str_from(nib_show_name(descr, shown)));
    if (!copy)
        return nib_fail_memory(c->error);
    set_type(record, copy);
    return NIB_OK;
}

static nib_status read_fortran_order(cursor *c, nib_record *record)
{
    record->fortran = accept_word(c, "True");
    if (!record->fortran && !accept_word(c, "False"))
        return fail_header(c, "fortran_order is True or False");
    return NIB_OK;
}

enum { DESCR = 1, FORTRAN_ORDER = 2, SHAPE = 4, ALL_KEYS = 7 };

static nib_status read_value(cursor *c, nib_str key, nib_record *record, unsigned *seen)
{
    const unsigned which = nib_str_is(key, "descr")           ? DESCR
                           : nib_str_is(key, "fortran_order") ? FORTRAN_ORDER
                           : nib_str_is(key, "shape")         ? SHAPE
                                                              : 0;
    if (which == 0)
        return fail_header(c, "a key other than descr, fortran_order and shape");
    if (*seen & which)
        return fail_header(c, "a key occurs twice");
    *seen |= which;
    if (which == DESCR)
        return read_descr(c, record);
    return which == SHAPE ? read_shape(c, &record->desc) : read_fortran_order(c, record);
}

static nib_status read_dictionary(cursor *c, nib_record *record)
{
    unsigned seen = 0;
    if (!accept(c, '{'))
        return fail_header(c, "it is no dictionary");
    while (!accept(c, '}')) {
        nib_str key;
        if (!accept_string(c, &key) || !accept(c, ':'))
            return fail_header(c, "a key and a colon are expected");
        NIB_TRY(read_value(c, key, record, &seen));
        if (accept(c, ','))
            continue;
        if (!accept(c, '}'))
            return fail_header(c, "a comma or brace is missing");
        break;
    }
    skip_blanks(c);
    if (c->at != c->end)
        return fail_header(c, "text after the dictionary");
    if (seen != ALL_KEYS)
        return fail_header(c, "descr, fortran_order or shape is missing");
    return NIB_OK;
}

/* ---- the file ---- */

/* Where the dictionary stands. */
static nib_status find_dictionary(const uint8_t *data, size_t size, size_t total, size_t *start,
                                  size_t *bytes, nib_error *error)
{
    if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return nib_fail(error, NIB_FORMAT, "this is no npy data, or is cut off in its first bytes");
    const unsigned major = data[6], minor = data[7];
    if (major < 1 || major > 3 || minor != 0)
        return nib_fail(error, NIB_UNSUPPORTED, "npy version %u.%u is not known", major, minor);
    *start = major == 1 ? 10 : 12;
    if (size < *start)
        return nib_fail(error, NIB_FORMAT, "the npy header is cut off");
    *bytes = major == 1 ? (size_t)(data[8] | data[9] << 8) : nib_read_u32(data + 8);
    if (*bytes > NIB_NPY_HEADER_LIMIT)
        return nib_fail(error, NIB_LIMIT, "the npy header has %zu bytes, more than %d", *bytes,
                        NIB_NPY_HEADER_LIMIT);
    if (*bytes > total - *start || *bytes > size - *start)
        return nib_fail(error, NIB_FORMAT, "the npy header is cut off");
    return NIB_OK;
}

/* record->bytes holds the bytes of one element; make it those of the data. */
static nib_status measure(nib_record *record, size_t total, nib_error *error)
{
    if (record->desc.dtype == NIB_DTYPE_NONE) { /* of unknown size */
        record->bytes = total - record->offset;
        return NIB_OK;
    }
    size_t elements, bytes;
    if (nib_tensor_desc_elements(&record->desc, &elements, NULL) != NIB_OK ||
        !nib_size_mul(elements, record->bytes, &bytes))
        return nib_fail(error, NIB_FORMAT, "the product of the dims overflows");
    const size_t present = total - record->offset;
    if (bytes > present)
        return nib_fail(error, NIB_FORMAT,
                        "the data is cut off: the shape takes %zu bytes, %zu are there", bytes,
                        present);
    if (bytes < present)
        return nib_fail(error, NIB_FORMAT, "%zu bytes follow the array: one array a file",
                        present - bytes);
    record->bytes = bytes;
    return NIB_OK;
}

nib_status nib_npy_parse_header(nib_arena *arena, const uint8_t *data, size_t size, size_t total,
                                nib_record *out, nib_error *error)
{
    size_t start = 0, bytes = 0;
    *out = (nib_record){.name = NIB_STR("")};
    NIB_TRY(find_dictionary(data, size, total, &start, &bytes, error));
    const char *text = (const char *)data + start;
    cursor c = {text, text + bytes, arena, error};
    NIB_TRY(read_dictionary(&c, out));
    out->offset = start + bytes;
    NIB_TRY(measure(out, total, error));
    if (out->desc.rank < 2)
        out->fortran = false;
    return NIB_OK;
}

nib_status nib_npy_parse(nib_file *file, nib_error *error)
{
    NIB_TRY(nib_records_allocate(file, 1, error));
    NIB_TRY(nib_npy_parse_header(&file->arena, file->data, file->size, file->size,
                                 &file->records[0], error));
    return nib_records_index(file, error);
}
