/* SPDX-License-Identifier: Apache-2.0
 *
 * The two seed manifests, unchanged, give every value of the walk-throughs in package format
 * appendix A and B, on a device with 8 and on one with 10 storage buffers for each shader stage.
 */
#include "support.h"

#define QKV_SEED        NIB_SHARED_DIR "/seeds/000_d41ea27ffdf6167a.txt"
#define BNB4_SEED       NIB_SHARED_DIR "/seeds/001_559cda9cc1da57fb.txt"
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define DEVICE(buffers)                                                                            \
    "{\"features\": [\"subgroups\", \"shader-f16\"],"                                              \
    " \"limits\": {\"maxStorageBuffersPerShaderStage\": " #buffers "},"                            \
    " \"adapterInfo\": {\"subgroupMinSize\": 32, \"subgroupMaxSize\": 32}}"

typedef const char *const expectation[2];

static nib_package *qkv, *bnb4;

static void expect_plan(const nib_package *package, const char *request, const char *caps,
                        expectation *expected, size_t count)
{
    char *json;
    document doc;
    nib_error error = {0};
    nib_plan *plan = must_plan(package, request, caps);
    assert_int_equal(nib_plan_json(plan, &json, &error), NIB_OK);
    open_document(&doc, json);
    for (size_t i = 0; i < count; i++)
        expect_json(&doc, expected[i][0], expected[i][1]);
    close_document(&doc);
    nib_text_free(test_context(), json);
    nib_plan_free(plan);
}

#define EXPECT(package, request, caps, expected)                                                   \
    expect_plan(package, request, caps, expected, COUNT_OF(expected))

static const char qkv_request[] = "aT=float32[1,64] normScaleT=float32[64] qBT=uint8[8,2,16] "
                                  "qScalesT=float32[8,2] kBT=uint8[4,2,16]"
                                  " kScalesT=float32[4,2] vBT=uint8[4,2,16] vScalesT=float32[4,2] "
                                  "@K=64 @Nq=8 @Nkv=4 @block_size=32";

/* ---- appendix A ---- */

static void a1_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *key, *desc;
        size_t bytes;
        bool packed;
    } expected[] = {
        {"aT", "float32[1,64]", 256, false}, {"normScaleT", "float32[64]", 256, false},
        {"qBT", "uint8[8,2,16]", 256, true}, {"qScalesT", "float32[8,2]", 64, false},
        {"kBT", "uint8[4,2,16]", 128, true}, {"kScalesT", "float32[4,2]", 32, false},
        {"vBT", "uint8[4,2,16]", 128, true}, {"vScalesT", "float32[4,2]", 32, false},
        {"qT", "float32[1,8]", 32, false},   {"kT", "float32[1,4]", 16, false},
        {"vT", "float32[1,4]", 16, false},
    };
    nib_plan *plan = must_plan(qkv, qkv_request, DEVICE(10));
    assert_int_equal(plan->tensor_count, COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        char text[64];
        nib_tensor_desc_format(&plan->tensors[i].desc, text, sizeof text);
        assert_string_equal(nib_plan_tensor_at(plan, i).key, expected[i].key);
        assert_string_equal(text, expected[i].desc);
        assert_int_equal(plan->tensors[i].gpu_bytes, expected[i].bytes);
        assert_int_equal(plan->tensors[i].packed, expected[i].packed);
    }
    nib_plan_free(plan);
}

static expectation qkv_derives[] = {
    {"op", "com.microsoft.MatMulNBitsQkv"},
    {"derive.aRows", "1"},
    {"derive.rowTile", "1"},
    {"derive.rowGroups", "1"},
    {"derive.kBlocks", "2"},
    {"derive.blobSize", "16"},
    {"derive.codesPerByte", "2"},
    {"derive.codeMask", "15"},
    {"derive.pairSharesWord", "true"},
    {"derive.epsilonValue", "9.999999974752427e-7"},
    {"derive.weightShapeOk", "true"},
    {"derive.scaleShapeOk", "true"},
    {"derive.ioShapeOk", "true"},
    {"derive.dtypeOk", "true"},
    {"derive.lanesPow2", "true"},
    {"derive.normContractOk", "true"},
    {"derive.qkvShapeOk", "true"},
    {"derive.decodeWalk", "true"},
    {"derive.decodeCols", "4"},
    {"derive.gemvWalk", "true"},
    {"derive.decodeActVec4", "true"},
    {"derive.tileCols", "4"},
    {"derive.decodeWorkgroupOk", "true"},
    {"derive.projectionTiles", "4"},
    {"derive.dispatchFits", "true"},
    {"derive.aScalar", "f32"},
    {"derive.scalar", "f32"},
    {"derive.K", "64"},
    {"derive.nq", "8"},
    {"derive.nkv", "4"},
    {"derive.blockSize", "32"},
    {"derive.bits", "4"},
    {"derive.defaultZero", "8.0"},
    {"derive.tileN", "8"},
    {"derive.lanes", "8"},
    {"derive.hidden", "64"},
    {"derive.workgroupSize", "128"},
    {"derive.epsilon", "9.999999974752427e-7"},
    {"derive.hasSkip", "false"},
    {"derive.writeResidual", "false"},
    {"derive.K_LEN", "64"},
    {"derive.rowCount", "1"},
    {"derive.decodeNCols", "4"},
    {"derive.actVec4", "true"},
    {"derive.weightElement", "vec4<u32>"},
    {"derive.normedElement", "vec4<f32>"},
    {"derive.decodeWorkgroupSize", "64"},
    {"derive.useSubgroups", "true"},
    {"outputs", "{\"qT\":{\"dtype\":\"float32\",\"shape\":[1,8]},\"kT\":{\"dtype\":\"float32\","
                "\"shape\":[1,4]},"
                "\"vT\":{\"dtype\":\"float32\",\"shape\":[1,4]}}"},
    {"attributes.bits", "4"},
    {"attributes.accuracy_level", "0"},
    {"attributes.epsilon", "9.999999974752427e-7"},
};

/* Every derive of the manifest is in the table: 45 of them, and no variant adds one. */
static void a3_derives(void **state)
{
    (void)state;
    EXPECT(qkv, qkv_request, DEVICE(8), qkv_derives);
    EXPECT(qkv, qkv_request, DEVICE(10), qkv_derives);
    size_t listed = 0;
    for (size_t i = 0; i < COUNT_OF(qkv_derives); i++)
        listed += strncmp(qkv_derives[i][0], "derive.", 7) == 0;
    nib_plan *plan = must_plan(qkv, qkv_request, DEVICE(10));
    assert_int_equal(plan->derive->count, listed);
    nib_plan_free(plan);
}

#define NORM_DECLARATIONS                                                                          \
    "struct Params { rows: u32, _pad0: u32, _pad1: u32, _pad2: u32 };\n"                           \
    "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"                                    \
    "@group(0) @binding(1) var<storage, read> norm_scale: array<f32, 64u>;\n"                      \
    "@group(0) @binding(2) var<storage, read_write> normed: array<f32>;\n"                         \
    "@group(0) @binding(3) var<uniform> params: Params;"

static void a5_norm_on_ten_buffers(void **state)
{
    (void)state;
    static expectation expected[] = {
        {"variant", "norm"},
        {"rejected", "[]"},
        {"intermediates",
         "[{\"id\":\"normedA\",\"dtype\":\"float32\",\"shape\":[64],\"bytes\":256}]"},
        {"passes[0].id", "norm"},
        {"passes[0].shader", "matmul-nbits-fused-rms-norm.wgsl.jinja"},
        {"passes[0].label", "MatMulNBitsQkv.RmsNorm"},
        {"passes[0].dispatch", "[1,1,1]"},
        {"passes[0].declarations", NORM_DECLARATIONS},
        {"passes[0].uniforms", "{\"params\":\"01000000000000000000000000000000\"}"},
        {"passes[0].bindings[1]", "{\"binding\":1,\"name\":\"norm_scale\",\"kind\":\"read-only-"
                                  "storage\",\"tensor\":\"normScaleT\","
                                  "\"elementType\":\"f32\",\"length\":64,\"bytes\":256}"},
        {"passes[0].bindings[2]", "{\"binding\":2,\"name\":\"normed\",\"kind\":\"storage\","
                                  "\"tensor\":\"normedA\",\"elementType\":\"f32\",\"bytes\":256}"},
        {"passes[0].bindings[3]", "{\"binding\":3,\"name\":\"params\",\"kind\":\"uniform\","
                                  "\"tensor\":null,\"elementType\":null,\"bytes\":16}"},
        {"passes[1].id", "main"},
        {"passes[1].shader", "qkv-projection.wgsl.jinja"},
        {"passes[1].derive", "{\"singleProjection\":\"\"}"},
        {"passes[1].dispatch", "[4,1,1]"},
        {"passes[1].declarations",
         "@group(0) @binding(0) var<storage, read> normed: array<vec4<f32>>;\n"
         "@group(0) @binding(1) var<storage, read> q_b: array<vec4<u32>>;\n"
         "@group(0) @binding(2) var<storage, read> q_scales: array<f32>;\n"
         "@group(0) @binding(3) var<storage, read> k_b: array<vec4<u32>>;\n"
         "@group(0) @binding(4) var<storage, read> k_scales: array<f32>;\n"
         "@group(0) @binding(5) var<storage, read> v_b: array<vec4<u32>>;\n"
         "@group(0) @binding(6) var<storage, read> v_scales: array<f32>;\n"
         "@group(0) @binding(7) var<storage, read_write> q: array<f32>;\n"
         "@group(0) @binding(8) var<storage, read_write> k: array<f32>;\n"
         "@group(0) @binding(9) var<storage, read_write> v: array<f32>;"},
        {"passes[1].uniforms", "{}"},
        {"passes[1].bindings[0].tensor", "normedA"},
        {"passes[1].bindings[1].tensor", "qBT"},
        {"passes[1].bindings[9].tensor", "vT"},
        {"passes[1].bindings[9].kind", "storage"},
    };
    EXPECT(qkv, qkv_request, DEVICE(10), expected);
    EXPECT(qkv, qkv_request, DEVICE(11), expected);
    nib_plan *plan = must_plan(qkv, qkv_request, DEVICE(10));
    assert_int_equal(nib_plan_pass_count(plan), 2);
    nib_plan_free(plan);
}

#define BUDGET "needs 10 storage buffers in one pass, maxStorageBuffersPerShaderStage is 8"
#define PROJECTION(x)                                                                              \
    "@group(0) @binding(0) var<storage, read> normed: array<vec4<f32>>;\n"                         \
    "@group(0) @binding(1) var<storage, read> " x "_b: array<vec4<u32>>;\n"                        \
    "@group(0) @binding(2) var<storage, read> " x "_scales: array<f32>;\n"                         \
    "@group(0) @binding(3) var<storage, read_write> " x ": array<f32>;"

static void a6_split_norm_on_eight_buffers(void **state)
{
    (void)state;
    static expectation expected[] = {
        {"variant", "split_norm"},
        {"rejected", "[{\"variant\":\"norm\",\"reason\":\"" BUDGET
                     "\"},{\"variant\":\"skip\",\"reason\":\"" BUDGET
                     "\"},{\"variant\":\"skipsum\",\"reason\":\"" BUDGET "\"}]"},
        {"intermediates",
         "[{\"id\":\"normedA\",\"dtype\":\"float32\",\"shape\":[64],\"bytes\":256}]"},
        {"passes[0].id", "norm"},
        {"passes[0].dispatch", "[1,1,1]"},
        {"passes[0].declarations", NORM_DECLARATIONS},
        {"passes[0].uniforms", "{\"params\":\"01000000000000000000000000000000\"}"},
        {"passes[1].id", "q"},
        {"passes[1].derive", "{\"singleProjection\":\"q\"}"},
        {"passes[1].dispatch", "[2,1,1]"},
        {"passes[1].declarations", PROJECTION("q")},
        {"passes[2].id", "k"},
        {"passes[2].derive", "{\"singleProjection\":\"k\"}"},
        {"passes[2].dispatch", "[1,1,1]"},
        {"passes[2].declarations", PROJECTION("k")},
        {"passes[3].id", "v"},
        {"passes[3].derive", "{\"singleProjection\":\"v\"}"},
        {"passes[3].dispatch", "[1,1,1]"},
        {"passes[3].declarations", PROJECTION("v")},
        {"passes[3].bindings[3].tensor", "vT"},
        {"passes[3].shader", "qkv-projection.wgsl.jinja"},
    };
    EXPECT(qkv, qkv_request, DEVICE(8), expected);
}

static void a7_other_cases(void **state)
{
    (void)state;
    char request[1024];
    snprintf(request, sizeof request, "%s skipT=float32[1,64]", qkv_request);
    static expectation skip[] = {
        {"variant", "skip"}, {"derive.hasSkip", "true"}, {"passes[0].bindings[1].tensor", "skipT"}};
    static expectation split[] = {{"variant", "split_skip"}};
    EXPECT(qkv, request, DEVICE(10), skip);
    EXPECT(qkv, request, DEVICE(8), split);
    strcat(request, " ?input_skip_bias_sum");
    static expectation sum[] = {{"variant", "skipsum"},
                                {"outputs.residualT", "{\"dtype\":\"float32\",\"shape\":[1,64]}"},
                                {"passes[0].bindings[4].tensor", "residualT"}};
    static expectation split_sum[] = {{"variant", "split_skipsum"}};
    EXPECT(qkv, request, DEVICE(10), sum);
    EXPECT(qkv, request, DEVICE(8), split_sum);
    /* a residual without a skip: three budgets, three failures of qkvShapeOk */
    snprintf(request, sizeof request, "%s residualT=float32[1,64]", qkv_request);
    planned none = plan_text(qkv, request, DEVICE(8));
    assert_int_equal(none.status, NIB_NO_VARIANT);
    expect_message(&none.error,
                   "com.microsoft.MatMulNBitsQkv|norm: " BUDGET "; skip, skipsum: the same; "
                   "split_norm: `qkvShapeOk` is false (normContractOk: |; "
                   "split_skip, split_skipsum: the same");
    /* a vector instead of a matrix */
    snprintf(request, sizeof request, "aT=float32[64]%s", qkv_request + strlen("aT=float32[1,64]"));
    none = plan_text(qkv, request, DEVICE(10));
    assert_int_equal(none.status, NIB_NO_VARIANT);
    expect_message(&none.error,
                   "norm: `qkvShapeOk` is false (ioShapeOk: `(ranks.aT == 2 or ranks.aT == 3)`|"
                   "input 'aT' (A) is float32[64]");
}

/* Rows fold into M, and many rows use the tiled walk. */
static void a_batch_of_rows(void **state)
{
    (void)state;
    char request[1024];
    snprintf(request, sizeof request, "aT=float32[3,5,64]%s",
             qkv_request + strlen("aT=float32[1,64]"));
    static expectation expected[] = {
        {"derive.aRows", "15"},
        {"derive.rowTile", "8"},
        {"derive.rowGroups", "2"},
        {"derive.decodeWalk", "false"},
        {"derive.gemvWalk", "false"},
        {"derive.tileCols", "8"},
        {"derive.weightElement", "u32"},
        {"derive.projectionTiles", "3"},
        {"outputs.qT.shape", "[3,5,8]"},
        {"passes[0].dispatch", "[15,1,1]"},
        {"passes[0].uniforms.params", "0f000000000000000000000000000000"},
        {"passes[1].dispatch", "[3,2,1]"},
        {"passes[1].bindings[0].elementType", "f32"},
    };
    EXPECT(qkv, request, DEVICE(10), expected);
    /* no rows: nothing runs, and nothing is sized */
    snprintf(request, sizeof request, "aT=float32[0,64]%s",
             qkv_request + strlen("aT=float32[1,64]"));
    static expectation empty[] = {
        {"variant", "norm"},
        {"outputs.qT.shape", "[0,8]"},
        {"passes[0].active", "false"},
        {"passes[0].dispatch", "[0,0,0]"},
        {"passes[1].active", "false"},
        {"passes[0].uniforms.params", "00000000000000000000000000000000"},
        {"intermediates[0].shape", "[0]"},
        {"intermediates[0].bytes", "0"},
    };
    EXPECT(qkv, request, DEVICE(10), empty);
}

/* ---- appendix B ---- */

static void bnb4_request(char *out, size_t size, int rows)
{
    snprintf(out, size,
             "aT=float32[%d,64] bT=uint8[256] absmaxT=float32[16] @K=64 @N=8 @block_size=32 "
             "@quant_type=1",
             rows);
}

static expectation bnb4_common[] = {
    {"op", "com.microsoft.MatMulBnb4"},
    {"derive.deviceWorkgroupCap", "256"},
    {"derive.wave32Adapter", "true"},
    {"derive.canPinSubgroupSize32", "false"},
    {"derive.pinSubgroupSize32", "false"},
    {"derive.wave32Effective", "true"},
    {"derive.packedBytesExpected", "256"},
    {"derive.absmaxCountExpected", "16"},
    {"derive.aFloatOk", "true"},
    {"derive.portableWorkgroupSize", "64"},
    {"derive.commonShapeValid", "true"},
    {"derive.portableWorkgroupFits", "true"},
    {"derive.portableTileKValid", "true"},
    {"derive.tileWorkgroupStorageBytes", "8192"},
    {"derive.tileWorkgroupFits", "true"},
    {"derive.sgmatMatrixSize", "8"},
    {"derive.sgmatTileRows", "64"},
    {"derive.sgmatRowSubtiles", "4"},
    {"derive.sgmatSubRows", "16"},
    {"derive.sgmatSubCols", "32"},
    {"derive.sgmatLoadWidth", "8"},
    {"derive.sgmatColSubtiles", "2"},
    {"derive.sgmatNumSubgroups", "8"},
    {"derive.sgmatSubgroupSize", "32"},
    {"derive.sgmatWorkgroupSize", "256"},
    {"derive.sgmatBLoadsPerRow", "4"},
    {"derive.sgmatWorkgroupStorageBytes", "8192"},
    {"derive.sgmatDispatchN", "1"},
    {"derive.sgmatDispatchM", "1"},
    {"derive.sgmatWorkgroupFits", "true"},
    {"derive.sgmatWidenFits", "true"},
    {"derive.constants.quantType", "1"},
    {"derive.constants.ABSMAX_LEN", "16"},
    {"derive.constants.aScalar", "f32"},
    {"derive.constants.usesF16", "false"},
    {"derive.constants.absmaxScalar", "f32"},
};

#define BNB4_BINDINGS                                                                              \
    "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"                                    \
    "@group(0) @binding(1) var<storage, read> b: array<u32>;\n"                                    \
    "@group(0) @binding(2) var<storage, read> absmax: array<f32, 16u>;\n"                          \
    "@group(0) @binding(3) var<storage, read_write> y: array<f32>;\n"                              \
    "@group(0) @binding(4) var<uniform> params: Params;"
#define MAIN_DECLARATIONS                                                                          \
    "struct Params { rows: u32, K: u32, N: u32, blockSize: u32 };\n" BNB4_BINDINGS

static void b4_gemv_for_one_row(void **state)
{
    (void)state;
    static expectation expected[] = {
        {"variant", "gemv"},
        {"rejected", "[]"},
        {"derive.gemvShapeValid", "true"},
        {"derive.tileEligible", "false"},
        {"derive.sgmatWidenBytes", "256"},
        {"derive.sgmatWidenOutBytes", "32"},
        {"derive.constants.workgroupSize", "64"},
        {"outputs", "{\"yT\":{\"dtype\":\"float32\",\"shape\":[1,8]}}"},
        {"passes[0].shader", "matmul-bnb4-gemv.wgsl.jinja"},
        {"passes[0].dispatch", "[8,1,1]"},
        {"passes[0].declarations",
         "struct Params { K: u32, N: u32, blockSize: u32, _pad0: u32 };\n" BNB4_BINDINGS},
        {"passes[0].uniforms", "{\"params\":\"40000000080000002000000000000000\"}"},
        {"passes[0].bindings[0].tensor", "aT"},
        {"passes[0].bindings[2].tensor", "absmaxT"},
        {"passes[0].bindings[3].tensor", "yT"},
        {"passes[0].bindings[4].tensor", "null"},
    };
    char request[256];
    bnb4_request(request, sizeof request, 1);
    EXPECT(bnb4, request, DEVICE(8), bnb4_common);
    EXPECT(bnb4, request, DEVICE(10), bnb4_common);
    EXPECT(bnb4, request, DEVICE(8), expected);
    EXPECT(bnb4, request, DEVICE(10), expected);
    nib_plan *plan = must_plan(bnb4, request, DEVICE(10));
    assert_false(plan->tensors[1].packed);
    assert_int_equal(plan->tensors[1].gpu_bytes, 1024);
    assert_int_equal(plan->tensors[2].gpu_bytes, 64);
    assert_int_equal(plan->tensors[3].gpu_bytes, 32);
    size_t listed = 4; /* gemvShapeValid, tileEligible, sgmatWidenBytes, sgmatWidenOutBytes */
    for (size_t i = 0; i < COUNT_OF(bnb4_common); i++)
        listed += strncmp(bnb4_common[i][0], "derive.", 7) == 0 &&
                  !strstr(bnb4_common[i][0], "constants");
    assert_int_equal(plan->derive->count, listed);
    nib_plan_free(plan);
}

static void b5_tiled_for_many_rows(void **state)
{
    (void)state;
    static expectation expected[] = {
        {"variant", "tiled"},
        {"rejected[0].variant", "gemv"},
        {"rejected[1].variant", "sgmat_widened"},
        {"rejected[2].variant", "sgmat"},
        {"rejected[1].reason", "needs the device feature chromium-experimental-subgroup-matrix"},
        {"rejected[2].reason", "needs the device feature chromium-experimental-subgroup-matrix"},
        {"derive.gemvShapeValid", "false"},
        {"derive.tileEligible", "true"},
        {"derive.sgmatWidenBytes", "8192"},
        {"derive.sgmatWidenOutBytes", "1024"},
        {"derive.constants.tileK", "16"},
        {"passes[0].dispatch", "[1,1,1]"},
        {"passes[0].shader", "matmul-bnb4-tiled.wgsl.jinja"},
        {"passes[0].declarations", MAIN_DECLARATIONS},
        {"passes[0].uniforms.params", "20000000400000000800000020000000"},
    };
    char request[256];
    bnb4_request(request, sizeof request, 32);
    EXPECT(bnb4, request, DEVICE(8), bnb4_common);
    EXPECT(bnb4, request, DEVICE(8), expected);
    EXPECT(bnb4, request, DEVICE(10), expected);
    nib_plan *plan = must_plan(bnb4, request, DEVICE(10));
    assert_int_equal(plan->rejected_count, 3);
    assert_true(
        nib_str_starts(plan->rejected[0].reason,
                       NIB_STR("`gemvShapeValid` is false (`dim(shapes.A, 0) == 1`: 32 == 1")));
    nib_plan_free(plan);
}

static void b6_scalar_in_between(void **state)
{
    (void)state;
    for (int rows = 2; rows <= 15; rows++) {
        static expectation expected[] = {
            {"variant", "scalar"},
            {"derive.constants.workgroupSize", "64"},
            {"passes[0].shader", "matmul-bnb4.wgsl.jinja"},
            {"passes[0].declarations", MAIN_DECLARATIONS},
        };
        char request[256];
        bnb4_request(request, sizeof request, rows);
        EXPECT(bnb4, request, DEVICE(10), expected);
    }
    static expectation two[] = {{"passes[0].dispatch", "[1,1,1]"},
                                {"passes[0].uniforms.params", "02000000400000000800000020000000"}};
    static expectation nine[] = {{"passes[0].dispatch", "[2,1,1]"}};
    char request[256];
    bnb4_request(request, sizeof request, 2);
    EXPECT(bnb4, request, DEVICE(10), two);
    bnb4_request(request, sizeof request, 9);
    EXPECT(bnb4, request, DEVICE(10), nine);
    static expectation tiled[] = {{"variant", "tiled"}};
    bnb4_request(request, sizeof request, 16);
    EXPECT(bnb4, request, DEVICE(10), tiled);
}

#define MATRIX_DEVICE                                                                              \
    "{\"features\": [\"subgroups\", \"shader-f16\", \"chromium-experimental-subgroup-matrix\"],"   \
    " \"adapterInfo\": {\"subgroupMinSize\": 32, \"subgroupMaxSize\": 32, "                        \
    "\"subgroupMatrixConfigs\": ["                                                                 \
    "{\"componentType\": \"f32\", \"resultComponentType\": \"f32\", \"M\": 8, \"N\": 8, \"K\": "   \
    "8}]}}"

static void b7_subgroup_matrices(void **state)
{
    (void)state;
    static expectation narrow[] = {
        {"variant", "sgmat"},
        {"passes[0].dispatch", "[1,1,1]"},
        {"derive.constants.workgroupSize", "256"},
        {"passes[0].uniforms", "{}"},
        {"intermediates", "[]"},
    };
    static expectation wide[] = {
        {"variant", "sgmat_widened"},
        {"rejected[0].variant", "gemv"},
        {"intermediates",
         "[{\"id\":\"aF32\",\"dtype\":\"float32\",\"shape\":[4096],\"bytes\":16384},"
         "{\"id\":\"yF32\",\"dtype\":\"float32\",\"shape\":[4096],\"bytes\":16384}]"},
        {"passes[0].id", "widen_a"},
        {"passes[0].dispatch", "[16,1,1]"},
        {"passes[0].bindings[0].elementType", "f16"},
        {"passes[0].bindings[1].tensor", "aF32"},
        {"passes[0].uniforms.params", "00100000000000000000000000000000"},
        {"passes[1].id", "main"},
        {"passes[1].dispatch", "[1,1,1]"},
        {"passes[1].bindings[0].tensor", "aF32"},
        {"passes[1].bindings[3].tensor", "yF32"},
        {"passes[2].id", "narrow_y"},
        {"passes[2].dispatch", "[16,1,1]"},
        {"passes[2].constants", "{\"outScalar\":\"f16\"}"},
        {"derive.constants.outScalar", "f32"},
        {"passes[2].bindings[0].tensor", "yF32"},
        {"passes[2].bindings[1].tensor", "yT"},
    };
    EXPECT(bnb4,
           "aT=float32[64,64] bT=uint8[2048] absmaxT=float32[128] @K=64 @N=64 @block_size=32 "
           "@quant_type=0",
           MATRIX_DEVICE, narrow);
    EXPECT(bnb4,
           "aT=float16[64,64] bT=uint8[2048] absmaxT=float16[128] @K=64 @N=64 @block_size=32 "
           "@quant_type=0",
           MATRIX_DEVICE, wide);
}

static void names_of_the_list_dialect_are_interchangeable(void **state)
{
    (void)state;
    static expectation expected[] = {{"variant", "gemv"}, {"inputs.aT.shape", "[1,64]"}};
    EXPECT(
        bnb4,
        "A=float32[1,64] B=uint8[256] absmax=float32[16] @K=64 @N=8 @block_size=32 @quant_type=1",
        DEVICE(8), expected);
    char request[256];
    bnb4_request(request, sizeof request, 0);
    static expectation empty[] = {{"outputs.yT.shape", "[0,8]"}, {"passes[0].active", "false"}};
    EXPECT(bnb4, request, DEVICE(8), empty);
}

int main(void)
{
    qkv = package_from_file(QKV_SEED);
    bnb4 = package_from_file(BNB4_SEED);
    if (!qkv || !bnb4) {
        printf("NOT RUN: the seed manifests are not in %s/seeds (set NIB_SHARED_DIR)\n",
               NIB_SHARED_DIR);
        free_package(qkv);
        free_package(bnb4);
        free_test_context();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a1_tensors),
        cmocka_unit_test(a3_derives),
        cmocka_unit_test(a5_norm_on_ten_buffers),
        cmocka_unit_test(a6_split_norm_on_eight_buffers),
        cmocka_unit_test(a7_other_cases),
        cmocka_unit_test(a_batch_of_rows),
        cmocka_unit_test(b4_gemv_for_one_row),
        cmocka_unit_test(b5_tiled_for_many_rows),
        cmocka_unit_test(b6_scalar_in_between),
        cmocka_unit_test(b7_subgroup_matrices),
        cmocka_unit_test(names_of_the_list_dialect_are_interchangeable),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_package(qkv);
    free_package(bnb4);
    free_test_context();
    return failed;
}
