/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of a test.json (format 9.1), ready to run. docs/format.md describes the members.
 */
#ifndef NIBBLE_CLI_TESTCASE_H
#define NIBBLE_CLI_TESTCASE_H

#include "casefile.h"

/* What one output must be. */
typedef struct cli_expectation {
    const char *port; /* lives in the JSON document, or in the package */
    nib_tensor_desc desc;
    double tolerance; /* |actual - expected| <= tolerance * max(1, |expected|) */
    bool allow_nan;
    nib_tensor *values; /* NULL: the case gives none */
} cli_expectation;

typedef struct cli_testcase {
    const char *name;
    const char *gpu_gap; /* skipGpu: why a GPU cannot do it; NULL when it can */
    const char *gap_category; /* "permanent" or "todo" */
    const json_t
        *errors; /* a text or a list of texts that the failure must contain; NULL: must succeed */
    cli_request request;
    cli_inputs inputs;
    cli_expectation *outputs;
    size_t output_count;
} cli_testcase;

/* Read the test.json of a package. */
nib_status cli_testfile_load(cli_session *session, const nib_package *package, cli_casefile *file,
                             nib_error *error);
/* Make a case of it. Free it whatever the result. */
nib_status cli_testcase_read(const cli_casefile *file, const nib_package *package, size_t index,
                             cli_testcase *test, nib_error *error);
void cli_testcase_free(cli_testcase *test);

#endif
