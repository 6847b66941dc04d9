/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifest expressions: names, helper functions, errors, and the public entry point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "nibble/lang.h"
#include "support.h"
#include "value/json.h"

static const char scope_text[] =
    "{\"shapes\": {\"A\": [2, 3, 4], \"B\": [4, 5], \"S\": []}, \"ranks\": {\"A\": 3}, \"M\": 5, "
    "\"half\": 0.5,"
    " \"attrs\": {\"K\": 128, \"none\": null}, \"pads\": [1, 0, 2], \"dtypes\": {\"T\": \"f16\"}}";

static nib_status evaluate(nib_arena *arena, const char *text, bool f16, bool list_dialect,
                           nib_value *out, nib_error *error)
{
    const nib_scope scope = {.frames = {lang_json(arena, scope_text).as.map},
                             .frame_count = 1,
                             .device_has_f16 = f16,
                             .list_dialect = list_dialect};
    nib_expr expr;
    NIB_TRY(nib_expr_compile(arena, nib_str_from(text), &expr, error));
    return nib_expr_eval(&expr, &scope, arena, out, error);
}

/* The result as JSON; "!" for a refusal. */
static void assert_result(const char *text, bool f16, bool list_dialect, const char *wanted)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_buf buf;
    nib_buf_init(&buf, &nib_default_allocator, 0);
    nib_value value;
    nib_error error = {0};
    const nib_status status = evaluate(&arena, text, f16, list_dialect, &value, &error);
    if (status == NIB_OK && value.type == NIB_VALUE_UNDEFINED)
        nib_buf_puts(&buf, "undefined");
    else if (status == NIB_OK && value.type == NIB_VALUE_FLOAT && !isfinite(value.as.number))
        nib_buf_puts(&buf, isnan(value.as.number) ? "NaN" : value.as.number > 0 ? "inf" : "-inf");
    else if (status == NIB_OK)
        nib_json_write(&buf, value, (nib_json_style){0});
    else
        nib_buf_puts(&buf, "!");
    if (strcmp(buf.data, wanted) != 0)
        fail_msg("%s: %s, wanted %s (%s)", text, buf.data, wanted, error.message);
    if (status != NIB_OK)
        assert_true(error.line == 1 && error.column > 0 &&
                    strncmp(error.source, "expression `", 12) == 0);
    nib_buf_free(&buf);
    nib_arena_free(&arena);
}

typedef struct example {
    const char *text, *wanted;
} example;

static void test_helpers(void **state)
{
    (void)state;
    static const example examples[] = {
        {"ceil(2.1)", "3"},
        {"ceil(-2.1)", "-2"},
        {"floor(-2.1)", "-3"},
        {"floor('2.5')", "2"},
        {"ceil(true)", "1"},
        {"ceil(none)", "NaN"},
        {"ceil()", "!"},
        {"ceil(1, 2)", "!"},
        {"ceil(x=1)", "!"},
        {"min(3, 1, 2)", "1"},
        {"max(3, '10', 2)", "10"},
        {"min()", "inf"},
        {"max()", "-inf"},
        {"min(1, none)", "NaN"},
        {"max(none, 1)", "NaN"},
        {"pow(2, 10)", "1024"},
        {"pow(4, half)", "2"},
        {"pow(1, 1 / 0)", "NaN"},
        {"pow(0, -1)", "inf"},
        {"ceilDiv(7, 2)", "4"},
        {"ceilDiv(-7, 2)", "-3"},
        {"ceilDiv(1, 0)", "inf"},
        {"ceilDiv(0, 0)", "NaN"},
        {"pow2ceil(1)", "1"},
        {"pow2ceil(0)", "1"},
        {"pow2ceil(5)", "8"},
        {"pow2ceil(8)", "8"},
        {"pow2ceil(281474976710657)", "562949953421312"},
        {"log2ceil(1)", "0"},
        {"log2ceil(9)", "4"},
        {"log2ceil(8)", "3"},
        {"numel(shapes.A)", "24"},
        {"numel([])", "1"},
        {"numel([2, 0])", "0"},
        {"numel(3)", "!"},
        {"numel(none)", "!"},
        {"dim(shapes.A, 0)", "2"},
        {"dim(shapes.A, -1)", "4"},
        {"dim(shapes.A, 4)", "3"},
        {"dim(shapes.A, -4)", "4"},
        {"dim(shapes.A, half)", "null"},
        {"dim([], 0)", "null"},
        {"dim(3, 0)", "!"},
        {"dim(shapes.nope, 0)", "!"},
        {"rows(shapes.A, 1)", "8"},
        {"rows(shapes.A, -1)", "6"},
        {"rows([], 0)", "1"},
        {"outer(shapes.A, 1)", "2"},
        {"outer(shapes.A, -1)", "6"},
        {"outer([], 0)", "1"},
        {"inner(shapes.A, 0)", "12"},
        {"inner(shapes.A, -1)", "1"},
        {"inner([], 0)", "1"},
        {"prefix(shapes.A, 2)", "[2,3]"},
        {"prefix(shapes.A, -1)", "[]"},
        {"prefix(shapes.A, 9)", "[2,3,4]"},
        {"suffix(shapes.A, 1)", "[3,4]"},
        {"suffix(shapes.A, -5)", "[2,3,4]"},
        {"suffix(shapes.A, 3)", "[]"},
        {"fill(7, 3)", "[7,7,7]"},
        {"fill('x', 0)", "[]"},
        {"fill(1, -1)", "!"},
        {"fill(1, half)", "!"},
        {"moveAxis([1,2,3,4], 0, -1)", "[2,3,4,1]"},
        {"moveAxis([1,2,3,4], 3, 1)", "[1,4,2,3]"},
        {"moveAxis([1,2,3,4], 1, 1)", "[1,2,3,4]"},
        {"moveAxis([1,2,3,4], -3, 2)", "[1,3,2,4]"},
        {"moveAxis([], 0, 0)", "!"},
        {"moveAxis([1,2], 2, 0)", "!"},
        {"moveAxis([1,2], 0, half)", "!"},
        {"permuteShape([5,6,7], [2,0,-2])", "[7,5,6]"},
        {"permuteShape([5,6], [0])", "!"},
        {"permuteShape([5,6], [0,-2])", "!"},
        {"permuteShape([5,6], [0,2])", "!"},
        {"permuteShape([], [])", "[]"},
        {"reversedAxes(3)", "[2,1,0]"},
        {"reversedAxes(0)", "[]"},
        {"reversedAxes(-1)", "!"},
        {"broadcastShape([2,1,4], [3,1])", "[2,3,4]"},
        {"broadcastShape([], [3])", "[3]"},
        {"broadcastShape([2,1,0], [3,1])", "[2,3,0]"},
        {"broadcastShape([0], [1])", "[0]"},
        {"broadcastShape([2], [3])", "!"},
        {"matmulShape([2,3,4], [4,5])", "[2,3,5]"},
        {"matmulShape([4], [4])", "[]"},
        {"matmulShape([4], [4,5])", "[5]"},
        {"matmulShape([3,4], [4])", "[3]"},
        {"matmulShape([2,1,3,4], [7,4,5])", "[2,7,3,5]"},
        {"matmulShape([3,4], [5,6])", "!"},
        {"matmulShape([], [4])", "!"},
        {"matmulShape([2,3,4], [3,4,5])", "!"},
        {"broadcastable([1,4], [2,3,4])", "true"},
        {"broadcastable([3,4], [2,3,4])", "true"},
        {"broadcastable([2,3,4], [3,4])", "false"},
        {"broadcastable([3], [1])", "false"},
        {"broadcastable([], [])", "true"},
        {"sameShape([2,3], [2,3])", "true"},
        {"sameShape([2,3], [3,2])", "false"},
        {"sameShape([2], [2,1])", "false"},
        {"hasAxis([0,-1], 2, 3)", "true"},
        {"hasAxis([0,-1], 1, 3)", "false"},
        {"hasAxis([], 0, 3)", "false"},
        {"axisValue([9,8], [1,-1], 2, 3, 0)", "8"},
        {"axisValue([9,8], [1,-1], 0, 3, 7)", "7"},
        {"axisValue([9], [1,-1], 2, 3, 5)", "5"},
        {"axisValue([9], [1], 0, 3)", "null"},
        {"isUniqueIntList([1,2,5], 0, 6)", "true"},
        {"isUniqueIntList([1,2,5], 0, 5)", "false"},
        {"isUniqueIntList([1,2,5], 0, 6, 4)", "false"},
        {"isUniqueIntList([1,1], 0, 6)", "false"},
        {"isUniqueIntList([half], 0, 6)", "false"},
        {"isUniqueIntList(3, 0, 6)", "false"},
        {"isUniqueIntList([-1, 2], -3, 3, 3)", "false"},
        {"isUniqueIntList([], 0, 0)", "true"},
        {"isUniqueIntList(['1'], 0, 6)", "false"},
        {"has(attrs, 'K')", "true"},
        {"has(attrs, 'none')", "true"},
        {"has(attrs, 'k')", "false"},
        {"has(none, 'k')", "false"},
        {"has(pads, 2)", "true"},
        {"has(pads, 3)", "false"},
        {"dtypeBytes('float32')", "4"},
        {"dtypeBytes('uint8')", "4"},
        {"dtypeBytes('int64')", "8"},
        {"dtypeBytes('float16')", "2"},
        {"dtypeBytes('f16')", "2"},
        {"dtypeBytes('vec2<u32>')", "8"},
        {"dtypeBytes('bool')", "4"},
        {"dtypeBytes('f64')", "!"},
        {"dtypeBytes(3)", "!"},
        {"dtypeBytes('none')", "!"},
        {"onnxDtypeCode('float32')", "1"},
        {"onnxDtypeCode('uint8')", "2"},
        {"onnxDtypeCode('int8')", "3"},
        {"onnxDtypeCode('int16')", "5"},
        {"onnxDtypeCode('int32')", "6"},
        {"onnxDtypeCode('int64')", "7"},
        {"onnxDtypeCode('bool')", "9"},
        {"onnxDtypeCode('float16')", "10"},
        {"onnxDtypeCode('uint32')", "12"},
        {"onnxDtypeCode('f32')", "!"},
        {"pick([[M < 3, 'a'], [M < 9, 'b']], 'c')", "\"b\""},
        {"pick([], 'c')", "\"c\""},
        {"pick([[0, 1]])", "null"},
        {"pick([[[], 1]], 2)", "1"},
        {"pick([['', 1], [none, 2]], 3)", "3"},
        {"pick([[true]], 2)", "!"},
        {"pick([[true, 1], 5], 2)", "1"},
        {"pick([5, [true, 1]], 2)", "!"},
        {"f16Ok('f32')", "true"},
        {"f16Ok('f16')", "false"},
        {"f16Ok(dtypes.T)", "false"},
        {"f16Ok('float16')", "false"},
        {"rank([1])", "!"},
        {"cols([1], 0)", "!"},
        {"f16Allowed('f32')", "!"},
        {"fill(1, 10000000)", "!"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        assert_result(examples[i].text, false, false, examples[i].wanted);
}

static void test_device_and_dialect(void **state)
{
    (void)state;
    static const example examples[] = {
        {"f16Ok('f16')", "true"},          {"f16Allowed('f16')", "true"},
        {"f16Allowed('float32')", "true"}, {"f16Allowed('i32')", "false"},
        {"rank(shapes.A)", "3"},           {"cols(shapes.A, -1)", "4"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        assert_result(examples[i].text, true, true, examples[i].wanted);
    assert_result("f16Allowed('f16')", false, true, "false");
    assert_result("f16Allowed('f32')", false, true, "true");
}

static void test_values_lose_their_tags(void **state)
{
    (void)state;
    static const example examples[] = {
        {"8 / 4", "2"},
        {"[8 / 4, (1, 2)]", "[2,[1,2]]"},
        {"(1, 2)", "[1,2]"},
        {"none", "null"},
        {"attrs.nope", "undefined"},
        {"shapes.A[dim(shapes.B, 0) / 2]", "!"},       /* a quotient is a Float and no index */
        {"shapes.A[ceil(dim(shapes.B, 0) / 2)]", "4"}, /* a helper's result is tagged anew */
        {"1 if M", "1"},
        {"1 if not M", "undefined"},
        {"dim([], 0) == 3", "false"},
        {"dim([], 0) + 1", "!"},
        {"65535 * 65535", "4294836225"},
        {"M // 0", "inf"},
        {"M % 0", "NaN"},
        {"0 / 0", "NaN"},
        {"'abc'[9]", "undefined"},
        {"1 }} x {{ 2", "1"},
        {"[1, 2] == [1, 2]", "false"},
        {"shapes.A == shapes.A", "true"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        assert_result(examples[i].text, false, false, examples[i].wanted);
}

static void test_names_must_resolve(void **state)
{
    (void)state;
    static const example examples[] = {
        {"nope", "!"},
        {"M if true else nope", "!"},
        {"true or nope", "!"},
        {"nope.x is defined", "!"},
        {"nope is defined", "false"},
        {"nope is not defined and M", "5"},
        {"nope is undefined or nope", "!"},
        {"M if nope is defined else 7", "7"},
        {"shapes.nope", "undefined"},
        {"M|nope", "!"},
        {"range(3)", "!"},
        {"namespace()", "!"},
        {"loop", "!"},
        {"True and none is none and None is none", "true"},
        {"dim(shapes.A, i=nope)", "!"},
        {"[x for x in M]", "!"},
        {"pick(pairs=[])", "!"},
        {"nope is defined.x", "!"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        assert_result(examples[i].text, false, false, examples[i].wanted);
}

static void test_unknown_name_message(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_value value;
    nib_error error = {0};
    assert_int_equal(evaluate(&arena, "M + f32", false, false, &value, &error), NIB_EVAL);
    assert_int_equal(error.column, 5);
    assert_non_null(strstr(error.message, "\"f32\""));
    assert_non_null(strstr(error.message, "'f32'"));
    assert_non_null(strstr(error.message, "shapes"));
    assert_non_null(strstr(error.message, "ceilDiv"));
    assert_string_equal(error.excerpt, "M + f32\n    ^");
    assert_string_equal(error.source, "expression `M + f32`");
    nib_arena_free(&arena);
}

typedef struct misplaced {
    const char *text;
    nib_status status;
    unsigned column;
    const char *part;
} misplaced;

static void test_error_positions(void **state)
{
    (void)state;
    static const misplaced cases[] = {
        {"1 +", NIB_SYNTAX, 4, "ends here"},
        {"ceil(", NIB_SYNTAX, 6, "ends here"},
        {"", NIB_SYNTAX, 1, "ends here"},
        {"1e5", NIB_SYNTAX, 2, "e5"},
        {"M $ 2", NIB_SYNTAX, 3, "$"},
        {"'a", NIB_SYNTAX, 1, "quote"},
        {"M + none", NIB_EVAL, 3, "none"},
        {"M + attrs.x", NIB_EVAL, 3, "undefined"},
        {"1 + M + [1]", NIB_EVAL, 7, "integer and list"},
        {"M < '3'", NIB_EVAL, 3, "\"<\""},
        {"dim(3, M)", NIB_EVAL, 1, "dim(): argument 1"},
        {"M is zero", NIB_EVAL, 6, "zero"},
        {"M|zero", NIB_EVAL, 3, "zero"},
        {"shapes.A['x'](1)", NIB_EVAL, 9, "function"},
        {"{1: 2}", NIB_EVAL, 1, "key"},
        {"M.x.y[0]", NIB_EVAL, 6, "indexed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_arena arena;
        nib_arena_init(&arena, &nib_default_allocator, 0);
        nib_value value;
        nib_error error = {0};
        const nib_status status = evaluate(&arena, cases[i].text, false, false, &value, &error);
        if (status != cases[i].status || error.line != 1 || error.column != cases[i].column ||
            !strstr(error.message, cases[i].part))
            fail_msg("%s: %s %u:%u %s", cases[i].text, nib_status_name(status), error.line,
                     error.column, error.message);
        nib_arena_free(&arena);
    }
}

static void test_reserved_names(void **state)
{
    (void)state;
    static const char *const reserved[] = {
        "repeat",
        "tunables",
        "dtypes",
        "logicalDtypes",
        "tensorDtypes",
        "ranks",
        "shapes",
        "present",
        "attrs",
        "args",
        "device",
        "env",
        "constants",
        "derive",
        "source",
        "DISPATCH_FOLD_WIDTH",
        "f16Ok",
        "ceil",
        "floor",
        "min",
        "max",
        "pow",
        "ceilDiv",
        "pow2ceil",
        "log2ceil",
        "numel",
        "dim",
        "rows",
        "outer",
        "inner",
        "prefix",
        "suffix",
        "fill",
        "moveAxis",
        "permuteShape",
        "reversedAxes",
        "broadcastShape",
        "matmulShape",
        "broadcastable",
        "sameShape",
        "hasAxis",
        "axisValue",
        "isUniqueIntList",
        "has",
        "dtypeBytes",
        "onnxDtypeCode",
        "pick",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "range",
        "loop",
        "namespace",
        "dict",
    };
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (!nib_expr_name_is_reserved(nib_str_from(reserved[i])))
            fail_msg("%s is not reserved", reserved[i]);
    }
    static const char *const free_names[] = {"raise_exception", "rank", "cols", "M",
                                             "Range",           "",     "shape"};
    for (size_t i = 0; i < sizeof free_names / sizeof free_names[0]; i++)
        assert_false(nib_expr_name_is_reserved(nib_str_from(free_names[i])));
}

static void test_frames_are_searched_in_order(void **state)
{
    (void)state;
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    const nib_scope scope = {.frames = {lang_json(&arena, "{\"a\": 1, \"ceil\": 2}").as.map, NULL,
                                        lang_json(&arena, "{\"a\": 3, \"b\": 4}").as.map},
                             .frame_count = 3};
    nib_value value;
    assert_true(nib_scope_lookup(&scope, NIB_STR("a"), &value) && value.as.number == 1);
    assert_true(nib_scope_lookup(&scope, NIB_STR("b"), &value) && value.as.number == 4);
    assert_true(nib_scope_lookup(&scope, NIB_STR("ceil"), &value) &&
                value.type == NIB_VALUE_INTEGER);
    assert_true(nib_scope_lookup(&scope, NIB_STR("floor"), &value) &&
                value.type == NIB_VALUE_FUNCTION);
    assert_false(nib_scope_lookup(&scope, NIB_STR("c"), &value));
    nib_arena_free(&arena);
}

static void test_set_view(void **state)
{
    (void)state;
    static const example examples[] = {
        {"dev.features.has('x')", "true"}, {"dev.features.has('y')", "false"},
        {"dev.features.has()", "false"},   {"dev.features.size", "1"},
        {"dev.features.keys()", "{}"},     {"dev.features.entries()", "{}"},
        {"'x' in dev.features", "false"},  {"dev.features.nope", "undefined"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        nib_arena arena;
        nib_arena_init(&arena, &nib_default_allocator, 0);
        outcome o = lang_run(&arena, true, nib_str_from(examples[i].text), NULL);
        assert_int_equal(o.status, NIB_OK);
        assert_string_equal(o.text.data, examples[i].wanted);
        nib_buf_free(&o.text);
        nib_arena_free(&arena);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    uint64_t size;
    assert_int_equal(nib_value_to_size(nib_value_number(0), "x", &size, NULL), NIB_OK);
    assert_int_equal(size, 0);
    assert_int_equal(nib_value_to_size(nib_value_float(4294836225.0), "x", &size, NULL), NIB_OK);
    assert_int_equal(size, 4294836225u);
    assert_int_equal(nib_value_to_size(nib_value_number(0x1p53), "x", &size, NULL), NIB_OK);
    const nib_value bad[] = {nib_value_number(-1),
                             nib_value_number(0.5),
                             nib_value_number((double)NAN),
                             nib_value_number((double)INFINITY),
                             nib_value_number(0x1p54),
                             nib_value_cstr("3"),
                             nib_value_bool(true),
                             NIB_NULL,
                             NIB_UNDEFINED};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        nib_error error = {0};
        assert_int_equal(nib_value_to_size(bad[i], "dispatch.x", &size, &error), NIB_EVAL);
        assert_non_null(strstr(error.message, "dispatch.x"));
    }
}

/* ---- include/nibble/lang.h ---- */

static void test_public_eval(void **state)
{
    (void)state;
    nib_context *context;
    nib_error error = {0};
    char *text;
    assert_int_equal(nib_context_create(NULL, &context, &error), NIB_OK);
    assert_int_equal(
        nib_expression_eval(context, "[ceilDiv(n, 2), 'a', 1.5]", "{\"n\": 5}", &text, &error),
        NIB_OK);
    assert_string_equal(text, "[3, \"a\", 1.5]");
    nib_text_free(context, text);
    assert_int_equal(nib_expression_eval(context, "1 if false", NULL, &text, &error), NIB_OK);
    assert_string_equal(text, "undefined");
    nib_text_free(context, text);
    assert_int_equal(nib_expression_eval(context, "n", "", &text, &error), NIB_EVAL);
    assert_null(text);
    error = (nib_error){0};
    assert_int_equal(nib_expression_eval(context, "n", "[1]", &text, &error), NIB_FORMAT);
    assert_string_equal(error.source, "scope");
    error = (nib_error){0};
    assert_int_equal(nib_expression_eval(context, "n", "{", &text, &error), NIB_FORMAT);
    error = (nib_error){0};
    assert_int_equal(nib_expression_eval(context, "n +", "{\"n\": 5}", &text, &error), NIB_SYNTAX);
    assert_int_equal(nib_expression_eval(context, NULL, NULL, &text, NULL), NIB_INVALID_ARGUMENT);
    nib_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_helpers),
        cmocka_unit_test(test_device_and_dialect),
        cmocka_unit_test(test_values_lose_their_tags),
        cmocka_unit_test(test_names_must_resolve),
        cmocka_unit_test(test_unknown_name_message),
        cmocka_unit_test(test_error_positions),
        cmocka_unit_test(test_reserved_names),
        cmocka_unit_test(test_frames_are_searched_in_order),
        cmocka_unit_test(test_set_view),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_public_eval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
