/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a package from a directory (format section 1).
 */
#include "package/package.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "package/digest.h"
#include "package/files.h"
#include "package/metadata.h"
#include "package/reader.h"
#include "value/json.h"

/* ---- reading files of a package ---- */

static nib_status verify(const nib_package *package, nib_str path, nib_str bytes, nib_error *error)
{
    nib_digest digest;
    char got[NIB_DIGEST_BASE64];
    if (!package->digests || !package->verify)
        return NIB_OK;
    const nib_value *want = nib_map_get(package->digests, path);
    if (!want)
        return nib_fail(error, NIB_INTEGRITY, "the file has no digest in metadata.json");
    NIB_TRY(nib_digest_of(&bytes, 1, &digest, error));
    nib_digest_base64(&digest, got);
    if (nib_str_is(want->as.string, got))
        return NIB_OK;
    return nib_fail(error, NIB_INTEGRITY,
                    "the file's SHA-256 is %s, but metadata.json says \"%.*s\"", got,
                    NIB_SHOW_STR(want->as.string));
}

static nib_status read_verified(const nib_package *package, nib_arena *arena, nib_str path,
                                size_t limit, nib_str *bytes, nib_error *error)
{
    NIB_TRY(nib_read_file_inside(arena, package->directory, path, limit, bytes, error));
    return verify(package, path, *bytes, error);
}

static void name_file(const nib_package *package, nib_str path, nib_error *error)
{
    char source[PATH_MAX];
    snprintf(source, sizeof source, "%s/%.*s", package->directory, NIB_SHOW_STR(path));
    nib_error_source(error, source);
}

nib_status nib_package_read(const nib_package *package, nib_arena *arena, nib_str path,
                            nib_str *bytes, nib_error *error)
{
    const nib_status status =
        read_verified(package, arena, path, NIB_PACKAGE_FILE_LIMIT, bytes, error);
    if (status != NIB_OK)
        name_file(package, path, error);
    return status;
}

static nib_status read_template(void *user, nib_arena *arena, nib_str path, nib_str *text,
                                nib_error *error)
{
    return nib_package_read(user, arena, path, text, error);
}

nib_template_loader nib_package_templates(const nib_package *package)
{
    /* The loader's user pointer is not const; read_template only reads through it. */
    return (nib_template_loader){read_template, (void *)(uintptr_t)package};
}

/* ---- loading ---- */

typedef struct loading {
    nib_package *package;
    const nib_package_options *options;
    nib_error *error;
    bool has_metadata;
    nib_metadata metadata;
    nib_str manifest;
    char manifest_path[PATH_MAX];
} loading;

static bool is_own_manifest(const loading *l)
{
    return l->options->manifest_file == NULL;
}

static nib_str without_trailing_slashes(nib_str path)
{
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    return path;
}

/* Split "a/b" into "a" and "b"; a path of one segment has the parent ".". */
static nib_str parent_of(nib_str path, nib_str *name)
{
    size_t at = path.len;
    while (at > 0 && path.data[at - 1] != '/')
        at--;
    *name = (nib_str){path.data + at, path.len - at};
    return at ? without_trailing_slashes((nib_str){path.data, at}) : NIB_STR(".");
}

static bool is_version_folder(nib_str name)
{
    if (name.len < 2 || name.data[0] != 'v')
        return false;
    for (size_t i = 1; i < name.len; i++) {
        if (!nib_is_digit(name.data[i]))
            return false;
    }
    return true;
}

static bool is_named(nib_str path, const char *wanted)
{
    nib_str name;
    parent_of(path, &name);
    return nib_str_is(name, wanted);
}

/* The repository root of what was given, with a name of its own: "." has one in its full path. */
static nib_str package_root(nib_str given, char full[PATH_MAX])
{
    char text[PATH_MAX];
    nib_str name;
    if (is_named(given, ".") || is_named(given, "..") || is_named(given, "webgpu")) {
        snprintf(text, sizeof text, "%.*s", NIB_STR_ARG(given));
        if (realpath(text, full))
            given = without_trailing_slashes(nib_str_from(full));
    }
    const nib_str build = parent_of(given, &name);
    return is_named(given, "webgpu") && is_named(build, "build") ? parent_of(build, &name) : given;
}

/* Contract versions live side by side: ROOT/NAME is version 1, ROOT/vN/NAME is version N. */
static nib_status find_version(loading *l, nib_str given, char *text, size_t text_bytes)
{
    char full[PATH_MAX];
    nib_str name, folder;
    nib_str root = parent_of(package_root(given, full), &name);
    const nib_str above = parent_of(root, &folder);
    if (is_version_folder(folder))
        root = above;
    int used = snprintf(text, text_bytes, "%.*s/v%u/%.*s", NIB_STR_ARG(root), l->options->version,
                        NIB_STR_ARG(name));
    if (used > 0 && (size_t)used < text_bytes && nib_is_directory(text))
        return NIB_OK;
    used = snprintf(text, text_bytes, "%.*s/%.*s", NIB_STR_ARG(root), NIB_STR_ARG(name));
    if (l->options->version == 1 && used > 0 && (size_t)used < text_bytes && nib_is_directory(text))
        return NIB_OK;
    return nib_fail(l->error, NIB_IO, "there is no contract version %u of %.*s in %.*s",
                    l->options->version, NIB_STR_ARG(name), NIB_STR_ARG(root));
}

/* DIR/build/webgpu when it is there, else DIR. */
static nib_status find_directory(loading *l, nib_str given)
{
    char text[PATH_MAX];
    int used = snprintf(text, sizeof text, "%.*s/build/webgpu", NIB_STR_ARG(given));
    if (used < 0 || (size_t)used >= sizeof text)
        return nib_fail(l->error, NIB_LIMIT, "the path of the package is too long");
    if (!nib_is_directory(text))
        used = snprintf(text, sizeof text, "%.*s", NIB_STR_ARG(given));
    l->package->directory = nib_arena_cstr(&l->package->arena, (nib_str){text, (size_t)used});
    if (!l->package->directory)
        return nib_fail_memory(l->error);
    if (nib_is_directory(text))
        return NIB_OK;
    nib_fail(l->error, NIB_IO, "there is no such directory");
    nib_error_source(l->error, text);
    return NIB_IO;
}

static nib_str without_byte_order_mark(nib_str text)
{
    if (nib_str_starts(text, NIB_STR("\xef\xbb\xbf")))
        return (nib_str){text.data + 3, text.len - 3};
    return text;
}

static nib_status load_metadata(loading *l)
{
    char path[PATH_MAX];
    nib_str text;
    nib_package *package = l->package;
    const int len = snprintf(path, sizeof path, "%s/metadata.json", package->directory);
    if (len < 0 || (size_t)len >= sizeof path)
        return nib_fail(l->error, NIB_LIMIT, "the path of the package is too long");
    l->has_metadata = nib_file_exists(path);
    if (!l->has_metadata)
        return NIB_OK;
    NIB_TRY(nib_read_file_inside(&package->arena, package->directory, NIB_STR("metadata.json"),
                                 NIB_PACKAGE_JSON_LIMIT, &text, l->error));
    NIB_TRY(nib_metadata_read(&package->arena, without_byte_order_mark(text), path, &l->metadata,
                              l->error));
    package->digests = l->metadata.digests;
    return NIB_OK;
}

static nib_status load_manifest_text(loading *l)
{
    nib_package *package = l->package;
    if (!is_own_manifest(l)) {
        snprintf(l->manifest_path, sizeof l->manifest_path, "%s", l->options->manifest_file);
        return nib_read_file(&package->arena, l->options->manifest_file, NIB_PACKAGE_JSON_LIMIT,
                             &l->manifest, l->error);
    }
    const int len =
        snprintf(l->manifest_path, sizeof l->manifest_path, "%s/manifest.json", package->directory);
    if (len < 0 || (size_t)len >= sizeof l->manifest_path)
        return nib_fail(l->error, NIB_LIMIT, "the path of the package is too long");
    NIB_TRY(read_verified(package, &package->arena, NIB_STR("manifest.json"),
                          NIB_PACKAGE_JSON_LIMIT, &l->manifest, l->error));
    package->verified = l->has_metadata && package->verify;
    return NIB_OK;
}

static nib_status load_contract(loading *l)
{
    nib_value manifest;
    nib_package *package = l->package;
    const nib_str text = without_byte_order_mark(l->manifest);
    NIB_TRY(nib_json_parse(&package->arena, text.data, text.len, l->manifest_path, &manifest,
                           l->error));
    const nib_status status =
        nib_contract_read(&package->arena, manifest, &package->contract, l->error);
    if (status != NIB_OK && l->error && l->error->line) {
        /* Line and column are inside the expression, not inside the file. */
        char source[PATH_MAX + 16];
        snprintf(source, sizeof source, "%s, expression", l->manifest_path);
        nib_error_source(l->error, source);
    }
    return status;
}

static nib_status check_expected_op(const loading *l)
{
    const char *expected = l->options->expected_op;
    const nib_str op = l->package->contract->op_id;
    if (!expected || nib_str_is(op, expected))
        return NIB_OK;
    return nib_fail(l->error, NIB_CONTRACT, "the package implements \"%.*s\", not \"%s\"",
                    NIB_SHOW_STR(op), expected);
}

/* The manifest's digest, then each line of the digest table. */
static nib_status compute_digest(loading *l)
{
    nib_package *package = l->package;
    const nib_map none = {0};
    const nib_map *table = package->digests ? package->digests : &none;
    nib_digest manifest, whole;
    nib_str *pieces = NIB_ARENA_ARRAY(&package->arena, nib_str, 1 + 4 * table->count);
    if (!pieces)
        return nib_fail_memory(l->error);
    NIB_TRY(nib_digest_of(&l->manifest, 1, &manifest, l->error));
    size_t count = 0;
    pieces[count++] = (nib_str){(const char *)manifest.bytes, sizeof manifest.bytes};
    for (size_t i = 0; i < table->count; i++) {
        pieces[count++] = table->entries[i].key;
        pieces[count++] = NIB_STR("\n");
        pieces[count++] = table->entries[i].value.as.string;
        pieces[count++] = NIB_STR("\n");
    }
    NIB_TRY(nib_digest_of(pieces, count, &whole, l->error));
    nib_digest_hex(&whole, package->digest);
    return NIB_OK;
}

static nib_status load_manifest(loading *l)
{
    NIB_TRY(load_manifest_text(l));
    NIB_TRY(load_contract(l));
    return check_expected_op(l);
}

/* Whether the folder as given says by its own metadata.json that it is the version wanted. */
static bool says_version(loading *l, nib_str given)
{
    nib_error *outer = l->error;
    l->error = NULL;
    const bool found = find_directory(l, given) == NIB_OK && load_metadata(l) == NIB_OK &&
                       l->metadata.version == (double)l->options->version;
    l->error = outer;
    l->has_metadata = false;
    l->package->digests = NULL;
    return found;
}

static nib_status choose_directory(loading *l, const char *directory)
{
    char versioned[PATH_MAX];
    const nib_str given = without_trailing_slashes(nib_str_from(directory));
    if (l->options->version == 0 || says_version(l, given))
        return find_directory(l, given);
    NIB_TRY(find_version(l, given, versioned, sizeof versioned));
    return find_directory(l, nib_str_from(versioned));
}

static nib_status load(loading *l, const char *directory)
{
    NIB_TRY(choose_directory(l, directory));
    /* A foreign manifest that is not verified has no use for it: packing starts from there. */
    if (is_own_manifest(l) || l->package->verify)
        NIB_TRY(load_metadata(l));
    const nib_status status = load_manifest(l);
    if (status != NIB_OK) {
        nib_error_source(l->error, l->manifest_path);
        return status;
    }
    if (l->has_metadata && is_own_manifest(l)) {
        const nib_status matched = nib_metadata_match(&l->metadata, l->package->contract, l->error);
        if (matched != NIB_OK) {
            name_file(l->package, NIB_STR("metadata.json"), l->error);
            return matched;
        }
    }
    return compute_digest(l);
}

nib_status nib_package_load(nib_context *context, const char *directory,
                            const nib_package_options *options, nib_package **out, nib_error *error)
{
    static const nib_package_options defaults = {0};
    *out = NULL;
    if (!context || !directory)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "nib_package_load needs a context and a "
                        "directory");
    nib_package *package = nib_allocate(&context->allocator, 1, sizeof *package);
    loading *l = nib_allocate(&context->allocator, 1, sizeof *l);
    nib_status status = NIB_OUT_OF_MEMORY;
    if (package && l) {
        package->context = context;
        nib_arena_init(&package->arena, &context->allocator, 0);
        *l =
            (loading){.package = package, .options = options ? options : &defaults, .error = error};
        package->verify = !l->options->skip_verify;
        status = load(l, directory);
    } else {
        nib_fail_memory(error);
    }
    nib_release(&context->allocator, l, 1, sizeof *l);
    if (status == NIB_OK) {
        *out = package;
        return NIB_OK;
    }
    if (package && package->context)
        nib_arena_free(&package->arena);
    nib_release(&context->allocator, package, 1, sizeof *package);
    return status;
}

void nib_package_free(nib_package *package)
{
    if (!package)
        return;
    const nib_allocator allocator = package->context->allocator;
    nib_arena_free(&package->arena);
    nib_release(&allocator, package, 1, sizeof *package);
}

/* ---- questions about a loaded package ---- */

const char *nib_package_op(const nib_package *package)
{
    return package->contract->op_id.data;
}

const char *nib_package_directory(const nib_package *package)
{
    return package->directory;
}

const char *nib_package_digest(const nib_package *package)
{
    return package->digest;
}

bool nib_package_verified(const nib_package *package)
{
    return package->verified;
}

size_t nib_package_port_count(const nib_package *package)
{
    return package->contract->port_count;
}

/* Keys and texts come from the JSON reader, which ends every string with a NUL. */
nib_port_info nib_package_port_at(const nib_package *package, size_t index)
{
    if (index >= package->contract->port_count)
        return (nib_port_info){.key = "", .onnx = "", .description = ""};
    const nib_port *port = &package->contract->ports[index];
    return (nib_port_info){
        .key = port->key.data,
        .onnx = port->onnx.data,
        .dtype = port->dtype_text.len ? port->dtype_text.data : NULL,
        .description = port->description.len ? port->description.data : "",
        .role = port->role,
        .optional = port->role == NIB_OUTPUT ? port->output_optional : port->optional,
        .packed = port->packed,
    };
}

size_t nib_package_find_port(const nib_package *package, const char *name)
{
    const nib_contract *contract = package->contract;
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_is(contract->ports[i].key, name))
            return i;
    }
    for (size_t i = 0; i < contract->port_count; i++) {
        if (nib_str_is(contract->ports[i].onnx, name))
            return i;
    }
    return SIZE_MAX;
}

static nib_status describe(const nib_package *package, nib_arena *arena, nib_value *out,
                           nib_error *error)
{
    nib_value contract;
    NIB_TRY(nib_contract_json(arena, package->contract, &contract, error));
    const nib_map *members = contract.as.map;
    nib_map *map = nib_map_new(arena, members->count + 3);
    bool ok = map &&
              nib_map_set_cstr(arena, map, "directory", nib_value_cstr(package->directory)) &&
              nib_map_set_cstr(arena, map, "digest", nib_value_cstr(package->digest)) &&
              nib_map_set_cstr(arena, map, "verified", nib_value_bool(package->verified));
    for (size_t i = 0; ok && i < members->count; i++)
        ok = nib_map_set(arena, map, members->entries[i].key, members->entries[i].value);
    if (!ok)
        return nib_fail_memory(error);
    *out = nib_value_of_map(map);
    return NIB_OK;
}

nib_status nib_package_json(const nib_package *package, char **text, nib_error *error)
{
    nib_arena arena;
    nib_value value;
    *text = NULL;
    nib_arena_init(&arena, &package->context->allocator, 0);
    nib_status status = describe(package, &arena, &value, error);
    if (status == NIB_OK) {
        nib_buf buf;
        nib_buf_init(&buf, &package->context->allocator, 0);
        nib_json_write(&buf, value, (nib_json_style){.indent = 2});
        status = nib_buf_take(&buf, "the contract", text, error);
    }
    nib_arena_free(&arena);
    return status;
}
