/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "print.h"

/* What to do, from the options. */
typedef struct quantization {
    bool bnb4, transpose;
    int bits, quant_type;
    int64_t block_size;
    nib_dtype dtype;
    const char *spec, *path, *prefix;
} quantization;

/* What came out. `values` holds scales (nbits) or absmax (bnb4). */
typedef struct quantized {
    nib_tensor *packed, *values;
    nib_quant_error loss;
    bool exact; /* copied from a file that held this format */
    int64_t N, K;
} quantized;

/* ---- options ---- */

static int misplaced(const cli_args *args, cli_option_id id, const char *format)
{
    return cli_usage(args->command, "--%s belongs to --format %s", cli_options[id].name, format);
}

static int check_options(const cli_args *args)
{
    static const cli_option_id needed[] = {CLI_OPT_FORMAT, CLI_OPT_WEIGHT, CLI_OPT_OUT_FILE};
    for (size_t i = 0; i < CLI_LENGTH(needed); i++) {
        if (!cli_has(args, needed[i]))
            return cli_usage(args->command, "--%s %s is missing", cli_options[needed[i]].name,
                             cli_options[needed[i]].value);
    }
    const bool bnb4 = strcmp(cli_value(args, CLI_OPT_FORMAT), "bnb4") == 0;
    if (bnb4 && cli_has(args, CLI_OPT_BITS))
        return misplaced(args, CLI_OPT_BITS, "nbits");
    if (!bnb4 && cli_has(args, CLI_OPT_QUANT_TYPE))
        return misplaced(args, CLI_OPT_QUANT_TYPE, "bnb4");
    return CLI_OK;
}

static bool is_value(const cli_args *args, cli_option_id id, const char *word)
{
    const char *value = cli_value(args, id);
    return value && strcmp(value, word) == 0;
}

static int read_options(const cli_args *args, quantization *q)
{
    const int code = check_options(args);
    if (code != CLI_OK)
        return code;
    *q = (quantization){
        .bnb4 = is_value(args, CLI_OPT_FORMAT, "bnb4"),
        .transpose = cli_has(args, CLI_OPT_TRANSPOSE),
        .bits = (int)cli_integer(args, CLI_OPT_BITS, 4),
        .quant_type = is_value(args, CLI_OPT_QUANT_TYPE, "fp4") ? 0 : 1,
        .dtype = is_value(args, CLI_OPT_DTYPE, "float16") ? NIB_FLOAT16 : NIB_FLOAT32,
        .spec = cli_value(args, CLI_OPT_WEIGHT),
        .path = cli_value(args, CLI_OPT_OUT_FILE),
        .prefix = cli_has(args, CLI_OPT_NAME) ? cli_value(args, CLI_OPT_NAME) : "",
    };
    q->block_size = cli_integer(args, CLI_OPT_BLOCK_SIZE, q->bnb4 ? 64 : 32);
    return CLI_OK;
}

/* ---- the weight ---- */

static nib_status check_matrix(const quantization *q, const nib_tensor *weight, nib_error *error)
{
    const nib_tensor_desc *desc = nib_tensor_describe(weight);
    char text[CLI_DESC_MAX];
    if (desc->rank == 2 && (desc->dtype == NIB_FLOAT32 || desc->dtype == NIB_FLOAT16))
        return NIB_OK;
    return cli_error(error, NIB_INVALID_ARGUMENT, q->spec,
                     "the weight is %s; it must be a float32 or float16 matrix",
                     cli_desc_text(desc, text));
}

/* Replace *weight by its transpose. */
static nib_status transpose(cli_session *session, nib_tensor **weight, nib_error *error)
{
    const nib_tensor_desc *from = nib_tensor_describe(*weight);
    const nib_tensor_desc to = {from->dtype, 2, {from->dims[1], from->dims[0]}};
    const size_t bytes = nib_dtype_bytes(from->dtype);
    const size_t rows = (size_t)from->dims[0], columns = (size_t)from->dims[1];
    nib_tensor *turned = NULL;
    const nib_status status = nib_tensor_create(session->context, &to, &turned, error);
    if (status != NIB_OK)
        return status;
    const char *source = nib_tensor_data(*weight);
    char *target = nib_tensor_data(turned);
    for (size_t row = 0; row < rows; row++) {
        for (size_t column = 0; column < columns; column++)
            memcpy(target + (column * rows + row) * bytes,
                   source + (row * columns + column) * bytes, bytes);
    }
    nib_tensor_free(*weight);
    *weight = turned;
    return NIB_OK;
}

static nib_status load_weight(cli_session *session, const quantization *q, nib_tensor **weight,
                              nib_error *error)
{
    nib_status status = nib_tensor_from_spec(session->context, q->spec, weight, error);
    if (status == NIB_OK)
        status = check_matrix(q, *weight, error);
    if (status == NIB_OK && q->transpose)
        status = transpose(session, weight, error);
    return status;
}

/* ---- quantizing ---- */

static nib_status quantize_float(cli_session *session, const quantization *q, quantized *result,
                                 nib_error *error)
{
    nib_tensor *weight = NULL;
    nib_status status = load_weight(session, q, &weight, error);
    if (status == NIB_OK) {
        result->N = nib_tensor_describe(weight)->dims[0];
        result->K = nib_tensor_describe(weight)->dims[1];
        status =
            q->bnb4 ? nib_bnb4_quantize(session->context, weight, q->quant_type, q->block_size,
                                        q->dtype, &result->packed, &result->values, &result->loss,
                                        error)
                    : nib_nbits_quantize(session->context, weight, q->bits, q->block_size, q->dtype,
                                         &result->packed, &result->values, &result->loss, error);
    }
    nib_tensor_free(weight);
    return status;
}

/* Scales as float32: each float16 value is one. */
static nib_status widen_scales(cli_session *session, nib_tensor **scales, nib_error *error)
{
    nib_tensor_desc desc = *nib_tensor_describe(*scales);
    nib_tensor *wide = NULL;
    desc.dtype = NIB_FLOAT32;
    const nib_status status = nib_tensor_create(session->context, &desc, &wide, error);
    if (status != NIB_OK)
        return status;
    for (size_t i = 0; i < cli_elements(wide); i++)
        cli_set_element(wide, i, cli_element(*scales, i));
    nib_tensor_free(*scales);
    *scales = wide;
    return NIB_OK;
}

static nib_status copy_entry(cli_session *session, const quantization *q, nib_file *file,
                             size_t entry, quantized *result, nib_error *error)
{
    const nib_tensor_desc desc = nib_file_describe(file, entry).desc;
    nib_status status = nib_file_read_nbits(file, entry, &result->packed, &result->values, error);
    if (status == NIB_OK && q->dtype == NIB_FLOAT32)
        status = widen_scales(session, &result->values, error);
    result->N = desc.dims[0];
    result->K = desc.dims[1];
    result->exact = status == NIB_OK;
    return status;
}

/* Q4_0 matrices of a GGUF file are nbits weights already: 4 bits, block 32. *result stays empty for
 * anything else. */
static nib_status copy_q4_0(cli_session *session, const quantization *q, quantized *result,
                            nib_error *error)
{
    const char *mark = strstr(q->spec, ".gguf:");
    if (!mark || q->bnb4 || q->transpose || q->bits != 4 || q->block_size != 32)
        return NIB_OK;
    const char *name = mark + strlen(".gguf:");
    char *path = cli_dup(q->spec, (size_t)(name - q->spec) - 1);
    nib_file *file = NULL;
    nib_status status = nib_file_open(session->context, path, &file, error);
    if (status == NIB_OK) {
        const size_t entry = nib_file_find(file, name);
        if (entry != SIZE_MAX && strcmp(nib_file_describe(file, entry).stored, "Q4_0") == 0)
            status = copy_entry(session, q, file, entry, result, error);
    }
    nib_file_free(file);
    free(path);
    return status;
}

/* ---- results ---- */

/* Names, numbers and the source go with the weights, so that the file explains itself. */
static nib_status write_result(cli_session *session, const quantization *q, const quantized *result,
                               nib_error *error)
{
    char packed_name[300], values_name[300], numbers[4][32];
    snprintf(packed_name, sizeof packed_name, "%sB", q->prefix);
    snprintf(values_name, sizeof values_name, "%s%s", q->prefix, q->bnb4 ? "absmax" : "scales");
    snprintf(numbers[0], sizeof numbers[0], "%lld", (long long)result->N);
    snprintf(numbers[1], sizeof numbers[1], "%lld", (long long)result->K);
    snprintf(numbers[2], sizeof numbers[2], "%lld", (long long)q->block_size);
    snprintf(numbers[3], sizeof numbers[3], "%d", q->bnb4 ? q->quant_type : q->bits);
    const char *const metadata[] = {
        "format",
        q->bnb4 ? "bnb4" : "nbits",
        "N",
        numbers[0],
        "K",
        numbers[1],
        "block_size",
        numbers[2],
        q->bnb4 ? "quant_type" : "bits",
        numbers[3],
    };
    const nib_named_tensor tensors[] = {{packed_name, result->packed},
                                        {values_name, result->values}};
    return nib_safetensors_write(session->context, q->path, tensors, CLI_LENGTH(tensors), metadata,
                                 CLI_LENGTH(metadata) / 2, error);
}

static int print_json(const quantization *q, const quantized *result)
{
    json_t *object = json_object(), *loss = json_object();
    json_object_set_new(object, "format", cli_json_text(q->bnb4 ? "bnb4" : "nbits"));
    json_object_set_new(object, "N", json_integer(result->N));
    json_object_set_new(object, "K", json_integer(result->K));
    json_object_set_new(object, "block_size", json_integer(q->block_size));
    json_object_set_new(object, q->bnb4 ? "quant_type" : "bits",
                        json_integer(q->bnb4 ? q->quant_type : q->bits));
    json_object_set_new(object, "exact", json_boolean(result->exact));
    json_object_set_new(loss, "max_abs", cli_json_number(result->loss.max_abs));
    json_object_set_new(loss, "rms", cli_json_number(result->loss.rms));
    json_object_set_new(loss, "relative", cli_json_number(result->loss.relative));
    json_object_set_new(object, "error", loss);
    json_object_set_new(object, "file", cli_json_text(q->path));
    return cli_print_json(object);
}

static void print_text(const quantization *q, const quantized *result)
{
    char packed[CLI_DESC_MAX], values[CLI_DESC_MAX];
    printf("%sB %s, %s%s %s\n", q->prefix,
           cli_desc_text(nib_tensor_describe(result->packed), packed), q->prefix,
           q->bnb4 ? "absmax" : "scales",
           cli_desc_text(nib_tensor_describe(result->values), values));
    if (result->exact)
        puts("error: none, the file's Q4_0 codes and scales were copied");
    else
        printf("error: max abs %.6g, rms %.6g, relative %.6g\n", result->loss.max_abs,
               result->loss.rms, result->loss.relative);
}

static int run_quantize(cli_session *session)
{
    quantization q;
    quantized result = {0};
    nib_error error = {0};
    const int code = read_options(&session->args, &q);
    if (code != CLI_OK)
        return code;
    cli_progress(session, 0, 0, q.spec);
    nib_status status = copy_q4_0(session, &q, &result, &error);
    if (status == NIB_OK && !result.exact)
        status = quantize_float(session, &q, &result, &error);
    if (status == NIB_OK)
        status = write_result(session, &q, &result, &error);
    cli_progress_end(session);
    if (status == NIB_OK && session->json)
        print_json(&q, &result);
    else if (status == NIB_OK)
        print_text(&q, &result);
    nib_tensor_free(result.packed);
    nib_tensor_free(result.values);
    return status == NIB_OK ? CLI_OK : cli_fail(session, &error);
}

static const cli_option_id options[] = {
    CLI_OPT_FORMAT,     CLI_OPT_WEIGHT,     CLI_OPT_OUT_FILE, CLI_OPT_BITS,
    CLI_OPT_BLOCK_SIZE, CLI_OPT_QUANT_TYPE, CLI_OPT_DTYPE,    CLI_OPT_NAME,
    CLI_OPT_TRANSPOSE,  CLI_OPT_JSON,       CLI_OPT_QUIET,    CLI_OPT_VERBOSE,
};

const cli_command cli_command_quantize = {
    .name = "quantize",
    .arguments = "",
    .summary = "pack a float matrix for a 4-bit (or 2, 8) kernel",
    .details =
        "Quantize a float matrix [N,K] into packed weights and their scales (nbits) or absmax "
        "(bnb4), written to one safetensors file as B and scales or B and absmax, and print the "
        "error that this made. A Q4_0 matrix of a GGUF file goes to nbits with 4 bits and block "
        "32 as it is, without being quantized anew.",
    .run = run_quantize,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
