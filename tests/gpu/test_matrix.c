/* SPDX-License-Identifier: Apache-2.0
 *
 * Every variant of the three operators on the GPU against the CPU backend: odd and even shapes, float32 and float16, with
 * and without subgroups, devices with few storage buffers. Outputs are ranges of larger buffers whose other bytes must
 * keep their values.
 */
#include <math.h>

#include "problem.h"

enum { GUARD = 512 };

typedef struct world {
    nib_context *context;
    nib_device *cpu;
    nib_device *gpu[2];    /* without and with subgroups */
    nib_caps *profile[2][3]; /* as reported; 8 and 10 storage buffers */
    nib_package *package[3];
} world;

static world w;

typedef struct test_case {
    char name[160];
    const char *variant;
    shape shape;
    bool subgroups;
    int profile; /* 0: the device's own; 1: 8 storage buffers; 2: 10 */
    uint64_t seed;
} test_case;

static struct CMUnitTest *tests;
static test_case *cases;
static size_t case_count, case_capacity;

/* ---- running one ---- */

typedef struct guarded {
    nib_tensor *whole, *part; /* all of the buffer, and the output inside it */
    WGPUBuffer buffer;
    size_t bytes, offset, rounded;
    unsigned char *before;
} guarded;

static guarded new_guarded(nib_device *device, const nib_tensor_desc *desc, rng *r)
{
    guarded g = {.offset = GUARD};
    size_t bytes;
    ASSERT_OK(nib_tensor_desc_bytes(desc, &bytes, &error));
    assert_true(nib_wgpu_round(bytes, &g.rounded));
    g.bytes = GUARD + g.rounded + GUARD;
    const WGPUBufferDescriptor descriptor = {
        .usage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, .size = g.bytes};
    g.buffer = wgpuDeviceCreateBuffer(gpu_of(device)->device, &descriptor);
    const nib_tensor_desc all = {.dtype = NIB_UINT32, .rank = 1, .dims = {(int64_t)(g.bytes / 4)}};
    ASSERT_OK(nib_webgpu_tensor_wrap(device, g.buffer, 0, g.bytes, &all, NIB_WEBGPU_NATURAL, &g.whole, &error));
    ASSERT_OK(nib_webgpu_tensor_wrap(device, g.buffer, g.offset, g.rounded, desc, NIB_WEBGPU_NATURAL, &g.part, &error));
    g.before = malloc(g.bytes);
    rng_bytes(r, g.before, g.bytes);
    ASSERT_OK(nib_webgpu_tensor_write(device, g.whole, g.before, g.bytes, &error));
    return g;
}

/* The output's bytes; everything around them must be as before. */
static unsigned char *read_guarded(nib_device *device, const guarded *g, const nib_tensor_desc *desc)
{
    size_t bytes;
    ASSERT_OK(nib_tensor_desc_bytes(desc, &bytes, &error));
    unsigned char *after = malloc(g->bytes);
    ASSERT_OK(nib_webgpu_tensor_read(device, g->whole, after, g->bytes, &error));
    assert_memory_equal(after, g->before, g->offset);
    assert_memory_equal(after + g->offset + bytes, g->before + g->offset + bytes, g->bytes - g->offset - bytes);
    return after;
}

static void free_guarded(guarded *g)
{
    nib_tensor_free(g->whole);
    nib_tensor_free(g->part);
    wgpuBufferRelease(g->buffer);
    free(g->before);
}

static void compare_outputs(nib_device *device, const problem *p, guarded *outputs, const test_case *c)
{
    for (size_t i = 0; i < p->output_count; i++) {
        const nib_tensor_desc *desc = nib_tensor_describe(p->expected[i]);
        unsigned char *after = read_guarded(device, &outputs[i], desc);
        char text[256];
        if (differs(desc, after + outputs[i].offset, nib_tensor_data(p->expected[i]), text, sizeof text))
            fail_msg("%s: %s: %s", c->name, p->outputs[i], text);
        free(after);
        free_guarded(&outputs[i]);
    }
}

static void run_case(void **state)
{
    const test_case *c = *state;
    nib_device *device = w.gpu[c->subgroups];
    rng r = {c->seed};
    problem p;
    make_problem(w.context, &c->shape, &r, &p);
    solve_problem(w.context, w.cpu, w.package[c->shape.op], &p);
    const nib_request request = request_of(&p, c->variant);
    nib_plan *plan;
    nib_call *call;
    ASSERT_OK(nib_plan_create(w.package[c->shape.op], &request, w.profile[c->subgroups][c->profile], &plan, &error));
    ASSERT_OK(nib_call_prepare(device, plan, NULL, &call, &error));
    guarded outputs[MAX_OUTPUTS];
    for (size_t i = 0; i < p.input_count; i++)
        ASSERT_OK(nib_call_bind(call, p.tensors[i].name, p.inputs[i], &error));
    for (size_t i = 0; i < p.output_count; i++) {
        outputs[i] = new_guarded(device, nib_tensor_describe(p.expected[i]), &r);
        ASSERT_OK(nib_call_bind(call, p.outputs[i], outputs[i].part, &error));
    }
    ASSERT_OK(nib_call_run(call, &error));
    compare_outputs(device, &p, outputs, c);
    ASSERT_OK(nib_webgpu_device_status(device, &error));
    nib_call_free(call);
    nib_plan_free(plan);
    free_problem(&p);
}

/* ---- the cases ---- */

static void add_case(const shape *s, const char *variant, bool subgroups, int profile)
{
    static const char *const profiles[] = {"", ", 8 buffers", ", 10 buffers"};
    if (case_count == case_capacity) {
        case_capacity = case_capacity ? 2 * case_capacity : 256;
        cases = realloc(cases, case_capacity * sizeof *cases);
    }
    test_case *c = &cases[case_count];
    *c = (test_case){.variant = variant, .shape = *s, .subgroups = subgroups, .profile = profile};
    c->seed = 0x9e3779b97f4a7c15u * (case_count + 1);
    char size[96], quant[48];
    snprintf(size, sizeof size, "%s%lldx%lldx%lld", s->batch ? "rank 3, " : "", (long long)s->rows, (long long)s->K,
             (long long)s->N);
    if (s->op == OP_BNB4)
        snprintf(quant, sizeof quant, "%s block %lld", s->quant_type ? "nf4" : "fp4", (long long)s->block_size);
    else
        snprintf(quant, sizeof quant, "%lld bits block %lld", (long long)s->bits, (long long)s->block_size);
    snprintf(c->name, sizeof c->name, "%s %s %s %s %s%s%s", op_name(s->op), variant, nib_dtype_name(s->dtype), size, quant,
             subgroups ? ", subgroups" : "", profiles[profile]);
    case_count++;
}

static const nib_dtype dtypes[] = {NIB_FLOAT32, NIB_FLOAT16};
static const int64_t row_counts[] = {1, 2, 15, 16, 64, 127};
enum { ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* f is skipped where the device cannot do it. */
static bool can_run(nib_dtype dtype, bool subgroups)
{
    const nib_caps *caps = w.profile[subgroups][0];
    return (dtype != NIB_FLOAT16 || nib_caps_has_feature(caps, "shader-f16")) &&
           (!subgroups || nib_caps_has_feature(caps, "subgroups"));
}

static void add_qkv(const char *variant, bool skip, bool residual, int profile)
{
    static const int64_t sizes[][3] = {{96, 40, 24}, {33, 7, 19}, {64, 64, 64}, {100, 12, 5}, {32, 1, 1}, {257, 48, 16}};
    size_t turn = 0;
    for (size_t d = 0; d < 2; d++) {
        for (int subgroups = 0; subgroups < 2; subgroups++) {
            for (size_t i = 0; i < ROW_COUNTS && can_run(dtypes[d], subgroups); i++, turn++) {
                const int64_t *size = sizes[turn % 6];
                shape s = {.op = OP_QKV, .rows = row_counts[i], .K = size[0], .N = size[1], .Nkv = size[2],
                           .block_size = 32, .bits = 4, .dtype = dtypes[d], .norm = true, .skip = skip,
                           .residual = residual};
                s.batch = turn % 3 == 2 ? s.rows : 0; /* [rows, 1, K] */
                add_case(&s, variant, subgroups, profile);
            }
        }
    }
}

static void add_mlp(const char *variant, const shape *flags, int profile, size_t turn)
{
    static const int64_t sizes[][2] = {{96, 40}, {33, 7}, {64, 64}, {100, 13}, {1, 1}, {257, 48}, {128, 33}};
    static const int64_t blocks[] = {32, 16, 64, 128, 256};
    static const int64_t bits[] = {4, 8, 2};
    for (size_t d = 0; d < 2; d++) {
        for (int subgroups = 0; subgroups < 2; subgroups++) {
            for (size_t i = turn % 3; i < ROW_COUNTS && can_run(dtypes[d], subgroups); i += 3, turn++) {
                shape s = *flags;
                s.op = OP_MLP;
                s.rows = row_counts[(i + d) % ROW_COUNTS];
                s.K = sizes[turn % 7][0];
                s.N = sizes[turn % 7][1];
                s.block_size = blocks[turn % 5];
                s.bits = bits[turn % 3];
                s.dtype = dtypes[d];
                s.batch = turn % 4 == 3 ? 1 : 0;
                add_case(&s, variant, subgroups, profile);
            }
        }
    }
}

static void add_bnb4(const char *variant, int64_t rows)
{
    static const int64_t sizes[][2] = {{64, 64}, {33, 7}, {1, 1}, {127, 65}, {96, 129}, {17, 3}, {256, 31}};
    static const int64_t blocks[] = {64, 16, 32, 128, 256};
    static size_t turn = 0;
    for (size_t d = 0; d < 2; d++) {
        for (int64_t quant = 0; quant < 2 && can_run(dtypes[d], true); quant++) {
            for (int size = 0; size < 3; size++, turn++) {
                const shape s = {.op = OP_BNB4, .rows = rows, .K = sizes[turn % 7][0], .N = sizes[turn % 7][1],
                                 .block_size = blocks[turn % 5], .quant_type = quant, .dtype = dtypes[d]};
                add_case(&s, variant, turn % 2 == 0, 0);
            }
        }
    }
}

static void add_qkv_cases(void)
{
    add_qkv("norm", false, false, 0);
    add_qkv("split_norm", false, false, 1);
    add_qkv("skip", true, false, 0);
    add_qkv("split_skip", true, false, 1);
    add_qkv("skipsum", true, true, 0);
    add_qkv("split_skipsum", true, true, 2);
}

static void add_mlp_cases(void)
{
    static const struct {
        const char *name;
        bool norm, skip, residual;
    } norms[] = {{"plain", 0, 0, 0}, {"norm", 1, 0, 0}, {"skip", 1, 1, 0}, {"skipsum", 1, 1, 1}};
    static const struct {
        const char *suffix;
        bool gate, up;
    } biases[] = {{"", 0, 0}, {"_gate_bias", 1, 0}, {"_up_bias", 0, 1}, {"_biases", 1, 1}};
    static char names[32][48];
    for (size_t i = 0; i < 32; i++) {
        const size_t n = i / 8, b = i / 2 % 4;
        const bool split = i % 2;
        snprintf(names[i], sizeof names[i], "%s%s%s", split ? "split_" : "", norms[n].name, biases[b].suffix);
        const shape flags = {.norm = norms[n].norm, .skip = norms[n].skip, .residual = norms[n].residual,
                             .gate_bias = biases[b].gate, .up_bias = biases[b].up};
        add_mlp(names[i], &flags, split ? 1 : 0, i);
    }
}

static void add_bnb4_cases(void)
{
    add_bnb4("gemv", 1);
    for (size_t i = 0; i < ROW_COUNTS; i++)
        add_bnb4("scalar", row_counts[i]);
    for (size_t i = 3; i < ROW_COUNTS; i++)
        add_bnb4("tiled", row_counts[i]);
}

/* No rows at all, and more rows than workgroups fit in one dimension. */
static void add_extremes(void)
{
    /* Another manifest may refuse so many rows; ours folds the dispatch. */
    const bool own_qkv = !getenv("NIBBLE_TEST_MANIFEST_MatMulNBitsQkv");
    for (size_t i = 0; i < 2; i++) {
        const int64_t rows = i ? 70000 : 0;
        for (size_t d = 0; d < 2 && can_run(dtypes[d], true); d++) {
            shape s = {.rows = rows, .K = 32, .N = 5, .Nkv = 3, .block_size = 32, .bits = 4, .dtype = dtypes[d],
                       .norm = true, .quant_type = 1};
            s.op = OP_QKV;
            if (rows == 0 || own_qkv) {
                add_case(&s, "norm", true, 0);
                add_case(&s, "split_norm", false, 1);
            }
            s.op = OP_MLP;
            add_case(&s, "norm", true, 0);
            s.norm = false;
            add_case(&s, "plain", false, 0);
            s.op = OP_BNB4;
            add_case(&s, "scalar", true, 0);
            if (rows > 0)
                add_case(&s, "tiled", true, 0);
        }
    }
}

/* ---- the world ---- */

static nib_caps *profile_of(nib_device *device, int storage_buffers)
{
    char *json;
    nib_caps *caps;
    ASSERT_OK(nib_caps_json(nib_device_caps(device), &json, &error));
    ASSERT_OK(nib_caps_parse(w.context, json, &caps, &error));
    nib_text_free(w.context, json);
    if (storage_buffers > 0)
        ASSERT_OK(nib_caps_set_limit(caps, "maxStorageBuffersPerShaderStage", storage_buffers, &error));
    ASSERT_OK(nib_caps_finish(caps, &error));
    return caps;
}

static void open_world(void)
{
    static const char *const off[] = {"subgroups"};
    w.context = new_context();
    const nib_device_options cpu = {.backend = "cpu"};
    ASSERT_OK(nib_device_open(w.context, &cpu, &w.cpu, &error));
    for (size_t i = 0; i < 2; i++) {
        const nib_device_options options = {.backend = "webgpu", .adapter = test_adapter(), .disabled_features = off,
                                            .disabled_feature_count = i == 0};
        ASSERT_OK(nib_wgpu_open(w.context, &options, &w.gpu[i], &error));
        w.profile[i][0] = profile_of(w.gpu[i], 0);
        w.profile[i][1] = profile_of(w.gpu[i], 8);
        w.profile[i][2] = profile_of(w.gpu[i], 10);
    }
    for (size_t op = 0; op < 3; op++)
        w.package[op] = load_op(w.context, (op_kind)op);
}

static void close_world(void)
{
    for (size_t op = 0; op < 3; op++)
        nib_package_free(w.package[op]);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 3; k++)
            nib_caps_free(w.profile[i][k]);
        nib_device_free(w.gpu[i]);
    }
    nib_device_free(w.cpu);
    nib_context_free(w.context);
}

static int close_group(void **state)
{
    (void)state;
    close_world();
    return 0;
}

/* test_matrix [PART-OF-A-NAME]: only the cases with that in their name. */
int main(int argc, char **argv)
{
    open_world();
    add_qkv_cases();
    add_mlp_cases();
    add_bnb4_cases();
    add_extremes();
    tests = calloc(case_count, sizeof *tests);
    size_t chosen = 0;
    for (size_t i = 0; i < case_count; i++) {
        if (argc < 2 || strstr(cases[i].name, argv[1]))
            tests[chosen++] = (struct CMUnitTest){
                .name = cases[i].name, .test_func = run_case, .initial_state = &cases[i]};
    }
    print_message("matrix: %zu cases on %s\n", chosen, nib_device_description(w.gpu[1]));
    if (getenv("NIBBLE_TEST_MANIFEST_MatMulNBitsQkv"))
        print_message("NOT RUN: 70,000 rows of MatMulNBitsQkv (not with a manifest of one's own)\n");
    if (!nib_caps_has_feature(w.profile[1][0], "shader-f16"))
        print_message("NOT RUN: float16 cases (no shader-f16)\n");
    if (!nib_caps_has_feature(w.profile[1][0], "subgroups"))
        print_message("NOT RUN: cases with subgroups (the adapter has none)\n");
    const int failed = _cmocka_run_group_tests("matrix", tests, chosen, NULL, close_group);
    free(tests);
    free(cases);
    return failed;
}
