/* SPDX-License-Identifier: Apache-2.0
 *
 * The chosen variant: its derives and constants, its intermediates, and each of its passes.
 */
#include "plan/planner.h"

static nib_status copy_map(nib_planner *p, const nib_map *from, size_t more, nib_map **out)
{
    *out = nib_map_new(p->arena, from->count + more);
    for (size_t i = 0; *out && i < from->count; i++) {
        if (!nib_map_set(p->arena, *out, from->entries[i].key, from->entries[i].value))
            *out = NULL;
    }
    return *out ? NIB_OK : nib_fail_memory(p->error);
}

static nib_status merge_map(nib_planner *p, const nib_map *from, nib_map *into)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!nib_map_set(p->arena, into, from->entries[i].key, from->entries[i].value))
            return nib_fail_memory(p->error);
    }
    return NIB_OK;
}

/* ---- constants (list dialect) ---- */

/* The entries of one level do not see each other, nor any other constant (format 2.B.3). */
static nib_status eval_constants(nib_planner *p, const nib_derives *constants, nib_map *derive,
                                 nib_map *repeat, const char *path, nib_map *into)
{
    if (constants->count == 0)
        return NIB_OK;
    nib_map *none = nib_map_new(p->arena, 0);
    if (!none)
        return nib_fail_memory(p->error);
    const nib_level level = {
        .derive = derive, .tunables = p->plan->tunables, .repeat = repeat, .constants = none};
    nib_scope scope;
    NIB_TRY(nib_planner_open_scope(p, &level, &scope));
    const nib_status status = nib_planner_derive(p, constants, &scope, into);
    if (status != NIB_OK)
        nib_error_path_prefix(p->error, "%s", path);
    return status;
}

static nib_status build_constants(nib_planner *p)
{
    const nib_variant *variant = p->plan->variant;
    p->constants = nib_map_new(p->arena, 8);
    if (!p->constants)
        return nib_fail_memory(p->error);
    NIB_TRY(eval_constants(p, &p->contract->constants, p->derive, NULL, "constants", p->constants));
    NIB_TRY(eval_constants(p, &variant->constants, p->derive, NULL, "constants", p->constants));
    p->plan->constants = p->constants;
    return NIB_OK;
}

/* ---- one pass ---- */

/* Derives and constants of a pass; levels without entries of their own share the outer map. */
static nib_status build_names(nib_planner *p, const nib_expanded_pass *from, nib_level *level)
{
    const nib_pass *pass = from->pass;
    const bool list = p->contract->dialect == NIB_DIALECT_LIST;
    level->tunables = p->plan->tunables;
    level->repeat = from->repeat;
    level->derive = list ? p->derive : p->outer;
    if (pass->derive.count) {
        NIB_TRY(copy_map(p, level->derive, pass->derive.count, &level->derive));
        nib_scope scope;
        NIB_TRY(nib_planner_open_scope(p, level, &scope));
        const nib_status status = nib_planner_derive(p, &pass->derive, &scope, level->derive);
        if (status != NIB_OK) {
            nib_error_path_prefix(p->error, "derive");
            return status;
        }
    }
    if (!list)
        return NIB_OK;
    level->constants = p->outer;
    if (pass->constants.count) {
        nib_map *own = nib_map_new(p->arena, pass->constants.count);
        if (!own)
            return nib_fail_memory(p->error);
        NIB_TRY(eval_constants(p, &pass->constants, level->derive, from->repeat, "constants", own));
        NIB_TRY(copy_map(p, p->outer, own->count, &level->constants));
        NIB_TRY(merge_map(p, own, level->constants));
    }
    return NIB_OK;
}

static nib_status eval_profile(nib_pass_build *b)
{
    const nib_derives *profile = &b->pass->pass->profile;
    for (size_t i = 0; i < profile->count; i++) {
        nib_value ignored;
        const nib_status status =
            nib_planner_eval_node(b->p, &profile->items[i].node, b->scope, &ignored);
        if (status != NIB_OK) {
            nib_error_path_prefix(b->p->error, "profile.%.*s", NIB_STR_ARG(profile->items[i].name));
            return status;
        }
    }
    return NIB_OK;
}

/* Put `env` in front of the pass's own names (format 4.5). */
static nib_status open_template_scope(nib_pass_build *b)
{
    nib_arena *arena = b->p->arena;
    nib_map *frame = nib_map_new(arena, 1), *env = nib_map_new(arena, 2),
            *wgsl = nib_map_new(arena, 1);
    const nib_value *device = nib_map_get_cstr(b->p->base, "device");
    if (!frame || !env || !wgsl || !device ||
        !nib_map_set_cstr(arena, wgsl, "resourceDeclarations",
                          nib_value_string(b->pass->declarations)) ||
        !nib_map_set_cstr(arena, env, "device", *device) ||
        !nib_map_set_cstr(arena, env, "wgsl", nib_value_of_map(wgsl)) ||
        !nib_map_set_cstr(arena, frame, "env", nib_value_of_map(env)))
        return nib_fail_memory(b->p->error);
    nib_scope *scope = &b->pass->scope;
    *scope = *b->scope;
    memmove(scope->frames + 1, b->scope->frames, b->scope->frame_count * sizeof scope->frames[0]);
    scope->frames[0] = frame;
    scope->frame_count++;
    return NIB_OK;
}

static nib_status name_pass(nib_planner *p, const nib_expanded_pass *from, nib_plan_pass *pass)
{
    pass->pass = from->pass;
    pass->id = nib_arena_str(p->arena, from->id.data, from->id.len);
    pass->label = from->pass->label;
    if (pass->id.data && pass->label.len)
        return NIB_OK;
    nib_buf label;
    nib_buf_init(&label, p->arena->allocator, 0);
    nib_buf_printf(&label, "%.*s.%.*s.%.*s", NIB_STR_ARG(p->contract->op_id),
                   NIB_STR_ARG(p->plan->variant->id), NIB_STR_ARG(from->id));
    pass->label = nib_arena_str(p->arena, label.data, label.len);
    const bool ok =
        nib_buf_check(&label, "a label", NULL) == NIB_OK && pass->label.data && pass->id.data;
    nib_buf_free(&label);
    return ok ? NIB_OK : nib_fail_memory(p->error);
}

/* When every output is empty nothing runs, and neither sizes nor uniforms are evaluated
 * (format 7.7). */
static nib_status build_contents(nib_pass_build *b)
{
    NIB_TRY(nib_pass_types(b));
    NIB_TRY(nib_pass_declarations(b));
    if (!b->p->all_empty)
        NIB_TRY(nib_pass_dispatch(b));
    NIB_TRY(nib_pass_uniforms(b));
    NIB_TRY(nib_pass_resources(b));
    if (!b->p->all_empty)
        NIB_TRY(eval_profile(b));
    return open_template_scope(b);
}

static nib_status build_pass(nib_planner *p, const nib_expanded_pass *from, nib_plan_pass *pass)
{
    nib_level level = {0};
    nib_scope scope;
    NIB_TRY(name_pass(p, from, pass));
    NIB_TRY(build_names(p, from, &level));
    NIB_TRY(nib_planner_open_scope(p, &level, &scope));
    pass->derive = level.derive;
    pass->constants = level.constants;
    nib_pass_build b = {.p = p,
                        .pass = pass,
                        .scope = &scope,
                        .names = level.constants ? level.constants : level.derive};
    return build_contents(&b);
}

/* ---- the variant ---- */

static nib_status build_passes(nib_planner *p, const nib_scope *scope)
{
    nib_expanded_pass *expanded;
    size_t count;
    NIB_TRY(nib_planner_expand(p, scope, &expanded, &count));
    p->plan->passes = NIB_ARENA_ARRAY(p->arena, nib_plan_pass, count);
    if (!p->plan->passes)
        return nib_fail_memory(p->error);
    p->plan->pass_count = count;
    for (size_t i = 0; i < count; i++) {
        const nib_status status = build_pass(p, &expanded[i], &p->plan->passes[i]);
        if (status != NIB_OK) {
            nib_error_path_prefix(p->error, "%.*s", NIB_STR_ARG(expanded[i].path));
            return status;
        }
    }
    return NIB_OK;
}

/* Only what an active pass uses is allocated. */
static void drop_unused(nib_plan *plan)
{
    for (size_t i = 0; i < plan->intermediate_count; i++) {
        if (!plan->intermediates[i].used)
            plan->intermediates[i].bytes = 0;
    }
}

static nib_status derive_variant(nib_planner *p, nib_scope *scope)
{
    const nib_variant *variant = p->plan->variant;
    NIB_TRY(nib_planner_build_tunables(p, variant, &p->plan->tunables));
    const nib_level level = {.derive = p->derive, .tunables = p->plan->tunables};
    NIB_TRY(nib_planner_open_scope(p, &level, scope));
    const nib_status status = nib_planner_derive(p, &variant->derive, scope, p->derive);
    if (status != NIB_OK)
        nib_error_path_prefix(p->error, "variants[%zu].derive",
                              (size_t)(variant - p->contract->variants));
    return status;
}

static nib_status build_outer(nib_planner *p)
{
    const bool list = p->contract->dialect == NIB_DIALECT_LIST;
    if (list)
        NIB_TRY(build_constants(p));
    const nib_map *over = list ? p->constants : p->derive;
    NIB_TRY(copy_map(p, p->dtypes, over->count, &p->outer));
    return merge_map(p, over, p->outer);
}

nib_status nib_planner_build_variant(nib_planner *p)
{
    nib_scope scope;
    NIB_TRY(derive_variant(p, &scope));
    NIB_TRY(build_outer(p));
    NIB_TRY(nib_planner_size_intermediates(p, &scope));
    NIB_TRY(build_passes(p, &scope));
    drop_unused(p->plan);
    return NIB_OK;
}
