/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of a kernel: a manifest after validation, the same form for both dialects. Everything lives in the
 * package's arena and is immutable. Field by field this is package format section 2.A; what only the list dialect (2.B)
 * has is marked so.
 */
#ifndef NIB_PACKAGE_CONTRACT_H
#define NIB_PACKAGE_CONTRACT_H

#include "expr/expr.h"
#include "nibble/package.h"
#include "value/value.h"

typedef enum nib_dialect {
    NIB_DIALECT_MAP, /* manifest spec 2.1 */
    NIB_DIALECT_LIST /* the older list style, 2.B */
} nib_dialect;

typedef struct nib_type_variable {
    nib_str name;
    nib_dtype dtypes[NIB_DTYPE_COUNT];
    size_t dtype_count;
} nib_type_variable;

typedef enum nib_narrowing { NIB_NARROWING_NONE, NIB_NARROWING_CHECKED, NIB_NARROWING_SATURATING } nib_narrowing;

/* An output shape: one expression that gives a list, or one element per dim. */
typedef struct nib_shape_rule {
    bool given;
    bool whole;      /* items[0] gives the list */
    nib_expr *items; /* literal numbers are compiled as expressions too */
    size_t count;
} nib_shape_rule;

typedef struct nib_port {
    nib_str key;
    nib_str onnx;        /* key when absent */
    nib_str description;
    nib_role role;
    nib_str dtype_text;  /* empty: untyped */
    nib_dtype dtype;     /* concrete dtype, or NONE */
    const nib_type_variable *variable; /* declared type variable, or NULL (an undeclared one has only dtype_text) */
    nib_str rank_text;   /* documentation only */
    bool optional;       /* as an argument: of the input entry for inout */
    bool output_optional; /* of the output entry */
    bool packed;
    nib_dtype storage;   /* NONE: the logical dtype */
    nib_narrowing narrowing;
    nib_shape_rule shape; /* of the output entry */
    nib_str aliases[3];  /* list dialect: further names in shapes/ranks/tensorDtypes, ambiguous ones dropped */
    size_t alias_count;
} nib_port;

typedef enum nib_argument_kind { NIB_ARG_U32, NIB_ARG_I32, NIB_ARG_F32, NIB_ARG_BOOL, NIB_ARG_STRING } nib_argument_kind;

typedef struct nib_argument {
    nib_str name;
    nib_str description;
    nib_argument_kind kind;
    bool required;
    nib_value one_of; /* list, or undefined */
} nib_argument;

typedef struct nib_attribute {
    nib_str name;
    nib_str description;
    bool has_default;
    nib_value default_value;
    bool required;
    nib_value allowed; /* list, or undefined */
} nib_attribute;

typedef struct nib_tunable {
    nib_str name;
    nib_value default_value;
    nib_str description;
} nib_tunable;

/* A named value of a derive (or constants) map: a literal, one expression, or a tree with expressions inside. */
typedef enum nib_derive_kind { NIB_DERIVE_LITERAL, NIB_DERIVE_EXPR, NIB_DERIVE_TREE } nib_derive_kind;
typedef struct nib_derive_node {
    nib_derive_kind kind;
    nib_value literal; /* LITERAL; TREE: the list or map, its strings replaced by `parts` in walking order */
    nib_expr expr;     /* EXPR */
    nib_expr *parts;   /* TREE */
    size_t part_count;
} nib_derive_node;
typedef struct nib_derive {
    nib_str name;
    nib_derive_node node;
} nib_derive;
typedef struct nib_derives {
    nib_derive *items;
    size_t count;
} nib_derives;

typedef struct nib_exprs {
    nib_expr *items;
    size_t count;
} nib_exprs;

typedef struct nib_matrix_pattern { /* NONE text / 0: matches anything */
    nib_str component_type, result_type;
    unsigned m, n, k;
} nib_matrix_pattern;

typedef struct nib_limit_rule {
    nib_str name;
    double minimum;
} nib_limit_rule;

typedef struct nib_requires { /* manifest and variant merged (2.A.11) */
    nib_str *features;
    size_t feature_count;
    nib_limit_rule *limits;
    size_t limit_count;
    unsigned subgroup_min_size; /* 0: none */
    nib_matrix_pattern *matrix_configs;
    size_t matrix_config_count;
} nib_requires;

typedef struct nib_intermediate {
    nib_str id;
    nib_dtype dtype;
    nib_shape_rule shape;
    bool zero_init;
} nib_intermediate;

typedef enum nib_binding_kind { NIB_BINDING_READ, NIB_BINDING_STORAGE, NIB_BINDING_UNIFORM } nib_binding_kind;

typedef enum nib_field_type { NIB_FIELD_U32, NIB_FIELD_I32, NIB_FIELD_F32 } nib_field_type;
typedef struct nib_uniform_field {
    nib_str name;
    nib_field_type type;
    nib_value value;         /* literal; undefined when an expression or absent */
    nib_expr value_expr;     /* program NULL: none */
    bool required, internal;
    nib_value default_value; /* literal; undefined or null: none */
    nib_expr default_expr;
} nib_uniform_field;

/* A resolved binding of a pass. binding number = position in the pass, group 0. */
typedef struct nib_binding {
    nib_str name; /* WGSL variable */
    nib_binding_kind kind;
    nib_str arg;     /* tensor to bind, tried before name; empty: none */
    nib_str scratch; /* intermediate to bind; empty: by name */
    nib_str element_type; /* literal text, or "$X" */
    bool has_length;
    double length;        /* literal, when length_ref is empty */
    nib_str length_ref;   /* X of "$X" */
    nib_uniform_field *fields;
    size_t field_count;
    nib_str struct_name;
} nib_binding;

typedef enum nib_dispatch_form { NIB_DISPATCH_EXPLICIT, NIB_DISPATCH_THREADS, NIB_DISPATCH_WORKGROUPS,
                                 NIB_DISPATCH_GRID_STRIDE /* list dialect */ } nib_dispatch_form;
typedef struct nib_dispatch {
    nib_dispatch_form form;
    nib_expr axis[3];   /* EXPLICIT; list dialect: the pinned axis of a shorthand. program NULL: absent */
    nib_expr count;     /* threads, workgroups or gridStride */
    nib_expr workgroup_size; /* THREADS; GRID_STRIDE optionally */
} nib_dispatch;

typedef struct nib_view_alias {
    nib_str input, output;
} nib_view_alias;

typedef struct nib_pass nib_pass;
struct nib_pass {
    nib_str id;
    /* A repeat group when repeat_passes is not NULL; nothing below `repeat_*` is then set. */
    nib_pass *repeat_passes;
    size_t repeat_pass_count;
    nib_expr repeat_count;
    nib_str repeat_index;

    nib_str label;  /* empty: "<op>.<variant>.<pass>" */
    nib_str shader;
    nib_str entry_point; /* "main" */
    nib_derives derive;
    nib_derives constants; /* list dialect */
    nib_binding *bindings;
    size_t binding_count;
    nib_dispatch dispatch;
    nib_derives profile;
    bool submit_after;
    nib_str collectives_width; /* "portable", "32", or empty */
    nib_view_alias *view_aliases;
    size_t view_alias_count;
};

typedef struct nib_variant {
    nib_str id;
    nib_str description;
    double priority;
    bool is_default; /* list dialect: sorts first */
    nib_exprs when;  /* manifest clauses first */
    nib_exprs demote_when;
    size_t *superseded_by; /* indices into variants */
    size_t superseded_by_count;
    nib_requires needs;
    nib_tunable *tunables;
    size_t tunable_count;
    nib_derives derive;
    nib_derives constants; /* list dialect */
    nib_intermediate *intermediates;
    size_t intermediate_count;
    nib_pass *passes;
    size_t pass_count;
    /* Largest number of storage and of uniform bindings in one declared pass (6.2). */
    size_t max_storage_bindings, max_uniform_bindings;
} nib_variant;

typedef struct nib_contract {
    nib_dialect dialect;
    nib_str domain, name, op_id, description;
    nib_value since_version;
    nib_port *ports; /* inputs in order, then pure outputs in order; an inout stands among the inputs */
    size_t port_count;
    size_t *outputs; /* indices of output and inout ports, in the order of the `outputs` section */
    size_t output_count;
    nib_argument *arguments;
    size_t argument_count;
    nib_attribute *attributes;
    size_t attribute_count;
    nib_type_variable *type_variables;
    size_t type_variable_count;
    nib_tunable *tunables;
    size_t tunable_count;
    nib_derives derive;
    nib_derives constants; /* list dialect */
    nib_str *binding_names; /* names that a request may also use (7.3) */
    size_t binding_name_count;
    nib_variant *variants; /* families expanded */
    size_t variant_count;
} nib_contract;

/* Validate a parsed manifest of either dialect (told apart by whether `inputs` is an array) into `arena`. Strings and
 * literals of the manifest are shared, so it must live as long as the contract.
 * errors: CONTRACT (JSON path set, message names the rule), SYNTAX (an expression), LIMIT, OUT_OF_MEMORY */
nib_status nib_contract_read(nib_arena *arena, nib_value manifest, const nib_contract **out, nib_error *error);

/* Equality of attribute values (2.A.5): numbers when their float32 roundings are equal, else type and value. */
bool nib_attribute_values_equal(nib_value a, nib_value b);

/* The contract as JSON for people and tools. */
nib_status nib_contract_json(nib_arena *arena, const nib_contract *contract, nib_value *out, nib_error *error);

#endif
