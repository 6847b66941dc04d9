/* SPDX-License-Identifier: Apache-2.0
 *
 * What parsers share: the names of records, their order, and what must hold between them.
 */
#include "io/records.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- names and order ---- */

const char *nib_show_name(nib_str name, char out[NIB_SHOWN_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < name.len && used < NIB_SHOWN_BYTES - 4; i++)
        out[used++] = name.data[i] >= ' ' && name.data[i] <= '~' ? name.data[i] : '?';
    strcpy(out + used, used < name.len ? "..." : "");
    return out;
}

nib_status nib_fail_tensor(nib_error *error, nib_status code, nib_str name, const char *format, ...)
{
    char shown[NIB_SHOWN_BYTES], message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (name.len == 0) /* npy */
        return nib_fail(error, code, "%s", message);
    return nib_fail(error, code, "tensor '%s': %s", nib_show_name(name, shown), message);
}

int nib_str_compare(nib_str a, nib_str b)
{
    const size_t len = a.len < b.len ? a.len : b.len;
    const int order = len ? memcmp(a.data, b.data, len) : 0;
    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

static void sift_down(void **items, size_t root, size_t count,
                      int (*compare)(const void *, const void *))
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(items[child], items[child + 1]) < 0)
            child++;
        if (compare(items[root], items[child]) >= 0)
            return;
        void *swapped = items[root];
        items[root] = items[child];
        items[child] = swapped;
    }
}

void nib_sort_pointers(void **items, size_t count, int (*compare)(const void *a, const void *b))
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(items, i, count, compare);
    for (size_t end = count; end-- > 1;) {
        void *largest = items[0];
        items[0] = items[end];
        items[end] = largest;
        sift_down(items, 0, end, compare);
    }
}

static int compare_names(const void *a, const void *b)
{
    return nib_str_compare(((const nib_record *)a)->name, ((const nib_record *)b)->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const nib_record *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* ---- records ---- */

nib_status nib_records_allocate(nib_file *file, size_t count, nib_error *error)
{
    file->records = NIB_ARENA_ARRAY(&file->arena, nib_record, count);
    if (!file->records)
        return nib_fail_memory(error);
    file->count = count;
    return NIB_OK;
}

nib_status nib_record_set_name(nib_file *file, nib_record *record, nib_str name, nib_error *error)
{
    if (name.len && memchr(name.data, '\0', name.len))
        return nib_fail_tensor(error, NIB_FORMAT, name, "the name has a NUL character inside");
    record->name = nib_arena_str(&file->arena, name.data, name.len);
    return record->name.data ? NIB_OK : nib_fail_memory(error);
}

/* Pointers to all records, sorted. */
static nib_status sort_records(nib_file *file, int (*compare)(const void *, const void *),
                               nib_record ***out, nib_error *error)
{
    *out = NIB_ARENA_ARRAY(&file->arena, nib_record *, file->count);
    if (!*out)
        return nib_fail_memory(error);
    for (size_t i = 0; i < file->count; i++)
        (*out)[i] = &file->records[i];
    nib_sort_pointers((void **)*out, file->count, compare);
    return NIB_OK;
}

nib_status nib_records_index(nib_file *file, nib_error *error)
{
    NIB_TRY(sort_records(file, compare_names, &file->by_name, error));
    for (size_t i = 1; i < file->count; i++) {
        if (nib_str_eq(file->by_name[i - 1]->name, file->by_name[i]->name))
            return nib_fail_tensor(error, NIB_FORMAT, file->by_name[i]->name,
                                   "the name occurs twice");
    }
    return NIB_OK;
}

nib_status nib_records_in_order(nib_file *file, nib_record ***out, nib_error *error)
{
    NIB_TRY(sort_records(file, compare_offsets, out, error));
    const nib_record *previous = NULL;
    for (size_t i = 0; i < file->count; i++) {
        const nib_record *record = (*out)[i];
        if (record->bytes == 0)
            continue;
        if (previous && record->offset - previous->offset < previous->bytes) {
            char shown[NIB_SHOWN_BYTES];
            return nib_fail_tensor(error, NIB_FORMAT, record->name,
                                   "its data overlaps that of tensor '%s'",
                                   nib_show_name(previous->name, shown));
        }
        previous = record;
    }
    return NIB_OK;
}
