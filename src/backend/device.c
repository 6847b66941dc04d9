/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening devices.
 */
#include <string.h>

#include "backend/registry.h"
#include "base/error.h"

static nib_status open_backend(nib_context *context, const char *name,
                               const nib_device_options *options, nib_device **out,
                               nib_error *error)
{
    const nib_backend *backend;
    void *module;
    NIB_TRY(nib_backend_load(name, &backend, &module, error));
    nib_device *device = NULL;
    const nib_status status = backend->open(context, options, &device, error);
    if (status != NIB_OK) {
        nib_backend_unload(module);
        return status;
    }
    device->backend = backend;
    device->context = context;
    device->module = module;
    *out = device;
    return NIB_OK;
}

/* A real GPU if there is one, else the CPU; why there is no GPU goes to the log. */
static nib_status open_auto(nib_context *context, const nib_device_options *options,
                            nib_device **out, nib_error *error)
{
    nib_error reason = {0};
    if (open_backend(context, "webgpu", options, out, &reason) == NIB_OK)
        return NIB_OK;
    nib_log(context, NIB_LOG_INFO, "no GPU: %s", reason.message);
    return open_backend(context, "cpu", options, out, error);
}

nib_status nib_device_open(nib_context *context, const nib_device_options *options,
                           nib_device **out, nib_error *error)
{
    const nib_device_options defaults = {0};
    *out = NULL;
    if (!context)
        return nib_fail(error, NIB_INVALID_ARGUMENT, "nib_device_open: the context is NULL");
    if (!options)
        options = &defaults;
    const char *name = options->backend ? options->backend : "auto";
    const nib_status status = strcmp(name, "auto") == 0
                                  ? open_auto(context, options, out, error)
                                  : open_backend(context, name, options, out, error);
    if (status == NIB_OK)
        nib_log(context, NIB_LOG_INFO, "device: %s", (*out)->description);
    return status;
}

void nib_device_free(nib_device *device)
{
    if (!device)
        return;
    void *module = device->module;
    device->backend->close(device);
    nib_backend_unload(module);
}

const char *nib_device_backend(const nib_device *device)
{
    return device->backend->name;
}

const char *nib_device_description(const nib_device *device)
{
    return device->description;
}

const nib_caps *nib_device_caps(const nib_device *device)
{
    return device->caps;
}
