/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchcase.h"
#include "measure.h"
#include "print.h"
#include "tuning.h"

/* Alternatives are measured for cases that are quick: each of them costs as much as the case. */
#define ALTERNATIVE_SECONDS 0.1

typedef struct bench {
    cli_session *session;
    nib_package *package;
    nib_device *device;
    cli_casefile file;
    cli_tuning tuning;
    json_t *contract; /* the manifest, as inspect prints it */
    json_t *rows;     /* the CPU's kernel rows */
    nib_ceilings ceilings;
    double load_seconds, open_seconds;
    double case_seconds; /* to spend on a case */
    bool alternatives;
} bench;

/* ---- JSON paths and texts ---- */

static const json_t *member_at(const json_t *object, const char *path)
{
    char name[40];
    while (object && *path) {
        const size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        object = json_object_get(object, name);
        path += length + (path[length] == '.');
    }
    return object;
}

double cli_json_at(const json_t *object, const char *path)
{
    const json_t *value = member_at(object, path);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

const char *cli_json_text_at(const json_t *object, const char *path)
{
    const char *text = json_string_value(member_at(object, path));
    return text ? text : "";
}

double cli_case_seconds(const json_t *entry)
{
    const double device = cli_json_at(entry, "seconds.device.median");
    return isnan(device) ? cli_json_at(entry, "seconds.wall.median") : device;
}

void cli_seconds_text(double seconds, char out[32])
{
    static const struct {
        double factor;
        const char *unit;
    } units[] = {{1, "s"}, {1e3, "ms"}, {1e6, "us"}, {1e9, "ns"}};
    size_t i = 0;
    if (isnan(seconds)) {
        snprintf(out, 32, "-");
        return;
    }
    while (i + 1 < CLI_LENGTH(units) && fabs(seconds) * units[i].factor < 0.9995)
        i++;
    const double value = seconds * units[i].factor;
    snprintf(out, 32, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, units[i].unit);
}

void cli_amount_text(double amount, char out[32])
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t i = 0;
    if (isnan(amount)) {
        snprintf(out, 32, "-");
        return;
    }
    for (; amount >= 999.5 && i + 1 < CLI_LENGTH(prefixes); i++)
        amount /= 1000;
    snprintf(out, 32, "%.*f %s", amount < 10 ? 2 : amount < 100 ? 1 : 0, amount, prefixes[i]);
}

/* ---- one call ---- */

typedef struct subject {
    const cli_benchcase *from;
    nib_plan *plan;
    nib_call *call;
    double plan_seconds, compile_seconds, first_seconds;
} subject;

static void free_subject(subject *s)
{
    nib_call_free(s->call);
    nib_plan_free(s->plan);
}

static nib_status bind_inputs(nib_call *call, const cli_inputs *inputs, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < inputs->count && status == NIB_OK; i++)
        status = nib_call_bind(call, inputs->names[i], inputs->tensors[i], error);
    return status;
}

/* Plan, compile, and run for the first time, each with its time. */
static nib_status start_subject(const bench *b, nib_device *device, const nib_request *request,
                                subject *s, nib_error *error)
{
    double start = cli_seconds();
    nib_status status =
        nib_plan_create(b->package, request, nib_device_caps(device), &s->plan, error);
    s->plan_seconds = cli_seconds() - start;
    start = cli_seconds();
    if (status == NIB_OK)
        status = nib_call_prepare(device, s->plan, NULL, &s->call, error);
    s->compile_seconds = cli_seconds() - start;
    if (status == NIB_OK)
        status = bind_inputs(s->call, &s->from->inputs, error);
    start = cli_seconds();
    if (status == NIB_OK)
        status = nib_call_run(s->call, error);
    s->first_seconds = cli_seconds() - start;
    return status;
}

/* What a call reads and writes, as it lies in host memory. */
static double count_bytes(const nib_plan *plan)
{
    double bytes = 0;
    for (size_t i = 0; i < nib_plan_tensor_count(plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(plan, i);
        size_t one = 0;
        nib_error error = {0};
        if (nib_tensor_desc_bytes(&info.desc, &one, &error) == NIB_OK)
            bytes += (double)one * (info.role == NIB_INOUT ? 2 : 1);
    }
    return bytes;
}

/* ---- alternatives: variants on a GPU, kernel rows on the CPU ---- */

static void add_alternative(json_t *list, const char *name, double seconds, const char *reason)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "name", cli_json_text(name));
    json_object_set_new(entry, "seconds", cli_json_number(seconds));
    if (reason[0])
        json_object_set_new(entry, "reason", cli_json_text(reason));
    json_array_append_new(list, entry);
}

static void measure_alternative(const bench *b, nib_device *device, const nib_request *request,
                                const cli_benchcase *from, const char *name, json_t *list)
{
    subject s = {.from = from};
    cli_measurement m;
    nib_error error = {0};
    nib_status status = start_subject(b, device, request, &s, &error);
    if (status == NIB_OK)
        status = cli_measure_quick(s.call, b->case_seconds / 4, &m, &error);
    if (status == NIB_OK)
        add_alternative(list, name, cli_best_time(&m)->median, "");
    else if (status != NIB_NO_VARIANT)
        add_alternative(list, name, (double)NAN, error.message);
    free_subject(&s);
}

static void measure_variants(const bench *b, cli_benchcase *from, const char *chosen,
                             double seconds, json_t *list)
{
    size_t i;
    json_t *variant;
    json_array_foreach(json_object_get(b->contract, "variants"), i, variant)
    {
        const char *id = json_string_value(json_object_get(variant, "id"));
        if (strcmp(id, chosen) == 0) {
            add_alternative(list, id, seconds, "");
            continue;
        }
        from->request.request.variant = id;
        measure_alternative(b, b->device, cli_request_finish(&from->request), from, id, list);
        from->request.request.variant = NULL;
    }
}

static void measure_rows(const bench *b, cli_benchcase *from, json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach(b->rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        nib_device *device = NULL;
        nib_error error = {0};
        const nib_device_options options = {
            .backend = "cpu",
            .isa = name,
            .threads = (uint32_t)cli_integer(&b->session->args, CLI_OPT_THREADS, 0),
        };
        if (json_is_true(json_object_get(row, "available")) &&
            nib_device_open(b->session->context, &options, &device, &error) == NIB_OK)
            measure_alternative(b, device, cli_request_finish(&from->request), from, name, list);
        nib_device_free(device);
    }
}

static json_t *measure_alternatives(const bench *b, cli_benchcase *from, const char *chosen,
                                    double seconds)
{
    json_t *list = json_array();
    if (!b->alternatives || seconds > ALTERNATIVE_SECONDS || from->request.request.variant)
        return list;
    if (strcmp(nib_device_backend(b->device), "cpu") == 0)
        measure_rows(b, from, list);
    else
        measure_variants(b, from, chosen, seconds, list);
    return list;
}

/* ---- one case ---- */

static void set_number(json_t *object, const char *name, double value)
{
    json_object_set_new(object, name, cli_json_number(value));
}

/* How near the roof: what the lower of the two ceilings would allow for this much work. */
static void set_rates(const bench *b, json_t *entry, double seconds, double bytes, double flops)
{
    const double by_memory =
        b->ceilings.bytes_per_second > 0 ? bytes / b->ceilings.bytes_per_second : (double)NAN;
    const double by_math =
        flops >= 0 && b->ceilings.flops_per_second > 0 ? flops / b->ceilings.flops_per_second : 0;
    const double least = fmax(by_memory, by_math);
    set_number(entry, "bytes", bytes);
    set_number(entry, "flops", flops >= 0 ? flops : (double)NAN);
    set_number(entry, "bytesPerSecond", bytes / seconds);
    set_number(entry, "flopsPerSecond", flops >= 0 ? flops / seconds : (double)NAN);
    set_number(entry, "roof", least / seconds);
    json_object_set_new(entry, "bound", json_string(by_math > by_memory ? "compute" : "memory"));
}

static void set_measurement(json_t *entry, const cli_measurement *m)
{
    json_t *seconds = json_object();
    json_object_set_new(seconds, "device", cli_stats_json(&m->device));
    json_object_set_new(seconds, "wall", cli_stats_json(&m->wall));
    json_object_set_new(seconds, "host", cli_stats_json(&m->host));
    json_object_set_new(seconds, "run", cli_stats_json(&m->run));
    json_object_set_new(entry, "repeats", json_integer(m->repeats));
    json_object_set_new(entry, "seconds", seconds);
}

static void set_cold(json_t *entry, const subject *s)
{
    json_t *cold = json_object();
    json_object_set_new(cold, "plan", json_real(s->plan_seconds));
    json_object_set_new(cold, "compile", json_real(s->compile_seconds));
    json_object_set_new(cold, "first", json_real(s->first_seconds));
    json_object_set_new(entry, "cold", cold);
}

static json_t *shapes_json(const cli_benchcase *from)
{
    json_t *shapes = json_object();
    char text[CLI_DESC_MAX];
    for (size_t i = 0; i < from->inputs.count; i++) {
        const nib_tensor_desc *desc = nib_tensor_describe(from->inputs.tensors[i]);
        json_object_set_new(shapes, from->inputs.names[i],
                            cli_json_text(cli_desc_text(desc, text)));
    }
    return shapes;
}

static nib_status measure_case(const bench *b, cli_benchcase *from, json_t *entry, nib_error *error)
{
    subject s = {.from = from};
    cli_measurement m;
    const bool tuned = cli_tuning_apply(b->session, &b->tuning, b->package,
                                        nib_device_caps(b->device), &from->request);
    nib_status status = start_subject(b, b->device, cli_request_finish(&from->request), &s, error);
    if (status == NIB_OK)
        status = cli_measure(s.call, b->case_seconds, &m, error);
    if (status == NIB_OK) {
        const char *variant = nib_plan_variant(s.plan);
        const double seconds = cli_best_time(&m)->median;
        variant = variant ? variant : "none";
        json_object_set_new(entry, "variant", cli_json_text(variant));
        json_object_set_new(entry, "call", cli_json_text(nib_call_description(s.call)));
        json_object_set_new(entry, "tuned", json_boolean(tuned));
        set_measurement(entry, &m);
        set_rates(b, entry, seconds, count_bytes(s.plan), from->flops);
        set_cold(entry, &s);
        json_object_set_new(entry, "alternatives", measure_alternatives(b, from, variant, seconds));
    }
    free_subject(&s);
    return status;
}

/* A case that cannot run here is in the result with its reason: one missing feature does not spoil
 * the rest. */
static json_t *bench_case(const bench *b, size_t index)
{
    cli_benchcase from;
    nib_error error = {0};
    char line[1200];
    json_t *entry = json_object();
    json_object_set_new(entry, "name", cli_json_text(cli_casefile_name(&b->file, index)));
    nib_status status = cli_benchcase_read(&b->file, b->package, index, &from, &error);
    if (status == NIB_OK) {
        json_object_set_new(entry, "role", cli_json_text(from.role));
        json_object_set_new(entry, "inputs", shapes_json(&from));
        status = measure_case(b, &from, entry, &error);
    }
    if (status != NIB_OK) {
        nib_error_format(&error, line, sizeof line);
        json_object_set_new(entry, "error", cli_json_text(line));
    }
    cli_benchcase_free(&from);
    return entry;
}

/* ---- the whole ---- */

static json_t *read_cpu_rows(cli_session *session)
{
    char *text = NULL;
    nib_error error = {0};
    if (nib_devices_json(session->context, &text, &error) != NIB_OK)
        return NULL;
    json_t *list = json_loads(text, 0, NULL);
    json_t *rows = json_object_get(json_array_get(json_object_get(list, "devices"), 0), "rows");
    json_incref(rows);
    json_decref(list);
    nib_text_free(session->context, text);
    return rows;
}

static nib_status read_contract(bench *b, nib_error *error)
{
    char *text = NULL;
    const nib_status status = nib_package_json(b->package, &text, error);
    if (status == NIB_OK)
        b->contract = json_loads(text, 0, NULL);
    nib_text_free(b->session->context, text);
    return status;
}

static nib_status check_baseline(const bench *b, const json_t *baseline, nib_error *error)
{
    const char *op = nib_package_op(b->package);
    if (!baseline || strcmp(cli_json_text_at(baseline, "op"), op) == 0)
        return NIB_OK;
    return cli_error(error, NIB_REQUEST, cli_value(&b->session->args, CLI_OPT_BASELINE),
                     "the baseline is of %s, not of %s", cli_json_text_at(baseline, "op"), op);
}

static int open_bench(bench *b, const json_t *baseline)
{
    cli_session *session = b->session;
    nib_error error = {0};
    double start = cli_seconds();
    if (cli_load_package(session, &b->package, &error) != NIB_OK ||
        check_baseline(b, baseline, &error) != NIB_OK)
        return cli_fail(session, &error);
    b->load_seconds = cli_seconds() - start;
    start = cli_seconds();
    const int code =
        cli_open_device(session, cli_value(&session->args, CLI_OPT_BACKEND), &b->device);
    b->open_seconds = cli_seconds() - start;
    if (code != CLI_OK)
        return code;
    if (cli_benchfile_load(session, b->package, &b->file, &error) != NIB_OK ||
        read_contract(b, &error) != NIB_OK ||
        cli_tuning_load(session, &b->tuning, &error) != NIB_OK)
        return cli_fail(session, &error);
    b->rows = read_cpu_rows(session);
    return CLI_OK;
}

static void close_bench(bench *b)
{
    json_decref(b->rows);
    json_decref(b->contract);
    cli_tuning_free(&b->tuning);
    cli_casefile_free(&b->file);
    nib_device_free(b->device);
    nib_package_free(b->package);
}

static json_t *ceilings_json(const nib_ceilings *ceilings)
{
    json_t *object = json_object();
    set_number(object, "bytesPerSecond",
               ceilings->bytes_per_second > 0 ? ceilings->bytes_per_second : (double)NAN);
    set_number(object, "flopsPerSecond",
               ceilings->flops_per_second > 0 ? ceilings->flops_per_second : (double)NAN);
    return object;
}

static json_t *date_json(void)
{
    char text[32] = "";
    const time_t now = time(NULL);
    const struct tm *utc = gmtime(&now);
    if (utc)
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", utc);
    return json_string(text);
}

static json_t *facts_json(const bench *b)
{
    json_t *result = json_object(), *cold = json_object();
    json_t *key = cli_tuning_key(b->session, b->package, nib_device_caps(b->device));
    json_object_set_new(result, "version", json_integer(CLI_BENCH_VERSION));
    json_object_set_new(result, "nibble", cli_json_text(nib_version()));
    json_object_set_new(result, "date", date_json());
    json_object_set_new(result, "op", cli_json_text(nib_package_op(b->package)));
    json_object_set_new(result, "backend", cli_json_text(nib_device_backend(b->device)));
    json_object_set_new(result, "device", cli_json_text(nib_device_description(b->device)));
    json_object_update(result, key);
    json_object_set_new(result, "ceilings", ceilings_json(&b->ceilings));
    json_object_set_new(cold, "load", json_real(b->load_seconds));
    json_object_set_new(cold, "open", json_real(b->open_seconds));
    json_object_set_new(result, "cold", cold);
    json_decref(key);
    return result;
}

static size_t count_chosen(const bench *b)
{
    size_t count = 0;
    for (size_t i = 0; i < cli_casefile_count(&b->file); i++)
        count += cli_benchcase_chosen(&b->file, i);
    return count;
}

static json_t *bench_cases(const bench *b, size_t total)
{
    json_t *cases = json_array();
    for (size_t i = 0; i < cli_casefile_count(&b->file); i++) {
        if (!cli_benchcase_chosen(&b->file, i))
            continue;
        cli_progress(b->session, json_array_size(cases), total, cli_casefile_name(&b->file, i));
        json_array_append_new(cases, bench_case(b, i));
    }
    cli_progress_end(b->session);
    return cases;
}

static int bench_all(bench *b, json_t **result)
{
    nib_error error = {0};
    const size_t total = count_chosen(b);
    if (total == 0) {
        cli_error(&error, NIB_REQUEST, b->file.path, "no case of the file is chosen");
        return cli_fail(b->session, &error);
    }
    cli_progress(b->session, 0, 0, "measuring the ceilings of the device");
    if (nib_device_ceilings(b->device, &b->ceilings, &error) != NIB_OK)
        return cli_fail(b->session, &error);
    *result = facts_json(b);
    json_object_set_new(*result, "cases", bench_cases(b, total));
    return CLI_OK;
}

int cli_bench(cli_session *session, const json_t *baseline, json_t **result)
{
    bench b = {.session = session,
               .case_seconds = (double)cli_integer(&session->args, CLI_OPT_SECONDS, 1),
               .alternatives = cli_has(&session->args, CLI_OPT_ALL_VARIANTS) ||
                               cli_has(&session->args, CLI_OPT_HTML)};
    *result = NULL;
    int code = open_bench(&b, baseline);
    if (code == CLI_OK)
        code = bench_all(&b, result);
    close_bench(&b);
    return code;
}
