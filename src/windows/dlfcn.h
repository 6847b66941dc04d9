/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading modules, as far as backend/registry.c does it.
 */
#ifndef NIB_WINDOWS_DLFCN_H
#define NIB_WINDOWS_DLFCN_H

#define RTLD_NOW   0
#define RTLD_LOCAL 0

typedef struct Dl_info {
    const char *dli_fname;
} Dl_info;

void *dlopen(const char *file, int flags);
void *dlsym(void *module, const char *name);
int dlclose(void *module);
const char *dlerror(void);
int dladdr(const void *address, Dl_info *info);

#endif
