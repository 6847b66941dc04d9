/* SPDX-License-Identifier: Apache-2.0
 *
 * Built-in members of strings, lists and objects: format 3.5.
 */
#include "jinja/machine.h"

#include <string.h>

#include "value/number.h"

/* The arguments of a method call: positional ones, and the keyword ones apart. */
typedef struct call_arguments {
    const nib_value *items;
    size_t count;
    const nib_map *keywords; /* NULL when there are none */
} call_arguments;

typedef nib_status (*method_body)(machine *m, nib_value self, const call_arguments *args,
                                  nib_value *out);

static nib_value argument(const call_arguments *args, size_t index, const char *keyword,
                          nib_value fallback)
{
    if (index < args->count)
        return args->items[index];
    const nib_value *named =
        keyword && args->keywords ? nib_map_get_cstr(args->keywords, keyword) : NULL;
    return named ? *named : fallback;
}

/* ---- strings ---- */

static nib_status new_text(machine *m, nib_str text, char **out)
{
    NIB_TRY(nib_jinja_spend(m, text.len / 64));
    *out = nib_arena_cstr(m->evaluation.arena, text);
    return *out ? NIB_OK : nib_jinja_out_of_memory(m);
}

static char to_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
}

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static nib_status upper(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    char *text;
    NIB_TRY(new_text(m, self.as.string, &text));
    for (size_t i = 0; i < self.as.string.len; i++)
        text[i] = to_upper(text[i]);
    *out = nib_value_string((nib_str){text, self.as.string.len});
    return NIB_OK;
}

static nib_status lower(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    char *text;
    NIB_TRY(new_text(m, self.as.string, &text));
    for (size_t i = 0; i < self.as.string.len; i++)
        text[i] = to_lower(text[i]);
    *out = nib_value_string((nib_str){text, self.as.string.len});
    return NIB_OK;
}

static bool is_word_byte(char c)
{
    return nib_is_alpha(c) || nib_is_digit(c) || c == '_';
}

/* The first letter of every run of [A-Za-z0-9_]; the others stay as they are. */
static nib_status title(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    char *text;
    NIB_TRY(new_text(m, self.as.string, &text));
    for (size_t i = 0; i < self.as.string.len; i++) {
        if (i == 0 || !is_word_byte(text[i - 1]))
            text[i] = to_upper(text[i]);
    }
    *out = nib_value_string((nib_str){text, self.as.string.len});
    return NIB_OK;
}

static nib_status capitalize(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    char *text;
    NIB_TRY(new_text(m, self.as.string, &text));
    if (self.as.string.len)
        text[0] = to_upper(text[0]);
    *out = nib_value_string((nib_str){text, self.as.string.len});
    return NIB_OK;
}

static nib_str trim_start(nib_str text)
{
    for (size_t n; (n = nib_js_space_at_start(text)) != 0;)
        text = (nib_str){text.data + n, text.len - n};
    return text;
}

static nib_str trim_end(nib_str text)
{
    for (size_t n; (n = nib_js_space_at_end(text)) != 0;)
        text.len -= n;
    return text;
}

static nib_status strip(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)m;
    (void)args;
    *out = nib_value_string(nib_js_trim(self.as.string));
    return NIB_OK;
}

static nib_status lstrip(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)m;
    (void)args;
    *out = nib_value_string(trim_start(self.as.string));
    return NIB_OK;
}

static nib_status rstrip(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)m;
    (void)args;
    *out = nib_value_string(trim_end(self.as.string));
    return NIB_OK;
}

/* One string, or a list of which any may match. */
static nib_status match_affix(machine *m, nib_value self, const call_arguments *args,
                              const char *method, bool (*matches)(nib_str, nib_str), nib_value *out)
{
    if (args->count == 0)
        return nib_jinja_fail(m, "%s() needs an argument", method);
    const nib_value affix = args->items[0];
    bool found = false;
    if (affix.type == NIB_VALUE_STRING) {
        found = matches(self.as.string, affix.as.string);
    } else if (affix.type == NIB_VALUE_LIST || affix.type == NIB_VALUE_TUPLE) {
        for (size_t i = 0; i < affix.as.list->count && !found; i++) {
            if (affix.as.list->items[i].type != NIB_VALUE_STRING)
                return nib_jinja_fail(m, "%s() takes strings, not %s", method,
                                      nib_value_type_name(affix.as.list->items[i]));
            found = matches(self.as.string, affix.as.list->items[i].as.string);
        }
    } else {
        return nib_jinja_fail(m, "%s() takes a string or a list of strings, not %s", method,
                              nib_value_type_name(affix));
    }
    *out = nib_value_bool(found);
    return NIB_OK;
}

static nib_status starts_with(machine *m, nib_value self, const call_arguments *args,
                              nib_value *out)
{
    return match_affix(m, self, args, "startswith", nib_str_starts, out);
}

static nib_status ends_with(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    return match_affix(m, self, args, "endswith", nib_str_ends, out);
}

/* Offset of `part` in text, or text.len when it does not occur; part is not empty. */
static size_t find(nib_str text, nib_str part)
{
    for (size_t i = 0; i + part.len <= text.len; i++) {
        if (memcmp(text.data + i, part.data, part.len) == 0)
            return i;
    }
    return text.len;
}

static nib_status push_part(machine *m, nib_list *list, nib_str part)
{
    return nib_jinja_push(m, list, nib_value_string(part));
}

static nib_status split_at_spaces(machine *m, nib_str text, double limit, nib_list *list)
{
    for (text = trim_start(text); text.len > 0; text = trim_start(text)) {
        if (limit >= 0 && (double)list->count >= limit)
            return push_part(m, list, text);
        size_t len = 0;
        while (len < text.len && !nib_js_space_at_start((nib_str){text.data + len, text.len - len}))
            len++;
        NIB_TRY(push_part(m, list, (nib_str){text.data, len}));
        text = (nib_str){text.data + len, text.len - len};
    }
    return NIB_OK;
}

static nib_status split_at(machine *m, nib_str text, nib_str separator, double limit,
                           nib_list *list)
{
    while (limit < 0 || (double)list->count < limit) {
        const size_t at = find(text, separator);
        if (at == text.len)
            break;
        NIB_TRY(push_part(m, list, (nib_str){text.data, at}));
        text = (nib_str){text.data + at + separator.len, text.len - at - separator.len};
    }
    return push_part(m, list, text);
}

/* split(separator = none, maxsplit = -1), by position only */
static nib_status split(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    if (args->keywords)
        return nib_jinja_fail(m, "split() takes no keyword arguments");
    const nib_value separator = argument(args, 0, NULL, NIB_NULL);
    const nib_value limit = argument(args, 1, NULL, nib_value_integer(-1));
    if (separator.type != NIB_VALUE_NULL && separator.type != NIB_VALUE_STRING)
        return nib_jinja_fail(m, "the separator of split() is a string, not %s",
                              nib_value_type_name(separator));
    if (limit.type != NIB_VALUE_INTEGER)
        return nib_jinja_fail(m, "the second argument of split() is an integer, not %s",
                              nib_value_type_name(limit));
    if (separator.type == NIB_VALUE_STRING && separator.as.string.len == 0)
        return nib_jinja_fail(m, "the separator of split() is empty");
    nib_list *list;
    NIB_TRY(nib_jinja_spend(m, self.as.string.len / 8));
    NIB_TRY(nib_jinja_new_list(m, 0, &list));
    *out = nib_value_of_list(list);
    if (separator.type == NIB_VALUE_NULL)
        return split_at_spaces(m, self.as.string, limit.as.number, list);
    return split_at(m, self.as.string, separator.as.string, limit.as.number, list);
}

/* An empty `old` matches before every code point and at the end. */
static void replace_text(nib_buf *buf, nib_str text, nib_str old, nib_str fresh, double limit)
{
    size_t at = 0;
    for (double done = 0; limit < 0 || done < limit; done++) {
        const nib_str rest = {text.data + at, text.len - at};
        if (old.len == 0) {
            nib_buf_str(buf, fresh);
            if (rest.len == 0)
                return;
            const size_t bytes = nib_jinja_code_point_bytes(rest);
            nib_buf_append(buf, rest.data, bytes);
            at += bytes;
            continue;
        }
        const size_t found = find(rest, old);
        if (found == rest.len)
            break;
        nib_buf_append(buf, rest.data, found);
        nib_buf_str(buf, fresh);
        at += found + old.len;
    }
    nib_buf_append(buf, text.data + at, text.len - at);
}

/* replace(old, new, count = none) */
static nib_status replace(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    if (args->count + (args->keywords != NULL) < 2)
        return nib_jinja_fail(m, "replace() needs two arguments");
    const nib_value old = argument(args, 0, NULL, NIB_UNDEFINED),
                    fresh = argument(args, 1, NULL, NIB_UNDEFINED);
    if (old.type != NIB_VALUE_STRING || fresh.type != NIB_VALUE_STRING)
        return nib_jinja_fail(m, "replace() takes strings, not %s and %s", nib_value_type_name(old),
                              nib_value_type_name(fresh));
    const nib_value count = argument(args, 2, "count", NIB_NULL);
    if (count.type != NIB_VALUE_NULL && count.type != NIB_VALUE_INTEGER)
        return nib_jinja_fail(m, "the count of replace() is an integer, not %s",
                              nib_value_type_name(count));
    NIB_TRY(nib_jinja_spend(m, self.as.string.len / 8));
    nib_buf buf;
    nib_jinja_start_text(m, &buf);
    replace_text(&buf, self.as.string, old.as.string, fresh.as.string,
                 count.type == NIB_VALUE_INTEGER ? count.as.number : -1);
    return nib_jinja_take_text(m, &buf, out);
}

/* ---- objects ---- */

static nib_status get(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    const nib_value key = argument(args, 0, NULL, NIB_UNDEFINED);
    if (key.type != NIB_VALUE_STRING)
        return nib_jinja_fail(m, "get() takes a string key, not %s", nib_value_type_name(key));
    const nib_value *found = nib_map_get(self.as.map, key.as.string);
    *out = found ? *found : argument(args, 1, NULL, NIB_NULL);
    return NIB_OK;
}

static nib_status new_pair(machine *m, const nib_entry *entry, nib_value *out)
{
    nib_list *pair;
    NIB_TRY(nib_jinja_new_list(m, 2, &pair));
    pair->items[0] = nib_value_string(entry->key);
    pair->items[1] = entry->value;
    pair->count = 2;
    *out = nib_value_of_list(pair);
    return NIB_OK;
}

static nib_status items(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    nib_list *list;
    const nib_map *map = self.as.map;
    NIB_TRY(nib_jinja_spend(m, map->count));
    NIB_TRY(nib_jinja_new_list(m, map->count, &list));
    for (; list->count < map->count; list->count++)
        NIB_TRY(new_pair(m, &map->entries[list->count], &list->items[list->count]));
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status keys(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    nib_list *list;
    NIB_TRY(nib_jinja_spend(m, self.as.map->count));
    NIB_TRY(nib_jinja_new_list(m, self.as.map->count, &list));
    for (; list->count < self.as.map->count; list->count++)
        list->items[list->count] = nib_value_string(self.as.map->entries[list->count].key);
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status values(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    (void)args;
    nib_list *list;
    NIB_TRY(nib_jinja_spend(m, self.as.map->count));
    NIB_TRY(nib_jinja_new_list(m, self.as.map->count, &list));
    for (; list->count < self.as.map->count; list->count++)
        list->items[list->count] = self.as.map->entries[list->count].value;
    *out = nib_value_of_list(list);
    return NIB_OK;
}

static nib_status pair_member(machine *m, nib_value pair, const void *user, nib_value *out)
{
    (void)m;
    *out = pair.as.list->items[*(const size_t *)user];
    return NIB_OK;
}

static nib_status take_flag(machine *m, const call_arguments *args, size_t index, const char *name,
                            bool *out)
{
    const nib_value flag = argument(args, index, name, nib_value_bool(false));
    if (flag.type != NIB_VALUE_BOOL)
        return nib_jinja_fail(m, "%s must be true or false, not %s", name,
                              nib_value_type_name(flag));
    *out = flag.as.boolean;
    return NIB_OK;
}

/* dictsort(case_sensitive = false, by = "key", reverse = false) */
static nib_status dictsort(machine *m, nib_value self, const call_arguments *args, nib_value *out)
{
    bool case_sensitive = false, reverse = false;
    NIB_TRY(take_flag(m, args, 0, "case_sensitive", &case_sensitive));
    const nib_value by = argument(args, 1, "by", nib_value_cstr("key"));
    if (by.type != NIB_VALUE_STRING ||
        (!nib_str_is(by.as.string, "key") && !nib_str_is(by.as.string, "value")))
        return nib_jinja_fail(m, "by must be \"key\" or \"value\"");
    NIB_TRY(take_flag(m, args, 2, "reverse", &reverse));
    NIB_TRY(items(m, self, args, out));
    const size_t member = nib_str_is(by.as.string, "value");
    return nib_jinja_sort(m, out->as.list->items, out->as.list->count, case_sensitive, reverse,
                          pair_member, &member);
}

/* ---- tables ---- */

typedef struct method {
    const char *name;
    method_body body;
} method;

static const method string_methods[] = {
    {"upper", upper},           {"lower", lower},
    {"strip", strip},           {"title", title},
    {"capitalize", capitalize}, {"rstrip", rstrip},
    {"lstrip", lstrip},         {"startswith", starts_with},
    {"endswith", ends_with},    {"split", split},
    {"replace", replace},
};

static const method object_methods[] = {
    {"get", get}, {"items", items}, {"keys", keys}, {"values", values}, {"dictsort", dictsort},
};

static const method *find_method(nib_value self, nib_str name)
{
    const bool string = self.type == NIB_VALUE_STRING;
    if (!string && self.type != NIB_VALUE_MAP && self.type != NIB_VALUE_VIEW)
        return NULL;
    const method *methods = string ? string_methods : object_methods;
    const size_t count =
        string ? sizeof string_methods / sizeof *methods : sizeof object_methods / sizeof *methods;
    for (size_t i = 0; i < count; i++) {
        if (nib_str_is(name, methods[i].name))
            return &methods[i];
    }
    return NULL;
}

static nib_status call_body(machine *m, const method *found, nib_value self, const nib_value *args,
                            size_t count, bool has_keywords, nib_value *out)
{
    const call_arguments split_args = {
        .items = args,
        .count = count - has_keywords,
        .keywords = has_keywords ? args[count - 1].as.map : NULL,
    };
    return found->body(m, self, &split_args, out);
}

nib_status nib_jinja_call_method(machine *m, nib_value self, nib_str name, const nib_value *args,
                                 size_t count, bool has_keywords, bool *found, nib_value *out)
{
    const method *body = find_method(self, name);
    *found = body != NULL;
    return body ? call_body(m, body, self, args, count, has_keywords, out) : NIB_OK;
}

/* A method taken from its object, as in "x.upper". */
typedef struct bound_method {
    nib_function function;
    const method *method;
    nib_value self;
} bound_method;

static nib_status call_bound(nib_evaluation *evaluation, const void *user, const nib_value *args,
                             size_t count, nib_value *out)
{
    const bound_method *bound = user;
    return call_body((machine *)evaluation, bound->method, bound->self, args, count,
                     evaluation->has_keywords, out);
}

static nib_status bind(machine *m, const method *found, nib_value self, nib_value *out)
{
    bound_method *bound = NIB_ARENA_NEW(m->evaluation.arena, bound_method);
    if (!bound)
        return nib_jinja_out_of_memory(m);
    bound->function =
        (nib_function){.name = found->name, .call = call_bound, .user = bound, .native = true};
    bound->method = found;
    bound->self = self;
    *out = (nib_value){.type = NIB_VALUE_FUNCTION, .as.function = &bound->function};
    return NIB_OK;
}

nib_status nib_jinja_member(machine *m, nib_value object, nib_str name, nib_value *out)
{
    *out = NIB_UNDEFINED;
    if (nib_jinja_is_broken(object))
        return nib_jinja_fail(m, "a string was indexed out of range");
    if (nib_str_is(name, "length")) {
        if (object.type == NIB_VALUE_LIST || object.type == NIB_VALUE_TUPLE)
            *out = nib_value_integer((double)object.as.list->count);
        else if (object.type == NIB_VALUE_STRING)
            *out = nib_value_integer((double)nib_jinja_utf16_length(object.as.string));
        return NIB_OK;
    }
    const method *found = find_method(object, name);
    return found ? bind(m, found, object, out) : NIB_OK;
}
