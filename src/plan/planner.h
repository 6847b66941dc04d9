/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of one planning run, and its steps in the order in which nib_plan_create takes them.
 * Internal to this folder.
 */
#ifndef NIB_PLAN_PLANNER_H
#define NIB_PLAN_PLANNER_H

#include "base/buf.h"
#include "base/error.h"
#include "plan/plan.h"
#include "plan/view.h"

/* What a call knows of one port; planner.operands runs parallel to contract.ports. */
typedef struct nib_operand {
    const nib_port *port;
    bool given;    /* the request describes it: an input, or the destination of an output */
    bool wanted;   /* an output that the request names */
    bool produced; /* an output that inference decided to make */
    nib_tensor_desc desc;
    nib_dtype storage; /* on the device (format 5.1) */
    nib_dtype logical; /* what the port's dtype stands for (format 7.6) */
} nib_operand;

typedef struct nib_planner {
    nib_plan *plan;
    nib_arena *arena;  /* the plan's own: everything that outlives planning */
    nib_arena scratch; /* lives as long as planning */
    nib_arena eval;    /* evaluation temporaries, dropped now and then */
    nib_error *error;
    const nib_contract *contract;
    const nib_request *request;
    const nib_caps *caps;
    nib_operand *operands;
    nib_map *overrides; /* the request's tunables */
    nib_map *base;      /* lowest scope frame: shapes, attrs, device ... (format 3.6) */
    nib_map *dtypes;    /* type variable or dtype name -> WGSL scalar */
    nib_map *tunables;  /* manifest defaults and overrides: what derives and conditions see
                           (format 2.A.7) */
    nib_map *derive;    /* manifest derives, then those of the chosen variant too */
    nib_map *constants; /* list dialect: manifest and variant constants of the chosen variant */
    nib_map *outer;     /* what a pass starts from: type variables and `derive`, or (list dialect)
                           `constants` */
    bool values_broken; /* relaxed: an attribute has a value that the manifest does not admit */
    bool trial;         /* a repetition that looks for a cause; it logs nothing */
    bool all_empty;     /* no output has an element, so nothing runs (format 7.7) */
} nib_planner;

/* ---- request.c: names to operands, attributes, arguments, overrides ---- */

nib_status nib_planner_read_request(nib_planner *p);
/* Index of the port with this key, ONNX name or alias (keys win); port_count when there is none. */
size_t nib_contract_find_port(const nib_contract *contract, nib_str name);
/* A value as a message shows it: strings quoted, numbers in their shortest form. */
nib_label nib_value_label(nib_value value);

/* ---- validate.c: rules that need no expression (format 7.5, 7.6) ---- */

nib_status nib_planner_check_inputs(nib_planner *p);
nib_status nib_planner_check_attributes(nib_planner *p);
nib_status nib_planner_check_arguments(nib_planner *p);
/* Fill storage and logical dtypes of the operands given or produced, and check that they agree. */
nib_status nib_planner_check_dtypes(nib_planner *p);
bool nib_port_allows(const nib_port *port, nib_dtype dtype);

/* ---- scope.c ---- */

/* Build the base frame. `calling`: outputs that will be produced are present; otherwise, during
 * inference, only destinations are. */
nib_status nib_planner_build_base(nib_planner *p, nib_value device, bool calling);
/* WGSL scalars by type variable. */
nib_status nib_planner_build_dtypes(nib_planner *p);
/* Manifest defaults, then those of `variant` unless it is NULL, then overrides. */
nib_status nib_planner_build_tunables(nib_planner *p, const nib_variant *variant, nib_map **out);

/* The frames of one level (format 2.A.7). `repeat` and `constants` may be NULL; constants are also
 * bare names. */
typedef struct nib_level {
    nib_map *derive;
    nib_map *tunables;
    nib_map *repeat;
    nib_map *constants;
} nib_level;
nib_status nib_planner_open_scope(nib_planner *p, const nib_level *level, nib_scope *out);

/* ---- derive.c ---- */

/* Evaluate into p->eval. */
nib_status nib_planner_eval(nib_planner *p, const nib_expr *expr, const nib_scope *scope,
                            nib_value *out);
/* Evaluate into the plan's arena. */
nib_status nib_planner_eval_kept(nib_planner *p, const nib_expr *expr, const nib_scope *scope,
                                 nib_value *out);
nib_status nib_planner_eval_node(nib_planner *p, const nib_derive_node *node,
                                 const nib_scope *scope, nib_value *out);
/* Evaluate entries in order, each into `into` as soon as it is known. */
nib_status nib_planner_derive(nib_planner *p, const nib_derives *derives, const nib_scope *scope,
                              nib_map *into);
/* A list of non-negative integers, as a shape; `scalar_ok`: a number is a list of one. `what` names
 * it in messages. */
nib_status nib_planner_eval_shape(nib_planner *p, const nib_shape_rule *rule,
                                  const nib_scope *scope, const char *what, bool scalar_ok,
                                  nib_tensor_desc *desc);
/* Fail with `inner`'s code and position, and a message that begins with `format`. */
nib_status nib_fail_around(nib_error *error, const nib_error *inner, const char *format, ...)
    NIB_PRINTF(3, 4);

/* ---- make.c, blame.c ---- */

/* nib_plan_create without its checks and hints; `trial`: nothing is logged. */
nib_status nib_plan_try(const nib_package *package, const nib_request *request,
                        const nib_caps *caps, bool trial, nib_plan **out, nib_error *error);
/* After an expression failed: when an attribute of the wrong type is why, let `error` say so.
 * Returns the code of `error`. */
nib_status nib_planner_blame(const nib_package *package, const nib_request *request,
                             const nib_caps *caps, nib_error *error);

/* ---- infer.c, select.c, explain.c ---- */

nib_status nib_planner_infer_outputs(nib_planner *p);
/* Sets plan.variant, demoted, rejected. NO_VARIANT unless the request is relaxed. */
nib_status nib_planner_select(nib_planner *p, const nib_scope *scope);
/* Append why `clause` is not true: the first false term of its `and` chain, through bare derive
 * names. */
void nib_planner_explain(nib_planner *p, const nib_scope *scope, nib_str clause, nib_buf *out);

/* Append that the tensor has another rank than it is declared with, if so. */
void nib_planner_explain_rank(nib_planner *p, const nib_scope *scope, const nib_operand *operand,
                              nib_buf *out);
/* A shape rule failed as `inner` says: fail with the tensors that it reads, in one line. */
nib_status nib_planner_explain_shape(nib_planner *p, const nib_scope *scope,
                                     const nib_shape_rule *rule, const nib_error *inner);

/* ---- expand.c ---- */

typedef struct nib_expanded_pass {
    const nib_pass *pass;
    nib_str id;
    nib_str path;    /* JSON path of the pass in the manifest */
    nib_map *repeat; /* NULL outside repeat groups */
} nib_expanded_pass;
nib_status nib_planner_expand(nib_planner *p, const nib_scope *scope, nib_expanded_pass **out,
                              size_t *count);

/* ---- passes.c: variant derives, intermediates and passes of the chosen variant ---- */

nib_status nib_planner_build_variant(nib_planner *p);

typedef struct nib_pass_build {
    nib_planner *p;
    nib_plan_pass *pass;
    const nib_scope *scope; /* of the pass's expressions */
    const nib_map *names;   /* what $X may name */
} nib_pass_build;
/* geometry.c: sets dispatch and active. */
nib_status nib_pass_dispatch(nib_pass_build *b);
/* intermediates.c */
nib_status nib_planner_size_intermediates(nib_planner *p, const nib_scope *scope);
/* bindings.c: element types and lengths; then resources, once the dispatch is known. */
nib_status nib_pass_types(nib_pass_build *b);
nib_status nib_pass_resources(nib_pass_build *b);
/* declare.c */
nib_status nib_pass_declarations(nib_pass_build *b);
/* uniforms.c */
nib_status nib_pass_uniforms(nib_pass_build *b);

/* int64.c: refuse arithmetic on whole-element int64 bindings in rendered WGSL (format 7.7). */
nib_status nib_check_int64_use(const nib_plan *plan, const nib_plan_pass *pass, nib_arena *arena,
                               nib_str wgsl, nib_error *error);

#endif
