/* SPDX-License-Identifier: Apache-2.0
 *
 * nibble: the command-line tool. It uses the public headers only.
 *
 * The program never calls setlocale, so numbers are read and written in the C locale whatever the
 * user's is.
 */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "session.h"

const cli_command *const cli_commands[] = {
    &cli_command_run,    &cli_command_plan,    &cli_command_inspect, &cli_command_eval,
    &cli_command_render, &cli_command_test,    &cli_command_verify,  &cli_command_bench,
    &cli_command_tune,   &cli_command_explain, &cli_command_devices, &cli_command_quantize,
    &cli_command_pull,   &cli_command_pack,    &cli_command_lint,    &cli_command_completion,
    &cli_command_help,
};
const size_t cli_command_count = CLI_LENGTH(cli_commands);

static void log_line(void *user, nib_log_level level, const char *line)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    const cli_session *session = user;
    if (session->verbose || (level >= NIB_LOG_WARNING && !session->quiet))
        cli_note(session, "%s: %s", names[level], line);
}

static int run_command(const cli_command *command, cli_session *session)
{
    nib_error error = {0};
    session->json = cli_has(&session->args, CLI_OPT_JSON);
    session->quiet = cli_has(&session->args, CLI_OPT_QUIET);
    session->verbose = cli_has(&session->args, CLI_OPT_VERBOSE);
    session->progress = cli_stderr_is_terminal() && !session->quiet;
    const nib_context_options options = {.log = log_line, .log_user = session};
    if (nib_context_create(&options, &session->context, &error) != NIB_OK)
        return cli_fail(session, &error);
    const int code = command->run(session);
    nib_context_free(session->context);
    return code;
}

static int start_command(const cli_command *command, int argc, char *const *argv)
{
    cli_session session = {0};
    int code = cli_args_parse(command, argc, argv, &session.args);
    if (code == CLI_OK && cli_has(&session.args, CLI_OPT_HELP))
        cli_print_help(stdout, command);
    else if (code == CLI_OK)
        code = run_command(command, &session);
    cli_args_free(&session.args);
    return code;
}

static int dispatch(int argc, char *const *argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const cli_command *command = cli_find_command(word);
    if (command)
        return start_command(command, argc - 2, argv + 2);
    if (strcmp(word, "--version") == 0) {
        printf("nibble %s\n", nib_version());
        return CLI_OK;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_print_overview(stdout);
        return CLI_OK;
    }
    if (argc < 2)
        return cli_usage(NULL, "no command given");
    if (word[0] == '-')
        return cli_usage(NULL, "unknown option %s; options follow the command", word);
    return cli_unknown_command(NULL, word);
}

int main(int argc, char **argv)
{
#ifdef _WIN32
    /* Line ends stay as they are written; tensors may go through pipes. */
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stderr), _O_BINARY);
#endif
    const int code = dispatch(argc, argv);
    /* Output that did not reach its file (a full disk, say) is a failure, not a success with less
     * text. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("nibble: cannot write to standard output\n", stderr);
        return code == CLI_OK ? CLI_FAILED : code;
    }
    return code;
}
