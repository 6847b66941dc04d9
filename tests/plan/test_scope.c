/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names each level sees (package format 2.A.7, 2.B.2, 2.B.3, 3.6).
 */
#include "support.h"

static void expect_derive(const nib_plan *plan, const char *const expected[][2], size_t count)
{
    char *json;
    document doc;
    assert_int_equal(nib_plan_json(plan, &json, NULL), NIB_OK);
    open_document(&doc, json);
    for (size_t i = 0; i < count; i++)
        expect_json(&doc, expected[i][0], expected[i][1]);
    close_document(&doc);
    nib_text_free(test_context(), json);
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void values_leave_an_evaluation_as_plain_json(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        "{'domain': 'test', 'name': 'N', 'inputs': {'x': {'onnx': 'X', 'dtype': 'T'}, 'w': "
        "{'dtype': 'uint8',"
        "  'layout': 'packed', 'optional': true}},"
        " 'outputs': {'y': {'dtype': 'T', 'shape': 'shapes.x'}, 'z': {'dtype': 'T', 'shape': "
        "'shapes.x', 'optional': true}},"
        " 'typeConstraints': {'T': ['float16', 'float32']},"
        " 'args': {'scale': {'kind': 'f32', 'required': false}},"
        " 'attributes': {'n': {'default': 4}, 'free': {}},"
        " 'derive': {'list': ['shapes.x', 2, {'deep': 'ranks.x + 1', 'text': '`a` ~ `b`'}, null], "
        "'half': '8 / 4',"
        "   'text': 'half ~ ``', 'absent': 'attrs.free', 'absentIsDefined': 'attrs.free is "
        "defined',"
        "   'viaNamespace': 'derive.half + 1', 'missingMember': 'derive.later is defined', "
        "'later': 1,"
        "   'storage': '[tensorDtypes.x, logicalDtypes.T, dtypes.T, tensorDtypes.w, dtypes.uint8]',"
        "   'who': '[present.x, present.X, present.w, present.y, present.z, present.scale, "
        "args.scale is defined]',"
        "   'outputs': '[shapes.y, ranks.z, ranks.y]', 'fold': 'DISPATCH_FOLD_WIDTH', 'members': "
        "'repeat',"
        "   'f16': 'f16Ok(tensorDtypes.x)'},"
        " 'variants': [{'id': 'v', 'derive': {'half': 'half * 10', 'more': 'half + 1',"
        "   'uint8': '`shadow`'},"
        "   'intermediates': [{'id': 's', 'dtype': 'float16', 'shape': 'more'}],"
        "   'passes': [{'id': 'p', 'shader': 's', 'derive': {'own': 'T ~ derive.T ~ uint8', "
        "'half': 'half * 2'},"
        "     'bindings': ['x', 'y', {'scratch': 's', 'elementType': '$own'}], 'dispatch': {'x': "
        "'half'}}]}]}");
    nib_plan *plan = must_plan(package, "x=float16[2,3] w=uint8[5] #scale=2", NULL);
    static const char *const expected[][2] = {
        {"derive.list", "[[2,3],2,{\"deep\":3,\"text\":\"ab\"},null]"},
        {"derive.text", "2"},
        {"derive.absent", "null"},
        {"derive.absentIsDefined", "false"},
        {"derive.viaNamespace", "3"},
        {"derive.missingMember", "false"},
        {"derive.storage", "[\"float16\",\"float16\",\"f16\",\"uint8\",\"u32\"]"},
        {"derive.who", "[true,null,true,true,false,false,true]"},
        {"derive.outputs", "[[2,3],null,2]"},
        {"derive.fold", "65535"},
        {"derive.members", "{}"},
        {"derive.f16", "false"},
        {"derive.half", "20"},
        {"derive.more", "21"},
        {"intermediates[0].shape", "[21]"},
        {"intermediates[0].bytes", "42"},
        {"passes[0].derive", "{\"own\":\"f16f16shadow\",\"half\":40}"},
        {"passes[0].dispatch", "[40,1,1]"},
        {"passes[0].bindings[2].elementType", "f16f16shadow"},
        {"passes[0].bindings[2].tensor", "s"},
        {"passes[0].label", "test.N.v.p"},
        {"args.scale", "2"},
    };
    expect_derive(plan, expected, COUNT_OF(expected));
    nib_plan_free(plan);
    plan = must_plan(package, "x=float16[1]", "{\"features\": [\"shader-f16\"]}");
    static const char *const on_f16[][2] = {{"derive.f16", "true"}};
    expect_derive(plan, on_f16, COUNT_OF(on_f16));
    nib_plan_free(plan);
    free_package(package);
}

static void forward_references_and_late_names_fail(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"'early': 'late', 'late': 1", "derive.early|late"},
        {"'early': 'T'", "derive.early|T"}, /* type variables are bare names in passes only */
        {"'early': 'constants.A'", "derive.early|constants"},
        {"'early': '1 if true else nowhere'", "derive.early|nowhere"},
        {"'ok': 1, 'list': [1, ['none + 1']]", "derive.list"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char quoted[2048];
        snprintf(quoted, sizeof quoted,
                 "{'name': 'N', 'inputs': {'x': {'dtype': 'T'}}, 'outputs': {'y': {'dtype': 'T', "
                 "'shape': 'shapes.x'}},"
                 " 'typeConstraints': {'T': ['float32']}, 'derive': {%s}, 'variants': [{'id': 'v', "
                 "'passes': ["
                 "{'shader': 's', 'bindings': ['x', 'y'], 'dispatch': {'x': 1}}]}]}",
                 cases[i][0]);
        nib_package *package = package_from_quoted(quoted);
        planned result = plan_text(package, "x=float32[2]", NULL);
        assert_int_equal(result.status, NIB_EVAL);
        expect_message(&result.error, cases[i][1]);
        free_package(package);
    }
}

/* An error inside a pass says which pass. */
static void pass_errors_have_a_path(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"'derive': {'a': 'none + 1'}, 'dispatch': {'x': 1}", "variants[1].passes[0].derive.a"},
        {"'profile': {'bytesMoved': 'none + 1'}, 'dispatch': {'x': 1}",
         "variants[1].passes[0].profile.bytesMoved"},
        {"'dispatch': {'x': 1, 'y': 'none + 1'}", "variants[1].passes[0].dispatch.y"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char quoted[2048];
        snprintf(quoted, sizeof quoted,
                 "{'name': 'N', 'inputs': {'x': {'dtype': 'float32'}}, 'outputs': {'y': {'dtype': "
                 "'float32', 'shape':"
                 " 'shapes.x'}}, 'variants': [{'id': 'u', 'priority': -1, 'passes': [{'shader': "
                 "'s', 'bindings': ['x'],"
                 " 'dispatch': {'x': 1}}]}, {'id': 'v', 'passes': [{'shader': 's', 'bindings': "
                 "['x', 'y'], %s}]}]}",
                 cases[i][0]);
        nib_package *package = package_from_quoted(quoted);
        planned result = plan_text(package, "x=float32[2]", NULL);
        assert_int_equal(result.status, NIB_EVAL);
        expect_message(&result.error, cases[i][1]);
        nib_plan_free(must_plan(package, "x=float32[2] !u", NULL));
        free_package(package);
    }
}

static void list_dialect_levels(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        "{'domain': 'test', 'name': 'L', 'inputs': [{'role': 'A', 'dtype': 'T'}, {'role': 'B', "
        "'dtype': 'T', 'optional': true}],"
        " 'outputs': [{'role': 'Y', 'dtype': 'T', 'shape': '[dim(shapes.A, 0), attrs.N]'}],"
        " 'args': {'aT': {'kind': 'tensor', 'semantic': 'A', 'role': 'input'},"
        "   'bT': {'kind': 'tensor', 'semantic': 'B', 'role': 'input', 'required': false},"
        "   'yT': {'kind': 'tensor', 'semantic': 'Y', 'role': 'output'}},"
        " 'typeConstraints': {'T': ['float32', 'float16']}, 'attributes': {'N': 3}, 'tunables': "
        "{'W': 4},"
        " 'derive': {'same': 'sameShape(shapes.A, shapes.aT)', 'out': 'shapes.output', 'both': "
        "'shapes.input is defined',"
        "   'who': '[present.aT, present.A, present.bT]', 'viaRank': 'rank(shapes.A) + "
        "cols(shapes.A, 1)'},"
        " 'constants': {'C': 'attrs.N * 2', 'text': '`f32`', 'flag': false},"
        " 'variants': [{'id': 'v', 'constants': {'C': 'attrs.N * 3', 'D': 'same', 'W': "
        "'tunables.W'},"
        "   'passes': [{'id': 'one', 'shader': 's', 'constants': {'text': '`f16`'}, 'bindings': ["
        "     {'name': 'a', 'arg': 'aT', 'buffer': {'type': 'read-only-storage'}, 'elementType': "
        "'$T', 'length': '$W'},"
        "     {'name': 'y', 'semantic': 'Y', 'arg': 'yT', 'buffer': {'type': 'storage'}, "
        "'elementType': '$text'}],"
        "     'dispatch': {'x': 'C', 'y': 'constants.W', 'z': 'constants.C - C + 1'}},"
        "    {'id': 'two', 'shader': 's', 'bindings': ["
        "     {'name': 'y', 'semantic': 'Y', 'arg': 'yT', 'buffer': {'type': 'storage'}, "
        "'elementType': '$text'}],"
        "     'dispatch': {'threads': 'C * 2', 'workgroupSize': 'W'}}]}]}");
    nib_plan *plan = must_plan(package, "A=float32[2,5]", NULL);
    static const char *const expected[][2] = {
        {"derive.same", "true"},
        {"derive.out", "[2,3]"},
        {"derive.viaRank", "7"},
        {"derive.who", "[true,null,false]"},
        {"derive.constants", "{\"C\":9,\"text\":\"f32\",\"flag\":false,\"D\":true,\"W\":4}"},
        {"passes[0].dispatch", "[9,4,1]"},
        {"passes[0].constants", "{\"text\":\"f16\"}"},
        {"passes[0].bindings[0].elementType", "f32"},
        {"passes[0].bindings[0].tensor", "aT"},
        {"passes[0].bindings[0].length", "4"},
        {"passes[0].bindings[1].elementType", "f16"},
        {"passes[1].bindings[0].elementType", "f32"},
        {"passes[1].dispatch", "[5,1,1]"},
    };
    expect_derive(plan, expected, COUNT_OF(expected));
    assert_non_null(nib_plan_find_tensor(plan, NIB_STR("yT")));
    assert_ptr_equal(nib_plan_find_tensor(plan, NIB_STR("yT")),
                     nib_plan_find_tensor(plan, NIB_STR("Y")));
    assert_ptr_equal(nib_plan_find_tensor(plan, NIB_STR("output")), &plan->tensors[1]);
    assert_null(nib_plan_find_tensor(plan, NIB_STR("B")));
    assert_null(nib_plan_find_tensor(plan, NIB_STR("zz")));
    nib_plan_free(plan);
    free_package(package);
}

/* A plan keeps nothing of the request or of the capabilities. */
static void plans_stand_alone(void **state)
{
    (void)state;
    nib_package *package =
        package_from_quoted("{'name': 'N', 'inputs': {'x': {'dtype': 'float32'}}, 'outputs': {'y': "
                            "{'dtype': 'float32', 'shape': 'shapes.x'}},"
                            " 'attributes': {'mode': {'default': '`a`'}, 'n': {'default': 1}, "
                            "'flag': {'default': true}},"
                            " 'variants': [{'id': 'v', 'passes': [{'shader': 's', 'bindings': "
                            "['x', 'y'], 'dispatch': {'x': 1}}]}]}");
    nib_plan *plan = must_plan(package, "x=float32[2] @mode=fast @flag=false @n=2.5", NULL);
    assert_string_equal(nib_plan_attribute_string(plan, "mode"), "fast");
    assert_null(nib_plan_attribute_string(plan, "n"));
    assert_null(nib_plan_attribute_string(plan, "zzz"));
    assert_true(nib_plan_attribute(plan, "n", 7) == 2.5);
    assert_true(nib_plan_attribute(plan, "flag", 7) == 0);
    assert_true(nib_plan_attribute(plan, "mode", 7) == 7);
    assert_true(nib_plan_attribute(plan, "zzz", 7) == 7);
    const nib_scope *scope = &plan->passes[0].scope;
    nib_value device, member;
    assert_true(nib_scope_lookup(scope, NIB_STR("env"), &member));
    assert_true(nib_scope_lookup(scope, NIB_STR("device"), &device));
    const nib_value *limits = nib_map_get_cstr(device.as.map, "limits");
    assert_true(nib_map_get_cstr(limits->as.map, "maxBindGroups")->as.number == 4);
    const nib_value *wgsl = nib_map_get_cstr(member.as.map, "wgsl");
    assert_string_equal(nib_map_get_cstr(wgsl->as.map, "resourceDeclarations")->as.string.data,
                        plan->passes[0].declarations.data);
    nib_plan_free(plan);
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_leave_an_evaluation_as_plain_json),
        cmocka_unit_test(forward_references_and_late_names_fail),
        cmocka_unit_test(pass_errors_have_a_path),
        cmocka_unit_test(list_dialect_levels),
        cmocka_unit_test(plans_stand_alone),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
