/* SPDX-License-Identifier: Apache-2.0
 *
 * Which templates each variant reads: the shaders of its passes and what they include. This is what
 * metadata.json lists (format 1.8).
 */
#include <string.h>

#include "package/package.h"
#include "value/json.h"

/* A loader that writes down what it is asked for. */
typedef struct recorder {
    nib_template_loader loader;
    nib_list *paths; /* sorted */
} recorder;

static int compare(nib_str a, nib_str b)
{
    const int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Insert a path where it belongs, once. */
static bool note_path(recorder *r, nib_arena *arena, nib_str path)
{
    size_t at = 0;
    while (at < r->paths->count && compare(r->paths->items[at].as.string, path) < 0)
        at++;
    if (at < r->paths->count && nib_str_eq(r->paths->items[at].as.string, path))
        return true;
    if (!nib_list_push(arena, r->paths, nib_value_string(path)))
        return false;
    memmove(&r->paths->items[at + 1], &r->paths->items[at],
            (r->paths->count - 1 - at) * sizeof *r->paths->items);
    r->paths->items[at] = nib_value_string(path);
    return true;
}

static nib_status read_recorded(void *user, nib_arena *arena, nib_str path, nib_str *text,
                                nib_error *error)
{
    recorder *r = user;
    if (!note_path(r, arena, path))
        return nib_fail_memory(error);
    return r->loader.read(r->loader.user, arena, path, text, error);
}

/* A template must parse, too; what it prints is a matter of a call. */
static nib_status record_template(recorder *r, nib_arena *arena, nib_str path, bool list_dialect,
                                  nib_error *error)
{
    const nib_template_loader loader = {read_recorded, r};
    return nib_template_check(arena, path, &loader, list_dialect, error);
}

static nib_status record_passes(recorder *r, nib_arena *arena, const nib_pass *passes, size_t count,
                                bool list_dialect, nib_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const nib_pass *pass = &passes[i];
        if (pass->repeat_passes)
            NIB_TRY(record_passes(r, arena, pass->repeat_passes, pass->repeat_pass_count,
                                  list_dialect, error));
        else
            NIB_TRY(record_template(r, arena, pass->shader, list_dialect, error));
    }
    return NIB_OK;
}

static nib_status record_variants(const nib_package *package, nib_arena *arena, nib_map *variants,
                                  nib_error *error)
{
    const nib_contract *contract = package->contract;
    for (size_t i = 0; i < contract->variant_count; i++) {
        const nib_variant *variant = &contract->variants[i];
        recorder r = {nib_package_templates(package), nib_list_new(arena, 0)};
        if (!r.paths || !nib_map_set(arena, variants, variant->id, nib_value_of_list(r.paths)))
            return nib_fail_memory(error);
        NIB_TRY(record_passes(&r, arena, variant->passes, variant->pass_count,
                              contract->dialect == NIB_DIALECT_LIST, error));
    }
    return NIB_OK;
}

nib_status nib_package_templates_json(const nib_package *package, char **text, nib_error *error)
{
    nib_arena arena;
    *text = NULL;
    nib_arena_init(&arena, &package->context->allocator, 0);
    nib_map *variants = nib_map_new(&arena, package->contract->variant_count);
    nib_status status =
        variants ? record_variants(package, &arena, variants, error) : nib_fail_memory(error);
    if (status == NIB_OK) {
        nib_buf buf;
        nib_buf_init(&buf, &package->context->allocator, 0);
        nib_json_write(&buf, nib_value_of_map(variants), (nib_json_style){.indent = 2});
        status = nib_buf_take(&buf, "the list of templates", text, error);
    }
    nib_arena_free(&arena);
    return status;
}
