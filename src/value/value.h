/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic value that JSON documents, expressions and templates share. Values live in an arena
 * and are immutable once shared, except lists and maps under construction. Semantics:
 * docs/language.md (package format 3.1).
 */
#ifndef NIB_VALUE_VALUE_H
#define NIB_VALUE_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/str.h"

typedef enum nib_value_type {
    NIB_VALUE_UNDEFINED, /* zero: a zeroed value is undefined */
    NIB_VALUE_NULL,
    NIB_VALUE_BOOL,
    NIB_VALUE_INTEGER, /* a binary64 that carries the Integer tag */
    NIB_VALUE_FLOAT,   /* a binary64 that carries the Float tag */
    NIB_VALUE_STRING,
    NIB_VALUE_LIST,
    NIB_VALUE_TUPLE,
    NIB_VALUE_MAP,       /* "Object": string keys in insertion order */
    NIB_VALUE_NAMESPACE, /* a map that templates may assign to */
    NIB_VALUE_FUNCTION,
    NIB_VALUE_VIEW, /* a host object with methods and no listable members: device.features */
} nib_value_type;

typedef struct nib_value nib_value;
typedef struct nib_list nib_list;
typedef struct nib_map nib_map;
typedef struct nib_function nib_function; /* defined by jinja/, opaque here */

struct nib_value {
    nib_value_type type;
    union {
        bool boolean;
        double number;
        nib_str string;
        nib_list *list; /* LIST, TUPLE */
        nib_map *map;   /* MAP, NAMESPACE, VIEW (its members are functions or numbers) */
        const nib_function *function;
    } as;
};

struct nib_list {
    nib_value *items;
    size_t count, capacity;
};

typedef struct nib_entry {
    nib_str key;
    nib_value value;
} nib_entry;

struct nib_map {
    nib_entry *entries;
    size_t count, capacity;
    size_t *
        slots; /* open addressing over entries, present once the map is larger than a few entries */
    size_t slot_count;
};

#define NIB_UNDEFINED ((nib_value){.type = NIB_VALUE_UNDEFINED})
#define NIB_NULL      ((nib_value){.type = NIB_VALUE_NULL})

nib_value nib_value_bool(bool boolean);
/* Tagged by integrality, as a number that enters an evaluation is (format 3.1): 4.0 is an Integer,
 * 0.5, NaN and infinities are Floats. */
nib_value nib_value_number(double number);
nib_value nib_value_float(double number);   /* Float tag whatever the number */
nib_value nib_value_integer(double number); /* Integer tag whatever the number */
nib_value nib_value_string(nib_str string); /* borrows */
nib_value nib_value_cstr(const char *text); /* borrows */
nib_value nib_value_of_list(nib_list *list);
nib_value nib_value_of_map(nib_map *map);

bool nib_value_is_number(nib_value value);
/* True for undefined and null. */
bool nib_value_is_absent(nib_value value);
/* "integer", "string", "undefined" ... for messages. */
const char *nib_value_type_name(nib_value value);

/* NULL / false when out of memory. */
nib_list *nib_list_new(nib_arena *arena, size_t capacity);
bool nib_list_push(nib_arena *arena, nib_list *list, nib_value value);
nib_map *nib_map_new(nib_arena *arena, size_t capacity);
/* Insert or overwrite; a new key goes to the end. The key is borrowed. */
bool nib_map_set(nib_arena *arena, nib_map *map, nib_str key, nib_value value);
bool nib_map_set_cstr(nib_arena *arena, nib_map *map, const char *key, nib_value value);
/* NULL when the key is absent. The pointer is valid until the map grows. */
const nib_value *nib_map_get(const nib_map *map, nib_str key);
const nib_value *nib_map_get_cstr(const nib_map *map, const char *key);

/* Deep copy into an arena, with numbers re-tagged by integrality and tuples turned into lists: what
 * happens to a value that leaves one evaluation and enters another (format 3.1). Functions and
 * views are copied by reference. false when out of memory or nested deeper than
 * NIB_VALUE_MAX_DEPTH. */
#define NIB_VALUE_MAX_DEPTH 200
bool nib_value_export(nib_arena *arena, nib_value value, nib_value *out);

/* "[2,3]" shapes: a list of numbers. */
nib_value nib_value_of_dims(nib_arena *arena, const long long *dims, size_t count);

#endif
