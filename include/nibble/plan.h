/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: what a call will do, decided from the package, the request and a capability record alone.
 * No device is involved: a plan for any GPU can be made, printed and tested on any machine.
 */
#ifndef NIBBLE_PLAN_H
#define NIBBLE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nibble/package.h"
#include "nibble/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- capabilities ---- */

/* Features, limits and adapter facts of a device (format 3.6, 8.2, D.1, D.2). Plain data. */
typedef struct nib_caps nib_caps;

/* Parse {"features": [..], "limits": {..}, "adapterInfo": {..}, "wgslLanguageFeatures": [..]};
 * absent members take the format's defaults (no features, default limits, empty adapter info). NULL or ""
 * gives exactly the defaults. A name this library does not know is kept and reported through the log.
 * errors: FORMAT, OUT_OF_MEMORY | owns: *out (nib_caps_free) | threads: immutable, may be shared */
NIB_API NIB_CHECKED nib_status nib_caps_parse(nib_context *context, const char *json,
                                              nib_caps **out, nib_error *error);
NIB_API NIB_CHECKED nib_status nib_caps_json(const nib_caps *caps, char **text, nib_error *error);
NIB_API void nib_caps_free(nib_caps *caps);

/* ---- request ---- */

typedef enum nib_scalar_kind { NIB_SCALAR_NUMBER, NIB_SCALAR_STRING, NIB_SCALAR_BOOL } nib_scalar_kind;

/* A named attribute, scalar argument or tunable. */
typedef struct nib_named_scalar {
    const char *name;
    nib_scalar_kind kind;
    double number;
    const char *string;
    bool boolean;
} nib_named_scalar;

/* A tensor the caller will bind, by bind key ("qBT") or ONNX name ("q_B"). Naming an output supplies
 * its destination; an optional output exists only when it is named here or in `want` (a manifest of the
 * list dialect makes every optional output that has a shape). */
typedef struct nib_named_desc {
    const char *name;
    nib_tensor_desc desc;
} nib_named_desc;

/* Everything a plan depends on besides the package and the capabilities. Borrowed during the call. */
typedef struct nib_request {
    const nib_named_desc *tensors;
    size_t tensor_count;
    const nib_named_scalar *attributes;
    size_t attribute_count;
    const nib_named_scalar *arguments;
    size_t argument_count;
    const nib_named_scalar *tunables; /* overrides of the manifest's tunables */
    size_t tunable_count;
    const char *const *want; /* optional outputs to produce, by key or ONNX name */
    size_t want_count;
    const char *variant; /* pin one variant; NULL: choose */
    bool relaxed;        /* skip variant conditions and attribute values that only the shaders need;
                            such a plan runs on the CPU backend only */
} nib_request;

/* ---- plans ---- */

typedef struct nib_plan nib_plan;

/* Plan a call. The plan keeps a reference to nothing but the package, which must outlive it.
 * errors: REQUEST (names the tensor or attribute and the rule), NO_VARIANT (names every variant and its
 * reason), EVAL, LIMIT, CONTRACT, OUT_OF_MEMORY | owns: *out (nib_plan_free) | threads: immutable, may be shared */
NIB_API NIB_CHECKED nib_status nib_plan_create(const nib_package *package,
                                               const nib_request *request, const nib_caps *caps,
                                               nib_plan **out, nib_error *error);
NIB_API void nib_plan_free(nib_plan *plan);

/* Id of the chosen variant; NULL for a relaxed plan for which no variant was eligible. */
NIB_API const char *nib_plan_variant(const nib_plan *plan);

/* One JSON object: op, variant, rejected, derive, outputs, intermediates, passes (docs/cli.md).
 * owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_plan_json(const nib_plan *plan, char **text, nib_error *error);

NIB_API size_t nib_plan_pass_count(const nib_plan *plan);
NIB_API const char *nib_plan_pass_id(const nib_plan *plan, size_t pass);
/* Render the WGSL of one pass (reads and verifies its template). owns: *text (nib_text_free)
 * errors: IO, INTEGRITY, SYNTAX, EVAL, LIMIT, CONTRACT (arithmetic on int64 elements), OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_plan_wgsl(const nib_plan *plan, size_t pass, char **text,
                                             nib_error *error);

/* Where each line of that text comes from: one line "file:line" of a template for each line of the WGSL, an empty one
 * where no template wrote it. owns: *text (nib_text_free) | errors: as nib_plan_wgsl */
NIB_API NIB_CHECKED nib_status nib_plan_wgsl_lines(const nib_plan *plan, size_t pass, char **text,
                                                   nib_error *error);

/* Tensors of the call in declaration order: inputs given, then outputs that will be produced. */
typedef struct nib_plan_tensor_info {
    const char *key, *onnx;
    nib_role role;
    nib_tensor_desc desc; /* logical dtype and shape */
} nib_plan_tensor_info;
NIB_API size_t nib_plan_tensor_count(const nib_plan *plan);
NIB_API nib_plan_tensor_info nib_plan_tensor_at(const nib_plan *plan, size_t index);

#ifdef __cplusplus
}
#endif
#endif
