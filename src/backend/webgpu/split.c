/* SPDX-License-Identifier: Apache-2.0
 *
 * A call whose weight is larger than one binding may be, as several calls over ranges of output columns. Every column is
 * computed from its own row of the weight, in the same order whatever its neighbours are, so the result is the same.
 * Each piece is an ordinary call with its own plan; its outputs are gathered into the columns of the whole outputs at the
 * end. Which tensors have a row for each column is known per operator.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "backend/webgpu/wgpu.h"

enum { MAX_PIECES = 64, MAX_SLICED = 8 };

/* Outputs with the same columns, and the inputs that have a row for each of them. */
typedef struct column_group {
    const char *attribute;         /* says how many columns there are */
    const char *inputs[6];         /* NULL-terminated */
    const char *outputs[3];
} column_group;

typedef struct split_rule {
    const char *op;
    bool flat; /* the weight is flat and its blocks cross rows: a piece starts where a block does */
    column_group groups[2];
    const char *once; /* an output that every piece would repeat: only the first makes it */
} split_rule;

static const split_rule rules[] = {
    {"com.microsoft.MatMulBnb4", true, {{"N", {"B", "absmax"}, {"Y"}}}, NULL},
    {"com.microsoft.MatMulNBitsMlp", false,
     {{"N", {"gate_B", "gate_scales", "gate_bias", "up_B", "up_scales", "up_bias"}, {"Y"}}},
     "input_skip_bias_sum"},
    {"com.microsoft.MatMulNBitsQkv", false,
     {{"Nq", {"q_B", "q_scales"}, {"Q"}}, {"Nkv", {"k_B", "k_scales", "v_B", "v_scales"}, {"K", "V"}}},
     "input_skip_bias_sum"},
};

static const split_rule *find_rule(const nib_plan *plan)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (nib_str_is(plan->contract->op_id, rules[i].op))
            return &rules[i];
    }
    return NULL;
}

/* ---- which tensors, which columns ---- */

static bool in_list(nib_str name, const char *const *list, size_t capacity)
{
    for (size_t i = 0; i < capacity && list[i]; i++) {
        if (nib_str_is(name, list[i]))
            return true;
    }
    return false;
}

/* The group that cuts this tensor; NULL: every piece has it whole. */
static const column_group *group_of(const split_rule *rule, const nib_plan_tensor *tensor)
{
    for (size_t g = 0; g < 2 && rule->groups[g].attribute; g++) {
        if (in_list(tensor->port->onnx, rule->groups[g].inputs, 6) ||
            in_list(tensor->port->onnx, rule->groups[g].outputs, 3))
            return &rule->groups[g];
    }
    return NULL;
}

static size_t columns_of(const nib_plan *plan, const column_group *group)
{
    const double columns = nib_plan_attribute(plan, group->attribute, 0);
    return columns >= 1 && columns <= 4294967295.0 ? (size_t)columns : 0;
}

static size_t gcd(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Columns between places where a piece may start. */
static size_t step_of(const nib_plan *plan, const split_rule *rule)
{
    const size_t block = (size_t)nib_plan_attribute(plan, "block_size", 0), K = (size_t)nib_plan_attribute(plan, "K", 0);
    return rule->flat && block > 0 && K > 0 ? block / gcd(block, K) : 1;
}

/* First column of piece i of `count`; the last piece ends at the last column. */
static size_t piece_start(size_t columns, size_t step, size_t count, size_t i)
{
    return i == count ? columns : columns / step * i / count * step;
}

typedef struct cut {
    const nib_plan *plan;
    const split_rule *rule;
    size_t step, count;
} cut;

static void piece_range(const cut *c, const column_group *group, size_t piece, size_t *first, size_t *columns)
{
    const size_t all = columns_of(c->plan, group);
    *first = piece_start(all, c->step, c->count, piece);
    *columns = piece_start(all, c->step, c->count, piece + 1) - *first;
}

/* Elements [first, first + count) of an input that a piece has. */
static void element_range(const cut *c, const nib_plan_tensor *tensor, size_t piece, size_t *first, size_t *count)
{
    const column_group *group = group_of(c->rule, tensor);
    const size_t all = columns_of(c->plan, group);
    size_t column, columns;
    piece_range(c, group, piece, &column, &columns);
    if (!c->rule->flat) {
        const size_t row = tensor->elements / all;
        *first = column * row;
        *count = columns * row;
        return;
    }
    /* Flat: elements follow the flat index of the weight, rounded up at the very end only. */
    const size_t K = (size_t)nib_plan_attribute(c->plan, "K", 0), flat = all * K;
    const size_t block = (size_t)nib_plan_attribute(c->plan, "block_size", 1);
    const size_t each = nib_str_is(tensor->port->onnx, "absmax") ? block : 2;
    *first = column * K / each;
    *count = (column + columns == all ? (flat + each - 1) / each : (column + columns) * K / each) - *first;
}

/* The largest binding of any piece. */
static bool pieces_fit(const cut *c, size_t limit)
{
    for (size_t i = 0; i < c->plan->tensor_count; i++) {
        const nib_plan_tensor *tensor = &c->plan->tensors[i];
        const bool sliced = tensor->port->role == NIB_INPUT && group_of(c->rule, tensor);
        const size_t stride = nib_wgpu_layout_bytes(nib_wgpu_layout_of(tensor), tensor->desc.dtype);
        for (size_t piece = 0; piece < (sliced ? c->count : 1); piece++) {
            size_t first = 0, elements = tensor->elements, rounded;
            if (sliced)
                element_range(c, tensor, piece, &first, &elements);
            if (!nib_wgpu_round(elements * stride, &rounded) || rounded > limit)
                return false;
        }
    }
    return true;
}

static bool every_piece_has_columns(const cut *c)
{
    for (size_t g = 0; g < 2 && c->rule->groups[g].attribute; g++) {
        if (columns_of(c->plan, &c->rule->groups[g]) / c->step < c->count)
            return false;
    }
    return true;
}

bool nib_wgpu_find_split(const nib_wgpu_device *device, const nib_plan *plan, size_t *pieces)
{
    cut c = {.plan = plan, .rule = find_rule(plan)};
    if (!c.rule)
        return false;
    c.step = step_of(plan, c.rule);
    for (c.count = 2; c.count <= MAX_PIECES && every_piece_has_columns(&c); c.count++) {
        if (pieces_fit(&c, device->max_binding_bytes)) {
            *pieces = c.count;
            return true;
        }
    }
    return false;
}

/* ---- the plan of a piece ---- */

typedef struct piece_request {
    nib_named_desc *tensors;
    nib_named_scalar *attributes, *arguments, *tunables;
    const char *want[1];
    nib_request request;
} piece_request;

static nib_tensor_desc piece_desc(const cut *c, const nib_plan_tensor *tensor, size_t piece)
{
    nib_tensor_desc desc = tensor->desc;
    if (!group_of(c->rule, tensor) || tensor->port->role != NIB_INPUT)
        return desc;
    size_t first, count, column, columns;
    element_range(c, tensor, piece, &first, &count);
    piece_range(c, group_of(c->rule, tensor), piece, &column, &columns);
    desc.dims[0] = (int64_t)(c->rule->flat ? count : columns);
    return desc;
}

static const char *copy_name(nib_arena *arena, nib_str name)
{
    return nib_arena_cstr(arena, name);
}

static bool scalar_of(nib_arena *arena, const nib_entry *entry, nib_named_scalar *out)
{
    *out = (nib_named_scalar){.name = copy_name(arena, entry->key)};
    switch (entry->value.type) {
    case NIB_VALUE_INTEGER:
    case NIB_VALUE_FLOAT:
        out->kind = NIB_SCALAR_NUMBER;
        out->number = entry->value.as.number;
        return out->name != NULL;
    case NIB_VALUE_BOOL:
        out->kind = NIB_SCALAR_BOOL;
        out->boolean = entry->value.as.boolean;
        return out->name != NULL;
    case NIB_VALUE_STRING:
        out->kind = NIB_SCALAR_STRING;
        out->string = copy_name(arena, entry->value.as.string);
        return out->name && out->string;
    default:
        return false; /* an attribute without a value, or not a scalar: left to the manifest's default */
    }
}

static size_t scalars_of(nib_arena *arena, const nib_map *map, nib_named_scalar **out)
{
    size_t count = 0;
    *out = NIB_ARENA_ARRAY(arena, nib_named_scalar, map ? map->count + 1 : 1);
    for (size_t i = 0; *out && map && i < map->count; i++)
        count += scalar_of(arena, &map->entries[i], &(*out)[count]);
    return count;
}

static void set_columns(const cut *c, size_t piece, nib_named_scalar *attributes, size_t count)
{
    for (size_t g = 0; g < 2 && c->rule->groups[g].attribute; g++) {
        size_t first, columns;
        piece_range(c, &c->rule->groups[g], piece, &first, &columns);
        for (size_t i = 0; i < count; i++) {
            if (strcmp(attributes[i].name, c->rule->groups[g].attribute) == 0)
                attributes[i].number = (double)columns;
        }
    }
}

static nib_status make_request(const cut *c, nib_arena *arena, size_t piece, piece_request *out, nib_error *error)
{
    const nib_plan *plan = c->plan;
    nib_request *r = &out->request;
    memset(out, 0, sizeof *out);
    out->tensors = NIB_ARENA_ARRAY(arena, nib_named_desc, plan->tensor_count + 1);
    r->attribute_count = scalars_of(arena, plan->attributes, &out->attributes);
    r->argument_count = scalars_of(arena, plan->arguments, &out->arguments);
    r->tunable_count = scalars_of(arena, plan->tunables, &out->tunables);
    if (!out->tensors || !out->attributes || !out->arguments || !out->tunables)
        return nib_fail_memory(error);
    for (size_t i = 0; i < plan->tensor_count; i++) {
        const nib_plan_tensor *tensor = &plan->tensors[i];
        const char *name = copy_name(arena, tensor->port->key);
        if (!name)
            return nib_fail_memory(error);
        if (tensor->port->role == NIB_INPUT)
            out->tensors[r->tensor_count++] = (nib_named_desc){name, piece_desc(c, tensor, piece)};
        else if (c->rule->once && nib_str_is(tensor->port->onnx, c->rule->once) && piece == 0)
            out->want[r->want_count++] = name;
    }
    set_columns(c, piece, out->attributes, r->attribute_count);
    r->tensors = out->tensors;
    r->attributes = out->attributes;
    r->arguments = out->arguments;
    r->tunables = out->tunables;
    r->want = out->want;
    return NIB_OK;
}

/* The same variant, unless a later piece leaves out the output that the first one makes. */
static bool keeps_variant(const cut *c, size_t piece)
{
    if (piece == 0 || !c->rule->once)
        return true;
    return !nib_plan_find_tensor(c->plan, nib_str_from(c->rule->once));
}

static nib_status plan_piece(nib_wgpu_device *device, const cut *c, size_t piece, nib_plan **out, nib_error *error)
{
    nib_arena arena;
    piece_request request;
    nib_arena_init(&arena, &device->common.context->allocator, 0);
    nib_status status = make_request(c, &arena, piece, &request, error);
    if (status == NIB_OK) {
        request.request.variant = keeps_variant(c, piece) ? c->plan->variant_id : NULL;
        status = nib_plan_create(c->plan->package, &request.request, device->common.caps, out, error);
    }
    nib_arena_free(&arena);
    return status;
}

/* ---- pieces and their tensors ---- */

/* The copy of one piece's output into its columns of the whole output. */
typedef struct gather {
    size_t piece, piece_tensor, tensor; /* indices */
    uint32_t first, columns;
    WGPUBuffer params;
    WGPUBindGroup group;
    uint32_t dispatch[2];
} gather;

struct nib_wgpu_split {
    size_t count;
    nib_plan **plans;      /* [count] */
    nib_call **calls;      /* [count] */
    nib_tensor **slices;   /* [count * tensor_count]: views of host memory; NULL: the whole tensor is bound */
    gather *gathers;
    size_t gather_count;
    nib_wgpu_pipeline *words, *halves;
};

/* One invocation an element. */
static const char words_wgsl[] =
    "struct Params { rows: u32, columns: u32, first: u32, stride: u32 }\n"
    "@group(0) @binding(0) var<storage, read> part: array<u32>;\n"
    "@group(0) @binding(1) var<storage, read_write> whole: array<u32>;\n"
    "@group(0) @binding(2) var<uniform> params: Params;\n"
    "@compute @workgroup_size(64)\n"
    "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n"
    "    let column = group.x * 64u + lane;\n"
    "    if (column >= params.columns) {\n"
    "        return;\n"
    "    }\n"
    "    for (var row = group.y; row < params.rows; row += 65535u) {\n"
    "        whole[row * params.stride + params.first + column] = part[row * params.columns + column];\n"
    "    }\n"
    "}\n";

/* One invocation a word of the whole output, which may belong to a neighbouring piece by half. Halves move as bits. */
static const char halves_wgsl[] =
    "struct Params { rows: u32, columns: u32, first: u32, stride: u32 }\n"
    "@group(0) @binding(0) var<storage, read> part: array<u32>;\n"
    "@group(0) @binding(1) var<storage, read_write> whole: array<u32>;\n"
    "@group(0) @binding(2) var<uniform> params: Params;\n"
    "@compute @workgroup_size(64)\n"
    "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n"
    "    for (var row = group.y; row < params.rows; row += 65535u) {\n"
    "        let start = row * params.stride + params.first;\n"
    "        let word = start / 2u + group.x * 64u + lane;\n"
    "        if (word > (start + params.columns - 1u) / 2u) {\n"
    "            continue;\n"
    "        }\n"
    "        var value = whole[word];\n"
    "        for (var half = 0u; half < 2u; half++) {\n"
    "            let column = word * 2u + half - start;\n"
    "            if (column < params.columns) {\n"
    "                let at = row * params.columns + column;\n"
    "                let bits = extractBits(part[at / 2u], 16u * (at % 2u), 16u);\n"
    "                value = insertBits(value, bits, 16u * half, 16u);\n"
    "            }\n"
    "        }\n"
    "        whole[word] = value;\n"
    "    }\n"
    "}\n";

static nib_status build_gathers(nib_wgpu_device *device, nib_wgpu_split *split, nib_error *error)
{
    NIB_TRY(nib_wgpu_build_own(device, "gather columns", words_wgsl, "rwu", &split->words, error));
    return nib_wgpu_build_own(device, "gather half columns", halves_wgsl, "rwu", &split->halves, error);
}

static nib_status make_params(nib_wgpu_device *device, gather *g, uint32_t rows, uint32_t stride, nib_error *error)
{
    const uint32_t params[4] = {rows, g->columns, g->first, stride};
    NIB_TRY(nib_wgpu_buffer_create(device, "gather parameters", sizeof params, WGPUBufferUsage_Uniform, true, &g->params,
                                   error));
    void *mapped = wgpuBufferGetMappedRange(g->params, 0, sizeof params);
    if (!mapped)
        return nib_fail(error, NIB_OUT_OF_MEMORY, "the parameter buffer could not be mapped");
    memcpy(mapped, params, sizeof params);
    wgpuBufferUnmap(g->params);
    return NIB_OK;
}

static size_t index_in(const nib_plan *plan, nib_str key)
{
    const nib_plan_tensor *tensor = nib_plan_find_tensor(plan, key);
    return tensor ? (size_t)(tensor - plan->tensors) : SIZE_MAX;
}

/* One gather for each piece of each cut output. */
static nib_status note_gathers(nib_wgpu_device *device, const cut *c, nib_wgpu_split *split, nib_error *error)
{
    for (size_t t = 0; t < c->plan->tensor_count; t++) {
        const nib_plan_tensor *tensor = &c->plan->tensors[t];
        const column_group *group = group_of(c->rule, tensor);
        if (tensor->port->role == NIB_INPUT || !group)
            continue;
        const size_t all = columns_of(c->plan, group);
        for (size_t piece = 0; piece < c->count; piece++) {
            size_t first, columns;
            piece_range(c, group, piece, &first, &columns);
            gather *g = &split->gathers[split->gather_count++];
            const size_t rows = tensor->elements / all;
            *g = (gather){.piece = piece, .tensor = t, .first = (uint32_t)first, .columns = (uint32_t)columns};
            g->piece_tensor = index_in(split->plans[piece], tensor->port->key);
            g->dispatch[0] = (uint32_t)((columns + 127) / 64);
            g->dispatch[1] = (uint32_t)(rows < 65535 ? rows : 65535);
            NIB_TRY(make_params(device, g, (uint32_t)rows, (uint32_t)all, error));
        }
    }
    return NIB_OK;
}

static void *zeroed(nib_wgpu_device *device, size_t count, size_t bytes)
{
    return nib_allocate(&device->common.context->allocator, count ? count : 1, bytes);
}

static nib_status fill_split(nib_wgpu_call *call, const cut *c, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    nib_wgpu_split *split = call->split;
    split->count = c->count;
    split->plans = zeroed(device, c->count, sizeof *split->plans);
    split->calls = zeroed(device, c->count, sizeof *split->calls);
    split->slices = zeroed(device, c->count * c->plan->tensor_count, sizeof *split->slices);
    split->gathers = zeroed(device, c->count * c->plan->tensor_count, sizeof *split->gathers);
    if (!split->plans || !split->calls || !split->slices || !split->gathers)
        return nib_fail_memory(error);
    for (size_t i = 0; i < c->count; i++)
        NIB_TRY(plan_piece(device, c, i, &split->plans[i], error));
    const nib_plan *const *plans = (const nib_plan *const *)split->plans;
    NIB_TRY(nib_webgpu_prepare(&device->common, plans, c->count, split->calls, error));
    NIB_TRY(build_gathers(device, split, error));
    return note_gathers(device, c, split, error);
}

nib_status nib_wgpu_split_create(nib_wgpu_call *call, size_t pieces, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    const cut c = {.plan = call->common.plan,
                   .rule = find_rule(call->common.plan),
                   .step = step_of(call->common.plan, find_rule(call->common.plan)),
                   .count = pieces};
    call->split = zeroed(device, 1, sizeof *call->split);
    if (!call->split)
        return nib_fail_memory(error);
    NIB_TRY(fill_split(call, &c, error));
    for (size_t i = 0; i < c.plan->tensor_count; i++)
        call->used[i] = c.plan->tensors[i].port->role != NIB_INPUT;
    nib_log(device->common.context, NIB_LOG_INFO, "split into %zu pieces to fit %zu bytes a binding", pieces,
            device->max_binding_bytes);
    return NIB_OK;
}

static void free_slices(const nib_wgpu_call *call)
{
    const nib_wgpu_split *split = call->split;
    const size_t count = split->slices ? split->count * call->common.plan->tensor_count : 0;
    for (size_t i = 0; i < count; i++) {
        nib_tensor_free(split->slices[i]);
        split->slices[i] = NULL;
    }
}

void nib_wgpu_split_unlink(nib_wgpu_call *call)
{
    nib_wgpu_split *split = call->split;
    for (size_t i = 0; i < split->gather_count; i++) {
        if (split->gathers[i].group)
            wgpuBindGroupRelease(split->gathers[i].group);
        split->gathers[i].group = NULL;
    }
    for (size_t i = 0; split->calls && i < split->count; i++) {
        if (split->calls[i])
            nib_wgpu_unlink((nib_wgpu_call *)split->calls[i]);
    }
    free_slices(call);
}

void nib_wgpu_split_free(nib_wgpu_call *call)
{
    nib_wgpu_split *split = call->split;
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    const nib_allocator *allocator = &device->common.context->allocator;
    const size_t cells = split->count * call->common.plan->tensor_count, room = cells ? cells : 1;
    nib_wgpu_split_unlink(call);
    for (size_t i = 0; i < split->gather_count; i++)
        nib_wgpu_buffer_free(split->gathers[i].params);
    for (size_t i = 0; i < split->count; i++) {
        if (split->calls && split->calls[i])
            nib_wgpu_release(split->calls[i]);
        if (split->plans)
            nib_plan_free(split->plans[i]);
    }
    nib_wgpu_pipeline_release(device, split->words);
    nib_wgpu_pipeline_release(device, split->halves);
    nib_release(allocator, split->plans, split->count, sizeof *split->plans);
    nib_release(allocator, split->calls, split->count, sizeof *split->calls);
    nib_release(allocator, split->slices, room, sizeof *split->slices);
    nib_release(allocator, split->gathers, room, sizeof *split->gathers);
    nib_release(allocator, split, 1, sizeof *split);
    call->split = NULL;
}

/* ---- linking and recording ---- */

/* The piece's part of a bound input: a view of the same memory, on the host or on the device. */
static nib_status make_slice(nib_wgpu_call *call, const cut *c, size_t piece, size_t index, nib_tensor **out,
                             nib_error *error)
{
    nib_tensor *whole = call->common.bound[index];
    const nib_plan_tensor *tensor = &c->plan->tensors[index];
    const nib_tensor_desc desc = piece_desc(c, tensor, piece);
    size_t first, count;
    element_range(c, tensor, piece, &first, &count);
    if (whole->data) {
        const size_t bytes = nib_dtype_bytes(desc.dtype);
        NIB_TRY(nib_tensor_borrow(call->common.device->context, &desc, (char *)whole->data + first * bytes,
                                  count * bytes, out, error));
        (*out)->constant = whole->constant;
        return NIB_OK;
    }
    nib_wgpu_copy *copy;
    NIB_TRY(nib_wgpu_copy_get((nib_wgpu_device *)call->common.device, whole, nib_wgpu_layout_of(tensor), "the weight", true,
                              &copy, error));
    const size_t stride = nib_wgpu_layout_bytes(copy->layout, desc.dtype);
    size_t rounded;
    if (!nib_wgpu_round(count * stride, &rounded))
        return nib_fail(error, NIB_LIMIT, "the tensor is too large");
    return nib_webgpu_tensor_wrap(call->common.device, copy->buffer, copy->offset + first * stride, rounded, &desc,
                                  tensor->packed ? NIB_WEBGPU_PACKED : NIB_WEBGPU_NATURAL, out, error);
}

static nib_status bind_piece(nib_wgpu_call *call, const cut *c, size_t piece, nib_error *error)
{
    nib_wgpu_split *split = call->split;
    nib_call *part = split->calls[piece];
    for (size_t i = 0; i < c->plan->tensor_count; i++) {
        const nib_plan_tensor *tensor = &c->plan->tensors[i];
        const size_t at = index_in(split->plans[piece], tensor->port->key);
        nib_tensor **slice = &split->slices[piece * c->plan->tensor_count + i];
        if (at == SIZE_MAX)
            continue;
        const bool cut_here = group_of(c->rule, tensor) != NULL;
        if (tensor->port->role == NIB_INPUT && !call->common.bound[i])
            return nib_fail(error, NIB_REQUEST, "%s is not bound", nib_port_label(tensor->port).text);
        if (tensor->port->role == NIB_INPUT && cut_here && !*slice)
            NIB_TRY(make_slice(call, c, piece, i, slice, error));
        if (tensor->port->role == NIB_INPUT)
            part->bound[at] = cut_here ? *slice : call->common.bound[i];
        else if (!cut_here)
            part->bound[at] = call->common.bound[i]; /* made once, straight into the caller's tensor */
    }
    return NIB_OK;
}

static nib_status link_gather(nib_wgpu_call *call, gather *g, nib_error *error)
{
    nib_wgpu_device *device = (nib_wgpu_device *)call->common.device;
    const nib_wgpu_call *part = (nib_wgpu_call *)call->split->calls[g->piece];
    const nib_wgpu_copy *from = part->copies[g->piece_tensor], *to = call->copies[g->tensor];
    const bool half = to->tensor->desc.dtype == NIB_FLOAT16;
    const WGPUBindGroupEntry entries[] = {
        {.binding = 0, .buffer = from->buffer, .offset = from->offset, .size = from->rounded_bytes},
        {.binding = 1, .buffer = to->buffer, .offset = to->offset, .size = to->rounded_bytes},
        {.binding = 2, .buffer = g->params, .size = 16}};
    const nib_wgpu_pipeline *pipeline = half ? call->split->halves : call->split->words;
    const WGPUBindGroupDescriptor descriptor = {
        .layout = pipeline->layout->group, .entryCount = 3, .entries = entries};
    nib_wgpu_scope_begin(device);
    g->group = wgpuDeviceCreateBindGroup(device->device, &descriptor);
    return nib_wgpu_scope_end(device, "creating a bind group", error);
}

nib_status nib_wgpu_split_link(nib_wgpu_call *call, bool refresh, nib_error *error)
{
    nib_wgpu_split *split = call->split;
    const cut c = {.plan = call->common.plan,
                   .rule = find_rule(call->common.plan),
                   .step = step_of(call->common.plan, find_rule(call->common.plan)),
                   .count = split->count};
    for (size_t i = 0; i < split->count; i++) {
        NIB_TRY(bind_piece(call, &c, i, error));
        NIB_TRY(nib_wgpu_link((nib_wgpu_call *)split->calls[i], refresh, error));
    }
    for (size_t i = 0; i < split->gather_count && !call->linked; i++)
        NIB_TRY(link_gather(call, &split->gathers[i], error));
    return NIB_OK;
}

/* All pieces first, then all gathers: an output may share memory with an input. */
void nib_wgpu_split_record(const nib_wgpu_call *call, WGPUComputePassEncoder pass)
{
    const nib_wgpu_split *split = call->split;
    for (size_t i = 0; i < split->count; i++) {
        const nib_wgpu_call *part = (const nib_wgpu_call *)split->calls[i];
        nib_wgpu_record(part, pass, 0, part->step_count);
    }
    for (size_t i = 0; i < split->gather_count; i++) {
        const gather *g = &split->gathers[i];
        const bool half = call->copies[g->tensor]->tensor->desc.dtype == NIB_FLOAT16;
        wgpuComputePassEncoderSetPipeline(pass, half ? split->halves->pipeline : split->words->pipeline);
        wgpuComputePassEncoderSetBindGroup(pass, 0, g->group, 0, NULL);
        wgpuComputePassEncoderDispatchWorkgroups(pass, g->dispatch[0], g->dispatch[1], 1);
    }
}

size_t nib_wgpu_split_count(const nib_wgpu_call *call)
{
    return call->split ? call->split->count : 1;
}
