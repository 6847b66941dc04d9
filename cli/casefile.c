/* SPDX-License-Identifier: Apache-2.0 */
#include "casefile.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* ---- errors and members ---- */

cli_spot cli_inside(const cli_spot *outer, const char *format, ...)
{
    cli_spot inner = *outer;
    const size_t used = strlen(inner.path);
    va_list args;
    va_start(args, format);
    vsnprintf(inner.path + used, sizeof inner.path - used, format, args);
    va_end(args);
    return inner;
}

nib_status cli_wrong(const cli_spot *at, const char *rule)
{
    cli_error(at->error, NIB_FORMAT, at->file->path, "%s", rule);
    snprintf(at->error->path, sizeof at->error->path, "%s", at->path + (at->path[0] == '.'));
    return NIB_FORMAT;
}

nib_status cli_check_members(const cli_spot *at, json_t *object, const char *const *known,
                             size_t known_count)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return cli_wrong(at, "must be an object");
    json_object_foreach(object, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < known_count; i++)
            found = found || strcmp(key, known[i]) == 0;
        if (!found) {
            const cli_spot member = cli_inside(at, ".%.60s", key);
            return cli_wrong(&member, "unknown member");
        }
    }
    return NIB_OK;
}

/* ---- values ---- */

static bool is_integer(nib_dtype dtype)
{
    return dtype != NIB_FLOAT16 && dtype != NIB_FLOAT32;
}

/* JSON has no text for these three. */
static bool read_special(const char *text, double *value)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"NaN", (double)NAN}, {"Infinity", HUGE_VAL}, {"-Infinity", -HUGE_VAL}};
    for (size_t i = 0; i < CLI_LENGTH(rows); i++) {
        if (strcmp(text, rows[i].text) == 0) {
            *value = rows[i].value;
            return true;
        }
    }
    return false;
}

static bool set_value(nib_tensor *tensor, size_t index, const json_t *value)
{
    double number = 0;
    if (json_is_integer(value) && is_integer(nib_tensor_describe(tensor)->dtype))
        cli_set_integer(tensor, index, (uint64_t)json_integer_value(value));
    else if (json_is_number(value))
        cli_set_element(tensor, index, json_number_value(value));
    else if (json_is_boolean(value))
        cli_set_element(tensor, index, json_is_true(value) ? 1 : 0);
    else if (json_is_string(value) && read_special(json_string_value(value), &number))
        cli_set_element(tensor, index, number);
    else
        return false;
    return true;
}

/* {"$ref": "#/fixtureArrays/NAME"} stands for the array of that name. */
static json_t *resolve_values(const cli_casefile *file, json_t *values)
{
    static const char prefix[] = "#/fixtureArrays/";
    const char *reference = json_string_value(json_object_get(values, "$ref"));
    if (!reference)
        return values;
    if (strncmp(reference, prefix, sizeof prefix - 1) != 0)
        return NULL;
    return json_object_get(json_object_get(file->root, "fixtureArrays"),
                           reference + sizeof prefix - 1);
}

static nib_status read_values(const cli_spot *at, json_t *data, nib_tensor *tensor)
{
    json_t *values = resolve_values(at->file, json_object_get(data, "values"));
    const size_t elements = cli_elements(tensor);
    if (!json_is_array(values))
        return cli_wrong(at, "values must be a list or a $ref to one of fixtureArrays");
    if (json_array_size(values) != elements)
        return cli_wrong(at, "the number of values is not that of the shape");
    for (size_t i = 0; i < elements; i++) {
        if (!set_value(tensor, i, json_array_get(values, i))) {
            const cli_spot element = cli_inside(at, ".values[%zu]", i);
            return cli_wrong(&element, "must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
        }
    }
    return NIB_OK;
}

/* scale * (sin(i * sinStep) + cos(i * cosStep)), scale 1 when absent: our reading of format 9.1. */
static nib_status read_fill(const cli_spot *at, json_t *data, nib_tensor *tensor)
{
    const json_t *sin_step = json_object_get(data, "sinStep");
    const json_t *cos_step = json_object_get(data, "cosStep");
    const json_t *scale = json_object_get(data, "scale");
    if (!json_is_number(sin_step) || !json_is_number(cos_step) || (scale && !json_is_number(scale)))
        return cli_wrong(at, "fillFloat32 needs numbers sinStep and cosStep, and scale if given");
    const double factor = scale ? json_number_value(scale) : 1;
    for (size_t i = 0; i < cli_elements(tensor); i++)
        cli_set_element(tensor, i,
                        factor * (sin((double)i * json_number_value(sin_step)) +
                                  cos((double)i * json_number_value(cos_step))));
    return NIB_OK;
}

static nib_status read_data(const cli_spot *at, json_t *data, nib_tensor *tensor)
{
    static const char *const value_members[] = {"kind", "values"};
    static const char *const fill_members[] = {"kind", "sinStep", "cosStep", "scale"};
    const char *kind = json_string_value(json_object_get(data, "kind"));
    const bool values = kind && strcmp(kind, "values") == 0;
    if (!values && !(kind && strcmp(kind, "fillFloat32") == 0))
        return cli_wrong(at, "kind must be values or fillFloat32");
    const nib_status status =
        values ? cli_check_members(at, data, value_members, CLI_LENGTH(value_members))
               : cli_check_members(at, data, fill_members, CLI_LENGTH(fill_members));
    if (status != NIB_OK)
        return status;
    return values ? read_values(at, data, tensor) : read_fill(at, data, tensor);
}

/* ---- tensors ---- */

/* A whole number, also one that was read as a real (parse_text). */
static bool read_dim(const json_t *value, int64_t *dim)
{
    const double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number <= 9.2e18) || number != floor(number))
        return false;
    *dim = json_is_integer(value) ? json_integer_value(value) : (int64_t)number;
    return true;
}

nib_status cli_read_desc(const cli_spot *at, json_t *object, nib_tensor_desc *desc)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    const json_t *shape = json_object_get(object, "shape");
    *desc = (nib_tensor_desc){.dtype = dtype ? nib_dtype_from_name(dtype) : NIB_DTYPE_NONE};
    if (desc->dtype == NIB_DTYPE_NONE)
        return cli_wrong(at, "dtype must name a dtype");
    if (!json_is_array(shape) || json_array_size(shape) > NIB_MAX_RANK)
        return cli_wrong(at, "shape must be a list of at most 16 whole numbers");
    desc->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (!read_dim(json_array_get(shape, i), &desc->dims[i]))
            return cli_wrong(at, "shape must be a list of at most 16 whole numbers");
    }
    return NIB_OK;
}

/* A tensor of this description with the object's data; zeros when it has none. */
nib_status cli_make_tensor(const cli_spot *at, json_t *object, const nib_tensor_desc *desc,
                           nib_tensor **tensor)
{
    json_t *data = json_object_get(object, "data");
    nib_status status = nib_tensor_create(at->file->session->context, desc, tensor, at->error);
    if (status == NIB_OK && data) {
        const cli_spot inner = cli_inside(at, ".data");
        status = read_data(&inner, data, *tensor);
    }
    return status;
}

/* ---- attributes and the like ---- */

static nib_status read_scalars(const cli_spot *at, json_t *object, cli_scalars *scalars)
{
    const char *key;
    json_t *value;
    if (!object)
        return NIB_OK;
    if (!json_is_object(object))
        return cli_wrong(at, "must be an object");
    scalars->items = cli_alloc(json_object_size(object) * sizeof *scalars->items);
    json_object_foreach(object, key, value)
    {
        nib_named_scalar *scalar = &scalars->items[scalars->count];
        if (!cli_scalar_from_json(value, scalar)) {
            const cli_spot member = cli_inside(at, ".%.60s", key);
            return cli_wrong(&member, "must be a number, a text, true or false");
        }
        scalar->name = cli_dup(key, strlen(key));
        scalars->count++;
    }
    return NIB_OK;
}

static nib_status read_want(const cli_spot *at, json_t *list, cli_request *request)
{
    size_t i;
    json_t *key;
    if (list && !json_is_array(list))
        return cli_wrong(at, "must be a list");
    json_array_foreach(list, i, key)
    {
        if (!json_is_string(key))
            return cli_wrong(at, "must be a list of names");
        cli_request_add_want(request, json_string_value(key));
    }
    return NIB_OK;
}

nib_status cli_read_request(const cli_spot *at, json_t *object, cli_request *request)
{
    const cli_spot attrs = cli_inside(at, ".attrs"), args = cli_inside(at, ".args");
    const cli_spot tunables = cli_inside(at, ".tunables"), want = cli_inside(at, ".want");
    nib_status status =
        read_scalars(&attrs, json_object_get(object, "attrs"), &request->attributes);
    if (status == NIB_OK)
        status = read_scalars(&args, json_object_get(object, "args"), &request->arguments);
    if (status == NIB_OK)
        status = read_scalars(&tunables, json_object_get(object, "tunables"), &request->tunables);
    if (status == NIB_OK)
        status = read_want(&want, json_object_get(object, "want"), request);
    return status;
}

static nib_status describe_inputs(const cli_spot *at, json_t *inputs, cli_request *request)
{
    const char *key;
    json_t *input;
    json_object_foreach(inputs, key, input)
    {
        const cli_spot inner = cli_inside(at, ".%.60s", key);
        nib_tensor_desc desc;
        const nib_status status = cli_read_desc(&inner, input, &desc);
        if (status != NIB_OK)
            return status;
        cli_request_add_tensor(request, key, &desc);
    }
    return NIB_OK;
}

nib_status cli_case_request(const cli_casefile *file, const nib_package *package, size_t index,
                            cli_request *request, nib_error *error)
{
    const char *key;
    json_t *output, *object = cli_casefile_at(file, index);
    cli_spot at = {.file = file, .error = error};
    snprintf(at.path, sizeof at.path, "cases[%zu]", index);
    *request = (cli_request){0};
    nib_status status = cli_read_request(&at, object, request);
    if (status == NIB_OK)
        status = describe_inputs(&at, json_object_get(object, "inputs"), request);
    json_object_foreach(json_object_get(object, "outputs"), key, output)
    {
        const size_t port = nib_package_find_port(package, key);
        if (port != SIZE_MAX && nib_package_port_at(package, port).optional)
            cli_request_add_want(request, key);
    }
    return status;
}

/* ---- the file ---- */

static nib_status parse_text(cli_casefile *file, const char *text, nib_error *error)
{
    json_error_t problem;
    file->root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    /* Integers beyond 64 bits are legal JSON, and what a float is written as by some tools. */
    if (!file->root && json_error_code(&problem) == json_error_numeric_overflow)
        file->root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &problem);
    if (file->root)
        return NIB_OK;
    cli_error(error, NIB_FORMAT, file->path, "%s", problem.text);
    error->line = (uint32_t)problem.line;
    error->column = (uint32_t)problem.column;
    return NIB_FORMAT;
}

nib_status cli_casefile_load(cli_session *session, const nib_package *package, const char *name,
                             const char *const *known, size_t known_count, cli_casefile *file,
                             nib_error *error)
{
    char *text = NULL;
    *file = (cli_casefile){.session = session};
    const cli_spot at = {.file = file, .error = error};
    snprintf(file->path, sizeof file->path, "%s/%s", nib_package_directory(package), name);
    nib_status status = cli_read_file(file->path, &text, error);
    if (status == NIB_OK)
        status = nib_digest_text(text, strlen(text), file->digest, error);
    if (status == NIB_OK)
        status = parse_text(file, text, error);
    if (status == NIB_OK)
        status = cli_check_members(&at, file->root, known, known_count);
    if (status == NIB_OK && !json_is_array(json_object_get(file->root, "cases")))
        status = cli_wrong(&at, "cases must be a list");
    free(text);
    return status;
}

void cli_casefile_free(cli_casefile *file)
{
    json_decref(file->root);
    *file = (cli_casefile){0};
}

size_t cli_casefile_count(const cli_casefile *file)
{
    return json_array_size(json_object_get(file->root, "cases"));
}

json_t *cli_casefile_at(const cli_casefile *file, size_t index)
{
    return json_array_get(json_object_get(file->root, "cases"), index);
}

const char *cli_casefile_name(const cli_casefile *file, size_t index)
{
    const char *name = json_string_value(json_object_get(cli_casefile_at(file, index), "name"));
    return name ? name : "";
}
