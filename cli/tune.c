/* SPDX-License-Identifier: Apache-2.0 */
#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "measure.h"
#include "print.h"

/* A gain below this may be noise. */
#define LEAST_GAIN 0.03
/* Candidates in the first rung of a round, and the time that each gets there for all cases. */
enum { FIRST_RUNG = 24 };
#define FIRST_SECONDS 0.06
/* The part of the time that the defaults may take, and of what is then left that confirming a
 * winner may. */
#define DEFAULTS_PART (1.0 / 3)
#define CONFIRM_PART  0.4

/* ---- candidates ---- */

static json_t *value_of(const cli_tuner *t, const cli_candidate *candidate, size_t knob)
{
    return json_array_get(t->knobs[knob].values, candidate->choice[knob]);
}

json_t *cli_candidate_json(const cli_tuner *t, const cli_candidate *candidate)
{
    json_t *object = json_object();
    for (size_t i = 0; i < t->knob_count; i++) {
        if (candidate->choice[i])
            json_object_set(object, t->knobs[i].name, value_of(t, candidate, i));
    }
    return object;
}

static bool same_choices(const cli_tuner *t, const cli_candidate *a, const cli_candidate *b)
{
    return memcmp(a->choice, b->choice, t->knob_count) == 0;
}

/* Whole numbers are tried at powers of two around the default, switches the other way round. A
 * default of 0 leaves the value to the manifest, as in our packages; there small numbers are tried.
 */
static json_t *values_of(const json_t *fallback)
{
    static const double factors[] = {0.5, 2, 0.25, 4};
    static const int small[] = {1, 2, 3, 4, 8, 16, 28, 32};
    json_t *values = json_array();
    json_array_append(values, (json_t *)(uintptr_t)fallback);
    if (json_is_boolean(fallback))
        json_array_append_new(values, json_boolean(!json_is_true(fallback)));
    const double number = json_is_number(fallback) ? json_number_value(fallback) : 0;
    for (size_t i = 0; i < CLI_LENGTH(factors) && number >= 1; i++) {
        const double value = number * factors[i];
        if (value >= 1 && value == floor(value))
            json_array_append_new(values, json_integer((json_int_t)value));
    }
    for (size_t i = 0; i < CLI_LENGTH(small) && json_is_number(fallback) && number == 0; i++)
        json_array_append_new(values, json_integer(small[i]));
    return values;
}

static nib_status read_knobs(cli_tuner *t, nib_error *error)
{
    char *text = NULL;
    const char *name;
    json_t *tunable;
    const nib_status status = nib_package_json(t->package, &text, error);
    if (status != NIB_OK)
        return status;
    json_t *contract = json_loads(text, 0, NULL);
    json_object_foreach(json_object_get(contract, "tunables"), name, tunable)
    {
        json_t *values = values_of(json_object_get(tunable, "default"));
        if (json_array_size(values) > 1 && t->knob_count < CLI_MAX_KNOBS)
            t->knobs[t->knob_count++] = (cli_knob){cli_dup(name, strlen(name)), values};
        else
            json_decref(values);
    }
    json_decref(contract);
    nib_text_free(t->session->context, text);
    if (t->knob_count)
        return NIB_OK;
    return cli_error(error, NIB_REQUEST, nib_package_op(t->package),
                     "the package has no tunables to try");
}

/* ---- plans ---- */

static void set_tunables(const cli_tuner *t, const cli_candidate *candidate, cli_scalars *scalars)
{
    const char *name;
    json_t *value, *object = cli_candidate_json(t, candidate);
    *scalars = (cli_scalars){0};
    scalars->items = cli_alloc(json_object_size(object) * sizeof *scalars->items);
    json_object_foreach(object, name, value)
    {
        nib_named_scalar *scalar = &scalars->items[scalars->count];
        if (cli_scalar_from_json(value, scalar)) {
            scalar->name = cli_dup(name, strlen(name));
            scalars->count++;
        }
    }
    json_decref(object);
}

/* The manifest's own conditions reject what does not go together. */
static nib_status plan_candidate(const cli_tuner *t, const cli_candidate *candidate,
                                 cli_tune_case *c, nib_plan **plan)
{
    nib_error error = {0};
    cli_scalars scalars;
    set_tunables(t, candidate, &scalars);
    nib_request request = *cli_request_finish(&c->bench.request);
    request.tunables = scalars.items;
    request.tunable_count = scalars.count;
    const nib_status status =
        nib_plan_create(t->package, &request, nib_device_caps(t->device), plan, &error);
    cli_scalars_free(&scalars);
    return status;
}

static void append(char **text, const char *more)
{
    const size_t length = *text ? strlen(*text) : 0;
    char *grown = realloc(*text, length + strlen(more) + 1);
    if (!grown)
        return;
    memcpy(grown + length, more, strlen(more) + 1);
    *text = grown;
}

/* Everything that reaches the device: two candidates with the same text run the same. */
static char *fingerprint_of(const cli_tuner *t, const nib_plan *plan)
{
    char *text = NULL, *part = NULL;
    nib_error error = {0};
    for (size_t pass = 0; pass < nib_plan_pass_count(plan); pass++) {
        if (nib_plan_wgsl(plan, pass, &part, &error) == NIB_OK)
            append(&text, part);
        nib_text_free(t->session->context, part);
        part = NULL;
    }
    if (nib_plan_json(plan, &part, &error) == NIB_OK) {
        json_t *record = json_loads(part, 0, NULL);
        json_t *passes = json_object_get(record, "passes");
        char *dump = json_dumps(passes ? passes : record, JSON_SORT_KEYS);
        append(&text, dump ? dump : "");
        free(dump);
        json_decref(record);
    }
    nib_text_free(t->session->context, part);
    return text ? text : cli_dup("", 0);
}

/* ---- one candidate on one case ---- */

static nib_status start_call(const cli_tuner *t, const cli_tune_case *c, const nib_plan *plan,
                             nib_call **call)
{
    nib_error error = {0};
    const cli_inputs *inputs = &c->bench.inputs;
    nib_status status = nib_call_prepare(t->device, plan, NULL, call, &error);
    for (size_t i = 0; i < inputs->count && status == NIB_OK; i++)
        status = nib_call_bind(*call, inputs->names[i], inputs->tensors[i], &error);
    return status == NIB_OK ? nib_call_run(*call, &error) : status;
}

/* The largest finite magnitude, at least 1: sums are compared with the size of their terms. */
static double magnitude(nib_tensor *tensor)
{
    double most = 1;
    for (size_t i = 0; i < cli_elements(tensor); i++) {
        const double value = fabs(cli_element(tensor, i));
        if (isfinite(value) && value > most)
            most = value;
    }
    return most;
}

static bool same_output(nib_tensor *actual, nib_tensor *expected)
{
    const double tolerance = cli_default_tolerance(nib_tensor_describe(actual)->dtype);
    const double scale = magnitude(expected);
    for (size_t i = 0; i < cli_elements(actual); i++) {
        const double a = cli_element(actual, i), e = cli_element(expected, i);
        const bool alike = a == e || (isnan(a) && isnan(e)) || fabs(a - e) <= 4 * tolerance * scale;
        if (!alike)
            return false;
    }
    return true;
}

static bool same_outputs(const cli_tune_case *c, nib_call *call)
{
    for (size_t i = 0; i < nib_plan_tensor_count(c->plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(c->plan, i);
        if (info.role != NIB_INPUT &&
            !same_output(nib_call_tensor(call, info.key), nib_call_tensor(c->call, info.key)))
            return false;
    }
    return true;
}

static double measure_plan(cli_tuner *t, const cli_tune_case *c, const nib_plan *plan,
                           double seconds)
{
    nib_call *call = NULL;
    nib_error error = {0};
    cli_measurement m;
    double result = HUGE_VAL;
    if (start_call(t, c, plan, &call) != NIB_OK)
        t->rejected++;
    else if (!same_outputs(c, call))
        t->wrong++;
    else if (cli_measure_quick(call, seconds, &m, &error) == NIB_OK)
        result = cli_best_time(&m)->min;
    nib_call_free(call);
    return result;
}

/* A case whose plan is that of the defaults or of the best so far has been measured already. */
static double measure_case(cli_tuner *t, const cli_candidate *candidate, cli_tune_case *c,
                           double seconds)
{
    nib_plan *plan = NULL;
    double result = HUGE_VAL;
    if (plan_candidate(t, candidate, c, &plan) == NIB_OK) {
        char *fingerprint = fingerprint_of(t, plan);
        if (strcmp(fingerprint, c->best_fingerprint) == 0)
            result = c->best_seconds;
        else if (strcmp(fingerprint, c->fingerprint) == 0)
            result = c->default_seconds;
        else
            result = measure_plan(t, c, plan, seconds);
        free(fingerprint);
    } else {
        t->rejected++;
    }
    nib_plan_free(plan);
    return result;
}

/* ---- one candidate on all cases ---- */

typedef enum outcome { REJECTED, UNCHANGED, CHANGED } outcome;

/* What the candidate plans in comparison with the best so far, over all cases. */
static outcome compare_plans(const cli_tuner *t, const cli_candidate *candidate)
{
    outcome result = UNCHANGED;
    for (size_t i = 0; i < t->case_count && result != REJECTED; i++) {
        nib_plan *plan = NULL;
        if (plan_candidate(t, candidate, &t->cases[i], &plan) == NIB_OK) {
            char *fingerprint = fingerprint_of(t, plan);
            if (strcmp(fingerprint, t->cases[i].best_fingerprint) != 0)
                result = CHANGED;
            free(fingerprint);
        } else {
            result = REJECTED;
        }
        nib_plan_free(plan);
    }
    return result;
}

static bool time_is_over(const cli_tuner *t)
{
    return cli_seconds() > t->deadline;
}

/* The search ends early enough to confirm what it found. */
static bool search_is_over(const cli_tuner *t)
{
    return cli_seconds() > t->search_deadline;
}

/* False when the time was over before the last case; the score is then what it was. */
static bool score(cli_tuner *t, cli_candidate *candidate, double seconds)
{
    double logarithms = 0;
    for (size_t i = 0; i < t->case_count; i++) {
        if (search_is_over(t))
            return false;
        const double time =
            measure_case(t, candidate, &t->cases[i], seconds / (double)t->case_count);
        logarithms += log(time / t->cases[i].default_seconds);
        if (isinf(time))
            break;
    }
    t->measured++;
    candidate->score = exp(logarithms / (double)t->case_count);
    return true;
}

/* ---- successive halving ---- */

static int by_score(const void *a, const void *b)
{
    const cli_candidate *x = a, *y = b;
    return x->score < y->score ? -1 : x->score > y->score;
}

/* Measure, keep the better half, give it twice the time, and so on. The best of the last rung that
 * was begun stands first at the end. */
static void halve(cli_tuner *t, cli_candidate *pool, size_t count)
{
    double seconds = FIRST_SECONDS * (double)t->case_count;
    while (count > 0) {
        size_t done = 0;
        for (; done < count; done++) {
            cli_progress(t->session, done, count, "candidates");
            if (!score(t, &pool[done], seconds))
                break;
        }
        qsort(pool, done, sizeof *pool, by_score);
        if (count == 1 || search_is_over(t))
            return;
        count = (count + 1) / 2;
        while (count > 1 && isinf(pool[count - 1].score))
            count--;
        seconds *= 2;
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- rounds ---- */

/* Every value of every knob, in an order that favours none. */
typedef struct search {
    struct {
        unsigned char knob, value;
    } changes[CLI_MAX_KNOBS * CLI_MAX_VALUES];
    size_t count, next; /* from `next` on they have not been tried with the best so far */
    uint64_t state;
    cli_candidate pool[FIRST_RUNG];
    size_t pool_count;
} search;

static void shuffle(search *s)
{
    for (size_t i = s->count; i > 1; i--) {
        const size_t other = next_random(&s->state) % i;
        const unsigned char knob = s->changes[other].knob, value = s->changes[other].value;
        s->changes[other] = s->changes[i - 1];
        s->changes[i - 1].knob = knob;
        s->changes[i - 1].value = value;
    }
    s->next = 0;
}

static void begin_search(const cli_tuner *t, search *s)
{
    *s = (search){.state = 0x9e3779b97f4a7c15u};
    for (size_t knob = 0; knob < t->knob_count; knob++) {
        for (size_t v = 0; v < json_array_size(t->knobs[knob].values) && v < CLI_MAX_VALUES; v++) {
            s->changes[s->count].knob = (unsigned char)knob;
            s->changes[s->count++].value = (unsigned char)v;
        }
    }
    shuffle(s);
}

static void add_candidate(cli_tuner *t, search *s, const cli_candidate *candidate,
                          const cli_candidate *best)
{
    bool known = same_choices(t, candidate, best);
    for (size_t i = 0; i < s->pool_count && !known; i++)
        known = same_choices(t, candidate, &s->pool[i]);
    if (known)
        return;
    const outcome plans = compare_plans(t, candidate);
    t->unchanged += plans == UNCHANGED;
    t->rejected += plans == REJECTED;
    if (plans != CHANGED)
        return;
    s->pool[s->pool_count] = *candidate;
    s->pool[s->pool_count++].score = HUGE_VAL;
}

static bool takes_more(const cli_tuner *t, const search *s)
{
    return s->pool_count < FIRST_RUNG && !search_is_over(t);
}

/* The next ones that differ from the best in one knob, then random ones that differ in two. */
static void fill_pool(cli_tuner *t, search *s, const cli_candidate *best)
{
    s->pool_count = 0;
    for (; s->next < s->count && takes_more(t, s); s->next++) {
        cli_candidate candidate = *best;
        candidate.choice[s->changes[s->next].knob] = s->changes[s->next].value;
        add_candidate(t, s, &candidate, best);
    }
    for (size_t i = 0; i < 4 * FIRST_RUNG && t->knob_count > 1 && takes_more(t, s); i++) {
        cli_candidate candidate = *best;
        for (int twice = 0; twice < 2; twice++) {
            const size_t change = next_random(&s->state) % s->count;
            candidate.choice[s->changes[change].knob] = s->changes[change].value;
        }
        add_candidate(t, s, &candidate, best);
    }
}

/* ---- the winner of a round ---- */

/* A case of the winner and of the best before, measured anew. Where both plan the same the time
 * stays what it is. False when the winner fails here or the time is over. */
static bool confirm_case(cli_tuner *t, const cli_candidate *winner, const cli_candidate *best,
                         cli_tune_case *c, double seconds)
{
    nib_plan *before = NULL, *after = NULL;
    const bool planned = plan_candidate(t, best, c, &before) == NIB_OK &&
                         plan_candidate(t, winner, c, &after) == NIB_OK;
    char *fingerprint = planned ? fingerprint_of(t, after) : NULL;
    c->old_seconds = c->new_seconds = c->best_seconds;
    if (planned && strcmp(fingerprint, c->best_fingerprint) != 0) {
        c->old_seconds = measure_plan(t, c, before, seconds);
        c->new_seconds = measure_plan(t, c, after, seconds);
    }
    free(fingerprint);
    nib_plan_free(after);
    nib_plan_free(before);
    return planned && isfinite(c->old_seconds) && isfinite(c->new_seconds);
}

/* The winner of a round against the one before, both measured anew and longer: the winner of many
 * was partly lucky. */
static bool confirms(cli_tuner *t, const cli_candidate *winner, const cli_candidate *best)
{
    const double left = (t->deadline - cli_seconds()) / (double)t->case_count;
    const double seconds = fmax(0.02, fmin(8 * FIRST_SECONDS, left / 3));
    double logarithms = 0;
    for (size_t i = 0; i < t->case_count; i++) {
        if (time_is_over(t)) {
            t->unconfirmed = true;
            return false;
        }
        if (!confirm_case(t, winner, best, &t->cases[i], seconds))
            return false;
        logarithms += log(t->cases[i].new_seconds / t->cases[i].old_seconds);
    }
    return exp(logarithms / (double)t->case_count) < 1 - LEAST_GAIN;
}

static void set_best_plans(cli_tuner *t, const cli_candidate *best)
{
    for (size_t i = 0; i < t->case_count; i++) {
        cli_tune_case *c = &t->cases[i];
        nib_plan *plan = NULL;
        if (plan_candidate(t, best, c, &plan) == NIB_OK) {
            free(c->best_fingerprint);
            c->best_fingerprint = fingerprint_of(t, plan);
        }
        nib_plan_free(plan);
        /* While the best were the defaults, it was them that were measured anew. */
        if (c->best_seconds == c->default_seconds)
            c->default_seconds = c->old_seconds;
        c->best_seconds = c->new_seconds;
    }
}

/* Back to the default with each tunable that has no effect on any case. */
static void drop_idle(cli_tuner *t, cli_candidate *best)
{
    for (size_t knob = 0; knob < t->knob_count; knob++) {
        cli_candidate without = *best;
        without.choice[knob] = 0;
        if (best->choice[knob] && compare_plans(t, &without) == UNCHANGED)
            *best = without;
    }
}

static double gain_of(const cli_tuner *t)
{
    double logarithms = 0;
    for (size_t i = 0; i < t->case_count; i++)
        logarithms += log(t->cases[i].best_seconds / t->cases[i].default_seconds);
    return exp(logarithms / (double)t->case_count);
}

/* Whether a better one was found. */
static bool search_round(cli_tuner *t, search *s, cli_candidate *best)
{
    const double now = cli_seconds();
    t->search_deadline = t->deadline - fmin(CONFIRM_PART * (t->deadline - now),
                                            20 * FIRST_SECONDS * (double)t->case_count);
    fill_pool(t, s, best);
    halve(t, s->pool, s->pool_count);
    const cli_candidate *winner = &s->pool[0];
    if (s->pool_count == 0 || !(winner->score < best->score * (1 - LEAST_GAIN)) ||
        !confirms(t, winner, best))
        return false;
    *best = *winner;
    set_best_plans(t, best);
    drop_idle(t, best);
    best->score = gain_of(t);
    return true;
}

cli_candidate cli_tune(cli_tuner *t,
                       void (*found)(cli_tuner *tuner, const cli_candidate *best, void *user),
                       void *user)
{
    cli_candidate best = {.score = 1};
    search *s = cli_alloc(sizeof *s);
    begin_search(t, s);
    while (!time_is_over(t)) {
        if (search_round(t, s, &best)) {
            found(t, &best, user);
            shuffle(s);
        } else if (s->next == s->count || search_is_over(t)) {
            break;
        }
    }
    t->out_of_time = s->next < s->count || search_is_over(t);
    cli_progress_end(t->session);
    free(s);
    return best;
}

/* ---- life ---- */

/* Plan, run and measure the defaults of a case. A case that cannot run here is left out. */
static bool add_case(cli_tuner *t, size_t index, double seconds)
{
    const cli_candidate defaults = {.score = 1};
    cli_tune_case *c = &t->cases[t->case_count];
    nib_error error = {0};
    cli_measurement m;
    *c = (cli_tune_case){0};
    bool good = cli_benchcase_read(&t->file, t->package, index, &c->bench, &error) == NIB_OK &&
                plan_candidate(t, &defaults, c, &c->plan) == NIB_OK &&
                start_call(t, c, c->plan, &c->call) == NIB_OK &&
                cli_measure_quick(c->call, seconds, &m, &error) == NIB_OK;
    if (!good) {
        nib_call_free(c->call);
        nib_plan_free(c->plan);
        cli_benchcase_free(&c->bench);
        return false;
    }
    c->default_seconds = c->best_seconds = cli_best_time(&m)->min;
    c->fingerprint = fingerprint_of(t, c->plan);
    c->best_fingerprint = cli_dup(c->fingerprint, strlen(c->fingerprint));
    t->case_count++;
    return true;
}

static size_t count_chosen(const cli_tuner *t)
{
    size_t count = 0;
    for (size_t i = 0; i < cli_casefile_count(&t->file); i++)
        count += cli_benchcase_chosen(&t->file, i);
    return count;
}

/* The defaults get a part of the time; cases that are not reached in it are left to the report. */
static int add_cases(cli_tuner *t)
{
    const size_t total = cli_casefile_count(&t->file);
    const double start = cli_seconds(), part = (t->deadline - start) * DEFAULTS_PART;
    const double seconds = fmin(10 * FIRST_SECONDS, part / 2 / (double)(count_chosen(t) + 1));
    nib_error error = {0};
    t->cases = cli_alloc(total * sizeof *t->cases);
    t->not_reached = json_array();
    for (size_t i = 0; i < total; i++) {
        if (!cli_benchcase_chosen(&t->file, i))
            continue;
        cli_progress(t->session, i, total, cli_casefile_name(&t->file, i));
        if (t->case_count && cli_seconds() - start > part)
            json_array_append_new(t->not_reached, cli_json_text(cli_casefile_name(&t->file, i)));
        else if (!add_case(t, i, seconds))
            cli_note(t->session, "%s does not run here and is left out",
                     cli_casefile_name(&t->file, i));
    }
    cli_progress_end(t->session);
    if (t->case_count)
        return CLI_OK;
    cli_error(&error, NIB_REQUEST, t->file.path, "no case of the file runs on this device");
    return cli_fail(t->session, &error);
}

int cli_tuner_open(cli_session *session, cli_tuner *t)
{
    const char *backend = cli_value(&session->args, CLI_OPT_BACKEND);
    nib_error error = {0};
    *t = (cli_tuner){.session = session};
    t->deadline = cli_seconds() + (double)cli_integer(&session->args, CLI_OPT_SECONDS, 60);
    if (cli_load_package(session, &t->package, &error) != NIB_OK ||
        cli_benchfile_load(session, t->package, &t->file, &error) != NIB_OK ||
        read_knobs(t, &error) != NIB_OK)
        return cli_fail(session, &error);
    const int code = cli_open_device(session, backend ? backend : "webgpu", &t->device);
    if (code != CLI_OK)
        return code;
    if (strcmp(nib_device_backend(t->device), "webgpu") != 0) {
        cli_error(&error, NIB_UNSUPPORTED, "", "tunables are for shaders: the CPU has none");
        return cli_fail(session, &error);
    }
    return add_cases(t);
}

void cli_tuner_close(cli_tuner *t)
{
    for (size_t i = 0; i < t->case_count; i++) {
        nib_call_free(t->cases[i].call);
        nib_plan_free(t->cases[i].plan);
        free(t->cases[i].fingerprint);
        free(t->cases[i].best_fingerprint);
        cli_benchcase_free(&t->cases[i].bench);
    }
    free(t->cases);
    json_decref(t->not_reached);
    for (size_t i = 0; i < t->knob_count; i++) {
        free(t->knobs[i].name);
        json_decref(t->knobs[i].values);
    }
    nib_device_free(t->device);
    cli_casefile_free(&t->file);
    nib_package_free(t->package);
}
