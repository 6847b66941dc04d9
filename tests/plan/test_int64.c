/* SPDX-License-Identifier: Apache-2.0
 *
 * The textual guard over WGSL that reads int64 tensors (package format 7.7, step 5).
 */
#include "plan/planner.h"
#include "support.h"

static nib_package *package_with(const char *bindings)
{
    char quoted[2048];
    snprintf(quoted, sizeof quoted,
             "{'name': 'I', 'inputs': {'big': {'dtype': 'int64'}, 'small': {'dtype': 'int32'}},"
             " 'outputs': {'out': {'dtype': 'int64', 'shape': 'shapes.big'}},"
             " 'derive': {'wide': '`vec2 <u32>`', 'narrow': '`i32`'},"
             " 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's', 'bindings': [%s],"
             " 'dispatch': {'x': 1}}]}]}",
             bindings);
    return package_from_quoted(quoted);
}

typedef struct guard_case {
    const char *wgsl;
    bool allowed;
} guard_case;

static const guard_case guard_cases[] = {
    {"out[i] = big[i];", true},
    {"out[i] = select(big[i], big[j + 1u], i < 3u);", true},
    {"let v = big[i]; out[i] = v;", true},
    {"let v: vec2<u32> = (big[i]); var w = v; out[i] = w;", true},
    {"out[i] = (((big[i])));", true},
    {"if (i < 3) { out[i] = big[i]; } else { return; }", true},
    {"small[i] + small[j]; out[i] = big[u32(small[i])];", true},
    {"x = small[i] * 2; y = bigger[i].x;", true},
    {"// big[i] + 1\nout[i] = big[i]; /* big[i].x\n */", true},
    {"f(big[i], 3);", true},
    {"vec2<u32>(1u, 2u); let n = arrayLength(&big);", true},
    {"out[i] = big[i] + big[j];", false},
    {"x = big[i].x;", false},
    {"x = big [ i ] . x;", false},
    {"x = big[i][0];", false},
    {"if (big[i] == v) {}", false},
    {"if (v != big[i]) {}", false},
    {"x = -big[i];", false},
    {"x = ~big[i];", false},
    {"x = a << big[i];", false},
    {"x = big[i] >> 3u;", false},
    {"x = 3 % big[i];", false},
    {"big[i] += v;", false},
    {"b = big[i] && c;", false},
    {"x = (big[i]) * 3;", false},
    {"x = min(big[i], v);", false},
    {"x = bitcast<vec2<i32>>(big[i]);", false},
    {"x = bitcast<i32>( (big[i]) );", false},
    {"x = f32(big[i]);", false},
    {"x = clamp (big[i], a, b);", false},
    {"let v = big[i]; x = v.x;", false},
    {"let v = big[i]; let w = v; x = w + 1;", false},
    {"var<private> v: vec2<u32> = big[i]; x = v[1];", false},
    {"let a = (big[i]); let b = a; let c = b; let d = c; let e = d; x = e ^ 3u;", false},
    {"x = out[i] | 1u;", false},
};

static void misuse_is_refused(void **state)
{
    (void)state;
    nib_package *package = package_with("{'name': 'big', 'elementType': '$wide'}, 'small', 'out'");
    nib_plan *plan = must_plan(package, "big=int64[4] small=int32[4]", NULL);
    for (size_t i = 0; i < sizeof guard_cases / sizeof guard_cases[0]; i++) {
        nib_arena arena;
        nib_arena_init(&arena, &nib_default_allocator, 0);
        nib_error error = {0};
        const nib_status status = nib_check_int64_use(plan, &plan->passes[0], &arena,
                                                      nib_str_from(guard_cases[i].wgsl), &error);
        if ((status == NIB_OK) != guard_cases[i].allowed)
            fail_msg("%s is %s", guard_cases[i].wgsl, status == NIB_OK ? "allowed" : error.message);
        if (status != NIB_OK)
            expect_message(&error, "pass 'p'|line 1|int64");
        nib_arena_free(&arena);
    }
    nib_plan_free(plan);
    free_package(package);
}

static void the_line_is_named(void **state)
{
    (void)state;
    nib_package *package = package_with("'big', 'out'");
    nib_plan *plan = must_plan(package, "big=int64[4] small=int32[4]", NULL);
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_error error = {0};
    assert_int_equal(
        nib_check_int64_use(plan, &plan->passes[0], &arena,
                            NIB_STR("let a = 1; /* two\nlines */\nout[i] =\n big[i] * 2;"), &error),
        NIB_CONTRACT);
    expect_message(&error, "line 4|'big'");
    nib_arena_free(&arena);
    nib_plan_free(plan);
    free_package(package);
}

/* Where no binding holds int64, nothing is looked at. */
static void other_passes_are_free(void **state)
{
    (void)state;
    nib_package *package = package_with("'small'");
    nib_plan *plan = must_plan(package, "big=int64[4] small=int32[4]", NULL);
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    assert_int_equal(
        nib_check_int64_use(plan, &plan->passes[0], &arena, NIB_STR("big[i] + small[i]"), NULL),
        NIB_OK);
    nib_arena_free(&arena);
    nib_plan_free(plan);
    free_package(package);
}

static void a_narrow_element_type_is_refused(void **state)
{
    (void)state;
    nib_package *package = package_with("{'name': 'big', 'elementType': '$narrow'}");
    planned result = plan_text(package, "big=int64[4] small=int32[4]", NULL);
    assert_int_equal(result.status, NIB_CONTRACT);
    expect_message(&result.error,
                   "variants[0].passes[0].bindings[0]|binding 'big'|input 'big'|vec2<u32>|i32");
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(the_line_is_named),
        cmocka_unit_test(other_passes_are_free),
        cmocka_unit_test(a_narrow_element_type_is_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
