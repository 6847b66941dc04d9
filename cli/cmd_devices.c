/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "casefile.h"
#include "commands.h"
#include "locate.h"

/* Whose variants are listed when no package is named. */
static const char *const own_packages[] = {
    "com.microsoft.MatMulNBitsQkv", "com.microsoft.MatMulNBitsMlp", "com.microsoft.MatMulBnb4"};

/* ---- what a device can run ---- */

/* A package whose cases are tried on devices. */
typedef struct subject {
    nib_package *package;
    cli_casefile file;
} subject;

static bool must_succeed(const cli_casefile *file, size_t index)
{
    const json_t *object = cli_casefile_at(file, index);
    return !json_object_get(object, "error") && !json_object_get(object, "relaxed");
}

/* Plan one case; `variant` NULL: the planner's choice. */
static nib_status plan_case(const subject *s, size_t index, const char *variant, bool relaxed,
                            const nib_caps *caps, nib_plan **plan, nib_error *error)
{
    cli_request request;
    *plan = NULL;
    nib_status status = cli_case_request(&s->file, s->package, index, &request, error);
    request.request.variant = variant;
    request.request.relaxed = relaxed;
    if (status == NIB_OK)
        status = nib_plan_create(s->package, cli_request_finish(&request), caps, plan, error);
    cli_request_free(&request);
    return status;
}

/* The reason in "no variant of OP fits the request: ID: REASON". */
static const char *reason_in(const nib_error *error, const char *variant)
{
    const char *at = strstr(error->message, variant);
    return at && strncmp(at + strlen(variant), ": ", 2) == 0 ? at + strlen(variant) + 2
                                                             : error->message;
}

/* Does any case of the package run with this variant? Else `reason`: what the device lacks, or that
 * no case is of its kind. */
static bool variant_runs(const subject *s, const char *variant, const nib_caps *caps,
                         char reason[300])
{
    snprintf(reason, 300, "no case of its test.json is of its kind");
    for (size_t i = 0; i < cli_casefile_count(&s->file); i++) {
        nib_plan *plan;
        nib_error error = {0};
        if (!must_succeed(&s->file, i))
            continue;
        const nib_status status = plan_case(s, i, variant, false, caps, &plan, &error);
        nib_plan_free(plan);
        if (status == NIB_OK)
            return true;
        if (strncmp(reason_in(&error, variant), "needs ", 6) == 0)
            snprintf(reason, 300, "%.290s", reason_in(&error, variant));
    }
    return false;
}

static json_t *variants_json(cli_session *session, const subject *s, const nib_caps *caps)
{
    char *text = NULL;
    size_t i;
    json_t *variant, *list = json_object();
    nib_error error = {0};
    if (nib_package_json(s->package, &text, &error) != NIB_OK)
        return list;
    json_t *contract = json_loads(text, 0, NULL);
    json_array_foreach(json_object_get(contract, "variants"), i, variant)
    {
        char reason[300];
        const char *id = json_string_value(json_object_get(variant, "id"));
        const bool runs = variant_runs(s, id, caps, reason);
        json_object_set_new(list, id, runs ? json_true() : cli_json_text(reason));
    }
    json_decref(contract);
    nib_text_free(session->context, text);
    return list;
}

/* Whether the CPU has kernels for the package: true, or the reason why not. */
static json_t *cpu_support(cli_session *session, const subject *s)
{
    const nib_device_options options = {.backend = "cpu", .threads = 1};
    nib_device *device = NULL;
    nib_error error = {0};
    json_t *answer = NULL;
    if (nib_device_open(session->context, &options, &device, &error) != NIB_OK)
        return cli_json_text(error.message);
    for (size_t i = 0; i < cli_casefile_count(&s->file) && !answer; i++) {
        nib_plan *plan = NULL;
        nib_call *call = NULL;
        if (must_succeed(&s->file, i) &&
            plan_case(s, i, NULL, true, nib_device_caps(device), &plan, &error) == NIB_OK) {
            const nib_status status = nib_call_prepare(device, plan, NULL, &call, &error);
            answer = status == NIB_OK ? json_true() : cli_json_text(error.message);
        }
        nib_call_free(call);
        nib_plan_free(plan);
    }
    nib_device_free(device);
    return answer ? answer : cli_json_text("no case could be planned");
}

static void add_packages(cli_session *session, json_t *device, const subject *subjects,
                         size_t count)
{
    json_t *packages = json_object(), *caps_json = json_object_get(device, "caps");
    for (size_t i = 0; i < count; i++) {
        nib_caps *caps = NULL;
        nib_error error = {0};
        json_t *answer;
        char *text = caps_json ? json_dumps(caps_json, 0) : NULL;
        if (!caps_json)
            answer = cpu_support(session, &subjects[i]);
        else if (nib_caps_parse(session->context, text, &caps, &error) == NIB_OK)
            answer = variants_json(session, &subjects[i], caps);
        else
            answer = cli_json_text(error.message);
        json_object_set_new(packages, nib_package_op(subjects[i].package), answer);
        nib_caps_free(caps);
        free(text);
    }
    json_object_set_new(device, "packages", packages);
}

/* ---- text ---- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void print_list(const char *title, const json_t *list)
{
    size_t i;
    json_t *item;
    if (json_array_size(list) == 0)
        return;
    printf("  %-10s", title);
    json_array_foreach(list, i, item)
    {
        fputs(i ? ", " : " ", stdout);
        cli_print_clean(stdout, json_string_value(item));
    }
    putchar('\n');
}

static void print_rows(const json_t *device)
{
    size_t i;
    json_t *row;
    if (!json_object_get(device, "rows"))
        return;
    fputs("  rows      ", stdout);
    json_array_foreach(json_object_get(device, "rows"), i, row)
        printf(" %s%s", text_of(row, "name"),
               json_is_true(json_object_get(row, "available")) ? "" : " (not here)");
    putchar('\n');
}

static void print_limits(const json_t *caps)
{
    const char *name;
    json_t *value, *limits = json_object_get(caps, "limits");
    json_object_foreach(limits, name, value)
        printf("  %-36s %.0f\n", name, json_number_value(value));
}

static void print_subgroups(const json_t *info)
{
    const json_t *least = json_object_get(info, "subgroupMinSize");
    const json_t *most = json_object_get(info, "subgroupMaxSize");
    size_t i;
    json_t *config, *configs = json_object_get(info, "subgroupMatrixConfigs");
    if (least)
        printf("  subgroups  %.0f to %.0f invocations\n", json_number_value(least),
               json_number_value(most));
    json_array_foreach(configs, i, config) printf(
        "  matrix     %s to %s, M %.0f, N %.0f, K %.0f\n", text_of(config, "componentType"),
        text_of(config, "resultComponentType"), json_number_value(json_object_get(config, "M")),
        json_number_value(json_object_get(config, "N")),
        json_number_value(json_object_get(config, "K")));
}

static void print_variants(json_t *variants)
{
    const char *id;
    json_t *answer;
    json_object_foreach(variants, id, answer)
    {
        fputs("    ", stdout);
        cli_print_clean(stdout, id);
        fputs(json_is_true(answer) ? ": yes" : ": no, ", stdout);
        if (json_is_string(answer))
            cli_print_clean(stdout, json_string_value(answer));
        putchar('\n');
    }
}

static void print_packages(const json_t *device)
{
    const char *op;
    json_t *answer, *packages = json_object_get(device, "packages");
    json_object_foreach(packages, op, answer)
    {
        fputs("  ", stdout);
        cli_print_clean(stdout, op);
        if (json_is_object(answer)) {
            fputs(", variants:\n", stdout);
            print_variants(answer);
        } else {
            fputs(json_is_true(answer) ? ": yes" : ": no, ", stdout);
            if (json_is_string(answer))
                cli_print_clean(stdout, json_string_value(answer));
            putchar('\n');
        }
    }
}

static void print_device(const json_t *device)
{
    const json_t *caps = json_object_get(device, "caps"), *index = json_object_get(device, "index");
    cli_print_clean(stdout, text_of(device, "backend"));
    if (index)
        printf(" %.0f: ", json_number_value(index));
    if (index)
        cli_print_clean(stdout, text_of(device, "name"));
    putchar('\n');
    if (index) {
        printf("  kind       %s\n  api        %s\n  driver     ", text_of(device, "kind"),
               text_of(device, "api"));
        cli_print_clean(stdout, text_of(device, "driver"));
        putchar('\n');
    }
    print_rows(device);
    print_list("features", json_object_get(caps, "features"));
    print_subgroups(json_object_get(caps, "adapterInfo"));
    print_limits(caps);
    print_packages(device);
}

static void print_text(const json_t *list)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(list, "devices"), i, entry)
    {
        if (i)
            putchar('\n');
        print_device(entry);
    }
    json_array_foreach(json_object_get(list, "missing"), i, entry)
    {
        fputs("\nno ", stdout);
        cli_print_clean(stdout, text_of(entry, "backend"));
        fputs(": ", stdout);
        cli_print_clean(stdout, text_of(entry, "reason"));
        putchar('\n');
    }
}

/* ---- the command ---- */

static nib_status load_subject(cli_session *session, const char *name, subject *s, nib_error *error)
{
    static const char *const members[] = {"fixtureArrays", "cases"};
    cli_place place;
    nib_status status = cli_locate(session, name, &place, error);
    const nib_package_options options = {.expected_op = place.op};
    if (status == NIB_OK)
        status = nib_package_load(session->context, place.folder, &options, &s->package, error);
    cli_place_free(&place);
    if (status == NIB_OK)
        status = cli_casefile_load(session, s->package, "test.json", members, CLI_LENGTH(members),
                                   &s->file, error);
    return status;
}

static void free_subjects(subject *subjects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cli_casefile_free(&subjects[i].file);
        nib_package_free(subjects[i].package);
    }
    free(subjects);
}

/* The packages named, or those of our own that are installed. */
static int load_subjects(cli_session *session, subject **subjects, size_t *count)
{
    const cli_args *args = &session->args;
    const bool named = args->argument_count > 0;
    const size_t wanted = named ? args->argument_count : CLI_LENGTH(own_packages);
    *subjects = cli_alloc(wanted * sizeof **subjects);
    *count = 0;
    for (size_t i = 0; i < wanted; i++) {
        nib_error error = {0};
        subject *s = &(*subjects)[*count];
        const char *name = named ? args->arguments[i] : own_packages[i];
        if (load_subject(session, name, s, &error) == NIB_OK) {
            ++*count;
        } else if (named) {
            ++*count;
            return cli_fail(session, &error);
        } else {
            cli_casefile_free(&s->file);
            nib_package_free(s->package);
            *s = (subject){0};
        }
    }
    return CLI_OK;
}

static int run_devices(cli_session *session)
{
    subject *subjects;
    size_t count, i;
    json_t *device;
    char *text = NULL;
    nib_error error = {0};
    int code = load_subjects(session, &subjects, &count);
    if (code == CLI_OK && nib_devices_json(session->context, &text, &error) != NIB_OK)
        code = cli_fail(session, &error);
    if (code == CLI_OK) {
        json_t *list = json_loads(text, 0, NULL);
        json_array_foreach(json_object_get(list, "devices"), i, device)
            add_packages(session, device, subjects, count);
        if (session->json)
            cli_print_json(json_incref(list));
        else
            print_text(list);
        json_decref(list);
    }
    nib_text_free(session->context, text);
    free_subjects(subjects, count);
    return code;
}

static const cli_option_id options[] = {CLI_OPT_JSON, CLI_OPT_QUIET, CLI_OPT_VERBOSE};

const cli_command cli_command_devices = {
    .name = "devices",
    .arguments = "[PACKAGE...]",
    .summary = "list the devices and what each can run",
    .details =
        "List the CPU with its kernel rows and every GPU adapter with its driver, features, "
        "limits, "
        "subgroup sizes and matrix configurations. For each PACKAGE, or for nibble's own packages "
        "where they are installed, say which variants each device can run, and what it lacks for "
        "the others. The index or a part of the name is what --adapter takes.",
    .argument_max = 16,
    .run = run_devices,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
