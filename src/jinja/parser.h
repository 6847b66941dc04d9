/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the parser share.
 */
#ifndef NIB_JINJA_PARSER_H
#define NIB_JINJA_PARSER_H

#include "jinja/ast.h"

typedef struct parser {
    nib_arena *arena;
    nib_error *error;
    const nib_program *program;
    const token *next;
    unsigned depth; /* of the C recursion */
} parser;

/* Failures, all at a byte of the program's text. */
nib_status nib_parse_fail(parser *p, uint32_t offset, nib_status code, const char *format, ...)
    NIB_PRINTF(4, 5);
nib_status nib_parse_unexpected(parser *p, const char *wanted);

/* Looking at the next token, and taking it when it fits. */
bool nib_parse_is_operator(const parser *p, const char *text);
bool nib_parse_accept_operator(parser *p, const char *text);
bool nib_parse_accept_word(parser *p, const char *word);
nib_status nib_parse_expect(parser *p, token_kind kind, const char *wanted);

/* Building trees of bounded height. */
nib_status nib_parse_new(parser *p, node_kind kind, uint32_t offset, node **out);
nib_status nib_parse_cover(parser *p, node *parent, const node *child);
nib_status nib_parse_push(parser *p, node *parent, node *item);
/* One level of recursion deeper; the caller decrements p->depth on success. */
nib_status nib_parse_enter(parser *p);

/* Expressions and their parts. */
nib_status nib_parse_expression(parser *p, node **out);
nib_status nib_parse_primary(parser *p, node **out);
nib_status nib_parse_sequence(parser *p, nib_status (*parse_item)(parser *, node **), node **out);
nib_status nib_parse_arguments(parser *p, node *call, arguments **out);
nib_status nib_parse_call(parser *p, node *callee, node **out);
nib_status nib_parse_filter(parser *p, node_kind kind, node *operand, node **out);

#endif
