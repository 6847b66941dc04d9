/* SPDX-License-Identifier: Apache-2.0
 *
 * The language: a Jinja subset that is byte-exact with @huggingface/jinja 0.5.10. One lexer, one
 * parser and one evaluator serve manifest expressions and shader templates. Reference:
 * docs/language.md (package format 3 and 4).
 *
 * What this folder does not know: which names exist (a lookup callback does), manifests, WGSL.
 */
#ifndef NIB_JINJA_JINJA_H
#define NIB_JINJA_JINJA_H

#include "base/buf.h"
#include "base/error.h"
#include "value/value.h"

/* A parsed expression or template. Immutable, lives in the arena it was parsed into, may be shared
 * by threads. */
typedef struct nib_program nib_program;

/* A running evaluation; functions receive it to allocate their results. */
typedef struct nib_evaluation {
    nib_arena *arena;
    nib_error *error;
    bool has_keywords; /* the last argument is an object that collects the keyword arguments of the
                          call */
} nib_evaluation;

/* A function that the language can call. Arguments are as the evaluator has them (tags kept);
 * absent trailing arguments are simply not counted. `user` is the function's own. Fail with
 * nib_fail(evaluation->error, NIB_EVAL, ...); the evaluator adds the position. */
struct nib_function {
    const char *name;
    nib_status (*call)(nib_evaluation *evaluation, const void *user, const nib_value *args,
                       size_t count, nib_value *out);
    const void *user;
    bool native; /* set by the language's own functions: the result is not re-tagged, undefined
                    stays undefined */
};

/* Where free names come from. Returns false when the name is not bound (the value is then
 * Undefined). */
typedef struct nib_names {
    bool (*lookup)(const void *user, nib_str name, nib_value *out);
    const void *user;
    bool template_globals; /* range, namespace, raise_exception, loop ... exist */
} nib_names;

/* Bounds of one evaluation; zero means the default beside it. */
typedef struct nib_jinja_limits {
    size_t output_bytes; /* 16 MiB; bounds every single string too */
    size_t
        steps; /* 20 million evaluated nodes and list items: ends range(10**9) and runaway macros */
    unsigned depth; /* 1000 nested evaluations: a self-calling macro ends before the C stack does */
} nib_jinja_limits;

/* Which byte of the template a byte of the output came from: mark i holds up to the output_offset
 * of mark i + 1. */
typedef struct nib_render_mark {
    size_t output_offset, source_offset;
} nib_render_mark;
typedef struct nib_render_trace {
    nib_render_mark *marks; /* in the arena of the rendering */
    size_t count, capacity;
} nib_render_trace;

#define NIB_JINJA_MAX_PARSE_DEPTH 200

/* Parse "{{ text }}" and keep the first node, as a manifest expression is (format 3). `name` names
 * it in errors. errors: SYNTAX (line, column, excerpt set), LIMIT, OUT_OF_MEMORY */
nib_status nib_jinja_parse_expression(nib_arena *arena, nib_str text, const char *name,
                                      const nib_program **out, nib_error *error);
/* Parse a template, white-space rules of 4.2 included. */
nib_status nib_jinja_parse_template(nib_arena *arena, nib_str text, const char *name,
                                    const nib_program **out, nib_error *error);

/* The name that the program was parsed under. */
const char *nib_jinja_program_name(const nib_program *program);

/* The free identifiers of an expression, each once, in order of first use. `only_tested` marks one
 * that occurs only directly under "is defined" / "is undefined" (format 3.6). */
typedef struct nib_free_name {
    nib_str name;
    size_t offset;
    bool only_tested;
} nib_free_name;
const nib_free_name *nib_jinja_free_names(const nib_program *program, size_t *count);

/* Evaluate an expression. The result lives in `arena`, with its tags. errors: EVAL (position set),
 * LIMIT, OUT_OF_MEMORY */
nib_status nib_jinja_eval(const nib_program *program, const nib_names *names,
                          const nib_jinja_limits *limits, nib_arena *arena, nib_value *out,
                          nib_error *error);
/* Render a template, appending to `out`. `arena` holds the intermediate values. `trace` may be
 * NULL. `limits` may be NULL. */
nib_status nib_jinja_render(const nib_program *program, const nib_names *names,
                            const nib_jinja_limits *limits, nib_arena *arena, nib_buf *out,
                            nib_render_trace *trace, nib_error *error);

/* How {{ value }} prints (format 4.8). errors: EVAL for a tuple, function or view, LIMIT for deep
 * nesting; a full buffer shows in nib_buf_check only */
nib_status nib_jinja_print(nib_buf *out, nib_value value, nib_error *error);
/* JavaScript's String(value), what "~" uses: "undefined", arrays comma-joined. errors: EVAL for a
 * function, or a tuple or function inside a list */
nib_status nib_jinja_js_text(nib_buf *out, nib_value value, nib_error *error);
/* JavaScript truthiness of a host value (what pick() and the "not" operator use): lists and objects
 * are true. */
bool nib_jinja_js_truthy(nib_value value);
/* JavaScript's ToNumber of a host value: true is 1, "2.5" is 2.5, none and undefined are NaN, lists
 * by their text. */
double nib_jinja_js_number(nib_arena *arena, nib_value value);

#endif
