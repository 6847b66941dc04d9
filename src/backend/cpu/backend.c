/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a backend: open chooses a kernel row and threads, prepare turns a plan into a problem
 * with its scratch memory, run fills in the pointers and solves it.
 */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "ceiling.h"
#include "detect.h"
#include "operator.h"
#include "rows.h"

typedef struct cpu_device {
    nib_device common;
    const nib_cpu_row *row;
    nib_cpu_pool pool;
} cpu_device;

typedef struct cpu_call {
    nib_call common;
    nib_cpu_problem problem;
    nib_cpu_slots slots;
    nib_cpu_workspace space;
} cpu_call;

static nib_status choose_row(cpu_device *device, const nib_device_options *options,
                             nib_error *error)
{
    const char *isa = options->isa ? options->isa : getenv("NIBBLE_ISA");
    if (isa && !*isa)
        isa = NULL;
    device->row = nib_cpu_choose_row(isa, nib_cpu_detect());
    if (device->row)
        return NIB_OK;
    char known[256];
    nib_cpu_list_rows(known, sizeof known);
    return nib_fail(error, NIB_INVALID_ARGUMENT, "there is no kernel row \"%s\"; there are %s", isa,
                    known);
}

/* Planning for the CPU should fail only for what a contract says about tensors and attributes, so
 * the limits are those of a generous GPU. */
static nib_status describe_caps(cpu_device *device, nib_error *error)
{
    static const struct {
        const char *name;
        double value;
    } limits[] = {
        {"maxStorageBuffersPerShaderStage", 64},
        {"maxStorageBufferBindingSize", 0x1p52},
        {"maxBufferSize", 0x1p52},
        {"maxComputeInvocationsPerWorkgroup", 1024},
        {"maxComputeWorkgroupSizeX", 1024},
        {"maxComputeWorkgroupSizeY", 1024},
        {"maxComputeWorkgroupStorageSize", 65536},
    };
    NIB_TRY(nib_caps_create(device->common.context, &device->common.caps, error));
    nib_caps *caps = device->common.caps;
    NIB_TRY(nib_caps_add_feature(caps, "shader-f16", error));
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        NIB_TRY(nib_caps_set_limit(caps, limits[i].name, limits[i].value, error));
    NIB_TRY(nib_caps_set_adapter(caps, "vendor", nib_value_cstr("cpu"), error));
    NIB_TRY(nib_caps_set_adapter(caps, "device", nib_value_cstr(device->row->name), error));
    return nib_caps_finish(caps, error);
}

static void close_device(nib_device *common)
{
    cpu_device *device = (cpu_device *)common;
    nib_cpu_pool_close(&device->pool);
    nib_caps_free(common->caps);
    nib_release(&common->context->allocator, device, 1, sizeof *device);
}

static nib_status fill_device(cpu_device *device, const nib_device_options *options,
                              nib_error *error)
{
    NIB_TRY(choose_row(device, options, error));
    NIB_TRY(nib_cpu_pool_open(&device->pool, options, error));
    snprintf(device->common.description, sizeof device->common.description,
             "cpu: %s, %zu thread%s%s", device->row->name, device->pool.lanes,
             device->pool.lanes == 1 ? "" : "s", device->pool.parallel_for ? " of the caller" : "");
    return describe_caps(device, error);
}

static nib_status open_device(nib_context *context, const nib_device_options *options,
                              nib_device **out, nib_error *error)
{
    cpu_device *device = nib_allocate(&context->allocator, 1, sizeof *device);
    if (!device)
        return nib_fail_memory(error);
    device->common.context = context;
    const nib_status status = fill_device(device, options, error);
    if (status != NIB_OK) {
        close_device(&device->common);
        return status;
    }
    *out = &device->common;
    return NIB_OK;
}

/* ---- calls ---- */

static void release_call(nib_call *common)
{
    cpu_call *call = (cpu_call *)common;
    if (call->space.allocator)
        nib_cpu_workspace_free(&call->space);
    nib_call_release_common(common, sizeof *call);
}

static nib_status fill_call(cpu_call *call, const cpu_device *device, const nib_plan *plan,
                            const nib_call_options *options, nib_error *error)
{
    const bool asked = options && options->repack;
    nib_cpu_statement statement;
    NIB_TRY(nib_cpu_match(plan, &statement, error));
    call->problem = statement.problem;
    call->problem.int8 = statement.accuracy_level == 4; /* the caller's choice, and nobody else's */
    call->slots = statement.slots;
    NIB_TRY(nib_cpu_workspace_make(&call->space, &device->common.context->allocator, device->row,
                                   &device->pool, &call->problem, error));
    const nib_cpu_method method = nib_cpu_choose_method(&call->problem, device->row);
    snprintf(call->common.description, sizeof call->common.description,
             "%s; %s of %zu row%s, weights used in place%s, %zu bytes of scratch",
             device->common.description, nib_cpu_method_text(&method), call->problem.M,
             call->problem.M == 1 ? "" : "s", asked ? " (a repacked copy would not be faster)" : "",
             call->space.bytes);
    return NIB_OK;
}

static nib_status prepare_call(nib_device *common, const nib_plan *plan,
                               const nib_call_options *options, nib_call **out, nib_error *error)
{
    nib_call *base;
    NIB_TRY(nib_call_allocate(common, plan, sizeof(cpu_call), &base, error));
    const nib_status status =
        fill_call((cpu_call *)base, (const cpu_device *)common, plan, options, error);
    if (status != NIB_OK) {
        release_call(base);
        return status;
    }
    *out = base;
    return NIB_OK;
}

static void *data_of(const cpu_call *call, size_t slot)
{
    return slot == NIB_CPU_NO_TENSOR ? NULL : call->common.bound[slot]->data;
}

static void fill_pointers(cpu_call *call)
{
    nib_cpu_problem *p = &call->problem;
    const nib_cpu_slots *slots = &call->slots;
    p->a = data_of(call, slots->a);
    p->skip = data_of(call, slots->skip);
    p->gain = data_of(call, slots->gain);
    p->residual = data_of(call, slots->residual);
    for (size_t i = 0; i < NIB_CPU_MAX_WEIGHTS; i++) {
        p->weights[i].codes = data_of(call, slots->codes[i]);
        p->weights[i].scales = data_of(call, slots->scales[i]);
        p->bias[i] = data_of(call, slots->bias[i]);
        p->out[i] = data_of(call, slots->out[i]);
    }
}

static nib_status run_call(nib_call *common, nib_error *error)
{
    (void)error;
    cpu_call *call = (cpu_call *)common;
    const cpu_device *device = (const cpu_device *)common->device;
    fill_pointers(call);
    nib_cpu_solve(&call->problem, device->row, &device->pool, &call->space);
    return NIB_OK;
}

/* ---- facts ---- */

static nib_status list_devices(nib_context *context, char **text, nib_error *error)
{
    const unsigned bits = nib_cpu_detect();
    nib_buf out;
    nib_buf_init(&out, &context->allocator, 0);
    nib_buf_printf(&out,
                   "[\n {\"backend\": \"cpu\", \"name\": \"cpu\", \"kind\": \"cpu\", \"rows\": [");
    for (size_t i = 0; i < nib_cpu_row_count; i++) {
        const nib_cpu_row *row = nib_cpu_rows[i];
        nib_buf_printf(&out, "%s{\"name\": \"%s\", \"available\": %s}", i ? ", " : "", row->name,
                       (row->needs & ~bits) == 0 ? "true" : "false");
    }
    nib_buf_puts(&out, "]}\n]\n");
    return nib_buf_take(&out, "the list of devices", text, error);
}

static nib_status measure_ceilings(nib_device *common, nib_ceilings *out, nib_error *error)
{
    const cpu_device *device = (const cpu_device *)common;
    return nib_cpu_measure_ceilings(&common->context->allocator, device->row, &device->pool, out,
                                    error);
}

const nib_backend nib_backend_cpu = {
    .abi = NIB_BACKEND_ABI,
    .name = "cpu",
    .open = open_device,
    .close = close_device,
    .prepare = prepare_call,
    .release = release_call,
    .run = run_call,
    .list = list_devices,
    .ceilings = measure_ceilings,
};
