/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a condition is not true. Manifests bundle dozens of checks into one derive ("qkvShapeOk"), so
 * its name alone tells a caller nothing: this finds the first false term of the `and` chain and
 * shows its values and tensors. It works on the text, and gives up at anything that is not a plain
 * chain.
 */
#include <math.h>

#include "plan/planner.h"
#include "tensor/tensor.h"
#include "value/json.h"

enum { MAX_EXPLAIN_DEPTH = 8, MAX_TERM_TEXT = 240, MAX_TENSOR_NOTES = 3 };

typedef struct explainer {
    nib_planner *p;
    const nib_scope *scope;
    nib_buf *out;
} explainer;

/* ---- looking at expression text ---- */

static nib_str trim(nib_str text)
{
    while (text.len && (text.data[0] == ' ' || text.data[0] == '\n' || text.data[0] == '\t')) {
        text.data++;
        text.len--;
    }
    while (text.len && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\n' ||
                        text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool is_word_char(char c)
{
    return nib_is_alpha(c) || nib_is_digit(c) || c == '_';
}

/* Walks the bytes that stand outside strings and brackets. */
typedef struct top_level {
    nib_str text;
    size_t at; /* of the current byte */
    size_t depth;
    char quote;
} top_level;

static bool next_byte(top_level *walk)
{
    for (; walk->at < walk->text.len; walk->at++) {
        const char c = walk->text.data[walk->at];
        if (walk->quote) {
            if (c == '\\')
                walk->at++;
            else if (c == walk->quote)
                walk->quote = '\0';
        } else if (c == '"' || c == '\'') {
            walk->quote = c;
        } else if (c == '(' || c == '[' || c == '{') {
            walk->depth++;
        } else if (c == ')' || c == ']' || c == '}') {
            walk->depth -= walk->depth ? 1 : 0;
        } else if (walk->depth == 0) {
            return true;
        }
    }
    return false;
}

static bool word_at(nib_str text, size_t at, nib_str word)
{
    const nib_str rest = {text.data + at, text.len - at};
    return nib_str_starts(rest, word) && (at == 0 || !is_word_char(text.data[at - 1])) &&
           (rest.len == word.len || !is_word_char(rest.data[word.len]));
}

/* Position of the first top-level `word` from `from` on; the text's length when there is none. */
static size_t find_word(nib_str text, size_t from, nib_str word)
{
    top_level walk = {.text = text};
    for (; next_byte(&walk); walk.at++) {
        if (walk.at >= from && word_at(text, walk.at, word))
            return walk.at;
    }
    return text.len;
}

static bool has_word(nib_str text, nib_str word)
{
    return find_word(text, 0, word) < text.len;
}

typedef struct comparison {
    nib_str left, op, right;
} comparison;

/* Split at the only top-level comparison operator. */
static bool split_comparison(nib_str text, comparison *out)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">"};
    size_t found = 0;
    if (has_word(text, NIB_STR("not")) || has_word(text, NIB_STR("in")) ||
        has_word(text, NIB_STR("is")))
        return false;
    top_level walk = {.text = text};
    while (next_byte(&walk)) {
        size_t step = 1;
        for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
            const nib_str op = nib_str_from(operators[i]);
            const nib_str rest = {text.data + walk.at, text.len - walk.at};
            if (!nib_str_starts(rest, op))
                continue;
            out->left = trim((nib_str){text.data, walk.at});
            out->op = op;
            out->right = trim((nib_str){rest.data + op.len, rest.len - op.len});
            step = op.len;
            found++;
            break;
        }
        walk.at += step;
    }
    return found == 1 && out->left.len && out->right.len;
}

/* ---- evaluating parts ---- */

/* Evaluate some text, without a trace of failures. */
static bool eval_text(explainer *e, nib_str text, nib_value *out)
{
    nib_planner *p = e->p;
    nib_error *outer = p->error;
    nib_expr expr;
    p->error = NULL;
    const bool ok = nib_expr_compile(&p->scratch, text, &expr, NULL) == NIB_OK &&
                    nib_planner_eval(p, &expr, e->scope, out) == NIB_OK;
    p->error = outer;
    return ok;
}

/* As `and` sees it (format 3.4). */
static bool is_truthy(nib_value value)
{
    switch (value.type) {
    case NIB_VALUE_BOOL:
        return value.as.boolean;
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        return value.as.number != 0 && !isnan(value.as.number);
    case NIB_VALUE_STRING:
        return value.as.string.len > 0;
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
        return value.as.list->count > 0;
    case NIB_VALUE_MAP:
        return value.as.map->count > 0;
    case NIB_VALUE_UNDEFINED:
    case NIB_VALUE_NULL:
        return false;
    default:
        return true;
    }
}

static const nib_expr *derive_expr(const explainer *e, nib_str name)
{
    const nib_derives *derives = &e->p->contract->derive;
    for (size_t i = 0; i < derives->count; i++) {
        const nib_derive *derive = &derives->items[i];
        if (nib_str_eq(derive->name, name) && derive->node.kind == NIB_DERIVE_EXPR)
            return &derive->node.expr;
    }
    return NULL;
}

/* ---- writing ---- */

static void write_term(nib_buf *out, nib_str text)
{
    if (text.len > MAX_TERM_TEXT)
        nib_buf_printf(out, "`%.*s...`", MAX_TERM_TEXT, text.data);
    else
        nib_buf_printf(out, "`%.*s`", NIB_STR_ARG(text));
}

static bool is_scalar(nib_value value)
{
    return nib_value_is_number(value) || value.type == NIB_VALUE_STRING ||
           value.type == NIB_VALUE_BOOL || nib_value_is_absent(value);
}

static void write_values(explainer *e, nib_str term)
{
    comparison parts = {0};
    nib_value left, right;
    if (!split_comparison(term, &parts) || !eval_text(e, parts.left, &left) || !is_scalar(left))
        return;
    const nib_label left_text = nib_value_label(left);
    if (!eval_text(e, parts.right, &right) || !is_scalar(right))
        return;
    nib_buf_printf(e->out, ": %s %.*s %s", left_text.text, NIB_STR_ARG(parts.op),
                   nib_value_label(right).text);
}

/* Both lists of a plain sameShape(a, b). */
static void write_shapes(explainer *e, nib_str term)
{
    const nib_str call = NIB_STR("sameShape(");
    if (!nib_str_starts(term, call) || term.data[term.len - 1] != ')')
        return;
    const nib_str inner = {term.data + call.len, term.len - call.len - 1};
    top_level walk = {.text = inner};
    while (next_byte(&walk) && inner.data[walk.at] != ',')
        walk.at++;
    if (walk.at >= inner.len)
        return;
    const nib_str sides[2] = {{inner.data, walk.at},
                              {inner.data + walk.at + 1, inner.len - walk.at - 1}};
    for (size_t i = 0; i < 2; i++) {
        nib_value value;
        if (!eval_text(e, trim(sides[i]), &value) || value.type != NIB_VALUE_LIST)
            return;
        nib_buf_puts(e->out, i ? " and " : ": ");
        nib_json_write(e->out, value, (nib_json_style){0});
    }
}

/* True when the text reads shapes.NAME, ranks.NAME, tensorDtypes.NAME or present.NAME. */
static bool mentions(nib_str text, nib_str name)
{
    static const char *const namespaces[] = {"shapes.", "ranks.", "tensorDtypes.", "present."};
    for (size_t at = 0; at < text.len; at++) {
        for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++) {
            const nib_str prefix = nib_str_from(namespaces[i]);
            if (nib_str_starts((nib_str){text.data + at, text.len - at}, prefix) &&
                word_at(text, at + prefix.len, name))
                return true;
        }
    }
    return false;
}

static bool mentions_port(nib_str text, const nib_port *port)
{
    bool found = mentions(text, port->key);
    for (size_t i = 0; i < port->alias_count; i++)
        found = found || mentions(text, port->aliases[i]);
    return found;
}

/* Directly, or in a derive that the term names. */
static bool term_uses_port(const explainer *e, nib_str term, const nib_port *port)
{
    if (mentions_port(term, port))
        return true;
    const nib_derives *derives = &e->p->contract->derive;
    for (size_t i = 0; i < derives->count; i++) {
        const nib_expr *expr = &derives->items[i].node.expr;
        if (derives->items[i].node.kind == NIB_DERIVE_EXPR &&
            has_word(term, derives->items[i].name) && mentions_port(expr->text, port))
            return true;
    }
    return false;
}

static void write_tensors(explainer *e, nib_str term)
{
    unsigned notes = 0;
    for (size_t i = 0; i < e->p->contract->port_count && notes < MAX_TENSOR_NOTES; i++) {
        const nib_operand *operand = &e->p->operands[i];
        if (!term_uses_port(e, term, operand->port))
            continue;
        char text[NIB_DESC_TEXT_BYTES] = "absent";
        if (operand->given || operand->produced)
            nib_tensor_desc_format(&operand->desc, text, sizeof text);
        nib_buf_printf(e->out, "; %s is %s", nib_port_label(operand->port).text, text);
        notes++;
    }
}

static void write_leaf(explainer *e, nib_str term, bool known)
{
    if (!known)
        write_term(e->out, term);
    write_values(e, term);
    write_shapes(e, term);
    write_tensors(e, term);
}

/* The first term of the chain that is not true; empty when the text is no chain or every term
 * holds. */
static nib_str failing_term(explainer *e, nib_str text)
{
    const nib_str word = NIB_STR("and");
    const nib_str none = {text.data, 0};
    if (has_word(text, NIB_STR("if")) || has_word(text, NIB_STR("or")) || !has_word(text, word))
        return none;
    for (size_t from = 0; from < text.len;) {
        const size_t end = find_word(text, from, word);
        const nib_str term = trim((nib_str){text.data + from, end - from});
        nib_value value;
        if (!eval_text(e, term, &value) || !is_truthy(value))
            return term;
        from = end + word.len;
    }
    return none;
}

/* `known`: the text has been shown already. */
static void explain(explainer *e, nib_str text, bool known, unsigned depth)
{
    text = trim(text);
    const nib_expr *named = nib_str_is_identifier(text) ? derive_expr(e, text) : NULL;
    if (named && depth < MAX_EXPLAIN_DEPTH) {
        if (!known)
            nib_buf_printf(e->out, "%.*s: ", NIB_STR_ARG(text));
        explain(e, named->text, false, depth + 1);
        return;
    }
    const nib_str term = failing_term(e, text);
    if (term.len && depth < MAX_EXPLAIN_DEPTH)
        explain(e, term, false, depth + 1);
    else
        write_leaf(e, text, known);
}

void nib_planner_explain(nib_planner *p, const nib_scope *scope, nib_str clause, nib_buf *out)
{
    nib_buf text;
    nib_buf_init(&text, out->allocator, 0);
    explain(&(explainer){.p = p, .scope = scope, .out = &text}, clause, true, 0);
    /* what continues the clause itself begins with its values or tensors */
    const char *start = text.data ? text.data : "";
    while (*start == ':' || *start == ';' || *start == ' ')
        start++;
    if (*start)
        nib_buf_printf(out, " (%s)", start);
    if (text.status == NIB_OUT_OF_MEMORY)
        out->status = text.status;
    nib_buf_free(&text);
}

/* ---- ranks and shapes ---- */

/* A declared rank is documentation and not enforced (format 2.A.3), but a good hint when nothing
 * fits. */
void nib_planner_explain_rank(nib_planner *p, const nib_scope *scope, const nib_operand *operand,
                              nib_buf *out)
{
    nib_expr expr;
    nib_value value;
    nib_error *outer = p->error;
    if (!operand->given || operand->port->rank_text.len == 0)
        return;
    p->error = NULL;
    const bool known =
        nib_expr_compile(&p->scratch, operand->port->rank_text, &expr, NULL) == NIB_OK &&
        nib_planner_eval(p, &expr, scope, &value) == NIB_OK && nib_value_is_number(value);
    p->error = outer;
    if (known && value.as.number != (double)operand->desc.rank)
        nib_buf_printf(out, "%s%s has rank %u, it is declared with rank %s", out->len ? ", " : "",
                       nib_port_label(operand->port).text, (unsigned)operand->desc.rank,
                       nib_value_label(value).text);
}

/* The tensor's name in the rule itself, or in a derive that the rule names. */
static bool rule_reads(const nib_planner *p, const nib_shape_rule *rule, const nib_port *port)
{
    const nib_derives *derives = &p->contract->derive;
    for (size_t i = 0; i < rule->count; i++) {
        size_t count = 0;
        const nib_free_name *names = nib_jinja_free_names(rule->items[i].program, &count);
        if (mentions_port(rule->items[i].text, port))
            return true;
        for (size_t n = 0; n < count; n++) {
            for (size_t d = 0; d < derives->count; d++) {
                if (derives->items[d].node.kind == NIB_DERIVE_EXPR &&
                    nib_str_eq(derives->items[d].name, names[n].name) &&
                    mentions_port(derives->items[d].node.expr.text, port))
                    return true;
            }
        }
    }
    return false;
}

static void write_shape_notes(nib_planner *p, const nib_scope *scope, const nib_shape_rule *rule,
                              nib_buf *ranks, nib_buf *tensors)
{
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        char text[NIB_DESC_TEXT_BYTES];
        if (!operand->given || !rule_reads(p, rule, operand->port))
            continue;
        nib_planner_explain_rank(p, scope, operand, ranks);
        nib_tensor_desc_format(&operand->desc, text, sizeof text);
        nib_buf_printf(tensors, "; %s is %s, rank %u", nib_port_label(operand->port).text, text,
                       (unsigned)operand->desc.rank);
    }
}

nib_status nib_planner_explain_shape(nib_planner *p, const nib_scope *scope,
                                     const nib_shape_rule *rule, const nib_error *inner)
{
    nib_buf ranks, tensors;
    if (!p->error || inner->code == NIB_OUT_OF_MEMORY)
        return nib_fail(p->error, inner->code, "%s", inner->message);
    nib_buf_init(&ranks, p->arena->allocator, 0);
    nib_buf_init(&tensors, p->arena->allocator, 0);
    write_shape_notes(p, scope, rule, &ranks, &tensors);
    nib_status status = inner->code;
    if (ranks.len)
        status = nib_fail(p->error, NIB_REQUEST, "%.400s (%.1200s)", ranks.data, inner->message);
    else if (tensors.len)
        status = nib_fail(p->error, status, "%.1200s%.600s", inner->message, tensors.data);
    else if (p->error->code == NIB_OK)
        *p->error = *inner;
    nib_buf_free(&ranks);
    nib_buf_free(&tensors);
    return status;
}
