/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses and errors.
 *
 * Every fallible function returns a nib_status. The optional, caller-owned nib_error says what was
 * attempted, which value was wrong and which rule it broke. The library never prints, aborts or exits.
 */
#ifndef NIBBLE_STATUS_H
#define NIBBLE_STATUS_H

#include <stdint.h>

#if defined(_WIN32) && defined(NIB_SHARED)
#ifdef NIB_BUILDING
#define NIB_API __declspec(dllexport)
#else
#define NIB_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define NIB_API __attribute__((visibility("default")))
#else
#define NIB_API
#endif

#if defined(__GNUC__)
#define NIB_CHECKED __attribute__((warn_unused_result))
#define NIB_PRINTF(text_arg, first_arg) __attribute__((__format__(__printf__, text_arg, first_arg)))
#else
#define NIB_CHECKED
#define NIB_PRINTF(text_arg, first_arg)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text. Values are grouped by family, with gaps, and never change. */
#define NIB_STATUS_MAP(XX)                                                                         \
    XX(OK, 0, "success")                                                                           \
    XX(OUT_OF_MEMORY, 1, "out of memory")                                                          \
    XX(INVALID_ARGUMENT, 2, "a function was called with an invalid argument")                      \
    XX(INTERNAL, 3, "an invariant of the library does not hold")                                   \
    XX(IO, 10, "a file could not be read or written")                                              \
    XX(FORMAT, 11, "a file is malformed")                                                          \
    XX(INTEGRITY, 12, "a digest does not match")                                                   \
    XX(SYNTAX, 20, "an expression or template does not parse")                                     \
    XX(EVAL, 21, "an expression or template failed while it was evaluated")                        \
    XX(LIMIT, 22, "a limit was exceeded")                                                          \
    XX(CONTRACT, 30, "a manifest breaks a rule of the package format")                             \
    XX(REQUEST, 31, "a request breaks the contract of its kernel")                                 \
    XX(NO_VARIANT, 32, "no variant of the kernel accepts the request on this device")              \
    XX(UNSUPPORTED, 33, "the backend cannot do what was asked")                                    \
    XX(ALIAS, 34, "a writable tensor shares memory with another tensor of the call")               \
    XX(NO_DEVICE, 40, "no device of the kind asked for")                                           \
    XX(DEVICE, 41, "the device reported an error")                                                 \
    XX(DEVICE_LOST, 42, "the device is lost")                                                      \
    XX(TIMEOUT, 43, "the device did not finish in time")                                           \
    XX(SHADER, 44, "a shader or pipeline could not be built")

typedef enum nib_status {
#define XX(name, value, text) NIB_##name = (value),
    NIB_STATUS_MAP(XX)
#undef XX
} nib_status;

/* The identifier of a status ("NIB_FORMAT"), and one sentence on it. Never NULL. threads: any */
NIB_API const char *nib_status_name(nib_status status);
NIB_API const char *nib_status_text(nib_status status);

/* What went wrong, in detail. Plain memory: declare one, pass its address, read it after a failure.
 * A successful call leaves it untouched; the first failure in a call wins. Strings are NUL-terminated
 * and truncated to fit; an empty string or a zero number means "does not apply". */
typedef struct nib_error {
    nib_status code;
    uint32_t line, column; /* 1-based position in the source text; column counts bytes */
    char source[256];      /* the file, tensor file member, or expression that was being read */
    char path[256];        /* where in a JSON document: variants[2].passes[0].dispatch.x */
    char excerpt[256];     /* the source line, a newline, and a caret under the column */
    char message[2048];    /* one line: what was attempted, the offending value, the rule */
} nib_error;

/* Write one line "source: path: message" (or "source:line:column: message") into `out`, always
 * NUL-terminated. Returns the length it would need, as snprintf does. threads: any */
NIB_API int nib_error_format(const nib_error *error, char *out, uint64_t out_bytes);

#ifdef __cplusplus
}
#endif
#endif
