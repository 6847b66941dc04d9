/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of a test.json (format 9.1), ready to run. docs/cli.md describes the members.
 */
#ifndef NIBBLE_CLI_TESTCASE_H
#define NIBBLE_CLI_TESTCASE_H

#include "request.h"

/* What one output must be. */
typedef struct cli_expectation {
    const char *port; /* lives in the JSON document */
    nib_tensor_desc desc;
    double tolerance; /* |actual - expected| <= tolerance * max(1, |expected|) */
    bool allow_nan;
    nib_tensor *values; /* NULL: the case gives none */
} cli_expectation;

typedef struct cli_testcase {
    const char *name;
    const char *gpu_gap; /* skipGpu: why a GPU cannot do it; NULL when it can */
    const json_t
        *errors; /* a text or a list of texts that the failure must contain; NULL: must succeed */
    cli_request request;
    cli_inputs inputs;
    cli_expectation *outputs;
    size_t output_count;
} cli_testcase;

typedef struct cli_testfile {
    cli_session *session;
    char path[512];
    json_t *root;
} cli_testfile;

/* Read the test.json of a package. */
nib_status cli_testfile_load(cli_session *session, const nib_package *package, cli_testfile *file,
                             nib_error *error);
void cli_testfile_free(cli_testfile *file);

size_t cli_testfile_count(const cli_testfile *file);
/* The name of a case, for --filter and reports; "" when it has none. */
const char *cli_testfile_name(const cli_testfile *file, size_t index);
/* Make the case. Free it whatever the result. */
nib_status cli_testcase_read(const cli_testfile *file, const nib_package *package, size_t index,
                             cli_testcase *test, nib_error *error);
void cli_testcase_free(cli_testcase *test);

#endif
