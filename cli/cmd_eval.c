/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "session.h"

static int run_eval(cli_session *session)
{
    nib_error error = {0};
    char *scope = NULL, *result = NULL;
    int code = CLI_OK;
    nib_status status = cli_read_scope(session, &scope, &error);
    if (status == NIB_OK)
        status = nib_expression_eval(session->context, session->args.arguments[0], scope, &result,
                                     &error);
    if (status == NIB_OK) {
        cli_print_text(result);
    } else {
        cli_name_scope(session, &error);
        code = cli_fail(session, &error);
    }
    nib_text_free(session->context, result);
    free(scope);
    return code;
}

static const cli_option_id options[] = {CLI_OPT_SCOPE};

const cli_command cli_command_eval = {
    .name = "eval",
    .arguments = "EXPR",
    .summary = "evaluate a manifest expression",
    .details =
        "Evaluate one expression of the manifest language and print its value as JSON text; what "
        "JSON has no word for prints as undefined, NaN, Infinity or -Infinity. An expression that "
        "starts with a minus sign and a "
        "letter goes after --.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_eval,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
