/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIB_BACKEND_CPU_DETECT_H
#define NIB_BACKEND_CPU_DETECT_H

/* NIB_CPU_* bits of this processor that the operating system supports too. */
unsigned nib_cpu_detect(void);

#endif
