/* SPDX-License-Identifier: Apache-2.0 */
#include "ceilings.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- bandwidth ---- */

enum { PIECE = 1 << 18 };

typedef uint64_t words __attribute__((vector_size(64)));

typedef struct reading {
    const char *memory;
    size_t bytes;
    volatile uint64_t sink;
} reading;

static void read_piece(void *arg, size_t lane, size_t item)
{
    (void)lane;
    reading *r = arg;
    const char *from = r->memory + item * PIECE;
    words sums[4] = {{0}};
    for (size_t i = 0; i < PIECE; i += sizeof sums) {
        for (int v = 0; v < 4; v++) {
            words loaded;
            memcpy(&loaded, from + i + (size_t)v * sizeof loaded, sizeof loaded);
            sums[v] ^= loaded;
        }
    }
    r->sink = (sums[0] ^ sums[1] ^ sums[2] ^ sums[3])[0];
}

double bench_read_bandwidth(const nib_cpu_pool *pool, const void *memory, size_t bytes)
{
    reading r = {.memory = memory};
    const size_t pieces = bytes / PIECE;
    const double start = bench_now();
    nib_cpu_pool_run(pool, pieces, read_piece, &r);
    return (double)(pieces * PIECE) / (bench_now() - start);
}

/* ---- multiply-adds ---- */

typedef double (*fma_loop)(size_t rounds);

static fma_loop choose_loop(const char *row)
{
#if defined(__x86_64__)
    if (strncmp(row, "avx512", 6) == 0 || strcmp(row, "amx") == 0)
        return bench_fma_avx512;
    if (strncmp(row, "avx", 3) == 0)
        return bench_fma_avx2;
#endif
    (void)row;
    return bench_fma_scalar;
}

typedef struct burning {
    fma_loop loop;
    double operations[1024];
} burning;

static void burn(void *arg, size_t lane, size_t item)
{
    (void)lane;
    burning *b = arg;
    b->operations[item] = b->loop(1 << 19);
}

double bench_fma_peak(const nib_cpu_pool *pool, const char *row)
{
    burning b = {.loop = choose_loop(row)};
    const size_t items = pool->lanes * 4;
    const double start = bench_now();
    nib_cpu_pool_run(pool, items, burn, &b);
    const double seconds = bench_now() - start;
    double operations = 0;
    for (size_t i = 0; i < items; i++)
        operations += b.operations[i];
    return operations / seconds;
}
