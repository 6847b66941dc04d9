/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP for the Hub: redirects that keep the token at home, retries, resumption, time limits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "hub.h"

#ifdef NIB_HAVE_CURL

#include <curl/curl.h>

#define TRIES           5
#define FIRST_PAUSE     0.25 /* seconds; doubled after each attempt */
#define LONGEST_PAUSE   30.0 /* what a server's Retry-After may ask for */
#define HOPS            10
#define CONNECT_SECONDS 10L
#define SLOWEST_BYTES   1024L /* a second, over the stall time */
#define BAR_COLUMNS     20

struct cli_http {
    const cli_session *session;
    CURL *curl;
    struct curl_slist *token_header; /* NULL: there is no token */
    char agent[32];
    long stall_seconds;
    double deadline;
};

/* One request of a fetch. */
typedef struct transfer {
    cli_http *http;
    cli_fetch *fetch;
    const char *url;
    FILE *out;
    uint64_t have;  /* bytes of the file so far */
    uint64_t start; /* the offset that was asked for */
    uint64_t range_start;
    bool has_range, began;
    bool unusable; /* the range is not the one asked for */
    bool too_long;
    bool unwritable;
    bool starts_over; /* what the file holds is of no use */
    double pause;     /* Retry-After, or -1 */
    char detail[CURL_ERROR_SIZE];
} transfer;

/* ---- opening ---- */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* White space around a token comes from files; anything odd inside would forge a header. */
static nib_status read_token(cli_http *http, nib_error *error)
{
    const char *token = setting("HF_TOKEN");
    if (!token)
        return NIB_OK;
    token += strspn(token, " \t\r\n");
    const size_t length = strcspn(token, " \t\r\n");
    if (token[length + strspn(token + length, " \t\r\n")])
        return cli_error(error, NIB_INVALID_ARGUMENT, "HF_TOKEN",
                         "the token has white space in its middle");
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)token[i] < 0x21 || (unsigned char)token[i] > 0x7e)
            return cli_error(error, NIB_INVALID_ARGUMENT, "HF_TOKEN",
                             "the token has a character that no token has");
    }
    if (length == 0)
        return NIB_OK;
    char *line = cli_format("Authorization: Bearer %.*s", (int)length, token);
    http->token_header = curl_slist_append(NULL, line);
    free(line);
    return http->token_header ? NIB_OK : cli_error(error, NIB_OUT_OF_MEMORY, "", "out of memory");
}

/* HF_HUB_DOWNLOAD_TIMEOUT: the Hub's own name for how long a connection may stand still. */
static long stall_seconds(void)
{
    const char *text = setting("HF_HUB_DOWNLOAD_TIMEOUT");
    const int64_t value = text ? cli_hub_version(text) : -1;
    return value > 0 && value < 86400 ? (long)value : 10;
}

nib_status cli_http_open(const cli_session *session, double seconds, cli_http **out,
                         nib_error *error)
{
    *out = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return cli_error(error, NIB_INTERNAL, "", "libcurl cannot be started");
    cli_http *http = cli_alloc(sizeof *http);
    http->session = session;
    snprintf(http->agent, sizeof http->agent, "nibble/%s", nib_version());
    http->deadline = cli_seconds() + seconds;
    http->stall_seconds = stall_seconds();
    http->curl = curl_easy_init();
    nib_status status = http->curl ? read_token(http, error)
                                   : cli_error(error, NIB_OUT_OF_MEMORY, "", "out of memory");
    if (status == NIB_OK)
        *out = http;
    else
        cli_http_close(http);
    return status;
}

void cli_http_close(cli_http *http)
{
    if (!http)
        return;
    curl_easy_cleanup(http->curl);
    curl_slist_free_all(http->token_header);
    curl_global_cleanup();
    free(http);
}

/* ---- what libcurl calls ---- */

/* The value of a header line if it is the one named (lower case); NULL otherwise. */
static const char *header_value(const char *line, const char *name)
{
    for (; *name; name++, line++) {
        const char c = *line >= 'A' && *line <= 'Z' ? (char)(*line + 32) : *line;
        if (c != *name)
            return NULL;
    }
    return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

static void note_commit(transfer *t, const char *value)
{
    char commit[CLI_COMMIT_LENGTH + 1] = "";
    memcpy(commit, value, strnlen(value, CLI_COMMIT_LENGTH));
    /* Only the Hub knows which commit it serves; a host it redirects to does not. */
    const char after = value[strlen(commit)];
    if (cli_hub_is_endpoint(t->url) && cli_hub_is_commit(commit) &&
        (after == '\0' || after == '\r' || after == '\n' || after == ' '))
        memcpy(t->fetch->commit, commit, sizeof commit);
}

static size_t on_header(char *data, size_t size, size_t count, void *user)
{
    transfer *t = user;
    char line[512] = "";
    const size_t length = size * count;
    memcpy(line, data, length < sizeof line ? length : sizeof line - 1);
    const char *commit = header_value(line, "x-repo-commit");
    const char *range = header_value(line, "content-range");
    const char *pause = header_value(line, "retry-after");
    if (commit)
        note_commit(t, commit);
    if (range && strncmp(range, "bytes ", 6) == 0 && range[6] >= '0' && range[6] <= '9') {
        t->range_start = strtoull(range + 6, NULL, 10);
        t->has_range = true;
    }
    if (pause && *pause >= '0' && *pause <= '9')
        t->pause = (double)strtoul(pause, NULL, 10);
    return length;
}

static long status_of(const transfer *t)
{
    long status = 0;
    curl_easy_getinfo(t->http->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* The first bytes of a good answer: is it the rest of the file, or all of it? */
static void begin(transfer *t, long status)
{
    t->began = true;
    if (t->start == 0)
        return;
    if (status == 206) {
        t->unusable = !t->has_range || t->range_start != t->start;
        return;
    }
    t->have = 0;
    t->unwritable = fseek(t->out, 0, SEEK_SET) != 0 || ftruncate(fileno(t->out), 0) != 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    transfer *t = user;
    const size_t length = size * count;
    const long status = status_of(t);
    if (status < 200 || status > 299)
        return length; /* an error's or redirect's text */
    if (!t->began)
        begin(t, status);
    t->too_long = length > t->fetch->limit || t->have > t->fetch->limit - length;
    if (t->unusable || t->too_long || t->unwritable)
        return 0;
    t->unwritable = fwrite(data, 1, length, t->out) != length;
    t->have += length;
    t->fetch->received += length;
    return t->unwritable ? 0 : length;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up)
{
    const transfer *t = user;
    char bar[BAR_COLUMNS + 1];
    (void)up_total, (void)up;
    if (!t->http->session->progress || total <= 0)
        return 0;
    const uint64_t whole = (uint64_t)total + t->start, part = (uint64_t)now + t->start;
    const size_t filled = (size_t)(part >= whole ? BAR_COLUMNS : part * BAR_COLUMNS / whole);
    memset(bar, '.', BAR_COLUMNS);
    memset(bar, '#', filled);
    bar[BAR_COLUMNS] = '\0';
    char *line = cli_format("%s %.28s", bar, t->fetch->title);
    cli_progress(t->http->session, t->fetch->at, t->fetch->total, line);
    free(line);
    return 0;
}

/* ---- one request ---- */

static void set_options(transfer *t)
{
    CURL *curl = t->http->curl;
    const double left = t->http->deadline - cli_seconds();
    const char *authorities = setting("CURL_CA_BUNDLE");
    authorities = authorities ? authorities : setting("SSL_CERT_FILE");
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, t->url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, t->http->agent);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L); /* next_hop decides */
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (authorities)
        curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, SLOWEST_BYTES);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, t->http->stall_seconds);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, left > 0.001 ? (long)(left * 1000) : 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, t->detail);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    if (t->http->token_header && cli_hub_may_see_token(t->url))
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, t->http->token_header);
    if (t->start) {
        char range[32];
        snprintf(range, sizeof range, "%llu-", (unsigned long long)t->start);
        curl_easy_setopt(curl, CURLOPT_RANGE, range);
    }
}

/* The host of a URL: the rest may hold a signature that is nobody's business. */
static int host_length(const char *url)
{
    const char *host = strstr(url, "://");
    return (int)(host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : strlen(url));
}

typedef enum verdict { DONE, AGAIN, FAILED } verdict;

static bool may_pass(CURLcode code)
{
    static const CURLcode codes[] = {
        CURLE_COULDNT_RESOLVE_HOST,
        CURLE_COULDNT_CONNECT,
        CURLE_OPERATION_TIMEDOUT,
        CURLE_PARTIAL_FILE,
        CURLE_GOT_NOTHING,
        CURLE_SEND_ERROR,
        CURLE_RECV_ERROR,
        CURLE_HTTP2,
        CURLE_HTTP2_STREAM,
        CURLE_SSL_CONNECT_ERROR,
        CURLE_COULDNT_RESOLVE_PROXY,
    };
    for (size_t i = 0; i < CLI_LENGTH(codes); i++) {
        if (codes[i] == code)
            return true;
    }
    return false;
}

static verdict judge_failure(transfer *t, CURLcode code, nib_error *error)
{
    const char *url = t->fetch->url;
    if (t->unwritable) {
        cli_error(error, NIB_IO, t->fetch->file, "cannot write the file: %s", strerror(errno));
        return FAILED;
    }
    if (t->too_long) {
        cli_error(error, NIB_LIMIT, url, "the file is larger than %zu bytes", t->fetch->limit);
        return FAILED;
    }
    if (t->unusable) {
        t->starts_over = true;
        cli_error(error, NIB_IO, url,
                  "the server sent another part of the file than was asked for");
        return AGAIN;
    }
    cli_error(error, NIB_IO, url, "the download from %.*s failed: %s", host_length(t->url), t->url,
              t->detail[0] ? t->detail : curl_easy_strerror(code));
    return may_pass(code) ? AGAIN : FAILED;
}

static const char *hint(long status)
{
    if (status == 401 || status == 403)
        return "; a private or gated package needs HF_TOKEN";
    return status == 404 ? "; there is no such package, revision or file" : "";
}

static verdict judge_status(transfer *t, long status, nib_error *error)
{
    t->fetch->status = status;
    if (status >= 200 && status <= 299)
        return DONE;
    /* 416: the file holds no less than the server's, and yet it is not the one that was wanted. */
    t->starts_over = status == 416;
    cli_error(error, NIB_IO, t->fetch->url, "%.*s answered with status %ld%s", host_length(t->url),
              t->url, status, hint(status));
    return status >= 500 || status == 408 || status == 416 || status == 429 ? AGAIN : FAILED;
}

static verdict request(transfer *t, nib_error *error)
{
    set_options(t);
    const CURLcode code = curl_easy_perform(t->http->curl);
    if (code != CURLE_OK)
        return judge_failure(t, code, error);
    const long status = status_of(t);
    if (status >= 300 && status <= 399 && status != 304) {
        t->fetch->status = status;
        return DONE;
    }
    return judge_status(t, status, error);
}

/* ---- redirects ---- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Where the answer points, in memory of its own; NULL with an error when it must not be followed.
 */
static char *next_hop(const transfer *t, nib_error *error)
{
    const char *to = NULL;
    curl_easy_getinfo(t->http->curl, CURLINFO_REDIRECT_URL, &to);
    if (!to || !(starts(to, "https://") || starts(to, "http://")))
        cli_error(error, NIB_IO, t->fetch->url, "the server redirects to no web address");
    else if (starts(t->url, "https://") && !starts(to, "https://"))
        cli_error(error, NIB_IO, t->fetch->url, "the server redirects to %.*s, which is not https",
                  host_length(to), to);
    else
        return cli_format("%s", to);
    return NULL;
}

static verdict follow(transfer *t, nib_error *error)
{
    char *url = cli_format("%s", t->fetch->url);
    verdict result = FAILED;
    for (int hop = 0; url; hop++) {
        t->url = url;
        result = request(t, error);
        if (result != DONE || t->fetch->status < 300)
            break;
        result = FAILED;
        char *next = hop < HOPS ? next_hop(t, error) : NULL;
        if (hop == HOPS)
            cli_error(error, NIB_IO, t->fetch->url, "the server redirects more than %d times",
                      HOPS);
        free(url);
        url = next;
    }
    free(url);
    t->url = t->fetch->url;
    return result;
}

/* ---- attempts ---- */

static verdict attempt(cli_http *http, cli_fetch *fetch, bool *starts_over, double *pause,
                       nib_error *error)
{
    transfer t = {.http = http, .fetch = fetch, .url = fetch->url, .pause = -1};
    t.out = fopen(fetch->file, *starts_over ? "wb" : "ab");
    if (!t.out) {
        cli_error(error, NIB_IO, fetch->file, "cannot create the file: %s", strerror(errno));
        return FAILED;
    }
    fseek(t.out, 0, SEEK_END);
    const long size = ftell(t.out);
    t.start = t.have = size > 0 ? (uint64_t)size : 0;
    verdict result = follow(&t, error);
    if (result == DONE && !t.began && t.start && ftruncate(fileno(t.out), 0) != 0)
        result = FAILED; /* a good answer without bytes: the file is empty */
    if (fclose(t.out) != 0 && result == DONE) {
        cli_error(error, NIB_IO, fetch->file, "cannot write the file: %s", strerror(errno));
        result = FAILED;
    }
    *starts_over = t.starts_over;
    *pause = t.pause;
    return result;
}

static void sleep_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

nib_status cli_http_fetch(cli_http *http, cli_fetch *fetch, nib_error *error)
{
    bool starts_over = false;
    double pause = FIRST_PAUSE;
    for (int try = 1;; try++) {
        double asked = -1;
        fetch->status = 0;
        cli_progress(http->session, fetch->at, fetch->total, fetch->title);
        const verdict result = attempt(http, fetch, &starts_over, &asked, error);
        if (result == DONE) {
            *error = (nib_error){0}; /* of an earlier attempt */
            return NIB_OK;
        }
        asked = asked > LONGEST_PAUSE ? LONGEST_PAUSE : asked;
        const double wait = asked > pause ? asked : pause;
        const bool late = cli_seconds() + wait >= http->deadline;
        if (result == FAILED || try == TRIES || late) {
            if (late && result == AGAIN)
                strncat(error->message, " (out of time)",
                        sizeof error->message - strlen(error->message) - 1);
            return error->code;
        }
        if (http->session->verbose)
            cli_note(http->session, "%s; trying again in %.2g s", error->message, wait);
        sleep_for(wait);
        pause *= 2;
    }
}

#else

nib_status cli_http_open(const cli_session *session, double seconds, cli_http **http,
                         nib_error *error)
{
    (void)session, (void)seconds;
    *http = NULL;
    return cli_error(error, NIB_UNSUPPORTED, "",
                     "this nibble was built without libcurl and cannot fetch; packages that are in "
                     "the cache, and folders, work");
}

void cli_http_close(cli_http *http)
{
    (void)http;
}

nib_status cli_http_fetch(cli_http *http, cli_fetch *fetch, nib_error *error)
{
    (void)http, (void)fetch;
    return cli_error(error, NIB_UNSUPPORTED, "", "this nibble was built without libcurl");
}

#endif
