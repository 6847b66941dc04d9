/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements and rendering: format 4.3.
 */
#include "jinja/machine.h"

#include <string.h>

/* ---- scopes ---- */

environment *nib_jinja_new_environment(machine *m, environment *parent)
{
    environment *env = NIB_ARENA_NEW(m->evaluation.arena, environment);
    if (!env)
        return NULL;
    env->parent = parent;
    env->names = nib_map_new(m->evaluation.arena, 0);
    return env->names ? env : NULL;
}

nib_status nib_jinja_define(machine *m, environment *env, nib_str name, nib_value value)
{
    return nib_map_set(m->evaluation.arena, env->names, name, value) ? NIB_OK
                                                                     : nib_jinja_out_of_memory(m);
}

static nib_status new_environment(machine *m, environment *parent, environment **out)
{
    *out = nib_jinja_new_environment(m, parent);
    return *out ? NIB_OK : nib_jinja_out_of_memory(m);
}

/* ---- output ---- */

static nib_status mark(machine *m, const nib_buf *out, size_t source_offset)
{
    nib_render_trace *t = m->trace;
    if (!t)
        return NIB_OK;
    if (t->count == t->capacity) {
        const size_t capacity = t->capacity ? t->capacity * 2 : 256;
        nib_render_mark *marks = NIB_ARENA_ARRAY(m->evaluation.arena, nib_render_mark, capacity);
        if (!marks)
            return nib_jinja_out_of_memory(m);
        if (t->count)
            memcpy(marks, t->marks, t->count * sizeof *marks);
        t->marks = marks;
        t->capacity = capacity;
    }
    t->marks[t->count++] = (nib_render_mark){out->len, source_offset};
    return NIB_OK;
}

static nib_status check_output(machine *m, const nib_buf *out)
{
    return nib_buf_check(out, "the output of the template", m->evaluation.error);
}

/* With a trace, every line of the text gets a mark. */
static nib_status execute_text(machine *m, const node *n, nib_buf *out)
{
    const nib_str text = n->as.text;
    if (!m->trace) {
        nib_buf_str(out, text);
        return check_output(m, out);
    }
    const size_t start = (size_t)(text.data - m->program->prepared.text);
    for (size_t at = 0; at < text.len;) {
        const char *line_end = memchr(text.data + at, '\n', text.len - at);
        const size_t end = line_end ? (size_t)(line_end - text.data) + 1 : text.len;
        NIB_TRY(mark(m, out, m->program->prepared.origin[start + at]));
        nib_buf_append(out, text.data + at, end - at);
        at = end;
    }
    return check_output(m, out);
}

static nib_status execute_print(machine *m, const node *n, environment *env, nib_buf *out)
{
    nib_value value;
    NIB_TRY(nib_jinja_evaluate(m, n->as.operand, env, &value));
    NIB_TRY(mark(m, out, n->offset));
    const size_t before = out->len;
    NIB_TRY(nib_jinja_print(out, value, m->evaluation.error));
    NIB_TRY(nib_jinja_spend(m, (out->len - before) / 64));
    return check_output(m, out);
}

nib_status nib_jinja_capture(machine *m, const node *body, environment *env, nib_value *out)
{
    nib_buf buf;
    nib_jinja_start_text(m, &buf);
    nib_render_trace *trace = m->trace;
    m->trace = NULL; /* the text is printed elsewhere */
    const nib_status status = nib_jinja_execute(m, body, env, &buf);
    m->trace = trace;
    if (status != NIB_OK) {
        nib_buf_free(&buf);
        return status;
    }
    return nib_jinja_take_text(m, &buf, out);
}

/* ---- assignment ---- */

static nib_status assign_items(machine *m, const node *target, environment *env, nib_value value)
{
    if (value.type != NIB_VALUE_LIST && value.type != NIB_VALUE_TUPLE)
        return nib_jinja_fail(m, "%s cannot be unpacked into names", nib_value_type_name(value));
    const node_list *names = &target->as.items;
    if (value.as.list->count != names->count)
        return nib_jinja_fail(m, "%zu items cannot be unpacked into %zu names",
                              value.as.list->count, names->count);
    for (size_t i = 0; i < names->count; i++) {
        if (names->items[i]->kind != NODE_NAME)
            return nib_jinja_fail(m, "only plain names can be unpacked into");
        NIB_TRY(nib_jinja_define(m, env, names->items[i]->as.text, value.as.list->items[i]));
    }
    return NIB_OK;
}

static nib_status assign_attribute(machine *m, const node *target, environment *env,
                                   nib_value value)
{
    nib_value object;
    NIB_TRY(nib_jinja_evaluate(m, target->as.applied.operand, env, &object));
    if (object.type != NIB_VALUE_NAMESPACE)
        return nib_jinja_fail(m, "only a namespace() takes new attributes, not %s",
                              nib_value_type_name(object));
    return nib_map_set(m->evaluation.arena, object.as.map, target->as.applied.name, value)
               ? NIB_OK
               : nib_jinja_out_of_memory(m);
}

static nib_status execute_set(machine *m, const node *n, environment *env)
{
    nib_value value;
    if (n->as.set.body)
        NIB_TRY(nib_jinja_capture(m, n->as.set.body, env, &value));
    else
        NIB_TRY(nib_jinja_evaluate(m, n->as.set.value, env, &value));
    const node *target = n->as.set.target;
    switch (target->kind) {
    case NODE_NAME:
        return nib_jinja_define(m, env, target->as.text, value);
    case NODE_TUPLE:
        return assign_items(m, target, env, value);
    case NODE_ATTRIBUTE:
        return assign_attribute(m, target, env, value);
    default:
        return nib_jinja_fail(m, "this cannot be assigned to");
    }
}

/* ---- if ---- */

static nib_status execute_if(machine *m, const node *n, environment *env, nib_buf *out)
{
    const node_list *parts = &n->as.items;
    for (size_t i = 0; i + 1 < parts->count; i += 2) {
        nib_value condition;
        NIB_TRY(nib_jinja_evaluate(m, parts->items[i], env, &condition));
        if (nib_jinja_truthy(condition))
            return nib_jinja_execute(m, parts->items[i + 1], env, out);
    }
    return parts->count % 2 ? nib_jinja_execute(m, parts->items[parts->count - 1], env, out)
                            : NIB_OK;
}

/* ---- for ---- */

/* Loop variables unpack lists, but not tuples (format 3.1). */
static nib_status assign_loop_variable(machine *m, const node *target, environment *env,
                                       nib_value item)
{
    if (target->kind == NODE_NAME)
        return nib_jinja_define(m, env, target->as.text, item);
    if (item.type != NIB_VALUE_LIST)
        return nib_jinja_fail(m, "%s cannot be unpacked into loop variables",
                              nib_value_type_name(item));
    return assign_items(m, target, env, item);
}

static nib_status list_loop_items(machine *m, nib_value iterable, nib_list **out)
{
    if (iterable.type == NIB_VALUE_LIST || iterable.type == NIB_VALUE_TUPLE) {
        *out = iterable.as.list;
        return NIB_OK;
    }
    if (iterable.type != NIB_VALUE_MAP && iterable.type != NIB_VALUE_VIEW)
        return nib_jinja_fail(m, "a loop runs over a list or the keys of an object, not %s",
                              nib_value_type_name(iterable));
    const nib_map *map = iterable.as.map;
    NIB_TRY(nib_jinja_spend(m, map->count));
    NIB_TRY(nib_jinja_new_list(m, map->count, out));
    for (; (*out)->count < map->count; (*out)->count++)
        (*out)->items[(*out)->count] = nib_value_string(map->entries[(*out)->count].key);
    return NIB_OK;
}

/* "if" behind the iterable selects items before the loop starts. */
static nib_status select_items(machine *m, const node *n, environment *scope, nib_list **items)
{
    nib_list *all = *items;
    NIB_TRY(nib_jinja_new_list(m, 0, items));
    for (size_t i = 0; i < all->count; i++) {
        environment *item_scope;
        nib_value selected;
        NIB_TRY(new_environment(m, scope, &item_scope));
        NIB_TRY(assign_loop_variable(m, n->as.loop.target, item_scope, all->items[i]));
        NIB_TRY(
            nib_jinja_evaluate(m, n->as.loop.iterable->as.choice.condition, item_scope, &selected));
        if (nib_jinja_truthy(selected))
            NIB_TRY(nib_jinja_push(m, *items, all->items[i]));
    }
    return NIB_OK;
}

static nib_status define_loop(machine *m, environment *scope, const nib_list *items, size_t i)
{
    const double count = (double)items->count, index = (double)i;
    const struct {
        const char *name;
        nib_value value;
    } members[] = {
        {"index", nib_value_integer(index + 1)},
        {"index0", nib_value_integer(index)},
        {"revindex", nib_value_integer(count - index)},
        {"revindex0", nib_value_integer(count - index - 1)},
        {"first", nib_value_bool(i == 0)},
        {"last", nib_value_bool(i + 1 == items->count)},
        {"length", nib_value_integer(count)},
        {"previtem", i > 0 ? items->items[i - 1] : NIB_UNDEFINED},
        {"nextitem", i + 1 < items->count ? items->items[i + 1] : NIB_UNDEFINED},
    };
    const size_t member_count = sizeof members / sizeof members[0];
    nib_map *loop = nib_map_new(m->evaluation.arena, member_count);
    if (!loop)
        return nib_jinja_out_of_memory(m);
    for (size_t k = 0; k < member_count; k++) {
        if (!nib_map_set_cstr(m->evaluation.arena, loop, members[k].name, members[k].value))
            return nib_jinja_out_of_memory(m);
    }
    return nib_jinja_define(m, scope, NIB_STR("loop"), nib_value_of_map(loop));
}

/* Run the body once. An iteration that ends by break or continue loses the text it printed. */
static nib_status run_iteration(machine *m, const node *n, environment *scope, nib_buf *out,
                                loop_signal *ended_by)
{
    const size_t length = out->len, marks = m->trace ? m->trace->count : 0;
    *ended_by = SIGNAL_NONE;
    const nib_status status = nib_jinja_execute(m, n->as.loop.body, scope, out);
    if (status != STATUS_LOOP_SIGNAL || m->signal == SIGNAL_NONE)
        return status;
    *ended_by = m->signal;
    m->signal = SIGNAL_NONE;
    out->len = length;
    if (out->data)
        out->data[length] = '\0';
    if (m->trace)
        m->trace->count = marks;
    return NIB_OK;
}

static nib_status execute_for(machine *m, const node *n, environment *env, nib_buf *out)
{
    environment *scope;
    nib_value iterable;
    nib_list *items;
    const node *source_node = n->as.loop.iterable;
    const bool filtered = source_node->kind == NODE_SELECT;
    NIB_TRY(new_environment(m, env, &scope));
    NIB_TRY(nib_jinja_evaluate(m, filtered ? source_node->as.choice.value : source_node, scope,
                               &iterable));
    NIB_TRY(list_loop_items(m, iterable, &items));
    if (filtered)
        NIB_TRY(select_items(m, n, scope, &items));
    bool any_completed = false;
    loop_signal ended_by = SIGNAL_NONE;
    for (size_t i = 0; i < items->count && ended_by != SIGNAL_BREAK; i++) {
        NIB_TRY(define_loop(m, scope, items, i));
        NIB_TRY(assign_loop_variable(m, n->as.loop.target, scope, items->items[i]));
        NIB_TRY(run_iteration(m, n, scope, out, &ended_by));
        any_completed = any_completed || ended_by == SIGNAL_NONE;
    }
    if (!any_completed && n->as.loop.otherwise)
        return nib_jinja_execute(m, n->as.loop.otherwise, scope, out);
    return NIB_OK;
}

/* ---- macros ---- */

/* A macro, or the caller() of a call block. A macro sees the scope of its call, a caller() that of
 * its block. */
typedef struct macro_function {
    nib_function function;
    const macro *macro;
    environment *home; /* NULL: the scope of the call */
} macro_function;

static nib_status bind_parameter(machine *m, const macro *d, size_t index, const nib_value *args,
                                 size_t positional, const nib_map *keywords, environment *scope)
{
    const named_node *parameter = &d->parameters[index];
    nib_value value = NIB_UNDEFINED;
    const nib_value *named = keywords ? nib_map_get(keywords, parameter->name) : NULL;
    if (index < positional)
        value = args[index];
    else if (named)
        value = *named;
    else if (parameter->value)
        NIB_TRY(nib_jinja_evaluate(m, parameter->value, scope, &value));
    return nib_jinja_define(m, scope, parameter->name, value);
}

static bool takes_keyword(const macro *d, nib_str name, size_t positional)
{
    for (size_t i = positional; i < d->parameter_count; i++) {
        if (nib_str_eq(d->parameters[i].name, name))
            return true;
    }
    return false;
}

static nib_status bind_varargs(machine *m, const macro *d, const nib_value *args, size_t positional,
                               environment *scope)
{
    if (positional > d->parameter_count && !d->uses_varargs)
        return nib_jinja_fail(m, "the macro \"%.*s\" takes at most %zu arguments, not %zu",
                              NIB_STR_ARG(d->name), d->parameter_count, positional);
    if (!d->uses_varargs)
        return NIB_OK;
    nib_list *rest;
    NIB_TRY(nib_jinja_new_list(m, 0, &rest));
    for (size_t i = d->parameter_count; i < positional; i++)
        NIB_TRY(nib_jinja_push(m, rest, args[i]));
    return nib_jinja_define(m, scope, NIB_STR("varargs"), nib_value_of_list(rest));
}

static nib_status bind_kwargs(machine *m, const macro *d, const nib_map *keywords,
                              size_t positional, environment *scope)
{
    nib_map *rest = nib_map_new(m->evaluation.arena, 0);
    if (!rest)
        return nib_jinja_out_of_memory(m);
    for (size_t i = 0; keywords && i < keywords->count; i++) {
        const nib_entry *entry = &keywords->entries[i];
        if (takes_keyword(d, entry->key, positional))
            continue;
        if (!d->uses_kwargs)
            return nib_jinja_fail(m, "the macro \"%.*s\" takes no keyword argument \"%.*s\"",
                                  NIB_STR_ARG(d->name), NIB_STR_ARG(entry->key));
        if (!nib_map_set(m->evaluation.arena, rest, entry->key, entry->value))
            return nib_jinja_out_of_memory(m);
    }
    return d->uses_kwargs ? nib_jinja_define(m, scope, NIB_STR("kwargs"), nib_value_of_map(rest))
                          : NIB_OK;
}

static nib_status call_macro(nib_evaluation *evaluation, const void *user, const nib_value *args,
                             size_t count, nib_value *out)
{
    machine *m = (machine *)evaluation;
    const macro_function *f = user;
    const nib_map *keywords = evaluation->has_keywords ? args[count - 1].as.map : NULL;
    const size_t positional = count - evaluation->has_keywords;
    environment *scope;
    NIB_TRY(new_environment(m, f->home ? f->home : m->caller, &scope));
    NIB_TRY(bind_varargs(m, f->macro, args, positional, scope));
    NIB_TRY(bind_kwargs(m, f->macro, keywords, positional, scope));
    for (size_t i = 0; i < f->macro->parameter_count; i++)
        NIB_TRY(bind_parameter(m, f->macro, i, args, positional, keywords, scope));
    return nib_jinja_capture(m, f->macro->body, scope, out);
}

static nib_status new_macro_function(machine *m, const macro *d, environment *home, nib_value *out)
{
    macro_function *f = NIB_ARENA_NEW(m->evaluation.arena, macro_function);
    if (!f)
        return nib_jinja_out_of_memory(m);
    f->function = (nib_function){.name = "macro", .call = call_macro, .user = f, .native = true};
    f->macro = d;
    f->home = home;
    *out = (nib_value){.type = NIB_VALUE_FUNCTION, .as.function = &f->function};
    return NIB_OK;
}

static nib_status execute_macro(machine *m, const node *n, environment *env)
{
    nib_value function;
    NIB_TRY(new_macro_function(m, n->as.macro, NULL, &function));
    return nib_jinja_define(m, env, n->as.macro->name, function);
}

static nib_status print_value(machine *m, const node *n, nib_value value, nib_buf *out)
{
    NIB_TRY(mark(m, out, n->offset));
    NIB_TRY(nib_jinja_print(out, value, m->evaluation.error));
    return check_output(m, out);
}

static nib_status execute_call_block(machine *m, const node *n, environment *env, nib_buf *out)
{
    environment *scope;
    nib_value caller, result;
    NIB_TRY(new_macro_function(m, n->as.macro, env, &caller));
    NIB_TRY(new_environment(m, env, &scope));
    NIB_TRY(nib_jinja_define(m, scope, NIB_STR("caller"), caller));
    NIB_TRY(nib_jinja_call_node(m, n->as.macro->call, env, scope, &result));
    return print_value(m, n, result, out);
}

static nib_status execute_filter_block(machine *m, const node *n, environment *env, nib_buf *out)
{
    nib_value text, result;
    NIB_TRY(nib_jinja_capture(m, n->as.applied.operand, env, &text));
    NIB_TRY(nib_jinja_filter(m, n, text, env, &result));
    return print_value(m, n, result, out);
}

/* ---- dispatch ---- */

static nib_status send_signal(machine *m, const node *n)
{
    m->signal = n->kind == NODE_BREAK ? SIGNAL_BREAK : SIGNAL_CONTINUE;
    m->signal_offset = n->offset;
    return STATUS_LOOP_SIGNAL;
}

static nib_status execute_block(machine *m, const node *n, environment *env, nib_buf *out)
{
    for (size_t i = 0; i < n->as.items.count; i++)
        NIB_TRY(nib_jinja_execute(m, n->as.items.items[i], env, out));
    return NIB_OK;
}

static nib_status execute_kind(machine *m, const node *n, environment *env, nib_buf *out)
{
    switch (n->kind) {
    case NODE_TEXT:
        return execute_text(m, n, out);
    case NODE_PRINT:
        return execute_print(m, n, env, out);
    case NODE_BLOCK:
        return execute_block(m, n, env, out);
    case NODE_IF:
        return execute_if(m, n, env, out);
    case NODE_FOR:
        return execute_for(m, n, env, out);
    case NODE_BREAK:
    case NODE_CONTINUE:
        return send_signal(m, n);
    case NODE_SET:
        return execute_set(m, n, env);
    case NODE_MACRO:
        return execute_macro(m, n, env);
    case NODE_CALL_BLOCK:
        return execute_call_block(m, n, env, out);
    case NODE_FILTER_BLOCK:
        return execute_filter_block(m, n, env, out);
    default:
        return nib_fail(m->evaluation.error, NIB_INTERNAL,
                        "an expression was executed as a statement");
    }
}

static void locate(machine *m, uint32_t offset)
{
    nib_error_position(m->evaluation.error, m->program->text.data, m->program->text.len, offset);
}

nib_status nib_jinja_execute(machine *m, const node *n, environment *env, nib_buf *out)
{
    nib_status status = nib_jinja_spend(m, 1);
    if (status == NIB_OK && m->depth >= m->depth_limit)
        status = nib_fail(m->evaluation.error, NIB_LIMIT,
                          "evaluation is nested deeper than %u levels; does a macro call itself?",
                          m->depth_limit);
    if (status == NIB_OK) {
        m->depth++;
        status = execute_kind(m, n, env, out);
        m->depth--;
    }
    if (status != NIB_OK && m->signal == SIGNAL_NONE)
        locate(m, n->offset);
    return status;
}

/* ---- entry points ---- */

enum { DEFAULT_STEPS = 20000000, DEFAULT_DEPTH = 1000, DEFAULT_OUTPUT_BYTES = 16 << 20 };

static nib_status start(machine *m, const nib_program *program, const nib_names *names,
                        const nib_jinja_limits *limits, nib_arena *arena, nib_error *error)
{
    static const nib_names no_names = {0};
    const nib_jinja_limits none = {0};
    if (!limits)
        limits = &none;
    *m = (machine){.evaluation = {.arena = arena, .error = error}, .program = program};
    m->names = names ? names : &no_names;
    m->steps_left = limits->steps ? limits->steps : DEFAULT_STEPS;
    m->text_limit = limits->output_bytes ? limits->output_bytes : DEFAULT_OUTPUT_BYTES;
    m->depth_limit = limits->depth ? limits->depth : DEFAULT_DEPTH;
    return new_environment(m, NULL, &m->global);
}

static nib_status finish(machine *m, nib_status status)
{
    if (status == STATUS_LOOP_SIGNAL && m->signal != SIGNAL_NONE) {
        const char *word = m->signal == SIGNAL_BREAK ? "break" : "continue";
        status = nib_jinja_fail(m, "\"%s\" stands outside of a loop", word);
        locate(m, m->signal_offset);
    }
    if (status != NIB_OK)
        nib_error_source(m->evaluation.error, m->program->name);
    return status;
}

nib_status nib_jinja_eval(const nib_program *program, const nib_names *names,
                          const nib_jinja_limits *limits, nib_arena *arena, nib_value *out,
                          nib_error *error)
{
    machine m;
    *out = NIB_UNDEFINED;
    NIB_TRY(start(&m, program, names, limits, arena, error));
    const nib_status status = finish(&m, nib_jinja_evaluate(&m, program->root, m.global, out));
    if (status != NIB_OK || nib_jinja_is_broken(*out))
        *out = NIB_UNDEFINED;
    return status;
}

nib_status nib_jinja_render(const nib_program *program, const nib_names *names,
                            const nib_jinja_limits *limits, nib_arena *arena, nib_buf *out,
                            nib_render_trace *trace, nib_error *error)
{
    machine m;
    NIB_TRY(start(&m, program, names, limits, arena, error));
    m.trace = trace;
    nib_buf text;
    nib_jinja_start_text(&m, &text);
    const nib_status status = finish(&m, nib_jinja_execute(&m, program->root, m.global, &text));
    if (status == NIB_OK)
        nib_buf_append(out, text.data ? text.data : "", text.len);
    nib_buf_free(&text);
    return status == NIB_OK ? nib_buf_check(out, "the rendered template", error) : status;
}
