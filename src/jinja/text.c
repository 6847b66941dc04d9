/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings are UTF-8 here and UTF-16 in the language's definition: lengths and positions count
 * UTF-16 units.
 */
#include "jinja/machine.h"

#include <string.h>

size_t nib_jinja_code_point_bytes(nib_str s)
{
    const unsigned char lead = (unsigned char)s.data[0];
    size_t bytes = lead >= 0xf0 && lead < 0xf5   ? 4
                   : lead >= 0xe0 && lead < 0xf0 ? 3
                   : lead >= 0xc2 && lead < 0xe0 ? 2
                                                 : 1;
    if (bytes > s.len)
        return 1;
    for (size_t i = 1; i < bytes; i++) {
        if (((unsigned char)s.data[i] & 0xc0) != 0x80)
            return 1;
    }
    return bytes;
}

size_t nib_jinja_utf16_length(nib_str s)
{
    size_t length = 0;
    for (size_t at = 0; at < s.len;) {
        const size_t bytes = nib_jinja_code_point_bytes((nib_str){s.data + at, s.len - at});
        length += bytes == 4 ? 2 : 1;
        at += bytes;
    }
    return length;
}

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

/* The order of UTF-16 units: as UTF-8 bytes, but code points above U+FFFF (surrogates) come before
 * U+E000. */
static unsigned rank_of(unsigned char c)
{
    return c >= 0xf0 ? c - 2u : c >= 0xee ? c + 16u : c;
}

int nib_jinja_compare_text(nib_str a, nib_str b, bool case_sensitive)
{
    for (size_t i = 0; i < a.len && i < b.len; i++) {
        unsigned char x = (unsigned char)a.data[i], y = (unsigned char)b.data[i];
        if (!case_sensitive) {
            x = lower(x);
            y = lower(y);
        }
        if (x != y)
            return rank_of(x) < rank_of(y) ? -1 : 1;
    }
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

static const char broken[] = "undefined";

nib_value nib_jinja_broken_string(void)
{
    return nib_value_string((nib_str){broken, sizeof broken - 1});
}

bool nib_jinja_is_broken(nib_value value)
{
    return value.type == NIB_VALUE_STRING && value.as.string.data == broken;
}
