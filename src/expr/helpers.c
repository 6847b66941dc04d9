/* SPDX-License-Identifier: Apache-2.0 */
#include "expr/helpers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/tensor.h"
#include "value/number.h"

/* A call of a helper. The number of arguments has been checked against the table below. */
typedef struct call {
    nib_evaluation *evaluation;
    const char *name;
    const nib_value *args;
    size_t count;
} call;

/* ---- arguments ---- */

static nib_status fail(const call *c, const char *format, ...) NIB_PRINTF(2, 3);
static nib_status fail(const call *c, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return nib_fail(c->evaluation->error, NIB_EVAL, "%s(): %s", c->name, text);
}

static nib_value arg(const call *c, size_t index)
{
    return index < c->count ? c->args[index] : NIB_UNDEFINED;
}

static double to_number(const call *c, nib_value value)
{
    return nib_jinja_js_number(c->evaluation->arena, value);
}

static double number_arg(const call *c, size_t index)
{
    return to_number(c, arg(c, index));
}

static bool is_list(nib_value value)
{
    return value.type == NIB_VALUE_LIST || value.type == NIB_VALUE_TUPLE;
}

static nib_status list_arg(const call *c, size_t index, const nib_list **out)
{
    const nib_value value = arg(c, index);
    if (!is_list(value))
        return fail(c, "argument %zu must be a list, not %s", index + 1,
                    nib_value_type_name(value));
    *out = value.as.list;
    return NIB_OK;
}

static double item(const call *c, const nib_list *list, size_t index)
{
    return to_number(c, list->items[index]);
}

static bool is_integer(double x)
{
    return isfinite(x) && trunc(x) == x;
}

static nib_status new_list(const call *c, size_t capacity, nib_list **out)
{
    *out = nib_list_new(c->evaluation->arena, capacity);
    return *out ? NIB_OK : nib_fail_memory(c->evaluation->error);
}

static nib_status give_number(nib_value *out, double number)
{
    *out = nib_value_number(number);
    return NIB_OK;
}

static nib_status give_bool(nib_value *out, bool boolean)
{
    *out = nib_value_bool(boolean);
    return NIB_OK;
}

/* Index i of a list of rank r, reduced into 0 ... r-1; NaN for rank 0. */
static double reduce(double index, double rank)
{
    const double rest = fmod(index, rank);
    return rest < 0 ? rest + rank : rest;
}

/* ---- numbers ---- */

static nib_status helper_ceil(const call *c, nib_value *out)
{
    return give_number(out, ceil(number_arg(c, 0)));
}

static nib_status helper_floor(const call *c, nib_value *out)
{
    return give_number(out, floor(number_arg(c, 0)));
}

/* Unlike C's fmin and fmax, a NaN wins. */
static nib_status helper_min(const call *c, nib_value *out)
{
    double result = (double)INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const double x = number_arg(c, i);
        result = isnan(x) || x < result ? x : result;
        if (isnan(x))
            break;
    }
    return give_number(out, result);
}

static nib_status helper_max(const call *c, nib_value *out)
{
    double result = -(double)INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const double x = number_arg(c, i);
        result = isnan(x) || x > result ? x : result;
        if (isnan(x))
            break;
    }
    return give_number(out, result);
}

/* JavaScript gives NaN where C gives 1: for 1 to the power of NaN, and of an infinity. */
static nib_status helper_pow(const call *c, nib_value *out)
{
    const double base = number_arg(c, 0), exponent = number_arg(c, 1);
    if (isnan(exponent) || (fabs(base) == 1 && isinf(exponent)))
        return give_number(out, (double)NAN);
    return give_number(out, pow(base, exponent));
}

static nib_status helper_ceil_div(const call *c, nib_value *out)
{
    return give_number(out, ceil(number_arg(c, 0) / number_arg(c, 1)));
}

static nib_status helper_log2ceil(const call *c, nib_value *out)
{
    const double x = number_arg(c, 0);
    return give_number(out, x <= 1 ? 0 : ceil(log2(x)));
}

static nib_status helper_pow2ceil(const call *c, nib_value *out)
{
    const double x = number_arg(c, 0);
    return give_number(out, x <= 1 ? 1 : exp2(ceil(log2(x))));
}

/* ---- shapes ---- */

/* The product of the dims from `first` up to `end`. */
static double product(const call *c, const nib_list *dims, size_t first, size_t end)
{
    double result = 1;
    for (size_t i = first; i < end && i < dims->count; i++)
        result *= item(c, dims, i);
    return result;
}

static nib_status helper_numel(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    NIB_TRY(list_arg(c, 0, &dims));
    return give_number(out, product(c, dims, 0, dims->count));
}

static nib_status helper_rank(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    NIB_TRY(list_arg(c, 0, &dims));
    return give_number(out, (double)dims->count);
}

/* The list and the reduced index that dim, rows, outer and inner take; *index is NaN for rank 0. */
static nib_status dims_and_index(const call *c, const nib_list **dims, double *index)
{
    NIB_TRY(list_arg(c, 0, dims));
    *index = reduce(number_arg(c, 1), (double)(*dims)->count);
    return NIB_OK;
}

static nib_status helper_dim(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    double index = 0;
    NIB_TRY(dims_and_index(c, &dims, &index));
    *out = is_integer(index) ? dims->items[(size_t)index] : NIB_NULL;
    return NIB_OK;
}

static nib_status helper_rows(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    double index = 0;
    NIB_TRY(dims_and_index(c, &dims, &index));
    double result = 1;
    for (size_t i = 0; i < dims->count; i++)
        result *= (double)i == index ? 1 : item(c, dims, i);
    return give_number(out, result);
}

/* A position as JavaScript's slice() reads it: truncated, NaN is 0. */
static size_t position(double x, size_t count)
{
    if (!(x > 0))
        return 0;
    return x < (double)count ? (size_t)x : count;
}

static nib_status helper_outer(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    double index = 0;
    NIB_TRY(dims_and_index(c, &dims, &index));
    return give_number(out, product(c, dims, 0, position(index, dims->count)));
}

static nib_status helper_inner(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    double index = 0;
    NIB_TRY(dims_and_index(c, &dims, &index));
    return give_number(out, product(c, dims, position(index + 1, dims->count), dims->count));
}

static nib_status copy_items(const call *c, const nib_list *from, size_t first, size_t end,
                             nib_value *out)
{
    nib_list *list = NULL;
    NIB_TRY(new_list(c, end - first, &list));
    for (size_t i = first; i < end; i++)
        list->items[list->count++] = from->items[i];
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status helper_prefix(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    NIB_TRY(list_arg(c, 0, &dims));
    return copy_items(c, dims, 0, position(number_arg(c, 1), dims->count), out);
}

static nib_status helper_suffix(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    NIB_TRY(list_arg(c, 0, &dims));
    return copy_items(c, dims, position(number_arg(c, 1), dims->count), dims->count, out);
}

/* Lists that a number makes long are bounded. */
enum { MAX_MADE_ITEMS = 1 << 20 };

static nib_status count_arg(const call *c, size_t index, size_t *out)
{
    const double n = number_arg(c, index);
    if (!is_integer(n) || n < 0)
        return fail(c, "argument %zu must be an integer of at least 0", index + 1);
    if (n > MAX_MADE_ITEMS)
        return nib_fail(c->evaluation->error, NIB_LIMIT, "%s(): %.17g items are more than %d",
                        c->name, n, MAX_MADE_ITEMS);
    *out = (size_t)n;
    return NIB_OK;
}

static nib_status helper_fill(const call *c, nib_value *out)
{
    size_t count = 0;
    nib_list *list = NULL;
    NIB_TRY(count_arg(c, 1, &count));
    NIB_TRY(new_list(c, count, &list));
    while (list->count < count)
        list->items[list->count++] = arg(c, 0);
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status helper_reversed_axes(const call *c, nib_value *out)
{
    size_t count = 0;
    nib_list *list = NULL;
    NIB_TRY(count_arg(c, 0, &count));
    NIB_TRY(new_list(c, count, &list));
    for (size_t i = count; i > 0; i--)
        list->items[list->count++] = nib_value_integer((double)(i - 1));
    *out = nib_value_of_list(list);
    return NIB_OK;
}

/* An axis in [-rank, rank-1], counted from the end when negative. */
static nib_status to_axis(const call *c, double axis, size_t rank, size_t *out)
{
    const double r = (double)rank;
    if (!is_integer(axis) || axis < -r || axis >= r) {
        char text[NIB_NUMBER_TEXT_BYTES];
        nib_number_format(axis, text);
        return fail(c, "axis %s is outside of rank %zu", text, rank);
    }
    *out = (size_t)(axis < 0 ? axis + r : axis);
    return NIB_OK;
}

static nib_status helper_move_axis(const call *c, nib_value *out)
{
    const nib_list *dims = NULL;
    size_t from = 0, to = 0;
    nib_list *moved = NULL;
    NIB_TRY(list_arg(c, 0, &dims));
    NIB_TRY(to_axis(c, number_arg(c, 1), dims->count, &from));
    NIB_TRY(to_axis(c, number_arg(c, 2), dims->count, &to));
    NIB_TRY(new_list(c, dims->count, &moved));
    for (size_t i = 0; i < dims->count; i++) {
        const size_t without =
            i < to ? i : i - 1; /* the position in the list that lacks the moved item */
        moved->items[i] =
            i == to ? dims->items[from] : dims->items[without < from ? without : without + 1];
    }
    moved->count = dims->count;
    *out = nib_value_of_list(moved);
    return NIB_OK;
}

static nib_status helper_permute_shape(const call *c, nib_value *out)
{
    const nib_list *dims = NULL, *axes = NULL;
    nib_list *result = NULL;
    NIB_TRY(list_arg(c, 0, &dims));
    NIB_TRY(list_arg(c, 1, &axes));
    if (axes->count != dims->count)
        return fail(c, "%zu axes do not permute a shape of rank %zu", axes->count, dims->count);
    bool *used = NIB_ARENA_ARRAY(c->evaluation->arena, bool, dims->count);
    NIB_TRY(new_list(c, dims->count, &result));
    if (!used)
        return nib_fail_memory(c->evaluation->error);
    for (size_t i = 0; i < axes->count; i++) {
        size_t axis = 0;
        NIB_TRY(to_axis(c, item(c, axes, i), dims->count, &axis));
        if (used[axis])
            return fail(c, "axis %zu occurs twice", axis);
        used[axis] = true;
        result->items[result->count++] = dims->items[axis];
    }
    *out = nib_value_of_list(result);
    return NIB_OK;
}

/* ---- broadcasting ---- */

/* Dim i of `dims` aligned to the right in `rank` dims; 1 where it has none. */
static double aligned(const call *c, const nib_list *dims, size_t count, size_t i, size_t rank)
{
    const size_t missing = rank - count;
    return i < missing ? 1 : item(c, dims, i - missing);
}

static nib_status broadcast_dim(const call *c, double x, double y, double *out)
{
    if (x != y && x != 1 && y != 1) {
        char first[NIB_NUMBER_TEXT_BYTES], second[NIB_NUMBER_TEXT_BYTES];
        nib_number_format(x, first);
        nib_number_format(y, second);
        return fail(c, "dims %s and %s do not broadcast", first, second);
    }
    *out = x == 1 ? y : x;
    return NIB_OK;
}

/* Broadcast the first a_count and b_count dims, appending to `result`. */
static nib_status broadcast(const call *c, const nib_list *a, size_t a_count, const nib_list *b,
                            size_t b_count, nib_list *result)
{
    const size_t rank = a_count > b_count ? a_count : b_count;
    for (size_t i = 0; i < rank; i++) {
        double dim = 1;
        NIB_TRY(broadcast_dim(c, aligned(c, a, a_count, i, rank), aligned(c, b, b_count, i, rank),
                              &dim));
        result->items[result->count++] = nib_value_number(dim);
    }
    return NIB_OK;
}

static nib_status helper_broadcast_shape(const call *c, nib_value *out)
{
    const nib_list *a = NULL, *b = NULL;
    nib_list *result = NULL;
    NIB_TRY(list_arg(c, 0, &a));
    NIB_TRY(list_arg(c, 1, &b));
    NIB_TRY(new_list(c, a->count + b->count, &result));
    *out = nib_value_of_list(result);
    return broadcast(c, a, a->count, b, b->count, result);
}

static nib_status helper_matmul_shape(const call *c, nib_value *out)
{
    const nib_list *a = NULL, *b = NULL;
    nib_list *result = NULL;
    NIB_TRY(list_arg(c, 0, &a));
    NIB_TRY(list_arg(c, 1, &b));
    if (a->count == 0 || b->count == 0)
        return fail(c, "both operands need a rank of at least 1");
    const double inner_a = item(c, a, a->count - 1);
    const double inner_b = item(c, b, b->count == 1 ? 0 : b->count - 2);
    if (inner_a != inner_b) {
        char first[NIB_NUMBER_TEXT_BYTES], second[NIB_NUMBER_TEXT_BYTES];
        nib_number_format(inner_a, first);
        nib_number_format(inner_b, second);
        return fail(c, "the contracted dims %s and %s differ", first, second);
    }
    NIB_TRY(new_list(c, a->count + b->count, &result));
    NIB_TRY(broadcast(c, a, a->count > 1 ? a->count - 2 : 0, b, b->count > 1 ? b->count - 2 : 0,
                      result));
    if (a->count > 1)
        result->items[result->count++] = a->items[a->count - 2];
    if (b->count > 1)
        result->items[result->count++] = b->items[b->count - 1];
    *out = nib_value_of_list(result);
    return NIB_OK;
}

static nib_status helper_broadcastable(const call *c, nib_value *out)
{
    const nib_list *a = NULL, *b = NULL;
    NIB_TRY(list_arg(c, 0, &a));
    NIB_TRY(list_arg(c, 1, &b));
    if (a->count > b->count)
        return give_bool(out, false);
    for (size_t i = 0; i < b->count; i++) {
        const double from = aligned(c, a, a->count, i, b->count);
        if (from != 1 && from != item(c, b, i))
            return give_bool(out, false);
    }
    return give_bool(out, true);
}

static nib_status helper_same_shape(const call *c, nib_value *out)
{
    const nib_list *a = NULL, *b = NULL;
    NIB_TRY(list_arg(c, 0, &a));
    NIB_TRY(list_arg(c, 1, &b));
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = item(c, a, i) == item(c, b, i);
    return give_bool(out, same);
}

/* ---- axes ---- */

/* The first position in `axes` that names `axis` of a shape of rank `rank`; the count when none
 * does. */
static size_t find_axis(const call *c, const nib_list *axes, double axis, double rank)
{
    const double wanted = reduce(axis, rank);
    size_t i = 0;
    while (i < axes->count && reduce(item(c, axes, i), rank) != wanted)
        i++;
    return i;
}

static nib_status helper_has_axis(const call *c, nib_value *out)
{
    const nib_list *axes = NULL;
    NIB_TRY(list_arg(c, 0, &axes));
    return give_bool(out, find_axis(c, axes, number_arg(c, 1), number_arg(c, 2)) < axes->count);
}

/* axisValue(values, axes, axis, rank, default) */
static nib_status helper_axis_value(const call *c, nib_value *out)
{
    const nib_list *values = NULL, *axes = NULL;
    NIB_TRY(list_arg(c, 0, &values));
    NIB_TRY(list_arg(c, 1, &axes));
    const size_t at = find_axis(c, axes, number_arg(c, 2), number_arg(c, 3));
    *out = at < axes->count && at < values->count ? values->items[at] : arg(c, 4);
    return NIB_OK;
}

static bool is_integer_between(nib_value v, double low, double high)
{
    return nib_value_is_number(v) && is_integer(v.as.number) && v.as.number >= low &&
           v.as.number < high;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static nib_status all_differ(const call *c, const nib_list *list, double modulus, nib_value *out)
{
    double *numbers = NIB_ARENA_ARRAY(c->evaluation->arena, double, list->count);
    if (!numbers)
        return nib_fail_memory(c->evaluation->error);
    for (size_t i = 0; i < list->count; i++) {
        const double x = list->items[i].as.number;
        numbers[i] = modulus > 0 ? reduce(x, modulus) : x;
    }
    qsort(numbers, list->count, sizeof *numbers, compare_numbers);
    bool differ = true;
    for (size_t i = 1; i < list->count; i++)
        differ = differ && numbers[i] != numbers[i - 1];
    return give_bool(out, differ);
}

/* isUniqueIntList(list, lo, hi, mod = 0): false, not an error, for anything unfit */
static nib_status helper_is_unique_int_list(const call *c, nib_value *out)
{
    const nib_value list = arg(c, 0);
    const double low = number_arg(c, 1), high = number_arg(c, 2);
    const double modulus = c->count > 3 ? number_arg(c, 3) : 0;
    if (!is_list(list))
        return give_bool(out, false);
    for (size_t i = 0; i < list.as.list->count; i++) {
        if (!is_integer_between(list.as.list->items[i], low, high))
            return give_bool(out, false);
    }
    return all_differ(c, list.as.list, modulus, out);
}

/* ---- objects ---- */

/* has(object, key): a key whose value is none or undefined counts. */
static nib_status helper_has(const call *c, nib_value *out)
{
    const nib_value object = arg(c, 0), key = arg(c, 1);
    if (object.type == NIB_VALUE_MAP || object.type == NIB_VALUE_VIEW) {
        char text[NIB_NUMBER_TEXT_BYTES];
        nib_str name = key.as.string;
        if (nib_value_is_number(key))
            name = (nib_str){text, nib_number_format(key.as.number, text)};
        else if (key.type != NIB_VALUE_STRING)
            return give_bool(out, false);
        return give_bool(out, nib_map_get(object.as.map, name) != NULL);
    }
    if (is_list(object) && nib_value_is_number(key))
        return give_bool(out, is_integer_between(key, 0, (double)object.as.list->count));
    return give_bool(out, false);
}

/* pick(pairs, default): pairs are lists [condition, value, ...] */
static nib_status helper_pick(const call *c, nib_value *out)
{
    const nib_list *pairs = NULL;
    NIB_TRY(list_arg(c, 0, &pairs));
    for (size_t i = 0; i < pairs->count; i++) {
        const nib_value pair = pairs->items[i];
        if (!is_list(pair) || pair.as.list->count < 2)
            return fail(c, "entry %zu must be a list [condition, value]", i);
        if (nib_jinja_js_truthy(pair.as.list->items[0])) {
            *out = pair.as.list->items[1];
            return NIB_OK;
        }
    }
    *out = arg(c, 1);
    return NIB_OK;
}

/* ---- dtypes ---- */

static nib_dtype dtype_of(nib_value value)
{
    char name[16];
    if (value.type != NIB_VALUE_STRING || value.as.string.len >= sizeof name)
        return NIB_DTYPE_NONE;
    memcpy(name, value.as.string.data, value.as.string.len);
    name[value.as.string.len] = '\0';
    return strlen(name) == value.as.string.len ? nib_dtype_from_name(name) : NIB_DTYPE_NONE;
}

static bool is_text(nib_value value, const char *text)
{
    return value.type == NIB_VALUE_STRING && nib_str_is(value.as.string, text);
}

static nib_status fail_dtype(const call *c)
{
    const nib_value value = arg(c, 0);
    if (value.type == NIB_VALUE_STRING)
        return fail(c, "\"%.*s\" is not a dtype", NIB_STR_ARG(value.as.string));
    return fail(c, "argument 1 must be the name of a dtype, not %s", nib_value_type_name(value));
}

/* Bytes of an element in GPU storage, where small integers are widened (format 5.1); WGSL scalars
 * work too. */
static nib_status helper_dtype_bytes(const call *c, nib_value *out)
{
    static const struct {
        const char *name;
        double bytes;
    } scalars[] = {{"f32", 4}, {"f16", 2}, {"u32", 4}, {"i32", 4}, {"vec2<u32>", 8}};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        if (is_text(arg(c, 0), scalars[i].name))
            return give_number(out, scalars[i].bytes);
    }
    const nib_dtype dtype = dtype_of(arg(c, 0));
    return dtype == NIB_DTYPE_NONE ? fail_dtype(c)
                                   : give_number(out, (double)nib_dtype_storage_bytes(dtype));
}

static nib_status helper_onnx_dtype_code(const call *c, nib_value *out)
{
    const nib_dtype dtype = dtype_of(arg(c, 0));
    return dtype == NIB_DTYPE_NONE ? fail_dtype(c) : give_number(out, nib_dtype_onnx_code(dtype));
}

static bool is_half(nib_value dtype)
{
    return is_text(dtype, "f16") || is_text(dtype, "float16");
}

static nib_status helper_f16_ok(const call *c, nib_value *out)
{
    return give_bool(out, !is_half(arg(c, 0)));
}

static nib_status helper_f16_ok_on_f16_device(const call *c, nib_value *out)
{
    (void)c;
    return give_bool(out, true);
}

static nib_status helper_f16_allowed(const call *c, nib_value *out)
{
    return give_bool(out, is_text(arg(c, 0), "f32") || is_text(arg(c, 0), "float32"));
}

static nib_status helper_f16_allowed_on_f16_device(const call *c, nib_value *out)
{
    return give_bool(out, is_half(arg(c, 0)) || is_text(arg(c, 0), "f32") ||
                              is_text(arg(c, 0), "float32"));
}

/* ---- the table ---- */

/* name, parameters for messages, fewest and most arguments, function, function on a device with f16
 * (NULL: the same), exists in the list dialect only (format 2.B.5) */
#define HELPER_MAP(XX)                                                                             \
    XX(f16Ok, "dtype", 1, 1, helper_f16_ok, helper_f16_ok_on_f16_device, false)                    \
    XX(ceil, "x", 1, 1, helper_ceil, NULL, false)                                                  \
    XX(floor, "x", 1, 1, helper_floor, NULL, false)                                                \
    XX(min, "...", 0, ANY_COUNT, helper_min, NULL, false)                                          \
    XX(max, "...", 0, ANY_COUNT, helper_max, NULL, false)                                          \
    XX(pow, "a, b", 2, 2, helper_pow, NULL, false)                                                 \
    XX(ceilDiv, "a, b", 2, 2, helper_ceil_div, NULL, false)                                        \
    XX(pow2ceil, "x", 1, 1, helper_pow2ceil, NULL, false)                                          \
    XX(log2ceil, "x", 1, 1, helper_log2ceil, NULL, false)                                          \
    XX(numel, "shape", 1, 1, helper_numel, NULL, false)                                            \
    XX(dim, "shape, index", 2, 2, helper_dim, NULL, false)                                         \
    XX(rows, "shape, index", 2, 2, helper_rows, NULL, false)                                       \
    XX(outer, "shape, index", 2, 2, helper_outer, NULL, false)                                     \
    XX(inner, "shape, index", 2, 2, helper_inner, NULL, false)                                     \
    XX(prefix, "shape, count", 2, 2, helper_prefix, NULL, false)                                   \
    XX(suffix, "shape, start", 2, 2, helper_suffix, NULL, false)                                   \
    XX(fill, "value, count", 2, 2, helper_fill, NULL, false)                                       \
    XX(moveAxis, "shape, from, to", 3, 3, helper_move_axis, NULL, false)                           \
    XX(permuteShape, "shape, axes", 2, 2, helper_permute_shape, NULL, false)                       \
    XX(reversedAxes, "rank", 1, 1, helper_reversed_axes, NULL, false)                              \
    XX(broadcastShape, "a, b", 2, 2, helper_broadcast_shape, NULL, false)                          \
    XX(matmulShape, "a, b", 2, 2, helper_matmul_shape, NULL, false)                                \
    XX(broadcastable, "a, b", 2, 2, helper_broadcastable, NULL, false)                             \
    XX(sameShape, "a, b", 2, 2, helper_same_shape, NULL, false)                                    \
    XX(hasAxis, "axes, axis, rank", 3, 3, helper_has_axis, NULL, false)                            \
    XX(axisValue, "values, axes, axis, rank, default", 4, 5, helper_axis_value, NULL, false)       \
    XX(isUniqueIntList, "list, low, high, modulus", 3, 4, helper_is_unique_int_list, NULL, false)  \
    XX(has, "object, key", 2, 2, helper_has, NULL, false)                                          \
    XX(dtypeBytes, "dtype", 1, 1, helper_dtype_bytes, NULL, false)                                 \
    XX(onnxDtypeCode, "dtype", 1, 1, helper_onnx_dtype_code, NULL, false)                          \
    XX(pick, "pairs, default", 1, 2, helper_pick, NULL, false)                                     \
    XX(rank, "shape", 1, 1, helper_rank, NULL, true)                                               \
    XX(cols, "shape, index", 2, 2, helper_dim, NULL, true)                                         \
    XX(f16Allowed, "dtype", 1, 1, helper_f16_allowed, helper_f16_allowed_on_f16_device, true)

#define ANY_COUNT SIZE_MAX

typedef struct helper {
    const char *name, *parameters;
    size_t least, most;
    nib_status (*call)(const call *c, nib_value *out);
    nib_status (*on_f16_device)(const call *c, nib_value *out);
    bool list_dialect;
} helper;

static const helper helpers[] = {
#define XX(id, parameters, least, most, function, on_f16, list)                                    \
    {#id, parameters, least, most, function, on_f16, list},
    HELPER_MAP(XX)
#undef XX
};

enum {
#define XX(id, parameters, least, most, function, on_f16, list) INDEX_##id,
    HELPER_MAP(XX)
#undef XX
        HELPER_COUNT
};

static nib_status check_count(const helper *h, const nib_evaluation *evaluation, size_t count)
{
    if (evaluation->has_keywords)
        return nib_fail(evaluation->error, NIB_EVAL, "%s(%s) takes no keyword arguments", h->name,
                        h->parameters);
    if (count < h->least || count > h->most)
        return nib_fail(evaluation->error, NIB_EVAL, "%s(%s) was called with %zu arguments",
                        h->name, h->parameters, count);
    return NIB_OK;
}

static nib_status call_helper(nib_evaluation *evaluation, const void *user, const nib_value *args,
                              size_t count, nib_value *out)
{
    const helper *h = user;
    NIB_TRY(check_count(h, evaluation, count));
    const call c = {.evaluation = evaluation, .name = h->name, .args = args, .count = count};
    return h->call(&c, out);
}

static nib_status call_on_f16_device(nib_evaluation *evaluation, const void *user,
                                     const nib_value *args, size_t count, nib_value *out)
{
    const helper *h = user;
    NIB_TRY(check_count(h, evaluation, count));
    const call c = {.evaluation = evaluation, .name = h->name, .args = args, .count = count};
    return (h->on_f16_device ? h->on_f16_device : h->call)(&c, out);
}

/* Function values are addresses of these: [0] for devices without f16, [1] for those with it. */
static const nib_function functions[2][HELPER_COUNT] = {
    {
#define XX(id, parameters, least, most, function, on_f16, list)                                    \
    {.name = #id, .call = call_helper, .user = &helpers[INDEX_##id]},
        HELPER_MAP(XX)
#undef XX
    },
    {
#define XX(id, parameters, least, most, function, on_f16, list)                                    \
    {.name = #id, .call = call_on_f16_device, .user = &helpers[INDEX_##id]},
        HELPER_MAP(XX)
#undef XX
    },
};

const nib_function *nib_expr_helper(nib_str name, bool device_has_f16, bool list_dialect)
{
    for (size_t i = 0; i < HELPER_COUNT; i++) {
        if (nib_str_is(name, helpers[i].name) && (list_dialect || !helpers[i].list_dialect))
            return &functions[device_has_f16][i];
    }
    return NULL;
}

const char *nib_expr_helper_name(size_t index, bool list_dialect)
{
    return index < HELPER_COUNT && (list_dialect || !helpers[index].list_dialect)
               ? helpers[index].name
               : NULL;
}
