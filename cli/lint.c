/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the rules, and a finding by one of them.
 */
#include "lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct rule_row {
    const char *name;
    const char *severity;
    const char *text;
} rule_row;

#define ERROR   "error"
#define WARNING "warning"
static const rule_row rules[CLI_LINT_RULE_COUNT] = {
#define XX(id, name, severity, text) [CLI_LINT_##id] = {name, severity, text},
    CLI_LINT_MAP(XX)
#undef XX
};

void cli_lint_add(cli_lint *lint, cli_lint_rule rule, const char *path, const char *format, ...)
{
    va_list args;
    char message[2048];
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    json_t *finding = json_object();
    json_object_set_new(finding, "rule", json_string(rules[rule].name));
    json_object_set_new(finding, "severity", json_string(rules[rule].severity));
    json_object_set_new(finding, "path", cli_json_text(path));
    json_object_set_new(finding, "message", cli_json_text(message));
    json_array_append_new(lint->findings, finding);
    if (strcmp(rules[rule].severity, ERROR) == 0)
        lint->errors++;
    else
        lint->warnings++;
}

int cli_lint_print_rules(cli_session *session)
{
    json_t *list = json_array();
    for (size_t i = 0; i < CLI_LENGTH(rules); i++) {
        json_t *row = json_object();
        json_object_set_new(row, "rule", json_string(rules[i].name));
        json_object_set_new(row, "severity", json_string(rules[i].severity));
        json_object_set_new(row, "text", json_string(rules[i].text));
        json_array_append_new(list, row);
        if (!session->json)
            printf("%-20s %-8s %s\n", rules[i].name, rules[i].severity, rules[i].text);
    }
    json_t *object = json_object();
    json_object_set_new(object, "rules", list);
    if (session->json)
        return cli_print_json(object);
    json_decref(object);
    return CLI_OK;
}
