/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the evaluator share.
 */
#ifndef NIB_JINJA_MACHINE_H
#define NIB_JINJA_MACHINE_H

#include "jinja/ast.h"

/* A scope of template variables. */
typedef struct environment {
    struct environment *parent;
    nib_map *names;
} environment;

typedef enum loop_signal { SIGNAL_NONE, SIGNAL_BREAK, SIGNAL_CONTINUE } loop_signal;

/* "break" and "continue" travel up as this status, through calls and blocks, until a loop takes
 * them. `signal` tells them from a real failure. */
#define STATUS_LOOP_SIGNAL NIB_INTERNAL

typedef struct machine {
    nib_evaluation evaluation; /* first: functions get a pointer to it */
    const nib_program *program;
    const nib_names *names;
    nib_render_trace *trace;
    size_t steps_left, text_limit;
    unsigned depth, depth_limit;
    loop_signal signal;
    uint32_t signal_offset; /* of the break or continue */
    environment *caller; /* the scope of the call that is being made: macros see it (format 4.3) */
    environment *global;
} machine;

/* eval.c */
nib_status nib_jinja_evaluate(machine *m, const node *n, environment *env, nib_value *out);
/* Call a function value with arguments that are already evaluated. */
nib_status nib_jinja_call(machine *m, nib_value callee, environment *env, const nib_value *args,
                          size_t count, bool has_keywords, nib_value *out);
nib_status nib_jinja_call_node(machine *m, const node *call, environment *env,
                               environment *callee_env, nib_value *out);
/* Positional values, and behind them an object of the keyword arguments when there are any. */
nib_status nib_jinja_evaluate_arguments(machine *m, const arguments *args, environment *env,
                                        nib_value **out, size_t *count, bool *has_keywords);
/* Truthiness of "if", "and", "or" (format 3.4). */
bool nib_jinja_truthy(nib_value value);

/* exec.c */
nib_status nib_jinja_execute(machine *m, const node *n, environment *env, nib_buf *out);
/* Run a block into a string value. */
nib_status nib_jinja_capture(machine *m, const node *body, environment *env, nib_value *out);
environment *nib_jinja_new_environment(machine *m, environment *parent);
nib_status nib_jinja_define(machine *m, environment *env, nib_str name, nib_value value);

/* operators.c */
nib_status nib_jinja_binary(machine *m, binary_op op, nib_value a, nib_value b, nib_value *out);
nib_status nib_jinja_sign(machine *m, bool negate, nib_value operand, nib_value *out);
nib_status nib_jinja_loosely_equal(machine *m, nib_value a, nib_value b, bool *equal);
/* The strict identity of "in" and the filter "unique"; NaN equals NaN when `same_nan`. */
bool nib_jinja_same(nib_value a, nib_value b, bool same_nan);

/* filters.c */
nib_status nib_jinja_filter(machine *m, const node *n, nib_value operand, environment *env,
                            nib_value *out);
/* tests.c */
bool nib_jinja_test_exists(nib_str name);
nib_status nib_jinja_fail_unknown_test(machine *m, nib_str name);
nib_status nib_jinja_test(machine *m, nib_str name, nib_value operand, const nib_value *args,
                          size_t count, bool *out);
/* methods.c: a built-in member of a string, list or object; undefined when there is none. */
nib_status nib_jinja_member(machine *m, nib_value object, nib_str name, nib_value *out);
/* Call the built-in method of a string or object by name; *found is false when there is none. */
nib_status nib_jinja_call_method(machine *m, nib_value self, nib_str name, const nib_value *args,
                                 size_t count, bool has_keywords, bool *found, nib_value *out);
/* sort.c */
nib_status
nib_jinja_sort(machine *m, nib_value *items, size_t count, bool case_sensitive, bool reverse,
               nib_status (*key)(machine *m, nib_value item, const void *user, nib_value *out),
               const void *user);
/* globals.c: range, namespace, raise_exception. */
bool nib_jinja_global(nib_str name, nib_value *out);
/* true, false, none, True, False, None. */
bool nib_jinja_constant(nib_str name, nib_value *out);

/* text.c: strings as JavaScript sees them, in UTF-8. */
size_t nib_jinja_utf16_length(nib_str s);
/* Bytes of the code point at the start of `s` (1 for a byte that is not UTF-8); s is not empty. */
size_t nib_jinja_code_point_bytes(nib_str s);
int nib_jinja_compare_text(nib_str a, nib_str b, bool case_sensitive);
/* What indexing a string out of range gives: it prints "undefined", and most operations on it fail.
 */
nib_value nib_jinja_broken_string(void);
bool nib_jinja_is_broken(nib_value value);

/* print.c */
typedef struct json_options {
    size_t indent; /* 0: one line */
    bool ensure_ascii, sort_keys, undefined_as_null;
    nib_str item_separator, key_separator;
} json_options;
nib_status nib_jinja_json(machine *m, nib_buf *out, nib_value value, const json_options *options,
                          nib_error *error);

/* Failures and allocation. */
nib_status nib_jinja_fail(machine *m, const char *format, ...) NIB_PRINTF(2, 3);
nib_status nib_jinja_out_of_memory(machine *m);
/* Account for work that grows with a value; errors: LIMIT. */
nib_status nib_jinja_spend(machine *m, size_t steps);
/* Copy a finished buffer into the arena as a string value; frees the buffer. */
nib_status nib_jinja_take_text(machine *m, nib_buf *buf, nib_value *out);
void nib_jinja_start_text(machine *m, nib_buf *buf);
nib_status nib_jinja_new_list(machine *m, size_t capacity, nib_list **out);
nib_status nib_jinja_push(machine *m, nib_list *list, nib_value value);

#endif
