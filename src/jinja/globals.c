/* SPDX-License-Identifier: Apache-2.0
 *
 * The global functions of templates: format 4.3.
 */
#include "jinja/machine.h"

#include <math.h>

bool nib_jinja_constant(nib_str name, nib_value *out)
{
    static const struct {
        const char *name;
        nib_value value;
    } constants[] = {
        {"true", {.type = NIB_VALUE_BOOL, .as.boolean = true}},
        {"false", {.type = NIB_VALUE_BOOL, .as.boolean = false}},
        {"none", {.type = NIB_VALUE_NULL}},
        {"True", {.type = NIB_VALUE_BOOL, .as.boolean = true}},
        {"False", {.type = NIB_VALUE_BOOL, .as.boolean = false}},
        {"None", {.type = NIB_VALUE_NULL}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (nib_str_is(name, constants[i].name)) {
            *out = constants[i].value;
            return true;
        }
    }
    return false;
}

static nib_status fill_range(machine *m, double start, double stop, double step, nib_value *out)
{
    nib_list *list;
    const double steps = ceil((stop - start) / step);
    if (!(steps > 0)) { /* empty, or a NaN somewhere */
        NIB_TRY(nib_jinja_new_list(m, 0, &list));
        *out = nib_value_of_list(list);
        return NIB_OK;
    }
    if (steps > (double)m->steps_left)
        return nib_fail(m->evaluation.error, NIB_LIMIT,
                        "range() of %.17g items is more than this evaluation may do", steps);
    NIB_TRY(nib_jinja_spend(m, (size_t)steps));
    NIB_TRY(nib_jinja_new_list(m, (size_t)steps + 1, &list));
    /* Repeated addition, as the reference does: 0.3 + 0.3 + 0.3 is not 0.9. */
    for (double i = start; step > 0 ? i < stop : i > stop; i += step) {
        if (list->count > (size_t)steps)
            return nib_jinja_fail(m, "range() does not advance: the step is too small");
        NIB_TRY(nib_jinja_push(m, list, nib_value_number(i)));
    }
    *out = nib_value_of_list(list);
    return NIB_OK;
}

/* range(stop), range(start, stop), range(start, stop, step); what is no number is converted as
 * JavaScript does. */
static nib_status range(nib_evaluation *evaluation, const void *user, const nib_value *args,
                        size_t count, nib_value *out)
{
    (void)user;
    machine *m = (machine *)evaluation;
    double numbers[3] = {(double)NAN, (double)NAN, 1};
    for (size_t i = 0; i < count && i < 3; i++) {
        if (!nib_value_is_absent(args[i]))
            numbers[i] = nib_jinja_js_number(evaluation->arena, args[i]);
    }
    if (count < 2 || nib_value_is_absent(args[1])) {
        numbers[1] = numbers[0];
        numbers[0] = 0;
    }
    if (numbers[2] == 0)
        return nib_jinja_fail(m, "the step of range() must not be zero");
    return fill_range(m, numbers[0], numbers[1], numbers[2], out);
}

static nib_status copy_entries(machine *m, nib_map *to, const nib_map *from)
{
    for (size_t i = 0; i < from->count; i++) {
        if (!nib_map_set(m->evaluation.arena, to, from->entries[i].key, from->entries[i].value))
            return nib_jinja_out_of_memory(m);
    }
    return NIB_OK;
}

/* namespace(object?, key=value ...) */
static nib_status make_namespace(nib_evaluation *evaluation, const void *user,
                                 const nib_value *args, size_t count, nib_value *out)
{
    (void)user;
    machine *m = (machine *)evaluation;
    const size_t positional = count - evaluation->has_keywords;
    if (positional > 1)
        return nib_jinja_fail(m, "namespace() takes at most one object, not %zu", positional);
    nib_map *map = nib_map_new(evaluation->arena, 0);
    if (!map)
        return nib_jinja_out_of_memory(m);
    for (size_t i = 0; i < count; i++) {
        if (args[i].type != NIB_VALUE_MAP)
            return nib_jinja_fail(m, "namespace() takes an object, not %s",
                                  nib_value_type_name(args[i]));
        NIB_TRY(copy_entries(m, map, args[i].as.map));
    }
    *out = (nib_value){.type = NIB_VALUE_NAMESPACE, .as.map = map};
    return NIB_OK;
}

static nib_status raise_exception(nib_evaluation *evaluation, const void *user,
                                  const nib_value *args, size_t count, nib_value *out)
{
    (void)user;
    (void)out;
    machine *m = (machine *)evaluation;
    nib_buf text;
    nib_jinja_start_text(m, &text);
    nib_status status = NIB_OK;
    if (count > 0)
        status = nib_jinja_print(&text, args[0], evaluation->error);
    if (status == NIB_OK)
        status = nib_jinja_fail(m, "%s", text.len ? text.data : "raise_exception() was called");
    nib_buf_free(&text);
    return status;
}

bool nib_jinja_global(nib_str name, nib_value *out)
{
    static const nib_function functions[] = {
        {.name = "range", .call = range, .native = true},
        {.name = "namespace", .call = make_namespace, .native = true},
        {.name = "raise_exception", .call = raise_exception, .native = true},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (nib_str_is(name, functions[i].name)) {
            *out = (nib_value){.type = NIB_VALUE_FUNCTION, .as.function = &functions[i]};
            return true;
        }
    }
    return false;
}
