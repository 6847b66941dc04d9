/* SPDX-License-Identifier: Apache-2.0
 *
 * Capability records: defaults, setters for backends, and the view that expressions get (package
 * format 3.6, 8.2).
 */
#include "plan/caps.h"

#include <math.h>

#include "base/error.h"
#include "expr/expr.h"
#include "plan/view.h"
#include "value/number.h"

static const char *const known_features[] = {
#define XX(name) name,
    NIB_FEATURE_MAP(XX)
#undef XX
};

typedef struct limit_default {
    const char *name;
    double value;
} limit_default;

static const limit_default limit_defaults[] = {
#define XX(name, value) {#name, value},
    NIB_LIMIT_MAP(XX)
#undef XX
};

/* Valid in `requires`, without a default (format D.1). */
static const char *const other_limits[] = {
    "maxStorageBuffersInVertexStage",
    "maxStorageBuffersInFragmentStage",
    "maxStorageTexturesInVertexStage",
    "maxStorageTexturesInFragmentStage",
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
/* The largest dispatch axis, whatever the device says (format 8.2). */
#define WORKGROUPS_PER_DIMENSION "maxComputeWorkgroupsPerDimension"
enum { MAX_WORKGROUPS_PER_DIMENSION = 65535 };

static bool feature_is_known(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(known_features); i++) {
        if (strcmp(known_features[i], name) == 0)
            return true;
    }
    return false;
}

static bool limit_is_known(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(limit_defaults); i++) {
        if (strcmp(limit_defaults[i].name, name) == 0)
            return true;
    }
    for (size_t i = 0; i < COUNT_OF(other_limits); i++) {
        if (strcmp(other_limits[i], name) == 0)
            return true;
    }
    return false;
}

/* ---- the expression view ---- */

static bool copy_names(nib_arena *arena, const nib_str *names, size_t count, nib_str **out)
{
    nib_str *copy = NIB_ARENA_ARRAY(arena, nib_str, count);
    if (!copy)
        return false;
    for (size_t i = 0; i < count; i++) {
        copy[i] = nib_arena_str(arena, names[i].data, names[i].len);
        if (!copy[i].data)
            return false;
    }
    *out = copy;
    return true;
}

static bool set_view(nib_arena *arena, nib_map *device, const char *member, const nib_str *names,
                     size_t count)
{
    nib_str *copy = NULL;
    nib_value view;
    return copy_names(arena, names, count, &copy) && nib_expr_set_view(arena, copy, count, &view) &&
           nib_map_set_cstr(arena, device, member, view);
}

/* What expressions may know of the adapter; `device` and `description` are hidden from them
 * (format 8.2). */
static bool adapter_view(nib_arena *arena, const nib_map *adapter, nib_value *out)
{
    static const char *const visible[] = {
        "vendor",          "architecture",    "isFallbackAdapter",
        "subgroupMinSize", "subgroupMaxSize", "subgroupMatrixConfigs"};
    nib_map *view = nib_map_new(arena, COUNT_OF(visible));
    if (!view)
        return false;
    for (size_t i = 0; i < COUNT_OF(visible); i++) {
        const nib_value *member = nib_map_get_cstr(adapter, visible[i]);
        nib_value copy;
        if (member && (!nib_value_export(arena, *member, &copy) ||
                       !nib_map_set_cstr(arena, view, visible[i], copy)))
            return false;
    }
    *out = nib_value_of_map(view);
    return true;
}

static bool limits_view(nib_arena *arena, const nib_map *limits, nib_value *out)
{
    nib_map *view = nib_map_new(arena, limits->count);
    if (!view)
        return false;
    for (size_t i = 0; i < limits->count; i++) {
        const nib_str name = limits->entries[i].key;
        const nib_str key = nib_arena_str(arena, name.data, name.len);
        if (!key.data || !nib_map_set(arena, view, key, limits->entries[i].value))
            return false;
    }
    *out = nib_value_of_map(view);
    return true;
}

static bool device_view(nib_arena *arena, const nib_caps *caps, nib_value *out)
{
    nib_map *device = nib_map_new(arena, 4);
    nib_value limits, adapter;
    if (!device || !set_view(arena, device, "features", caps->features, caps->feature_count) ||
        !set_view(arena, device, "wgslLanguageFeatures", caps->language_features,
                  caps->language_feature_count) ||
        !limits_view(arena, caps->limits, &limits) ||
        !nib_map_set_cstr(arena, device, "limits", limits) ||
        !adapter_view(arena, caps->adapter, &adapter) ||
        !nib_map_set_cstr(arena, device, "adapterInfo", adapter))
        return false;
    *out = nib_value_of_map(device);
    return true;
}

nib_status nib_caps_view(const nib_caps *caps, nib_arena *arena, nib_value *out, nib_error *error)
{
    return device_view(arena, caps, out) ? NIB_OK : nib_fail_memory(error);
}

static bool set_limit_defaults(nib_arena *arena, nib_map *limits)
{
    for (size_t i = 0; i < COUNT_OF(limit_defaults); i++) {
        if (!nib_map_set_cstr(arena, limits, limit_defaults[i].name,
                              nib_value_number(limit_defaults[i].value)))
            return false;
    }
    return true;
}

static bool fill_defaults(nib_arena *arena, nib_caps *caps)
{
    caps->limits = nib_map_new(arena, COUNT_OF(limit_defaults));
    caps->adapter = nib_map_new(arena, 8);
    return caps->limits && caps->adapter && set_limit_defaults(arena, caps->limits) &&
           nib_map_set_cstr(arena, caps->adapter, "vendor", nib_value_cstr("")) &&
           nib_map_set_cstr(arena, caps->adapter, "architecture", nib_value_cstr("")) &&
           nib_map_set_cstr(arena, caps->adapter, "isFallbackAdapter", nib_value_bool(false));
}

nib_status nib_caps_default_view(nib_arena *arena, nib_value *out, nib_error *error)
{
    nib_caps defaults = {0};
    if (!fill_defaults(arena, &defaults) || !device_view(arena, &defaults, out))
        return nib_fail_memory(error);
    return NIB_OK;
}

/* ---- making a record ---- */

nib_status nib_caps_create(nib_context *context, nib_caps **out, nib_error *error)
{
    *out = NULL;
    nib_caps *caps = nib_allocate(&context->allocator, 1, sizeof *caps);
    if (!caps)
        return nib_fail_memory(error);
    caps->context = context;
    nib_arena_init(&caps->arena, &context->allocator, 0);
    if (!fill_defaults(&caps->arena, caps) ||
        !device_view(&caps->arena, caps, &caps->device_view)) {
        nib_caps_free(caps);
        return nib_fail_memory(error);
    }
    *out = caps;
    return NIB_OK;
}

void nib_caps_free(nib_caps *caps)
{
    if (!caps)
        return;
    nib_context *context = caps->context;
    nib_arena_free(&caps->arena);
    nib_release(&context->allocator, caps, 1, sizeof *caps);
}

static bool has_name(const nib_str *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (nib_str_is(names[i], name))
            return true;
    }
    return false;
}

/* Append to an arena array that is grown by doubling, at counts that are powers of two. */
static nib_status add_name(nib_caps *caps, nib_str **names, size_t *count, const char *name,
                           nib_error *error)
{
    if (has_name(*names, *count, name))
        return NIB_OK;
    if ((*count & (*count - 1)) == 0) {
        nib_str *grown = NIB_ARENA_ARRAY(&caps->arena, nib_str, *count ? *count * 2 : 1);
        if (!grown)
            return nib_fail_memory(error);
        if (*count)
            memcpy(grown, *names, *count * sizeof *grown);
        *names = grown;
    }
    const nib_str copy = nib_arena_str(&caps->arena, name, strlen(name));
    if (!copy.data)
        return nib_fail_memory(error);
    (*names)[(*count)++] = copy;
    return NIB_OK;
}

nib_status nib_caps_add_feature(nib_caps *caps, const char *name, nib_error *error)
{
    if (!feature_is_known(name))
        nib_log(caps->context, NIB_LOG_WARNING, "unknown device feature '%s'", name);
    return add_name(caps, &caps->features, &caps->feature_count, name, error);
}

nib_status nib_caps_add_language_feature(nib_caps *caps, const char *name, nib_error *error)
{
    return add_name(caps, &caps->language_features, &caps->language_feature_count, name, error);
}

nib_status nib_caps_set_limit(nib_caps *caps, const char *name, double value, nib_error *error)
{
    if (!isfinite(value)) /* only finite numbers count (format 8.2) */
        return NIB_OK;
    if (!limit_is_known(name))
        nib_log(caps->context, NIB_LOG_WARNING, "unknown device limit '%s'", name);
    if (strcmp(name, WORKGROUPS_PER_DIMENSION) == 0)
        value = fmin(value, MAX_WORKGROUPS_PER_DIMENSION);
    const nib_str key = nib_arena_str(&caps->arena, name, strlen(name));
    if (!key.data || !nib_map_set(&caps->arena, caps->limits, key, nib_value_number(value)))
        return nib_fail_memory(error);
    return NIB_OK;
}

/* ---- subgroup matrix configurations ---- */

static bool component_type_is_known(nib_value value)
{
    static const char *const types[] = {"f32", "f16", "u32", "i32", "u8", "i8"};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (value.type == NIB_VALUE_STRING && nib_str_is(value.as.string, types[i]))
            return true;
    }
    return false;
}

static bool is_positive_integer(nib_value value)
{
    return value.type == NIB_VALUE_INTEGER && value.as.number > 0;
}

static nib_value member_of(nib_value map, const char *name)
{
    const nib_value *member = map.type == NIB_VALUE_MAP ? nib_map_get_cstr(map.as.map, name) : NULL;
    return member ? *member : NIB_UNDEFINED;
}

static bool config_is_valid(nib_value config)
{
    return component_type_is_known(member_of(config, "componentType")) &&
           component_type_is_known(member_of(config, "resultComponentType")) &&
           is_positive_integer(member_of(config, "M")) &&
           is_positive_integer(member_of(config, "N")) &&
           is_positive_integer(member_of(config, "K"));
}

void nib_caps_config_text(nib_value config, nib_buf *out)
{
    static const char *const sizes[] = {"M", "N", "K"};
    nib_buf_str(out, member_of(config, "componentType").as.string);
    nib_buf_putc(out, '-');
    nib_buf_str(out, member_of(config, "resultComponentType").as.string);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char text[NIB_NUMBER_TEXT_BYTES];
        nib_number_format(member_of(config, sizes[i]).as.number, text);
        nib_buf_printf(out, "%c%s", i == 0 ? '-' : 'x', text);
    }
}

static bool config_is_before(const nib_allocator *allocator, nib_value a, nib_value b)
{
    nib_buf left, right;
    nib_buf_init(&left, allocator, 0);
    nib_buf_init(&right, allocator, 0);
    nib_caps_config_text(a, &left);
    nib_caps_config_text(b, &right);
    const bool before = left.data && right.data && strcmp(left.data, right.data) < 0;
    nib_buf_free(&left);
    nib_buf_free(&right);
    return before;
}

/* Keep the valid configurations, sorted by their text form (format 8.2). */
static nib_status set_matrix_configs(nib_caps *caps, nib_value value, nib_error *error)
{
    const size_t count = value.type == NIB_VALUE_LIST ? value.as.list->count : 0;
    nib_list *kept = nib_list_new(&caps->arena, count);
    if (!kept)
        return nib_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        const nib_value config = value.as.list->items[i];
        if (!config_is_valid(config))
            continue;
        size_t at = kept->count++;
        while (at > 0 && config_is_before(caps->arena.allocator, config, kept->items[at - 1])) {
            kept->items[at] = kept->items[at - 1];
            at--;
        }
        kept->items[at] = config;
    }
    nib_value copy;
    if (!nib_value_export(&caps->arena, nib_value_of_list(kept), &copy) ||
        !nib_map_set_cstr(&caps->arena, caps->adapter, "subgroupMatrixConfigs", copy))
        return nib_fail_memory(error);
    return NIB_OK;
}

static nib_status lower_case(nib_arena *arena, nib_str text, nib_value *out, nib_error *error)
{
    char *copy = nib_arena_cstr(arena, text);
    if (!copy)
        return nib_fail_memory(error);
    for (size_t i = 0; i < text.len; i++) {
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] = (char)(copy[i] - 'A' + 'a');
    }
    *out = nib_value_string((nib_str){copy, text.len});
    return NIB_OK;
}

nib_status nib_caps_set_adapter(nib_caps *caps, const char *name, nib_value value, nib_error *error)
{
    if (strcmp(name, "subgroupMatrixConfigs") == 0)
        return set_matrix_configs(caps, value, error);
    const bool folded = strcmp(name, "vendor") == 0 || strcmp(name, "architecture") == 0;
    nib_value copy;
    if (folded && value.type == NIB_VALUE_STRING)
        NIB_TRY(lower_case(&caps->arena, value.as.string, &copy, error));
    else if (!nib_value_export(&caps->arena, value, &copy))
        return nib_fail_memory(error);
    const nib_str key = nib_arena_str(&caps->arena, name, strlen(name));
    if (!key.data || !nib_map_set(&caps->arena, caps->adapter, key, copy))
        return nib_fail_memory(error);
    return NIB_OK;
}

nib_status nib_caps_finish(nib_caps *caps, nib_error *error)
{
    return device_view(&caps->arena, caps, &caps->device_view) ? NIB_OK : nib_fail_memory(error);
}

/* ---- questions ---- */

bool nib_caps_has_feature(const nib_caps *caps, const char *name)
{
    return has_name(caps->features, caps->feature_count, name);
}

double nib_caps_limit(const nib_caps *caps, const char *name)
{
    const nib_value *limit = nib_map_get_cstr(caps->limits, name);
    return limit ? limit->as.number : (double)NAN;
}
