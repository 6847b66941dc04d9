/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands and options are data: parsing, --help, the man page and the reference in docs/cli.md all
 * read these tables.
 */
#ifndef NIBBLE_CLI_OPTIONS_H
#define NIBBLE_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "exit.h"

typedef enum cli_option_kind {
    CLI_FLAG,   /* --opt */
    CLI_VALUE,  /* --opt VALUE, once */
    CLI_REPEAT, /* --opt VALUE, any number of times */
} cli_option_kind;

/* id, name, kind, value, help. The parser checks values by their form: "a|b|c" is a choice, "A=B"
 * needs a name and an equals sign, "N" is a whole number from 1 to 2147483647; anything else is
 * text. Two ids may share a name when no command has both. */
#define CLI_OPTION_MAP(XX)                                                                         \
    XX(IN, "in", REPEAT, "KEY=SPEC",                                                               \
       "Bind an input. KEY is the bind key or the ONNX name; SPEC is FILE.npy, FILE.npz:member, "  \
       "FILE.safetensors:tensor, FILE.gguf:tensor, or a literal: float32[2,3]=0.5, uint8[2]=1,2, " \
       "float32[8]=rand:7.")                                                                       \
    XX(TENSOR, "tensor", REPEAT, "KEY=DTYPE[SHAPE]",                                               \
       "Name a tensor of the call by dtype and shape, e.g. aT=float32[2,576].")                    \
    XX(ATTR, "attr", REPEAT, "NAME=VALUE",                                                         \
       "Set an attribute: a number, true, false, or text (quote it as JSON to force text).")       \
    XX(ARG, "arg", REPEAT, "NAME=VALUE", "Set a scalar argument, written like an attribute.")      \
    XX(TUNABLE, "tunable", REPEAT, "NAME=VALUE", "Override a tunable of the manifest.")            \
    XX(WANT, "want", REPEAT, "KEY", "Ask for an optional output.")                                 \
    XX(OUT, "out", REPEAT, "KEY=FILE",                                                             \
       "Write an output to FILE.npy, or collect it with others in FILE.safetensors. An optional "  \
       "output named here is asked for.")                                                          \
    XX(VARIANT, "variant", VALUE, "ID", "Use this variant instead of choosing one.")               \
    XX(RELAXED, "relaxed", FLAG, "",                                                               \
       "Skip the conditions that only the shaders need; runs on the CPU only.")                    \
    XX(MANIFEST, "manifest", VALUE, "FILE", "Use this manifest in place of the package's own.")    \
    XX(NO_VERIFY, "no-verify", FLAG, "", "Do not compare the package's digests.")                  \
    XX(BACKEND, "backend", VALUE, "auto|cpu|webgpu",                                               \
       "Where to run: a real GPU if there is one, else the CPU (auto, the default), or one of "    \
       "them.")                                                                                    \
    XX(TEST_BACKEND, "backend", VALUE, "cpu|webgpu", "Where to run the cases (default cpu).")      \
    XX(ADAPTER, "adapter", VALUE, "NAME", "GPU adapter: its index, or a part of its name.")        \
    XX(DISABLE_FEATURE, "disable-feature", REPEAT, "NAME", "Do not use this GPU feature.")         \
    XX(THREADS, "threads", VALUE, "N", "CPU threads (default: one per core).")                     \
    XX(ISA, "isa", VALUE, "NAME", "Highest CPU kernel row to use, e.g. scalar or avx2.")           \
    XX(CAPS, "caps", VALUE, "FILE",                                                                \
       "Plan for this device: a JSON object with features, limits and adapterInfo; members that "  \
       "are missing take the defaults of WebGPU.")                                                 \
    XX(WGSL, "wgsl", VALUE, "DIR", "Write the rendered shader of each pass into this folder.")     \
    XX(SCOPE, "scope", VALUE, "FILE",                                                              \
       "JSON object whose members become names (- reads standard input).")                         \
    XX(INFER_ENABLES, "infer-enables", FLAG, "",                                                   \
       "Put the WGSL enable directives that the text needs in front, as a pass gets them.")        \
    XX(FILTER, "filter", VALUE, "TEXT", "Run only the cases whose name contains TEXT.")            \
    XX(FORMAT, "format", VALUE, "nbits|bnb4", "Weight format: MatMulNBits or bitsandbytes 4-bit.") \
    XX(WEIGHT, "weight", VALUE, "SPEC", "The float matrix [N,K], written like an input of run.")   \
    XX(OUT_FILE, "out", VALUE, "FILE", "The safetensors file to write.")                           \
    XX(BITS, "bits", VALUE, "2|4|8", "nbits: bits of a code (default 4).")                         \
    XX(BLOCK_SIZE, "block-size", VALUE, "N",                                                       \
       "Weights that share a scale (default 32 for nbits, 64 for bnb4).")                          \
    XX(QUANT_TYPE, "quant-type", VALUE, "nf4|fp4", "bnb4: the codebook (default nf4).")            \
    XX(DTYPE, "dtype", VALUE, "float32|float16", "Dtype of scales or absmax (default float32).")   \
    XX(NAME, "name", VALUE, "PREFIX",                                                              \
       "Put PREFIX before the tensor names: q_ gives q_B and q_scales (default: none).")           \
    XX(TRANSPOSE, "transpose", FLAG, "", "The matrix is [K,N]: transpose it first.")               \
    XX(CONTRACT_VERSION, "contract-version", VALUE, "NUMBER",                                      \
       "Use this contract version. Of an installed or pulled package the newest is the default; "  \
       "of a folder, the folder itself, and other versions are looked for beside it: "             \
       "DIR/NAME is version 1, DIR/vN/NAME version N.")                                            \
    XX(ALL, "all", FLAG, "", "Show every variant whole, one condition a line.")                       \
    XX(TRUST_REMOTE_CODE, "trust-remote-code", FLAG, "",                                           \
       "Accept a package of the Hub whose owner is not webgpu-kernels: it is GPU code of others.") \
    XX(PULL_VERSION, "version", VALUE, "NUMBER",                                                   \
       "The contract version: the branch v<NUMBER>. Fixes move it; its commit is printed.")        \
    XX(REVISION, "revision", VALUE, "SHA",                                                         \
       "A commit, or another branch or tag. Wins over --version.")                                 \
    XX(FORCE, "force", FLAG, "", "Fetch everything again, whatever the cache holds.")              \
    XX(TIMEOUT, "timeout", VALUE, "N", "Give up after this many seconds (default 3600).")          \
    XX(ALL_VARIANTS, "all-variants", FLAG, "",                                                     \
       "Force every variant that takes the case, one after the other; on the CPU every "           \
       "kernel row.")                                                                              \
    XX(SEED, "seed", VALUE, "N",                                                                   \
       "Run 32 generated cases instead: random sizes and values of this seed, compared "           \
       "with the scalar CPU.")                                                                     \
    XX(JUNIT, "junit", VALUE, "FILE", "Write the results as JUnit XML too.")                       \
    XX(COMPARE, "compare", VALUE, "cpu|none",                                                      \
       "cpu: compute the outputs with the scalar CPU kernels too, and fail when they "             \
       "differ.")                                                                                  \
    XX(CASE, "case", VALUE, "NAME",                                                                \
       "Only the case of this name, or those whose name contains it.")                             \
    XX(SECONDS, "seconds", VALUE, "N", "Time to spend.")                                           \
    XX(CSV, "csv", FLAG, "", "Print comma-separated values, one line a case.")                     \
    XX(BASELINE, "baseline", VALUE, "FILE",                                                        \
       "Compare with a result that --json printed before; exit code 1 when a case became "         \
       "slower.")                                                                                  \
    XX(THRESHOLD, "threshold", VALUE, "N",                                                         \
       "Slower by more than this many percent is a regression (default 10).")                      \
    XX(HTML, "html", VALUE, "FILE",                                                                \
       "Write a report as one self-contained page. Measures the alternatives as "                  \
       "--all-variants does.")                                                                     \
    XX(TUNING, "tuning", VALUE, "FILE",                                                            \
       "The file of tuned tunables (default: nibble/tuning.json in the cache folder of "           \
       "the user).")                                                                               \
    XX(NO_TUNING, "no-tuning", FLAG, "", "Ignore what nibble tune found.")                         \
    XX(CACHE, "cache", VALUE, "DIR",                                                               \
       "Keep compiled GPU pipelines in this folder, or nowhere (none). Default: nibble/pipelines " \
       "in the cache folder of the user.")                                                         \
    XX(EVIDENCE, "out", VALUE, "FILE",                                                             \
       "Where the evidence goes (JSON; default: standard output with --json, else "                \
       "nowhere).")                                                                                \
    XX(PACK_VERSION, "version", VALUE, "NUMBER",                                                   \
       "The contract version that metadata.json says (default: what it says, else 1).")            \
    XX(CHECK, "check", FLAG, "", "Write nothing; fail when metadata.json is out of date.")         \
    XX(RULES, "rules", FLAG, "", "List the rules.")                                                \
    XX(MAN, "man", FLAG, "", "Print the manual page (troff).")                                     \
    XX(MARKDOWN, "markdown", FLAG, "", "Print the reference of docs/cli.md.")                      \
    XX(JSON, "json", FLAG, "", "Print exactly one JSON object on standard output.")                \
    XX(QUIET, "quiet", FLAG, "", "Say nothing on standard error but errors.")                      \
    XX(VERBOSE, "verbose", FLAG, "", "Show the library's log on standard error.")                  \
    XX(HELP, "help", FLAG, "", "Show this help.")

typedef enum cli_option_id {
#define XX(id, name, kind, value, help) CLI_OPT_##id,
    CLI_OPTION_MAP(XX)
#undef XX
        CLI_OPTION_COUNT
} cli_option_id;

typedef struct cli_option {
    const char *name;
    cli_option_kind kind;
    const char *value; /* "" for a flag */
    const char *help;
} cli_option;

extern const cli_option cli_options[CLI_OPTION_COUNT];

struct cli_session;

typedef struct cli_command {
    const char *name;
    const char *arguments; /* "PACKAGE" */
    const char *summary;   /* one line, no full stop */
    const char *details;   /* a paragraph for --help and the manual */
    size_t argument_min, argument_max;
    int (*run)(struct cli_session *session);
    const cli_option_id *options;
    size_t option_count;
} cli_command;

/* All commands, in the order help shows them (main.c). */
extern const cli_command *const cli_commands[];
extern const size_t cli_command_count;
const cli_command *cli_find_command(const char *name);

typedef struct cli_given {
    cli_option_id id;
    const char *value;
} cli_given;

typedef struct cli_args {
    const cli_command *command;
    const char **arguments;
    size_t argument_count;
    cli_given *given; /* in the order of the command line */
    size_t given_count;
} cli_args;

/* Parse what follows the command's name. Returns CLI_OK or, after a message, CLI_USAGE. */
int cli_args_parse(const cli_command *command, int argc, char *const *argv, cli_args *args);
void cli_args_free(cli_args *args);

bool cli_has(const cli_args *args, cli_option_id id);
/* NULL when it was not given. */
const char *cli_value(const cli_args *args, cli_option_id id);
size_t cli_count(const cli_args *args, cli_option_id id);
/* The nth value of a repeated option; nth < cli_count. */
const char *cli_nth(const cli_args *args, cli_option_id id, size_t nth);
/* The value of an "N" option; `fallback` when it was not given. */
int64_t cli_integer(const cli_args *args, cli_option_id id, int64_t fallback);
/* Length of the name in a value of an "A=B" option. */
size_t cli_split(const char *value);

/* The entry of `names` nearest to `word`; NULL when none is near enough to be what was meant. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);
/* Print "nibble: ..." and a hint at --help; returns CLI_USAGE. `command` may be NULL. */
int cli_usage(const cli_command *command, const char *format, ...)
    __attribute__((__format__(__printf__, 2, 3)));

/* The same for a word that is no command. */
int cli_unknown_command(const cli_command *command, const char *word);

/* help.c */
void cli_print_help(FILE *out, const cli_command *command);
void cli_print_overview(FILE *out);
void cli_print_man(FILE *out);
void cli_print_markdown(FILE *out);

#define CLI_LENGTH(array) (sizeof(array) / sizeof *(array))

#endif
