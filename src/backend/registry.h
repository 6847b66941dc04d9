/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIB_BACKEND_REGISTRY_H
#define NIB_BACKEND_REGISTRY_H

#include "backend/backend.h"

/* A backend by name. A module stays loaded until nib_backend_unload(*module).
 * errors: INVALID_ARGUMENT (no such name), NO_DEVICE (its module is not installed), UNSUPPORTED (of
 * another build) */
nib_status nib_backend_load(const char *name, const nib_backend **out, void **module,
                            nib_error *error);
void nib_backend_unload(void *module);

#endif
