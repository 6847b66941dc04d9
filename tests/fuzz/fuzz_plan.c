/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and devices from bytes, planned over two embedded manifests that use most of the format:
 * a plan keeps its invariants and prints, a failure says what it is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "value/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char map_manifest[] =
    "{\"domain\": \"test\", \"name\": \"Map\","
    "\"inputs\": {\"x\": {\"onnx\": \"X\", \"dtype\": \"T\", \"rank\": 2}, \"w\": {\"dtype\": "
    "\"uint8\", \"layout\": \"packed\","
    " \"optional\": true}, \"i\": {\"dtype\": \"int64\", \"storage\": \"int32\", \"narrowing\": "
    "\"checked\", \"optional\": true}},"
    "\"outputs\": {\"y\": {\"dtype\": \"T\", \"shape\": \"shapes.x[:-1] + [attrs.n]\"}, \"r\": "
    "{\"dtype\": \"T\","
    " \"optional\": true, \"shape\": [\"last\", 2]}, \"u\": {\"dtype\": \"U\", \"optional\": "
    "true}},"
    "\"typeConstraints\": {\"T\": [\"float32\", \"float16\", \"int8\"]},"
    "\"attributes\": {\"n\": {\"default\": 4}, \"m\": {}, \"mode\": {\"default\": \"a\"}},"
    "\"attributeConstraints\": {\"mode\": {\"values\": [\"a\", \"b\", 3]}},"
    "\"args\": {\"scale\": {\"kind\": \"f32\", \"required\": false}, \"count\": {\"kind\": "
    "\"u32\", \"required\": false}},"
    "\"tunables\": {\"W\": {\"default\": 64}},"
    "\"derive\": {\"rank\": \"ranks.x\", \"last\": \"dim(shapes.x, rank - 1)\", \"count\": "
    "\"numel(shapes.y)\","
    " \"ok\": \"rank >= 1 and last > 0 and attrs.n * 2 <= 1000\", \"both\": \"ok and (present.w or "
    "attrs.n < 9)\","
    " \"vec\": \"\\\"vec4<\\\" ~ dtypes.T ~ \\\">\\\" if last % 4 == 0 else dtypes.T\"},"
    "\"variants\": ["
    " {\"id\": \"big\", \"priority\": 2, \"when\": [\"both\", \"count > 100\"], \"requires\": "
    "{\"features\": [\"subgroups\"],"
    "  \"limits\": {\"maxBufferSize\": 1000}, \"subgroupMinSize\": 8}, \"demoteWhen\": [\"last < "
    "3\"],"
    "  \"tunables\": {\"W\": {\"default\": 32}}, \"intermediates\": [{\"id\": \"s\", \"dtype\": "
    "\"float32\", \"shape\": \"[count, 2]\"}],"
    "  \"passes\": [{\"id\": \"a\", \"shader\": \"s\", \"bindings\": [{\"name\": \"x\", "
    "\"elementType\": \"$vec\"}, \"s\","
    "    {\"name\": \"p\", \"struct\": [{\"name\": \"n\", \"type\": \"u32\", \"value\": "
    "\"count\"}, {\"name\": \"scale\", \"type\":"
    "     \"f32\", \"default\": 1.5}, {\"name\": \"count\", \"type\": \"u32\", \"default\": "
    "\"last\"}]}],"
    "    \"dispatch\": {\"threads\": \"count\", \"workgroupSize\": \"tunables.W\"}},"
    "   {\"id\": \"g\", \"repeat\": {\"count\": \"attrs.n\", \"index\": \"k\"}, \"passes\": "
    "[{\"id\": \"b\", \"shader\": \"s\","
    "    \"derive\": {\"z\": \"repeat.k * last\"}, \"bindings\": [{\"scratch\": \"s\", "
    "\"elementType\": \"f32\", \"length\": \"$count\"},"
    "    \"y\"], \"dispatch\": {\"x\": \"z\", \"y\": \"repeat.k_count\"}}]}]},"
    " {\"id\": \"wide\", \"priority\": 1, \"when\": [\"present.w\", \"present.i\"], \"passes\": "
    "[{\"shader\": \"s\", \"bindings\":"
    "   [\"x\", \"w\", \"i\", \"y\"], \"dispatch\": {\"workgroups\": \"numel(shapes.w) / "
    "attrs.m\"}}]},"
    " {\"id\": \"plain\", \"when\": [\"ok\"], \"passes\": [{\"shader\": \"s\", \"bindings\": "
    "[\"x\", \"y\"], \"profile\":"
    "   {\"bytes\": \"count * 4\"}, \"dispatch\": {\"x\": \"ceilDiv(count, tunables.W)\", \"z\": "
    "\"min(last, 3)\"}}]}]}";

static const char list_manifest[] =
    "{\"name\": \"List\", \"inputs\": [{\"role\": \"A\", \"dtype\": \"T\"}, {\"role\": \"B\", "
    "\"dtype\": \"uint8\"}],"
    "\"outputs\": [{\"role\": \"Y\", \"dtype\": \"T\", \"shape\": \"[dim(shapes.A, 0), "
    "attrs.n]\"}],"
    "\"args\": {\"x\": {\"kind\": \"tensor\", \"semantic\": \"A\", \"role\": \"input\"}, \"w\": "
    "{\"kind\": \"tensor\", \"semantic\":"
    " \"B\", \"role\": \"input\"}, \"y\": {\"kind\": \"tensor\", \"semantic\": \"Y\", \"role\": "
    "\"output\"}},"
    "\"typeConstraints\": {\"T\": [\"float32\", \"float16\"]}, \"attributes\": {\"n\": 4, \"m\": "
    "2, \"mode\": \"a\"},"
    "\"tunables\": {\"W\": 64}, \"derive\": {\"k\": \"dim(shapes.A, -1)\", \"fits\": \"k * attrs.n "
    "<= numel(shapes.B) * 2\"},"
    "\"constants\": {\"LEN\": \"numel(shapes.B)\", \"T2\": \"\\\"vec2<\\\" ~ dtypes.T ~ "
    "\\\">\\\"\"},"
    "\"variants\": ["
    " {\"id\": \"fold\", \"priority\": 3, \"when\": [\"fits\", \"attrs.m > 2\"], \"constants\": "
    "{\"LEN\": \"k\"}, \"passes\": [{\"id\":"
    "  \"p\", \"shader\": \"s\", \"bindings\": [{\"name\": \"a\", \"arg\": \"x\", \"buffer\": "
    "{\"type\": \"read-only-storage\"},"
    "  \"elementType\": \"$T2\", \"length\": \"$LEN\"}, {\"name\": \"y\", \"arg\": \"y\", "
    "\"buffer\": {\"type\": \"storage\"},"
    "  \"elementType\": \"$T\"}], \"dispatch\": {\"workgroups\": \"LEN * constants.LEN\", \"y\": "
    "\"attrs.m\"}}]},"
    " {\"id\": \"stride\", \"when\": [\"fits\"], \"passes\": [{\"id\": \"p\", \"shader\": \"s\", "
    "\"constants\": {\"W\": \"tunables.W\"},"
    "  \"bindings\": [{\"name\": \"b\", \"arg\": \"w\", \"buffer\": {\"type\": "
    "\"read-only-storage\"}, \"elementType\": \"u32\"},"
    "  {\"name\": \"params\", \"buffer\": {\"type\": \"uniform\"}, \"struct\": {\"name\": \"P\", "
    "\"fields\": [{\"name\": \"n\","
    "  \"type\": \"i32\", \"value\": \"attrs.n - k\"}]}}], \"dispatch\": {\"gridStride\": \"k / "
    "attrs.m\", \"workgroupSize\": \"W\"}}]}]}";

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* ---- bytes to choices ---- */

typedef struct bytes {
    const uint8_t *data;
    size_t size;
} bytes;

static unsigned take(bytes *b)
{
    if (b->size == 0)
        return 0;
    b->size--;
    return *b->data++;
}

/* Mostly small numbers, now and then an awkward one. */
static double take_number(bytes *b)
{
    static const double odd[] = {
        0, -1, 0.5, 65535, 65536, 4294967295.0, 4294967296.0, 9007199254740992.0, 1e300, 1e-300};
    const unsigned kind = take(b);
    if (kind >= 32)
        return (double)(kind % 29);
    if (kind < sizeof odd / sizeof odd[0])
        return odd[kind];
    if (kind == 10)
        return (double)(0.0f / 0.0f);
    if (kind == 11)
        return 1e308 * 10;
    return (double)kind * 1000;
}

static nib_tensor_desc take_desc(bytes *b)
{
    nib_tensor_desc desc = {.dtype = (nib_dtype)(take(b) % NIB_DTYPE_COUNT), .rank = take(b) % 5};
    const unsigned odd = take(b);
    if (odd == 255)
        desc.rank = 17;
    for (uint32_t i = 0; i < desc.rank && i < NIB_MAX_RANK; i++) {
        const double dim = take_number(b);
        desc.dims[i] = dim >= -1 && dim <= 9e15 ? (int64_t)dim : (int64_t)1 << 62;
    }
    return desc;
}

static const char *take_name(bytes *b, const char *const *names, size_t count)
{
    return names[take(b) % count];
}

enum { MAX_ITEMS = 6 };

typedef struct choices {
    nib_named_desc tensors[MAX_ITEMS];
    nib_named_scalar attributes[MAX_ITEMS], arguments[2], tunables[2];
    const char *want[2];
    nib_request request;
} choices;

static nib_named_scalar take_scalar(bytes *b, const char *name)
{
    nib_named_scalar scalar = {.name = name,
                               .kind = (nib_scalar_kind)(take(b) % 8 < 6 ? 0 : take(b) % 3)};
    scalar.number = take_number(b);
    scalar.string = take(b) & 1 ? "a" : "last * 2";
    scalar.boolean = take(b) & 1;
    return scalar;
}

static void take_request(bytes *b, choices *c)
{
    static const char *const tensors[] = {"x", "w", "i", "y", "r", "u", "X", "A", "B", "Y", "zz"};
    static const char *const attributes[] = {"n", "m", "mode", "other"};
    static const char *const arguments[] = {"scale", "count", "other"};
    static const char *const variants[] = {"big", "wide", "plain", "fold", "stride", "none"};
    const unsigned flags = take(b);
    nib_request *r = &c->request;
    *c = (choices){0};
    for (unsigned i = take(b) % MAX_ITEMS; i > 0; i--)
        c->tensors[r->tensor_count++] = (nib_named_desc){take_name(b, tensors, 11), take_desc(b)};
    /* the required ones, most of the time */
    if (flags & 1 && r->tensor_count < MAX_ITEMS) {
        nib_tensor_desc desc = take_desc(b);
        desc.dtype = flags & 2 ? NIB_FLOAT32 : NIB_FLOAT16;
        c->tensors[r->tensor_count++] = (nib_named_desc){"x", desc};
    }
    for (unsigned i = take(b) % 3; i > 0; i--)
        c->attributes[r->attribute_count++] = take_scalar(b, take_name(b, attributes, 4));
    for (unsigned i = take(b) % 2; i > 0; i--)
        c->arguments[r->argument_count++] = take_scalar(b, take_name(b, arguments, 3));
    if (flags & 4)
        c->tunables[r->tunable_count++] = take_scalar(b, "W");
    if (flags & 8)
        c->want[r->want_count++] = take_name(b, tensors, 11);
    if (flags & 16)
        r->variant = take_name(b, variants, 6);
    r->relaxed = flags & 32;
    r->tensors = c->tensors;
    r->attributes = c->attributes;
    r->arguments = c->arguments;
    r->tunables = c->tunables;
    r->want = c->want;
}

static nib_caps *take_caps(nib_context *context, bytes *b)
{
    static const char *const features[] = {"subgroups", "shader-f16",
                                           "chromium-experimental-subgroup-matrix", "x"};
    static const char *const limits[] = {"maxBufferSize", "maxStorageBuffersPerShaderStage",
                                         "maxComputeWorkgroupsPerDimension",
                                         "maxUniformBuffersPerShaderStage", "y"};
    nib_caps *caps;
    require(nib_caps_create(context, &caps, NULL) == NIB_OK);
    for (unsigned i = take(b) % 3; i > 0; i--)
        require(nib_caps_add_feature(caps, take_name(b, features, 4), NULL) == NIB_OK);
    for (unsigned i = take(b) % 3; i > 0; i--) {
        const char *name = take_name(b, limits, 5);
        require(nib_caps_set_limit(caps, name, take_number(b), NULL) == NIB_OK);
    }
    if (take(b) & 1)
        require(nib_caps_set_adapter(caps, "subgroupMinSize", nib_value_number(take_number(b)),
                                     NULL) == NIB_OK);
    require(nib_caps_finish(caps, NULL) == NIB_OK);
    return caps;
}

/* ---- what must hold ---- */

static void check_pass(const nib_plan *plan, const nib_plan_pass *pass)
{
    for (size_t i = 0; i < 3; i++)
        require(pass->dispatch[i] <= 65535 && (!pass->active || pass->dispatch[i] > 0));
    for (size_t i = 0; i < pass->uniform_count; i++)
        require(pass->uniforms[i].size >= 16 && pass->uniforms[i].size % 16 == 0);
    for (size_t i = 0; i < pass->binding_count; i++) {
        const nib_plan_binding *bound = &pass->bindings[i];
        require(bound->kind != NIB_RESOURCE_TENSOR || bound->index < plan->tensor_count);
        require(bound->kind != NIB_RESOURCE_UNIFORM || bound->index < pass->uniform_count);
        require(bound->kind != NIB_RESOURCE_MISSING || !pass->active);
        require(bound->kind != NIB_RESOURCE_INTERMEDIATE ||
                (bound->index < plan->intermediate_count &&
                 (!pass->active || plan->intermediates[bound->index].used)));
    }
}

static void check_plan(nib_context *context, const nib_plan *plan)
{
    char *text;
    nib_arena arena;
    nib_value value;
    for (size_t i = 0; i < nib_plan_pass_count(plan); i++)
        check_pass(plan, &plan->passes[i]);
    require(nib_plan_variant(plan) ? plan->pass_count > 0 : plan->relaxed && plan->pass_count == 0);
    require(nib_plan_json(plan, &text, NULL) == NIB_OK);
    nib_arena_init(&arena, &nib_default_allocator, 0);
    require(nib_json_parse(&arena, text, strlen(text), "plan", &value, NULL) == NIB_OK);
    nib_arena_free(&arena);
    nib_text_free(context, text);
}

static void read_contract(nib_package *package, const char *manifest)
{
    nib_value value;
    require(nib_json_parse(&package->arena, manifest, strlen(manifest), "manifest", &value, NULL) ==
            NIB_OK);
    require(nib_contract_read(&package->arena, value, &package->contract, NULL) == NIB_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static nib_context *context;
    static nib_package packages[2];
    if (!context) {
        require(nib_context_create(NULL, &context, NULL) == NIB_OK);
        for (size_t i = 0; i < 2; i++) {
            packages[i].context = context;
            nib_arena_init(&packages[i].arena, &nib_default_allocator, 0);
            read_contract(&packages[i], i ? list_manifest : map_manifest);
        }
    }
    bytes b = {data, size};
    choices c;
    nib_plan *plan;
    nib_error error = {0};
    const nib_package *package = &packages[take(&b) & 1];
    nib_caps *caps = take_caps(context, &b);
    take_request(&b, &c);
    const nib_status status = nib_plan_create(package, &c.request, caps, &plan, &error);
    nib_caps_free(caps);
    require(status == error.code && (status == NIB_OK) == (plan != NULL));
    if (plan)
        check_plan(context, plan);
    else
        require(error.message[0] && !strchr(error.message, '\n') && status != NIB_OUT_OF_MEMORY &&
                status != NIB_INTERNAL);
    nib_plan_free(plan);
    return 0;
}
