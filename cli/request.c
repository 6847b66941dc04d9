/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "files.h"
#include "locate.h"

/* ---- scalars ---- */

bool cli_scalar_from_json(const json_t *value, nib_named_scalar *scalar)
{
    if (json_is_number(value)) {
        scalar->kind = NIB_SCALAR_NUMBER;
        scalar->number = json_number_value(value);
    } else if (json_is_boolean(value)) {
        scalar->kind = NIB_SCALAR_BOOL;
        scalar->boolean = json_is_true(value);
    } else if (json_is_string(value)) {
        scalar->kind = NIB_SCALAR_STRING;
        scalar->string = cli_dup(json_string_value(value), json_string_length(value));
    } else {
        return false;
    }
    return true;
}

void cli_scalar_parse(const char *text, nib_named_scalar *scalar)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    if (!value || !cli_scalar_from_json(value, scalar)) {
        scalar->kind = NIB_SCALAR_STRING;
        scalar->string = cli_dup(text, strlen(text));
    }
    json_decref(value);
}

/* `string` and `name` are const for the library's readers; here they are ours to free. */
static void free_const(const char *text)
{
    free((void *)(uintptr_t)text);
}

void cli_scalars_free(cli_scalars *scalars)
{
    for (size_t i = 0; i < scalars->count; i++) {
        free_const(scalars->items[i].name);
        free_const(scalars->items[i].string);
    }
    free(scalars->items);
    *scalars = (cli_scalars){0};
}

static void read_scalars(const cli_args *args, cli_option_id id, cli_scalars *scalars)
{
    scalars->count = cli_count(args, id);
    scalars->items = cli_alloc(scalars->count * sizeof *scalars->items);
    for (size_t i = 0; i < scalars->count; i++) {
        const char *text = cli_nth(args, id, i);
        const size_t length = cli_split(text);
        scalars->items[i].name = cli_dup(text, length);
        cli_scalar_parse(text + length + 1, &scalars->items[i]);
    }
}

/* ---- requests ---- */

void cli_request_from_options(const cli_args *args, cli_request *request)
{
    *request = (cli_request){0};
    read_scalars(args, CLI_OPT_ATTR, &request->attributes);
    read_scalars(args, CLI_OPT_ARG, &request->arguments);
    read_scalars(args, CLI_OPT_TUNABLE, &request->tunables);
    for (size_t i = 0; i < cli_count(args, CLI_OPT_WANT); i++)
        cli_request_add_want(request, cli_nth(args, CLI_OPT_WANT, i));
    request->request.variant = cli_value(args, CLI_OPT_VARIANT);
    request->request.relaxed = cli_has(args, CLI_OPT_RELAXED);
}

static void *grown(void *array, size_t count, size_t item_bytes)
{
    void *larger = cli_alloc((count + 1) * item_bytes);
    if (count)
        memcpy(larger, array, count * item_bytes);
    free(array);
    return larger;
}

static nib_named_desc *add_tensor(cli_request *request, const char *name, size_t name_length)
{
    const size_t at = request->tensor_count++;
    request->tensors = grown(request->tensors, at, sizeof *request->tensors);
    request->tensor_names = grown(request->tensor_names, at, sizeof *request->tensor_names);
    request->tensor_names[at] = cli_dup(name, name_length);
    return &request->tensors[at];
}

void cli_request_add_inputs(cli_request *request, const cli_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        add_tensor(request, inputs->names[i], strlen(inputs->names[i]))->desc =
            *nib_tensor_describe(inputs->tensors[i]);
}

int cli_request_add_tensor_options(cli_session *session, cli_request *request)
{
    for (size_t i = 0; i < cli_count(&session->args, CLI_OPT_TENSOR); i++) {
        const char *text = cli_nth(&session->args, CLI_OPT_TENSOR, i);
        const size_t length = cli_split(text);
        nib_error error = {0};
        nib_named_desc *tensor = add_tensor(request, text, length);
        if (nib_tensor_desc_parse(text + length + 1, &tensor->desc, &error) != NIB_OK) {
            snprintf(error.source, sizeof error.source, "--tensor %.*s", (int)length, text);
            return cli_fail(session, &error);
        }
    }
    return CLI_OK;
}

void cli_request_add_tensor(cli_request *request, const char *name, const nib_tensor_desc *desc)
{
    add_tensor(request, name, strlen(name))->desc = *desc;
}

void cli_request_add_want(cli_request *request, const char *key)
{
    for (size_t i = 0; i < request->want_count; i++) {
        if (strcmp(request->want[i], key) == 0)
            return;
    }
    request->want = grown(request->want, request->want_count, sizeof *request->want);
    request->want[request->want_count++] = key;
}

const nib_request *cli_request_finish(cli_request *request)
{
    nib_request *out = &request->request;
    for (size_t i = 0; i < request->tensor_count; i++)
        request->tensors[i].name = request->tensor_names[i];
    out->tensors = request->tensors;
    out->tensor_count = request->tensor_count;
    out->attributes = request->attributes.items;
    out->attribute_count = request->attributes.count;
    out->arguments = request->arguments.items;
    out->argument_count = request->arguments.count;
    out->tunables = request->tunables.items;
    out->tunable_count = request->tunables.count;
    out->want = request->want;
    out->want_count = request->want_count;
    return out;
}

void cli_request_free(cli_request *request)
{
    cli_scalars_free(&request->attributes);
    cli_scalars_free(&request->arguments);
    cli_scalars_free(&request->tunables);
    for (size_t i = 0; i < request->tensor_count; i++)
        free(request->tensor_names[i]);
    free(request->tensor_names);
    free(request->tensors);
    free(request->want);
    *request = (cli_request){0};
}

/* ---- inputs ---- */

void cli_inputs_init(cli_inputs *inputs, nib_context *context, size_t count)
{
    inputs->context = context;
    inputs->names = cli_alloc(count * sizeof *inputs->names);
    inputs->tensors = cli_alloc(count * sizeof *inputs->tensors);
    inputs->count = 0;
}

void cli_inputs_add(cli_inputs *inputs, const char *name, size_t name_length, nib_tensor *tensor)
{
    inputs->names[inputs->count] = cli_dup(name, name_length);
    inputs->tensors[inputs->count++] = tensor;
}

int cli_inputs_load(cli_session *session, cli_inputs *inputs)
{
    const size_t count = cli_count(&session->args, CLI_OPT_IN);
    cli_inputs_init(inputs, session->context, count);
    for (size_t i = 0; i < count; i++) {
        const char *text = cli_nth(&session->args, CLI_OPT_IN, i);
        const size_t length = cli_split(text);
        nib_error error = {0};
        nib_tensor *tensor = NULL;
        cli_progress(session, i + 1, count, text);
        if (nib_tensor_from_spec(session->context, text + length + 1, &tensor, &error) != NIB_OK)
            return cli_fail(session, &error);
        cli_inputs_add(inputs, text, length, tensor);
    }
    cli_progress_end(session);
    return CLI_OK;
}

void cli_inputs_free(cli_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        free(inputs->names[i]);
        nib_tensor_free(inputs->tensors[i]);
    }
    free(inputs->names);
    free(inputs->tensors);
    *inputs = (cli_inputs){0};
}

/* ---- packages and devices ---- */

nib_status cli_load_package(cli_session *session, nib_package **package, nib_error *error)
{
    cli_place place;
    const bool skip_verify = cli_has(&session->args, CLI_OPT_NO_VERIFY);
    nib_status status = cli_locate(session, session->args.arguments[0], &place, error);
    const nib_package_options options = {
        .skip_verify = skip_verify,
        .manifest_file = cli_value(&session->args, CLI_OPT_MANIFEST),
        .expected_op = place.op,
        .version = place.version,
    };
    if (status == NIB_OK)
        status = nib_package_load(session->context, place.folder, &options, package, error);
    cli_place_free(&place);
    return status;
}

nib_status cli_load_caps(cli_session *session, nib_caps **caps, nib_error *error)
{
    const char *file = cli_value(&session->args, CLI_OPT_CAPS);
    char *text = NULL;
    nib_status status = file ? cli_read_file(file, &text, error) : NIB_OK;
    if (status == NIB_OK)
        status = nib_caps_parse(session->context, text, caps, error);
    if (status != NIB_OK && file)
        snprintf(error->source, sizeof error->source, "%s", file);
    free(text);
    return status;
}

static bool takes_option(const cli_command *command, cli_option_id id)
{
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i] == id)
            return true;
    }
    return false;
}

/* Where compiled pipelines are kept; NULL: nowhere. The default folder is used if it can be. */
static char *cache_folder(const cli_args *args)
{
    const char *named = cli_value(args, CLI_OPT_CACHE);
    nib_error error = {0};
    if (named)
        return strcmp(named, "none") == 0 ? NULL : cli_dup(named, strlen(named));
    char *folder = takes_option(args->command, CLI_OPT_CACHE) ? cli_cache_path("pipelines") : NULL;
    if (folder && cli_make_folders(folder, &error) != NIB_OK) {
        free(folder);
        folder = NULL;
    }
    return folder;
}

int cli_open_device(cli_session *session, const char *backend, nib_device **device)
{
    const cli_args *args = &session->args;
    const size_t disabled = cli_count(args, CLI_OPT_DISABLE_FEATURE);
    char *cache = cache_folder(args);
    const char **features = cli_alloc(disabled * sizeof *features);
    for (size_t i = 0; i < disabled; i++)
        features[i] = cli_nth(args, CLI_OPT_DISABLE_FEATURE, i);
    const nib_device_options options = {
        .backend = backend,
        .adapter = cli_value(args, CLI_OPT_ADAPTER),
        .disabled_features = features,
        .disabled_feature_count = disabled,
        .threads = (uint32_t)cli_integer(args, CLI_OPT_THREADS, 0),
        .isa = cli_value(args, CLI_OPT_ISA),
        .cache_dir = cache,
    };
    nib_error error = {0};
    const nib_status status = nib_device_open(session->context, &options, device, &error);
    free(features);
    free(cache);
    return status == NIB_OK ? CLI_OK : cli_fail(session, &error);
}

/* ---- calls ---- */

static nib_status bind_inputs(nib_call *call, const cli_inputs *inputs, nib_error *error)
{
    for (size_t i = 0; i < inputs->count; i++) {
        const nib_status status = nib_call_bind(call, inputs->names[i], inputs->tensors[i], error);
        if (status != NIB_OK)
            return status;
    }
    return NIB_OK;
}

nib_status cli_call_run(cli_call *call, const nib_package *package, nib_device *device,
                        const nib_request *request, const cli_inputs *inputs, nib_error *error)
{
    *call = (cli_call){0};
    nib_status status =
        nib_plan_create(package, request, nib_device_caps(device), &call->plan, error);
    const double start = cli_seconds();
    if (status == NIB_OK)
        status = nib_call_prepare(device, call->plan, NULL, &call->call, error);
    call->prepare_seconds = cli_seconds() - start;
    if (status == NIB_OK)
        status = bind_inputs(call->call, inputs, error);
    if (status == NIB_OK)
        status = nib_call_run(call->call, error);
    call->run_seconds = cli_seconds() - start - call->prepare_seconds;
    return status;
}

void cli_call_free(cli_call *call)
{
    nib_call_free(call->call);
    nib_plan_free(call->plan);
    *call = (cli_call){0};
}
