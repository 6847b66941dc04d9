/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <math.h>
#include <stdlib.h>

/* A sample takes at least this long, so that a coarse clock and a single interruption do not
 * matter; a GPU's clock may tick as rarely as every 65 us. */
#define SAMPLE_SECONDS 2e-3
enum { MAX_SAMPLES = 100, MIN_SAMPLES = 3, MAX_REPEATS = 4096 };

typedef struct series {
    double values[MAX_SAMPLES];
    size_t count;
} series;

static void add(series *s, double value)
{
    if (s->count < MAX_SAMPLES)
        s->values[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, size_t count, double at)
{
    const double place = at * (double)(count - 1);
    const size_t low = (size_t)place;
    const double rest = place - (double)low;
    return low + 1 < count ? sorted[low] * (1 - rest) + sorted[low + 1] * rest : sorted[low];
}

cli_stats cli_summarize(double *values, size_t count)
{
    if (count == 0)
        return (cli_stats){0};
    qsort(values, count, sizeof *values, by_value);
    const double median = quantile(values, count, 0.5);
    const double width = quantile(values, count, 0.75) - quantile(values, count, 0.25);
    return (cli_stats){.count = count,
                       .min = values[0],
                       .median = median,
                       .spread = median > 0 ? width / 2 / median : 0};
}

const cli_stats *cli_best_time(const cli_measurement *m)
{
    return m->device.count ? &m->device : &m->wall;
}

/* Warm up, and find how many calls make a sample. The count grows step by step: one call may be so
 * slow that many of them would trip a watchdog. */
static nib_status calibrate(nib_call *call, double warm_up, uint32_t *repeats, nib_error *error)
{
    const double start = cli_seconds();
    *repeats = 1;
    do {
        nib_timing timing;
        const nib_status status = nib_call_time(call, *repeats, &timing, error);
        if (status != NIB_OK)
            return status;
        const double one = timing.wall / *repeats;
        const double wanted = one > 0 ? SAMPLE_SECONDS / one : MAX_REPEATS;
        const double most = fmin(MAX_REPEATS, *repeats * 8.0);
        *repeats = (uint32_t)fmax(1, fmin(most, ceil(wanted)));
    } while (cli_seconds() - start < warm_up);
    return NIB_OK;
}

static nib_status sample(nib_call *call, double seconds, cli_measurement *out, nib_error *error)
{
    series device = {0}, wall = {0}, host = {0};
    const double start = cli_seconds();
    while (wall.count < MAX_SAMPLES &&
           (wall.count < MIN_SAMPLES || cli_seconds() - start < seconds)) {
        nib_timing timing;
        const nib_status status = nib_call_time(call, out->repeats, &timing, error);
        if (status != NIB_OK)
            return status;
        if (timing.device >= 0)
            add(&device, timing.device / out->repeats);
        add(&wall, timing.wall / out->repeats);
        add(&host, timing.host / out->repeats);
        /* A very slow call is not asked three times when the time is long over. */
        if (cli_seconds() - start > 10 * seconds)
            break;
    }
    out->device = cli_summarize(device.values, device.count);
    out->wall = cli_summarize(wall.values, wall.count);
    out->host = cli_summarize(host.values, host.count);
    return NIB_OK;
}

static nib_status sample_runs(nib_call *call, double seconds, cli_measurement *out,
                              nib_error *error)
{
    series run = {0};
    const double start = cli_seconds();
    do {
        const double before = cli_seconds();
        const nib_status status = nib_call_run(call, error);
        if (status != NIB_OK)
            return status;
        add(&run, cli_seconds() - before);
    } while (run.count < MAX_SAMPLES && cli_seconds() - start < seconds);
    out->run = cli_summarize(run.values, run.count);
    return NIB_OK;
}

nib_status cli_measure_quick(nib_call *call, double seconds, cli_measurement *out, nib_error *error)
{
    *out = (cli_measurement){0};
    const nib_status status = calibrate(call, seconds / 5, &out->repeats, error);
    return status == NIB_OK ? sample(call, seconds * 4 / 5, out, error) : status;
}

nib_status cli_measure(nib_call *call, double seconds, cli_measurement *out, nib_error *error)
{
    *out = (cli_measurement){0};
    nib_status status = calibrate(call, seconds / 5, &out->repeats, error);
    if (status == NIB_OK)
        status = sample(call, seconds * 3 / 5, out, error);
    return status == NIB_OK ? sample_runs(call, seconds / 5, out, error) : status;
}

json_t *cli_stats_json(const cli_stats *stats)
{
    if (stats->count == 0)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "n", json_integer((json_int_t)stats->count));
    json_object_set_new(object, "min", json_real(stats->min));
    json_object_set_new(object, "median", json_real(stats->median));
    json_object_set_new(object, "spread", json_real(stats->spread));
    return object;
}
