/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's cache folder.
 */
#ifndef NIBBLE_CLI_CACHE_H
#define NIBBLE_CLI_CACHE_H

/* ${XDG_CACHE_HOME:-~/.cache}/nibble/NAME; NULL when there is no home folder. free() it. */
char *cli_cache_path(const char *name);

#endif
