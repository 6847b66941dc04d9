/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in any of the formats become a file of records.
 */
#ifndef NIB_IO_FILE_H
#define NIB_IO_FILE_H

#include "io/records.h"

typedef enum nib_file_kind {
    NIB_FILE_ANY, /* told by the content */
    NIB_FILE_NPY,
    NIB_FILE_NPZ,
    NIB_FILE_SAFETENSORS,
    NIB_FILE_GGUF,
} nib_file_kind;

/* Parse bytes that outlive the file. `label` names them in errors. owns: *out (nib_file_free) */
nib_status nib_file_parse(nib_context *context, nib_file_kind kind, const void *data, size_t size,
                          const char *label, nib_file **out, nib_error *error);

#endif
