/* SPDX-License-Identifier: Apache-2.0
 *
 * nibble lint: mistakes in a package, with the place and the rule.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "files.h"
#include "lint.h"
#include "tree.h"

/* ---- files ---- */

static void read_texts(cli_lint *lint)
{
    nib_error ignored;
    for (size_t i = 0; i < lint->source.file_count; i++) {
        char *text = NULL;
        char *path = cli_format("%s/%s", lint->source.folder, lint->source.files[i]);
        size_t count;
        if (cli_read_bytes(path, CLI_PACKAGE_FILE_LIMIT, &text, &count, &ignored) == NIB_OK)
            json_object_set_new(lint->texts, lint->source.files[i], cli_json_text(text));
        free(text);
        free(path);
    }
}

static bool is_listed(const json_t *templates, const char *name)
{
    const char *variant;
    json_t *paths, *path;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)templates, variant, paths)
    {
        json_array_foreach(paths, i, path)
        {
            if (strcmp(json_string_value(path), name) == 0)
                return true;
        }
    }
    return false;
}

static void find_unused_templates(cli_lint *lint)
{
    for (size_t i = 0; i < lint->source.file_count; i++) {
        const char *name = lint->source.files[i];
        if (!is_listed(lint->source.templates, name))
            cli_lint_add(lint, CLI_LINT_UNUSED_TEMPLATE, name, "no variant reads the file");
    }
}

/* metadata.json is right when packing would not change it. */
static void check_metadata(cli_lint *lint)
{
    nib_error error;
    char *text = NULL, *have = NULL;
    char *path = cli_format("%s/metadata.json", lint->source.folder);
    size_t count;
    json_t *old = json_load_file(path, 0, NULL), *wanted = NULL;
    if (!cli_is_plain_file(path))
        cli_lint_add(lint, CLI_LINT_METADATA, "metadata.json",
                     "the file is missing; nibble pack writes it");
    else if (cli_read_bytes(path, CLI_PACKAGE_JSON_LIMIT, &have, &count, &error) != NIB_OK ||
             cli_pack_text(&lint->source, json_is_object(old) ? old : NULL, 0, &text, &error) !=
                 NIB_OK)
        cli_lint_add(lint, CLI_LINT_METADATA, "metadata.json", "%s", error.message);
    else if (!json_equal(old, wanted = json_loads(text, 0, NULL)))
        cli_lint_add(lint, CLI_LINT_METADATA, "metadata.json",
                     "the file is out of date; nibble pack writes it");
    json_decref(wanted);
    json_decref(old);
    free(text);
    free(have);
    free(path);
}

/* ---- all rules ---- */

/* A failure of the library as a finding: at the JSON path if it has one, else in the file. */
static void add_error(cli_lint *lint, cli_lint_rule rule, const nib_error *error)
{
    const char *slash = strrchr(error->source, '/');
    const char *file = slash ? slash + 1 : error->source;
    char *place = error->path[0] ? cli_format("%s", error->path)
                  : error->line  ? cli_format("%s:%u:%u", file, error->line, error->column)
                                 : cli_format("%s", file);
    cli_lint_add(lint, rule, place, "%s", error->message);
    free(place);
}

static void check_package(cli_lint *lint)
{
    nib_error error = {0};
    lint->manifest = json_load_file(lint->source.manifest, 0, NULL);
    read_texts(lint);
    cli_lint_collect_names(lint);
    if (cli_source_read_templates(lint->session, &lint->source, &error) == NIB_OK) {
        find_unused_templates(lint);
        check_metadata(lint);
    } else {
        add_error(lint, CLI_LINT_TEMPLATE, &error);
    }
    cli_lint_unknown(lint);
    cli_lint_variants(lint);
    cli_lint_shaders(lint);
    cli_lint_bindings(lint);
    cli_lint_names(lint);
    cli_lint_cases(lint);
}

static int print_findings(const cli_lint *lint)
{
    size_t i;
    json_t *finding;
    json_array_foreach(lint->findings, i, finding)
    {
        static const char *const members[] = {"severity", "rule", "path", "message"};
        static const char *const after[] = {" [", "] ", ": ", "\n"};
        for (size_t k = 0; k < CLI_LENGTH(members); k++) {
            cli_print_clean(stdout, json_string_value(json_object_get(finding, members[k])));
            fputs(after[k], stdout);
        }
    }
    printf("%zu errors, %zu warnings\n", lint->errors, lint->warnings);
    return lint->errors ? CLI_FAILED : CLI_OK;
}

static int report(cli_lint *lint)
{
    if (!lint->session->json)
        return print_findings(lint);
    json_t *object = json_object();
    if (lint->source.package)
        json_object_set_new(object, "op", cli_json_text(nib_package_op(lint->source.package)));
    json_object_set_new(object, "errors", json_integer((json_int_t)lint->errors));
    json_object_set_new(object, "warnings", json_integer((json_int_t)lint->warnings));
    json_object_set(object, "findings", lint->findings);
    cli_print_json(object);
    return lint->errors ? CLI_FAILED : CLI_OK;
}

static int run_lint(cli_session *session)
{
    nib_error error = {0};
    cli_lint lint = {.session = session};
    if (cli_has(&session->args, CLI_OPT_RULES))
        return cli_lint_print_rules(session);
    if (session->args.argument_count == 0)
        return cli_usage(session->args.command, "lint needs DIR");
    lint.findings = json_array();
    lint.texts = json_object();
    lint.used = json_object();
    int code;
    if (cli_source_load(session, session->args.arguments[0], &lint.source, &error) == NIB_OK)
        check_package(&lint);
    else if (lint.source.manifest && cli_is_plain_file(lint.source.manifest))
        add_error(&lint, CLI_LINT_CONTRACT, &error);
    if (error.code != NIB_OK && !lint.errors)
        code = cli_fail(session, &error);
    else
        code = report(&lint);
    json_decref(lint.manifest);
    json_decref(lint.texts);
    json_decref(lint.used);
    json_decref(lint.findings);
    cli_source_free(&lint.source);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_RULES,
    CLI_OPT_JSON,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
};

const cli_command cli_command_lint = {
    .name = "lint",
    .arguments = "DIR",
    .summary = "find mistakes in a package",
    .details = "Look for mistakes that the format allows: what is declared and never used, "
               "variants that are "
               "never chosen, features that a shader needs and nothing asks for, test cases that "
               "name what "
               "is not there. One line a finding: severity, rule, place, and what is wrong. The "
               "exit code is "
               "1 when there is an error; warnings alone give 0.",
    .argument_min = 0,
    .argument_max = 1,
    .run = run_lint,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
