/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of tuned tunables. An entry belongs to one state of one package on one adapter with one
 * driver; when any of these changes it is simply not found.
 *
 *     {"version": 1, "entries": [{"op", "package", "adapter", "driver", "tunables": {NAME: value},
 *                                 "gain", "cases": [..], "nibble"}]}
 */
#ifndef NIBBLE_CLI_TUNING_H
#define NIBBLE_CLI_TUNING_H

#include "request.h"

typedef struct cli_tuning {
    char *path;
    json_t *root;
} cli_tuning;

/* What an entry is found by: {"package", "adapter", "driver"}. */
json_t *cli_tuning_key(const cli_session *session, const nib_package *package,
                       const nib_caps *caps);

/* Load the file of --tuning, or the default one. One that is not there or damaged is an error when
 * it was named; the default one is then empty, and what is damaged noted and left alone. With
 * --no-tuning it is empty. Free `tuning` whatever the result. */
nib_status cli_tuning_load(const cli_session *session, cli_tuning *tuning, nib_error *error);
void cli_tuning_free(cli_tuning *tuning);
/* The entry for a package on a device, borrowed; NULL when there is none. */
const json_t *cli_tuning_find(const cli_session *session, const cli_tuning *tuning,
                              const nib_package *package, const nib_caps *caps);

/* Add the tuned tunables of the entry to a request that does not set them itself, say so, and take
 * them back when the request cannot be planned with them. Returns whether they are in. */
bool cli_tuning_apply(const cli_session *session, const cli_tuning *tuning,
                      const nib_package *package, const nib_caps *caps, cli_request *request);
/* Load, apply, free: what commands that plan one call do. */
nib_status cli_tuning_use(const cli_session *session, const nib_package *package,
                          const nib_caps *caps, cli_request *request, nib_error *error);
/* Take out what was applied: keep the first `count` tunables. */
void cli_tuning_drop(cli_request *request, size_t count);

/* May results be stored in this file? Only when it is not there, or is a tuning file already. */
nib_status cli_tuning_check(const char *path, nib_error *error);
/* Put an entry into the file in the place of the one with its key. The file is replaced in one
 * step, under a lock. */
nib_status cli_tuning_store(const cli_session *session, const char *path, const json_t *entry,
                            nib_error *error);

#endif
