/* SPDX-License-Identifier: Apache-2.0 */
#include "testcase.h"

#include <stdlib.h>
#include <string.h>

#include "compare.h"

/* ---- inputs ---- */

static nib_status read_input(const cli_spot *at, const char *key, json_t *object, cli_testcase *test)
{
    static const char *const members[] = {"dtype", "shape", "data"};
    nib_tensor_desc desc;
    nib_tensor *tensor = NULL;
    nib_status status = cli_check_members(at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK)
        status = cli_read_desc(at, object, &desc);
    /* A case that must fail may do so before data matters. */
    if (status == NIB_OK && !test->errors && !json_object_get(object, "data"))
        status = cli_wrong(at, "data is missing");
    if (status == NIB_OK)
        status = cli_make_tensor(at, object, &desc, &tensor);
    if (tensor)
        cli_inputs_add(&test->inputs, key, strlen(key), tensor);
    return status;
}

static nib_status read_inputs(const cli_spot *at, json_t *object, cli_testcase *test)
{
    const char *key;
    json_t *input;
    if (!json_is_object(object))
        return cli_wrong(at, "must be an object");
    cli_inputs_init(&test->inputs, at->file->session->context, json_object_size(object));
    json_object_foreach(object, key, input)
    {
        const cli_spot inner = cli_inside(at, ".%.60s", key);
        const nib_status status = read_input(&inner, key, input, test);
        if (status != NIB_OK)
            return status;
    }
    return NIB_OK;
}

/* ---- expectations ---- */

static nib_status read_output(const cli_spot *at, json_t *object, cli_expectation *output)
{
    static const char *const members[] = {"dtype", "shape", "data", "tolerance", "allowNaN"};
    const json_t *tolerance = json_object_get(object, "tolerance");
    const json_t *allow_nan = json_object_get(object, "allowNaN");
    nib_status status = cli_check_members(at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK)
        status = cli_read_desc(at, object, &output->desc);
    if (status != NIB_OK)
        return status;
    if ((tolerance && !(json_number_value(tolerance) >= 0 && json_is_number(tolerance))) ||
        (allow_nan && !json_is_boolean(allow_nan)))
        return cli_wrong(at, "tolerance must be a number from 0 up, and allowNaN true or false");
    output->tolerance =
        tolerance ? json_number_value(tolerance) : cli_default_tolerance(output->desc.dtype);
    output->allow_nan = json_is_true(allow_nan);
    if (!json_object_get(object, "data"))
        return NIB_OK;
    return cli_make_tensor(at, object, &output->desc, &output->values);
}

static nib_status read_outputs(const cli_spot *at, const nib_package *package, json_t *object,
                               cli_testcase *test)
{
    const char *key;
    json_t *output;
    if (!json_is_object(object))
        return cli_wrong(at, "must be an object");
    test->outputs = cli_alloc(json_object_size(object) * sizeof *test->outputs);
    json_object_foreach(object, key, output)
    {
        const cli_spot inner = cli_inside(at, ".%.60s", key);
        const size_t port = nib_package_find_port(package, key);
        if (port == SIZE_MAX || nib_package_port_at(package, port).role == NIB_INPUT)
            return cli_wrong(&inner, "the package has no output of this name");
        if (nib_package_port_at(package, port).optional)
            cli_request_add_want(&test->request, key);
        cli_expectation *expectation = &test->outputs[test->output_count++];
        expectation->port = key;
        const nib_status status = read_output(&inner, output, expectation);
        if (status != NIB_OK)
            return status;
    }
    return NIB_OK;
}

/* ---- the members of our own: attrs, args, tunables, want, variant, relaxed, error ---- */

static nib_status read_choices(const cli_spot *at, json_t *object, cli_testcase *test)
{
    const json_t *variant = json_object_get(object, "variant");
    const json_t *relaxed = json_object_get(object, "relaxed");
    if (variant && !json_is_string(variant))
        return cli_wrong(at, "variant must be an id");
    if (relaxed && !json_is_boolean(relaxed))
        return cli_wrong(at, "relaxed must be true or false");
    test->request.request.variant = json_string_value(variant);
    test->request.request.relaxed = json_is_true(relaxed);
    return NIB_OK;
}

/* A text, or a list of texts; none empty, since an empty text would accept any failure. */
static nib_status read_errors(const cli_spot *at, json_t *errors, cli_testcase *test)
{
    test->errors = errors;
    if (!errors || (json_is_string(errors) && json_string_length(errors)))
        return NIB_OK;
    if (json_array_size(errors) == 0)
        return cli_wrong(at, "must be a text or a list of texts");
    for (size_t i = 0; i < json_array_size(errors); i++) {
        if (json_string_length(json_array_get(errors, i)) == 0)
            return cli_wrong(at, "must be a text or a list of texts");
    }
    return NIB_OK;
}

static nib_status read_tensors(const cli_spot *at, const nib_package *package, json_t *object,
                               cli_testcase *test)
{
    const cli_spot inputs = cli_inside(at, ".inputs"), outputs = cli_inside(at, ".outputs");
    nib_status status = read_inputs(&inputs, json_object_get(object, "inputs"), test);
    /* A case that must fail has no outputs. */
    if (status == NIB_OK && !(test->errors && !json_object_get(object, "outputs")))
        status = read_outputs(&outputs, package, json_object_get(object, "outputs"), test);
    return status;
}

/* skipGpu: why a GPU cannot do it (format 9.1). */
static nib_status read_gap(const cli_spot *at, json_t *gap, cli_testcase *test)
{
    static const char *const members[] = {"category", "reason"};
    const char *category = json_string_value(json_object_get(gap, "category"));
    const char *reason = json_string_value(json_object_get(gap, "reason"));
    if (!gap)
        return NIB_OK;
    const nib_status status = cli_check_members(at, gap, members, CLI_LENGTH(members));
    if (status != NIB_OK)
        return status;
    if (!category || !reason || (strcmp(category, "permanent") && strcmp(category, "todo")))
        return cli_wrong(at, "needs a category, permanent or todo, and a reason");
    test->gpu_gap = reason;
    test->gap_category = category;
    return NIB_OK;
}

/* Where a case came from: for people, but misspelt members are errors here too. */
static nib_status read_provenance(const cli_spot *at, json_t *provenance)
{
    static const char *const members[] = {"source", "test", "notes"};
    return provenance ? cli_check_members(at, provenance, members, CLI_LENGTH(members)) : NIB_OK;
}

static nib_status read_facts(const cli_spot *at, json_t *object, cli_testcase *test)
{
    const cli_spot errors = cli_inside(at, ".error"), gap = cli_inside(at, ".skipGpu");
    const cli_spot provenance = cli_inside(at, ".provenance");
    nib_status status = test->name[0] ? NIB_OK : cli_wrong(at, "name is missing");
    if (status == NIB_OK)
        status = read_gap(&gap, json_object_get(object, "skipGpu"), test);
    if (status == NIB_OK)
        status = read_provenance(&provenance, json_object_get(object, "provenance"));
    if (status == NIB_OK)
        status = read_errors(&errors, json_object_get(object, "error"), test);
    return status;
}

nib_status cli_testfile_load(cli_session *session, const nib_package *package, cli_casefile *file,
                             nib_error *error)
{
    static const char *const members[] = {"fixtureArrays", "cases"};
    return cli_casefile_load(session, package, "test.json", members, CLI_LENGTH(members), file,
                             error);
}

nib_status cli_testcase_read(const cli_casefile *file, const nib_package *package, size_t index,
                             cli_testcase *test, nib_error *error)
{
    static const char *const members[] = {"name",    "skipGpu", "provenance", "inputs",
                                          "outputs", "attrs",   "args",       "tunables",
                                          "want",    "variant", "relaxed",    "error"};
    json_t *object = cli_casefile_at(file, index);
    cli_spot at = {.file = file, .error = error};
    snprintf(at.path, sizeof at.path, "cases[%zu]", index);
    *test = (cli_testcase){.name = cli_casefile_name(file, index)};
    nib_status status = cli_check_members(&at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK)
        status = read_facts(&at, object, test);
    if (status == NIB_OK)
        status = read_choices(&at, object, test);
    if (status == NIB_OK)
        status = cli_read_request(&at, object, &test->request);
    if (status == NIB_OK)
        status = read_tensors(&at, package, object, test);
    if (status == NIB_OK)
        cli_request_add_inputs(&test->request, &test->inputs);
    return status;
}

void cli_testcase_free(cli_testcase *test)
{
    for (size_t i = 0; i < test->output_count; i++)
        nib_tensor_free(test->outputs[i].values);
    free(test->outputs);
    cli_inputs_free(&test->inputs);
    cli_request_free(&test->request);
    *test = (cli_testcase){0};
}

