/* SPDX-License-Identifier: Apache-2.0
 *
 * Field numbers are those of onnx.proto3.
 */
#include "onnx_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- protocol buffers ---- */

static void put(bench_bytes *b, const void *data, size_t count)
{
    if (b->count + count > b->capacity) {
        b->capacity = (b->count + count) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data) {
            fprintf(stderr, "out of memory\n");
            exit(1);
        }
    }
    if (count)
        memcpy(b->data + b->count, data, count);
    b->count += count;
}

static void put_varint(bench_bytes *b, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
        n++;
    } while (value);
    put(b, bytes, n);
}

static void put_int(bench_bytes *b, unsigned field, int64_t value)
{
    put_varint(b, field << 3);
    put_varint(b, (uint64_t)value);
}

static void put_bytes(bench_bytes *b, unsigned field, const void *data, size_t count)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, count);
    put(b, data, count);
}

static void put_text(bench_bytes *b, unsigned field, const char *text)
{
    put_bytes(b, field, text, strlen(text));
}

/* Append a finished message as a field, and free it. */
static void put_message(bench_bytes *b, unsigned field, bench_bytes *message)
{
    put_bytes(b, field, message->data, message->count);
    free(message->data);
    *message = (bench_bytes){0};
}

/* ---- parts of a graph ---- */

enum { FLOAT = 1, UINT8 = 2, FLOAT16 = 10 };

static int float_type(const nib_cpu_problem *p)
{
    return p->half ? FLOAT16 : FLOAT;
}

static void add_attribute(bench_bytes *node, const char *name, int64_t value)
{
    bench_bytes a = {0};
    put_text(&a, 1, name);
    put_int(&a, 3, value);
    put_int(&a, 20, 2); /* INT */
    put_message(node, 5, &a);
}

static void add_float_attribute(bench_bytes *node, const char *name, float value)
{
    bench_bytes a = {0};
    put_text(&a, 1, name);
    put_varint(&a, 2 << 3 | 5);
    put(&a, &value, sizeof value);
    put_int(&a, 20, 1); /* FLOAT */
    put_message(node, 5, &a);
}

/* Names are separated by spaces. */
static void add_names(bench_bytes *node, unsigned field, const char *names)
{
    while (*names) {
        const size_t length = strcspn(names, " ");
        put_bytes(node, field, names, length);
        names += length + (names[length] == ' ');
    }
}

static bench_bytes begin_node(const char *type, const char *domain, const char *inputs,
                              const char *outputs)
{
    bench_bytes node = {0};
    add_names(&node, 1, inputs);
    add_names(&node, 2, outputs);
    put_text(&node, 4, type);
    put_text(&node, 7, domain);
    return node;
}

static void add_initializer(bench_bytes *graph, const char *name, int type, size_t rank,
                            const size_t *dims, const void *data, size_t bytes)
{
    bench_bytes t = {0};
    for (size_t i = 0; i < rank; i++)
        put_int(&t, 1, (int64_t)dims[i]);
    put_int(&t, 2, type);
    put_text(&t, 8, name);
    put_bytes(&t, 9, data, bytes);
    put_message(graph, 5, &t);
}

static void add_value(bench_bytes *graph, unsigned field, const char *name, int type, size_t rows,
                      size_t columns)
{
    bench_bytes value = {0}, tensor = {0}, shape = {0}, outer = {0};
    const size_t dims[] = {rows, columns};
    for (size_t i = 0; i < 2; i++) {
        bench_bytes dim = {0};
        put_int(&dim, 1, (int64_t)dims[i]);
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, &shape);
    put_message(&outer, 1, &tensor);
    put_text(&value, 1, name);
    put_message(&value, 2, &outer);
    put_message(graph, field, &value);
}

/* ---- the operators ---- */

static void add_norm(const nib_cpu_problem *p, bench_bytes *graph)
{
    bench_bytes node = begin_node("SimplifiedLayerNormalization", "", "A gain", "X");
    add_attribute(&node, "axis", -1);
    add_attribute(&node, "stash_type", 1);
    add_float_attribute(&node, "epsilon", (float)p->epsilon);
    put_message(graph, 1, &node);
    add_initializer(graph, "gain", float_type(p), 1, &p->K, p->gain, p->K * (p->half ? 2 : 4));
}

static void add_matrix(const nib_cpu_problem *p, size_t which, int quant_type, const char *output,
                       bench_bytes *graph)
{
    const nib_cpu_weights *w = &p->weights[which];
    char codes[16], scales[16], inputs[64];
    snprintf(codes, sizeof codes, "B%zu", which);
    snprintf(scales, sizeof scales, "S%zu", which);
    snprintf(inputs, sizeof inputs, "%s %s %s", p->gain ? "X" : "A", codes, scales);
    bench_bytes node =
        begin_node(w->codebook ? "MatMulBnb4" : "MatMulNBits", "com.microsoft", inputs, output);
    add_attribute(&node, "K", (int64_t)w->K);
    add_attribute(&node, "N", (int64_t)w->N);
    add_attribute(&node, "block_size", (int64_t)w->block);
    const size_t float_bytes = p->half ? 2 : 4;
    if (w->codebook) {
        const size_t elements = w->N * w->K, bytes = (elements + 1) / 2,
                     blocks = (elements + w->block - 1) / w->block;
        add_attribute(&node, "quant_type", quant_type);
        add_initializer(graph, codes, UINT8, 1, &bytes, w->codes, bytes);
        add_initializer(graph, scales, float_type(p), 1, &blocks, w->scales, blocks * float_bytes);
    } else {
        const size_t code_dims[] = {w->N, w->blocks, w->row_bytes / w->blocks},
                     scale_count = w->N * w->blocks;
        add_attribute(&node, "bits", w->bits);
        add_attribute(&node, "accuracy_level", p->int8 ? 4 : 0);
        add_initializer(graph, codes, UINT8, 3, code_dims, w->codes, w->N * w->row_bytes);
        add_initializer(graph, scales, float_type(p), 1, &scale_count, w->scales,
                        scale_count * float_bytes);
    }
    put_message(graph, 1, &node);
}

static void add_gate(bench_bytes *graph)
{
    bench_bytes node = begin_node("Sigmoid", "", "gate", "sigmoid");
    put_message(graph, 1, &node);
    node = begin_node("Mul", "", "gate sigmoid", "silu");
    put_message(graph, 1, &node);
    node = begin_node("Mul", "", "silu up", "Y0");
    put_message(graph, 1, &node);
}

static void add_opset(bench_bytes *model, const char *domain, int64_t version)
{
    bench_bytes opset = {0};
    put_text(&opset, 1, domain);
    put_int(&opset, 2, version);
    put_message(model, 8, &opset);
}

bench_bytes bench_onnx_model(const nib_cpu_problem *p, int quant_type)
{
    bench_bytes graph = {0}, model = {0};
    if (p->gain)
        add_norm(p, &graph);
    for (size_t i = 0; i < p->weight_count; i++) {
        char output[16];
        snprintf(output, sizeof output, "Y%zu", i);
        add_matrix(p, i, quant_type, p->gated ? (i ? "up" : "gate") : output, &graph);
    }
    if (p->gated)
        add_gate(&graph);
    put_text(&graph, 2, "problem");
    add_value(&graph, 11, "A", float_type(p), p->M, p->K);
    for (size_t i = 0; i < (p->gated ? 1 : p->weight_count); i++) {
        char output[16];
        snprintf(output, sizeof output, "Y%zu", i);
        add_value(&graph, 12, output, float_type(p), p->M, p->weights[i].N);
    }
    put_int(&model, 1, 8);
    put_message(&model, 7, &graph);
    add_opset(&model, "", 17);
    add_opset(&model, "com.microsoft", 1);
    return model;
}
