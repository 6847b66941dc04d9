/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is there or ends the program.
 */
#ifndef NIBBLE_CLI_MEMORY_H
#define NIBBLE_CLI_MEMORY_H

#include <stddef.h>

/* malloc that ends the program with a message when memory is out; never NULL. */
void *cli_alloc(size_t bytes);
char *cli_dup(const char *text, size_t length);

#endif
