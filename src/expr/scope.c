/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names an expression can see.
 */
#include "expr/helpers.h"

static bool scope_value(const nib_scope *scope, nib_str name, nib_value *out)
{
    for (size_t i = 0; i < scope->frame_count; i++) {
        const nib_value *found = scope->frames[i] ? nib_map_get(scope->frames[i], name) : NULL;
        if (found) {
            *out = *found;
            return true;
        }
    }
    return false;
}

bool nib_scope_lookup(const void *user, nib_str name, nib_value *out)
{
    const nib_scope *scope = user;
    if (scope_value(scope, name, out))
        return true;
    const nib_function *helper = nib_expr_helper(name, scope->device_has_f16, scope->list_dialect);
    if (helper)
        *out = (nib_value){.type = NIB_VALUE_FUNCTION, .as.function = helper};
    return helper != NULL;
}

/* The helpers are reserved too. */
bool nib_expr_name_is_reserved(nib_str name)
{
    static const char *const names[] = {
        "repeat",       "tunables",
        "dtypes",       "logicalDtypes",
        "tensorDtypes", "ranks",
        "shapes",       "present",
        "attrs",        "args",
        "device",       "env",
        "constants",    "derive",
        "source",       "true",
        "false",        "none",
        "True",         "False",
        "None",         "range",
        "loop",         "namespace",
        "dict",         "DISPATCH_FOLD_WIDTH",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (nib_str_is(name, names[i]))
            return true;
    }
    return nib_expr_helper(name, false, false) != NULL;
}

/* ---- set views ---- */

static nib_status set_has(nib_evaluation *evaluation, const void *user, const nib_value *args,
                          size_t count, nib_value *out)
{
    (void)evaluation;
    const nib_map *members = user;
    *out = nib_value_bool(count > 0 && args[0].type == NIB_VALUE_STRING &&
                          nib_map_get(members, args[0].as.string) != NULL);
    return NIB_OK;
}

/* keys(), values() and entries() give an empty object: a set view cannot be listed (format 3.6). */
static nib_status set_list(nib_evaluation *evaluation, const void *user, const nib_value *args,
                           size_t count, nib_value *out)
{
    (void)user;
    (void)args;
    (void)count;
    nib_map *empty = nib_map_new(evaluation->arena, 0);
    if (!empty)
        return nib_fail_memory(evaluation->error);
    *out = nib_value_of_map(empty);
    return NIB_OK;
}

static bool set_method(nib_arena *arena, nib_map *view, const nib_function *function)
{
    return nib_map_set_cstr(arena, view, function->name,
                            (nib_value){.type = NIB_VALUE_FUNCTION, .as.function = function});
}

bool nib_expr_set_view(nib_arena *arena, const nib_str *names, size_t count, nib_value *out)
{
    static const nib_function listers[] = {{.name = "keys", .call = set_list},
                                           {.name = "values", .call = set_list},
                                           {.name = "entries", .call = set_list}};
    nib_map *members = nib_map_new(arena, count), *view = nib_map_new(arena, 5);
    nib_function *has = NIB_ARENA_NEW(arena, nib_function);
    if (!members || !view || !has)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!nib_map_set(arena, members, names[i], nib_value_bool(true)))
            return false;
    }
    *has = (nib_function){.name = "has", .call = set_has, .user = members};
    bool ok = set_method(arena, view, has) &&
              nib_map_set_cstr(arena, view, "size", nib_value_integer((double)members->count));
    for (size_t i = 0; i < sizeof listers / sizeof listers[0]; i++)
        ok = ok && set_method(arena, view, &listers[i]);
    *out = (nib_value){.type = NIB_VALUE_VIEW, .as.map = view};
    return ok;
}
