/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole story of a call as JSON (docs/cli.md): what it infers, which variant and why, tunables
 * and where they came from, passes, bindings, WGSL beside its template, and what each backend does.
 */
#ifndef NIBBLE_CLI_EXPLAIN_H
#define NIBBLE_CLI_EXPLAIN_H

#include "request.h"

typedef struct cli_explanation {
    cli_session *session;
    const nib_package *package;
    const nib_caps *caps;
    nib_device *device;     /* NULL: planned for --caps alone */
    cli_request *request;   /* tuned tunables included */
    json_t *named_tunables; /* what --tunable gave, by name */
    json_t *contract;       /* the manifest, as inspect prints it */
} cli_explanation;

/* Never NULL. When the call cannot be planned there is `error`, and no variant, passes or WGSL. */
json_t *cli_explain(const cli_explanation *e);

#endif
