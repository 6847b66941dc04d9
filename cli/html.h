/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for HTML and SVG.
 */
#ifndef NIBBLE_CLI_HTML_H
#define NIBBLE_CLI_HTML_H

#include <stdio.h>

/* Print text with what the markup would read as its own escaped; control characters are spaces. */
void cli_html_text(FILE *out, const char *text);

#endif
