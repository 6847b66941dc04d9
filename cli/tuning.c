/* SPDX-License-Identifier: Apache-2.0 */
#include "tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "files.h"

#define TUNING_VERSION 1

/* ---- reading ---- */

static json_t *empty_root(void)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(TUNING_VERSION));
    json_object_set_new(root, "entries", json_array());
    return root;
}

static nib_status parse(const char *path, const char *text, json_t **root, nib_error *error)
{
    json_error_t problem;
    *root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!*root) {
        cli_error(error, NIB_FORMAT, path, "%s", problem.text);
        error->line = (uint32_t)problem.line;
        error->column = (uint32_t)problem.column;
        return NIB_FORMAT;
    }
    if (json_integer_value(json_object_get(*root, "version")) == TUNING_VERSION &&
        json_is_array(json_object_get(*root, "entries")))
        return NIB_OK;
    json_decref(*root);
    *root = NULL;
    return cli_error(error, NIB_FORMAT, path, "this is not a tuning file of version %d",
                     TUNING_VERSION);
}

static nib_status read_root(const char *path, json_t **root, nib_error *error)
{
    char *text = NULL;
    *root = NULL;
    nib_status status = cli_read_file(path, &text, error);
    if (status == NIB_OK)
        status = parse(path, text, root, error);
    free(text);
    return status;
}

static bool is_absent(const char *path)
{
    struct stat facts;
    return stat(path, &facts) != 0 && errno == ENOENT;
}

static nib_status read_root_or_begin(const char *path, json_t **root, nib_error *error)
{
    if (!is_absent(path))
        return read_root(path, root, error);
    *root = empty_root();
    return NIB_OK;
}

nib_status cli_tuning_check(const char *path, nib_error *error)
{
    json_t *root = NULL;
    const nib_status status = read_root_or_begin(path, &root, error);
    json_decref(root);
    return status;
}

nib_status cli_tuning_load(const cli_session *session, cli_tuning *tuning, nib_error *error)
{
    const char *named = cli_value(&session->args, CLI_OPT_TUNING);
    *tuning = (cli_tuning){0};
    tuning->path = named ? cli_dup(named, strlen(named)) : cli_cache_path("tuning.json");
    if (!tuning->path || cli_has(&session->args, CLI_OPT_NO_TUNING)) {
        tuning->root = empty_root();
        return NIB_OK;
    }
    if (named)
        return read_root(named, &tuning->root, error);
    if (read_root_or_begin(tuning->path, &tuning->root, error) == NIB_OK)
        return NIB_OK;
    cli_note(session, "the tuning file %s is not used: %s", tuning->path, error->message);
    *error = (nib_error){0};
    tuning->root = empty_root();
    return NIB_OK;
}

void cli_tuning_free(cli_tuning *tuning)
{
    free(tuning->path);
    json_decref(tuning->root);
    *tuning = (cli_tuning){0};
}

/* ---- finding ---- */

static const char *adapter_text(const json_t *caps, const char *name)
{
    const json_t *adapter = json_object_get(caps, "adapterInfo");
    const char *text = json_string_value(json_object_get(adapter, name));
    return text ? text : "";
}

json_t *cli_tuning_key(const cli_session *session, const nib_package *package, const nib_caps *caps)
{
    char *text = NULL;
    nib_error error = {0};
    json_t *key = json_object();
    json_object_set_new(key, "package", cli_json_text(nib_package_digest(package)));
    if (nib_caps_json(caps, &text, &error) != NIB_OK)
        return key;
    json_t *record = json_loads(text, 0, NULL);
    char *adapter =
        cli_format("%s %s", adapter_text(record, "vendor"), adapter_text(record, "device"));
    json_object_set_new(key, "adapter", cli_json_text(adapter));
    json_object_set_new(key, "driver", cli_json_text(adapter_text(record, "description")));
    free(adapter);
    nib_text_free(session->context, text);
    json_decref(record);
    return key;
}

static bool has_key(const json_t *entry, json_t *key)
{
    const char *name;
    json_t *value;
    json_object_foreach(key, name, value)
    {
        if (!json_equal(json_object_get(entry, name), value))
            return false;
    }
    return true;
}

static size_t find(json_t *root, json_t *key)
{
    json_t *entries = json_object_get(root, "entries");
    for (size_t i = 0; i < json_array_size(entries); i++) {
        if (has_key(json_array_get(entries, i), key))
            return i;
    }
    return SIZE_MAX;
}

const json_t *cli_tuning_find(const cli_session *session, const cli_tuning *tuning,
                              const nib_package *package, const nib_caps *caps)
{
    json_t *key = cli_tuning_key(session, package, caps);
    const size_t at = find(tuning->root, key);
    json_decref(key);
    return at == SIZE_MAX ? NULL : json_array_get(json_object_get(tuning->root, "entries"), at);
}

/* ---- using ---- */

static bool sets(const cli_scalars *scalars, const char *name)
{
    for (size_t i = 0; i < scalars->count; i++) {
        if (strcmp(scalars->items[i].name, name) == 0)
            return true;
    }
    return false;
}

static void add_scalar(cli_scalars *scalars, const char *name, const json_t *value)
{
    nib_named_scalar scalar = {0};
    if (sets(scalars, name) || !cli_scalar_from_json(value, &scalar))
        return;
    nib_named_scalar *grown = cli_alloc((scalars->count + 1) * sizeof *grown);
    if (scalars->count)
        memcpy(grown, scalars->items, scalars->count * sizeof *grown);
    free(scalars->items);
    scalars->items = grown;
    scalar.name = cli_dup(name, strlen(name));
    grown[scalars->count++] = scalar;
}

void cli_tuning_drop(cli_request *request, size_t count)
{
    cli_scalars *scalars = &request->tunables;
    for (; scalars->count > count; scalars->count--) {
        const nib_named_scalar *last = &scalars->items[scalars->count - 1];
        free((void *)(uintptr_t)last->name);
        free((void *)(uintptr_t)last->string);
    }
}

static bool can_plan(const nib_package *package, const nib_caps *caps, cli_request *request)
{
    nib_plan *plan = NULL;
    nib_error error = {0};
    const nib_status status =
        nib_plan_create(package, cli_request_finish(request), caps, &plan, &error);
    nib_plan_free(plan);
    return status == NIB_OK;
}

static void note_tunables(const cli_session *session, const char *path, const json_t *tunables)
{
    char *text = json_dumps(tunables, JSON_COMPACT);
    cli_note(session, "tuned: %s (%s)", text ? text : "", path);
    free(text);
}

bool cli_tuning_apply(const cli_session *session, const cli_tuning *tuning,
                      const nib_package *package, const nib_caps *caps, cli_request *request)
{
    const char *name;
    json_t *value,
        *tunables = json_object_get(cli_tuning_find(session, tuning, package, caps), "tunables");
    const size_t before = request->tunables.count;
    json_object_foreach(tunables, name, value) add_scalar(&request->tunables, name, value);
    if (request->tunables.count == before)
        return false;
    if (!can_plan(package, caps, request)) {
        cli_tuning_drop(request, before);
        return false;
    }
    note_tunables(session, tuning->path, tunables);
    return true;
}

nib_status cli_tuning_use(const cli_session *session, const nib_package *package,
                          const nib_caps *caps, cli_request *request, nib_error *error)
{
    cli_tuning tuning;
    const nib_status status = cli_tuning_load(session, &tuning, error);
    if (status == NIB_OK)
        cli_tuning_apply(session, &tuning, package, caps, request);
    cli_tuning_free(&tuning);
    return status;
}

/* ---- writing ---- */

static json_t *key_of(const json_t *entry)
{
    static const char *const members[] = {"package", "adapter", "driver"};
    json_t *key = json_object();
    for (size_t i = 0; i < CLI_LENGTH(members); i++)
        json_object_set(key, members[i], json_object_get(entry, members[i]));
    return key;
}

static void put_entry(json_t *root, const json_t *entry)
{
    json_t *entries = json_object_get(root, "entries"), *key = key_of(entry);
    json_t *copy = json_deep_copy(entry);
    const size_t at = find(root, key);
    if (at == SIZE_MAX)
        json_array_append_new(entries, copy);
    else
        json_array_set_new(entries, at, copy);
    json_decref(key);
}

static nib_status replace(const char *path, const json_t *entry, nib_error *error)
{
    json_t *root = NULL;
    nib_status status = read_root_or_begin(path, &root, error);
    if (status != NIB_OK)
        return status;
    put_entry(root, entry);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    status = text ? cli_replace_file(path, text, strlen(text), error)
                  : cli_error(error, NIB_OUT_OF_MEMORY, path, "the tuning file could not be made");
    free(text);
    json_decref(root);
    return status;
}

nib_status cli_tuning_store(const cli_session *session, const char *path, const json_t *entry,
                            nib_error *error)
{
    nib_status status = cli_make_folder_of(path, error);
    if (status != NIB_OK)
        return status;
    char *lock_path = cli_format("%s.lock", path);
    const int lock = cli_lock(session, lock_path, "another process writes the tuning file", error);
    status = lock < 0 ? error->code : replace(path, entry, error);
    if (lock >= 0)
        cli_unlock(lock);
    free(lock_path);
    return status;
}
