/* SPDX-License-Identifier: Apache-2.0 */
#include "package/metadata.h"

#include "package/files.h"
#include "package/reader.h"
#include "value/json.h"
#include "value/number.h"

/* ---- what stands in the file ---- */

/* A member of an object that may itself be absent. */
static nib_value member(nib_value value, const char *name)
{
    const nib_value *found =
        value.type == NIB_VALUE_MAP ? nib_map_get_cstr(value.as.map, name) : NULL;
    return found ? *found : NIB_UNDEFINED;
}

static nib_status check_backend(nib_reader *r, nib_value root)
{
    const nib_value type = member(member(root, "backend"), "type");
    if (type.type == NIB_VALUE_STRING && nib_str_is(type.as.string, "webgpu"))
        return NIB_OK;
    return nib_at_name(
        r, "backend",
        nib_at_name(r, "type",
                    nib_refuse(r, "the backend must be \"webgpu\", not %s", nib_show(type).text)));
}

/* digits "." digits */
static bool is_spec_version(nib_str text)
{
    size_t dots = 0;
    for (size_t i = 0; i < text.len; i++) {
        dots += text.data[i] == '.';
        if (text.data[i] != '.' && !nib_is_digit(text.data[i]))
            return false;
    }
    return dots == 1 && text.data[0] != '.' && text.data[text.len - 1] != '.';
}

/* A number counts as its text. Absent and 2.0 are left to nib_metadata_match: list-style packages
 * have them. */
static nib_status read_spec(nib_reader *r, nib_value value, nib_str *out)
{
    char text[NIB_NUMBER_TEXT_BYTES];
    if (value.type == NIB_VALUE_UNDEFINED)
        return NIB_OK;
    if (nib_value_is_number(value)) {
        const size_t len = nib_number_format(value.as.number, text);
        *out = nib_arena_str(r->arena, text, len);
        if (!out->data)
            return nib_fail_memory(r->error);
    } else if (value.type == NIB_VALUE_STRING) {
        *out = value.as.string;
    }
    if (!out->len || !is_spec_version(*out))
        return nib_refuse(r, "\"manifestSpec\" must be a version like \"2.1\", not %s",
                          nib_show(value).text);
    if (nib_str_is(*out, "2.1") || nib_str_is(*out, "2.0"))
        return NIB_OK;
    return nib_refuse(r, "manifest spec %.*s is not supported; this library reads 2.1",
                      NIB_SHOW_STR(*out));
}

/* ---- digests ---- */

static nib_status read_digest(nib_reader *r, const nib_entry *entry)
{
    NIB_TRY(nib_check_path(entry->key, r->error));
    return nib_keys_check(r, NIB_KEY_TEXT, "a digest", entry->value);
}

static nib_status read_digests(nib_reader *r, nib_value value, nib_map **out)
{
    const nib_value algorithm = member(value, "algorithm");
    if (algorithm.type != NIB_VALUE_STRING || !nib_str_is(algorithm.as.string, "sha256"))
        return nib_at_name(r, "algorithm",
                           nib_refuse(r, "the digest algorithm must be \"sha256\", not %s",
                                      nib_show(algorithm).text));
    const nib_value files = member(value, "files");
    NIB_TRY(nib_at_name(r, "files", nib_keys_check(r, NIB_KEY_MAP, "\"files\"", files)));
    for (size_t i = 0; i < files.as.map->count; i++) {
        const nib_entry *entry = &files.as.map->entries[i];
        NIB_TRY(nib_at_name(r, "files", nib_at_key(r, entry->key, read_digest(r, entry))));
    }
    if (!nib_map_get_cstr(files.as.map, "manifest.json"))
        return nib_at_name(r, "files", nib_refuse(r, "manifest.json has no digest"));
    *out = files.as.map;
    return NIB_OK;
}

/* ---- the templates of each variant ---- */

static bool is_template(nib_str path)
{
    return nib_str_ends(path, NIB_STR(".wgsl")) || nib_str_ends(path, NIB_STR(".wgsl.jinja"));
}

static nib_status check_template(nib_reader *r, nib_value path, const nib_map *digests)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_TEXT, "a template path", path));
    if (!nib_map_get(digests, path.as.string))
        return nib_refuse(r, "\"%.*s\" has no digest in \"digest.files\"",
                          NIB_SHOW_STR(path.as.string));
    if (!is_template(path.as.string))
        return nib_refuse(r, "a template must end in .wgsl or .wgsl.jinja, unlike \"%.*s\"",
                          NIB_SHOW_STR(path.as.string));
    return NIB_OK;
}

static nib_status check_templates(nib_reader *r, const nib_entry *entry, const nib_map *digests)
{
    if (!nib_is_stable_id(entry->key) || nib_is_forbidden_key(entry->key))
        return nib_refuse(r,
                          "the variant id \"%.*s\" must be letters, digits and \"_\", not "
                          "starting with \"_\"",
                          NIB_SHOW_STR(entry->key));
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "the template list of a variant", entry->value));
    for (size_t i = 0; i < entry->value.as.list->count; i++)
        NIB_TRY(nib_at_index(r, i, check_template(r, entry->value.as.list->items[i], digests)));
    return NIB_OK;
}

static nib_status read_variants(nib_reader *r, nib_value value, nib_metadata *out)
{
    if (value.type == NIB_VALUE_UNDEFINED)
        return NIB_OK;
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "\"variants\"", value));
    if (value.as.map->count == 0)
        return nib_refuse(r, "\"variants\" must list at least one variant");
    for (size_t i = 0; i < value.as.map->count; i++) {
        const nib_entry *entry = &value.as.map->entries[i];
        NIB_TRY(nib_at_key(r, entry->key, check_templates(r, entry, out->digests)));
    }
    out->variants = value.as.map;
    return NIB_OK;
}

static nib_status read_root(nib_reader *r, nib_value root, nib_metadata *out)
{
    const nib_value webgpu = member(root, "webgpu"), name = member(root, "name"),
                    version = member(root, "version");
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, "metadata", root));
    NIB_TRY(check_backend(r, root));
    NIB_TRY(nib_at_name(
        r, "webgpu",
        nib_at_name(r, "manifestSpec", read_spec(r, member(webgpu, "manifestSpec"), &out->spec))));
    NIB_TRY(nib_at_name(r, "digest", read_digests(r, member(root, "digest"), &out->digests)));
    NIB_TRY(
        nib_at_name(r, "webgpu",
                    nib_at_name(r, "variants", read_variants(r, member(webgpu, "variants"), out))));
    if (name.type == NIB_VALUE_STRING)
        out->name = name.as.string;
    if (nib_value_is_number(version))
        out->version = version.as.number;
    return NIB_OK;
}

nib_status nib_metadata_read(nib_arena *arena, nib_str text, const char *source, nib_metadata *out,
                             nib_error *error)
{
    nib_reader r = {.arena = arena, .error = error};
    nib_value root;
    *out = (nib_metadata){0};
    NIB_TRY(nib_json_parse(arena, text.data, text.len, source, &root, error));
    const nib_status status = read_root(&r, root, out);
    if (status != NIB_OK)
        nib_error_source(error, source);
    return status;
}

/* ---- against the manifest (1.7) ---- */

static bool lists_path(const nib_list *list, nib_str path)
{
    for (size_t i = 0; i < list->count; i++) {
        if (nib_str_eq(list->items[i].as.string, path))
            return true;
    }
    return false;
}

static nib_status match_shaders(nib_reader *r, const nib_pass *passes, size_t count,
                                const nib_list *templates)
{
    for (size_t i = 0; i < count; i++) {
        const nib_pass *pass = &passes[i];
        if (!pass->repeat_passes && !lists_path(templates, pass->shader))
            return nib_refuse(r, "the list lacks \"%.*s\", the shader of pass \"%.*s\"",
                              NIB_SHOW_STR(pass->shader), NIB_SHOW_STR(pass->id));
        NIB_TRY(match_shaders(r, pass->repeat_passes, pass->repeat_pass_count, templates));
    }
    return NIB_OK;
}

static nib_status match_variants(nib_reader *r, const nib_metadata *metadata,
                                 const nib_contract *contract)
{
    for (size_t i = 0; i < contract->variant_count; i++) {
        const nib_variant *variant = &contract->variants[i];
        const nib_value *templates = nib_map_get(metadata->variants, variant->id);
        if (!templates)
            return nib_refuse(r, "the manifest's variant \"%.*s\" is not listed",
                              NIB_SHOW_STR(variant->id));
        NIB_TRY(
            nib_at_key(r, variant->id,
                       match_shaders(r, variant->passes, variant->pass_count, templates->as.list)));
    }
    if (metadata->variants->count == contract->variant_count)
        return NIB_OK;
    for (size_t i = 0; i < metadata->variants->count; i++) {
        const nib_str id = metadata->variants->entries[i].key;
        size_t k = 0;
        while (k < contract->variant_count && !nib_str_eq(contract->variants[k].id, id))
            k++;
        if (k == contract->variant_count)
            return nib_at_key(
                r, id, nib_refuse(r, "the manifest has no variant \"%.*s\"", NIB_SHOW_STR(id)));
    }
    return NIB_OK;
}

/* Packages of the list style came before spec 2.1 and before the list of templates (1.2, 2.B.0). */
static nib_status match_spec(nib_reader *r, const nib_metadata *metadata,
                             const nib_contract *contract)
{
    const bool list = contract->dialect == NIB_DIALECT_LIST;
    const bool current = nib_str_is(metadata->spec, "2.1");
    if (current == !list)
        return NIB_OK;
    if (list)
        return nib_refuse(r, "the manifest is of the older list style, which spec 2.1 is not");
    if (metadata->spec.len == 0)
        return nib_refuse(r, "\"manifestSpec\" is missing; a map-style manifest needs \"2.1\"");
    return nib_refuse(r, "\"manifestSpec\" is %.*s; a map-style manifest needs \"2.1\"",
                      NIB_SHOW_STR(metadata->spec));
}

nib_status nib_metadata_match(const nib_metadata *metadata, const nib_contract *contract,
                              nib_error *error)
{
    nib_reader r = {.error = error};
    NIB_TRY(nib_at_name(&r, "webgpu",
                        nib_at_name(&r, "manifestSpec", match_spec(&r, metadata, contract))));
    if (!nib_str_eq(metadata->name, contract->op_id))
        return nib_at_name(&r, "name",
                           nib_refuse(&r, "the package is named \"%.*s\", its manifest \"%.*s\"",
                                      NIB_SHOW_STR(metadata->name), NIB_SHOW_STR(contract->op_id)));
    if (!metadata->variants && contract->dialect == NIB_DIALECT_LIST)
        return NIB_OK;
    nib_status status = NIB_OK;
    if (!metadata->variants)
        status = nib_refuse(&r, "\"variants\" is missing; it lists the templates of each variant");
    else
        status = match_variants(&r, metadata, contract);
    return nib_at_name(&r, "webgpu", nib_at_name(&r, "variants", status));
}
