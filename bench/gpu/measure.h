/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU time and wall time of dispatches, and what the card can do at most.
 */
#ifndef BENCH_GPU_MEASURE_H
#define BENCH_GPU_MEASURE_H

#include "problem.h"

typedef struct bench_timer {
    nib_webgpu_handles gpu;
    WGPUQuerySet queries; /* NULL: the device has no timestamps */
    WGPUBuffer resolved, readable;
    double best_rate; /* of the multiply-adds that show the clock */
} bench_timer;

typedef struct bench_times {
    double gpu, gpu_least, wall, host; /* seconds a call: median and least of the GPU, wall, encoding alone */
} bench_times;

typedef struct bench_ceilings {
    double bytes, fma, matrix; /* a second; matrix 0: the card has no 16x16x16 or 8x8x8 f16 -> f32 configuration */
} bench_ceilings;

bool bench_timer_open(bench_timer *timer, nib_device *device);
void bench_timer_close(bench_timer *timer);

/* Time `repeats` calls in a row, several times. GPU time takes the calls in turn; wall time takes the first one alone, as an
 * application does that runs one model and as the peer is timed. */
nib_status bench_time_calls(bench_timer *timer, nib_call *const *calls, size_t count, size_t repeats, bench_times *out,
                            nib_error *error);

/* Repeats that take about `seconds`. */
size_t bench_repeats(bench_timer *timer, nib_call *const *calls, size_t count, double seconds, nib_error *error);

void bench_measure_ceilings(bench_timer *timer, bench_ceilings *out);

/* A kernel that does nothing but matrix products: its rate drops when the card slows down or is shared. */
double bench_canary(bench_timer *timer);

#endif
