/* SPDX-License-Identifier: Apache-2.0
 *
 * metadata.json (format 1.2, 1.7): each row changes one thing of a package that loads.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;
    const char *from, *to; /* in sample_metadata; to = the whole text when from is NULL */
    nib_status status;     /* NIB_OK: it loads */
    const char *path, *message;
    bool list; /* with the list-style manifest */
} row;

#define SPEC              "\"manifestSpec\":\"2.1\","
#define SPEC_AND_VARIANTS "\"manifestSpec\":\"2.1\",\"variants\":{\"main\":[\"scale.wgsl.jinja\"]}"

static const row rows[] = {
    {"unchanged", "", "", NIB_OK, NULL, NULL, false},
    {"not JSON", NULL, "{\"name\":", NIB_FORMAT, "", "this is not valid JSON", false},
    {"empty", NULL, "", NIB_FORMAT, "", "this is not valid JSON", false},
    {"not an object", NULL, "[]", NIB_CONTRACT, "", "metadata must be an object", false},
    {"duplicate key", "\"name\":", "\"name\":\"a\",\"name\":", NIB_FORMAT, "", "duplicate", false},
    {"no backend", "\"backend\":{\"type\":\"webgpu\"},", "", NIB_CONTRACT, "backend.type",
     "the backend must be \"webgpu\", not undefined", false},
    {"other backend", "\"type\":\"webgpu\"", "\"type\":\"cuda\"", NIB_CONTRACT, "backend.type",
     "not the string \"cuda\"", false},
    {"backend of wrong type", "{\"type\":\"webgpu\"}", "\"webgpu\"", NIB_CONTRACT, "backend.type",
     "the backend must be", false},
    {"no spec", SPEC, "", NIB_CONTRACT, "webgpu.manifestSpec",
     "\"manifestSpec\" is missing; a map-style manifest needs \"2.1\"", false},
    {"spec as a number", SPEC, "\"manifestSpec\":2.1,", NIB_OK, NULL, NULL, false},
    {"older spec", "\"2.1\"", "\"2.0\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "\"manifestSpec\" is 2.0; a map-style manifest needs \"2.1\"", false},
    {"newer spec", "\"2.1\"", "\"2.2\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "manifest spec 2.2 is not supported", false},
    {"spec with a zero", "\"2.1\"", "\"2.10\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "manifest spec 2.10 is not supported", false},
    {"spec of three parts", "\"2.1\"", "\"2.1.0\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "must be a version like \"2.1\"", false},
    {"spec without a minor", "\"2.1\"", "\"2.\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "must be a version like \"2.1\"", false},
    {"spec with a prefix", "\"2.1\"", "\"v2.1\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "must be a version like \"2.1\"", false},
    {"empty spec", "\"2.1\"", "\"\"", NIB_CONTRACT, "webgpu.manifestSpec",
     "must be a version like \"2.1\"", false},
    {"spec null", "\"2.1\"", "null", NIB_CONTRACT, "webgpu.manifestSpec",
     "must be a version like \"2.1\", not null", false},
    {"other algorithm", "sha256", "sha512", NIB_CONTRACT, "digest.algorithm",
     "must be \"sha256\", not the string \"sha512\"", false},
    {"no algorithm", "\"algorithm\":\"sha256\",", "", NIB_CONTRACT, "digest.algorithm",
     "not undefined", false},
    {"no digests", "\"files\":", "\"other\":", NIB_CONTRACT, "digest.files",
     "\"files\" must be an object", false},
    {"no digest of the manifest", "\"manifest.json\":", "\"other.json\":", NIB_CONTRACT,
     "digest.files", "manifest.json has no digest", false},
    {"digest of wrong type", "\"@SHADER\"", "7", NIB_CONTRACT, "digest.files[\"scale.wgsl.jinja\"]",
     "a digest must be a non-empty string, not 7", false},
    {"path that climbs", "\"manifest.json\":", "\"../a\":\"x\",\"manifest.json\":", NIB_CONTRACT,
     "digest.files[\"../a\"]", "must not contain \"..\"", false},
    {"absolute path", "\"manifest.json\":", "\"/a\":\"x\",\"manifest.json\":", NIB_CONTRACT,
     "digest.files[\"/a\"]", "segments joined by single \"/\"", false},
    {"path with a space", "\"manifest.json\":", "\"a b\":\"x\",\"manifest.json\":", NIB_CONTRACT,
     "digest.files[\"a b\"]", "may hold letters, digits", false},
    {"path with a forbidden segment",
     "\"manifest.json\":", "\"a/toString\":\"x\",\"manifest.json\":", NIB_CONTRACT,
     "digest.files[\"a/toString\"]", "forbidden segment", false},
    {"path that ends in a slash", "\"manifest.json\":", "\"a/\":\"x\",\"manifest.json\":",
     NIB_CONTRACT, "digest.files[\"a/\"]", "segments joined by single \"/\"", false},
    {"no variants, map style", SPEC_AND_VARIANTS, "\"manifestSpec\":\"2.1\"", NIB_CONTRACT,
     "webgpu.variants", "\"variants\" is missing", false},
    {"variants of wrong type", "{\"main\":[\"scale.wgsl.jinja\"]}", "[]", NIB_CONTRACT,
     "webgpu.variants", "\"variants\" must be an object", false},
    {"empty variants", "{\"main\":[\"scale.wgsl.jinja\"]}", "{}", NIB_CONTRACT, "webgpu.variants",
     "must list at least one variant", false},
    {"variant id", "\"main\":[", "\"a-b\":[\"scale.wgsl.jinja\"],\"main\":[", NIB_CONTRACT,
     "webgpu.variants.a-b", "the variant id \"a-b\"", false},
    {"forbidden variant id", "\"main\":[", "\"constructor\":[\"scale.wgsl.jinja\"],\"main\":[",
     NIB_CONTRACT, "webgpu.variants.constructor", "the variant id \"constructor\"", false},
    {"template list of wrong type", "[\"scale.wgsl.jinja\"]", "\"scale.wgsl.jinja\"", NIB_CONTRACT,
     "webgpu.variants.main", "must be a non-empty list", false},
    {"empty template list", "[\"scale.wgsl.jinja\"]", "[]", NIB_CONTRACT, "webgpu.variants.main",
     "must be a non-empty list", false},
    {"template without a digest", "[\"scale.wgsl.jinja\"]", "[\"scale.wgsl.jinja\",\"other.wgsl\"]",
     NIB_CONTRACT, "webgpu.variants.main[1]", "\"other.wgsl\" has no digest", false},
    {"template of another kind", "[\"scale.wgsl.jinja\"]", "[\"manifest.json\"]", NIB_CONTRACT,
     "webgpu.variants.main[0]", "must end in .wgsl or .wgsl.jinja", false},
    {"other name", "test.ops.Scale", "test.ops.Scala", NIB_CONTRACT, "name",
     "the package is named \"test.ops.Scala\", its manifest \"test.ops.Scale\"", false},
    {"no name", "\"name\":\"test.ops.Scale\",", "", NIB_CONTRACT, "name",
     "the package is named \"\"", false},
    {"variant not listed", "\"main\":[", "\"other\":[", NIB_CONTRACT, "webgpu.variants",
     "the manifest's variant \"main\" is not listed", false},
    {"variant listed in vain", "\"main\":[", "\"other\":[\"scale.wgsl.jinja\"],\"main\":[",
     NIB_CONTRACT, "webgpu.variants.other", "the manifest has no variant \"other\"", false},
    {"shader not listed", SPEC_AND_VARIANTS "},\"digest\":{\"algorithm\":\"sha256\",\"files\":{",
     "\"manifestSpec\":\"2.1\",\"variants\":{\"main\":[\"b.wgsl\"]}},\"digest\":{\"algorithm\":"
     "\"sha256\",\"files\":{\"b.wgsl\":\"x\",",
     NIB_CONTRACT, "webgpu.variants.main",
     "the list lacks \"scale.wgsl.jinja\", the shader of pass \"pass_0\"", false},
    {"further members", "\"name\":", "\"version\":1,\"provenance\":{\"a\":[1]},\"name\":", NIB_OK,
     NULL, NULL, false},
    {"list style, spec 2.1", "", "", NIB_CONTRACT, "webgpu.manifestSpec",
     "the manifest is of the older list style", true},
    {"list style, spec 2.0", "\"2.1\"", "\"2.0\"", NIB_OK, NULL, NULL, true},
    {"list style, no spec", SPEC, "", NIB_OK, NULL, NULL, true},
    {"list style, no spec and no variants", SPEC_AND_VARIANTS, "\"other\":1", NIB_OK, NULL, NULL,
     true},
    {"list style, variants that do not match",
     SPEC "\"variants\":{\"main\":", "\"variants\":{\"x\":", NIB_CONTRACT, "webgpu.variants",
     "the manifest's variant \"main\" is not listed", true},
};

static void check_row(void **state)
{
    const row *r = *state;
    sample s;
    sample_init(&s);
    if (r->list)
        s.manifest = sample_list_manifest;
    if (r->from && r->from[0])
        assert_non_null(strstr(sample_metadata, r->from));
    char *text = r->from ? replaced(sample_metadata, r->from, r->to) : format_text("%s", r->to);
    s.metadata = text;
    sample_write(&s);

    nib_error error = {0};
    nib_context *context;
    nib_package *package = NULL;
    assert_int_equal(nib_context_create(NULL, &context, &error), NIB_OK);
    const nib_status status = nib_package_load(context, s.root, NULL, &package, &error);
    if (status != r->status)
        fail_msg("%s: status %s: %s: %s", r->name, nib_status_name(status), error.path,
                 error.message);
    if (status == NIB_OK) {
        assert_true(nib_package_verified(package));
    } else {
        assert_null(package);
        assert_string_equal(error.path, r->path);
        if (!strstr(error.message, r->message))
            fail_msg("%s: the message is %s", r->name, error.message);
        char *source = sample_path(&s, "metadata.json");
        assert_string_equal(error.source, source);
        free(source);
    }
    nib_package_free(package);
    nib_context_free(context);
    free(text);
    sample_free(&s);
}

int main(void)
{
    enum { COUNT = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[COUNT];
    row copies[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        copies[i] = rows[i];
        tests[i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &copies[i]};
    }
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
