/* SPDX-License-Identifier: Apache-2.0
 *
 * Capability records as JSON.
 */
#include "base/buf.h"
#include "base/error.h"
#include "plan/caps.h"
#include "plan/view.h"
#include "value/json.h"

/* Reads one member of the record. */
typedef nib_status (*member_reader)(nib_caps *caps, nib_value value, nib_error *error);

static nib_status read_names(nib_caps *caps, nib_value value,
                             nib_status (*add)(nib_caps *, const char *, nib_error *),
                             nib_error *error)
{
    if (value.type != NIB_VALUE_LIST)
        return nib_fail(error, NIB_FORMAT, "must be an array of names, not %s",
                        nib_value_type_name(value));
    for (size_t i = 0; i < value.as.list->count; i++) {
        const nib_value name = value.as.list->items[i];
        if (name.type != NIB_VALUE_STRING) {
            nib_fail(error, NIB_FORMAT, "must be a string, not %s", nib_value_type_name(name));
            nib_error_path_prefix(error, "[%zu]", i);
            return NIB_FORMAT;
        }
        NIB_TRY(add(caps, name.as.string.data, error));
    }
    return NIB_OK;
}

static nib_status read_features(nib_caps *caps, nib_value value, nib_error *error)
{
    return read_names(caps, value, nib_caps_add_feature, error);
}

static nib_status read_language_features(nib_caps *caps, nib_value value, nib_error *error)
{
    return read_names(caps, value, nib_caps_add_language_feature, error);
}

static nib_status need_map(nib_value value, nib_error *error)
{
    if (value.type == NIB_VALUE_MAP)
        return NIB_OK;
    return nib_fail(error, NIB_FORMAT, "must be an object, not %s", nib_value_type_name(value));
}

static nib_status read_limits(nib_caps *caps, nib_value value, nib_error *error)
{
    NIB_TRY(need_map(value, error));
    for (size_t i = 0; i < value.as.map->count; i++) {
        const nib_entry *entry = &value.as.map->entries[i];
        if (!nib_value_is_number(entry->value) || entry->value.as.number < 0) {
            nib_fail(error, NIB_FORMAT, "must be a number that is not negative");
            nib_error_path_prefix(error, "%.*s", NIB_STR_ARG(entry->key));
            return NIB_FORMAT;
        }
        NIB_TRY(nib_caps_set_limit(caps, entry->key.data, entry->value.as.number, error));
    }
    return NIB_OK;
}

typedef struct adapter_member {
    const char *name;
    nib_value_type type;
} adapter_member;

static const adapter_member adapter_members[] = {
    {"vendor", NIB_VALUE_STRING},           {"architecture", NIB_VALUE_STRING},
    {"device", NIB_VALUE_STRING},           {"description", NIB_VALUE_STRING},
    {"isFallbackAdapter", NIB_VALUE_BOOL},  {"subgroupMinSize", NIB_VALUE_INTEGER},
    {"subgroupMaxSize", NIB_VALUE_INTEGER}, {"subgroupMatrixConfigs", NIB_VALUE_LIST},
};

static const adapter_member *find_adapter_member(nib_str name)
{
    for (size_t i = 0; i < sizeof adapter_members / sizeof adapter_members[0]; i++) {
        if (nib_str_is(name, adapter_members[i].name))
            return &adapter_members[i];
    }
    return NULL;
}

static nib_status read_adapter(nib_caps *caps, nib_value value, nib_error *error)
{
    NIB_TRY(need_map(value, error));
    for (size_t i = 0; i < value.as.map->count; i++) {
        const nib_entry *entry = &value.as.map->entries[i];
        const adapter_member *member = find_adapter_member(entry->key);
        if (!member) {
            nib_log(caps->context, NIB_LOG_WARNING, "unknown adapter fact '%s'", entry->key.data);
        } else if (entry->value.type != member->type) {
            nib_fail(error, NIB_FORMAT, "must be of type %s, not %s",
                     nib_value_type_name((nib_value){.type = member->type}),
                     nib_value_type_name(entry->value));
            nib_error_path_prefix(error, "%s", member->name);
            return NIB_FORMAT;
        }
        NIB_TRY(nib_caps_set_adapter(caps, entry->key.data, entry->value, error));
    }
    return NIB_OK;
}

static const struct {
    const char *name;
    member_reader read;
} record_members[] = {
    {"features", read_features},
    {"limits", read_limits},
    {"adapterInfo", read_adapter},
    {"wgslLanguageFeatures", read_language_features},
};

static member_reader find_reader(nib_str name)
{
    for (size_t i = 0; i < sizeof record_members / sizeof record_members[0]; i++) {
        if (nib_str_is(name, record_members[i].name))
            return record_members[i].read;
    }
    return NULL;
}

static nib_status read_record(nib_caps *caps, nib_value record, nib_error *error)
{
    NIB_TRY(need_map(record, error));
    for (size_t i = 0; i < record.as.map->count; i++) {
        const nib_entry *entry = &record.as.map->entries[i];
        const member_reader read = find_reader(entry->key);
        if (!read) {
            nib_log(caps->context, NIB_LOG_WARNING, "unknown member '%s' of a capability record",
                    entry->key.data);
            continue;
        }
        const nib_status status = read(caps, entry->value, error);
        if (status != NIB_OK) {
            nib_error_path_prefix(error, "%s", entry->key.data);
            return status;
        }
    }
    return nib_caps_finish(caps, error);
}

static nib_status parse_record(nib_caps *caps, const char *json, nib_error *error)
{
    nib_value record;
    NIB_TRY(nib_json_parse(&caps->arena, json, strlen(json), "capabilities", &record, error));
    const nib_status status = read_record(caps, record, error);
    if (status != NIB_OK && status != NIB_OUT_OF_MEMORY)
        nib_error_source(error, "capabilities");
    return status;
}

nib_status nib_caps_parse(nib_context *context, const char *json, nib_caps **out, nib_error *error)
{
    *out = NULL;
    nib_caps *caps;
    NIB_TRY(nib_caps_create(context, &caps, error));
    const nib_status status = json && json[0] ? parse_record(caps, json, error) : NIB_OK;
    if (status != NIB_OK) {
        nib_caps_free(caps);
        return status;
    }
    *out = caps;
    return NIB_OK;
}

static bool names_to_list(nib_arena *arena, nib_map *record, const char *member,
                          const nib_str *names, size_t count)
{
    nib_list *list = nib_list_new(arena, count);
    if (!list)
        return false;
    for (size_t i = 0; i < count; i++)
        list->items[i] = nib_value_string(names[i]);
    list->count = count;
    return nib_map_set_cstr(arena, record, member, nib_value_of_list(list));
}

nib_status nib_caps_json(const nib_caps *caps, char **text, nib_error *error)
{
    *text = NULL;
    nib_arena arena;
    nib_arena_init(&arena, caps->arena.allocator, 0);
    nib_buf buf;
    nib_buf_init(&buf, caps->arena.allocator, 0);
    nib_map *record = nib_map_new(&arena, 4);
    nib_status status;
    if (record && names_to_list(&arena, record, "features", caps->features, caps->feature_count) &&
        names_to_list(&arena, record, "wgslLanguageFeatures", caps->language_features,
                      caps->language_feature_count) &&
        nib_map_set_cstr(&arena, record, "limits", nib_value_of_map(caps->limits)) &&
        nib_map_set_cstr(&arena, record, "adapterInfo", nib_value_of_map(caps->adapter))) {
        nib_json_write(&buf, nib_value_of_map(record), (nib_json_style){.indent = 2});
        nib_buf_putc(&buf, '\n');
        status = nib_buf_take(&buf, "the capability record", text, error);
    } else {
        status = nib_fail_memory(error);
    }
    nib_arena_free(&arena);
    return status;
}
