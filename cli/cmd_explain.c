/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "explain.h"
#include "print.h"
#include "tuning.h"

/* ---- text ---- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void print_clean_pair(const char *before, const char *text, const char *after)
{
    fputs(before, stdout);
    cli_print_clean(stdout, text);
    fputs(after, stdout);
}

static void print_tensors(const char *title, json_t *tensors)
{
    const char *key;
    json_t *tensor;
    if (json_object_size(tensors))
        printf("\n%s\n", title);
    json_object_foreach(tensors, key, tensor)
    {
        const json_t *rule = json_object_get(tensor, "rule");
        print_clean_pair("  ", key, "");
        if (strcmp(key, text_of(tensor, "onnx")) != 0)
            print_clean_pair(" (", text_of(tensor, "onnx"), ")");
        printf(" = %s, %.0f bytes", text_of(tensor, "tensor"),
               json_number_value(json_object_get(tensor, "bytes")));
        if (text_of(rule, "dtype")[0])
            print_clean_pair("; dtype ", text_of(rule, "dtype"), "");
        if (json_is_string(json_object_get(rule, "shape")))
            print_clean_pair(", shape ", text_of(rule, "shape"), "");
        putchar('\n');
    }
}

static void print_variants(const json_t *story)
{
    size_t i;
    json_t *entry, *list = json_object_get(story, "variants");
    if (json_array_size(list))
        puts("\nvariants");
    json_array_foreach(list, i, entry)
    {
        if (!cli_is_first_reason(list, i))
            continue;
        printf("  %-9s ", text_of(entry, "verdict"));
        cli_print_same_reason(list, i, 12);
        if (text_of(entry, "reason")[0])
            print_clean_pair(": ", text_of(entry, "reason"), "");
        putchar('\n');
    }
}

static void print_values(const char *title, json_t *values)
{
    const char *name;
    json_t *entry;
    if (json_object_size(values))
        printf("\n%s\n", title);
    json_object_foreach(values, name, entry)
    {
        print_clean_pair("  ", name, " = ");
        cli_print_value(json_object_get(entry, "value"));
        printf("  (%s)\n", text_of(entry, "from"));
    }
}

static void print_bindings(const json_t *pass)
{
    size_t i;
    json_t *binding;
    const char *name;
    json_t *bytes, *uniforms = json_object_get(pass, "uniforms");
    json_array_foreach(json_object_get(pass, "bindings"), i, binding)
    {
        printf("  binding %zu ", i);
        cli_print_clean(stdout, text_of(binding, "name"));
        print_clean_pair(": ", text_of(binding, "kind"), "");
        if (text_of(binding, "elementType")[0])
            print_clean_pair(" of ", text_of(binding, "elementType"), "");
        if (text_of(binding, "tensor")[0])
            print_clean_pair(" = ", text_of(binding, "tensor"), "");
        printf(", %.0f bytes\n", json_number_value(json_object_get(binding, "bytes")));
    }
    json_object_foreach(uniforms, name, bytes)
    {
        print_clean_pair("  uniform ", name, " = ");
        print_clean_pair("", json_string_value(bytes), "\n");
    }
}

/* Template lines on the left, the WGSL on the right. */
static void print_wgsl(const json_t *pass)
{
    size_t i;
    json_t *line, *list = json_object_get(pass, "wgsl");
    if (json_is_string(list))
        print_clean_pair("  WGSL: ", json_string_value(list), "\n");
    json_array_foreach(list, i, line)
    {
        printf("  %32.32s | ", text_of(line, "from"));
        cli_print_clean(stdout, text_of(line, "text"));
        putchar('\n');
    }
}

static void print_passes(const json_t *story)
{
    size_t i;
    json_t *pass;
    json_array_foreach(json_object_get(story, "passes"), i, pass)
    {
        const json_t *dispatch = json_object_get(pass, "dispatch");
        print_clean_pair("\npass ", text_of(pass, "id"), "");
        print_clean_pair(", ", text_of(pass, "shader"), "");
        printf(", %.0f x %.0f x %.0f workgroups%s\n",
               json_number_value(json_array_get(dispatch, 0)),
               json_number_value(json_array_get(dispatch, 1)),
               json_number_value(json_array_get(dispatch, 2)),
               json_is_false(json_object_get(pass, "active")) ? " (nothing to do)" : "");
        print_bindings(pass);
        print_wgsl(pass);
    }
}

static void print_backend(const char *title, const json_t *backend)
{
    printf("%-8s ", title);
    if (json_is_true(json_object_get(backend, "runs")))
        print_clean_pair("", text_of(backend, "call"), "\n");
    else
        print_clean_pair("no: ", text_of(backend, "reason"), "\n");
}

static void print_text(const json_t *story)
{
    print_clean_pair("op       ", text_of(story, "op"), "\n");
    printf("digest   %s%s\n", text_of(story, "package"),
           json_is_true(json_object_get(story, "verified")) ? "" : " (not verified)");
    if (text_of(story, "device")[0])
        print_clean_pair("device   ", text_of(story, "device"), "\n");
    print_backend("on CPU", json_object_get(story, "cpu"));
    print_backend("on GPU", json_object_get(story, "gpu"));
    print_tensors("inputs", json_object_get(story, "inputs"));
    print_tensors("outputs, inferred", json_object_get(story, "outputs"));
    print_variants(story);
    print_values("attributes", json_object_get(story, "attributes"));
    print_values("tunables", json_object_get(story, "tunables"));
    print_passes(story);
    if (text_of(story, "error")[0])
        print_clean_pair("\nthe call fails: ", text_of(story, "error"), "\n");
}

/* ---- the command ---- */

static json_t *names_of(const cli_scalars *scalars)
{
    json_t *names = json_object();
    for (size_t i = 0; i < scalars->count; i++)
        json_object_set_new(names, scalars->items[i].name, json_true());
    return names;
}

/* With --caps no device is opened. */
static int find_capabilities(cli_explanation *e, nib_caps **caps)
{
    nib_error error = {0};
    int code = CLI_OK;
    if (cli_has(&e->session->args, CLI_OPT_CAPS)) {
        if (cli_load_caps(e->session, caps, &error) != NIB_OK)
            return cli_fail(e->session, &error);
        e->caps = *caps;
    } else {
        code =
            cli_open_device(e->session, cli_value(&e->session->args, CLI_OPT_BACKEND), &e->device);
        e->caps = code == CLI_OK ? nib_device_caps(e->device) : NULL;
    }
    return code;
}

static int tell(cli_explanation *e)
{
    char *text = NULL;
    nib_error error = {0};
    e->named_tunables = names_of(&e->request->tunables);
    if (cli_tuning_use(e->session, e->package, e->caps, e->request, &error) != NIB_OK ||
        nib_package_json(e->package, &text, &error) != NIB_OK)
        return cli_fail(e->session, &error);
    e->contract = json_loads(text, 0, NULL);
    nib_text_free(e->session->context, text);
    json_t *story = cli_explain(e);
    const bool failed = json_object_get(story, "error") != NULL;
    if (e->session->json)
        cli_print_json(json_incref(story));
    else
        print_text(story);
    json_decref(story);
    return failed ? CLI_FAILED : CLI_OK;
}

static int run_explain(cli_session *session)
{
    nib_error error = {0};
    nib_package *package = NULL;
    nib_caps *caps = NULL;
    cli_request request = {0};
    cli_inputs inputs = {0};
    cli_explanation e = {.session = session, .request = &request};
    cli_request_from_options(&session->args, &request);
    int code = cli_request_add_tensor_options(session, &request);
    if (code == CLI_OK && cli_load_package(session, &package, &error) != NIB_OK)
        code = cli_fail(session, &error);
    if (code == CLI_OK)
        code = cli_inputs_load(session, &inputs);
    if (code == CLI_OK) {
        cli_request_add_inputs(&request, &inputs);
        code = find_capabilities(&e, &caps);
    }
    e.package = package;
    if (code == CLI_OK)
        code = tell(&e);
    json_decref(e.named_tunables);
    json_decref(e.contract);
    nib_device_free(e.device);
    nib_caps_free(caps);
    cli_inputs_free(&inputs);
    cli_request_free(&request);
    nib_package_free(package);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_TENSOR,
    CLI_OPT_IN,
    CLI_OPT_ATTR,
    CLI_OPT_ARG,
    CLI_OPT_WANT,
    CLI_OPT_BACKEND,
    CLI_OPT_CAPS,
    CLI_OPT_VARIANT,
    CLI_OPT_TUNABLE,
    CLI_OPT_TUNING,
    CLI_OPT_NO_TUNING,
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

const cli_command cli_command_explain = {
    .name = "explain",
    .arguments = "PACKAGE",
    .summary = "tell the whole story of a call on a device",
    .details =
        "Plan one call and say how it came about: what the outputs are inferred from, every "
        "variant with the condition that decided, attributes and tunables with their origin, "
        "passes, bindings with their bytes, the rendered WGSL beside the lines of its template, "
        "and what the CPU and the GPU would run. With --caps no device is needed. Exit code 1 "
        "when the call cannot be planned; the variants and their reasons are shown all the same.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_explain,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
