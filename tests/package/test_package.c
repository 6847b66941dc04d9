/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading packages from directories: layouts, digests, paths that must not leave the package.
 */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "package/digest.h"
#include "value/json.h"

/* One sample package and a context for each test. */
typedef struct bench {
    sample s;
    nib_context *context;
    nib_package *package;
    nib_error error;
} bench;

static int set_up(void **state)
{
    bench *b = calloc(1, sizeof *b);
    if (!b)
        return -1;
    sample_init(&b->s);
    *state = b;
    return nib_context_create(NULL, &b->context, &b->error) == NIB_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    bench *b = *state;
    nib_package_free(b->package);
    nib_context_free(b->context);
    sample_free(&b->s);
    free(b);
    return 0;
}

static nib_status load_with(bench *b, const char *directory, const nib_package_options *options)
{
    nib_package_free(b->package);
    b->package = NULL;
    b->error = (nib_error){0};
    const nib_status status =
        nib_package_load(b->context, directory, options, &b->package, &b->error);
    assert_int_equal(status != NIB_OK, b->package == NULL);
    assert_int_equal(status, b->error.code);
    return status;
}

static nib_status load(bench *b)
{
    sample_write(&b->s);
    return load_with(b, b->s.root, NULL);
}

static nib_status read_file(bench *b, const char *path, char **text)
{
    nib_arena arena;
    nib_str bytes;
    b->error = (nib_error){0};
    nib_arena_init(&arena, &nib_default_allocator, 0);
    const nib_status status =
        nib_package_read(b->package, &arena, nib_str_from(path), &bytes, &b->error);
    if (status == NIB_OK && text)
        *text = format_text("%.*s", NIB_STR_ARG(bytes));
    nib_arena_free(&arena);
    return status;
}

static void assert_source(const bench *b, const char *name)
{
    char *path = sample_path(&b->s, name);
    assert_string_equal(b->error.source, path);
    free(path);
}

static void assert_message(const bench *b, const char *fragment)
{
    if (!strstr(b->error.message, fragment))
        fail_msg("the message is\n  %s\nand lacks\n  %s", b->error.message, fragment);
}

/* ---- digests ---- */

/* Vectors of FIPS 180-2; Base64 by the coreutils of the same bytes. */
static void test_digest_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *base64, *hex;
    } vectors[] = {
        {"", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const size_t len = strlen(vectors[i].text), half = len / 2;
        const nib_str pieces[] = {{vectors[i].text, half}, {vectors[i].text + half, len - half}};
        char base64[NIB_DIGEST_BASE64], hex[NIB_DIGEST_HEX];
        nib_digest digest;
        assert_int_equal(nib_digest_of(pieces, 2, &digest, NULL), NIB_OK);
        nib_digest_base64(&digest, base64);
        nib_digest_hex(&digest, hex);
        assert_string_equal(base64, vectors[i].base64);
        assert_string_equal(hex, vectors[i].hex);
    }
}

static void test_manifest_digest_mismatch(void **state)
{
    bench *b = *state;
    sample_write(&b->s);
    char *path = sample_path(&b->s, "manifest.json");
    char *changed = replaced(sample_manifest, "Scale", "Scala");
    write_text(path, changed);
    assert_int_equal(load_with(b, b->s.root, NULL), NIB_INTEGRITY);
    assert_string_equal(b->error.source, path);
    assert_message(b, "the file's SHA-256 is ");
    assert_message(b, "but metadata.json says");

    /* Not verified, the change is found by its name instead. */
    const nib_package_options options = {.skip_verify = true};
    assert_int_equal(load_with(b, b->s.root, &options), NIB_CONTRACT);
    char *spaced = replaced(sample_manifest, "{", "{ ");
    write_text(path, spaced);
    assert_int_equal(load_with(b, b->s.root, &options), NIB_OK);
    assert_false(nib_package_verified(b->package));
    free(changed);
    free(spaced);
    free(path);
}

static void test_template_digests(void **state)
{
    bench *b = *state;
    char *text = NULL;
    assert_int_equal(load(b), NIB_OK);
    assert_true(nib_package_verified(b->package));
    assert_int_equal(read_file(b, "scale.wgsl.jinja", &text), NIB_OK);
    assert_string_equal(text, sample_shader);
    free(text);

    char *path = sample_path(&b->s, "scale.wgsl.jinja");
    write_text(path, "changed");
    assert_int_equal(read_file(b, "scale.wgsl.jinja", NULL), NIB_INTEGRITY);
    assert_source(b, "scale.wgsl.jinja");
    char *other = sample_path(&b->s, "other.wgsl");
    write_text(other, "x");
    assert_int_equal(read_file(b, "other.wgsl", NULL), NIB_INTEGRITY);
    assert_message(b, "has no digest in metadata.json");

    const nib_package_options options = {.skip_verify = true};
    assert_int_equal(load_with(b, b->s.root, &options), NIB_OK);
    assert_int_equal(read_file(b, "scale.wgsl.jinja", &text), NIB_OK);
    assert_string_equal(text, "changed");
    free(text);
    assert_int_equal(read_file(b, "other.wgsl", NULL), NIB_OK);
    assert_int_equal(remove(path), 0);
    assert_int_equal(read_file(b, "scale.wgsl.jinja", NULL), NIB_IO);
    assert_source(b, "scale.wgsl.jinja");
    free(path);
    free(other);
}

static void test_loader_reads_templates(void **state)
{
    bench *b = *state;
    nib_arena arena;
    nib_str text;
    assert_int_equal(load(b), NIB_OK);
    nib_arena_init(&arena, &nib_default_allocator, 0);
    const nib_template_loader loader = nib_package_templates(b->package);
    assert_int_equal(
        loader.read(loader.user, &arena, NIB_STR("scale.wgsl.jinja"), &text, &b->error), NIB_OK);
    assert_true(nib_str_is(text, sample_shader));
    assert_int_equal(loader.read(loader.user, &arena, NIB_STR("gone.wgsl"), &text, &b->error),
                     NIB_IO);
    nib_arena_free(&arena);
}

static void test_without_metadata(void **state)
{
    bench *b = *state;
    b->s.metadata = NULL;
    assert_int_equal(load(b), NIB_OK);
    assert_false(nib_package_verified(b->package));
    assert_int_equal(read_file(b, "scale.wgsl.jinja", NULL), NIB_OK);
}

/* The package digest covers the manifest's bytes and every digest of the table. */
static void test_package_digest(void **state)
{
    bench *b = *state;
    char first[NIB_DIGEST_HEX];
    assert_int_equal(load(b), NIB_OK);
    memcpy(first, nib_package_digest(b->package), sizeof first);
    assert_int_equal(strlen(first), 64);
    assert_int_equal(load(b), NIB_OK);
    assert_string_equal(nib_package_digest(b->package), first);

    b->s.shader = "// other";
    assert_int_equal(load(b), NIB_OK);
    assert_string_not_equal(nib_package_digest(b->package), first);
    b->s.shader = sample_shader;
    char *spaced = replaced(sample_manifest, "{", "{ ");
    b->s.manifest = spaced;
    assert_int_equal(load(b), NIB_OK);
    assert_string_not_equal(nib_package_digest(b->package), first);
    free(spaced);
}

/* ---- layouts ---- */

static void test_layouts(void **state)
{
    bench *b = *state;
    assert_int_equal(load(b), NIB_OK);
    assert_string_equal(nib_package_directory(b->package), b->s.folder);
    assert_int_equal(load_with(b, b->s.folder, NULL), NIB_OK);
    assert_string_equal(nib_package_directory(b->package), b->s.folder);
    char *slashes = format_text("%s//", b->s.root);
    assert_int_equal(load_with(b, slashes, NULL), NIB_OK);
    assert_string_equal(nib_package_directory(b->package), b->s.folder);
    free(slashes);
}

/* kernels/NAME is version 1, kernels/v2/NAME is version 2; asked for from either folder. */
static void test_versions(void **state)
{
    bench *b = *state;
    sample_write(&b->s);
    const nib_package_options first = {.version = 1}, second = {.version = 2}, third = {.version = 3};
    char *folder = format_text("%s/kernels/v2", b->s.root);
    char *one = format_text("%s/kernels/op", b->s.root);
    char *two = format_text("%s/op/", folder);
    char *make = format_text("mkdir -p '%s' && cp -r '%s/build' '%s/op-build' && mkdir '%s' '%s' && "
                             "cp -r '%s/op-build' '%s/build' && cp -r '%s/op-build' '%s/build'",
                             folder, b->s.root, folder, one, two, folder, one, folder, two);
    assert_int_equal(system(make), 0);
    char *expected = format_text("%s/op/build/webgpu", folder);
    assert_int_equal(load_with(b, one, &second), NIB_OK);
    assert_string_equal(nib_package_directory(b->package), expected);
    assert_int_equal(load_with(b, two, &second), NIB_OK);
    assert_string_equal(nib_package_directory(b->package), expected);
    free(expected);
    expected = format_text("%s/build/webgpu", one);
    assert_int_equal(load_with(b, two, &first), NIB_OK);
    assert_string_equal(nib_package_directory(b->package), expected);
    assert_int_equal(load_with(b, one, &third), NIB_IO);
    assert_message(b, "no contract version 3 of op");
    free(expected);
    free(make);
    free(two);
    free(one);
    free(folder);
}

static void test_missing_directory(void **state)
{
    bench *b = *state;
    char *path = format_text("%s/nothing", b->s.root);
    assert_int_equal(load_with(b, path, NULL), NIB_IO);
    assert_string_equal(b->error.source, path);
    assert_message(b, "no such directory");
    write_text(path, "a file");
    assert_int_equal(load_with(b, path, NULL), NIB_IO);
    free(path);
}

static void test_missing_manifest(void **state)
{
    bench *b = *state;
    b->s.manifest = NULL;
    assert_int_equal(load(b), NIB_IO);
    assert_source(b, "manifest.json");
    assert_message(b, "No such file");
}

static void test_long_path(void **state)
{
    bench *b = *state;
    char path[5000];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(load_with(b, path, NULL), NIB_LIMIT);
}

static void test_arguments(void **state)
{
    bench *b = *state;
    nib_package *package;
    assert_int_equal(nib_package_load(NULL, "x", NULL, &package, NULL), NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_package_load(b->context, NULL, NULL, &package, NULL),
                     NIB_INVALID_ARGUMENT);
    assert_int_equal(nib_package_load(b->context, "/nowhere", NULL, &package, NULL), NIB_IO);
    assert_null(package);
    nib_package_free(NULL);
}

static void test_expected_op(void **state)
{
    bench *b = *state;
    nib_package_options options = {.expected_op = "test.ops.Scale"};
    sample_write(&b->s);
    assert_int_equal(load_with(b, b->s.root, &options), NIB_OK);
    assert_string_equal(nib_package_op(b->package), "test.ops.Scale");
    options.expected_op = "test.ops.Other";
    assert_int_equal(load_with(b, b->s.root, &options), NIB_CONTRACT);
    assert_message(b, "implements \"test.ops.Scale\", not \"test.ops.Other\"");
}

/* ---- another manifest ---- */

static void test_manifest_file(void **state)
{
    bench *b = *state;
    char *path = format_text("%s/other.json", b->s.root);
    const nib_package_options options = {.manifest_file = path};
    sample_write(&b->s);
    char *renamed = replaced(sample_list_manifest, "\"id\":\"main\"", "\"id\":\"elsewhere\"");
    write_text(path, renamed);
    assert_int_equal(load_with(b, b->s.root, &options), NIB_OK);
    assert_false(nib_package_verified(b->package));
    assert_int_equal(b->package->contract->dialect, NIB_DIALECT_LIST);
    assert_true(nib_str_is(b->package->contract->variants[0].id, "elsewhere"));

    /* Templates are still those of the package. */
    assert_int_equal(read_file(b, "scale.wgsl.jinja", NULL), NIB_OK);
    char *shader = sample_path(&b->s, "scale.wgsl.jinja");
    write_text(shader, "changed");
    assert_int_equal(read_file(b, "scale.wgsl.jinja", NULL), NIB_INTEGRITY);

    const nib_package_options strict = {.manifest_file = path, .expected_op = "test.ops.Other"};
    assert_int_equal(load_with(b, b->s.root, &strict), NIB_CONTRACT);
    assert_string_equal(b->error.source, path);
    const nib_package_options missing = {.manifest_file = "/nowhere/m.json"};
    assert_int_equal(load_with(b, b->s.root, &missing), NIB_IO);
    assert_string_equal(b->error.source, "/nowhere/m.json");
    free(renamed);
    free(shader);
    free(path);
}

static void test_manifest_file_alone(void **state)
{
    bench *b = *state;
    char *path = format_text("%s/other.json", b->s.root);
    const nib_package_options options = {.manifest_file = path};
    write_text(path, sample_manifest);
    assert_int_equal(load_with(b, b->s.root, &options), NIB_OK);
    free(path);
}

/* ---- what an error says ---- */

static void test_errors_name_the_file(void **state)
{
    bench *b = *state;
    char line[4096];
    b->s.metadata = NULL;
    b->s.manifest = "{\n  \"name\": ,\n}";
    assert_int_equal(load(b), NIB_FORMAT);
    assert_source(b, "manifest.json");
    assert_int_equal(b->error.line, 2);

    char *text = replaced(sample_manifest, "\"threads\":\"count\"", "\"threads\":-1");
    b->s.manifest = text;
    assert_int_equal(load(b), NIB_CONTRACT);
    nib_error_format(&b->error, line, sizeof line);
    char *want =
        format_text("%s/manifest.json: variants[0].passes[0].dispatch.threads: a size must "
                    "be a non-negative integer below 2^53, not -1",
                    b->s.folder);
    assert_string_equal(line, want);
    free(want);
    free(text);

    text = replaced(sample_manifest, "\"threads\":\"count\"", "\"threads\":\"ceilDiv(count,, 4)\"");
    b->s.manifest = text;
    assert_int_equal(load(b), NIB_SYNTAX);
    want = format_text("%s/manifest.json, expression", b->s.folder);
    assert_string_equal(b->error.source, want);
    assert_string_equal(b->error.path, "variants[0].passes[0].dispatch.threads");
    assert_int_equal(b->error.line, 1);
    assert_int_equal(b->error.column, 15);
    assert_non_null(strstr(b->error.excerpt, "ceilDiv(count,, 4)\n"));
    free(want);
    free(text);

    text = replaced(sample_manifest, "\"name\":", "\"name\":\"A\",\"name\":");
    b->s.manifest = text;
    assert_int_equal(load(b), NIB_FORMAT);
    assert_message(b, "duplicate");
    free(text);
}

static void test_byte_order_mark(void **state)
{
    bench *b = *state;
    char *manifest = format_text("\xef\xbb\xbf%s", sample_manifest);
    char *metadata = format_text("\xef\xbb\xbf%s", sample_metadata);
    b->s.manifest = manifest;
    b->s.metadata = metadata;
    assert_int_equal(load(b), NIB_OK);
    assert_true(nib_package_verified(b->package));
    free(manifest);
    free(metadata);
}

/* ---- staying inside ---- */

static void test_paths(void **state)
{
    bench *b = *state;
    static const char *const refused[] = {
        "",
        "/etc/passwd",
        "../manifest.json",
        "a/../manifest.json",
        "a//b",
        "a/",
        "a\\b",
        "./..",
        "a b",
        "scale.wgsl.jinja/",
        "..",
        "x..y",
        "valueOf",
        "a/constructor",
        "a\nb",
        "caf\xc3\xa9.wgsl",
        "c:/a",
        "~/a",
        "%2e%2e/a",
    };
    b->s.metadata = NULL;
    assert_int_equal(load(b), NIB_OK);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (read_file(b, refused[i], NULL) != NIB_CONTRACT)
            fail_msg("\"%s\" is not refused", refused[i]);
    }
    char *folder = sample_path(&b->s, "sub");
    char *file = sample_path(&b->s, "sub/a-b_c.1.wgsl");
    assert_int_equal(mkdir(folder, 0777), 0);
    write_text(file, "inside");
    char *text = NULL;
    assert_int_equal(read_file(b, "sub/a-b_c.1.wgsl", &text), NIB_OK);
    assert_string_equal(text, "inside");
    assert_int_equal(read_file(b, "./sub/a-b_c.1.wgsl", NULL), NIB_OK);
    assert_int_equal(read_file(b, "sub", NULL), NIB_IO);
    assert_message(b, "not a regular file");
    free(text);
    free(folder);
    free(file);
}

static void test_links(void **state)
{
    bench *b = *state;
    char *outside = format_text("%s/secret.wgsl", b->s.root);
    char *link_file = sample_path(&b->s, "link.wgsl"), *link_folder = sample_path(&b->s, "up");
    char *inner = sample_path(&b->s, "inner.wgsl"), *dangling = sample_path(&b->s, "gone.wgsl");
    b->s.metadata = NULL;
    assert_int_equal(load(b), NIB_OK);
    write_text(outside, "secret");
    assert_int_equal(symlink(outside, link_file), 0);
    assert_int_equal(symlink("../..", link_folder), 0);
    assert_int_equal(symlink("scale.wgsl.jinja", inner), 0);
    assert_int_equal(symlink("nothing", dangling), 0);
    assert_int_equal(read_file(b, "link.wgsl", NULL), NIB_CONTRACT);
    assert_message(b, "a symbolic link leads out of the package");
    assert_int_equal(read_file(b, "up/secret.wgsl", NULL), NIB_CONTRACT);
    assert_int_equal(read_file(b, "inner.wgsl", NULL), NIB_OK);
    assert_int_equal(read_file(b, "gone.wgsl", NULL), NIB_IO);
    free(outside);
    free(link_file);
    free(link_folder);
    free(inner);
    free(dangling);
}

/* A folder whose name only starts like the package's is not inside it. */
static void test_link_to_sibling(void **state)
{
    bench *b = *state;
    char *sibling = format_text("%s-other", b->s.folder);
    char *file = format_text("%s/a.wgsl", sibling), *link = sample_path(&b->s, "a.wgsl");
    b->s.metadata = NULL;
    assert_int_equal(load(b), NIB_OK);
    assert_int_equal(mkdir(sibling, 0777), 0);
    write_text(file, "x");
    assert_int_equal(symlink(file, link), 0);
    assert_int_equal(read_file(b, "a.wgsl", NULL), NIB_CONTRACT);
    free(sibling);
    free(file);
    free(link);
}

static void test_manifest_link_out(void **state)
{
    bench *b = *state;
    char *outside = format_text("%s/m.json", b->s.root);
    char *inside = sample_path(&b->s, "manifest.json");
    sample_write(&b->s);
    write_text(outside, sample_manifest);
    assert_int_equal(remove(inside), 0);
    assert_int_equal(symlink(outside, inside), 0);
    assert_int_equal(load_with(b, b->s.root, NULL), NIB_CONTRACT);
    assert_message(b, "leads out of the package");
    assert_string_equal(b->error.source, inside);
    free(outside);
    free(inside);
}

/* A package reached through a link is read where the link leads. */
static void test_package_behind_link(void **state)
{
    bench *b = *state;
    char *link = format_text("%s/link", b->s.root);
    sample_write(&b->s);
    assert_int_equal(symlink("build/webgpu", link), 0);
    assert_int_equal(load_with(b, link, NULL), NIB_OK);
    assert_int_equal(read_file(b, "scale.wgsl.jinja", NULL), NIB_OK);
    free(link);
}

static void test_named_pipe(void **state)
{
    bench *b = *state;
    char *path = sample_path(&b->s, "pipe.wgsl");
    b->s.metadata = NULL;
    assert_int_equal(load(b), NIB_OK);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_file(b, "pipe.wgsl", NULL), NIB_IO);
    assert_message(b, "not a regular file");
    free(path);
}

static void make_sparse(const char *path, off_t bytes)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, bytes), 0);
    close(file);
}

static void test_size_limits(void **state)
{
    bench *b = *state;
    char *shader = sample_path(&b->s, "big.wgsl"), *manifest = sample_path(&b->s, "manifest.json");
    b->s.metadata = NULL;
    assert_int_equal(load(b), NIB_OK);
    make_sparse(shader, ((off_t)64 << 20) + 1);
    assert_int_equal(read_file(b, "big.wgsl", NULL), NIB_LIMIT);
    assert_message(b, "67108865 bytes, 67108864 are allowed");
    make_sparse(shader, (off_t)64 << 20);
    assert_int_equal(read_file(b, "big.wgsl", NULL), NIB_OK);
    make_sparse(manifest, ((off_t)8 << 20) + 1);
    assert_int_equal(load_with(b, b->s.root, NULL), NIB_LIMIT);
    free(shader);
    free(manifest);
}

static void test_unreadable_metadata(void **state)
{
    bench *b = *state;
    char *path = sample_path(&b->s, "metadata.json");
    sample_write(&b->s);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(load_with(b, b->s.root, NULL), NIB_IO);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("nowhere", path), 0); /* there, but broken: not "no metadata" */
    assert_int_equal(load_with(b, b->s.root, NULL), NIB_IO);
    assert_string_equal(b->error.source, path);
    free(path);
}

/* ---- questions ---- */

static void test_ports(void **state)
{
    bench *b = *state;
    assert_int_equal(load(b), NIB_OK);
    assert_int_equal(nib_package_port_count(b->package), 4);
    const nib_port_info x = nib_package_port_at(b->package, 0);
    assert_string_equal(x.key, "x");
    assert_string_equal(x.onnx, "X");
    assert_string_equal(x.dtype, "T");
    assert_string_equal(x.description, "what to scale");
    assert_int_equal(x.role, NIB_INPUT);
    assert_false(x.optional);
    const nib_port_info q = nib_package_port_at(b->package, 1);
    assert_string_equal(q.onnx, "q");
    assert_string_equal(q.description, "");
    assert_true(q.optional && q.packed);
    const nib_port_info u = nib_package_port_at(b->package, 2);
    assert_int_equal(u.role, NIB_INOUT);
    assert_null(u.dtype);
    assert_false(u.optional); /* its input entry is not */
    const nib_port_info y = nib_package_port_at(b->package, 3);
    assert_int_equal(y.role, NIB_OUTPUT);
    assert_string_equal(nib_package_port_at(b->package, 4).key, "");
    assert_int_equal(nib_package_find_port(b->package, "y"), 3);
    assert_int_equal(nib_package_find_port(b->package, "Y"), 3);
    assert_int_equal(nib_package_find_port(b->package, "X"), 0);
    assert_true(nib_package_find_port(b->package, "z") == SIZE_MAX);
}

static void test_json(void **state)
{
    bench *b = *state;
    nib_arena arena;
    nib_value json;
    char *text;
    assert_int_equal(load(b), NIB_OK);
    assert_int_equal(nib_package_json(b->package, &text, &b->error), NIB_OK);
    nib_arena_init(&arena, &nib_default_allocator, 0);
    assert_int_equal(nib_json_parse(&arena, text, strlen(text), "json", &json, &b->error), NIB_OK);
    assert_true(nib_str_is(find_member(json, "op").as.string, "test.ops.Scale"));
    assert_true(nib_str_is(find_member(json, "directory").as.string, b->s.folder));
    assert_true(nib_str_is(find_member(json, "digest").as.string, nib_package_digest(b->package)));
    assert_true(find_member(json, "verified").as.boolean);
    assert_true(
        nib_str_is(find_member(json, "variants[0].passes[0].bindings[2].scratch").as.string, "t"));
    nib_arena_free(&arena);
    nib_text_free(b->context, text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest_vectors),
        TEST(test_manifest_digest_mismatch),
        TEST(test_template_digests),
        TEST(test_loader_reads_templates),
        TEST(test_without_metadata),
        TEST(test_package_digest),
        TEST(test_layouts),
        TEST(test_versions),
        TEST(test_missing_directory),
        TEST(test_missing_manifest),
        TEST(test_long_path),
        TEST(test_arguments),
        TEST(test_expected_op),
        TEST(test_manifest_file),
        TEST(test_manifest_file_alone),
        TEST(test_errors_name_the_file),
        TEST(test_byte_order_mark),
        TEST(test_paths),
        TEST(test_links),
        TEST(test_link_to_sibling),
        TEST(test_manifest_link_out),
        TEST(test_package_behind_link),
        TEST(test_named_pipe),
        TEST(test_size_limits),
        TEST(test_unreadable_metadata),
        TEST(test_ports),
        TEST(test_json),
    };
    return cmocka_run_group_tests_name("package", tests, NULL, NULL);
}
