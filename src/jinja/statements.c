/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements and whole templates to trees: format 4.3.
 */
#include "jinja/parser.h"

static nib_status out_of_memory(parser *p)
{
    return nib_fail_memory(p->error);
}

static nib_status close_statement(parser *p)
{
    return nib_parse_expect(p, TOKEN_CLOSE_STATEMENT, "\"%}\"");
}

static nib_status parse_node(parser *p, node **out);

static bool at_statement(const parser *p, const char *word)
{
    return p->next->kind == TOKEN_OPEN_STATEMENT && p->next[1].kind == TOKEN_IDENTIFIER &&
           nib_str_is(p->next[1].text, word);
}

static bool at_any(const parser *p, const char *const *ends)
{
    for (; *ends; ends++) {
        if (at_statement(p, *ends))
            return true;
    }
    return false;
}

/* Everything up to one of the statements named in `ends`; the caller takes that one. */
static nib_status parse_block(parser *p, const token *opening, const char *const *ends, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_BLOCK, p->next->offset, out));
    while (!at_any(p, ends)) {
        if (p->next->kind == TOKEN_END)
            return nib_parse_fail(p, opening->offset, NIB_SYNTAX, "\"%.*s\" has no \"%s\"",
                                  NIB_STR_ARG(opening->text), ends[0]);
        node *item = NULL;
        NIB_TRY(parse_node(p, &item));
        NIB_TRY(nib_parse_push(p, *out, item));
    }
    return NIB_OK;
}

/* {% end... %} */
static nib_status take_end(parser *p)
{
    p->next += 2;
    return close_statement(p);
}

static nib_status parse_if(parser *p, const token *opening, node **out)
{
    static const char *const ends[] = {"endif", "else", "elif", NULL};
    static const char *const last[] = {"endif", NULL};
    NIB_TRY(nib_parse_new(p, NODE_IF, opening->offset, out));
    bool more = true;
    while (more) {
        node *condition = NULL, *block = NULL;
        NIB_TRY(nib_parse_expression(p, &condition));
        NIB_TRY(close_statement(p));
        NIB_TRY(parse_block(p, opening, ends, &block));
        NIB_TRY(nib_parse_push(p, *out, condition));
        NIB_TRY(nib_parse_push(p, *out, block));
        more = at_statement(p, "elif");
        p->next += more ? 2 : 0;
    }
    if (at_statement(p, "else")) {
        node *block = NULL;
        NIB_TRY(take_end(p));
        NIB_TRY(parse_block(p, opening, last, &block));
        NIB_TRY(nib_parse_push(p, *out, block));
    }
    return take_end(p);
}

static nib_status parse_for(parser *p, const token *opening, node **out)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    static const char *const last[] = {"endfor", NULL};
    node *n = NULL;
    NIB_TRY(nib_parse_new(p, NODE_FOR, opening->offset, &n));
    NIB_TRY(nib_parse_sequence(p, nib_parse_primary, &n->as.loop.target));
    if (n->as.loop.target->kind != NODE_NAME && n->as.loop.target->kind != NODE_TUPLE)
        return nib_parse_fail(p, n->as.loop.target->offset, NIB_SYNTAX,
                              "a loop variable is a name or names with commas");
    if (!nib_parse_accept_word(p, "in"))
        return nib_parse_unexpected(p, "\"in\" after the loop variable");
    NIB_TRY(nib_parse_expression(p, &n->as.loop.iterable));
    NIB_TRY(close_statement(p));
    NIB_TRY(parse_block(p, opening, ends, &n->as.loop.body));
    NIB_TRY(nib_parse_cover(p, n, n->as.loop.iterable));
    NIB_TRY(nib_parse_cover(p, n, n->as.loop.body));
    if (at_statement(p, "else")) {
        NIB_TRY(take_end(p));
        NIB_TRY(parse_block(p, opening, last, &n->as.loop.otherwise));
        NIB_TRY(nib_parse_cover(p, n, n->as.loop.otherwise));
    }
    *out = n;
    return take_end(p);
}

static nib_status parse_set(parser *p, const token *opening, node **out)
{
    static const char *const ends[] = {"endset", NULL};
    node *n = NULL;
    NIB_TRY(nib_parse_new(p, NODE_SET, opening->offset, &n));
    *out = n;
    NIB_TRY(nib_parse_sequence(p, nib_parse_expression, &n->as.set.target));
    NIB_TRY(nib_parse_cover(p, n, n->as.set.target));
    if (nib_parse_accept_operator(p, "=")) {
        NIB_TRY(nib_parse_sequence(p, nib_parse_expression, &n->as.set.value));
        NIB_TRY(nib_parse_cover(p, n, n->as.set.value));
        return close_statement(p);
    }
    NIB_TRY(close_statement(p));
    NIB_TRY(parse_block(p, opening, ends, &n->as.set.body));
    NIB_TRY(nib_parse_cover(p, n, n->as.set.body));
    return take_end(p);
}

/* Call arguments, read as the parameters of a macro. */
static nib_status check_parameters(parser *p, uint32_t offset, const arguments *args, macro *m)
{
    if (args->spread || args->keyword_spread)
        return nib_parse_fail(p, offset, NIB_SYNTAX,
                              "unpacking is not allowed in the parameters of a macro");
    m->parameter_count = args->positional.count + args->keyword_count;
    m->parameters = NIB_ARENA_ARRAY(p->arena, named_node, m->parameter_count);
    if (!m->parameters)
        return out_of_memory(p);
    for (size_t i = 0; i < m->parameter_count; i++) {
        if (i >= args->positional.count) {
            m->parameters[i] = args->keywords[i - args->positional.count];
        } else {
            const node *name = args->positional.items[i];
            if (name->kind != NODE_NAME)
                return nib_parse_fail(p, name->offset, NIB_SYNTAX,
                                      "a parameter of a macro is a name");
            m->parameters[i].name = name->as.text;
        }
        for (size_t k = 0; k < i; k++) {
            if (nib_str_eq(m->parameters[k].name, m->parameters[i].name))
                return nib_parse_fail(p, offset, NIB_SYNTAX, "parameter \"%.*s\" is named twice",
                                      NIB_STR_ARG(m->parameters[i].name));
        }
    }
    return NIB_OK;
}

static void note_special_name(void *user, const node *name, bool tested)
{
    macro *m = user;
    (void)tested;
    m->uses_varargs = m->uses_varargs || nib_str_is(name->as.text, "varargs");
    m->uses_kwargs = m->uses_kwargs || nib_str_is(name->as.text, "kwargs");
}

static nib_status parse_parameters(parser *p, node *n, macro *m)
{
    const uint32_t offset = p->next->offset;
    arguments *args;
    NIB_TRY(nib_parse_arguments(p, n, &args));
    return check_parameters(p, offset, args, m);
}

static nib_status parse_macro_body(parser *p, const token *opening, const char *const *ends,
                                   node *n)
{
    macro *m = n->as.macro;
    NIB_TRY(close_statement(p));
    NIB_TRY(parse_block(p, opening, ends, &m->body));
    NIB_TRY(nib_parse_cover(p, n, m->body));
    nib_jinja_visit_names(m->body, &(name_visitor){note_special_name, m});
    for (size_t i = 0; i < m->parameter_count; i++) {
        m->uses_varargs = m->uses_varargs && !nib_str_is(m->parameters[i].name, "varargs");
        m->uses_kwargs = m->uses_kwargs && !nib_str_is(m->parameters[i].name, "kwargs");
    }
    return take_end(p);
}

static nib_status new_macro(parser *p, node_kind kind, const token *opening, node **out)
{
    NIB_TRY(nib_parse_new(p, kind, opening->offset, out));
    (*out)->as.macro = NIB_ARENA_NEW(p->arena, macro);
    return (*out)->as.macro ? NIB_OK : out_of_memory(p);
}

static nib_status parse_macro(parser *p, const token *opening, node **out)
{
    static const char *const ends[] = {"endmacro", NULL};
    NIB_TRY(new_macro(p, NODE_MACRO, opening, out));
    if (p->next->kind != TOKEN_IDENTIFIER)
        return nib_parse_unexpected(p, "the name of the macro");
    (*out)->as.macro->name = p->next->text;
    p->next++;
    NIB_TRY(parse_parameters(p, *out, (*out)->as.macro));
    return parse_macro_body(p, opening, ends, *out);
}

/* {% call(parameters) name(arguments) %} body {% endcall %} */
static nib_status parse_call_block(parser *p, const token *opening, node **out)
{
    static const char *const ends[] = {"endcall", NULL};
    node *callee = NULL;
    NIB_TRY(new_macro(p, NODE_CALL_BLOCK, opening, out));
    macro *m = (*out)->as.macro;
    if (nib_parse_is_operator(p, "("))
        NIB_TRY(parse_parameters(p, *out, m));
    if (p->next->kind != TOKEN_IDENTIFIER)
        return nib_parse_unexpected(p, "the name of a macro");
    NIB_TRY(nib_parse_primary(p, &callee));
    NIB_TRY(nib_parse_call(p, callee, &m->call));
    NIB_TRY(nib_parse_cover(p, *out, m->call));
    return parse_macro_body(p, opening, ends, *out);
}

static nib_status parse_filter_block(parser *p, const token *opening, node **out)
{
    static const char *const ends[] = {"endfilter", NULL};
    NIB_TRY(nib_parse_filter(p, NODE_FILTER_BLOCK, NULL, out));
    NIB_TRY(close_statement(p));
    NIB_TRY(parse_block(p, opening, ends, &(*out)->as.applied.operand));
    NIB_TRY(nib_parse_cover(p, *out, (*out)->as.applied.operand));
    return take_end(p);
}

static nib_status parse_break(parser *p, const token *opening, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_BREAK, opening->offset, out));
    return close_statement(p);
}

static nib_status parse_continue(parser *p, const token *opening, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_CONTINUE, opening->offset, out));
    return close_statement(p);
}

typedef struct statement {
    const char *word;
    nib_status (*parse)(parser *p, const token *opening, node **out);
} statement;

static const statement statements[] = {
    {"if", parse_if},       {"for", parse_for},           {"set", parse_set},
    {"macro", parse_macro}, {"call", parse_call_block},   {"filter", parse_filter_block},
    {"break", parse_break}, {"continue", parse_continue},
};

static nib_status parse_statement(parser *p, node **out)
{
    p->next++;
    const token *word = p->next;
    if (word->kind != TOKEN_IDENTIFIER)
        return nib_parse_unexpected(p, "a statement");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (nib_str_is(word->text, statements[i].word)) {
            p->next++;
            return statements[i].parse(p, word, out);
        }
    }
    if (nib_str_is(word->text, "include"))
        return nib_parse_fail(
            p, word->offset, NIB_SYNTAX,
            "an include is written {%% include \"path\" %%} exactly, without dashes or "
            "an expression");
    return nib_parse_fail(p, word->offset, NIB_SYNTAX,
                          "\"%.*s\" is not a statement that can stand here",
                          NIB_STR_ARG(word->text));
}

static nib_status parse_print(parser *p, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_PRINT, p->next->offset, out));
    p->next++;
    NIB_TRY(nib_parse_expression(p, &(*out)->as.operand));
    NIB_TRY(nib_parse_cover(p, *out, (*out)->as.operand));
    return nib_parse_expect(p, TOKEN_CLOSE_EXPRESSION, "\"}}\"");
}

static nib_status parse_text(parser *p, node **out)
{
    NIB_TRY(nib_parse_new(p, NODE_TEXT, p->next->offset, out));
    (*out)->as.text = p->next->text;
    p->next++;
    return NIB_OK;
}

static nib_status parse_node(parser *p, node **out)
{
    NIB_TRY(nib_parse_enter(p));
    nib_status status;
    switch (p->next->kind) {
    case TOKEN_TEXT:
        status = parse_text(p, out);
        break;
    case TOKEN_OPEN_EXPRESSION:
        status = parse_print(p, out);
        break;
    default:
        status = parse_statement(p, out);
        break;
    }
    p->depth--;
    return status;
}

nib_status nib_jinja_parse(nib_arena *arena, const nib_program *program, const token *tokens,
                           node **out, nib_error *error)
{
    parser p = {.arena = arena, .error = error, .program = program, .next = tokens};
    NIB_TRY(nib_parse_new(&p, NODE_BLOCK, 0, out));
    while (p.next->kind != TOKEN_END) {
        node *item = NULL;
        NIB_TRY(parse_node(&p, &item));
        NIB_TRY(nib_parse_push(&p, *out, item));
    }
    return NIB_OK;
}
