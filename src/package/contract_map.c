/* SPDX-License-Identifier: Apache-2.0
 *
 * The map dialect, manifest spec 2.1 (format 2.A.1).
 */
#include "package/reader.h"

/* ---- attributes (2.A.5) ---- */

static nib_status read_default(nib_reader *r, const nib_value *value, void *target)
{
    (void)r;
    nib_attribute *attribute = target;
    attribute->has_default = true;
    attribute->default_value = *value;
    return NIB_OK;
}

static const nib_key attribute_rows[] = {
    {"default", NIB_KEY_ANY, .set = read_default},
    {"description", NIB_KEY_STRING, NIB_STORED(nib_attribute, description)},
};
static const nib_keys attribute_keys = NIB_KEYS("an attribute", attribute_rows);

static nib_status read_attribute(nib_reader *r, nib_str name, nib_value value)
{
    nib_attribute attribute = {.name = name};
    if (name.len == 0)
        return nib_refuse(r, "an attribute name must not be empty");
    if (value.type != NIB_VALUE_MAP)
        return nib_refuse(r,
                          "an attribute is an object, {\"default\": ...} or {}, not the bare "
                          "value %s",
                          nib_show(value).text);
    NIB_TRY(nib_keys_read(r, &attribute_keys, value, &attribute));
    return nib_add_attribute(r, attribute);
}

static nib_status read_attributes(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    NIB_TRY(nib_check_count(r, "\"attributes\"", value->as.map->count));
    for (size_t i = 0; i < value->as.map->count; i++) {
        const nib_entry *entry = &value->as.map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key, read_attribute(r, entry->key, entry->value)));
    }
    return NIB_OK;
}

static nib_status read_constraints(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    return nib_read_attribute_constraints(r, *value, false);
}

/* ---- the manifest ---- */

static nib_status expand(nib_reader *r, const nib_value *value, void *contract)
{
    (void)contract;
    return nib_expand_variants(r, value->as.list, &r->expansion);
}

/* In reading order: a row may look at what the rows above it read. The refused rows are names of
 * earlier drafts. */
static const nib_key manifest_rows[] = {
    {"$schema", NIB_KEY_ANY, NIB_ACCEPTED},
    {"domain", NIB_KEY_STRING, NIB_STORED(nib_contract, domain), .set = nib_check_domain},
    {"name", NIB_KEY_TEXT, .required = true, NIB_STORED(nib_contract, name)},
    {"description", NIB_KEY_STRING, NIB_STORED(nib_contract, description)},
    {"conformance", NIB_KEY_STRING, .set = nib_check_conformance},
    {"sinceVersion", NIB_KEY_ANY, .set = nib_read_since_version},
    {"onnx", NIB_KEY_ANY, NIB_ACCEPTED},
    {"typeConstraints", NIB_KEY_MAP, .set = nib_read_type_constraints},
    {"inputs", NIB_KEY_ANY, .required = true, .set = nib_read_inputs},
    {"outputs", NIB_KEY_ANY, .required = true, .set = nib_read_outputs},
    {"args", NIB_KEY_MAP, .set = nib_read_arguments},
    {"attributes", NIB_KEY_MAP, .set = read_attributes},
    {"attributeConstraints", NIB_KEY_MAP, .set = read_constraints},
    {"tunables", NIB_KEY_MAP, .set = nib_read_manifest_tunables},
    {"derive", NIB_KEY_MAP, .set = nib_read_manifest_derive},
    {"when", NIB_KEY_ANY, .set = nib_read_when},
    {"requires", NIB_KEY_MAP, .set = nib_read_manifest_requires},
    {"bindings", NIB_KEY_MAP, .set = nib_read_handles},
    {"variants", NIB_KEY_ITEMS, .required = true, .set = expand},
    {"attributeDescriptions", NIB_KEY_REFUSED,
     .hint = "is of an earlier draft: write attributes.<name>.description"},
    {"tunableDescriptions", NIB_KEY_REFUSED,
     .hint = "is of an earlier draft: write tunables.<name>.description"},
    {"attributeNames", NIB_KEY_REFUSED,
     .hint = "is of an earlier draft: declare each attribute in \"attributes\", as {} when it has "
             "no default"},
    {"constants", NIB_KEY_REFUSED, .hint = "is of an earlier draft: use \"derive\""},
    {"variantFamilies", NIB_KEY_REFUSED,
     .hint = "is of an earlier draft: families stand among the \"variants\""},
    {"bindingSets", NIB_KEY_REFUSED,
     .hint = "is of an earlier draft: declare \"bindings\" and list their names in each pass"},
    {"bindingEntries", NIB_KEY_REFUSED, .hint = "is of an earlier draft: use \"bindings\""},
};
static const nib_keys manifest_keys = NIB_KEYS("the manifest", manifest_rows);

nib_status nib_read_map_manifest(nib_reader *r, nib_value manifest)
{
    r->contract->domain = NIB_STR("ai.onnx");
    NIB_TRY(nib_keys_read(r, &manifest_keys, manifest, r->contract));
    return nib_read_map_variants(r, &r->expansion);
}
