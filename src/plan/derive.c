/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluating the named values of a contract: derives, constants and shapes (package
 * format 2.A.7, 2.B.3).
 */
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "plan/planner.h"
#include "value/number.h"

nib_status nib_fail_around(nib_error *error, const nib_error *inner, const char *format, ...)
{
    if (!error || error->code != NIB_OK)
        return inner->code;
    nib_error outer = *inner;
    va_list args;
    va_start(args, format);
    const int written = vsnprintf(outer.message, sizeof outer.message, format, args);
    va_end(args);
    const size_t used = written < 0 ? 0 : (size_t)written;
    if (used < sizeof outer.message)
        snprintf(outer.message + used, sizeof outer.message - used, "%.1500s", inner->message);
    *error = outer;
    return inner->code;
}

/* Temporaries are dropped once they are worth it. */
enum { EVAL_KEEP_BYTES = 1 << 18 };

nib_status nib_planner_eval(nib_planner *p, const nib_expr *expr, const nib_scope *scope,
                            nib_value *out)
{
    if (p->eval.used_bytes > EVAL_KEEP_BYTES)
        nib_arena_free(&p->eval);
    return nib_expr_eval(expr, scope, &p->eval, out, p->error);
}

nib_status nib_planner_eval_kept(nib_planner *p, const nib_expr *expr, const nib_scope *scope,
                                 nib_value *out)
{
    nib_value value;
    NIB_TRY(nib_planner_eval(p, expr, scope, &value));
    return nib_value_export(p->arena, value, out) ? NIB_OK : nib_fail_memory(p->error);
}

/* ---- trees: a literal whose strings are replaced by `parts` in walking order ---- */

typedef struct tree_walk {
    nib_planner *p;
    const nib_scope *scope;
    const nib_derive_node *node;
    size_t next;
} tree_walk;

static nib_status copy_tree(tree_walk *walk, nib_value value, nib_value *out);

static nib_status copy_list(tree_walk *walk, const nib_list *list, nib_value *out)
{
    nib_list *copy = nib_list_new(walk->p->arena, list->count);
    if (!copy)
        return nib_fail_memory(walk->p->error);
    for (size_t i = 0; i < list->count; i++)
        NIB_TRY(copy_tree(walk, list->items[i], &copy->items[i]));
    copy->count = list->count;
    *out = nib_value_of_list(copy);
    return NIB_OK;
}

static nib_status copy_map(tree_walk *walk, const nib_map *map, nib_value *out)
{
    nib_map *copy = nib_map_new(walk->p->arena, map->count);
    if (!copy)
        return nib_fail_memory(walk->p->error);
    for (size_t i = 0; i < map->count; i++) {
        nib_value member;
        NIB_TRY(copy_tree(walk, map->entries[i].value, &member));
        if (!nib_map_set(walk->p->arena, copy, map->entries[i].key, member))
            return nib_fail_memory(walk->p->error);
    }
    *out = nib_value_of_map(copy);
    return NIB_OK;
}

/* The depth is bounded by the JSON reader's. */
static nib_status copy_tree(tree_walk *walk, nib_value value, nib_value *out)
{
    switch (value.type) {
    case NIB_VALUE_STRING:
        if (walk->next == walk->node->part_count)
            return nib_fail(walk->p->error, NIB_INTERNAL, "a tree has more strings than parts");
        return nib_planner_eval_kept(walk->p, &walk->node->parts[walk->next++], walk->scope, out);
    case NIB_VALUE_LIST:
        return copy_list(walk, value.as.list, out);
    case NIB_VALUE_MAP:
        return copy_map(walk, value.as.map, out);
    default:
        *out = value;
        return NIB_OK;
    }
}

nib_status nib_planner_eval_node(nib_planner *p, const nib_derive_node *node,
                                 const nib_scope *scope, nib_value *out)
{
    switch (node->kind) {
    case NIB_DERIVE_EXPR:
        return nib_planner_eval_kept(p, &node->expr, scope, out);
    case NIB_DERIVE_TREE:
        return copy_tree(&(tree_walk){.p = p, .scope = scope, .node = node}, node->literal, out);
    case NIB_DERIVE_LITERAL:
        break;
    }
    *out = node->literal; /* lives as long as the package */
    return NIB_OK;
}

nib_status nib_planner_derive(nib_planner *p, const nib_derives *derives, const nib_scope *scope,
                              nib_map *into)
{
    for (size_t i = 0; i < derives->count; i++) {
        const nib_derive *derive = &derives->items[i];
        nib_value value;
        const nib_status status = nib_planner_eval_node(p, &derive->node, scope, &value);
        if (status != NIB_OK) {
            nib_error_path_prefix(p->error, "%.*s", NIB_STR_ARG(derive->name));
            return status;
        }
        if (!nib_map_set(p->arena, into, derive->name, value))
            return nib_fail_memory(p->error);
    }
    return NIB_OK;
}

/* ---- shapes ---- */

/* Dims beyond this are not exact numbers any more. */
static const double max_dim = 9007199254740992.0;

/* `from` is the expression that gave the value. */
static nib_status read_dim(nib_planner *p, nib_value value, const nib_expr *from, const char *what,
                           nib_tensor_desc *desc)
{
    const double number = nib_value_is_number(value) ? value.as.number : (double)NAN;
    if (!(number >= 0 && number <= max_dim && trunc(number) == number))
        return nib_fail(p->error, NIB_EVAL,
                        "%s: dim %u of the shape `%.*s` is %s; it must be a non-negative integer",
                        what, (unsigned)desc->rank, NIB_STR_ARG(from->text),
                        nib_value_label(value).text);
    if (desc->rank == NIB_MAX_RANK)
        return nib_fail(p->error, NIB_LIMIT, "%s: the shape `%.*s` has more than %d dims", what,
                        NIB_STR_ARG(from->text), NIB_MAX_RANK);
    desc->dims[desc->rank++] = (int64_t)number;
    return NIB_OK;
}

static nib_status read_dims(nib_planner *p, nib_value value, const nib_expr *from, const char *what,
                            nib_tensor_desc *desc)
{
    if (value.type != NIB_VALUE_LIST)
        return nib_fail(p->error, NIB_EVAL, "%s: the shape `%.*s` is %s; it must be a list", what,
                        NIB_STR_ARG(from->text), nib_value_label(value).text);
    for (size_t i = 0; i < value.as.list->count; i++)
        NIB_TRY(read_dim(p, value.as.list->items[i], from, what, desc));
    return NIB_OK;
}

static nib_status eval_item(nib_planner *p, const nib_expr *expr, const nib_scope *scope,
                            const char *what, nib_value *out)
{
    nib_error inner = {0};
    nib_error *outer = p->error;
    p->error = &inner;
    const nib_status status = nib_planner_eval(p, expr, scope, out);
    p->error = outer;
    if (status == NIB_OK)
        return NIB_OK;
    return nib_fail_around(outer, &inner, "%s: the shape `%.*s` failed: ", what,
                           NIB_STR_ARG(expr->text));
}

nib_status nib_planner_eval_shape(nib_planner *p, const nib_shape_rule *rule,
                                  const nib_scope *scope, const char *what, bool scalar_ok,
                                  nib_tensor_desc *desc)
{
    desc->rank = 0;
    nib_value value;
    if (rule->whole) {
        NIB_TRY(eval_item(p, &rule->items[0], scope, what, &value));
        if (scalar_ok && nib_value_is_number(value))
            return read_dim(p, value, &rule->items[0], what, desc);
        return read_dims(p, value, &rule->items[0], what, desc);
    }
    for (size_t i = 0; i < rule->count; i++) {
        NIB_TRY(eval_item(p, &rule->items[i], scope, what, &value));
        NIB_TRY(read_dim(p, value, &rule->items[i], what, desc));
    }
    return NIB_OK;
}
