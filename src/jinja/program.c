/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to a program, and the names that a program uses.
 */
#include "jinja/ast.h"

#include <string.h>

/* ---- names ---- */

static void visit(const node *n, const name_visitor *v);

static void visit_list(const node_list *list, const name_visitor *v)
{
    for (size_t i = 0; i < list->count; i++)
        visit(list->items[i], v);
}

static void visit_arguments(const arguments *args, const name_visitor *v)
{
    if (!args)
        return;
    visit_list(&args->positional, v);
    visit(args->spread, v);
    for (size_t i = 0; i < args->keyword_count; i++)
        visit(args->keywords[i].value, v);
    visit(args->keyword_spread, v);
}

static void visit_test(const node *n, const name_visitor *v)
{
    const node *operand = n->as.applied.operand;
    const bool asks =
        nib_str_is(n->as.applied.name, "defined") || nib_str_is(n->as.applied.name, "undefined");
    if (asks && operand->kind == NODE_NAME)
        v->visit(v->user, operand, true);
    else
        visit(operand, v);
}

static void visit_macro(const macro *m, const name_visitor *v)
{
    visit(m->call, v);
    for (size_t i = 0; i < m->parameter_count; i++)
        visit(m->parameters[i].value, v);
    visit(m->body, v);
}

static void visit(const node *n, const name_visitor *v)
{
    if (!n)
        return;
    switch (n->kind) {
    case NODE_NAME:
        v->visit(v->user, n, false);
        return;
    case NODE_LIST:
    case NODE_TUPLE:
    case NODE_MAP:
    case NODE_BLOCK:
    case NODE_IF:
        visit_list(&n->as.items, v);
        return;
    case NODE_CHOICE:
    case NODE_SELECT:
        visit(n->as.choice.value, v);
        visit(n->as.choice.condition, v);
        visit(n->as.choice.other, v);
        return;
    case NODE_OR:
    case NODE_AND:
    case NODE_BINARY:
        visit(n->as.chain->first, v);
        visit_list(&n->as.chain->operands, v);
        return;
    case NODE_NOT:
    case NODE_NEGATE:
    case NODE_PLUS:
    case NODE_PRINT:
        visit(n->as.operand, v);
        return;
    case NODE_TEST:
        visit_test(n, v);
        return;
    case NODE_FILTER:
    case NODE_FILTER_BLOCK:
    case NODE_ATTRIBUTE:
        visit(n->as.applied.operand, v);
        visit_arguments(n->as.applied.arguments, v);
        return;
    case NODE_INDEX:
        visit(n->as.index.operand, v);
        visit(n->as.index.key, v);
        return;
    case NODE_SLICE:
        visit(n->as.slice.operand, v);
        visit(n->as.slice.start, v);
        visit(n->as.slice.stop, v);
        visit(n->as.slice.step, v);
        return;
    case NODE_CALL:
        visit(n->as.call.callee, v);
        visit_arguments(n->as.call.arguments, v);
        return;
    case NODE_FOR:
        visit(n->as.loop.iterable, v);
        visit(n->as.loop.body, v);
        visit(n->as.loop.otherwise, v);
        return;
    case NODE_SET:
        visit(n->as.set.value, v);
        visit(n->as.set.body, v);
        return;
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
        visit_macro(n->as.macro, v);
        return;
    case NODE_NUMBER:
    case NODE_STRING:
    case NODE_TEXT:
    case NODE_BREAK:
    case NODE_CONTINUE:
        return;
    }
}

void nib_jinja_visit_names(const node *tree, const name_visitor *visitor)
{
    visit(tree, visitor);
}

typedef struct collector {
    nib_arena *arena;
    nib_program *program;
    nib_map *index; /* name to position + 1 */
    size_t capacity;
    bool failed;
} collector;

static bool grow_free_names(collector *c)
{
    nib_program *p = c->program;
    if (p->free_name_count < c->capacity)
        return true;
    const size_t capacity = c->capacity ? c->capacity * 2 : 8;
    nib_free_name *names = NIB_ARENA_ARRAY(c->arena, nib_free_name, capacity);
    if (!names)
        return false;
    if (p->free_name_count)
        memcpy(names, p->free_names, p->free_name_count * sizeof *names);
    p->free_names = names;
    c->capacity = capacity;
    return true;
}

static void collect(void *user, const node *name, bool tested)
{
    collector *c = user;
    nib_program *p = c->program;
    if (c->failed)
        return;
    const nib_value *known = nib_map_get(c->index, name->as.text);
    if (known) {
        nib_free_name *entry = &p->free_names[(size_t)known->as.number];
        if (entry->only_tested && !tested) {
            entry->only_tested = false;
            entry->offset = name->offset;
        }
        return;
    }
    c->failed = !grow_free_names(c) || !nib_map_set(c->arena, c->index, name->as.text,
                                                    nib_value_integer((double)p->free_name_count));
    if (!c->failed)
        p->free_names[p->free_name_count++] = (nib_free_name){name->as.text, name->offset, tested};
}

const nib_free_name *nib_jinja_free_names(const nib_program *program, size_t *count)
{
    *count = program->free_name_count;
    return program->free_names;
}

const char *nib_jinja_program_name(const nib_program *program)
{
    return program->name;
}

/* ---- parsing ---- */

static nib_status new_program(nib_arena *arena, nib_str text, const char *name, nib_program **out,
                              nib_error *error)
{
    nib_program *p = NIB_ARENA_NEW(arena, nib_program);
    if (!p)
        return nib_fail_memory(error);
    p->text = nib_arena_str(arena, text.data, text.len);
    p->name = nib_arena_cstr(arena, nib_str_from(name ? name : ""));
    if (!p->text.data || !p->name)
        return nib_fail_memory(error);
    *out = p;
    return NIB_OK;
}

static nib_status parse_prepared(nib_arena *arena, nib_program *p, nib_str text,
                                 size_t prefix_bytes, nib_error *error)
{
    token *tokens;
    nib_status status = nib_jinja_prepare(arena, text, prefix_bytes, &p->prepared, error);
    if (status == NIB_OK)
        status = nib_jinja_tokenize(arena, p, &p->prepared, &tokens, error);
    if (status == NIB_OK)
        status = nib_jinja_parse(arena, p, tokens, &p->root, error);
    if (status != NIB_OK)
        nib_error_source(error, p->name);
    return status;
}

static nib_status collect_free_names(nib_arena *arena, nib_program *p, nib_error *error)
{
    collector c = {.arena = arena, .program = p, .index = nib_map_new(arena, 0)};
    if (!c.index)
        return nib_fail_memory(error);
    visit(p->root, &(name_visitor){collect, &c});
    return c.failed ? nib_fail_memory(error) : NIB_OK;
}

nib_status nib_jinja_parse_template(nib_arena *arena, nib_str text, const char *name,
                                    const nib_program **out, nib_error *error)
{
    nib_program *p = NULL;
    NIB_TRY(new_program(arena, text, name, &p, error));
    NIB_TRY(parse_prepared(arena, p, p->text, 0, error));
    NIB_TRY(collect_free_names(arena, p, error));
    *out = p;
    return NIB_OK;
}

/* Format 3: the text is parsed as "{{ text }}", and the first node of the result is the expression.
 */
nib_status nib_jinja_parse_expression(nib_arena *arena, nib_str text, const char *name,
                                      const nib_program **out, nib_error *error)
{
    static const char open[] = "{{ ", close[] = " }}";
    const size_t open_bytes = sizeof open - 1, close_bytes = sizeof close - 1;
    nib_program *p = NULL;
    NIB_TRY(new_program(arena, text, name, &p, error));
    if (text.len > SOURCE_MAX_BYTES)
        return nib_fail(error, NIB_LIMIT, "the expression has %zu bytes", text.len);
    char *wrapped = nib_arena_alloc(arena, text.len + open_bytes + close_bytes, 1);
    if (!wrapped)
        return nib_fail_memory(error);
    memcpy(wrapped, open, open_bytes);
    if (text.len)
        memcpy(wrapped + open_bytes, text.data, text.len);
    memcpy(wrapped + open_bytes + text.len, close, close_bytes);
    NIB_TRY(parse_prepared(arena, p, (nib_str){wrapped, text.len + open_bytes + close_bytes},
                           open_bytes, error));
    p->root = p->root->as.items.items[0]->as.operand;
    NIB_TRY(collect_free_names(arena, p, error));
    *out = p;
    return NIB_OK;
}
