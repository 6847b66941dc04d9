/* SPDX-License-Identifier: Apache-2.0
 *
 * A template with its includes in place, and where each part came from.
 */
#ifndef NIB_TEMPLATE_EXPANSION_H
#define NIB_TEMPLATE_EXPANSION_H

#include "template/template.h"

typedef struct template_file {
    nib_str path, text;
} template_file;

/* The expanded text from `start` up to the start of the next piece is files[file].text from
 * `offset` on. */
typedef struct template_piece {
    size_t start, file, offset;
} template_piece;

typedef struct template_expansion {
    nib_str text;
    template_file *files;
    size_t file_count, file_capacity;
    template_piece *pieces;
    size_t piece_count, piece_capacity;
} template_expansion;

nib_status nib_template_expand_text(nib_arena *arena, nib_str path, nib_str text,
                                    const nib_template_loader *loader, bool include_keeps_line,
                                    template_expansion *out, nib_error *error);

/* The file and the byte in it that byte `offset` of the expanded text came from. */
const template_file *nib_template_origin(const template_expansion *expansion, size_t offset,
                                         size_t *file_offset);

#endif
