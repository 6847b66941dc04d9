/* SPDX-License-Identifier: Apache-2.0 */
#include "generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "print.h"

/* Attributes and ports beyond these are not learned from. */
enum { MAX_ATTRIBUTES = 24, MAX_PORTS = 32, ATTEMPTS = 400 };
/* Bounds of a generated call: the scalar CPU computes every one. */
enum { MAX_DIM = 400, MAX_ELEMENTS = 100000, MAX_ROWS = 24 };

/* One case that the package has. Axes count from the last one, so that a tensor of rank 2 or 3 has
 * its columns at axis 0. */
typedef struct sample {
    json_t *object;
    double attributes[MAX_ATTRIBUTES]; /* effective; NaN: none, or not a number */
    nib_tensor_desc tensors[MAX_PORTS];
    bool present[MAX_PORTS];
} sample;

/* ceil(product / divisor): attributes by index, or a constant divisor. */
typedef enum form { FORM_FREE, FORM_QUOTIENT, FORM_AXIS, FORM_CONSTANT } form;

enum { NONE = -1 };

typedef struct rule {
    form form;
    int a, b, c;      /* FORM_QUOTIENT: ceil(a * b / c) of attributes; NONE: left out */
    int64_t constant; /* FORM_QUOTIENT: another divisor; FORM_CONSTANT: the value */
    size_t port;      /* FORM_AXIS: this axis of another tensor */
    uint32_t axis;
} rule;

struct cli_generator {
    const cli_casefile *file;
    const nib_package *package;
    uint64_t state;
    size_t made;
    char *attributes[MAX_ATTRIBUTES];
    double defaults[MAX_ATTRIBUTES];
    size_t attribute_count;
    sample *samples;
    size_t sample_count;
    rule rules[MAX_PORTS][NIB_MAX_RANK];
};

/* ---- random numbers ---- */

/* splitmix64: the same cases for a seed on every machine. */
static uint64_t next_random(cli_generator *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(cli_generator *g, size_t count)
{
    return (size_t)(next_random(g) % (count ? count : 1));
}

/* ---- reading what there is ---- */

static int find_attribute(const cli_generator *g, const char *name)
{
    for (size_t i = 0; i < g->attribute_count; i++) {
        if (strcmp(g->attributes[i], name) == 0)
            return (int)i;
    }
    return NONE;
}

static void learn_attributes(cli_generator *g)
{
    char *text = NULL;
    const char *name;
    json_t *attribute;
    nib_error error = {0};
    if (nib_package_json(g->package, &text, &error) != NIB_OK)
        return;
    json_t *contract = json_loads(text, 0, NULL);
    json_object_foreach(json_object_get(contract, "attributes"), name, attribute)
    {
        if (g->attribute_count == MAX_ATTRIBUTES)
            break;
        const json_t *value = json_object_get(attribute, "default");
        g->defaults[g->attribute_count] =
            json_is_number(value) ? json_number_value(value) : (double)NAN;
        g->attributes[g->attribute_count++] = cli_dup(name, strlen(name));
    }
    json_decref(contract);
    nib_text_free(g->file->session->context, text);
}

static bool read_tensors(const cli_generator *g, size_t index, sample *s)
{
    const char *key;
    json_t *input;
    nib_error error = {0};
    const cli_spot at = {.file = g->file, .error = &error};
    json_object_foreach(json_object_get(cli_casefile_at(g->file, index), "inputs"), key, input)
    {
        const size_t port = nib_package_find_port(g->package, key);
        if (port >= MAX_PORTS || cli_read_desc(&at, input, &s->tensors[port]) != NIB_OK)
            return false;
        s->present[port] = true;
    }
    return true;
}

/* Cases that must fail, that pin something, or that are hard to read teach nothing. */
static bool read_sample(const cli_generator *g, size_t index, sample *s)
{
    static const char *const odd[] = {"error", "relaxed", "skipGpu", "tunables", "variant"};
    const char *name;
    json_t *value;
    *s = (sample){.object = cli_casefile_at(g->file, index)};
    for (size_t i = 0; i < CLI_LENGTH(odd); i++) {
        if (json_object_get(s->object, odd[i]))
            return false;
    }
    memcpy(s->attributes, g->defaults, sizeof s->attributes);
    json_object_foreach(json_object_get(s->object, "attrs"), name, value)
    {
        const int at = find_attribute(g, name);
        if (at != NONE)
            s->attributes[at] = json_is_number(value) ? json_number_value(value) : (double)NAN;
    }
    return read_tensors(g, index, s);
}

static void read_samples(cli_generator *g)
{
    const size_t count = cli_casefile_count(g->file);
    g->samples = cli_alloc(count * sizeof *g->samples);
    for (size_t i = 0; i < count; i++)
        g->sample_count += read_sample(g, i, &g->samples[g->sample_count]);
}

/* ---- rules ---- */

static double attribute_of(const double *attributes, int index)
{
    return index == NONE ? 1 : attributes[index];
}

/* The size by a rule; NaN when it cannot be computed. */
static double apply(const rule *r, const double *attributes)
{
    if (r->form == FORM_CONSTANT)
        return (double)r->constant;
    const double product = attribute_of(attributes, r->a) * attribute_of(attributes, r->b);
    return ceil(product / (attribute_of(attributes, r->c) * (double)r->constant));
}

static int64_t dim_from_end(const nib_tensor_desc *desc, uint32_t axis)
{
    return desc->dims[desc->rank - 1 - axis];
}

static bool has_axis(const sample *s, size_t port, uint32_t axis)
{
    return s->present[port] && axis < s->tensors[port].rank;
}

static bool explains(const cli_generator *g, const rule *r, size_t port, uint32_t axis)
{
    for (size_t i = 0; i < g->sample_count; i++) {
        const sample *s = &g->samples[i];
        if (!has_axis(s, port, axis))
            continue;
        const double size = (double)dim_from_end(&s->tensors[port], axis);
        if (r->form == FORM_AXIS) {
            if (!has_axis(s, r->port, r->axis) ||
                (double)dim_from_end(&s->tensors[r->port], r->axis) != size)
                return false;
        } else if (apply(r, s->attributes) != size) {
            return false;
        }
    }
    return true;
}

/* Does the size differ between cases? One that never does may be a constant by accident only. */
static bool varies(const cli_generator *g, size_t port, uint32_t axis)
{
    int64_t first = -1;
    for (size_t i = 0; i < g->sample_count; i++) {
        if (!has_axis(&g->samples[i], port, axis))
            continue;
        const int64_t size = dim_from_end(&g->samples[i].tensors[port], axis);
        if (first >= 0 && size != first)
            return true;
        first = size;
    }
    return false;
}

static bool find_quotient(const cli_generator *g, size_t port, uint32_t axis, rule *r)
{
    static const int64_t divisors[] = {1, 2, 4, 8};
    const int count = (int)g->attribute_count;
    /* Fewer attributes first: the simplest form that fits. */
    for (int a = 0; a < count; a++) {
        for (int b = NONE; b <= a; b++) {
            for (int c = NONE; c < count; c++) {
                for (size_t d = 0; d < CLI_LENGTH(divisors); d++) {
                    *r = (rule){FORM_QUOTIENT, a, b, c, divisors[d], 0, 0};
                    const bool plain = c == NONE || (c != a && c != b);
                    if (plain && explains(g, r, port, axis))
                        return true;
                }
            }
        }
    }
    return false;
}

static bool find_axis(const cli_generator *g, size_t port, uint32_t axis, rule *r)
{
    for (size_t other = 0; other < port; other++) {
        for (uint32_t i = 0; i < NIB_MAX_RANK; i++) {
            *r = (rule){.form = FORM_AXIS, .port = other, .axis = i};
            if (explains(g, r, port, axis))
                return true;
        }
    }
    return false;
}

static rule find_rule(const cli_generator *g, size_t port, uint32_t axis)
{
    rule r = {0};
    if (varies(g, port, axis)) {
        if (find_quotient(g, port, axis, &r) || find_axis(g, port, axis, &r))
            return r;
        return (rule){.form = FORM_FREE};
    }
    for (size_t i = 0; i < g->sample_count; i++) {
        if (has_axis(&g->samples[i], port, axis))
            return (rule){.form = FORM_CONSTANT,
                          .constant = dim_from_end(&g->samples[i].tensors[port], axis)};
    }
    return (rule){.form = FORM_FREE};
}

cli_generator *cli_generator_new(const cli_casefile *file, const nib_package *package,
                                 uint64_t seed)
{
    cli_generator *g = cli_alloc(sizeof *g);
    *g = (cli_generator){.file = file, .package = package, .state = seed};
    learn_attributes(g);
    read_samples(g);
    for (size_t port = 0; port < MAX_PORTS && port < nib_package_port_count(package); port++) {
        for (uint32_t axis = 0; axis < NIB_MAX_RANK; axis++)
            g->rules[port][axis] = find_rule(g, port, axis);
    }
    return g;
}

void cli_generator_free(cli_generator *g)
{
    for (size_t i = 0; i < g->attribute_count; i++)
        free(g->attributes[i]);
    free(g->samples);
    free(g);
}

/* ---- a new call ---- */

/* Does a size grow with the attribute? Then it may be any number; else it is one of those seen. */
static bool is_size(const cli_generator *g, int attribute)
{
    for (size_t port = 0; port < MAX_PORTS; port++) {
        for (uint32_t axis = 0; axis < NIB_MAX_RANK; axis++) {
            const rule *r = &g->rules[port][axis];
            if (r->form == FORM_QUOTIENT && r->b == NONE && r->c == NONE && r->constant == 1 &&
                r->a == attribute)
                return true;
        }
    }
    return false;
}

static void mutate_attributes(cli_generator *g, const sample *base, double *attributes)
{
    memcpy(attributes, base->attributes, sizeof base->attributes);
    for (size_t i = 0; i < g->attribute_count; i++) {
        if (!json_object_get(json_object_get(base->object, "attrs"), g->attributes[i]) ||
            isnan(attributes[i]) || below(g, 4) == 0)
            continue;
        const double seen = g->samples[below(g, g->sample_count)].attributes[i];
        if (is_size(g, (int)i))
            attributes[i] = (double)(1 + below(g, below(g, 3) ? 80 : MAX_DIM));
        else if (!isnan(seen))
            attributes[i] = seen;
    }
}

static int64_t new_dim(cli_generator *g, const rule *r, const double *attributes,
                       const nib_tensor_desc *made)
{
    double size = 0;
    if (r->form == FORM_FREE)
        size = (double)(1 + below(g, below(g, 3) ? 4 : MAX_ROWS));
    else if (r->form == FORM_AXIS && r->axis < made[r->port].rank)
        size = (double)dim_from_end(&made[r->port], r->axis);
    else if (r->form != FORM_AXIS)
        size = apply(r, attributes);
    return size >= 0 && size <= MAX_ELEMENTS ? (int64_t)size : -1;
}

/* False when the sizes are out of bounds. */
static bool make_shapes(cli_generator *g, const sample *base, const double *attributes,
                        nib_tensor_desc made[MAX_PORTS])
{
    double total = 0;
    for (size_t port = 0; port < MAX_PORTS; port++) {
        made[port] = base->tensors[port];
        double elements = 1;
        for (uint32_t axis = 0; base->present[port] && axis < made[port].rank; axis++) {
            const int64_t dim = new_dim(g, &g->rules[port][axis], attributes, made);
            if (dim < 0)
                return false;
            made[port].dims[made[port].rank - 1 - axis] = dim;
            elements *= (double)dim;
        }
        total += base->present[port] ? elements : 0;
    }
    return total <= MAX_ELEMENTS;
}

/* ---- a new case ---- */

/* Random values, floats small enough for sums of products to stay near one. */
static nib_tensor *random_tensor(cli_generator *g, const nib_tensor_desc *desc)
{
    char text[CLI_DESC_MAX], spec[CLI_DESC_MAX + 40];
    nib_tensor *tensor = NULL;
    nib_error error = {0};
    snprintf(spec, sizeof spec, "%s=rand:%llu", cli_desc_text(desc, text),
             (unsigned long long)(next_random(g) >> 33));
    if (nib_tensor_from_spec(g->file->session->context, spec, &tensor, &error) != NIB_OK)
        return NULL;
    const bool is_float = desc->dtype == NIB_FLOAT32 || desc->dtype == NIB_FLOAT16;
    for (size_t i = 0; is_float && i < cli_elements(tensor); i++)
        cli_set_element(tensor, i, cli_element(tensor, i) * 0.1);
    return tensor;
}

static bool fill_inputs(cli_generator *g, const sample *base, const nib_tensor_desc *made,
                        cli_testcase *test)
{
    cli_inputs_init(&test->inputs, g->file->session->context, MAX_PORTS);
    for (size_t port = 0; port < MAX_PORTS; port++) {
        if (!base->present[port])
            continue;
        const char *key = nib_package_port_at(g->package, port).key;
        nib_tensor *tensor = random_tensor(g, &made[port]);
        if (!tensor)
            return false;
        cli_inputs_add(&test->inputs, key, strlen(key), tensor);
    }
    cli_request_add_inputs(&test->request, &test->inputs);
    return true;
}

static bool fill_request(cli_generator *g, const sample *base, const double *attributes,
                         cli_testcase *test)
{
    nib_error error = {0};
    const char *key;
    json_t *output;
    const cli_spot at = {.file = g->file, .error = &error};
    if (cli_read_request(&at, base->object, &test->request) != NIB_OK)
        return false;
    for (size_t i = 0; i < test->request.attributes.count; i++) {
        nib_named_scalar *scalar = &test->request.attributes.items[i];
        const int known = find_attribute(g, scalar->name);
        if (known != NONE && scalar->kind == NIB_SCALAR_NUMBER)
            scalar->number = attributes[known];
    }
    json_object_foreach(json_object_get(base->object, "outputs"), key, output)
    {
        const size_t port = nib_package_find_port(g->package, key);
        if (port != SIZE_MAX && nib_package_port_at(g->package, port).optional)
            cli_request_add_want(&test->request, key);
    }
    return true;
}

/* What the plan says will come out. Its port names live as long as the package. */
static bool fill_outputs(const cli_generator *g, const nib_caps *caps, cli_testcase *test)
{
    nib_error error = {0};
    nib_plan *plan = NULL;
    if (nib_plan_create(g->package, cli_request_finish(&test->request), caps, &plan, &error) !=
        NIB_OK)
        return false;
    const size_t count = nib_plan_tensor_count(plan);
    test->outputs = cli_alloc(count * sizeof *test->outputs);
    for (size_t i = 0; i < count; i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(plan, i);
        if (info.role != NIB_INPUT)
            test->outputs[test->output_count++] =
                (cli_expectation){.port = info.key,
                                  .desc = info.desc,
                                  .tolerance = cli_default_tolerance(info.desc.dtype)};
    }
    nib_plan_free(plan);
    return test->output_count > 0;
}

/* "seed 7, 12: K=70 N=33, aT float32[3,70]" is enough to write the case down. */
static void write_name(cli_generator *g, const cli_testcase *test, char name[240])
{
    char desc[CLI_DESC_MAX];
    size_t used = (size_t)snprintf(name, 240, "generated_%zu:", g->made);
    for (size_t i = 0; i < test->request.attributes.count && used < 240; i++) {
        const nib_named_scalar *scalar = &test->request.attributes.items[i];
        if (scalar->kind == NIB_SCALAR_NUMBER)
            used += (size_t)snprintf(name + used, 240 - used, " %s=%g", scalar->name,
                                     scalar->number);
    }
    if (test->inputs.count && used < 240)
        snprintf(name + used, 240 - used, " %s=%s", test->inputs.names[0],
                 cli_desc_text(nib_tensor_describe(test->inputs.tensors[0]), desc));
}

static bool try_case(cli_generator *g, const nib_caps *caps, cli_testcase *test)
{
    double attributes[MAX_ATTRIBUTES];
    nib_tensor_desc made[MAX_PORTS];
    const sample *base = &g->samples[below(g, g->sample_count)];
    *test = (cli_testcase){.name = ""};
    mutate_attributes(g, base, attributes);
    return make_shapes(g, base, attributes, made) && fill_request(g, base, attributes, test) &&
           fill_inputs(g, base, made, test) && fill_outputs(g, caps, test);
}

bool cli_generate(cli_generator *g, const nib_caps *caps, cli_testcase *test, char name[240])
{
    *test = (cli_testcase){.name = ""};
    for (int i = 0; i < ATTEMPTS && g->sample_count; i++) {
        cli_testcase_free(test);
        if (try_case(g, caps, test)) {
            g->made++;
            write_name(g, test, name);
            return true;
        }
    }
    return false;
}
