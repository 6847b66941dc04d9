/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands. Each record lives at the end of its own file; main.c lists them.
 */
#ifndef NIBBLE_CLI_COMMANDS_H
#define NIBBLE_CLI_COMMANDS_H

#include "options.h"

extern const cli_command cli_command_run;
extern const cli_command cli_command_plan;
extern const cli_command cli_command_inspect;
extern const cli_command cli_command_eval;
extern const cli_command cli_command_render;
extern const cli_command cli_command_test;
extern const cli_command cli_command_bench;
extern const cli_command cli_command_tune;
extern const cli_command cli_command_explain;
extern const cli_command cli_command_verify;
extern const cli_command cli_command_devices;
extern const cli_command cli_command_quantize;
extern const cli_command cli_command_pull;
extern const cli_command cli_command_pack;
extern const cli_command cli_command_lint;
extern const cli_command cli_command_completion;
extern const cli_command cli_command_help;

#endif
