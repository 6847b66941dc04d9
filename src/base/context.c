/* SPDX-License-Identifier: Apache-2.0 */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define TEXT_OF(x) TEXT_OF_(x)
#define TEXT_OF_(x) #x

const char *nib_version(void)
{
    return TEXT_OF(NIB_VERSION_MAJOR) "." TEXT_OF(NIB_VERSION_MINOR) "." TEXT_OF(NIB_VERSION_PATCH);
}

nib_status nib_context_create(const nib_context_options *options, nib_context **out, nib_error *error)
{
    *out = NULL;
    const nib_context_options defaults = {0};
    if (!options)
        options = &defaults;
    const nib_allocator *allocator = options->allocator.resize ? &options->allocator : &nib_default_allocator;
    nib_context *context = nib_allocate(allocator, 1, sizeof *context);
    if (!context)
        return nib_fail_memory(error);
    context->allocator = *allocator;
    context->log = options->log;
    context->log_user = options->log_user;
    *out = context;
    return NIB_OK;
}

void nib_context_free(nib_context *context)
{
    if (!context)
        return;
    const nib_allocator allocator = context->allocator;
    nib_release(&allocator, context, 1, sizeof *context);
}

void nib_text_free(nib_context *context, char *text)
{
    if (!text)
        return;
    size_t total;
    char *block = text - sizeof total; /* see nib_buf_take */
    memcpy(&total, block, sizeof total);
    nib_release(&context->allocator, block, total, 1);
}

void nib_log(const nib_context *context, nib_log_level level, const char *format, ...)
{
    if (!context->log)
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    context->log(context->log_user, level, line);
}
