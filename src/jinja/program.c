/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to a program, and the names that a program uses.
 */
#include "jinja/ast.h"

#include <string.h>

/* ---- names ---- */

typedef struct collector {
    nib_arena *arena;
    nib_program *program;
    nib_map *index; /* name to position + 1 */
    size_t capacity;
    bool failed;
} collector;

static bool grow_free_names(collector *c)
{
    nib_program *p = c->program;
    if (p->free_name_count < c->capacity)
        return true;
    const size_t capacity = c->capacity ? c->capacity * 2 : 8;
    nib_free_name *names = NIB_ARENA_ARRAY(c->arena, nib_free_name, capacity);
    if (!names)
        return false;
    if (p->free_name_count)
        memcpy(names, p->free_names, p->free_name_count * sizeof *names);
    p->free_names = names;
    c->capacity = capacity;
    return true;
}

static void collect(void *user, const node *name, bool tested)
{
    collector *c = user;
    nib_program *p = c->program;
    if (c->failed)
        return;
    const nib_value *known = nib_map_get(c->index, name->as.text);
    if (known) {
        nib_free_name *entry = &p->free_names[(size_t)known->as.number];
        if (entry->only_tested && !tested) {
            entry->only_tested = false;
            entry->offset = name->offset;
        }
        return;
    }
    c->failed = !grow_free_names(c) || !nib_map_set(c->arena, c->index, name->as.text,
                                                    nib_value_integer((double)p->free_name_count));
    if (!c->failed)
        p->free_names[p->free_name_count++] = (nib_free_name){name->as.text, name->offset, tested};
}

const nib_free_name *nib_jinja_free_names(const nib_program *program, size_t *count)
{
    *count = program->free_name_count;
    return program->free_names;
}

const char *nib_jinja_program_name(const nib_program *program)
{
    return program->name;
}

/* ---- parsing ---- */

static nib_status new_program(nib_arena *arena, nib_str text, const char *name, nib_program **out,
                              nib_error *error)
{
    nib_program *p = NIB_ARENA_NEW(arena, nib_program);
    if (!p)
        return nib_fail_memory(error);
    p->text = nib_arena_str(arena, text.data, text.len);
    p->name = nib_arena_cstr(arena, nib_str_from(name ? name : ""));
    if (!p->text.data || !p->name)
        return nib_fail_memory(error);
    *out = p;
    return NIB_OK;
}

static nib_status parse_prepared(nib_arena *arena, nib_program *p, nib_str text,
                                 size_t prefix_bytes, nib_error *error)
{
    token *tokens;
    nib_status status = nib_jinja_prepare(arena, text, prefix_bytes, &p->prepared, error);
    if (status == NIB_OK)
        status = nib_jinja_tokenize(arena, p, &p->prepared, &tokens, error);
    if (status == NIB_OK)
        status = nib_jinja_parse(arena, p, tokens, &p->root, error);
    if (status != NIB_OK)
        nib_error_source(error, p->name);
    return status;
}

static nib_status collect_free_names(nib_arena *arena, nib_program *p, nib_error *error)
{
    collector c = {.arena = arena, .program = p, .index = nib_map_new(arena, 0)};
    if (!c.index)
        return nib_fail_memory(error);
    nib_jinja_visit_names(p->root, &(name_visitor){collect, &c});
    return c.failed ? nib_fail_memory(error) : NIB_OK;
}

nib_status nib_jinja_parse_template(nib_arena *arena, nib_str text, const char *name,
                                    const nib_program **out, nib_error *error)
{
    nib_program *p = NULL;
    NIB_TRY(new_program(arena, text, name, &p, error));
    NIB_TRY(parse_prepared(arena, p, p->text, 0, error));
    NIB_TRY(collect_free_names(arena, p, error));
    *out = p;
    return NIB_OK;
}

/* Format 3: the text is parsed as "{{ text }}", and the first node of the result is the expression.
 */
nib_status nib_jinja_parse_expression(nib_arena *arena, nib_str text, const char *name,
                                      const nib_program **out, nib_error *error)
{
    static const char open[] = "{{ ", close[] = " }}";
    const size_t open_bytes = sizeof open - 1, close_bytes = sizeof close - 1;
    nib_program *p = NULL;
    NIB_TRY(new_program(arena, text, name, &p, error));
    if (text.len > SOURCE_MAX_BYTES)
        return nib_fail(error, NIB_LIMIT, "the expression has %zu bytes", text.len);
    char *wrapped = nib_arena_alloc(arena, text.len + open_bytes + close_bytes, 1);
    if (!wrapped)
        return nib_fail_memory(error);
    memcpy(wrapped, open, open_bytes);
    if (text.len)
        memcpy(wrapped + open_bytes, text.data, text.len);
    memcpy(wrapped + open_bytes + text.len, close, close_bytes);
    NIB_TRY(parse_prepared(arena, p, (nib_str){wrapped, text.len + open_bytes + close_bytes},
                           open_bytes, error));
    p->root = p->root->as.items.items[0]->as.operand;
    NIB_TRY(collect_free_names(arena, p, error));
    *out = p;
    return NIB_OK;
}
