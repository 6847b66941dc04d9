/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

const cli_option cli_options[CLI_OPTION_COUNT] = {
#define XX(id, name, kind, value, help) [CLI_OPT_##id] = {name, CLI_##kind, value, help},
    CLI_OPTION_MAP(XX)
#undef XX
};

int cli_usage(const cli_command *command, const char *format, ...)
{
    va_list args;
    fputs("nibble: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (see nibble %s%s--help)\n", command ? command->name : "", command ? " " : "");
    return CLI_USAGE;
}

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    }
    return NULL;
}

/* ---- suggestions ---- */

#define WORD_MAX 40

static size_t smallest(size_t a, size_t b, size_t c)
{
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein distance; SIZE_MAX for words too long to be worth it. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    const size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            const size_t above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count)
{
    const size_t length = strlen(word);
    const char *best = NULL;
    size_t best_distance = length < 4 ? 2 : length / 3 + 2; /* this far is too far */
    for (size_t i = 0; i < count; i++) {
        const size_t distance = edit_distance(word, names[i]);
        if (distance < best_distance && distance < strlen(names[i])) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

int cli_unknown_command(const cli_command *command, const char *word)
{
    const char **names = cli_alloc(cli_command_count * sizeof *names);
    for (size_t i = 0; i < cli_command_count; i++)
        names[i] = cli_commands[i]->name;
    const char *nearest = cli_nearest(word, names, cli_command_count);
    free(names);
    if (nearest)
        return cli_usage(command, "unknown command '%s'; did you mean %s?", word, nearest);
    return cli_usage(command, "unknown command '%s'", word);
}

/* ---- parsing ---- */

static int unknown_option(const cli_command *command, const char *name, size_t length)
{
    const char *names[CLI_OPTION_COUNT];
    char word[WORD_MAX + 1];
    const char *nearest = NULL;
    for (size_t i = 0; i < command->option_count; i++)
        names[i] = cli_options[command->options[i]].name;
    if (length <= WORD_MAX) {
        memcpy(word, name, length);
        word[length] = '\0';
        nearest = cli_nearest(word, names, command->option_count);
    }
    if (nearest)
        return cli_usage(command, "unknown option --%.*s; did you mean --%s?", (int)length, name,
                         nearest);
    return cli_usage(command, "unknown option --%.*s", (int)length, name);
}

static cli_option_id find_option(const cli_command *command, const char *name, size_t length)
{
    for (size_t i = 0; i < command->option_count; i++) {
        const char *candidate = cli_options[command->options[i]].name;
        if (strlen(candidate) == length && memcmp(candidate, name, length) == 0)
            return command->options[i];
    }
    return strncmp("help", name, length) == 0 && length == 4 ? CLI_OPT_HELP : CLI_OPTION_COUNT;
}

/* Is `value` one of the words of "a|b|c"? A pattern without "|" takes anything. */
static bool is_choice(const char *pattern, const char *value)
{
    const size_t length = strlen(value);
    if (!strchr(pattern, '|'))
        return true;
    for (const char *word = pattern; word; word = strchr(word, '|')) {
        word += *word == '|';
        if (strcspn(word, "|") == length && strncmp(word, value, length) == 0)
            return true;
    }
    return false;
}

/* A whole number from 1 to INT32_MAX; 0 for anything else. */
static int64_t read_count(const char *text)
{
    int64_t value = 0;
    for (; *text >= '0' && *text <= '9' && value <= INT32_MAX; text++)
        value = value * 10 + (*text - '0');
    return *text || value > INT32_MAX ? 0 : value;
}

static int check_value(const cli_command *command, const cli_option *option, const char *value)
{
    if (!is_choice(option->value, value))
        return cli_usage(command, "--%s is '%s'; it must be one of %s", option->name, value,
                         option->value);
    if (strchr(option->value, '=') && (value[0] == '=' || !strchr(value, '=')))
        return cli_usage(command, "--%s '%s' is not of the form %s", option->name, value,
                         option->value);
    if (strcmp(option->value, "N") == 0 && read_count(value) == 0)
        return cli_usage(command, "--%s is '%s'; it must be a whole number from 1 to %d",
                         option->name, value, INT32_MAX);
    return CLI_OK;
}

static int add_option(cli_args *args, cli_option_id id, const char *value)
{
    const cli_option *option = &cli_options[id];
    if (option->kind == CLI_VALUE && cli_has(args, id))
        return cli_usage(args->command, "--%s is given twice", option->name);
    if (option->kind != CLI_FLAG && check_value(args->command, option, value) != CLI_OK)
        return CLI_USAGE;
    args->given[args->given_count++] = (cli_given){id, value};
    return CLI_OK;
}

/* argv[*at] starts with "--"; moves *at past a value that is a word of its own. */
static int parse_option(cli_args *args, int argc, char *const *argv, int *at)
{
    const char *name = argv[*at] + 2;
    const size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const cli_option_id id = find_option(args->command, name, length);
    if (id == CLI_OPTION_COUNT)
        return unknown_option(args->command, name, length);
    if (cli_options[id].kind == CLI_FLAG) {
        if (value)
            return cli_usage(args->command, "--%s takes no value", cli_options[id].name);
        return add_option(args, id, "");
    }
    if (!value && *at + 1 < argc)
        value = argv[++*at];
    if (!value)
        return cli_usage(args->command, "--%s needs a value: --%s %s", cli_options[id].name,
                         cli_options[id].name, cli_options[id].value);
    return add_option(args, id, value);
}

/* A lone "-" is standard input and "-1" a negative number: neither is an option. */
static bool looks_like_short_option(const char *word)
{
    const char c = word[0] == '-' ? word[1] : '\0';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int parse_words(cli_args *args, int argc, char *const *argv)
{
    bool only_arguments = false;
    for (int at = 0; at < argc; at++) {
        const char *word = argv[at];
        int code = CLI_OK;
        if (only_arguments || word[0] != '-')
            args->arguments[args->argument_count++] = word;
        else if (strcmp(word, "--") == 0)
            only_arguments = true;
        else if (strncmp(word, "--", 2) == 0)
            code = parse_option(args, argc, argv, &at);
        else if (strcmp(word, "-h") == 0)
            code = add_option(args, CLI_OPT_HELP, "");
        else if (looks_like_short_option(word))
            code = cli_usage(args->command, "unknown option %s; options start with --", word);
        else
            args->arguments[args->argument_count++] = word;
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int check_arguments(const cli_args *args)
{
    const cli_command *command = args->command;
    if (cli_has(args, CLI_OPT_HELP))
        return CLI_OK;
    if (args->argument_count < command->argument_min)
        return cli_usage(command, "%s needs %s", command->name, command->arguments);
    if (args->argument_count > command->argument_max)
        return cli_usage(command, "unexpected argument '%s'",
                         args->arguments[command->argument_max]);
    return CLI_OK;
}

int cli_args_parse(const cli_command *command, int argc, char *const *argv, cli_args *args)
{
    const size_t words = argc > 0 ? (size_t)argc : 0;
    *args = (cli_args){.command = command};
    args->arguments = cli_alloc((words + 1) * sizeof *args->arguments);
    args->given = cli_alloc((words + 1) * sizeof *args->given);
    const int code = parse_words(args, argc, argv);
    return code == CLI_OK ? check_arguments(args) : code;
}

void cli_args_free(cli_args *args)
{
    free(args->arguments);
    free(args->given);
    *args = (cli_args){0};
}

/* ---- reading ---- */

bool cli_has(const cli_args *args, cli_option_id id)
{
    return cli_count(args, id) > 0;
}

const char *cli_value(const cli_args *args, cli_option_id id)
{
    return cli_has(args, id) ? cli_nth(args, id, 0) : NULL;
}

size_t cli_count(const cli_args *args, cli_option_id id)
{
    size_t count = 0;
    for (size_t i = 0; i < args->given_count; i++)
        count += args->given[i].id == id;
    return count;
}

const char *cli_nth(const cli_args *args, cli_option_id id, size_t nth)
{
    for (size_t i = 0; i < args->given_count; i++) {
        if (args->given[i].id == id && nth-- == 0)
            return args->given[i].value;
    }
    return NULL;
}

int64_t cli_integer(const cli_args *args, cli_option_id id, int64_t fallback)
{
    const char *text = cli_value(args, id);
    return text ? read_count(text) : fallback;
}

size_t cli_split(const char *value)
{
    return strcspn(value, "=");
}
