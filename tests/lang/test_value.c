/* SPDX-License-Identifier: Apache-2.0
 *
 * Values, and numbers as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"
#include "value/json.h"
#include "value/number.h"

/* ---- numbers ---- */

static double from_bits(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static uint64_t to_bits(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void test_number_table(void **state)
{
    (void)state;
    FILE *file = fopen(NIB_SOURCE_DIR "/tests/lang/numbers.txt", "r");
    assert_non_null(file);
    char line[128], wanted[64], text[NIB_NUMBER_TEXT_BYTES];
    size_t count = 0;
    while (fgets(line, sizeof line, file)) {
        uint64_t bits;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%" SCNx64 " %63s", &bits, wanted), 2);
        const double number = from_bits(bits);
        assert_int_equal(nib_number_format(number, text), strlen(wanted));
        assert_string_equal(text, wanted);
        double back = nib_number_from_js_string(nib_str_from(wanted));
        if (isnan(number))
            assert_true(isnan(back));
        else if (number == 0)
            assert_true(back == 0);
        else
            assert_int_equal(to_bits(back), bits);
        count++;
    }
    fclose(file);
    assert_true(count > 500);
}

/* What is printed reads back as the same double, and one digit less does not. */
static void test_number_round_trip(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    char text[NIB_NUMBER_TEXT_BYTES];
    for (int i = 0; i < 20000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const double number = from_bits(random);
        if (!isfinite(number))
            continue;
        double back;
        const size_t length = nib_number_format(number, text);
        assert_true(nib_number_parse((nib_str){text, length}, &back));
        assert_int_equal(to_bits(back), random);
        assert_true(strtod(text, NULL) == number);
    }
}

static void test_number_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double number;
    } good[] = {
        {"0", 0},
        {"12", 12},
        {"-1.5", -1.5},
        {"+2e3", 2000},
        {"1E-2", 0.01},
        {"007", 7},
        {"1e400", (double)INFINITY},
        {"1e-400", 0},
        {"9007199254740993", 9007199254740992.0},
        {"0.1e1", 1},
        {"179769313486231580793728971405301e276", 1.7976931348623158e308},
        {"2.4703282292062327208e-324", 0}, /* just below half of the smallest */
        {"2.4703282292062328e-324", 5e-324},
    };
    static const char *const bad[] = {"",   "-",  ".5",  "5.",  "1e",       "1e+",  "0x10",
                                      "1 ", " 1", "1,5", "NaN", "Infinity", "1.2.3"};
    double number;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(nib_number_parse(nib_str_from(good[i].text), &number));
        assert_int_equal(to_bits(number), to_bits(good[i].number));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(nib_number_parse(nib_str_from(bad[i]), &number));
}

/* A halfway case that only its 800th digit decides. */
static void test_number_parse_long(void **state)
{
    (void)state;
    char text[1200] = "9007199254740993.";
    const size_t dot = strlen(text);
    memset(text + dot, '0', 1000);
    text[dot + 1000] = '\0';
    double number;
    assert_true(nib_number_parse(nib_str_from(text), &number));
    assert_true(number == 9007199254740992.0);
    text[dot + 999] = '1';
    assert_true(nib_number_parse(nib_str_from(text), &number));
    assert_true(number == 9007199254740994.0);
}

static void test_number_from_js_string(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double number;
    } cases[] = {
        {"", 0},
        {"  ", 0},
        {" 12\n", 12},
        {"0x1F", 31},
        {"0b101", 5},
        {"0o17", 15},
        {".5", 0.5},
        {"5.", 5},
        {"-Infinity", -(double)INFINITY},
        {"\xc2\xa0"
         "3\xef\xbb\xbf",
         3},
        {"-1e2", -100},
        {"0x20000000000001", 9007199254740992.0},
    };
    static const char *const bad[] = {"abc", "1 2", "0x", "0xg",      "-0x10",
                                      ".",   "e5",  "1e", "infinity", "--1"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(nib_number_from_js_string(nib_str_from(cases[i].text)) == cases[i].number);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(isnan(nib_number_from_js_string(nib_str_from(bad[i]))));
}

static void test_integer_format_exact(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {7, "7"},
        {-12, "-12"},
        {0x1p60, "1152921504606846976"},
        {1e20, "100000000000000000000"},
        {-0x1p69, "-590295810358705651712"},
        {0x1p53 + 2, "9007199254740994"},
        {1e21, "1e+21"},
    };
    char text[NIB_NUMBER_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(nib_integer_format_exact(cases[i].number, text), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

/* A locale with a decimal comma changes nothing; where none is installed this repeats the C locale.
 */
static void test_numbers_ignore_the_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8",
                                        "C"};
    size_t i = 0;
    while (!setlocale(LC_ALL, names[i]))
        i++;
    print_message("locale: %s\n", names[i]);
    char text[NIB_NUMBER_TEXT_BYTES];
    nib_number_format(1.5, text);
    assert_string_equal(text, "1.5");
    double number;
    assert_true(nib_number_parse(NIB_STR("2.25"), &number) && number == 2.25);
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    assert_true(lang_json(&arena, "0.125").as.number == 0.125);
    nib_arena_free(&arena);
    setlocale(LC_ALL, "C");
}

/* ---- values ---- */

static void test_tags(void **state)
{
    (void)state;
    assert_int_equal(nib_value_number(4).type, NIB_VALUE_INTEGER);
    assert_int_equal(nib_value_number(-0.0).type, NIB_VALUE_INTEGER);
    assert_int_equal(nib_value_number(1e300).type, NIB_VALUE_INTEGER);
    assert_int_equal(nib_value_number(0.5).type, NIB_VALUE_FLOAT);
    assert_int_equal(nib_value_number((double)NAN).type, NIB_VALUE_FLOAT);
    assert_int_equal(nib_value_number((double)INFINITY).type, NIB_VALUE_FLOAT);
    assert_true(nib_value_is_absent(NIB_UNDEFINED) && nib_value_is_absent(NIB_NULL));
    assert_false(nib_value_is_absent(nib_value_bool(false)));
    assert_string_equal(nib_value_type_name(nib_value_float(1)), "float");
}

static void test_map_keeps_order(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_map *map = nib_map_new(&arena, 0);
    char keys[1000][8];
    for (size_t i = 0; i < 1000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i * 7919 % 1000);
        assert_true(nib_map_set_cstr(&arena, map, keys[i], nib_value_integer((double)i)));
        if (i % 3 == 0) /* overwriting keeps the place */
            assert_true(nib_map_set_cstr(&arena, map, keys[i / 2], nib_value_integer(-1)));
    }
    assert_int_equal(map->count, 1000);
    for (size_t i = 0; i < 1000; i++) {
        assert_true(nib_str_is(map->entries[i].key, keys[i]));
        assert_ptr_equal(nib_map_get_cstr(map, keys[i]), &map->entries[i].value);
    }
    assert_null(nib_map_get_cstr(map, "k1000"));
    assert_null(nib_map_get_cstr(map, ""));
    nib_arena_free(&arena);
}

static void test_list_grows(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_list *list = nib_list_new(&arena, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(nib_list_push(&arena, list, nib_value_integer(i)));
    for (int i = 0; i < 1000; i++)
        assert_true(list->items[i].as.number == i);
    nib_arena_free(&arena);
}

static void test_export(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_list *list = nib_list_new(&arena, 0);
    nib_map *map = nib_map_new(&arena, 0);
    nib_value tuple = nib_value_of_list(list), out;
    tuple.type = NIB_VALUE_TUPLE;
    assert_true(nib_list_push(&arena, list, nib_value_float(4)) &&
                nib_list_push(&arena, list, NIB_UNDEFINED));
    assert_true(nib_map_set_cstr(&arena, map, "t", tuple));
    assert_true(nib_value_export(&arena, nib_value_of_map(map), &out));
    const nib_value *copy = nib_map_get_cstr(out.as.map, "t");
    assert_int_equal(copy->type, NIB_VALUE_LIST);
    assert_ptr_not_equal(copy->as.list, list);
    assert_int_equal(copy->as.list->items[0].type, NIB_VALUE_INTEGER);
    assert_int_equal(copy->as.list->items[1].type, NIB_VALUE_UNDEFINED);

    nib_value deep = nib_value_integer(1);
    for (int i = 0; i < NIB_VALUE_MAX_DEPTH + 2; i++) {
        nib_list *outer = nib_list_new(&arena, 1);
        assert_true(nib_list_push(&arena, outer, deep));
        deep = nib_value_of_list(outer);
    }
    assert_false(nib_value_export(&arena, deep, &out));
    nib_arena_free(&arena);
}

static void test_dims(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    const long long dims[] = {2, 0, 5000000000};
    const nib_value value = nib_value_of_dims(&arena, dims, 3);
    nib_buf buf;
    nib_buf_init(&buf, &nib_default_allocator, 0);
    nib_json_write(&buf, value, (nib_json_style){0});
    assert_string_equal(buf.data, "[2,0,5000000000]");
    nib_buf_free(&buf);
    nib_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_table),
        cmocka_unit_test(test_number_round_trip),
        cmocka_unit_test(test_number_parse),
        cmocka_unit_test(test_number_parse_long),
        cmocka_unit_test(test_number_from_js_string),
        cmocka_unit_test(test_integer_format_exact),
        cmocka_unit_test(test_numbers_ignore_the_locale),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_map_keeps_order),
        cmocka_unit_test(test_list_grows),
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
