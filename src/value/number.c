/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact conversion between binary64 and decimal with a small fixed-size big integer. Simple and
 * right for every input; manifests hold few numbers, so speed does not matter here.
 */
#include "value/number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- big natural numbers ---- */

/* Largest operand: 800 decimal digits times 2^1200, or 10^1200: below 4200 bits. */
enum { BIG_WORDS = 160 };

typedef struct big {
    uint32_t words[BIG_WORDS]; /* least significant first */
    size_t count;              /* without leading zeros */
} big;

static big big_from(uint64_t value)
{
    big a = {.count = 0};
    for (; value != 0; value >>= 32)
        a.words[a.count++] = (uint32_t)value;
    return a;
}

/* a = a * factor + addend */
static void big_mul_add(big *a, uint32_t factor, uint32_t addend)
{
    uint64_t carry = addend;
    for (size_t i = 0; i < a->count; i++) {
        carry += (uint64_t)a->words[i] * factor;
        a->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && a->count < BIG_WORDS)
        a->words[a->count++] = (uint32_t)carry;
}

static void big_mul_pow10(big *a, int power)
{
    for (; power >= 9; power -= 9)
        big_mul_add(a, 1000000000u, 0);
    for (; power > 0; power--)
        big_mul_add(a, 10, 0);
}

static void big_shift_left(big *a, int bits)
{
    const size_t whole = (size_t)bits / 32;
    if (a->count == 0 || a->count + whole >= BIG_WORDS)
        return;
    memmove(a->words + whole, a->words, a->count * sizeof a->words[0]);
    memset(a->words, 0, whole * sizeof a->words[0]);
    a->count += whole;
    big_mul_add(a, (uint32_t)1 << (bits % 32), 0);
}

static int big_compare(const big *a, const big *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (size_t i = a->count; i-- > 0;) {
        if (a->words[i] != b->words[i])
            return a->words[i] < b->words[i] ? -1 : 1;
    }
    return 0;
}

static big big_sum(const big *a, const big *b)
{
    big sum = {.count = 0};
    uint64_t carry = 0;
    for (size_t i = 0; i < BIG_WORDS && (i < a->count || i < b->count || carry); i++) {
        carry += i < a->count ? a->words[i] : 0;
        carry += i < b->count ? b->words[i] : 0;
        sum.words[i] = (uint32_t)carry;
        sum.count = i + 1;
        carry >>= 32;
    }
    return sum;
}

/* a -= b, for a >= b */
static void big_subtract(big *a, const big *b)
{
    uint64_t borrow = 0;
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t take = borrow + (i < b->count ? b->words[i] : 0);
        borrow = a->words[i] < take;
        a->words[i] = (uint32_t)(a->words[i] - take);
    }
    while (a->count > 0 && a->words[a->count - 1] == 0)
        a->count--;
}

/* a /= 10; returns the remainder. */
static int big_divide_by_10(big *a)
{
    uint64_t rest = 0;
    for (size_t i = a->count; i-- > 0;) {
        rest = rest << 32 | a->words[i];
        a->words[i] = (uint32_t)(rest / 10);
        rest %= 10;
    }
    while (a->count > 0 && a->words[a->count - 1] == 0)
        a->count--;
    return (int)rest;
}

static size_t big_bits(const big *a)
{
    if (a->count == 0)
        return 0;
    size_t bits = (a->count - 1) * 32;
    for (uint32_t top = a->words[a->count - 1]; top != 0; top >>= 1)
        bits++;
    return bits;
}

/* ---- printing ---- */

/* number = 0.d1 d2 d3 ... * 10^point */
typedef struct decimal {
    char digits[24];
    int count, point;
} decimal;

/* |number| = mantissa * 2^exponent */
static uint64_t split(double number, int *exponent)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    const int biased = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    *exponent = (biased ? biased : 1) - 1075;
    return biased ? fraction | (uint64_t)1 << 52 : fraction;
}

/* One digit of remainder / scale (both below ten times each other); remainder keeps the rest. */
static int take_digit(big *remainder, const big *scale)
{
    int digit = 0;
    while (big_compare(remainder, scale) >= 0) {
        big_subtract(remainder, scale);
        digit++;
    }
    return digit;
}

static bool reaches(const big *a, const big *b, const big *limit, bool inclusive)
{
    const big sum = big_sum(a, b);
    const int order = big_compare(&sum, limit);
    return inclusive ? order >= 0 : order > 0;
}

/* Steele and White's free-format algorithm: stop at the first digit from which the reader would
 * round back to `number` (a finite one above 0). `low` and `high` are the distances to the middle
 * of the neighbouring doubles; the lower one is half as far at a power of two, which is where
 * fixed-precision loops go wrong. */
static decimal shorten(double number)
{
    int exponent;
    const uint64_t mantissa = split(number, &exponent);
    const bool even = mantissa % 2 == 0; /* ties round to even, so the interval is closed */
    const bool narrow = mantissa == (uint64_t)1 << 52 && exponent > -1074;
    big remainder = big_from(mantissa), scale = big_from(1), low = big_from(1);
    const int up = exponent > 0 ? exponent : 0, down = exponent < 0 ? -exponent : 0;
    big_shift_left(&remainder, up + (narrow ? 2 : 1));
    big_shift_left(&scale, down + (narrow ? 2 : 1));
    big_shift_left(&low, up);
    big high = low;
    if (narrow)
        big_shift_left(&high, 1);

    decimal out = {
        .point = (int)floor(log10(number))}; /* off by one at most; both ways are fixed below */
    if (out.point >= 0) {
        big_mul_pow10(&scale, out.point);
    } else {
        big_mul_pow10(&remainder, -out.point);
        big_mul_pow10(&low, -out.point);
        big_mul_pow10(&high, -out.point);
    }
    big tenth = scale; /* scale is 10^point: make it 10^(point + 1) if the number reaches that */
    big_mul_pow10(&tenth, 1);
    if (reaches(&remainder, &high, &tenth, even)) {
        scale = tenth;
        out.point++;
    } else if (!reaches(&remainder, &high, &scale, even)) {
        big_mul_pow10(&remainder, 1);
        big_mul_pow10(&low, 1);
        big_mul_pow10(&high, 1);
        out.point--;
    }
    out.point++;

    for (;;) {
        int digit = take_digit(&remainder, &scale);
        const int order = big_compare(&remainder, &low);
        const bool low_ok = even ? order <= 0 : order < 0;
        const bool high_ok = reaches(&remainder, &high, &scale, even);
        if (low_ok || high_ok) {
            /* Both neighbours in the last place read back: take the nearer one, an even digit on a
             * tie. */
            big twice = remainder;
            big_shift_left(&twice, 1);
            const int half = big_compare(&twice, &scale);
            if (high_ok && (!low_ok || half > 0 || (half == 0 && digit % 2 == 1)))
                digit++;
            out.digits[out.count++] = (char)('0' + digit);
            return out;
        }
        out.digits[out.count++] = (char)('0' + digit);
        big_mul_pow10(&remainder, 1);
        big_mul_pow10(&low, 1);
        big_mul_pow10(&high, 1);
    }
}

static char *put_zeros(char *to, int count)
{
    for (; count > 0; count--)
        *to++ = '0';
    return to;
}

static char *put_digits(char *to, const decimal *number, int from, int end)
{
    for (int i = from; i < end; i++)
        *to++ = number->digits[i];
    return to;
}

static char *put_exponent(char *to, int exponent)
{
    *to++ = 'e';
    *to++ = exponent < 0 ? '-' : '+';
    if (exponent < 0)
        exponent = -exponent;
    if (exponent >= 100)
        *to++ = (char)('0' + exponent / 100);
    if (exponent >= 10)
        *to++ = (char)('0' + exponent / 10 % 10);
    *to++ = (char)('0' + exponent % 10);
    return to;
}

/* The layout rules of ECMAScript Number::toString, steps 6 to 12. */
static char *put_decimal(char *to, const decimal *number)
{
    const int k = number->count, n = number->point;
    if (k <= n && n <= 21)
        return put_zeros(put_digits(to, number, 0, k), n - k);
    if (0 < n && n <= 21) {
        to = put_digits(to, number, 0, n);
        *to++ = '.';
        return put_digits(to, number, n, k);
    }
    if (-6 < n && n <= 0) {
        *to++ = '0';
        *to++ = '.';
        return put_digits(put_zeros(to, -n), number, 0, k);
    }
    to = put_digits(to, number, 0, 1);
    if (k > 1) {
        *to++ = '.';
        to = put_digits(to, number, 1, k);
    }
    return put_exponent(to, n - 1);
}

static size_t put_text(char out[NIB_NUMBER_TEXT_BYTES], const char *text)
{
    const size_t length = strlen(text);
    memcpy(out, text, length + 1);
    return length;
}

static size_t put_small_integer(const char *start, char *to, uint64_t whole)
{
    char reversed[NIB_NUMBER_TEXT_BYTES];
    size_t count = 0;
    for (; whole != 0; whole /= 10)
        reversed[count++] = (char)('0' + whole % 10);
    while (count > 0)
        *to++ = reversed[--count];
    *to = '\0';
    return (size_t)(to - start);
}

size_t nib_number_format(double number, char out[NIB_NUMBER_TEXT_BYTES])
{
    if (isnan(number))
        return put_text(out, "NaN");
    if (isinf(number))
        return put_text(out, number < 0 ? "-Infinity" : "Infinity");
    if (number == 0)
        return put_text(out, "0");
    char *to = out;
    if (number < 0)
        *to++ = '-';
    if (fabs(number) < 0x1p53 && trunc(number) == number) /* most numbers; all their digits count */
        return put_small_integer(out, to, (uint64_t)fabs(number));
    const decimal digits = shorten(fabs(number));
    to = put_decimal(to, &digits);
    *to = '\0';
    return (size_t)(to - out);
}

size_t nib_integer_format_exact(double number, char out[NIB_NUMBER_TEXT_BYTES])
{
    if (!(fabs(number) < 1e21))
        return nib_number_format(number, out);
    char reversed[NIB_NUMBER_TEXT_BYTES];
    size_t count = 0, length = 0;
    int exponent;
    const uint64_t mantissa = split(trunc(number), &exponent);
    big whole = big_from(exponent >= 0 ? mantissa : exponent > -64 ? mantissa >> -exponent : 0);
    big_shift_left(&whole, exponent >= 0 ? exponent : 0);
    do {
        reversed[count++] = (char)('0' + big_divide_by_10(&whole));
    } while (whole.count != 0);
    if (signbit(number))
        out[length++] = '-';
    while (count > 0)
        out[length++] = reversed[--count];
    out[length] = '\0';
    return length;
}

/* ---- reading ---- */

/* More digits than any halfway point between doubles has (767), so the rest only matters as "not
 * zero". */
enum { MAX_SIGNIFICANT_DIGITS = 780, MAX_EXPONENT = 100000 };

/* digits * 10^exponent */
typedef struct scanned {
    big digits;
    size_t digit_count;
    int exponent;
    bool lost; /* non-zero digits were dropped */
} scanned;

static void scan_digit(scanned *number, char c, bool fraction)
{
    if (number->digit_count == 0 && c == '0') {
        number->exponent -= fraction && number->exponent > -MAX_EXPONENT;
        return;
    }
    if (number->digit_count < MAX_SIGNIFICANT_DIGITS) {
        big_mul_add(&number->digits, 10, (uint32_t)(c - '0'));
        if (number->digits.count == 0)
            number->digits = big_from((uint64_t)(c - '0'));
        number->digit_count++;
        number->exponent -= fraction;
        return;
    }
    number->lost = number->lost || c != '0';
    number->exponent += !fraction && number->exponent < MAX_EXPONENT;
}

static bool scan_exponent(nib_str text, size_t *at, int *exponent)
{
    size_t i = *at + 1;
    const bool negative = i < text.len && text.data[i] == '-';
    if (i < text.len && (text.data[i] == '-' || text.data[i] == '+'))
        i++;
    if (i == text.len || !nib_is_digit(text.data[i]))
        return false;
    int value = 0;
    for (; i < text.len && nib_is_digit(text.data[i]); i++) {
        if (value < MAX_EXPONENT)
            value = value * 10 + (text.data[i] - '0');
    }
    *exponent += negative ? -value : value;
    *at = i;
    return true;
}

/* The 64 leading bits of a / b with a sticky lowest bit; the quotient is bits * 2^*exponent. a, b >
 * 0. */
static uint64_t divide_to_bits(big a, big b, int *exponent)
{
    const int shift = (int)big_bits(&b) - (int)big_bits(&a);
    if (shift > 0)
        big_shift_left(&a, shift);
    else
        big_shift_left(&b, -shift);
    *exponent = -shift - 63;
    if (big_compare(&a, &b) < 0) { /* now a / b is in [1, 2) */
        big_shift_left(&a, 1);
        *exponent -= 1;
    }
    uint64_t quotient = 0;
    for (int i = 0; i < 64; i++) {
        quotient <<= 1;
        if (big_compare(&a, &b) >= 0) {
            big_subtract(&a, &b);
            quotient |= 1;
        }
        big_shift_left(&a, 1);
    }
    return quotient | (a.count != 0);
}

/* Round bits * 2^exponent (top bit set) to the nearest double, ties to even. */
static double round_to_double(uint64_t bits, int exponent)
{
    const int top = exponent + 63;
    if (top > 1024)
        return (double)INFINITY;
    int drop = 11;
    if (top < -1022)
        drop += -1022 - top;
    if (drop > 64)
        return 0;
    const uint64_t kept = drop == 64 ? 0 : bits >> drop;
    const uint64_t rest = drop == 64 ? bits : bits & (((uint64_t)1 << drop) - 1);
    const uint64_t half = (uint64_t)1 << (drop - 1);
    const uint64_t rounded = kept + (rest > half || (rest == half && kept % 2 == 1));
    return ldexp((double)rounded, exponent + drop);
}

static double scanned_value(scanned *number)
{
    if (number->digits.count == 0)
        return 0;
    const int magnitude = number->exponent + (int)number->digit_count;
    if (magnitude > 400)
        return (double)INFINITY;
    if (magnitude < -400)
        return 0;
    big denominator = big_from(1);
    if (number->exponent >= 0)
        big_mul_pow10(&number->digits, number->exponent);
    else
        big_mul_pow10(&denominator, -number->exponent);
    int exponent;
    uint64_t bits = divide_to_bits(number->digits, denominator, &exponent);
    bits |= number->lost;
    return round_to_double(bits, exponent);
}

static size_t scan_digits(scanned *number, nib_str text, size_t at, bool fraction)
{
    for (; at < text.len && nib_is_digit(text.data[at]); at++)
        scan_digit(number, text.data[at], fraction);
    return at;
}

/* Decimal notation; JavaScript also allows "5." and ".5". */
static bool parse_decimal(nib_str text, bool javascript, double *out)
{
    size_t at = 0;
    const bool negative = text.len > 0 && text.data[0] == '-';
    if (text.len > 0 && (text.data[0] == '-' || text.data[0] == '+'))
        at = 1;
    scanned number = {.exponent = 0};
    size_t start = at;
    at = scan_digits(&number, text, at, false);
    size_t whole_digits = at - start, fraction_digits = 0;
    if (at < text.len && text.data[at] == '.') {
        start = ++at;
        at = scan_digits(&number, text, at, true);
        fraction_digits = at - start;
        if (fraction_digits == 0 && !javascript)
            return false;
    }
    if (whole_digits == 0 && (fraction_digits == 0 || !javascript))
        return false;
    if (at < text.len && (text.data[at] == 'e' || text.data[at] == 'E') &&
        !scan_exponent(text, &at, &number.exponent))
        return false;
    if (at != text.len)
        return false;
    const double value = scanned_value(&number);
    *out = negative ? -value : value;
    return true;
}

bool nib_number_parse(nib_str text, double *out)
{
    return parse_decimal(text, false, out);
}

/* Bytes of the ECMAScript white space or line end at the start of `text`, 0 if there is none. */
static size_t js_space_bytes(const char *text, size_t bytes)
{
    static const char *const wide[] = {
        "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82",
        "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87",
        "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
        "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80", "\xef\xbb\xbf",
    };
    if (bytes == 0)
        return 0;
    if (text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        const size_t len = strlen(wide[i]);
        if (bytes >= len && memcmp(text, wide[i], len) == 0)
            return len;
    }
    return 0;
}

size_t nib_js_space_at_start(nib_str text)
{
    return js_space_bytes(text.data, text.len);
}

size_t nib_js_space_at_end(nib_str text)
{
    for (size_t len = 1; len <= 3 && len <= text.len; len++) {
        if (js_space_bytes(text.data + text.len - len, len) == len)
            return len;
    }
    return 0;
}

nib_str nib_js_trim(nib_str text)
{
    for (size_t n; (n = nib_js_space_at_start(text)) != 0;)
        text = (nib_str){text.data + n, text.len - n};
    for (size_t n; (n = nib_js_space_at_end(text)) != 0;)
        text.len -= n;
    return text;
}

static int digit_of(char c)
{
    if (nib_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* 0x, 0o, 0b literals of ToNumber; exact up to rounding at 2^53, where each step rounds as a
 * binary64. */
static double parse_radix(nib_str digits, int radix)
{
    big value = big_from(0);
    if (digits.len == 0)
        return (double)NAN;
    for (size_t i = 0; i < digits.len; i++) {
        const int digit = digit_of(digits.data[i]);
        if (digit >= radix)
            return (double)NAN;
        if (big_bits(&value) > 1100)
            continue; /* beyond the largest double already; only the validity of the rest matters */
        if (value.count == 0)
            value = big_from((uint64_t)digit);
        else
            big_mul_add(&value, (uint32_t)radix, (uint32_t)digit);
    }
    if (value.count == 0)
        return 0;
    int exponent;
    const uint64_t bits = divide_to_bits(value, big_from(1), &exponent);
    return round_to_double(bits, exponent);
}

double nib_number_from_js_string(nib_str text)
{
    text = nib_js_trim(text);
    if (text.len == 0)
        return 0;
    if (text.len > 2 && text.data[0] == '0') {
        const nib_str digits = {text.data + 2, text.len - 2};
        const char mark = (char)(text.data[1] | 0x20);
        if (mark == 'x' || mark == 'o' || mark == 'b')
            return parse_radix(digits, mark == 'x' ? 16 : mark == 'o' ? 8 : 2);
    }
    if (nib_str_is(text, "Infinity") || nib_str_is(text, "+Infinity"))
        return (double)INFINITY;
    if (nib_str_is(text, "-Infinity"))
        return -(double)INFINITY;
    double number;
    return parse_decimal(text, true, &number) ? number : (double)NAN;
}
