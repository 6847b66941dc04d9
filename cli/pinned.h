/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases that pin a variant which this device cannot have.
 */
#ifndef NIBBLE_CLI_PINNED_H
#define NIBBLE_CLI_PINNED_H

#include "request.h"

/* Plan the request for a device like this one that has all the features, limits and subgroup
 * matrices that there are. NO_VARIANT: the variant refuses the request itself, whatever the device.
 */
nib_status cli_plan_unlimited(nib_context *context, const nib_package *package,
                              const nib_request *request, const nib_caps *caps, nib_error *error);

#endif
