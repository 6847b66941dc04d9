/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: format 3.3 to 3.6.
 */
#include "jinja/machine.h"

#include <math.h>
#include <string.h>

/* ---- failures and allocation ---- */

nib_status nib_jinja_fail(machine *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    nib_fail_v(m->evaluation.error, NIB_EVAL, format, args);
    va_end(args);
    return NIB_EVAL;
}

nib_status nib_jinja_out_of_memory(machine *m)
{
    const nib_arena *arena = m->evaluation.arena;
    if (arena->used_bytes > arena->limit_bytes / 4)
        return nib_fail(m->evaluation.error, NIB_LIMIT,
                        "the values of this evaluation need more than %zu bytes",
                        arena->limit_bytes);
    return nib_fail_memory(m->evaluation.error);
}

nib_status nib_jinja_spend(machine *m, size_t steps)
{
    if (steps > m->steps_left) {
        m->steps_left = 0;
        return nib_fail(m->evaluation.error, NIB_LIMIT,
                        "this evaluation takes too many steps; is there an endless loop?");
    }
    m->steps_left -= steps;
    return NIB_OK;
}

void nib_jinja_start_text(machine *m, nib_buf *buf)
{
    nib_buf_init(buf, m->evaluation.arena->allocator, m->text_limit);
}

nib_status nib_jinja_take_text(machine *m, nib_buf *buf, nib_value *out)
{
    nib_status status = nib_buf_check(buf, "a text", m->evaluation.error);
    if (status == NIB_OK)
        status = nib_jinja_spend(m, buf->len / 64);
    if (status == NIB_OK) {
        const nib_str text = nib_arena_str(m->evaluation.arena, buf->data, buf->len);
        if (text.data)
            *out = nib_value_string(text);
        else
            status = nib_jinja_out_of_memory(m);
    }
    nib_buf_free(buf);
    return status;
}

nib_status nib_jinja_new_list(machine *m, size_t capacity, nib_list **out)
{
    *out = nib_list_new(m->evaluation.arena, capacity);
    return *out ? NIB_OK : nib_jinja_out_of_memory(m);
}

nib_status nib_jinja_push(machine *m, nib_list *list, nib_value value)
{
    return nib_list_push(m->evaluation.arena, list, value) ? NIB_OK : nib_jinja_out_of_memory(m);
}

/* ---- names ---- */

bool nib_jinja_truthy(nib_value value)
{
    switch (value.type) {
    case NIB_VALUE_LIST:
    case NIB_VALUE_TUPLE:
        return value.as.list->count > 0;
    case NIB_VALUE_MAP:
    case NIB_VALUE_VIEW:
        return value.as.map->count > 0;
    default:
        return nib_jinja_js_truthy(value);
    }
}

static void look_up(machine *m, const environment *env, nib_str name, nib_value *out)
{
    for (; env; env = env->parent) {
        const nib_value *found = nib_map_get(env->names, name);
        if (found) {
            *out = *found;
            return;
        }
    }
    *out = NIB_UNDEFINED;
    if (nib_jinja_constant(name, out))
        return;
    if (m->names->lookup && m->names->lookup(m->names->user, name, out))
        return;
    *out = NIB_UNDEFINED;
    if (m->names->template_globals)
        nib_jinja_global(name, out);
}

/* ---- literals ---- */

static nib_status evaluate_list(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_list *list;
    NIB_TRY(nib_jinja_new_list(m, n->as.items.count, &list));
    for (; list->count < n->as.items.count; list->count++)
        NIB_TRY(
            nib_jinja_evaluate(m, n->as.items.items[list->count], env, &list->items[list->count]));
    *out = nib_value_of_list(list);
    if (n->kind == NODE_TUPLE)
        out->type = NIB_VALUE_TUPLE;
    return NIB_OK;
}

static nib_status evaluate_map(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_map *map = nib_map_new(m->evaluation.arena, n->as.items.count / 2);
    if (!map)
        return nib_jinja_out_of_memory(m);
    for (size_t i = 0; i < n->as.items.count; i += 2) {
        nib_value key, value;
        NIB_TRY(nib_jinja_evaluate(m, n->as.items.items[i], env, &key));
        if (key.type != NIB_VALUE_STRING)
            return nib_jinja_fail(m, "a key of an object is a string, not %s",
                                  nib_value_type_name(key));
        NIB_TRY(nib_jinja_evaluate(m, n->as.items.items[i + 1], env, &value));
        if (!nib_map_set(m->evaluation.arena, map, key.as.string, value))
            return nib_jinja_out_of_memory(m);
    }
    *out = nib_value_of_map(map);
    return NIB_OK;
}

/* ---- operators ---- */

static nib_status evaluate_choice(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value condition;
    NIB_TRY(nib_jinja_evaluate(m, n->as.choice.condition, env, &condition));
    if (nib_jinja_truthy(condition))
        return nib_jinja_evaluate(m, n->as.choice.value, env, out);
    *out = NIB_UNDEFINED;
    return n->as.choice.other ? nib_jinja_evaluate(m, n->as.choice.other, env, out) : NIB_OK;
}

/* "and" and "or" give the operand that decided. */
static nib_status evaluate_word_chain(machine *m, const node *n, environment *env, nib_value *out)
{
    const chain *c = n->as.chain;
    const bool stop_at = n->kind == NODE_OR;
    NIB_TRY(nib_jinja_evaluate(m, c->first, env, out));
    for (size_t i = 0; i < c->operands.count && nib_jinja_truthy(*out) != stop_at; i++)
        NIB_TRY(nib_jinja_evaluate(m, c->operands.items[i], env, out));
    return NIB_OK;
}

static nib_status locate(machine *m, nib_status status, uint32_t offset)
{
    if (status != NIB_OK && m->signal == SIGNAL_NONE)
        nib_error_position(m->evaluation.error, m->program->text.data, m->program->text.len,
                           offset);
    return status;
}

static nib_status evaluate_chain(machine *m, const node *n, environment *env, nib_value *out)
{
    const chain *c = n->as.chain;
    NIB_TRY(nib_jinja_evaluate(m, c->first, env, out));
    for (size_t i = 0; i < c->operands.count; i++) {
        nib_value right, result;
        NIB_TRY(nib_jinja_evaluate(m, c->operands.items[i], env, &right));
        NIB_TRY(locate(m, nib_jinja_binary(m, c->ops[i], *out, right, &result), c->offsets[i]));
        *out = result;
    }
    return NIB_OK;
}

static nib_status evaluate_unary(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value operand;
    NIB_TRY(nib_jinja_evaluate(m, n->as.operand, env, &operand));
    if (n->kind != NODE_NOT)
        return nib_jinja_sign(m, n->kind == NODE_NEGATE, operand, out);
    *out = nib_value_bool(!nib_jinja_js_truthy(operand));
    return NIB_OK;
}

static nib_status evaluate_test(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value operand;
    bool result;
    NIB_TRY(nib_jinja_evaluate(m, n->as.applied.operand, env, &operand));
    NIB_TRY(nib_jinja_test(m, n->as.applied.name, operand, NULL, 0, &result));
    *out = nib_value_bool(result != n->as.applied.negated);
    return NIB_OK;
}

static nib_status evaluate_filter(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value operand;
    NIB_TRY(nib_jinja_evaluate(m, n->as.applied.operand, env, &operand));
    return nib_jinja_filter(m, n, operand, env, out);
}

/* ---- members ---- */

static bool is_list(nib_value v)
{
    return v.type == NIB_VALUE_LIST || v.type == NIB_VALUE_TUPLE;
}

/* The UTF-16 unit at `index`; half of a surrogate pair is U+FFFD. */
static nib_value string_unit(nib_str text, double index)
{
    double at_unit = 0;
    for (size_t at = 0; at < text.len;) {
        const nib_str rest = {text.data + at, text.len - at};
        const size_t bytes = nib_jinja_code_point_bytes(rest);
        const double units = bytes == 4 ? 2 : 1;
        if (index < at_unit + units)
            return nib_value_string(units == 2 ? NIB_STR("\xef\xbf\xbd")
                                               : (nib_str){rest.data, bytes});
        at_unit += units;
        at += bytes;
    }
    return nib_jinja_broken_string();
}

static nib_value item_at(nib_value object, double index)
{
    const double length = is_list(object) ? (double)object.as.list->count
                                          : (double)nib_jinja_utf16_length(object.as.string);
    if (index < 0)
        index += length;
    if (is_list(object))
        return index >= 0 && index < length ? object.as.list->items[(size_t)index] : NIB_UNDEFINED;
    return index >= 0 && index < length ? string_unit(object.as.string, index)
                                        : nib_jinja_broken_string();
}

static nib_status named_member(machine *m, nib_value object, nib_str name, nib_value *out)
{
    if (object.type == NIB_VALUE_MAP || object.type == NIB_VALUE_NAMESPACE ||
        object.type == NIB_VALUE_VIEW) {
        const nib_value *found = nib_map_get(object.as.map, name);
        if (found) {
            *out = *found;
            return NIB_OK;
        }
    }
    return nib_jinja_member(m, object, name, out);
}

static nib_status evaluate_attribute(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value object;
    NIB_TRY(nib_jinja_evaluate(m, n->as.applied.operand, env, &object));
    return named_member(m, object, n->as.applied.name, out);
}

static nib_status evaluate_index(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value object, key;
    NIB_TRY(nib_jinja_evaluate(m, n->as.index.operand, env, &object));
    NIB_TRY(nib_jinja_evaluate(m, n->as.index.key, env, &key));
    if (key.type == NIB_VALUE_STRING)
        return named_member(m, object, key.as.string, out);
    if (key.type == NIB_VALUE_INTEGER && (is_list(object) || object.type == NIB_VALUE_STRING)) {
        if (nib_jinja_is_broken(object))
            return nib_jinja_fail(m, "a string was indexed out of range");
        NIB_TRY(
            nib_jinja_spend(m, object.type == NIB_VALUE_STRING ? object.as.string.len / 64 : 0));
        *out = item_at(object, key.as.number);
        return NIB_OK;
    }
    return nib_jinja_fail(m, "%s cannot be indexed with %s", nib_value_type_name(object),
                          nib_value_type_name(key));
}

static nib_status slice_bound(machine *m, const node *bound, environment *env, const char *what,
                              nib_value *out)
{
    *out = NIB_UNDEFINED;
    if (bound)
        NIB_TRY(nib_jinja_evaluate(m, bound, env, out));
    if (out->type != NIB_VALUE_UNDEFINED && out->type != NIB_VALUE_INTEGER)
        return nib_jinja_fail(m, "the %s of a slice is an integer, not %s", what,
                              nib_value_type_name(*out));
    return NIB_OK;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The positions of a slice: `first`, `first` + step ... before `end`. */
typedef struct slice_range {
    double first, end, step;
} slice_range;

static slice_range resolve_slice(nib_value start, nib_value stop, nib_value step, double length)
{
    slice_range r = {.step = step.type == NIB_VALUE_UNDEFINED ? 1 : step.as.number};
    const bool forward = r.step >= 0;
    const double low = forward ? 0 : -1, high = forward ? length : length - 1;
    const bool has_start = start.type != NIB_VALUE_UNDEFINED,
               has_stop = stop.type != NIB_VALUE_UNDEFINED;
    r.first = has_start ? start.as.number : forward ? 0 : length - 1;
    r.end = has_stop ? stop.as.number : forward ? length : -1;
    if (r.first < 0)
        r.first += length;
    r.first = clamp(r.first, low, high);
    if (r.end < (forward ? 0 : -1)) /* going backwards, -1 means past the front (format 3.5) */
        r.end += length;
    r.end = clamp(r.end, low, high);
    return r;
}

static bool slice_has(const slice_range *r, double at)
{
    return r->step > 0 ? at < r->end : r->step < 0 && at > r->end;
}

static nib_status slice_list(machine *m, const nib_list *from, const slice_range *r, nib_value *out)
{
    nib_list *list;
    NIB_TRY(nib_jinja_spend(m, from->count / 16));
    NIB_TRY(nib_jinja_new_list(m, 0, &list));
    for (double at = r->first; slice_has(r, at); at += r->step)
        NIB_TRY(nib_jinja_push(m, list, from->items[(size_t)at]));
    *out = nib_value_of_list(list);
    return NIB_OK;
}

/* Strings are sliced by code points, as the reference does. */
static nib_status split_code_points(machine *m, nib_str text, nib_list **out)
{
    NIB_TRY(nib_jinja_spend(m, text.len / 4));
    NIB_TRY(nib_jinja_new_list(m, 0, out));
    for (size_t at = 0; at < text.len;) {
        const size_t bytes = nib_jinja_code_point_bytes((nib_str){text.data + at, text.len - at});
        NIB_TRY(nib_jinja_push(m, *out, nib_value_string((nib_str){text.data + at, bytes})));
        at += bytes;
    }
    return NIB_OK;
}

static nib_status slice_string(machine *m, const nib_list *points, const slice_range *r,
                               nib_value *out)
{
    nib_buf buf;
    nib_jinja_start_text(m, &buf);
    for (double at = r->first; slice_has(r, at); at += r->step)
        nib_buf_str(&buf, points->items[(size_t)at].as.string);
    return nib_jinja_take_text(m, &buf, out);
}

static nib_status evaluate_slice(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_value object, start, stop, step;
    NIB_TRY(nib_jinja_evaluate(m, n->as.slice.operand, env, &object));
    if (!is_list(object) && (object.type != NIB_VALUE_STRING || nib_jinja_is_broken(object)))
        return nib_jinja_fail(m, "a slice needs a list or a string, not %s",
                              nib_value_type_name(object));
    NIB_TRY(slice_bound(m, n->as.slice.start, env, "start", &start));
    NIB_TRY(slice_bound(m, n->as.slice.stop, env, "stop", &stop));
    NIB_TRY(slice_bound(m, n->as.slice.step, env, "step", &step));
    nib_list *items = object.as.list;
    if (object.type == NIB_VALUE_STRING)
        NIB_TRY(split_code_points(m, object.as.string, &items));
    const slice_range r = resolve_slice(start, stop, step, (double)items->count);
    return object.type == NIB_VALUE_STRING ? slice_string(m, items, &r, out)
                                           : slice_list(m, items, &r, out);
}

/* ---- calls ---- */

static nib_status spread_positional(machine *m, const node *spread, environment *env,
                                    nib_list *args)
{
    nib_value value;
    NIB_TRY(nib_jinja_evaluate(m, spread, env, &value));
    if (!is_list(value))
        return nib_jinja_fail(m, "\"*\" unpacks a list, not %s", nib_value_type_name(value));
    NIB_TRY(nib_jinja_spend(m, value.as.list->count));
    for (size_t i = 0; i < value.as.list->count; i++)
        NIB_TRY(nib_jinja_push(m, args, value.as.list->items[i]));
    return NIB_OK;
}

static nib_status set_keyword(machine *m, nib_map *keywords, nib_str name, nib_value value)
{
    if (nib_map_get(keywords, name))
        return nib_jinja_fail(m, "the keyword argument \"%.*s\" is given twice", NIB_STR_ARG(name));
    return nib_map_set(m->evaluation.arena, keywords, name, value) ? NIB_OK
                                                                   : nib_jinja_out_of_memory(m);
}

static nib_status spread_keywords(machine *m, const node *spread, environment *env,
                                  nib_map *keywords)
{
    nib_value value;
    NIB_TRY(nib_jinja_evaluate(m, spread, env, &value));
    if (value.type != NIB_VALUE_MAP && value.type != NIB_VALUE_NAMESPACE)
        return nib_jinja_fail(m, "\"**\" unpacks an object, not %s", nib_value_type_name(value));
    NIB_TRY(nib_jinja_spend(m, value.as.map->count));
    for (size_t i = 0; i < value.as.map->count; i++)
        NIB_TRY(
            set_keyword(m, keywords, value.as.map->entries[i].key, value.as.map->entries[i].value));
    return NIB_OK;
}

static nib_status evaluate_keywords(machine *m, const arguments *args, environment *env,
                                    nib_map *keywords)
{
    for (size_t i = 0; i < args->keyword_count; i++) {
        nib_value value;
        NIB_TRY(nib_jinja_evaluate(m, args->keywords[i].value, env, &value));
        NIB_TRY(set_keyword(m, keywords, args->keywords[i].name, value));
    }
    return args->keyword_spread ? spread_keywords(m, args->keyword_spread, env, keywords) : NIB_OK;
}

nib_status nib_jinja_evaluate_arguments(machine *m, const arguments *args, environment *env,
                                        nib_value **out, size_t *count, bool *has_keywords)
{
    nib_list *list;
    NIB_TRY(nib_jinja_new_list(m, args->positional.count + 1, &list));
    for (size_t i = 0; i < args->positional.count; i++) {
        nib_value value;
        NIB_TRY(nib_jinja_evaluate(m, args->positional.items[i], env, &value));
        NIB_TRY(nib_jinja_push(m, list, value));
    }
    if (args->spread)
        NIB_TRY(spread_positional(m, args->spread, env, list));
    *has_keywords = false;
    if (args->keyword_count || args->keyword_spread) {
        nib_map *keywords = nib_map_new(m->evaluation.arena, args->keyword_count);
        if (!keywords)
            return nib_jinja_out_of_memory(m);
        NIB_TRY(evaluate_keywords(m, args, env, keywords));
        *has_keywords = keywords->count > 0;
        if (*has_keywords)
            NIB_TRY(nib_jinja_push(m, list, nib_value_of_map(keywords)));
    }
    *out = list->items;
    *count = list->count;
    return NIB_OK;
}

/* What a host function returned enters the evaluation like any host value; undefined becomes none
 * (format 3.5). */
static nib_status take_host_result(machine *m, nib_value result, nib_value *out)
{
    if (!nib_value_export(m->evaluation.arena, result, out))
        return nib_jinja_out_of_memory(m);
    if (out->type == NIB_VALUE_UNDEFINED)
        *out = NIB_NULL;
    return NIB_OK;
}

nib_status nib_jinja_call(machine *m, nib_value callee, environment *env, const nib_value *args,
                          size_t count, bool has_keywords, nib_value *out)
{
    if (callee.type != NIB_VALUE_FUNCTION)
        return nib_jinja_fail(m, "a call needs a function, not %s", nib_value_type_name(callee));
    const nib_function *function = callee.as.function;
    nib_value result = NIB_UNDEFINED;
    m->caller = env;
    m->evaluation.has_keywords = has_keywords;
    NIB_TRY(function->call(&m->evaluation, function->user, args, count, &result));
    if (!function->native)
        return take_host_result(m, result, out);
    *out = result;
    return NIB_OK;
}

nib_status nib_jinja_call_node(machine *m, const node *call, environment *env,
                               environment *callee_env, nib_value *out)
{
    nib_value *args, callee;
    size_t count;
    bool has_keywords;
    NIB_TRY(nib_jinja_evaluate_arguments(m, call->as.call.arguments, env, &args, &count,
                                         &has_keywords));
    NIB_TRY(nib_jinja_evaluate(m, call->as.call.callee, env, &callee));
    return nib_jinja_call(m, callee, callee_env, args, count, has_keywords, out);
}

/* ---- dispatch ---- */

static nib_status evaluate_kind(machine *m, const node *n, environment *env, nib_value *out)
{
    switch (n->kind) {
    case NODE_NUMBER:
        *out = n->as.number_value;
        return NIB_OK;
    case NODE_STRING:
        *out = nib_value_string(n->as.text);
        return NIB_OK;
    case NODE_NAME:
        look_up(m, env, n->as.text, out);
        return NIB_OK;
    case NODE_LIST:
    case NODE_TUPLE:
        return evaluate_list(m, n, env, out);
    case NODE_MAP:
        return evaluate_map(m, n, env, out);
    case NODE_CHOICE:
    case NODE_SELECT:
        return evaluate_choice(m, n, env, out);
    case NODE_OR:
    case NODE_AND:
        return evaluate_word_chain(m, n, env, out);
    case NODE_BINARY:
        return evaluate_chain(m, n, env, out);
    case NODE_NOT:
    case NODE_NEGATE:
    case NODE_PLUS:
        return evaluate_unary(m, n, env, out);
    case NODE_TEST:
        return evaluate_test(m, n, env, out);
    case NODE_FILTER:
        return evaluate_filter(m, n, env, out);
    case NODE_ATTRIBUTE:
        return evaluate_attribute(m, n, env, out);
    case NODE_INDEX:
        return evaluate_index(m, n, env, out);
    case NODE_SLICE:
        return evaluate_slice(m, n, env, out);
    case NODE_CALL:
        return nib_jinja_call_node(m, n, env, env, out);
    default:
        return nib_fail(m->evaluation.error, NIB_INTERNAL,
                        "a statement was evaluated as an expression");
    }
}

nib_status nib_jinja_evaluate(machine *m, const node *n, environment *env, nib_value *out)
{
    nib_status status = nib_jinja_spend(m, 1);
    if (status == NIB_OK && m->depth >= m->depth_limit)
        status = nib_fail(m->evaluation.error, NIB_LIMIT,
                          "evaluation is nested deeper than %u levels; does a macro call itself?",
                          m->depth_limit);
    if (status == NIB_OK) {
        m->depth++;
        status = evaluate_kind(m, n, env, out);
        m->depth--;
    }
    return locate(m, status, n->offset);
}
