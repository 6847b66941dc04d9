/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing a variant, with a reason for each one that was not chosen (package format 6.1 - 6.4).
 */
#include <stdio.h>

#include "plan/planner.h"
#include "value/number.h"

typedef enum verdict { UNTRIED, REJECTED, ELIGIBLE, DEMOTED } verdict;

typedef struct candidate {
    verdict verdict;
    nib_str reason;
    size_t brief; /* length of the reason without its explanation */
} candidate;

typedef struct selection {
    nib_planner *p;
    const nib_scope *scope;
    candidate *candidates; /* by variant index */
    size_t *order;         /* variant indices in the order they are tried */
    size_t count;
    bool pinned;
    nib_buf reason; /* of the candidate under test */
    size_t brief;
} selection;

/* ---- order ---- */

static bool comes_before(const nib_variant *a, const nib_variant *b)
{
    if (a->is_default != b->is_default)
        return a->is_default;
    return a->priority > b->priority;
}

/* Stable: equal priorities keep the manifest's order. */
static void sort_variants(const nib_contract *contract, size_t *order)
{
    for (size_t i = 0; i < contract->variant_count; i++) {
        size_t at = i;
        for (; at > 0 && comes_before(&contract->variants[i], &contract->variants[order[at - 1]]);
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static nib_status pin_variant(selection *s, const char *id)
{
    nib_buf known;
    nib_buf_init(&known, s->p->arena->allocator, 0);
    for (size_t i = 0; i < s->p->contract->variant_count; i++) {
        const nib_str name = s->p->contract->variants[i].id;
        if (nib_str_is(name, id)) {
            nib_buf_free(&known);
            s->order[0] = i;
            s->count = 1;
            s->pinned = true;
            return NIB_OK;
        }
        nib_buf_printf(&known, "%s%.*s", i ? ", " : "", NIB_STR_ARG(name));
    }
    const nib_status status =
        nib_fail(s->p->error, NIB_REQUEST, "%.*s has no variant '%s'; it knows %s",
                 NIB_STR_ARG(s->p->contract->op_id), id, known.data ? known.data : "none");
    nib_buf_free(&known);
    return status;
}

/* ---- requirements of the device ---- */

static bool has_feature(const nib_caps *caps, nib_str name)
{
    for (size_t i = 0; i < caps->feature_count; i++) {
        if (nib_str_eq(caps->features[i], name))
            return true;
    }
    return false;
}

static bool check_features(selection *s, const nib_requires *needs)
{
    for (size_t i = 0; i < needs->feature_count; i++) {
        if (!has_feature(s->p->caps, needs->features[i])) {
            nib_buf_printf(&s->reason, "needs the device feature %.*s",
                           NIB_STR_ARG(needs->features[i]));
            return false;
        }
    }
    return true;
}

static bool check_limits(selection *s, const nib_requires *needs)
{
    for (size_t i = 0; i < needs->limit_count; i++) {
        const nib_limit_rule *rule = &needs->limits[i];
        const nib_value *have = nib_map_get(s->p->caps->limits, rule->name);
        if (have && have->as.number >= rule->minimum)
            continue;
        nib_buf_printf(&s->reason, "needs %.*s >= %s, the device has %s", NIB_STR_ARG(rule->name),
                       nib_value_label(nib_value_number(rule->minimum)).text,
                       have ? nib_value_label(*have).text : "no such limit");
        return false;
    }
    return true;
}

static bool check_subgroup_size(selection *s, const nib_requires *needs)
{
    if (needs->subgroup_min_size == 0)
        return true;
    const nib_value *have = nib_map_get_cstr(s->p->caps->adapter, "subgroupMinSize");
    if (!have || !nib_value_is_number(*have)) {
        nib_buf_printf(&s->reason, "needs subgroupMinSize >= %u, the adapter does not report it",
                       needs->subgroup_min_size);
        return false;
    }
    if (have->as.number >= (double)needs->subgroup_min_size)
        return true;
    nib_buf_printf(&s->reason, "needs subgroupMinSize >= %u, the adapter has %s",
                   needs->subgroup_min_size, nib_value_label(*have).text);
    return false;
}

static bool text_matches(nib_str pattern, const nib_map *config, const char *name)
{
    const nib_value *have = nib_map_get_cstr(config, name);
    return pattern.len == 0 ||
           (have && have->type == NIB_VALUE_STRING && nib_str_eq(have->as.string, pattern));
}

static bool size_matches(unsigned pattern, const nib_map *config, const char *name)
{
    const nib_value *have = nib_map_get_cstr(config, name);
    return pattern == 0 ||
           (have && nib_value_is_number(*have) && have->as.number == (double)pattern);
}

static bool config_matches(const nib_matrix_pattern *pattern, nib_value config)
{
    const nib_map *map = config.as.map;
    return text_matches(pattern->component_type, map, "componentType") &&
           text_matches(pattern->result_type, map, "resultComponentType") &&
           size_matches(pattern->m, map, "M") && size_matches(pattern->n, map, "N") &&
           size_matches(pattern->k, map, "K");
}

static void write_size(nib_buf *out, char before, unsigned size)
{
    nib_buf_putc(out, before);
    if (size)
        nib_buf_printf(out, "%u", size);
    else
        nib_buf_putc(out, '*');
}

static void write_pattern(nib_buf *out, const nib_matrix_pattern *pattern)
{
    const nib_str any = NIB_STR("*");
    nib_buf_str(out, pattern->component_type.len ? pattern->component_type : any);
    nib_buf_putc(out, '-');
    nib_buf_str(out, pattern->result_type.len ? pattern->result_type : any);
    write_size(out, '-', pattern->m);
    write_size(out, 'x', pattern->n);
    write_size(out, 'x', pattern->k);
}

/* An adapter that reports no list passes: the feature is then the only guard (format 6.2). */
static bool check_matrix_configs(selection *s, const nib_requires *needs)
{
    const nib_value *have = nib_map_get_cstr(s->p->caps->adapter, "subgroupMatrixConfigs");
    if (needs->matrix_config_count == 0 || !have || have->type != NIB_VALUE_LIST)
        return true;
    for (size_t i = 0; i < needs->matrix_config_count; i++) {
        for (size_t k = 0; k < have->as.list->count; k++) {
            if (config_matches(&needs->matrix_configs[i], have->as.list->items[k]))
                return true;
        }
    }
    nib_buf_puts(&s->reason, "needs a subgroup matrix ");
    for (size_t i = 0; i < needs->matrix_config_count; i++) {
        nib_buf_puts(&s->reason, i ? " or " : "");
        write_pattern(&s->reason, &needs->matrix_configs[i]);
    }
    nib_buf_puts(&s->reason, ", the adapter has ");
    for (size_t k = 0; k < have->as.list->count; k++) {
        nib_buf_puts(&s->reason, k ? ", " : "");
        nib_caps_config_text(have->as.list->items[k], &s->reason);
    }
    nib_buf_puts(&s->reason, have->as.list->count ? "" : "none");
    return false;
}

static bool check_requires(selection *s, const nib_requires *needs)
{
    return check_features(s, needs) && check_limits(s, needs) && check_subgroup_size(s, needs) &&
           check_matrix_configs(s, needs);
}

static bool check_budget(selection *s, size_t needed, const char *kind, const char *limit)
{
    const double allowed = nib_caps_limit(s->p->caps, limit);
    if (!((double)needed > allowed))
        return true;
    char text[NIB_NUMBER_TEXT_BYTES];
    nib_number_format(allowed, text);
    nib_buf_printf(&s->reason, "needs %zu %s buffers in one pass, %s is %s", needed, kind, limit,
                   text);
    return false;
}

/* ---- conditions ---- */

static nib_status eval_clause(selection *s, const nib_expr *clause, nib_value *out,
                              nib_error *inner)
{
    nib_planner *p = s->p;
    nib_error *outer = p->error;
    p->error = inner;
    const nib_status status = nib_planner_eval(p, clause, s->scope, out);
    p->error = outer;
    return status;
}

static bool is_true(nib_value value)
{
    return value.type == NIB_VALUE_BOOL && value.as.boolean;
}

static void reject_clause_error(selection *s, const nib_variant *variant, const nib_expr *clause,
                                const nib_error *inner)
{
    nib_buf_printf(&s->reason, "`%.*s` failed: %s", NIB_STR_ARG(clause->text), inner->message);
    if (s->p->trial)
        return;
    nib_log(s->p->plan->context, NIB_LOG_WARNING,
            "%.*s: variant %.*s is skipped: `%.*s` failed: %s", NIB_STR_ARG(s->p->contract->op_id),
            NIB_STR_ARG(variant->id), NIB_STR_ARG(clause->text), inner->message);
}

static void reject_clause(selection *s, const nib_expr *clause, nib_value value)
{
    nib_buf text;
    nib_buf_init(&text, s->reason.allocator, 0);
    const char *shown = nib_value_type_name(value);
    if (value.type != NIB_VALUE_NULL && nib_jinja_js_text(&text, value, NULL) == NIB_OK)
        shown = text.data ? text.data : "";
    nib_buf_printf(&s->reason, "`%.*s` is %s", NIB_STR_ARG(clause->text), shown);
    nib_buf_free(&text);
    s->brief = s->reason.len;
    nib_planner_explain(s->p, s->scope, clause->text, &s->reason);
}

static nib_status check_when(selection *s, const nib_variant *variant, bool *ok)
{
    for (size_t i = 0; i < variant->when.count; i++) {
        const nib_expr *clause = &variant->when.items[i];
        nib_error inner = {0};
        nib_value value = NIB_UNDEFINED;
        const nib_status status = eval_clause(s, clause, &value, &inner);
        if (status == NIB_OUT_OF_MEMORY)
            return nib_fail_memory(s->p->error);
        *ok = status == NIB_OK && is_true(value);
        if (*ok)
            continue;
        if (status == NIB_OK)
            reject_clause(s, clause, value);
        else
            reject_clause_error(s, variant, clause, &inner);
        return NIB_OK;
    }
    return NIB_OK;
}

/* All clauses are evaluated; one that fails rejects the variant (format 3.8). */
static nib_status check_demotion(selection *s, const nib_variant *variant, verdict *out)
{
    for (size_t i = 0; i < variant->demote_when.count; i++) {
        const nib_expr *clause = &variant->demote_when.items[i];
        nib_error inner = {0};
        nib_value value = NIB_UNDEFINED;
        const nib_status status = eval_clause(s, clause, &value, &inner);
        if (status == NIB_OUT_OF_MEMORY)
            return nib_fail_memory(s->p->error);
        if (status != NIB_OK) {
            s->reason.len = 0;
            reject_clause_error(s, variant, clause, &inner);
            *out = REJECTED;
            return NIB_OK;
        }
        if (is_true(value) && *out == ELIGIBLE) {
            nib_buf_printf(&s->reason, "demoted: `%.*s` is true", NIB_STR_ARG(clause->text));
            *out = DEMOTED;
        }
    }
    return NIB_OK;
}

static nib_status judge(selection *s, const nib_variant *variant, verdict *out)
{
    *out = REJECTED;
    if (s->p->values_broken) {
        nib_buf_puts(&s->reason, "an attribute has a value that the manifest does not support");
        return NIB_OK;
    }
    if (!check_requires(s, &variant->needs) ||
        !check_budget(s, variant->max_storage_bindings, "storage",
                      "maxStorageBuffersPerShaderStage") ||
        !check_budget(s, variant->max_uniform_bindings, "uniform",
                      "maxUniformBuffersPerShaderStage"))
        return NIB_OK;
    bool ok = true;
    NIB_TRY(check_when(s, variant, &ok));
    if (!ok)
        return NIB_OK;
    *out = ELIGIBLE;
    return s->pinned ? NIB_OK : check_demotion(s, variant, out);
}

static nib_status try_variant(selection *s, size_t index)
{
    candidate *c = &s->candidates[index];
    s->reason.len = 0;
    s->brief = 0;
    NIB_TRY(judge(s, &s->p->contract->variants[index], &c->verdict));
    NIB_TRY(nib_buf_check(&s->reason, "a reason", s->p->error));
    c->reason = nib_arena_str(s->p->arena, s->reason.data, s->reason.len);
    c->brief = s->brief ? s->brief : c->reason.len;
    return c->reason.data ? NIB_OK : nib_fail_memory(s->p->error);
}

/* ---- the outcome ---- */

static nib_status list_rejected(selection *s, size_t tried, const nib_variant *chosen)
{
    nib_plan *plan = s->p->plan;
    plan->rejected = NIB_ARENA_ARRAY(s->p->arena, nib_rejection, tried);
    if (!plan->rejected)
        return nib_fail_memory(s->p->error);
    for (size_t i = 0; i < tried; i++) {
        const nib_variant *variant = &s->p->contract->variants[s->order[i]];
        if (variant != chosen)
            plan->rejected[plan->rejected_count++] =
                (nib_rejection){variant->id, s->candidates[s->order[i]].reason};
    }
    return NIB_OK;
}

/* A declared rank is documentation and not enforced (format 2.A.3), but a good hint when nothing
 * fits. */
static void write_rank_hints(selection *s, nib_buf *out)
{
    for (size_t i = 0; i < s->p->contract->port_count; i++)
        nib_planner_explain_rank(s->p, s->scope, &s->p->operands[i], out);
}

/* How much a list of reasons says. */
typedef struct wording {
    bool brief;   /* leave explanations out */
    size_t names; /* variants named together at most, beyond the first */
} wording;

static nib_str reason_of(const selection *s, size_t at, wording how)
{
    const candidate *c = &s->candidates[s->order[at]];
    return (nib_str){c->reason.data, how.brief ? c->brief : c->reason.len};
}

static bool is_repeated(const selection *s, size_t at, wording how)
{
    for (size_t i = 0; i < at; i++) {
        if (nib_str_eq(reason_of(s, i, how), reason_of(s, at, how)))
            return true;
    }
    return false;
}

/* Name the later candidates that have the reason of `first`. */
static void write_same(const selection *s, size_t first, wording how, nib_buf *out)
{
    size_t found = 0;
    for (size_t i = first + 1; i < s->count; i++) {
        if (!nib_str_eq(reason_of(s, first, how), reason_of(s, i, how)))
            continue;
        if (found++ < how.names)
            nib_buf_printf(out, "%s%.*s", found == 1 ? "; " : ", ",
                           NIB_STR_ARG(s->p->contract->variants[s->order[i]].id));
    }
    if (found > how.names)
        nib_buf_printf(out, " and %zu more", found - how.names);
    if (found)
        nib_buf_printf(out, ": the same");
}

/* Each reason once, explained where it stands: with dozens of variants most have the same one. */
static void write_reasons(const selection *s, wording how, nib_buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        if (is_repeated(s, i, how))
            continue;
        nib_buf_printf(out, "%s%.*s: %.*s", i ? "; " : "",
                       NIB_STR_ARG(s->p->contract->variants[s->order[i]].id),
                       NIB_STR_ARG(reason_of(s, i, how)));
        write_same(s, i, how, out);
    }
}

/* The message holds about this much. */
enum { MAX_REASONS_TEXT = 1700 };

/* Names go before explanations do: those name the tensor and the rule. */
static void write_reasons_that_fit(const selection *s, nib_buf *out)
{
    static const wording ways[] = {{false, SIZE_MAX}, {false, 3}, {true, SIZE_MAX}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        out->len = 0;
        write_reasons(s, ways[i], out);
        if (out->len <= MAX_REASONS_TEXT)
            return;
    }
}

static nib_status fail_no_variant(selection *s)
{
    nib_buf hints, reasons;
    nib_buf_init(&hints, s->p->arena->allocator, 0);
    nib_buf_init(&reasons, s->p->arena->allocator, 0);
    write_rank_hints(s, &hints);
    write_reasons_that_fit(s, &reasons);
    const nib_status status = nib_fail(
        s->p->error, NIB_NO_VARIANT, "no variant of %.*s fits the request%s%s%s: %s",
        NIB_STR_ARG(s->p->contract->op_id), hints.len ? " (" : "", hints.len ? hints.data : "",
        hints.len ? ")" : "", reasons.len ? reasons.data : "it has none");
    nib_buf_free(&hints);
    nib_buf_free(&reasons);
    return status;
}

/* Try candidates until one is eligible and not demoted; else the first demoted one wins.
 * `supersededBy` needs no test of its own: the variants it lists outrank this one, so an eligible
 * and undemoted one among them has been chosen already. */
static nib_status choose(selection *s)
{
    const nib_contract *contract = s->p->contract;
    const nib_variant *demoted = NULL, *chosen = NULL;
    size_t tried = 0;
    while (tried < s->count && !chosen) {
        const size_t index = s->order[tried++];
        NIB_TRY(try_variant(s, index));
        if (s->candidates[index].verdict == ELIGIBLE)
            chosen = &contract->variants[index];
        else if (s->candidates[index].verdict == DEMOTED && !demoted)
            demoted = &contract->variants[index];
    }
    s->p->plan->demoted = !chosen && demoted;
    s->p->plan->variant = chosen ? chosen : demoted;
    NIB_TRY(list_rejected(s, tried, s->p->plan->variant));
    if (!s->p->plan->variant && !s->p->request->relaxed)
        return fail_no_variant(s);
    return NIB_OK;
}

nib_status nib_planner_select(nib_planner *p, const nib_scope *scope)
{
    const size_t count = p->contract->variant_count;
    selection s = {.p = p,
                   .scope = scope,
                   .candidates = NIB_ARENA_ARRAY(&p->scratch, candidate, count),
                   .order = NIB_ARENA_ARRAY(&p->scratch, size_t, count),
                   .count = count};
    if (!s.candidates || !s.order)
        return nib_fail_memory(p->error);
    sort_variants(p->contract, s.order);
    if (p->request->variant)
        NIB_TRY(pin_variant(&s, p->request->variant));
    nib_buf_init(&s.reason, p->arena->allocator, 0);
    const nib_status status = choose(&s);
    nib_buf_free(&s.reason);
    return status;
}
