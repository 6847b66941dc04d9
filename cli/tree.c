/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "files.h"

#define FILE_COUNT_LIMIT 4096
#define PATH_LIMIT       512

static bool is_path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool cli_tree_is_path(const char *path)
{
    if (strlen(path) > PATH_LIMIT || strstr(path, ".."))
        return false;
    size_t length = 0; /* of the segment */
    for (; *path; path++) {
        if (*path == '/' ? length == 0 : !is_path_char(*path))
            return false;
        length = *path == '/' ? 0 : length + 1;
    }
    return length > 0;
}

/* ---- digests ---- */

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* 43 digits and one "=" are 256 bits; the last digit has two bits that must be zero. */
static bool digest_name(const char *text, char out[65])
{
    static const char hex[] = "0123456789abcdef";
    unsigned bits = 0, held = 0;
    size_t used = 0;
    if (strlen(text) != 44 || text[43] != '=')
        return false;
    for (size_t i = 0; i < 43; i++) {
        const int value = base64_value(text[i]);
        if (value < 0)
            return false;
        held = held << 6 | (unsigned)value;
        for (bits += 6; bits >= 4 && used < 64; bits -= 4)
            out[used++] = hex[held >> (bits - 4) & 15];
    }
    out[64] = '\0';
    return (held & 3) == 0;
}

static nib_status read_entry(cli_tree *tree, const char *path, const json_t *value,
                             const char *source, nib_error *error)
{
    cli_tree_file *file = &tree->files[tree->count];
    const char *digest = json_string_value(value);
    if (!cli_tree_is_path(path))
        return cli_error(error, NIB_CONTRACT, source,
                         "digest.files: \"%s\" is no path inside the package", path);
    if (!digest || !digest_name(digest, file->name))
        return cli_error(error, NIB_CONTRACT, source,
                         "digest.files: \"%s\" has no SHA-256 in Base64", path);
    memcpy(file->digest, digest, sizeof file->digest);
    file->path = cli_dup(path, strlen(path));
    tree->count++;
    return NIB_OK;
}

nib_status cli_tree_read(const char *text, size_t length, const char *source, cli_tree *tree,
                         nib_error *error)
{
    const char *path;
    json_t *value;
    json_error_t where;
    nib_status status = NIB_OK;
    *tree = (cli_tree){0};
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3; /* a byte order mark */
        length -= 3;
    }
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return cli_error(error, NIB_FORMAT, source, "line %d: %s", where.line, where.text);
    json_t *files = json_object_get(json_object_get(root, "digest"), "files");
    if (!json_is_object(files) || json_object_size(files) > FILE_COUNT_LIMIT)
        status =
            cli_error(error, NIB_CONTRACT, source,
                      "\"digest.files\" must be an object of at most %d files", FILE_COUNT_LIMIT);
    else if (!json_object_get(files, "manifest.json"))
        status = cli_error(error, NIB_CONTRACT, source, "manifest.json has no digest");
    tree->files = cli_alloc(json_object_size(files) * sizeof *tree->files);
    json_object_foreach(files, path, value)
    {
        /* The file itself is what the table comes from. */
        if (status == NIB_OK && strcmp(path, "metadata.json") != 0)
            status = read_entry(tree, path, value, source, error);
    }
    json_decref(root);
    return status;
}

void cli_tree_free(cli_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->files[i].path);
    free(tree->files);
    *tree = (cli_tree){0};
}

/* ---- checking ---- */

nib_status cli_tree_check_file(const cli_tree_file *file, const char *path, nib_error *error)
{
    char *bytes, got[NIB_DIGEST_TEXT_BYTES];
    size_t count;
    nib_status status = cli_read_bytes(path, CLI_PACKAGE_FILE_LIMIT, &bytes, &count, error);
    if (status == NIB_OK)
        status = nib_digest_text(bytes, count, got, error);
    if (status == NIB_OK && strcmp(got, file->digest) != 0)
        status =
            cli_error(error, NIB_INTEGRITY, file->path,
                      "the file's SHA-256 is %s, but metadata.json says %s", got, file->digest);
    free(bytes);
    return status;
}

nib_status cli_tree_check(const cli_tree *tree, const char *folder, nib_error *error)
{
    nib_status status = NIB_OK;
    for (size_t i = 0; i < tree->count && status == NIB_OK; i++) {
        char *path = cli_format("%s/%s", folder, tree->files[i].path);
        status = cli_is_plain_file(path)
                     ? cli_tree_check_file(&tree->files[i], path, error)
                     : cli_error(error, NIB_IO, path, "this is not a regular file");
        free(path);
    }
    return status;
}
