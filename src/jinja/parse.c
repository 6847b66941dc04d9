/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions to trees by recursive descent: the grammar of format 3.3.
 */
#include "jinja/parser.h"

#include <stdio.h>
#include <string.h>

/* ---- helpers ---- */

nib_status nib_parse_fail(parser *p, uint32_t offset, nib_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    nib_fail_v(p->error, code, format, args);
    va_end(args);
    nib_error_position(p->error, p->program->text.data, p->program->text.len, offset);
    return code;
}

static nib_status out_of_memory(parser *p)
{
    return nib_fail_memory(p->error);
}

nib_status nib_parse_unexpected(parser *p, const char *wanted)
{
    const token *t = p->next;
    /* The closing tag of a manifest expression is not in its text. */
    if (t->kind == TOKEN_END || t->offset >= p->program->text.len)
        return nib_parse_fail(p, t->offset, NIB_SYNTAX, "expected %s, but the text ends here",
                              wanted);
    if (t->kind == TOKEN_TEXT)
        return nib_parse_fail(p, t->offset, NIB_SYNTAX, "expected %s, not plain text", wanted);
    if (t->kind == TOKEN_STRING)
        return nib_parse_fail(p, t->offset, NIB_SYNTAX, "expected %s, not a string", wanted);
    return nib_parse_fail(p, t->offset, NIB_SYNTAX, "expected %s, not \"%.*s\"", wanted,
                          NIB_STR_ARG(t->text));
}

bool nib_parse_is_operator(const parser *p, const char *text)
{
    return p->next->kind == TOKEN_OPERATOR && nib_str_is(p->next->text, text);
}

static bool is_word(const parser *p, const char *word)
{
    return p->next->kind == TOKEN_IDENTIFIER && nib_str_is(p->next->text, word);
}

bool nib_parse_accept_operator(parser *p, const char *text)
{
    const bool found = nib_parse_is_operator(p, text);
    p->next += found;
    return found;
}

bool nib_parse_accept_word(parser *p, const char *word)
{
    const bool found = is_word(p, word);
    p->next += found;
    return found;
}

static nib_status expect_operator(parser *p, const char *text)
{
    char wanted[8];
    snprintf(wanted, sizeof wanted, "\"%s\"", text);
    return nib_parse_accept_operator(p, text) ? NIB_OK : nib_parse_unexpected(p, wanted);
}

nib_status nib_parse_expect(parser *p, token_kind kind, const char *wanted)
{
    if (p->next->kind != kind)
        return nib_parse_unexpected(p, wanted);
    p->next++;
    return NIB_OK;
}

nib_status nib_parse_new(parser *p, node_kind kind, uint32_t offset, node **out)
{
    node *n = NIB_ARENA_NEW(p->arena, node);
    if (!n)
        return out_of_memory(p);
    n->kind = kind;
    n->offset = offset;
    n->height = 1;
    *out = n;
    return NIB_OK;
}

/* Account for a child; every tree is bounded, so that evaluating one needs bounded C stack. */
nib_status nib_parse_cover(parser *p, node *parent, const node *child)
{
    if (child && parent->height <= child->height)
        parent->height = child->height + 1;
    if (parent->height > NIB_JINJA_MAX_PARSE_DEPTH)
        return nib_parse_fail(p, parent->offset, NIB_LIMIT, "this is nested deeper than %d levels",
                              NIB_JINJA_MAX_PARSE_DEPTH);
    return NIB_OK;
}

static nib_status push(parser *p, node_list *list, node *item)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 4;
        node **items = NIB_ARENA_ARRAY(p->arena, node *, capacity);
        if (!items)
            return out_of_memory(p);
        if (list->count)
            memcpy(items, list->items, list->count * sizeof(node *));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return NIB_OK;
}

nib_status nib_parse_push(parser *p, node *parent, node *item)
{
    NIB_TRY(nib_parse_cover(p, parent, item));
    return push(p, &parent->as.items, item);
}

nib_status nib_parse_enter(parser *p)
{
    if (++p->depth > NIB_JINJA_MAX_PARSE_DEPTH)
        return nib_parse_fail(p, p->next->offset, NIB_LIMIT, "this is nested deeper than %d levels",
                              NIB_JINJA_MAX_PARSE_DEPTH);
    return NIB_OK;
}

/* ---- expressions ---- */

static nib_status parse_or(parser *p, node **out);
static nib_status parse_postfix(parser *p, node **out);

/* Separated by commas, which may be left out between two items (as in the reference), up to
 * `close`. */
static nib_status parse_items(parser *p, node *list, const char *close)
{
    while (!nib_parse_accept_operator(p, close)) {
        node *item = NULL;
        NIB_TRY(nib_parse_expression(p, &item));
        NIB_TRY(nib_parse_push(p, list, item));
        nib_parse_accept_operator(p, ",");
    }
    return NIB_OK;
}

static nib_status parse_list(parser *p, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_LIST, p->next->offset, out));
    p->next++;
    return parse_items(p, *out, "]");
}

static nib_status parse_map(parser *p, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_MAP, p->next->offset, out));
    p->next++;
    while (!nib_parse_accept_operator(p, "}")) {
        node *key = NULL, *value = NULL;
        NIB_TRY(nib_parse_expression(p, &key));
        NIB_TRY(expect_operator(p, ":"));
        NIB_TRY(nib_parse_expression(p, &value));
        NIB_TRY(nib_parse_push(p, *out, key));
        NIB_TRY(nib_parse_push(p, *out, value));
        nib_parse_accept_operator(p, ",");
    }
    return NIB_OK;
}

/* One expression, or a tuple when commas follow. */
nib_status nib_parse_sequence(parser *p, nib_status (*parse_item)(parser *, node **), node **out)
{
    node *first = NULL;
    NIB_TRY(parse_item(p, &first));
    *out = first;
    if (!nib_parse_is_operator(p, ","))
        return NIB_OK;
    NIB_TRY(nib_parse_new(p, NODE_TUPLE, first->offset, out));
    NIB_TRY(nib_parse_push(p, *out, first));
    while (nib_parse_accept_operator(p, ",")) {
        node *item = NULL;
        NIB_TRY(parse_item(p, &item));
        NIB_TRY(nib_parse_push(p, *out, item));
    }
    return NIB_OK;
}

static nib_status parse_parentheses(parser *p, node **out)
{
    p->next++;
    NIB_TRY(nib_parse_sequence(p, nib_parse_expression, out));
    return expect_operator(p, ")");
}

static nib_status parse_number(parser *p, node **out)
{
    const token *t = p->next++;
    NIB_TRY(nib_parse_new(p, NODE_NUMBER, t->offset, out));
    (*out)->as.number_value =
        t->kind == TOKEN_INTEGER ? nib_value_integer(t->number) : nib_value_float(t->number);
    return NIB_OK;
}

/* Adjacent literals concatenate. */
static nib_status parse_string(parser *p, node **out)
{
    const token *t = p->next++;
    NIB_TRY(nib_parse_new(p, NODE_STRING, t->offset, out));
    (*out)->as.text = t->text;
    size_t total = t->text.len;
    const token *last = t;
    for (; p->next->kind == TOKEN_STRING; p->next++) {
        total += p->next->text.len;
        last = p->next;
    }
    if (last == t)
        return NIB_OK;
    char *joined = nib_arena_alloc(p->arena, total + 1, 1);
    if (!joined)
        return out_of_memory(p);
    (*out)->as.text = (nib_str){joined, total};
    for (; t <= last; t++) {
        if (t->text.len)
            memcpy(joined, t->text.data, t->text.len);
        joined += t->text.len;
    }
    return NIB_OK;
}

static nib_status parse_name(parser *p, node **out)
{
    const token *t = p->next++;
    NIB_TRY(nib_parse_new(p, NODE_NAME, t->offset, out));
    (*out)->as.text = t->text;
    return NIB_OK;
}

nib_status nib_parse_primary(parser *p, node **out)
{
    switch (p->next->kind) {
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
        return parse_number(p, out);
    case TOKEN_STRING:
        return parse_string(p, out);
    case TOKEN_IDENTIFIER:
        return parse_name(p, out);
    default:
        break;
    }
    nib_status status;
    NIB_TRY(nib_parse_enter(p));
    if (nib_parse_is_operator(p, "("))
        status = parse_parentheses(p, out);
    else if (nib_parse_is_operator(p, "["))
        status = parse_list(p, out);
    else if (nib_parse_is_operator(p, "{"))
        status = parse_map(p, out);
    else
        status = nib_parse_unexpected(p, "an expression");
    p->depth--;
    return status;
}

static nib_status push_keyword(parser *p, arguments *args, nib_str name, node *value)
{
    if (args->keyword_count == args->keyword_capacity) {
        const size_t capacity = args->keyword_capacity ? args->keyword_capacity * 2 : 4;
        named_node *keywords = NIB_ARENA_ARRAY(p->arena, named_node, capacity);
        if (!keywords)
            return out_of_memory(p);
        if (args->keyword_count)
            memcpy(keywords, args->keywords, args->keyword_count * sizeof *keywords);
        args->keywords = keywords;
        args->keyword_capacity = capacity;
    }
    args->keywords[args->keyword_count++] = (named_node){name, value};
    return NIB_OK;
}

static nib_status parse_keyword(parser *p, node *call, arguments *args, const node *name)
{
    if (name->kind != NODE_NAME)
        return nib_parse_fail(p, name->offset, NIB_SYNTAX,
                              "a keyword argument needs a plain name in front of \"=\"");
    node *value = NULL;
    NIB_TRY(nib_parse_expression(p, &value));
    NIB_TRY(nib_parse_cover(p, call, value));
    return push_keyword(p, args, name->as.text, value);
}

static nib_status parse_positional(parser *p, node *call, arguments *args, node *value)
{
    if (args->keyword_count)
        return nib_parse_fail(p, value->offset, NIB_SYNTAX,
                              "positional arguments come before keyword arguments");
    if (args->spread)
        return nib_parse_fail(p, value->offset, NIB_SYNTAX,
                              "positional arguments do not follow \"*\" unpacking");
    NIB_TRY(nib_parse_cover(p, call, value));
    return push(p, &args->positional, value);
}

static nib_status parse_argument(parser *p, node *call, arguments *args)
{
    node *value = NULL;
    const uint32_t offset = p->next->offset;
    if (nib_parse_accept_operator(p, "*")) {
        if (args->spread)
            return nib_parse_fail(p, offset, NIB_SYNTAX,
                                  "only one \"*\" unpacking is allowed in a call");
        NIB_TRY(nib_parse_expression(p, &args->spread));
        return nib_parse_cover(p, call, args->spread);
    }
    NIB_TRY(nib_parse_expression(p, &value));
    if (nib_parse_accept_operator(p, "="))
        return parse_keyword(p, call, args, value);
    return parse_positional(p, call, args, value);
}

/* "(" args ")"; `call` is the node they belong to. */
nib_status nib_parse_arguments(parser *p, node *call, arguments **out)
{
    arguments *args = NIB_ARENA_NEW(p->arena, arguments);
    if (!args)
        return out_of_memory(p);
    *out = args;
    NIB_TRY(expect_operator(p, "("));
    while (!nib_parse_accept_operator(p, ")")) {
        if (nib_parse_accept_operator(p, "**")) {
            NIB_TRY(nib_parse_expression(p, &args->keyword_spread));
            NIB_TRY(nib_parse_cover(p, call, args->keyword_spread));
            nib_parse_accept_operator(p, ",");
            if (!nib_parse_accept_operator(p, ")"))
                return nib_parse_unexpected(p, "\")\": \"**\" unpacking is the last argument");
            return NIB_OK;
        }
        NIB_TRY(parse_argument(p, call, args));
        nib_parse_accept_operator(p, ",");
    }
    return NIB_OK;
}

nib_status nib_parse_call(parser *p, node *callee, node **out)
{
    node *call = NULL;
    NIB_TRY(nib_parse_new(p, NODE_CALL, callee->offset, &call));
    call->as.call.callee = callee;
    NIB_TRY(nib_parse_cover(p, call, callee));
    NIB_TRY(nib_parse_arguments(p, call, &call->as.call.arguments));
    *out = call;
    return NIB_OK;
}

static nib_status new_slice(parser *p, node *operand, node *const parts[3], uint32_t offset,
                            node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_SLICE, offset, out));
    (*out)->as.slice.operand = operand;
    (*out)->as.slice.start = parts[0];
    (*out)->as.slice.stop = parts[1];
    (*out)->as.slice.step = parts[2];
    NIB_TRY(nib_parse_cover(p, *out, operand));
    for (size_t i = 0; i < 3; i++)
        NIB_TRY(nib_parse_cover(p, *out, parts[i]));
    return NIB_OK;
}

static nib_status new_index(parser *p, node *operand, node *key, uint32_t offset, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_INDEX, offset, out));
    (*out)->as.index.operand = operand;
    (*out)->as.index.key = key;
    NIB_TRY(nib_parse_cover(p, *out, operand));
    return nib_parse_cover(p, *out, key);
}

/* As loose as the reference: each part is an expression, a ":" or both, so that [1:2 3] is a slice
 * with three parts, and without any ":" the first expression is the index. */
static nib_status parse_subscript(parser *p, node *operand, node **out)
{
    const uint32_t offset = p->next->offset;
    node *parts[3] = {NULL, NULL, NULL};
    size_t count = 0;
    bool slice = false;
    p->next++;
    while (!nib_parse_accept_operator(p, "]")) {
        node *part = NULL;
        if (!nib_parse_is_operator(p, ":"))
            NIB_TRY(nib_parse_expression(p, &part));
        if (count < 3)
            parts[count] = part;
        count++;
        if (nib_parse_accept_operator(p, ":"))
            slice = true;
    }
    if (count == 0)
        return nib_parse_fail(p, offset, NIB_SYNTAX,
                              "expected an index or a slice between [ and ]");
    if (slice && count > 3)
        return nib_parse_fail(p, offset, NIB_SYNTAX, "a slice has at most three parts");
    return slice ? new_slice(p, operand, parts, offset, out)
                 : new_index(p, operand, parts[0], offset, out);
}

static nib_status parse_dot(parser *p, node *operand, node **out)
{
    p->next++;
    node *key = NULL;
    NIB_TRY(nib_parse_primary(p, &key));
    if (key->kind == NODE_NUMBER && key->as.number_value.type == NIB_VALUE_INTEGER) {
        return new_index(p, operand, key, key->offset, out);
    } else if (key->kind == NODE_NAME) {
        NIB_TRY(nib_parse_new(p, NODE_ATTRIBUTE, key->offset, out));
        (*out)->as.applied.operand = operand;
        (*out)->as.applied.name = key->as.text;
    } else {
        return nib_parse_fail(p, key->offset, NIB_SYNTAX,
                              "expected a name or an integer after \".\"");
    }
    return nib_parse_cover(p, *out, operand);
}

static nib_status parse_postfix(parser *p, node **out)
{
    NIB_TRY(nib_parse_primary(p, out));
    for (;;) {
        if (nib_parse_is_operator(p, "."))
            NIB_TRY(parse_dot(p, *out, out));
        else if (nib_parse_is_operator(p, "["))
            NIB_TRY(parse_subscript(p, *out, out));
        else if (nib_parse_is_operator(p, "("))
            NIB_TRY(nib_parse_call(p, *out, out));
        else
            return NIB_OK;
    }
}

static bool at_sign(const parser *p)
{
    return p->next->kind == TOKEN_SIGN || nib_parse_is_operator(p, "-") ||
           nib_parse_is_operator(p, "+");
}

static nib_status parse_sign(parser *p, node **out)
{
    if (!at_sign(p))
        return parse_postfix(p, out);
    NIB_TRY(nib_parse_enter(p));
    const node_kind kind = p->next->text.data[0] == '-' ? NODE_NEGATE : NODE_PLUS;
    NIB_TRY(nib_parse_new(p, kind, p->next->offset, out));
    p->next++;
    NIB_TRY(parse_sign(p, &(*out)->as.operand));
    p->depth--;
    return nib_parse_cover(p, *out, (*out)->as.operand);
}

/* name or name(args) behind "|" and in a filter block; `operand` may be NULL in the latter. */
nib_status nib_parse_filter(parser *p, node_kind kind, node *operand, node **out)
{
    node *name = NULL;
    NIB_TRY(nib_parse_primary(p, &name));
    if (name->kind != NODE_NAME)
        return nib_parse_fail(p, name->offset, NIB_SYNTAX, "expected the name of a filter");
    NIB_TRY(nib_parse_new(p, kind, name->offset, out));
    (*out)->as.applied.operand = operand;
    (*out)->as.applied.name = name->as.text;
    NIB_TRY(nib_parse_cover(p, *out, operand));
    if (nib_parse_is_operator(p, "("))
        NIB_TRY(nib_parse_arguments(p, *out, &(*out)->as.applied.arguments));
    return NIB_OK;
}

static nib_status parse_filters(parser *p, node **out)
{
    NIB_TRY(parse_sign(p, out));
    while (nib_parse_accept_operator(p, "|"))
        NIB_TRY(nib_parse_filter(p, NODE_FILTER, *out, out));
    return NIB_OK;
}

static nib_status parse_tests(parser *p, node **out)
{
    NIB_TRY(parse_filters(p, out));
    while (nib_parse_accept_word(p, "is")) {
        node *test = NULL, *name = NULL;
        const bool negated = nib_parse_accept_word(p, "not");
        NIB_TRY(nib_parse_primary(p, &name));
        if (name->kind != NODE_NAME)
            return nib_parse_fail(p, name->offset, NIB_SYNTAX,
                                  "expected the name of a test after \"is\"");
        NIB_TRY(nib_parse_new(p, NODE_TEST, name->offset, &test));
        test->as.applied.operand = *out;
        test->as.applied.name = name->as.text;
        test->as.applied.negated = negated;
        NIB_TRY(nib_parse_cover(p, test, *out));
        *out = test;
    }
    return NIB_OK;
}

/* ---- binary operators ---- */

typedef struct operator_name {
    const char *text;
    binary_op op;
} operator_name;

static const operator_name compare_operators[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT},
                                                  {">", OP_GT},  {"<=", OP_LE}, {">=", OP_GE},
                                                  {NULL, OP_EQ}};
static const operator_name add_operators[] = {
    {"+", OP_ADD}, {"-", OP_SUB}, {"~", OP_CONCAT}, {NULL, OP_EQ}};
static const operator_name mul_operators[] = {
    {"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOOR_DIV}, {"%", OP_MOD}, {NULL, OP_EQ}};
static const operator_name pow_operators[] = {{"**", OP_POW}, {NULL, OP_EQ}};

static bool match_operator(const parser *p, const operator_name *names, binary_op *op)
{
    for (; names->text; names++) {
        if (nib_parse_is_operator(p, names->text)) {
            *op = names->op;
            return true;
        }
    }
    return false;
}

/* Add "op operand" to the chain that *left is, making it one first. */
static nib_status extend_chain(parser *p, node_kind kind, binary_op op, uint32_t offset,
                               node *operand, bool fresh, node **left)
{
    if (fresh) {
        node *n = NULL;
        NIB_TRY(nib_parse_new(p, kind, (*left)->offset, &n));
        n->as.chain = NIB_ARENA_NEW(p->arena, chain);
        if (!n->as.chain)
            return out_of_memory(p);
        n->as.chain->first = *left;
        NIB_TRY(nib_parse_cover(p, n, *left));
        *left = n;
    }
    chain *c = (*left)->as.chain;
    const size_t before = c->operands.capacity;
    NIB_TRY(nib_parse_cover(p, *left, operand));
    NIB_TRY(push(p, &c->operands, operand));
    if (c->operands.capacity != before) {
        binary_op *ops = NIB_ARENA_ARRAY(p->arena, binary_op, c->operands.capacity);
        uint32_t *offsets = NIB_ARENA_ARRAY(p->arena, uint32_t, c->operands.capacity);
        if (!ops || !offsets)
            return out_of_memory(p);
        for (size_t i = 0; i + 1 < c->operands.count; i++) {
            ops[i] = c->ops[i];
            offsets[i] = c->offsets[i];
        }
        c->ops = ops;
        c->offsets = offsets;
    }
    c->ops[c->operands.count - 1] = op;
    c->offsets[c->operands.count - 1] = offset;
    return NIB_OK;
}

static nib_status parse_binary(parser *p, const operator_name *names,
                               nib_status (*parse_operand)(parser *, node **), node **out)
{
    NIB_TRY(parse_operand(p, out));
    binary_op op;
    for (bool fresh = true; match_operator(p, names, &op); fresh = false) {
        const uint32_t offset = p->next->offset;
        p->next++;
        node *operand = NULL;
        NIB_TRY(parse_operand(p, &operand));
        NIB_TRY(extend_chain(p, NODE_BINARY, op, offset, operand, fresh, out));
    }
    return NIB_OK;
}

static nib_status parse_pow(parser *p, node **out)
{
    return parse_binary(p, pow_operators, parse_tests, out);
}

static nib_status parse_mul(parser *p, node **out)
{
    return parse_binary(p, mul_operators, parse_pow, out);
}

static nib_status parse_add(parser *p, node **out)
{
    return parse_binary(p, add_operators, parse_mul, out);
}

/* Comparisons and "in", "not in": one level, from the left. */
static bool match_comparison(parser *p, binary_op *op)
{
    if (match_operator(p, compare_operators, op)) {
        p->next++;
        return true;
    }
    if (nib_parse_accept_word(p, "in")) {
        *op = OP_IN;
        return true;
    }
    if (is_word(p, "not") && p->next[1].kind == TOKEN_IDENTIFIER &&
        nib_str_is(p->next[1].text, "in")) {
        p->next += 2;
        *op = OP_NOT_IN;
        return true;
    }
    return false;
}

static nib_status parse_comparison(parser *p, node **out)
{
    NIB_TRY(parse_add(p, out));
    for (bool fresh = true;; fresh = false) {
        const uint32_t offset = p->next->offset;
        binary_op op;
        if (!match_comparison(p, &op))
            return NIB_OK;
        node *operand = NULL;
        NIB_TRY(parse_add(p, &operand));
        NIB_TRY(extend_chain(p, NODE_BINARY, op, offset, operand, fresh, out));
    }
}

static nib_status parse_not(parser *p, node **out)
{
    if (!is_word(p, "not"))
        return parse_comparison(p, out);
    NIB_TRY(nib_parse_enter(p));
    NIB_TRY(nib_parse_new(p, NODE_NOT, p->next->offset, out));
    p->next++;
    NIB_TRY(parse_not(p, &(*out)->as.operand));
    p->depth--;
    return nib_parse_cover(p, *out, (*out)->as.operand);
}

static nib_status parse_word_chain(parser *p, const char *word, node_kind kind,
                                   nib_status (*parse_operand)(parser *, node **), node **out)
{
    NIB_TRY(parse_operand(p, out));
    for (bool fresh = true; is_word(p, word); fresh = false) {
        const uint32_t offset = p->next->offset;
        p->next++;
        node *operand = NULL;
        NIB_TRY(parse_operand(p, &operand));
        NIB_TRY(extend_chain(p, kind, OP_EQ, offset, operand, fresh, out));
    }
    return NIB_OK;
}

static nib_status parse_and(parser *p, node **out)
{
    return parse_word_chain(p, "and", NODE_AND, parse_not, out);
}

static nib_status parse_or(parser *p, node **out)
{
    return parse_word_chain(p, "or", NODE_OR, parse_and, out);
}

/* expr := or_expr [ "if" or_expr [ "else" expr ] ] */
nib_status nib_parse_expression(parser *p, node **out)
{
    NIB_TRY(nib_parse_enter(p));
    NIB_TRY(parse_or(p, out));
    if (nib_parse_accept_word(p, "if")) {
        node *choice = NULL;
        NIB_TRY(nib_parse_new(p, NODE_SELECT, (*out)->offset, &choice));
        choice->as.choice.value = *out;
        NIB_TRY(parse_or(p, &choice->as.choice.condition));
        if (nib_parse_accept_word(p, "else")) {
            choice->kind = NODE_CHOICE;
            NIB_TRY(nib_parse_expression(p, &choice->as.choice.other));
        }
        NIB_TRY(nib_parse_cover(p, choice, choice->as.choice.value));
        NIB_TRY(nib_parse_cover(p, choice, choice->as.choice.condition));
        NIB_TRY(nib_parse_cover(p, choice, choice->as.choice.other));
        *out = choice;
    }
    p->depth--;
    return NIB_OK;
}
