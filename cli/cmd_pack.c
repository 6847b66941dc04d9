/* SPDX-License-Identifier: Apache-2.0
 *
 * nibble pack: write metadata.json of an author's package.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "files.h"
#include "hub.h"
#include "pack.h"
#include "tree.h"

typedef struct packing {
    cli_session *session;
    cli_source source;
    char *path;     /* of metadata.json */
    char *old_text; /* what it holds; NULL: there is none */
    json_t *old;
    char *text; /* what it should hold */
    nib_error error;
} packing;

static void read_old(packing *p)
{
    nib_error ignored;
    size_t count;
    if (!cli_is_plain_file(p->path) ||
        cli_read_bytes(p->path, CLI_PACKAGE_JSON_LIMIT, &p->old_text, &count, &ignored) != NIB_OK)
        return;
    p->old = json_loads(p->old_text, 0, NULL);
    if (json_is_object(p->old))
        return;
    json_decref(p->old);
    p->old = NULL;
    cli_note(p->session, "%s is no JSON object and is written anew", p->path);
}

static nib_status compute(packing *p)
{
    const char *version = cli_value(&p->session->args, CLI_OPT_PACK_VERSION);
    nib_status status =
        cli_source_load(p->session, p->session->args.arguments[0], &p->source, &p->error);
    if (status == NIB_OK)
        status = cli_source_read_templates(p->session, &p->source, &p->error);
    if (status != NIB_OK)
        return status;
    p->path = cli_format("%s/metadata.json", p->source.folder);
    read_old(p);
    return cli_pack_text(&p->source, p->old, version ? cli_hub_version(version) : 0, &p->text,
                         &p->error);
}

/* What was written must load as a user of the package would load it. */
static nib_status load_packed(packing *p)
{
    nib_package *package = NULL;
    char *templates = NULL;
    nib_status status =
        nib_package_load(p->session->context, p->source.folder, NULL, &package, &p->error);
    if (status == NIB_OK)
        status = nib_package_templates_json(package, &templates, &p->error);
    nib_text_free(p->session->context, templates);
    nib_package_free(package);
    return status;
}

static nib_status write_or_compare(packing *p, bool *changed)
{
    *changed = !p->old_text || strcmp(p->old_text, p->text) != 0;
    if (cli_has(&p->session->args, CLI_OPT_CHECK)) {
        if (!*changed)
            return NIB_OK;
        return cli_error(&p->error, NIB_INTEGRITY, p->path,
                         p->old_text ? "the file is out of date; nibble pack writes it"
                                     : "the file is missing; nibble pack writes it");
    }
    nib_status status = NIB_OK;
    if (*changed)
        status = cli_replace_file(p->path, p->text, strlen(p->text), &p->error);
    return status == NIB_OK ? load_packed(p) : status;
}

static int report(const packing *p, bool changed)
{
    json_t *metadata = json_loads(p->text, 0, NULL);
    json_t *files = json_object_get(json_object_get(metadata, "digest"), "files");
    if (p->session->json) {
        json_t *object = json_object();
        json_object_set_new(object, "op", cli_json_text(nib_package_op(p->source.package)));
        json_object_set_new(object, "file", cli_json_text(p->path));
        json_object_set_new(object, "changed", json_boolean(changed));
        json_object_set(object, "metadata", metadata);
        json_decref(metadata);
        return cli_print_json(object);
    }
    printf("%s: %zu files, %zu variants, %s\n", nib_package_op(p->source.package),
           json_object_size(files), json_object_size(p->source.templates),
           changed ? "written" : "up to date");
    json_decref(metadata);
    return CLI_OK;
}

static int run_pack(cli_session *session)
{
    packing p = {.session = session};
    const char *version = cli_value(&session->args, CLI_OPT_PACK_VERSION);
    bool changed = false;
    if (version && cli_hub_version(version) < 1)
        return cli_usage(session->args.command,
                         "--version is '%s'; it must be a whole number from 1", version);
    nib_status status = compute(&p);
    if (status == NIB_OK)
        status = write_or_compare(&p, &changed);
    const int code = status == NIB_OK ? report(&p, changed) : cli_fail(session, &p.error);
    json_decref(p.old);
    free(p.old_text);
    free(p.text);
    free(p.path);
    cli_source_free(&p.source);
    return code;
}

static const cli_option_id options[] = {
    CLI_OPT_PACK_VERSION, CLI_OPT_CHECK, CLI_OPT_JSON, CLI_OPT_QUIET, CLI_OPT_VERBOSE,
};

const cli_command cli_command_pack = {
    .name = "pack",
    .arguments = "DIR",
    .summary = "write metadata.json of a package",
    .details =
        "Check the manifest and the templates of a package and write its metadata.json: the digest "
        "of "
        "every file, and the templates that each variant reads, included ones too. What only the "
        "author knows (license, source, provenance) stays as it stands there. The file appears "
        "whole "
        "or not at all.",
    .argument_min = 1,
    .argument_max = 1,
    .run = run_pack,
    .options = options,
    .option_count = CLI_LENGTH(options),
};
