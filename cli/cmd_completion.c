/* SPDX-License-Identifier: Apache-2.0
 *
 * nibble completion: scripts for shells, from the tables that --help comes from.
 */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "session.h"

typedef void print_fn(FILE *out);

/* ---- pieces ---- */

/* The words of "a|b|c" with spaces between; false when the pattern is no choice. */
static bool print_choices(FILE *out, const char *pattern)
{
    if (!strchr(pattern, '|'))
        return false;
    for (; *pattern; pattern++)
        fputc(*pattern == '|' ? ' ' : *pattern, out);
    return true;
}

static void print_command_names(FILE *out)
{
    for (size_t i = 0; i < cli_command_count; i++)
        fprintf(out, "%s%s", i ? " " : "", cli_commands[i]->name);
}

/* What a command's first argument may be: a choice, the name of a command, or anything. */
static bool print_argument_words(FILE *out, const cli_command *command)
{
    if (command == &cli_command_help)
        print_command_names(out);
    else
        return print_choices(out, command->arguments);
    return true;
}

/* Text inside single quotes, without the characters that have a meaning there. */
static void print_quoted(FILE *out, const char *text, const char *escaped)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", out);
        else if (strchr(escaped, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

/* ---- bash ---- */

static void bash_options(FILE *out, const cli_command *command)
{
    fprintf(out, "    %s) options=\"", command->name);
    for (size_t i = 0; i < command->option_count; i++)
        fprintf(out, "--%s ", cli_options[command->options[i]].name);
    fputs("--help\" words=\"", out);
    print_argument_words(out, command);
    fputs("\" ;;\n", out);
}

static void bash_values(FILE *out, const cli_command *command)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option *option = &cli_options[command->options[i]];
        if (option->kind == CLI_FLAG)
            continue;
        fprintf(out, "    \"%s --%s\") ", command->name, option->name);
        fputs("values=\"", out);
        print_choices(out, option->value);
        fputs("\" valued=1 ;;\n", out);
    }
}

static void print_bash(FILE *out)
{
    fputs("# bash completion for nibble; written by nibble completion bash\n"
          "_nibble() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} options= words= values= valued=\n"
          "    # bash takes \"=\" for a word of its own\n"
          "    [ \"$previous\" = = ] && previous=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          out);
    print_command_names(out);
    fputs(" --help --version\" -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case \"$command $previous\" in\n",
          out);
    for (size_t i = 0; i < cli_command_count; i++)
        bash_values(out, cli_commands[i]);
    fputs("    esac\n"
          "    if [ -n \"$valued\" ]; then\n"
          "        [ \"$word\" = = ] && word=\n"
          "        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case \"$command\" in\n",
          out);
    for (size_t i = 0; i < cli_command_count; i++)
        bash_options(out, cli_commands[i]);
    fputs("    esac\n"
          "    case \"$word\" in\n"
          "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
          "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
          "    esac\n"
          "}\n"
          "complete -o default -F _nibble nibble\n",
          out);
}

/* ---- zsh ---- */

static void zsh_option(FILE *out, const cli_option *option)
{
    static const char specials[] = "[]:\\";
    fprintf(out, "            '%s--%s%s[", option->kind == CLI_REPEAT ? "*" : "", option->name,
            option->kind == CLI_FLAG ? "" : "=");
    print_quoted(out, option->help, specials);
    fputc(']', out);
    if (option->kind != CLI_FLAG) {
        fputc(':', out);
        print_quoted(out, option->value, specials);
        fputc(':', out);
        if (strchr(option->value, '|')) {
            fputc('(', out);
            print_choices(out, option->value);
            fputc(')', out);
        } else {
            fputs("_files", out);
        }
    }
    fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const cli_command *command)
{
    fprintf(out, "    %s)\n        _arguments \\\n", command->name);
    for (size_t i = 0; i < command->option_count; i++)
        zsh_option(out, &cli_options[command->options[i]]);
    zsh_option(out, &cli_options[CLI_OPT_HELP]);
    fputs("            '*:argument:", out);
    if (command == &cli_command_help || strchr(command->arguments, '|')) {
        fputc('(', out);
        print_argument_words(out, command);
        fputc(')', out);
    } else {
        fputs("_files", out);
    }
    fputs("' ;;\n", out);
}

static void print_zsh(FILE *out)
{
    fputs("#compdef nibble\n"
          "# zsh completion for nibble; written by nibble completion zsh\n"
          "_nibble() {\n"
          "    local -a commands=(\n",
          out);
    for (size_t i = 0; i < cli_command_count; i++) {
        fprintf(out, "        '%s:", cli_commands[i]->name);
        print_quoted(out, cli_commands[i]->summary, ":\\");
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          out);
    for (size_t i = 0; i < cli_command_count; i++)
        zsh_command(out, cli_commands[i]);
    fputs("    esac\n"
          "}\n"
          "# An autoloaded file is the function's first body; a sourced one only registers it.\n"
          "if [ \"$funcstack[1]\" = _nibble ]; then _nibble \"$@\"; else compdef _nibble nibble; "
          "fi\n",
          out);
}

/* ---- fish ---- */

static void fish_line(FILE *out, const cli_command *command)
{
    fprintf(out, "complete -c nibble -n '__fish_seen_subcommand_from %s' ", command->name);
}

static void fish_option(FILE *out, const cli_command *command, const cli_option *option)
{
    fish_line(out, command);
    fprintf(out, "-l %s ", option->name);
    if (strchr(option->value, '|')) {
        fputs("-x -a '", out);
        print_choices(out, option->value);
        fputs("' ", out);
    } else if (option->kind != CLI_FLAG) {
        fputs("-r ", out);
    }
    fputs("-d '", out);
    print_quoted(out, option->help, "\\");
    fputs("'\n", out);
}

static void print_fish(FILE *out)
{
    fputs("# fish completion for nibble; written by nibble completion fish\n", out);
    for (size_t c = 0; c < cli_command_count; c++) {
        const cli_command *command = cli_commands[c];
        fprintf(out, "complete -c nibble -f -n __fish_use_subcommand -a %s -d '", command->name);
        print_quoted(out, command->summary, "\\");
        fputs("'\n", out);
        for (size_t i = 0; i < command->option_count; i++)
            fish_option(out, command, &cli_options[command->options[i]]);
        fish_option(out, command, &cli_options[CLI_OPT_HELP]);
        if (command != &cli_command_help && !strchr(command->arguments, '|'))
            continue;
        fish_line(out, command);
        fputs("-f -a '", out);
        print_argument_words(out, command);
        fputs("'\n", out);
    }
}

/* ---- the command ---- */

static const struct {
    const char *name;
    print_fn *print;
} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

static int run_completion(cli_session *session)
{
    const char *shell = session->args.arguments[0];
    for (size_t i = 0; i < CLI_LENGTH(shells); i++) {
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(stdout);
            return CLI_OK;
        }
    }
    return cli_usage(session->args.command, "'%s' is none of bash, zsh, fish", shell);
}

const cli_command cli_command_completion = {
    .name = "completion",
    .arguments = "bash|zsh|fish",
    .summary = "print a completion script for a shell",
    .details =
        "Print a script that completes commands, options and their values. An installed nibble has "
        "them in place already; else source the script: source <(nibble completion bash).",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_completion,
};
