/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "base/error.h"
#include "value/number.h"

static nib_context *shared_context;

nib_context *test_context(void)
{
    if (!shared_context)
        assert_int_equal(nib_context_create(NULL, &shared_context, NULL), NIB_OK);
    return shared_context;
}

void free_test_context(void)
{
    nib_context_free(shared_context);
    shared_context = NULL;
}

/* ---- packages ---- */

nib_package *package_from_json(nib_context *context, const char *json, nib_error *error)
{
    nib_package *package = nib_allocate(&context->allocator, 1, sizeof *package);
    if (!package) {
        nib_fail_memory(error);
        return NULL;
    }
    package->context = context;
    nib_arena_init(&package->arena, &context->allocator, 0);
    nib_value manifest;
    if (nib_json_parse(&package->arena, json, strlen(json), "manifest.json", &manifest, error) ||
        nib_contract_read(&package->arena, manifest, &package->contract, error)) {
        free_package(package);
        return NULL;
    }
    return package;
}

void free_package(nib_package *package)
{
    if (!package)
        return;
    nib_context *context = package->context;
    nib_arena_free(&package->arena);
    nib_release(&context->allocator, package, 1, sizeof *package);
}

static nib_package *must_read(const char *json)
{
    nib_error error = {0};
    nib_package *package = package_from_json(test_context(), json, &error);
    if (!package) {
        char line[2600];
        nib_error_format(&error, line, sizeof line);
        fail_msg("%s", line);
    }
    return package;
}

nib_package *package_from_quoted(const char *quoted)
{
    char *json = malloc(strlen(quoted) * 2 + 1);
    assert_non_null(json);
    size_t used = 0;
    for (const char *c = quoted; *c; c++) {
        if (*c == '`')
            json[used++] = '\\';
        json[used++] = *c == '\'' || *c == '`' ? '"' : *c;
    }
    json[used] = '\0';
    nib_package *package = must_read(json);
    free(json);
    return package;
}

char *read_text_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = NULL;
    size_t used = 0, got;
    do {
        text = realloc(text, used + 4096 + 1);
        assert_non_null(text);
        got = fread(text + used, 1, 4096, file);
        used += got;
    } while (got);
    fclose(file);
    text[used] = '\0';
    return text;
}

nib_package *package_from_file(const char *path)
{
    char *json = read_text_file(path);
    if (!json)
        return NULL;
    nib_package *package = must_read(json);
    free(json);
    return package;
}

/* ---- requests ---- */

static const char *keep(request_text *out, const char *text, size_t len)
{
    assert_true(out->used + len + 1 <= sizeof out->storage);
    char *copy = out->storage + out->used;
    memcpy(copy, text, len);
    copy[len] = '\0';
    out->used += len + 1;
    return copy;
}

static nib_named_scalar read_scalar(const char *name, const char *text)
{
    nib_named_scalar scalar = {.name = name, .kind = NIB_SCALAR_NUMBER};
    if (nib_number_parse(nib_str_from(text), &scalar.number))
        return scalar;
    if (strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0) {
        scalar.number = strtod(text, NULL);
        return scalar;
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        scalar.kind = NIB_SCALAR_BOOL;
        scalar.boolean = text[0] == 't';
        return scalar;
    }
    scalar.kind = NIB_SCALAR_STRING;
    scalar.string = text;
    return scalar;
}

static void read_word(request_text *out, const char *word, size_t len)
{
    const char *text = keep(out, word, len);
    if (text[0] == '~') {
        out->request.relaxed = true;
        return;
    }
    if (text[0] == '!') {
        out->request.variant = text + 1;
        return;
    }
    if (text[0] == '?') {
        assert_true(out->request.want_count < 8);
        out->want[out->request.want_count++] = text + 1;
        return;
    }
    const char kind = strchr("@#+", text[0]) ? text[0] : '\0';
    const char *equals = strchr(text, '=');
    assert_non_null(equals);
    const char *name = keep(out, text + (kind ? 1 : 0), (size_t)(equals - text) - (kind ? 1 : 0));
    if (kind == '@')
        out->attributes[out->request.attribute_count++] = read_scalar(name, equals + 1);
    else if (kind == '#')
        out->arguments[out->request.argument_count++] = read_scalar(name, equals + 1);
    else if (kind == '+')
        out->tunables[out->request.tunable_count++] = read_scalar(name, equals + 1);
    else {
        nib_named_desc *tensor = &out->tensors[out->request.tensor_count++];
        tensor->name = name;
        assert_int_equal(nib_tensor_desc_parse(equals + 1, &tensor->desc, NULL), NIB_OK);
    }
    assert_true(out->request.attribute_count <= 24 && out->request.argument_count <= 8 &&
                out->request.tunable_count <= 8 && out->request.tensor_count <= 24);
}

void read_request_text(const char *text, request_text *out)
{
    memset(out, 0, sizeof *out);
    for (const char *c = text; *c;) {
        const size_t blanks = strspn(c, " \n");
        const size_t len = strcspn(c + blanks, " \n");
        if (len)
            read_word(out, c + blanks, len);
        c += blanks + len;
    }
    out->request.tensors = out->tensors;
    out->request.attributes = out->attributes;
    out->request.arguments = out->arguments;
    out->request.tunables = out->tunables;
    out->request.want = out->want;
}

planned plan_text(const nib_package *package, const char *request, const char *caps)
{
    planned result = {0};
    request_text text;
    nib_caps *device;
    read_request_text(request, &text);
    nib_error error = {0};
    if (nib_caps_parse(package->context, caps, &device, &error) != NIB_OK)
        fail_msg("capabilities: %s", error.message);
    result.status = nib_plan_create(package, &text.request, device, &result.plan, &result.error);
    nib_caps_free(device);
    assert_true((result.status == NIB_OK) == (result.plan != NULL));
    assert_int_equal(result.error.code, result.status);
    return result;
}

nib_plan *must_plan(const nib_package *package, const char *request, const char *caps)
{
    planned result = plan_text(package, request, caps);
    if (result.status != NIB_OK) {
        char line[2600];
        nib_error_format(&result.error, line, sizeof line);
        fail_msg("%s: %s", nib_status_name(result.status), line);
    }
    return result.plan;
}

/* ---- JSON ---- */

void open_document(document *doc, const char *json)
{
    nib_error error = {0};
    nib_arena_init(&doc->arena, &nib_default_allocator, 0);
    if (nib_json_parse(&doc->arena, json, strlen(json), "document", &doc->root, &error))
        fail_msg("%s", error.message);
}

void close_document(document *doc)
{
    nib_arena_free(&doc->arena);
}

nib_value document_at(const document *doc, const char *path)
{
    nib_value value = doc->root;
    while (*path) {
        if (*path == '[') {
            char *end;
            const size_t index = strtoul(path + 1, &end, 10);
            if (value.type != NIB_VALUE_LIST || index >= value.as.list->count)
                return NIB_UNDEFINED;
            value = value.as.list->items[index];
            path = end + 1;
            continue;
        }
        path += *path == '.';
        const size_t len = strcspn(path, ".[");
        const nib_value *member =
            value.type == NIB_VALUE_MAP ? nib_map_get(value.as.map, (nib_str){path, len}) : NULL;
        if (!member)
            return NIB_UNDEFINED;
        value = *member;
        path += len;
    }
    return value;
}

void expect_json(const document *doc, const char *path, const char *expected)
{
    const nib_value value = document_at(doc, path);
    if (value.type == NIB_VALUE_UNDEFINED)
        fail_msg("there is no %s", path);
    nib_buf text;
    nib_buf_init(&text, &nib_default_allocator, 0);
    if (value.type == NIB_VALUE_STRING)
        nib_buf_str(&text, value.as.string);
    else
        nib_json_write(&text, value, (nib_json_style){0});
    if (strcmp(text.data ? text.data : "", expected) != 0)
        fail_msg("%s is\n%s\nand not\n%s", path, text.data, expected);
    nib_buf_free(&text);
}

void expect_message(const nib_error *error, const char *fragments)
{
    char line[2600];
    nib_error_format(error, line, sizeof line);
    if (strchr(line, '\n'))
        fail_msg("more than one line: %s", line);
    while (*fragments) {
        const size_t len = strcspn(fragments, "|");
        if (!memmem(line, strlen(line), fragments, len))
            fail_msg("the message lacks \"%.*s\": %s", (int)len, fragments, line);
        fragments += len + (fragments[len] == '|');
    }
}
