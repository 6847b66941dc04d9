/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "commands.h"

/* ---- text ---- */

static void print_cell(int width, double value, void (*text)(double, char *))
{
    char cell[32];
    text(value, cell);
    printf(" %*s", width, cell);
}

static void seconds_text(double value, char *out)
{
    cli_seconds_text(value, out);
}

static void amount_text(double value, char *out)
{
    cli_amount_text(value, out);
}

static void percent_text(double value, char *out)
{
    if (isnan(value))
        snprintf(out, 32, "-");
    else
        snprintf(out, 32, "%.*f%%", value < 0.0995 ? 1 : 0, value * 100);
}

static void print_case(const json_t *entry)
{
    fputs(cli_json_text_at(entry, "error")[0] ? "! " : "  ", stdout);
    printf("%-34.34s", cli_json_text_at(entry, "name"));
    if (cli_json_text_at(entry, "error")[0]) {
        putchar(' ');
        cli_print_clean(stdout, cli_json_text_at(entry, "error"));
        putchar('\n');
        return;
    }
    print_cell(9, cli_json_at(entry, "seconds.device.median"), seconds_text);
    print_cell(6, cli_json_at(entry, "seconds.device.spread"), percent_text);
    print_cell(9, cli_json_at(entry, "seconds.wall.median"), seconds_text);
    print_cell(9, cli_json_at(entry, "seconds.host.median"), seconds_text);
    print_cell(9, cli_json_at(entry, "seconds.run.median"), seconds_text);
    print_cell(8, cli_json_at(entry, "bytesPerSecond"), amount_text);
    print_cell(8, cli_json_at(entry, "flopsPerSecond"), amount_text);
    print_cell(6, cli_json_at(entry, "roof"), percent_text);
    printf("  ");
    cli_print_clean(stdout, cli_json_text_at(entry, "variant"));
    putchar('\n');
}

static void print_alternatives(const json_t *entry)
{
    size_t i;
    json_t *other;
    char seconds[32];
    json_array_foreach(json_object_get(entry, "alternatives"), i, other)
    {
        cli_seconds_text(cli_json_at(other, "seconds"), seconds);
        printf("      %-40.40s %9s", cli_json_text_at(other, "name"), seconds);
        if (cli_json_text_at(other, "reason")[0]) {
            fputs("  ", stdout);
            cli_print_clean(stdout, cli_json_text_at(other, "reason"));
        }
        putchar('\n');
    }
}

static void print_cold(const json_t *result)
{
    const json_t *first = json_array_get(json_object_get(result, "cases"), 0);
    static const struct {
        const char *name, *path;
        bool of_case;
    } rows[] = {{"load", "cold.load", false},
                {"open", "cold.open", false},
                {"plan", "cold.plan", true},
                {"compile", "cold.compile", true},
                {"first result", "cold.first", true}};
    fputs("cold start:", stdout);
    for (size_t i = 0; i < CLI_LENGTH(rows); i++) {
        char text[32];
        cli_seconds_text(cli_json_at(rows[i].of_case ? first : result, rows[i].path), text);
        printf("%s %s %s", i ? "," : "", rows[i].name, text);
    }
    putchar('\n');
}

static void print_text(const json_t *result)
{
    char bytes[32], flops[32];
    size_t i;
    json_t *entry;
    cli_amount_text(cli_json_at(result, "ceilings.bytesPerSecond"), bytes);
    cli_amount_text(cli_json_at(result, "ceilings.flopsPerSecond"), flops);
    cli_print_clean(stdout, cli_json_text_at(result, "op"));
    fputs(" on ", stdout);
    cli_print_clean(stdout, cli_json_text_at(result, "device"));
    printf("\nceilings measured now: %sB/s, %sFLOP/s\n", bytes, flops);
    print_cold(result);
    printf("\n  %-34s %9s %6s %9s %9s %9s %8s %8s %6s  variant\n", "case", "device", "+-", "wall",
           "host", "run", "B/s", "FLOP/s", "roof");
    json_array_foreach(json_object_get(result, "cases"), i, entry)
    {
        print_case(entry);
        print_alternatives(entry);
    }
}

/* ---- CSV ---- */

static const struct {
    const char *name, *path;
    bool is_text;
} csv_columns[] = {
    {"case", "name", true},
    {"role", "role", true},
    {"variant", "variant", true},
    {"n", "seconds.wall.n", false},
    {"device_median_s", "seconds.device.median", false},
    {"device_min_s", "seconds.device.min", false},
    {"device_spread", "seconds.device.spread", false},
    {"wall_median_s", "seconds.wall.median", false},
    {"host_median_s", "seconds.host.median", false},
    {"run_median_s", "seconds.run.median", false},
    {"bytes", "bytes", false},
    {"flops", "flops", false},
    {"bytes_per_s", "bytesPerSecond", false},
    {"flops_per_s", "flopsPerSecond", false},
    {"roof", "roof", false},
    {"plan_s", "cold.plan", false},
    {"compile_s", "cold.compile", false},
    {"first_s", "cold.first", false},
    {"error", "error", true},
};

/* Quoted when it must be (RFC 4180). */
static void print_csv_text(const char *text)
{
    const bool plain = !strpbrk(text, ",\"\r\n");
    fputs(plain ? "" : "\"", stdout);
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    fputs(plain ? "" : "\"", stdout);
}

static void print_csv(const json_t *result)
{
    size_t i;
    json_t *entry;
    for (size_t c = 0; c < CLI_LENGTH(csv_columns); c++)
        printf("%s%s", c ? "," : "", csv_columns[c].name);
    putchar('\n');
    json_array_foreach(json_object_get(result, "cases"), i, entry)
    {
        for (size_t c = 0; c < CLI_LENGTH(csv_columns); c++) {
            const double value = cli_json_at(entry, csv_columns[c].path);
            if (c)
                putchar(',');
            if (csv_columns[c].is_text)
                print_csv_text(cli_json_text_at(entry, csv_columns[c].path));
            else if (!isnan(value))
                printf("%.9g", value);
        }
        putchar('\n');
    }
}

/* ---- the baseline ---- */

static nib_status load_baseline(const char *path, json_t **baseline, nib_error *error)
{
    char *text = NULL;
    json_error_t problem;
    nib_status status = cli_read_file(path, &text, error);
    if (status != NIB_OK)
        return status;
    *baseline = json_loads(text, 0, &problem);
    free(text);
    if (*baseline && json_is_array(json_object_get(*baseline, "cases")))
        return NIB_OK;
    return cli_error(error, NIB_FORMAT, path, "this is not a result of nibble bench --json");
}

static const json_t *find_case(const json_t *result, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(result, "cases"), i, entry)
    {
        if (strcmp(cli_json_text_at(entry, "name"), name) == 0)
            return entry;
    }
    return NULL;
}

/* Seconds before and after by the same clock: the device's if both have one. */
static double change_of(const json_t *before, const json_t *now)
{
    static const char *const clocks[] = {"seconds.device.median", "seconds.wall.median"};
    for (size_t i = 0; i < CLI_LENGTH(clocks); i++) {
        const double a = cli_json_at(before, clocks[i]), b = cli_json_at(now, clocks[i]);
        if (!isnan(a) && !isnan(b) && a > 0)
            return b / a - 1;
    }
    return (double)NAN;
}

static void note_device(const cli_session *session, const json_t *baseline, const json_t *result)
{
    const char *then = cli_json_text_at(baseline, "device");
    if (strcmp(then, cli_json_text_at(result, "device")) != 0)
        cli_note(session, "the baseline is of another device: %s", then);
}

/* Put `change` into each case and list regressions. Returns how many there are. A case that ran
 * then and fails now is one too. */
static size_t compare(const cli_session *session, const json_t *baseline, json_t *result)
{
    const double threshold = (double)cli_integer(&session->args, CLI_OPT_THRESHOLD, 10) / 100;
    json_t *regressions = json_array(), *entry;
    size_t i;
    note_device(session, baseline, result);
    json_array_foreach(json_object_get(result, "cases"), i, entry)
    {
        const char *name = cli_json_text_at(entry, "name");
        const json_t *before = find_case(baseline, name);
        const double change = change_of(before, entry);
        const bool broken =
            before && !cli_json_text_at(before, "error")[0] && cli_json_text_at(entry, "error")[0];
        json_object_set_new(entry, "change", cli_json_number(change));
        if (broken)
            cli_note(session, "%s: fails now, and did not in the baseline", name);
        else if (isnan(change))
            cli_note(session, "%s: not in the baseline", name);
        else
            cli_note(session, "%s: %+.1f%%%s", name, change * 100,
                     change > threshold ? " REGRESSION" : "");
        if (broken || change > threshold)
            json_array_append_new(regressions, cli_json_text(name));
    }
    const size_t count = json_array_size(regressions);
    json_object_set_new(result, "regressions", regressions);
    return count;
}

/* ---- the command ---- */

static bool all_failed(const json_t *result)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(result, "cases"), i, entry)
    {
        if (!cli_json_text_at(entry, "error")[0])
            return false;
    }
    return true;
}

static int report(cli_session *session, json_t *result)
{
    const char *baseline_path = cli_value(&session->args, CLI_OPT_BASELINE);
    const char *html = cli_value(&session->args, CLI_OPT_HTML);
    nib_error error = {0};
    json_t *baseline = NULL;
    size_t regressions = 0;
    if (baseline_path && load_baseline(baseline_path, &baseline, &error) != NIB_OK) {
        json_decref(baseline);
        return cli_fail(session, &error);
    }
    if (baseline)
        regressions = compare(session, baseline, result);
    json_decref(baseline);
    if (html && cli_report_write(result, html, &error) != NIB_OK)
        return cli_fail(session, &error);
    if (html)
        cli_note(session, "wrote %s", html);
    if (cli_has(&session->args, CLI_OPT_CSV))
        print_csv(result);
    else if (session->json)
        cli_print_json(json_incref(result));
    else
        print_text(result);
    return regressions || all_failed(result) ? CLI_FAILED : CLI_OK;
}

static int run_bench(cli_session *session)
{
    json_t *result = NULL;
    if (cli_has(&session->args, CLI_OPT_CSV) && session->json)
        return cli_usage(session->args.command, "--csv and --json both want standard output");
    int code = cli_bench(session, &result);
    if (code == CLI_OK)
        code = report(session, result);
    json_decref(result);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_BACKEND,
    CLI_OPT_CASE,
    CLI_OPT_SECONDS,
    CLI_OPT_ALL_VARIANTS,
    CLI_OPT_CSV,
    CLI_OPT_BASELINE,
    CLI_OPT_THRESHOLD,
    CLI_OPT_HTML,
    CLI_OPT_TUNING,
    CLI_OPT_NO_TUNING,
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

const cli_command cli_command_bench = {
    .name = "bench",
    .arguments = "PACKAGE",
    .summary = "measure the cases of a package's bench.json",
    .details =
        "Measure every case of the package's bench.json on one device: time on the device by its "
        "own clock, wall time, the host's part, and whole runs from host memory to host memory; "
        "bytes and operations in a second beside the ceilings of the device, which are measured "
        "too; and the cold start. --seconds is the time for one case.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_bench,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
