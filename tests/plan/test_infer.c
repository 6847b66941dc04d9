/* SPDX-License-Identifier: Apache-2.0
 *
 * Output inference and dtype rules (package format 7.3 - 7.6).
 */
#include "support.h"

/* The tensors of a plan as "x=float32[2,3] y=float32[2]". */
static void describe(const nib_plan *plan, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < nib_plan_tensor_count(plan); i++) {
        const nib_plan_tensor_info info = nib_plan_tensor_at(plan, i);
        char desc[128];
        nib_tensor_desc_format(&info.desc, desc, sizeof desc);
        used += (size_t)snprintf(out + used, size - used, "%s%s=%s", i ? " " : "", info.key, desc);
        assert_true(used < size);
    }
}

static void expect_tensors(const nib_package *package, const char *request, const char *expected)
{
    char text[1024];
    nib_plan *plan = must_plan(package, request, NULL);
    describe(plan, text, sizeof text);
    if (strcmp(text, expected) != 0)
        fail_msg("%s gives %s and not %s", request, text, expected);
    nib_plan_free(plan);
}

static void expect_failure(const nib_package *package, const char *request, nib_status status,
                           const char *fragments)
{
    planned result = plan_text(package, request, NULL);
    if (result.status != status)
        fail_msg("%s gives %s: %s", request, nib_status_name(result.status), result.error.message);
    expect_message(&result.error, fragments);
}

/* Ports and shapes go in; one variant that binds only the required ports. */
static nib_package *package_with(const char *members)
{
    char quoted[4096];
    snprintf(quoted, sizeof quoted,
             "{%s, 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's',"
             " 'bindings': [{'name': 'x', 'elementType': 'f32'}], 'dispatch': {'x': 1}}]}]}",
             members);
    return package_from_quoted(quoted);
}

static void whole_and_itemised_shapes(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "'name': 'T', 'inputs': {'x': {'onnx': 'X', 'dtype': 'T'}, 'w': {'dtype': 'T', 'optional': "
        "true}},"
        " 'outputs': {'y': {'onnx': 'Y', 'dtype': 'T', 'shape': 'shapes.x[:-1] + [attrs.n]'},"
        "             'z': {'dtype': 'T', 'shape': ['last * 2', 3, 'attrs.n']},"
        "             's': {'dtype': 'float16', 'shape': '[]'}},"
        " 'attributes': {'n': {'default': 4}},"
        " 'typeConstraints': {'T': ['float32', 'float16']},"
        " 'derive': {'rank': 'ranks.x', 'last': 'dim(shapes.x, rank - 1)'}");
    expect_tensors(package, "x=float32[2,5]",
                   "x=float32[2,5] y=float32[2,4] z=float32[10,3,4] s=float16[]");
    expect_tensors(package, "X=float16[3] w=float16[1] @n=0",
                   "x=float16[3] w=float16[1] y=float16[0] z=float16[6,3,0] s=float16[]");
    expect_tensors(package, "x=float32[7,1,2] y=float32[7,1,4]",
                   "x=float32[7,1,2] y=float32[7,1,4] z=float32[4,3,4] s=float16[]");
    expect_failure(package, "x=float32[2] @n=2.5", NIB_EVAL,
                   "output 'y' (Y)|shapes.x[:-1] + [attrs.n]|2.5|non-negative integer");
    expect_failure(package, "x=float32[2] @n=-1", NIB_EVAL, "output 'y' (Y)|-1");
    expect_failure(package, "x=float32[2] @n=nan", NIB_EVAL, "output 'y' (Y)|NaN");
    expect_failure(package, "x=float32[2,5] Y=float32[2,5]", NIB_REQUEST,
                   "output 'y' (Y)|float32[2,5]|float32[2,4]");
    expect_failure(package, "x=float32[2,5] y=float16[2,4]", NIB_REQUEST,
                   "output 'y' (Y)|float16|T");
    expect_failure(package, "x=float32[3000000000] @n=9000000000000000", NIB_LIMIT,
                   "output 'z'|2^53");
    free_package(package);
}

static void a_shape_that_fails_names_what_it_reads(void **state)
{
    (void)state;
    nib_package *package =
        package_with("'name': 'T', 'inputs': {'x': {'onnx': 'X', 'dtype': 'float32', 'rank': 2},"
                     "                        'w': {'dtype': 'float32', 'optional': true}},"
                     " 'outputs': {'y': {'dtype': 'float32', 'shape': '[width, 2]'},"
                     "             'z': {'dtype': 'float32', 'optional': true,"
                     "                   'shape': 'shapes.w[:-1] + [dim(shapes.w, 0)]'}},"
                     " 'derive': {'width': 'dim(shapes.x, 0)'}");
    expect_failure(package, "x=float32[]", NIB_REQUEST,
                   "input 'x' (X) has rank 0, it is declared with rank 2 (output 'y': dim 0");
    /* no declared rank to break: the tensor and its rank are named all the same, in one line */
    planned result = plan_text(package, "x=float32[3,4] w=float32[] ?z", NULL);
    assert_int_equal(result.status, NIB_EVAL);
    expect_message(&result.error, "output 'z'|; input 'w' is float32[], rank 0");
    assert_int_equal(result.error.line, 0);
    assert_string_equal(result.error.excerpt, "");
    nib_plan_free(must_plan(package, "x=float32[3,4]", NULL));
    free_package(package);
}

static void a_failing_derive_hurts_only_the_shapes_that_read_it(void **state)
{
    (void)state;
    nib_package *package =
        package_with("'name': 'T', 'inputs': {'x': {'dtype': 'float32'}, 'w': {'dtype': 'float32', "
                     "'optional': true}},"
                     " 'outputs': {'y': {'dtype': 'float32', 'shape': 'shapes.x'},"
                     "             'z': {'dtype': 'float32', 'optional': true, 'shape': '[wide]'}},"
                     " 'derive': {'wide': 'dim(shapes.w, 0) if present.w else (none + 1 if not "
                     "present.y else 1)'}");
    /* In inference `y` is absent, so `wide` fails there, and only `z` needs it. */
    expect_tensors(package, "x=float32[2]", "x=float32[2] y=float32[2]");
    expect_tensors(package, "x=float32[2] w=float32[5] ?z",
                   "x=float32[2] w=float32[5] y=float32[2] z=float32[5]");
    expect_failure(package, "x=float32[2] ?z", NIB_EVAL, "output 'z'|`[wide]`|wide");
    free_package(package);
}

static void optional_outputs_are_made_on_request(void **state)
{
    (void)state;
    nib_package *package =
        package_with("'name': 'T', 'inputs': {'x': {'dtype': 'float32'}},"
                     " 'outputs': {'y': {'dtype': 'float32', 'shape': 'shapes.x'},"
                     "             'mean': {'onnx': 'Mean', 'dtype': 'float32', 'optional': true, "
                     "'shape': '[1 if present.mean else 2]'},"
                     "             'free': {'dtype': 'float32', 'optional': true}}");
    expect_tensors(package, "x=float32[2]", "x=float32[2] y=float32[2]");
    expect_tensors(package, "x=float32[2] ?Mean", "x=float32[2] y=float32[2] mean=float32[1]");
    expect_tensors(package, "x=float32[2] mean=float32[1]",
                   "x=float32[2] y=float32[2] mean=float32[1]");
    expect_tensors(package, "x=float32[2] free=float32[9,9]",
                   "x=float32[2] y=float32[2] free=float32[9,9]");
    expect_failure(package, "x=float32[2] ?free", NIB_REQUEST, "output 'free'|destination");
    expect_failure(package, "x=float32[2] ?x", NIB_REQUEST, "input 'x'|no output");
    expect_failure(package, "x=float32[2] ?sum", NIB_REQUEST, "'sum'|Mean");
    free_package(package);
}

static void an_output_without_a_shape_takes_its_destination(void **state)
{
    (void)state;
    nib_package *package = package_with("'name': 'T', 'inputs': {'x': {'dtype': 'float32'}},"
                                        " 'outputs': {'y': {'onnx': 'Y', 'dtype': 'float32'}}");
    expect_failure(package, "x=float32[2]", NIB_REQUEST,
                   "output 'y' (Y)|destination must be given");
    expect_tensors(package, "x=float32[2] Y=float32[3,0]", "x=float32[2] y=float32[3,0]");
    free_package(package);
}

static void dtypes_follow_the_type_variables(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "'name': 'T', 'inputs': {'x': {'onnx': 'X', 'dtype': 'T'}, 'i': {'dtype': 'I', 'optional': "
        "true}},"
        " 'outputs': {'y': {'dtype': 'T', 'shape': 'shapes.x'}, 'one': {'dtype': 'U', 'shape': "
        "'shapes.x'},"
        "  'free': {'dtype': 'Whatever', 'shape': 'shapes.x'}, 'plain': {'shape': 'shapes.x'},"
        "  'index': {'dtype': 'I', 'optional': true, 'shape': 'shapes.x'}},"
        " 'typeConstraints': {'T': ['float32', 'float16', 'int8'], 'U': ['uint8'], 'I': ['int32', "
        "'int64']}");
    expect_tensors(package, "x=float16[2]",
                   "x=float16[2] y=float16[2] one=uint8[2] free=float16[2] plain=float32[2]");
    expect_tensors(
        package, "x=int8[2] i=int64[1] ?index",
        "x=int8[2] i=int64[1] y=int8[2] one=uint8[2] free=int8[2] plain=float32[2] index=int64[2]");
    expect_tensors(package, "x=float32[2] plain=int32[2] free=bool[2]",
                   "x=float32[2] y=float32[2] one=uint8[2] free=bool[2] plain=int32[2]");
    expect_failure(package, "x=float32[2] ?index", NIB_REQUEST, "output 'index'|dtype");
    expect_failure(package, "x=uint32[2]", NIB_REQUEST,
                   "input 'x' (X) has dtype uint32|T allows float32, float16, int8");
    expect_failure(package, "x=int64[2]", NIB_REQUEST, "input 'x' (X) has dtype int64");
    expect_failure(package, "x=float32[2] free=int64[2]", NIB_REQUEST, "output 'free'|int64");
    free_package(package);
}

static void cast_like_operators_name_their_dtype(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "'name': 'Cast', 'inputs': {'x': {'dtype': 'A'}}, 'outputs': {'y': {'dtype': 'B', 'shape': "
        "'shapes.x'}},"
        " 'attributes': {'to': {}}, 'attributeConstraints': {'to': {'required': true}},"
        " 'typeConstraints': {'A': ['float32', 'int32'], 'B': ['float16', 'int8', 'bool']}");
    expect_tensors(package, "x=float32[2] @to=10", "x=float32[2] y=float16[2]");
    expect_tensors(package, "x=int32[2] @to=9", "x=int32[2] y=bool[2]");
    expect_failure(package, "x=int32[2] @to=1", NIB_REQUEST, "attribute 'to'|float32|output 'y'");
    expect_failure(package, "x=int32[2] @to=99", NIB_REQUEST, "output 'y'|dtype");
    expect_failure(package, "x=int32[2]", NIB_REQUEST, "missing required attribute 'to'");
    free_package(package);
}

static void int64_is_kept_or_projected(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        "{'name': 'T', 'inputs': {'i': {'dtype': 'int64', 'storage': 'int32', 'narrowing': "
        "'checked'},"
        "  'j': {'dtype': 'J', 'optional': true}},"
        " 'outputs': {'k': {'dtype': 'int64', 'storage': 'int32', 'shape': 'shapes.i'},"
        "             'l': {'dtype': 'J', 'optional': true, 'shape': 'shapes.j'}},"
        " 'typeConstraints': {'J': ['int64']},"
        " 'derive': {'seen': 'tensorDtypes.i ~ logicalDtypes.int64 ~ dtypes.int64'},"
        " 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's', 'bindings': ['i', 'k'],"
        "  'dispatch': {'x': 1}}]}]}");
    nib_plan *plan = must_plan(package, "i=int64[3]", NULL);
    assert_int_equal(plan->tensors[0].storage, NIB_INT32);
    assert_int_equal(plan->tensors[0].host_bytes, 24);
    assert_int_equal(plan->tensors[0].gpu_bytes, 12);
    assert_int_equal(plan->tensors[1].desc.dtype, NIB_INT64);
    assert_int_equal(plan->tensors[1].storage, NIB_INT32);
    assert_true(nib_str_is(nib_map_get_cstr(plan->derive, "seen")->as.string, "int32int64i32"));
    assert_true(nib_str_is(plan->passes[0].bindings[0].element_type, "i32"));
    nib_plan_free(plan);
    /* 32-bit data is taken as it is */
    plan = must_plan(package, "i=int32[3] j=int64[2] ?l", NULL);
    assert_int_equal(plan->tensors[0].storage, NIB_INT32);
    assert_int_equal(plan->tensors[0].host_bytes, 12);
    assert_int_equal(plan->tensors[1].storage, NIB_INT64);
    assert_int_equal(plan->tensors[1].gpu_bytes, 16);
    assert_true(nib_str_is(nib_map_get_cstr(plan->derive, "seen")->as.string, "int32int64i32"));
    nib_plan_free(plan);
    expect_failure(package, "i=uint32[3]", NIB_REQUEST, "input 'i'|uint32|int64|int32");
    expect_failure(package, "i=int64[3] j=int32[1]", NIB_REQUEST, "input 'j'|int32");
    free_package(package);
}

static void storage_sizes_follow_the_layout(void **state)
{
    (void)state;
    nib_package *package =
        package_with("'name': 'T', 'inputs': {'x': {'dtype': 'uint8', 'layout': 'packed'}, 'w': "
                     "{'dtype': 'uint8'},"
                     " 'h': {'dtype': 'float16'}, 'b': {'dtype': 'bool'}, 'u': {'dtype': 'int64'}},"
                     " 'outputs': {'y': {'dtype': 'int16', 'shape': '[3, 2]'}}");
    nib_plan *plan =
        must_plan(package, "x=uint8[5] w=uint8[5] h=float16[3] b=bool[2,2] u=int64[3]", NULL);
    static const size_t host[] = {5, 5, 6, 4, 24, 12}, gpu[] = {8, 20, 6, 16, 24, 24};
    assert_int_equal(plan->tensor_count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(plan->tensors[i].host_bytes, host[i]);
        assert_int_equal(plan->tensors[i].gpu_bytes, gpu[i]);
        assert_int_equal(plan->tensors[i].packed, i == 0);
    }
    nib_plan_free(plan);
    free_package(package);
}

static void ports_of_one_type_agree(void **state)
{
    (void)state;
    nib_package *package = package_with(
        "'name': 'T', 'inputs': {'x': {'dtype': 'T'}, 'w': {'onnx': 'W', 'dtype': 'T'}, 'f': "
        "{'dtype': 'Free'},"
        " 'g': {'dtype': 'Free'}}, 'outputs': {'y': {'dtype': 'Free', 'shape': '[1]'}},"
        " 'typeConstraints': {'T': ['float32', 'float16']}");
    /* an undeclared variable demands nothing, and the last one decides */
    expect_tensors(package, "x=float32[1] w=float32[1] f=int8[1] g=bool[1]",
                   "x=float32[1] w=float32[1] f=int8[1] g=bool[1] y=bool[1]");
    expect_failure(package, "x=float32[1] w=float16[1] f=int8[1] g=bool[1]", NIB_REQUEST,
                   "input 'w' (W) has dtype float16|input 'x' has float32|both are T");
    free_package(package);
}

static void inout_tensors_stand_once(void **state)
{
    (void)state;
    nib_package *package =
        package_with("'name': 'T', 'inputs': {'a': {'dtype': 'float32', 'optional': true}, 'x': "
                     "{'dtype': 'float32'}},"
                     " 'outputs': {'y': {'dtype': 'float32', 'shape': 'shapes.x'}, 'x': {'dtype': "
                     "'float32', 'shape': 'shapes.x'}}");
    expect_tensors(package, "x=float32[3]", "x=float32[3] y=float32[3]");
    nib_plan *plan = must_plan(package, "x=float32[3]", NULL);
    assert_int_equal(plan->tensors[0].port->role, NIB_INOUT);
    assert_true(plan->tensors[0].destination);
    assert_false(plan->tensors[1].destination);
    char *json;
    document doc;
    assert_int_equal(nib_plan_json(plan, &json, NULL), NIB_OK);
    open_document(&doc, json);
    expect_json(&doc, "inputs.x.shape", "[3]");
    expect_json(&doc, "outputs.x.shape", "[3]");
    expect_json(&doc, "outputs.y.dtype", "float32");
    close_document(&doc);
    nib_text_free(test_context(), json);
    nib_plan_free(plan);
    free_package(package);
}

static void list_dialect_makes_optional_outputs_that_have_a_shape(void **state)
{
    (void)state;
    nib_package *package = package_from_quoted(
        "{'name': 'T', 'inputs': [{'role': 'X', 'dtype': 'float32'}],"
        " 'outputs': [{'role': 'Y', 'dtype': 'float32', 'shape': 'shapes.input'},"
        "             {'role': 'M', 'dtype': 'float32', 'optional': true, 'shape': '[ranks.X]'},"
        "             {'role': 'N', 'dtype': 'float32', 'optional': true}],"
        " 'args': {'x': {'kind': 'tensor', 'semantic': 'X', 'role': 'input'},"
        "          'y': {'kind': 'tensor', 'semantic': 'Y', 'role': 'output'},"
        "          'm': {'kind': 'tensor', 'semantic': 'M', 'role': 'output', 'required': false},"
        "          'n': {'kind': 'tensor', 'semantic': 'N', 'role': 'output', 'required': false}},"
        " 'variants': [{'id': 'v', 'passes': [{'id': 'p', 'shader': 's',"
        "  'bindings': [{'name': 'x', 'arg': 'x', 'buffer': {'type': 'storage'}, 'elementType': "
        "'f32'}],"
        "  'dispatch': {'x': 1}}]}]}");
    expect_tensors(package, "X=float32[2,3]", "x=float32[2,3] y=float32[2,3] m=float32[2]");
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_and_itemised_shapes),
        cmocka_unit_test(a_shape_that_fails_names_what_it_reads),
        cmocka_unit_test(a_failing_derive_hurts_only_the_shapes_that_read_it),
        cmocka_unit_test(optional_outputs_are_made_on_request),
        cmocka_unit_test(an_output_without_a_shape_takes_its_destination),
        cmocka_unit_test(dtypes_follow_the_type_variables),
        cmocka_unit_test(cast_like_operators_name_their_dtype),
        cmocka_unit_test(int64_is_kept_or_projected),
        cmocka_unit_test(storage_sizes_follow_the_layout),
        cmocka_unit_test(ports_of_one_type_agree),
        cmocka_unit_test(inout_tensors_stand_once),
        cmocka_unit_test(list_dialect_makes_optional_outputs_that_have_a_shape),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
