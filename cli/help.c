/* SPDX-License-Identifier: Apache-2.0
 *
 * Help, manual page and Markdown reference, all from the tables of options.h.
 */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "session.h"

#define HELP_COLUMNS 80
#define HELP_INDENT  26

static const char intro[] =
    "Load declarative WebGPU kernel packages, plan calls from their manifest, and "
    "run them on the CPU or on a GPU.";

typedef struct exit_row {
    int code;
    const char *meaning;
} exit_row;

static const exit_row exit_rows[] = {
    {CLI_OK, "success"},
    {CLI_FAILED, "the request failed: one line on standard error says why"},
    {CLI_USAGE, "the command line is wrong"},
};

/* ---- plain text ---- */

/* Print `text` wrapped, continuing at `indent`; the cursor stands at `column`. */
static void print_wrapped(FILE *out, const char *text, int indent, int column)
{
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (column > indent && column + 1 + length > HELP_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        const int space = column > indent;
        fprintf(out, "%s%.*s", space ? " " : "", length, text);
        column += space + length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const cli_option *option)
{
    int column =
        fprintf(out, "  --%s%s%s", option->name, option->value[0] ? " " : "", option->value);
    if (column + 2 > HELP_INDENT) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", HELP_INDENT - column, "");
    print_wrapped(out, option->help, HELP_INDENT, HELP_INDENT);
}

static void print_usage(FILE *out, const cli_command *command)
{
    fprintf(out, "usage: nibble %s%s%s [OPTION...]\n", command->name,
            command->arguments[0] ? " " : "", command->arguments);
}

void cli_print_help(FILE *out, const cli_command *command)
{
    print_usage(out, command);
    fputc('\n', out);
    print_wrapped(out, command->details, 0, 0);
    fputs("\noptions:\n", out);
    for (size_t i = 0; i < command->option_count; i++)
        print_option(out, &cli_options[command->options[i]]);
    print_option(out, &cli_options[CLI_OPT_HELP]);
}

void cli_print_overview(FILE *out)
{
    fputs("usage: nibble COMMAND [OPTION...]\n       nibble --version\n\n", out);
    print_wrapped(out, intro, 0, 0);
    fputs("\ncommands:\n", out);
    for (size_t i = 0; i < cli_command_count; i++)
        fprintf(out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs("\nnibble COMMAND --help shows the options of a command.\n", out);
}

/* What the tool reads besides its arguments. */
static const struct {
    const char *name, *meaning;
} environment[] = {
    {"NIBBLE_KERNELS", "Folders of installed kernel packages, separated by colons."},
    {"NIBBLE_ISA", "Highest CPU kernel row to use, as --isa."},
    {"NIBBLE_WEBGPU_MODULE", "The module with the GPU backend, a path."},
    {"NIBBLE_WEBGPU_SOFTWARE", "1: software adapters count as GPUs."},
    {"XDG_CACHE_HOME", "Where the caches lie; ~/.cache."},
    {"HF_HOME, HF_HUB_CACHE", "The Hub's folder, and its cache of repositories."},
    {"HF_ENDPOINT, HF_TOKEN", "The Hub's address, and a token for it."},
    {"HF_HUB_OFFLINE", "1: use what is in the cache."},
    {"HF_HUB_DOWNLOAD_TIMEOUT", "Seconds without data before a download is tried again."},
};

static const struct {
    const char *name, *meaning;
} files[] = {
    {"PREFIX/share/nibble/kernels", "Installed packages, found by their op id."},
    {"~/.cache/huggingface/hub",
     "Packages that nibble pull has fetched, found by their repository."},
    {"~/.cache/nibble/tuning.json", "What nibble tune has found, by package, adapter and driver."},
};

/* ---- manual page ---- */

/* troff reads "-" as a hyphen, "\" as an escape, and a leading "." or "'" as a request. */
static void man_text(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

static void man_row(FILE *out, const char *name, const char *meaning)
{
    fputs(".TP\n", out);
    man_text(out, name);
    fputc('\n', out);
    man_text(out, meaning);
    fputc('\n', out);
}

static void man_option(FILE *out, const cli_option *option)
{
    fputs(".TP\n\\fB", out);
    man_text(out, "--");
    man_text(out, option->name);
    fputs("\\fR", out);
    if (option->value[0]) {
        fputs(" \\fI", out);
        man_text(out, option->value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    man_text(out, option->help);
    fputc('\n', out);
}

static void man_command(FILE *out, const cli_command *command)
{
    fprintf(out, ".SS \"nibble %s %s\"\n", command->name, command->arguments);
    man_text(out, command->details);
    fputc('\n', out);
    for (size_t i = 0; i < command->option_count; i++)
        man_option(out, &cli_options[command->options[i]]);
}

void cli_print_man(FILE *out)
{
    fprintf(out, ".TH NIBBLE 1 \"\" \"nibble %s\" \"User Commands\"\n", nib_version());
    fputs(".SH NAME\nnibble \\- run WebGPU kernel packages natively\n", out);
    fputs(".SH SYNOPSIS\n.B nibble\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n", out);
    fputs(".SH DESCRIPTION\n", out);
    man_text(out, intro);
    fputs("\n.SH COMMANDS\n", out);
    for (size_t i = 0; i < cli_command_count; i++)
        man_command(out, cli_commands[i]);
    fputs(".SH \"EXIT STATUS\"\n", out);
    for (size_t i = 0; i < CLI_LENGTH(exit_rows); i++)
        fprintf(out, ".TP\n%d\n%s\n", exit_rows[i].code, exit_rows[i].meaning);
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < CLI_LENGTH(environment); i++)
        man_row(out, environment[i].name, environment[i].meaning);
    fputs(".SH FILES\n", out);
    for (size_t i = 0; i < CLI_LENGTH(files); i++)
        man_row(out, files[i].name, files[i].meaning);
}

/* ---- Markdown ---- */

/* A "|" ends a table cell, even inside code. */
static void markdown_cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void markdown_option(FILE *out, const cli_option *option)
{
    fprintf(out, "| `--%s%s", option->name, option->value[0] ? " " : "");
    markdown_cell(out, option->value);
    fprintf(out, "`%s | ", option->kind == CLI_REPEAT ? " (repeat)" : "");
    markdown_cell(out, option->help);
    fputs(" |\n", out);
}

void cli_print_markdown(FILE *out)
{
    for (size_t c = 0; c < cli_command_count; c++) {
        const cli_command *command = cli_commands[c];
        fprintf(out, "### `nibble %s%s%s`\n\n%s\n", command->name, command->arguments[0] ? " " : "",
                command->arguments, command->details);
        if (command->option_count)
            fputs("\n| option | meaning |\n| --- | --- |\n", out);
        for (size_t i = 0; i < command->option_count; i++)
            markdown_option(out, &cli_options[command->options[i]]);
        if (c + 1 < cli_command_count)
            fputc('\n', out);
    }
}

/* ---- nibble help ---- */

static int run_help(cli_session *session)
{
    const cli_args *args = &session->args;
    if (cli_has(args, CLI_OPT_MAN))
        cli_print_man(stdout);
    else if (cli_has(args, CLI_OPT_MARKDOWN))
        cli_print_markdown(stdout);
    else if (args->argument_count == 0)
        cli_print_overview(stdout);
    else if (!cli_find_command(args->arguments[0]))
        return cli_unknown_command(args->command, args->arguments[0]);
    else
        cli_print_help(stdout, cli_find_command(args->arguments[0]));
    return CLI_OK;
}

static const cli_option_id options[] = {CLI_OPT_MAN, CLI_OPT_MARKDOWN};

const cli_command cli_command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "show help on a command, or the whole manual",
    .details = "Show the commands, the help of one command, or the manual of all of them.",
    .argument_max = 1,
    .run = run_help,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
