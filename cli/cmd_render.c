/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "session.h"

/* The folder of a file, for include; free() it. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return cli_dup(".", 1);
    return slash == path ? cli_dup("/", 1) : cli_dup(path, (size_t)(slash - path));
}

static nib_status render(cli_session *session, char **text, nib_error *error)
{
    const char *path = session->args.arguments[0];
    char *source = NULL, *scope = NULL, *folder = folder_of(path);
    const nib_render_options options = {
        .name = path,
        .directory = folder,
        .infer_enables = cli_has(&session->args, CLI_OPT_INFER_ENABLES),
    };
    nib_status status = cli_read_file(path, &source, error);
    if (status == NIB_OK)
        status = cli_read_scope(session, &scope, error);
    if (status == NIB_OK)
        status = nib_template_render(session->context, source, scope, &options, text, error);
    cli_name_scope(session, error);
    free(folder);
    free(source);
    free(scope);
    return status;
}

static int run_render(cli_session *session)
{
    nib_error error = {0};
    char *text = NULL;
    const nib_status status = render(session, &text, &error);
    if (status == NIB_OK)
        fputs(text, stdout);
    nib_text_free(session->context, text);
    return status == NIB_OK ? CLI_OK : cli_fail(session, &error);
}

static const cli_option_id options[] = {CLI_OPT_SCOPE, CLI_OPT_INFER_ENABLES};

const cli_command cli_command_render = {
    .name = "render",
    .arguments = "TEMPLATE",
    .summary = "render a template file",
    .details =
        "Render a template file and print the text as it is, without a newline added. include "
        "finds files relative to the template's folder. - reads the template from standard "
        "input.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_render,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
