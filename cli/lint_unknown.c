/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that the expressions of a package read and nothing gives. The planner finds them when a
 * call comes that far; a condition that fails only passes its variant over.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "lint.h"

#define DEPTH_LIMIT 64

/* Namespaces of every scope (format 3.6), and the helpers that only the list style has. */
static const char *const namespaces[] = {
    "shapes", "ranks",     "tensorDtypes", "logicalDtypes", "dtypes",     "present",
    "args",   "attrs",     "device",       "repeat",        "tunables",   "derive",
    "env",    "constants", "rank",         "cols",          "f16Allowed", "DISPATCH_FOLD_WIDTH",
};

/* Format D.1 knows them without a default. */
static const char *const other_limits[] = {
    "maxStorageBuffersInVertexStage",
    "maxStorageBuffersInFragmentStage",
    "maxStorageTexturesInVertexStage",
    "maxStorageTexturesInFragmentStage",
};

static const char *const adapter_members[] = {
    "vendor",          "architecture",    "isFallbackAdapter",
    "subgroupMinSize", "subgroupMaxSize", "subgroupMatrixConfigs"};

/* What may be read where: sets of names, as objects. */
typedef struct knowledge {
    cli_lint *lint;
    char *names;     /* bare names, as the text of a scope */
    json_t *members; /* "attrs" -> its members */
    json_t *done; /* texts that were checked: conditions of the manifest stand in every variant */
} knowledge;

/* ---- what is known ---- */

static void add_name(json_t *set, const char *name)
{
    json_object_set_new(set, name, json_true());
}

static void add_list(json_t *set, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_name(set, names[i]);
}

static void add_keys(json_t *set, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) add_name(set, name);
}

/* A tensor is found by its bind key and by its ONNX name. */
static void add_ports(json_t *set, const json_t *ports)
{
    const char *key;
    json_t *port;
    json_object_foreach((json_t *)(uintptr_t)ports, key, port)
    {
        const char *onnx = json_string_value(json_object_get(port, "onnx"));
        add_name(set, key);
        if (onnx)
            add_name(set, onnx);
    }
}

/* Every member `section` anywhere below: derives, constants and tunables of variants and passes. A
 * name of one variant counts as known in another: better silent than wrong. */
static void add_sections(json_t *set, const json_t *value, const char *section, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    if (depth > DEPTH_LIMIT)
        return;
    add_keys(set, json_object_get(value, section));
    json_array_foreach(value, i, member) add_sections(set, member, section, depth + 1);
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
        add_sections(set, member, section, depth + 1);
}

static json_t *limit_names(const cli_lint *lint)
{
    json_t *set = json_object(), *record = NULL;
    nib_error ignored;
    nib_caps *caps = NULL;
    char *text = NULL;
    if (nib_caps_parse(lint->session->context, NULL, &caps, &ignored) == NIB_OK &&
        nib_caps_json(caps, &text, &ignored) == NIB_OK)
        record = json_loads(text, 0, NULL);
    add_keys(set, json_object_get(record, "limits"));
    add_list(set, other_limits, CLI_LENGTH(other_limits));
    json_decref(record);
    nib_text_free(lint->session->context, text);
    nib_caps_free(caps);
    return set;
}

static void learn_members(knowledge *k)
{
    const json_t *contract = k->lint->source.contract;
    json_t *attributes = json_object(), *tunables = json_object(), *ports = json_object();
    json_t *limits = limit_names(k->lint), *adapter = json_object();
    add_keys(attributes, json_object_get(contract, "attributes"));
    add_sections(tunables, contract, "tunables", 0);
    add_ports(ports, json_object_get(contract, "inputs"));
    add_ports(ports, json_object_get(contract, "outputs"));
    add_list(adapter, adapter_members, CLI_LENGTH(adapter_members));
    json_object_set_new(k->members, "attrs", attributes);
    json_object_set_new(k->members, "tunables", tunables);
    json_object_set_new(k->members, "device.limits", limits);
    json_object_set_new(k->members, "device.adapterInfo", adapter);
    /* Ports of the list style have more names. */
    if (strcmp(json_string_value(json_object_get(contract, "dialect")), "map") == 0) {
        json_object_set(k->members, "shapes", ports);
        json_object_set(k->members, "ranks", ports);
        json_object_set(k->members, "tensorDtypes", ports);
    }
    json_decref(ports);
}

static knowledge learn(cli_lint *lint)
{
    json_t *names = json_object();
    knowledge k = {.lint = lint, .members = json_object(), .done = json_object()};
    add_list(names, namespaces, CLI_LENGTH(namespaces));
    add_sections(names, lint->source.contract, "derive", 0);
    add_sections(names, lint->manifest, "constants", 0);
    add_sections(names, lint->source.contract, "constants", 0);
    k.names = json_dumps(names, 0);
    json_decref(names);
    learn_members(&k);
    return k;
}

/* ---- one expression ---- */

static void report(knowledge *k, const char *path, const char *name, const char *text)
{
    cli_lint_add(k->lint, CLI_LINT_UNKNOWN_NAME, path, "nothing gives \"%s\", read by `%s`", name,
                 text);
}

/* The evaluator looks at all free names before it computes; what it computes here is of no use. */
static void check_free_names(knowledge *k, const char *path, const char *text)
{
    static const char words[] = "unknown name \"";
    char *value = NULL;
    nib_error error = {0};
    const nib_status status =
        nib_expression_eval(k->lint->session->context, text, k->names, &value, &error);
    if (status == NIB_EVAL && strncmp(error.message, words, sizeof words - 1) == 0) {
        char *name = cli_dup(error.message + sizeof words - 1,
                             strcspn(error.message + sizeof words - 1, "\""));
        report(k, path, name, text);
        free(name);
    }
    nib_text_free(k->lint->session->context, value);
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* What stands in quotes is no name. free() it. */
static char *without_texts(const char *text)
{
    char *copy = cli_dup(text, strlen(text));
    char quote = '\0';
    for (char *at = copy; *at; at++) {
        if (!quote && (*at == '"' || *at == '\'')) {
            quote = *at;
        } else if (quote) {
            const bool ends = *at == quote;
            if (*at == '\\' && at[1])
                *at++ = ' ';
            *at = ends ? *at : ' ';
            quote = ends ? '\0' : quote;
        }
    }
    return copy;
}

/* attrs.NAME and the like. A method call is none. */
static void check_members(knowledge *k, const char *path, const char *text, const char *space,
                          const json_t *known)
{
    char *plain = without_texts(text);
    const size_t length = strlen(space);
    for (const char *at = strstr(plain, space); at; at = strstr(at + 1, space)) {
        const char *name = at + length + 1;
        size_t size = 0;
        if ((at > plain && (is_word_char(at[-1]) || at[-1] == '.')) || at[length] != '.')
            continue;
        while (is_word_char(name[size]))
            size++;
        char *member = cli_dup(name, size);
        if (size && name[strspn(name + size, " ") + size] != '(' &&
            !json_object_get(known, member)) {
            char *full = cli_format("%s.%s", space, member);
            report(k, path, full, text);
            free(full);
        }
        free(member);
    }
    free(plain);
}

static void check_expression(knowledge *k, const char *path, const char *text)
{
    const char *space;
    json_t *known;
    if (json_object_get(k->done, text))
        return;
    add_name(k->done, text);
    check_free_names(k, path, text);
    json_object_foreach(k->members, space, known) check_members(k, path, text, space, known);
}

/* ---- all expressions ---- */

/* Every text below is an expression. */
static void check_value(knowledge *k, const char *path, const json_t *value, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    if (json_is_string(value))
        check_expression(k, path, json_string_value(value));
    if (depth > DEPTH_LIMIT)
        return;
    json_array_foreach(value, i, member)
    {
        char *inner = cli_format("%s[%zu]", path, i);
        check_value(k, inner, member, depth + 1);
        free(inner);
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        char *inner = cli_format("%s.%s", path, key);
        check_value(k, inner, member, depth + 1);
        free(inner);
    }
}

static void check_sections(knowledge *k, const char *path, const json_t *owner)
{
    static const char *const sections[] = {"derive", "when", "demoteWhen", "dispatch"};
    for (size_t i = 0; i < CLI_LENGTH(sections); i++) {
        char *inner = cli_format("%s%s%s", path, path[0] ? "." : "", sections[i]);
        check_value(k, inner, json_object_get(owner, sections[i]), 0);
        free(inner);
    }
}

static void check_passes(knowledge *k, const char *path, const json_t *owner, int depth)
{
    size_t i;
    json_t *pass;
    json_array_foreach(json_object_get(owner, "passes"), i, pass)
    {
        char *inner = cli_format("%s.passes[%zu]", path, i);
        check_sections(k, inner, pass);
        if (depth < DEPTH_LIMIT)
            check_passes(k, inner, pass, depth + 1);
        free(inner);
    }
}

void cli_lint_unknown(cli_lint *lint)
{
    size_t i;
    json_t *variant;
    knowledge k = learn(lint);
    check_sections(&k, "", lint->manifest); /* its conditions where they are written */
    check_sections(&k, "", lint->source.contract);
    json_array_foreach(json_object_get(lint->source.contract, "variants"), i, variant)
    {
        char *path = cli_format("variants[%zu]", i);
        check_sections(&k, path, variant);
        check_passes(&k, path, variant, 0);
        free(path);
    }
    free(k.names);
    json_decref(k.members);
    json_decref(k.done);
}
