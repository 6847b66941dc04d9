/* SPDX-License-Identifier: Apache-2.0 */
#include "testcase.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "print.h"

/* ---- errors and members ---- */

/* Where in the file something is wrong: cases[3].inputs.a.data */
typedef struct place {
    const cli_testfile *file;
    nib_error *error;
    char path[200];
} place;

static place inside(const place *outer, const char *format, ...)
    __attribute__((__format__(__printf__, 2, 3)));

static place inside(const place *outer, const char *format, ...)
{
    place inner = *outer;
    const size_t used = strlen(inner.path);
    va_list args;
    va_start(args, format);
    vsnprintf(inner.path + used, sizeof inner.path - used, format, args);
    va_end(args);
    return inner;
}

static nib_status wrong(const place *at, const char *rule)
{
    cli_error(at->error, NIB_FORMAT, at->file->path, "%s", rule);
    snprintf(at->error->path, sizeof at->error->path, "%s", at->path + (at->path[0] == '.'));
    return NIB_FORMAT;
}

static nib_status check_members(const place *at, json_t *object, const char *const *known,
                                size_t known_count)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return wrong(at, "must be an object");
    json_object_foreach(object, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < known_count; i++)
            found = found || strcmp(key, known[i]) == 0;
        if (!found) {
            const place member = inside(at, ".%.60s", key);
            return wrong(&member, "unknown member");
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
static json_t *resolve_values(const cli_testfile *file, json_t *values)
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

static nib_status read_values(const place *at, json_t *data, nib_tensor *tensor)
{
    json_t *values = resolve_values(at->file, json_object_get(data, "values"));
    const size_t elements = cli_elements(tensor);
    if (!json_is_array(values))
        return wrong(at, "values must be a list or a $ref to one of fixtureArrays");
    if (json_array_size(values) != elements)
        return wrong(at, "the number of values is not that of the shape");
    for (size_t i = 0; i < elements; i++) {
        if (!set_value(tensor, i, json_array_get(values, i))) {
            const place element = inside(at, ".values[%zu]", i);
            return wrong(&element, "must be a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
        }
    }
    return NIB_OK;
}

/* scale * (sin(i * sinStep) + cos(i * cosStep)), scale 1 when absent: our reading of format 9.1. */
static nib_status read_fill(const place *at, json_t *data, nib_tensor *tensor)
{
    const json_t *sin_step = json_object_get(data, "sinStep");
    const json_t *cos_step = json_object_get(data, "cosStep");
    const json_t *scale = json_object_get(data, "scale");
    if (!json_is_number(sin_step) || !json_is_number(cos_step) || (scale && !json_is_number(scale)))
        return wrong(at, "fillFloat32 needs numbers sinStep and cosStep, and scale if given");
    const double factor = scale ? json_number_value(scale) : 1;
    for (size_t i = 0; i < cli_elements(tensor); i++)
        cli_set_element(tensor, i,
                        factor * (sin((double)i * json_number_value(sin_step)) +
                                  cos((double)i * json_number_value(cos_step))));
    return NIB_OK;
}

static nib_status read_data(const place *at, json_t *data, nib_tensor *tensor)
{
    static const char *const value_members[] = {"kind", "values"};
    static const char *const fill_members[] = {"kind", "sinStep", "cosStep", "scale"};
    const char *kind = json_string_value(json_object_get(data, "kind"));
    const bool values = kind && strcmp(kind, "values") == 0;
    if (!values && !(kind && strcmp(kind, "fillFloat32") == 0))
        return wrong(at, "kind must be values or fillFloat32");
    const nib_status status =
        values ? check_members(at, data, value_members, CLI_LENGTH(value_members))
               : check_members(at, data, fill_members, CLI_LENGTH(fill_members));
    if (status != NIB_OK)
        return status;
    return values ? read_values(at, data, tensor) : read_fill(at, data, tensor);
}

/* ---- tensors ---- */

/* A whole number, also one that was read as a real (parse_file). */
static bool read_dim(const json_t *value, int64_t *dim)
{
    const double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number <= 9.2e18) || number != floor(number))
        return false;
    *dim = json_is_integer(value) ? json_integer_value(value) : (int64_t)number;
    return true;
}

static nib_status read_desc(const place *at, json_t *object, nib_tensor_desc *desc)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    const json_t *shape = json_object_get(object, "shape");
    *desc = (nib_tensor_desc){.dtype = dtype ? nib_dtype_from_name(dtype) : NIB_DTYPE_NONE};
    if (desc->dtype == NIB_DTYPE_NONE)
        return wrong(at, "dtype must name a dtype");
    if (!json_is_array(shape) || json_array_size(shape) > NIB_MAX_RANK)
        return wrong(at, "shape must be a list of at most 16 whole numbers");
    desc->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (!read_dim(json_array_get(shape, i), &desc->dims[i]))
            return wrong(at, "shape must be a list of at most 16 whole numbers");
    }
    return NIB_OK;
}

/* A tensor of this description with the object's data; zeros when it has none. */
static nib_status make_tensor(const place *at, json_t *object, const nib_tensor_desc *desc,
                              nib_tensor **tensor)
{
    json_t *data = json_object_get(object, "data");
    nib_status status = nib_tensor_create(at->file->session->context, desc, tensor, at->error);
    if (status == NIB_OK && data) {
        const place inner = inside(at, ".data");
        status = read_data(&inner, data, *tensor);
    }
    return status;
}

static nib_status read_input(const place *at, const char *key, json_t *object, cli_testcase *test)
{
    static const char *const members[] = {"dtype", "shape", "data"};
    nib_tensor_desc desc;
    nib_tensor *tensor = NULL;
    nib_status status = check_members(at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK)
        status = read_desc(at, object, &desc);
    /* A case that must fail may do so before data matters. */
    if (status == NIB_OK && !test->errors && !json_object_get(object, "data"))
        status = wrong(at, "data is missing");
    if (status == NIB_OK)
        status = make_tensor(at, object, &desc, &tensor);
    if (tensor)
        cli_inputs_add(&test->inputs, key, strlen(key), tensor);
    return status;
}

static nib_status read_inputs(const place *at, json_t *object, cli_testcase *test)
{
    const char *key;
    json_t *input;
    if (!json_is_object(object))
        return wrong(at, "must be an object");
    cli_inputs_init(&test->inputs, at->file->session->context, json_object_size(object));
    json_object_foreach(object, key, input)
    {
        const place inner = inside(at, ".%.60s", key);
        const nib_status status = read_input(&inner, key, input, test);
        if (status != NIB_OK)
            return status;
    }
    return NIB_OK;
}

/* ---- expectations ---- */

/* Used when a case names no tolerance: exact for integers; for floats what the operators promise,
 * one rounding of the accumulated sum more or less. */
static double default_tolerance(nib_dtype dtype)
{
    return is_integer(dtype) ? 0 : dtype == NIB_FLOAT32 ? 1e-5 : 2e-3;
}

static nib_status read_output(const place *at, json_t *object, cli_expectation *output)
{
    static const char *const members[] = {"dtype", "shape", "data", "tolerance", "allowNaN"};
    const json_t *tolerance = json_object_get(object, "tolerance");
    const json_t *allow_nan = json_object_get(object, "allowNaN");
    nib_status status = check_members(at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK)
        status = read_desc(at, object, &output->desc);
    if (status != NIB_OK)
        return status;
    if ((tolerance && !(json_number_value(tolerance) >= 0 && json_is_number(tolerance))) ||
        (allow_nan && !json_is_boolean(allow_nan)))
        return wrong(at, "tolerance must be a number from 0 up, and allowNaN true or false");
    output->tolerance =
        tolerance ? json_number_value(tolerance) : default_tolerance(output->desc.dtype);
    output->allow_nan = json_is_true(allow_nan);
    if (!json_object_get(object, "data"))
        return NIB_OK;
    return make_tensor(at, object, &output->desc, &output->values);
}

static nib_status read_outputs(const place *at, const nib_package *package, json_t *object,
                               cli_testcase *test)
{
    const char *key;
    json_t *output;
    if (!json_is_object(object))
        return wrong(at, "must be an object");
    test->outputs = cli_alloc(json_object_size(object) * sizeof *test->outputs);
    json_object_foreach(object, key, output)
    {
        const place inner = inside(at, ".%.60s", key);
        const size_t port = nib_package_find_port(package, key);
        if (port == SIZE_MAX || nib_package_port_at(package, port).role == NIB_INPUT)
            return wrong(&inner, "the package has no output of this name");
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

static nib_status read_scalars(const place *at, json_t *object, cli_scalars *scalars)
{
    const char *key;
    json_t *value;
    if (!object)
        return NIB_OK;
    if (!json_is_object(object))
        return wrong(at, "must be an object");
    scalars->items = cli_alloc(json_object_size(object) * sizeof *scalars->items);
    json_object_foreach(object, key, value)
    {
        nib_named_scalar *scalar = &scalars->items[scalars->count];
        if (!cli_scalar_from_json(value, scalar)) {
            const place member = inside(at, ".%.60s", key);
            return wrong(&member, "must be a number, a text, true or false");
        }
        scalar->name = cli_dup(key, strlen(key));
        scalars->count++;
    }
    return NIB_OK;
}

static nib_status read_want(const place *at, json_t *list, cli_request *request)
{
    size_t i;
    json_t *key;
    if (list && !json_is_array(list))
        return wrong(at, "must be a list");
    json_array_foreach(list, i, key)
    {
        if (!json_is_string(key))
            return wrong(at, "must be a list of names");
        cli_request_add_want(request, json_string_value(key));
    }
    return NIB_OK;
}

static nib_status read_choices(const place *at, json_t *object, cli_testcase *test)
{
    const json_t *variant = json_object_get(object, "variant");
    const json_t *relaxed = json_object_get(object, "relaxed");
    if (variant && !json_is_string(variant))
        return wrong(at, "variant must be an id");
    if (relaxed && !json_is_boolean(relaxed))
        return wrong(at, "relaxed must be true or false");
    test->request.request.variant = json_string_value(variant);
    test->request.request.relaxed = json_is_true(relaxed);
    return NIB_OK;
}

/* A text, or a list of texts; none empty, since an empty text would accept any failure. */
static nib_status read_errors(const place *at, json_t *errors, cli_testcase *test)
{
    test->errors = errors;
    if (!errors || (json_is_string(errors) && json_string_length(errors)))
        return NIB_OK;
    if (json_array_size(errors) == 0)
        return wrong(at, "must be a text or a list of texts");
    for (size_t i = 0; i < json_array_size(errors); i++) {
        if (json_string_length(json_array_get(errors, i)) == 0)
            return wrong(at, "must be a text or a list of texts");
    }
    return NIB_OK;
}

static nib_status read_scalar_members(const place *at, json_t *object, cli_request *request)
{
    const place attrs = inside(at, ".attrs"), args = inside(at, ".args");
    const place tunables = inside(at, ".tunables"), want = inside(at, ".want");
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

static nib_status read_tensors(const place *at, const nib_package *package, json_t *object,
                               cli_testcase *test)
{
    const place inputs = inside(at, ".inputs"), outputs = inside(at, ".outputs");
    nib_status status = read_inputs(&inputs, json_object_get(object, "inputs"), test);
    /* A case that must fail has no outputs. */
    if (status == NIB_OK && !(test->errors && !json_object_get(object, "outputs")))
        status = read_outputs(&outputs, package, json_object_get(object, "outputs"), test);
    return status;
}

static const char *gap_reason(const json_t *object)
{
    const json_t *gap = json_object_get(object, "skipGpu");
    const char *reason = json_string_value(json_object_get(gap, "reason"));
    return gap && !reason ? "no reason given" : reason;
}

nib_status cli_testcase_read(const cli_testfile *file, const nib_package *package, size_t index,
                             cli_testcase *test, nib_error *error)
{
    static const char *const members[] = {"name",    "skipGpu", "provenance", "inputs",
                                          "outputs", "attrs",   "args",       "tunables",
                                          "want",    "variant", "relaxed",    "error"};
    json_t *object = json_array_get(json_object_get(file->root, "cases"), index);
    place at = {.file = file, .error = error};
    snprintf(at.path, sizeof at.path, "cases[%zu]", index);
    const place errors = inside(&at, ".error");
    *test = (cli_testcase){.name = cli_testfile_name(file, index), .gpu_gap = gap_reason(object)};
    nib_status status = check_members(&at, object, members, CLI_LENGTH(members));
    if (status == NIB_OK && !test->name[0])
        status = wrong(&at, "name is missing");
    if (status == NIB_OK)
        status = read_errors(&errors, json_object_get(object, "error"), test);
    if (status == NIB_OK)
        status = read_choices(&at, object, test);
    if (status == NIB_OK)
        status = read_scalar_members(&at, object, &test->request);
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

/* ---- the file ---- */

static nib_status parse_file(cli_testfile *file, const char *text, nib_error *error)
{
    json_error_t problem;
    file->root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    /* Integers beyond 64 bits are legal JSON, and what a float is written as by some tools. */
    if (!file->root && json_error_code(&problem) == json_error_numeric_overflow)
        file->root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &problem);
    if (!file->root) {
        cli_error(error, NIB_FORMAT, file->path, "%s", problem.text);
        error->line = (uint32_t)problem.line;
        error->column = (uint32_t)problem.column;
        return NIB_FORMAT;
    }
    static const char *const members[] = {"fixtureArrays", "cases"};
    const place at = {.file = file, .error = error};
    const nib_status status = check_members(&at, file->root, members, CLI_LENGTH(members));
    if (status == NIB_OK && !json_is_array(json_object_get(file->root, "cases")))
        return wrong(&at, "cases must be a list");
    return status;
}

nib_status cli_testfile_load(cli_session *session, const nib_package *package, cli_testfile *file,
                             nib_error *error)
{
    char *text = NULL;
    *file = (cli_testfile){.session = session};
    snprintf(file->path, sizeof file->path, "%s/test.json", nib_package_directory(package));
    nib_status status = cli_read_file(file->path, &text, error);
    if (status == NIB_OK)
        status = parse_file(file, text, error);
    free(text);
    return status;
}

void cli_testfile_free(cli_testfile *file)
{
    json_decref(file->root);
    *file = (cli_testfile){0};
}

size_t cli_testfile_count(const cli_testfile *file)
{
    return json_array_size(json_object_get(file->root, "cases"));
}

const char *cli_testfile_name(const cli_testfile *file, size_t index)
{
    const json_t *test = json_array_get(json_object_get(file->root, "cases"), index);
    const char *name = json_string_value(json_object_get(test, "name"));
    return name ? name : "";
}
