/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#include "print.h"

/* ---- planning ---- */

/* Plan the request with another variant or relaxed, and put it back as it was. */
static nib_status plan_as(const cli_explanation *e, const nib_caps *caps, const char *variant,
                          bool relaxed, nib_plan **plan, nib_error *error)
{
    nib_request request = *cli_request_finish(e->request);
    request.variant = variant;
    request.relaxed = relaxed;
    *plan = NULL;
    return nib_plan_create(e->package, &request, caps, plan, error);
}

static nib_status plan_now(const cli_explanation *e, nib_plan **plan, nib_error *error)
{
    const nib_request *request = cli_request_finish(e->request);
    return plan_as(e, e->caps, request->variant, request->relaxed, plan, error);
}

static json_t *plan_json(const cli_explanation *e, const nib_plan *plan)
{
    char *text = NULL;
    nib_error error = {0};
    if (nib_plan_json(plan, &text, &error) != NIB_OK)
        return json_object();
    json_t *object = json_loads(text, 0, NULL);
    nib_text_free(e->session->context, text);
    return object ? object : json_object();
}

/* ---- outputs ---- */

/* The manifest's rule for an output: {"shape": "...", "dtype": "T1"}. */
static json_t *rule_of(const cli_explanation *e, const char *key)
{
    json_t *rule = json_object();
    const json_t *port = json_object_get(json_object_get(e->contract, "outputs"), key);
    json_t *shape = json_object_get(port, "shape"), *dtype = json_object_get(port, "dtype");
    if (shape)
        json_object_set(rule, "shape", shape);
    if (dtype)
        json_object_set(rule, "dtype", dtype);
    return rule;
}

static json_t *tensors_json(const cli_explanation *e, const nib_plan *plan, bool outputs)
{
    json_t *tensors = json_object();
    for (size_t i = 0; i < nib_plan_tensor_count(plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(plan, i);
        char text[CLI_DESC_MAX];
        size_t bytes = 0;
        nib_error error = {0};
        if ((info.role != NIB_INPUT) != outputs)
            continue;
        json_t *tensor = json_object();
        if (nib_tensor_desc_bytes(&info.desc, &bytes, &error) != NIB_OK)
            bytes = 0;
        json_object_set_new(tensor, "onnx", cli_json_text(info.onnx));
        json_object_set_new(tensor, "tensor", cli_json_text(cli_desc_text(&info.desc, text)));
        json_object_set_new(tensor, "bytes", json_integer((json_int_t)bytes));
        if (outputs)
            json_object_set_new(tensor, "rule", rule_of(e, info.key));
        json_object_set_new(tensors, info.key, tensor);
    }
    return tensors;
}

/* ---- variants ---- */

static const char *rejection_of(const json_t *plan, const char *id)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(plan, "rejected"), i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "variant")), id) == 0)
            return json_string_value(json_object_get(entry, "reason"));
    }
    return NULL;
}

/* Without the words before it in "no variant of OP fits the request: ID: REASON". */
static const char *bare_reason(const nib_error *error, const char *id)
{
    const char *at = strstr(error->message, id);
    return at && strncmp(at + strlen(id), ": ", 2) == 0 ? at + strlen(id) + 2 : error->message;
}

static json_t *verdict_json(const char *id, const char *verdict, const char *reason)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "variant", cli_json_text(id));
    json_object_set_new(entry, "verdict", json_string(verdict));
    json_object_set_new(entry, "reason", cli_json_text(reason));
    return entry;
}

/* A variant that the planner did not need to look at is tried here. */
static json_t *try_variant(const cli_explanation *e, const char *id, const char *chosen)
{
    nib_plan *plan;
    nib_error error = {0};
    const nib_status status = plan_as(e, e->caps, id, false, &plan, &error);
    nib_plan_free(plan);
    if (status != NIB_OK)
        return verdict_json(id, "rejected", bare_reason(&error, id));
    return chosen ? verdict_json(id, "eligible", "another one comes first")
                  : verdict_json(id, "eligible", "");
}

static json_t *variants_json(const cli_explanation *e, const json_t *plan)
{
    const char *chosen = json_string_value(json_object_get(plan, "variant"));
    const bool pinned = cli_has(&e->session->args, CLI_OPT_VARIANT);
    const bool demoted = json_is_true(json_object_get(plan, "demoted"));
    json_t *list = json_array(), *variant;
    size_t i;
    json_array_foreach(json_object_get(e->contract, "variants"), i, variant)
    {
        const char *id = json_string_value(json_object_get(variant, "id"));
        const char *reason = rejection_of(plan, id);
        if (chosen && strcmp(id, chosen) == 0)
            json_array_append_new(list,
                                  verdict_json(id, "chosen",
                                               pinned    ? "--variant names it"
                                               : demoted ? "demoted, but no other one fits"
                                                         : "the first whose conditions hold"));
        else if (reason)
            json_array_append_new(list, verdict_json(id, "rejected", reason));
        else
            json_array_append_new(list, try_variant(e, id, chosen));
    }
    return list;
}

/* ---- tunables and attributes ---- */

static const json_t *find_variant(const cli_explanation *e, const char *id)
{
    size_t i;
    json_t *variant;
    json_array_foreach(json_object_get(e->contract, "variants"), i, variant)
    {
        if (strcmp(json_string_value(json_object_get(variant, "id")), id) == 0)
            return variant;
    }
    return NULL;
}

static bool request_sets(const cli_scalars *scalars, const char *name)
{
    for (size_t i = 0; i < scalars->count; i++) {
        if (strcmp(scalars->items[i].name, name) == 0)
            return true;
    }
    return false;
}

static const char *tunable_source(const cli_explanation *e, const char *variant, const char *name)
{
    if (json_object_get(e->named_tunables, name))
        return "--tunable";
    if (request_sets(&e->request->tunables, name))
        return "tuning file";
    const json_t *own = json_object_get(find_variant(e, variant), "tunables");
    return json_object_get(own, name) ? "variant" : "manifest";
}

static json_t *sourced(json_t *value, const char *source)
{
    json_t *entry = json_object();
    json_object_set(entry, "value", value);
    json_object_set_new(entry, "from", json_string(source));
    return entry;
}

static json_t *tunables_json(const cli_explanation *e, const json_t *plan)
{
    const char *variant = json_string_value(json_object_get(plan, "variant")), *name;
    json_t *value, *list = json_object();
    json_object_foreach(json_object_get(plan, "tunables"), name, value) json_object_set_new(
        list, name, sourced(value, tunable_source(e, variant ? variant : "", name)));
    return list;
}

static json_t *attributes_json(const cli_explanation *e, const json_t *plan)
{
    const char *name;
    json_t *value, *list = json_object();
    json_object_foreach(json_object_get(plan, "attributes"), name, value) json_object_set_new(
        list, name,
        sourced(value, request_sets(&e->request->attributes, name) ? "request" : "manifest"));
    return list;
}

/* ---- WGSL ---- */

/* One line of `text`, of which *at is the rest. */
static char *next_line(const char **at)
{
    const size_t length = strcspn(*at, "\n");
    char *line = cli_dup(*at, length);
    *at += length + ((*at)[length] == '\n');
    return line;
}

static json_t *lines_json(const char *wgsl, const char *lines)
{
    json_t *list = json_array();
    while (*wgsl) {
        char *text = next_line(&wgsl), *from = next_line(&lines);
        json_t *entry = json_object();
        json_object_set_new(entry, "text", cli_json_text(text));
        json_object_set_new(entry, "from", from[0] ? cli_json_text(from) : json_null());
        json_array_append_new(list, entry);
        free(text);
        free(from);
    }
    return list;
}

static json_t *pass_wgsl(const cli_explanation *e, const nib_plan *plan, size_t pass)
{
    char *wgsl = NULL, *lines = NULL;
    nib_error error = {0};
    nib_status status = nib_plan_wgsl(plan, pass, &wgsl, &error);
    if (status == NIB_OK)
        status = nib_plan_wgsl_lines(plan, pass, &lines, &error);
    json_t *list = status == NIB_OK ? lines_json(wgsl, lines) : cli_json_text(error.message);
    nib_text_free(e->session->context, wgsl);
    nib_text_free(e->session->context, lines);
    return list;
}

static json_t *passes_json(const cli_explanation *e, const nib_plan *plan, const json_t *record)
{
    json_t *passes = json_object_get(record, "passes"), *pass;
    size_t i;
    json_array_foreach(passes, i, pass)
    {
        json_object_set_new(pass, "wgsl", pass_wgsl(e, plan, i));
        json_object_del(pass, "declarations"); /* the WGSL begins with them */
    }
    return json_incref(passes);
}

/* ---- backends ---- */

/* What a device would run, in its own words; or why it cannot. */
static json_t *prepared(nib_device *device, const nib_plan *plan)
{
    nib_call *call = NULL;
    nib_error error = {0};
    char line[1200];
    json_t *object = json_object();
    json_object_set_new(object, "device", cli_json_text(nib_device_description(device)));
    if (nib_call_prepare(device, plan, NULL, &call, &error) == NIB_OK) {
        json_object_set_new(object, "runs", json_true());
        json_object_set_new(object, "call", cli_json_text(nib_call_description(call)));
    } else {
        nib_error_format(&error, line, sizeof line);
        json_object_set_new(object, "runs", json_false());
        json_object_set_new(object, "reason", cli_json_text(line));
    }
    nib_call_free(call);
    return object;
}

/* The CPU never looks at variants, so its plan is a relaxed one. */
static json_t *cpu_json(const cli_explanation *e)
{
    const cli_args *args = &e->session->args;
    const nib_device_options options = {
        .backend = "cpu",
        .threads = (uint32_t)cli_integer(args, CLI_OPT_THREADS, 0),
        .isa = cli_value(args, CLI_OPT_ISA),
    };
    nib_device *device = NULL;
    nib_plan *plan = NULL;
    nib_error error = {0};
    json_t *object = NULL;
    nib_status status = nib_device_open(e->session->context, &options, &device, &error);
    if (status == NIB_OK)
        status = plan_as(e, nib_device_caps(device), NULL, true, &plan, &error);
    if (status == NIB_OK)
        object = prepared(device, plan);
    if (!object) {
        object = json_object();
        json_object_set_new(object, "runs", json_false());
        json_object_set_new(object, "reason", cli_json_text(error.message));
    }
    nib_plan_free(plan);
    nib_device_free(device);
    return object;
}

static bool is_gpu(const cli_explanation *e)
{
    return e->device && strcmp(nib_device_backend(e->device), "webgpu") == 0;
}

/* Why there is no GPU in the story: the reason of the backend, or that --caps stands for one. */
static json_t *gpu_json(const cli_explanation *e, const nib_plan *plan)
{
    char *text = NULL;
    nib_error error = {0};
    if (is_gpu(e) && plan)
        return prepared(e->device, plan);
    json_t *object = json_object();
    json_object_set_new(object, "runs", json_false());
    if (!e->device || is_gpu(e)) {
        json_object_set_new(object, "reason",
                            json_string(e->device ? "the call cannot be planned"
                                                  : "planned for --caps, not for a device"));
        return object;
    }
    if (nib_devices_json(e->session->context, &text, &error) == NIB_OK) {
        json_t *list = json_loads(text, 0, NULL);
        const json_t *missing = json_array_get(json_object_get(list, "missing"), 0);
        const char *reason = json_string_value(json_object_get(missing, "reason"));
        json_object_set_new(object, "reason",
                            cli_json_text(reason ? reason : "the CPU was chosen"));
        json_decref(list);
    }
    nib_text_free(e->session->context, text);
    return object;
}

/* ---- the story ---- */

static void explain_plan(const cli_explanation *e, const nib_plan *plan, json_t *story)
{
    json_t *record = plan_json(e, plan);
    json_object_set(story, "variant", json_object_get(record, "variant"));
    json_object_set_new(story, "inputs", tensors_json(e, plan, false));
    json_object_set_new(story, "outputs", tensors_json(e, plan, true));
    json_object_set_new(story, "variants", variants_json(e, record));
    json_object_set_new(story, "attributes", attributes_json(e, record));
    json_object_set_new(story, "tunables", tunables_json(e, record));
    json_object_set(story, "intermediates", json_object_get(record, "intermediates"));
    json_object_set_new(story, "passes", passes_json(e, plan, record));
    json_decref(record);
}

/* No variant fits: what a relaxed plan can still tell. */
static void explain_failure(const cli_explanation *e, const nib_error *error, json_t *story)
{
    char line[2400];
    nib_plan *plan;
    nib_error second = {0};
    nib_error_format(error, line, sizeof line);
    json_object_set_new(story, "error", cli_json_text(line));
    json_object_set_new(story, "status", cli_json_text(nib_status_name(error->code)));
    json_object_set_new(story, "variant", json_null());
    if (plan_as(e, e->caps, NULL, true, &plan, &second) == NIB_OK) {
        json_t *record = plan_json(e, plan);
        json_object_set_new(story, "inputs", tensors_json(e, plan, false));
        json_object_set_new(story, "outputs", tensors_json(e, plan, true));
        json_object_set_new(story, "variants", variants_json(e, record));
        json_object_set_new(story, "attributes", attributes_json(e, record));
        json_decref(record);
    }
    nib_plan_free(plan);
}

json_t *cli_explain(const cli_explanation *e)
{
    json_t *story = json_object();
    nib_plan *plan;
    nib_error error = {0};
    json_object_set_new(story, "op", cli_json_text(nib_package_op(e->package)));
    json_object_set_new(story, "package", cli_json_text(nib_package_digest(e->package)));
    json_object_set_new(story, "verified", json_boolean(nib_package_verified(e->package)));
    json_object_set_new(story, "device",
                        e->device ? cli_json_text(nib_device_description(e->device)) : json_null());
    if (plan_now(e, &plan, &error) == NIB_OK)
        explain_plan(e, plan, story);
    else
        explain_failure(e, &error, story);
    json_object_set_new(story, "cpu", cpu_json(e));
    json_object_set_new(story, "gpu", gpu_json(e, plan));
    nib_plan_free(plan);
    return story;
}
