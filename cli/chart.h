/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline plot of a bench result as inline SVG.
 */
#ifndef NIBBLE_CLI_CHART_H
#define NIBBLE_CLI_CHART_H

#include <jansson.h>
#include <stdio.h>

/* A section with the plot, once for wide and once for narrow screens; nothing for a result without
 * operation counts or ceilings. */
void cli_chart_roofline(FILE *out, const json_t *result);

#endif
