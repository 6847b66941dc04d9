/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit.h"

void *cli_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fputs("nibble: out of memory\n", stderr);
        exit(CLI_FAILED);
    }
    return memory;
}

char *cli_dup(const char *text, size_t length)
{
    char *copy = cli_alloc(length + 1);
    memcpy(copy, text, length);
    return copy;
}
