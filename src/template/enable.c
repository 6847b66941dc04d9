/* SPDX-License-Identifier: Apache-2.0
 *
 * Which enable directives a WGSL text needs: format 4.6.
 */
#include "template/template.h"

#include <string.h>

#include "value/number.h"

/* ---- comments ---- */

static bool starts_at(nib_str text, size_t at, const char *what)
{
    return at <= text.len &&
           nib_str_starts((nib_str){text.data + at, text.len - at}, nib_str_from(what));
}

/* The end of the block comment at `at`, nested ones included; its LFs go to `out`. */
static size_t skip_block_comment(nib_str text, size_t at, char *out, size_t *len)
{
    size_t depth = 0;
    while (at < text.len) {
        if (starts_at(text, at, "/*")) {
            depth++;
            at += 2;
        } else if (starts_at(text, at, "*/")) {
            depth--;
            at += 2;
            if (depth == 0)
                return at;
        } else {
            if (text.data[at] == '\n')
                out[(*len)++] = '\n';
            at++;
        }
    }
    return at;
}

nib_str nib_template_strip_comments(nib_arena *arena, nib_str wgsl)
{
    char *out = nib_arena_alloc(arena, wgsl.len + 1, 1);
    size_t len = 0;
    if (!out)
        return (nib_str){NULL, 0};
    for (size_t at = 0; at < wgsl.len;) {
        if (starts_at(wgsl, at, "//")) {
            while (at < wgsl.len && wgsl.data[at] != '\n')
                at++;
        } else if (starts_at(wgsl, at, "/*")) {
            at = skip_block_comment(wgsl, at, out, &len);
        } else {
            out[len++] = wgsl.data[at++];
        }
    }
    return (nib_str){out, len};
}

/* ---- words ---- */

static bool is_word_byte(char c)
{
    return nib_is_alpha(c) || nib_is_digit(c) || c == '_';
}

static bool word_ends(nib_str text, size_t at)
{
    return at >= text.len || !is_word_byte(text.data[at]);
}

static bool word_starts(nib_str text, size_t at)
{
    return at == 0 || !is_word_byte(text.data[at - 1]);
}

static bool is_word_at(nib_str text, size_t at, const char *word)
{
    return starts_at(text, at, word) && word_starts(text, at) && word_ends(text, at + strlen(word));
}

static size_t skip_space(nib_str text, size_t at)
{
    size_t n;
    while (at < text.len &&
           (n = nib_js_space_at_start((nib_str){text.data + at, text.len - at})) != 0)
        at += n;
    return at;
}

/* ---- directives that are there ---- */

/* An enable directive at the start of a line names `word` before its ";". */
static bool line_enables(nib_str text, size_t at, const char *word)
{
    while (at < text.len && (text.data[at] == ' ' || text.data[at] == '\t'))
        at++;
    if (!is_word_at(text, at, "enable"))
        return false;
    at += strlen("enable");
    bool named = false;
    for (; at < text.len && text.data[at] != ';'; at++)
        named = named || is_word_at(text, at, word);
    return named && at < text.len;
}

static bool is_enabled(nib_str text, const char *word)
{
    for (size_t at = 0; at < text.len;) {
        if (line_enables(text, at, word))
            return true;
        const char *feed = memchr(text.data + at, '\n', text.len - at);
        at = feed ? (size_t)(feed - text.data) + 1 : text.len;
    }
    return false;
}

/* ---- triggers ---- */

static bool is_hex_digit(char c)
{
    return nib_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static size_t skip_digits(nib_str text, size_t at, bool hex)
{
    while (at < text.len && (hex ? is_hex_digit(text.data[at]) : nib_is_digit(text.data[at])))
        at++;
    return at;
}

/* digits [ "." digits ] with a digit somewhere; returns `at` when there is none. */
static size_t skip_mantissa(nib_str text, size_t at, bool hex)
{
    const size_t whole = skip_digits(text, at, hex);
    if (whole >= text.len || text.data[whole] != '.')
        return whole;
    const size_t end = skip_digits(text, whole + 1, hex);
    return whole > at || end > whole + 1 ? end : at;
}

/* e or p, a sign, digits; returns `at` when that is not there. */
static size_t skip_exponent(nib_str text, size_t at, char letter)
{
    if (at >= text.len || (text.data[at] | 0x20) != letter)
        return at;
    size_t digits = at + 1;
    if (digits < text.len && (text.data[digits] == '+' || text.data[digits] == '-'))
        digits++;
    const size_t end = skip_digits(text, digits, false);
    return end > digits ? end : at;
}

/* 2h 1.0h 1.h .5h 1e5h 0x1p3h */
static bool is_half_literal_at(nib_str text, size_t at)
{
    if (at > 0 && (is_word_byte(text.data[at - 1]) || text.data[at - 1] == '.'))
        return false;
    const bool hex = starts_at(text, at, "0x") || starts_at(text, at, "0X");
    const size_t start = hex ? at + 2 : at;
    const size_t mantissa = skip_mantissa(text, start, hex);
    if (mantissa == start)
        return false;
    const size_t end = skip_exponent(text, mantissa, hex ? 'p' : 'e');
    if (hex && end == mantissa)
        return false;
    return end < text.len && text.data[end] == 'h' && word_ends(text, end + 1);
}

static bool uses_f16(nib_str text, size_t at)
{
    const char c = text.data[at];
    return c == 'f' ? is_word_at(text, at, "f16")
                    : (nib_is_digit(c) || c == '.') && is_half_literal_at(text, at);
}

static bool is_called_at(nib_str text, size_t at, const char *name)
{
    if (!is_word_at(text, at, name))
        return false;
    const size_t next = skip_space(text, at + strlen(name));
    return next < text.len && text.data[next] == '(';
}

/* @builtin(name), with white space anywhere between. */
static bool is_builtin_at(nib_str text, size_t at, const char *name)
{
    at = skip_space(text, at + 1);
    if (!starts_at(text, at, "builtin"))
        return false;
    at = skip_space(text, at + strlen("builtin"));
    if (at >= text.len || text.data[at] != '(')
        return false;
    at = skip_space(text, at + 1);
    if (!starts_at(text, at, name))
        return false;
    at = skip_space(text, at + strlen(name));
    return at < text.len && text.data[at] == ')';
}

static bool uses_subgroups(nib_str text, size_t at)
{
    static const char *const functions[] = {
        "subgroupAdd",
        "subgroupExclusiveAdd",
        "subgroupInclusiveAdd",
        "subgroupMul",
        "subgroupExclusiveMul",
        "subgroupInclusiveMul",
        "subgroupAnd",
        "subgroupOr",
        "subgroupXor",
        "subgroupMin",
        "subgroupMax",
        "subgroupAll",
        "subgroupAny",
        "subgroupBallot",
        "subgroupElect",
        "subgroupBroadcast",
        "subgroupBroadcastFirst",
        "subgroupShuffle",
        "subgroupShuffleXor",
        "subgroupShuffleUp",
        "subgroupShuffleDown",
        "quadBroadcast",
        "quadSwapX",
        "quadSwapY",
        "quadSwapDiagonal",
    };
    static const char *const builtins[] = {"subgroup_invocation_id", "subgroup_size", "subgroup_id",
                                           "num_subgroups"};
    const char c = text.data[at];
    for (size_t i = 0; (c == 's' || c == 'q') && i < sizeof functions / sizeof functions[0]; i++) {
        if (is_called_at(text, at, functions[i]))
            return true;
    }
    for (size_t i = 0; c == '@' && i < sizeof builtins / sizeof builtins[0]; i++) {
        if (is_builtin_at(text, at, builtins[i]))
            return true;
    }
    return false;
}

/* The attribute @subgroup_size(...) */
static bool uses_subgroup_size_control(nib_str text, size_t at)
{
    if (text.data[at] != '@' || !starts_at(text, at + 1, "subgroup_size"))
        return false;
    const size_t next = skip_space(text, at + 1 + strlen("subgroup_size"));
    return next < text.len && text.data[next] == '(';
}

/* ---- inference ---- */

static bool occurs(nib_str text, bool (*uses)(nib_str text, size_t at))
{
    for (size_t at = 0; at < text.len; at++) {
        if (uses(text, at))
            return true;
    }
    return false;
}

void nib_template_enables(nib_arena *arena, nib_str wgsl, nib_buf *out)
{
    static const struct {
        const char *name;
        bool (*uses)(nib_str text, size_t at);
    } directives[] = {
        {"f16", uses_f16},
        {"subgroups", uses_subgroups},
        {"subgroup_size_control", uses_subgroup_size_control},
    };
    const nib_str text = nib_template_strip_comments(arena, wgsl);
    if (!text.data) {
        out->status = out->status == NIB_OK ? NIB_OUT_OF_MEMORY : out->status;
        return;
    }
    for (size_t i = 0; i < sizeof directives / sizeof directives[0]; i++) {
        if (occurs(text, directives[i].uses) && !is_enabled(text, directives[i].name))
            nib_buf_printf(out, "enable %s;\n", directives[i].name);
    }
}
