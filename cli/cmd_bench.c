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
    if (!json_is_array(json_object_get(*baseline, "cases")))
        return cli_error(error, NIB_FORMAT, path, "this is not a result of nibble bench --json");
    if (json_integer_value(json_object_get(*baseline, "version")) != CLI_BENCH_VERSION)
        return cli_error(error, NIB_FORMAT, path,
                         "this is not a result of nibble bench of version %d", CLI_BENCH_VERSION);
    return NIB_OK;
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

/* Against the baseline, by the same clock: the device's if both have one. */
typedef struct change {
    double part;  /* 0.1: a tenth more time; NaN: not in the baseline */
    double noise; /* the spreads of both */
} change;

static change change_of(const json_t *before, const json_t *now)
{
    static const struct {
        const char *median, *spread;
    } clocks[] = {{"seconds.device.median", "seconds.device.spread"},
                  {"seconds.wall.median", "seconds.wall.spread"}};
    for (size_t i = 0; i < CLI_LENGTH(clocks); i++) {
        const double a = cli_json_at(before, clocks[i].median);
        const double b = cli_json_at(now, clocks[i].median);
        const double noise = fmax(0, cli_json_at(before, clocks[i].spread)) +
                             fmax(0, cli_json_at(now, clocks[i].spread));
        if (!isnan(a) && !isnan(b) && a > 0)
            return (change){.part = b / a - 1, .noise = noise};
    }
    return (change){.part = (double)NAN};
}

/* Compare a case and say how it changed. Returns whether it became slower or fails now. */
static bool compare_case(const cli_session *session, const json_t *before, json_t *now)
{
    const double threshold = (double)cli_integer(&session->args, CLI_OPT_THRESHOLD, 10) / 100;
    const char *name = cli_json_text_at(now, "name");
    const change c = change_of(before, now);
    const bool broken =
        before && !cli_json_text_at(before, "error")[0] && cli_json_text_at(now, "error")[0];
    const bool slower = c.part > threshold, certain = c.part > threshold + c.noise;
    json_object_set_new(now, "change", cli_json_number(c.part));
    if (broken)
        cli_note(session, "%s: fails now, and did not in the baseline", name);
    else if (isnan(c.part))
        cli_note(session, "%s: not in the baseline", name);
    else
        cli_note(session, "%s: %+.1f%%%s", name, c.part * 100,
                 certain  ? " REGRESSION"
                 : slower ? ", within the spread of the measurements"
                          : "");
    return broken || certain;
}

/* Put `change` into each case and list regressions. Returns how many there are; times of another
 * device say nothing about this one, so these are only shown. */
static size_t compare(const cli_session *session, const json_t *baseline, json_t *result)
{
    json_t *regressions = json_array(), *entry;
    const char *then = cli_json_text_at(baseline, "device");
    const bool same_device = strcmp(then, cli_json_text_at(result, "device")) == 0;
    size_t i;
    json_array_foreach(json_object_get(result, "cases"), i, entry)
    {
        const char *name = cli_json_text_at(entry, "name");
        if (compare_case(session, find_case(baseline, name), entry) && same_device)
            json_array_append_new(regressions, cli_json_text(name));
    }
    if (!same_device)
        cli_note(session,
                 "WARNING: the baseline is of another device (%s), so none of this counts "
                 "as a regression",
                 then);
    const size_t count = json_array_size(regressions);
    json_object_set_new(result, "baselineDevice", cli_json_text(then));
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

static int report(cli_session *session, const json_t *baseline, json_t *result)
{
    const char *html = cli_value(&session->args, CLI_OPT_HTML);
    nib_error error = {0};
    const size_t regressions = baseline ? compare(session, baseline, result) : 0;
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
    const char *path = cli_value(&session->args, CLI_OPT_BASELINE);
    json_t *result = NULL, *baseline = NULL;
    nib_error error = {0};
    if (cli_has(&session->args, CLI_OPT_CSV) && session->json)
        return cli_usage(session->args.command, "--csv and --json both want standard output");
    int code = CLI_OK;
    if (path && load_baseline(path, &baseline, &error) != NIB_OK)
        code = cli_fail(session, &error);
    if (code == CLI_OK)
        code = cli_bench(session, baseline, &result);
    if (code == CLI_OK)
        code = report(session, baseline, result);
    json_decref(result);
    json_decref(baseline);
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
