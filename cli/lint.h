/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes in a package that the format allows. Every rule is decidable and errs on the side of
 * silence: what it reports is so.
 */
#ifndef NIBBLE_CLI_LINT_H
#define NIBBLE_CLI_LINT_H

#include "pack.h"

/* id, name, severity, what it says */
#define CLI_LINT_MAP(XX)                                                                           \
    XX(CONTRACT, "contract", ERROR, "The manifest breaks a rule of the format.")                   \
    XX(TEMPLATE, "template", ERROR, "A template is missing or does not parse.")                    \
    XX(METADATA, "metadata", ERROR, "metadata.json does not describe the files; pack writes it.")  \
    XX(CASES, "cases", ERROR, "test.json or bench.json is malformed or names what is not there.")  \
    XX(NO_CASES, "no-cases", WARNING, "test.json or bench.json is missing.")                       \
    XX(UNUSED_BINDING, "unused-binding", WARNING,                                                  \
       "No pass lists this entry of bindings, or the shader of the pass does not name it.")        \
    XX(UNUSED_PORT, "unused-port", WARNING,                                                        \
       "No pass binds this tensor and no expression reads it.")                                    \
    XX(UNUSED_FIELD, "unused-field", WARNING, "The shader does not name this uniform field.")      \
    XX(UNUSED_INTERMEDIATE, "unused-intermediate", WARNING, "No pass binds this scratch buffer.")  \
    XX(UNUSED_DERIVE, "unused-derive", WARNING, "No expression or template reads this value.")     \
    XX(UNUSED_NAME, "unused-name", WARNING,                                                        \
       "No expression or template reads this attribute, argument or tunable.")                     \
    XX(UNKNOWN_NAME, "unknown-name", ERROR,                                                        \
       "A derive, a condition or a dispatch reads a name, attribute, tunable, tensor or limit "    \
       "that nothing gives.")                                                                      \
    XX(UNREACHABLE, "unreachable-variant", ERROR,                                                  \
       "The variant is never chosen: a condition is constantly false, contradicts another, or an " \
       "earlier variant accepts all that this one does.")                                          \
    XX(NO_SPLIT, "no-split-variant", WARNING,                                                      \
       "Only variants with more than 8 storage buffers in a pass write this; many devices have "   \
       "8.")                                                                                       \
    XX(F16_GUARD, "f16-guard", ERROR,                                                              \
       "A binding may be f16, and neither requires nor when asks for shader-f16.")                 \
    XX(SUBGROUP_GUARD, "subgroup-guard", ERROR,                                                    \
       "The shader uses subgroup built-ins, and neither requires nor when asks for the feature.")  \
    XX(UNUSED_TEMPLATE, "unused-template", WARNING, "No variant reads this template file.")

typedef enum cli_lint_rule {
#define XX(id, name, severity, text) CLI_LINT_##id,
    CLI_LINT_MAP(XX)
#undef XX
        CLI_LINT_RULE_COUNT
} cli_lint_rule;

typedef struct cli_lint {
    cli_session *session;
    cli_source source;
    json_t *manifest; /* as written */
    json_t *texts;    /* template path -> its text, include tags and all */
    json_t *used;     /* names that some expression or template reads */
    bool indirect;    /* derive[...] may read any of them */
    json_t *findings; /* [{rule, severity, path, message}] */
    size_t errors, warnings;
} cli_lint;

/* Report a finding at a JSON path ("variants[2].when") or in a file ("a.wgsl.jinja"). */
void cli_lint_add(cli_lint *lint, cli_lint_rule rule, const char *path, const char *format, ...)
    __attribute__((__format__(__printf__, 4, 5)));

/* List the rules, as the one JSON object with --json. Returns CLI_OK. */
int cli_lint_print_rules(cli_session *session);

/* ---- names in texts (lint_names.c) ---- */

/* Does the text hold this identifier, as a whole word? */
bool cli_text_names(const char *text, const char *name);
/* Fill lint->used and lint->indirect. */
void cli_lint_collect_names(cli_lint *lint);
/* The texts of a variant's conditions and of all derives that they read, in one string. free() it.
 */
char *cli_lint_guards(const cli_lint *lint, const json_t *variant);
/* The texts of a derive, type variable or literal that `element` ("f32", "$X") stands for. */
char *cli_lint_element_text(const cli_lint *lint, const json_t *variant, const json_t *pass,
                            const char *element);
/* The statements of the variant's templates and the texts of all derives that they read. free() it.
 */
char *cli_lint_statements(const cli_lint *lint, const json_t *variant, const char *text);
/* The text of a template and of all that it includes; free() it. */
char *cli_lint_template_text(const cli_lint *lint, const json_t *variant);

/* Calls `visit` for each pass of a variant, those of repeat groups too. */
typedef void cli_lint_visit(cli_lint *lint, const json_t *variant, const json_t *pass,
                            const char *path);
void cli_lint_each_pass(cli_lint *lint, const json_t *variant, size_t index, cli_lint_visit *visit);

/* ---- the rules ---- */

void cli_lint_bindings(cli_lint *lint); /* lint_bindings.c */
void cli_lint_names(cli_lint *lint);    /* lint_bindings.c */
void cli_lint_unknown(cli_lint *lint);  /* lint_unknown.c */
void cli_lint_variants(cli_lint *lint); /* lint_variants.c */
void cli_lint_shaders(cli_lint *lint);  /* lint_variants.c */
void cli_lint_cases(cli_lint *lint);    /* lint_cases.c */

#endif
