/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest way from a kernel package to a result:
 *
 *     example_run kernels/com.microsoft.MatMulBnb4 [cpu|webgpu|auto]
 *
 * quantizes a small random matrix to 4 bits, multiplies with it, and compares with the float product.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <nibble/nibble.h>

enum { M = 2, N = 48, K = 64, BLOCK = 32 };

static nib_error error;

/* Enough for an example: say what went wrong and stop. */
static void check(nib_status status)
{
    char line[2600];
    if (status == NIB_OK)
        return;
    nib_error_format(&error, line, sizeof line);
    fprintf(stderr, "example_run: %s\n", line);
    exit(1);
}

static float noise(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

int main(int argc, char **argv)
{
    static float a[M * K], weight[N * K];
    unsigned seed = 1;
    for (size_t i = 0; i < M * K; i++)
        a[i] = noise(&seed);
    for (size_t i = 0; i < N * K; i++)
        weight[i] = noise(&seed);

    nib_context *context;
    check(nib_context_create(NULL, &context, &error));

    /* Weights: float to 4 bits. */
    const nib_tensor_desc weight_desc = {.dtype = NIB_FLOAT32, .rank = 2, .dims = {N, K}};
    nib_tensor *weight_tensor, *packed, *absmax;
    check(nib_tensor_borrow(context, &weight_desc, weight, sizeof weight, &weight_tensor, &error));
    check(nib_bnb4_quantize(context, weight_tensor, 1, BLOCK, NIB_FLOAT32, &packed, &absmax, NULL, &error));

    /* Where to run, and the kernel. */
    const nib_device_options options = {.backend = argc > 2 ? argv[2] : "auto"};
    nib_device *device;
    nib_package *package;
    check(nib_device_open(context, &options, &device, &error));
    check(nib_package_load(context, argc > 1 ? argv[1] : "kernels/com.microsoft.MatMulBnb4", NULL, &package, &error));

    /* What is asked for: the shapes and the attributes. */
    const nib_tensor_desc a_desc = {.dtype = NIB_FLOAT32, .rank = 2, .dims = {M, K}};
    const nib_named_desc tensors[] = {
        {"A", a_desc}, {"B", *nib_tensor_describe(packed)}, {"absmax", *nib_tensor_describe(absmax)}};
    const nib_named_scalar attributes[] = {{.name = "N", .number = N},
                                           {.name = "K", .number = K},
                                           {.name = "block_size", .number = BLOCK},
                                           {.name = "quant_type", .number = 1}};
    const nib_request request = {.tensors = tensors, .tensor_count = 3, .attributes = attributes, .attribute_count = 4};
    nib_plan *plan;
    nib_call *call;
    check(nib_plan_create(package, &request, nib_device_caps(device), &plan, &error));
    check(nib_call_prepare(device, plan, NULL, &call, &error));

    /* Bind and run; the call makes its output itself. */
    nib_tensor *a_tensor;
    check(nib_tensor_borrow(context, &a_desc, a, sizeof a, &a_tensor, &error));
    nib_tensor_set_constant(packed, true);
    nib_tensor_set_constant(absmax, true);
    check(nib_call_bind(call, "A", a_tensor, &error));
    check(nib_call_bind(call, "B", packed, &error));
    check(nib_call_bind(call, "absmax", absmax, &error));
    check(nib_call_run(call, &error));
    const float *y = nib_tensor_data(nib_call_tensor(call, "Y"));

    double worst = 0;
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double exact = 0;
            for (size_t k = 0; k < K; k++)
                exact += (double)a[m * K + k] * (double)weight[n * K + k];
            worst = fmax(worst, fabs((double)y[m * N + n] - exact));
        }
    }
    printf("%s\n%s\n", nib_device_description(device), nib_call_description(call));
    printf("Y[0] = %g %g %g ...; furthest from the float product: %.3f\n", (double)y[0], (double)y[1], (double)y[2], worst);

    nib_call_free(call);
    nib_plan_free(plan);
    nib_package_free(package);
    nib_device_free(device);
    nib_tensor_free(a_tensor);
    nib_tensor_free(weight_tensor);
    nib_tensor_free(packed);
    nib_tensor_free(absmax);
    nib_context_free(context);
    return worst < 2.0 ? 0 : 1; /* 4-bit weights are off by a few percent */
}
