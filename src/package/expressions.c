/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions in the manifest: single ones, condition lists, named trees, shapes and sizes. All are
 * compiled here, so that a syntax error is reported when the package is loaded.
 */
#include <math.h>

#include "package/reader.h"
#include "value/number.h"

nib_status nib_read_expr(nib_reader *r, nib_str text, nib_expr *out)
{
    if (nib_js_trim(text).len == 0)
        return nib_refuse(r, "an expression must not be empty");
    const nib_status status = nib_expr_compile(r->arena, text, out, r->error);
    /* The excerpt shows the text; the source is left to the file and the JSON path. */
    if (status != NIB_OK && r->error)
        r->error->source[0] = '\0';
    return status;
}

nib_status nib_read_exprs(nib_reader *r, nib_value value, nib_exprs *out)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_ITEMS, "a condition list", value));
    const nib_list *list = value.as.list;
    out->items = NIB_ARENA_ARRAY(r->arena, nib_expr, list->count);
    if (!out->items)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < list->count; i++) {
        NIB_TRY(nib_at_index(r, i, nib_keys_check(r, NIB_KEY_TEXT, "a condition", list->items[i])));
        NIB_TRY(nib_at_index(r, i, nib_read_expr(r, list->items[i].as.string, &out->items[i])));
        out->count++;
    }
    return NIB_OK;
}

nib_status nib_join_exprs(nib_reader *r, nib_exprs first, nib_exprs second, nib_exprs *out)
{
    nib_expr *items = NIB_ARENA_ARRAY(r->arena, nib_expr, first.count + second.count);
    if (!items)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < first.count; i++)
        items[i] = first.items[i];
    for (size_t i = 0; i < second.count; i++)
        items[first.count + i] = second.items[i];
    *out = (nib_exprs){items, first.count + second.count};
    return NIB_OK;
}

/* ---- named trees ---- */

static size_t count_strings(nib_value value)
{
    size_t count = value.type == NIB_VALUE_STRING;
    if (value.type == NIB_VALUE_LIST) {
        for (size_t i = 0; i < value.as.list->count; i++)
            count += count_strings(value.as.list->items[i]);
    } else if (value.type == NIB_VALUE_MAP) {
        for (size_t i = 0; i < value.as.map->count; i++)
            count += count_strings(value.as.map->entries[i].value);
    }
    return count;
}

/* An unexpanded shared fragment of an authoring tool (2.A.7). */
static nib_status refuse_use(nib_reader *r, nib_str key)
{
    if (!nib_str_is(key, "$use"))
        return NIB_OK;
    return nib_at_key(r, key,
                      nib_refuse(r,
                                 "\"$use\" is a shared fragment that was not expanded; a package "
                                 "must be published without it"));
}

/* Compile the strings of a tree in walking order. */
static nib_status compile_tree(nib_reader *r, nib_value value, nib_derive_node *node)
{
    if (value.type == NIB_VALUE_STRING) {
        NIB_TRY(nib_read_expr(r, value.as.string, &node->parts[node->part_count]));
        node->part_count++;
    } else if (value.type == NIB_VALUE_LIST) {
        for (size_t i = 0; i < value.as.list->count; i++)
            NIB_TRY(nib_at_index(r, i, compile_tree(r, value.as.list->items[i], node)));
    } else if (value.type == NIB_VALUE_MAP) {
        for (size_t i = 0; i < value.as.map->count; i++) {
            const nib_entry *entry = &value.as.map->entries[i];
            NIB_TRY(refuse_use(r, entry->key));
            NIB_TRY(nib_at_key(r, entry->key, compile_tree(r, entry->value, node)));
        }
    }
    return NIB_OK;
}

static nib_status read_node(nib_reader *r, nib_value value, nib_derive_node *node)
{
    *node = (nib_derive_node){.kind = NIB_DERIVE_LITERAL, .literal = value};
    if (value.type == NIB_VALUE_STRING) {
        node->kind = NIB_DERIVE_EXPR;
        node->literal = NIB_UNDEFINED;
        return nib_read_expr(r, value.as.string, &node->expr);
    }
    const size_t strings = count_strings(value);
    if (strings) {
        node->kind = NIB_DERIVE_TREE;
        node->parts = NIB_ARENA_ARRAY(r->arena, nib_expr, strings);
        if (!node->parts)
            return nib_fail_memory(r->error);
    }
    return compile_tree(r, value, node);
}

typedef nib_status name_check(nib_reader *r, nib_str name);

static nib_status read_named(nib_reader *r, nib_value value, const char *what, name_check *check,
                             nib_derives *out)
{
    NIB_TRY(nib_keys_check(r, NIB_KEY_MAP, what, value));
    const nib_map *map = value.as.map;
    NIB_TRY(nib_check_count(r, what, map->count));
    out->items = NIB_ARENA_ARRAY(r->arena, nib_derive, map->count);
    if (!out->items)
        return nib_fail_memory(r->error);
    for (size_t i = 0; i < map->count; i++) {
        const nib_entry *entry = &map->entries[i];
        nib_derive *item = &out->items[i];
        item->name = entry->key;
        NIB_TRY(nib_at_key(r, entry->key, check(r, entry->key)));
        NIB_TRY(nib_at_key(r, entry->key, read_node(r, entry->value, &item->node)));
        out->count++;
    }
    return NIB_OK;
}

static nib_status check_constant_name(nib_reader *r, nib_str name)
{
    if (nib_str_is_identifier(name))
        return NIB_OK;
    return nib_refuse(r, "the constant name \"%.*s\" is not an identifier", NIB_SHOW_STR(name));
}

static nib_status check_derive_name(nib_reader *r, nib_str name)
{
    if (nib_str_is(name, "$use"))
        return nib_refuse(r, "\"$use\" is a shared fragment that was not expanded; a package must "
                             "be published without it");
    if (!nib_str_is_identifier(name))
        return nib_refuse(r, "the derive name \"%.*s\" is not an identifier", NIB_SHOW_STR(name));
    if (nib_expr_name_is_reserved(name))
        return nib_refuse(r, "\"%.*s\" is a reserved name, which a derive must not use",
                          NIB_SHOW_STR(name));
    for (size_t i = 0; i < r->contract->type_variable_count; i++) {
        if (nib_str_eq(r->contract->type_variables[i].name, name))
            return nib_refuse(r, "\"%.*s\" is a type variable, which a derive must not redefine",
                              NIB_SHOW_STR(name));
    }
    return NIB_OK;
}

static nib_status accept_name(nib_reader *r, nib_str name)
{
    (void)r, (void)name;
    return NIB_OK;
}

nib_status nib_read_derive(nib_reader *r, nib_value value, nib_derives *out)
{
    return read_named(r, value, "\"derive\"", check_derive_name, out);
}

nib_status nib_read_constants(nib_reader *r, nib_value value, nib_derives *out)
{
    return read_named(r, value, "\"constants\"", check_constant_name, out);
}

nib_status nib_read_profile(nib_reader *r, nib_value value, nib_derives *out)
{
    return read_named(r, value, "\"profile\"", accept_name, out);
}

/* ---- shapes and sizes ---- */

bool nib_is_safe_integer(double number)
{
    return trunc(number) == number && fabs(number) <= 9007199254740991.0;
}

/* A literal in a place that holds an expression. Its digits are an expression. */
static nib_status compile_count(nib_reader *r, const char *what, nib_value value, nib_expr *out)
{
    const double number = value.as.number;
    if (number < 0 || !nib_is_safe_integer(number))
        return nib_refuse(r, "%s must be a non-negative integer below 2^53, not %s", what,
                          nib_show(value).text);
    char text[NIB_NUMBER_TEXT_BYTES];
    const size_t len = nib_number_format(number, text);
    return nib_expr_compile(r->arena, (nib_str){text, len}, out, r->error);
}

static nib_status read_dim(nib_reader *r, nib_value value, nib_expr *out)
{
    if (value.type == NIB_VALUE_STRING)
        return nib_read_expr(r, value.as.string, out);
    if (nib_value_is_number(value))
        return compile_count(r, "a dim", value, out);
    return nib_refuse(r, "a dim must be an expression or a number, not %s", nib_show(value).text);
}

nib_status nib_read_shape(nib_reader *r, nib_value value, nib_shape_rule *out)
{
    const nib_list *list = value.type == NIB_VALUE_LIST ? value.as.list : NULL;
    if (!list && value.type != NIB_VALUE_STRING)
        return nib_refuse(r, "a shape must be an expression or a list of dims, not %s",
                          nib_show(value).text);
    *out = (nib_shape_rule){.given = true, .whole = !list};
    const size_t count = list ? list->count : 1;
    out->items = NIB_ARENA_ARRAY(r->arena, nib_expr, count);
    if (!out->items)
        return nib_fail_memory(r->error);
    out->count = count;
    if (!list)
        return nib_read_expr(r, value.as.string, &out->items[0]);
    for (size_t i = 0; i < count; i++)
        NIB_TRY(nib_at_index(r, i, read_dim(r, list->items[i], &out->items[i])));
    return NIB_OK;
}

nib_status nib_read_size(nib_reader *r, nib_value value, nib_expr *out)
{
    if (value.type == NIB_VALUE_STRING)
        return nib_read_expr(r, value.as.string, out);
    if (nib_value_is_number(value))
        return compile_count(r, "a size", value, out);
    return nib_refuse(r, "a size must be an expression or a non-negative integer, not %s",
                      nib_show(value).text);
}
