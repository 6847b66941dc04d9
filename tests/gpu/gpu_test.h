/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the WebGPU backend share: a device on the adapter that NIBBLE_TEST_ADAPTER names (any by default),
 * a random number generator, and checks that print the library's own error.
 */
#ifndef GPU_TEST_H
#define GPU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/webgpu/wgpu.h"
#include "nibble/nibble.h"

static inline void show_error(const char *what, nib_status status, const nib_error *error)
{
    char line[4096];
    nib_error_format(error, line, sizeof line);
    print_message("%s: %s: %s\n%s\n", what, nib_status_name(status), line, error->excerpt);
}

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        nib_error error = {0};                                                                     \
        const nib_status status_ = (call);                                                         \
        if (status_ != NIB_OK)                                                                     \
            show_error(#call, status_, &error);                                                   \
        assert_int_equal(status_, NIB_OK);                                                         \
    } while (0)

/* The call fails with `expected`, and the message contains `part`. */
#define ASSERT_FAILS(call, expected, part)                                                         \
    do {                                                                                           \
        nib_error error = {0};                                                                     \
        const nib_status status_ = (call);                                                         \
        if (status_ != (expected) || !strstr(error.message, (part)))                               \
            show_error(#call, status_, &error);                                                   \
        assert_int_equal(status_, (expected));                                                     \
        assert_non_null(strstr(error.message, (part)));                                            \
    } while (0)

static inline nib_context *new_context(void)
{
    nib_context *context;
    ASSERT_OK(nib_context_create(NULL, &context, &error));
    return context;
}

static inline const char *test_adapter(void)
{
    const char *name = getenv("NIBBLE_TEST_ADAPTER");
    return name && *name ? name : NULL;
}

/* A device of our own, opened through the backend's table. */
static inline nib_device *open_gpu(nib_context *context)
{
    const nib_device_options options = {.backend = "webgpu", .adapter = test_adapter()};
    nib_device *device;
    ASSERT_OK(nib_wgpu_open(context, &options, &device, &error));
    return device;
}

static inline nib_wgpu_device *gpu_of(nib_device *device)
{
    return (nib_wgpu_device *)device;
}

static inline nib_tensor_desc desc_of(const char *text)
{
    nib_tensor_desc desc;
    ASSERT_OK(nib_tensor_desc_parse(text, &desc, &error));
    return desc;
}

/* xorshift64*, seeded by each test. */
typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

static inline void rng_bytes(rng *r, void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)data)[i] = (unsigned char)(rng_next(r) >> 40);
}

#endif
