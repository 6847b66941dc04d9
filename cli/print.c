/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_VALUES 8

/* ---- elements ---- */

/* Data may lie at any alignment, so elements move through memcpy. */
#define READ_AS(type)                                                                              \
    do {                                                                                           \
        type element;                                                                              \
        memcpy(&element, at, sizeof element);                                                      \
        return (double)element;                                                                    \
    } while (0)

double cli_element(nib_tensor *tensor, size_t index)
{
    const nib_dtype dtype = nib_tensor_describe(tensor)->dtype;
    const char *at = (const char *)nib_tensor_data(tensor) + index * nib_dtype_bytes(dtype);
    uint16_t half;
    switch (dtype) {
    case NIB_FLOAT16:
        memcpy(&half, at, sizeof half);
        return (double)nib_half_to_float(half);
    case NIB_FLOAT32:
        READ_AS(float);
    case NIB_INT8:
        READ_AS(int8_t);
    case NIB_INT16:
        READ_AS(int16_t);
    case NIB_INT32:
        READ_AS(int32_t);
    case NIB_INT64:
        READ_AS(int64_t);
    case NIB_UINT8:
    case NIB_BOOL:
        READ_AS(uint8_t);
    case NIB_UINT32:
        READ_AS(uint32_t);
    case NIB_DTYPE_NONE:
    case NIB_DTYPE_COUNT:
        break;
    }
    return (double)NAN;
}

/* The integer a double stands for, modulo 2^64; 0 for what is no integer. */
static uint64_t wrapped(double value)
{
    if (!isfinite(value))
        return 0;
    const double modulus = 18446744073709551616.0;
    const double rest = fmod(trunc(value), modulus);
    return rest < 0 ? 0 - (uint64_t)-rest : (uint64_t)rest;
}

void cli_set_integer(nib_tensor *tensor, size_t index, uint64_t value)
{
    const size_t bytes = nib_dtype_bytes(nib_tensor_describe(tensor)->dtype);
    char *at = (char *)nib_tensor_data(tensor) + index * bytes;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(unsigned char)(value >> (8 * i));
}

void cli_set_element(nib_tensor *tensor, size_t index, double value)
{
    const nib_dtype dtype = nib_tensor_describe(tensor)->dtype;
    const size_t bytes = nib_dtype_bytes(dtype);
    char *at = (char *)nib_tensor_data(tensor) + index * bytes;
    const float single = (float)value;
    if (dtype == NIB_FLOAT32) {
        memcpy(at, &single, bytes);
    } else if (dtype == NIB_FLOAT16) {
        const uint16_t half = nib_half_from_float(single);
        memcpy(at, &half, bytes);
    } else {
        cli_set_integer(tensor, index, wrapped(value));
    }
}

size_t cli_elements(const nib_tensor *tensor)
{
    const size_t bytes = nib_dtype_bytes(nib_tensor_describe(tensor)->dtype);
    return bytes ? nib_tensor_bytes(tensor) / bytes : 0;
}

const char *cli_desc_text(const nib_tensor_desc *desc, char out[CLI_DESC_MAX])
{
    nib_tensor_desc_format(desc, out, CLI_DESC_MAX);
    return out;
}

/* ---- numbers ---- */

static bool reads_back(nib_dtype dtype, const char *text, double value)
{
    const double again = strtod(text, NULL);
    if (dtype == NIB_FLOAT16)
        return nib_half_from_float((float)again) == nib_half_from_float((float)value);
    if (dtype == NIB_FLOAT32)
        return (float)again == (float)value;
    return again == value;
}

void cli_number_text(nib_dtype dtype, double value, char out[32])
{
    if (isnan(value)) {
        snprintf(out, 32, "NaN");
    } else if (isinf(value)) {
        snprintf(out, 32, value < 0 ? "-Infinity" : "Infinity");
    } else if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(out, 32, "%.0f", value); /* %g would write 120 as 1.2e+02 */
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(out, 32, "%.*g", digits, value);
            if (reads_back(dtype, out, value))
                break;
        }
    }
}

/* ---- statistics ---- */

typedef struct statistics {
    double min, max, mean;
    size_t count, nan_count;
} statistics;

static statistics measure(nib_tensor *tensor)
{
    const size_t elements = cli_elements(tensor);
    statistics s = {.min = HUGE_VAL, .max = -HUGE_VAL};
    double sum = 0;
    for (size_t i = 0; i < elements; i++) {
        const double value = cli_element(tensor, i);
        if (isnan(value)) {
            s.nan_count++;
            continue;
        }
        s.min = fmin(s.min, value);
        s.max = fmax(s.max, value);
        sum += value;
        s.count++;
    }
    s.mean = s.count ? sum / (double)s.count : (double)NAN;
    return s;
}

void cli_print_tensor(FILE *out, const char *title, nib_tensor *tensor)
{
    const nib_dtype dtype = nib_tensor_describe(tensor)->dtype;
    const size_t elements = cli_elements(tensor);
    const statistics s = measure(tensor);
    char desc[CLI_DESC_MAX], text[32];
    fprintf(out, "%s: %s\n", title, cli_desc_text(nib_tensor_describe(tensor), desc));
    if (elements == 0) {
        fputs("  no elements\n", out);
        return;
    }
    if (s.count) {
        cli_number_text(dtype, s.min, text);
        fprintf(out, "  min %s, ", text);
        cli_number_text(dtype, s.max, text);
        fprintf(out, "max %s, mean %.6g", text, s.mean);
    }
    if (s.nan_count)
        fprintf(out, "%s%zu of %zu are NaN", s.count ? ", " : "  ", s.nan_count, elements);
    fputs("\n ", out);
    for (size_t i = 0; i < elements && i < FIRST_VALUES; i++) {
        cli_number_text(dtype, cli_element(tensor, i), text);
        fprintf(out, " %s", text);
    }
    fputs(elements > FIRST_VALUES ? " ...\n" : "\n", out);
}

/* ---- JSON ---- */

static json_t *value_json(double value)
{
    char text[32];
    if (isfinite(value))
        return cli_json_number(value);
    cli_number_text(NIB_FLOAT32, value, text);
    return json_string(text);
}

json_t *cli_tensor_json(nib_tensor *tensor)
{
    const nib_tensor_desc *desc = nib_tensor_describe(tensor);
    const size_t elements = cli_elements(tensor);
    const statistics s = measure(tensor);
    json_t *object = json_object(), *shape = json_array(), *first = json_array();
    for (uint32_t i = 0; i < desc->rank; i++)
        json_array_append_new(shape, json_integer(desc->dims[i]));
    for (size_t i = 0; i < elements && i < FIRST_VALUES; i++)
        json_array_append_new(first, value_json(cli_element(tensor, i)));
    json_object_set_new(object, "dtype", json_string(nib_dtype_name(desc->dtype)));
    json_object_set_new(object, "shape", shape);
    json_object_set_new(object, "min", s.count ? value_json(s.min) : json_null());
    json_object_set_new(object, "max", s.count ? value_json(s.max) : json_null());
    json_object_set_new(object, "mean", s.count ? value_json(s.mean) : json_null());
    json_object_set_new(object, "nan", json_integer((json_int_t)s.nan_count));
    json_object_set_new(object, "first", first);
    return object;
}

void cli_print_value(const json_t *value)
{
    char number[32];
    if (json_is_real(value)) {
        cli_number_text(NIB_DTYPE_NONE, json_real_value(value), number);
        fputs(number, stdout);
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    cli_print_clean(stdout, text ? text : "");
    free(text);
}

/* ---- reasons ---- */

#define LINE_WIDTH 100

static bool has_same_reason(const json_t *a, const json_t *b)
{
    static const char *const members[] = {"verdict", "reason"};
    for (size_t i = 0; i < CLI_LENGTH(members); i++) {
        const json_t *left = json_object_get(a, members[i]),
                     *right = json_object_get(b, members[i]);
        if (left != right && !json_equal(left, right))
            return false;
    }
    return true;
}

bool cli_is_first_reason(const json_t *list, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (has_same_reason(json_array_get(list, i), json_array_get(list, index)))
            return false;
    }
    return true;
}

void cli_print_same_reason(const json_t *list, size_t index, int indent)
{
    const json_t *first = json_array_get(list, index);
    size_t used = (size_t)indent;
    for (size_t i = index; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(entry, "variant"));
        if (!has_same_reason(first, entry))
            continue;
        name = name ? name : "?";
        if (i > index && used + strlen(name) + 2 > LINE_WIDTH) {
            printf(",\n%*s", indent, "");
            used = (size_t)indent;
        } else if (i > index) {
            fputs(", ", stdout);
            used += 2;
        }
        cli_print_clean(stdout, name);
        used += strlen(name);
    }
}
