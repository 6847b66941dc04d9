/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that are cut into column ranges because a weight exceeds the binding limit: the same bits as uncut. The limit is
 * lowered for the test; what the device itself allows stays.
 */
#include "problem.h"

typedef struct world {
    nib_context *context;
    nib_device *gpu;
    nib_package *package[3];
    size_t limit; /* the device's own */
} world;

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    w->context = new_context();
    w->gpu = open_gpu(w->context);
    w->limit = gpu_of(w->gpu)->max_binding_bytes;
    for (size_t op = 0; op < 3; op++)
        w->package[op] = load_op(w->context, (op_kind)op);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    ASSERT_OK(nib_webgpu_device_status(w->gpu, &error));
    for (size_t op = 0; op < 3; op++)
        nib_package_free(w->package[op]);
    nib_device_free(w->gpu);
    nib_context_free(w->context);
    free(w);
    return 0;
}

typedef struct solution {
    nib_plan *plan;
    nib_call *call;
    size_t pieces;
} solution;

static solution solve(world *w, const problem *p, const char *variant, size_t limit)
{
    solution s;
    const nib_request request = request_of(p, variant);
    gpu_of(w->gpu)->max_binding_bytes = limit;
    ASSERT_OK(nib_plan_create(w->package[p->shape.op], &request, nib_device_caps(w->gpu), &s.plan, &error));
    ASSERT_OK(nib_call_prepare(w->gpu, s.plan, NULL, &s.call, &error));
    s.pieces = nib_wgpu_split_count((nib_wgpu_call *)s.call);
    for (size_t i = 0; i < p->input_count; i++)
        ASSERT_OK(nib_call_bind(s.call, p->tensors[i].name, p->inputs[i], &error));
    ASSERT_OK(nib_call_run(s.call, &error));
    gpu_of(w->gpu)->max_binding_bytes = w->limit;
    return s;
}

static void free_solution(solution *s)
{
    nib_call_free(s->call);
    nib_plan_free(s->plan);
}

static void assert_same_bits(const problem *p, solution *a, solution *b)
{
    for (size_t i = 0; i < p->output_count; i++) {
        nib_tensor *x = nib_call_tensor(a->call, p->outputs[i]), *y = nib_call_tensor(b->call, p->outputs[i]);
        assert_memory_equal(nib_tensor_data(x), nib_tensor_data(y), nib_tensor_bytes(x));
    }
}

typedef struct row {
    const char *variant;
    shape shape;
    size_t limit, pieces;
} row;

static const row rows[] = {
    /* B is one word a byte: 4 * 4 * 1024; a piece starts every block / gcd(block, K) columns */
    {"scalar", {.op = OP_BNB4, .rows = 5, .K = 64, .N = 128, .block_size = 32, .quant_type = 1, .dtype = NIB_FLOAT32}, 6000, 3},
    {"scalar", {.op = OP_BNB4, .rows = 3, .K = 33, .N = 129, .block_size = 16, .dtype = NIB_FLOAT32}, 4000, 3},
    {"scalar", {.op = OP_BNB4, .rows = 7, .K = 48, .N = 101, .block_size = 64, .dtype = NIB_FLOAT16}, 4000, 3},
    {"gemv", {.op = OP_BNB4, .rows = 1, .K = 128, .N = 63, .block_size = 128, .dtype = NIB_FLOAT16}, 8192, 2},
    {"tiled", {.op = OP_BNB4, .rows = 20, .K = 64, .N = 130, .block_size = 64, .quant_type = 1, .dtype = NIB_FLOAT16}, 10000, 2},
    {"norm_biases", {.op = OP_MLP, .rows = 2, .K = 96, .N = 77, .block_size = 32, .bits = 4, .dtype = NIB_FLOAT32,
                     .norm = true, .gate_bias = true, .up_bias = true}, 2000, 2},
    {"plain", {.op = OP_MLP, .rows = 9, .K = 64, .N = 37, .block_size = 32, .bits = 8, .dtype = NIB_FLOAT16}, 1300, 2},
    {"skipsum", {.op = OP_MLP, .rows = 3, .K = 64, .N = 65, .block_size = 16, .bits = 2, .dtype = NIB_FLOAT32, .norm = true,
                 .skip = true, .residual = true}, 800, 2},
    {"norm", {.op = OP_QKV, .rows = 2, .K = 64, .N = 96, .Nkv = 33, .block_size = 32, .bits = 4, .dtype = NIB_FLOAT16,
              .norm = true}, 1100, 3},
    {"skipsum", {.op = OP_QKV, .rows = 4, .K = 96, .N = 41, .Nkv = 88, .block_size = 32, .bits = 4, .dtype = NIB_FLOAT32,
                 .norm = true, .skip = true, .residual = true}, 2200, 2},
};

static void pieces_give_the_same_bits(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rng r = {500 + i};
        problem p;
        make_problem(w->context, &rows[i].shape, &r, &p);
        solution whole = solve(w, &p, rows[i].variant, w->limit), cut = solve(w, &p, rows[i].variant, rows[i].limit);
        print_message("%s %s: %s\n", op_name(rows[i].shape.op), nib_dtype_name(rows[i].shape.dtype),
                      nib_call_description(cut.call));
        assert_int_equal(whole.pieces, 1);
        assert_int_equal(cut.pieces, rows[i].pieces);
        assert_same_bits(&p, &whole, &cut);
        ASSERT_OK(nib_call_run(cut.call, &error)); /* again, warm */
        assert_same_bits(&p, &whole, &cut);
        free_solution(&whole);
        free_solution(&cut);
        free_problem(&p);
    }
}

/* Encoding works as for a whole call, and so do rebinding and a changed input. */
static void a_cut_call_can_be_encoded(void **state)
{
    world *w = *state;
    rng r = {901};
    problem p;
    make_problem(w->context, &rows[0].shape, &r, &p);
    solution whole = solve(w, &p, "scalar", w->limit), cut = solve(w, &p, "scalar", rows[0].limit);
    float *a = nib_tensor_data(p.inputs[0]);
    a[3] += 5.0f;
    ASSERT_OK(nib_webgpu_tensor_write(w->gpu, p.inputs[0], NULL, 0, &error));
    nib_tensor *y = nib_call_tensor(cut.call, "Y");
    ASSERT_OK(nib_webgpu_submit(w->gpu, &cut.call, 1, &error));
    ASSERT_OK(nib_webgpu_tensor_read(w->gpu, y, NULL, 0, &error));
    ASSERT_OK(nib_call_run(whole.call, &error));
    assert_same_bits(&p, &whole, &cut);
    const nib_tensor_desc desc = *nib_tensor_describe(y);
    nib_tensor *other;
    ASSERT_OK(nib_webgpu_tensor_create(w->gpu, &desc, NIB_WEBGPU_NATURAL, &other, &error));
    ASSERT_OK(nib_call_bind(cut.call, "Y", other, &error));
    ASSERT_OK(nib_call_bind(cut.call, "B", p.inputs[1], &error));
    ASSERT_OK(nib_call_run(cut.call, &error));
    char *back = malloc(nib_tensor_bytes(other));
    ASSERT_OK(nib_webgpu_tensor_read(w->gpu, other, back, nib_tensor_bytes(other), &error));
    assert_memory_equal(back, nib_tensor_data(nib_call_tensor(whole.call, "Y")), nib_tensor_bytes(other));
    free(back);
    free_solution(&cut);
    free_solution(&whole);
    nib_tensor_free(other);
    free_problem(&p);
}

static void what_cannot_be_cut_is_refused_by_name(void **state)
{
    world *w = *state;
    rng r = {902};
    problem p;
    make_problem(w->context, &rows[0].shape, &r, &p);
    const nib_request request = request_of(&p, "scalar");
    nib_plan *plan;
    nib_call *call;
    ASSERT_OK(nib_plan_create(w->package[OP_BNB4], &request, nib_device_caps(w->gpu), &plan, &error));
    gpu_of(w->gpu)->max_binding_bytes = 1000; /* A alone has 1280 bytes, in every piece */
    ASSERT_FAILS(nib_call_prepare(w->gpu, plan, NULL, &call, &error), NIB_LIMIT,
                 "A needs 1280 bytes in one binding; maxStorageBufferBindingSize of the device is 1000");
    assert_null(call);
    gpu_of(w->gpu)->max_binding_bytes = 1300;
    ASSERT_FAILS(nib_call_prepare(w->gpu, plan, NULL, &call, &error), NIB_LIMIT, "B needs 16384 bytes");
    gpu_of(w->gpu)->max_binding_bytes = w->limit;
    nib_plan_free(plan);
    free_problem(&p);
}

/* The case that sends people away: a vocabulary of 151,936 rows, one word a byte, on a device with 128 MiB bindings. */
static void a_vocabulary_fits_in_pieces(void **state)
{
    world *w = *state;
    const shape s = {.op = OP_BNB4, .rows = 1, .K = 1024, .N = 151936, .block_size = 64, .quant_type = 1,
                     .dtype = NIB_FLOAT32};
    size_t pieces = 0;
    const nib_named_desc tensors[] = {
        {"A", {.dtype = NIB_FLOAT32, .rank = 2, .dims = {1, s.K}}},
        {"B", {.dtype = NIB_UINT8, .rank = 1, .dims = {s.N * s.K / 2}}},
        {"absmax", {.dtype = NIB_FLOAT32, .rank = 1, .dims = {s.N * s.K / s.block_size}}}};
    const nib_named_scalar attributes[] = {{.name = "N", .number = (double)s.N},
                                           {.name = "K", .number = (double)s.K},
                                           {.name = "block_size", .number = (double)s.block_size},
                                           {.name = "quant_type", .number = 1}};
    const nib_request request = {.tensors = tensors, .tensor_count = 3, .attributes = attributes, .attribute_count = 4};
    nib_plan *plan;
    ASSERT_OK(nib_plan_create(w->package[OP_BNB4], &request, nib_device_caps(w->gpu), &plan, &error));
    gpu_of(w->gpu)->max_binding_bytes = 134217728;
    assert_true(nib_wgpu_find_split(gpu_of(w->gpu), plan, &pieces));
    assert_int_equal(pieces, 3); /* 311,164,928 bytes */
    gpu_of(w->gpu)->max_binding_bytes = w->limit;
    nib_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_give_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cut_call_can_be_encoded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_cut_is_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_vocabulary_fits_in_pieces, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
