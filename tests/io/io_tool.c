/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's file functions as a program, for crosscheck.py. Exit code 1 and one line on stderr
 * for a failure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nibble/nibble.h"

static nib_context *context;
static nib_error error;

static void check(nib_status status)
{
    if (status == NIB_OK)
        return;
    char text[4096];
    nib_error_format(&error, text, sizeof text);
    fprintf(stderr, "%s: %s\n", nib_status_name(status), text);
    exit(1);
}

static nib_tensor *read_spec(const char *spec)
{
    nib_tensor *tensor;
    check(nib_tensor_from_spec(context, spec, &tensor, &error));
    return tensor;
}

static nib_file *open_file(const char *path)
{
    nib_file *file;
    check(nib_file_open(context, path, &file, &error));
    return file;
}

/* list FILE: name, stored encoding, descriptor, quantized, tab-separated */
static void list(char **args)
{
    nib_file *file = open_file(args[0]);
    for (size_t i = 0; i < nib_file_count(file); i++) {
        const nib_file_entry entry = nib_file_describe(file, i);
        char desc[256];
        nib_tensor_desc_format(&entry.desc, desc, sizeof desc);
        printf("%s\t%s\t%s\t%d\n", entry.name, entry.stored, desc, entry.quantized);
    }
    nib_file_free(file);
}

/* all FILE DIR: every tensor that can be read as DIR/INDEX.npy */
static void all(char **args)
{
    nib_file *file = open_file(args[0]);
    for (size_t i = 0; i < nib_file_count(file); i++) {
        nib_tensor *tensor;
        char path[512];
        if (nib_file_describe(file, i).desc.dtype == NIB_DTYPE_NONE)
            continue;
        snprintf(path, sizeof path, "%s/%zu.npy", args[1], i);
        check(nib_file_read(file, i, &tensor, &error));
        check(nib_npy_write(context, path, tensor, &error));
        nib_tensor_free(tensor);
    }
    nib_file_free(file);
}

/* npy SPEC OUT.npy */
static void npy(char **args)
{
    nib_tensor *tensor = read_spec(args[0]);
    check(nib_npy_write(context, args[1], tensor, &error));
    nib_tensor_free(tensor);
}

/* safetensors OUT A-SPEC B-SPEC: tensors "a" and "b b" with metadata */
static void safetensors(char **args)
{
    static const char *const metadata[] = {"key", "a \"value\""};
    const nib_named_tensor named[] = {{"a", read_spec(args[1])}, {"b b", read_spec(args[2])}};
    check(nib_safetensors_write(context, args[0], named, 2, metadata, 1, &error));
    nib_tensor_free(named[0].tensor);
    nib_tensor_free(named[1].tensor);
}

static void write_two(const char *path, nib_tensor *packed, nib_tensor *scales, nib_tensor *weight)
{
    const nib_named_tensor named[] = {{"packed", packed}, {"scales", scales}, {"weight", weight}};
    check(nib_safetensors_write(context, path, named, weight ? 3 : 2, NULL, 0, &error));
    nib_tensor_free(packed);
    nib_tensor_free(scales);
    nib_tensor_free(weight);
}

/* nbits FILE TENSOR OUT.safetensors */
static void nbits(char **args)
{
    nib_file *file = open_file(args[0]);
    nib_tensor *packed, *scales;
    check(nib_file_read_nbits(file, nib_file_find(file, args[1]), &packed, &scales, &error));
    write_two(args[2], packed, scales, NULL);
    nib_file_free(file);
}

static void print_loss(const nib_quant_error *loss)
{
    printf("%.17g %.17g %.17g\n", loss->max_abs, loss->rms, loss->relative);
}

/* quantize-nbits SPEC BITS BLOCK DTYPE OUT.safetensors: packed, scales, weight (back again); prints
 * the loss */
static void quantize_nbits(char **args)
{
    nib_tensor *weight = read_spec(args[0]), *packed, *scales, *back;
    const int bits = atoi(args[1]);
    nib_quant_error loss;
    check(nib_nbits_quantize(context, weight, bits, atoi(args[2]), nib_dtype_from_name(args[3]),
                             &packed, &scales, &loss, &error));
    check(nib_nbits_dequantize(context, packed, scales, bits, nib_tensor_describe(weight)->dims[1],
                               &back, &error));
    nib_tensor_free(weight);
    write_two(args[4], packed, scales, back);
    print_loss(&loss);
}

/* quantize-bnb4 SPEC TYPE BLOCK DTYPE OUT.safetensors */
static void quantize_bnb4(char **args)
{
    nib_tensor *weight = read_spec(args[0]), *packed, *absmax, *back;
    const int type = atoi(args[1]);
    nib_quant_error loss;
    check(nib_bnb4_quantize(context, weight, type, atoi(args[2]), nib_dtype_from_name(args[3]),
                            &packed, &absmax, &loss, &error));
    const nib_tensor_desc desc = *nib_tensor_describe(weight);
    check(nib_bnb4_dequantize(context, packed, absmax, type, atoi(args[2]), desc.dims[0],
                              desc.dims[1], &back, &error));
    nib_tensor_free(weight);
    write_two(args[4], packed, absmax, back);
    print_loss(&loss);
}

/* convert IN.npy OUT.npy: float16 to float32, or float32 to float16, element by element */
static void convert(char **args)
{
    nib_tensor *in = read_spec(args[0]), *out;
    nib_tensor_desc desc = *nib_tensor_describe(in);
    const bool narrow = desc.dtype == NIB_FLOAT32;
    size_t elements;
    check(nib_tensor_desc_elements(&desc, &elements, &error));
    desc.dtype = narrow ? NIB_FLOAT16 : NIB_FLOAT32;
    check(nib_tensor_create(context, &desc, &out, &error));
    for (size_t i = 0; i < elements; i++) {
        if (narrow)
            ((uint16_t *)nib_tensor_data(out))[i] =
                nib_half_from_float(((const float *)nib_tensor_data(in))[i]);
        else
            ((float *)nib_tensor_data(out))[i] =
                nib_half_to_float(((const uint16_t *)nib_tensor_data(in))[i]);
    }
    check(nib_npy_write(context, args[1], out, &error));
    nib_tensor_free(in);
    nib_tensor_free(out);
}

static const struct {
    const char *name;
    int args;
    void (*run)(char **args);
} commands[] = {
    {"list", 1, list},
    {"all", 2, all},
    {"npy", 2, npy},
    {"safetensors", 3, safetensors},
    {"nbits", 3, nbits},
    {"quantize-nbits", 5, quantize_nbits},
    {"quantize-bnb4", 5, quantize_bnb4},
    {"convert", 2, convert},
};

/* One command; false when there is none of that name and number of arguments. */
static bool run(int count, char **args)
{
    for (size_t i = 0; count > 0 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(args[0], commands[i].name) == 0 && count - 1 == commands[i].args) {
            commands[i].run(args + 1);
            return true;
        }
    }
    return false;
}

/* Commands, separated by "--". */
int main(int argc, char **argv)
{
    check(nib_context_create(NULL, &context, &error));
    for (int first = 1; first < argc;) {
        int end = first;
        while (end < argc && strcmp(argv[end], "--") != 0)
            end++;
        if (!run(end - first, argv + first)) {
            fprintf(stderr, "io_tool: unknown command or wrong number of arguments\n");
            return 2;
        }
        first = end + 1;
    }
    nib_context_free(context);
    return 0;
}
