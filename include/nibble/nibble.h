/* SPDX-License-Identifier: Apache-2.0
 *
 * nibble: native WebGPU kernel packages. The shortest useful program:
 *
 *     nib_context *context;    nib_context_create(NULL, &context, &error);
 *     nib_package *package;    nib_package_load(context, "kernels/com.microsoft.MatMulBnb4", NULL, &package, &error);
 *     nib_device *device;      nib_device_open(context, NULL, &device, &error);
 *     nib_plan *plan;          nib_plan_create(package, &request, nib_device_caps(device), &plan, &error);
 *     nib_call *call;          nib_call_prepare(device, plan, NULL, &call, &error);
 *     nib_call_bind(call, "A", a, &error); ...
 *     nib_call_run(call, &error);
 *     const float *y = nib_tensor_data(nib_call_tensor(call, "Y"));
 *
 * examples/run.c is the whole program.
 *
 * Arguments. No pointer may be NULL unless its comment says so; `error`, and what a ..._free function takes, always may.
 * Most other NULLs are refused with NIB_INVALID_ARGUMENT, but a NULL `out` is not checked for.
 */
#ifndef NIBBLE_H
#define NIBBLE_H

#include "nibble/context.h"
#include "nibble/device.h"
#include "nibble/file.h"
#include "nibble/lang.h"
#include "nibble/package.h"
#include "nibble/plan.h"
#include "nibble/quant.h"
#include "nibble/status.h"
#include "nibble/tensor.h"

#endif
