/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests of others must load unchanged: two seed manifests, one of each dialect, and two
 * published packages. They are not part of this repository; the environment variable NIB_SHARED_DIR
 * says where they are.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *shared_directory(void)
{
    const char *path = getenv("NIB_SHARED_DIR");
    return path ? path : NIB_SHARED_DIR;
}

static nib_package *load(const char *directory, const char *manifest)
{
    nib_context *context;
    nib_package *package;
    nib_error error = {0};
    const nib_package_options options = {.manifest_file = manifest};
    assert_int_equal(nib_context_create(NULL, &context, &error), NIB_OK);
    if (nib_package_load(context, directory, &options, &package, &error) != NIB_OK)
        fail_msg("%s: %s: %s", error.source, error.path, error.message);
    return package;
}

static void unload(nib_package *package)
{
    nib_context *context = package->context;
    nib_package_free(package);
    nib_context_free(context);
}

static nib_package *load_shared(const char *name)
{
    char *directory = format_text("%s/packages/%s", shared_directory(), name);
    nib_package *package = load(directory, NULL);
    free(directory);
    return package;
}

static nib_package *load_seed(const char *name)
{
    char *directory = make_directory();
    char *manifest = format_text("%s/seeds/%s", shared_directory(), name);
    nib_package *package = load(directory, manifest);
    remove_directory(directory);
    free(manifest);
    return package;
}

static const nib_variant *variant_at(const nib_package *package, size_t index, const char *id)
{
    const nib_contract *contract = package->contract;
    assert_true(index < contract->variant_count);
    assert_true(nib_str_is(contract->variants[index].id, id));
    return &contract->variants[index];
}

static void check_binding(const nib_pass *pass, size_t index, const char *name,
                          nib_binding_kind kind, const char *target, const char *element)
{
    const nib_binding *binding = &pass->bindings[index];
    assert_true(index < pass->binding_count);
    assert_true(nib_str_is(binding->name, name));
    assert_int_equal(binding->kind, kind);
    assert_true(nib_str_is(binding->element_type, element));
    const nib_str bound = binding->scratch.len ? binding->scratch : binding->arg;
    assert_true(nib_str_is(bound.len ? bound : binding->name, target));
}

/* format appendix A */
static void test_qkv_seed(void **state)
{
    (void)state;
    nib_package *package = load_seed("000_d41ea27ffdf6167a.txt");
    const nib_contract *c = package->contract;
    assert_string_equal(nib_package_op(package), "com.microsoft.MatMulNBitsQkv");
    assert_int_equal(c->dialect, NIB_DIALECT_MAP);
    assert_int_equal(c->port_count, 13);
    assert_int_equal(c->output_count, 4);
    assert_int_equal(c->attribute_count, 7);
    assert_int_equal(c->derive.count, 47);
    assert_int_equal(c->variant_count, 6);
    const nib_variant *norm = variant_at(package, 0, "norm");
    const nib_variant *split = variant_at(package, 1, "split_norm");
    assert_true(norm->priority == 20 && split->priority == 10);
    assert_int_equal(norm->max_storage_bindings, 10);
    assert_int_equal(split->max_storage_bindings, 4);
    assert_int_equal(norm->max_uniform_bindings, 1);
    assert_int_equal(norm->when.count, 4);
    assert_true(nib_str_is(norm->when.items[0].text, "dispatchFits"));
    assert_true(nib_str_is(norm->when.items[3].text, "not present.residualT"));
    assert_int_equal(split->pass_count, 4);
    const nib_pass *first = &norm->passes[0], *main_pass = &norm->passes[1];
    check_binding(first, 0, "a", NIB_BINDING_READ, "aT", "$aScalar");
    check_binding(first, 2, "normed", NIB_BINDING_STORAGE, "normedA", "f32");
    check_binding(main_pass, 0, "normed", NIB_BINDING_READ, "normedA", "$normedElement");
    check_binding(main_pass, 9, "v", NIB_BINDING_STORAGE, "vT", "$aScalar");
    assert_true(nib_str_is(first->bindings[1].length_ref, "K_LEN"));
    assert_true(nib_str_is(first->bindings[3].fields[0].value_expr.text, "aRows"));
    assert_true(nib_str_is(main_pass->collectives_width, "portable"));
    const size_t q = nib_package_find_port(package, "q_B");
    assert_string_equal(nib_package_port_at(package, q).key, "qBT");
    assert_true(nib_package_port_at(package, q).packed);
    const nib_port_info residual =
        nib_package_port_at(package, nib_package_find_port(package, "input_skip_bias_sum"));
    assert_true(residual.optional);
    assert_int_equal(residual.role, NIB_OUTPUT);
    unload(package);
}

/* format appendix B */
static void test_bnb4_seed(void **state)
{
    (void)state;
    nib_package *package = load_seed("001_559cda9cc1da57fb.txt");
    const nib_contract *c = package->contract;
    assert_string_equal(nib_package_op(package), "com.microsoft.MatMulBnb4");
    assert_int_equal(c->dialect, NIB_DIALECT_LIST);
    assert_int_equal(c->port_count, 4);
    assert_int_equal(c->attribute_count, 6);
    assert_int_equal(c->tunable_count, 8);
    assert_int_equal(c->constants.count, 2);
    assert_int_equal(c->variant_count, 5);
    assert_true(nib_str_is(c->ports[3].key, "yT"));
    assert_int_equal(c->ports[3].alias_count, 2);
    assert_true(nib_str_is(c->ports[3].aliases[0], "Y"));
    assert_true(nib_str_is(c->ports[3].aliases[1], "output"));
    assert_int_equal(c->ports[0].alias_count, 1); /* "input" would be three tensors */
    const nib_variant *widened = variant_at(package, 2, "sgmat_widened");
    assert_int_equal(widened->pass_count, 3);
    assert_int_equal(widened->needs.feature_count, 2);
    assert_int_equal(widened->needs.matrix_configs[0].k, 8);
    check_binding(&widened->passes[0], 0, "x", NIB_BINDING_READ, "aT", "$srcScalar");
    check_binding(&widened->passes[0], 1, "y", NIB_BINDING_STORAGE, "aF32", "f32");
    check_binding(&widened->passes[1], 0, "a", NIB_BINDING_READ, "aF32", "f32");
    check_binding(&widened->passes[2], 0, "x", NIB_BINDING_READ, "yF32", "f32");
    check_binding(&widened->passes[2], 1, "y", NIB_BINDING_STORAGE, "yT", "$srcScalar");
    assert_int_equal(widened->passes[2].constants.count, 1);
    assert_int_equal(widened->constants.count, 22);
    const nib_variant *scalar = variant_at(package, 4, "scalar");
    assert_int_equal(scalar->passes[0].dispatch.form, NIB_DISPATCH_THREADS);
    assert_true(
        nib_str_is(scalar->passes[0].dispatch.workgroup_size.text, "constants.workgroupSize"));
    const nib_attribute *quant_type = &c->attributes[5];
    assert_true(nib_str_is(quant_type->name, "quant_type"));
    assert_true(quant_type->required && !quant_type->has_default);
    assert_int_equal(quant_type->allowed.as.list->count, 2);
    unload(package);
}

static void test_add(void **state)
{
    (void)state;
    nib_package *package = load_shared("ai.onnx.Add");
    assert_string_equal(nib_package_op(package), "ai.onnx.Add");
    assert_false(nib_package_verified(package)); /* the copy has no metadata */
    assert_int_equal(package->contract->variant_count, 5);
    const nib_variant *scalar = variant_at(package, 1, "scalar_b_vec4");
    check_binding(&scalar->passes[0], 1, "b", NIB_BINDING_READ, "b", "$scalar");
    check_binding(&scalar->passes[0], 2, "c", NIB_BINDING_STORAGE, "c", "$vectorScalar");
    assert_true(variant_at(package, 4, "broadcast")->priority == 0);
    assert_int_equal(package->contract->type_variables[0].dtype_count, 6);
    unload(package);
}

static void test_softmax(void **state)
{
    (void)state;
    nib_package *package = load_shared("ai.onnx.Softmax/build/webgpu");
    const nib_variant *split = variant_at(package, 0, "longrow_split");
    assert_string_equal(nib_package_op(package), "ai.onnx.Softmax");
    assert_int_equal(split->intermediate_count, 4);
    check_binding(&split->passes[0], 1, "blockMax", NIB_BINDING_STORAGE, "blockMax", "f32");
    check_binding(&split->passes[1], 0, "blockMax", NIB_BINDING_READ, "blockMax", "f32");
    check_binding(&split->passes[1], 2, "rowMax", NIB_BINDING_STORAGE, "rowMax", "f32");
    check_binding(&split->passes[2], 1, "rowMax", NIB_BINDING_READ, "rowMax", "f32");
    assert_int_equal(variant_at(package, 2, "online_wg_vec4")->demote_when.count, 1);
    const size_t last = package->contract->variant_count - 1;
    assert_true(variant_at(package, last, "strided_online_capacity_fallback")->priority == -1);
    unload(package);
}

/* The packages of this repository: their metadata was not written by this library. */
static void test_own_kernels(void **state)
{
    (void)state;
    static const char *const names[] = {"MatMulNBitsQkv", "MatMulNBitsMlp", "MatMulBnb4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *directory = format_text(NIB_SOURCE_DIR "/kernels/com.microsoft.%s", names[i]);
        char *op = format_text("com.microsoft.%s", names[i]);
        nib_package *package = load(directory, NULL);
        assert_true(nib_package_verified(package));
        assert_string_equal(nib_package_op(package), op);
        unload(package);
        free(directory);
        free(op);
    }
}

int main(void)
{
    const struct CMUnitTest shared[] = {cmocka_unit_test(test_qkv_seed),
                                        cmocka_unit_test(test_bnb4_seed),
                                        cmocka_unit_test(test_add), cmocka_unit_test(test_softmax)};
    const struct CMUnitTest own[] = {cmocka_unit_test(test_own_kernels)};
    struct stat info;
    int failures = cmocka_run_group_tests_name("own packages", own, NULL, NULL);
    if (stat(shared_directory(), &info) == 0)
        return failures + cmocka_run_group_tests_name("published packages", shared, NULL, NULL);
    printf("NOT RUN: published packages (no %s): %zu tests\n", shared_directory(),
           sizeof shared / sizeof shared[0]);
    if (getenv("NIB_SHARED_DIR"))
        failures++; /* it was asked for */
    return failures;
}
