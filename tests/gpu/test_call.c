/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls over small packages: running from host to host, encoding, scratch, aliasing, errors of shaders.
 */
#include <math.h>
#include <time.h>

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
    f->r.state = 77001;
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

/* ---- a call and its parts ---- */

typedef struct setup {
    nib_package *package;
    nib_plan *plan;
    nib_call *call;
} setup;

static nib_status make_setup(fixture *f, const char *package, const nib_named_desc *tensors, size_t tensor_count,
                             const nib_named_scalar *attributes, size_t attribute_count, setup *out, nib_error *error)
{
    char path[512];
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, NIB_SOURCE_DIR "/tests/gpu/packages/%s", package);
    NIB_TRY(nib_package_load(f->context, path, NULL, &out->package, error));
    const nib_request request = {.tensors = tensors,
                                 .tensor_count = tensor_count,
                                 .attributes = attributes,
                                 .attribute_count = attribute_count};
    NIB_TRY(nib_plan_create(out->package, &request, nib_device_caps(f->device), &out->plan, error));
    return nib_call_prepare(f->device, out->plan, NULL, &out->call, error);
}

static void free_setup(setup *s)
{
    nib_call_free(s->call);
    nib_plan_free(s->plan);
    nib_package_free(s->package);
}

static nib_tensor *borrow(fixture *f, const char *text, void *data)
{
    const nib_tensor_desc desc = desc_of(text);
    size_t bytes;
    nib_tensor *tensor;
    ASSERT_OK(nib_tensor_desc_bytes(&desc, &bytes, &error));
    ASSERT_OK(nib_tensor_borrow(f->context, &desc, data, bytes, &tensor, &error));
    return tensor;
}

static setup affine(fixture *f, const char *desc)
{
    const nib_named_desc tensors[] = {{"X", desc_of(desc)}};
    setup s;
    ASSERT_OK(make_setup(f, "affine", tensors, 1, NULL, 0, &s, &error));
    return s;
}

/* ---- running ---- */

static void runs_from_host_to_host(void **state)
{
    fixture *f = *state;
    setup s = affine(f, "float32[7,11]");
    float x[77];
    nib_tensor *in = borrow(f, "float32[7,11]", x);
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    for (int run = 0; run < 3; run++) {
        for (size_t i = 0; i < 77; i++)
            x[i] = (float)(rng_next(&f->r) % 1000) - 500.0f;
        ASSERT_OK(nib_call_run(s.call, &error)); /* sees the new values: x was not promised to stay */
        const float *y = nib_tensor_data(nib_call_tensor(s.call, "Y"));
        for (size_t i = 0; i < 77; i++)
            assert_true(y[i] == 2.0f * x[i] + 0.5f);
    }
    print_message("%s\n", nib_call_description(s.call));
    free_setup(&s);
    nib_tensor_free(in);
}

static void sends_constants_once(void **state)
{
    fixture *f = *state;
    setup s = affine(f, "float32[4]");
    float x[4] = {1, 2, 3, 4};
    nib_tensor *in = borrow(f, "float32[4]", x);
    nib_tensor_set_constant(in, true);
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    x[0] = 100; /* breaks the promise, and so tells whether the memory was read again */
    ASSERT_OK(nib_call_run(s.call, &error));
    const float *y = nib_tensor_data(nib_call_tensor(s.call, "Y"));
    assert_true(y[0] == 2.5f);
    ASSERT_OK(nib_webgpu_tensor_write(f->device, in, NULL, 0, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    assert_true(y[0] == 200.5f);
    free_setup(&s);
    nib_tensor_free(in);
}

/* Half precision, an odd count: the last word is half padding. */
static void runs_odd_counts_of_float16(void **state)
{
    fixture *f = *state;
    if (!nib_caps_has_feature(nib_device_caps(f->device), "shader-f16")) {
        print_message("NOT RUN: no shader-f16\n");
        skip();
    }
    setup s = affine(f, "float16[1,3]");
    uint16_t x[3] = {nib_half_from_float(1.0f), nib_half_from_float(-3.0f), nib_half_from_float(0.25f)};
    nib_tensor *in = borrow(f, "float16[1,3]", x);
    struct {
        uint16_t values[3], guard;
    } y = {{0, 0, 0}, 0x1234};
    nib_tensor *out = borrow(f, "float16[1,3]", y.values);
    ASSERT_OK(nib_call_bind(s.call, "x", in, &error));
    ASSERT_OK(nib_call_bind(s.call, "y", out, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    assert_true(nib_half_to_float(y.values[0]) == 2.5f);
    assert_true(nib_half_to_float(y.values[1]) == -5.5f);
    assert_true(nib_half_to_float(y.values[2]) == 1.0f);
    assert_int_equal(y.guard, 0x1234);
    free_setup(&s);
    nib_tensor_free(in);
    nib_tensor_free(out);
}

static void runs_empty_tensors_without_dispatch(void **state)
{
    fixture *f = *state;
    setup s = affine(f, "float32[0,11]");
    assert_int_equal(((nib_wgpu_call *)s.call)->step_count, 0);
    const nib_tensor_desc desc = desc_of("float32[0,11]");
    nib_tensor *in;
    ASSERT_OK(nib_tensor_create(f->context, &desc, &in, &error));
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    assert_int_equal(nib_tensor_describe(nib_call_tensor(s.call, "Y"))->dims[1], 11);
    ASSERT_OK(nib_webgpu_submit(f->device, &s.call, 1, &error));
    free_setup(&s);
    nib_tensor_free(in);
}

/* More than 65,535 workgroups: the dispatch is folded into two dimensions. */
static void folds_large_dispatches(void **state)
{
    fixture *f = *state;
    enum { COUNT = 65535 * 64 + 1000 };
    char desc[64];
    snprintf(desc, sizeof desc, "float32[%d]", (int)COUNT);
    setup s = affine(f, desc);
    const nib_wgpu_call *call = (nib_wgpu_call *)s.call;
    assert_int_equal(call->steps[0].dispatch[0], 65535);
    assert_int_equal(call->steps[0].dispatch[1], 2);
    float *x = malloc(COUNT * sizeof *x);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(i % 100003);
    nib_tensor *in = borrow(f, desc, x);
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    const float *y = nib_tensor_data(nib_call_tensor(s.call, "Y"));
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++)
        wrong += y[i] != 2.0f * x[i] + 0.5f;
    assert_int_equal(wrong, 0);
    free_setup(&s);
    nib_tensor_free(in);
    free(x);
}

static void moves_every_layout(void **state)
{
    fixture *f = *state;
    enum { COUNT = 301 };
    uint8_t packed[COUNT], u8[COUNT];
    int8_t i8[COUNT];
    int16_t i16[COUNT];
    int64_t i64[COUNT];
    rng_bytes(&f->r, packed, sizeof packed);
    rng_bytes(&f->r, u8, sizeof u8);
    rng_bytes(&f->r, i16, sizeof i16);
    for (size_t i = 0; i < COUNT; i++) {
        i8[i] = (int8_t)((int)(rng_next(&f->r) % 201) - 100);
        i64[i] = (int64_t)(i % 3) - 1;
    }
    static const char *const descs[] = {"uint8[301]", "uint8[301]", "int8[301]", "int16[301]", "int64[301]"};
    static const char *const names[] = {"packed", "u8", "i8", "i16", "i64"};
    void *const data[] = {packed, u8, i8, i16, i64};
    nib_named_desc tensors[5];
    nib_tensor *in[5];
    for (size_t i = 0; i < 5; i++)
        tensors[i] = (nib_named_desc){names[i], desc_of(descs[i])};
    setup s;
    ASSERT_OK(make_setup(f, "layouts", tensors, 5, NULL, 0, &s, &error));
    for (size_t i = 0; i < 5; i++) {
        in[i] = borrow(f, descs[i], data[i]);
        ASSERT_OK(nib_call_bind(s.call, names[i], in[i], &error));
    }
    ASSERT_OK(nib_call_run(s.call, &error));
    assert_memory_equal(nib_tensor_data(nib_call_tensor(s.call, "packedOut")), packed, sizeof packed);
    assert_memory_equal(nib_tensor_data(nib_call_tensor(s.call, "u8Out")), u8, sizeof u8);
    assert_memory_equal(nib_tensor_data(nib_call_tensor(s.call, "i16Out")), i16, sizeof i16);
    const int8_t *sum = nib_tensor_data(nib_call_tensor(s.call, "i8Out"));
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(sum[i], i8[i] + i64[i]);
    i64[300] = (int64_t)1 << 40;
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_REQUEST, "element 300 is 1099511627776");
    free_setup(&s);
    for (size_t i = 0; i < 5; i++)
        nib_tensor_free(in[i]);
}

/* ---- scratch, several passes ---- */

static nib_named_scalar mode(const char *name)
{
    return (nib_named_scalar){.name = "mode", .kind = NIB_SCALAR_STRING, .string = name};
}

/* zero_init scratch is zero on every run, also when calls take turns on the shared slot. */
static void clears_scratch_on_every_run(void **state)
{
    fixture *f = *state;
    static const char *const modes[] = {"sum", "wait"};
    setup s[2];
    float x[100], total = 0;
    for (size_t i = 0; i < 100; i++) {
        x[i] = (float)(rng_next(&f->r) % 50);
        total += x[i];
    }
    nib_tensor *in = borrow(f, "float32[100]", x);
    for (size_t i = 0; i < 2; i++) {
        const nib_named_desc tensors[] = {{"x", desc_of("float32[100]")}};
        const nib_named_scalar attributes[] = {mode(modes[i])};
        ASSERT_OK(make_setup(f, "stages", tensors, 1, attributes, 1, &s[i], &error));
        ASSERT_OK(nib_call_bind(s[i].call, "x", in, &error));
    }
    for (int run = 0; run < 3; run++) {
        for (size_t i = 0; i < 2; i++) {
            ASSERT_OK(nib_call_run(s[i].call, &error));
            const float *y = nib_tensor_data(nib_call_tensor(s[i].call, "y"));
            for (size_t k = 0; k < 100; k++)
                assert_true(y[k] == x[k] + total + 100.0f / 1024.0f);
        }
    }
    ASSERT_FAILS(nib_webgpu_submit(f->device, &s[1].call, 1, &error), NIB_UNSUPPORTED, "submitAfter");
    free_setup(&s[0]);
    free_setup(&s[1]);
    nib_tensor_free(in);
}

static void updates_tensors_in_place(void **state)
{
    fixture *f = *state;
    const nib_named_desc tensors[] = {{"x", desc_of("float32[5]")}, {"state", desc_of("float32[5]")}};
    const nib_named_scalar attributes[] = {mode("state")};
    setup s;
    ASSERT_OK(make_setup(f, "stages", tensors, 2, attributes, 1, &s, &error));
    float x[5] = {1, 2, 3, 4, 5}, value[5] = {1, 1, 1, 1, 1};
    nib_tensor *in = borrow(f, "float32[5]", x), *kept = borrow(f, "float32[5]", value);
    ASSERT_OK(nib_call_bind(s.call, "x", in, &error));
    ASSERT_OK(nib_call_bind(s.call, "state", kept, &error));
    for (int run = 1; run <= 4; run++) {
        ASSERT_OK(nib_call_run(s.call, &error));
        const float *y = nib_tensor_data(nib_call_tensor(s.call, "y"));
        for (size_t i = 0; i < 5; i++) {
            assert_true(value[i] == (float)(1 << run));
            assert_true(y[i] == x[i] + (float)(1 << run));
        }
    }
    /* Left on the device, the value goes on from where it was. */
    ASSERT_OK(nib_webgpu_submit(f->device, &s.call, 1, &error));
    ASSERT_OK(nib_webgpu_submit(f->device, &s.call, 1, &error));
    assert_true(value[0] == 16.0f);
    ASSERT_OK(nib_call_run(s.call, &error));
    assert_true(value[0] == 128.0f);
    free_setup(&s);
    nib_tensor_free(in);
    nib_tensor_free(kept);
}

static void skips_a_view_onto_itself(void **state)
{
    fixture *f = *state;
    const nib_named_desc tensors[] = {{"x", desc_of("float32[64]")}};
    const nib_named_scalar attributes[] = {mode("view")};
    setup s;
    ASSERT_OK(make_setup(f, "stages", tensors, 1, attributes, 1, &s, &error));
    const nib_tensor_desc desc = desc_of("float32[64]");
    nib_tensor *same;
    ASSERT_OK(nib_webgpu_tensor_create(f->device, &desc, NIB_WEBGPU_NATURAL, &same, &error));
    float x[64];
    for (size_t i = 0; i < 64; i++)
        x[i] = (float)i;
    ASSERT_OK(nib_webgpu_tensor_write(f->device, same, x, sizeof x, &error));
    ASSERT_OK(nib_call_bind(s.call, "x", same, &error));
    ASSERT_OK(nib_call_bind(s.call, "y", same, &error));
    ASSERT_OK(nib_call_run(s.call, &error)); /* as a dispatch it would be an alias */
    assert_true(((nib_wgpu_call *)s.call)->steps[0].skipped);
    float y[64];
    ASSERT_OK(nib_webgpu_tensor_read(f->device, same, y, sizeof y, &error));
    assert_memory_equal(x, y, sizeof x);
    free_setup(&s);
    nib_tensor_free(same);
}

/* ---- the caller's buffers ---- */

static const WGPUBufferUsage ALL_USES =
    WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;

static WGPUBuffer new_buffer(fixture *f, size_t bytes)
{
    const WGPUBufferDescriptor descriptor = {.usage = ALL_USES, .size = bytes};
    return wgpuDeviceCreateBuffer(gpu_of(f->device)->device, &descriptor);
}

static nib_tensor *wrap(fixture *f, WGPUBuffer buffer, uint64_t offset, uint64_t size, const char *text)
{
    const nib_tensor_desc desc = desc_of(text);
    nib_tensor *tensor;
    ASSERT_OK(nib_webgpu_tensor_wrap(f->device, buffer, offset, size, &desc, NIB_WEBGPU_NATURAL, &tensor, &error));
    return tensor;
}

static void finds_aliases_before_submitting(void **state)
{
    fixture *f = *state;
    setup s = affine(f, "float32[64]");
    WGPUBuffer one = new_buffer(f, 1024), two = new_buffer(f, 1024);
    nib_tensor *x = wrap(f, one, 0, 256, "float32[64]"), *over = wrap(f, one, 256, 256, "float32[64]");
    nib_tensor *apart = wrap(f, two, 256, 256, "float32[64]");
    ASSERT_OK(nib_call_bind(s.call, "X", x, &error));
    ASSERT_OK(nib_call_bind(s.call, "Y", x, &error));
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_ALIAS, "x and y lie in one buffer");
    ASSERT_OK(nib_call_bind(s.call, "Y", over, &error)); /* ranges that touch are still one buffer */
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_ALIAS, "x and y lie in one buffer");
    ASSERT_FAILS(nib_webgpu_submit(f->device, &s.call, 1, &error), NIB_ALIAS, "whatever the ranges");
    ASSERT_OK(nib_call_bind(s.call, "Y", apart, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    free_setup(&s);
    nib_tensor_free(x);
    nib_tensor_free(over);
    nib_tensor_free(apart);
    wgpuBufferRelease(one);
    wgpuBufferRelease(two);
}

/* Guard bytes all around a wrapped output keep their value. */
static void writes_only_its_output(void **state)
{
    fixture *f = *state;
    enum { BYTES = 4096, OFFSET = 1024, COUNT = 77 };
    setup s = affine(f, "float32[77]");
    WGPUBuffer buffer = new_buffer(f, BYTES);
    unsigned char guard[BYTES], back[BYTES];
    rng_bytes(&f->r, guard, sizeof guard);
    nib_tensor *all = wrap(f, buffer, 0, BYTES, "uint32[1024]");
    nib_tensor *y = wrap(f, buffer, OFFSET, COUNT * 4, "float32[77]");
    float x[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)i;
    nib_tensor *in = borrow(f, "float32[77]", x);
    ASSERT_OK(nib_webgpu_tensor_write(f->device, all, guard, sizeof guard, &error));
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    ASSERT_OK(nib_call_bind(s.call, "Y", y, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    ASSERT_OK(nib_webgpu_tensor_read(f->device, all, back, sizeof back, &error));
    assert_memory_equal(back, guard, OFFSET);
    assert_memory_equal(back + OFFSET + COUNT * 4, guard + OFFSET + COUNT * 4, BYTES - OFFSET - COUNT * 4);
    for (size_t i = 0; i < COUNT; i++) {
        float value;
        memcpy(&value, back + OFFSET + 4 * i, 4);
        assert_true(value == 2.0f * x[i] + 0.5f);
    }
    free_setup(&s);
    nib_tensor_free(all);
    nib_tensor_free(y);
    nib_tensor_free(in);
    wgpuBufferRelease(buffer);
}

/* A chain of calls in the caller's command buffer: each reads what the one before wrote. */
static void encodes_a_chain_into_one_encoder(void **state)
{
    fixture *f = *state;
    enum { LINKS = 5 };
    setup s[LINKS];
    nib_tensor *t[LINKS + 1];
    const nib_tensor_desc desc = desc_of("float32[33]");
    for (size_t i = 0; i <= LINKS; i++)
        ASSERT_OK(nib_webgpu_tensor_create(f->device, &desc, NIB_WEBGPU_NATURAL, &t[i], &error));
    for (size_t i = 0; i < LINKS; i++) {
        s[i] = affine(f, "float32[33]");
        ASSERT_OK(nib_call_bind(s[i].call, "X", t[i], &error));
        ASSERT_OK(nib_call_bind(s[i].call, "Y", t[i + 1], &error));
    }
    float x[33], y[33];
    for (int run = 0; run < 2; run++) {
        for (size_t i = 0; i < 33; i++)
            x[i] = (float)i + (float)run;
        ASSERT_OK(nib_webgpu_tensor_write(f->device, t[0], x, sizeof x, &error));
        WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(gpu_of(f->device)->device, NULL);
        for (size_t i = 0; i + 1 < LINKS; i++)
            ASSERT_OK(nib_webgpu_call_encode(s[i].call, encoder, &error));
        WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
        ASSERT_OK(nib_webgpu_call_encode_pass(s[LINKS - 1].call, pass, &error));
        wgpuComputePassEncoderEnd(pass);
        wgpuComputePassEncoderRelease(pass);
        WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
        wgpuQueueSubmit(gpu_of(f->device)->queue, 1, &commands);
        wgpuCommandBufferRelease(commands);
        wgpuCommandEncoderRelease(encoder);
        ASSERT_OK(nib_webgpu_tensor_read(f->device, t[LINKS], y, sizeof y, &error));
        for (size_t i = 0; i < 33; i++) {
            float want = x[i];
            for (size_t link = 0; link < LINKS; link++)
                want = 2.0f * want + 0.5f;
            assert_true(y[i] == want);
        }
    }
    for (size_t i = 0; i < LINKS; i++)
        free_setup(&s[i]);
    for (size_t i = 0; i <= LINKS; i++)
        nib_tensor_free(t[i]);
}

/* An output nobody binds stays on the device; a host tensor between two encoded calls is not sent again. */
static void keeps_results_on_the_device(void **state)
{
    fixture *f = *state;
    setup first = affine(f, "float32[3]"), second = affine(f, "float32[3]");
    float x[3] = {1, 2, 3}, between[3] = {0, 0, 0}, y[3];
    nib_tensor *in = borrow(f, "float32[3]", x), *middle = borrow(f, "float32[3]", between);
    ASSERT_OK(nib_call_bind(first.call, "X", in, &error));
    ASSERT_OK(nib_call_bind(first.call, "Y", middle, &error));
    ASSERT_OK(nib_call_bind(second.call, "X", middle, &error));
    nib_call *both[] = {first.call, second.call};
    ASSERT_OK(nib_webgpu_submit(f->device, both, 2, &error));
    nib_tensor *out = nib_call_tensor(second.call, "Y");
    assert_null(nib_tensor_data(out));
    ASSERT_OK(nib_webgpu_tensor_read(f->device, out, y, sizeof y, &error));
    assert_true(y[0] == 5.5f && y[1] == 9.5f && y[2] == 13.5f);
    assert_true(between[0] == 0.0f); /* nobody asked for it */
    ASSERT_OK(nib_call_run(second.call, &error)); /* and the run does not send the stale zeros either */
    ASSERT_OK(nib_webgpu_tensor_read(f->device, out, y, sizeof y, &error));
    assert_true(y[0] == 5.5f);
    ASSERT_OK(nib_webgpu_tensor_read(f->device, middle, NULL, 0, &error));
    assert_true(between[0] == 2.5f && between[2] == 6.5f);
    free_setup(&first);
    free_setup(&second);
    nib_tensor_free(in);
    nib_tensor_free(middle);
}

static void needs_its_inputs(void **state)
{
    fixture *f = *state;
    setup s = affine(f, "float32[3]");
    ASSERT_FAILS(nib_webgpu_submit(f->device, &s.call, 1, &error), NIB_REQUEST, "input 'x' (X) is not bound");
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_REQUEST, "input 'x' (X) is not bound");
    free_setup(&s);
}

/* ---- pipelines ---- */

static void shares_pipelines(void **state)
{
    fixture *f = *state;
    nib_wgpu_device *gpu = gpu_of(f->device);
    setup a = affine(f, "float32[10]"), b = affine(f, "float32[20]");
    assert_ptr_equal(((nib_wgpu_call *)a.call)->steps[0].pipeline, ((nib_wgpu_call *)b.call)->steps[0].pipeline);
    assert_int_equal(gpu->pipeline_count, 1);
    free_setup(&a);
    free_setup(&b);
    assert_int_equal(gpu->pipeline_count, 1); /* stays for the next call */
    setup c = affine(f, "float32[5]");
    assert_int_equal(gpu->pipeline_count, 1);
    free_setup(&c);
}

static void prepares_several_calls_at_once(void **state)
{
    fixture *f = *state;
    enum { COUNT = 6 };
    setup s[COUNT];
    const nib_plan *plans[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        char desc[32], path[512];
        snprintf(desc, sizeof desc, "float32[%zu]", 10 + i);
        const nib_named_desc tensors[] = {{"x", desc_of(desc)}};
        const nib_named_scalar attributes[] = {mode(i % 2 ? "view" : "sum")};
        const nib_request request = {
            .tensors = tensors, .tensor_count = 1, .attributes = attributes, .attribute_count = 1};
        memset(&s[i], 0, sizeof s[i]);
        snprintf(path, sizeof path, NIB_SOURCE_DIR "/tests/gpu/packages/stages");
        ASSERT_OK(nib_package_load(f->context, path, NULL, &s[i].package, &error));
        ASSERT_OK(nib_plan_create(s[i].package, &request, nib_device_caps(f->device), &s[i].plan, &error));
        plans[i] = s[i].plan;
    }
    nib_call *calls[COUNT];
    ASSERT_OK(nib_webgpu_prepare(f->device, plans, COUNT, calls, &error));
    /* fill, sum and add once each; copy bakes the count in, so three of them */
    assert_int_equal(gpu_of(f->device)->pipeline_count, 6);
    for (size_t i = 0; i < COUNT; i++) {
        s[i].call = calls[i];
        free_setup(&s[i]);
    }
}

static void reports_shader_errors_in_template_terms(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *how, *file;
        uint32_t line, column;
        const char *says;
    } rows[] = {{"name", "name.wgsl.jinja", 10, 29, "unresolved value 'absent12'"},
                {"included", "parts/helper.wgsl.jinja", 3, 5, "vec2"},
                {"twins", "twins.wgsl.jinja", 17, 22, "absent"}, /* not its twin above, which was not rendered */
                {"entry", "", 0, 0, "main"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const nib_named_desc tensors[] = {{"x", desc_of("float32[12]")}};
        const nib_named_scalar attributes[] = {
            {.name = "how", .kind = NIB_SCALAR_STRING, .string = rows[i].how}};
        setup s;
        nib_error found = {0};
        assert_int_equal(make_setup(f, "broken", tensors, 1, attributes, 1, &s, &found), NIB_SHADER);
        show_error("as expected", NIB_SHADER, &found);
        assert_string_equal(found.source, rows[i].file);
        assert_int_equal(found.line, rows[i].line);
        assert_int_equal(found.column, rows[i].column);
        assert_non_null(strstr(found.message, rows[i].says));
        assert_non_null(strstr(found.message, "test.Broken, variant "));
        assert_null(s.call);
        free_setup(&s);
    }
    assert_int_equal(gpu_of(f->device)->pipeline_count, 0); /* failures are not kept */
}

/* ---- what encoding costs ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct counter {
    size_t allocations;
} counter;

static void *counting_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    counter *c = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    c->allocations++;
    return realloc(ptr, new_bytes);
}

/* Encoding a prepared call costs at most 5 us a pass on the host, and allocates nothing of ours. */
static void encoding_is_cheap(void **state)
{
    (void)state;
    counter c = {0};
    const nib_context_options options = {.allocator = {counting_resize, &c}};
    fixture f = {0};
    ASSERT_OK(nib_context_create(&options, &f.context, &error));
    f.device = open_gpu(f.context);
    const nib_named_desc tensors[] = {{"X", desc_of("float32[64]")}};
    const nib_named_scalar attributes[] = {{.name = "wide", .kind = NIB_SCALAR_NUMBER, .number = 1}};
    setup s;
    ASSERT_OK(make_setup(&f, "affine", tensors, 1, attributes, 1, &s, &error));
    float x[64] = {0};
    nib_tensor *in = borrow(&f, "float32[64]", x);
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    ASSERT_OK(nib_webgpu_call_upload(s.call, &error));
    enum { BATCH = 250, ROUNDS = 21, PASSES = 4 };
    double best = 1e9;
    const size_t before = c.allocations;
    for (int round = 0; round < ROUNDS; round++) {
        WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(gpu_of(f.device)->device, NULL);
        const double start = seconds();
        for (int i = 0; i < BATCH; i++)
            ASSERT_OK(nib_webgpu_call_encode(s.call, encoder, &error));
        const double each = (seconds() - start) / (BATCH * PASSES);
        best = each < best ? each : best;
        WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
        wgpuCommandBufferRelease(commands);
        wgpuCommandEncoderRelease(encoder);
    }
    print_message("encode: %.2f us a pass (best of %d rounds of %d passes)\n", best * 1e6, ROUNDS, BATCH * PASSES);
    assert_int_equal(c.allocations, before);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(best < 5e-6);
#endif
    /* run, once warm, allocates nothing either */
    ASSERT_OK(nib_call_run(s.call, &error));
    const size_t warm = c.allocations;
    for (int i = 0; i < 5; i++)
        ASSERT_OK(nib_call_run(s.call, &error));
    assert_int_equal(c.allocations, warm);
    free_setup(&s);
    nib_tensor_free(in);
    nib_device_free(f.device);
    nib_context_free(f.context);
}

/* ---- loss and time ---- */

static void a_loss_ends_every_call(void **state)
{
    (void)state;
    fixture f = {.context = new_context()};
    f.device = open_gpu(f.context);
    setup s = affine(&f, "float32[8]");
    float x[8] = {0}, y[8];
    nib_tensor *in = borrow(&f, "float32[8]", x), *out = borrow(&f, "float32[8]", y);
    ASSERT_OK(nib_call_bind(s.call, "X", in, &error));
    ASSERT_OK(nib_call_bind(s.call, "Y", out, &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    wgpuDeviceForceLoss(gpu_of(f.device)->device, WGPUDeviceLostReason_Unknown, nib_wgpu_text("gone"));
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_DEVICE_LOST, "gone");
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_DEVICE_LOST, "gone");
    ASSERT_FAILS(nib_webgpu_submit(f.device, &s.call, 1, &error), NIB_DEVICE_LOST, "gone");
    nib_call *other;
    ASSERT_FAILS(nib_call_prepare(f.device, s.plan, NULL, &other, &error), NIB_DEVICE_LOST, "gone");
    free_setup(&s);
    nib_tensor_free(in);
    nib_tensor_free(out);
    nib_device_free(f.device);
    nib_context_free(f.context);
}

static void a_slow_call_times_out_and_recovers(void **state)
{
    fixture *f = *state;
    const nib_named_desc tensors[] = {{"x", desc_of("float32[64]")}};
    const nib_named_scalar attributes[] = {{.name = "rounds", .kind = NIB_SCALAR_NUMBER, .number = 10e6}};
    setup s;
    ASSERT_OK(make_setup(f, "slow", tensors, 1, attributes, 1, &s, &error));
    float x[64] = {0}, y[64];
    nib_tensor *in = borrow(f, "float32[64]", x), *out = borrow(f, "float32[64]", y);
    ASSERT_OK(nib_call_bind(s.call, "x", in, &error));
    ASSERT_OK(nib_call_bind(s.call, "y", out, &error));
    nib_webgpu_set_timeout(f->device, 1);
    ASSERT_FAILS(nib_call_run(s.call, &error), NIB_TIMEOUT, "did not answer within 1 ms");
    nib_webgpu_set_timeout(f->device, 0);
    ASSERT_OK(nib_call_run(s.call, &error)); /* the next run waits its turn and is whole */
    assert_true(y[0] > 0.0f);
    free_setup(&s);
    nib_tensor_free(in);
    nib_tensor_free(out);
}

/* ---- the pipeline cache on disk ---- */

static void starts_from_the_cache_on_disk(void **state)
{
    (void)state;
    char directory[] = "/tmp/nibble-cache-XXXXXX";
    assert_non_null(mkdtemp(directory));
    unsigned hits[2], stores[2];
    for (size_t i = 0; i < 2; i++) {
        fixture f = {.context = new_context()};
        const nib_device_options options = {.backend = "webgpu", .adapter = test_adapter(), .cache_dir = directory};
        ASSERT_OK(nib_wgpu_open(f.context, &options, &f.device, &error));
        setup s = affine(&f, "float32[8]");
        hits[i] = atomic_load(&gpu_of(f.device)->blobs->hits);
        free_setup(&s);
        const nib_wgpu_blobs *blobs = gpu_of(f.device)->blobs;
        stores[i] = atomic_load(&blobs->stores);
        print_message("run %zu: %u looked up, %u found, %u stored\n", i, atomic_load(&blobs->loads), hits[i], stores[i]);
        nib_device_free(f.device);
        nib_context_free(f.context);
    }
    assert_int_equal(hits[0], 0);
    assert_true(stores[0] > 0);
    assert_true(hits[1] > 0);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

/* With a cache folder, the WGSL of a failing shader is left there for people. */
static void keeps_the_wgsl_of_a_failure(void **state)
{
    (void)state;
    char directory[] = "/tmp/nibble-cache-XXXXXX";
    assert_non_null(mkdtemp(directory));
    fixture f = {.context = new_context()};
    const nib_device_options options = {.backend = "webgpu", .adapter = test_adapter(), .cache_dir = directory};
    ASSERT_OK(nib_wgpu_open(f.context, &options, &f.device, &error));
    const nib_named_desc tensors[] = {{"x", desc_of("float32[12]")}};
    setup s;
    nib_error found = {0};
    assert_int_equal(make_setup(&f, "broken", tensors, 1, NULL, 0, &s, &found), NIB_SHADER);
    const char *path = strstr(found.message, directory);
    assert_non_null(path);
    char text[2048] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 100);
    fclose(file);
    assert_non_null(strstr(text, "absent12"));
    free_setup(&s);
    nib_device_free(f.device);
    nib_context_free(f.context);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

#define GPU(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GPU(runs_from_host_to_host),
        GPU(sends_constants_once),
        GPU(runs_odd_counts_of_float16),
        GPU(runs_empty_tensors_without_dispatch),
        GPU(folds_large_dispatches),
        GPU(moves_every_layout),
        GPU(clears_scratch_on_every_run),
        GPU(updates_tensors_in_place),
        GPU(skips_a_view_onto_itself),
        GPU(finds_aliases_before_submitting),
        GPU(writes_only_its_output),
        GPU(encodes_a_chain_into_one_encoder),
        GPU(keeps_results_on_the_device),
        GPU(needs_its_inputs),
        GPU(shares_pipelines),
        GPU(prepares_several_calls_at_once),
        GPU(reports_shader_errors_in_template_terms),
        cmocka_unit_test(encoding_is_cheap),
        cmocka_unit_test(a_loss_ends_every_call),
        GPU(a_slow_call_times_out_and_recovers),
        cmocka_unit_test(starts_from_the_cache_on_disk),
        cmocka_unit_test(keeps_the_wgsl_of_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
