/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "compare.h"
#include "print.h"
#include "request.h"
#include "tuning.h"

/* ---- --out KEY=FILE ---- */

typedef struct out_file {
    char *key;
    const char *path;
    bool collected; /* a member of a safetensors file */
    bool written;
} out_file;

typedef struct out_files {
    out_file *items;
    size_t count;
} out_files;

static bool has_suffix(const char *text, const char *suffix)
{
    const size_t length = strlen(text), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

static int read_out_files(const cli_args *args, out_files *files)
{
    const size_t count = cli_count(args, CLI_OPT_OUT);
    files->items = cli_alloc(count * sizeof *files->items);
    for (size_t i = 0; i < count; i++) {
        const char *text = cli_nth(args, CLI_OPT_OUT, i);
        const size_t length = cli_split(text);
        out_file *file = &files->items[files->count++];
        file->key = cli_dup(text, length);
        file->path = text + length + 1;
        file->collected = has_suffix(file->path, ".safetensors");
        if (!file->collected && !has_suffix(file->path, ".npy"))
            return cli_usage(args->command, "--out %s: the file must end in .npy or .safetensors",
                             text);
    }
    return CLI_OK;
}

static void free_out_files(out_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].key);
    free(files->items);
}

/* Every --out names an output of the package; an optional one is thereby asked for. */
static nib_status check_out_files(const out_files *files, const nib_package *package,
                                  cli_request *request, nib_error *error)
{
    for (size_t i = 0; i < files->count; i++) {
        const char *key = files->items[i].key;
        const size_t at = nib_package_find_port(package, key);
        if (at == SIZE_MAX || nib_package_port_at(package, at).role == NIB_INPUT)
            return cli_error(error, NIB_REQUEST, "--out", "%s has no output named '%s'",
                             nib_package_op(package), key);
        if (nib_package_port_at(package, at).optional)
            cli_request_add_want(request, key);
    }
    return NIB_OK;
}

/* All outputs that go to the safetensors file of items[first], in one write. */
static nib_status write_collected(cli_session *session, out_files *files, size_t first,
                                  nib_call *call, nib_error *error)
{
    nib_named_tensor *tensors = cli_alloc(files->count * sizeof *tensors);
    const char *path = files->items[first].path;
    size_t count = 0;
    for (size_t i = first; i < files->count; i++) {
        out_file *file = &files->items[i];
        if (strcmp(file->path, path) != 0)
            continue;
        tensors[count++] = (nib_named_tensor){file->key, nib_call_tensor(call, file->key)};
        file->written = true;
    }
    const nib_status status =
        nib_safetensors_write(session->context, path, tensors, count, NULL, 0, error);
    free(tensors);
    return status;
}

static nib_status write_out_files(cli_session *session, out_files *files, nib_call *call,
                                  nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < files->count && status == NIB_OK; i++) {
        out_file *file = &files->items[i];
        if (file->written)
            continue;
        if (file->collected)
            status = write_collected(session, files, i, call, error);
        else
            status = nib_npy_write(session->context, file->path, nib_call_tensor(call, file->key),
                                   error);
    }
    return status;
}

/* ---- what is said about a finished call ---- */

static const char *variant_name(const nib_plan *plan)
{
    return nib_plan_variant(plan) ? nib_plan_variant(plan) : "none";
}

/* What ran where. A call's description mostly begins with its device's. */
static void note_call(const cli_session *session, const nib_device *device, const cli_call *call)
{
    const char *where = nib_device_description(device), *what = nib_call_description(call->call);
    if (strncmp(what, where, strlen(where)) == 0)
        cli_note(session, "variant %s on %s", variant_name(call->plan), what);
    else
        cli_note(session, "variant %s on %s; %s", variant_name(call->plan), where, what);
}

static void print_outputs(const cli_call *call)
{
    for (size_t i = 0; i < nib_plan_tensor_count(call->plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(call->plan, i);
        char title[600];
        if (info.role == NIB_INPUT)
            continue;
        snprintf(title, sizeof title, strcmp(info.key, info.onnx) ? "%s (%s)" : "%s", info.key,
                 info.onnx);
        cli_print_tensor(stdout, title, nib_call_tensor(call->call, info.key));
    }
}

/* An output can be named by its key or by its ONNX name. */
static const char *out_path(const out_files *files, const nib_plan_tensor_info *info)
{
    for (size_t i = 0; i < files->count; i++) {
        const char *key = files->items[i].key;
        if (strcmp(key, info->key) == 0 || strcmp(key, info->onnx) == 0)
            return files->items[i].path;
    }
    return NULL;
}

static json_t *outputs_json(const cli_call *call, const out_files *files)
{
    json_t *outputs = json_object();
    for (size_t i = 0; i < nib_plan_tensor_count(call->plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(call->plan, i);
        if (info.role == NIB_INPUT)
            continue;
        json_t *output = cli_tensor_json(nib_call_tensor(call->call, info.key));
        json_object_set_new(output, "onnx", cli_json_text(info.onnx));
        if (out_path(files, &info))
            json_object_set_new(output, "file", cli_json_text(out_path(files, &info)));
        json_object_set_new(outputs, info.key, output);
    }
    return outputs;
}

/* ---- --compare cpu ---- */

/* {key: {"error", "tolerance", "agrees"}}, or NULL when nothing was to be compared. */
static nib_status compare_with_cpu(cli_session *session, const nib_package *package,
                                   cli_request *request, const cli_inputs *inputs,
                                   const cli_call *call, json_t **verdict, nib_error *error)
{
    const nib_device_options options = {.backend = "cpu", .threads = 1, .isa = "scalar"};
    const char *wanted = cli_value(&session->args, CLI_OPT_COMPARE);
    nib_device *device = NULL;
    cli_call truth = {0};
    if (!wanted || strcmp(wanted, "none") == 0)
        return NIB_OK;
    nib_status status = nib_device_open(session->context, &options, &device, error);
    if (status == NIB_OK)
        status = cli_call_run(&truth, package, device, cli_request_finish(request), inputs, error);
    if (status == NIB_OK)
        *verdict = json_object();
    for (size_t i = 0; status == NIB_OK && i < nib_plan_tensor_count(call->plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(call->plan, i);
        if (info.role == NIB_INPUT)
            continue;
        const double tolerance = cli_default_tolerance(info.desc.dtype);
        const cli_difference difference =
            cli_compare(nib_call_tensor(call->call, info.key),
                        nib_call_tensor(truth.call, info.key), tolerance, true);
        json_t *entry = json_object();
        json_object_set_new(entry, "error", cli_json_number(difference.worst));
        json_object_set_new(entry, "tolerance", json_real(tolerance));
        json_object_set_new(entry, "agrees", json_boolean(difference.index == SIZE_MAX));
        json_object_set_new(*verdict, info.key, entry);
    }
    cli_call_free(&truth);
    nib_device_free(device);
    return status;
}

static bool all_agree(json_t *verdict)
{
    const char *key;
    json_t *entry;
    json_object_foreach(verdict, key, entry)
    {
        if (!json_is_true(json_object_get(entry, "agrees")))
            return false;
    }
    return true;
}

static void print_verdict(json_t *verdict)
{
    const char *key;
    json_t *entry;
    json_object_foreach(verdict, key, entry)
    {
        const json_t *error = json_object_get(entry, "error");
        cli_print_clean(stdout, key);
        if (json_is_number(error))
            printf(": error %.2g", json_number_value(error));
        else
            fputs(": infinite error", stdout);
        printf(" against the scalar CPU, tolerance %.2g: %s\n",
               json_number_value(json_object_get(entry, "tolerance")),
               json_is_true(json_object_get(entry, "agrees")) ? "agrees" : "DIFFERS");
    }
}

/* ---- reporting ---- */

static int print_json(const nib_package *package, const nib_device *device, const cli_call *call,
                      const out_files *files, json_t *verdict)
{
    const char *variant = nib_plan_variant(call->plan);
    json_t *object = json_object(), *seconds = json_object();
    json_object_set_new(seconds, "prepare", json_real(call->prepare_seconds));
    json_object_set_new(seconds, "run", json_real(call->run_seconds));
    json_object_set_new(object, "op", cli_json_text(nib_package_op(package)));
    json_object_set_new(object, "verified", json_boolean(nib_package_verified(package)));
    json_object_set_new(object, "backend", cli_json_text(nib_device_backend(device)));
    json_object_set_new(object, "device", cli_json_text(nib_device_description(device)));
    json_object_set_new(object, "variant", variant ? cli_json_text(variant) : json_null());
    json_object_set_new(object, "call", cli_json_text(nib_call_description(call->call)));
    json_object_set_new(object, "seconds", seconds);
    json_object_set_new(object, "outputs", outputs_json(call, files));
    if (verdict)
        json_object_set(object, "compare", verdict);
    return cli_print_json(object);
}

static int report(cli_session *session, const nib_package *package, const nib_device *device,
                  const cli_call *call, const out_files *files, json_t *verdict)
{
    cli_progress_end(session);
    if (session->json) {
        print_json(package, device, call, files, verdict);
        return all_agree(verdict) ? CLI_OK : CLI_FAILED;
    }
    note_call(session, device, call);
    if (files->count == 0)
        print_outputs(call);
    for (size_t i = 0; i < files->count; i++)
        cli_note(session, "wrote %s to %s", files->items[i].key, files->items[i].path);
    print_verdict(verdict);
    return all_agree(verdict) ? CLI_OK : CLI_FAILED;
}

/* ---- the command ---- */

static int run_call(cli_session *session, const nib_package *package, cli_request *request,
                    out_files *files, const cli_inputs *inputs)
{
    const char *backend = cli_value(&session->args, CLI_OPT_BACKEND);
    nib_error error = {0};
    nib_device *device = NULL;
    cli_call call = {0};
    json_t *verdict = NULL;
    const size_t untuned = request->tunables.count;
    int code = cli_open_device(session, backend, &device);
    if (code == CLI_OK) {
        nib_status status =
            cli_tuning_use(session, package, nib_device_caps(device), request, &error);
        cli_progress(session, 0, 0, "running");
        if (status == NIB_OK)
            status =
                cli_call_run(&call, package, device, cli_request_finish(request), inputs, &error);
        /* Tuned values were found for other sizes, and may be too much for these. */
        if (status != NIB_OK && request->tunables.count > untuned) {
            cli_note(session, "not with the tuned values: %s", error.message);
            cli_call_free(&call);
            cli_tuning_drop(request, untuned);
            error = (nib_error){0};
            status =
                cli_call_run(&call, package, device, cli_request_finish(request), inputs, &error);
        }
        if (status == NIB_OK)
            status = compare_with_cpu(session, package, request, inputs, &call, &verdict, &error);
        if (status == NIB_OK)
            status = write_out_files(session, files, call.call, &error);
        code = status == NIB_OK ? report(session, package, device, &call, files, verdict)
                                : cli_fail(session, &error);
    }
    json_decref(verdict);
    cli_call_free(&call);
    nib_device_free(device);
    return code;
}

static int run_run(cli_session *session)
{
    nib_error error = {0};
    nib_package *package = NULL;
    cli_request request = {0};
    cli_inputs inputs = {0};
    out_files files = {0};
    int code = read_out_files(&session->args, &files);
    cli_request_from_options(&session->args, &request);
    if (code == CLI_OK && (cli_load_package(session, &package, &error) != NIB_OK ||
                           check_out_files(&files, package, &request, &error) != NIB_OK))
        code = cli_fail(session, &error);
    if (code == CLI_OK)
        code = cli_inputs_load(session, &inputs);
    if (code == CLI_OK) {
        cli_request_add_inputs(&request, &inputs);
        code = run_call(session, package, &request, &files, &inputs);
    }
    cli_inputs_free(&inputs);
    free_out_files(&files);
    cli_request_free(&request);
    nib_package_free(package);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_IN,
    CLI_OPT_ATTR,
    CLI_OPT_ARG,
    CLI_OPT_OUT,
    CLI_OPT_WANT,
    CLI_OPT_BACKEND,
    CLI_OPT_VARIANT,
    CLI_OPT_TUNABLE,
    CLI_OPT_TUNING,
    CLI_OPT_NO_TUNING,
    CLI_OPT_COMPARE,
    CLI_OPT_CACHE,
    CLI_OPT_RELAXED,
    CLI_OPT_THREADS,
    CLI_OPT_ISA,
    CLI_OPT_ADAPTER,
    CLI_OPT_DISABLE_FEATURE,
    CLI_OPT_MANIFEST,
    CLI_OPT_NO_VERIFY,
    CLI_OPT_CONTRACT_VERSION,
    CLI_OPT_TRUST_REMOTE_CODE,
    CLI_OPT_JSON,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
};

const cli_command cli_command_run = {
    .name = "run",
    .arguments = "PACKAGE",
    .summary = "run a kernel on tensors from files",
    .details =
        "Load a package, plan one call, and run it. PACKAGE is a folder: a repository root or its "
        "build/webgpu. Without --out the outputs are summed up: dtype, shape, min, max, mean and "
        "the first values. Standard error says what ran: device, variant and kernel.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_run,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
