/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "files.h"
#include "suite.h"
#include "tuning.h"

/* ---- evidence ---- */

static json_t *caps_json(const cli_suite *s)
{
    char *text = NULL;
    nib_error error = {0};
    if (nib_caps_json(nib_device_caps(s->device), &text, &error) != NIB_OK)
        return json_null();
    json_t *caps = json_loads(text, 0, NULL);
    nib_text_free(s->session->context, text);
    return caps;
}

static double worst(const cli_suite *s, bool cross)
{
    double most = 0;
    for (size_t i = 0; i < s->count; i++) {
        const cli_result *r = &s->results[i];
        if (r->ran && (!cross || r->crossed)) {
            const double error = cross ? r->cross : r->worst;
            most = error > most ? error : most;
        }
    }
    return most;
}

static size_t count_crossed(const cli_suite *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count += s->results[i].crossed;
    return count;
}

/* Cases that a kernel computed and whose outputs are right. One that only had to fail is none. */
static size_t count_computed(const cli_suite *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count += s->results[i].ran && s->results[i].outcome == CLI_OUTCOME_PASSED;
    return count;
}

static bool is_proven(const cli_suite *s)
{
    return cli_suite_count(s, CLI_OUTCOME_FAILED) == 0 && count_computed(s) > 0;
}

static const char *verdict_word(const cli_suite *s)
{
    if (cli_suite_count(s, CLI_OUTCOME_FAILED))
        return "bad";
    return is_proven(s) ? "good" : "nothing was computed";
}

static json_t *counts_json(const cli_suite *s)
{
    json_t *counts = json_object();
    for (cli_outcome o = 0; o < CLI_OUTCOME_COUNT; o++)
        json_object_set_new(counts, cli_outcome_words[o],
                            json_integer((json_int_t)cli_suite_count(s, o)));
    json_object_set_new(counts, "computed", json_integer((json_int_t)count_computed(s)));
    json_object_set_new(counts, "crossChecked", json_integer((json_int_t)count_crossed(s)));
    return counts;
}

static json_t *evidence_json(const cli_suite *s)
{
    json_t *evidence = json_object(), *cases = json_array();
    json_t *key = cli_tuning_key(s->session, s->package, nib_device_caps(s->device));
    json_object_set_new(evidence, "version", json_integer(1));
    json_object_set_new(evidence, "verdict", json_string(verdict_word(s)));
    json_object_set_new(evidence, "nibble", cli_json_text(nib_version()));
    json_object_set_new(evidence, "op", cli_json_text(nib_package_op(s->package)));
    json_object_set_new(evidence, "digestsCompared",
                        json_boolean(nib_package_verified(s->package)));
    json_object_set_new(evidence, "backend", cli_json_text(nib_device_backend(s->device)));
    json_object_set_new(evidence, "device", cli_json_text(nib_device_description(s->device)));
    json_object_set_new(evidence, "tests", cli_json_text(s->file.digest));
    json_object_update(evidence, key); /* package, adapter, driver */
    json_object_set_new(evidence, "counts", counts_json(s));
    json_object_set_new(evidence, "maxError", cli_json_number(worst(s, false)));
    json_object_set_new(evidence, "maxCrossError", cli_json_number(worst(s, true)));
    for (size_t i = 0; i < s->count; i++)
        json_array_append_new(cases, cli_result_json(&s->results[i]));
    json_object_set_new(evidence, "cases", cases);
    json_object_set_new(evidence, "capabilities", caps_json(s));
    json_decref(key);
    return evidence;
}

/* ---- reporting ---- */

static void print_text(const cli_suite *s)
{
    cli_print_clean(stdout, nib_package_op(s->package));
    fputs(" on ", stdout);
    cli_print_clean(stdout, nib_device_description(s->device));
    printf(": %s\n", verdict_word(s));
    for (cli_outcome o = 0; o < CLI_OUTCOME_COUNT; o++)
        printf("%s%zu %s", o ? ", " : "", cli_suite_count(s, o), cli_outcome_words[o]);
    if (count_computed(s))
        printf("; greatest error %.2g", worst(s, false));
    putchar('\n');
    if (count_crossed(s))
        printf("%zu compared with the scalar CPU; greatest error %.2g\n", count_crossed(s),
               worst(s, true));
    else
        fputs("0 compared with the scalar CPU\n", stdout);
    for (size_t i = 0; i < s->count; i++) {
        const cli_result *r = &s->results[i];
        if (r->outcome != CLI_OUTCOME_FAILED && r->outcome != CLI_OUTCOME_SKIPPED)
            continue;
        printf("%s ", cli_outcome_words[r->outcome]);
        cli_print_clean(stdout, r->name);
        fputs(": ", stdout);
        cli_print_clean(stdout, r->reason);
        putchar('\n');
    }
}

static int write_evidence(const cli_suite *s, const json_t *evidence)
{
    const char *path = cli_value(&s->session->args, CLI_OPT_EVIDENCE);
    nib_error error = {0};
    if (!path)
        return CLI_OK;
    char *text = json_dumps(evidence, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    const nib_status status =
        text ? cli_replace_file(path, text, strlen(text), &error)
             : cli_error(&error, NIB_OUT_OF_MEMORY, path, "the evidence could not be made");
    free(text);
    if (status != NIB_OK)
        return cli_fail(s->session, &error);
    cli_note(s->session, "wrote %s", path);
    return CLI_OK;
}

static int report(const cli_suite *s)
{
    json_t *evidence = evidence_json(s);
    const int code = write_evidence(s, evidence);
    if (code == CLI_OK && s->session->json)
        cli_print_json(json_incref(evidence));
    else if (code == CLI_OK)
        print_text(s);
    json_decref(evidence);
    return code == CLI_OK && !is_proven(s) ? CLI_FAILED : code;
}

static int run_verify(cli_session *session)
{
    cli_suite suite;
    int code = cli_suite_open(session, cli_value(&session->args, CLI_OPT_BACKEND), &suite);
    suite.cross_check = true;
    if (code == CLI_OK)
        code = cli_suite_run(&suite);
    if (code == CLI_OK)
        code = report(&suite);
    cli_suite_close(&suite);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_BACKEND,  CLI_OPT_EVIDENCE,  CLI_OPT_FILTER,           CLI_OPT_ALL_VARIANTS,
    CLI_OPT_THREADS,  CLI_OPT_ISA,       CLI_OPT_ADAPTER,          CLI_OPT_DISABLE_FEATURE,
    CLI_OPT_MANIFEST, CLI_OPT_NO_VERIFY, CLI_OPT_CONTRACT_VERSION, CLI_OPT_TRUST_REMOTE_CODE,
    CLI_OPT_JSON,     CLI_OPT_QUIET,     CLI_OPT_VERBOSE,
};

const cli_command cli_command_verify = {
    .name = "verify",
    .arguments = "PACKAGE",
    .summary = "prove that a package computes right on this device",
    .details =
        "Run the package's own cases on this device and compare every output with the scalar CPU "
        "kernels as well. Exit code 0: no case is wrong and at least one was computed. --out "
        "writes the evidence as one JSON "
        "file that fits a bug report: adapter, driver, digests, versions and the greatest error of "
        "each case.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_verify,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
