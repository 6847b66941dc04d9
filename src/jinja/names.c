/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that a tree reads.
 */
#include "jinja/ast.h"

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
