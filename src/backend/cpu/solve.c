/* SPDX-License-Identifier: Apache-2.0 */
#include "solve.h"

#include <stdint.h>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/blocks.h"

enum { ALIGN_BYTES = 64 };

nib_cpu_weights nib_cpu_nbits(size_t N, size_t K, int bits, size_t block, bool half_scales)
{
    const size_t blocks = nib_nbits_block_count(K, block);
    return (nib_cpu_weights){.half_scales = half_scales,
                             .bits = bits,
                             .N = N,
                             .K = K,
                             .block = block,
                             .blocks = blocks,
                             .row_bytes = blocks * (block * (size_t)bits / 8)};
}

nib_cpu_weights nib_cpu_bnb4(size_t N, size_t K, int quant_type, size_t block, bool half_scales)
{
    return (nib_cpu_weights){.half_scales = half_scales,
                             .codebook = nib_bnb4_codebooks[quant_type],
                             .bits = 4,
                             .N = N,
                             .K = K,
                             .block = block};
}

nib_cpu_method nib_cpu_choose_method(const nib_cpu_problem *p, const nib_cpu_row *row)
{
    const nib_cpu_weights *w = &p->weights[0]; /* all matrices of a problem have one format */
    if (p->M <= NIB_CPU_DECODE_ROWS) {
        if (p->int8 && row->gemv8 && row->gemv8->takes(w))
            return (nib_cpu_method){.gemv = row->gemv8, .int8 = true};
        for (size_t i = 0; i < NIB_CPU_MAX_GEMV && row->gemv[i]; i++) {
            if (row->gemv[i]->takes(w))
                return (nib_cpu_method){.gemv = row->gemv[i]};
        }
    }
    if (p->int8 && row->gemm8 && row->gemm8->takes(w))
        return (nib_cpu_method){.gemm = row->gemm8, .int8 = true};
    size_t i = 0;
    while (!row->gemm[i]->takes(w))
        i++;
    return (nib_cpu_method){.gemm = row->gemm[i]};
}

const char *nib_cpu_method_text(const nib_cpu_method *method)
{
    if (method->gemv)
        return method->int8 ? "decode with int8 activations" : "decode";
    return method->int8 ? "prefill with int8 activations" : "prefill";
}

static bool align_sizes(nib_cpu_sizes *sizes, size_t lanes, size_t *bytes)
{
    size_t all_lanes, sum;
    return nib_size_align(sizes->x, ALIGN_BYTES, &sizes->x) &&
           nib_size_align(sizes->packed, ALIGN_BYTES, &sizes->packed) &&
           nib_size_align(sizes->lane, ALIGN_BYTES, &sizes->lane) &&
           nib_size_mul(sizes->lane, lanes, &all_lanes) &&
           nib_size_add(sizes->x, sizes->packed, &sum) && nib_size_add(sum, all_lanes, &sum) &&
           nib_size_add(sum, ALIGN_BYTES, bytes);
}

nib_status nib_cpu_workspace_make(nib_cpu_workspace *space, const nib_allocator *allocator,
                                  const nib_cpu_row *row, const nib_cpu_pool *pool,
                                  const nib_cpu_problem *p, nib_error *error)
{
    *space = (nib_cpu_workspace){.allocator = allocator};
    const nib_cpu_method method = nib_cpu_choose_method(p, row);
    nib_cpu_sizes sizes = {0};
    const bool fits = method.gemv ? nib_cpu_decode_sizes(p, &method, &sizes)
                                  : nib_cpu_prefill_sizes(p, &method, &sizes);
    if (!fits || !align_sizes(&sizes, pool->lanes, &space->bytes))
        return nib_fail(error, NIB_LIMIT,
                        "the scratch memory for %zu rows of %zu activations is too large", p->M,
                        p->K);
    space->memory = nib_allocate(allocator, space->bytes, 1);
    if (!space->memory)
        return nib_fail_memory(error);
    char *start = space->memory;
    start += (size_t)(-(uintptr_t)start % ALIGN_BYTES);
    space->x = (float *)(void *)start;
    space->packed = start + sizes.x;
    space->lanes = space->packed + sizes.packed;
    space->lane_bytes = sizes.lane;
    return NIB_OK;
}

void nib_cpu_workspace_free(nib_cpu_workspace *space)
{
    nib_release(space->allocator, space->memory, space->bytes, 1);
    space->memory = NULL;
}

void nib_cpu_solve(const nib_cpu_problem *problem, const nib_cpu_row *row, const nib_cpu_pool *pool,
                   const nib_cpu_workspace *space)
{
    if (problem->M == 0)
        return;
    const nib_cpu_method method = nib_cpu_choose_method(problem, row);
    if (method.gemv)
        nib_cpu_decode(problem, row, &method, pool, space);
    else
        nib_cpu_prefill(problem, row, &method, pool, space);
}
