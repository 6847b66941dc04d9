/* SPDX-License-Identifier: Apache-2.0
 *
 * Stable sorting for the filter sort and dictsort.
 */
#include "jinja/machine.h"

#include <string.h>

typedef struct keyed {
    nib_value item, key;
} keyed;

typedef struct sorter {
    machine *m;
    bool case_sensitive, reverse;
} sorter;

static bool counts_as_number(nib_value v)
{
    return nib_value_is_number(v) || v.type == NIB_VALUE_BOOL;
}

static double number_of(nib_value v)
{
    return v.type == NIB_VALUE_BOOL ? (double)v.as.boolean : v.as.number;
}

static nib_status compare(sorter *s, nib_value a, nib_value b, int *order)
{
    if (counts_as_number(a) && counts_as_number(b)) {
        const double x = number_of(a), y = number_of(b);
        *order = x < y ? -1 : x > y ? 1 : 0;
    } else if (a.type == NIB_VALUE_STRING && b.type == NIB_VALUE_STRING) {
        *order = nib_jinja_compare_text(a.as.string, b.as.string, s->case_sensitive);
    } else if (nib_value_is_absent(a) && a.type == b.type) {
        *order = 0;
    } else {
        return nib_jinja_fail(s->m, "cannot sort %s against %s", nib_value_type_name(a),
                              nib_value_type_name(b));
    }
    if (s->reverse)
        *order = -*order;
    return NIB_OK;
}

static nib_status merge(sorter *s, const keyed *from, size_t middle, size_t end, keyed *to)
{
    size_t left = 0, right = middle;
    for (size_t i = 0; i < end; i++) {
        int order = 0;
        if (left < middle && right < end)
            NIB_TRY(compare(s, from[left].key, from[right].key, &order));
        to[i] = left < middle && (right >= end || order <= 0) ? from[left++] : from[right++];
    }
    return NIB_OK;
}

/* Bottom-up merge sort; `scratch` is as long as `items`. */
static nib_status merge_sort(sorter *s, keyed *items, keyed *scratch, size_t count)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t at = 0; at < count; at += 2 * width) {
            const size_t length = count - at < 2 * width ? count - at : 2 * width;
            NIB_TRY(merge(s, items + at, width < length ? width : length, length, scratch + at));
        }
        memcpy(items, scratch, count * sizeof *items);
    }
    return NIB_OK;
}

nib_status
nib_jinja_sort(machine *m, nib_value *items, size_t count, bool case_sensitive, bool reverse,
               nib_status (*key)(machine *m, nib_value item, const void *user, nib_value *out),
               const void *user)
{
    sorter s = {.m = m, .case_sensitive = case_sensitive, .reverse = reverse};
    keyed *pairs = NIB_ARENA_ARRAY(m->evaluation.arena, keyed, count);
    keyed *scratch = NIB_ARENA_ARRAY(m->evaluation.arena, keyed, count);
    if (!pairs || !scratch)
        return nib_jinja_out_of_memory(m);
    NIB_TRY(nib_jinja_spend(m, count * 4));
    for (size_t i = 0; i < count; i++) {
        pairs[i].item = pairs[i].key = items[i];
        if (key)
            NIB_TRY(key(m, items[i], user, &pairs[i].key));
    }
    NIB_TRY(merge_sort(&s, pairs, scratch, count));
    for (size_t i = 0; i < count; i++)
        items[i] = pairs[i].item;
    return NIB_OK;
}
