/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run of a one-node model costs in ONNX Runtime's WebGPU provider, in steady state: outputs stay on the GPU, many
 * runs, one wait at the end. Waiting is done with a second tiny model whose output comes to the CPU, because
 * SynchronizeBoundOutputs does not wait for this provider; its own cost is measured and taken off.
 *
 *   gpu-peer LIBRARY MODEL RUNS DRAIN-MODEL      prints "peer MILLISECONDS"
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <onnxruntime_c_api.h>

enum { ROUNDS = 7, MAX_RANK = 8 };

static const OrtApi *api;

static void check(OrtStatus *status)
{
    if (!status)
        return;
    fprintf(stderr, "gpu-peer: %s\n", api->GetErrorMessage(status));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

typedef struct model {
    OrtSession *session;
    OrtIoBinding *binding;
} model;

static uint16_t half_of(float value)
{
    const _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

/* The first input, random in -1 to 1. */
static void bind_input(model *m, OrtAllocator *allocator, const OrtMemoryInfo *host)
{
    char *name;
    OrtTypeInfo *type;
    const OrtTensorTypeAndShapeInfo *shape;
    ONNXTensorElementDataType dtype;
    size_t rank, count = 1;
    int64_t dims[MAX_RANK];
    OrtValue *value;
    check(api->SessionGetInputName(m->session, 0, allocator, &name));
    check(api->SessionGetInputTypeInfo(m->session, 0, &type));
    check(api->CastTypeInfoToTensorInfo(type, &shape));
    check(api->GetTensorElementType(shape, &dtype));
    check(api->GetDimensionsCount(shape, &rank));
    check(api->GetDimensions(shape, dims, rank));
    for (size_t i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    const size_t size = dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? 2 : 4;
    char *data = malloc(count * size);
    for (size_t i = 0; i < count; i++) {
        const float number = (float)rand() / (float)RAND_MAX * 2 - 1;
        const uint16_t half = half_of(number);
        memcpy(data + i * size, size == 2 ? (const void *)&half : (const void *)&number, size);
    }
    check(api->CreateTensorWithDataAsOrtValue(host, data, count * size, dims, rank, dtype, &value));
    check(api->BindInput(m->binding, name, value));
}

static model load(OrtEnv *env, const OrtSessionOptions *options, const char *path, bool to_host)
{
    model m;
    OrtAllocator *allocator;
    OrtMemoryInfo *host, *device;
    size_t outputs;
    check(api->CreateSession(env, path, options, &m.session));
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &host));
    OrtStatus *status = api->CreateMemoryInfo("WebGPU_Buf", OrtDeviceAllocator, 0, OrtMemTypeDefault, &device);
    if (status) { /* its name in older versions */
        api->ReleaseStatus(status);
        check(api->CreateMemoryInfo("WebGPU_Buffer", OrtDeviceAllocator, 0, OrtMemTypeDefault, &device));
    }
    check(api->CreateIoBinding(m.session, &m.binding));
    bind_input(&m, allocator, host);
    check(api->SessionGetOutputCount(m.session, &outputs));
    for (size_t i = 0; i < outputs; i++) {
        char *name;
        check(api->SessionGetOutputName(m.session, i, allocator, &name));
        check(api->BindOutputToDevice(m.binding, name, to_host ? host : device));
    }
    return m;
}

static void run(const model *m)
{
    check(api->RunWithBinding(m->session, NULL, m->binding));
}

static double drain_cost(const model *drain)
{
    double times[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        const double begun = now();
        run(drain);
        times[i] = now() - begun;
    }
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 2];
}

int main(int count, char **words)
{
    if (count != 5) {
        fprintf(stderr, "gpu-peer LIBRARY MODEL RUNS DRAIN-MODEL\n");
        return 2;
    }
    void *library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
    const OrtApiBase *(*base)(void);
    if (!symbol) {
        fprintf(stderr, "gpu-peer: %s\n", dlerror());
        return 1;
    }
    memcpy(&base, &symbol, sizeof base);
    api = base()->GetApi(ORT_API_VERSION);
    OrtEnv *env;
    OrtSessionOptions *options;
    check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "peer", &env));
    check(api->CreateSessionOptions(&options));
    check(api->SessionOptionsAppendExecutionProvider(options, "WebGPU", NULL, NULL, 0));
    const model m = load(env, options, words[2], false), drain = load(env, options, words[4], true);
    const int runs = atoi(words[3]);
    /* An idle card runs at a fraction of its clock: work until it has come up. */
    for (const double begun = now(); now() - begun < 0.5; run(&drain)) {
        for (int i = 0; i < 10; i++)
            run(&m);
    }
    const double waiting = drain_cost(&drain);
    double times[ROUNDS];
    for (size_t round = 0; round < ROUNDS; round++) {
        const double begun = now();
        for (int i = 0; i < runs; i++)
            run(&m);
        run(&drain);
        times[round] = (now() - begun - waiting) / runs;
    }
    qsort(times, ROUNDS, sizeof *times, ascending);
    printf("peer %.6f\n", times[ROUNDS / 2] * 1e3);
    return 0;
}
