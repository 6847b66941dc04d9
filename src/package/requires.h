/* SPDX-License-Identifier: Apache-2.0
 *
 * The device features and limits a manifest may require (format D.1, D.2).
 */
#ifndef NIB_PACKAGE_REQUIRES_H
#define NIB_PACKAGE_REQUIRES_H

#include "base/str.h"

bool nib_is_feature_name(nib_str name);
size_t nib_feature_name_count(void);
bool nib_is_limit_name(nib_str name);
size_t nib_limit_name_count(void);

#endif
