/* SPDX-License-Identifier: Apache-2.0
 *
 * test.json and bench.json against the contract.
 */
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "lint.h"
#include "tree.h"

typedef struct case_file {
    cli_lint *lint;
    const char *name; /* "test.json" */
    json_t *root;
    json_t *names; /* of the cases so far */
} case_file;

static void add(const case_file *file, const char *path, const char *text, const char *what)
{
    char *place = cli_format("%s:%s", file->name, path);
    cli_lint_add(file->lint, CLI_LINT_CASES, place, "%s%s%s%s", text, what[0] ? " \"" : "", what,
                 what[0] ? "\"" : "");
    free(place);
}

/* The case expects the call to fail, so it may name anything. */
static bool is_meant_wrong(const json_t *test)
{
    return json_object_get(test, "error") || json_object_get(test, "skipGpu");
}

/* ---- tensors ---- */

static bool admits(const cli_lint *lint, const nib_port_info *port, const char *dtype)
{
    const json_t *constraints = json_object_get(lint->source.contract, "typeConstraints");
    const json_t *dtypes = port->dtype ? json_object_get(constraints, port->dtype) : NULL;
    size_t i;
    json_t *item;
    if (!port->dtype || (!dtypes && nib_dtype_from_name(port->dtype) == NIB_DTYPE_NONE))
        return true;
    if (!dtypes)
        return strcmp(port->dtype, dtype) == 0;
    json_array_foreach(dtypes, i, item)
    {
        if (strcmp(json_string_value(item), dtype) == 0)
            return true;
    }
    return false;
}

static void check_reference(const case_file *file, const json_t *tensor, const char *path)
{
    static const char prefix[] = "#/fixtureArrays/";
    const json_t *values = json_object_get(json_object_get(tensor, "data"), "values");
    const char *reference = json_string_value(json_object_get(values, "$ref"));
    if (!reference)
        return;
    const size_t length = strlen(prefix);
    const json_t *arrays = json_object_get(file->root, "fixtureArrays");
    if (strncmp(reference, prefix, length) != 0 || !json_object_get(arrays, reference + length))
        add(file, path, "there is no array", reference);
}

static void check_tensor(const case_file *file, const char *key, const json_t *tensor,
                         const char *path, bool wrong)
{
    const nib_package *package = file->lint->source.package;
    const size_t index = nib_package_find_port(package, key);
    const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
    check_reference(file, tensor, path);
    if (wrong)
        return;
    if (index == SIZE_MAX) {
        add(file, path, "the contract has no tensor", key);
        return;
    }
    const nib_port_info port = nib_package_port_at(package, index);
    if (dtype && !admits(file->lint, &port, dtype))
        add(file, path, "the contract does not admit the dtype", dtype);
}

static void check_tensors(const case_file *file, const json_t *test, const char *section,
                          const char *path, bool wrong)
{
    const char *key;
    json_t *tensor;
    json_object_foreach(json_object_get(test, section), key, tensor)
    {
        char *here = cli_format("%s.%s.%s", path, section, key);
        check_tensor(file, key, tensor, here, wrong);
        free(here);
    }
}

/* ---- the rest of a case ---- */

static void check_known(const case_file *file, const json_t *test, const char *section,
                        const char *declared, const char *path)
{
    const char *name;
    json_t *value;
    const json_t *known = json_object_get(file->lint->source.contract, declared);
    json_object_foreach(json_object_get(test, section), name, value)
    {
        char *here = cli_format("%s.%s", path, section);
        if (!json_object_get(known, name))
            add(file, here, "the contract does not declare", name);
        free(here);
    }
}

static void check_variant(const case_file *file, const json_t *test, const char *path)
{
    size_t i;
    json_t *variant;
    const char *wanted = json_string_value(json_object_get(test, "variant"));
    bool found = !wanted;
    json_array_foreach(json_object_get(file->lint->source.contract, "variants"), i, variant) found =
        found || json_equal(json_object_get(variant, "id"), json_object_get(test, "variant"));
    if (!found)
        add(file, path, "there is no variant", wanted);
}

static void check_name(case_file *file, const json_t *test, const char *path)
{
    const char *name = json_string_value(json_object_get(test, "name"));
    if (!name || !name[0])
        add(file, path, "the case has no name", "");
    else if (json_object_get(file->names, name))
        add(file, path, "two cases are named", name);
    else
        json_object_set_new(file->names, name, json_true());
}

static void check_case(case_file *file, const json_t *test, const char *path)
{
    const bool wrong = is_meant_wrong(test);
    check_name(file, test, path);
    check_tensors(file, test, "inputs", path, wrong);
    check_tensors(file, test, "outputs", path, wrong);
    if (wrong)
        return;
    check_known(file, test, "attrs", "attributes", path);
    check_known(file, test, "args", "args", path);
    check_variant(file, test, path);
}

static void check_file(case_file *file, const char *path)
{
    size_t i;
    json_t *test;
    json_error_t where;
    file->root = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &where);
    const json_t *cases = json_object_get(file->root, "cases");
    if (!file->root) {
        char *text = cli_format("line %d: %s", where.line, where.text);
        add(file, "", text, "");
        free(text);
    } else if (!json_is_array(cases) || json_array_size(cases) == 0) {
        add(file, "cases", "the file has no list of cases", "");
    }
    json_array_foreach(cases, i, test)
    {
        char *here = cli_format("cases[%zu]", i);
        check_case(file, test, here);
        free(here);
    }
    json_decref(file->root);
}

void cli_lint_cases(cli_lint *lint)
{
    static const char *const names[] = {"test.json", "bench.json"};
    for (size_t i = 0; i < CLI_LENGTH(names); i++) {
        case_file file = {.lint = lint, .name = names[i], .names = json_object()};
        char *path = cli_format("%s/%s", lint->source.folder, names[i]);
        if (cli_is_plain_file(path))
            check_file(&file, path);
        else
            cli_lint_add(lint, CLI_LINT_NO_CASES, names[i], "the package has no %s", names[i]);
        free(path);
        json_decref(file.names);
    }
}
