/* SPDX-License-Identifier: Apache-2.0 */
#include "solve.h"

#include <stdint.h>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/blocks.h"

enum { ALIGN_BYTES = 64, ALIGN_FLOATS = 16 };

nib_cpu_weights nib_cpu_nbits(size_t N, size_t K, int bits, size_t block, bool half_scales)
{
    const size_t blocks = nib_nbits_block_count(K, block);
    return (nib_cpu_weights){.half_scales = half_scales, .bits = bits, .N = N, .K = K, .block = block,
                             .blocks = blocks, .row_bytes = blocks * nib_nbits_blob_bytes(bits, block)};
}

nib_cpu_weights nib_cpu_bnb4(size_t N, size_t K, int quant_type, size_t block, bool half_scales)
{
    return (nib_cpu_weights){.half_scales = half_scales, .codebook = nib_bnb4_codebooks[quant_type], .bits = 4,
                             .N = N, .K = K, .block = block};
}

static bool is_decode(const nib_cpu_problem *p, const nib_cpu_row *row)
{
    return p->M <= NIB_CPU_DECODE_ROWS && row->streams(&p->weights[0]);
}

const char *nib_cpu_method(const nib_cpu_problem *problem, const nib_cpu_row *row)
{
    return is_decode(problem, row) ? "decode" : "prefill";
}

static bool decode_floats(const nib_cpu_problem *p, const nib_cpu_row *row, size_t *x, size_t *arranged)
{
    return nib_size_mul(p->M, p->K, x) && nib_size_mul(p->M, row->arranged_floats(&p->weights[0]), arranged);
}

/* Sum up aligned parts, in floats. */
static bool total_bytes(size_t x, size_t arranged, size_t lane, size_t lanes, size_t *bytes)
{
    size_t all_lanes, sum;
    return nib_size_mul(lane, lanes, &all_lanes) && nib_size_add(x, arranged, &sum) &&
           nib_size_add(sum, all_lanes, &sum) && nib_size_add(sum, ALIGN_FLOATS, &sum) &&
           nib_size_mul(sum, sizeof(float), bytes);
}

nib_status nib_cpu_workspace_make(nib_cpu_workspace *space, const nib_allocator *allocator, const nib_cpu_row *row,
                                  const nib_cpu_pool *pool, const nib_cpu_problem *p, nib_error *error)
{
    *space = (nib_cpu_workspace){.allocator = allocator};
    size_t x, arranged = 0, lane = 0;
    const bool fits = is_decode(p, row) ? decode_floats(p, row, &x, &arranged) : nib_cpu_prefill_floats(p, row, &x, &lane);
    if (!fits || !nib_size_align(x, ALIGN_FLOATS, &x) || !nib_size_align(arranged, ALIGN_FLOATS, &arranged) ||
        !nib_size_align(lane, ALIGN_FLOATS, &lane) || !total_bytes(x, arranged, lane, pool->lanes, &space->bytes))
        return nib_fail(error, NIB_LIMIT, "the scratch memory for %zu rows of %zu activations is too large", p->M, p->K);
    space->memory = nib_allocate(allocator, space->bytes, 1);
    if (!space->memory)
        return nib_fail_memory(error);
    char *start = space->memory;
    start += (size_t)(-(uintptr_t)start % ALIGN_BYTES);
    space->x = (float *)(void *)start;
    space->arranged = space->x + x;
    space->lanes = space->arranged + arranged;
    space->lane_floats = lane;
    return NIB_OK;
}

void nib_cpu_workspace_free(nib_cpu_workspace *space)
{
    nib_release(space->allocator, space->memory, space->bytes, 1);
    space->memory = NULL;
}

/* Pointer to element i of a tensor of the problem's type; NULL stays NULL. */
static const void *at(const nib_cpu_problem *p, const void *array, size_t i)
{
    return array ? (const char *)array + i * (p->half ? 2 : 4) : NULL;
}

static void *at_output(const nib_cpu_problem *p, void *array, size_t i)
{
    return array ? (char *)array + i * (p->half ? 2 : 4) : NULL;
}

nib_cpu_norm nib_cpu_norm_of_row(const nib_cpu_problem *p, size_t m)
{
    return (nib_cpu_norm){
        .a = at(p, p->a, m * p->K),
        .skip = at(p, p->skip, m * p->K),
        .residual = at_output(p, p->residual, m * p->K),
        .gain = p->gain,
        .half = p->half,
        .epsilon = p->epsilon,
        .K = p->K,
    };
}

void nib_cpu_store_row(const nib_cpu_problem *p, const nib_cpu_row *row, size_t which, size_t m, size_t n,
                       const float *sums, const float *up, size_t count)
{
    const nib_cpu_finish finish = {
        .up = up,
        .bias = at(p, p->bias[which], n),
        .up_bias = up ? at(p, p->bias[which + 1], n) : NULL,
        .out = at_output(p, p->out[which], m * p->weights[which].N + n),
        .half = p->half,
    };
    row->finish(&finish, sums, count);
}

void nib_cpu_solve(const nib_cpu_problem *problem, const nib_cpu_row *row, const nib_cpu_pool *pool,
                   const nib_cpu_workspace *space)
{
    if (problem->M == 0)
        return;
    if (is_decode(problem, row))
        nib_cpu_decode(problem, row, pool, space);
    else
        nib_cpu_prefill(problem, row, pool, space);
}
