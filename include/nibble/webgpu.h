/* SPDX-License-Identifier: Apache-2.0
 *
 * The WebGPU backend for applications that use webgpu.h themselves: your device, your buffers, your command encoder.
 * Link with nibble-webgpu (which brings nibble's WebGPU backend and needs Dawn) beside nibble.
 *
 *     nib_webgpu_handles mine = {instance, adapter, device, queue, true};
 *     nib_webgpu_device_wrap(context, &mine, &gpu, &error);
 *     nib_plan_create(package, &request, nib_device_caps(gpu), &plan, &error);
 *     nib_call_prepare(gpu, plan, NULL, &call, &error);                          (slow: compiles)
 *     nib_webgpu_tensor_wrap(gpu, buffer, offset, size, &desc, 0, &a, &error);   (no copy)
 *     nib_call_bind(call, "A", a, &error); ...
 *     nib_webgpu_call_encode(call, encoder, &error);                             (fast: no submit, no wait)
 *
 * examples/own_device.c is the whole program.
 *
 * Ownership. nibble takes a reference to each handle it is given and drops it again; it destroys only what it made
 * itself. Freeing a wrapped device leaves your device alive, and freeing a wrapped tensor leaves your buffer alive.
 *
 * Tensors. A tensor with host memory (nibble/tensor.h) gets a copy on the device when a call that it is bound to first
 * runs or is encoded. nib_call_run sends host inputs to the device again on every run, because the host memory may have
 * changed; nib_tensor_set_constant(tensor, true) promises that it does not, and the copy is then made once and stays
 * until the tensor or the device is freed: do this for weights (those read from files have the promise already). Encoding never copies a second time: after changing
 * host memory call nib_webgpu_tensor_write. A tensor made here lives on the device only; nib_tensor_data gives NULL.
 *
 * In device memory small integers take 32 bits each (format 5.1), except in the packed layout: uint8, four a word.
 *
 * Errors are values here as everywhere. A lost device, running out of device memory, and an error that the device
 * reported outside of any call of ours stick to the device: every later call returns them, nothing stale is handed out.
 * nib_webgpu_device_recover clears them, except a loss.
 *
 * Large weights. A tensor that exceeds the device's maxStorageBufferBindingSize is refused by name, with its bytes and the
 * limit, before anything is allocated; except that nib_call_prepare cuts calls of MatMulBnb4, MatMulNBitsMlp and
 * MatMulNBitsQkv into ranges of output columns when that makes every binding fit (nib_call_description tells). The result
 * is the same bit for bit.
 *
 * Threads. One device, and the tensors and calls on it, may be used from several threads only with an external lock.
 * nibble never calls you back. Waiting may run callbacks of yours that were registered on the same WGPUInstance with
 * WGPUCallbackMode_AllowProcessEvents.
 *
 * Waiting. Every wait ends after the device's timeout (nib_webgpu_set_timeout) with NIB_TIMEOUT.
 */
#ifndef NIBBLE_WEBGPU_H
#define NIBBLE_WEBGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <webgpu/webgpu.h>

#include "nibble/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices ---- */

typedef struct nib_webgpu_handles {
    WGPUInstance instance; /* needed for waiting */
    WGPUAdapter adapter;   /* may be NULL */
    WGPUDevice device;
    WGPUQueue queue;       /* NULL: the device's default queue */
    bool timed_wait_any;   /* the instance was created with that feature; without it, waiting polls */
} nib_webgpu_handles;

/* Use a device of yours. Variants are chosen by the features and limits that this device was created with, not by
 * what its adapter could do. No callback is installed on it: errors that arrive outside of nibble's own calls go to
 * your uncaptured-error callback.
 * errors: INVALID_ARGUMENT, DEVICE_LOST, DEVICE, OUT_OF_MEMORY | owns: *out (nib_device_free, after its calls) */
NIB_API NIB_CHECKED nib_status nib_webgpu_device_wrap(nib_context *context,
                                                      const nib_webgpu_handles *handles,
                                                      nib_device **out, nib_error *error);

/* The handles behind a WebGPU device, whoever made them; borrowed, valid until the device is freed.
 * errors: INVALID_ARGUMENT (another backend) */
NIB_API NIB_CHECKED nib_status nib_webgpu_device_handles(const nib_device *device,
                                                         nib_webgpu_handles *out, nib_error *error);

/* The sticky status of the device: OK, DEVICE_LOST, OUT_OF_MEMORY or DEVICE, with the device's words in `error`. */
NIB_API NIB_CHECKED nib_status nib_webgpu_device_status(nib_device *device, nib_error *error);
/* Forget a sticky error and go on. errors: DEVICE_LOST (nothing helps: free the device and open another) */
NIB_API NIB_CHECKED nib_status nib_webgpu_device_recover(nib_device *device, nib_error *error);

/* How long any wait may take; 120,000 ms unless set. 0 means the same. */
NIB_API void nib_webgpu_set_timeout(nib_device *device, uint32_t milliseconds);

/* Wait until all work submitted to the queue so far, yours too, is finished.
 * errors: TIMEOUT, DEVICE_LOST, OUT_OF_MEMORY, DEVICE */
NIB_API NIB_CHECKED nib_status nib_webgpu_wait(nib_device *device, nib_error *error);

/* Every adapter of this machine as a JSON array, best first: backend ("webgpu"), name, kind
 * ("discrete", "integrated", "unknown", "software"), index, vendor, architecture, driver, api ("Vulkan"), ids, and `caps`, an object that nib_caps_parse reads: what a device
 * that nibble opens there would have. errors: NO_DEVICE, OUT_OF_MEMORY | owns: *text (nib_text_free) */
NIB_API NIB_CHECKED nib_status nib_webgpu_devices_json(nib_context *context, char **text,
                                                       nib_error *error);

/* ---- tensors ---- */

typedef enum nib_webgpu_layout {
    NIB_WEBGPU_NATURAL, /* float16 2 bytes, float32 and 32-bit integers 4, int64 8, smaller integers widened to 4 */
    NIB_WEBGPU_PACKED   /* uint8 only: four elements a 32-bit word; what ports with `packed` take */
} nib_webgpu_layout;

/* A tensor in fresh, zeroed device memory (usage Storage | CopySrc | CopyDst).
 * errors: INVALID_ARGUMENT, LIMIT (names bytes and limit), OUT_OF_MEMORY, DEVICE, DEVICE_LOST
 * owns: *out (nib_tensor_free, any time; freeing the device first is fine too) */
NIB_API NIB_CHECKED nib_status nib_webgpu_tensor_create(nib_device *device,
                                                        const nib_tensor_desc *desc,
                                                        nib_webgpu_layout layout, nib_tensor **out,
                                                        nib_error *error);

/* A tensor that is the `size` bytes at `offset` of your buffer. Checked: the buffer has usage Storage (and, for
 * nib_webgpu_tensor_read and _write, CopySrc and CopyDst when those are called); the range lies inside it; `offset` is a
 * multiple of the device's minStorageBufferOffsetAlignment; `size` holds the elements rounded up to 4 bytes (6 bytes of
 * float16 need 8); the binding is within maxStorageBufferBindingSize. Nothing outside the rounded range is written.
 * nibble keeps a reference to the buffer until the tensor or the device is freed.
 * errors: INVALID_ARGUMENT, LIMIT, OUT_OF_MEMORY | owns: *out (nib_tensor_free) */
NIB_API NIB_CHECKED nib_status nib_webgpu_tensor_wrap(nib_device *device, WGPUBuffer buffer,
                                                      uint64_t offset, uint64_t size,
                                                      const nib_tensor_desc *desc,
                                                      nib_webgpu_layout layout, nib_tensor **out,
                                                      nib_error *error);

/* Where a tensor lives on the device: the buffer (borrowed, valid until tensor or device is freed) and the byte range.
 * For a tensor with host memory this is its copy in that layout, made (and filled) now if there is none yet.
 * errors: INVALID_ARGUMENT, LIMIT, OUT_OF_MEMORY, DEVICE, DEVICE_LOST */
NIB_API NIB_CHECKED nib_status nib_webgpu_tensor_buffer(nib_device *device, nib_tensor *tensor,
                                                        nib_webgpu_layout layout,
                                                        WGPUBuffer *buffer, uint64_t *offset,
                                                        uint64_t *size, nib_error *error);

/* Set all elements from host memory in host form (tightly packed, as in nib_tensor_data), at any alignment; `bytes` must
 * be the tensor's host size. data NULL: from the tensor's own host memory, into every copy on this device. Ordered
 * before work that is submitted later. errors: INVALID_ARGUMENT, REQUEST, DEVICE, DEVICE_LOST, OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_webgpu_tensor_write(nib_device *device, nib_tensor *tensor,
                                                       const void *data, size_t bytes,
                                                       nib_error *error);
/* Read all elements in host form, after the work submitted so far. data NULL: into the tensor's own host memory.
 * errors: INVALID_ARGUMENT, TIMEOUT, DEVICE, DEVICE_LOST, OUT_OF_MEMORY */
NIB_API NIB_CHECKED nib_status nib_webgpu_tensor_read(nib_device *device, nib_tensor *tensor,
                                                      void *data, size_t bytes, nib_error *error);

/* ---- calls ---- */

/* Prepare several calls at once: all shaders compile in parallel, and each pipeline is compiled once however many calls
 * need it. On failure every calls[i] is NULL. errors: as nib_call_prepare
 * owns: calls[0..count) (nib_call_free) */
NIB_API NIB_CHECKED nib_status nib_webgpu_prepare(nib_device *device, const nib_plan *const *plans,
                                                  size_t count, nib_call **calls, nib_error *error);

/* Do everything that the first run or encoding of a bound call would do: allocate outputs that are not bound, copy host
 * inputs that the device does not have, make bind groups. errors: REQUEST (an input is not bound), ALIAS, LIMIT,
 * OUT_OF_MEMORY, DEVICE, DEVICE_LOST */
NIB_API NIB_CHECKED nib_status nib_webgpu_call_upload(nib_call *call, nib_error *error);

/* Record the call's dispatches in a command encoder of yours, as one compute pass. Nothing is submitted, nothing is
 * waited for, no memory is allocated (after nib_webgpu_call_upload or a first encoding). Tensors must stay as they are
 * until your command buffer has been executed. Outputs stay on the device: nib_webgpu_tensor_read or your own copy.
 * A call is a fixed list of dispatches, so it may be encoded many times. Calls share scratch memory: encode and submit
 * them in the same order, each whole call before the next.
 * errors: REQUEST, ALIAS, UNSUPPORTED (a pass wants to wait for the queue: submitAfter), DEVICE_LOST, and on the first
 * encoding those of nib_webgpu_call_upload */
NIB_API NIB_CHECKED nib_status nib_webgpu_call_encode(nib_call *call, WGPUCommandEncoder encoder,
                                                      nib_error *error);
/* The same inside a compute pass of yours. Pipeline and bind group 0 of the pass are changed. */
NIB_API NIB_CHECKED nib_status nib_webgpu_call_encode_pass(nib_call *call,
                                                           WGPUComputePassEncoder pass,
                                                           nib_error *error);

/* Record `count` calls, in order, in one command buffer and submit it. Does not wait: nib_webgpu_wait, or
 * nib_webgpu_tensor_read. errors: as nib_webgpu_call_encode */
NIB_API NIB_CHECKED nib_status nib_webgpu_submit(nib_device *device, nib_call *const *calls,
                                                 size_t count, nib_error *error);

#ifdef __cplusplus
}
#endif
#endif
