/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and syntax trees of the language. Trees live in the arena of their program and never
 * change after parsing.
 */
#ifndef NIB_JINJA_AST_H
#define NIB_JINJA_AST_H

#include <stdint.h>

#include "jinja/jinja.h"

/* ---- tokens ---- */

typedef enum token_kind {
    TOKEN_END,
    TOKEN_TEXT,
    TOKEN_OPEN_EXPRESSION,  /* {{ */
    TOKEN_CLOSE_EXPRESSION, /* }} */
    TOKEN_OPEN_STATEMENT,   /* {% */
    TOKEN_CLOSE_STATEMENT,  /* %} */
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_IDENTIFIER,
    TOKEN_SIGN,     /* + or - that cannot be binary (format 3.2) */
    TOKEN_OPERATOR, /* everything else; `text` says which */
} token_kind;

typedef struct token {
    token_kind kind;
    uint32_t offset; /* in the program's text */
    nib_str text;    /* strings: unescaped */
    double number;
} token;

/* Text after the white-space rules of format 4.2, with the origin of every byte. */
typedef struct source {
    char *text;
    uint32_t *origin; /* length + 1 entries */
    size_t length;
} source;

/* Larger templates are refused. */
#define SOURCE_MAX_BYTES ((size_t)64 << 20)

/* errors: LIMIT, OUT_OF_MEMORY. `prefix_bytes` leading bytes do not belong to the program's text
 * (manifest expressions are wrapped in "{{ "): origins are counted from behind them. */
nib_status nib_jinja_prepare(nib_arena *arena, nib_str text, size_t prefix_bytes, source *out,
                             nib_error *error);
/* errors: SYNTAX with position, OUT_OF_MEMORY. The list ends with TOKEN_END. */
nib_status nib_jinja_tokenize(nib_arena *arena, const nib_program *program, const source *from,
                              token **out, nib_error *error);

/* ---- trees ---- */

typedef enum node_kind {
    /* expressions */
    NODE_NUMBER,    /* number_value */
    NODE_STRING,    /* text */
    NODE_NAME,      /* text */
    NODE_LIST,      /* items */
    NODE_TUPLE,     /* items */
    NODE_MAP,       /* items: key, value, key, value ... */
    NODE_CHOICE,    /* choice: value if condition else other */
    NODE_SELECT,    /* choice without other; in "for" it is the loop's filter */
    NODE_OR,        /* chain */
    NODE_AND,       /* chain */
    NODE_BINARY,    /* chain */
    NODE_NOT,       /* unary */
    NODE_NEGATE,    /* unary */
    NODE_PLUS,      /* unary */
    NODE_TEST,      /* applied; negated */
    NODE_FILTER,    /* applied */
    NODE_ATTRIBUTE, /* applied: operand.text */
    NODE_INDEX,     /* index */
    NODE_SLICE,     /* slice */
    NODE_CALL,      /* call */
    /* statements */
    NODE_TEXT,  /* text */
    NODE_PRINT, /* unary */
    NODE_BLOCK, /* items */
    NODE_IF,    /* items: condition, block, condition, block ..., [else block] */
    NODE_FOR,   /* loop */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_SET,          /* set: value, or block when the statement has a body */
    NODE_MACRO,        /* macro */
    NODE_CALL_BLOCK,   /* macro (the body, unnamed) and call */
    NODE_FILTER_BLOCK, /* applied: operand is the body */
} node_kind;

typedef enum binary_op {
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_GT,
    OP_LE,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
    OP_ADD,
    OP_SUB,
    OP_CONCAT,
    OP_MUL,
    OP_DIV,
    OP_FLOOR_DIV,
    OP_MOD,
    OP_POW,
} binary_op;

typedef struct node node;

typedef struct node_list {
    node **items;
    size_t count, capacity;
} node_list;

typedef struct named_node {
    nib_str name;
    node *value; /* NULL: a macro parameter without default */
} named_node;

typedef struct arguments {
    node_list positional;
    node *spread; /* *expr, after the positional ones */
    named_node *keywords;
    size_t keyword_count, keyword_capacity;
    node *keyword_spread; /* **expr */
} arguments;

/* first op operand op operand ..., evaluated from the left without recursion */
typedef struct chain {
    node *first;
    node_list operands;
    binary_op *ops;
    uint32_t *offsets; /* of the operators */
} chain;

typedef struct macro {
    nib_str name; /* empty for the body of a call block */
    named_node *parameters;
    size_t parameter_count;
    node *body;
    bool uses_varargs, uses_kwargs;
    node *call; /* call blocks: the macro call */
} macro;

struct node {
    node_kind kind;
    uint32_t offset;
    uint32_t height; /* of the tree below, bounded by NIB_JINJA_MAX_PARSE_DEPTH */
    union {
        nib_value number_value;
        nib_str text;
        node_list items;
        struct {
            node *condition, *value, *other;
        } choice;
        node *operand;
        chain *chain;
        struct {
            node *operand;
            nib_str name;
            arguments *arguments;
            bool negated;
        } applied;
        struct {
            node *operand, *key;
        } index;
        struct {
            node *operand, *start, *stop, *step;
        } slice;
        struct {
            node *callee;
            arguments *arguments;
        } call;
        struct {
            node *target, *iterable, *body, *otherwise;
        } loop;
        struct {
            node *target, *value, *body;
        } set;
        macro *macro;
    } as;
};

struct nib_program {
    nib_str text; /* as given: what offsets and excerpts refer to */
    const char *name;
    source prepared; /* what text nodes point into */
    node *root;      /* an expression, or a NODE_BLOCK */
    nib_free_name *free_names;
    size_t free_name_count;
};

/* The tree of a token list: a NODE_BLOCK. errors: SYNTAX with position, LIMIT, OUT_OF_MEMORY */
nib_status nib_jinja_parse(nib_arena *arena, const nib_program *program, const token *tokens,
                           node **out, nib_error *error);

/* Call `visit` for every NODE_NAME that stands for a value, in source order. `tested` is true
 * directly under "is defined" and "is undefined". */
typedef struct name_visitor {
    void (*visit)(void *user, const node *name, bool tested);
    void *user;
} name_visitor;
void nib_jinja_visit_names(const node *tree, const name_visitor *visitor);

#endif
