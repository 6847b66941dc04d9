/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend module of another build: the right symbol, the wrong interface number.
 */
#include <stdint.h>

extern const uint32_t nib_backend_webgpu[64];
const uint32_t nib_backend_webgpu[64] = {9999};
