/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "nibble/tensor.h"

/* ---- reading ---- */

static bool set_number(bench_shape *s, const char *name, const char *value)
{
    const struct {
        const char *name;
        size_t *size;
        int *number;
    } fields[] = {
        {"M", &s->M, NULL},       {"K", &s->K, NULL},         {"N", &s->N, NULL},
        {"Nkv", &s->Nkv, NULL},   {"block", &s->block, NULL}, {"copies", &s->copies, NULL},
        {"bits", NULL, &s->bits}, {"level", NULL, &s->level},
    };
    char *end;
    const long number = strtol(value, &end, 10);
    if (*end || number < 0)
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(name, fields[i].name) != 0)
            continue;
        if (fields[i].size)
            *fields[i].size = (size_t)number;
        else
            *fields[i].number = (int)number;
        return true;
    }
    return false;
}

static bool set_field(bench_shape *s, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(word, "dtype") == 0) {
        s->half = strcmp(value, "f16") == 0;
        return s->half || strcmp(value, "f32") == 0;
    }
    if (strcmp(word, "type") == 0) {
        s->quant_type = strcmp(value, "nf4") == 0;
        return s->quant_type || strcmp(value, "fp4") == 0;
    }
    return set_number(s, word, value);
}

static bool set_op(bench_shape *s, const char *word)
{
    static const char *const names[] = {"qkv", "mlp", "bnb4"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, names[i]) == 0) {
            s->op = (bench_op)i;
            s->block = i == BENCH_BNB4 ? 64 : 32;
            return true;
        }
    }
    return false;
}

/* Fields of a line; false when one is wrong. */
static bool parse(char *line, bench_shape *s)
{
    *s = (bench_shape){.bits = 4, .quant_type = 1, .copies = 1};
    size_t used = 0;
    char *rest = line;
    for (char *word = strtok_r(line, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
        const int n =
            snprintf(s->text + used, sizeof s->text - used, "%s%s", used ? " " : "", word);
        if (!(used ? set_field(s, word) : set_op(s, word)) || n < 0 ||
            used + (size_t)n >= sizeof s->text)
            return false;
        used += (size_t)n;
    }
    return s->M && s->K && s->N && s->copies && (s->Nkv || s->op != BENCH_QKV);
}

int bench_shape_read(FILE *file, bench_shape *shape)
{
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t")] == '\0')
            continue;
        char copy[sizeof line];
        memcpy(copy, line, sizeof line);
        if (parse(line, shape))
            return 1;
        fprintf(stderr, "not a shape: %s\n", copy);
        return -1;
    }
    return 0;
}

/* ---- making ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static void *random_floats(size_t count, bool half, float low, float high, uint32_t *state)
{
    unsigned char *memory = allocate(count * (half ? 2 : 4));
    for (size_t i = 0; i < count; i++) {
        const float value = low + (high - low) * (float)next_random(state) / 0x1p24f;
        const uint16_t bits = nib_half_from_float(value);
        if (half)
            memcpy(memory + 2 * i, &bits, 2);
        else
            memcpy(memory + 4 * i, &value, 4);
    }
    return memory;
}

static void *random_bytes(size_t count, uint32_t *state)
{
    unsigned char *memory = allocate(count);
    for (size_t i = 0; i < count; i++)
        memory[i] = (unsigned char)next_random(state);
    return memory;
}

static nib_cpu_weights make_weights(const bench_shape *s, size_t N, uint32_t *state, double *bytes)
{
    size_t codes, scales;
    nib_cpu_weights w;
    if (s->op == BENCH_BNB4) {
        w = nib_cpu_bnb4(N, s->K, s->quant_type, s->block, s->half);
        codes = (N * s->K + 1) / 2;
        scales = (N * s->K + s->block - 1) / s->block;
    } else {
        w = nib_cpu_nbits(N, s->K, s->bits, s->block, s->half);
        codes = N * w.row_bytes;
        scales = N * w.blocks;
    }
    w.codes = random_bytes(codes, state);
    w.scales = random_floats(scales, s->half, 0.001f, 0.02f, state);
    *bytes += (double)codes + (double)scales * (s->half ? 2 : 4);
    return w;
}

void bench_problem_make(bench_problem *b, const bench_shape *s)
{
    uint32_t state = 7;
    *b = (bench_problem){.copies = s->copies};
    nib_cpu_problem *p = &b->problem;
    *p = (nib_cpu_problem){
        .M = s->M, .K = s->K, .half = s->half, .epsilon = 1e-5, .int8 = s->level == 4};
    p->a = random_floats(s->M * s->K, s->half, -1, 1, &state);
    if (s->op != BENCH_BNB4)
        p->gain = random_floats(s->K, s->half, 0.5f, 1.5f, &state);
    p->gated = s->op == BENCH_MLP;
    p->weight_count = s->op == BENCH_QKV ? 3 : s->op == BENCH_MLP ? 2 : 1;
    b->sets = allocate(s->copies * sizeof *b->sets);
    for (size_t c = 0; c < s->copies; c++) {
        b->bytes = 0;
        for (size_t i = 0; i < p->weight_count; i++)
            b->sets[c][i] =
                make_weights(s, s->op == BENCH_QKV && i ? s->Nkv : s->N, &state, &b->bytes);
    }
    for (size_t i = 0; i < p->weight_count; i++) {
        b->operations += 2.0 * (double)s->M * (double)s->K * (double)b->sets[0][i].N;
        if (i == 0 || !p->gated)
            p->out[i] = allocate(s->M * b->sets[0][i].N * (s->half ? 2 : 4));
    }
    bench_problem_use(b, 0);
}

void bench_problem_use(bench_problem *b, size_t copy)
{
    for (size_t i = 0; i < b->problem.weight_count; i++)
        b->problem.weights[i] = b->sets[copy % b->copies][i];
}

void bench_problem_free(bench_problem *b)
{
    for (size_t c = 0; c < b->copies; c++) {
        for (size_t i = 0; i < b->problem.weight_count; i++) {
            free((void *)(uintptr_t)b->sets[c][i].codes);
            free((void *)(uintptr_t)b->sets[c][i].scales);
        }
    }
    free(b->sets);
    free((void *)(uintptr_t)b->problem.a);
    free((void *)(uintptr_t)b->problem.gain);
    for (size_t i = 0; i < NIB_CPU_MAX_WEIGHTS; i++)
        free(b->problem.out[i]);
}
