/* SPDX-License-Identifier: Apache-2.0 */
#include "hub.h"

#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <pwd.h>
#include <unistd.h>
#endif

#include "files.h"

#define TRUSTED_OWNER    "webgpu-kernels"
#define DEFAULT_ENDPOINT "https://huggingface.co"
#define SAFE_INTEGER     ((int64_t)9007199254740991)

/* The value of a variable; NULL when it is unset or empty. */
static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

/* ---- names ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_char(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
}

static size_t name_length(const char *text)
{
    size_t length = 0;
    while (is_name_char(text[length]))
        length++;
    return length;
}

bool cli_hub_is_repo(const char *text)
{
    const size_t owner = name_length(text);
    if (owner == 0 || text[owner] != '/')
        return false;
    const size_t name = name_length(text + owner + 1);
    if (name == 0 || text[owner + 1 + name] || owner > 96 || name > 96)
        return false;
    /* "./x" is a path (format 1.3), and a name like "..." none that the Hub gives out. */
    return text[0] != '.' && text[owner + 1] != '.' && !strstr(text, "..") && !strstr(text, "--");
}

bool cli_hub_is_trusted(const char *repo)
{
    const size_t length = strlen(TRUSTED_OWNER);
    return strncmp(repo, TRUSTED_OWNER, length) == 0 && repo[length] == '/';
}

nib_status cli_hub_check_trust(const cli_session *session, const char *repo, nib_error *error)
{
    if (cli_hub_is_trusted(repo) || cli_has(&session->args, CLI_OPT_TRUST_REMOTE_CODE))
        return NIB_OK;
    return cli_error(error, NIB_UNSUPPORTED, repo,
                     "the package is GPU code of a third party, not of " TRUSTED_OWNER
                     "; read it, and give --trust-remote-code to use it");
}

bool cli_hub_is_commit(const char *revision)
{
    return strlen(revision) == CLI_COMMIT_LENGTH &&
           strspn(revision, "0123456789abcdef") == CLI_COMMIT_LENGTH;
}

bool cli_hub_is_revision(const char *revision)
{
    if (!revision[0] || revision[0] == '/' || strlen(revision) > 200)
        return false;
    for (const char *segment = revision; segment; segment = strchr(segment, '/')) {
        segment += *segment == '/';
        const size_t length = strcspn(segment, "/");
        if (length == 0 || segment[0] == '.')
            return false;
    }
    for (const char *c = revision; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("\\:*?\"<>|", *c))
            return false;
    }
    return !strstr(revision, "..");
}

bool cli_hub_is_offline(void)
{
    static const char *const yes[] = {"1", "ON", "YES", "TRUE", "on", "yes", "true", "True"};
    const char *value = setting("HF_HUB_OFFLINE");
    for (size_t i = 0; value && i < CLI_LENGTH(yes); i++) {
        if (strcmp(value, yes[i]) == 0)
            return true;
    }
    return false;
}

int64_t cli_hub_version(const char *text)
{
    int64_t value = 0;
    if (!is_digit(text[0]))
        return -1;
    for (; is_digit(*text); text++) {
        value = value * 10 + (*text - '0');
        if (value > SAFE_INTEGER)
            return -1;
    }
    return *text ? -1 : value;
}

/* ---- the cache ---- */

/* The user's folder; where HOME is not set (a service), the one of the account. */
static const char *user_home(void)
{
    const char *home = setting("HOME");
#ifdef _WIN32
    return home ? home : setting("USERPROFILE");
#else
    const struct passwd *account = home ? NULL : getpwuid(getuid());
    return home ? home : account ? account->pw_dir : NULL;
#endif
}

/* A folder from a variable: "~" and "~/..." are the user's, as for the Hub's own tools. */
static char *folder_setting(const char *path)
{
    const char *user = path[0] == '~' && (path[1] == '/' || !path[1]) ? user_home() : NULL;
    return user ? cli_format("%s%s", user, path + 1) : cli_format("%s", path);
}

static char *home(void)
{
    const char *hub_home = setting("HF_HOME"), *cache = setting("XDG_CACHE_HOME"),
               *user = user_home();
    if (hub_home)
        return folder_setting(hub_home);
    if (cache)
        return cli_format("%s/huggingface", cache);
    return cli_format("%s/.cache/huggingface", user ? user : ".");
}

char *cli_hub_cache(void)
{
    const char *cache = setting("HF_HUB_CACHE");
    cache = cache ? cache : setting("HUGGINGFACE_HUB_CACHE");
    if (cache)
        return folder_setting(cache);
    char *above = home();
    char *path = cli_format("%s/hub", above);
    free(above);
    return path;
}

char *cli_hub_folder(const char *repo)
{
    const char *slash = strchr(repo, '/');
    char *cache = cli_hub_cache();
    char *folder = cli_format("%s/kernels--%.*s--%s", cache, (int)(slash - repo), repo, slash + 1);
    free(cache);
    return folder;
}

char *cli_hub_read_ref(const char *folder, const char *revision)
{
    nib_error ignored;
    char *text = NULL, *path = cli_format("%s/refs/%s", folder, revision);
    size_t count = 0;
    if (cli_is_plain_file(path) && cli_read_bytes(path, 4096, &text, &count, &ignored) == NIB_OK) {
        text[strcspn(text, " \r\n")] = '\0';
        if (!cli_hub_is_commit(text)) {
            free(text);
            text = NULL;
        }
    }
    free(path);
    return text;
}

nib_status cli_hub_write_ref(const char *folder, const char *revision, const char *commit,
                             nib_error *error)
{
    char *path = cli_format("%s/refs/%s", folder, revision);
    char *beside = cli_format("%s/.ref.incomplete", folder);
    nib_status status = cli_make_folder_of(path, error);
    if (status == NIB_OK)
        status = cli_write_file(beside, commit, strlen(commit), error);
    if (status == NIB_OK)
        status = cli_move(beside, path, error);
    free(beside);
    free(path);
    return status;
}

char *cli_hub_snapshot(const char *folder, const char *commit)
{
    return cli_format("%s/snapshots/%s", folder, commit);
}

int64_t cli_hub_newest_version(const char *folder)
{
    size_t count;
    int64_t newest = -1;
    char *refs = cli_format("%s/refs", folder), **names = cli_list_folder(refs, &count);
    for (size_t i = 0; i < count; i++) {
        const int64_t version = names[i][0] == 'v' ? cli_hub_version(names[i] + 1) : -1;
        newest = version > newest ? version : newest;
    }
    cli_free_names(names);
    free(refs);
    return newest;
}

/* ---- URLs ---- */

/* HF_ENDPOINT without the slashes at its end. */
static char *endpoint(void)
{
    const char *value = setting("HF_ENDPOINT");
    char *text = cli_format("%s", value ? value : DEFAULT_ENDPOINT);
    for (size_t length = strlen(text); length && text[length - 1] == '/';)
        text[--length] = '\0';
    return text;
}

/* As a single URI component (format 1.3). */
static char *escaped(const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = cli_alloc(3 * strlen(text) + 1), *to = out;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (is_letter(*text) || is_digit(*text) || strchr("-_.!~*'()", *text)) {
            *to++ = *text;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    return out;
}

char *cli_hub_url(const char *repo, const char *revision, const char *path)
{
    char *base = endpoint(), *component = escaped(revision);
    char *url = cli_format("%s/kernels/%s/resolve/%s/%s", base, repo, component, path);
    free(base);
    free(component);
    return url;
}

static bool is_below(const char *url, const char *base)
{
    const size_t length = strlen(base);
    return strncmp(url, base, length) == 0 && url[length] == '/';
}

bool cli_hub_is_endpoint(const char *url)
{
    char *base = endpoint();
    const bool below = is_below(url, base);
    free(base);
    return below;
}

/* Without TLS anybody on the way could read the token; the own machine is not on any way. */
static bool is_private(const char *url)
{
    static const char *const bases[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};
    if (strncmp(url, "https://", 8) == 0)
        return true;
    for (size_t i = 0; i < CLI_LENGTH(bases); i++) {
        const size_t length = strlen(bases[i]);
        if (strncmp(url, bases[i], length) == 0 && (url[length] == '/' || url[length] == ':'))
            return true;
    }
    return false;
}

bool cli_hub_may_see_token(const char *url)
{
    if (is_below(url, DEFAULT_ENDPOINT))
        return true;
    return setting("HF_ENDPOINT") && cli_hub_is_endpoint(url) && is_private(url);
}
