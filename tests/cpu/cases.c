/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nibble/quant.h"
#include "nibble/tensor.h"

/* ---- random arrays ---- */

unsigned case_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

double case_uniform(unsigned *state)
{
    return (double)case_random(state) / 0x1p23 - 1;
}

static void *checked(void *ptr)
{
    if (!ptr) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return ptr;
}

static case_array *add_array(test_case *c, size_t bytes)
{
    case_array *array = &c->arrays[c->array_count++];
    array->bytes = bytes;
    array->memory =
        checked(aligned_alloc(64, (bytes + 2 * CASE_GUARD + c->spec.misalign + 63) / 64 * 64));
    array->data = array->memory + CASE_GUARD + c->spec.misalign;
    memset(array->memory, 0xa5, bytes + 2 * CASE_GUARD + c->spec.misalign);
    return array;
}

static void put(void *array, bool half, size_t i, double value)
{
    if (half) {
        const uint16_t bits = nib_half_from_float((float)value);
        memcpy((char *)array + 2 * i, &bits, 2);
    } else {
        const float single = (float)value;
        memcpy((char *)array + 4 * i, &single, 4);
    }
}

static double get(const void *array, bool half, size_t i)
{
    if (half) {
        uint16_t bits;
        memcpy(&bits, (const char *)array + 2 * i, 2);
        return (double)nib_half_to_float(bits);
    }
    float single;
    memcpy(&single, (const char *)array + 4 * i, 4);
    return (double)single;
}

/* Values spread over a few binary orders, some negative, some zero. */
static void *random_floats(test_case *c, size_t count, double low, double high, unsigned *state)
{
    const bool half = c->spec.half;
    case_array *array = add_array(c, count * (half ? 2 : 4));
    for (size_t i = 0; i < count; i++) {
        const double value = low + (high - low) * (case_uniform(state) + 1) / 2;
        put(array->data, half, i,
            case_random(state) % 61 == 0 ? 0 : value * ldexp(1, (int)(case_random(state) % 3)));
    }
    return array->data;
}

static void *random_bytes(test_case *c, size_t count, unsigned *state)
{
    case_array *array = add_array(c, count);
    for (size_t i = 0; i < count; i++)
        array->data[i] = (unsigned char)case_random(state);
    return array->data;
}

static void *add_output(test_case *c, size_t rows, size_t length)
{
    const size_t which = c->outputs++;
    c->output_array[which] = c->array_count;
    c->row_length[which] = length;
    c->expected_count[which] = rows * length;
    c->expected[which] = checked(calloc(rows * length + 1, sizeof(double)));
    c->magnitude[which] = checked(calloc(rows * length + 1, sizeof(double)));
    return add_array(c, rows * length * (c->spec.half ? 2 : 4))->data;
}

/* ---- building ---- */

static void add_nbits(test_case *c, size_t N, unsigned *state)
{
    nib_cpu_problem *p = &c->problem;
    nib_cpu_weights *w = &p->weights[p->weight_count++];
    *w = nib_cpu_nbits(N, c->spec.K, c->spec.bits, c->spec.block, c->spec.half);
    w->codes = random_bytes(c, N * w->row_bytes, state);
    w->scales = random_floats(c, N * w->blocks, -0.05, 0.1, state);
}

static void add_bnb4(test_case *c, unsigned *state)
{
    nib_cpu_problem *p = &c->problem;
    nib_cpu_weights *w = &p->weights[p->weight_count++];
    const size_t elements = c->spec.N * c->spec.K;
    *w = nib_cpu_bnb4(c->spec.N, c->spec.K, c->spec.quant_type, c->spec.block, c->spec.half);
    w->codes = random_bytes(c, (elements + 1) / 2, state);
    w->scales = random_floats(c, (elements + c->spec.block - 1) / c->spec.block, 0.01, 0.2, state);
}

void case_make(test_case *c, const case_spec *spec)
{
    memset(c, 0, sizeof *c);
    c->spec = *spec;
    if (!c->spec.bits)
        c->spec.bits = 4;
    const size_t M = spec->M, K = spec->K;
    unsigned state = spec->seed * 2654435761u + 12345u;
    nib_cpu_problem *p = &c->problem;
    p->M = M;
    p->K = K;
    p->half = spec->half;
    p->epsilon = 1e-5;
    p->int8 = spec->int8;
    p->a = random_floats(c, M * K, -2, 2, &state);
    if (spec->skip)
        p->skip = random_floats(c, M * K, -1, 1, &state);
    if (spec->norm)
        p->gain = random_floats(c, K, 0.2, 1.5, &state);
    if (spec->kind == CASE_BNB4)
        add_bnb4(c, &state);
    else
        add_nbits(c, spec->N, &state);
    if (spec->kind == CASE_MLP)
        add_nbits(c, spec->N, &state);
    for (int i = 0; spec->kind == CASE_QKV && i < 2; i++)
        add_nbits(c, spec->Nkv, &state);
    if (spec->gate_bias)
        p->bias[0] = random_floats(c, spec->N, -1, 1, &state);
    if (spec->up_bias)
        p->bias[1] = random_floats(c, spec->N, -1, 1, &state);
    p->gated = spec->kind == CASE_MLP;
    for (size_t i = 0; i < (p->gated ? 1 : p->weight_count); i++)
        p->out[i] = add_output(c, M, p->weights[i].N);
    if (spec->residual)
        p->residual = add_output(c, M, K);
    case_reference(c);
}

void case_free(test_case *c)
{
    for (size_t i = 0; i < c->array_count; i++)
        free(c->arrays[i].memory);
    for (size_t i = 0; i < c->outputs; i++) {
        free(c->expected[i]);
        free(c->magnitude[i]);
    }
}

/* ---- the reference, in float64 ---- */

static double reference_weight(const test_case *c, const nib_cpu_weights *w, size_t n, size_t k)
{
    if (c->spec.kind == CASE_BNB4) {
        const size_t flat = n * w->K + k;
        const unsigned byte = w->codes[flat / 2];
        const unsigned code = flat % 2 == 0 ? byte / 16 : byte % 16;
        return (double)nib_bnb4_codebook(c->spec.quant_type)[code] *
               get(w->scales, c->spec.half, flat / w->block);
    }
    const size_t bit = n * w->row_bytes * 8 + k * (size_t)c->spec.bits;
    unsigned code = 0;
    for (int i = 0; i < c->spec.bits; i++) {
        const size_t at = bit + (size_t)i;
        code |= (w->codes[at / 8] >> at % 8 & 1u) << i;
    }
    const double middle = ldexp(1, c->spec.bits - 1);
    return ((double)code - middle) *
           get(w->scales, c->spec.half, n * ((w->K + w->block - 1) / w->block) + k / w->block);
}

static double *reference_activations(const test_case *c)
{
    const nib_cpu_problem *p = &c->problem;
    const bool half = c->spec.half;
    double *x = checked(calloc(p->M * p->K + 1, sizeof *x));
    for (size_t m = 0; m < p->M; m++) {
        double squares = 0;
        for (size_t k = 0; k < p->K; k++) {
            const size_t i = m * p->K + k;
            x[i] = get(p->a, half, i) + (p->skip ? get(p->skip, half, i) : 0);
            squares += x[i] * x[i];
            if (p->residual)
                c->expected[c->outputs - 1][i] = x[i];
        }
        for (size_t k = 0; p->gain && k < p->K; k++)
            x[m * p->K + k] *= get(p->gain, half, k) / sqrt(squares / (double)p->K + p->epsilon);
    }
    return x;
}

/* int8 activations by blocks; the definition is in float32: q = round(x * (127 / max)), x' = q *
 * (max / 127). */
static void reference_quantize(const test_case *c, double *x)
{
    const size_t K = c->spec.K, block = c->spec.block;
    for (size_t i = 0; i < c->problem.M * K;) {
        const size_t left = K - i % K, count = left < block ? left : block;
        float largest = 0;
        for (size_t k = i; k < i + count; k++)
            largest = fmaxf(largest, fabsf((float)x[k]));
        const float inverse = 127 / largest, scale = largest / 127;
        for (size_t k = i; k < i + count && largest > 0; k++) {
            const float scaled = (float)x[k] * inverse;
            x[k] = nearbyint((double)scaled) * (double)scale;
        }
        i += count;
    }
}

static void reference_product(const test_case *c, const nib_cpu_weights *w, const double *x,
                              double *y)
{
    for (size_t n = 0; n < w->N; n++) {
        for (size_t m = 0; m < c->problem.M; m++)
            y[m * w->N + n] = 0;
        for (size_t k = 0; k < w->K; k++) {
            const double weight = reference_weight(c, w, n, k);
            for (size_t m = 0; m < c->problem.M; m++)
                y[m * w->N + n] += weight * x[m * w->K + k];
        }
    }
}

static double largest_of(const double *row, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = isfinite(row[i]) ? fmax(largest, fabs(row[i])) : largest;
    return largest;
}

static void reference_bias(const test_case *c, const void *bias, double *y)
{
    const size_t N = c->spec.N;
    for (size_t i = 0; bias && i < c->problem.M * N; i++)
        y[i] += get(bias, c->spec.half, i % N);
}

static void reference_gate(const test_case *c, const double *x, double *y)
{
    const nib_cpu_problem *p = &c->problem;
    const size_t N = c->spec.N;
    double *up = checked(calloc(p->M * N + 1, sizeof *up));
    reference_product(c, &p->weights[0], x, y);
    reference_product(c, &p->weights[1], x, up);
    reference_bias(c, p->bias[0], y);
    reference_bias(c, p->bias[1], up);
    for (size_t m = 0; m < p->M; m++) {
        const double largest_gate = largest_of(y + m * N, N),
                     largest_up = largest_of(up + m * N, N);
        for (size_t i = m * N; i < (m + 1) * N; i++) {
            const double sigmoid = 1 / (1 + exp(-y[i])), silu = y[i] / (1 + exp(-y[i]));
            const double slope = sigmoid * (1 + y[i] * (1 - sigmoid));
            c->magnitude[0][i] = fabs(slope * up[i]) * largest_gate + fabs(silu) * largest_up;
            y[i] = silu * up[i];
        }
    }
    free(up);
}

static void reference_magnitudes(test_case *c)
{
    for (size_t o = 0; o < c->outputs; o++) {
        for (size_t i = 0; i < c->expected_count[o]; i++) {
            const size_t length = c->row_length[o];
            const double row = largest_of(c->expected[o] + i / length * length, length);
            const bool gated = o == 0 && c->problem.gated && isfinite(c->magnitude[o][i]);
            c->magnitude[o][i] = gated ? fmax(row, c->magnitude[o][i]) : row;
        }
    }
}

void case_reference(test_case *c)
{
    double *x = reference_activations(c);
    if (c->spec.int8)
        reference_quantize(c, x);
    if (c->problem.gated) {
        reference_gate(c, x, c->expected[0]);
    } else {
        for (size_t i = 0; i < c->problem.weight_count; i++)
            reference_product(c, &c->problem.weights[i], x, c->expected[i]);
    }
    reference_magnitudes(c);
    free(x);
}

/* ---- solving and comparing ---- */

static bool guards_intact(const case_array *array, size_t misalign)
{
    const size_t before = CASE_GUARD + misalign, after = before + array->bytes;
    for (size_t i = 0; i < before; i++) {
        if (array->memory[i] != 0xa5)
            return false;
    }
    for (size_t i = after; i < after + CASE_GUARD; i++) {
        if (array->memory[i] != 0xa5)
            return false;
    }
    return true;
}

/* The lanes one after the other, for a build without a thread pool. */
static void in_turn(void *user, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    (void)user;
    for (size_t i = 0; i < count; i++)
        task(arg, i);
}

bool case_solve(test_case *c, const nib_cpu_row *row, size_t threads)
{
    nib_device_options options = {.threads = (uint32_t)threads};
    nib_cpu_pool pool;
    nib_cpu_workspace space;
    nib_error error = {0};
    nib_status status = nib_cpu_pool_open(&pool, &options, &error);
    if (status == NIB_UNSUPPORTED) {
        options.parallel_for = in_turn;
        status = nib_cpu_pool_open(&pool, &options, &error);
    }
    if (status != NIB_OK || nib_cpu_workspace_make(&space, &nib_default_allocator, row, &pool,
                                                   &c->problem, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    for (size_t i = 0; i < c->outputs; i++)
        memset(c->arrays[c->output_array[i]].data, 0xee, c->arrays[c->output_array[i]].bytes);
    nib_cpu_solve(&c->problem, row, &pool, &space);
    nib_cpu_workspace_free(&space);
    nib_cpu_pool_close(&pool);
    bool intact = true;
    for (size_t i = 0; i < c->array_count; i++)
        intact &= guards_intact(&c->arrays[i], c->spec.misalign);
    return intact;
}

double case_output(const test_case *c, size_t output, size_t i)
{
    return get(c->arrays[c->output_array[output]].data, c->spec.half, i);
}

/* The distance to the next float16 of larger magnitude. */
static double half_ulp(double value)
{
    const double magnitude = fabs(value);
    return magnitude < 0x1p-14 ? 0x1p-24 : ldexp(1, (int)floor(log2(magnitude)) - 10);
}

static double element_error(double is, double should, bool half, double magnitude)
{
    const double largest = half ? 65504.0 : 3.4028234663852886e38;
    if (isnan(should) || isnan(is))
        return isnan(should) && isnan(is) ? 0 : 1e30;
    if (fabs(should) > largest * 1.0005)
        return is == copysign((double)INFINITY, should) ? 0 : 1e30;
    if (isinf(is))
        return fabs(should) > largest * 0.999 ? 0 : 1e30;
    const double bound = 1e-5 * magnitude + (half ? half_ulp(should) : 0) + 1e-37;
    return fabs(is - should) / bound;
}

double case_error(const test_case *c)
{
    double worst = 0;
    for (size_t o = 0; o < c->outputs; o++) {
        for (size_t i = 0; i < c->expected_count[o]; i++)
            worst = fmax(worst, element_error(case_output(c, o, i), c->expected[o][i], c->spec.half,
                                              c->magnitude[o][i]));
    }
    return worst;
}

const char *case_text(const case_spec *s, char *out, size_t out_bytes)
{
    static const char *const kinds[] = {"qkv", "mlp", "bnb4"};
    snprintf(out, out_bytes,
             "%s M=%zu K=%zu N=%zu Nkv=%zu bits=%d block=%zu type=%d %s%s%s%s%s%s%s misalign=%zu "
             "seed=%u",
             kinds[s->kind], s->M, s->K, s->N, s->Nkv, s->bits ? s->bits : 4, s->block,
             s->quant_type, s->half ? "f16" : "f32", s->norm ? " norm" : "", s->skip ? " skip" : "",
             s->residual ? " residual" : "", s->gate_bias ? " gate_bias" : "",
             s->up_bias ? " up_bias" : "", s->int8 ? " int8" : "", s->misalign, s->seed);
    return out;
}
