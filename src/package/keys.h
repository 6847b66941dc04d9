/* SPDX-License-Identifier: Apache-2.0
 *
 * How manifest objects are read: a table of keys per kind of object, and failures that carry their
 * JSON path. A path is built on the way up: each level puts its key or index in front.
 */
#ifndef NIB_PACKAGE_KEYS_H
#define NIB_PACKAGE_KEYS_H

#include "base/error.h"
#include "value/value.h"

typedef struct nib_reader nib_reader;

typedef enum nib_key_kind {
    NIB_KEY_ANY,
    NIB_KEY_STRING,
    NIB_KEY_TEXT, /* a non-empty string */
    NIB_KEY_BOOL,
    NIB_KEY_NUMBER,
    NIB_KEY_MAP,
    NIB_KEY_LIST,
    NIB_KEY_ITEMS,   /* a non-empty list */
    NIB_KEY_REFUSED, /* a key of an earlier draft or of another place; `hint` says what to do */
} nib_key_kind;

/* One key of an object. STRING, TEXT, BOOL and NUMBER values are stored at `offset` of the target
 * when `stored`; `set`, when not NULL, gets the value after its type was checked. */
typedef struct nib_key {
    const char *name;
    nib_key_kind kind;
    bool required;
    bool stored;
    size_t offset;
    nib_status (*set)(nib_reader *r, const nib_value *value, void *target);
    const char *hint;
} nib_key;

/* The keys of one kind of object, in the order in which they are to be read. */
typedef struct nib_keys {
    const char *what; /* "a pass" */
    const nib_key *rows;
    size_t count;
    bool open; /* further keys are allowed and ignored */
} nib_keys;

#define NIB_KEYS(what_text, table)                                                                 \
    {                                                                                              \
        (what_text), (table), sizeof(table) / sizeof((table)[0]), false                            \
    }
#define NIB_ACCEPTED            .stored = false /* its type is checked, nothing else */
#define NIB_STORED(type, field) .stored = true, .offset = offsetof(type, field)

/* Read `value`, which must be an object, into `target`: unknown keys first, then row by row. */
nib_status nib_keys_read(nib_reader *r, const nib_keys *keys, nib_value value, void *target);

/* The check of one value against a kind; `what` names it in the message. */
nib_status nib_keys_check(nib_reader *r, nib_key_kind kind, const char *what, nib_value value);

/* Fail with CONTRACT. */
nib_status nib_refuse(nib_reader *r, const char *format, ...) NIB_PRINTF(2, 3);

/* Put a key or an index in front of the path of a failure; NIB_OK passes through. */
nib_status nib_at_key(nib_reader *r, nib_str key, nib_status status);
nib_status nib_at_name(nib_reader *r, const char *key, nib_status status);
nib_status nib_at_index(nib_reader *r, size_t index, nib_status status);

/* Append " (note)" to the message of a failure; nothing when the note is empty. */
void nib_add_note(nib_reader *r, nib_str note);

/* Bounds the parts of a manifest that are searched one by one. errors: LIMIT */
#define NIB_MAX_MEMBERS 4096
nib_status nib_check_count(nib_reader *r, const char *what, size_t count);

/* A value in a message: `the string "high"`, `2.5`, `a list`. */
typedef struct nib_shown {
    char text[112];
} nib_shown;
nib_shown nib_show(nib_value value);

/* For printf's %.*s, cut to what a message can hold. */
#define NIB_SHOW_STR(s) (int)((s).len < 120 ? (s).len : 120), (s).data

#endif
