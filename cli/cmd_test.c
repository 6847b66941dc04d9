/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "print.h"
#include "testcase.h"

/* name, word. PLANNED: the operator has no CPU kernel, so the case was planned and its output
 * shapes compared, but nothing ran. */
#define OUTCOME_MAP(XX)                                                                            \
    XX(PASSED, "passed")                                                                           \
    XX(FAILED, "failed")                                                                           \
    XX(PLANNED, "planned")                                                                         \
    XX(SKIPPED, "skipped")

typedef enum test_outcome {
#define XX(name, word) OUTCOME_##name,
    OUTCOME_MAP(XX)
#undef XX
        OUTCOME_COUNT
} test_outcome;

static const char *const outcome_words[] = {
#define XX(name, word) [OUTCOME_##name] = (word),
    OUTCOME_MAP(XX)
#undef XX
};

/* What became of one case. */
typedef struct result {
    const char *name;
    test_outcome outcome;
    bool ran;        /* a kernel ran */
    bool refused;    /* planning failed */
    bool gpu_gap;    /* the case has skipGpu */
    bool referenced; /* expected values came from the CPU's scalar kernels */
    double worst;    /* greatest error, as the tolerance counts it */
    char variant[80];
    char reason[1024]; /* "" when there is nothing to say */
} result;

/* Everything the cases share. `reference` computes expected values that a case does not give. */
typedef struct suite {
    cli_session *session;
    nib_package *package;
    cli_testfile file;
    nib_device *device, *reference;
    bool on_gpu;
    result *results;
    size_t count;
} suite;

static void say(result *r, test_outcome outcome, const char *format, ...)
    __attribute__((__format__(__printf__, 3, 4)));

static void say(result *r, test_outcome outcome, const char *format, ...)
{
    va_list args;
    r->outcome = outcome;
    va_start(args, format);
    vsnprintf(r->reason, sizeof r->reason, format, args);
    va_end(args);
}

/* ---- comparing ---- */

/* Error as the tolerance counts it: absolute up to 1, relative beyond; infinite when no tolerance
 * helps. */
static double mixed_error(double actual, double expected, bool allow_nan)
{
    if (isnan(actual) || isnan(expected))
        return allow_nan && isnan(actual) && isnan(expected) ? 0 : HUGE_VAL;
    if (actual == expected)
        return 0;
    if (isinf(actual) || isinf(expected))
        return HUGE_VAL;
    return fabs(actual - expected) / fmax(1, fabs(expected));
}

static bool same_desc(const nib_tensor_desc *a, const nib_tensor_desc *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i])
            return false;
    }
    return true;
}

static bool compare_desc(result *r, const cli_expectation *output, const nib_tensor_desc *actual)
{
    char got[CLI_DESC_MAX], wanted[CLI_DESC_MAX];
    if (same_desc(actual, &output->desc))
        return true;
    say(r, OUTCOME_FAILED, "%s is %s, expected %s", output->port, cli_desc_text(actual, got),
        cli_desc_text(&output->desc, wanted));
    return false;
}

static bool compare_values(result *r, const cli_expectation *output, nib_tensor *actual,
                           nib_tensor *expected)
{
    char got[32], wanted[32];
    for (size_t i = 0; i < cli_elements(actual); i++) {
        const double a = cli_element(actual, i), e = cli_element(expected, i);
        const double error = mixed_error(a, e, output->allow_nan);
        r->worst = fmax(r->worst, error);
        if (error <= output->tolerance)
            continue;
        if (isnan(a) && isnan(e)) {
            say(r, OUTCOME_FAILED, "%s, element %zu is NaN, and allowNaN is not true", output->port,
                i);
            return false;
        }
        cli_number_text(output->desc.dtype, a, got);
        cli_number_text(output->desc.dtype, e, wanted);
        say(r, OUTCOME_FAILED, "%s, element %zu is %s, expected %s (error %.3g, tolerance %.3g)",
            output->port, i, got, wanted, error, output->tolerance);
        return false;
    }
    return true;
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

/* Run the case on one thread of the scalar CPU kernels: the numeric truth where a case states none.
 */
static nib_status run_reference(suite *s, cli_testcase *test, cli_call *call, nib_error *error)
{
    const nib_device_options options = {.backend = "cpu", .threads = 1, .isa = "scalar"};
    if (!s->reference) {
        const nib_status status =
            nib_device_open(s->session->context, &options, &s->reference, error);
        if (status != NIB_OK)
            return status;
    }
    return cli_call_run(call, s->package, s->reference, cli_request_finish(&test->request),
                        &test->inputs, error);
}

static void compare_outputs(const cli_testcase *test, cli_call *call, cli_call *reference,
                            result *r)
{
    for (size_t i = 0; i < test->output_count; i++) {
        const cli_expectation *output = &test->outputs[i];
        nib_tensor *actual = nib_call_tensor(call->call, output->port);
        nib_tensor *expected =
            output->values ? output->values : nib_call_tensor(reference->call, output->port);
        if (!compare_desc(r, output, nib_tensor_describe(actual)) ||
            !compare_values(r, output, actual, expected))
            return;
    }
    r->outcome = OUTCOME_PASSED;
}

static void judge_run(suite *s, cli_testcase *test, cli_call *call, result *r)
{
    cli_call reference = {0};
    nib_error error = {0};
    r->ran = true;
    r->referenced = needs_reference(test);
    if (test->output_count == 0)
        say(r, OUTCOME_FAILED, "the case expects no output, so it proves nothing");
    else if (r->referenced && run_reference(s, test, &reference, &error) != NIB_OK)
        say(r, OUTCOME_FAILED, "no expected values, and the CPU cannot compute them: %s",
            error.message);
    else
        compare_outputs(test, call, &reference, r);
    cli_call_free(&reference);
}

/* The operator has no kernel here: at least its inference can be checked. */
static void judge_plan(const cli_testcase *test, const nib_plan *plan, const nib_error *error,
                       result *r)
{
    say(r, OUTCOME_PLANNED, "%s", error->message);
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
            say(r, OUTCOME_FAILED, "%s is not planned", test->outputs[i].port);
    }
}

static bool has_text(const char *line, const json_t *text, const char *status_name)
{
    return strstr(line, json_string_value(text)) || !strcmp(json_string_value(text), status_name);
}

/* The case must fail, and say why in the words the case gives. */
static void judge_failure(const cli_testcase *test, nib_status status, const nib_error *error,
                          result *r)
{
    char line[sizeof r->reason - 100];
    const json_t *list = test->errors;
    const size_t count = json_is_array(list) ? json_array_size(list) : 1;
    if (status == NIB_OK) {
        say(r, OUTCOME_FAILED, "the call succeeded, but it must fail");
        return;
    }
    nib_error_format(error, line, sizeof line);
    r->outcome = OUTCOME_PASSED;
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_array(list) ? json_array_get(list, i) : list;
        if (!has_text(line, text, nib_status_name(status)))
            say(r, OUTCOME_FAILED, "the error does not say '%.80s': %s", json_string_value(text),
                line);
    }
}

static void judge_refusal(const nib_error *error, const cli_call *call, result *r)
{
    char line[sizeof r->reason];
    nib_error_format(error, line, sizeof line);
    r->refused = !call->plan;
    say(r, OUTCOME_FAILED, "%s", line);
}

static void run_case(suite *s, cli_testcase *test, result *r)
{
    nib_error error = {0};
    cli_call call = {0};
    const nib_status status = cli_call_run(
        &call, s->package, s->device, cli_request_finish(&test->request), &test->inputs, &error);
    const char *variant = call.plan ? nib_plan_variant(call.plan) : NULL;
    snprintf(r->variant, sizeof r->variant, "%s", variant ? variant : "");
    if (test->errors)
        judge_failure(test, status, &error, r);
    else if (status == NIB_OK)
        judge_run(s, test, &call, r);
    else if (status == NIB_UNSUPPORTED && call.plan && !call.call && !s->on_gpu)
        judge_plan(test, call.plan, &error, r);
    else
        judge_refusal(&error, &call, r);
    cli_call_free(&call);
}

static void read_and_run_case(suite *s, size_t index, result *r)
{
    cli_testcase test;
    nib_error error = {0};
    char line[sizeof r->reason];
    const nib_status status = cli_testcase_read(&s->file, s->package, index, &test, &error);
    *r = (result){.name = cli_testfile_name(&s->file, index), .gpu_gap = test.gpu_gap != NULL};
    if (status != NIB_OK) {
        nib_error_format(&error, line, sizeof line);
        say(r, OUTCOME_FAILED, "%s", line);
    } else if (s->on_gpu && test.gpu_gap) {
        say(r, OUTCOME_SKIPPED, "not on a GPU: %s", test.gpu_gap);
    } else if (s->on_gpu && test.request.request.relaxed) {
        say(r, OUTCOME_SKIPPED, "not on a GPU: relaxed");
    } else {
        run_case(s, &test, r);
    }
    cli_testcase_free(&test);
}

static bool is_chosen(const suite *s, size_t index)
{
    const char *filter = cli_value(&s->session->args, CLI_OPT_FILTER);
    return !filter || strstr(cli_testfile_name(&s->file, index), filter);
}

/* "Planned" is the outcome of an operator without a kernel. Where one case of the package ran, the
 * operator has one, and a case it refuses has failed. Where none ran, a case that only a GPU gap
 * explains is left out: it may use a dtype that the manifest does not admit (format 9.1). */
static void settle(suite *s)
{
    bool ran = false;
    for (size_t i = 0; i < s->count; i++)
        ran = ran || s->results[i].ran;
    for (size_t i = 0; i < s->count; i++) {
        result *r = &s->results[i];
        if (ran && r->outcome == OUTCOME_PLANNED)
            r->outcome = OUTCOME_FAILED;
        if (!ran && r->outcome == OUTCOME_FAILED && r->refused && r->gpu_gap)
            r->outcome = OUTCOME_SKIPPED;
    }
}

static void run_cases(suite *s)
{
    const size_t total = cli_testfile_count(&s->file);
    s->results = cli_alloc(total * sizeof *s->results);
    for (size_t i = 0; i < total; i++) {
        if (!is_chosen(s, i))
            continue;
        cli_progress(s->session, i + 1, total, cli_testfile_name(&s->file, i));
        read_and_run_case(s, i, &s->results[s->count++]);
    }
    cli_progress_end(s->session);
    settle(s);
}

/* ---- reporting ---- */

static size_t count_outcome(const suite *s, test_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count += s->results[i].outcome == outcome;
    return count;
}

static void print_result(const result *r)
{
    printf("%-8s ", outcome_words[r->outcome]);
    cli_print_clean(stdout, r->name);
    if (r->outcome == OUTCOME_PASSED && r->ran)
        printf(" (error %.2g%s)", r->worst, r->referenced ? ", values from the scalar CPU" : "");
    /* Why nothing ran is the same for every planned case; the summary counts them. */
    if (r->reason[0] && r->outcome != OUTCOME_PLANNED) {
        fputs(": ", stdout);
        cli_print_clean(stdout, r->reason);
    }
    putchar('\n');
}

static void print_text(const suite *s)
{
    for (size_t i = 0; i < s->count; i++)
        print_result(&s->results[i]);
    printf("%zu passed, %zu failed", count_outcome(s, OUTCOME_PASSED),
           count_outcome(s, OUTCOME_FAILED));
    for (test_outcome o = OUTCOME_PLANNED; o < OUTCOME_COUNT; o++) {
        if (count_outcome(s, o))
            printf(", %zu %s", count_outcome(s, o), outcome_words[o]);
    }
    putchar('\n');
}

static json_t *result_json(const result *r)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", cli_json_text(r->name));
    json_object_set_new(object, "result", cli_json_text(outcome_words[r->outcome]));
    if (r->variant[0])
        json_object_set_new(object, "variant", cli_json_text(r->variant));
    if (r->ran) {
        json_object_set_new(object, "error", cli_json_number(r->worst));
        json_object_set_new(object, "values",
                            cli_json_text(r->referenced ? "scalar CPU" : "test.json"));
    }
    if (r->reason[0])
        json_object_set_new(object, "reason", cli_json_text(r->reason));
    return object;
}

static void print_json(const suite *s)
{
    json_t *object = json_object(), *cases = json_array();
    for (size_t i = 0; i < s->count; i++)
        json_array_append_new(cases, result_json(&s->results[i]));
    json_object_set_new(object, "op", cli_json_text(nib_package_op(s->package)));
    json_object_set_new(object, "backend", cli_json_text(nib_device_backend(s->device)));
    json_object_set_new(object, "device", cli_json_text(nib_device_description(s->device)));
    json_object_set_new(object, "cases", cases);
    for (test_outcome o = 0; o < OUTCOME_COUNT; o++)
        json_object_set_new(object, outcome_words[o],
                            json_integer((json_int_t)count_outcome(s, o)));
    cli_print_json(object);
}

static int report(suite *s)
{
    nib_error error = {0};
    if (s->count == 0) {
        cli_error(&error, NIB_REQUEST, s->file.path, "no case of the file is chosen");
        return cli_fail(s->session, &error);
    }
    if (s->session->json)
        print_json(s);
    else
        print_text(s);
    return count_outcome(s, OUTCOME_FAILED) ? CLI_FAILED : CLI_OK;
}

/* ---- the command ---- */

static int run_test(cli_session *session)
{
    const char *backend = cli_value(&session->args, CLI_OPT_TEST_BACKEND);
    suite s = {.session = session, .on_gpu = backend && strcmp(backend, "webgpu") == 0};
    nib_error error = {0};
    int code = CLI_OK;
    if (cli_load_package(session, &s.package, &error) != NIB_OK ||
        cli_testfile_load(session, s.package, &s.file, &error) != NIB_OK)
        code = cli_fail(session, &error);
    if (code == CLI_OK)
        code = cli_open_device(session, s.on_gpu ? "webgpu" : "cpu", &s.device);
    if (code == CLI_OK) {
        run_cases(&s);
        code = report(&s);
    }
    free(s.results);
    nib_device_free(s.device);
    nib_device_free(s.reference);
    cli_testfile_free(&s.file);
    nib_package_free(s.package);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_TEST_BACKEND,
    CLI_OPT_FILTER,
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

const cli_command cli_command_test = {
    .name = "test",
    .arguments = "PACKAGE",
    .summary = "run the cases of a package's test.json",
    .details =
        "Run every case of the package's test.json and compare the outputs: one line a case and a "
        "summary. Values that a case does not give are computed by the scalar CPU kernels. An "
        "operator without a CPU kernel is planned only: output shapes are compared, and its cases "
        "count as planned, not as passed.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_test,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
