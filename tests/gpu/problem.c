/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <math.h>

const char *op_name(op_kind op)
{
    static const char *const names[] = {"MatMulNBitsQkv", "MatMulNBitsMlp", "MatMulBnb4"};
    return names[op];
}

nib_package *load_op(nib_context *context, op_kind op)
{
    char path[512], variable[64];
    snprintf(path, sizeof path, NIB_SOURCE_DIR "/kernels/com.microsoft.%s", op_name(op));
    snprintf(variable, sizeof variable, "NIBBLE_TEST_MANIFEST_%s", op_name(op));
    const nib_package_options options = {.manifest_file = getenv(variable), .skip_verify = true};
    nib_package *package;
    ASSERT_OK(nib_package_load(context, path, &options, &package, &error));
    return package;
}

/* ---- data ---- */

static float uniform(rng *r, float low, float high)
{
    return low + (high - low) * (float)(rng_next(r) >> 40) / (float)(1 << 24);
}

typedef enum fill { FILL_ACTIVATION, FILL_SCALE, FILL_GAIN, FILL_BIAS, FILL_CODES } fill;

static float draw(rng *r, fill kind)
{
    const uint64_t chance = rng_next(r) % 64;
    switch (kind) {
    case FILL_ACTIVATION:
        return chance == 0 ? 0.0f : chance == 1 ? uniform(r, -60.0f, 60.0f) : uniform(r, -2.0f, 2.0f);
    case FILL_SCALE:
        return chance == 0 ? 0.0f : uniform(r, -0.06f, 0.1f);
    case FILL_GAIN:
        return uniform(r, 0.2f, 1.8f);
    case FILL_BIAS:
        return uniform(r, -1.0f, 1.0f);
    case FILL_CODES:
        break;
    }
    return 0.0f;
}

static void fill_tensor(nib_tensor *tensor, rng *r, fill kind)
{
    const size_t count = tensor->elements;
    if (kind == FILL_CODES) {
        rng_bytes(r, tensor->data, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const float value = draw(r, kind);
        const uint16_t half = nib_half_from_float(value);
        if (tensor->desc.dtype == NIB_FLOAT16)
            memcpy((char *)tensor->data + 2 * i, &half, 2);
        else
            memcpy((char *)tensor->data + 4 * i, &value, 4);
    }
}

static void add_input(nib_context *context, problem *p, rng *r, const char *name, fill kind, uint32_t rank,
                      const int64_t *dims)
{
    nib_tensor_desc desc = {.dtype = kind == FILL_CODES ? NIB_UINT8 : p->shape.dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        desc.dims[i] = dims[i];
    const size_t i = p->input_count++;
    p->tensors[i] = (nib_named_desc){name, desc};
    ASSERT_OK(nib_tensor_create(context, &desc, &p->inputs[i], &error));
    fill_tensor(p->inputs[i], r, kind);
}

static void add_attribute(problem *p, const char *name, int64_t value)
{
    p->attributes[p->attribute_count++] =
        (nib_named_scalar){.name = name, .kind = NIB_SCALAR_NUMBER, .number = (double)value};
}

static void add_activation(nib_context *context, problem *p, rng *r, const char *name)
{
    const shape *s = &p->shape;
    const int64_t two[] = {s->rows, s->K}, three[] = {s->batch, s->batch ? s->rows / s->batch : 0, s->K};
    add_input(context, p, r, name, FILL_ACTIVATION, s->batch ? 3 : 2, s->batch ? three : two);
}

static void add_weight(nib_context *context, problem *p, rng *r, const char *codes, const char *scales, int64_t N)
{
    const shape *s = &p->shape;
    const int64_t blocks = (s->K + s->block_size - 1) / s->block_size;
    const int64_t code_dims[] = {N, blocks, s->block_size * s->bits / 8}, scale_dims[] = {N, blocks};
    add_input(context, p, r, codes, FILL_CODES, 3, code_dims);
    add_input(context, p, r, scales, FILL_SCALE, 2, scale_dims);
}

static void add_output(problem *p, const char *name)
{
    p->outputs[p->output_count++] = name;
}

static void add_residual(problem *p)
{
    if (!p->shape.residual)
        return;
    add_output(p, "input_skip_bias_sum");
    p->want[p->want_count++] = "input_skip_bias_sum";
}

static void make_qkv(nib_context *context, problem *p, rng *r)
{
    const shape *s = &p->shape;
    add_activation(context, p, r, "A");
    if (s->skip)
        add_activation(context, p, r, "skip");
    add_input(context, p, r, "norm_scale", FILL_GAIN, 1, &s->K);
    add_weight(context, p, r, "q_B", "q_scales", s->N);
    add_weight(context, p, r, "k_B", "k_scales", s->Nkv);
    add_weight(context, p, r, "v_B", "v_scales", s->Nkv);
    add_attribute(p, "K", s->K);
    add_attribute(p, "Nq", s->N);
    add_attribute(p, "Nkv", s->Nkv);
    add_attribute(p, "block_size", s->block_size);
    add_output(p, "Q");
    add_output(p, "K");
    add_output(p, "V");
    add_residual(p);
}

static void make_mlp(nib_context *context, problem *p, rng *r)
{
    const shape *s = &p->shape;
    add_activation(context, p, r, "A");
    if (s->skip)
        add_activation(context, p, r, "skip");
    if (s->norm)
        add_input(context, p, r, "norm_scale", FILL_GAIN, 1, &s->K);
    add_weight(context, p, r, "gate_B", "gate_scales", s->N);
    if (s->gate_bias)
        add_input(context, p, r, "gate_bias", FILL_BIAS, 1, &s->N);
    add_weight(context, p, r, "up_B", "up_scales", s->N);
    if (s->up_bias)
        add_input(context, p, r, "up_bias", FILL_BIAS, 1, &s->N);
    add_attribute(p, "K", s->K);
    add_attribute(p, "N", s->N);
    add_attribute(p, "block_size", s->block_size);
    add_attribute(p, "bits", s->bits);
    p->attributes[p->attribute_count++] =
        (nib_named_scalar){.name = "activation", .kind = NIB_SCALAR_STRING, .string = "silu"};
    add_output(p, "Y");
    add_residual(p);
}

static void make_bnb4(nib_context *context, problem *p, rng *r)
{
    const shape *s = &p->shape;
    const int64_t bytes = (s->N * s->K + 1) / 2, blocks = (s->N * s->K + s->block_size - 1) / s->block_size;
    add_activation(context, p, r, "A");
    add_input(context, p, r, "B", FILL_CODES, 1, &bytes);
    add_input(context, p, r, "absmax", FILL_GAIN, 1, &blocks);
    add_attribute(p, "K", s->K);
    add_attribute(p, "N", s->N);
    add_attribute(p, "block_size", s->block_size);
    add_attribute(p, "quant_type", s->quant_type);
    add_output(p, "Y");
}

void make_problem(nib_context *context, const shape *s, rng *r, problem *out)
{
    static void (*const make[])(nib_context *, problem *, rng *) = {make_qkv, make_mlp, make_bnb4};
    memset(out, 0, sizeof *out);
    out->shape = *s;
    make[s->op](context, out, r);
}

void free_problem(problem *p)
{
    for (size_t i = 0; i < p->input_count; i++)
        nib_tensor_free(p->inputs[i]);
    for (size_t i = 0; i < p->output_count; i++)
        nib_tensor_free(p->expected[i]);
}

nib_request request_of(const problem *p, const char *variant)
{
    return (nib_request){.tensors = p->tensors,
                         .tensor_count = p->input_count,
                         .attributes = p->attributes,
                         .attribute_count = p->attribute_count,
                         .want = p->want,
                         .want_count = p->want_count,
                         .variant = variant};
}

/* ---- the CPU's answer ---- */

static nib_tensor *copy_of(nib_context *context, nib_tensor *tensor)
{
    nib_tensor *copy;
    ASSERT_OK(nib_tensor_create(context, nib_tensor_describe(tensor), &copy, &error));
    memcpy(nib_tensor_data(copy), nib_tensor_data(tensor), nib_tensor_bytes(tensor));
    return copy;
}

void solve_problem(nib_context *context, nib_device *cpu, const nib_package *package, problem *p)
{
    nib_request request = request_of(p, NULL);
    request.relaxed = true; /* float16 without a device that has it */
    nib_plan *plan;
    nib_call *call;
    ASSERT_OK(nib_plan_create(package, &request, nib_device_caps(cpu), &plan, &error));
    ASSERT_OK(nib_call_prepare(cpu, plan, NULL, &call, &error));
    for (size_t i = 0; i < p->input_count; i++)
        ASSERT_OK(nib_call_bind(call, p->tensors[i].name, p->inputs[i], &error));
    ASSERT_OK(nib_call_run(call, &error));
    for (size_t i = 0; i < p->output_count; i++)
        p->expected[i] = copy_of(context, nib_call_tensor(call, p->outputs[i]));
    nib_call_free(call);
    nib_plan_free(plan);
}

/* ---- comparing ---- */

static double element(const nib_tensor_desc *desc, const void *data, size_t i)
{
    if (desc->dtype == NIB_FLOAT16) {
        uint16_t half;
        memcpy(&half, (const char *)data + 2 * i, 2);
        return (double)nib_half_to_float(half);
    }
    float value;
    memcpy(&value, (const char *)data + 4 * i, 4);
    return (double)value;
}

/* One unit in the last place of a float16 of this size. */
static double half_ulp(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, exponent < -13 ? -24 : exponent - 11);
}

/* float32: 1e-4 relative to the value and 2e-6 to the largest of the tensor, since sums cancel. float16: one unit in the
 * last place, 1e-3 on top, and 1e-7 of the largest for what the float32 sums behind it lose. */
static double tolerance(nib_dtype dtype, double expected, double largest)
{
    if (dtype == NIB_FLOAT16)
        return half_ulp(expected) + 1e-3 * fmax(1.0, fabs(expected)) + 1e-7 * largest;
    return 1e-4 * fabs(expected) + 2e-6 * largest;
}

static bool is_close(nib_dtype dtype, double got, double expected, double largest)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (isinf(expected) || isinf(got))
        return got == expected;
    return fabs(got - expected) <= tolerance(dtype, expected, largest);
}

static double largest_of(const nib_tensor_desc *desc, const void *data, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = fabs(element(desc, data, i));
        largest = value > largest && !isinf(value) ? value : largest;
    }
    return largest;
}

bool differs(const nib_tensor_desc *desc, const void *got, const void *expected, char *text, size_t text_bytes)
{
    size_t count;
    ASSERT_OK(nib_tensor_desc_elements(desc, &count, &error));
    const size_t row = desc->rank ? (size_t)desc->dims[desc->rank - 1] : 1;
    const double largest = largest_of(desc, expected, count);
    for (size_t i = 0; i < count; i++) {
        const double a = element(desc, got, i), b = element(desc, expected, i);
        if (is_close(desc->dtype, a, b, largest))
            continue;
        snprintf(text, text_bytes, "element %zu (row %zu, column %zu): %.9g, expected %.9g (largest %.3g)", i,
                 i / row, i % row, a, b, largest);
        return true;
    }
    return false;
}
