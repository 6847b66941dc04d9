/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "print.h"
#include "request.h"

#define NAME_COLUMN 24

/* ---- pieces ---- */

/* "  name      " padded to a column; long names keep one space. */
static void print_name(const char *name, const char *alias)
{
    char text[200];
    snprintf(text, sizeof text, alias[0] && strcmp(alias, name) ? "%s (%s)" : "%s", name, alias);
    printf("  ");
    cli_print_clean(stdout, text);
    const int used = (int)strlen(text);
    printf("%*s", used < NAME_COLUMN ? NAME_COLUMN - used : 1, "");
}

/* ", label value" for a member that is there; the first of a row has no comma. */
static void print_member(const json_t *object, const char *member, const char *label, bool *first)
{
    const json_t *value = json_object_get(object, member);
    if (!value)
        return;
    printf("%s%s ", *first ? "" : ", ", label);
    cli_print_value(value);
    *first = false;
}

static void print_description(const json_t *object)
{
    const char *text = json_string_value(json_object_get(object, "description"));
    if (!text || !text[0])
        return;
    printf("\n    ");
    cli_print_clean(stdout, text);
}

/* ---- sections ---- */

static void print_port(const nib_port_info *port)
{
    print_name(port->key, port->onnx);
    cli_print_clean(stdout, port->dtype ? port->dtype : "any dtype");
    printf("%s%s%s", port->optional ? ", optional" : ", required", port->packed ? ", packed" : "",
           port->role == NIB_INOUT ? ", in place" : "");
    if (port->description[0]) {
        printf("\n    ");
        cli_print_clean(stdout, port->description);
    }
    putchar('\n');
}

static void print_ports(const nib_package *package, bool outputs, const char *title)
{
    puts(title);
    for (size_t i = 0; i < nib_package_port_count(package); i++) {
        const nib_port_info port = nib_package_port_at(package, i);
        if ((port.role != NIB_INPUT) == outputs)
            print_port(&port);
    }
}

static void print_attribute(const char *name, const json_t *attribute, const json_t *constraint)
{
    bool first = true;
    print_name(name, "");
    print_member(attribute, "default", "default", &first);
    if (first)
        printf(json_is_true(json_object_get(constraint, "required")) ? "required" : "no default");
    first = false;
    print_member(constraint, "values", "one of", &first);
    print_description(attribute);
    putchar('\n');
}

static void print_attributes(const json_t *contract)
{
    const char *name;
    json_t *attribute, *attributes = json_object_get(contract, "attributes");
    const json_t *constraints = json_object_get(contract, "attributeConstraints");
    if (json_object_size(attributes))
        puts("attributes");
    json_object_foreach(attributes, name, attribute)
        print_attribute(name, attribute, json_object_get(constraints, name));
}

static void print_arguments(const json_t *contract)
{
    const char *name;
    json_t *argument, *arguments = json_object_get(contract, "args");
    if (json_object_size(arguments))
        puts("arguments");
    json_object_foreach(arguments, name, argument)
    {
        bool first = true;
        print_name(name, "");
        print_member(argument, "kind", "kind", &first);
        printf(json_is_false(json_object_get(argument, "required")) ? ", optional" : ", required");
        print_member(argument, "oneOf", "one of", &first);
        print_description(argument);
        putchar('\n');
    }
}

/* Sections whose entries are a name and one value. */
static void print_values(const json_t *contract, const char *section, const char *title,
                         const char *member)
{
    const char *name;
    json_t *entry, *entries = json_object_get(contract, section);
    if (json_object_size(entries))
        puts(title);
    json_object_foreach(entries, name, entry)
    {
        const json_t *value = json_is_object(entry) ? json_object_get(entry, member) : entry;
        print_name(name, "");
        cli_print_value(value);
        print_description(entry);
        putchar('\n');
    }
}

/* ---- variants: what all of them share stands once, so that what tells them apart is seen ---- */

#define LINE_WIDTH 100

static void print_item(const json_t *item)
{
    if (json_is_string(item))
        cli_print_clean(stdout, json_string_value(item));
    else
        cli_print_value(item);
}

/* One item a line. */
static void print_list(const json_t *items, const char *label)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        printf("    %s ", label);
        print_item(item);
        putchar('\n');
    }
}

/* "    label a; b; c", broken between items where a line becomes long. */
static void print_joined(const json_t *items, const char *label, size_t indent)
{
    size_t i, used = indent + strlen(label);
    json_t *item;
    printf("%*s%s", (int)indent, "", label);
    json_array_foreach(items, i, item)
    {
        const size_t length = json_is_string(item) ? json_string_length(item) : 0;
        if (i > 0) {
            putchar(';');
            used++;
        }
        if (i > 0 && used + 1 + length > LINE_WIDTH) {
            printf("\n%*s", (int)indent + 1, "");
            used = indent + 1;
        }
        if (used > indent + 1) {
            putchar(' ');
            used++;
        }
        print_item(item);
        used += length;
    }
    putchar('\n');
}

static bool holds(const json_t *items, const json_t *wanted)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        if (json_equal(item, wanted))
            return true;
    }
    return false;
}

/* The conditions that stand in every variant, in the order of the first one; empty when there is
 * nothing to compare. */
static json_t *shared_conditions(const json_t *variants)
{
    size_t i, k;
    json_t *condition, *variant, *shared = json_array();
    if (json_array_size(variants) < 2)
        return shared;
    json_array_foreach(json_object_get(json_array_get(variants, 0), "when"), i, condition)
    {
        bool everywhere = true;
        json_array_foreach(variants, k, variant)
        {
            everywhere = everywhere && holds(json_object_get(variant, "when"), condition);
        }
        if (everywhere)
            json_array_append(shared, condition);
    }
    return shared;
}

static json_t *without(const json_t *items, const json_t *left_out)
{
    size_t i;
    json_t *item, *rest = json_array();
    json_array_foreach(items, i, item)
    {
        if (!holds(left_out, item))
            json_array_append(rest, item);
    }
    return rest;
}

/* A repeat group stands for passes of its own (format 2.A.13). */
static void print_passes(const json_t *passes, int depth)
{
    size_t i;
    json_t *pass;
    json_array_foreach(passes, i, pass)
    {
        const char *id = json_string_value(json_object_get(pass, "id"));
        const char *shader = json_string_value(json_object_get(pass, "shader"));
        printf("%*s%s ", 4 + 2 * depth, "", shader ? "pass" : "repeat");
        cli_print_clean(stdout, id ? id : "?");
        if (shader) {
            printf(": ");
            cli_print_clean(stdout, shader);
        }
        putchar('\n');
        if (depth < 16)
            print_passes(json_object_get(pass, "passes"), depth + 1);
    }
}

/* A description that is also the `previous` variant's is not said again. */
static void print_variant_head(const json_t *variant, const json_t *previous)
{
    const json_t *description = json_object_get(variant, "description");
    const char *id = json_string_value(json_object_get(variant, "id"));
    bool first = true;
    print_name(id ? id : "?", "");
    print_member(variant, "priority", "priority", &first);
    print_member(variant, "requires", "requires", &first);
    if (!description || !json_equal(description, json_object_get(previous, "description")))
        print_description(variant);
    putchar('\n');
}

static void print_whole_variant(const json_t *variant)
{
    print_variant_head(variant, NULL);
    print_list(json_object_get(variant, "when"), "when");
    print_list(json_object_get(variant, "demoteWhen"), "demoted when");
    print_list(json_object_get(variant, "supersededBy"), "superseded by");
    print_passes(json_object_get(variant, "passes"), 0);
}

static void print_variant(const json_t *variant, const json_t *previous, const json_t *shared)
{
    static const struct {
        const char *member, *label;
    } others[] = {{"demoteWhen", "demoted when"}, {"supersededBy", "superseded by"}};
    json_t *own = without(json_object_get(variant, "when"), shared);
    print_variant_head(variant, previous);
    if (json_array_size(own))
        print_joined(own, "when", 4);
    for (size_t i = 0; i < CLI_LENGTH(others); i++) {
        const json_t *items = json_object_get(variant, others[i].member);
        if (json_array_size(items))
            print_joined(items, others[i].label, 4);
    }
    print_passes(json_object_get(variant, "passes"), 0);
    json_decref(own);
}

static void print_variants(const json_t *contract, bool all)
{
    size_t i;
    json_t *variant, *variants = json_object_get(contract, "variants");
    json_t *shared = all ? json_array() : shared_conditions(variants);
    if (json_array_size(shared)) {
        printf("conditions of all %zu variants\n", json_array_size(variants));
        print_joined(shared, "", 1);
    }
    puts(json_array_size(shared) ? "variants, with what else each of them needs" : "variants");
    json_array_foreach(variants, i, variant)
    {
        if (all)
            print_whole_variant(variant);
        else
            print_variant(variant, i ? json_array_get(variants, i - 1) : NULL, shared);
    }
    json_decref(shared);
}

static void print_text(const nib_package *package, const json_t *contract, bool all)
{
    const char *description = json_string_value(json_object_get(contract, "description"));
    puts(nib_package_op(package));
    printf("  folder %s\n  digest %s (%s)\n", nib_package_directory(package),
           nib_package_digest(package),
           nib_package_verified(package) ? "verified" : "not verified");
    if (description && description[0]) {
        printf("  ");
        cli_print_clean(stdout, description);
        putchar('\n');
    }
    print_ports(package, false, "inputs");
    print_ports(package, true, "outputs");
    print_attributes(contract);
    print_arguments(contract);
    print_values(contract, "typeConstraints", "type variables", "dtypes");
    print_values(contract, "tunables", "tunables", "default");
    print_variants(contract, all);
}

/* ---- the command ---- */

static int run_inspect(cli_session *session)
{
    nib_error error = {0};
    nib_package *package = NULL;
    char *text = NULL;
    int code = CLI_OK;
    nib_status status = cli_load_package(session, &package, &error);
    if (status == NIB_OK)
        status = nib_package_json(package, &text, &error);
    if (status != NIB_OK) {
        code = cli_fail(session, &error);
    } else if (session->json) {
        cli_print_text(text);
    } else {
        json_t *contract = json_loads(text, 0, NULL);
        print_text(package, contract, cli_has(&session->args, CLI_OPT_ALL));
        json_decref(contract);
    }
    nib_text_free(session->context, text);
    nib_package_free(package);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_MANIFEST,
    CLI_OPT_NO_VERIFY,
    CLI_OPT_CONTRACT_VERSION,
    CLI_OPT_TRUST_REMOTE_CODE,
    CLI_OPT_ALL,
    CLI_OPT_JSON,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
};

const cli_command cli_command_inspect = {
    .name = "inspect",
    .arguments = "PACKAGE",
    .summary = "show the contract of a package",
    .details =
        "Load and check a package and show its contract: tensors, attributes, type variables, "
        "tunables and variants with their conditions. Conditions that every variant has stand "
        "once.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_inspect,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
