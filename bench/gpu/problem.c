/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {"qkv", "mlp", "bnb4"};

/* ---- shapes ---- */

static bool parse_word(const char *word, bench_shape *s)
{
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(word, op_names[i]) == 0) {
            s->op = (bench_op)i;
            return true;
        }
    }
    const struct {
        const char *name;
        int64_t *value;
    } sizes[] = {{"M=", &s->M}, {"K=", &s->K}, {"N=", &s->N}, {"Nkv=", &s->Nkv}, {"block=", &s->block}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t length = strlen(sizes[i].name);
        if (strncmp(word, sizes[i].name, length) == 0) {
            *sizes[i].value = strtoll(word + length, NULL, 10);
            return *sizes[i].value > 0;
        }
    }
    if (strcmp(word, "f16") == 0)
        s->dtype = NIB_FLOAT16;
    else if (strcmp(word, "norm") == 0)
        s->norm = true;
    else if (strcmp(word, "skip") == 0)
        s->norm = s->skip = true;
    else if (strcmp(word, "peer") == 0)
        s->peer = true;
    else
        return strcmp(word, "f32") == 0;
    return true;
}

bool bench_shape_parse(const char *line, bench_shape *out)
{
    char copy[256];
    char *rest = copy;
    *out = (bench_shape){.dtype = NIB_FLOAT32, .M = 1, .block = 32};
    snprintf(copy, sizeof copy, "%s", line);
    copy[strcspn(copy, "#\n")] = '\0';
    for (char *word; (word = strtok_r(rest, " \t", &rest)) != NULL;) {
        if (!parse_word(word, out))
            return false;
    }
    return out->K > 0 && out->N > 0;
}

const char *bench_shape_text(const bench_shape *s, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s %s M=%lld K=%lld N=%lld%s", op_names[s->op], s->dtype == NIB_FLOAT16 ? "f16" : "f32",
             (long long)s->M, (long long)s->K, (long long)s->N, s->skip ? " skip" : s->norm ? " norm" : "");
    return out;
}

/* ---- data ---- */

static uint64_t random_word(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill(nib_tensor *tensor, double low, double high, uint64_t *state)
{
    const size_t bytes = nib_tensor_bytes(tensor);
    const nib_dtype dtype = nib_tensor_describe(tensor)->dtype;
    unsigned char *data = nib_tensor_data(tensor);
    for (size_t i = 0; i < bytes;) {
        const uint64_t word = random_word(state);
        const float value = (float)(low + (high - low) * (double)(word >> 40) / 16777216.0);
        const uint16_t half = nib_half_from_float(value);
        const void *from = dtype == NIB_FLOAT32 ? (const void *)&value : dtype == NIB_FLOAT16 ? (const void *)&half : &word;
        size_t size = dtype == NIB_FLOAT32 ? 4 : dtype == NIB_FLOAT16 ? 2 : 8;
        size = size < bytes - i ? size : bytes - i;
        memcpy(data + i, from, size);
        i += size;
    }
}

static nib_status add(bench_context *bench, bench_problem *p, const char *name, nib_tensor_desc desc, bool weight, double low,
                      double high, nib_error *error)
{
    const size_t i = p->tensor_count++;
    p->tensors[i] = (nib_named_desc){name, desc};
    p->weight[i] = weight;
    const nib_status status = nib_tensor_create(bench->context, &desc, &p->host[i], error);
    uint64_t state = 0x9e3779b97f4a7c15u * (i + 1);
    if (status == NIB_OK) {
        fill(p->host[i], low, high, &state);
        p->bytes += (double)nib_tensor_bytes(p->host[i]);
        p->weight_bytes += weight ? (double)nib_tensor_bytes(p->host[i]) : 0;
    }
    return status;
}

static nib_tensor_desc matrix(nib_dtype dtype, int64_t rows, int64_t columns)
{
    return (nib_tensor_desc){.dtype = dtype, .rank = 2, .dims = {rows, columns}};
}

static nib_tensor_desc vector(nib_dtype dtype, int64_t count)
{
    return (nib_tensor_desc){.dtype = dtype, .rank = 1, .dims = {count}};
}

static nib_status add_nbits(bench_context *bench, bench_problem *p, const char *codes, const char *scales, int64_t N,
                            nib_error *error)
{
    const bench_shape *s = &p->shape;
    const int64_t blocks = (s->K + s->block - 1) / s->block;
    const nib_tensor_desc packed = {.dtype = NIB_UINT8, .rank = 3, .dims = {N, blocks, s->block / 2}};
    const nib_status status = add(bench, p, codes, packed, true, 0, 0, error);
    p->flops += 2.0 * (double)s->M * (double)s->K * (double)N;
    return status != NIB_OK ? status : add(bench, p, scales, matrix(s->dtype, N, blocks), true, 0.001, 0.02, error);
}

static nib_status add_weights(bench_context *bench, bench_problem *p, nib_error *error)
{
    static const char *const names[2][3][2] = {{{"q_B", "q_scales"}, {"k_B", "k_scales"}, {"v_B", "v_scales"}},
                                               {{"gate_B", "gate_scales"}, {"up_B", "up_scales"}}};
    static const char *const outputs[3][3] = {{"Q", "K", "V"}, {"Y"}, {"Y"}};
    const bench_shape *s = &p->shape;
    const size_t count = s->op == BENCH_QKV ? 3 : 2;
    p->output_count = s->op == BENCH_QKV ? 3 : 1;
    memcpy(p->outputs, outputs[s->op], sizeof p->outputs);
    if (s->op == BENCH_BNB4) {
        p->flops = 2.0 * (double)s->M * (double)s->K * (double)s->N;
        const nib_status status = add(bench, p, "B", vector(NIB_UINT8, (s->N * s->K + 1) / 2), true, 0, 0, error);
        const int64_t blocks = (s->N * s->K + s->block - 1) / s->block;
        return status != NIB_OK ? status : add(bench, p, "absmax", vector(s->dtype, blocks), true, 0.001, 0.02, error);
    }
    for (size_t i = 0; i < count; i++) {
        const int64_t N = s->op == BENCH_QKV && i > 0 ? s->Nkv : s->N;
        const nib_status status = add_nbits(bench, p, names[s->op][i][0], names[s->op][i][1], N, error);
        if (status != NIB_OK)
            return status;
    }
    return NIB_OK;
}

static void add_attribute(bench_problem *p, const char *name, double number, const char *text)
{
    p->attributes[p->attribute_count++] = (nib_named_scalar){
        .name = name, .kind = text ? NIB_SCALAR_STRING : NIB_SCALAR_NUMBER, .number = number, .string = text};
}

static void add_attributes(bench_problem *p)
{
    const bench_shape *s = &p->shape;
    add_attribute(p, "K", (double)s->K, NULL);
    add_attribute(p, s->op == BENCH_QKV ? "Nq" : "N", (double)s->N, NULL);
    add_attribute(p, "block_size", (double)s->block, NULL);
    if (s->op == BENCH_QKV)
        add_attribute(p, "Nkv", (double)s->Nkv, NULL);
    if (s->op == BENCH_MLP)
        add_attribute(p, "activation", 0, "silu");
    if (s->op == BENCH_BNB4)
        add_attribute(p, "quant_type", 1, NULL);
}

static nib_status make_host(bench_context *bench, bench_problem *p, nib_error *error)
{
    const bench_shape *s = &p->shape;
    nib_status status = add(bench, p, "A", matrix(s->dtype, s->M, s->K), false, -1, 1, error);
    if (status == NIB_OK && s->skip)
        status = add(bench, p, "skip", matrix(s->dtype, s->M, s->K), false, -1, 1, error);
    if (status == NIB_OK && s->norm && s->op != BENCH_BNB4)
        status = add(bench, p, "norm_scale", vector(s->dtype, s->K), false, 0.5, 1.5, error);
    if (status == NIB_OK)
        status = add_weights(bench, p, error);
    add_attributes(p);
    return status;
}

/* ---- calls ---- */

static nib_request request_of(const bench_context *bench, const bench_problem *p, bool gpu)
{
    return (nib_request){.tensors = p->tensors,
                         .tensor_count = p->tensor_count,
                         .attributes = p->attributes,
                         .attribute_count = p->attribute_count,
                         .tunables = bench->tunables,
                         .tunable_count = gpu ? bench->tunable_count : 0,
                         .variant = gpu ? bench->variant : NULL};
}

static bool is_packed(const nib_package *package, const char *name)
{
    return nib_package_port_at(package, nib_package_find_port(package, name)).packed;
}

/* Buffers of copy `c`: its own weights; activations are those of copy 0. */
static nib_status upload_copy(bench_context *bench, bench_problem *p, size_t c, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < p->tensor_count && status == NIB_OK; i++) {
        const bool packed = is_packed(bench->package[p->shape.op], p->tensors[i].name);
        if (c > 0 && !p->weight[i])
            continue;
        status = nib_webgpu_tensor_create(bench->gpu, &p->tensors[i].desc, packed ? NIB_WEBGPU_PACKED : NIB_WEBGPU_NATURAL,
                                          &p->device[c][i], error);
        if (status == NIB_OK)
            status = nib_webgpu_tensor_write(bench->gpu, p->device[c][i], nib_tensor_data(p->host[i]),
                                             nib_tensor_bytes(p->host[i]), error);
    }
    return status;
}

static nib_status bind_copy(bench_problem *p, size_t c, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < p->tensor_count && status == NIB_OK; i++)
        status = nib_call_bind(p->calls[c], p->tensors[i].name, p->device[p->device[c][i] ? c : 0][i], error);
    for (size_t i = 0; i < p->output_count && status == NIB_OK; i++)
        status = nib_call_bind(p->calls[c], p->outputs[i], p->result[i], error);
    return status != NIB_OK ? status : nib_webgpu_call_upload(p->calls[c], error);
}

static nib_status make_outputs(bench_context *bench, bench_problem *p, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < p->output_count && status == NIB_OK; i++) {
        const int64_t N = p->shape.op == BENCH_QKV && i > 0 ? p->shape.Nkv : p->shape.N;
        const nib_tensor_desc desc = matrix(p->shape.dtype, p->shape.M, N);
        status = nib_webgpu_tensor_create(bench->gpu, &desc, NIB_WEBGPU_NATURAL, &p->result[i], error);
        p->bytes += (double)p->shape.M * (double)N * (double)nib_dtype_bytes(p->shape.dtype);
    }
    return status;
}

nib_status bench_problem_make(bench_context *bench, const bench_shape *shape, bench_problem *p, nib_error *error)
{
    *p = (bench_problem){.shape = *shape};
    nib_status status = make_host(bench, p, error);
    if (status == NIB_OK)
        status = make_outputs(bench, p, error);
    const double copies = ceil(bench->rotate_bytes / (p->weight_bytes + 1));
    p->copies = copies < 1 ? 1 : copies > BENCH_MAX_COPIES ? BENCH_MAX_COPIES : (size_t)copies;
    for (size_t c = 0; c < p->copies && status == NIB_OK; c++)
        status = upload_copy(bench, p, c, error);
    return status;
}

static void free_calls(bench_problem *p)
{
    for (size_t c = 0; c < p->copies; c++) {
        nib_call_free(p->calls[c]);
        p->calls[c] = NULL;
    }
    nib_plan_free(p->plan);
    p->plan = NULL;
}

nib_status bench_problem_plan(bench_context *bench, bench_problem *p, nib_error *error)
{
    const nib_request request = request_of(bench, p, true);
    free_calls(p);
    nib_status status = nib_plan_create(bench->package[p->shape.op], &request, nib_device_caps(bench->gpu), &p->plan, error);
    for (size_t c = 0; c < p->copies && status == NIB_OK; c++) {
        status = nib_call_prepare(bench->gpu, p->plan, NULL, &p->calls[c], error);
        if (status == NIB_OK)
            status = bind_copy(p, c, error);
    }
    return status;
}

void bench_problem_free(bench_problem *p)
{
    free_calls(p);
    for (size_t c = 0; c < p->copies; c++) {
        for (size_t i = 0; i < p->tensor_count; i++)
            nib_tensor_free(p->device[c][i]);
    }
    for (size_t i = 0; i < p->output_count; i++)
        nib_tensor_free(p->result[i]);
    for (size_t i = 0; i < p->tensor_count; i++)
        nib_tensor_free(p->host[i]);
}

/* ---- the check ---- */

/* The same request with a few of the rows, for the CPU. */
enum { CHECKED_ROWS = 3 };

static int64_t checked_row(const bench_shape *s, int64_t i)
{
    return s->M <= CHECKED_ROWS ? i : i == 0 ? 0 : i == 1 ? s->M / 2 + 1 : s->M - 1;
}

static void take_rows(const bench_problem *p, size_t tensor, int64_t rows, char *out)
{
    const size_t bytes = (size_t)p->shape.K * nib_dtype_bytes(p->shape.dtype);
    const char *data = nib_tensor_data(p->host[tensor]);
    for (int64_t r = 0; r < rows; r++)
        memcpy(out + (size_t)r * bytes, data + (size_t)checked_row(&p->shape, r) * bytes, bytes);
}

static double element(const void *data, nib_dtype dtype, size_t i)
{
    float single;
    uint16_t half;
    if (dtype == NIB_FLOAT32) {
        memcpy(&single, (const char *)data + 4 * i, 4);
        return (double)single;
    }
    memcpy(&half, (const char *)data + 2 * i, 2);
    return (double)nib_half_to_float(half);
}

static double compare(const bench_problem *p, const char *gpu, nib_tensor *expected, int64_t rows)
{
    const size_t N = (size_t)nib_tensor_describe(expected)->dims[1];
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        double most = 0, off = 0;
        for (size_t n = 0; n < N; n++) {
            const double want = element(nib_tensor_data(expected), p->shape.dtype, (size_t)r * N + n);
            const double got = element(gpu, p->shape.dtype, (size_t)checked_row(&p->shape, r) * N + n);
            most = fmax(most, fabs(want));
            off = isfinite(got) ? fmax(off, fabs(got - want)) : HUGE_VAL;
        }
        worst = fmax(worst, off / most);
    }
    return worst;
}

static nib_status solve_on_cpu(bench_context *bench, bench_problem *p, int64_t rows, nib_call **call, nib_plan **plan,
                               nib_tensor **part, nib_error *error)
{
    nib_named_desc tensors[BENCH_MAX_TENSORS];
    nib_request request = request_of(bench, p, false);
    memcpy(tensors, p->tensors, sizeof tensors);
    for (size_t i = 0; i < p->tensor_count; i++) {
        if (!p->weight[i] && tensors[i].desc.rank == 2)
            tensors[i].desc.dims[0] = rows;
    }
    request.tensors = tensors;
    request.relaxed = true;
    nib_status status = nib_plan_create(bench->package[p->shape.op], &request, nib_device_caps(bench->cpu), plan, error);
    if (status == NIB_OK)
        status = nib_call_prepare(bench->cpu, *plan, NULL, call, error);
    for (size_t i = 0; i < p->tensor_count && status == NIB_OK; i++) {
        nib_tensor *bound = p->host[i];
        if (!p->weight[i] && tensors[i].desc.rank == 2) {
            status = nib_tensor_create(bench->context, &tensors[i].desc, &part[i], error);
            if (status != NIB_OK)
                break;
            take_rows(p, i, rows, nib_tensor_data(part[i]));
            bound = part[i];
        }
        status = nib_call_bind(*call, tensors[i].name, bound, error);
    }
    return status != NIB_OK ? status : nib_call_run(*call, error);
}

nib_status bench_problem_check(bench_context *bench, bench_problem *p, double *worst, nib_error *error)
{
    const int64_t rows = p->shape.M < CHECKED_ROWS ? p->shape.M : CHECKED_ROWS;
    nib_call *call = NULL;
    nib_plan *plan = NULL;
    nib_tensor *part[BENCH_MAX_TENSORS] = {NULL};
    *worst = 0;
    nib_call *last[] = {p->calls[p->copies - 1]};
    nib_status status = solve_on_cpu(bench, p, rows, &call, &plan, part, error);
    if (status == NIB_OK)
        status = nib_webgpu_submit(bench->gpu, last, 1, error);
    for (size_t i = 0; i < p->output_count && status == NIB_OK; i++) {
        const size_t bytes = nib_tensor_bytes(p->result[i]);
        char *got = malloc(bytes);
        status = nib_webgpu_tensor_read(bench->gpu, p->result[i], got, bytes, error);
        if (status == NIB_OK)
            *worst = fmax(*worst, compare(p, got, nib_call_tensor(call, p->outputs[i]), rows));
        free(got);
    }
    nib_call_free(call);
    nib_plan_free(plan);
    for (size_t i = 0; i < BENCH_MAX_TENSORS; i++)
        nib_tensor_free(part[i]);
    return status;
}
