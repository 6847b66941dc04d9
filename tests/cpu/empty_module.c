/* SPDX-License-Identifier: Apache-2.0
 *
 * A shared library that is no backend module.
 */
extern const int nib_nothing;
const int nib_nothing = 1;
