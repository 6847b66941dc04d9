/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of a package, run on a device and judged: what test and verify share.
 */
#ifndef NIBBLE_CLI_SUITE_H
#define NIBBLE_CLI_SUITE_H

#include "testcase.h"

/* name, word. PLANNED: the operator has no CPU kernel, so the case was planned and its output
 * shapes compared, but nothing ran. */
#define CLI_OUTCOME_MAP(XX)                                                                        \
    XX(PASSED, "passed")                                                                           \
    XX(FAILED, "failed")                                                                           \
    XX(PLANNED, "planned")                                                                         \
    XX(SKIPPED, "skipped")

typedef enum cli_outcome {
#define XX(name, word) CLI_OUTCOME_##name,
    CLI_OUTCOME_MAP(XX)
#undef XX
        CLI_OUTCOME_COUNT
} cli_outcome;

extern const char *const cli_outcome_words[CLI_OUTCOME_COUNT];

/* What became of one case. */
typedef struct cli_result {
    char name[240];
    cli_outcome outcome;
    bool ran;        /* a kernel ran */
    bool refused;    /* planning failed */
    bool gpu_gap;    /* the case has skipGpu */
    bool referenced; /* expected values came from the CPU's scalar kernels */
    bool crossed;    /* compared with the scalar CPU, whatever the case gives */
    double worst;    /* greatest error, as the tolerance counts it */
    double cross;    /* the same against the scalar CPU */
    double seconds;
    char variant[80]; /* what ran: a variant, or with --all-variants on the CPU its kernel row */
    char reason[1024]; /* "" when there is nothing to say */
} cli_result;

/* A way to run a case: with --all-variants there are several. */
typedef struct cli_target {
    nib_device *device;
    char *label; /* NULL: the default way */
    bool pins;   /* the label is a variant to force; else it names a kernel row */
    bool owned;  /* the device is this target's own */
    size_t ran;  /* cases that it ran */
} cli_target;

/* Everything the cases share. Set the switches after opening. `reference` computes expected values
 * that a case does not give. */
typedef struct cli_suite {
    cli_session *session;
    nib_package *package;
    cli_casefile file;
    nib_device *device, *reference;
    bool on_gpu;
    bool cross_check; /* compare every case with the scalar CPU too */
    int64_t seed;     /* > 0: run generated cases instead */
    cli_target *targets;
    size_t target_count;
    cli_result *results;
    size_t count;
} cli_suite;

/* Load the package, its test.json, and open the device. Returns CLI_OK or, after a message, a code.
 * Close the suite in any case. */
int cli_suite_open(cli_session *session, const char *backend, cli_suite *suite);
void cli_suite_close(cli_suite *suite);
/* Run every case that --filter chooses. Returns CLI_OK, or CLI_FAILED after a message when there is
 * nothing to run; failed cases are in the results. */
int cli_suite_run(cli_suite *suite);
size_t cli_suite_count(const cli_suite *suite, cli_outcome outcome);
json_t *cli_result_json(const cli_result *result);

#endif
