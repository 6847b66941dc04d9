/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring the cases of a package: everything that bench prints, writes and compares is in the one
 * JSON object that this makes (docs/bench.md).
 */
#ifndef NIBBLE_CLI_BENCH_H
#define NIBBLE_CLI_BENCH_H

#include "session.h"

#define CLI_BENCH_VERSION 1

/* Measure as the options say. A baseline (NULL: none) of another operator than the package's is
 * refused before that. Returns CLI_OK or, after a message, a code. */
int cli_bench(cli_session *session, const json_t *baseline, json_t **result);

/* The number at "a.b.c" of an object; NaN when there is none. */
double cli_json_at(const json_t *object, const char *path);
/* The same for a text; "" when there is none. */
const char *cli_json_text_at(const json_t *object, const char *path);
/* seconds.device.median of a case or, without a device clock, seconds.wall.median. */
double cli_case_seconds(const json_t *entry);

/* "12.3 us" */
void cli_seconds_text(double seconds, char out[32]);
/* "1.23 G", with the prefixes of ten: for bytes and operations. */
void cli_amount_text(double amount, char out[32]);

/* A page on a result (report.c). errors: IO */
nib_status cli_report_write(const json_t *result, const char *path, nib_error *error);

#endif
