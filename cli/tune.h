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

enum { CLI_MAX_KNOBS = 32, CLI_MAX_VALUES = 16 };

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
    char *best_fingerprint; /* of the best so far, at first the defaults */
    double best_seconds;
    double old_seconds, new_seconds; /* while a winner is confirmed */
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
    json_t *not_reached; /* names of cases that the time did not suffice for */
    double deadline, search_deadline;
    size_t measured, unchanged, rejected, wrong; /* candidates, for the report */
    bool out_of_time;                            /* the search did not come to its end */
    bool unconfirmed; /* a better one was found, and no time was left to measure it again */
} cli_tuner;

/* Load package, device and cases, and measure the defaults: from here on --seconds count, and are
 * kept within one measurement. Close the tuner in any case. */
int cli_tuner_open(cli_session *session, cli_tuner *tuner);
void cli_tuner_close(cli_tuner *tuner);

/* The best candidate that could be found before the deadline; its score is 1 and its choices are
 * the defaults when there is no better one. `found` is called with every improvement. */
cli_candidate cli_tune(cli_tuner *tuner,
                       void (*found)(cli_tuner *tuner, const cli_candidate *best, void *user),
                       void *user);

/* {NAME: value} of the knobs that are not at their default. */
json_t *cli_candidate_json(const cli_tuner *tuner, const cli_candidate *candidate);

#endif
