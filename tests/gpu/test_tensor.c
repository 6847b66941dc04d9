/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors on the device: what goes in comes out, in every layout, and nothing around it changes.
 */
#include "gpu_test.h"

typedef struct fixture {
    nib_context *context;
    nib_device *device;
    rng r;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->context = new_context();
    f->device = open_gpu(f->context);
    f->r.state = 20260131;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ASSERT_OK(nib_webgpu_device_status(f->device, &error)); /* the device reported nothing */
    nib_device_free(f->device);
    nib_context_free(f->context);
    free(f);
    return 0;
}

static void writes_and_reads_every_dtype(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *desc;
        nib_webgpu_layout layout;
    } rows[] = {{"float32[3,5]", NIB_WEBGPU_NATURAL}, {"float16[1,3]", NIB_WEBGPU_NATURAL},
                {"float16[7,9]", NIB_WEBGPU_NATURAL}, {"uint8[15]", NIB_WEBGPU_NATURAL},
                {"uint8[15]", NIB_WEBGPU_PACKED},     {"uint8[70001]", NIB_WEBGPU_NATURAL},
                {"uint8[70001]", NIB_WEBGPU_PACKED},  {"int8[301]", NIB_WEBGPU_NATURAL},
                {"int16[301]", NIB_WEBGPU_NATURAL},   {"int64[11]", NIB_WEBGPU_NATURAL},
                {"uint32[]", NIB_WEBGPU_NATURAL},     {"float32[0,4]", NIB_WEBGPU_NATURAL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const nib_tensor_desc desc = desc_of(rows[i].desc);
        nib_tensor *tensor;
        ASSERT_OK(nib_webgpu_tensor_create(f->device, &desc, rows[i].layout, &tensor, &error));
        assert_null(nib_tensor_data(tensor));
        const size_t bytes = nib_tensor_bytes(tensor);
        unsigned char *in = malloc(bytes + 1), *out = malloc(bytes + 1);
        rng_bytes(&f->r, in, bytes + 1);
        memset(out, 0x5a, bytes + 1);
        ASSERT_OK(nib_webgpu_tensor_write(f->device, tensor, in, bytes, &error));
        ASSERT_OK(nib_webgpu_tensor_read(f->device, tensor, out, bytes, &error));
        assert_memory_equal(in, out, bytes);
        assert_int_equal(out[bytes], 0x5a);
        ASSERT_FAILS(nib_webgpu_tensor_write(f->device, tensor, in, bytes + 1, &error), NIB_INVALID_ARGUMENT, "bytes");
        free(in);
        free(out);
        nib_tensor_free(tensor);
    }
}

static void fresh_tensors_are_zero(void **state)
{
    fixture *f = *state;
    const nib_tensor_desc desc = desc_of("float32[1000]");
    nib_tensor *tensor;
    float out[1000];
    memset(out, 0xff, sizeof out);
    ASSERT_OK(nib_webgpu_tensor_create(f->device, &desc, NIB_WEBGPU_NATURAL, &tensor, &error));
    ASSERT_OK(nib_webgpu_tensor_read(f->device, tensor, out, sizeof out, &error));
    for (size_t i = 0; i < 1000; i++)
        assert_true(out[i] == 0.0f);
    nib_tensor_free(tensor);
}

/* Bytes that are NaN patterns of float16 and float32 come back as they went in. */
static void keeps_nan_patterns(void **state)
{
    fixture *f = *state;
    const uint16_t half[] = {0x7c01, 0x7fff, 0xffff, 0x7c00, 0xfc01, 0x7e00, 0x8000};
    const uint32_t word[] = {0x7f800001, 0xffffffff, 0x7fc00001};
    const nib_tensor_desc half_desc = desc_of("float16[7]"), word_desc = desc_of("float32[3]");
    uint16_t half_copy[7], half_back[7];
    memcpy(half_copy, half, sizeof half);
    nib_tensor *host, *device;
    ASSERT_OK(nib_tensor_borrow(f->context, &half_desc, half_copy, sizeof half_copy, &host, &error));
    WGPUBuffer buffer;
    uint64_t offset, size;
    ASSERT_OK(nib_webgpu_tensor_buffer(f->device, host, NIB_WEBGPU_NATURAL, &buffer, &offset, &size, &error));
    assert_int_equal(size, 16);
    ASSERT_OK(nib_webgpu_tensor_read(f->device, host, half_back, sizeof half_back, &error));
    assert_memory_equal(half, half_back, sizeof half);
    uint32_t word_back[3];
    ASSERT_OK(nib_webgpu_tensor_create(f->device, &word_desc, NIB_WEBGPU_NATURAL, &device, &error));
    ASSERT_OK(nib_webgpu_tensor_write(f->device, device, word, sizeof word, &error));
    ASSERT_OK(nib_webgpu_tensor_read(f->device, device, word_back, sizeof word_back, &error));
    assert_memory_equal(word, word_back, sizeof word);
    nib_tensor_free(host);
    nib_tensor_free(device);
}

static WGPUBuffer new_buffer(fixture *f, size_t bytes, WGPUBufferUsage usage)
{
    const WGPUBufferDescriptor descriptor = {.usage = usage, .size = bytes};
    return wgpuDeviceCreateBuffer(gpu_of(f->device)->device, &descriptor);
}

static const WGPUBufferUsage ALL_USES = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;

static void wraps_a_range_and_touches_nothing_else(void **state)
{
    fixture *f = *state;
    enum { BYTES = 2048, OFFSET = 512, COUNT = 301 };
    WGPUBuffer buffer = new_buffer(f, BYTES, ALL_USES);
    const nib_tensor_desc whole_desc = desc_of("uint32[512]"), desc = desc_of("float16[301]");
    nib_tensor *whole, *part;
    ASSERT_OK(nib_webgpu_tensor_wrap(f->device, buffer, 0, BYTES, &whole_desc, NIB_WEBGPU_NATURAL, &whole, &error));
    ASSERT_OK(nib_webgpu_tensor_wrap(f->device, buffer, OFFSET, 604, &desc, NIB_WEBGPU_NATURAL, &part, &error));
    unsigned char guard[BYTES], back[BYTES];
    uint16_t values[COUNT];
    memset(guard, 0xee, sizeof guard);
    rng_bytes(&f->r, values, sizeof values);
    ASSERT_OK(nib_webgpu_tensor_write(f->device, whole, guard, sizeof guard, &error));
    ASSERT_OK(nib_webgpu_tensor_write(f->device, part, values, sizeof values, &error));
    ASSERT_OK(nib_webgpu_tensor_read(f->device, whole, back, sizeof back, &error));
    for (size_t i = 0; i < BYTES; i++) {
        if (i < OFFSET || i >= OFFSET + 604)
            assert_int_equal(back[i], 0xee);
    }
    assert_memory_equal(back + OFFSET, values, sizeof values);
    assert_int_equal(back[OFFSET + 602], 0); /* the padding to 4 bytes belongs to the range */

    WGPUBuffer same;
    uint64_t offset, size;
    ASSERT_OK(nib_webgpu_tensor_buffer(f->device, part, NIB_WEBGPU_NATURAL, &same, &offset, &size, &error));
    assert_ptr_equal(same, buffer);
    assert_int_equal(offset, OFFSET);
    assert_int_equal(size, 604);
    nib_tensor_free(part);
    nib_tensor_free(whole);
    /* Freed tensors left the caller's buffer alive. */
    uint32_t word = 7;
    wgpuQueueWriteBuffer(gpu_of(f->device)->queue, buffer, 0, &word, 4);
    ASSERT_OK(nib_webgpu_wait(f->device, &error));
    wgpuBufferDestroy(buffer);
    wgpuBufferRelease(buffer);
}

static void refuses_ranges_that_do_not_fit(void **state)
{
    fixture *f = *state;
    WGPUBuffer buffer = new_buffer(f, 1024, ALL_USES), copy_only = new_buffer(f, 1024, WGPUBufferUsage_CopyDst);
    WGPUBuffer mute = new_buffer(f, 1024, WGPUBufferUsage_Storage);
    const nib_tensor_desc desc = desc_of("float16[1,3]"), bytes = desc_of("float32[8]");
    nib_tensor *t;
    static const struct {
        uint64_t offset, size;
        const char *says;
    } rows[] = {{4, 8, "multiple of minStorageBufferOffsetAlignment"},
                {0, 6, "needs 8 bytes"},
                {1024, 8, "outside the buffer"},
                {256, 1024, "outside the buffer"},
                {UINT64_MAX - 255, 512, "outside the buffer"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASSERT_FAILS(nib_webgpu_tensor_wrap(f->device, buffer, rows[i].offset, rows[i].size, &desc, NIB_WEBGPU_NATURAL, &t,
                                            &error),
                     NIB_INVALID_ARGUMENT, rows[i].says);
        assert_null(t);
    }
    ASSERT_FAILS(nib_webgpu_tensor_wrap(f->device, copy_only, 0, 8, &desc, NIB_WEBGPU_NATURAL, &t, &error),
                 NIB_INVALID_ARGUMENT, "without usage Storage");
    ASSERT_FAILS(nib_webgpu_tensor_wrap(f->device, buffer, 0, 8, &desc, NIB_WEBGPU_PACKED, &t, &error),
                 NIB_INVALID_ARGUMENT, "only uint8");
    ASSERT_FAILS(nib_webgpu_tensor_wrap(f->device, NULL, 0, 8, &desc, NIB_WEBGPU_NATURAL, &t, &error),
                 NIB_INVALID_ARGUMENT, "NULL");
    ASSERT_OK(nib_webgpu_tensor_wrap(f->device, mute, 0, 32, &bytes, NIB_WEBGPU_NATURAL, &t, &error));
    float values[8] = {0};
    ASSERT_FAILS(nib_webgpu_tensor_write(f->device, t, values, sizeof values, &error), NIB_INVALID_ARGUMENT,
                 "without usage CopyDst");
    ASSERT_FAILS(nib_webgpu_tensor_read(f->device, t, values, sizeof values, &error), NIB_INVALID_ARGUMENT,
                 "without usage CopySrc");
    nib_tensor_free(t);
    wgpuBufferRelease(buffer);
    wgpuBufferRelease(copy_only);
    wgpuBufferRelease(mute);
}

/* A binding beyond the limit is refused by name, before anything is allocated. */
static void refuses_what_exceeds_the_limits(void **state)
{
    fixture *f = *state;
    nib_tensor_desc desc = {.dtype = NIB_UINT8, .rank = 1};
    desc.dims[0] = (int64_t)(gpu_of(f->device)->max_binding_bytes / 4 + 1);
    nib_tensor *t;
    ASSERT_FAILS(nib_webgpu_tensor_create(f->device, &desc, NIB_WEBGPU_NATURAL, &t, &error), NIB_LIMIT,
                 "maxStorageBufferBindingSize");
    ASSERT_OK(nib_webgpu_device_status(f->device, &error));
    desc.dims[0] = INT64_MAX / 2;
    ASSERT_FAILS(nib_webgpu_tensor_create(f->device, &desc, NIB_WEBGPU_NATURAL, &t, &error), NIB_LIMIT,
                 "maxStorageBufferBindingSize");
}

/* Tensors and devices may go in either order. */
static void outlives_its_device(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *first = open_gpu(context), *second = open_gpu(context);
    const nib_tensor_desc desc = desc_of("float32[64]");
    nib_tensor *host, *device_only;
    ASSERT_OK(nib_tensor_create(context, &desc, &host, &error));
    ASSERT_OK(nib_webgpu_tensor_create(first, &desc, NIB_WEBGPU_NATURAL, &device_only, &error));
    WGPUBuffer a, b;
    uint64_t offset, size;
    ASSERT_OK(nib_webgpu_tensor_buffer(first, host, NIB_WEBGPU_NATURAL, &a, &offset, &size, &error));
    ASSERT_OK(nib_webgpu_tensor_buffer(second, host, NIB_WEBGPU_NATURAL, &b, &offset, &size, &error));
    assert_ptr_not_equal(a, b);
    ASSERT_FAILS(nib_webgpu_tensor_buffer(second, device_only, NIB_WEBGPU_NATURAL, &b, &offset, &size, &error),
                 NIB_REQUEST, "another device");
    nib_device_free(first);
    float out[64];
    ASSERT_OK(nib_webgpu_tensor_read(second, host, out, sizeof out, &error));
    ASSERT_FAILS(nib_webgpu_tensor_read(second, device_only, out, sizeof out, &error), NIB_INVALID_ARGUMENT,
                 "does not live on this device");
    nib_tensor_free(host);
    nib_tensor_free(device_only);
    nib_device_free(second);
    nib_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_and_reads_every_dtype, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fresh_tensors_are_zero, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_nan_patterns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wraps_a_range_and_touches_nothing_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_ranges_that_do_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_exceeds_the_limits, set_up, tear_down),
        cmocka_unit_test(outlives_its_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
