/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as backends see it. Everything lives in the plan's arena and is immutable after nib_plan_create.
 */
#ifndef NIB_PLAN_PLAN_H
#define NIB_PLAN_PLAN_H

#include "nibble/plan.h"
#include "package/package.h"
#include "plan/caps.h"

/* A tensor of the call, inputs and outputs alike. */
typedef struct nib_plan_tensor {
    const nib_port *port;
    nib_tensor_desc desc;  /* logical dtype and shape */
    nib_dtype storage;     /* storage dtype: desc.dtype unless the port projects int64 */
    bool packed;           /* GPU layout: four uint8 a word; otherwise small integers are widened to 4 bytes */
    size_t elements;
    size_t host_bytes;     /* as in host memory: desc.dtype, tightly packed */
    size_t gpu_bytes;      /* in storage layout, not rounded (5.2) */
    bool destination;      /* an output the caller said it will bind */
} nib_plan_tensor;

typedef struct nib_plan_intermediate {
    nib_str id;
    nib_dtype dtype;
    nib_tensor_desc desc;
    size_t bytes;  /* 0 when no active pass uses it */
    bool zero_init;
    bool used;
} nib_plan_intermediate;

typedef enum nib_resource_kind { NIB_RESOURCE_TENSOR, NIB_RESOURCE_INTERMEDIATE, NIB_RESOURCE_UNIFORM,
                                 NIB_RESOURCE_MISSING /* only in inactive passes */ } nib_resource_kind;

typedef struct nib_plan_binding {
    const nib_binding *binding;
    nib_resource_kind kind;
    size_t index;         /* into tensors, intermediates or (UNIFORM) the pass's uniforms */
    nib_str element_type; /* $X resolved; empty for a uniform */
    double length;        /* fixed array length; 0: runtime-sized */
} nib_plan_binding;

typedef struct nib_plan_uniform {
    nib_str name;
    unsigned char *bytes;
    size_t size; /* multiple of 16 */
} nib_plan_uniform;

typedef struct nib_plan_pass {
    const nib_pass *pass;
    nib_str id;    /* expanded: "loop[3].main" */
    nib_str label;
    bool active;   /* false: a zero dispatch axis, or every output is empty */
    unsigned dispatch[3];
    nib_plan_binding *bindings;
    size_t binding_count;
    nib_plan_uniform *uniforms;
    size_t uniform_count;
    nib_str declarations; /* 4.7 */
    const nib_map *derive;    /* every derive the pass sees, its own included */
    const nib_map *constants; /* list dialect: likewise; NULL in the map dialect */
    nib_scope scope;          /* what the template sees, env included */
} nib_plan_pass;

typedef struct nib_rejection {
    nib_str variant;
    nib_str reason;
} nib_rejection;

struct nib_plan {
    const nib_package *package;
    const nib_contract *contract;
    nib_context *context;
    nib_arena arena;
    const nib_variant *variant; /* NULL only for a relaxed plan without an eligible variant */
    const char *variant_id;     /* NULL likewise */
    bool demoted;
    bool relaxed;
    nib_rejection *rejected; /* in tried order */
    size_t rejected_count;
    nib_plan_tensor *tensors; /* inputs given in port order, then produced outputs in output order; inout once */
    size_t tensor_count;
    nib_map *attributes; /* effective: defaults overlaid by the request */
    nib_map *arguments;
    nib_map *tunables;   /* effective for the chosen variant */
    nib_map *derive;     /* manifest and variant derives */
    nib_map *constants;  /* list dialect: manifest and variant constants; NULL in the map dialect */
    nib_plan_intermediate *intermediates;
    size_t intermediate_count;
    nib_plan_pass *passes;
    size_t pass_count;
};

/* The tensor with this key, ONNX name or list-dialect alias; NULL when the call has none. */
const nib_plan_tensor *nib_plan_find_tensor(const nib_plan *plan, nib_str name);
/* Which template line wrote each line of nib_plan_wgsl's text; in the arena. Errors as there. */
nib_status nib_plan_line_map(const nib_plan *plan, size_t pass, nib_arena *arena, nib_line_map *out,
                             nib_error *error);
/* "input 'qBT' (q_B)", both names that users write, for messages. */
typedef struct nib_label {
    char text[200];
} nib_label;
nib_label nib_port_label(const nib_port *port);
/* An effective attribute as a number; `fallback` when it is absent. */
double nib_plan_attribute(const nib_plan *plan, const char *name, double fallback);
const char *nib_plan_attribute_string(const nib_plan *plan, const char *name); /* NULL when absent */

#endif
