/* SPDX-License-Identifier: Apache-2.0
 *
 * From options to a nib_request, and from a request to outputs.
 */
#ifndef NIBBLE_CLI_REQUEST_H
#define NIBBLE_CLI_REQUEST_H

#include "session.h"

/* Named scalars with storage of their own. */
typedef struct cli_scalars {
    nib_named_scalar *items;
    size_t count;
} cli_scalars;

/* Tensors to bind, by the name they were given. `names` and `tensors` are owned. */
typedef struct cli_inputs {
    nib_context *context;
    char **names;
    nib_tensor **tensors;
    size_t count;
} cli_inputs;

/* A request and all the storage behind it. */
typedef struct cli_request {
    nib_request request;
    cli_scalars attributes, arguments, tunables;
    nib_named_desc *tensors; /* names are in tensor_names */
    char **tensor_names;
    size_t tensor_count;
    const char **want;
    size_t want_count;
} cli_request;

/* "4" is a number, "true" a boolean, "\"4\"" and "silu" text. */
void cli_scalar_parse(const char *text, nib_named_scalar *scalar);
/* The same from JSON. False for null, lists and objects. */
bool cli_scalar_from_json(const json_t *value, nib_named_scalar *scalar);
void cli_scalars_free(cli_scalars *scalars);

/* Read --attr, --arg, --tunable, --want, --variant, --relaxed. */
void cli_request_from_options(const cli_args *args, cli_request *request);
/* Add the descriptions of loaded inputs, or those of --tensor. */
void cli_request_add_inputs(cli_request *request, const cli_inputs *inputs);
int cli_request_add_tensor_options(cli_session *session, cli_request *request);
void cli_request_add_tensor(cli_request *request, const char *name, const nib_tensor_desc *desc);
/* Ask for an output once more than the options do. `key` is borrowed. */
void cli_request_add_want(cli_request *request, const char *key);
/* The request that points at the storage above. */
const nib_request *cli_request_finish(cli_request *request);
void cli_request_free(cli_request *request);

/* Room for `count` inputs. */
void cli_inputs_init(cli_inputs *inputs, nib_context *context, size_t count);
/* Add a tensor; it is owned from here on. */
void cli_inputs_add(cli_inputs *inputs, const char *name, size_t name_length, nib_tensor *tensor);
/* Load every --in. Returns CLI_OK, or CLI_FAILED after a message. */
int cli_inputs_load(cli_session *session, cli_inputs *inputs);
void cli_inputs_free(cli_inputs *inputs);

/* Load the package named by the first argument, as --manifest and --no-verify say. */
nib_status cli_load_package(cli_session *session, nib_package **package, nib_error *error);
/* The capabilities of --caps, or those that every device has. */
nib_status cli_load_caps(cli_session *session, nib_caps **caps, nib_error *error);
/* Open the device that `backend` and --adapter, --disable-feature, --threads, --isa name. */
int cli_open_device(cli_session *session, const char *backend, nib_device **device);

/* A call that was planned, prepared and run, as far as it came. */
typedef struct cli_call {
    nib_plan *plan;
    nib_call *call; /* NULL when it could not be prepared */
    double prepare_seconds, run_seconds;
} cli_call;

/* Plan, prepare, bind and run. Free `call` whatever the result. */
nib_status cli_call_run(cli_call *call, const nib_package *package, nib_device *device,
                        const nib_request *request, const cli_inputs *inputs, nib_error *error);
void cli_call_free(cli_call *call);

#endif
