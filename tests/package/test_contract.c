/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests, one directory a case below cases/: manifest.json and either
 *   error.txt   lines "status CONTRACT", "path JSON_PATH" ("-" for none), "message FRAGMENT",
 * "position LINE:COLUMN" ok          lines "PATH = JSON": what stands at that path of the contract
 * as JSON
 */
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/requires.h"
#include "plan/caps.h"
#include "value/json.h"

#define CASES NIB_SOURCE_DIR "/tests/package/cases"
enum { LEAST_ERROR_CASES = 400, LEAST_OK_CASES = 70 };

static nib_status read_contract(nib_arena *arena, const char *text, size_t bytes,
                                const nib_contract **out, nib_error *error)
{
    nib_value manifest;
    *error = (nib_error){0};
    const nib_status status = nib_json_parse(arena, text, bytes, "manifest.json", &manifest, error);
    return status ? status : nib_contract_read(arena, manifest, out, error);
}

static char *json_text(nib_value value)
{
    nib_buf buf;
    nib_buf_init(&buf, &nib_default_allocator, 0);
    nib_json_write(&buf, value, (nib_json_style){0});
    assert_int_equal(buf.status, NIB_OK);
    char *text = format_text("%s", buf.data);
    nib_buf_free(&buf);
    return text;
}

/* ---- expectations ---- */

static void check_error_line(const char *key, const char *value, nib_status status,
                             const nib_error *error)
{
    char position[32];
    if (strcmp(key, "status") == 0) {
        assert_string_equal(nib_status_name(status) + 4, value);
        assert_int_equal(error->code, status);
    } else if (strcmp(key, "path") == 0) {
        assert_string_equal(error->path, strcmp(value, "-") == 0 ? "" : value);
    } else if (strcmp(key, "message") == 0) {
        if (!strstr(error->message, value))
            fail_msg("the message is\n  %s\nand lacks\n  %s", error->message, value);
    } else if (strcmp(key, "position") == 0) {
        snprintf(position, sizeof position, "%u:%u", error->line, error->column);
        assert_string_equal(position, value);
    } else {
        fail_msg("error.txt has an unknown line: %s", key);
    }
}

static void check_error(char *expected, nib_status status, const nib_error *error)
{
    size_t lines = 0;
    char *rest;
    for (char *line = strtok_r(expected, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, ' ');
        assert_non_null(value);
        *value++ = '\0';
        check_error_line(line, value, status, error);
        lines++;
    }
    assert_true(lines >= 3);
    assert_true(error->message[0] != '\0');
    if (status == NIB_SYNTAX) {
        assert_true(error->line > 0 && error->column > 0);
        assert_non_null(strchr(error->excerpt, '^'));
    }
}

static void check_ok(char *expected, nib_arena *arena, const nib_contract *contract)
{
    nib_error error = {0};
    nib_value json;
    char *rest;
    assert_int_equal(nib_contract_json(arena, contract, &json, &error), NIB_OK);
    for (char *line = strtok_r(expected, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strstr(line, " = ");
        assert_non_null(value);
        *value = '\0';
        nib_value want;
        assert_int_equal(nib_json_parse(arena, value + 3, strlen(value + 3), "ok", &want, &error),
                         NIB_OK);
        char *got_text = json_text(find_member(json, line)), *want_text = json_text(want);
        if (strcmp(got_text, want_text) != 0)
            fail_msg("%s is\n  %s\nand not\n  %s", line, got_text, want_text);
        free(got_text);
        free(want_text);
    }
}

/* ---- every loaded contract ---- */

/* The members that nib_contract_json adds to a manifest. */
static nib_value without_extras(nib_arena *arena, nib_value json)
{
    nib_map *map = nib_map_new(arena, 0);
    for (size_t i = 0; i < json.as.map->count; i++) {
        const nib_entry *entry = &json.as.map->entries[i];
        if (!nib_str_is(entry->key, "op") && !nib_str_is(entry->key, "dialect"))
            assert_true(nib_map_set(arena, map, entry->key, entry->value));
    }
    return nib_value_of_map(map);
}

/* The JSON of a map contract is a manifest that reads back to the same contract. */
static void check_round_trip(nib_arena *arena, const nib_contract *contract)
{
    nib_error error = {0};
    nib_value first, second;
    const nib_contract *again;
    if (contract->dialect != NIB_DIALECT_MAP)
        return;
    assert_int_equal(nib_contract_json(arena, contract, &first, &error), NIB_OK);
    if (nib_contract_read(arena, without_extras(arena, first), &again, &error) != NIB_OK)
        fail_msg("the contract's JSON does not read back: %s: %s", error.path, error.message);
    assert_int_equal(nib_contract_json(arena, again, &second, &error), NIB_OK);
    char *a = json_text(first), *b = json_text(second);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void check_case(const char *directory)
{
    char *path = format_text("%s/manifest.json", directory);
    size_t bytes;
    char *text = read_text(path, &bytes);
    assert_non_null(text);
    free(path);
    path = format_text("%s/error.txt", directory);
    char *error_text = read_text(path, NULL);
    free(path);
    path = format_text("%s/ok", directory);
    char *ok_text = read_text(path, NULL);
    free(path);
    assert_true(!error_text != !ok_text);

    nib_arena arena;
    nib_error error;
    const nib_contract *contract = NULL;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    const nib_status status = read_contract(&arena, text, bytes, &contract, &error);
    if (error_text) {
        assert_int_not_equal(status, NIB_OK);
        assert_null(contract);
        check_error(error_text, status, &error);
    } else {
        if (status != NIB_OK)
            fail_msg("%s: %s", error.path, error.message);
        assert_int_equal(error.code, NIB_OK);
        check_ok(ok_text, &arena, contract);
        check_round_trip(&arena, contract);
    }
    nib_arena_free(&arena);
    free(text);
    free(error_text);
    free(ok_text);
}

static void test_case(void **state)
{
    check_case(*state);
}

/* ---- what files cannot show ---- */

static void test_enough_cases(void **state)
{
    const size_t *counts = *state;
    assert_true(counts[0] >= LEAST_ERROR_CASES);
    assert_true(counts[1] >= LEAST_OK_CASES);
}

/* A failure without an error record, and one that does not overwrite an earlier failure. */
static void test_error_record_is_optional(void **state)
{
    (void)state;
    nib_arena arena;
    nib_error error = {.code = NIB_IO, .message = "first"};
    const nib_contract *contract;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    const nib_value list = nib_value_of_list(nib_list_new(&arena, 0));
    assert_int_equal(nib_contract_read(&arena, list, &contract, NULL), NIB_CONTRACT);
    assert_int_equal(nib_contract_read(&arena, list, &contract, &error), NIB_CONTRACT);
    assert_string_equal(error.message, "first");
    nib_arena_free(&arena);
}

#define HEAD                                                                                       \
    "{\"name\":\"X\",\"inputs\":{\"x\":{\"dtype\":\"float32\"}},"                                  \
    "\"outputs\":{\"y\":{\"dtype\":\"float32\"}},"
#define PASSES                                                                                     \
    "\"passes\":[{\"shader\":\"a.wgsl\",\"bindings\":[\"x\",\"y\"],\"dispatch\":{\"x\":1}}]"

static void check_limit(const char *text, const char *path, const char *fragment)
{
    nib_arena arena;
    nib_error error;
    const nib_contract *contract;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    assert_int_equal(read_contract(&arena, text, strlen(text), &contract, &error), NIB_LIMIT);
    assert_string_equal(error.path, path);
    assert_non_null(strstr(error.message, fragment));
    nib_arena_free(&arena);
}

static char *repeated(const char *before, const char *item, size_t count, const char *after)
{
    char *text = malloc(strlen(before) + count * (strlen(item) + 1) + strlen(after) + 1);
    assert_non_null(text);
    char *end = stpcpy(text, before);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            *end++ = ',';
        end = stpcpy(end, item);
    }
    stpcpy(end, after);
    return text;
}

static void test_too_many_bindings(void **state)
{
    (void)state;
    char *text =
        repeated(HEAD "\"variants\":[{\"passes\":[{\"shader\":\"a.wgsl\",\"dispatch\":{\"x\":1},"
                      "\"bindings\":[",
                 "\"x\"", 5000, "]}]}]}");
    check_limit(text, "variants[0].passes[0].bindings", "at most 4096 members, not 5000");
    free(text);
}

static void test_too_many_variants(void **state)
{
    (void)state;
    char *text = repeated(HEAD "\"variants\":[", "{" PASSES "}", 4097, "]}");
    check_limit(text, "variants[4096]", "at most 4096 members");
    free(text);
}

/* 500 cases of 100 kB each: refused before it is made. */
static void test_family_that_explodes(void **state)
{
    (void)state;
    char *inner = repeated("{\"b\":\"", "0123456789", 100, "\"}");
    char *cases = repeated(HEAD "\"variants\":[{\"cases\":[", inner, 500,
                           "],\"variants\":[{\"description\":\"");
    char *text = repeated(cases, "{b}", 100, "\"," PASSES "}]}]}");
    check_limit(text, "variants[0].variants[0].description", "expand to more than");
    free(inner);
    free(cases);
    free(text);
}

static void test_deep_manifest(void **state)
{
    (void)state;
    nib_arena arena;
    nib_error error = {0};
    const nib_contract *contract;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_map *root = nib_map_new(&arena, 1);
    nib_map *map = root;
    for (size_t i = 0; i < 1000; i++) {
        nib_map *inner = nib_map_new(&arena, 1);
        assert_true(nib_map_set_cstr(&arena, map, "a", nib_value_of_map(inner)));
        map = inner;
    }
    assert_int_equal(nib_contract_read(&arena, nib_value_of_map(root), &contract, &error),
                     NIB_LIMIT);
    nib_arena_free(&arena);
}

/* Planning checks limits and features by its own tables: every name it knows may be required. */
static void test_names_agree_with_planning(void **state)
{
    (void)state;
    static const char *const limits[] = {
#define XX(name, value) #name,
        NIB_LIMIT_MAP(XX)
#undef XX
    };
    static const char *const features[] = {
#define XX(name) name,
        NIB_FEATURE_MAP(XX)
#undef XX
    };
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        assert_true(nib_is_limit_name(nib_str_from(limits[i])));
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        assert_true(nib_is_feature_name(nib_str_from(features[i])));
    assert_int_equal(nib_limit_name_count(), sizeof limits / sizeof limits[0] + 4);
    assert_int_equal(nib_feature_name_count(), sizeof features / sizeof features[0]);
    nib_arena_free(&arena);
}

static void test_budget_counts_repeat_groups(void **state)
{
    (void)state;
    static const char text[] = HEAD
        "\"variants\":[{\"passes\":[{\"shader\":\"a.wgsl\",\"bindings\":[\"x\"],\"dispatch\":{"
        "\"x\":1}},"
        "{\"repeat\":{\"count\":0,\"index\":\"i\"}," PASSES "},"
        "{\"shader\":\"b.wgsl\",\"dispatch\":{\"x\":1},\"bindings\":[{\"name\":\"p\",\"struct\":"
        "[{\"name\":\"n\",\"type\":\"u32\"}]}]}]}]}";
    nib_arena arena;
    nib_error error;
    const nib_contract *contract;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    assert_int_equal(read_contract(&arena, text, strlen(text), &contract, &error), NIB_OK);
    assert_int_equal(contract->variants[0].max_storage_bindings, 2);
    assert_int_equal(contract->variants[0].max_uniform_bindings, 1);
    assert_int_equal(contract->binding_name_count, 3);
    assert_int_equal(contract->variants[0].passes[1].repeat_pass_count, 1);
    nib_arena_free(&arena);
}

static void test_attribute_equality(void **state)
{
    (void)state;
    assert_true(nib_attribute_values_equal(nib_value_number(0.1), nib_value_number((double)0.1f)));
    assert_false(nib_attribute_values_equal(nib_value_number(0.1), nib_value_number(0.100001)));
    assert_true(nib_attribute_values_equal(nib_value_integer(1), nib_value_float(1)));
    assert_false(nib_attribute_values_equal(nib_value_number(1), nib_value_bool(true)));
    assert_false(nib_attribute_values_equal(nib_value_number(1), nib_value_cstr("1")));
    assert_true(nib_attribute_values_equal(nib_value_cstr("a"), nib_value_cstr("a")));
    assert_true(nib_attribute_values_equal(NIB_NULL, NIB_NULL));
    assert_false(nib_attribute_values_equal(NIB_NULL, NIB_UNDEFINED));
    assert_false(nib_attribute_values_equal(nib_value_number((double)INFINITY),
                                            nib_value_number((double)INFINITY)));
}

/* ---- the list of cases ---- */

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(void)
{
    struct dirent **entries;
    const int count = scandir(CASES, &entries, is_case, alphasort);
    if (count < 0) {
        fprintf(stderr, "cannot list %s\n", CASES);
        return 1;
    }
    size_t counts[2] = {0};
    const struct CMUnitTest fixed[] = {
        cmocka_unit_test(test_error_record_is_optional),
        cmocka_unit_test(test_too_many_bindings),
        cmocka_unit_test(test_too_many_variants),
        cmocka_unit_test(test_family_that_explodes),
        cmocka_unit_test(test_deep_manifest),
        cmocka_unit_test(test_names_agree_with_planning),
        cmocka_unit_test(test_budget_counts_repeat_groups),
        cmocka_unit_test(test_attribute_equality),
        {"enough cases", test_enough_cases, NULL, NULL, counts},
    };
    const size_t fixed_count = sizeof fixed / sizeof fixed[0];
    struct CMUnitTest *tests = calloc((size_t)count + fixed_count, sizeof *tests);
    if (!tests)
        return 1;
    memcpy(tests, fixed, sizeof fixed);
    for (int i = 0; i < count; i++) {
        char *path = format_text(CASES "/%s", entries[i]->d_name);
        char *error_path = format_text("%s/error.txt", path);
        FILE *file = fopen(error_path, "rb");
        counts[file ? 0 : 1]++;
        if (file)
            fclose(file);
        free(error_path);
        tests[fixed_count + (size_t)i] =
            (struct CMUnitTest){entries[i]->d_name, test_case, NULL, NULL, path};
    }
    const int failures =
        _cmocka_run_group_tests("contract", tests, (size_t)count + fixed_count, NULL, NULL);
    for (int i = 0; i < count; i++) {
        free(tests[fixed_count + (size_t)i].initial_state);
        free(entries[i]);
    }
    free(entries);
    free(tests);
    return failures;
}
