/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching the tunables of a package: candidates, and what each costs over the bench cases.
 */
#ifndef NIBBLE_CLI_TUNE_H
#define NIBBLE_CLI_TUNE_H

#include "benchcase.h"

/* A tunable and the values worth trying; values[0] is the manifest's default. */
typedef struct cli_knob {
    char *name;
    json_t *values; /* array */
} cli_knob;

#define CLI_MAX_KNOBS 32

/* An index into the values of each knob. */
typedef struct cli_candidate {
    unsigned char choice[CLI_MAX_KNOBS];
    double score; /* geometric mean of time / default time; HUGE_VAL: rejected */
} cli_candidate;

/* A bench case with the default's outputs to compare with. */
typedef struct cli_tune_case {
    cli_benchcase bench;
    nib_plan *plan;
    nib_call *call;    /* of the defaults: its outputs are what every candidate must give */
    char *fingerprint; /* of that plan: shaders, dispatches, uniforms */
    double default_seconds;
} cli_tune_case;

typedef struct cli_tuner {
    cli_session *session;
    nib_package *package;
    nib_device *device;
    cli_casefile file;
    cli_knob knobs[CLI_MAX_KNOBS];
    size_t knob_count;
    cli_tune_case *cases;
    size_t case_count;
    double deadline;
    size_t measured, unchanged, rejected, wrong; /* candidates, for the report */
} cli_tuner;

/* Load package, device and cases, and measure the defaults. Close the tuner in any case. */
int cli_tuner_open(cli_session *session, cli_tuner *tuner);
void cli_tuner_close(cli_tuner *tuner);

/* The best candidate that could be found before the deadline; its score is 1 and its choices are
 * the defaults when there is no better one. `found` is called with every improvement. */
cli_candidate cli_tune(cli_tuner *tuner,
                       void (*found)(cli_tuner *tuner, const cli_candidate *best, void *user),
                       void *user);

/* {NAME: value} of the knobs that are not at their default. */
json_t *cli_candidate_json(const cli_tuner *tuner, const cli_candidate *candidate);
/* Measure a candidate on one case for about `seconds`; HUGE_VAL when it does not take it. */
double cli_tuner_measure(cli_tuner *tuner, const cli_candidate *candidate, size_t index,
                         double seconds);

#endif
