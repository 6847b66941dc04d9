/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning with an allocator that fails at each call in turn: the status is OUT_OF_MEMORY, nothing
 * is leaked, nothing is half made.
 */
#include "support.h"

#include "base/checked.h"

typedef struct failing {
    size_t live_bytes, calls, fail_at, failures;
} failing;

static void *failing_resize(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    failing *f = user;
    f->calls++;
    if (new_bytes && f->fail_at && f->calls >= f->fail_at) {
        f->failures++;
        return NULL;
    }
    f->live_bytes += new_bytes - old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_bytes);
}

static nib_package *read_package(nib_context *context, const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, NIB_SOURCE_DIR "/kernels/%s/build/webgpu/manifest.json", folder);
    char *json = read_text_file(path);
    assert_non_null(json);
    nib_package *package = package_from_json(context, json, NULL);
    assert_non_null(package);
    free(json);
    return package;
}

/* `best_effort`: a failure may also go by, because it only shortened an explanation. */
static void every_failure_is_clean(const char *folder, const char *request, nib_status expected,
                                   bool best_effort)
{
    failing f = {0};
    nib_context *context;
    const nib_context_options options = {.allocator = {failing_resize, &f}};
    assert_int_equal(nib_context_create(&options, &context, NULL), NIB_OK);
    nib_package *package = read_package(context, folder);
    request_text text;
    read_request_text(request, &text);
    const size_t live = f.live_bytes;
    bool succeeded = false;
    size_t tried = 0;
    for (size_t fail_at = 1; !succeeded; fail_at++) {
        nib_caps *caps = NULL;
        nib_plan *plan = NULL;
        char *json = NULL;
        nib_error error = {0};
        f.calls = f.failures = 0;
        f.fail_at = fail_at;
        nib_status status =
            nib_caps_parse(context, "{\"features\": [\"subgroups\"]}", &caps, &error);
        if (status == NIB_OK)
            status = nib_plan_create(package, &text.request, caps, &plan, &error);
        if (status == NIB_OK)
            status = nib_plan_json(plan, &json, &error);
        succeeded = f.failures == 0;
        assert_int_equal(error.code, status);
        if (succeeded)
            assert_int_equal(status, expected);
        else if (!best_effort || status != expected) {
            assert_int_equal(status, NIB_OUT_OF_MEMORY);
            assert_null(json);
        }
        f.fail_at = 0;
        nib_text_free(context, json);
        nib_plan_free(plan);
        nib_caps_free(caps);
        assert_int_equal(f.live_bytes, live);
        tried++;
        assert_true(tried < 5000);
    }
    assert_true(tried > 10);
    free_package(package);
    nib_context_free(context);
    assert_int_equal(f.live_bytes, 0);
}

static void a_plan_with_every_part(void **state)
{
    (void)state;
    every_failure_is_clean(
        "com.microsoft.MatMulNBitsQkv",
        "aT=float32[3,64] skipT=float32[3,64] normScaleT=float32[64] qBT=uint8[8,2,16]"
        " qScalesT=float32[8,2] kBT=uint8[4,2,16] kScalesT=float32[4,2] vBT=uint8[4,2,16]"
        " vScalesT=float32[4,2] ?residualT @K=64 @Nq=8 @Nkv=4 @block_size=32 +LANES=16",
        NIB_OK, false);
}

static void a_request_that_no_variant_fits(void **state)
{
    (void)state;
    every_failure_is_clean("com.microsoft.MatMulBnb4",
                           "aT=float32[1,2,32] bT=uint8[64] absmaxT=float32[8] @K=32 @N=4 "
                           "@block_size=16 @quant_type=1",
                           NIB_NO_VARIANT, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_with_every_part),
        cmocka_unit_test(a_request_that_no_variant_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
