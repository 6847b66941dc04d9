/* SPDX-License-Identifier: Apache-2.0
 *
 * Template text to tokens: format 3.2 and 4.2.
 */
#include "jinja/ast.h"

#include <string.h>

#include "value/number.h"

/* ---- white-space rules on the whole text ---- */

static bool starts_with(const char *text, size_t length, size_t at, const char *what)
{
    const size_t n = strlen(what);
    return length - at >= n && memcmp(text + at, what, n) == 0;
}

/* The bytes of a line end in the sense of a JavaScript multi-line "^", 0 if there is none. */
static size_t line_end_bytes(const source *s, size_t at)
{
    if (s->text[at] == '\n' || s->text[at] == '\r')
        return 1;
    if (starts_with(s->text, s->length, at, "\xe2\x80\xa8") ||
        starts_with(s->text, s->length, at, "\xe2\x80\xa9"))
        return 3;
    return 0;
}

static bool opens_block(const source *s, size_t at)
{
    return s->length - at >= 2 && s->text[at] == '{' && strchr("%#-", s->text[at + 1]) &&
           s->text[at + 1];
}

static size_t skip_blanks(const source *s, size_t at)
{
    while (at < s->length && (s->text[at] == ' ' || s->text[at] == '\t'))
        at++;
    return at;
}

/* Keep bytes [from, end) by moving them down to *length. */
static void keep(source *s, size_t *length, size_t from, size_t end)
{
    memmove(s->text + *length, s->text + from, end - from);
    memmove(s->origin + *length, s->origin + from, (end - from) * sizeof *s->origin);
    *length += end - from;
}

static void finish(source *s, size_t length)
{
    s->origin[length] = s->origin[s->length];
    s->text[length] = '\0';
    s->length = length;
}

static void strip_line_starts(source *s)
{
    size_t length = 0;
    bool line_start = true;
    for (size_t at = 0; at < s->length;) {
        if (line_start) {
            const size_t after = skip_blanks(s, at);
            if (after < s->length && opens_block(s, after))
                at = after;
        }
        const size_t ending = line_end_bytes(s, at), step = ending ? ending : 1;
        line_start = ending != 0;
        keep(s, &length, at, at + step);
        at += step;
    }
    finish(s, length);
}

static void trim_after_blocks(source *s)
{
    size_t length = 0;
    for (size_t at = 0; at < s->length; at++) {
        keep(s, &length, at, at + 1);
        /* The match is on the original text, so look at that: only newlines are ever dropped. */
        if (s->text[length - 1] == '}' && length >= 2 && strchr("%#-", s->text[length - 2]) &&
            at + 1 < s->length && s->text[at + 1] == '\n')
            at++;
    }
    finish(s, length);
}

static size_t skip_spaces(const source *s, size_t at)
{
    size_t n;
    while (at < s->length &&
           (n = nib_js_space_at_start((nib_str){s->text + at, s->length - at})) != 0)
        at += n;
    return at;
}

/* The end of a {% generation %} or {% endgeneration %} tag at `at`, 0 if there is none. */
static size_t generation_tag_end(const source *s, size_t at, bool *dash_before, bool *dash_after)
{
    if (!starts_with(s->text, s->length, at, "{%"))
        return 0;
    at += 2;
    *dash_before = at < s->length && s->text[at] == '-';
    at = skip_spaces(s, at + *dash_before);
    if (starts_with(s->text, s->length, at, "end"))
        at += 3;
    if (!starts_with(s->text, s->length, at, "generation"))
        return 0;
    at = skip_spaces(s, at + strlen("generation"));
    *dash_after = at < s->length && s->text[at] == '-';
    at += *dash_after;
    return starts_with(s->text, s->length, at, "%}") ? at + 2 : 0;
}

/* White space in front of a tag that an earlier tag stands between is out of its reach. */
static void drop_generation_tags(source *s)
{
    size_t length = 0, reach = 0;
    for (size_t at = 0; at < s->length;) {
        bool dash_before = false, dash_after = false;
        const size_t end =
            s->text[at] == '{' ? generation_tag_end(s, at, &dash_before, &dash_after) : 0;
        if (!end) {
            keep(s, &length, at, at + 1);
            at++;
            continue;
        }
        size_t n;
        while (dash_before &&
               (n = nib_js_space_at_end((nib_str){s->text + reach, length - reach})) != 0)
            length -= n;
        reach = length;
        at = dash_after ? skip_spaces(s, end) : end;
    }
    finish(s, length);
}

nib_status nib_jinja_prepare(nib_arena *arena, nib_str text, size_t prefix_bytes, source *out,
                             nib_error *error)
{
    if (text.len > SOURCE_MAX_BYTES)
        return nib_fail(error, NIB_LIMIT, "the text has %zu bytes; at most %zu are allowed",
                        text.len, SOURCE_MAX_BYTES);
    *out = (source){.text = nib_arena_cstr(arena, text), .length = text.len};
    out->origin = NIB_ARENA_ARRAY(arena, uint32_t, text.len + 1);
    if (!out->text || !out->origin)
        return nib_fail_memory(error);
    for (size_t i = 0; i <= text.len; i++)
        out->origin[i] = i > prefix_bytes ? (uint32_t)(i - prefix_bytes) : 0;
    if (out->length > 0 && out->text[out->length - 1] == '\n')
        finish(out, out->length - 1);
    strip_line_starts(out);
    trim_after_blocks(out);
    drop_generation_tags(out);
    return NIB_OK;
}

/* ---- tokens ---- */

typedef struct lexer {
    nib_arena *arena;
    nib_error *error;
    const nib_program *program;
    const source *s;
    size_t at;
    token *tokens;
    size_t count, capacity;
    unsigned braces; /* open "{" of object literals in this tag */
} lexer;

static nib_status fail_at(lexer *l, size_t at, const char *format, ...) NIB_PRINTF(3, 4);
static nib_status fail_at(lexer *l, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const nib_status status = nib_fail_v(l->error, NIB_SYNTAX, format, args);
    va_end(args);
    if (at > l->s->length)
        at = l->s->length;
    nib_error_position(l->error, l->program->text.data, l->program->text.len, l->s->origin[at]);
    return status;
}

static nib_status push(lexer *l, token t, size_t at)
{
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity ? l->capacity * 2 : 64;
        token *tokens = NIB_ARENA_ARRAY(l->arena, token, capacity);
        if (!tokens)
            return nib_fail_memory(l->error);
        if (l->count)
            memcpy(tokens, l->tokens, l->count * sizeof *tokens);
        l->tokens = tokens;
        l->capacity = capacity;
    }
    t.offset = l->s->origin[at];
    l->tokens[l->count++] = t;
    return NIB_OK;
}

static bool at_text(const lexer *l, const char *what)
{
    return starts_with(l->s->text, l->s->length, l->at, what);
}

static void skip_space(lexer *l)
{
    l->at = skip_spaces(l->s, l->at);
}

/* Plain text up to the next tag. A dash at that tag takes the white space before it. */
static nib_status lex_text(lexer *l)
{
    const size_t start = l->at;
    const char *text = l->s->text;
    while (l->at < l->s->length && !at_text(l, "{{") && !at_text(l, "{%") && !at_text(l, "{#"))
        l->at++;
    nib_str plain = {text + start, l->at - start};
    if (l->at + 2 < l->s->length && text[l->at + 2] == '-') {
        for (size_t n; (n = nib_js_space_at_end(plain)) != 0;)
            plain.len -= n;
    }
    if (plain.len == 0)
        return NIB_OK;
    return push(l, (token){.kind = TOKEN_TEXT, .text = plain}, start);
}

/* "{#-#}" has a dash in front only; "{#--#}" has both. */
static nib_status skip_comment(lexer *l)
{
    const size_t start = l->at;
    l->at += at_text(l, "{#-") ? 3 : 2;
    const size_t body = l->at;
    while (l->at < l->s->length && !at_text(l, "#}"))
        l->at++;
    if (l->at >= l->s->length)
        return fail_at(l, start, "this comment has no \"#}\"");
    const bool dash = l->at > body && l->s->text[l->at - 1] == '-';
    l->at += 2;
    if (dash)
        skip_space(l);
    return NIB_OK;
}

static nib_status open_tag(lexer *l)
{
    const size_t start = l->at;
    const token_kind kind = at_text(l, "{{") ? TOKEN_OPEN_EXPRESSION : TOKEN_OPEN_STATEMENT;
    l->at += 2;
    if (l->at < l->s->length && l->s->text[l->at] == '-')
        l->at++;
    l->braces = 0;
    return push(l, (token){.kind = kind, .text = {l->s->text + start, 2}}, start);
}

/* A closing tag at the cursor; *closed says whether there was one. */
static nib_status close_tag(lexer *l, bool *closed)
{
    const size_t start = l->at;
    const bool dash = at_text(l, "-%}") || at_text(l, "-}}");
    const bool statement = at_text(l, dash ? "-%}" : "%}");
    *closed = dash || statement || (at_text(l, "}}") && l->braces == 0);
    if (!*closed)
        return NIB_OK;
    l->at += dash ? 3 : 2;
    const token_kind kind = statement ? TOKEN_CLOSE_STATEMENT : TOKEN_CLOSE_EXPRESSION;
    NIB_TRY(push(l, (token){.kind = kind, .text = {l->s->text + start, l->at - start}}, start));
    if (dash)
        skip_space(l);
    return NIB_OK;
}

static bool is_word_byte(char c)
{
    return nib_is_alpha(c) || nib_is_digit(c) || c == '_';
}

static nib_status lex_word(lexer *l)
{
    const size_t start = l->at;
    while (l->at < l->s->length && is_word_byte(l->s->text[l->at]))
        l->at++;
    const nib_str word = {l->s->text + start, l->at - start};
    return push(l, (token){.kind = TOKEN_IDENTIFIER, .text = word}, start);
}

static bool digit_at(const lexer *l, size_t at)
{
    return at < l->s->length && nib_is_digit(l->s->text[at]);
}

/* Digits with an optional sign in front; a fraction unless the number is an index behind a ".". */
static nib_status lex_number(lexer *l, bool may_have_fraction)
{
    const size_t start = l->at;
    token_kind kind = TOKEN_INTEGER;
    if (!nib_is_digit(l->s->text[l->at]))
        l->at++;
    while (digit_at(l, l->at))
        l->at++;
    if (may_have_fraction && at_text(l, ".") && digit_at(l, l->at + 1)) {
        kind = TOKEN_FLOAT;
        for (l->at++; digit_at(l, l->at);)
            l->at++;
    }
    token t = {.kind = kind, .text = {l->s->text + start, l->at - start}};
    if (!nib_number_parse(t.text, &t.number))
        return fail_at(l, start, "this number cannot be read");
    return push(l, t, start);
}

static char unescape(char c)
{
    static const char from[] = "ntrbfv'\"\\", to[] = "\n\t\r\b\f\v'\"\\";
    const char *found = c ? strchr(from, c) : NULL;
    return found ? to[found - from] : '\0';
}

static nib_status lex_string(lexer *l)
{
    const size_t start = l->at;
    const char quote = l->s->text[l->at++];
    size_t end = l->at;
    while (end < l->s->length && l->s->text[end] != quote)
        end += l->s->text[end] == '\\' ? 2 : 1;
    if (end >= l->s->length)
        return fail_at(l, start, "this string has no closing quote");
    char *to = nib_arena_alloc(l->arena, end - l->at + 1, 1);
    if (!to)
        return nib_fail_memory(l->error);
    size_t length = 0;
    for (; l->at < end; l->at++) {
        char c = l->s->text[l->at];
        if (c == '\\') {
            c = unescape(l->s->text[++l->at]);
            if (!c)
                return fail_at(
                    l, l->at - 1,
                    "unknown escape in a string; \\n \\t \\r \\b \\f \\v \\' \\\" \\\\ are known");
        }
        to[length++] = c;
    }
    l->at = end + 1;
    return push(l, (token){.kind = TOKEN_STRING, .text = {to, length}}, start);
}

/* A sign after one of these is a binary operator (format 3.2). */
static bool sign_is_binary(const lexer *l)
{
    const token *last = &l->tokens[l->count - 1];
    switch (last->kind) {
    case TOKEN_IDENTIFIER:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_STRING:
        return true;
    default:
        return last->kind == TOKEN_OPERATOR &&
               (nib_str_is(last->text, ")") || nib_str_is(last->text, "]"));
    }
}

static nib_status lex_operator(lexer *l)
{
    static const char *const operators[] = {"<=", ">=", "==", "!=", "**", "//", "(", ")", "[",
                                            "]",  "{",  "}",  ",",  ".",  ":",  "|", "<", ">",
                                            "+",  "-",  "~",  "*",  "/",  "%",  "="};
    const size_t start = l->at;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!at_text(l, operators[i]))
            continue;
        l->at += strlen(operators[i]);
        const char c = operators[i][0];
        if (c == '{')
            l->braces++;
        else if (c == '}' && l->braces > 0)
            l->braces--;
        return push(l, (token){.kind = TOKEN_OPERATOR, .text = {l->s->text + start, l->at - start}},
                    start);
    }
    const unsigned char c = (unsigned char)l->s->text[start];
    if (c > ' ' && c < 0x7f)
        return fail_at(l, start, "unexpected character \"%c\"", c);
    return fail_at(l, start, "unexpected character (byte 0x%02x)", c);
}

/* One token inside a tag; the cursor is not on white space. */
static nib_status lex_in_tag(lexer *l)
{
    const char c = l->s->text[l->at];
    if ((c == '-' || c == '+') && !sign_is_binary(l)) {
        if (digit_at(l, l->at + 1))
            return lex_number(l, true);
        l->at++;
        return push(l, (token){.kind = TOKEN_SIGN, .text = {l->s->text + l->at - 1, 1}}, l->at - 1);
    }
    if (nib_is_digit(c))
        return lex_number(l, !(l->tokens[l->count - 1].kind == TOKEN_OPERATOR &&
                               nib_str_is(l->tokens[l->count - 1].text, ".")));
    if (is_word_byte(c))
        return lex_word(l);
    if (c == '"' || c == '\'')
        return lex_string(l);
    return lex_operator(l);
}

static nib_status lex_tag(lexer *l)
{
    NIB_TRY(open_tag(l));
    bool closed = false;
    while (!closed) {
        skip_space(l);
        if (l->at >= l->s->length)
            return fail_at(l, l->s->length, "the text ends inside a tag");
        NIB_TRY(close_tag(l, &closed));
        if (!closed)
            NIB_TRY(lex_in_tag(l));
    }
    return NIB_OK;
}

nib_status nib_jinja_tokenize(nib_arena *arena, const nib_program *program, const source *from,
                              token **out, nib_error *error)
{
    lexer l = {.arena = arena, .error = error, .program = program, .s = from};
    while (l.at < from->length) {
        NIB_TRY(lex_text(&l));
        if (l.at >= from->length)
            break;
        NIB_TRY(at_text(&l, "{#") ? skip_comment(&l) : lex_tag(&l));
    }
    NIB_TRY(push(&l, (token){.kind = TOKEN_END}, from->length));
    *out = l.tokens;
    return NIB_OK;
}
