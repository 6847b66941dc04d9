/* SPDX-License-Identifier: Apache-2.0 */
#include "locate.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "hub.h"
#include "tree.h"

#ifdef _WIN32
#include <windows.h>
#define LIST_SEPARATOR ";"
#else
#define LIST_SEPARATOR ":"
#endif

/* The contract version that --contract-version asks for; -1: the newest, -2: it is malformed. */
static int64_t wanted_version(const cli_session *session, nib_error *error)
{
    const char *text = cli_value(&session->args, CLI_OPT_CONTRACT_VERSION);
    const int64_t version = text ? cli_hub_version(text) : -1;
    if (!text || version >= 0)
        return version;
    cli_error(error, NIB_INVALID_ARGUMENT, "--contract-version", "\"%s\" is no whole number from 0",
              text);
    return -2;
}

/* ---- installed kernels: ROOT/NAME is version 1, ROOT/vN/NAME is version N ---- */

static bool is_op_id(const char *text)
{
    for (const char *c = text; *c; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!letter && !(*c >= '0' && *c <= '9') && *c != '_' && *c != '.')
            return false;
    }
    return text[0] && text[0] != '.' && !strstr(text, "..");
}

/* The folder of this program; "" when the system does not tell. free() it. */
static char *program_folder(void)
{
    char path[4096] = "";
#ifdef _WIN32
    GetModuleFileNameA(NULL, path, sizeof path - 1);
    for (char *c = path; *c; c++)
        *c = *c == '\\' ? '/' : *c;
#else
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        path[0] = '\0';
#endif
    char *slash = strrchr(path, '/');
    return cli_dup(path, slash ? (size_t)(slash - path) : 0);
}

/* Where kernels are installed, as a list: NIBBLE_KERNELS, else share/nibble/kernels beside the
 * program and where the build was to be installed. free() it. */
static char *kernel_roots(void)
{
    const char *set = getenv("NIBBLE_KERNELS");
    if (set && set[0])
        return cli_dup(set, strlen(set));
    char *program = program_folder();
    char *roots = cli_format("%s/../share/nibble/kernels" LIST_SEPARATOR "%s",
                             program[0] ? program : "/usr/bin", NIB_KERNELS_FOLDER);
    free(program);
    return roots;
}

static char *versioned(const char *root, int64_t version, const char *op)
{
    return version == 1 ? cli_format("%s/%s", root, op)
                        : cli_format("%s/v%lld/%s", root, (long long)version, op);
}

/* The newest version of the op below the root; -1 when there is none. */
static int64_t newest_version(const char *root, const char *op)
{
    size_t count;
    char *first = versioned(root, 1, op), **names = cli_list_folder(root, &count);
    int64_t newest = cli_is_folder(first) ? 1 : -1;
    for (size_t i = 0; i < count; i++) {
        const int64_t version = names[i][0] == 'v' ? cli_hub_version(names[i] + 1) : -1;
        char *folder = version > newest ? versioned(root, version, op) : NULL;
        if (folder && cli_is_folder(folder))
            newest = version;
        free(folder);
    }
    cli_free_names(names);
    free(first);
    return newest;
}

static bool find_below(const char *root, int64_t version, const char *op, cli_place *place)
{
    const int64_t found = version < 0 ? newest_version(root, op) : version;
    char *folder = found < 0 ? NULL : versioned(root, found, op);
    if (!folder || !cli_is_folder(folder)) {
        free(folder);
        return false;
    }
    place->folder = folder;
    place->op = cli_dup(op, strlen(op));
    return true;
}

static nib_status find_installed(const char *op, int64_t version, cli_place *place,
                                 nib_error *error)
{
    char *roots = kernel_roots(), *left = NULL;
    bool found = false;
    for (char *root = strtok_r(roots, LIST_SEPARATOR, &left); root && !found;
         root = strtok_r(NULL, LIST_SEPARATOR, &left))
        found = find_below(root, version, op, place);
    free(roots);
    if (found)
        return NIB_OK;
    if (version >= 0)
        return cli_error(
            error, NIB_IO, op,
            "there is no such directory, and contract version %lld of no kernel of that "
            "name is installed",
            (long long)version);
    return cli_error(error, NIB_IO, op,
                     "there is no such directory, and no kernel of that name is installed "
                     "(NIBBLE_KERNELS names folders of kernels)");
}

/* ---- the Hub's cache ---- */

static nib_status not_cached(const char *repo, const char *revision, nib_error *error)
{
    return cli_error(
        error, NIB_IO, repo,
        "there is no such directory, and the package%s%s is not in the cache; nibble pull "
        "%s fetches it",
        revision ? " at revision " : "", revision ? revision : "", repo);
}

/* Without refs there may still be the one commit that was pulled by its hash. */
static char *only_commit(const char *folder)
{
    size_t count;
    char *snapshots = cli_format("%s/snapshots", folder);
    char **names = cli_list_folder(snapshots, &count);
    char *commit =
        count == 1 && cli_hub_is_commit(names[0]) ? cli_dup(names[0], CLI_COMMIT_LENGTH) : NULL;
    cli_free_names(names);
    free(snapshots);
    return commit;
}

static char *choose_commit(const char *folder, const char *revision, int64_t version)
{
    if (revision && cli_hub_is_commit(revision))
        return cli_dup(revision, CLI_COMMIT_LENGTH);
    if (revision)
        return cli_hub_is_revision(revision) ? cli_hub_read_ref(folder, revision) : NULL;
    const int64_t chosen = version < 0 ? cli_hub_newest_version(folder) : version;
    if (chosen < 0) {
        char *commit = cli_hub_read_ref(folder, "main");
        return commit ? commit : only_commit(folder);
    }
    char *name = cli_format("v%lld", (long long)chosen);
    char *commit = cli_hub_read_ref(folder, name);
    free(name);
    return commit;
}

/* The Hub's Python tools fill snapshots with symbolic links into blobs/; the library follows no
 * link out of a package. */
static nib_status check_snapshot(const char *repo, const char *snapshot, nib_error *error)
{
    char *metadata = cli_format("%s/" CLI_PACKAGE_FOLDER "/metadata.json", snapshot);
    nib_status status = NIB_OK;
    if (cli_is_link(metadata))
        status = cli_error(error, NIB_IO, repo,
                           "another tool put the package into the cache as symbolic links; nibble "
                           "pull %s makes it usable",
                           repo);
    else if (!cli_is_plain_file(metadata))
        status = not_cached(repo, NULL, error);
    free(metadata);
    return status;
}

static nib_status find_cached(const cli_session *session, const char *repo, const char *revision,
                              int64_t version, cli_place *place, nib_error *error)
{
    char *folder = cli_hub_folder(repo);
    char *commit = choose_commit(folder, revision, version);
    nib_status status =
        commit ? cli_hub_check_trust(session, repo, error) : not_cached(repo, revision, error);
    if (status == NIB_OK) {
        place->folder = cli_hub_snapshot(folder, commit);
        place->from_cache = true;
        const char *name = strchr(repo, '/') + 1;
        place->op = cli_dup(name, strlen(name));
        status = check_snapshot(repo, place->folder, error);
    }
    free(commit);
    free(folder);
    return status;
}

/* ---- folders ---- */

static nib_status take_folder(const char *package, int64_t version, cli_place *place,
                              nib_error *error)
{
    if (version == 0 || version > UINT_MAX)
        return cli_error(error, NIB_INVALID_ARGUMENT, "--contract-version",
                         "the versions of a folder are counted from 1, not %lld",
                         (long long)version);
    place->folder = cli_dup(package, strlen(package));
    place->version = version < 0 ? 0 : (unsigned)version;
    return NIB_OK;
}

/* ---- all of it ---- */

nib_status cli_locate(const cli_session *session, const char *package, cli_place *place,
                      nib_error *error)
{
    *place = (cli_place){0};
    const int64_t version = wanted_version(session, error);
    if (version < -1)
        return error->code;
    const char *at = strchr(package, '@');
    char *repo = cli_dup(package, at ? (size_t)(at - package) : strlen(package));
    nib_status status = NIB_OK;
    if (!cli_is_folder(package) && cli_hub_is_repo(repo))
        status = find_cached(session, repo, at ? at + 1 : NULL, version, place, error);
    else if (!cli_is_folder(package) && is_op_id(package))
        status = find_installed(package, version, place, error);
    else
        status = take_folder(package, version, place, error);
    free(repo);
    return status;
}

void cli_place_free(cli_place *place)
{
    free(place->folder);
    free(place->op);
    *place = (cli_place){0};
}
