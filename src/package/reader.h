/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the manifest reader share. Each part reads one section of the format into the
 * contract; a key table (keys.h) says which part reads which key.
 */
#ifndef NIB_PACKAGE_READER_H
#define NIB_PACKAGE_READER_H

#include "base/error.h"
#include "package/contract.h"
#include "package/keys.h"

typedef struct nib_list_state nib_list_state;

/* A named binding entry of the map dialect, resolved without a variant (2.A.8). */
typedef struct nib_handle {
    nib_str name;
    nib_binding binding;
} nib_handle;

/* A variant after family expansion, and where it stands in the file. */
typedef struct nib_expanded {
    nib_value value;
    nib_str path; /* "variants[2].variants[0]" */
    nib_str note; /* "case 1 of the family"; empty for a plain variant */
} nib_expanded;

typedef struct nib_expansion {
    nib_expanded *items;
    size_t count, capacity;
    size_t work; /* values and text bytes made so far, bounded */
} nib_expansion;

struct nib_reader {
    nib_arena *arena;
    nib_error *error;
    nib_contract *contract;

    nib_exprs when;     /* of the manifest, put in front of every variant's */
    nib_requires needs; /* of the manifest, merged into every variant's */
    nib_handle *handles;
    size_t handle_count;
    nib_list_state *list;        /* list dialect: see contract_list.c */
    const nib_map *binding_sets; /* list dialect */
    nib_expansion expansion;     /* the variants, read when everything else is known */

    /* While one variant is read. */
    nib_variant *variant;
    nib_value variant_bindings;     /* list dialect: inherited by passes without bindings */
    const nib_list **superseded_by; /* raw ids per variant, resolved when all variants are known */
};

/* ---- clean.c: what holds for the whole document ---- */

/* A copy without $comment members; refuses forbidden keys (E.2). Strings are shared. */
nib_status nib_clean(nib_reader *r, nib_value value, nib_value *out);
/* App. E.2: members that every JavaScript object has. */
bool nib_is_forbidden_key(nib_str key);
/* [A-Za-z0-9][A-Za-z0-9_]* */
bool nib_is_stable_id(nib_str text);

/* ---- expressions.c ---- */

nib_status nib_read_expr(nib_reader *r, nib_str text, nib_expr *out);
/* A non-empty list of expression strings (when, demoteWhen). */
nib_status nib_read_exprs(nib_reader *r, nib_value value, nib_exprs *out);
/* The expressions of `first`, then those of `second`. */
nib_status nib_join_exprs(nib_reader *r, nib_exprs first, nib_exprs second, nib_exprs *out);
nib_status nib_read_derive(nib_reader *r, nib_value value, nib_derives *out);
nib_status nib_read_constants(nib_reader *r, nib_value value, nib_derives *out);
/* profile: a derive map without name rules */
nib_status nib_read_profile(nib_reader *r, nib_value value, nib_derives *out);
nib_status nib_read_shape(nib_reader *r, nib_value value, nib_shape_rule *out);
/* A dispatch size or repeat count: an expression or a non-negative safe integer. */
nib_status nib_read_size(nib_reader *r, nib_value value, nib_expr *out);
bool nib_is_safe_integer(double number);

/* ---- declarations.c ---- */

nib_status nib_read_type_constraints(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_attribute_constraints(nib_reader *r, nib_value value, bool declares);
nib_status nib_add_attribute(nib_reader *r, nib_attribute attribute);
nib_attribute *nib_find_attribute(const nib_contract *contract, nib_str name);
nib_status nib_check_tunable(nib_reader *r, nib_str name, nib_value value);
nib_status nib_read_intermediates(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_check_domain(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_check_conformance(nib_reader *r, const nib_value *value, void *contract);

/* ---- ports.c ---- */

nib_status nib_read_inputs(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_outputs(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_arguments(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_argument(nib_reader *r, nib_str name, nib_str kind, nib_value required,
                             nib_value one_of, nib_argument *out);
/* Fill dtype and variable from dtype_text. */
void nib_resolve_port_dtype(const nib_contract *contract, nib_port *port);
/* The text of a rank, which is documentation only (2.A.3). */
nib_status nib_read_rank(nib_reader *r, const nib_value *value, nib_port *port);
const nib_port *nib_find_port(const nib_contract *contract, nib_str key);
/* The dtype the port's buffer holds when only one is possible; NONE otherwise. */
nib_dtype nib_port_held_dtype(const nib_port *port);

/* ---- bindings.c ---- */

nib_status nib_read_handles(nib_reader *r, const nib_value *value, void *contract);
/* The `bindings` of a map pass. */
nib_status nib_read_pass_bindings(nib_reader *r, const nib_value *value, void *pass);
/* Name, type and literal of the fields of a uniform. */
nib_status nib_read_uniform_fields(nib_reader *r, nib_value value, nib_binding *binding);
nib_status nib_read_uniform_value(nib_reader *r, nib_value value, nib_value *literal,
                                  nib_expr *expr);
nib_status nib_read_element_type(nib_reader *r, const nib_value *value, void *binding);
nib_status nib_read_length(nib_reader *r, const nib_value *value, void *binding);
bool nib_binding_kind_from(nib_str text, nib_binding_kind *out);
/* Rules that need the whole pass: unique names, $X visible, int64 elements. */
nib_status nib_check_pass_bindings(nib_reader *r, const nib_pass *pass);
const nib_intermediate *nib_find_intermediate(const nib_variant *variant, nib_str id);
/* Names that occur as WGSL names of bindings (7.3). */
nib_status nib_collect_binding_names(nib_reader *r);

/* ---- bindings_list.c ---- */

nib_status nib_read_binding_sets(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_list_bindings(nib_reader *r, nib_value value, nib_pass *pass);
/* A pass without bindings has those of its variant, in the dialect's older form. */
nib_status nib_inherit_bindings(nib_reader *r, nib_value value, nib_pass *pass);
nib_status nib_apply_uniform_overrides(nib_reader *r, const nib_value *value, void *pass);

/* ---- passes.c ---- */

/* Read the elements of `passes` with `keys` for a pass; repeat groups nest. */
nib_status nib_read_passes(nib_reader *r, nib_value value, const nib_keys *keys, nib_pass **passes,
                           size_t *count);
nib_status nib_read_map_passes(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_read_dispatch(nib_reader *r, const nib_value *value, void *pass);
nib_status nib_read_shader(nib_reader *r, const nib_value *value, void *pass);
/* The rows that passes of both dialects share. */
nib_status nib_read_pass_id(nib_reader *r, const nib_value *value, void *pass);
nib_status nib_read_pass_derive(nib_reader *r, const nib_value *value, void *pass);
nib_status nib_read_pass_profile(nib_reader *r, const nib_value *value, void *pass);
nib_status nib_read_collectives_width(nib_reader *r, const nib_value *value, void *pass);
nib_status nib_read_view_aliases(nib_reader *r, const nib_value *value, void *pass);

/* ---- variants.c ---- */

nib_status nib_read_variants(nib_reader *r, const nib_expansion *expansion, const nib_keys *keys);
nib_status nib_read_map_variants(nib_reader *r, const nib_expansion *expansion);
nib_status nib_read_variant_id(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_read_variant_when(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_read_variant_demote(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_read_superseded_by(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_read_variant_requires(nib_reader *r, const nib_value *value, void *variant);
nib_status nib_read_variant_derive(nib_reader *r, const nib_value *value, void *variant);

/* ---- variants_list.c ---- */

nib_status nib_read_list_variants(nib_reader *r, const nib_expansion *expansion);
/* A list of expressions, or one, or a boolean (2.B.1). */
nib_status nib_read_list_when(nib_reader *r, nib_value value, nib_exprs *out);
nib_status nib_read_bare_tunables(nib_reader *r, nib_value value, nib_tunable **out, size_t *count);

/* ---- families.c ---- */

nib_status nib_expand_variants(nib_reader *r, const nib_list *elements, nib_expansion *out);
/* The list dialect: no families among the variants. */
nib_status nib_expand_plain(nib_reader *r, const nib_list *elements, nib_expansion *out);
/* The list dialect's older variantFamilies: a cross product, substituted as text. */
nib_status nib_expand_products(nib_reader *r, const nib_list *families, nib_expansion *out);

/* ---- substitute.c ---- */

typedef struct nib_substitution {
    const nib_map *values;
    bool text_only; /* the older dialect: no typed values, no check for left-over names */
} nib_substitution;

/* The template with {name} replaced (2.A.10). `work` counts what was made. */
nib_status nib_substitute(nib_reader *r, nib_substitution by, nib_value template_value,
                          size_t *work, nib_value *out);

/* ---- requires.c ---- */

nib_status nib_read_requires(nib_reader *r, nib_value value, nib_requires *out);
nib_status nib_merge_requires(nib_reader *r, const nib_requires *manifest, nib_requires *variant);
nib_status nib_read_features(nib_reader *r, const nib_value *value, void *needs);
nib_status nib_read_limits(nib_reader *r, const nib_value *value, void *needs);
nib_status nib_read_subgroup_min_size(nib_reader *r, const nib_value *value, void *needs);

/* ---- contract_map.c, contract_list.c ---- */

nib_status nib_read_map_manifest(nib_reader *r, nib_value manifest);
nib_status nib_read_list_manifest(nib_reader *r, nib_value manifest);

/* Setters for values that need no further reading. */
nib_status nib_read_when(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_manifest_requires(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_manifest_derive(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_since_version(nib_reader *r, const nib_value *value, void *contract);
/* Reads {NAME: {default, description}} into tunables. */
nib_status nib_read_tunables(nib_reader *r, nib_value value, nib_tunable **out, size_t *count);
nib_status nib_read_manifest_tunables(nib_reader *r, const nib_value *value, void *contract);
nib_status nib_read_variant_tunables(nib_reader *r, const nib_value *value, void *variant);

#endif
