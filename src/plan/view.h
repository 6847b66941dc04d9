/* SPDX-License-Identifier: Apache-2.0
 *
 * The device as expressions see it (package format 3.6), in any arena: a plan keeps its own copy
 * and does not need the capability record afterwards.
 */
#ifndef NIB_PLAN_VIEW_H
#define NIB_PLAN_VIEW_H

#include "base/buf.h"
#include "plan/caps.h"

nib_status nib_caps_view(const nib_caps *caps, nib_arena *arena, nib_value *out, nib_error *error);
/* The device that output inference assumes (format 7.3). */
nib_status nib_caps_default_view(nib_arena *arena, nib_value *out, nib_error *error);

nib_status nib_caps_add_language_feature(nib_caps *caps, const char *name, nib_error *error);

/* "f32-f16-8x8x16" of a normalised subgroup matrix configuration. */
void nib_caps_config_text(nib_value config, nib_buf *out);

#endif
