/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and calls: load -> plan -> prepare -> bind -> run. Only prepare may be slow; run allocates nothing.
 */
#ifndef NIBBLE_DEVICE_H
#define NIBBLE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nibble/plan.h"
#include "nibble/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices ---- */

/* An opened backend. */
typedef struct nib_device nib_device;

/* A parallel loop supplied by the caller: run task(arg, i) for every i in [0, count), in any order, on any
 * threads, and return when all are done. */
typedef void (*nib_parallel_for)(void *user, size_t count, void (*task)(void *arg, size_t i), void *arg);

typedef struct nib_device_options {
    const char *backend;      /* "auto" (default: a real GPU if there is one, else the CPU), "cpu", "webgpu" */
    const char *adapter;      /* webgpu: index, or part of a name; NULL: the best real GPU */
    const char *const *disabled_features; /* webgpu: feature names not to request */
    size_t disabled_feature_count;
    uint32_t threads;              /* cpu: 0 = one per core the process may use */
    nib_parallel_for parallel_for; /* cpu: used instead of the own pool when not NULL */
    void *parallel_user;
    const char *isa;      /* cpu: highest kernel row to use ("scalar", "avx2", ...); NULL: the best, or NIBBLE_ISA */
    const char *cache_dir; /* webgpu: folder of the pipeline cache; NULL: none */
} nib_device_options;

/* Open a device. `options` may be NULL. errors: NO_DEVICE (names what was looked for), UNSUPPORTED, DEVICE,
 * OUT_OF_MEMORY | owns: *out (nib_device_free, after its calls)
 * threads: one device may be used from several threads only with an external lock */
NIB_API NIB_CHECKED nib_status nib_device_open(nib_context *context,
                                               const nib_device_options *options, nib_device **out,
                                               nib_error *error);
NIB_API void nib_device_free(nib_device *device);

/* "cpu" or "webgpu". */
NIB_API const char *nib_device_backend(const nib_device *device);
/* One line for people: "cpu: avx2, 2 threads". Valid until the device is freed. */
NIB_API const char *nib_device_description(const nib_device *device);
/* Capabilities to plan with. Valid until the device is freed. */
NIB_API const nib_caps *nib_device_caps(const nib_device *device);

/* Every device of this machine: {"devices": [..], "missing": [..]}. A device has `backend` ("cpu" or "webgpu"), `name` and
 * `kind`. The CPU ("kind": "cpu") adds `rows`, its kernel rows, best first, each with `name` and `available`. A WebGPU
 * adapter adds index, vendor, architecture, driver, api, ids, and `caps`, an object that nib_caps_parse reads: what a
 * device opened there would have. A backend that cannot be asked is in `missing`, with `backend` and `reason`.
 * errors: OUT_OF_MEMORY | owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_devices_json(nib_context *context, char **text, nib_error *error);

/* The most the device can do, measured now (a fraction of a second): bytes read from memory and float32 operations (a
 * fused multiply-add is two) in a second, with all its threads or cores. 0: cannot be measured on this device. */
typedef struct nib_ceilings {
    double bytes_per_second, flops_per_second;
} nib_ceilings;
/* errors: DEVICE, DEVICE_LOST, TIMEOUT, SHADER, OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_device_ceilings(nib_device *device, nib_ceilings *out,
                                                   nib_error *error);

/* ---- calls ---- */

typedef struct nib_call nib_call;

typedef struct nib_call_options {
    /* cpu: ask for a copy of the weights in the kernels' own order. None of the kernels gains from
     * one so far, so weights are used in place, and nib_call_description says so. */
    bool repack;
} nib_call_options;

/* Compile or set up everything the call needs, once. The plan must outlive the call.
 * errors: UNSUPPORTED, SHADER, DEVICE, DEVICE_LOST, TIMEOUT, OUT_OF_MEMORY | owns: *out (nib_call_free) */
NIB_API NIB_CHECKED nib_status nib_call_prepare(nib_device *device, const nib_plan *plan,
                                                const nib_call_options *options, nib_call **out,
                                                nib_error *error);
NIB_API void nib_call_free(nib_call *call);

/* Bind a tensor by key or ONNX name; dtype and shape must be the plan's. The call borrows the tensor until it
 * is bound anew or the call is freed. Outputs that are not bound are allocated by the first run and belong to the
 * call. errors: INVALID_ARGUMENT, REQUEST, DEVICE, OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_call_bind(nib_call *call, const char *name, nib_tensor *tensor,
                                             nib_error *error);

/* Run the call to the end: outputs in host memory are complete when it returns.
 * errors: REQUEST (an input is not bound), ALIAS, DEVICE, DEVICE_LOST, TIMEOUT, OUT_OF_MEMORY (first run) */
NIB_API NIB_CHECKED nib_status nib_call_run(nib_call *call, nib_error *error);

/* How long `repeats` runs took together, in seconds. */
typedef struct nib_timing {
    double wall;   /* from the first to the last, waiting for the end included */
    double device; /* of that, work on the device: GPU timestamps, or the CPU's kernels; negative: not known */
    double host;   /* of that, the calling thread's own work: checks, encoding, submitting */
} nib_timing;

/* Run a bound call `repeats` times, back to back, and tell how long that took. On a GPU nothing is copied to the device
 * or back: all repeats go into one submission, and outputs stay on the device until the next nib_call_run.
 * errors: INVALID_ARGUMENT (no repeats), as nib_call_run */
NIB_API NIB_CHECKED nib_status nib_call_time(nib_call *call, uint32_t repeats, nib_timing *out,
                                             nib_error *error);

/* The tensor bound to (or allocated for) an output, in host memory; NULL when there is none of that name. It
 * belongs to the call unless the caller bound it. */
NIB_API nib_tensor *nib_call_tensor(nib_call *call, const char *name);

/* What will run and why, for people: kernel row, threads, repack decision. Valid until the call is freed. */
NIB_API const char *nib_call_description(const nib_call *call);

#ifdef __cplusplus
}
#endif
#endif
