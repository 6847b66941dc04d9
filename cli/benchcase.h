/* SPDX-License-Identifier: Apache-2.0
 *
 * One case of a bench.json, ready to be measured. docs/format.md describes the members.
 */
#ifndef NIBBLE_CLI_BENCHCASE_H
#define NIBBLE_CLI_BENCHCASE_H

#include "casefile.h"

typedef struct cli_benchcase {
    const char *name;
    const char *role; /* "decode", "prefill", or "" */
    cli_request request;
    cli_inputs inputs;
    double flops; /* of one call, by the file's work.flops; negative: it does not say */
} cli_benchcase;

/* Read the bench.json of a package. */
nib_status cli_benchfile_load(cli_session *session, const nib_package *package, cli_casefile *file,
                              nib_error *error);
/* Whether --case chooses it: a name, or a part of names when no case has that name whole. */
bool cli_benchcase_chosen(const cli_casefile *file, size_t index);
/* Make a case; inputs without data get random values, of which all but the first tensor's are
 * promised to stay. Free it whatever the result. */
nib_status cli_benchcase_read(const cli_casefile *file, const nib_package *package, size_t index,
                              cli_benchcase *bench, nib_error *error);
void cli_benchcase_free(cli_benchcase *bench);

#endif
