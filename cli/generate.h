/* SPDX-License-Identifier: Apache-2.0
 *
 * Random cases of a package. How the sizes of tensors follow from attributes is learned from the
 * cases that the package has: every dimension is matched against a few forms, such as
 * ceil(K / block_size), and the form that all cases agree on is used. The planner then says whether a
 * generated call is legal at all.
 */
#ifndef NIBBLE_CLI_GENERATE_H
#define NIBBLE_CLI_GENERATE_H

#include "testcase.h"

typedef struct cli_generator cli_generator;

/* Learn from a test.json. */
cli_generator *cli_generator_new(const cli_casefile *file, const nib_package *package,
                                 uint64_t seed);
void cli_generator_free(cli_generator *generator);

/* Make the next case that `caps` can plan; its name is in `name`. False when none was found in many
 * attempts. Free the case whatever the result. */
bool cli_generate(cli_generator *generator, const nib_caps *caps, cli_testcase *test,
                  char name[240]);

#endif
