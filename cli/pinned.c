/* SPDX-License-Identifier: Apache-2.0 */
#include "pinned.h"

#include <stdlib.h>
#include <string.h>

/* The features that the format names (D.2). */
static const char *const features[] = {
    "shader-f16",
    "subgroups",
    "timestamp-query",
    "subgroup-size-control",
    "texture-formats-tier1",
    "texture-formats-tier2",
    "chromium-experimental-subgroup-matrix",
};

static const char *const language_features[] = {
    "subgroup_id",
    "subgroup_uniformity",
    "packed_4x8_integer_dot_product",
    "linear_indexing",
};

static const struct {
    const char *component, *result;
    int m, n, k;
} matrices[] = {
    {"f16", "f16", 8, 8, 8},    {"f16", "f32", 8, 8, 8},    {"f32", "f32", 8, 8, 8},
    {"f16", "f16", 16, 16, 16}, {"f16", "f32", 16, 16, 16}, {"f32", "f32", 16, 16, 16},
    {"f16", "f16", 16, 16, 8},  {"f16", "f32", 16, 16, 8},  {"i8", "i32", 16, 16, 32},
};

/* A condition may ask for one of these widths; 0: as the device has it. */
static const int subgroup_sizes[] = {32, 16, 64, 8, 0};

static bool is_in(const json_t *list, const char *word)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (strcmp(json_string_value(item), word) == 0)
            return true;
    }
    return false;
}

static void add_words(json_t *caps, const char *member, const char *const *words, size_t count)
{
    json_t *list = json_object_get(caps, member);
    for (size_t i = 0; i < count; i++) {
        if (!is_in(list, words[i]))
            json_array_append_new(list, json_string(words[i]));
    }
}

/* Every greatest size; the least alignments stay. */
static void raise_limits(json_t *limits)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(limits, next, name, value)
    {
        if (strncmp(name, "max", 3) == 0)
            json_object_set_new(limits, name, json_integer(INT32_MAX));
    }
}

static json_t *all_matrices(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < CLI_LENGTH(matrices); i++) {
        json_t *row = json_object();
        json_object_set_new(row, "componentType", json_string(matrices[i].component));
        json_object_set_new(row, "resultComponentType", json_string(matrices[i].result));
        json_object_set_new(row, "M", json_integer(matrices[i].m));
        json_object_set_new(row, "N", json_integer(matrices[i].n));
        json_object_set_new(row, "K", json_integer(matrices[i].k));
        json_array_append_new(list, row);
    }
    return list;
}

static void enrich(json_t *caps, int subgroup_size)
{
    json_t *adapter = json_object_get(caps, "adapterInfo");
    add_words(caps, "features", features, CLI_LENGTH(features));
    add_words(caps, "wgslLanguageFeatures", language_features, CLI_LENGTH(language_features));
    raise_limits(json_object_get(caps, "limits"));
    json_object_set_new(adapter, "subgroupMatrixConfigs", all_matrices());
    if (subgroup_size) {
        json_object_set_new(adapter, "subgroupMinSize", json_integer(subgroup_size));
        json_object_set_new(adapter, "subgroupMaxSize", json_integer(subgroup_size));
    }
}

static nib_status plan_with(nib_context *context, const nib_package *package,
                            const nib_request *request, const json_t *record, nib_error *error)
{
    nib_caps *caps = NULL;
    nib_plan *plan = NULL;
    char *text = json_dumps(record, 0);
    nib_status status = nib_caps_parse(context, text, &caps, error);
    if (status == NIB_OK)
        status = nib_plan_create(package, request, caps, &plan, error);
    nib_plan_free(plan);
    nib_caps_free(caps);
    free(text);
    return status;
}

nib_status cli_plan_unlimited(nib_context *context, const nib_package *package,
                              const nib_request *request, const nib_caps *caps, nib_error *error)
{
    char *text = NULL;
    nib_status status = nib_caps_json(caps, &text, error);
    json_t *record = status == NIB_OK ? json_loads(text, 0, NULL) : NULL;
    if (status == NIB_OK)
        status = NIB_NO_VARIANT;
    for (size_t i = 0; i < CLI_LENGTH(subgroup_sizes) && status == NIB_NO_VARIANT; i++) {
        json_t *rich = json_deep_copy(record);
        enrich(rich, subgroup_sizes[i]);
        status = plan_with(context, package, request, rich, error);
        json_decref(rich);
    }
    json_decref(record);
    nib_text_free(context, text);
    return status;
}
