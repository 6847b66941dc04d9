/* SPDX-License-Identifier: Apache-2.0
 *
 * Out of memory at every point: the Nth allocation fails, for growing N. A load must fail cleanly,
 * report it, and leave nothing behind; run under a sanitizer this also shows that nothing is
 * touched after it was freed.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "value/json.h"

static nib_status load_and_describe(nib_allocator allocator, const char *directory,
                                    nib_error *error)
{
    nib_context *context;
    nib_package *package = NULL;
    char *text = NULL;
    const nib_context_options options = {.allocator = allocator};
    nib_status status = nib_context_create(&options, &context, error);
    if (status != NIB_OK)
        return status;
    status = nib_package_load(context, directory, NULL, &package, error);
    if (status == NIB_OK)
        status = nib_package_json(package, &text, error);
    nib_text_free(context, text);
    nib_package_free(package);
    nib_context_free(context);
    return status;
}

static void fail_at_every_allocation(const char *directory)
{
    for (size_t n = 1;; n++) {
        counting c;
        nib_error error = {0};
        counting_init(&c);
        c.fail_at = n;
        const nib_status status = load_and_describe(c.allocator, directory, &error);
        assert_int_equal(c.live_bytes, 0);
        if (c.calls < n) {
            assert_int_equal(status, NIB_OK);
            assert_true(n > 5);
            return;
        }
        assert_int_equal(status, NIB_OUT_OF_MEMORY);
        assert_int_equal(error.code, NIB_OUT_OF_MEMORY);
    }
}

static void test_allocations(void **state)
{
    fail_at_every_allocation(*state);
}

/* Arenas take memory in large blocks, which hides most allocations: bound the arena instead, step
 * by step. */
static nib_status read_within(const char *text, size_t limit, nib_error *error)
{
    nib_arena arena;
    nib_value manifest, json;
    const nib_contract *contract;
    nib_arena_init(&arena, &nib_default_allocator, limit);
    nib_status status = nib_json_parse(&arena, text, strlen(text), "m", &manifest, error);
    if (status == NIB_OK)
        status = nib_contract_read(&arena, manifest, &contract, error);
    if (status == NIB_OK)
        status = nib_contract_json(&arena, contract, &json, error);
    nib_arena_free(&arena);
    return status;
}

static void test_arena_limits(void **state)
{
    const char *text = *state;
    for (size_t limit = 16;; limit += 48) {
        nib_error error = {0};
        const nib_status status = read_within(text, limit, &error);
        if (status == NIB_OK) {
            assert_true(limit > 10000);
            return;
        }
        if (status != NIB_OUT_OF_MEMORY)
            fail_msg("limit %zu: %s: %s: %s", limit, nib_status_name(status), error.path,
                     error.message);
    }
}

/* Families allocate while they expand. */
static const char family_manifest[] =
    "{\"name\":\"F\",\"inputs\":{\"x\":{}},\"outputs\":{},\"args\":{\"n\":{\"kind\":\"u32\"}},"
    "\"requires\":{\"features\":[\"subgroups\"],\"limits\":{\"maxBufferSize\":1}},"
    "\"bindings\":{\"h\":{\"arg\":\"x\",\"elementType\":\"f32\"}},"
    "\"variants\":[{\"axes\":{\"a\":[{\"$key\":\"p\",\"v\":1},{\"$key\":\"q\",\"v\":2}],"
    "\"b\":[{\"$key\":\"r\",\"w\":\"t\"}]},\"variants\":[{\"id\":\"v_{v}_{w}\",\"requires\":"
    "{\"limits\":{\"maxBindGroups\":\"{v}\"},\"subgroupMatrixConfigs\":[{\"M\":8}]},"
    "\"passes\":[{\"repeat\":{\"count\":2,\"index\":\"i\"},\"passes\":[{\"shader\":\"{w}.wgsl\","
    "\"bindings\":[\"h\"],\"dispatch\":{\"x\":\"{v}\"}}]}]}]}]}";

int main(void)
{
    static char own_kernel[] = NIB_SOURCE_DIR "/kernels/com.microsoft.MatMulNBitsQkv";
    sample list;
    sample_init(&list);
    list.manifest = sample_list_manifest;
    list.metadata = NULL;
    sample_write(&list);
    char *map_text = format_text("%s", sample_manifest);
    char *list_text = format_text("%s", sample_list_manifest);
    char *family_text = format_text("%s", family_manifest);
    const struct CMUnitTest tests[] = {
        {"allocations, map style", test_allocations, NULL, NULL, own_kernel},
        {"allocations, list style", test_allocations, NULL, NULL, list.root},
        {"arena limits, map style", test_arena_limits, NULL, NULL, map_text},
        {"arena limits, list style", test_arena_limits, NULL, NULL, list_text},
        {"arena limits, families", test_arena_limits, NULL, NULL, family_text},
    };
    const int failures = cmocka_run_group_tests_name("package memory", tests, NULL, NULL);
    sample_free(&list);
    free(map_text);
    free(list_text);
    free(family_text);
    return failures;
}
