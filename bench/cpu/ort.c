/* SPDX-License-Identifier: Apache-2.0 */
#include "ort.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_model.h"

/* Places in the table OrtApi of onnxruntime_c_api.h, counted from 0. */
enum {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION_FROM_ARRAY = 8,
    RUN = 9,
    CREATE_SESSION_OPTIONS = 10,
    SET_INTRA_OP_THREADS = 24,
    CREATE_TENSOR_WITH_DATA = 49,
    CREATE_CPU_MEMORY_INFO = 69,
    RELEASE_ENV = 92,
    RELEASE_STATUS = 93,
    RELEASE_MEMORY_INFO = 94,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96,
    RELEASE_SESSION_OPTIONS = 100,
};

enum {
    API_VERSION = 16,
    LOG_ERROR = 3,
    ARENA_ALLOCATOR = 1,
    ELEMENT_FLOAT = 1,
    ELEMENT_FLOAT16 = 10
};

typedef void (*any_function)(void);

typedef struct api_base {
    const any_function *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
} api_base;

struct bench_ort {
    void *library;
    const any_function *api;
    const char *version;
    void *env, *memory_info;
};

struct bench_ort_session {
    bench_ort *ort;
    void *session, *input, *outputs[NIB_CPU_MAX_WEIGHTS];
    void *data[NIB_CPU_MAX_WEIGHTS];
    size_t output_count;
};

/* Call entry `place` of the table with a function type. */
#define ENTRY(ort, place, type) ((type)(ort)->api[place])

static bool succeeded(const bench_ort *ort, void *status, const char *what)
{
    if (!status)
        return true;
    fprintf(stderr, "ONNX Runtime: %s: %s\n", what,
            ENTRY(ort, GET_ERROR_MESSAGE, const char *(*)(const void *))(status));
    ENTRY(ort, RELEASE_STATUS, void (*)(void *))(status);
    return false;
}

static void release(const bench_ort *ort, int place, void *object)
{
    if (object)
        ENTRY(ort, place, void (*)(void *))(object);
}

bench_ort *bench_ort_open(const char *library)
{
    bench_ort *ort = calloc(1, sizeof *ort);
    ort->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!ort->library) {
        fprintf(stderr, "%s\n", dlerror());
        free(ort);
        return NULL;
    }
    const api_base *(*get_base)(void);
    void *symbol = dlsym(ort->library, "OrtGetApiBase");
    memcpy(&get_base, &symbol, sizeof get_base);
    const api_base *base = symbol ? get_base() : NULL;
    ort->api = base ? base->get_api(API_VERSION) : NULL;
    if (!ort->api) {
        fprintf(stderr, "%s is not ONNX Runtime, or too old\n", library);
        bench_ort_close(ort);
        return NULL;
    }
    ort->version = base->get_version();
    if (succeeded(ort,
                  ENTRY(ort, CREATE_ENV, void *(*)(int, const char *, void **))(LOG_ERROR, "bench",
                                                                                &ort->env),
                  "CreateEnv") &&
        succeeded(ort,
                  ENTRY(ort, CREATE_CPU_MEMORY_INFO,
                        void *(*)(int, int, void **))(ARENA_ALLOCATOR, 0, &ort->memory_info),
                  "CreateCpuMemoryInfo"))
        return ort;
    bench_ort_close(ort);
    return NULL;
}

const char *bench_ort_version(const bench_ort *ort)
{
    return ort->version;
}

void bench_ort_close(bench_ort *ort)
{
    if (!ort)
        return;
    if (ort->api) {
        release(ort, RELEASE_MEMORY_INFO, ort->memory_info);
        release(ort, RELEASE_ENV, ort->env);
    }
    free(ort); /* the library stays loaded: it does not like to be unloaded */
}

static bool make_tensor(const bench_ort *ort, void *data, bool half, size_t rows, size_t columns,
                        void **out)
{
    const int64_t shape[] = {(int64_t)rows, (int64_t)columns};
    typedef void *(*create)(void *, void *, size_t, const int64_t *, size_t, int, void **);
    return succeeded(ort,
                     ENTRY(ort, CREATE_TENSOR_WITH_DATA,
                           create)(ort->memory_info, data, rows * columns * (half ? 2 : 4), shape,
                                   2, half ? ELEMENT_FLOAT16 : ELEMENT_FLOAT, out),
                     "CreateTensorWithDataAsOrtValue");
}

static bool load_model(bench_ort_session *s, const nib_cpu_problem *p, int quant_type,
                       size_t threads)
{
    const bench_ort *ort = s->ort;
    void *options = NULL;
    bench_bytes model = bench_onnx_model(p, quant_type);
    typedef void *(*create)(void *, const void *, size_t, const void *, void **);
    const bool loaded =
        succeeded(ort, ENTRY(ort, CREATE_SESSION_OPTIONS, void *(*)(void **))(&options),
                  "CreateSessionOptions") &&
        succeeded(ort,
                  ENTRY(ort, SET_INTRA_OP_THREADS, void *(*)(void *, int))(options, (int)threads),
                  "SetIntraOpNumThreads") &&
        succeeded(ort,
                  ENTRY(ort, CREATE_SESSION_FROM_ARRAY, create)(ort->env, model.data, model.count,
                                                                options, &s->session),
                  "CreateSessionFromArray");
    release(ort, RELEASE_SESSION_OPTIONS, options);
    free(model.data);
    return loaded;
}

bench_ort_session *bench_ort_session_make(bench_ort *ort, const nib_cpu_problem *p, int quant_type,
                                          size_t threads)
{
    bench_ort_session *s = calloc(1, sizeof *s);
    s->ort = ort;
    s->output_count = p->gated ? 1 : p->weight_count;
    bool made = load_model(s, p, quant_type, threads) &&
                make_tensor(ort, (void *)(uintptr_t)p->a, p->half, p->M, p->K, &s->input);
    for (size_t i = 0; made && i < s->output_count; i++) {
        s->data[i] = calloc(p->M * p->weights[i].N, p->half ? 2 : 4);
        made = make_tensor(ort, s->data[i], p->half, p->M, p->weights[i].N, &s->outputs[i]);
    }
    if (made)
        return s;
    bench_ort_session_free(s);
    return NULL;
}

bool bench_ort_session_run(bench_ort_session *s)
{
    static const char *const inputs[] = {"A"}, *const outputs[] = {"Y0", "Y1", "Y2"};
    typedef void *(*run)(void *, const void *, const char *const *, void *const *, size_t,
                         const char *const *, size_t, void **);
    return succeeded(s->ort,
                     ENTRY(s->ort, RUN, run)(s->session, NULL, inputs, &s->input, 1, outputs,
                                             s->output_count, s->outputs),
                     "Run");
}

const void *bench_ort_session_output(const bench_ort_session *s, size_t which)
{
    return s->data[which];
}

void bench_ort_session_free(bench_ort_session *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->output_count; i++) {
        release(s->ort, RELEASE_VALUE, s->outputs[i]);
        free(s->data[i]);
    }
    release(s->ort, RELEASE_VALUE, s->input);
    release(s->ort, RELEASE_SESSION, s->session);
    free(s);
}
