/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIB_BASE_CONTEXT_H
#define NIB_BASE_CONTEXT_H

#include "base/memory.h"
#include "nibble/context.h"

struct nib_context {
    nib_allocator allocator;
    void (*log)(void *user, nib_log_level level, const char *line);
    void *log_user;
};

void nib_log(const nib_context *context, nib_log_level level, const char *format, ...) NIB_PRINTF(3, 4);

#endif
