/* SPDX-License-Identifier: Apache-2.0
 *
 * Uniform bytes and the declarations text (package format 4.7, 5.4). Expected bytes were made with
 * Python's struct module.
 */
#include "support.h"

static nib_package *package_with(const char *bindings)
{
    char quoted[4096];
    snprintf(quoted, sizeof quoted,
             "{'name': 'U', 'inputs': {'x': {'onnx': 'X', 'dtype': 'T'}, 'w': {'dtype': 'T', "
             "'optional': true}},"
             " 'outputs': {'y': {'dtype': 'T', 'shape': 'shapes.x'}},"
             " 'typeConstraints': {'T': ['float32', 'float16']},"
             " 'attributes': {'n': {'default': 3}, 'f': {'default': 0.1}},"
             " 'args': {'u': {'kind': 'u32', 'required': false}, 'text': {'kind': 'string', "
             "'required': false},"
             "          'flag': {'kind': 'bool', 'required': false}},"
             " 'derive': {'len': 'numel(shapes.x)', 'vec': '`vec4<` ~ dtypes.T ~ `>`', 'nothing': "
             "'none'},"
             " 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's', 'derive': {'own': "
             "'len * 2'},"
             " 'bindings': [%s], 'dispatch': {'x': 'attrs.n'}}]}]}",
             bindings);
    return package_from_quoted(quoted);
}

typedef struct uniform_case {
    const char *fields, *request, *expected;
} uniform_case;

static nib_package *package_with_fields(const char *fields)
{
    char bindings[2048];
    snprintf(bindings, sizeof bindings, "'x', 'y', {'name': 'params', 'struct': [%s]}", fields);
    return package_with(bindings);
}

static void fields_are_packed_little_endian(void **state)
{
    (void)state;
    static const uniform_case cases[] = {
        {"{'name': 'a', 'type': 'u32', 'value': 1}", "", "01000000000000000000000000000000"},
        {"{'name': 'a', 'type': 'u32', 'value': 'len'}, {'name': 'b', 'type': 'i32', 'value': "
         "'-2'}",
         "", "06000000feffffff0000000000000000"},
        {"{'name': 'a', 'type': 'u32', 'value': 4294967295}, {'name': 'b', 'type': 'i32', 'value': "
         "-2147483648},"
         " {'name': 'c', 'type': 'i32', 'value': 2147483647}, {'name': 'd', 'type': 'f32', "
         "'value': -0.0}",
         "", "ffffffff00000080ffffff7f00000080"},
        {"{'name': 'a', 'type': 'f32', 'value': 'attrs.f'}, {'name': 'b', 'type': 'f32', 'value': "
         "'1.0'},"
         " {'name': 'c', 'type': 'f32', 'value': '1 / 0'}, {'name': 'd', 'type': 'f32', 'value': "
         "'-1 / 0'},"
         " {'name': 'e', 'type': 'f32', 'value': 1e39}",
         "", "cdcccc3d0000803f0000807f000080ff0000807f000000000000000000000000"},
        /* the largest double that still rounds to the largest float, and the first that does not */
        {"{'name': 'a', 'type': 'f32', 'value': 3.4028235677973362e38}, {'name': 'b', 'type': "
         "'f32', 'value':"
         " 3.4028235677973366e38}, {'name': 'c', 'type': 'f32', 'value': 1e-45}, {'name': 'd', "
         "'type': 'f32',"
         " 'value': -3.5e38}",
         "", "ffff7f7f0000807f01000000000080ff"},
        /* value, argument, default */
        {"{'name': 'u', 'type': 'u32', 'value': 1, 'default': 2}", "#u=9",
         "01000000000000000000000000000000"},
        {"{'name': 'u', 'type': 'u32', 'default': 2}", "#u=9", "09000000000000000000000000000000"},
        {"{'name': 'u', 'type': 'u32', 'default': 2}", "", "02000000000000000000000000000000"},
        {"{'name': 'u', 'type': 'u32', 'default': 'own + 1'}", "",
         "0d000000000000000000000000000000"},
        {"{'name': 'u', 'type': 'u32', 'value': null, 'default': 5}", "",
         "05000000000000000000000000000000"},
        {"{'name': 'u', 'type': 'u32', 'required': false}", "", "00000000000000000000000000000000"},
        {"{'name': 'u', 'type': 'u32', 'internal': true}", "", "00000000000000000000000000000000"},
        /* the text of a string argument is an expression */
        {"{'name': 'text', 'type': 'u32'}", "#text=len*2", "0c000000000000000000000000000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[256];
        nib_package *package = package_with_fields(cases[i].fields);
        snprintf(request, sizeof request, "x=float32[2,3] %s", cases[i].request);
        nib_plan *plan = must_plan(package, request, NULL);
        char *json;
        document doc;
        assert_int_equal(nib_plan_json(plan, &json, NULL), NIB_OK);
        open_document(&doc, json);
        expect_json(&doc, "passes[0].uniforms.params", cases[i].expected);
        close_document(&doc);
        nib_text_free(test_context(), json);
        nib_plan_free(plan);
        free_package(package);
    }
}

static void wrong_field_values_are_named(void **state)
{
    (void)state;
    static const uniform_case cases[] = {
        {"{'name': 'a', 'type': 'u32', 'value': -1}", "",
         "pass 'p'|uniform params.a is -1|[0, 4294967295]"},
        {"{'name': 'a', 'type': 'u32', 'value': 4294967296}", "", "uniform params.a is 4294967296"},
        {"{'name': 'a', 'type': 'u32', 'value': 'attrs.n / 2'}", "", "uniform params.a is 1.5"},
        {"{'name': 'a', 'type': 'i32', 'value': 2147483648}", "",
         "params.a is 2147483648|2147483647]"},
        {"{'name': 'a', 'type': 'u32', 'value': '1 / 0'}", "",
         "uniform params.a is Infinity|finite"},
        {"{'name': 'a', 'type': 'f32', 'value': '0 / 0'}", "", "uniform params.a is NaN"},
        {"{'name': 'a', 'type': 'f32', 'value': 'attrs.n == 3'}", "",
         "uniform params.a is true|number"},
        {"{'name': 'a', 'type': 'f32', 'value': 'nothing'}", "", "uniform params.a is none|number"},
        {"{'name': 'a', 'type': 'u32', 'value': '`7`'}", "", "uniform params.a is \"7\""},
        {"{'name': 'a', 'type': 'u32', 'value': 'nothing + 1'}", "", "uniform params.a failed"},
        {"{'name': 'flag', 'type': 'u32'}", "#flag=true", "uniform params.flag is true"},
        {"{'name': 'u', 'type': 'u32'}", "", "uniform params.u needs the argument 'u'"},
        {"{'name': 'b', 'type': 'u32', 'value': 1}, {'name': 'a', 'type': 'u32', 'value': -1}", "",
         "variants[0].passes[0].bindings[2].struct|params.a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[256];
        nib_package *package = package_with_fields(cases[i].fields);
        snprintf(request, sizeof request, "x=float32[2,3] %s", cases[i].request);
        planned result = plan_text(package, request, NULL);
        if (result.status == NIB_OK)
            fail_msg("%s is accepted", cases[i].fields);
        expect_message(&result.error, cases[i].expected);
        free_package(package);
    }
}

/* Number type and NaN are checked for every pass; range and presence only when the buffer is made.
 */
static void an_inactive_pass_is_checked_less(void **state)
{
    (void)state;
    nib_package *package = package_with_fields("{'name': 'a', 'type': 'u32', 'value': -1},"
                                               "{'name': 'u', 'type': 'u32'}");
    nib_plan *plan = must_plan(package, "x=float32[2] @n=0", NULL);
    assert_false(plan->passes[0].active);
    nib_plan_free(plan);
    free_package(package);
    package = package_with_fields("{'name': 'a', 'type': 'u32', 'value': '0 / 0'}");
    planned result = plan_text(package, "x=float32[2] @n=0", NULL);
    assert_int_equal(result.status, NIB_EVAL);
    nib_plan_free(must_plan(package, "x=float32[0]", NULL)); /* nothing runs: not evaluated */
    free_package(package);
}

typedef struct declaration_case {
    const char *bindings, *request, *expected;
} declaration_case;

static void declarations_are_exact(void **state)
{
    (void)state;
    static const declaration_case cases[] = {
        {"'x', 'y'", "x=float16[4]",
         "@group(0) @binding(0) var<storage, read> x: array<f16>;\n"
         "@group(0) @binding(1) var<storage, read_write> y: array<f16>;"},
        {"{'name': 'x', 'elementType': '$vec'}, {'name': 'out', 'arg': 'y', 'length': '$len'}",
         "x=float32[4]",
         "@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;\n"
         "@group(0) @binding(1) var<storage, read_write> out: array<f32, 4u>;"},
        {"'x', {'name': 'params', 'struct': [{'name': '_pad0', 'type': 'f32', 'value': 1},"
         " {'name': 'b', 'type': 'i32', 'value': 1}]}, 'y'",
         "x=float32[4]",
         "struct Params { _pad0: f32, b: i32, _pad1: u32, _pad2: u32 };\n"
         "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
         "@group(0) @binding(1) var<uniform> params: Params;\n"
         "@group(0) @binding(2) var<storage, read_write> y: array<f32>;"},
        {"{'name': 'p', 'structName': 'A', 'struct': [{'name': 'n', 'type': 'u32', 'value': 1}]}, "
         "'x',"
         "{'name': 'q', 'structName': 'B', 'struct': [{'name': 'a', 'type': 'u32', 'value': 1},"
         " {'name': 'b', 'type': 'u32', 'value': 1}, {'name': 'c', 'type': 'u32', 'value': 1},"
         " {'name': 'd', 'type': 'u32', 'value': 1}]},"
         "{'name': 'r', 'structName': 'A', 'struct': [{'name': 'n', 'type': 'u32', 'value': 2}]}",
         "x=float32[4]",
         "struct A { n: u32, _pad0: u32, _pad1: u32, _pad2: u32 };\n"
         "struct B { a: u32, b: u32, c: u32, d: u32 };\n"
         "@group(0) @binding(0) var<uniform> p: A;\n"
         "@group(0) @binding(1) var<storage, read> x: array<f32>;\n"
         "@group(0) @binding(2) var<uniform> q: B;\n"
         "@group(0) @binding(3) var<uniform> r: A;"},
        {"{'name': 'x', 'elementType': '$len'}", "x=float32[4]",
         "@group(0) @binding(0) var<storage, read> x: array<4>;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_package *package = package_with(cases[i].bindings);
        nib_plan *plan = must_plan(package, cases[i].request, NULL);
        assert_string_equal(plan->passes[0].declarations.data, cases[i].expected);
        nib_plan_free(plan);
        free_package(package);
    }
}

static void wrong_bindings_are_named(void **state)
{
    (void)state;
    static const declaration_case cases[] = {
        {"{'name': 'x', 'elementType': '$nothing'}", "x=float32[4]",
         "variants[0].passes[0]|pass 'p'|binding 'x'|$nothing"},
        {"{'name': 'x', 'elementType': 'f32', 'length': '$vec'}", "x=float32[4]",
         "binding 'x'|vec4<f32>|positive integer"},
        {"{'name': 'x', 'elementType': 'f32', 'length': '$len'}", "x=float32[0] w=float32[0]",
         "binding 'x'|length is 0"},
        {"{'name': 'x', 'elementType': 'f32', 'length': 5}", "x=float32[4]",
         "binding 'x'|5 elements of f32|20 bytes|input 'x' (X) has 16"},
        {"{'name': 'x', 'elementType': 'vec3<f32>', 'length': 2}", "x=float32[6]",
         "binding 'x'|32 bytes|24"},
        {"{'name': 'x', 'elementType': 'mat2x2<f32>', 'length': 1}", "x=float32[6]",
         "binding 'x'|mat2x2<f32>|length"},
        {"'x', 'w'", "x=float32[6]", "pass 'p'|binding 'w'|the call has no tensor 'w'"},
        {"'x', {'name': 'p', 'struct': [{'name': 'n', 'type': 'u32', 'value': 1}]},"
         " {'name': 'q', 'struct': [{'name': 'n', 'type': 'i32', 'value': 1}]}",
         "x=float32[1]", "pass 'p'|'p' and 'q'|Params"},
        {"'x', {'name': 'p', 'struct': [{'name': 'n', 'type': 'u32', 'default': 1}]},"
         " {'name': 'q', 'struct': [{'name': 'n', 'type': 'u32', 'default': 2}]}",
         "x=float32[1]", "pass 'p'|'p' and 'q'|Params"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nib_package *package = package_with(cases[i].bindings);
        planned result = plan_text(package, cases[i].request, NULL);
        if (result.status == NIB_OK)
            fail_msg("%s is accepted", cases[i].bindings);
        expect_message(&result.error, cases[i].expected);
        free_package(package);
    }
}

/* The rounded size of the buffer counts, and an odd number of halves fills a word. */
static void lengths_are_held_against_rounded_buffers(void **state)
{
    (void)state;
    nib_package *package =
        package_with("{'name': 'x', 'elementType': ' vec2 < f16 > ', 'length': 2}");
    nib_plan_free(must_plan(package, "x=float16[3]", NULL));
    planned result = plan_text(package, "x=float16[2]", NULL);
    assert_int_equal(result.status, NIB_REQUEST);
    free_package(package);
    package = package_with("{'name': 'x', 'elementType': 'u32', 'length': 1}, 'y', 'w'");
    /* an inactive pass may lack an optional tensor */
    nib_plan *plan = must_plan(package, "x=float32[2] @n=0", NULL);
    assert_int_equal(plan->passes[0].bindings[2].kind, NIB_RESOURCE_MISSING);
    nib_plan_free(plan);
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_packed_little_endian),
        cmocka_unit_test(wrong_field_values_are_named),
        cmocka_unit_test(an_inactive_pass_is_checked_less),
        cmocka_unit_test(declarations_are_exact),
        cmocka_unit_test(wrong_bindings_are_named),
        cmocka_unit_test(lengths_are_held_against_rounded_buffers),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
