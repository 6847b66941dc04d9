/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "package/digest.h"

char *read_text(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    fclose(file);
    if (bytes)
        *bytes = (size_t)size;
    return text;
}

void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

char *format_text(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    const int len = vasprintf(&text, format, args);
    va_end(args);
    assert_true(len >= 0);
    return text;
}

char *make_directory(void)
{
    char *path =
        format_text("%s/nibble-package-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void remove_directory(char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

static nib_value step(nib_value value, const char *name, size_t len)
{
    const nib_value *member =
        value.type == NIB_VALUE_MAP ? nib_map_get(value.as.map, (nib_str){name, len}) : NULL;
    return member ? *member : NIB_UNDEFINED;
}

nib_value find_member(nib_value root, const char *path)
{
    nib_value value = root;
    while (*path) {
        if (*path == '[') {
            char *end;
            const unsigned long index = strtoul(path + 1, &end, 10);
            if (value.type != NIB_VALUE_LIST || index >= value.as.list->count)
                return NIB_UNDEFINED;
            value = value.as.list->items[index];
            path = end + 1;
        } else {
            path += *path == '.';
            const size_t len = strcspn(path, ".[");
            value = step(value, path, len);
            path += len;
        }
    }
    return value;
}

/* ---- a sample package ---- */

const char sample_manifest[] =
    "{\"domain\":\"test.ops\",\"name\":\"Scale\","
    "\"inputs\":{\"x\":{\"dtype\":\"T\",\"onnx\":\"X\",\"description\":\"what to scale\"},"
    "\"q\":{\"dtype\":\"uint8\",\"layout\":\"packed\",\"optional\":true},\"u\":{}},"
    "\"outputs\":{\"y\":{\"dtype\":\"T\",\"shape\":\"shapes.x\",\"onnx\":\"Y\"},"
    "\"u\":{\"optional\":true}},"
    "\"typeConstraints\":{\"T\":[\"float32\",\"float16\"]},"
    "\"attributes\":{\"alpha\":{\"default\":1}},"
    "\"derive\":{\"count\":\"numel(shapes.x)\",\"list\":[\"count\",3]},"
    "\"variants\":[{\"id\":\"main\",\"when\":[\"count > 0\"],"
    "\"intermediates\":[{\"id\":\"t\",\"dtype\":\"float32\",\"shape\":[\"count\"]}],"
    "\"passes\":[{\"shader\":\"scale.wgsl.jinja\",\"bindings\":[\"x\",\"y\",\"t\","
    "{\"name\":\"params\",\"struct\":[{\"name\":\"n\",\"type\":\"u32\",\"value\":\"count\"}]}],"
    "\"dispatch\":{\"threads\":\"count\",\"workgroupSize\":64}}]}]}\n";

const char sample_list_manifest[] =
    "{\"domain\":\"test.ops\",\"name\":\"Scale\",\"inputs\":[{\"role\":\"X\",\"dtype\":\"T\"}],"
    "\"outputs\":[{\"role\":\"Y\",\"dtype\":\"T\",\"shape\":\"shapes.X\"}],"
    "\"args\":{\"x\":{\"kind\":\"tensor\",\"semantic\":\"X\",\"role\":\"input\"},"
    "\"y\":{\"kind\":\"tensor\",\"semantic\":\"Y\",\"role\":\"output\"}},"
    "\"typeConstraints\":{\"T\":[\"float32\"]},\"constants\":{\"n\":\"numel(shapes.X)\"},"
    "\"attributes\":{\"alpha\":1},\"attributeConstraints\":{\"beta\":{\"required\":true}},"
    "\"bindingSets\":{\"main\":["
    "{\"name\":\"x\",\"arg\":\"x\",\"buffer\":{\"type\":\"read-only-storage\"},\"elementType\":\"$"
    "T\"},"
    "{\"name\":\"y\",\"arg\":\"y\",\"buffer\":{\"type\":\"storage\"},\"elementType\":\"f32\"},"
    "{\"name\":\"p\",\"buffer\":{\"type\":\"uniform\"},\"struct\":{\"fields\":"
    "[{\"name\":\"n\",\"type\":\"u32\",\"value\":\"n\"}]}}]},"
    "\"variants\":[{\"id\":\"main\",\"passes\":[{\"shader\":\"scale.wgsl.jinja\",\"bindings\":"
    "\"main\","
    "\"dispatch\":{\"workgroups\":\"n\",\"z\":2}}]}]}\n";

const char sample_shader[] = "{{ env.wgsl.resourceDeclarations }}\n@compute fn main() {}\n";

const char sample_metadata[] =
    "{\"name\":\"test.ops.Scale\",\"backend\":{\"type\":\"webgpu\"},\"webgpu\":{\"manifestSpec\":"
    "\"2.1\","
    "\"variants\":{\"main\":[\"scale.wgsl.jinja\"]}},\"digest\":{\"algorithm\":\"sha256\","
    "\"files\":{"
    "\"manifest.json\":\"@MANIFEST\",\"scale.wgsl.jinja\":\"@SHADER\"}}}\n";

char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at)
        return format_text("%s", text);
    return format_text("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void digest_text(const char *text, char out[NIB_DIGEST_BASE64])
{
    nib_digest digest;
    const nib_str piece = nib_str_from(text ? text : "");
    assert_int_equal(nib_digest_of(&piece, 1, &digest, NULL), NIB_OK);
    nib_digest_base64(&digest, out);
}

char *fill_metadata(const sample *s, const char *text)
{
    char digest[NIB_DIGEST_BASE64];
    digest_text(s->manifest, digest);
    char *half = replaced(text, "@MANIFEST", digest);
    digest_text(s->shader, digest);
    char *whole = replaced(half, "@SHADER", digest);
    free(half);
    return whole;
}

char *sample_path(const sample *s, const char *name)
{
    return format_text("%s/%s", s->folder, name);
}

void sample_init(sample *s)
{
    *s = (sample){.root = make_directory(),
                  .manifest = sample_manifest,
                  .shader = sample_shader,
                  .metadata = sample_metadata};
    char *build = format_text("%s/build", s->root);
    s->folder = format_text("%s/build/webgpu", s->root);
    assert_int_equal(mkdir(build, 0777), 0);
    assert_int_equal(mkdir(s->folder, 0777), 0);
    free(build);
}

static void write_sample_file(const sample *s, const char *name, const char *text)
{
    char *path = sample_path(s, name);
    remove(path);
    if (text)
        write_text(path, text);
    free(path);
}

void sample_write(const sample *s)
{
    char *metadata = s->metadata ? fill_metadata(s, s->metadata) : NULL;
    write_sample_file(s, "manifest.json", s->manifest);
    write_sample_file(s, "scale.wgsl.jinja", s->shader);
    write_sample_file(s, "metadata.json", metadata);
    free(metadata);
}

void sample_free(sample *s)
{
    remove_directory(s->root);
    free(s->folder);
}

/* ---- allocation ---- */

static void *counting_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    counting *c = user;
    if (new_bytes > 0) {
        c->calls++;
        if (c->calls == c->fail_at)
            return NULL;
    }
    if (new_bytes == 0) {
        free(ptr);
        c->live_bytes -= old_bytes;
        return NULL;
    }
    void *moved = realloc(ptr, new_bytes);
    if (moved)
        c->live_bytes += new_bytes - old_bytes;
    return moved;
}

void counting_init(counting *c)
{
    *c = (counting){.allocator = {counting_resize, NULL}};
    c->allocator.user = c;
}
