/* SPDX-License-Identifier: Apache-2.0
 *
 * One input through a parser of tensor files, and every tensor it finds through the reader. What
 * must hold beyond "no crash": what opens can be read or is refused as unsupported, a tensor has
 * the size it was announced with, and no allocation is out of proportion to the input.
 */
#ifndef NIB_TESTS_FUZZ_FILE_H
#define NIB_TESTS_FUZZ_FILE_H

#include <stdio.h>
#include <stdlib.h>

#include "io/file.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void *bounded_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    REQUIRE(new_bytes <= *(const size_t *)user);
    return realloc(ptr, new_bytes);
}

static void read_all(nib_file *file, bool may_be_damaged)
{
    for (size_t i = 0; i < nib_file_count(file); i++) {
        const nib_file_entry entry = nib_file_describe(file, i);
        REQUIRE(nib_file_find(file, entry.name) == i);
        nib_tensor *tensor;
        nib_error error = {0};
        size_t bytes;
        const nib_status status = nib_file_read(file, i, &tensor, &error);
        if (status == NIB_OK) {
            REQUIRE(nib_tensor_desc_bytes(&entry.desc, &bytes, NULL) == NIB_OK);
            REQUIRE(nib_tensor_bytes(tensor) == bytes);
            REQUIRE(nib_desc_equal(nib_tensor_describe(tensor), &entry.desc));
            nib_tensor_free(tensor);
        } else {
            REQUIRE(status == NIB_UNSUPPORTED || (may_be_damaged && status == NIB_FORMAT));
            REQUIRE(error.code == status && error.message[0]);
        }
        nib_tensor *packed, *scales;
        if (nib_file_read_nbits(file, i, &packed, &scales, NULL) == NIB_OK) {
            nib_tensor_free(packed);
            nib_tensor_free(scales);
        }
    }
}

static int fuzz_file(nib_file_kind kind, const uint8_t *data, size_t size, size_t growth)
{
    size_t limit = growth * size + (1 << 20);
    const nib_context_options options = {.allocator = {bounded_resize, &limit}};
    nib_context *context;
    nib_file *file;
    nib_error error = {0};
    REQUIRE(nib_context_create(&options, &context, NULL) == NIB_OK);
    const nib_status status = nib_file_parse(context, kind, data, size, "input", &file, &error);
    REQUIRE((status == NIB_OK) == (file != NULL));
    REQUIRE(error.code == status);
    if (file)
        read_all(file, kind == NIB_FILE_NPZ);
    nib_file_free(file);
    nib_context_free(context);
    return 0;
}

#endif
