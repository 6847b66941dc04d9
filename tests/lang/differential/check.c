/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay the answers of the reference implementation. Usage: check CASES.jsonl LEAST
 * LEAST cases must be there, so that an empty file does not pass.
 * Texts must be equal; what the reference refuses must be refused, and nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support.h"
#include "value/json.h"

static bool agrees(const nib_map *entry, const outcome *o)
{
    const bool ok = nib_map_get_cstr(entry, "ok")->as.boolean;
    const nib_str wanted = nib_map_get_cstr(entry, "result")->as.string;
    if (!ok)
        return o->status == NIB_SYNTAX || o->status == NIB_EVAL;
    return o->status == NIB_OK && nib_str_eq(wanted, lang_text(o));
}

static void report(const nib_map *entry, const outcome *o)
{
    nib_buf line;
    nib_buf_init(&line, &nib_default_allocator, 0);
    nib_json_write_string(&line, nib_map_get_cstr(entry, "text")->as.string);
    nib_buf_puts(&line, nib_map_get_cstr(entry, "ok")->as.boolean ? "\n  reference: "
                                                                  : "\n  reference refuses: ");
    nib_json_write_string(&line, nib_map_get_cstr(entry, "result")->as.string);
    nib_buf_puts(&line, "\n  nibble:    ");
    if (o->status == NIB_OK)
        nib_json_write_string(&line, lang_text(o));
    else
        nib_buf_printf(&line, "refuses: %s (%u:%u)", o->error.message, o->error.line,
                       o->error.column);
    printf("MISMATCH %s\n", line.data);
    nib_buf_free(&line);
}

/* True when the line is a case and both sides agree on it. */
static bool check_line(const char *line, size_t length)
{
    nib_arena arena;
    nib_arena_init(&arena, &nib_default_allocator, 0);
    nib_value entry;
    nib_error error = {0};
    bool ok = false;
    if (nib_json_parse(&arena, line, length, "case", &entry, &error) == NIB_OK &&
        entry.type == NIB_VALUE_MAP) {
        const bool expression =
            nib_str_is(nib_map_get_cstr(entry.as.map, "kind")->as.string, "expression");
        outcome o = lang_run(&arena, expression, nib_map_get_cstr(entry.as.map, "text")->as.string,
                             nib_map_get_cstr(entry.as.map, "scope")->as.map);
        ok = agrees(entry.as.map, &o);
        if (!ok)
            report(entry.as.map, &o);
        nib_buf_free(&o.text);
    } else {
        printf("UNREADABLE %s: %.200s\n", error.message, line);
    }
    nib_arena_free(&arena);
    return ok;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 3 ? fopen(argv[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: check CASES.jsonl LEAST\n");
        return 2;
    }
    char *line = NULL;
    size_t capacity = 0, passed = 0, failed = 0;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0;) {
        if (check_line(line, (size_t)length))
            passed++;
        else
            failed++;
    }
    free(line);
    fclose(file);
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 && passed >= strtoul(argv[2], NULL, 10) ? 0 : 1;
}
