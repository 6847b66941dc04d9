/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "files.h"
#include "suite.h"

/* ---- text ---- */

static void print_result(const cli_result *r)
{
    printf("%-8s ", cli_outcome_words[r->outcome]);
    cli_print_clean(stdout, r->name);
    if (r->outcome == CLI_OUTCOME_PASSED && r->ran)
        printf(" (error %.2g%s)", r->worst, r->referenced ? ", values from the scalar CPU" : "");
    /* Why nothing ran is the same for every planned case; the summary counts them. */
    if (r->reason[0] && r->outcome != CLI_OUTCOME_PLANNED) {
        fputs(": ", stdout);
        cli_print_clean(stdout, r->reason);
    }
    putchar('\n');
}

/* With --all-variants: what ran where, and what no case reached. */
static void print_targets(const cli_suite *s)
{
    for (size_t i = 0; i < s->target_count; i++) {
        const cli_target *target = &s->targets[i];
        fputs(target->pins ? "variant " : "row ", stdout);
        cli_print_clean(stdout, target->label);
        if (target->ran)
            printf(": %zu cases\n", target->ran);
        else
            fputs(": no case, on this device none takes it\n", stdout);
    }
}

static void print_text(const cli_suite *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->target_count) {
            fputs("[", stdout);
            cli_print_clean(stdout, s->results[i].variant[0] ? s->results[i].variant : "-");
            fputs("] ", stdout);
        }
        print_result(&s->results[i]);
    }
    print_targets(s);
    printf("%zu passed, %zu failed", cli_suite_count(s, CLI_OUTCOME_PASSED),
           cli_suite_count(s, CLI_OUTCOME_FAILED));
    for (cli_outcome o = CLI_OUTCOME_PLANNED; o < CLI_OUTCOME_COUNT; o++) {
        if (cli_suite_count(s, o))
            printf(", %zu %s", cli_suite_count(s, o), cli_outcome_words[o]);
    }
    putchar('\n');
}

/* ---- JSON ---- */

static void print_json(const cli_suite *s)
{
    json_t *object = json_object(), *cases = json_array(), *targets = json_object();
    for (size_t i = 0; i < s->count; i++)
        json_array_append_new(cases, cli_result_json(&s->results[i]));
    json_object_set_new(object, "op", cli_json_text(nib_package_op(s->package)));
    json_object_set_new(object, "backend", cli_json_text(nib_device_backend(s->device)));
    json_object_set_new(object, "device", cli_json_text(nib_device_description(s->device)));
    json_object_set_new(object, "cases", cases);
    for (size_t i = 0; i < s->target_count; i++)
        json_object_set_new(targets, s->targets[i].label,
                            json_integer((json_int_t)s->targets[i].ran));
    if (s->target_count)
        json_object_set_new(object, "variants", targets);
    json_decref(s->target_count ? NULL : targets);
    for (cli_outcome o = 0; o < CLI_OUTCOME_COUNT; o++)
        json_object_set_new(object, cli_outcome_words[o],
                            json_integer((json_int_t)cli_suite_count(s, o)));
    cli_print_json(object);
}

/* ---- JUnit ---- */

/* Text in XML 1.0: its five special characters, and nothing it forbids. */
static void print_xml(FILE *out, const char *text)
{
    static const char special[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (; *text; text++) {
        const char *found = strchr(special, *text);
        if (found)
            fputs(names[found - special], out);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static void print_attribute(FILE *out, const char *name, const char *text)
{
    fprintf(out, " %s=\"", name);
    print_xml(out, text);
    fputc('"', out);
}

static void print_junit_case(FILE *out, const cli_suite *s, const cli_result *r)
{
    char name[sizeof r->name + sizeof r->variant + 4];
    snprintf(name, sizeof name, s->target_count ? "%s [%s]" : "%s", r->name, r->variant);
    fputs("    <testcase", out);
    print_attribute(out, "classname", nib_package_op(s->package));
    print_attribute(out, "name", name);
    fprintf(out, " time=\"%.6f\"", r->seconds);
    if (r->outcome == CLI_OUTCOME_PASSED) {
        fputs("/>\n", out);
        return;
    }
    fputs(r->outcome == CLI_OUTCOME_FAILED ? "><failure" : "><skipped", out);
    print_attribute(out, "message", r->reason);
    fputs("/></testcase>\n", out);
}

static void print_junit(FILE *out, const cli_suite *s)
{
    double seconds = 0;
    for (size_t i = 0; i < s->count; i++)
        seconds += s->results[i].seconds;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite", out);
    print_attribute(out, "name", nib_package_op(s->package));
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.6f\">\n",
            s->count, cli_suite_count(s, CLI_OUTCOME_FAILED),
            cli_suite_count(s, CLI_OUTCOME_PLANNED) + cli_suite_count(s, CLI_OUTCOME_SKIPPED),
            seconds);
    fputs("    <properties><property name=\"device\"", out);
    print_attribute(out, "value", nib_device_description(s->device));
    fputs("/></properties>\n", out);
    for (size_t i = 0; i < s->count; i++)
        print_junit_case(out, s, &s->results[i]);
    fputs("  </testsuite>\n</testsuites>\n", out);
}

static int write_junit(const cli_suite *s)
{
    const char *path = cli_value(&s->session->args, CLI_OPT_JUNIT);
    nib_error error = {0};
    cli_output output;
    if (!path)
        return CLI_OK;
    nib_status status = cli_output_open(&output, path, &error);
    if (status == NIB_OK) {
        print_junit(output.stream, s);
        status = cli_output_close(&output, &error);
    }
    return status == NIB_OK ? CLI_OK : cli_fail(s->session, &error);
}

/* ---- the command ---- */

static int report(const cli_suite *s)
{
    const int code = write_junit(s);
    if (code != CLI_OK)
        return code;
    if (s->session->json)
        print_json(s);
    else
        print_text(s);
    return cli_suite_count(s, CLI_OUTCOME_FAILED) ? CLI_FAILED : CLI_OK;
}

static int run_test(cli_session *session)
{
    const char *backend = cli_value(&session->args, CLI_OPT_TEST_BACKEND);
    cli_suite suite;
    int code = cli_suite_open(session, backend ? backend : "cpu", &suite);
    if (code == CLI_OK)
        code = cli_suite_run(&suite);
    if (code == CLI_OK)
        code = report(&suite);
    cli_suite_close(&suite);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_TEST_BACKEND,
    CLI_OPT_FILTER,
    CLI_OPT_ALL_VARIANTS,
    CLI_OPT_SEED,
    CLI_OPT_JUNIT,
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
