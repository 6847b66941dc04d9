/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a whole file: mapped where the system can, read otherwise.
 */
#ifndef NIB_IO_MAPPING_H
#define NIB_IO_MAPPING_H

#include "base/context.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nib_mapping {
    uint8_t *data; /* NULL when the file is empty. Writes to it stay private to the process. */
    size_t size;
    size_t allocated; /* bytes of `data` when it was read, 0 when it is mapped */
} nib_mapping;

/* Pipes and other files without a size are read to their end, up to this many bytes. */
#define NIB_MAPPING_PIPE_LIMIT ((size_t)1 << 30)

/* errors: IO, LIMIT, OUT_OF_MEMORY. A file that is cut short by somebody while it is mapped raises
 * SIGBUS, as with every program that maps files. */
nib_status nib_mapping_open(const nib_context *context, const char *path, nib_mapping *out,
                            nib_error *error);
/* The same without a mapping. */
nib_status nib_mapping_read(const nib_context *context, const char *path, nib_mapping *out,
                            nib_error *error);
void nib_mapping_close(const nib_context *context, nib_mapping *mapping);

#endif
