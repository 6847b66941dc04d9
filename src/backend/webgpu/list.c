/* SPDX-License-Identifier: Apache-2.0
 *
 * The adapters of a machine as JSON.
 */
#include "base/buf.h"
#include "base/error.h"
#include "backend/webgpu/wgpu.h"
#include "value/json.h"

static bool set_text(nib_arena *arena, nib_map *map, const char *key, const char *text)
{
    const nib_str copy = nib_arena_str(arena, text, strlen(text));
    return copy.data && nib_map_set_cstr(arena, map, key, nib_value_string(copy));
}

static bool describe(nib_arena *arena, const nib_wgpu_adapter *adapter, size_t index, nib_map *map)
{
    return set_text(arena, map, "backend", "webgpu") && set_text(arena, map, "name", adapter->name) &&
           set_text(arena, map, "kind", nib_wgpu_adapter_kind(adapter->type)) &&
           nib_map_set_cstr(arena, map, "index", nib_value_number((double)index)) &&
           set_text(arena, map, "vendor", adapter->vendor) &&
           set_text(arena, map, "architecture", adapter->architecture) &&
           set_text(arena, map, "driver", adapter->driver) &&
           set_text(arena, map, "api", nib_wgpu_backend_name(adapter->backend)) &&
           nib_map_set_cstr(arena, map, "vendorID", nib_value_number(adapter->vendor_id)) &&
           nib_map_set_cstr(arena, map, "deviceID", nib_value_number(adapter->device_id));
}

/* {"index": .., ..., "caps": {..}}, the capability object as nib_caps_json writes it. */
static nib_status write_adapter(nib_context *context, nib_arena *arena, WGPUInstance instance,
                                const nib_wgpu_adapter *adapter, size_t index, nib_buf *out, nib_error *error)
{
    nib_map *map = nib_map_new(arena, 10);
    if (!map || !describe(arena, adapter, index, map))
        return nib_fail_memory(error);
    nib_caps *caps;
    char *text = NULL;
    NIB_TRY(nib_wgpu_caps_fill(context, instance, adapter->adapter, NULL, &caps, error));
    nib_status status = nib_caps_json(caps, &text, error);
    nib_value parsed;
    if (status == NIB_OK)
        status = nib_json_parse(arena, text, strlen(text), "capabilities", &parsed, error);
    if (status == NIB_OK && !nib_map_set_cstr(arena, map, "caps", parsed))
        status = nib_fail_memory(error);
    if (status == NIB_OK)
        nib_json_write(out, nib_value_of_map(map), (nib_json_style){.spaced = true});
    nib_text_free(context, text);
    nib_caps_free(caps);
    return status;
}

static nib_status write_list(nib_context *context, nib_wgpu_sync *sync, nib_buf *out, nib_error *error)
{
    nib_wgpu_adapters adapters;
    NIB_TRY(nib_wgpu_adapters_list(sync, false, &adapters, error));
    nib_arena arena;
    nib_arena_init(&arena, &context->allocator, 0);
    nib_status status = NIB_OK;
    nib_buf_putc(out, '[');
    for (size_t i = 0; i < adapters.count && status == NIB_OK; i++) {
        nib_buf_puts(out, i ? ",\n " : "\n ");
        status = write_adapter(context, &arena, sync->instance, &adapters.items[i], i, out, error);
    }
    nib_buf_puts(out, "\n]\n");
    nib_arena_free(&arena);
    nib_wgpu_adapters_free(&adapters);
    return status;
}

nib_status nib_webgpu_devices_json(nib_context *context, char **text, nib_error *error)
{
    WGPUInstance instance;
    nib_wgpu_sync sync;
    nib_buf out;
    *text = NULL;
    NIB_TRY(nib_wgpu_instance_create(&instance, error));
    nib_wgpu_sync_init(&sync, instance, &context->allocator, true);
    nib_buf_init(&out, &context->allocator, 0);
    nib_status status = write_list(context, &sync, &out, error);
    if (status == NIB_OK)
        status = nib_buf_take(&out, "the list of devices", text, error);
    else
        nib_buf_free(&out);
    nib_wgpu_sync_drain(&sync);
    nib_wgpu_sync_free(&sync);
    wgpuInstanceRelease(instance);
    return status;
}
