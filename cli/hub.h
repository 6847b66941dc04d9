/* SPDX-License-Identifier: Apache-2.0
 *
 * The Hub: names of packages, its cache folder, and files over HTTPS (format 1.3-1.6).
 *
 * The cache is that of the Hub's own tools: $HF_HUB_CACHE, else $HF_HOME/hub, else
 * ~/.cache/huggingface/hub, and in it
 *
 *     kernels--OWNER--NAME/refs/REVISION          the commit that a branch or tag stood for
 *     kernels--OWNER--NAME/blobs/SHA256           file contents
 *     kernels--OWNER--NAME/snapshots/COMMIT/...   the files of a commit: hard links to blobs
 */
#ifndef NIBBLE_CLI_HUB_H
#define NIBBLE_CLI_HUB_H

#include "session.h"

#define CLI_COMMIT_LENGTH 40

/* "OWNER/NAME" in the characters of format 1.3, and by the Hub's own rules without ".." and "--",
 * which the names of cache folders need. */
bool cli_hub_is_repo(const char *text);
/* Packages of this owner run without --trust-remote-code (format 1.5). */
bool cli_hub_is_trusted(const char *repo);
/* The refusal of an owner that is not trusted; CLI_OK when it is, or --trust-remote-code is given.
 */
nib_status cli_hub_check_trust(const cli_session *session, const char *repo, nib_error *error);
bool cli_hub_is_commit(const char *revision);
/* Can `revision` be a file name below refs/? */
bool cli_hub_is_revision(const char *revision);
/* HF_HUB_OFFLINE */
bool cli_hub_is_offline(void);

/* A contract version (format 1.4): a whole number from 0 to 2^53 - 1; -1 for anything else. */
int64_t cli_hub_version(const char *text);

/* ---- the cache; free() what these return ---- */

char *cli_hub_cache(void);
char *cli_hub_folder(const char *repo);
/* The commit that refs/REVISION holds; NULL when there is none. */
char *cli_hub_read_ref(const char *folder, const char *revision);
nib_status cli_hub_write_ref(const char *folder, const char *revision, const char *commit,
                             nib_error *error);
char *cli_hub_snapshot(const char *folder, const char *commit);
/* The greatest N with refs/vN, or -1. */
int64_t cli_hub_newest_version(const char *folder);

/* The URL of `path` below the repository root at a revision. */
char *cli_hub_url(const char *repo, const char *revision, const char *path);
/* May the bearer token go to this URL (format 1.5)? */
bool cli_hub_may_see_token(const char *url);
/* Does the endpoint itself answer under this URL? */
bool cli_hub_is_endpoint(const char *url);

/* ---- HTTP (hub_http.c; a build without libcurl refuses) ---- */

typedef struct cli_http cli_http;

/* One file to get. */
typedef struct cli_fetch {
    const char *url;
    const char *file;  /* where the bytes go; what it already holds is asked for no more */
    size_t limit;      /* most bytes that are taken */
    const char *title; /* what the progress line says */
    size_t at, total;  /* and counts */
    /* out */
    long status;                        /* the last HTTP status, 0: none */
    char commit[CLI_COMMIT_LENGTH + 1]; /* the x-repo-commit header; "" when it is missing */
    uint64_t received;                  /* bytes that came over the network */
} cli_fetch;

/* `seconds` bound everything that is fetched through this. */
nib_status cli_http_open(const cli_session *session, double seconds, cli_http **http,
                         nib_error *error);
void cli_http_close(cli_http *http);
/* GET with redirects, retries and resumption. */
nib_status cli_http_fetch(cli_http *http, cli_fetch *fetch, nib_error *error);

#endif
