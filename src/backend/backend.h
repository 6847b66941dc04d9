/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend implements. The cpu backend is built in; the webgpu backend is a module that is loaded when it is asked
 * for. Planning knows none of this: a backend fills a nib_caps, and reads a nib_plan.
 */
#ifndef NIB_BACKEND_BACKEND_H
#define NIB_BACKEND_BACKEND_H

#include "nibble/device.h"
#include "plan/plan.h"
#include "tensor/tensor.h"

#define NIB_BACKEND_ABI 2

typedef struct nib_backend nib_backend;

/* Every backend's device and call begin with these. */
struct nib_device {
    const nib_backend *backend;
    nib_context *context;
    nib_caps *caps;
    char description[256];
    void *module; /* handle of the shared library the backend came from; NULL: built in */
};

struct nib_call {
    nib_device *device;
    const nib_plan *plan;
    nib_tensor **bound;  /* [plan->tensor_count]; NULL: not bound */
    bool *owned;         /* the call made this output and frees it */
    char description[512];
};

struct nib_backend {
    uint32_t abi;     /* NIB_BACKEND_ABI: a module of another build is refused */
    const char *name;
    /* Open a device; sets everything but `backend` and `context` of the common part. */
    nib_status (*open)(nib_context *context, const nib_device_options *options, nib_device **out, nib_error *error);
    void (*close)(nib_device *device);
    /* Sets everything but the common part, which the caller fills before. May be slow. */
    nib_status (*prepare)(nib_device *device, const nib_plan *plan, const nib_call_options *options, nib_call **out,
                          nib_error *error);
    void (*release)(nib_call *call);
    /* A tensor was bound at plan index `index` (checked against the plan already). optional */
    nib_status (*bind)(nib_call *call, size_t index, nib_tensor *tensor, nib_error *error);
    /* Every input is bound and every output has a tensor. Outputs are complete in host memory on return. */
    nib_status (*run)(nib_call *call, nib_error *error);
    /* Run a complete call `repeats` > 0 times for nib_call_time. optional: without it `run` is timed */
    nib_status (*time)(nib_call *call, uint32_t repeats, nib_timing *out, nib_error *error);
    /* The devices as a JSON array, for nib_devices_json. Each begins with `backend`, `name`, `kind`. */
    nib_status (*list)(nib_context *context, char **text, nib_error *error);
    nib_status (*ceilings)(nib_device *device, nib_ceilings *out, nib_error *error);
};

extern const nib_backend nib_backend_cpu;

/* Shared by backends: allocate and free the common part of a call. bytes >= sizeof(nib_call). */
nib_status nib_call_allocate(nib_device *device, const nib_plan *plan, size_t bytes, nib_call **out, nib_error *error);
void nib_call_release_common(nib_call *call, size_t bytes);
/* Seconds on a clock that does not jump. */
double nib_seconds(void);

#endif
