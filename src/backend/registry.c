/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends there are. The cpu backend is part of the library; the webgpu backend is a module of
 * its own, so that the library needs no Dawn. The module is looked for in this order: the file
 * NIBBLE_WEBGPU_MODULE names, the folder of libnibble, the places where the dynamic loader looks.
 */
#include "registry.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MODULE_FILE   "libnibble-webgpu.so"
#define MODULE_SYMBOL "nib_backend_webgpu"

/* "<folder of this library>/libnibble-webgpu.so"; false when the folder is not known. */
static bool path_beside_library(char *out, size_t out_bytes)
{
    /* Any object of the library will do; in a static build this is the folder of the program. */
    Dl_info info;
    if (!dladdr(&nib_backend_cpu, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash ? (int)(slash - info.dli_fname) + 1 : 0;
    const int length = snprintf(out, out_bytes, "%.*s" MODULE_FILE, folder, info.dli_fname);
    return slash && length > 0 && (size_t)length < out_bytes;
}

/* The reason of the last failure goes to `reason`. */
static void *open_file(const char *file, char *reason, size_t reason_bytes)
{
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        const char *text = dlerror();
        snprintf(reason, reason_bytes, "%s", text ? text : "unknown reason");
    }
    return module;
}

static void *open_module(char *reason, size_t reason_bytes)
{
    const char *chosen = getenv("NIBBLE_WEBGPU_MODULE");
    if (chosen && *chosen)
        return open_file(chosen, reason, reason_bytes);
    char path[4096];
    void *module = NULL;
    if (path_beside_library(path, sizeof path))
        module = open_file(path, reason, reason_bytes);
    return module ? module : open_file(MODULE_FILE, reason, reason_bytes);
}

static nib_status load_webgpu(const nib_backend **out, void **module, nib_error *error)
{
    char reason[1024] = "";
    *module = open_module(reason, sizeof reason);
    if (!*module)
        return nib_fail(error, NIB_NO_DEVICE, "the webgpu backend cannot be loaded: %s", reason);
    const nib_backend *backend = dlsym(*module, MODULE_SYMBOL);
    if (!backend || backend->abi != NIB_BACKEND_ABI) {
        if (backend)
            nib_fail(error, NIB_UNSUPPORTED,
                     "the webgpu backend found is of another build: its interface has number "
                     "%u, this library's has %u",
                     backend->abi, NIB_BACKEND_ABI);
        else
            nib_fail(error, NIB_UNSUPPORTED, "the webgpu module has no symbol " MODULE_SYMBOL);
        nib_backend_unload(*module);
        *module = NULL;
        return NIB_UNSUPPORTED;
    }
    *out = backend;
    return NIB_OK;
}

nib_status nib_backend_load(const char *name, const nib_backend **out, void **module,
                            nib_error *error)
{
    *out = NULL;
    *module = NULL;
    if (strcmp(name, "cpu") == 0) {
        *out = &nib_backend_cpu;
        return NIB_OK;
    }
    if (strcmp(name, "webgpu") == 0)
        return load_webgpu(out, module, error);
    return nib_fail(error, NIB_INVALID_ARGUMENT,
                    "there is no backend \"%s\"; there are auto, cpu and webgpu", name);
}

void nib_backend_unload(void *module)
{
    if (module)
        dlclose(module);
}
