/* SPDX-License-Identifier: Apache-2.0
 *
 * The exit codes of the program.
 */
#ifndef NIBBLE_CLI_EXIT_H
#define NIBBLE_CLI_EXIT_H

enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#endif
