/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeat groups to a flat list of passes (package format 2.A.13).
 */
#include <math.h>
#include <stdio.h>

#include "plan/planner.h"

enum { MAX_REPEAT_COUNT = 65535, MAX_PASSES = 131072, MAX_PASS_ID = 4096 };

typedef struct expansion {
    nib_planner *p;
    const nib_scope *scope; /* of the variant, outside repeats */
    nib_expanded_pass *passes;
    size_t count, capacity;
    nib_map *ids;
} expansion;

/* Where the walk is: the enclosing group's iteration. */
typedef struct place {
    nib_str id;      /* "loop[3]." or empty */
    nib_str path;    /* "variants[0].passes[1]." up to the member */
    nib_map *repeat; /* NULL outside groups */
} place;

static nib_status format_text(nib_planner *p, nib_str *out, const char *format, ...)
    NIB_PRINTF(3, 4);

static nib_status format_text(nib_planner *p, nib_str *out, const char *format, ...)
{
    char text[MAX_PASS_ID];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        return nib_fail(p->error, NIB_LIMIT, "the id of a repeated pass is longer than %d bytes",
                        MAX_PASS_ID);
    *out = nib_arena_str(p->arena, text, (size_t)length);
    return out->data ? NIB_OK : nib_fail_memory(p->error);
}

static nib_status grow(expansion *e)
{
    const size_t capacity = e->capacity ? e->capacity * 2 : 4;
    nib_expanded_pass *passes = NIB_ARENA_ARRAY(&e->p->scratch, nib_expanded_pass, capacity);
    if (!passes)
        return nib_fail_memory(e->p->error);
    if (e->count)
        memcpy(passes, e->passes, e->count * sizeof *passes);
    e->passes = passes;
    e->capacity = capacity;
    return NIB_OK;
}

static nib_status add_pass(expansion *e, const nib_pass *pass, const place *at, nib_str path)
{
    nib_planner *p = e->p;
    if (e->count == MAX_PASSES)
        return nib_fail(p->error, NIB_LIMIT, "the variant expands to more than %d passes",
                        MAX_PASSES);
    if (e->count == e->capacity)
        NIB_TRY(grow(e));
    nib_str id = pass->id;
    if (at->id.len)
        NIB_TRY(format_text(p, &id, "%.*s%.*s", NIB_STR_ARG(at->id), NIB_STR_ARG(pass->id)));
    if (nib_map_get(e->ids, id))
        return nib_fail(p->error, NIB_CONTRACT, "two passes expand to the id '%.*s'",
                        NIB_STR_ARG(id));
    if (!nib_map_set(&p->scratch, e->ids, id, NIB_NULL))
        return nib_fail_memory(p->error);
    e->passes[e->count++] = (nib_expanded_pass){pass, id, path, at->repeat};
    return NIB_OK;
}

/* The variant's scope with `repeat` replaced: only a nested count needs it. */
static nib_status scope_in(expansion *e, const place *at, nib_scope *out)
{
    nib_planner *p = e->p;
    if (!at->repeat) {
        *out = *e->scope;
        return NIB_OK;
    }
    const nib_level level = {
        .derive = p->derive, .tunables = p->plan->tunables, .repeat = at->repeat};
    return nib_planner_open_scope(p, &level, out);
}

static nib_status eval_count(expansion *e, const nib_pass *group, const place *at, size_t *out)
{
    nib_planner *p = e->p;
    nib_scope scope;
    nib_value value;
    NIB_TRY(scope_in(e, at, &scope));
    NIB_TRY(nib_planner_eval(p, &group->repeat_count, &scope, &value));
    const double count = nib_value_is_number(value) ? value.as.number : (double)NAN;
    if (!(count >= 0 && count <= MAX_REPEAT_COUNT && trunc(count) == count))
        return nib_fail(p->error, NIB_EVAL,
                        "repeat group '%.*s': count is %s; it must be an integer in [0, %d]",
                        NIB_STR_ARG(group->id), nib_value_label(value).text, MAX_REPEAT_COUNT);
    *out = (size_t)count;
    return NIB_OK;
}

/* Outer members, then index, count and the group's own pair of names. */
static nib_status repeat_members(expansion *e, const nib_pass *group, const nib_map *outer,
                                 size_t index, size_t count, nib_map **out)
{
    nib_arena *arena = e->p->arena;
    const nib_value i = nib_value_integer((double)index), n = nib_value_integer((double)count);
    nib_map *members = nib_map_new(arena, (outer ? outer->count : 0) + 4);
    bool ok = members != NULL;
    for (size_t k = 0; ok && outer && k < outer->count; k++)
        ok = nib_map_set(arena, members, outer->entries[k].key, outer->entries[k].value);
    nib_str count_name = {0};
    NIB_TRY(format_text(e->p, &count_name, "%.*s_count", NIB_STR_ARG(group->repeat_index)));
    ok = ok && nib_map_set_cstr(arena, members, "index", i) &&
         nib_map_set_cstr(arena, members, "count", n) &&
         nib_map_set(arena, members, group->repeat_index, i) &&
         nib_map_set(arena, members, count_name, n);
    if (!ok)
        return nib_fail_memory(e->p->error);
    *out = members;
    return NIB_OK;
}

static nib_status expand_passes(expansion *e, const nib_pass *passes, size_t count,
                                const place *at);

static nib_status expand_group(expansion *e, const nib_pass *group, const place *at, nib_str path)
{
    size_t count = 0;
    const nib_status status = eval_count(e, group, at, &count);
    if (status != NIB_OK) {
        nib_error_path_prefix(e->p->error, "%.*s.repeat.count", NIB_STR_ARG(path));
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        place inner = {0};
        NIB_TRY(format_text(e->p, &inner.id, "%.*s%.*s[%zu].", NIB_STR_ARG(at->id),
                            NIB_STR_ARG(group->id), i));
        inner.path = path;
        NIB_TRY(repeat_members(e, group, at->repeat, i, count, &inner.repeat));
        NIB_TRY(expand_passes(e, group->repeat_passes, group->repeat_pass_count, &inner));
    }
    return NIB_OK;
}

/* Recursion is as deep as groups nest in the manifest, which the JSON reader bounds. */
static nib_status expand_passes(expansion *e, const nib_pass *passes, size_t count, const place *at)
{
    for (size_t i = 0; i < count; i++) {
        nib_str path;
        NIB_TRY(format_text(e->p, &path, "%.*s.passes[%zu]", NIB_STR_ARG(at->path), i));
        if (passes[i].repeat_passes)
            NIB_TRY(expand_group(e, &passes[i], at, path));
        else
            NIB_TRY(add_pass(e, &passes[i], at, path));
    }
    return NIB_OK;
}

nib_status nib_planner_expand(nib_planner *p, const nib_scope *scope, nib_expanded_pass **out,
                              size_t *count)
{
    const nib_variant *variant = p->plan->variant;
    expansion e = {.p = p, .scope = scope, .ids = nib_map_new(&p->scratch, variant->pass_count)};
    if (!e.ids)
        return nib_fail_memory(p->error);
    place root = {0};
    NIB_TRY(format_text(p, &root.path, "variants[%zu]", (size_t)(variant - p->contract->variants)));
    NIB_TRY(expand_passes(&e, variant->passes, variant->pass_count, &root));
    if (e.count == 0)
        return nib_fail(p->error, NIB_EVAL, "variant '%.*s' expands to no passes",
                        NIB_STR_ARG(variant->id));
    *out = e.passes;
    *count = e.count;
    return NIB_OK;
}
