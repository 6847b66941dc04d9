/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of tensors and files share: a context whose allocator checks sizes and counts, and
 * byte builders.
 */
#ifndef NIB_TESTS_IO_SUPPORT_H
#define NIB_TESTS_IO_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nibble/context.h"
#include "nibble/tensor.h"

/* Created before each test and checked for leaks after it; pass both to
 * cmocka_unit_test_setup_teardown. */
int setup_context(void **state);
int teardown_context(void **state);
#define IO_TEST(function) cmocka_unit_test_setup_teardown(function, setup_context, teardown_context)

typedef struct counting_allocator {
    size_t live_bytes, peak_bytes, calls;
    size_t fail_from; /* allocations fail from this call on; 0: never */
} counting_allocator;
counting_allocator *allocator_of(void **state);
nib_context *context_of(void **state);

/* Bytes under construction, in static memory: one at a time. */
typedef struct builder {
    uint8_t data[1 << 20];
    size_t size;
} builder;
void put(builder *b, const void *data, size_t size);
void put_text(builder *b, const char *text);
void put_u8(builder *b, unsigned value);
void put_u16(builder *b, unsigned value);
void put_u32(builder *b, uint32_t value);
void put_u64(builder *b, uint64_t value);
void put_zeros(builder *b, size_t count);
void pad_to(builder *b, size_t alignment);

/* A path in a folder of this test process that is removed at exit. Valid until the next call. */
const char *temporary_path(const char *name);
void write_file(const char *path, const void *data, size_t size);

/* "source: message" of an error, for substring checks. */
const char *error_text(const nib_error *error);
/* Fail unless the text of the error contains `part`. */
void assert_error(const nib_error *error, nib_status code, const char *part);
void assert_ok(nib_status status, const nib_error *error);

/* Deterministic noise. */
typedef struct noise {
    uint64_t state;
} noise;
uint32_t next_bits(noise *n);
double next_uniform(noise *n); /* [0, 1) */
double next_normal(noise *n);

#endif
