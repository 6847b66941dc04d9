/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and calls on the CPU, through the public interface.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nibble/nibble.h"

/* ---- a context whose memory is counted and can run out ---- */

typedef struct meter {
    size_t live, calls, fail_at; /* fail_at 0: never */
} meter;

static void *meter_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    meter *m = user;
    if (new_bytes && ++m->calls == m->fail_at)
        return NULL;
    m->live = m->live - old_bytes + new_bytes;
    if (!new_bytes) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_bytes);
}

static nib_context *make_context(meter *m)
{
    *m = (meter){0};
    const nib_context_options options = {.allocator = {meter_resize, m}};
    nib_context *context;
    assert_int_equal(nib_context_create(&options, &context, NULL), NIB_OK);
    return context;
}

/* ---- a small call: bnb4, or the gated product ---- */

enum { M = 3, K = 64, N = 10, MLP_N = 6 };

static nib_package *load(nib_context *context, const char *op)
{
    char path[1024];
    nib_error error = {0};
    nib_package *package;
    snprintf(path, sizeof path, "%s/kernels/com.microsoft.%s", NIB_SOURCE_DIR, op);
    if (nib_package_load(context, path, NULL, &package, &error) != NIB_OK)
        fail_msg("%s: %s", path, error.message);
    return package;
}

static nib_tensor_desc describe(const char *text)
{
    nib_tensor_desc desc;
    assert_int_equal(nib_tensor_desc_parse(text, &desc, NULL), NIB_OK);
    return desc;
}

static nib_status plan_bnb4(const nib_package *package, const nib_device *device, nib_plan **plan,
                            nib_error *error)
{
    const nib_named_desc tensors[] = {{"A", describe("float32[3,64]")},
                                      {"B", describe("uint8[320]")},
                                      {"absmax", describe("float32[10]")}};
    const nib_named_scalar attributes[] = {{.name = "K", .number = K},
                                           {.name = "N", .number = N},
                                           {.name = "block_size", .number = 64},
                                           {.name = "quant_type", .number = 1}};
    const nib_request request = {
        .tensors = tensors, .tensor_count = 3, .attributes = attributes, .attribute_count = 4};
    return nib_plan_create(package, &request, nib_device_caps(device), plan, error);
}

static nib_status plan_mlp(const nib_package *package, const nib_device *device, double level,
                           bool relaxed, nib_plan **plan, nib_error *error)
{
    const nib_named_desc tensors[] = {
        {"A", describe("float32[3,64]")},          {"gate_B", describe("uint8[6,2,16]")},
        {"gate_scales", describe("float32[6,2]")}, {"up_B", describe("uint8[6,2,16]")},
        {"up_scales", describe("float32[6,2]")},
    };
    const nib_named_scalar attributes[] = {
        {.name = "K", .number = K},
        {.name = "N", .number = MLP_N},
        {.name = "block_size", .number = 32},
        {.name = "activation", .kind = NIB_SCALAR_STRING, .string = "silu"},
        {.name = "accuracy_level", .number = level}};
    const nib_request request = {.tensors = tensors,
                                 .tensor_count = 5,
                                 .attributes = attributes,
                                 .attribute_count = 5,
                                 .relaxed = relaxed};
    return nib_plan_create(package, &request, nib_device_caps(device), plan, error);
}

typedef struct fixture {
    meter memory;
    nib_context *context;
    nib_device *device;
    nib_package *package;
    nib_plan *plan;
    nib_call *call;
    nib_tensor *a, *b, *absmax;
} fixture;

static nib_tensor *make(nib_context *context, const char *desc_text)
{
    const nib_tensor_desc desc = describe(desc_text);
    nib_tensor *tensor;
    assert_int_equal(nib_tensor_create(context, &desc, &tensor, NULL), NIB_OK);
    return tensor;
}

static void fill(fixture *f)
{
    f->a = make(f->context, "float32[3,64]");
    f->b = make(f->context, "uint8[320]");
    f->absmax = make(f->context, "float32[10]");
    for (size_t i = 0; i < M * K; i++)
        ((float *)nib_tensor_data(f->a))[i] = (float)(i % 17) - 8.5f;
    for (size_t i = 0; i < 320; i++)
        ((uint8_t *)nib_tensor_data(f->b))[i] = (uint8_t)(i * 37);
    for (size_t i = 0; i < 10; i++)
        ((float *)nib_tensor_data(f->absmax))[i] = 0.25f + (float)i;
}

static void setup(fixture *f, const nib_device_options *options)
{
    nib_error error = {0};
    f->context = make_context(&f->memory);
    assert_int_equal(nib_device_open(f->context, options, &f->device, &error), NIB_OK);
    f->package = load(f->context, "MatMulBnb4");
    assert_int_equal(plan_bnb4(f->package, f->device, &f->plan, &error), NIB_OK);
    assert_int_equal(nib_call_prepare(f->device, f->plan, NULL, &f->call, &error), NIB_OK);
    fill(f);
}

static void bind_inputs(fixture *f)
{
    assert_int_equal(nib_call_bind(f->call, "A", f->a, NULL), NIB_OK);
    assert_int_equal(nib_call_bind(f->call, "bT", f->b, NULL),
                     NIB_OK); /* a bind key does as well */
    assert_int_equal(nib_call_bind(f->call, "absmax", f->absmax, NULL), NIB_OK);
}

static void teardown(fixture *f)
{
    nib_call_free(f->call);
    nib_plan_free(f->plan);
    nib_package_free(f->package);
    nib_device_free(f->device);
    nib_tensor_free(f->a);
    nib_tensor_free(f->b);
    nib_tensor_free(f->absmax);
    nib_context_free(f->context);
    assert_int_equal(f->memory.live, 0);
}

static const nib_device_options cpu = {.backend = "cpu", .threads = 2};

static void expect_sums(const fixture *f, const nib_tensor *y)
{
    const float *a = nib_tensor_data(f->a), *absmax = nib_tensor_data(f->absmax);
    const uint8_t *b = nib_tensor_data(f->b);
    const float *values = nib_tensor_data((nib_tensor *)(uintptr_t)y),
                *codebook = nib_bnb4_codebook(1);
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double sum = 0;
            for (size_t k = 0; k < K; k++) {
                const size_t flat = n * K + k;
                const unsigned code = flat % 2 ? b[flat / 2] & 15u : b[flat / 2] >> 4;
                sum += (double)codebook[code] * (double)absmax[flat / 64] * (double)a[m * K + k];
            }
            assert_true(fabs((double)values[m * N + n] - sum) < 1e-3);
        }
    }
}

/* ---- devices ---- */

static void test_open(void **state)
{
    (void)state;
    meter m;
    nib_context *context = make_context(&m);
    nib_device *device;
    nib_error error = {0};
    assert_int_equal(nib_device_open(context, &cpu, &device, &error), NIB_OK);
    assert_string_equal(nib_device_backend(device), "cpu");
    assert_non_null(strstr(nib_device_description(device), "cpu: "));
    assert_non_null(strstr(nib_device_description(device), "2 threads"));
    nib_device_free(device);
    nib_device_free(NULL);
    nib_context_free(context);
    assert_int_equal(m.live, 0);
}

static void expect_open(const nib_device_options *options, nib_status status, const char *text)
{
    meter m;
    nib_context *context = make_context(&m);
    nib_device *device;
    nib_error error = {0};
    assert_int_equal(nib_device_open(context, options, &device, &error), status);
    if (status == NIB_OK) {
        assert_non_null(strstr(nib_device_description(device), text));
    } else {
        assert_null(device);
        if (!strstr(error.message, text))
            fail_msg("\"%s\" does not say \"%s\"", error.message, text);
    }
    nib_device_free(device);
    nib_context_free(context);
    assert_int_equal(m.live, 0);
}

static void test_rows(void **state)
{
    (void)state;
    expect_open(&(nib_device_options){.backend = "cpu", .isa = "scalar", .threads = 1}, NIB_OK,
                "cpu: scalar, 1 thread");
    expect_open(&(nib_device_options){.backend = "cpu", .isa = "mmx"}, NIB_INVALID_ARGUMENT,
                "\"mmx\"; there are ");
    setenv("NIBBLE_ISA", "scalar", 1);
    expect_open(&cpu, NIB_OK, "cpu: scalar");
    setenv("NIBBLE_ISA", "altivec", 1);
    expect_open(&cpu, NIB_INVALID_ARGUMENT, "altivec");
    expect_open(&(nib_device_options){.backend = "cpu", .isa = "scalar"}, NIB_OK,
                "scalar"); /* the option wins */
    unsetenv("NIBBLE_ISA");
}

static void test_wrong_options(void **state)
{
    (void)state;
    expect_open(&(nib_device_options){.backend = "cuda"}, NIB_INVALID_ARGUMENT,
                "there is no backend \"cuda\"");
    expect_open(&(nib_device_options){.backend = "cpu", .threads = 100000}, NIB_INVALID_ARGUMENT,
                "at most 1024");
    nib_device *device;
    assert_int_equal(nib_device_open(NULL, NULL, &device, NULL), NIB_INVALID_ARGUMENT);
}

static void test_modules(void **state)
{
    (void)state;
    const nib_device_options webgpu = {.backend = "webgpu"};
    setenv("NIBBLE_WEBGPU_MODULE", "/nonexistent/module.so", 1);
    expect_open(&webgpu, NIB_NO_DEVICE, "/nonexistent/module.so");
    expect_open(NULL, NIB_OK, "cpu: "); /* auto falls back */
    setenv("NIBBLE_WEBGPU_MODULE", FAKE_MODULE, 1);
    expect_open(&webgpu, NIB_UNSUPPORTED, "another build: its interface has number 9999");
    setenv("NIBBLE_WEBGPU_MODULE", EMPTY_MODULE, 1);
    expect_open(&webgpu, NIB_UNSUPPORTED, "no symbol nib_backend_webgpu");
    unsetenv("NIBBLE_WEBGPU_MODULE");
}

/* ---- calls ---- */

static void test_run(void **state)
{
    (void)state;
    fixture f;
    setup(&f, &cpu);
    assert_null(nib_call_tensor(f.call, "Y")); /* before the first run */
    bind_inputs(&f);
    assert_int_equal(nib_call_run(f.call, NULL), NIB_OK);
    expect_sums(&f, nib_call_tensor(f.call, "Y"));
    assert_null(nib_call_tensor(f.call, "A")); /* not an output */
    assert_null(nib_call_tensor(f.call, "Z"));

    nib_tensor *y =
        make(f.context, "float32[3,10]"); /* the caller's output replaces the call's own */
    assert_int_equal(nib_call_bind(f.call, "Y", y, NULL), NIB_OK);
    assert_int_equal(nib_call_run(f.call, NULL), NIB_OK);
    assert_ptr_equal(nib_call_tensor(f.call, "yT"), y);
    expect_sums(&f, y);
    ((float *)nib_tensor_data(f.a))[5] = 100; /* inputs are read anew */
    assert_int_equal(nib_call_run(f.call, NULL), NIB_OK);
    expect_sums(&f, y);
    nib_call_free(f.call);
    f.call = NULL;
    nib_tensor_free(y);
    teardown(&f);
}

/* No kernel gains from a copy of the weights, so there is none, and the call says so. */
static void test_repack_is_reported(void **state)
{
    (void)state;
    fixture f;
    setup(&f, &cpu);
    assert_non_null(strstr(nib_call_description(f.call), "weights used in place, "));
    nib_call *call;
    const nib_call_options options = {.repack = true};
    assert_int_equal(nib_call_prepare(f.device, f.plan, &options, &call, NULL), NIB_OK);
    assert_non_null(strstr(nib_call_description(call), "in place (a repacked copy would not"));
    nib_call_free(call);
    teardown(&f);
}

static void test_run_allocates_nothing(void **state)
{
    (void)state;
    fixture f;
    setup(&f, &cpu);
    bind_inputs(&f);
    assert_int_equal(nib_call_run(f.call, NULL), NIB_OK); /* makes the output */
    const size_t before = f.memory.calls;
    for (int i = 0; i < 3; i++)
        assert_int_equal(nib_call_run(f.call, NULL), NIB_OK);
    assert_int_equal(f.memory.calls, before);
    teardown(&f);
}

static void expect_run(fixture *f, nib_status status, const char *text)
{
    nib_error error = {0};
    assert_int_equal(nib_call_run(f->call, &error), status);
    if (!strstr(error.message, text))
        fail_msg("\"%s\" does not say \"%s\"", error.message, text);
}

static void test_binding_mistakes(void **state)
{
    (void)state;
    fixture f;
    nib_error error = {0};
    setup(&f, &cpu);
    expect_run(&f, NIB_REQUEST, "input 'aT' (A) is not bound");
    assert_int_equal(nib_call_bind(f.call, "C", f.a, &error), NIB_REQUEST);
    assert_string_equal(error.message, "C is not a tensor of this call");
    error = (nib_error){0};
    assert_int_equal(nib_call_bind(f.call, "A", f.b, &error), NIB_REQUEST);
    assert_string_equal(
        error.message, "input 'aT' (A) is uint8[320], but the call was planned with float32[3,64]");
    assert_int_equal(nib_call_bind(f.call, "A", NULL, NULL), NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_call_bind(NULL, "A", f.a, NULL), NIB_INVALID_ARGUMENT);
    teardown(&f);
}

static void test_aliases(void **state)
{
    (void)state;
    fixture f;
    setup(&f, &cpu);
    bind_inputs(&f);
    const nib_tensor_desc desc = describe("float32[3,10]");
    char *inside = (char *)nib_tensor_data(f.a) + 400;
    nib_tensor *y;
    assert_int_equal(nib_tensor_borrow(f.context, &desc, inside, 120, &y, NULL), NIB_OK);
    assert_int_equal(nib_call_bind(f.call, "Y", y, NULL), NIB_OK);
    expect_run(&f, NIB_ALIAS, "output 'yT' (Y) is written and shares memory with input 'aT' (A)");
    nib_call_free(f.call);
    f.call = NULL;
    nib_tensor_free(y);
    teardown(&f);
}

static void test_unaligned_tensors(void **state)
{
    (void)state;
    fixture f;
    setup(&f, &cpu);
    bind_inputs(&f);
    unsigned char *memory = malloc(M * K * 4 + 1);
    assert_non_null(memory);
    memcpy(memory + 1, nib_tensor_data(f.a), M * K * 4);
    const nib_tensor_desc desc = describe("float32[3,64]");
    nib_tensor *a;
    assert_int_equal(nib_tensor_borrow(f.context, &desc, memory + 1, M * K * 4, &a, NULL), NIB_OK);
    assert_int_equal(nib_call_bind(f.call, "A", a, NULL), NIB_OK);
    assert_int_equal(nib_call_run(f.call, NULL), NIB_OK);
    expect_sums(&f, nib_call_tensor(f.call, "Y"));
    nib_call_free(f.call);
    f.call = NULL;
    nib_tensor_free(a);
    free(memory);
    teardown(&f);
}

static void loop_backwards(void *user, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    ++*(size_t *)user;
    while (count--)
        task(arg, count);
}

static void test_callers_threads(void **state)
{
    (void)state;
    fixture f;
    size_t loops = 0;
    setup(&f, &(nib_device_options){.backend = "cpu",
                                    .threads = 4,
                                    .parallel_for = loop_backwards,
                                    .parallel_user = &loops});
    assert_non_null(strstr(nib_device_description(f.device), "4 threads of the caller"));
    bind_inputs(&f);
    assert_int_equal(nib_call_run(f.call, NULL), NIB_OK);
    expect_sums(&f, nib_call_tensor(f.call, "Y"));
    teardown(&f);

    /* N of 10 is one chunk, which needs no loop; the prefill of many rows does. */
    setup(&f, &(nib_device_options){.backend = "cpu",
                                    .isa = "scalar",
                                    .threads = 4,
                                    .parallel_for = loop_backwards,
                                    .parallel_user = &loops});
    teardown(&f);
}

/* ---- accuracy level ---- */

static void prepare_mlp(double level, bool relaxed, nib_status planned, const char *described)
{
    meter m;
    nib_context *context = make_context(&m);
    nib_device *device;
    nib_plan *plan;
    nib_call *call;
    assert_int_equal(nib_device_open(context, &cpu, &device, NULL), NIB_OK);
    nib_package *package = load(context, "MatMulNBitsMlp");
    nib_error error = {0};
    assert_int_equal(plan_mlp(package, device, level, relaxed, &plan, &error), planned);
    if (planned == NIB_OK) {
        assert_int_equal(nib_call_prepare(device, plan, NULL, &call, &error), NIB_OK);
        if (!strstr(nib_call_description(call), described))
            fail_msg("\"%s\" does not say \"%s\"", nib_call_description(call), described);
        assert_int_equal(strstr(nib_call_description(call), "int8") != NULL,
                         strstr(described, "int8") != NULL);
        nib_call_free(call);
        nib_plan_free(plan);
    } else if (!strstr(error.message, described)) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, described);
    }
    nib_package_free(package);
    nib_device_free(device);
    nib_context_free(context);
    assert_int_equal(m.live, 0);
}

/* int8 activations are used when they are asked for and the contract or the caller allows them, and
 * never else. */
static void test_accuracy_level(void **state)
{
    (void)state;
    prepare_mlp(0, false, NIB_OK, "decode of 3 rows");
    prepare_mlp(4, false, NIB_REQUEST, "accuracy_level");
    prepare_mlp(4, true, NIB_OK, "decode with int8 activations of 3 rows");
    prepare_mlp(0, true, NIB_OK, "decode of 3 rows");
}

/* ---- operators that are not there, and memory that runs out ---- */

static void test_other_operator(void **state)
{
    (void)state;
    meter m;
    nib_context *context = make_context(&m);
    nib_device *device;
    nib_plan *plan;
    nib_call *call;
    nib_package *package;
    nib_error error = {0};
    assert_int_equal(nib_device_open(context, &cpu, &device, NULL), NIB_OK);
    assert_int_equal(nib_package_load(context, NIB_SOURCE_DIR "/tests/cpu/packages/other", NULL,
                                      &package, &error),
                     NIB_OK);
    const nib_named_desc tensors[] = {{"A", describe("float32[3]")}};
    const nib_request request = {.tensors = tensors, .tensor_count = 1};
    if (nib_plan_create(package, &request, nib_device_caps(device), &plan, &error) != NIB_OK)
        fail_msg("%s", error.message);
    assert_int_equal(nib_call_prepare(device, plan, NULL, &call, &error), NIB_UNSUPPORTED);
    assert_non_null(strstr(error.message, "the cpu backend has no operator test.Other"));
    assert_null(call);
    nib_plan_free(plan);
    nib_package_free(package);
    nib_device_free(device);
    nib_context_free(context);
    assert_int_equal(m.live, 0);
}

static bool run_once(nib_context *context, const nib_package *package, nib_error *error)
{
    nib_device *device = NULL;
    nib_plan *plan = NULL;
    nib_call *call = NULL;
    fixture f = {.context = context};
    bool done = false;
    nib_status status = nib_device_open(context, &cpu, &device, error);
    if (status == NIB_OK)
        status = plan_bnb4(package, device, &plan, error);
    if (status == NIB_OK)
        status = nib_call_prepare(device, plan, NULL, &call, error);
    if (status == NIB_OK) {
        static float a[M * K], absmax[N];
        static uint8_t b[320];
        const nib_tensor_desc descs[] = {describe("float32[3,64]"), describe("uint8[320]"),
                                         describe("float32[10]")};
        const bool made =
            nib_tensor_borrow(context, &descs[0], a, sizeof a, &f.a, error) == NIB_OK &&
            nib_tensor_borrow(context, &descs[1], b, sizeof b, &f.b, error) == NIB_OK &&
            nib_tensor_borrow(context, &descs[2], absmax, sizeof absmax, &f.absmax, error) ==
                NIB_OK;
        f.call = call;
        if (made) {
            bind_inputs(&f);
            status = nib_call_run(call, error);
            done = status == NIB_OK;
        }
    }
    nib_call_free(call);
    nib_plan_free(plan);
    nib_device_free(device);
    nib_tensor_free(f.a);
    nib_tensor_free(f.b);
    nib_tensor_free(f.absmax);
    return done;
}

/* Every allocation from opening to running fails once: an error, nothing lost, no crash. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    meter m;
    nib_context *context = make_context(&m);
    nib_package *package = load(context, "MatMulBnb4");
    const size_t live = m.live;
    bool done = false;
    size_t at = 1;
    for (; !done && at < 2000; at++) {
        nib_error error = {0};
        m.calls = 0;
        m.fail_at = at;
        done = run_once(context, package, &error);
        m.fail_at = 0;
        assert_true(done || error.code == NIB_OUT_OF_MEMORY);
        assert_int_equal(m.live, live);
    }
    if (!done || at < 9)
        fail_msg("%zu allocations, %s", at, done ? "done" : "not done");
    nib_package_free(package);
    nib_context_free(context);
    assert_int_equal(m.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_repack_is_reported),
        cmocka_unit_test(test_run_allocates_nothing),
        cmocka_unit_test(test_binding_mistakes),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_unaligned_tensors),
        cmocka_unit_test(test_callers_threads),
        cmocka_unit_test(test_accuracy_level),
        cmocka_unit_test(test_other_operator),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
