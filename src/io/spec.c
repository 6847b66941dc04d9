/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors from one argument of a command line: a literal or a place in a file. Syntax:
 * docs/files.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "io/records.h"
#include "tensor/half.h"
#include "value/number.h"

/* A literal repeats what somebody typed; beyond this it is a mistake. */
#define MAX_LITERAL_BYTES ((size_t)1 << 34)

/* ---- elements ---- */

typedef struct range {
    int64_t low, high;
} range;

/* What an integer dtype holds. */
static const range ranges[NIB_DTYPE_COUNT] = {
    [NIB_INT8] = {INT8_MIN, INT8_MAX},
    [NIB_INT16] = {INT16_MIN, INT16_MAX},
    [NIB_INT32] = {INT32_MIN, INT32_MAX},
    [NIB_INT64] = {INT64_MIN, INT64_MAX},
    [NIB_UINT8] = {0, UINT8_MAX},
    [NIB_UINT32] = {0, UINT32_MAX},
    [NIB_BOOL] = {0, 1},
};

static bool is_float(nib_dtype dtype)
{
    return dtype == NIB_FLOAT32 || dtype == NIB_FLOAT16;
}

static void store_float(nib_tensor *tensor, size_t index, double value)
{
    if (tensor->desc.dtype == NIB_FLOAT32)
        ((float *)tensor->data)[index] = (float)value;
    else
        ((uint16_t *)tensor->data)[index] = nib_half_narrow((float)value);
}

/* Little-endian, so the low bytes of an int64_t are the narrower integer. */
static void store_integer(nib_tensor *tensor, size_t index, int64_t value)
{
    const size_t width = nib_dtype_bytes(tensor->desc.dtype);
    memcpy((char *)tensor->data + index * width, &value, width);
}

/* ---- numbers ---- */

static bool parse_float(nib_str text, double *out)
{
    nib_str digits = text;
    const bool negative = digits.len && digits.data[0] == '-';
    if (negative)
        digits = (nib_str){digits.data + 1, digits.len - 1};
    if (nib_str_is(digits, "inf"))
        *out = negative ? -(double)INFINITY : (double)INFINITY;
    else if (nib_str_is(text, "nan"))
        *out = (double)NAN;
    else
        return nib_number_parse(text, out);
    return true;
}

/* Exact over all of int64. "true" and "false" are 1 and 0. */
static bool parse_integer(nib_str text, int64_t *out)
{
    size_t at = 0;
    int64_t value = 0;
    if (nib_str_is(text, "true") || nib_str_is(text, "false")) {
        *out = text.data[0] == 't';
        return true;
    }
    const bool negative = text.len > 0 && text.data[0] == '-';
    if (negative)
        at++;
    if (at == text.len)
        return false;
    for (; at < text.len; at++) {
        if (!nib_is_digit(text.data[at]))
            return false;
        const int digit = text.data[at] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

static nib_status store_text(nib_tensor *tensor, size_t index, nib_str text, nib_error *error)
{
    const nib_dtype dtype = tensor->desc.dtype;
    double number;
    int64_t integer;
    if (is_float(dtype)) {
        if (parse_float(text, &number)) {
            store_float(tensor, index, number);
            return NIB_OK;
        }
    } else if (parse_integer(text, &integer) && integer >= ranges[dtype].low &&
               integer <= ranges[dtype].high) {
        store_integer(tensor, index, integer);
        return NIB_OK;
    }
    return nib_fail(error, NIB_INVALID_ARGUMENT, "'%.*s' is no %s", NIB_STR_ARG(text),
                    nib_dtype_name(dtype));
}

/* ---- fills ---- */

static void repeat_first(nib_tensor *tensor)
{
    const size_t width = nib_dtype_bytes(tensor->desc.dtype);
    for (size_t i = 1; i < tensor->elements; i++)
        memcpy((char *)tensor->data + i * width, tensor->data, width);
}

/* SplitMix64: the same numbers on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Roughly standard normal: the sum of twelve uniform numbers, less its mean. It needs no libm,
 * whose last bits differ between machines, and stays within 6. */
static double next_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(next_random(state) >> 11) * 0x1p-53;
    return sum;
}

/* Floats are normal, integers uniform over all that the dtype holds. */
static void fill_random(nib_tensor *tensor, uint64_t seed)
{
    const nib_dtype dtype = tensor->desc.dtype;
    uint64_t state = seed;
    for (size_t i = 0; i < tensor->elements; i++) {
        if (is_float(dtype))
            store_float(tensor, i, next_normal(&state));
        else
            store_integer(tensor, i,
                          (int64_t)(next_random(&state) >> (dtype == NIB_BOOL ? 63 : 0)));
    }
}

/* "0.5" for all elements, "rand:7", or "1,2,3" with one number per element. */
static nib_status fill(nib_tensor *tensor, nib_str text, nib_error *error)
{
    int64_t seed;
    if (nib_str_starts(text, NIB_STR("rand:"))) {
        if (!parse_integer((nib_str){text.data + 5, text.len - 5}, &seed) || seed < 0)
            return nib_fail(error, NIB_INVALID_ARGUMENT, "the seed of rand: is a whole number");
        fill_random(tensor, (uint64_t)seed);
        return NIB_OK;
    }
    if (!memchr(text.data, ',', text.len)) {
        if (tensor->elements == 0)
            return NIB_OK;
        NIB_TRY(store_text(tensor, 0, text, error));
        repeat_first(tensor);
        return NIB_OK;
    }
    size_t count = 0;
    for (const char *at = text.data, *end = text.data + text.len;; count++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (count < tensor->elements)
            NIB_TRY(store_text(tensor, count, (nib_str){at, (size_t)((comma ? comma : end) - at)},
                               error));
        if (!comma)
            break;
        at = comma + 1;
    }
    if (++count != tensor->elements)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "%zu numbers for %zu elements", count,
                        tensor->elements);
    return NIB_OK;
}

/* ---- literals ---- */

/* "float32[" and so on, or "float32="; a file of such a name is written "./float32[...". */
static bool is_literal(const char *spec)
{
    const size_t len = strcspn(spec, "[=");
    return spec[len] && nib_dtype_of((nib_str){spec, len}) != NIB_DTYPE_NONE;
}

static size_t length_of_word(const char *text)
{
    size_t len = 0;
    while (nib_is_alpha(text[len]) || nib_is_digit(text[len]) || text[len] == '_')
        len++;
    return len;
}

/* "flaot32[2,3]" with a value or without: the form of a literal, whatever the word in front. */
static bool looks_like_literal(const char *spec)
{
    const size_t word = length_of_word(spec);
    if (word == 0 || spec[word] != '[')
        return false;
    const char *end = spec + word + 1 + strspn(spec + word + 1, "0123456789, ");
    return *end == ']' && (end[1] == '=' || end[1] == '\0');
}

static nib_status fail_no_dtype(const char *spec, nib_error *error)
{
    return nib_fail(error, NIB_INVALID_ARGUMENT,
                    "there is no such file, and '%.*s' is no dtype; known: %s",
                    (int)length_of_word(spec), spec, nib_dtype_list());
}

static nib_status make_literal(nib_context *context, const char *spec, nib_tensor **out,
                               nib_error *error)
{
    char type[NIB_DESC_TEXT_BYTES];
    const char *equals = strchr(spec, '=');
    if (!equals || (size_t)(equals - spec) >= sizeof type)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "a literal needs a value, as in float32[2,3]=0.5");
    if (!memchr(spec, '[', (size_t)(equals - spec)))
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "a literal needs a shape, as in float32[2,3]=0.5");
    snprintf(type, sizeof type, "%.*s", (int)(equals - spec), spec);
    nib_tensor_desc desc;
    size_t bytes;
    NIB_TRY(nib_tensor_desc_parse(type, &desc, error));
    NIB_TRY(nib_tensor_desc_bytes(&desc, &bytes, error));
    if (bytes > MAX_LITERAL_BYTES)
        return nib_fail(error, NIB_LIMIT, "a literal of %zu bytes, more than %zu", bytes,
                        MAX_LITERAL_BYTES);
    NIB_TRY(nib_tensor_create(context, &desc, out, error));
    const nib_status status = fill(*out, nib_str_from(equals + 1), error);
    if (status != NIB_OK) {
        nib_tensor_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---- files ---- */

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

/* Cut `path` at the colon that ends the name of a file: at none if the whole is one, else at the
 * first that fits, so that names of files and of tensors may have colons. NULL in *member when
 * there is none. */
static void split_place(char *path, const char **member)
{
    *member = NULL;
    if (is_file(path))
        return;
    char *last = strrchr(path, ':');
    for (char *colon = strchr(path, ':'); colon; colon = strchr(colon + 1, ':')) {
        *colon = '\0';
        if (is_file(path) || colon == last) {
            *member = colon + 1;
            return;
        }
        *colon = ':';
    }
}

static void list_some(const nib_file *file, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < file->count && i < 4 && used < out_bytes; i++) {
        char shown[NIB_SHOWN_BYTES];
        used += (size_t)snprintf(out + used, out_bytes - used, "%s'%s'", i ? ", " : "",
                                 nib_show_name(file->records[i].name, shown));
    }
}

static nib_status find_member(const nib_file *file, const char *member, size_t *index,
                              nib_error *error)
{
    char some[5 * NIB_SHOWN_BYTES], shown[NIB_SHOWN_BYTES];
    *index = nib_file_find(file, member ? member : "");
    if (*index != SIZE_MAX)
        return NIB_OK;
    if (!member && file->count == 1) {
        *index = 0;
        return NIB_OK;
    }
    list_some(file, some, sizeof some);
    if (!member)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "the file holds %zu tensors, name one as FILE:TENSOR (%s ...)", file->count,
                        some);
    return nib_fail(error, NIB_INVALID_ARGUMENT,
                    "no tensor '%s' among the %zu of the file (%s ...)",
                    nib_show_name(nib_str_from(member), shown), file->count, some);
}

static void release_with_file(void *user, void *data)
{
    (void)data;
    nib_file_free(user);
}

static nib_status read_member(nib_file *file, const char *member, nib_tensor **out, bool *keeps,
                              nib_error *error)
{
    size_t index;
    const nib_status status = find_member(file, member, &index, error);
    if (status != NIB_OK) {
        nib_error_source(error, file->path);
        return status;
    }
    NIB_TRY(nib_file_read(file, index, out, error));
    *keeps = (*out)->release == NULL;
    if (*keeps) { /* borrowed from the mapping, which now lives as long as the tensor */
        (*out)->release = release_with_file;
        (*out)->release_user = file;
    }
    return NIB_OK;
}

static nib_status read_place(nib_context *context, char *path, nib_tensor **out, nib_error *error)
{
    const char *member;
    nib_file *file;
    split_place(path, &member);
    NIB_TRY(nib_file_open(context, path, &file, error));
    bool keeps = false;
    const nib_status status = read_member(file, member, out, &keeps, error);
    if (!keeps)
        nib_file_free(file);
    return status;
}

nib_status nib_tensor_from_spec(nib_context *context, const char *spec, nib_tensor **out,
                                nib_error *error)
{
    *out = NULL;
    if (!context || !spec)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "nib_tensor_from_spec needs a context and a SPEC");
    if (is_literal(spec) || (looks_like_literal(spec) && !is_file(spec))) {
        const nib_status status =
            is_literal(spec) ? make_literal(context, spec, out, error) : fail_no_dtype(spec, error);
        if (status != NIB_OK)
            nib_error_source(error, spec);
        return status;
    }
    nib_buf path;
    nib_buf_init(&path, &context->allocator, 1 << 20);
    nib_buf_puts(&path, spec);
    nib_status status = nib_buf_check(&path, "the tensor's place", error);
    if (status == NIB_OK)
        status = read_place(context, path.data, out, error);
    nib_buf_free(&path);
    return status;
}
