/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing a call: warm-up, many samples, and numbers that say how sure they are.
 */
#ifndef NIBBLE_CLI_MEASURE_H
#define NIBBLE_CLI_MEASURE_H

#include "request.h"

/* Seconds of one call over `count` samples. */
typedef struct cli_stats {
    size_t count; /* 0: not measured */
    double min, median;
    double spread; /* half the distance between the quartiles, as a part of the median */
} cli_stats;

typedef struct cli_measurement {
    cli_stats device; /* work on the device, by its clock: GPU timestamps, or around the kernels */
    cli_stats wall;   /* the same calls back to back, by the clock of the host */
    cli_stats host;   /* the calling thread's own work for a call */
    cli_stats run;    /* nib_call_run from host memory to host memory */
    uint32_t repeats; /* calls in a sample of device, wall and host */
} cli_measurement;

/* The most trustworthy time of a call: the device's if it has a clock, else the wall's. */
const cli_stats *cli_best_time(const cli_measurement *measurement);

/* Sort `values` and sum them up. */
cli_stats cli_summarize(double *values, size_t count);

/* Measure a bound call for about `seconds`; it has run once before. */
nib_status cli_measure(nib_call *call, double seconds, cli_measurement *out, nib_error *error);
/* Only device and wall, and quickly: for comparing many candidates. */
nib_status cli_measure_quick(nib_call *call, double seconds, cli_measurement *out,
                             nib_error *error);

json_t *cli_stats_json(const cli_stats *stats);

#endif
