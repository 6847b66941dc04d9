/* SPDX-License-Identifier: Apache-2.0
 *
 * From what the user wrote for PACKAGE to a folder.
 */
#ifndef NIBBLE_CLI_LOCATE_H
#define NIBBLE_CLI_LOCATE_H

#include "session.h"

typedef struct cli_place {
    char *folder;
    char *op;        /* the op id the package must have; NULL: any */
    bool from_cache; /* a snapshot of the Hub's cache: it must be verified */
    unsigned version; /* the contract version to choose beside the folder; 0: the folder as it is */
} cli_place;

/* A folder, whose versions lie beside it; else the op id of an installed kernel; else owner/name, or owner/name@REVISION, in the
 * Hub's cache. --contract-version picks among several. Free `place` in any case. */
nib_status cli_locate(const cli_session *session, const char *package, cli_place *place,
                      nib_error *error);
void cli_place_free(cli_place *place);

#endif
