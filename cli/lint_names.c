/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names the texts of a package read. Words inside quotes count too: better silent than wrong.
 */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "lint.h"

#define DEPTH_LIMIT 64

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool cli_text_names(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = strstr(text, name); at && length; at = strstr(at + 1, name)) {
        if ((at == text || !is_word_char(at[-1])) && !is_word_char(at[length]))
            return true;
    }
    return false;
}

static void add_words(json_t *words, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t end = at;
        while (end < length && is_word_char(text[end]))
            end++;
        if (end > at) {
            char *word = cli_dup(text + at, end - at);
            json_object_set_new(words, word, json_true());
            free(word);
        }
        at = end > at ? end : at + 1;
    }
}

/* What stands in {{ }} and {% %}. */
static void add_template_words(json_t *words, const char *text)
{
    for (const char *at = strchr(text, '{'); at; at = strchr(at, '{')) {
        const char *end = at[1] == '{'   ? strstr(at + 2, "}}")
                          : at[1] == '%' ? strstr(at + 2, "%}")
                                         : NULL;
        if (end)
            add_words(words, at + 2, (size_t)(end - at - 2));
        at = end ? end : at + 1;
    }
}

/* Members whose strings are names or prose, not expressions. */
static bool is_prose(const char *key)
{
    static const char *const keys[] = {
        "description", "id", "name",    "shader", "structName", "arg",       "scratch", "buffer",
        "dtype",       "op", "dialect", "domain", "onnx",       "directory", "digest",  "features",
    };
    for (size_t i = 0; i < CLI_LENGTH(keys); i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    return false;
}

static void add_expression_words(cli_lint *lint, const json_t *value, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        add_words(lint->used, text, strlen(text));
        lint->indirect = lint->indirect || strstr(text, "derive[");
    }
    if (depth > DEPTH_LIMIT)
        return;
    json_array_foreach(value, i, member) add_expression_words(lint, member, depth + 1);
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!json_is_string(member) || !is_prose(key))
            add_expression_words(lint, member, depth + 1);
    }
}

void cli_lint_collect_names(cli_lint *lint)
{
    const char *path;
    json_t *text;
    add_expression_words(lint, lint->source.contract, 0);
    json_object_foreach(lint->texts, path, text)
    {
        add_template_words(lint->used, json_string_value(text));
        lint->indirect = lint->indirect || strstr(json_string_value(text), "derive[");
    }
}

/* ---- a text and what it reads ---- */

typedef struct closure {
    char *text;
    json_t *seen;
    const json_t *derives[3]; /* of manifest, variant and pass */
} closure;

static void append_text(closure *c, const char *text)
{
    char *longer = cli_format("%s\n%s", c->text, text);
    free(c->text);
    c->text = longer;
}

static void append_value(closure *c, const json_t *value, int depth);

/* Add the derives that the text names; a name is followed once. */
static void follow(closure *c, const char *text, int depth)
{
    const char *name;
    json_t *value;
    for (size_t i = 0; i < CLI_LENGTH(c->derives); i++) {
        json_object_foreach((json_t *)(uintptr_t)c->derives[i], name, value)
        {
            if (json_object_get(c->seen, name) || !cli_text_names(text, name))
                continue;
            json_object_set_new(c->seen, name, json_true());
            append_value(c, value, depth + 1);
        }
    }
}

static void append_value(closure *c, const json_t *value, int depth)
{
    if (depth > DEPTH_LIMIT)
        return;
    char *dumped = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    const char *text = dumped ? dumped : json_string_value(value);
    if (text) {
        append_text(c, text);
        follow(c, text, depth);
    }
    free(dumped);
}

static closure open_closure(const cli_lint *lint, const json_t *variant, const json_t *pass)
{
    closure c = {.text = cli_dup("", 0), .seen = json_object()};
    c.derives[0] = json_object_get(lint->source.contract, "derive");
    c.derives[1] = json_object_get(variant, "derive");
    c.derives[2] = json_object_get(pass, "derive");
    return c;
}

char *cli_lint_guards(const cli_lint *lint, const json_t *variant)
{
    size_t i;
    json_t *clause;
    closure c = open_closure(lint, NULL, NULL); /* conditions do not see variant derives (2.A.7) */
    json_array_foreach(json_object_get(variant, "when"), i, clause) append_value(&c, clause, 0);
    json_decref(c.seen);
    return c.text;
}

char *cli_lint_element_text(const cli_lint *lint, const json_t *variant, const json_t *pass,
                            const char *element)
{
    closure c = open_closure(lint, variant, pass);
    append_text(&c, element);
    if (element[0] == '$') {
        const json_t *dtypes =
            json_object_get(json_object_get(lint->source.contract, "typeConstraints"), element + 1);
        follow(&c, element + 1, 0);
        if (dtypes)
            append_value(&c, dtypes, 0);
    }
    json_decref(c.seen);
    return c.text;
}

char *cli_lint_statements(const cli_lint *lint, const json_t *variant, const char *text)
{
    closure c = open_closure(lint, variant, NULL);
    for (const char *at = strstr(text, "{%"); at; at = strstr(at + 2, "{%")) {
        const char *end = strstr(at, "%}");
        char *statement = cli_dup(at, end ? (size_t)(end - at) : strlen(at));
        append_text(&c, statement);
        follow(&c, statement, 0);
        free(statement);
    }
    json_decref(c.seen);
    return c.text;
}

char *cli_lint_template_text(const cli_lint *lint, const json_t *variant)
{
    size_t i;
    json_t *path;
    char *all = cli_dup("", 0);
    const char *id = json_string_value(json_object_get(variant, "id"));
    json_array_foreach(json_object_get(lint->source.templates, id ? id : ""), i, path)
    {
        const char *text = json_string_value(json_object_get(lint->texts, json_string_value(path)));
        char *longer = cli_format("%s%s\n", all, text ? text : "");
        free(all);
        all = longer;
    }
    return all;
}

/* ---- passes ---- */

static void each_pass(cli_lint *lint, const json_t *variant, const json_t *passes, const char *path,
                      int depth, cli_lint_visit *visit)
{
    size_t i;
    json_t *pass;
    json_array_foreach(passes, i, pass)
    {
        char *here = cli_format("%s.passes[%zu]", path, i);
        if (json_object_get(pass, "repeat") && depth < DEPTH_LIMIT)
            each_pass(lint, variant, json_object_get(pass, "passes"), here, depth + 1, visit);
        else
            visit(lint, variant, pass, here);
        free(here);
    }
}

void cli_lint_each_pass(cli_lint *lint, const json_t *variant, size_t index, cli_lint_visit *visit)
{
    char *path = cli_format("variants[%zu]", index);
    each_pass(lint, variant, json_object_get(variant, "passes"), path, 0, visit);
    free(path);
}
