/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a call that all backends share: which tensor is bound where, outputs that the call
 * makes itself, and the check that nothing is written over something else.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "backend/backend.h"
#include "base/error.h"

/* ---- life ---- */

nib_status nib_call_allocate(nib_device *device, const nib_plan *plan, size_t bytes, nib_call **out,
                             nib_error *error)
{
    const nib_allocator *allocator = &device->context->allocator;
    *out = NULL;
    nib_call *call = nib_allocate(allocator, 1, bytes);
    if (!call)
        return nib_fail_memory(error);
    call->device = device;
    call->plan = plan;
    if (plan->tensor_count) {
        call->bound = nib_allocate(allocator, plan->tensor_count, sizeof *call->bound);
        call->owned = nib_allocate(allocator, plan->tensor_count, sizeof *call->owned);
        if (!call->bound || !call->owned) {
            nib_call_release_common(call, bytes);
            return nib_fail_memory(error);
        }
    }
    *out = call;
    return NIB_OK;
}

void nib_call_release_common(nib_call *call, size_t bytes)
{
    const nib_allocator *allocator = &call->device->context->allocator;
    const size_t count = call->plan->tensor_count;
    for (size_t i = 0; call->bound && call->owned && i < count; i++) {
        if (call->owned[i])
            nib_tensor_free(call->bound[i]);
    }
    nib_release(allocator, call->bound, count, sizeof *call->bound);
    nib_release(allocator, call->owned, count, sizeof *call->owned);
    nib_release(allocator, call, bytes, 1);
}

nib_status nib_call_prepare(nib_device *device, const nib_plan *plan,
                            const nib_call_options *options, nib_call **out, nib_error *error)
{
    const nib_call_options defaults = {0};
    *out = NULL;
    if (!device || !plan)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_call_prepare: %s is NULL",
                        device ? "the plan" : "the device");
    NIB_TRY(device->backend->prepare(device, plan, options ? options : &defaults, out, error));
    nib_log(device->context, NIB_LOG_INFO, "call: %s", (*out)->description);
    return NIB_OK;
}

void nib_call_free(nib_call *call)
{
    if (call)
        call->device->backend->release(call);
}

/* ---- binding ---- */

static bool is_written(const nib_plan_tensor *tensor)
{
    return tensor->port->role != NIB_INPUT;
}

static bool is_read(const nib_plan_tensor *tensor)
{
    return tensor->port->role != NIB_OUTPUT;
}

static nib_status check_tensor(const nib_plan_tensor *wanted, const nib_tensor *tensor,
                               nib_error *error)
{
    if (nib_desc_equal(&wanted->desc, &tensor->desc))
        return NIB_OK;
    char given[NIB_DESC_TEXT_BYTES], planned[NIB_DESC_TEXT_BYTES];
    nib_tensor_desc_format(&tensor->desc, given, sizeof given);
    nib_tensor_desc_format(&wanted->desc, planned, sizeof planned);
    return nib_fail(error, NIB_REQUEST, "%s is %s, but the call was planned with %s",
                    nib_port_label(wanted->port).text, given, planned);
}

static void replace(nib_call *call, size_t index, nib_tensor *tensor, bool owned)
{
    if (call->owned[index])
        nib_tensor_free(call->bound[index]);
    call->bound[index] = tensor;
    call->owned[index] = owned;
}

static nib_status bind_at(nib_call *call, size_t index, nib_tensor *tensor, bool owned,
                          nib_error *error)
{
    const nib_backend *backend = call->device->backend;
    if (backend->bind)
        NIB_TRY(backend->bind(call, index, tensor, error));
    replace(call, index, tensor, owned);
    return NIB_OK;
}

nib_status nib_call_bind(nib_call *call, const char *name, nib_tensor *tensor, nib_error *error)
{
    if (!call || !name || !tensor)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_call_bind: an argument is NULL");
    const nib_plan_tensor *wanted = nib_plan_find_tensor(call->plan, nib_str_from(name));
    if (!wanted)
        return nib_fail(error, NIB_REQUEST, "%s is not a tensor of this call", name);
    NIB_TRY(check_tensor(wanted, tensor, error));
    return bind_at(call, (size_t)(wanted - call->plan->tensors), tensor, false, error);
}

/* ---- running ---- */

static nib_status complete_bindings(nib_call *call, nib_error *error)
{
    for (size_t i = 0; i < call->plan->tensor_count; i++) {
        const nib_plan_tensor *tensor = &call->plan->tensors[i];
        if (call->bound[i])
            continue;
        if (is_read(tensor))
            return nib_fail(error, NIB_REQUEST, "%s is not bound",
                            nib_port_label(tensor->port).text);
        nib_tensor *made;
        NIB_TRY(nib_tensor_create(call->device->context, &tensor->desc, &made, error));
        const nib_status status = bind_at(call, i, made, true, error);
        if (status != NIB_OK) {
            nib_tensor_free(made);
            return status;
        }
    }
    return NIB_OK;
}

/* Whether two tensors share a byte of host memory. A tensor without host memory is its backend's to
 * check. */
static bool overlap(const nib_tensor *a, const nib_tensor *b)
{
    if (!a->data || !b->data || a->bytes == 0 || b->bytes == 0)
        return false;
    const uintptr_t a0 = (uintptr_t)a->data, b0 = (uintptr_t)b->data;
    return a0 < b0 + b->bytes && b0 < a0 + a->bytes;
}

/* Reading the same memory twice is fine; writing over another tensor of the call is not. */
static nib_status check_aliases(const nib_call *call, nib_error *error)
{
    const nib_plan *plan = call->plan;
    for (size_t i = 0; i < plan->tensor_count; i++) {
        if (!is_written(&plan->tensors[i]))
            continue;
        for (size_t j = 0; j < plan->tensor_count; j++) {
            if (j == i || !overlap(call->bound[i], call->bound[j]))
                continue;
            return nib_fail(error, NIB_ALIAS, "%s is written and shares memory with %s",
                            nib_port_label(plan->tensors[i].port).text,
                            nib_port_label(plan->tensors[j].port).text);
        }
    }
    return NIB_OK;
}

nib_status nib_call_run(nib_call *call, nib_error *error)
{
    if (!call)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_call_run: the call is NULL");
    NIB_TRY(complete_bindings(call, error));
    NIB_TRY(check_aliases(call, error));
    return call->device->backend->run(call, error);
}

/* ---- timing ---- */

double nib_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* For a backend whose run works until it is done: its own part is the run, all else is the host's.
 */
static nib_status time_runs(nib_call *call, uint32_t repeats, nib_timing *out, nib_error *error)
{
    const double start = nib_seconds();
    double device = 0;
    for (uint32_t i = 0; i < repeats; i++) {
        NIB_TRY(complete_bindings(call, error));
        NIB_TRY(check_aliases(call, error));
        const double before = nib_seconds();
        NIB_TRY(call->device->backend->run(call, error));
        device += nib_seconds() - before;
    }
    const double wall = nib_seconds() - start;
    *out = (nib_timing){.wall = wall, .device = device, .host = wall - device};
    return NIB_OK;
}

nib_status nib_call_time(nib_call *call, uint32_t repeats, nib_timing *out, nib_error *error)
{
    *out = (nib_timing){0};
    if (!call || repeats == 0)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_call_time: %s",
                        call ? "no repeats" : "the call is NULL");
    const nib_backend *backend = call->device->backend;
    if (!backend->time)
        return time_runs(call, repeats, out, error);
    NIB_TRY(complete_bindings(call, error));
    NIB_TRY(check_aliases(call, error));
    return backend->time(call, repeats, out, error);
}

nib_tensor *nib_call_tensor(nib_call *call, const char *name)
{
    const nib_plan_tensor *tensor = nib_plan_find_tensor(call->plan, nib_str_from(name));
    return tensor && is_written(tensor) ? call->bound[tensor - call->plan->tensors] : NULL;
}

const char *nib_call_description(const nib_call *call)
{
    return call->description;
}
