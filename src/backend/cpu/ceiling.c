/* SPDX-License-Identifier: Apache-2.0
 *
 * The ceilings of a roofline: how fast all threads together read memory, and how fast they multiply
 * and add. Each instruction set has a loop of its own, so that what is measured is what the chosen
 * kernel row could reach. This file is compiled with contraction of a * b + c into one instruction.
 */
#include "ceiling.h"

#include <string.h>

#include "backend/backend.h"
#include "base/error.h"

/* ---- multiply and add ---- */

/* Enough independent sums to hide the latency of the instruction, few enough for 16 registers. */
enum { SUMS = 10, FMA_ROUNDS = 1 << 21, ATTEMPTS = 5 };

/* Returns a value that depends on every step, so that none can be left out. */
typedef float (*fma_loop)(size_t rounds, float factor);

#define DEFINE_FMA_LOOP(name, attribute, lanes)                                                    \
    attribute static float name(size_t rounds, float factor)                                       \
    {                                                                                              \
        typedef float vec __attribute__((vector_size((lanes) * sizeof(float))));                   \
        vec sum[SUMS];                                                                             \
        for (int i = 0; i < SUMS; i++)                                                             \
            sum[i] = (vec){0} + (float)i;                                                          \
        const vec a = (vec){0} + factor, b = (vec){0} + 0.25f;                                     \
        for (size_t r = 0; r < rounds; r++) {                                                      \
            for (int i = 0; i < SUMS; i++)                                                         \
                sum[i] = sum[i] * a + b;                                                           \
        }                                                                                          \
        for (int i = 1; i < SUMS; i++)                                                             \
            sum[0] += sum[i];                                                                      \
        return sum[0][0] + sum[0][(lanes)-1];                                                      \
    }

DEFINE_FMA_LOOP(fma_plain, , 4)
/* gcc does not align wide vectors on the stack of 64-bit Windows. */
#if defined(__x86_64__) && !defined(_WIN32)
#define HAVE_WIDE_LOOPS 1
#else
#define HAVE_WIDE_LOOPS 0
#endif
#if HAVE_WIDE_LOOPS
DEFINE_FMA_LOOP(fma_avx2, __attribute__((target("avx2,fma"))), 8)
DEFINE_FMA_LOOP(fma_avx512, __attribute__((target("avx512f,fma"))), 16)
#endif

typedef struct fma_row {
    unsigned needs;
    fma_loop loop;
    size_t lanes;
} fma_row;

/* Widest first. */
static const fma_row fma_rows[] = {
#if HAVE_WIDE_LOOPS
    {NIB_CPU_AVX512, fma_avx512, 16},
    {NIB_CPU_AVX2, fma_avx2, 8},
#endif
    {0, fma_plain, 4},
};

/* The loop for what the kernel row may use: AVX-VNNI and the like come with the plain set below
 * them. */
static const fma_row *choose_fma(const nib_cpu_row *row)
{
    const fma_row *best = fma_rows;
    while ((best->needs & ~row->needs) != 0)
        best++;
    return best;
}

typedef struct fma_work {
    const fma_row *row;
    float factor;
    float *results; /* [lanes of the pool] */
} fma_work;

static void run_fma(void *arg, size_t lane, size_t item)
{
    const fma_work *work = arg;
    (void)lane;
    work->results[item] = work->row->loop(FMA_ROUNDS, work->factor);
}

static nib_status measure_flops(const nib_allocator *allocator, const nib_cpu_row *row,
                                const nib_cpu_pool *pool, double *out, nib_error *error)
{
    fma_work work = {.row = choose_fma(row), .factor = 0.5f};
    work.results = nib_allocate(allocator, pool->lanes, sizeof *work.results);
    if (!work.results)
        return nib_fail_memory(error);
    double best = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        const double start = nib_seconds();
        nib_cpu_pool_run(pool, pool->lanes, run_fma, &work);
        const double seconds = nib_seconds() - start;
        const double flops =
            2.0 * SUMS * FMA_ROUNDS * (double)work.row->lanes * (double)pool->lanes;
        best = seconds > 0 && flops / seconds > best ? flops / seconds : best;
    }
    *out = best;
    nib_release(allocator, work.results, pool->lanes, sizeof *work.results);
    return NIB_OK;
}

/* ---- memory ---- */

/* More than the last cache of most machines; read in pieces that threads draw. */
enum { READ_BYTES = 256 << 20, PIECE_BYTES = 1 << 20, PIECES = READ_BYTES / PIECE_BYTES };

typedef struct read_work {
    uint64_t *words;
    uint64_t *sums; /* [PIECES] */
} read_work;

/* Written first by the thread that will likely read it: on a machine with several memories it then
 * lies near. */
static void touch_piece(void *arg, size_t lane, size_t item)
{
    const read_work *work = arg;
    (void)lane;
    memset((char *)work->words + item * PIECE_BYTES, (int)item | 1, PIECE_BYTES);
}

static void read_piece(void *arg, size_t lane, size_t item)
{
    const read_work *work = arg;
    const uint64_t *words = work->words + item * (PIECE_BYTES / sizeof *words);
    uint64_t sum[8] = {0};
    (void)lane;
    for (size_t i = 0; i < PIECE_BYTES / sizeof *words; i += 8) {
        for (size_t k = 0; k < 8; k++)
            sum[k] += words[i + k];
    }
    work->sums[item] = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static double time_reads(const nib_cpu_pool *pool, read_work *work)
{
    double best = 0;
    nib_cpu_pool_run(pool, PIECES, touch_piece, work);
    for (int i = 0; i < ATTEMPTS; i++) {
        const double start = nib_seconds();
        nib_cpu_pool_run(pool, PIECES, read_piece, work);
        const double seconds = nib_seconds() - start;
        best = seconds > 0 && READ_BYTES / seconds > best ? READ_BYTES / seconds : best;
    }
    return best;
}

static nib_status measure_bandwidth(const nib_allocator *allocator, const nib_cpu_pool *pool,
                                    double *out, nib_error *error)
{
    read_work work = {.words = nib_allocate(allocator, READ_BYTES, 1),
                      .sums = nib_allocate(allocator, PIECES, 8)};
    nib_status status = NIB_OK;
    if (work.words && work.sums)
        *out = time_reads(pool, &work);
    else
        status = nib_fail_memory(error);
    nib_release(allocator, work.words, READ_BYTES, 1);
    nib_release(allocator, work.sums, PIECES, 8);
    return status;
}

nib_status nib_cpu_measure_ceilings(const nib_allocator *allocator, const nib_cpu_row *row,
                                    const nib_cpu_pool *pool, nib_ceilings *out, nib_error *error)
{
    *out = (nib_ceilings){0};
    NIB_TRY(measure_bandwidth(allocator, pool, &out->bytes_per_second, error));
    return measure_flops(allocator, row, pool, &out->flops_per_second, error);
}
