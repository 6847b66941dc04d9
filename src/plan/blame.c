/* SPDX-License-Identifier: Apache-2.0
 *
 * An attribute without a default has no declared type (format 2.A.5), so that a text where the
 * contract computes with a number comes to light inside some expression only. Planning is then
 * repeated with numbers in place of such attributes: what goes further names the attribute at
 * fault.
 */
#include <stdio.h>

#include "package/package.h"
#include "plan/planner.h"

typedef struct suspect {
    const nib_attribute *attribute;
    const nib_named_scalar *given; /* NULL: the request does not set it */
} suspect;

typedef struct trial {
    const nib_package *package;
    const nib_request *request;
    const nib_caps *caps;
    suspect *suspects;
    size_t suspect_count;
    nib_named_scalar *attributes; /* room for the request's and the suspects' */
} trial;

static const nib_named_scalar *find_given(const nib_request *request, nib_str name)
{
    for (size_t i = 0; i < request->attribute_count; i++) {
        const nib_named_scalar *scalar = &request->attributes[i];
        if (scalar->name && nib_str_is(name, scalar->name))
            return scalar;
    }
    return NULL;
}

static void list_suspects(trial *t)
{
    const nib_contract *contract = t->package->contract;
    for (size_t i = 0; i < contract->attribute_count; i++) {
        const nib_attribute *attribute = &contract->attributes[i];
        const nib_named_scalar *given = find_given(t->request, attribute->name);
        if (!attribute->has_default && attribute->allowed.type != NIB_VALUE_LIST &&
            (!given || given->kind != NIB_SCALAR_NUMBER))
            t->suspects[t->suspect_count++] = (suspect){attribute, given};
    }
}

static bool is_suspect(const trial *t, const nib_named_scalar *scalar)
{
    for (size_t i = 0; i < t->suspect_count; i++) {
        if (t->suspects[i].given == scalar)
            return true;
    }
    return false;
}

/* Plan with the number 1 in place of every suspect but `kept`. */
static bool gets_further(trial *t, const suspect *kept)
{
    nib_request request = *t->request;
    request.attributes = t->attributes;
    request.attribute_count = 0;
    for (size_t i = 0; i < t->request->attribute_count; i++) {
        const nib_named_scalar *scalar = &t->request->attributes[i];
        if (!is_suspect(t, scalar) || (kept && kept->given == scalar))
            t->attributes[request.attribute_count++] = *scalar;
    }
    for (size_t i = 0; i < t->suspect_count; i++) {
        if (&t->suspects[i] != kept)
            t->attributes[request.attribute_count++] =
                (nib_named_scalar){.name = t->suspects[i].attribute->name.data,
                                   .kind = NIB_SCALAR_NUMBER,
                                   .number = 1};
    }
    nib_plan *plan = NULL;
    const nib_status status = nib_plan_try(t->package, &request, t->caps, true, &plan, NULL);
    nib_plan_free(plan);
    return status != NIB_EVAL && status != NIB_OUT_OF_MEMORY;
}

static const suspect *find_guilty(trial *t)
{
    list_suspects(t);
    if (t->suspect_count == 0 || !gets_further(t, NULL))
        return NULL;
    for (size_t i = 0; i < t->suspect_count; i++) {
        if (t->suspect_count == 1 || !gets_further(t, &t->suspects[i]))
            return &t->suspects[i];
    }
    return NULL;
}

static void describe(const suspect *guilty, char *out, size_t out_bytes)
{
    const nib_str name = guilty->attribute->name;
    const nib_named_scalar *given = guilty->given;
    if (!given)
        snprintf(out, out_bytes, "attribute '%.*s' is missing", NIB_STR_ARG(name));
    else if (given->kind == NIB_SCALAR_BOOL)
        snprintf(out, out_bytes, "attribute '%.*s' is %s, a boolean", NIB_STR_ARG(name),
                 given->boolean ? "true" : "false");
    else
        snprintf(out, out_bytes, "attribute '%.*s' is \"%.100s\", a string", NIB_STR_ARG(name),
                 given->string ? given->string : "");
}

/* One line: the place inside the expression is of no use to who makes the request. */
static void rewrite(const suspect *guilty, nib_error *error)
{
    char who[320];
    const nib_error inner = *error;
    describe(guilty, who, sizeof who);
    *error = (nib_error){0};
    nib_fail(error, NIB_REQUEST, "%s; it must be a number (%.200s%s%.1200s)", who, inner.path,
             inner.path[0] ? ": " : "", inner.message);
}

nib_status nib_planner_blame(const nib_package *package, const nib_request *request,
                             const nib_caps *caps, nib_error *error)
{
    const size_t declared = package->contract->attribute_count;
    nib_arena arena;
    nib_arena_init(&arena, &package->context->allocator, 0);
    trial t = {
        .package = package,
        .request = request,
        .caps = caps,
        .suspects = NIB_ARENA_ARRAY(&arena, suspect, declared),
        .attributes =
            NIB_ARENA_ARRAY(&arena, nib_named_scalar, request->attribute_count + declared),
    };
    const suspect *guilty = t.suspects && t.attributes ? find_guilty(&t) : NULL;
    if (guilty)
        rewrite(guilty, error);
    nib_arena_free(&arena);
    return error->code;
}
