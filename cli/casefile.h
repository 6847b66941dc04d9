/* SPDX-License-Identifier: Apache-2.0
 *
 * What test.json and bench.json share: a list of cases with tensors and attributes, and errors that
 * name the place.
 */
#ifndef NIBBLE_CLI_CASEFILE_H
#define NIBBLE_CLI_CASEFILE_H

#include "request.h"

typedef struct cli_casefile {
    cli_session *session;
    char path[512];
    char digest[NIB_DIGEST_TEXT_BYTES]; /* of the bytes that were read */
    json_t *root;
} cli_casefile;

/* Where in the file something is: cases[3].inputs.a.data */
typedef struct cli_spot {
    const cli_casefile *file;
    nib_error *error;
    char path[200];
} cli_spot;

cli_spot cli_inside(const cli_spot *outer, const char *format, ...)
    __attribute__((__format__(__printf__, 2, 3)));
/* Fail with a rule that this place breaks. */
nib_status cli_wrong(const cli_spot *at, const char *rule);
nib_status cli_check_members(const cli_spot *at, json_t *object, const char *const *known,
                             size_t known_count);

/* Read NAME.json of a package; its members are `known`, of which "cases" is a list. */
nib_status cli_casefile_load(cli_session *session, const nib_package *package, const char *name,
                             const char *const *known, size_t known_count, cli_casefile *file,
                             nib_error *error);
void cli_casefile_free(cli_casefile *file);
size_t cli_casefile_count(const cli_casefile *file);
/* Case number `index`, borrowed. */
json_t *cli_casefile_at(const cli_casefile *file, size_t index);
/* The name of a case; "" when it has none. */
const char *cli_casefile_name(const cli_casefile *file, size_t index);

/* {"dtype", "shape"} */
nib_status cli_read_desc(const cli_spot *at, json_t *object, nib_tensor_desc *desc);
/* A tensor of this description with the object's `data`; zeros when it has none. */
nib_status cli_make_tensor(const cli_spot *at, json_t *object, const nib_tensor_desc *desc,
                           nib_tensor **tensor);
/* The request of a case without its data: descriptions of the inputs only. Optional outputs that it
 * expects are asked for. Free `request` whatever the result. */
nib_status cli_case_request(const cli_casefile *file, const nib_package *package, size_t index,
                            cli_request *request, nib_error *error);
/* attrs, args, tunables, want. */
nib_status cli_read_request(const cli_spot *at, json_t *object, cli_request *request);

#endif
