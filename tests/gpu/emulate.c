/* SPDX-License-Identifier: Apache-2.0 */
#include "emulate.h"

#include <string.h>

#include "base/buf.h"
#include "base/context.h"

enum { MAX_NAMES = 8 };

typedef struct names {
    nib_str items[MAX_NAMES];
    size_t count;
} names;

static void add_name(names *list, nib_str name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (nib_str_eq(list->items[i], name))
            return;
    }
    if (list->count < MAX_NAMES)
        list->items[list->count++] = name;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Behind the bracket that closes the one at `text`. */
static const char *behind_angle(const char *text)
{
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '<') - (*text == '>');
        if (depth == 0)
            return text + 1;
    }
    return text;
}

/* "(&NAME, " -> NAME; *text then stands behind it. */
static nib_str pointer_argument(const char **text)
{
    const char *p = *text + strspn(*text, "(& ");
    const nib_str name = {p, strcspn(p, " ,")};
    p += name.len;
    *text = p + strspn(p, ", ");
    return name;
}

typedef struct rewrite {
    nib_buf out;
    names loaded, stored;
    nib_str subgroup, lane, size, thread; /* names of main's parameters; empty: not there */
} rewrite;

/* "@builtin(NAME) PARAMETER: u32," is dropped and its name kept. */
static bool take_parameter(const char **text, const char *builtin, nib_str *name)
{
    const size_t length = strlen(builtin);
    const char *p = *text;
    if (!starts(p, "@builtin(") || strncmp(p + 9, builtin, length) != 0 || p[9 + length] != ')')
        return false;
    p += 9 + length + 1;
    p += strspn(p, " ");
    *name = (nib_str){p, strcspn(p, ": ")};
    p += strcspn(p, ",)");
    *text = *p == ',' ? p + 1 : p;
    return true;
}

static bool drop_text(const char **text, const char *what)
{
    if (!starts(*text, what))
        return false;
    *text += strlen(what);
    return true;
}

static bool rewrite_call(rewrite *r, const char **text)
{
    if (starts(*text, "subgroupMatrixLoad<")) {
        const char *p = behind_angle(*text + strlen("subgroupMatrixLoad"));
        const nib_str name = pointer_argument(&p);
        add_name(&r->loaded, name);
        nib_buf_printf(&r->out, "emu_load_%.*s(", NIB_STR_ARG(name));
        *text = p;
        return true;
    }
    if (starts(*text, "subgroupMatrixStore(")) {
        const char *p = *text + strlen("subgroupMatrixStore");
        const nib_str name = pointer_argument(&p);
        add_name(&r->stored, name);
        nib_buf_printf(&r->out, "emu_store_%.*s(", NIB_STR_ARG(name));
        *text = p;
        return true;
    }
    if (drop_text(text, "subgroupMatrixMultiplyAccumulate(")) {
        nib_buf_puts(&r->out, "emu_multiply(");
        return true;
    }
    if (starts(*text, "subgroup_matrix_")) {
        *text = behind_angle(strchr(*text, '<'));
        nib_buf_puts(&r->out, "emu_matrix");
        return true;
    }
    return false;
}

static bool rewrite_entry(rewrite *r, const char **text)
{
    if (drop_text(text, "enable subgroups;") || drop_text(text, "enable subgroup_size_control;") ||
        drop_text(text, "enable chromium_experimental_subgroup_matrix;") || drop_text(text, "@subgroup_size(32)"))
        return true;
    if (take_parameter(text, "subgroup_id", &r->subgroup) ||
        take_parameter(text, "subgroup_invocation_id", &r->lane) || take_parameter(text, "subgroup_size", &r->size) ||
        take_parameter(text, "local_invocation_index", &r->thread))
        return true;
    if (!starts(*text, "fn main("))
        return false;
    nib_buf_puts(&r->out, "fn main(@builtin(local_invocation_index) emu_index: u32, ");
    *text += strlen("fn main(");
    return true;
}

static void bind_name(rewrite *r, nib_str name, const char *value)
{
    if (name.len > 0)
        nib_buf_printf(&r->out, "    let %.*s = %s;\n", NIB_STR_ARG(name), value);
}

/* What main's parameters stood for, at the start of its body. */
static void open_body(rewrite *r)
{
    nib_buf_puts(&r->out, "{\n    emu_thread = emu_index;\n");
    bind_name(r, r->thread, "emu_index");
    bind_name(r, r->subgroup, "emu_index / 32u");
    bind_name(r, r->lane, "emu_index % 32u");
    bind_name(r, r->size, "32u");
}

static void write_helpers(rewrite *r)
{
    nib_buf_puts(&r->out,
                 "\nstruct emu_matrix { v: array<f32, 64> }\n"
                 "var<private> emu_thread: u32;\n"
                 "fn emu_index_of(i: u32, by_column: bool, stride: u32) -> u32 {\n"
                 "    return select((i / 8u) * stride + i % 8u, (i % 8u) * stride + i / 8u, by_column);\n"
                 "}\n"
                 "fn emu_multiply(a: emu_matrix, b: emu_matrix, c: emu_matrix) -> emu_matrix {\n"
                 "    var x = a; var y = b; var z = c;\n"
                 "    for (var i = 0u; i < 64u; i++) {\n"
                 "        var sum = z.v[i];\n"
                 "        for (var k = 0u; k < 8u; k++) { sum += x.v[(i / 8u) * 8u + k] * y.v[k * 8u + i % 8u]; }\n"
                 "        z.v[i] = sum;\n"
                 "    }\n"
                 "    return z;\n"
                 "}\n");
    for (size_t i = 0; i < r->loaded.count; i++)
        nib_buf_printf(&r->out,
                       "fn emu_load_%.*s(offset: u32, by_column: bool, stride: u32) -> emu_matrix {\n"
                       "    var m: emu_matrix;\n"
                       "    for (var i = 0u; i < 64u; i++) {\n"
                       "        m.v[i] = %.*s[offset + emu_index_of(i, by_column, stride)];\n"
                       "    }\n"
                       "    return m;\n"
                       "}\n",
                       NIB_STR_ARG(r->loaded.items[i]), NIB_STR_ARG(r->loaded.items[i]));
    for (size_t i = 0; i < r->stored.count; i++)
        nib_buf_printf(&r->out,
                       "fn emu_store_%.*s(offset: u32, m: emu_matrix, by_column: bool, stride: u32) {\n"
                       "    var copy = m;\n"
                       "    if (emu_thread %% 32u != 0u) { return; }\n"
                       "    for (var i = 0u; i < 64u; i++) {\n"
                       "        %.*s[offset + emu_index_of(i, by_column, stride)] = copy.v[i];\n"
                       "    }\n"
                       "}\n",
                       NIB_STR_ARG(r->stored.items[i]), NIB_STR_ARG(r->stored.items[i]));
}

char *emulate_subgroup_matrices(void *unused, nib_context *context, const char *wgsl)
{
    (void)unused;
    if (!strstr(wgsl, "subgroup_matrix_"))
        return NULL;
    rewrite r = {0};
    char *text = NULL;
    bool in_main = false;
    nib_buf_init(&r.out, &context->allocator, 0);
    for (const char *p = wgsl; *p;) {
        in_main = in_main || starts(p, "fn main(");
        if (rewrite_call(&r, &p) || rewrite_entry(&r, &p))
            continue;
        if (in_main && *p == '{') {
            open_body(&r);
            in_main = false;
            p++;
            continue;
        }
        nib_buf_putc(&r.out, *p++);
    }
    write_helpers(&r);
    return nib_buf_take(&r.out, "the emulated shader", &text, NULL) == NIB_OK ? text : NULL;
}
