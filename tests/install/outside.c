/* SPDX-License-Identifier: Apache-2.0
 *
 * A program outside the source tree, built against an installed copy: loads a package, evaluates an
 * expression, prints what it found.
 */
#include <nibble/nibble.h>
#include <stdio.h>

static int fail(const nib_error *error)
{
    char line[4096];
    nib_error_format(error, line, sizeof line);
    fprintf(stderr, "%s\n", line);
    return 1;
}

int main(int argc, char **argv)
{
    nib_error error = {0};
    nib_context *context = NULL;
    nib_package *package = NULL;
    char *text = NULL;
    if (argc != 2 || nib_context_create(NULL, &context, &error) != NIB_OK)
        return fail(&error);
    if (nib_package_load(context, argv[1], NULL, &package, &error) != NIB_OK ||
        nib_expression_eval(context, "ceilDiv(7, 2)", NULL, &text, &error) != NIB_OK)
        return fail(&error);
    printf("%s %s %zu %s\n", nib_version(), nib_package_op(package),
           nib_package_port_count(package), text);
    nib_text_free(context, text);
    nib_package_free(package);
    nib_context_free(context);
    return 0;
}
