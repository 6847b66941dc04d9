/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefill: more than 8 activation rows.
 *
 * First loop: the activations are normalized and laid out in panels of tile_m rows, cut along K into slices of tile_k
 * columns, slice by slice. Second loop: one item is a block of activation rows times one panel of tile_n weight rows. For
 * each slice of K the weight panel is dequantized once into the first-level cache and used by all activation panels of
 * the block, whose sums stay in the lane's scratch.
 */
#include "solve.h"

#include "base/checked.h"

/* Activation rows that share one dequantized weight panel: few enough that their slice and their sums stay in the second-
 * level cache, many enough that dequantizing costs little. */
enum { BLOCK_ROWS = 512 };

typedef struct prefill_job {
    const nib_cpu_problem *problem;
    const nib_cpu_row *row;
    const nib_cpu_workspace *space;
    size_t m_panels;                     /* of tile_m activation rows */
    size_t block_panels;                 /* activation panels of one block */
    size_t n_panels[NIB_CPU_MAX_WEIGHTS]; /* of tile_n weight rows, for each matrix that is iterated */
    size_t items_per_block;
} prefill_job;

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static size_t block_panels(const nib_cpu_problem *p, const nib_cpu_row *row)
{
    const size_t rows = p->M < BLOCK_ROWS ? p->M : BLOCK_ROWS;
    return divide_up(rows, row->tile_m);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool nib_cpu_prefill_floats(const nib_cpu_problem *p, const nib_cpu_row *row, size_t *x, size_t *lane)
{
    const size_t sums = block_panels(p, row) * row->tile_m * row->tile_n * (p->gated ? 2 : 1);
    size_t rows, padded;
    if (!nib_size_mul(row->tile_m, p->K, &rows) || !nib_size_mul(divide_up(p->M, row->tile_m), row->tile_m, &padded))
        return false;
    /* The first loop needs tile_m rows, the second one weight panel and the sums; they share the lane's memory. */
    const size_t second = sums + row->tile_k * row->tile_n;
    *lane = rows > second ? rows : second;
    return nib_size_mul(padded, p->K, x);
}

/* Activation panel `panel` of the slice that starts at column k0 and has kc columns. */
static float *slice_panel(const prefill_job *job, size_t panel, size_t k0, size_t kc)
{
    return job->space->x + (k0 * job->m_panels + panel * kc) * job->row->tile_m;
}

static float *lane_scratch(const prefill_job *job, size_t lane)
{
    return job->space->lanes + lane * job->space->lane_floats;
}

/* x[rows][K] -> [K][tile_m] in slices; missing rows become zero and are never stored. */
static void pack_rows(const prefill_job *job, size_t panel, const float *x, size_t rows)
{
    const size_t K = job->problem->K, tile_m = job->row->tile_m;
    for (size_t k0 = 0; k0 < K; k0 += job->row->tile_k) {
        const size_t kc = least(job->row->tile_k, K - k0);
        float *to = slice_panel(job, panel, k0, kc);
        for (size_t k = 0; k < kc; k++) {
            for (size_t i = 0; i < tile_m; i++)
                to[k * tile_m + i] = i < rows ? x[i * K + k0 + k] : 0;
        }
    }
}

static void make_panel(void *arg, size_t lane, size_t item)
{
    const prefill_job *job = arg;
    const size_t m0 = item * job->row->tile_m, K = job->problem->K;
    const size_t rows = least(job->row->tile_m, job->problem->M - m0);
    float *x = lane_scratch(job, lane);
    for (size_t i = 0; i < rows; i++) {
        const nib_cpu_norm norm = nib_cpu_norm_of_row(job->problem, m0 + i);
        job->row->normalize(&norm, x + i * K);
    }
    pack_rows(job, item, x, rows);
}

/* Sums of a block of activation panels, of `rows` rows together, with the weight rows at n0. */
static void multiply(const prefill_job *job, const nib_cpu_weights *w, size_t n0, size_t panel0, size_t rows,
                     float *weights, float *sums)
{
    const nib_cpu_row *row = job->row;
    for (size_t k0 = 0; k0 < w->K; k0 += row->tile_k) {
        const size_t kc = least(row->tile_k, w->K - k0);
        row->panel(w, n0, k0, kc, weights);
        for (size_t i = 0; i * row->tile_m < rows; i++)
            row->tile(least(row->tile_m, rows - i * row->tile_m), kc, slice_panel(job, panel0 + i, k0, kc), weights,
                      sums + i * row->tile_m * row->tile_n, k0 > 0);
    }
}

static void multiply_block(void *arg, size_t lane, size_t item)
{
    const prefill_job *job = arg;
    const nib_cpu_problem *p = job->problem;
    const nib_cpu_row *row = job->row;
    const size_t panel0 = item / job->items_per_block * job->block_panels;
    const size_t panels = least(job->block_panels, job->m_panels - panel0);
    item %= job->items_per_block;
    size_t which = 0;
    while (item >= job->n_panels[which])
        item -= job->n_panels[which++];
    const size_t n0 = item * row->tile_n, m0 = panel0 * row->tile_m;

    float *weights = lane_scratch(job, lane);
    float *sums = weights + row->tile_k * row->tile_n;
    float *up = p->gated ? sums + job->block_panels * row->tile_m * row->tile_n : NULL;
    const size_t rows = least(panels * row->tile_m, p->M - m0);
    multiply(job, &p->weights[which], n0, panel0, rows, weights, sums);
    if (up)
        multiply(job, &p->weights[1], n0, panel0, rows, weights, up);

    const size_t columns = least(row->tile_n, p->weights[which].N - n0);
    for (size_t i = 0; i < rows; i++)
        nib_cpu_store_row(p, row, which, m0 + i, n0, sums + i * row->tile_n, up ? up + i * row->tile_n : NULL, columns);
}

void nib_cpu_prefill(const nib_cpu_problem *problem, const nib_cpu_row *row, const nib_cpu_pool *pool,
                     const nib_cpu_workspace *space)
{
    prefill_job job = {.problem = problem, .row = row, .space = space};
    job.m_panels = divide_up(problem->M, row->tile_m);
    job.block_panels = block_panels(problem, row);
    const size_t outputs = problem->gated ? 1 : problem->weight_count;
    for (size_t i = 0; i < outputs; i++) {
        job.n_panels[i] = divide_up(problem->weights[i].N, row->tile_n);
        job.items_per_block += job.n_panels[i];
    }
    nib_cpu_pool_run(pool, job.m_panels, make_panel, &job);
    nib_cpu_pool_run(pool, job.items_per_block * divide_up(job.m_panels, job.block_panels), multiply_block, &job);
}
