/* SPDX-License-Identifier: Apache-2.0
 *
 * When the device fails: the status sticks, every later call returns it, nothing hangs, nothing aborts.
 */
#include "gpu_test.h"

static nib_tensor *new_tensor(nib_device *device, const char *text)
{
    const nib_tensor_desc desc = desc_of(text);
    nib_tensor *tensor;
    ASSERT_OK(nib_webgpu_tensor_create(device, &desc, NIB_WEBGPU_NATURAL, &tensor, &error));
    return tensor;
}

static void a_loss_sticks(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *device = open_gpu(context);
    nib_tensor *tensor = new_tensor(device, "float32[64]");
    float values[64] = {0};
    wgpuDeviceForceLoss(gpu_of(device)->device, WGPUDeviceLostReason_Unknown, nib_wgpu_text("pulled the plug"));
    for (int i = 0; i < 2; i++) {
        ASSERT_FAILS(nib_webgpu_tensor_read(device, tensor, values, sizeof values, &error), NIB_DEVICE_LOST,
                     "pulled the plug");
        ASSERT_FAILS(nib_webgpu_tensor_write(device, tensor, values, sizeof values, &error), NIB_DEVICE_LOST, "lost");
        ASSERT_FAILS(nib_webgpu_wait(device, &error), NIB_DEVICE_LOST, "lost");
        ASSERT_FAILS(nib_webgpu_device_status(device, &error), NIB_DEVICE_LOST, "lost");
        ASSERT_FAILS(nib_webgpu_device_recover(device, &error), NIB_DEVICE_LOST, "lost");
    }
    nib_tensor *other;
    const nib_tensor_desc desc = desc_of("float32[4]");
    ASSERT_FAILS(nib_webgpu_tensor_create(device, &desc, NIB_WEBGPU_NATURAL, &other, &error), NIB_DEVICE_LOST, "lost");
    nib_tensor_free(tensor);
    nib_device_free(device);
    nib_context_free(context);
}

static void an_error_outside_our_calls_sticks_until_recovery(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *device = open_gpu(context);
    nib_tensor *tensor = new_tensor(device, "float32[4]");
    float values[4] = {0};
    wgpuDeviceInjectError(gpu_of(device)->device, WGPUErrorType_Validation, nib_wgpu_text("somebody erred"));
    wgpuDeviceTick(gpu_of(device)->device);
    ASSERT_FAILS(nib_webgpu_tensor_read(device, tensor, values, sizeof values, &error), NIB_DEVICE, "somebody erred");
    ASSERT_FAILS(nib_webgpu_tensor_read(device, tensor, values, sizeof values, &error), NIB_DEVICE, "somebody erred");
    ASSERT_OK(nib_webgpu_device_recover(device, &error));
    ASSERT_OK(nib_webgpu_tensor_read(device, tensor, values, sizeof values, &error));

    wgpuDeviceInjectError(gpu_of(device)->device, WGPUErrorType_OutOfMemory, nib_wgpu_text("no room"));
    wgpuDeviceTick(gpu_of(device)->device);
    ASSERT_FAILS(nib_webgpu_wait(device, &error), NIB_OUT_OF_MEMORY, "no room");
    ASSERT_OK(nib_webgpu_device_recover(device, &error));
    nib_tensor_free(tensor);
    nib_device_free(device);
    nib_context_free(context);
}

static void an_error_inside_a_scope_is_returned(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *device = open_gpu(context);
    nib_wgpu_device *gpu = gpu_of(device);
    nib_wgpu_scope_begin(gpu);
    wgpuDeviceInjectError(gpu->device, WGPUErrorType_Validation, nib_wgpu_text("bad\nthing  happened"));
    ASSERT_FAILS(nib_wgpu_scope_end(gpu, "doing something", &error), NIB_DEVICE,
                 "doing something: bad thing happened");
    ASSERT_OK(nib_webgpu_device_status(device, &error));
    nib_wgpu_scope_begin(gpu);
    wgpuDeviceInjectError(gpu->device, WGPUErrorType_OutOfMemory, nib_wgpu_text("too much"));
    ASSERT_FAILS(nib_wgpu_scope_end(gpu, "allocating", &error), NIB_OUT_OF_MEMORY, "too much");
    ASSERT_FAILS(nib_webgpu_device_status(device, &error), NIB_OUT_OF_MEMORY, "too much"); /* sticks */
    nib_device_free(device);
    nib_context_free(context);
}

static void never_answers(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *wait, void *unused)
{
    (void)unused;
    nib_wgpu_wait_answer(wait, (int)status, 0, NULL, message);
}

/* A wait without an answer ends; the answer may come later, after the asker has gone. */
static void a_wait_ends_in_time(void **state)
{
    (void)state;
    nib_context *context = new_context();
    nib_device *device = open_gpu(context);
    nib_wgpu_device *gpu = gpu_of(device);
    nib_webgpu_set_timeout(device, 50);
    gpu->sync.timed = false; /* poll: no future stands behind this wait */
    nib_wgpu_wait *wait = nib_wgpu_wait_new(&gpu->sync);
    const WGPUFuture unknown = {.id = 0};
    ASSERT_FAILS(nib_wgpu_wait_for(&gpu->sync, unknown, wait, "waiting for nothing", &error), NIB_TIMEOUT,
                 "waiting for nothing: the device did not answer within 50 ms");
    nib_wgpu_wait_drop(wait);
    never_answers(WGPUQueueWorkDoneStatus_Success, nib_wgpu_text("late"), wait, NULL);
    nib_webgpu_set_timeout(device, 0);
    ASSERT_OK(nib_webgpu_wait(device, &error)); /* polling finds real answers too */
    gpu->sync.timed = true;
    ASSERT_OK(nib_webgpu_wait(device, &error));
    nib_device_free(device);
    nib_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_sticks),
        cmocka_unit_test(an_error_outside_our_calls_sticks_until_recovery),
        cmocka_unit_test(an_error_inside_a_scope_is_returned),
        cmocka_unit_test(a_wait_ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
