/* SPDX-License-Identifier: Apache-2.0 */
#include "chart.h"

#include <math.h>
#include <string.h>

#include "bench.h"
#include "html.h"

/* A log-log plot: operations per byte against operations per second. */
typedef struct chart {
    FILE *out;
    double width, height, left, right, top, bottom; /* of the drawing, in its own units */
    double x0, x1, y0, y1;                          /* log10 of the ranges */
    double bandwidth, peak;
} chart;

/* Where labels stand already. */
enum { MAX_LABELS = 64 };
typedef struct labels {
    double x[MAX_LABELS], y[MAX_LABELS];
    size_t count;
} labels;

static double place_x(const chart *c, double value)
{
    return c->left + (log10(value) - c->x0) / (c->x1 - c->x0) * (c->right - c->left);
}

static double place_y(const chart *c, double value)
{
    return c->bottom - (log10(value) - c->y0) / (c->y1 - c->y0) * (c->bottom - c->top);
}

/* ---- ranges ---- */

static double intensity_of(const json_t *entry)
{
    return cli_json_at(entry, "flops") / cli_json_at(entry, "bytes");
}

static bool is_plotted(const json_t *entry)
{
    return intensity_of(entry) > 0 && cli_json_at(entry, "flopsPerSecond") > 0;
}

static void widen(double *low, double *high, double value)
{
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

/* Whole powers of ten around the points, the ridge and the peak. False when there is no point. */
static bool set_ranges(chart *c, const json_t *cases)
{
    const double ridge = c->peak / c->bandwidth;
    double x0 = ridge, x1 = ridge * 4, y0 = c->peak, y1 = c->peak * 1.5;
    bool any = false;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        if (!is_plotted(entry))
            continue;
        widen(&x0, &x1, intensity_of(entry));
        widen(&y0, &y1, cli_json_at(entry, "flopsPerSecond"));
        any = true;
    }
    c->x0 = floor(log10(x0 / 1.5));
    c->x1 = ceil(log10(x1 * 1.5));
    c->y0 = floor(log10(y0 / 1.5));
    c->y1 = ceil(log10(y1));
    return any;
}

/* ---- parts ---- */

static void draw_line(const chart *c, const char *name, double x0, double y0, double x1, double y1)
{
    fprintf(c->out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", name,
            x0, y0, x1, y1);
}

static void draw_text(const chart *c, double x, double y, const char *anchor, const char *text)
{
    fprintf(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    cli_html_text(c->out, text);
    fputs("</text>\n", c->out);
}

static void draw_grid(const chart *c)
{
    char text[48];
    for (double e = c->x0; e <= c->x1; e++) {
        const double x = place_x(c, pow(10, e));
        draw_line(c, "grid", x, c->top, x, c->bottom);
        snprintf(text, sizeof text, "%g", pow(10, e));
        draw_text(c, x, c->bottom + 16, "middle", text);
    }
    for (double e = c->y0; e <= c->y1; e++) {
        const double y = place_y(c, pow(10, e));
        draw_line(c, "grid", c->left, y, c->right, y);
        cli_amount_text(pow(10, e), text);
        char *point = strchr(text, '.');
        if (point) /* "1.00 G": a power of ten needs no decimals */
            memmove(point, strchr(point, ' '), strlen(strchr(point, ' ')) + 1);
        draw_text(c, c->left - 6, y + 4, "end", text);
    }
    draw_text(c, (c->left + c->right) / 2, c->bottom + 34, "middle", "FLOP per byte");
    draw_text(c, c->left - 6, c->top - 10, "end", "FLOP/s");
}

/* From where the memory line enters the drawing up to the ridge, then along the peak. */
static void draw_roof(const chart *c)
{
    const double ridge = c->peak / c->bandwidth;
    double x = pow(10, c->x0), y = x * c->bandwidth;
    if (y < pow(10, c->y0)) {
        y = pow(10, c->y0);
        x = y / c->bandwidth;
    }
    fprintf(c->out, "<polyline class=\"roof\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
            place_x(c, x), place_y(c, y), place_x(c, ridge), place_y(c, c->peak), c->right,
            place_y(c, c->peak));
}

/* Beside the point, moved up until it stands free of the others. */
static void draw_label(const chart *c, labels *placed, double x, double y, size_t number)
{
    x += 9;
    y += 4;
    for (size_t i = 0; i < placed->count; i++) {
        if (fabs(placed->x[i] - x) < 16 && fabs(placed->y[i] - y) < 11) {
            y = placed->y[i] - 12;
            i = SIZE_MAX; /* look at all of them again */
        }
    }
    if (placed->count < MAX_LABELS) {
        placed->x[placed->count] = x;
        placed->y[placed->count++] = y;
    }
    fprintf(c->out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%zu</text>\n", x, y, number);
}

static double point_x(const chart *c, const json_t *entry)
{
    return place_x(c, intensity_of(entry));
}

static double point_y(const chart *c, const json_t *entry)
{
    return place_y(c, cli_json_at(entry, "flopsPerSecond"));
}

/* A case may have any role or none; two of them have marks of their own. */
enum { DECODE, PREFILL, OTHER, ROLES };

static int role_of(const json_t *entry)
{
    const char *role = cli_json_text_at(entry, "role");
    return strcmp(role, "decode") == 0 ? DECODE : strcmp(role, "prefill") == 0 ? PREFILL : OTHER;
}

static void draw_mark(const chart *c, int role, double x, double y)
{
    if (role == DECODE)
        fprintf(c->out, "<circle class=\"one ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>", x, y);
    else if (role == PREFILL)
        fprintf(c->out,
                "<rect class=\"two ring\" x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\"/>",
                x - 5.5, y - 5.5);
    else
        fprintf(
            c->out,
            "<polygon class=\"three ring\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>", x,
            y - 7, x + 7, y, x, y + 7, x - 7, y);
}

static void draw_point(const chart *c, const json_t *entry)
{
    fputs("<g><title>", c->out);
    cli_html_text(c->out, cli_json_text_at(entry, "name"));
    fputs("</title>", c->out);
    draw_mark(c, role_of(entry), point_x(c, entry), point_y(c, entry));
    fputs("</g>\n", c->out);
}

/* Numbers come last, so that no point hides one. */
static void draw_points(const chart *c, const json_t *cases)
{
    labels placed = {.count = 0};
    for (size_t i = 0; i < json_array_size(cases); i++) {
        if (is_plotted(json_array_get(cases, i)))
            draw_point(c, json_array_get(cases, i));
    }
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *entry = json_array_get(cases, i);
        if (is_plotted(entry))
            draw_label(c, &placed, point_x(c, entry), point_y(c, entry), i + 1);
    }
}

static void draw_chart(chart *c, const json_t *cases, const char *name, double width, double height)
{
    c->width = width;
    c->height = height;
    c->left = 56;
    c->right = width - 28; /* half of the last label stands beyond */
    c->top = 28;
    c->bottom = height - 44;
    fprintf(c->out,
            "<svg class=\"%s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"Roofline plot: "
            "work rate over operations per byte; the table has the numbers\">\n",
            name, width, height);
    draw_grid(c);
    draw_roof(c);
    draw_points(c, cases);
    fputs("</svg>\n", c->out);
}

/* Only the marks that are there. */
static void write_key(FILE *out, const json_t *cases)
{
    static const struct {
        const char *mark, *text;
    } marks[ROLES] = {{"c", "decode"}, {"s", "prefill"}, {"d", "other"}};
    bool drawn[ROLES] = {false};
    for (size_t i = 0; i < json_array_size(cases); i++) {
        if (is_plotted(json_array_get(cases, i)))
            drawn[role_of(json_array_get(cases, i))] = true;
    }
    fputs("<div class=\"key\">", out);
    for (size_t i = 0; i < ROLES; i++) {
        if (drawn[i])
            fprintf(out, "<span><i class=\"%s\"></i>%s</span>", marks[i].mark, marks[i].text);
    }
    fputs("<span>line: what memory and float32 units of this device allow</span></div>\n", out);
}

void cli_chart_roofline(FILE *out, const json_t *result)
{
    const json_t *cases = json_object_get(result, "cases");
    chart c = {.out = out,
               .bandwidth = cli_json_at(result, "ceilings.bytesPerSecond"),
               .peak = cli_json_at(result, "ceilings.flopsPerSecond")};
    if (!(c.bandwidth > 0 && c.peak > 0) || !set_ranges(&c, cases))
        return;
    fputs("<h2>Roofline</h2>\n<div class=\"card\">\n", out);
    draw_chart(&c, cases, "wide", 1040, 440);
    draw_chart(&c, cases, "narrow", 360, 340);
    write_key(out, cases);
    fputs("</div>\n", out);
}
