/* SPDX-License-Identifier: Apache-2.0
 *
 * A bench result as one page: no scripts, no network, readable on a phone, in the dark and on
 * paper.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "chart.h"
#include "files.h"
#include "html.h"

/* ---- text ---- */

/* A number and its unit stay on one line. */
static void html_quantity(FILE *out, char *text, const char *more)
{
    char *space = strchr(text, ' ');
    if (!space) {
        fprintf(out, "%s%s", text, more);
        return;
    }
    *space = '\0';
    fprintf(out, "%s&#8239;%s%s", text, space + 1, more);
}

/* "12.3 us" with the sign for micro. */
static void html_seconds(FILE *out, double seconds)
{
    char text[32];
    cli_seconds_text(seconds, text);
    char *unit = strstr(text, " us");
    if (unit) {
        *unit = '\0';
        fprintf(out, "%s&#8239;&#181;s", text);
    } else {
        html_quantity(out, text, "");
    }
}

static void html_amount(FILE *out, double amount, const char *unit)
{
    char text[32];
    cli_amount_text(amount, text);
    if (isnan(amount))
        fputs("&ndash;", out);
    else
        html_quantity(out, text, unit);
}

static void html_percent(FILE *out, double part)
{
    if (isnan(part))
        fputs("&ndash;", out);
    else
        fprintf(out, "%.*f&#8239;%%", part < 0.0995 ? 1 : 0, part * 100);
}

/* ---- style ---- */

static const char style[] =
    ":root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#1b1b1a;--soft:#5d5c58;"
    "--line:#dddbd5;--grid:#eceae5;--one:#1f6fc4;--two:#c2570c;--three:#6b6a66;--bar:#b9d2ee;--"
    "best:#1f6fc4;"
    "--bad:#b3261e}"
    "@media (prefers-color-scheme:dark){:root{--page:#161615;--card:#1f1f1e;--ink:#f0efec;"
    "--soft:#a9a7a0;--line:#3a3936;--grid:#2b2a28;--one:#69aef5;--two:#f0955a;--three:#b5b3ac;--"
    "bar:#34506f;"
    "--best:#69aef5;--bad:#ff8a80}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1180px;margin:0 auto;padding:24px 20px 48px}"
    "h1{font-size:24px;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:17px;margin:32px 0 10px}"
    "p{margin:6px 0;max-width:75ch}.soft{color:var(--soft)}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;"
    "margin:18px 0}.tile b{display:block;font-size:21px;font-weight:600;white-space:nowrap}"
    ".tile span{color:var(--soft);font-size:13px}"
    "table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}"
    "th,td{padding:6px 8px;text-align:right;border-bottom:1px solid var(--line);"
    "vertical-align:top;white-space:nowrap}"
    "th{font-weight:600;color:var(--soft)}td.t,th.t{text-align:left}"
    "td.t{overflow-wrap:anywhere;white-space:normal}td.n{white-space:nowrap}tr:last-child "
    "td{border-bottom:0}"
    ".bad{color:var(--bad)}"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font-size:12px}"
    "svg .label{fill:var(--ink)}svg .grid{stroke:var(--grid)}"
    "svg .roof{stroke:var(--ink);fill:none;stroke-width:2}"
    "svg .one{fill:var(--one)}svg .two{fill:var(--two)}svg .three{fill:var(--three)}svg "
    ".ring{stroke:var(--card);"
    "stroke-width:1.5}.narrow{display:none}"
    ".key{display:flex;gap:18px;flex-wrap:wrap;font-size:13px;color:var(--soft);margin:8px 0 0}"
    ".key i{display:inline-block;width:10px;height:10px;margin-right:6px}"
    ".key .c{border-radius:50%;background:var(--one)}.key .s{background:var(--two)}"
    ".key .d{background:var(--three);transform:rotate(45deg) scale(.8)}"
    ".bars{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:14px}"
    ".bars h3{font-size:14px;margin:0 0 8px;overflow-wrap:anywhere}"
    ".row{margin:0 0 7px;font-size:13px}.row div{display:flex;justify-content:space-between;"
    "gap:8px}.row div span:first-child{overflow-wrap:anywhere}"
    ".row div span:last-child{white-space:nowrap;font-variant-numeric:tabular-nums}"
    ".track{display:block;height:10px;background:var(--grid);border-radius:3px}"
    ".fill{display:block;height:10px;min-width:2px;background:var(--bar);border-radius:3px}"
    ".fill.best{background:var(--best)}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;margin:0;font-size:13.5px}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}"
    "@media (max-width:720px){main{padding:16px 12px 32px}.wide{display:none}"
    ".narrow{display:block}.card{padding:12px}.bars{grid-template-columns:1fr}"
    "table,tbody,tr,td{display:block}thead{display:none}"
    "tr{border-bottom:1px solid var(--line);padding:8px 0}tr:last-child{border-bottom:0}"
    "td{display:flex;justify-content:space-between;gap:12px;border:0;padding:2px 0;"
    "text-align:right}td.t{text-align:right}"
    "td::before{content:attr(data-l);color:var(--soft);text-align:left;white-space:nowrap}"
    "td.head{font-weight:600;font-size:15px}}"
    "@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--grid:#ddd;"
    "--one:#1f6fc4;--two:#c2570c;--three:#6b6a66;--bar:#b9d2ee;--best:#1f6fc4;--bad:#b3261e}"
    "body{font-size:11px;-webkit-print-color-adjust:exact;print-color-adjust:exact}"
    "main{max-width:none;padding:0}.card,tr{break-inside:avoid}h2{break-after:avoid}"
    "table{font-size:9.5px}th,td{padding:3px 4px}@page{margin:12mm}}";

/* ---- facts ---- */

static void write_head(FILE *out, const json_t *result)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          out);
    cli_html_text(out, cli_json_text_at(result, "op"));
    fputs(" benchmark</title>\n<style>", out);
    fputs(style, out);
    fputs("</style>\n</head>\n<body>\n<main>\n<h1>", out);
    cli_html_text(out, cli_json_text_at(result, "op"));
    fputs("</h1>\n<p class=\"soft\">", out);
    cli_html_text(out, cli_json_text_at(result, "device"));
    fputs("</p>\n", out);
}

static void begin_tile(FILE *out)
{
    fputs("<div class=\"card tile\"><b>", out);
}

static void end_tile(FILE *out, const char *label)
{
    fprintf(out, "</b><span>%s</span></div>\n", label);
}

/* The best part of the roof that any case reaches. */
static double best_roof(const json_t *cases)
{
    double best = (double)NAN;
    for (size_t i = 0; i < json_array_size(cases); i++)
        best = fmax(best, cli_json_at(json_array_get(cases, i), "roof"));
    return best;
}

static void write_tiles(FILE *out, const json_t *result)
{
    const json_t *cases = json_object_get(result, "cases");
    const json_t *first = json_array_get(cases, 0);
    fputs("<div class=\"tiles\">\n", out);
    begin_tile(out);
    html_amount(out, cli_json_at(result, "ceilings.bytesPerSecond"), "B/s");
    end_tile(out, "memory ceiling");
    begin_tile(out);
    html_amount(out, cli_json_at(result, "ceilings.flopsPerSecond"), "FLOP/s");
    end_tile(out, "float32 ceiling");
    begin_tile(out);
    html_percent(out, best_roof(cases));
    end_tile(out, "of the roof, best case");
    begin_tile(out);
    html_seconds(out, cli_json_at(result, "cold.load") + cli_json_at(result, "cold.open") +
                          cli_json_at(first, "cold.plan") + cli_json_at(first, "cold.compile") +
                          cli_json_at(first, "cold.first"));
    end_tile(out, "cold start to the first result");
    fputs("</div>\n", out);
}

static void write_fact(FILE *out, const char *name, const char *value)
{
    if (!value[0])
        return;
    fprintf(out, "<dt>%s</dt><dd>", name);
    cli_html_text(out, value);
    fputs("</dd>\n", out);
}

static void write_facts(FILE *out, const json_t *result)
{
    static const struct {
        const char *name, *path;
    } rows[] = {{"Backend", "backend"}, {"Adapter", "adapter"}, {"Driver", "driver"},
                {"Package", "package"}, {"nibble", "nibble"},   {"Measured", "date"}};
    fputs("<h2>Device and versions</h2>\n<div class=\"card\"><dl>\n", out);
    for (size_t i = 0; i < CLI_LENGTH(rows); i++)
        write_fact(out, rows[i].name, cli_json_text_at(result, rows[i].path));
    fputs("</dl></div>\n", out);
}

/* ---- the table ---- */

static void begin_cell(FILE *out, const char *label, const char *classes)
{
    fprintf(out, "<td%s%s%s data-l=\"%s\">", classes[0] ? " class=\"" : "", classes,
            classes[0] ? "\"" : "", label);
}

static void seconds_cell(FILE *out, const char *label, const json_t *entry, const char *path)
{
    begin_cell(out, label, "");
    html_seconds(out, cli_json_at(entry, path));
    fputs("</td>", out);
}

static void text_cell(FILE *out, const char *label, const char *classes, const char *text)
{
    begin_cell(out, label, classes);
    cli_html_text(out, text);
    fputs("</td>", out);
}

static void change_cell(FILE *out, const json_t *entry)
{
    const double change = cli_json_at(entry, "change");
    begin_cell(out, "Change", change > 0.1 ? "bad" : "");
    if (isnan(change))
        fputs("&ndash;", out);
    else
        fprintf(out, "%+.1f&#8239;%%", change * 100);
    fputs("</td>", out);
}

static void write_case(FILE *out, const json_t *entry, size_t number, bool with_change)
{
    fprintf(out, "<tr><td class=\"t n\" data-l=\"Point\">%zu</td>", number);
    text_cell(out, "Case", "t head", cli_json_text_at(entry, "name"));
    if (cli_json_text_at(entry, "error")[0]) {
        fprintf(out, "<td class=\"t bad\" colspan=\"%d\" data-l=\"Failed\">",
                with_change ? 11 : 10);
        cli_html_text(out, cli_json_text_at(entry, "error"));
        fputs("</td></tr>\n", out);
        return;
    }
    text_cell(out, "Variant", "t", cli_json_text_at(entry, "variant"));
    seconds_cell(out, "Device time", entry, "seconds.device.median");
    begin_cell(out, "Spread", "");
    html_percent(out, cli_json_at(entry, "seconds.device.spread"));
    fputs("</td>", out);
    seconds_cell(out, "Fastest", entry, "seconds.device.min");
    seconds_cell(out, "Wall time", entry, "seconds.wall.median");
    seconds_cell(out, "Host part", entry, "seconds.host.median");
    seconds_cell(out, "Whole run", entry, "seconds.run.median");
    begin_cell(out, "Memory", "");
    html_amount(out, cli_json_at(entry, "bytesPerSecond"), "B/s");
    fputs("</td>", out);
    begin_cell(out, "Work", "");
    html_amount(out, cli_json_at(entry, "flopsPerSecond"), "FLOP/s");
    fputs("</td>", out);
    begin_cell(out, "Of the roof", "");
    html_percent(out, cli_json_at(entry, "roof"));
    fputs("</td>", out);
    if (with_change)
        change_cell(out, entry);
    fputs("</tr>\n", out);
}

static void write_table(FILE *out, const json_t *result)
{
    static const char *const names[] = {"Device time", "Spread",    "Fastest",
                                        "Wall time",   "Host part", "Whole run",
                                        "Memory",      "Work",      "Of the roof"};
    const json_t *cases = json_object_get(result, "cases");
    const bool with_change = json_object_get(result, "regressions") != NULL;
    fputs("<h2>Cases</h2>\n<div class=\"card\"><table>\n<thead><tr><th class=\"t\">#</th>"
          "<th class=\"t\">Case</th><th class=\"t\">Variant</th>",
          out);
    for (size_t i = 0; i < CLI_LENGTH(names); i++)
        fprintf(out, "<th>%s</th>", names[i]);
    fputs(with_change ? "<th>Change</th></tr></thead>\n<tbody>\n" : "</tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < json_array_size(cases); i++)
        write_case(out, json_array_get(cases, i), i + 1, with_change);
    fputs("</tbody></table></div>\n<p class=\"soft\">Times are medians of one call. Device time is "
          "by the device's clock, wall time by the host's over the same calls back to back, the "
          "host part what the calling thread did meanwhile; a whole run goes from host memory to "
          "host memory. Spread is half the distance between the quartiles. The roof is "
          "what the measured memory and float32 ceilings allow. A case can stand above it: caches "
          "are faster than memory, and integer and matrix units faster than float32 "
          "multiply-adds.</p>\n",
          out);
}

/* ---- bars ---- */

static double slowest(const json_t *list)
{
    double most = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        most = fmax(most, cli_json_at(json_array_get(list, i), "seconds"));
    return most;
}

static double fastest(const json_t *list)
{
    double least = HUGE_VAL;
    for (size_t i = 0; i < json_array_size(list); i++)
        least = fmin(least, cli_json_at(json_array_get(list, i), "seconds"));
    return least;
}

static void write_bar(FILE *out, const json_t *entry, double most, double least)
{
    const double seconds = cli_json_at(entry, "seconds");
    fputs("<div class=\"row\"><div><span>", out);
    cli_html_text(out, cli_json_text_at(entry, "name"));
    fputs("</span><span>", out);
    html_seconds(out, seconds);
    fputs("</span></div>", out);
    if (!isnan(seconds) && most > 0)
        fprintf(
            out,
            "<span class=\"track\"><span class=\"fill%s\" style=\"width:%.1f%%\"></span></span>",
            seconds <= least ? " best" : "", seconds / most * 100);
    fputs("</div>\n", out);
}

static void write_case_bars(FILE *out, const json_t *entry)
{
    const json_t *list = json_object_get(entry, "alternatives");
    const double most = slowest(list), least = fastest(list);
    if (json_array_size(list) == 0)
        return;
    fputs("<div class=\"card\"><h3>", out);
    cli_html_text(out, cli_json_text_at(entry, "name"));
    fputs("</h3>\n", out);
    for (size_t i = 0; i < json_array_size(list); i++)
        write_bar(out, json_array_get(list, i), most, least);
    fputs("</div>\n", out);
}

static bool has_alternatives(const json_t *cases)
{
    for (size_t i = 0; i < json_array_size(cases); i++) {
        if (json_array_size(json_object_get(json_array_get(cases, i), "alternatives")) > 0)
            return true;
    }
    return false;
}

static void write_bars(FILE *out, const json_t *result)
{
    const json_t *cases = json_object_get(result, "cases");
    const bool rows = strcmp(cli_json_text_at(result, "backend"), "cpu") == 0;
    if (!has_alternatives(cases))
        return;
    fprintf(out,
            "<h2>%s</h2>\n<p class=\"soft\">Time of one call; the shorter the better. Cases "
            "that take long are left out.</p>\n<div class=\"bars\">\n",
            rows ? "Kernel rows of the CPU" : "Variants");
    for (size_t i = 0; i < json_array_size(cases); i++)
        write_case_bars(out, json_array_get(cases, i));
    fputs("</div>\n", out);
}

/* ---- cold start ---- */

static void write_cold(FILE *out, const json_t *result)
{
    const json_t *cases = json_object_get(result, "cases");
    fputs("<h2>Cold start</h2>\n<div class=\"card\"><p>Loading the package ", out);
    html_seconds(out, cli_json_at(result, "cold.load"));
    fputs(", opening the device ", out);
    html_seconds(out, cli_json_at(result, "cold.open"));
    fputs(", then for each call:</p>\n<table><thead><tr><th class=\"t\">Case</th><th>Plan</th>"
          "<th>Compile</th><th>First run</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        if (isnan(cli_json_at(entry, "cold.plan")))
            continue;
        fputs("<tr>", out);
        text_cell(out, "Case", "t head", cli_json_text_at(entry, "name"));
        seconds_cell(out, "Plan", entry, "cold.plan");
        seconds_cell(out, "Compile", entry, "cold.compile");
        seconds_cell(out, "First run", entry, "cold.first");
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* ---- the page ---- */

static void write_page(FILE *out, const json_t *result)
{
    write_head(out, result);
    write_tiles(out, result);
    cli_chart_roofline(out, result);
    write_table(out, result);
    write_bars(out, result);
    write_cold(out, result);
    write_facts(out, result);
    fputs("</main>\n</body>\n</html>\n", out);
}

nib_status cli_report_write(const json_t *result, const char *path, nib_error *error)
{
    cli_output out;
    const nib_status status = cli_output_open(&out, path, error);
    if (status != NIB_OK)
        return status;
    write_page(out.stream, result);
    return cli_output_close(&out, error);
}
