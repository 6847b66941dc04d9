/* SPDX-License-Identifier: Apache-2.0 */
#include "dlfcn.h"

#include <windows.h>

void *dlopen(const char *file, int flags)
{
    (void)flags;
    return (void *)LoadLibraryA(file);
}

void *dlsym(void *module, const char *name)
{
    return (void *)(uintptr_t)GetProcAddress((HMODULE)module, name);
}

int dlclose(void *module)
{
    return FreeLibrary((HMODULE)module) ? 0 : -1;
}

const char *dlerror(void)
{
    return "there is no such module, or it cannot be loaded";
}

/* The folder of the library is where the system looks first anyway. */
int dladdr(const void *address, Dl_info *info)
{
    (void)address;
    info->dli_fname = NULL;
    return 0;
}
