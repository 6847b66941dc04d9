/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cache.h"
#include "commands.h"
#include "tune.h"
#include "tuning.h"

/* What was found so far, and where it goes. */
typedef struct finding {
    char *path;
    json_t *entry; /* the last one that was stored; NULL: none */
    bool failed;
} finding;

/* Before and after for each case, as they were confirmed. */
static json_t *cases_json(const cli_tuner *t)
{
    json_t *cases = json_array();
    for (size_t i = 0; i < t->case_count; i++) {
        const cli_tune_case *c = &t->cases[i];
        json_t *entry = json_object();
        json_object_set_new(entry, "name", cli_json_text(c->bench.name));
        json_object_set_new(entry, "before", cli_json_number(c->default_seconds));
        json_object_set_new(entry, "after", cli_json_number(c->best_seconds));
        json_array_append_new(cases, entry);
    }
    return cases;
}

/* Stored at once: whatever happens to this process later, the gain stays. */
static void store(cli_tuner *t, const cli_candidate *best, void *user)
{
    finding *f = user;
    nib_error error = {0};
    json_t *entry = cli_tuning_key(t->session, t->package, nib_device_caps(t->device));
    json_object_set_new(entry, "op", cli_json_text(nib_package_op(t->package)));
    json_object_set_new(entry, "nibble", cli_json_text(nib_version()));
    json_object_set_new(entry, "tunables", cli_candidate_json(t, best));
    json_object_set_new(entry, "cases", cases_json(t));
    json_object_set_new(entry, "gain", json_real(1 / best->score));
    if (cli_tuning_store(t->session, f->path, entry, &error) != NIB_OK) {
        cli_fail(t->session, &error);
        f->failed = true;
    }
    json_decref(f->entry);
    f->entry = entry;
}

/* ---- reporting ---- */

static void print_cases(const json_t *cases)
{
    size_t i;
    json_t *entry;
    json_array_foreach(cases, i, entry)
    {
        char before[32], after[32];
        const double b = cli_json_at(entry, "before"), a = cli_json_at(entry, "after");
        cli_seconds_text(b, before);
        cli_seconds_text(a, after);
        printf("  %-40.40s %9s -> %9s  %.2fx\n", cli_json_text_at(entry, "name"), before, after,
               b / a);
    }
}

static void print_not_reached(const cli_tuner *t)
{
    const size_t count = json_array_size(t->not_reached);
    if (count == 0)
        return;
    printf("%zu cases were not reached in the time:", count);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : " ", stdout);
        cli_print_clean(stdout, json_string_value(json_array_get(t->not_reached, i)));
    }
    putchar('\n');
}

/* Why there is no entry. */
static const char *reason_of(const cli_tuner *t)
{
    if (t->unconfirmed)
        return "something better was found, and no time was left to confirm it; give it more "
               "--seconds";
    if (t->measured == 0 && t->out_of_time)
        return "nothing was tried: the time was over; give it more --seconds";
    if (t->measured == 0)
        return "nothing was tried: no other values change these calls";
    if (t->out_of_time)
        return "nothing better than the manifest's defaults was found in the time; not all was "
               "tried";
    return "nothing better than the manifest's defaults was found";
}

static void print_text(const cli_tuner *t, const finding *f)
{
    printf("%zu candidates measured on %zu cases; %zu more change nothing, %zu attempts were "
           "rejected, %zu computed something else\n",
           t->measured, t->case_count, t->unchanged, t->rejected, t->wrong);
    print_not_reached(t);
    if (!f->entry) {
        puts(reason_of(t));
        return;
    }
    char *tunables = json_dumps(json_object_get(f->entry, "tunables"), JSON_COMPACT);
    printf("tuned %s: %.2fx\n", tunables ? tunables : "", cli_json_at(f->entry, "gain"));
    print_cases(json_object_get(f->entry, "cases"));
    free(tunables);
}

static void print_json(const cli_tuner *t, const finding *f)
{
    json_t *object = json_object();
    json_object_set_new(object, "op", cli_json_text(nib_package_op(t->package)));
    json_object_set_new(object, "device", cli_json_text(nib_device_description(t->device)));
    json_object_set_new(object, "measured", json_integer((json_int_t)t->measured));
    json_object_set_new(object, "unchanged", json_integer((json_int_t)t->unchanged));
    json_object_set_new(object, "rejected", json_integer((json_int_t)t->rejected));
    json_object_set_new(object, "wrong", json_integer((json_int_t)t->wrong));
    json_object_set_new(object, "cases", json_integer((json_int_t)t->case_count));
    json_object_set(object, "notReached", t->not_reached);
    json_object_set_new(object, "outOfTime", json_boolean(t->out_of_time));
    json_object_set(object, "entry", f->entry ? f->entry : json_null());
    json_object_set_new(object, "file", cli_json_text(f->path));
    cli_print_json(object);
}

/* ---- the command ---- */

static char *tuning_path(const cli_session *session)
{
    const char *named = cli_value(&session->args, CLI_OPT_TUNING);
    return named ? cli_dup(named, strlen(named)) : cli_cache_path("tuning.json");
}

static int search(cli_tuner *t, finding *f)
{
    cli_tune(t, store, f);
    if (f->failed)
        return CLI_FAILED;
    if (t->session->json)
        print_json(t, f);
    else
        print_text(t, f);
    if (f->entry)
        cli_note(t->session, "wrote %s; run, plan, bench and explain use it from now on", f->path);
    return !f->entry && t->measured == 0 && t->out_of_time ? CLI_FAILED : CLI_OK;
}

static int run_tune(cli_session *session)
{
    cli_tuner tuner = {.session = session};
    nib_error error = {0};
    finding f = {.path = tuning_path(session)};
    if (!f.path) {
        cli_error(&error, NIB_IO, "", "there is no home folder; name a file with --tuning");
        return cli_fail(session, &error);
    }
    int code = cli_tuning_check(f.path, &error) == NIB_OK ? cli_tuner_open(session, &tuner)
                                                          : cli_fail(session, &error);
    if (code == CLI_OK)
        code = search(&tuner, &f);
    cli_tuner_close(&tuner);
    json_decref(f.entry);
    free(f.path);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_BACKEND,
    CLI_OPT_CASE,
    CLI_OPT_SECONDS,
    CLI_OPT_TUNING,
    CLI_OPT_ADAPTER,
    CLI_OPT_DISABLE_FEATURE,
    CLI_OPT_MANIFEST,
    CLI_OPT_NO_VERIFY,
    CLI_OPT_CONTRACT_VERSION,
    CLI_OPT_TRUST_REMOTE_CODE,
    CLI_OPT_JSON,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
};

const cli_command cli_command_tune = {
    .name = "tune",
    .arguments = "PACKAGE",
    .summary = "find better tunables for this GPU",
    .details =
        "Try the tunables of a package on this GPU over the cases of its bench.json, for --seconds "
        "(default 60), of which a third at most goes to the defaults; the exit code is 1 when no "
        "time was left to try anything. Combinations that the manifest's conditions refuse are not "
        "run, and results "
        "that differ from those of the defaults disqualify. What is better goes into the tuning "
        "file at once, under the package's digest, the adapter and the driver; run, plan, bench "
        "and explain use it until one of these changes.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_tune,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
