/* SPDX-License-Identifier: Apache-2.0
 *
 * int64 elements travel as pairs of words, and WGSL that computes with such a pair is wrong. This
 * refuses the forms that a textual check can see (package format 7.7, step 5): whole elements may
 * be copied and selected, nothing else.
 */
#include "plan/planner.h"
#include "value/number.h"

typedef enum token_kind { TOKEN_WORD, TOKEN_MARK, TOKEN_OTHER } token_kind;

/* A MARK stands for a whole int64 element. */
typedef struct token {
    token_kind kind;
    nib_str text;
    bool indexed; /* a word whose [...] was dropped */
} token;

typedef struct tokens {
    token *items;
    size_t count;
} tokens;

enum { MAX_PROPAGATIONS = 8 };

static bool is_word_char(char c)
{
    return nib_is_alpha(c) || nib_is_digit(c) || c == '_';
}

/* Operators of two or three characters are one token. */
static size_t operator_length(nib_str rest)
{
    static const char *const operators[] = {"<<=", ">>=", "==", "!=", "<=", ">=", "<<",
                                            ">>",  "&&",  "||", "+=", "-=", "*=", "/=",
                                            "%=",  "&=",  "|=", "^=", "++", "--", "->"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        const nib_str op = nib_str_from(operators[i]);
        if (nib_str_starts(rest, op))
            return op.len;
    }
    return 1;
}

static bool tokenize(nib_arena *arena, nib_str text, tokens *out)
{
    *out = (tokens){.items = NIB_ARENA_ARRAY(arena, token, text.len)};
    for (size_t at = 0; out->items && at < text.len;) {
        const nib_str rest = {text.data + at, text.len - at};
        size_t length = nib_js_space_at_start(rest);
        if (length == 0) {
            const bool word = is_word_char(rest.data[0]);
            while (word && length < rest.len && is_word_char(rest.data[length]))
                length++;
            if (!word)
                length = operator_length(rest);
            out->items[out->count++] =
                (token){word ? TOKEN_WORD : TOKEN_OTHER, {rest.data, length}, false};
        }
        at += length;
    }
    return out->items != NULL;
}

static bool is_text(const tokens *t, size_t at, const char *text)
{
    return at < t->count && t->items[at].kind != TOKEN_MARK && nib_str_is(t->items[at].text, text);
}

static bool is_mark(const tokens *t, size_t at)
{
    return at < t->count && t->items[at].kind == TOKEN_MARK;
}

/* Index behind the bracket that closes the one at `open`. */
static size_t skip_index(const tokens *t, size_t open)
{
    size_t depth = 0;
    for (size_t i = open; i < t->count; i++) {
        if (is_text(t, i, "["))
            depth++;
        else if (is_text(t, i, "]") && --depth == 0)
            return i + 1;
    }
    return t->count;
}

static bool is_int64_binding(const nib_plan *plan, const nib_plan_binding *bound)
{
    return bound->kind == NIB_RESOURCE_TENSOR && plan->tensors[bound->index].storage == NIB_INT64;
}

static bool names_int64(const nib_plan *plan, const nib_plan_pass *pass, nib_str name)
{
    for (size_t i = 0; i < pass->binding_count; i++) {
        if (is_int64_binding(plan, &pass->bindings[i]) &&
            nib_str_eq(pass->bindings[i].binding->name, name))
            return true;
    }
    return false;
}

/* NAME[...] of an int64 binding becomes a mark; any other x[...] becomes the word x. */
static void collapse_indices(const nib_plan *plan, const nib_plan_pass *pass, tokens *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count;) {
        token item = t->items[i];
        const bool indexed = item.kind == TOKEN_WORD && is_text(t, i + 1, "[");
        if (indexed && names_int64(plan, pass, item.text))
            item.kind = TOKEN_MARK;
        else
            item.indexed = indexed;
        i = indexed ? skip_index(t, i + 1) : i + 1;
        t->items[kept++] = item;
    }
    t->count = kept;
}

/* A word that a "(" after it belongs to. */
static bool is_callee(const tokens *t, size_t at)
{
    static const char *const keywords[] = {"return", "if", "while", "switch", "else"};
    if (is_text(t, at, ">"))
        return true;
    if (t->items[at].kind != TOKEN_WORD)
        return false;
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (is_text(t, at, keywords[i]))
            return false;
    }
    return true;
}

static void drop_parentheses(tokens *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        t->items[kept++] = t->items[i];
        const tokens done = {t->items, kept};
        while (kept >= 2 && is_mark(&done, kept - 1) && is_text(&done, kept - 2, "(") &&
               is_text(t, i + 1, ")") && (kept < 3 || !is_callee(&done, kept - 3))) {
            t->items[kept - 2] = t->items[kept - 1];
            kept--;
            i++;
        }
    }
    t->count = kept;
}

/* `let NAME = MARK;`, with an optional type: the index of NAME, or 0. */
static size_t marked_name(const tokens *t, size_t at)
{
    if (!is_text(t, at, "let") && !is_text(t, at, "var"))
        return 0;
    size_t name = at + 1;
    if (is_text(t, name, "<")) {
        while (name < t->count && !is_text(t, name, ">"))
            name++;
        name++;
    }
    size_t i = name + 1;
    if (is_text(t, i, ":")) {
        while (i < t->count && !is_text(t, i, "=") && !is_text(t, i, ";"))
            i++;
    }
    const bool marked = name < t->count && t->items[name].kind == TOKEN_WORD &&
                        is_text(t, i, "=") && is_mark(t, i + 1) && is_text(t, i + 2, ";");
    return marked ? name : 0;
}

static void mark_uses(tokens *t, size_t declared)
{
    const nib_str name = t->items[declared].text;
    for (size_t i = declared + 1; i < t->count; i++) {
        if (t->items[i].kind == TOKEN_WORD && nib_str_eq(t->items[i].text, name) &&
            !is_text(t, i - 1, ".") && !is_text(t, i - 1, "let") && !is_text(t, i - 1, "var"))
            t->items[i].kind = TOKEN_MARK;
    }
    t->items[declared].kind = TOKEN_OTHER; /* done with */
}

static void propagate(tokens *t)
{
    for (unsigned round = 0; round < MAX_PROPAGATIONS; round++) {
        bool changed = false;
        drop_parentheses(t);
        for (size_t i = 0; i < t->count; i++) {
            const size_t name = marked_name(t, i);
            if (name) {
                mark_uses(t, name);
                changed = true;
            }
        }
        if (!changed)
            return;
    }
}

static bool is_operator(nib_str text, bool before)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<<", ">>", "+", "*", "/",
                                            "%",  "<",  ">",  "&",  "|",  "^",  "~", "!", "-"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        const nib_str op = nib_str_from(operators[i]);
        if (before ? nib_str_ends(text, op) : nib_str_starts(text, op))
            return true;
    }
    return false;
}

/* The mark is the first argument of a numeric built-in or conversion. */
static bool is_converted(const tokens *t, size_t at)
{
    static const char *const functions[] = {"min",     "max", "abs", "clamp",
                                            "bitcast", "f32", "i32", "u32"};
    if (at < 2 || !is_text(t, at - 1, "("))
        return false;
    size_t i = at - 2;
    if (is_text(t, i, ">")) {
        while (i > 0 && !is_text(t, i, "<"))
            i--;
        i -= i ? 1 : 0;
    }
    for (size_t k = 0; k < sizeof functions / sizeof functions[0]; k++) {
        if (is_text(t, i, functions[k]))
            return true;
    }
    return false;
}

static bool is_misused(const tokens *t, size_t at)
{
    if (t->items[at].indexed || is_text(t, at + 1, ".") || is_text(t, at + 1, "["))
        return true;
    if (at + 1 < t->count && t->items[at + 1].kind == TOKEN_OTHER &&
        is_operator(t->items[at + 1].text, false))
        return true;
    if (at > 0 && t->items[at - 1].kind == TOKEN_OTHER && is_operator(t->items[at - 1].text, true))
        return true;
    return is_converted(t, at);
}

static unsigned line_of(nib_str text, const char *position)
{
    unsigned line = 1;
    for (const char *c = text.data; c < position; c++)
        line += *c == '\n';
    return line;
}

static bool pass_has_int64(const nib_plan *plan, const nib_plan_pass *pass)
{
    for (size_t i = 0; i < pass->binding_count; i++) {
        if (is_int64_binding(plan, &pass->bindings[i]))
            return true;
    }
    return false;
}

nib_status nib_check_int64_use(const nib_plan *plan, const nib_plan_pass *pass, nib_arena *arena,
                               nib_str wgsl, nib_error *error)
{
    if (!pass_has_int64(plan, pass))
        return NIB_OK;
    const nib_str text = nib_template_strip_comments(arena, wgsl);
    tokens t;
    if (!text.data || !tokenize(arena, text, &t))
        return nib_fail_memory(error);
    collapse_indices(plan, pass, &t);
    propagate(&t);
    for (size_t i = 0; i < t.count; i++) {
        if (t.items[i].kind == TOKEN_MARK && is_misused(&t, i))
            return nib_fail(
                error, NIB_CONTRACT,
                "pass '%.*s': line %u of the WGSL computes with the int64 element '%.*s'; "
                "such elements may only be copied or selected whole",
                NIB_STR_ARG(pass->id), line_of(text, t.items[i].text.data),
                NIB_STR_ARG(t.items[i].text));
    }
    return NIB_OK;
}
