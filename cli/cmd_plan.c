/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "print.h"
#include "request.h"
#include "tuning.h"

#ifdef _WIN32
#include <direct.h>
#define make_folder(path) _mkdir(path)
#else
#define make_folder(path) mkdir(path, 0777)
#endif

/* ---- text ---- */

#define TITLE_COLUMN 10

/* The first line of a section carries its title, the others are indented below it. */
static void print_row(const char **title, const char *text)
{
    printf("%-*s ", TITLE_COLUMN, *title);
    cli_print_clean(stdout, text);
    *title = "";
}

static const char *text_member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void print_rejected(const json_t *plan)
{
    const char *title = "rejected";
    size_t i;
    json_t *entry, *list = json_object_get(plan, "rejected");
    json_array_foreach(list, i, entry)
    {
        if (!cli_is_first_reason(list, i))
            continue;
        print_row(&title, "");
        cli_print_same_reason(list, i, TITLE_COLUMN + 1);
        fputs(": ", stdout);
        cli_print_clean(stdout, text_member(entry, "reason"));
        putchar('\n');
    }
}

/* A row "name float32[2,3]". */
static void print_desc(const char **title, const char *name, const json_t *tensor)
{
    char *shape = json_dumps(json_object_get(tensor, "shape"), JSON_COMPACT);
    print_row(title, name);
    printf(" %s%s\n", text_member(tensor, "dtype"), shape ? shape : "");
    free(shape);
}

static void print_outputs(const json_t *plan)
{
    const char *title = "outputs", *key;
    json_t *tensor, *outputs = json_object_get(plan, "outputs");
    json_object_foreach(outputs, key, tensor) print_desc(&title, key, tensor);
}

static void print_intermediates(const json_t *plan)
{
    const char *title = "scratch";
    size_t i;
    json_t *tensor;
    json_array_foreach(json_object_get(plan, "intermediates"), i, tensor)
        print_desc(&title, text_member(tensor, "id"), tensor);
}

/* {name: value} as "name = value". */
static void print_values(const json_t *plan, const char *member, const char *title)
{
    const char *name;
    json_t *value, *values = json_object_get(plan, member);
    json_object_foreach(values, name, value)
    {
        print_row(&title, name);
        fputs(" = ", stdout);
        cli_print_value(value);
        putchar('\n');
    }
}

static void print_bindings(const json_t *pass)
{
    size_t i;
    json_t *binding;
    json_array_foreach(json_object_get(pass, "bindings"), i, binding)
    {
        printf("  binding  %lld ",
               (long long)json_integer_value(json_object_get(binding, "binding")));
        cli_print_clean(stdout, text_member(binding, "name"));
        printf(": %s", text_member(binding, "kind"));
        if (text_member(binding, "elementType")[0]) {
            fputs(" of ", stdout);
            cli_print_clean(stdout, text_member(binding, "elementType"));
        }
        if (text_member(binding, "tensor")[0]) {
            fputs(" = ", stdout);
            cli_print_clean(stdout, text_member(binding, "tensor"));
        }
        putchar('\n');
    }
}

static void print_uniforms(const json_t *pass)
{
    const char *name;
    json_t *bytes, *uniforms = json_object_get(pass, "uniforms");
    json_object_foreach(uniforms, name, bytes)
    {
        fputs("  uniform  ", stdout);
        cli_print_clean(stdout, name);
        fputs(" = ", stdout);
        cli_print_clean(stdout, json_string_value(bytes));
        putchar('\n');
    }
}

static void print_pass(const json_t *pass)
{
    const json_t *dispatch = json_object_get(pass, "dispatch");
    fputs("pass       ", stdout);
    cli_print_clean(stdout, text_member(pass, "id"));
    fputs("\n  shader   ", stdout);
    cli_print_clean(stdout, text_member(pass, "shader"));
    fputs("\n  dispatch", stdout);
    for (size_t axis = 0; axis < json_array_size(dispatch); axis++) {
        fputs(axis ? " x " : " ", stdout);
        cli_print_value(json_array_get(dispatch, axis));
    }
    if (json_is_false(json_object_get(pass, "active")))
        fputs(" (nothing to do)", stdout);
    putchar('\n');
    print_bindings(pass);
    print_uniforms(pass);
}

static void print_plan_text(const json_t *plan)
{
    const char *op = "op", *variant = "variant";
    size_t i;
    json_t *pass;
    print_row(&op, text_member(plan, "op"));
    putchar('\n');
    print_row(&variant, text_member(plan, "variant")[0] ? text_member(plan, "variant") : "none");
    putchar('\n');
    print_rejected(plan);
    print_values(plan, "attributes", "attribute");
    print_values(plan, "args", "argument");
    print_values(plan, "tunables", "tunable");
    print_outputs(plan);
    print_intermediates(plan);
    print_values(plan, "derive", "derive");
    json_array_foreach(json_object_get(plan, "passes"), i, pass) print_pass(pass);
}

static nib_status print_plan(cli_session *session, const nib_plan *plan, nib_error *error)
{
    char *text = NULL;
    const nib_status status = nib_plan_json(plan, &text, error);
    if (status != NIB_OK)
        return status;
    if (session->json) {
        cli_print_text(text);
    } else {
        json_t *object = json_loads(text, 0, NULL);
        print_plan_text(object);
        json_decref(object);
    }
    nib_text_free(session->context, text);
    return NIB_OK;
}

/* ---- --wgsl DIR ---- */

/* "DIR/0-norm.wgsl": a pass id is any text, so only harmless characters of it reach the file name.
 */
static char *wgsl_path(const char *folder, size_t pass, const char *id)
{
    const size_t bytes = strlen(folder) + strlen(id) + 40;
    char *path = cli_alloc(bytes);
    const int prefix = snprintf(path, bytes, "%s/%zu-", folder, pass);
    char *out = path + prefix;
    for (; *id; id++) {
        const char c = *id;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-';
        *out++ = plain ? c : '_';
    }
    memcpy(out, ".wgsl", sizeof ".wgsl");
    return path;
}

static nib_status write_pass(cli_session *session, const nib_plan *plan, size_t pass,
                             const char *folder, nib_error *error)
{
    char *text = NULL;
    nib_status status = nib_plan_wgsl(plan, pass, &text, error);
    if (status != NIB_OK)
        return status;
    char *path = wgsl_path(folder, pass, nib_plan_pass_id(plan, pass));
    status = cli_write_file(path, text, strlen(text), error);
    if (status == NIB_OK)
        cli_note(session, "wrote %s", path);
    free(path);
    nib_text_free(session->context, text);
    return status;
}

static nib_status write_wgsl(cli_session *session, const nib_plan *plan, nib_error *error)
{
    const char *folder = cli_value(&session->args, CLI_OPT_WGSL);
    nib_status status = NIB_OK;
    if (!folder)
        return NIB_OK;
    if (make_folder(folder) != 0 && errno != EEXIST)
        return cli_error(error, NIB_IO, folder, "cannot create the folder: %s", strerror(errno));
    for (size_t pass = 0; pass < nib_plan_pass_count(plan) && status == NIB_OK; pass++)
        status = write_pass(session, plan, pass, folder, error);
    return status;
}

/* ---- the command ---- */

static int plan_call(cli_session *session, const cli_request *request, const nib_package *package,
                     const nib_caps *caps)
{
    nib_error error = {0};
    nib_plan *plan = NULL;
    nib_status status = nib_plan_create(package, &request->request, caps, &plan, &error);
    /* Shaders first: their failure must leave nothing but the error on standard output. */
    if (status == NIB_OK)
        status = write_wgsl(session, plan, &error);
    if (status == NIB_OK)
        status = print_plan(session, plan, &error);
    nib_plan_free(plan);
    return status == NIB_OK ? CLI_OK : cli_fail(session, &error);
}

static int run_plan(cli_session *session)
{
    nib_error error = {0};
    nib_package *package = NULL;
    nib_caps *caps = NULL;
    cli_request request = {0};
    cli_request_from_options(&session->args, &request);
    int code = cli_request_add_tensor_options(session, &request);
    if (code == CLI_OK && (cli_load_package(session, &package, &error) != NIB_OK ||
                           cli_load_caps(session, &caps, &error) != NIB_OK ||
                           cli_tuning_use(session, package, caps, &request, &error) != NIB_OK))
        code = cli_fail(session, &error);
    if (code == CLI_OK) {
        cli_request_finish(&request);
        code = plan_call(session, &request, package, caps);
    }
    nib_caps_free(caps);
    nib_package_free(package);
    cli_request_free(&request);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_TENSOR,
    CLI_OPT_ATTR,
    CLI_OPT_ARG,
    CLI_OPT_WANT,
    CLI_OPT_CAPS,
    CLI_OPT_VARIANT,
    CLI_OPT_TUNABLE,
    CLI_OPT_TUNING,
    CLI_OPT_NO_TUNING,
    CLI_OPT_RELAXED,
    CLI_OPT_WGSL,
    CLI_OPT_MANIFEST,
    CLI_OPT_NO_VERIFY,
    CLI_OPT_CONTRACT_VERSION,
    CLI_OPT_TRUST_REMOTE_CODE,
    CLI_OPT_JSON,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
};

const cli_command cli_command_plan = {
    .name = "plan",
    .arguments = "PACKAGE",
    .summary = "show what a call would do on a device, without one",
    .details =
        "Plan one call from the manifest alone, for the device that --caps describes: outputs, the "
        "chosen variant and why the others were rejected, passes with their dispatch sizes, "
        "bindings and uniform bytes. Nothing runs and no GPU is needed.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_plan,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
