/* SPDX-License-Identifier: Apache-2.0
 *
 * A container of tensors, whatever its format: parsers fill records, and everything else works on
 * records.
 */
#ifndef NIB_IO_RECORDS_H
#define NIB_IO_RECORDS_H

#include "base/memory.h"
#include "base/str.h"
#include "io/mapping.h"
#include "nibble/file.h"
#include "tensor/tensor.h"

/* Turn `elements` stored elements, at any alignment, into the dtype of the record. */
typedef void (*nib_decode)(const uint8_t *from, size_t elements, void *to);

typedef struct nib_record {
    nib_str name;         /* NUL-terminated, without a NUL inside */
    const char *stored;   /* the file's own name of the encoding */
    nib_tensor_desc desc; /* dtype NONE: an encoding that cannot be read */
    bool quantized, q4_0;
    nib_decode decode;    /* NULL: the stored bytes are the tensor's */
    bool fortran;         /* npy: the first dim varies fastest */
    size_t swap;          /* npy: bytes of a big-endian element, 0 when there is nothing to swap */
    size_t offset, bytes; /* of the data in the file; npz: in the uncompressed member */
    uint64_t member;      /* npz: index in the archive */
} nib_record;

struct nib_file {
    nib_context *context;
    nib_arena arena;     /* records, names, path */
    nib_mapping mapping; /* empty when the bytes are borrowed */
    const uint8_t *data;
    size_t size;
    const char *path; /* names the file in errors */
    nib_record *records;
    size_t count;
    nib_record **by_name;
    bool archive; /* npz */
};

/* One parser per format: fill file->records and file->count from file->data. */
nib_status nib_npy_parse(nib_file *file, nib_error *error);
nib_status nib_npz_parse(nib_file *file, nib_error *error);
nib_status nib_safetensors_parse(nib_file *file, nib_error *error);
nib_status nib_gguf_parse(nib_file *file, nib_error *error);

/* Read the header of a .npy file of `total` bytes whose first `size` bytes are at `data`; names the
 * record "". */
nib_status nib_npy_parse_header(nib_arena *arena, const uint8_t *data, size_t size, size_t total,
                                nib_record *out, nib_error *error);
#define NIB_NPY_HEADER_LIMIT 65536 /* text only; the preamble has at most 12 bytes more */

/* Read the data of an npz record into memory of record->bytes bytes. */
nib_status nib_npz_read(const nib_file *file, const nib_record *record, void *to, nib_error *error);

/* ---- what parsers share ---- */

/* file->records = count zeroed records. */
nib_status nib_records_allocate(nib_file *file, size_t count, nib_error *error);
/* Set the name; refuses a NUL inside. */
nib_status nib_record_set_name(nib_file *file, nib_record *record, nib_str name, nib_error *error);
/* Build file->by_name; refuses a name that occurs twice. */
nib_status nib_records_index(nib_file *file, nib_error *error);
/* The records in order of their offsets, in arena memory; refuses data that overlaps. NULL is never
 * returned with OK. */
nib_status nib_records_in_order(nib_file *file, nib_record ***out, nib_error *error);

/* Fail with "tensor 'NAME': ...", or without that prefix when the name is empty. */
nib_status nib_fail_tensor(nib_error *error, nib_status code, nib_str name, const char *format, ...)
    NIB_PRINTF(4, 5);
/* A name from a file for a message: cut to fit, anything that is not printable ASCII becomes '?'.
 * Returns `out`. */
#define NIB_SHOWN_BYTES 96
const char *nib_show_name(nib_str name, char out[NIB_SHOWN_BYTES]);

/* Heapsort: no recursion, no memory, n log n on any input. */
void nib_sort_pointers(void **items, size_t count, int (*compare)(const void *a, const void *b));
int nib_str_compare(nib_str a, nib_str b);

static inline uint32_t nib_read_u32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint64_t nib_read_u64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

#endif
