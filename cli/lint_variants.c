/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants that are never chosen, and variants that are chosen where they cannot work.
 */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "lint.h"

#define COMMON_STORAGE_BUFFERS 8

static const char *text_of(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text ? text : "";
}

static json_t *variants_of(const cli_lint *lint)
{
    return json_object_get(lint->source.contract, "variants");
}

/* ---- constant conditions ---- */

/* The value of an expression that reads nothing but `scope`; NULL when it reads more. A name
 * without a value fails even in a branch that is not taken (format 3.6), so success means it is
 * constant. */
static json_t *constant_value(const cli_lint *lint, const char *expression, const json_t *scope)
{
    char *text = NULL;
    nib_error ignored;
    if (cli_text_names(expression, "f16Ok") || cli_text_names(expression, "f16Allowed") ||
        cli_text_names(expression, "defined") || cli_text_names(expression, "undefined"))
        return NULL; /* the device decides, or the absence of a name does */
    char *names = json_dumps(scope, 0);
    json_t *value = NULL;
    if (nib_expression_eval(lint->session->context, expression, names, &text, &ignored) == NIB_OK)
        value =
            strcmp(text, "undefined") == 0 ? json_null() : json_loads(text, JSON_DECODE_ANY, NULL);
    nib_text_free(lint->session->context, text);
    free(names);
    return value;
}

/* The manifest's derives that are the same for every call. */
static json_t *constant_derives(const cli_lint *lint)
{
    const char *name;
    json_t *value, *scope = json_object();
    json_object_foreach(json_object_get(lint->source.contract, "derive"), name, value)
    {
        json_t *constant =
            json_is_string(value) ? constant_value(lint, json_string_value(value), scope) : NULL;
        if (json_is_number(value) || json_is_boolean(value))
            constant = json_incref(value);
        if (constant)
            json_object_set_new(scope, name, constant);
    }
    return scope;
}

/* "x" and "not x" */
static bool contradicts(const char *a, const char *b)
{
    return strncmp(b, "not ", 4) == 0 && strcmp(a, b + 4 + strspn(b + 4, " ")) == 0 &&
           !strpbrk(a, " ");
}

/* The reason why a variant's conditions can never all hold, or NULL; free() it. */
static char *impossible(const cli_lint *lint, const json_t *variant, const json_t *constants,
                        size_t *clause)
{
    size_t i, k;
    json_t *a, *b;
    const json_t *when = json_object_get(variant, "when");
    json_array_foreach(when, i, a)
    {
        json_t *value = constant_value(lint, json_string_value(a), constants);
        const bool never = value && !json_is_true(value);
        char *shown = never ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
        char *reason = never ? cli_format("`%s` is always %s", json_string_value(a), shown) : NULL;
        free(shown);
        json_decref(value);
        *clause = i;
        json_array_foreach(when, k, b)
        {
            if (!reason && contradicts(json_string_value(a), json_string_value(b)))
                reason = cli_format("`%s` and `%s` exclude each other", json_string_value(a),
                                    json_string_value(b));
        }
        if (reason)
            return reason;
    }
    return NULL;
}

/* ---- variants that stand behind another one ---- */

static void count_buffers(const json_t *passes, size_t *storage, size_t *uniforms)
{
    size_t i, k;
    json_t *pass, *binding;
    json_array_foreach(passes, i, pass)
    {
        size_t here[2] = {0, 0};
        json_array_foreach(json_object_get(pass, "bindings"), k, binding)
            here[strcmp(text_of(binding, "buffer"), "uniform") == 0]++;
        *storage = here[0] > *storage ? here[0] : *storage;
        *uniforms = here[1] > *uniforms ? here[1] : *uniforms;
        count_buffers(json_object_get(pass, "passes"), storage, uniforms);
    }
}

static size_t storage_buffers(const json_t *variant)
{
    size_t storage = 0, uniforms = 0;
    count_buffers(json_object_get(variant, "passes"), &storage, &uniforms);
    return storage;
}

static bool fits_where(const json_t *a, const json_t *b)
{
    size_t a_storage = 0, a_uniforms = 0, b_storage = 0, b_uniforms = 0;
    count_buffers(json_object_get(a, "passes"), &a_storage, &a_uniforms);
    count_buffers(json_object_get(b, "passes"), &b_storage, &b_uniforms);
    return a_storage <= b_storage && a_uniforms <= b_uniforms;
}

/* Every element of list a stands in list b. */
static bool is_subset(const json_t *a, const json_t *b)
{
    size_t i, k;
    json_t *item, *other;
    json_array_foreach(a, i, item)
    {
        bool found = false;
        json_array_foreach(b, k, other) found = found || json_equal(item, other);
        if (!found)
            return false;
    }
    return true;
}

/* Every device that satisfies b's requirements satisfies a's. */
static bool needs_no_more(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *limit;
    const json_t *b_limits = json_object_get(b, "limits");
    json_object_foreach(json_object_get(a, "limits"), name, limit)
    {
        const json_t *other = json_object_get(b_limits, name);
        if (!other || json_number_value(other) < json_number_value(limit))
            return false;
    }
    const json_t *a_matrix = json_object_get(a, "subgroupMatrixConfigs");
    return is_subset(json_object_get(a, "features"), json_object_get(b, "features")) &&
           json_number_value(json_object_get(a, "subgroupMinSize")) <=
               json_number_value(json_object_get(b, "subgroupMinSize")) &&
           (!a_matrix || json_equal(a_matrix, json_object_get(b, "subgroupMatrixConfigs")));
}

static bool is_tried_first(const json_t *a, size_t a_index, const json_t *b, size_t b_index)
{
    const double a_priority = json_number_value(json_object_get(a, "priority"));
    const double b_priority = json_number_value(json_object_get(b, "priority"));
    return a_priority > b_priority || (a_priority >= b_priority && a_index < b_index);
}

/* Wherever b is eligible, a is too, undemoted, and is tried first (format 6.1, 6.2). */
static bool hides(const json_t *a, size_t a_index, const json_t *b, size_t b_index)
{
    return is_tried_first(a, a_index, b, b_index) && !json_object_get(a, "demoteWhen") &&
           !json_object_get(a, "supersededBy") && !json_object_get(a, "default") &&
           !json_object_get(b, "default") && fits_where(a, b) &&
           is_subset(json_object_get(a, "when"), json_object_get(b, "when")) &&
           needs_no_more(json_object_get(a, "requires"), json_object_get(b, "requires"));
}

static void find_unreachable(cli_lint *lint)
{
    size_t i, k, clause = 0;
    json_t *variant, *other, *constants = constant_derives(lint);
    json_array_foreach(variants_of(lint), i, variant)
    {
        char *reason = impossible(lint, variant, constants, &clause);
        char *path = cli_format("variants[%zu].when[%zu]", i, clause);
        if (reason)
            cli_lint_add(lint, CLI_LINT_UNREACHABLE, path, "variant \"%s\" is never chosen: %s",
                         text_of(variant, "id"), reason);
        free(path);
        path = cli_format("variants[%zu]", i);
        json_array_foreach(variants_of(lint), k, other)
        {
            if (reason || k == i || !hides(other, k, variant, i))
                continue;
            cli_lint_add(lint, CLI_LINT_UNREACHABLE, path,
                         "variant \"%s\" is never chosen: \"%s\" is tried first and accepts all "
                         "that it does",
                         text_of(variant, "id"), text_of(other, "id"));
            break;
        }
        free(path);
        free(reason);
    }
    json_decref(constants);
}

/* ---- the budget of storage buffers ---- */

/* Does a pass of the variant write this tensor? */
static bool writes(const json_t *passes, const char *port)
{
    size_t i, k;
    json_t *pass, *binding;
    json_array_foreach(passes, i, pass)
    {
        json_array_foreach(json_object_get(pass, "bindings"), k, binding)
        {
            const char *arg = text_of(binding, "arg");
            if (strcmp(text_of(binding, "buffer"), "storage") == 0 &&
                strcmp(arg[0] ? arg : text_of(binding, "name"), port) == 0)
                return true;
        }
        if (writes(json_object_get(pass, "passes"), port))
            return true;
    }
    return false;
}

/* The variant with the fewest buffers that writes the output. */
static void check_budget(cli_lint *lint, const char *port)
{
    size_t i, fewest = SIZE_MAX, at = 0;
    json_t *variant;
    json_array_foreach(variants_of(lint), i, variant)
    {
        const size_t buffers = storage_buffers(variant);
        if (buffers < fewest && writes(json_object_get(variant, "passes"), port)) {
            fewest = buffers;
            at = i;
        }
    }
    if (fewest == SIZE_MAX || fewest <= COMMON_STORAGE_BUFFERS)
        return;
    char *path = cli_format("variants[%zu].passes", at);
    cli_lint_add(lint, CLI_LINT_NO_SPLIT, path,
                 "every variant that writes \"%s\" has %zu or more storage buffers in a pass; many "
                 "devices have %d: add a variant that splits the pass",
                 port, fewest, COMMON_STORAGE_BUFFERS);
    free(path);
}

void cli_lint_variants(cli_lint *lint)
{
    const char *port;
    json_t *value;
    find_unreachable(lint);
    json_object_foreach(json_object_get(lint->source.contract, "outputs"), port, value)
        check_budget(lint, port);
}

/* ---- features that shaders need ---- */

static bool requires_feature(const json_t *variant, const char *feature)
{
    size_t i;
    json_t *item;
    const json_t *needs = json_object_get(variant, "requires");
    json_array_foreach(json_object_get(needs, "features"), i, item)
    {
        if (strcmp(json_string_value(item), feature) == 0)
            return true;
    }
    return false;
}

static void check_f16(cli_lint *lint, const json_t *variant, const json_t *pass, const char *path)
{
    size_t i;
    json_t *binding;
    char *guards = cli_lint_guards(lint, variant);
    const bool guarded = requires_feature(variant, "shader-f16") || strstr(guards, "f16Ok") ||
                         strstr(guards, "shader-f16") || strstr(guards, "f16Allowed");
    json_array_foreach(json_object_get(pass, "bindings"), i, binding)
    {
        char *text = cli_lint_element_text(lint, variant, pass, text_of(binding, "elementType"));
        const bool is_f16 = strstr(text, "f16") || strstr(text, "float16");
        char *here = cli_format("%s.bindings[%zu].elementType", path, i);
        if (is_f16 && !guarded)
            cli_lint_add(
                lint, CLI_LINT_F16_GUARD, here,
                "\"%s\" of variant \"%s\" may be f16, and nothing asks for shader-f16: use "
                "f16Ok(...) in \"when\", or \"requires\"",
                text_of(binding, "name"), text_of(variant, "id"));
        free(here);
        free(text);
    }
    free(guards);
}

/* "subgroupAdd(", but not "subgroupSize" or "my_subgroupAdd(". */
static bool calls_subgroup(const char *text, bool matrix)
{
    const char *word = matrix ? "subgroupMatrix" : "subgroup";
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        const char before = at > text ? at[-1] : ' ';
        const bool whole = !((before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') ||
                             (before >= '0' && before <= '9') || before == '_' || before == '.');
        const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        const char after = at[length];
        if (whole && length > strlen("subgroup") && (after == '(' || after == '<'))
            return true;
    }
    return !matrix && (strstr(text, "@builtin(subgroup_size)") ||
                       strstr(text, "@builtin(subgroup_invocation_id)"));
}

/* A text without "//" comments, in place. */
static void strip_comments(char *text)
{
    for (char *at = strstr(text, "//"); at; at = strstr(at, "//")) {
        const size_t length = strcspn(at, "\r\n");
        memset(at, ' ', length);
    }
}

static void check_subgroups(cli_lint *lint, const json_t *variant, size_t index)
{
    static const char *const matrix = "chromium-experimental-subgroup-matrix";
    char *text = cli_lint_template_text(lint, variant), *guards = cli_lint_guards(lint, variant);
    char *path = cli_format("variants[%zu].requires.features", index);
    strip_comments(text);
    /* A template that asks about features, itself or through a derive, may well leave the built-ins
     * out. */
    char *statements = cli_lint_statements(lint, variant, text);
    const bool asks = strstr(statements, "features") != NULL;
    free(statements);
    if (calls_subgroup(text, false) && !asks && !requires_feature(variant, "subgroups") &&
        !requires_feature(variant, matrix) && !strstr(guards, "subgroup"))
        cli_lint_add(lint, CLI_LINT_SUBGROUP_GUARD, path,
                     "the shaders of variant \"%s\" use subgroup built-ins, and nothing asks for "
                     "\"subgroups\"",
                     text_of(variant, "id"));
    else if (calls_subgroup(text, true) && !asks && !requires_feature(variant, matrix) &&
             !strstr(guards, "subgroup-matrix"))
        cli_lint_add(lint, CLI_LINT_SUBGROUP_GUARD, path,
                     "the shaders of variant \"%s\" use subgroup matrices, and nothing asks for "
                     "\"%s\"",
                     text_of(variant, "id"), matrix);
    free(path);
    free(guards);
    free(text);
}

void cli_lint_shaders(cli_lint *lint)
{
    size_t i;
    json_t *variant;
    json_array_foreach(variants_of(lint), i, variant)
    {
        cli_lint_each_pass(lint, variant, i, check_f16);
        if (lint->source.templates)
            check_subgroups(lint, variant, i);
    }
}
