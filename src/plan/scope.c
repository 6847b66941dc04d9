/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that expressions see (package format 3.6), as frames of a nib_scope:
 * bare constants (list dialect), derives, the level's own namespaces, and the base frame.
 */
#include "plan/planner.h"
#include "tensor/tensor.h"

enum { DISPATCH_FOLD_WIDTH = 65535 };

static bool is_present(const nib_operand *operand, bool calling)
{
    return operand->given || (calling && operand->produced);
}

/* Set under the key and, in the list dialect, under every other name of the port (format 2.B.2). */
static bool set_for_port(nib_planner *p, nib_map *map, const nib_port *port, nib_value value)
{
    if (!nib_map_set(p->arena, map, port->key, value))
        return false;
    for (size_t i = 0; i < port->alias_count; i++) {
        if (!nib_map_set(p->arena, map, port->aliases[i], value))
            return false;
    }
    return true;
}

static nib_value dims_value(nib_arena *arena, const nib_tensor_desc *desc)
{
    long long dims[NIB_MAX_RANK];
    for (uint32_t i = 0; i < desc->rank; i++)
        dims[i] = desc->dims[i];
    return nib_value_of_dims(arena, dims, desc->rank);
}

typedef struct tensor_maps {
    nib_map *shapes, *ranks, *storage, *logical;
} tensor_maps;

static bool add_tensor(nib_planner *p, const tensor_maps *maps, const nib_operand *operand)
{
    const nib_port *port = operand->port;
    const nib_value shape = dims_value(p->arena, &operand->desc);
    if (shape.type != NIB_VALUE_LIST || !set_for_port(p, maps->shapes, port, shape) ||
        !set_for_port(p, maps->ranks, port, nib_value_integer(operand->desc.rank)))
        return false;
    if (operand->desc.dtype ==
        NIB_DTYPE_NONE) /* a destination that leaves its dtype to inference */
        return true;
    if (!set_for_port(p, maps->storage, port, nib_value_cstr(nib_dtype_name(operand->storage))))
        return false;
    return port->dtype_text.len == 0 ||
           nib_map_set(p->arena, maps->logical, port->dtype_text,
                       nib_value_cstr(nib_dtype_name(operand->logical)));
}

static bool fill_present(nib_planner *p, bool calling, nib_map *present)
{
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        const bool there =
            calling ? operand->given || operand->produced : operand->given || operand->wanted;
        if (!nib_map_set(p->arena, present, operand->port->key, nib_value_bool(there)))
            return false;
    }
    /* Scalars count as absent in a call: they travel in `args`. */
    for (size_t i = 0; i < p->contract->argument_count; i++) {
        const nib_str name = p->contract->arguments[i].name;
        const bool there = !calling && nib_map_get(p->plan->arguments, name) != NULL;
        if (!nib_map_set(p->arena, present, name, nib_value_bool(there)))
            return false;
    }
    return true;
}

static bool fill_dtypes(nib_planner *p, bool calling, nib_map *dtypes)
{
    for (size_t i = 0; i < p->contract->port_count; i++) {
        const nib_operand *operand = &p->operands[i];
        if (!is_present(operand, calling) || operand->desc.dtype == NIB_DTYPE_NONE ||
            operand->port->dtype_text.len == 0)
            continue;
        if (!nib_map_set(p->arena, dtypes, operand->port->dtype_text,
                         nib_value_cstr(nib_dtype_wgsl(operand->storage))))
            return false;
    }
    return true;
}

static bool set_map(nib_planner *p, nib_map *frame, const char *name, nib_map *map)
{
    return map && nib_map_set_cstr(p->arena, frame, name, nib_value_of_map(map));
}

nib_status nib_planner_build_base(nib_planner *p, nib_value device, bool calling)
{
    const size_t ports = p->contract->port_count;
    const tensor_maps maps = {.shapes = nib_map_new(p->arena, ports),
                              .ranks = nib_map_new(p->arena, ports),
                              .storage = nib_map_new(p->arena, ports),
                              .logical = nib_map_new(p->arena, 4)};
    nib_map *present = nib_map_new(p->arena, ports + p->contract->argument_count);
    p->base = nib_map_new(p->arena, 9);
    p->dtypes = nib_map_new(p->arena, 4);
    if (!maps.shapes || !maps.ranks || !maps.storage || !maps.logical || !present || !p->base ||
        !p->dtypes)
        return nib_fail_memory(p->error);
    bool ok = fill_present(p, calling, present) && fill_dtypes(p, calling, p->dtypes);
    for (size_t i = 0; ok && i < ports; i++) {
        if (is_present(&p->operands[i], calling))
            ok = add_tensor(p, &maps, &p->operands[i]);
    }
    ok = ok && set_map(p, p->base, "shapes", maps.shapes) &&
         set_map(p, p->base, "ranks", maps.ranks) &&
         set_map(p, p->base, "tensorDtypes", maps.storage) &&
         set_map(p, p->base, "logicalDtypes", maps.logical) &&
         set_map(p, p->base, "dtypes", p->dtypes) && set_map(p, p->base, "present", present) &&
         set_map(p, p->base, "args", p->plan->arguments) &&
         set_map(p, p->base, "attrs", p->plan->attributes) &&
         nib_map_set_cstr(p->arena, p->base, "device", device);
    return ok ? NIB_OK : nib_fail_memory(p->error);
}

static bool overlay_tunables(nib_planner *p, const nib_tunable *tunables, size_t count,
                             nib_map *out)
{
    for (size_t i = 0; i < count; i++) {
        if (!nib_map_set(p->arena, out, tunables[i].name, tunables[i].default_value))
            return false;
    }
    return true;
}

static bool overlay_map(nib_arena *arena, const nib_map *from, nib_map *out)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!nib_map_set(arena, out, from->entries[i].key, from->entries[i].value))
            return false;
    }
    return true;
}

nib_status nib_planner_build_tunables(nib_planner *p, const nib_variant *variant, nib_map **out)
{
    *out = nib_map_new(p->arena, p->contract->tunable_count);
    if (!*out || !overlay_tunables(p, p->contract->tunables, p->contract->tunable_count, *out) ||
        (variant && !overlay_tunables(p, variant->tunables, variant->tunable_count, *out)) ||
        !overlay_map(p->arena, p->overrides, *out))
        return nib_fail_memory(p->error);
    return NIB_OK;
}

nib_status nib_planner_open_scope(nib_planner *p, const nib_level *level, nib_scope *out)
{
    const bool list = p->contract->dialect == NIB_DIALECT_LIST;
    nib_map *repeat = level->repeat ? level->repeat : nib_map_new(p->arena, 0);
    nib_map *frame = nib_map_new(p->arena, 4);
    bool ok = frame && set_map(p, frame, "repeat", repeat) &&
              set_map(p, frame, "tunables", level->tunables) &&
              set_map(p, frame, "derive", level->derive);
    if (level->constants)
        ok = ok && set_map(p, frame, "constants", level->constants);
    if (!list)
        ok = ok && nib_map_set_cstr(p->arena, frame, "DISPATCH_FOLD_WIDTH",
                                    nib_value_integer(DISPATCH_FOLD_WIDTH));
    if (!ok)
        return nib_fail_memory(p->error);
    *out = (nib_scope){.device_has_f16 = nib_caps_has_feature(p->caps, "shader-f16"),
                       .list_dialect = list};
    if (level->constants)
        out->frames[out->frame_count++] = level->constants;
    out->frames[out->frame_count++] = level->derive;
    out->frames[out->frame_count++] = frame;
    out->frames[out->frame_count++] = p->base;
    return NIB_OK;
}
