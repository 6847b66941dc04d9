/* SPDX-License-Identifier: Apache-2.0
 *
 * Every device of this machine as JSON, and ceilings.
 */
#include <string.h>

#include "backend/registry.h"
#include "base/buf.h"
#include "base/error.h"
#include "value/json.h"

static const char *const backend_names[] = {"cpu", "webgpu"};
enum { BACKENDS = sizeof backend_names / sizeof *backend_names };

/* What one backend answered: an array without its brackets, or why there is none. */
typedef struct answer {
    char *text;
    nib_error reason;
} answer;

static nib_status ask(nib_context *context, const char *name, answer *out)
{
    const nib_backend *backend;
    void *module;
    NIB_TRY(nib_backend_load(name, &backend, &module, &out->reason));
    const nib_status status = backend->list(context, &out->text, &out->reason);
    nib_backend_unload(module);
    return status;
}

/* The text between the brackets. */
static nib_str elements_of(const char *array)
{
    const char *first = strchr(array, '['), *last = strrchr(array, ']');
    return first && last > first ? (nib_str){first + 1, (size_t)(last - first) - 1} : NIB_STR("");
}

static bool is_blank(nib_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!strchr(" \t\r\n", text.data[i]))
            return false;
    }
    return true;
}

static void write_answers(const answer *answers, nib_buf *out)
{
    const char *comma = "";
    nib_buf_puts(out, "{\"devices\": [");
    for (size_t i = 0; i < BACKENDS; i++) {
        const nib_str elements = answers[i].text ? elements_of(answers[i].text) : NIB_STR("");
        if (is_blank(elements))
            continue;
        nib_buf_puts(out, comma);
        nib_buf_str(out, elements);
        comma = ",";
    }
    nib_buf_puts(out, "], \"missing\": [");
    comma = "";
    for (size_t i = 0; i < BACKENDS; i++) {
        if (answers[i].text)
            continue;
        nib_buf_printf(out, "%s{\"backend\": \"%s\", \"reason\": ", comma, backend_names[i]);
        nib_json_write_string(out, nib_str_from(answers[i].reason.message));
        nib_buf_putc(out, '}');
        comma = ", ";
    }
    nib_buf_puts(out, "]}\n");
}

nib_status nib_devices_json(nib_context *context, char **text, nib_error *error)
{
    answer answers[BACKENDS];
    nib_status status = NIB_OK;
    *text = NULL;
    if (!context)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_devices_json: the context is NULL");
    memset(answers, 0, sizeof answers);
    for (size_t i = 0; i < BACKENDS && status != NIB_OUT_OF_MEMORY; i++)
        status = ask(context, backend_names[i], &answers[i]);
    nib_buf out;
    nib_buf_init(&out, &context->allocator, 0);
    if (status == NIB_OUT_OF_MEMORY) {
        nib_fail_memory(error);
    } else {
        write_answers(answers, &out);
        status = nib_buf_take(&out, "the list of devices", text, error);
    }
    for (size_t i = 0; i < BACKENDS; i++)
        nib_text_free(context, answers[i].text);
    return status;
}

nib_status nib_device_ceilings(nib_device *device, nib_ceilings *out, nib_error *error)
{
    *out = (nib_ceilings){0};
    if (!device)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_device_ceilings: the device is NULL");
    return device->backend->ceilings ? device->backend->ceilings(device, out, error) : NIB_OK;
}
