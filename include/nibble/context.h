/* SPDX-License-Identifier: Apache-2.0
 *
 * The context: where memory and log lines go. Everything else is created from one.
 */
#ifndef NIBBLE_CONTEXT_H
#define NIBBLE_CONTEXT_H

#include <stddef.h>

#include "nibble/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NIB_VERSION_MAJOR 0
#define NIB_VERSION_MINOR 1
#define NIB_VERSION_PATCH 0

/* The version of the library that is linked, "0.1.0". */
NIB_API const char *nib_version(void);

/* One function does all memory work, as Lua's does: new_bytes = 0 frees (returns NULL), ptr = NULL
 * allocates, anything else resizes. old_bytes is exact. NULL from an allocation means out of memory.
 * It may be called from the threads that use objects of the context, so it must be thread-safe if
 * they are several. Memory it returns is aligned for any C type. */
typedef struct nib_allocator {
    void *(*resize)(void *user, void *ptr, size_t old_bytes, size_t new_bytes);
    void *user;
} nib_allocator;

typedef enum nib_log_level { NIB_LOG_DEBUG, NIB_LOG_INFO, NIB_LOG_WARNING, NIB_LOG_ERROR } nib_log_level;

/* Zero means default everywhere: malloc, no log. */
typedef struct nib_context_options {
    nib_allocator allocator;
    void (*log)(void *user, nib_log_level level, const char *line); /* no newline; NULL: silent */
    void *log_user;
} nib_context_options;

typedef struct nib_context nib_context;

/* Create a context. `options` may be NULL; it is copied.
 * errors: OUT_OF_MEMORY | owns: *out (nib_context_free, after everything made from it)
 * threads: a context may be used from several threads at once if its allocator may | after failure: *out = NULL */
NIB_API NIB_CHECKED nib_status nib_context_create(const nib_context_options *options,
                                                  nib_context **out, nib_error *error);
NIB_API void nib_context_free(nib_context *context);

/* Free a string or byte block that a nibble function handed over ("owns: text (nib_text_free)"). NULL is fine. */
NIB_API void nib_text_free(nib_context *context, char *text);

#ifdef __cplusplus
}
#endif
#endif
