/* SPDX-License-Identifier: Apache-2.0 */
#include "benchcase.h"

#include <stdlib.h>
#include <string.h>

#include "print.h"

nib_status cli_benchfile_load(cli_session *session, const nib_package *package, cli_casefile *file,
                              nib_error *error)
{
    static const char *const members[] = {"work", "cases"};
    static const char *const work_members[] = {"flops"};
    const nib_status status = cli_casefile_load(session, package, "bench.json", members,
                                                CLI_LENGTH(members), file, error);
    if (status != NIB_OK)
        return status;
    json_t *work = json_object_get(file->root, "work");
    const cli_spot root = {.file = file, .error = error}, at = cli_inside(&root, "work");
    if (!work)
        return NIB_OK;
    if (!json_is_string(json_object_get(work, "flops")))
        return cli_wrong(&at, "needs flops, an expression");
    return cli_check_members(&at, work, work_members, CLI_LENGTH(work_members));
}

bool cli_benchcase_chosen(const cli_casefile *file, size_t index)
{
    const char *wanted = cli_value(&file->session->args, CLI_OPT_CASE);
    bool whole = false;
    if (!wanted)
        return true;
    for (size_t i = 0; i < cli_casefile_count(file); i++)
        whole = whole || strcmp(cli_casefile_name(file, i), wanted) == 0;
    const char *name = cli_casefile_name(file, index);
    return whole ? strcmp(name, wanted) == 0 : strstr(name, wanted) != NULL;
}

/* ---- inputs ---- */

/* Random floats and bytes; other integers are often indices or sizes, and zero is always one. */
static nib_status make_random(const cli_spot *at, const nib_tensor_desc *desc, nib_tensor **tensor)
{
    char text[CLI_DESC_MAX], spec[CLI_DESC_MAX + 20];
    const bool random = desc->dtype == NIB_FLOAT32 || desc->dtype == NIB_FLOAT16 ||
                        desc->dtype == NIB_UINT8 || desc->dtype == NIB_INT8;
    snprintf(spec, sizeof spec, "%s=%s", cli_desc_text(desc, text), random ? "rand:1" : "0");
    return nib_tensor_from_spec(at->file->session->context, spec, tensor, at->error);
}

static nib_status read_input(const cli_spot *at, const char *key, json_t *object,
                             cli_benchcase *bench)
{
    static const char *const members[] = {"dtype", "shape", "data"};
    nib_tensor_desc desc;
    nib_tensor *tensor = NULL;
    nib_status status = cli_check_members(at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK)
        status = cli_read_desc(at, object, &desc);
    if (status != NIB_OK)
        return status;
    if (json_object_get(object, "data"))
        status = cli_make_tensor(at, object, &desc, &tensor);
    else
        status = make_random(at, &desc, &tensor);
    if (tensor) {
        /* The first input is what changes from call to call, the others are weights. */
        nib_tensor_set_constant(tensor, bench->inputs.count > 0);
        cli_inputs_add(&bench->inputs, key, strlen(key), tensor);
    }
    return status;
}

static nib_status read_inputs(const cli_spot *at, json_t *object, cli_benchcase *bench)
{
    const char *key;
    json_t *input;
    if (!json_is_object(object))
        return cli_wrong(at, "must be an object");
    cli_inputs_init(&bench->inputs, at->file->session->context, json_object_size(object));
    json_object_foreach(object, key, input)
    {
        const cli_spot inner = cli_inside(at, ".%.60s", key);
        const nib_status status = read_input(&inner, key, input, bench);
        if (status != NIB_OK)
            return status;
    }
    cli_request_add_inputs(&bench->request, &bench->inputs);
    return NIB_OK;
}

/* ---- work ---- */

/* The contract's defaults under the case's attributes. */
static json_t *effective_attributes(const cli_spot *at, const nib_package *package, json_t *given)
{
    char *text = NULL;
    const char *name;
    json_t *attribute, *all = json_object();
    if (nib_package_json(package, &text, at->error) == NIB_OK) {
        json_t *contract = json_loads(text, 0, NULL);
        json_object_foreach(json_object_get(contract, "attributes"), name, attribute)
        {
            json_t *value = json_object_get(attribute, "default");
            if (value)
                json_object_set(all, name, value);
        }
        json_decref(contract);
        nib_text_free(at->file->session->context, text);
    }
    json_object_update(all, given);
    return all;
}

/* {"attrs": {..}, "shapes": {key: [..]}}; a tensor has its ONNX name too. */
static char *work_scope(const cli_spot *at, const nib_package *package, json_t *object)
{
    json_t *scope = json_object(), *shapes = json_object(), *input;
    const char *key;
    json_object_foreach(json_object_get(object, "inputs"), key, input)
    {
        const size_t port = nib_package_find_port(package, key);
        json_t *shape = json_object_get(input, "shape");
        json_object_set(shapes, key, shape);
        if (port != SIZE_MAX)
            json_object_set(shapes, nib_package_port_at(package, port).key, shape);
    }
    json_object_set_new(scope, "shapes", shapes);
    json_object_set_new(scope, "attrs",
                        effective_attributes(at, package, json_object_get(object, "attrs")));
    char *text = json_dumps(scope, 0);
    json_decref(scope);
    return text;
}

static nib_status count_work(const cli_spot *at, const nib_package *package, json_t *object,
                             cli_benchcase *bench)
{
    const json_t *work = json_object_get(at->file->root, "work");
    char *result = NULL;
    bench->flops = -1;
    if (!work)
        return NIB_OK;
    char *scope = work_scope(at, package, object);
    const nib_status status = nib_expression_eval(at->file->session->context,
                                                  json_string_value(json_object_get(work, "flops")),
                                                  scope, &result, at->error);
    free(scope);
    if (status != NIB_OK)
        return status;
    json_t *value = json_loads(result, JSON_DECODE_ANY, NULL);
    const bool good = json_is_number(value) && json_number_value(value) >= 0;
    if (good)
        bench->flops = json_number_value(value);
    json_decref(value);
    nib_text_free(at->file->session->context, result);
    return good ? NIB_OK : cli_wrong(at, "work.flops does not give a number for this case");
}

/* ---- the case ---- */

static nib_status read_case(const cli_spot *at, const nib_package *package, json_t *object,
                            cli_benchcase *bench)
{
    static const char *const members[] = {"name",     "role", "attrs",   "args",
                                          "tunables", "want", "variant", "inputs"};
    const cli_spot inputs = cli_inside(at, ".inputs");
    const json_t *variant = json_object_get(object, "variant");
    const json_t *role = json_object_get(object, "role");
    nib_status status = cli_check_members(at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK && !bench->name[0])
        status = cli_wrong(at, "name is missing");
    if (status == NIB_OK &&
        ((variant && !json_is_string(variant)) || (role && !json_is_string(role))))
        status = cli_wrong(at, "role and variant must be texts");
    if (status == NIB_OK)
        status = cli_read_request(at, object, &bench->request);
    if (status == NIB_OK)
        status = read_inputs(&inputs, json_object_get(object, "inputs"), bench);
    if (status == NIB_OK)
        status = count_work(at, package, object, bench);
    bench->role = role ? json_string_value(role) : "";
    bench->request.request.variant = json_string_value(variant);
    return status;
}

nib_status cli_benchcase_read(const cli_casefile *file, const nib_package *package, size_t index,
                              cli_benchcase *bench, nib_error *error)
{
    cli_spot at = {.file = file, .error = error};
    snprintf(at.path, sizeof at.path, "cases[%zu]", index);
    *bench = (cli_benchcase){.name = cli_casefile_name(file, index)};
    return read_case(&at, package, cli_casefile_at(file, index), bench);
}

void cli_benchcase_free(cli_benchcase *bench)
{
    cli_inputs_free(&bench->inputs);
    cli_request_free(&bench->request);
    *bench = (cli_benchcase){0};
}
