/* SPDX-License-Identifier: Apache-2.0
 *
 * From a package folder to WGSL, through the public interface.
 */
#include "support.h"

#include "nibble/nibble.h"

static nib_package *load(const char *folder)
{
    char path[512];
    nib_package *package;
    nib_error error = {0};
    snprintf(path, sizeof path, NIB_SOURCE_DIR "/kernels/%s", folder);
    const nib_package_options options = {.skip_verify = true};
    if (nib_package_load(test_context(), path, &options, &package, &error) != NIB_OK)
        fail_msg("%s: %s", path, error.message);
    return package;
}

/* Render every pass and give the text of one. */
static char *render(const nib_plan *plan, const char *pass)
{
    char *found = NULL;
    for (size_t i = 0; i < nib_plan_pass_count(plan); i++) {
        char *text;
        nib_error error = {0};
        if (nib_plan_wgsl(plan, i, &text, &error) != NIB_OK)
            fail_msg("%s: %s:%u: %s", nib_plan_pass_id(plan, i), error.source, error.line, error.message);
        if (strcmp(nib_plan_pass_id(plan, i), pass) == 0)
            found = text;
        else
            nib_text_free(test_context(), text);
    }
    assert_non_null(found);
    return found;
}

static void expect_text(const char *text, const char *fragment, bool there)
{
    if ((strstr(text, fragment) != NULL) != there)
        fail_msg("\"%s\" is %s in\n%s", fragment, there ? "not" : "", text);
}

static const char qkv_request[] = "aT=float32[1,64] normScaleT=float32[64] qBT=uint8[8,2,16] qScalesT=float32[8,2]"
                                  " kBT=uint8[4,2,16] kScalesT=float32[4,2] vBT=uint8[4,2,16] vScalesT=float32[4,2]"
                                  " @K=64 @Nq=8 @Nkv=4 @block_size=32";

static void templates_see_the_declarations_and_the_device(void **state)
{
    (void)state;
    nib_package *package = load("com.microsoft.MatMulNBitsQkv");
    nib_plan *plan = must_plan(package, qkv_request, NULL);
    char *text = render(plan, "main");
    expect_text(text, plan->passes[1].declarations.data, true);
    expect_text(text, "enable subgroups;", false);
    nib_text_free(test_context(), text);
    text = render(plan, "norm");
    expect_text(text, plan->passes[0].declarations.data, true);
    expect_text(text, "@workgroup_size(128", true);
    nib_text_free(test_context(), text);
    nib_error error = {0};
    assert_int_equal(nib_plan_wgsl(plan, 2, &text, &error), NIB_INVALID_ARGUMENT);
    assert_null(text);
    expect_message(&error, "2 passes|no pass 2");
    nib_plan_free(plan);
    plan = must_plan(package, qkv_request, "{\"features\": [\"subgroups\"]}");
    text = render(plan, "main");
    expect_text(text, "enable subgroups;", true);
    nib_text_free(test_context(), text);
    nib_plan_free(plan);
    nib_package_free(package);
}

/* Nothing runs when there are no rows, and rendering must still succeed (package format 7.7, step 1). */
static void empty_calls_render(void **state)
{
    (void)state;
    nib_package *package = load("com.microsoft.MatMulBnb4");
    nib_plan *plan =
        must_plan(package, "aT=float32[0,32] bT=uint8[64] absmaxT=float32[8] @K=32 @N=4 @block_size=16 @quant_type=1", NULL);
    assert_false(plan->passes[0].active);
    nib_text_free(test_context(), render(plan, nib_plan_pass_id(plan, 0)));
    nib_plan_free(plan);
    nib_package_free(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_see_the_declarations_and_the_device),
        cmocka_unit_test(empty_calls_render),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
