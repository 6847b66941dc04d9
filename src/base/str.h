/* SPDX-License-Identifier: Apache-2.0
 *
 * String views: pointer and length, not NUL-terminated, owned by someone else (usually an arena).
 */
#ifndef NIB_BASE_STR_H
#define NIB_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct nib_str {
    const char *data;
    size_t len;
} nib_str;

#define NIB_STR(literal) ((nib_str){"" literal, sizeof(literal) - 1})
/* For printf's %.*s */
#define NIB_STR_ARG(s) (int)(s).len, (s).data

static inline nib_str nib_str_from(const char *text)
{
    return (nib_str){text, text ? strlen(text) : 0};
}

static inline bool nib_str_eq(nib_str a, nib_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool nib_str_is(nib_str a, const char *text)
{
    return nib_str_eq(a, nib_str_from(text));
}

static inline bool nib_str_starts(nib_str a, nib_str prefix)
{
    return a.len >= prefix.len && memcmp(a.data, prefix.data, prefix.len) == 0;
}

static inline bool nib_str_ends(nib_str a, nib_str suffix)
{
    return a.len >= suffix.len && memcmp(a.data + a.len - suffix.len, suffix.data, suffix.len) == 0;
}

/* An own ctype: the C locale must not change what a manifest means. */
static inline bool nib_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool nib_is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* [A-Za-z_][A-Za-z0-9_]* */
static inline bool nib_str_is_identifier(nib_str s)
{
    if (s.len == 0 || nib_is_digit(s.data[0]))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (!nib_is_digit(s.data[i]) && !nib_is_alpha(s.data[i]) && s.data[i] != '_')
            return false;
    }
    return true;
}

#endif
