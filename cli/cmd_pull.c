/* SPDX-License-Identifier: Apache-2.0
 *
 * nibble pull: a package from the Hub into the cache.
 *
 * Order (format 1.3-1.7): the name and its trust, metadata.json at the revision, which says the
 * commit, then every file of digest.files at that commit. Each file becomes a blob when its digest
 * is right. When all are there a folder is filled beside the snapshots, loaded as a package, and
 * renamed; last the revision is written down. A process that is killed in between leaves partial
 * blobs, which the next run continues, and no snapshot.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "files.h"
#include "hub.h"
#include "tree.h"

#define DEFAULT_SECONDS 3600

typedef struct pull {
    cli_session *session;
    const char *repo;
    char *revision; /* what the user named: "v1", a tag, a commit */
    char *folder;   /* of the repository in the cache */
    char *commit;
    char *snapshot; /* the folder of the commit */
    cli_tree tree;
    cli_http *http;
    size_t downloaded; /* files */
    uint64_t received; /* bytes */
    bool was_there;    /* the snapshot was complete */
    nib_package *package;
    nib_error error;
} pull;

/* ---- the command line ---- */

static int read_arguments(pull *p)
{
    const cli_args *args = &p->session->args;
    const char *version = cli_value(args, CLI_OPT_PULL_VERSION);
    const char *revision = cli_value(args, CLI_OPT_REVISION);
    p->repo = args->arguments[0];
    if (!cli_hub_is_repo(p->repo))
        return cli_usage(args->command, "'%s' is no package on the Hub; its form is owner/name",
                         p->repo);
    if (version && cli_hub_version(version) < 0)
        return cli_usage(args->command, "--version is '%s'; it must be a whole number from 0",
                         version);
    if (!version && !revision)
        return cli_usage(args->command, "say which one: --version N or --revision SHA");
    if (revision && !cli_hub_is_revision(revision))
        return cli_usage(args->command, "--revision '%s' cannot be a branch, tag or commit",
                         revision);
    p->revision = revision ? cli_dup(revision, strlen(revision))
                           : cli_format("v%lld", (long long)cli_hub_version(version));
    return CLI_OK;
}

static void set_commit(pull *p, const char *commit)
{
    free(p->commit);
    free(p->snapshot);
    p->commit = cli_dup(commit, strlen(commit));
    p->snapshot = cli_hub_snapshot(p->folder, commit);
}

/* ---- pieces of the cache ---- */

static char *blob_path(const pull *p, const char *name)
{
    return cli_format("%s/blobs/%s", p->folder, name);
}

static nib_status read_tree(pull *p, const char *path)
{
    char *text;
    size_t count;
    cli_tree_free(&p->tree);
    nib_status status = cli_read_bytes(path, CLI_PACKAGE_JSON_LIMIT, &text, &count, &p->error);
    if (status == NIB_OK)
        status = cli_tree_read(text, count, "metadata.json", &p->tree, &p->error);
    free(text);
    return status;
}

/* Load the package of a snapshot folder: every rule of the format, then every digest. */
static nib_status load(pull *p, const char *folder)
{
    const nib_package_options options = {.expected_op = strchr(p->repo, '/') + 1};
    char *files = cli_format("%s/" CLI_PACKAGE_FOLDER, folder);
    nib_package_free(p->package);
    p->package = NULL;
    nib_status status =
        nib_package_load(p->session->context, folder, &options, &p->package, &p->error);
    if (status == NIB_OK)
        status = cli_tree_check(&p->tree, files, &p->error);
    free(files);
    return status;
}

/* Is the snapshot of p->commit there and whole? */
static bool snapshot_is_whole(pull *p)
{
    char *metadata = cli_format("%s/" CLI_PACKAGE_FOLDER "/metadata.json", p->snapshot);
    const bool whole = cli_is_plain_file(metadata) && read_tree(p, metadata) == NIB_OK &&
                       load(p, p->snapshot) == NIB_OK;
    free(metadata);
    return whole;
}

/* ---- fetching ---- */

static nib_status fetch(pull *p, const char *revision, const char *path, const char *file,
                        size_t limit, size_t at, cli_fetch *result)
{
    char *url = cli_hub_url(p->repo, revision, path);
    *result = (cli_fetch){.url = url, .file = file, .limit = limit, .title = path};
    result->at = at;
    result->total = at ? p->tree.count : 0;
    const nib_status status = cli_http_fetch(p->http, result, &p->error);
    p->received += result->received;
    free(url);
    result->url = NULL;
    return status;
}

/* Work in progress, of no use to another run. */
static char *work_path(const pull *p, const char *name)
{
    return cli_format("%s/.%s.incomplete", p->folder, name);
}

static void remove_work(const pull *p)
{
    static const char *const names[] = {"metadata", "card", "snapshot", "ref"};
    for (size_t i = 0; i < CLI_LENGTH(names); i++) {
        char *path = work_path(p, names[i]);
        cli_remove_tree(path);
        free(path);
    }
}

/* metadata.json comes first: it is not verified by anything but TLS, and its answer names the
 * commit by which the rest is fetched (format 1.4). */
static nib_status fetch_metadata(pull *p, const char *file)
{
    cli_fetch answer;
    const nib_status status = fetch(p, p->revision, CLI_PACKAGE_FOLDER "/metadata.json", file,
                                    CLI_PACKAGE_JSON_LIMIT, 0, &answer);
    if (status != NIB_OK)
        return status;
    if (cli_hub_is_commit(p->revision)) {
        if (answer.commit[0] && strcmp(answer.commit, p->revision) != 0)
            return cli_error(&p->error, NIB_INTEGRITY, p->repo,
                             "the server answered with commit %s, not %s", answer.commit,
                             p->revision);
        set_commit(p, p->revision);
    } else if (answer.commit[0]) {
        set_commit(p, answer.commit);
    } else {
        return cli_error(
            &p->error, NIB_IO, p->repo,
            "the server does not say which commit \"%s\" is (no x-repo-commit header); "
            "name one with --revision",
            p->revision);
    }
    return NIB_OK;
}

/* A part that an earlier run left may be of no use: then the file is fetched once more, whole. */
static nib_status fetch_blob(pull *p, const cli_tree_file *file, const char *part, size_t at)
{
    cli_fetch answer;
    char *path = cli_format(CLI_PACKAGE_FOLDER "/%s", file->path);
    bool resumed = cli_is_plain_file(part);
    nib_status status = NIB_INTEGRITY;
    if (resumed)
        status = cli_tree_check_file(file, part, &p->error);
    if (status != NIB_OK)
        status = fetch(p, p->commit, path, part, CLI_PACKAGE_FILE_LIMIT, at, &answer);
    if (status == NIB_OK)
        status = cli_tree_check_file(file, part, &p->error);
    if (status == NIB_INTEGRITY && resumed) {
        unlink(part);
        status = fetch(p, p->commit, path, part, CLI_PACKAGE_FILE_LIMIT, at, &answer);
        if (status == NIB_OK)
            status = cli_tree_check_file(file, part, &p->error);
    }
    if (status == NIB_INTEGRITY)
        unlink(part);
    free(path);
    return status;
}

static nib_status ensure_blob(pull *p, size_t index)
{
    const cli_tree_file *file = &p->tree.files[index];
    char *blob = blob_path(p, file->name), *part = cli_format("%s.incomplete", blob);
    nib_error ignored;
    nib_status status = NIB_OK;
    const bool fresh = cli_has(&p->session->args, CLI_OPT_FORCE) || !cli_is_plain_file(blob) ||
                       cli_tree_check_file(file, blob, &ignored) != NIB_OK;
    if (fresh)
        status = fetch_blob(p, file, part, index + 1);
    if (fresh && status == NIB_OK)
        status = cli_move(part, blob, &p->error);
    p->downloaded += fresh && status == NIB_OK;
    free(blob);
    free(part);
    return status;
}

/* The card is for people: no digest covers it, and a package may have none. Its absence, or any
 * trouble with it, is no failure. */
static void fetch_card(pull *p, const char *file)
{
    cli_fetch answer;
    if (fetch(p, p->commit, "README.md", file, CLI_PACKAGE_JSON_LIMIT, 0, &answer) == NIB_OK)
        return;
    unlink(file);
    if (answer.status != 404)
        cli_note(p->session, "README.md is left out: %s", p->error.message);
}

/* ---- the snapshot ---- */

static nib_status link_into(pull *p, const char *from, const char *to)
{
    const nib_status status = cli_make_folder_of(to, &p->error);
    return status == NIB_OK ? cli_link_file(from, to, &p->error) : status;
}

static nib_status fill_snapshot(pull *p, const char *folder, const char *metadata, const char *card)
{
    char *to = cli_format("%s/" CLI_PACKAGE_FOLDER "/metadata.json", folder);
    nib_status status = link_into(p, metadata, to);
    free(to);
    for (size_t i = 0; i < p->tree.count && status == NIB_OK; i++) {
        char *blob = blob_path(p, p->tree.files[i].name);
        to = cli_format("%s/" CLI_PACKAGE_FOLDER "/%s", folder, p->tree.files[i].path);
        status = link_into(p, blob, to);
        free(blob);
        free(to);
    }
    if (status == NIB_OK && cli_is_plain_file(card)) {
        to = cli_format("%s/README.md", folder);
        status = link_into(p, card, to);
        free(to);
    }
    return status;
}

/* What is not a valid package is never given the name of one. */
static nib_status publish(pull *p, const char *metadata, const char *card)
{
    char *folder = work_path(p, "snapshot");
    nib_status status = fill_snapshot(p, folder, metadata, card);
    if (status == NIB_OK)
        status = load(p, folder);
    if (status == NIB_OK)
        status = cli_make_folder_of(p->snapshot, &p->error);
    if (status == NIB_OK)
        status = cli_replace_folder(folder, p->snapshot, &p->error);
    if (status == NIB_OK)
        status = load(p, p->snapshot);
    free(folder);
    return status;
}

static nib_status fetch_files(pull *p, const char *metadata)
{
    nib_status status = read_tree(p, metadata);
    for (size_t i = 0; i < p->tree.count && status == NIB_OK; i++)
        status = ensure_blob(p, i);
    if (status != NIB_OK)
        return status;
    char *card = work_path(p, "card");
    fetch_card(p, card);
    status = publish(p, metadata, card);
    free(card);
    return status;
}

static nib_status remember(pull *p)
{
    if (strcmp(p->revision, p->commit) == 0)
        return NIB_OK;
    return cli_hub_write_ref(p->folder, p->revision, p->commit, &p->error);
}

static nib_status pull_locked(pull *p)
{
    char *metadata = work_path(p, "metadata");
    remove_work(p); /* of a run that was killed */
    nib_status status = fetch_metadata(p, metadata);
    if (status == NIB_OK) {
        p->was_there = !cli_has(&p->session->args, CLI_OPT_FORCE) && snapshot_is_whole(p);
        if (!p->was_there)
            status = fetch_files(p, metadata);
    }
    if (status == NIB_OK)
        status = remember(p);
    remove_work(p);
    free(metadata);
    return status;
}

static nib_status pull_online(pull *p)
{
    const int64_t seconds = cli_integer(&p->session->args, CLI_OPT_TIMEOUT, DEFAULT_SECONDS);
    char *blobs = blob_path(p, ""), *path = cli_format("%s/.nibble.lock", p->folder);
    int lock = -1;
    nib_status status = cli_http_open(p->session, (double)seconds, &p->http, &p->error);
    if (status == NIB_OK)
        status = cli_make_folder_of(blobs, &p->error);
    if (status == NIB_OK) {
        lock =
            cli_lock(p->session, path, "another nibble pull has this package; waiting", &p->error);
        status = lock < 0 ? NIB_IO : pull_locked(p);
    }
    cli_unlock(lock);
    cli_http_close(p->http);
    free(blobs);
    free(path);
    return status;
}

/* Offline the cache answers, or nothing does. */
static nib_status pull_offline(pull *p)
{
    char *commit = cli_hub_is_commit(p->revision) ? cli_dup(p->revision, CLI_COMMIT_LENGTH)
                                                  : cli_hub_read_ref(p->folder, p->revision);
    if (commit)
        set_commit(p, commit);
    free(commit);
    p->was_there = p->commit && snapshot_is_whole(p);
    if (p->was_there)
        return NIB_OK;
    return cli_error(&p->error, NIB_IO, p->repo,
                     "revision %s is not in the cache (%s), and HF_HUB_OFFLINE forbids to fetch it",
                     p->revision, p->folder);
}

/* ---- the report ---- */

static int report(const pull *p)
{
    const char *state = p->was_there ? "was there" : "is there";
    if (!p->session->json) {
        cli_note(p->session, "%s %s (commit %.12s) %s: %zu files, %zu fetched, %llu bytes", p->repo,
                 p->revision, p->commit, state, p->tree.count + 1, p->downloaded,
                 (unsigned long long)p->received);
        cli_print_text(p->snapshot);
        return CLI_OK;
    }
    json_t *files = json_array(), *object = json_object();
    for (size_t i = 0; i < p->tree.count; i++)
        json_array_append_new(files, cli_json_text(p->tree.files[i].path));
    json_object_set_new(object, "repo", cli_json_text(p->repo));
    json_object_set_new(object, "revision", cli_json_text(p->revision));
    json_object_set_new(object, "commit", cli_json_text(p->commit));
    json_object_set_new(object, "op", cli_json_text(nib_package_op(p->package)));
    json_object_set_new(object, "digest", cli_json_text(nib_package_digest(p->package)));
    json_object_set_new(object, "directory", cli_json_text(p->snapshot));
    json_object_set_new(object, "cached", json_boolean(p->was_there));
    json_object_set_new(object, "files", files);
    json_object_set_new(object, "fetched", json_integer((json_int_t)p->downloaded));
    json_object_set_new(object, "bytes", json_integer((json_int_t)p->received));
    return cli_print_json(object);
}

static void free_pull(pull *p)
{
    nib_package_free(p->package);
    cli_tree_free(&p->tree);
    free(p->revision);
    free(p->folder);
    free(p->commit);
    free(p->snapshot);
}

static int run_pull(cli_session *session)
{
    pull p = {.session = session};
    int code = read_arguments(&p);
    if (code == CLI_OK) {
        p.folder = cli_hub_folder(p.repo);
        nib_status status = cli_hub_check_trust(session, p.repo, &p.error);
        if (status == NIB_OK)
            status = cli_hub_is_offline() ? pull_offline(&p) : pull_online(&p);
        cli_progress_end(session);
        code = status == NIB_OK ? report(&p) : cli_fail(session, &p.error);
    }
    free_pull(&p);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_PULL_VERSION, CLI_OPT_REVISION, CLI_OPT_TRUST_REMOTE_CODE,
    CLI_OPT_FORCE,        CLI_OPT_TIMEOUT,  CLI_OPT_JSON,
    CLI_OPT_QUIET,        CLI_OPT_VERBOSE,
};

const cli_command cli_command_pull = {
    .name = "pull",
    .arguments = "REPO",
    .summary = "fetch a package from the Hub into the cache",
    .details =
        "Fetch the package owner/name from the Hub, check every digest, and print the folder it "
        "lies "
        "in. Other commands then find it by that name. A download that breaks off is continued by "
        "the next one and never becomes a package. The cache is the one of the Hub's own tools: "
        "HF_HUB_CACHE, HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and HF_HUB_DOWNLOAD_TIMEOUT "
        "have their usual meaning.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_pull,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
