/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "generate.h"
#include "pinned.h"
#include "print.h"

#define GENERATED_CASES 32

const char *const cli_outcome_words[CLI_OUTCOME_COUNT] = {
#define XX(name, word) [CLI_OUTCOME_##name] = (word),
    CLI_OUTCOME_MAP(XX)
#undef XX
};

static void say(cli_result *r, cli_outcome outcome, const char *format, ...)
    __attribute__((__format__(__printf__, 3, 4)));

static void say(cli_result *r, cli_outcome outcome, const char *format, ...)
{
    va_list args;
    r->outcome = outcome;
    va_start(args, format);
    vsnprintf(r->reason, sizeof r->reason, format, args);
    va_end(args);
}

/* ---- comparing ---- */

static bool compare_desc(cli_result *r, const cli_expectation *output,
                         const nib_tensor_desc *actual)
{
    char got[CLI_DESC_MAX], wanted[CLI_DESC_MAX];
    if (cli_same_desc(actual, &output->desc))
        return true;
    say(r, CLI_OUTCOME_FAILED, "%s is %s, expected %s", output->port, cli_desc_text(actual, got),
        cli_desc_text(&output->desc, wanted));
    return false;
}

static void say_element(cli_result *r, const cli_expectation *output, double a, double e,
                        size_t index, const char *source)
{
    char got[32], wanted[32];
    if (isnan(a) && isnan(e)) {
        say(r, CLI_OUTCOME_FAILED, "%s, element %zu is NaN, and allowNaN is not true", output->port,
            index);
        return;
    }
    cli_number_text(output->desc.dtype, a, got);
    cli_number_text(output->desc.dtype, e, wanted);
    say(r, CLI_OUTCOME_FAILED, "%s, element %zu is %s, %s %s (error %.3g, tolerance %.3g)",
        output->port, index, got, source, wanted, cli_mixed_error(a, e, output->allow_nan),
        output->tolerance);
}

/* `worst` takes the greatest error up to the first element that is wrong. */
static bool compare_values(cli_result *r, const cli_expectation *output, nib_tensor *actual,
                           nib_tensor *expected, const char *source, double *worst)
{
    const cli_difference difference =
        cli_compare(actual, expected, output->tolerance, output->allow_nan);
    *worst = fmax(*worst, difference.worst);
    if (difference.index == SIZE_MAX)
        return true;
    say_element(r, output, cli_element(actual, difference.index),
                cli_element(expected, difference.index), difference.index, source);
    return false;
}

/* ---- running one case ---- */

static bool needs_reference(const cli_testcase *test)
{
    for (size_t i = 0; i < test->output_count; i++) {
        if (!test->outputs[i].values)
            return true;
    }
    return false;
}

/* The CPU computes without shaders, so no variant and nothing that only a shader needs matters. */
static nib_status run_without_variant(cli_suite *s, cli_testcase *test, nib_device *device,
                                      cli_call *call, nib_error *error)
{
    const nib_request before = test->request.request;
    test->request.request.variant = NULL;
    test->request.request.relaxed = true;
    const nib_status status = cli_call_run(
        call, s->package, device, cli_request_finish(&test->request), &test->inputs, error);
    test->request.request.variant = before.variant;
    test->request.request.relaxed = before.relaxed;
    return status;
}

/* Run the case on one thread of the scalar CPU kernels: the numeric truth where a case states none.
 */
static nib_status run_reference(cli_suite *s, cli_testcase *test, cli_call *call, nib_error *error)
{
    const nib_device_options options = {.backend = "cpu", .threads = 1, .isa = "scalar"};
    if (!s->reference) {
        const nib_status status =
            nib_device_open(s->session->context, &options, &s->reference, error);
        if (status != NIB_OK)
            return status;
    }
    return run_without_variant(s, test, s->reference, call, error);
}

static void compare_outputs(const cli_testcase *test, cli_call *call, cli_call *reference,
                            cli_result *r)
{
    bool good = true;
    for (size_t i = 0; i < test->output_count; i++) {
        const cli_expectation *output = &test->outputs[i];
        nib_tensor *actual = nib_call_tensor(call->call, output->port);
        nib_tensor *truth = reference->call ? nib_call_tensor(reference->call, output->port) : NULL;
        if (!compare_desc(r, output, nib_tensor_describe(actual)))
            return;
        /* Both comparisons are made, and what the case expects has the last word. */
        if (r->crossed)
            good = compare_values(r, output, actual, truth, "the CPU has", &r->cross) && good;
        good = compare_values(r, output, actual, output->values ? output->values : truth,
                              "expected", &r->worst) &&
               good;
        if (!good)
            return;
    }
    r->outcome = CLI_OUTCOME_PASSED;
}

static void judge_run(cli_suite *s, cli_testcase *test, cli_call *call, cli_result *r)
{
    cli_call reference = {0};
    nib_error error = {0};
    nib_status status = NIB_OK;
    r->ran = true;
    r->referenced = needs_reference(test);
    if (r->referenced || s->cross_check)
        status = run_reference(s, test, &reference, &error);
    r->crossed = s->cross_check && status == NIB_OK;
    if (test->output_count == 0)
        say(r, CLI_OUTCOME_FAILED, "the case expects no output, so it proves nothing");
    else if (r->referenced && status != NIB_OK)
        say(r, CLI_OUTCOME_FAILED, "no expected values, and the CPU cannot compute them: %s",
            error.message);
    else
        compare_outputs(test, call, &reference, r);
    cli_call_free(&reference);
}

/* The operator has no kernel here: at least its inference can be checked. */
static void judge_plan(const cli_testcase *test, const nib_plan *plan, const nib_error *error,
                       cli_result *r)
{
    say(r, CLI_OUTCOME_PLANNED, "%s", error->message);
    for (size_t i = 0; i < test->output_count; i++) {
        bool found = false;
        for (size_t t = 0; t < nib_plan_tensor_count(plan) && !found; t++) {
            const nib_plan_tensor_info info = nib_plan_tensor_at(plan, t);
            found = info.role != NIB_INPUT && (strcmp(info.key, test->outputs[i].port) == 0 ||
                                               strcmp(info.onnx, test->outputs[i].port) == 0);
            if (found && !compare_desc(r, &test->outputs[i], &info.desc))
                return;
        }
        if (!found)
            say(r, CLI_OUTCOME_FAILED, "%s is not planned", test->outputs[i].port);
    }
}

static bool has_text(const char *line, const json_t *text, const char *status_name)
{
    return strstr(line, json_string_value(text)) || !strcmp(json_string_value(text), status_name);
}

/* The case must fail, and say why in the words the case gives. */
static void judge_failure(const cli_testcase *test, nib_status status, const nib_error *error,
                          cli_result *r)
{
    char line[sizeof r->reason - 100];
    const json_t *list = test->errors;
    const size_t count = json_is_array(list) ? json_array_size(list) : 1;
    if (status == NIB_OK) {
        say(r, CLI_OUTCOME_FAILED, "the call succeeded, but it must fail");
        return;
    }
    nib_error_format(error, line, sizeof line);
    r->outcome = CLI_OUTCOME_PASSED;
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(list) ? json_array_get(list, i) : list;
        if (!has_text(line, text, nib_status_name(status)))
            say(r, CLI_OUTCOME_FAILED, "the error does not say '%.80s': %s",
                json_string_value(text), line);
    }
}

static void judge_refusal(const nib_error *error, const cli_call *call, cli_result *r)
{
    char line[sizeof r->reason];
    nib_error_format(error, line, sizeof line);
    r->refused = !call->plan;
    say(r, CLI_OUTCOME_FAILED, "%s", line);
}

/* Has the case failed only because it pins a variant that needs more of a device than this one has?
 * One that must fail would then fail as it says. */
static bool device_lacks(cli_suite *s, cli_testcase *test, nib_device *device)
{
    nib_error error = {0};
    cli_result judged = {0};
    const nib_status status =
        cli_plan_unlimited(s->session->context, s->package, cli_request_finish(&test->request),
                           nib_device_caps(device), &error);
    if (test->errors)
        judge_failure(test, status, &error, &judged);
    return status == NIB_OK || (test->errors && judged.outcome == CLI_OUTCOME_PASSED);
}

/* What the variant needs, without the words before it: "matrix: needs the device feature ...". */
static const char *lack_text(const nib_error *error, const char *variant)
{
    const char *at = strstr(error->message, variant);
    for (; at; at = strstr(at + 1, variant)) {
        if (at[strlen(variant)] == ':')
            return at;
    }
    return error->message;
}

static void judge_result(cli_suite *s, cli_testcase *test, nib_status status,
                         const nib_error *error, cli_call *call, cli_result *r)
{
    if (status == NIB_OK)
        judge_run(s, test, call, r);
    else if (status == NIB_UNSUPPORTED && call->plan && !call->call && !s->on_gpu)
        judge_plan(test, call->plan, error, r);
    else
        judge_refusal(error, call, r);
}

/* The CPU computes the case all the same; a GPU leaves it out. Either way the reason is shown. */
static void judge_lack(cli_suite *s, cli_testcase *test, nib_device *device, const nib_error *lack,
                       cli_result *r)
{
    nib_error error = {0};
    cli_call call = {0};
    const char *why = lack_text(lack, test->request.request.variant);
    if (s->on_gpu || test->errors) {
        say(r, CLI_OUTCOME_SKIPPED, "not on this device: %s", why);
        return;
    }
    const nib_status status = run_without_variant(s, test, device, &call, &error);
    judge_result(s, test, status, &error, &call, r);
    if (r->outcome == CLI_OUTCOME_PASSED)
        say(r, CLI_OUTCOME_PASSED, "computed without the variant: %s", why);
    cli_call_free(&call);
}

static bool is_lack(cli_suite *s, cli_testcase *test, const cli_target *target, nib_status status)
{
    return status == NIB_NO_VARIANT && test->request.request.variant && !target->pins &&
           device_lacks(s, test, target->device);
}

/* False when the target's variant does not take the request: then there is no result. */
static bool run_on(cli_suite *s, cli_testcase *test, cli_target *target, cli_result *r)
{
    nib_error error = {0};
    cli_call call = {0};
    if (target->pins)
        test->request.request.variant = target->label;
    const double start = cli_seconds();
    const nib_status status =
        cli_call_run(&call, s->package, target->device, cli_request_finish(&test->request),
                     &test->inputs, &error);
    if (target->pins)
        test->request.request.variant = NULL;
    const char *variant = call.plan ? nib_plan_variant(call.plan) : NULL;
    variant = target->label ? target->label : variant;
    snprintf(r->variant, sizeof r->variant, "%s", variant ? variant : "");
    const bool fits = !(target->pins && status == NIB_NO_VARIANT);
    if (!fits)
        r->reason[0] = '\0';
    else if (test->errors)
        judge_failure(test, status, &error, r);
    else
        judge_result(s, test, status, &error, &call, r);
    if (fits && r->outcome == CLI_OUTCOME_FAILED && is_lack(s, test, target, status)) {
        r->refused = false;
        r->reason[0] = '\0';
        judge_lack(s, test, target->device, &error, r);
    }
    cli_call_free(&call);
    r->seconds = cli_seconds() - start;
    target->ran += fits;
    return fits;
}

/* ---- all cases ---- */

static cli_result *add_result(cli_suite *s, const char *name)
{
    cli_result *grown = realloc(s->results, (s->count + 1) * sizeof *grown);
    if (!grown)
        return cli_alloc(SIZE_MAX); /* ends the program */
    s->results = grown;
    cli_result *r = &grown[s->count++];
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

/* Every target that takes the case; the default one when none does, for its message. */
static void run_everywhere(cli_suite *s, cli_testcase *test, const char *name)
{
    cli_target plain = {.device = s->device};
    size_t ran = 0;
    const bool all = !test->errors && !test->request.request.variant;
    for (size_t i = 0; all && i < s->target_count; i++) {
        cli_result *r = add_result(s, name);
        if (run_on(s, test, &s->targets[i], r))
            ran++;
        else
            s->count--;
    }
    if (ran == 0)
        run_on(s, test, &plain, add_result(s, name));
}

static void read_and_run_case(cli_suite *s, size_t index)
{
    cli_testcase test;
    nib_error error = {0};
    char line[1024];
    const char *name = cli_casefile_name(&s->file, index);
    const nib_status status = cli_testcase_read(&s->file, s->package, index, &test, &error);
    const size_t first = s->count;
    if (status != NIB_OK) {
        nib_error_format(&error, line, sizeof line);
        say(add_result(s, name), CLI_OUTCOME_FAILED, "%s", line);
    } else if (s->on_gpu && test.gpu_gap) {
        say(add_result(s, name), CLI_OUTCOME_SKIPPED, "not on a GPU (%s): %s", test.gap_category,
            test.gpu_gap);
    } else if (s->on_gpu && test.request.request.relaxed) {
        say(add_result(s, name), CLI_OUTCOME_SKIPPED, "not on a GPU: relaxed");
    } else {
        run_everywhere(s, &test, name);
    }
    for (size_t i = first; i < s->count; i++)
        s->results[i].gpu_gap = test.gpu_gap != NULL;
    cli_testcase_free(&test);
}

static bool is_chosen(const cli_suite *s, const char *name)
{
    const char *filter = cli_value(&s->session->args, CLI_OPT_FILTER);
    return !filter || strstr(name, filter);
}

/* "Planned" is the outcome of an operator without a kernel. Where one case of the package ran, the
 * operator has one, and a case it refuses has failed. Where none ran, a case that only a GPU gap
 * explains is left out: it may use a dtype that the manifest does not admit (format 9.1). */
static void settle(cli_suite *s)
{
    bool ran = false;
    for (size_t i = 0; i < s->count; i++)
        ran = ran || s->results[i].ran;
    for (size_t i = 0; i < s->count; i++) {
        cli_result *r = &s->results[i];
        if (ran && r->outcome == CLI_OUTCOME_PLANNED)
            r->outcome = CLI_OUTCOME_FAILED;
        if (!ran && r->outcome == CLI_OUTCOME_FAILED && r->refused && r->gpu_gap)
            r->outcome = CLI_OUTCOME_SKIPPED;
    }
}

static void run_file(cli_suite *s)
{
    const size_t total = cli_casefile_count(&s->file);
    for (size_t i = 0; i < total; i++) {
        if (!is_chosen(s, cli_casefile_name(&s->file, i)))
            continue;
        cli_progress(s->session, i + 1, total, cli_casefile_name(&s->file, i));
        read_and_run_case(s, i);
    }
}

/* The filter leaves calls out and does not change the others. False when none could be made. */
static bool run_generated(cli_suite *s)
{
    bool any = false;
    cli_generator *generator = cli_generator_new(&s->file, s->package, (uint64_t)s->seed);
    char name[240];
    for (size_t i = 0; i < GENERATED_CASES; i++) {
        cli_testcase test;
        cli_progress(s->session, i + 1, GENERATED_CASES, "generated");
        const bool made = cli_generate(generator, nib_device_caps(s->device), &test, name);
        any = any || made;
        if (made && is_chosen(s, name))
            run_everywhere(s, &test, name);
        cli_testcase_free(&test);
        if (!made)
            break;
    }
    cli_generator_free(generator);
    return any;
}

int cli_suite_run(cli_suite *s)
{
    nib_error error = {0};
    const bool made = !s->seed || run_generated(s);
    if (!s->seed)
        run_file(s);
    cli_progress_end(s->session);
    settle(s);
    if (s->count > 0)
        return CLI_OK;
    cli_error(&error, NIB_REQUEST, s->file.path,
              !made     ? "no legal call could be generated from the cases of the file"
              : s->seed ? "no generated case is chosen"
                        : "no case of the file is chosen");
    return cli_fail(s->session, &error);
}

/* ---- targets ---- */

static cli_target *add_target(cli_suite *s, const char *label)
{
    cli_target *grown = cli_alloc((s->target_count + 1) * sizeof *grown);
    if (s->target_count)
        memcpy(grown, s->targets, s->target_count * sizeof *grown);
    free(s->targets);
    s->targets = grown;
    cli_target *target = &grown[s->target_count++];
    target->label = cli_dup(label, strlen(label));
    return target;
}

static nib_status add_variants(cli_suite *s, nib_error *error)
{
    char *text = NULL;
    size_t i;
    json_t *variant;
    const nib_status status = nib_package_json(s->package, &text, error);
    if (status != NIB_OK)
        return status;
    json_t *contract = json_loads(text, 0, NULL);
    json_array_foreach(json_object_get(contract, "variants"), i, variant)
    {
        cli_target *target = add_target(s, json_string_value(json_object_get(variant, "id")));
        target->device = s->device;
        target->pins = true;
    }
    json_decref(contract);
    nib_text_free(s->session->context, text);
    return NIB_OK;
}

static nib_status add_row(cli_suite *s, const char *name, nib_error *error)
{
    const nib_device_options options = {
        .backend = "cpu",
        .threads = (uint32_t)cli_integer(&s->session->args, CLI_OPT_THREADS, 0),
        .isa = name,
    };
    cli_target *target = add_target(s, name);
    target->owned = true;
    return nib_device_open(s->session->context, &options, &target->device, error);
}

/* Every kernel row that this processor can run. */
static nib_status add_rows(cli_suite *s, nib_error *error)
{
    char *text = NULL;
    size_t i;
    json_t *row;
    nib_status status = nib_devices_json(s->session->context, &text, error);
    if (status != NIB_OK)
        return status;
    json_t *list = json_loads(text, 0, NULL);
    json_t *cpu = json_array_get(json_object_get(list, "devices"), 0);
    json_array_foreach(json_object_get(cpu, "rows"), i, row)
    {
        if (status == NIB_OK && json_is_true(json_object_get(row, "available")))
            status = add_row(s, json_string_value(json_object_get(row, "name")), error);
    }
    json_decref(list);
    nib_text_free(s->session->context, text);
    return status;
}

/* ---- life ---- */

int cli_suite_open(cli_session *session, const char *backend, cli_suite *s)
{
    nib_error error = {0};
    *s = (cli_suite){.session = session, .seed = cli_integer(&session->args, CLI_OPT_SEED, 0)};
    if (cli_load_package(session, &s->package, &error) != NIB_OK ||
        cli_testfile_load(session, s->package, &s->file, &error) != NIB_OK)
        return cli_fail(session, &error);
    const int code = cli_open_device(session, backend, &s->device);
    if (code != CLI_OK)
        return code;
    s->on_gpu = strcmp(nib_device_backend(s->device), "webgpu") == 0;
    if (cli_has(&session->args, CLI_OPT_ALL_VARIANTS) &&
        (s->on_gpu ? add_variants(s, &error) : add_rows(s, &error)) != NIB_OK)
        return cli_fail(session, &error);
    return CLI_OK;
}

void cli_suite_close(cli_suite *s)
{
    for (size_t i = 0; i < s->target_count; i++) {
        if (s->targets[i].owned)
            nib_device_free(s->targets[i].device);
        free(s->targets[i].label);
    }
    free(s->targets);
    free(s->results);
    nib_device_free(s->device);
    nib_device_free(s->reference);
    cli_casefile_free(&s->file);
    nib_package_free(s->package);
    *s = (cli_suite){0};
}

/* ---- reporting ---- */

size_t cli_suite_count(const cli_suite *s, cli_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count += s->results[i].outcome == outcome;
    return count;
}

json_t *cli_result_json(const cli_result *r)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", cli_json_text(r->name));
    json_object_set_new(object, "result", cli_json_text(cli_outcome_words[r->outcome]));
    if (r->variant[0])
        json_object_set_new(object, "variant", cli_json_text(r->variant));
    if (r->ran) {
        json_object_set_new(object, "error", cli_json_number(r->worst));
        json_object_set_new(object, "values",
                            cli_json_text(r->referenced ? "scalar CPU" : "test.json"));
    }
    if (r->crossed)
        json_object_set_new(object, "crossError", cli_json_number(r->cross));
    if (r->reason[0])
        json_object_set_new(object, "reason", cli_json_text(r->reason));
    return object;
}
