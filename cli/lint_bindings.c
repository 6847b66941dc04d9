/* SPDX-License-Identifier: Apache-2.0
 *
 * What is declared and never used.
 */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "lint.h"

static const char *text_of(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text ? text : "";
}

static json_t *variants_of(const cli_lint *lint)
{
    return json_object_get(lint->source.contract, "variants");
}

/* ---- entries of the top-level bindings ---- */

/* The strings in the "bindings" lists of the manifest's passes, families included. */
static void collect_handles(const json_t *value, json_t *handles, bool inside, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    if (depth > 64)
        return;
    if (inside && json_is_string(value))
        json_object_set_new(handles, json_string_value(value), json_true());
    json_array_foreach(value, i, member) collect_handles(member, handles, inside, depth + 1);
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
        collect_handles(member, handles, inside || strcmp(key, "bindings") == 0, depth + 1);
}

/* A family may put names together (format 2.A.10): then nobody knows without expanding it. */
static bool has_substitution(const json_t *handles)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)handles, name, value)
    {
        if (strchr(name, '{'))
            return true;
    }
    return false;
}

static void find_unused_handles(cli_lint *lint)
{
    const char *name;
    json_t *entry, *handles = json_object();
    json_t *entries = json_object_get(lint->manifest, "bindings");
    collect_handles(json_object_get(lint->manifest, "variants"), handles, false, 0);
    json_object_foreach(entries, name, entry)
    {
        if (json_object_get(handles, name) || has_substitution(handles))
            continue;
        char *path = cli_format("bindings.%s", name);
        cli_lint_add(lint, CLI_LINT_UNUSED_BINDING, path, "no pass lists \"%s\"", name);
        free(path);
    }
    json_decref(handles);
}

/* ---- bindings and fields against the shader's text ---- */

/* "a{{ i }}" makes names that the text does not hold. */
static bool pastes_names(const char *text)
{
    for (const char *at = strstr(text, "{{"); at; at = strstr(at + 1, "{{")) {
        const char before = at > text ? at[-1] : ' ';
        if ((before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') || before == '_')
            return true;
    }
    return false;
}

static void check_fields(cli_lint *lint, const json_t *binding, const char *text, const char *path)
{
    size_t i;
    json_t *field;
    json_array_foreach(json_object_get(binding, "struct"), i, field)
    {
        const char *name = text_of(field, "name");
        if (cli_text_names(text, name))
            continue;
        char *here = cli_format("%s.struct[%zu]", path, i);
        cli_lint_add(lint, CLI_LINT_UNUSED_FIELD, here, "the shader does not name \"%s\"", name);
        free(here);
    }
}

static void check_bindings(cli_lint *lint, const json_t *variant, const json_t *pass,
                           const char *path)
{
    size_t i;
    json_t *binding;
    char *text = cli_lint_template_text(lint, variant);
    json_array_foreach(json_object_get(pass, "bindings"), i, binding)
    {
        const char *name = text_of(binding, "name");
        char *here = cli_format("%s.bindings[%zu]", path, i);
        if (pastes_names(text))
            ;
        else if (cli_text_names(text, name))
            check_fields(lint, binding, text, here);
        else
            cli_lint_add(lint, CLI_LINT_UNUSED_BINDING, here,
                         "\"%s\" of variant \"%s\" is bound, and %s does not name it", name,
                         text_of(variant, "id"), text_of(pass, "shader"));
        free(here);
    }
    free(text);
}

/* ---- tensors and scratch ---- */

/* Does some pass below `value` bind this name? */
static bool is_bound(const json_t *value, const char *name, int depth)
{
    static const char *const members[] = {"scratch", "arg", "name"};
    const char *key;
    json_t *member;
    size_t i;
    if (depth > 64)
        return false;
    json_array_foreach(json_object_get(value, "bindings"), i, member)
    {
        for (size_t k = 0; k < CLI_LENGTH(members); k++) {
            if (strcmp(text_of(member, members[k]), name) == 0)
                return true;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (strcmp(key, "passes") != 0 && strcmp(key, "variants") != 0)
            continue;
        for (i = 0; i < json_array_size(member); i++) {
            if (is_bound(json_array_get(member, i), name, depth + 1))
                return true;
        }
    }
    return false;
}

static void find_unused_intermediates(cli_lint *lint, const json_t *variant, size_t index)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(variant, "intermediates"), i, item)
    {
        const char *id = text_of(item, "id");
        if (is_bound(variant, id, 0))
            continue;
        char *path = cli_format("variants[%zu].intermediates[%zu]", index, i);
        cli_lint_add(lint, CLI_LINT_UNUSED_INTERMEDIATE, path,
                     "no pass of variant \"%s\" binds \"%s\"", text_of(variant, "id"), id);
        free(path);
    }
}

static void find_unused_ports(cli_lint *lint, const char *section)
{
    const char *key;
    json_t *port;
    json_object_foreach(json_object_get(lint->source.contract, section), key, port)
    {
        if (json_object_get(lint->used, key) || is_bound(lint->source.contract, key, 0))
            continue;
        char *path = cli_format("%s.%s", section, key);
        cli_lint_add(lint, CLI_LINT_UNUSED_PORT, path, "no pass binds \"%s\"", key);
        free(path);
    }
}

void cli_lint_bindings(cli_lint *lint)
{
    size_t i;
    json_t *variant;
    find_unused_handles(lint);
    find_unused_ports(lint, "inputs");
    find_unused_ports(lint, "outputs");
    json_array_foreach(variants_of(lint), i, variant)
    {
        find_unused_intermediates(lint, variant, i);
        if (lint->source.templates)
            cli_lint_each_pass(lint, variant, i, check_bindings);
    }
}

/* ---- names that nothing reads ---- */

static void check_names(cli_lint *lint, const json_t *owner, const char *prefix,
                        const char *section, cli_lint_rule rule)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(owner, section), name, value)
    {
        if (json_object_get(lint->used, name))
            continue;
        char *path = cli_format("%s%s.%s", prefix, section, name);
        cli_lint_add(lint, rule, path, "nothing reads \"%s\"", name);
        free(path);
    }
}

static void check_pass_derives(cli_lint *lint, const json_t *variant, const json_t *pass,
                               const char *path)
{
    char *prefix = cli_format("%s.", path);
    (void)variant;
    check_names(lint, pass, prefix, "derive", CLI_LINT_UNUSED_DERIVE);
    free(prefix);
}

/* An attribute that has only one legal value need not be read. */
static void check_attributes(cli_lint *lint)
{
    const char *name;
    json_t *attribute;
    const json_t *rules = json_object_get(lint->source.contract, "attributeConstraints");
    json_object_foreach(json_object_get(lint->source.contract, "attributes"), name, attribute)
    {
        const json_t *values = json_object_get(json_object_get(rules, name), "values");
        if (json_object_get(lint->used, name) || json_array_size(values) == 1)
            continue;
        char *path = cli_format("attributes.%s", name);
        cli_lint_add(lint, CLI_LINT_UNUSED_NAME, path, "nothing reads \"%s\"", name);
        free(path);
    }
}

void cli_lint_names(cli_lint *lint)
{
    size_t i;
    json_t *variant;
    const json_t *contract = lint->source.contract;
    check_names(lint, contract, "", "args", CLI_LINT_UNUSED_NAME);
    check_names(lint, contract, "", "tunables", CLI_LINT_UNUSED_NAME);
    check_attributes(lint);
    if (lint->indirect)
        return;
    check_names(lint, contract, "", "derive", CLI_LINT_UNUSED_DERIVE);
    json_array_foreach(variants_of(lint), i, variant)
    {
        char *prefix = cli_format("variants[%zu].", i);
        check_names(lint, variant, prefix, "derive", CLI_LINT_UNUSED_DERIVE);
        check_names(lint, variant, prefix, "tunables", CLI_LINT_UNUSED_NAME);
        cli_lint_each_pass(lint, variant, i, check_pass_derives);
        free(prefix);
    }
}
