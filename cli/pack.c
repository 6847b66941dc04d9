/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "tree.h"

#define TEMPLATE_DEPTH 16

/* ---- the folder ---- */

static bool ends(const char *text, const char *with)
{
    const size_t length = strlen(text), tail = strlen(with);
    return length > tail && strcmp(text + length - tail, with) == 0;
}

static void add_name(cli_source *source, char *name)
{
    char **larger = cli_alloc((source->file_count + 2) * sizeof *larger);
    memcpy(larger, source->files, source->file_count * sizeof *larger);
    free(source->files);
    source->files = larger;
    source->files[source->file_count++] = name;
}

/* Templates below folder/prefix; a name that no package path may have is not one. */
static void find_templates(cli_source *source, const char *prefix, int depth)
{
    size_t count;
    char *folder = cli_format("%s/%s", source->folder, prefix);
    char **names = cli_list_folder(folder, &count);
    for (size_t i = 0; i < count; i++) {
        char *name = cli_format("%s%s", prefix, names[i]);
        char *path = cli_format("%s/%s", source->folder, name);
        if (cli_is_folder(path) && !cli_is_link(path) && depth < TEMPLATE_DEPTH) {
            char *below = cli_format("%s/", name);
            find_templates(source, below, depth + 1);
            free(below);
        }
        if (cli_is_plain_file(path) && cli_tree_is_path(name) &&
            (ends(name, ".wgsl") || ends(name, ".wgsl.jinja")))
            add_name(source, name);
        else
            free(name);
        free(path);
    }
    cli_free_names(names);
    free(folder);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static nib_status find_folder(const char *directory, cli_source *source, nib_error *error)
{
    source->folder = cli_format("%s/" CLI_PACKAGE_FOLDER, directory);
    if (!cli_is_folder(source->folder)) {
        free(source->folder);
        source->folder = cli_dup(directory, strlen(directory));
    }
    if (!cli_is_folder(source->folder))
        return cli_error(error, NIB_IO, directory, "there is no such directory");
    source->manifest = cli_format("%s/manifest.json", source->folder);
    source->files = cli_alloc(sizeof *source->files);
    find_templates(source, "", 0);
    qsort(source->files, source->file_count, sizeof *source->files, compare_names);
    return NIB_OK;
}

nib_status cli_source_load(const cli_session *session, const char *directory, cli_source *source,
                           nib_error *error)
{
    char *text = NULL;
    *source = (cli_source){0};
    nib_status status = find_folder(directory, source, error);
    if (status != NIB_OK)
        return status;
    const nib_package_options options = {.skip_verify = true, .manifest_file = source->manifest};
    status = nib_package_load(session->context, source->folder, &options, &source->package, error);
    if (status == NIB_OK)
        status = nib_package_json(source->package, &text, error);
    if (status == NIB_OK)
        source->contract = json_loads(text, 0, NULL);
    nib_text_free(session->context, text);
    return status;
}

nib_status cli_source_read_templates(const cli_session *session, cli_source *source,
                                     nib_error *error)
{
    char *text = NULL;
    const nib_status status = nib_package_templates_json(source->package, &text, error);
    if (status == NIB_OK)
        source->templates = json_loads(text, 0, NULL);
    nib_text_free(session->context, text);
    return status;
}

void cli_source_free(cli_source *source)
{
    json_decref(source->templates);
    json_decref(source->contract);
    nib_package_free(source->package);
    if (source->files)
        cli_free_names(source->files);
    free(source->manifest);
    free(source->folder);
    *source = (cli_source){0};
}

/* ---- metadata.json ---- */

static nib_status add_digest(const cli_source *source, const char *name, json_t *files,
                             nib_error *error)
{
    char *bytes, digest[NIB_DIGEST_TEXT_BYTES];
    char *path = cli_format("%s/%s", source->folder, name);
    size_t count;
    nib_status status = cli_read_bytes(path, CLI_PACKAGE_FILE_LIMIT, &bytes, &count, error);
    if (status == NIB_OK)
        status = nib_digest_text(bytes, count, digest, error);
    if (status == NIB_OK)
        json_object_set_new(files, name, json_string(digest));
    free(bytes);
    free(path);
    return status;
}

static nib_status add_digests(const cli_source *source, json_t *files, nib_error *error)
{
    static const char *const names[] = {"test.json", "bench.json"};
    nib_status status = add_digest(source, "manifest.json", files, error);
    for (size_t i = 0; i < CLI_LENGTH(names) && status == NIB_OK; i++) {
        char *path = cli_format("%s/%s", source->folder, names[i]);
        if (cli_is_plain_file(path))
            status = add_digest(source, names[i], files, error);
        free(path);
    }
    for (size_t i = 0; i < source->file_count && status == NIB_OK; i++)
        status = add_digest(source, source->files[i], files, error);
    return status;
}

/* A shader that exists but has another suffix, or an odd name, cannot be listed (format 1.2). */
static nib_status check_listed(const cli_source *source, const json_t *files, nib_error *error)
{
    const char *variant;
    json_t *paths, *path;
    size_t i;
    json_object_foreach(source->templates, variant, paths)
    {
        json_array_foreach(paths, i, path)
        {
            if (!json_object_get(files, json_string_value(path)))
                return cli_error(error, NIB_CONTRACT, source->manifest,
                                 "variant \"%s\" reads \"%s\", which metadata.json cannot list: a "
                                 "template ends in .wgsl or .wgsl.jinja",
                                 variant, json_string_value(path));
        }
    }
    return NIB_OK;
}

static json_t *webgpu_part(const cli_source *source)
{
    const char *dialect = json_string_value(json_object_get(source->contract, "dialect"));
    json_t *part = json_object();
    json_object_set_new(part, "manifestSpec",
                        json_string(dialect && strcmp(dialect, "list") == 0 ? "2.0" : "2.1"));
    json_object_set(part, "variants", source->templates);
    return part;
}

/* ---- the text: two spaces, lists on one line ---- */

typedef struct text_buffer {
    char *data;
    size_t used, capacity;
} text_buffer;

static void append(text_buffer *buffer, const char *text, size_t length)
{
    if (buffer->used + length + 1 > buffer->capacity) {
        buffer->capacity = 2 * (buffer->used + length + 1);
        char *larger = cli_alloc(buffer->capacity);
        if (buffer->used)
            memcpy(larger, buffer->data, buffer->used);
        free(buffer->data);
        buffer->data = larger;
    }
    memcpy(buffer->data + buffer->used, text, length);
    buffer->used += length;
}

static void append_text(text_buffer *buffer, const char *text)
{
    append(buffer, text, strlen(text));
}

static void append_leaf(text_buffer *buffer, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    append_text(buffer, text ? text : "null");
    free(text);
}

static void append_key(text_buffer *buffer, const char *key)
{
    json_t *name = json_string(key);
    append_leaf(buffer, name);
    json_decref(name);
    append_text(buffer, ": ");
}

static void append_value(text_buffer *buffer, json_t *value, int depth)
{
    const char *key;
    json_t *member;
    bool first = true;
    if (!json_is_object(value) || json_object_size(value) == 0) {
        append_leaf(buffer, value);
        return;
    }
    append_text(buffer, "{\n");
    json_object_foreach(value, key, member)
    {
        append_text(buffer, first ? "" : ",\n");
        for (int i = 0; i <= depth; i++)
            append_text(buffer, "  ");
        append_key(buffer, key);
        append_value(buffer, member, depth + 1);
        first = false;
    }
    append_text(buffer, "\n");
    for (int i = 0; i < depth; i++)
        append_text(buffer, "  ");
    append_text(buffer, "}");
}

static char *text_of(json_t *metadata)
{
    text_buffer buffer = {0};
    append_value(&buffer, metadata, 0);
    append(&buffer, "\n", 2); /* with its NUL */
    return buffer.data;
}

/* The members of an object of `old` that are not computed, e.g. webgpu.minimumVersion. */
static void keep_members(json_t *part, const json_t *old)
{
    if (json_is_object(old))
        json_object_update_missing(part, (json_t *)(uintptr_t)old);
}

nib_status cli_pack_text(const cli_source *source, const json_t *old, int64_t version, char **text,
                         nib_error *error)
{
    json_t *metadata = json_object(), *backend = json_object(), *digest = json_object();
    json_t *files = json_object(), *webgpu = webgpu_part(source);
    const json_t *old_version = json_object_get(old, "version");
    *text = NULL;
    nib_status status = add_digests(source, files, error);
    if (status == NIB_OK)
        status = check_listed(source, files, error);
    json_object_set_new(backend, "type", json_string("webgpu"));
    json_object_set_new(digest, "algorithm", json_string("sha256"));
    json_object_set_new(digest, "files", files);
    keep_members(webgpu, json_object_get(old, "webgpu"));
    keep_members(backend, json_object_get(old, "backend"));
    keep_members(metadata, old); /* first, so that the author's order stays */
    json_object_set_new(metadata, "name", json_string(nib_package_op(source->package)));
    if (version || !old_version)
        json_object_set_new(metadata, "version", json_integer(version ? version : 1));
    json_object_set_new(metadata, "backend", backend);
    json_object_set_new(metadata, "webgpu", webgpu);
    json_object_set_new(metadata, "digest", digest);
    if (status == NIB_OK)
        *text = text_of(metadata);
    json_decref(metadata);
    return status;
}
