/* SPDX-License-Identifier: Apache-2.0
 *
 * Link: what depends on the bound tensors. Done again only after a tensor was bound anew.
 */
#include <string.h>

#include "base/error.h"
#include "backend/webgpu/wgpu.h"

static bool is_written(const nib_plan_tensor *tensor)
{
    return tensor->port->role != NIB_INPUT;
}

static bool is_read(const nib_plan_tensor *tensor)
{
    return tensor->port->role != NIB_OUTPUT;
}

nib_status nib_wgpu_bind(nib_call *common, size_t index, nib_tensor *tensor, nib_error *error)
{
    (void)index;
    (void)tensor;
    (void)error;
    nib_wgpu_unlink((nib_wgpu_call *)common);
    return NIB_OK;
}

void nib_wgpu_unlink(nib_wgpu_call *call)
{
    call->linked = false;
    if (call->split)
        nib_wgpu_split_unlink(call);
    for (size_t i = 0; call->steps && i < call->step_count; i++) {
        if (call->steps[i].group)
            wgpuBindGroupRelease(call->steps[i].group);
        call->steps[i].group = NULL;
    }
}

/* ---- copies ---- */

/* An output nobody bound stays on the device. */
static nib_status make_output(nib_wgpu_call *call, size_t index, nib_error *error)
{
    const nib_plan_tensor *tensor = &call->common.plan->tensors[index];
    if (is_read(tensor))
        return nib_fail(error, NIB_REQUEST, "%s is not bound", nib_port_label(tensor->port).text);
    NIB_TRY(nib_webgpu_tensor_create(call->common.device, &tensor->desc, NIB_WEBGPU_NATURAL,
                                     &call->common.bound[index], error));
    call->common.owned[index] = true;
    return NIB_OK;
}

/* The host memory may have changed since the copy was made. */
static bool may_be_stale(const nib_wgpu_copy *copy)
{
    return copy->tensor->data && !copy->tensor->constant && !copy->ahead;
}

static nib_status get_copy(nib_wgpu_call *call, size_t index, bool refresh, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    const nib_plan_tensor *plan_tensor = &call->common.plan->tensors[index];
    nib_tensor *tensor = call->common.bound[index];
    const nib_wgpu_layout layout = nib_wgpu_layout_of(plan_tensor);
    const bool existed = nib_wgpu_copy_find(device, tensor, layout) != NULL;
    nib_wgpu_copy *copy = NULL;
    char name[128];
    const nib_str onnx = plan_tensor->port->onnx;
    const size_t length = onnx.len < sizeof name ? onnx.len : sizeof name - 1;
    memcpy(name, onnx.data, length);
    name[length] = '\0';
    NIB_TRY(nib_wgpu_copy_get(device, tensor, layout, name, is_read(plan_tensor), &copy, error));
    if (existed && refresh && is_read(plan_tensor) && may_be_stale(copy))
        NIB_TRY(nib_wgpu_copy_write(copy, tensor->data, error));
    call->copies[index] = copy;
    return NIB_OK;
}

static nib_status get_copies(nib_wgpu_call *call, bool refresh, nib_error *error)
{
    for (size_t i = 0; i < call->common.plan->tensor_count; i++) {
        if (!call->common.bound[i])
            NIB_TRY(make_output(call, i, error));
        if (call->used[i] && (!call->linked || (refresh && is_read(&call->common.plan->tensors[i]))))
            NIB_TRY(get_copy(call, i, refresh, error));
    }
    return NIB_OK;
}

/* ---- bind groups ---- */

/* Bytes between two elements of a WGSL element type (format 5.2); 0: not one that a fixed-length array may have. */
static size_t element_stride(nib_str type)
{
    static const struct {
        const char *name;
        size_t stride;
    } rows[] = {{"f32", 4}, {"u32", 4}, {"i32", 4}, {"f16", 2}, {"atomic<u32>", 4}, {"atomic<i32>", 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (nib_str_is(type, rows[i].name))
            return rows[i].stride;
    }
    if (type.len < 7 || memcmp(type.data, "vec", 3) != 0 || type.data[4] != '<' || type.data[type.len - 1] != '>')
        return 0;
    const size_t lanes = type.data[3] == '2' ? 2 : type.data[3] == '3' || type.data[3] == '4' ? 4 : 0;
    return lanes * element_stride((nib_str){type.data + 5, type.len - 6});
}

static nib_status check_length(const nib_plan_binding *binding, uint64_t size, nib_error *error)
{
    if (binding->length <= 0)
        return NIB_OK;
    const double need = binding->length * (double)element_stride(binding->element_type);
    if (need > 0 && need <= (double)size)
        return NIB_OK;
    return nib_fail(error, NIB_REQUEST, "%.*s is an array<%.*s> of %.0f elements, but the tensor has %llu bytes",
                    NIB_STR_ARG(binding->binding->name), NIB_STR_ARG(binding->element_type), binding->length,
                    (unsigned long long)size);
}

/* Fill a bind group entry; `range` is set for storage bindings. */
static nib_status fill_entry(const nib_wgpu_call *call, const nib_plan_binding *binding, WGPUBindGroupEntry *entry,
                             nib_wgpu_range *range, nib_error *error)
{
    const nib_plan *plan = call->common.plan;
    if (binding->kind == NIB_RESOURCE_TENSOR) {
        const nib_wgpu_copy *copy = call->copies[binding->index];
        entry->buffer = copy->buffer;
        entry->offset = copy->offset;
        entry->size = copy->rounded_bytes;
    } else {
        size_t rounded;
        if (!nib_wgpu_round(plan->intermediates[binding->index].bytes, &rounded))
            return nib_fail(error, NIB_LIMIT, "a scratch buffer is too large");
        entry->buffer = call->scratch[binding->index];
        entry->size = rounded;
    }
    *range = (nib_wgpu_range){.buffer = entry->buffer,
                              .offset = entry->offset,
                              .size = entry->size,
                              .written = binding->binding->kind == NIB_BINDING_STORAGE,
                              .name = binding->binding->name};
    return check_length(binding, entry->size, error);
}

static const nib_plan_binding *find_binding(const nib_plan_pass *pass, nib_str name)
{
    for (size_t i = 0; i < pass->binding_count; i++) {
        if (nib_str_eq(pass->bindings[i].binding->name, name))
            return &pass->bindings[i];
    }
    return NULL;
}

/* Both sides of a view alias are the same bytes of the same buffer, and of the same dtype. */
static bool same_memory(const nib_wgpu_call *call, const nib_plan_binding *a, const nib_plan_binding *b)
{
    if (!a || !b || a->kind != NIB_RESOURCE_TENSOR || b->kind != NIB_RESOURCE_TENSOR)
        return false;
    const nib_wgpu_copy *x = call->copies[a->index], *y = call->copies[b->index];
    return x->buffer == y->buffer && x->offset == y->offset && x->bytes == y->bytes &&
           x->tensor->desc.dtype == y->tensor->desc.dtype;
}

static bool is_view(const nib_wgpu_call *call, const nib_plan_pass *pass)
{
    for (size_t i = 0; i < pass->pass->view_alias_count; i++) {
        const nib_view_alias *alias = &pass->pass->view_aliases[i];
        if (!same_memory(call, find_binding(pass, alias->input), find_binding(pass, alias->output)))
            return false;
    }
    return pass->pass->view_alias_count > 0;
}

static nib_status make_group(nib_wgpu_call *call, nib_wgpu_step *step, const WGPUBindGroupEntry *entries, size_t count,
                             nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    const WGPUBindGroupDescriptor descriptor = {
        .layout = step->pipeline->layout->group, .entryCount = count, .entries = entries};
    nib_wgpu_scope_begin(device);
    step->group = wgpuDeviceCreateBindGroup(device->device, &descriptor);
    return nib_wgpu_scope_end(device, "creating a bind group", error);
}

static nib_status link_pass(nib_wgpu_call *call, nib_wgpu_step *step, nib_error *error)
{
    const nib_plan_pass *pass = step->pass;
    WGPUBindGroupEntry entries[NIB_WGPU_MAX_BINDINGS];
    nib_wgpu_range ranges[NIB_WGPU_MAX_BINDINGS];
    size_t range_count = 0;
    memset(entries, 0, sizeof entries);
    for (size_t i = 0; i < pass->binding_count; i++) {
        const nib_plan_binding *binding = &pass->bindings[i];
        entries[i].binding = (uint32_t)i;
        if (binding->kind != NIB_RESOURCE_UNIFORM) {
            NIB_TRY(fill_entry(call, binding, &entries[i], &ranges[range_count++], error));
            continue;
        }
        entries[i].buffer = call->uniforms;
        entries[i].size = pass->uniforms[binding->index].size;
        entries[i].offset = nib_wgpu_uniform_offset(call, step, binding->index);
    }
    step->skipped = is_view(call, pass);
    if (step->skipped)
        return NIB_OK;
    NIB_TRY(nib_wgpu_check_ranges(ranges, range_count, pass->id, error));
    return make_group(call, step, entries, pass->binding_count, error);
}

static nib_status link_fill(nib_wgpu_call *call, nib_wgpu_step *step, nib_error *error)
{
    WGPUBindGroupEntry entry = {.buffer = call->scratch[step->intermediate]};
    size_t rounded;
    if (!nib_wgpu_round(call->common.plan->intermediates[step->intermediate].bytes, &rounded))
        return nib_fail(error, NIB_LIMIT, "a scratch buffer is too large");
    entry.size = rounded;
    return make_group(call, step, &entry, 1, error);
}

nib_status nib_wgpu_link(nib_wgpu_call *call, bool refresh, nib_error *error)
{
    if (call->linked && !refresh)
        return NIB_OK;
    NIB_TRY(get_copies(call, refresh, error));
    if (call->split) {
        NIB_TRY(nib_wgpu_split_link(call, refresh, error));
        call->linked = true;
    }
    if (call->linked)
        return NIB_OK;
    for (size_t i = 0; i < call->step_count; i++) {
        nib_wgpu_step *step = &call->steps[i];
        const nib_status status = step->pass ? link_pass(call, step, error) : link_fill(call, step, error);
        if (status != NIB_OK) {
            nib_wgpu_unlink(call);
            return status;
        }
    }
    call->linked = true;
    return NIB_OK;
}

nib_status nib_webgpu_call_upload(nib_call *common, nib_error *error)
{
    nib_wgpu_device *device = NULL;
    NIB_TRY(nib_wgpu_of(common->device, &device, error));
    NIB_TRY(nib_wgpu_check(device, error));
    return nib_wgpu_link((nib_wgpu_call *)common, false, error);
}

void nib_wgpu_mark_written(nib_wgpu_call *call)
{
    for (size_t i = 0; i < call->common.plan->tensor_count; i++) {
        if (call->used[i] && is_written(&call->common.plan->tensors[i]))
            nib_wgpu_copy_written(call->copies[i]);
    }
}
