/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefill: more activation rows, or weights that no decode kernel takes.
 *
 * First loop: the activations are normalized and packed in panels of tile_m rows, cut along K into
 * slices of tile_k columns, slice by slice. Second loop: one item is a block of activation rows
 * times one panel of tile_n weight rows. For each slice of K the weight panel is unpacked once into
 * the first-level cache and used by all activation panels of the block, whose sums stay in the
 * lane's scratch.
 */
#include "solve.h"

#include "base/checked.h"

/* Activation rows that share one unpacked weight panel: few enough that their slice and their sums
 * stay in the second- level cache, many enough that unpacking costs little. */
enum { BLOCK_ROWS = 512 };

typedef struct prefill_job {
    const nib_cpu_problem *problem;
    const nib_cpu_row *row;
    const nib_cpu_gemm *gemm;
    const nib_cpu_workspace *space;
    size_t m_panels;     /* of tile_m activation rows */
    size_t block_panels; /* activation panels of one block */
    size_t slice_bytes;  /* of a whole slice of one activation panel */
    size_t
        n_panels[NIB_CPU_MAX_WEIGHTS]; /* of tile_n weight rows, for each matrix that is iterated */
    size_t items_per_block;
} prefill_job;

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t align_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t count_block_panels(const nib_cpu_problem *p, const nib_cpu_gemm *gemm)
{
    return divide_up(least(p->M, BLOCK_ROWS), gemm->tile_m);
}

static size_t sums_bytes(const nib_cpu_problem *p, const nib_cpu_gemm *gemm)
{
    return align_up(count_block_panels(p, gemm) * gemm->tile_m * gemm->tile_n * sizeof(float));
}

bool nib_cpu_prefill_sizes(const nib_cpu_problem *p, const nib_cpu_method *method,
                           nib_cpu_sizes *sizes)
{
    const nib_cpu_gemm *gemm = method->gemm;
    size_t rows, slices;
    if (!nib_size_mul(gemm->tile_m * sizeof(float), p->K, &rows) ||
        !nib_size_mul(divide_up(p->M, gemm->tile_m), divide_up(p->K, gemm->tile_k), &slices))
        return false;
    /* The first loop needs tile_m rows, the second one weight panel and the sums; they share the
     * lane's memory. */
    const size_t second =
        align_up(gemm->panel_bytes(gemm->tile_k)) + sums_bytes(p, gemm) * (p->gated ? 2 : 1);
    sizes->lane = rows > second ? rows : second;
    return nib_size_mul(slices, align_up(gemm->packed_bytes(gemm->tile_k)), &sizes->packed);
}

/* Activation panel `panel` of the slice that starts at column k0. */
static char *packed_slice(const prefill_job *job, size_t panel, size_t k0)
{
    return job->space->packed + (k0 / job->gemm->tile_k * job->m_panels + panel) * job->slice_bytes;
}

static char *lane_scratch(const prefill_job *job, size_t lane)
{
    return job->space->lanes + lane * job->space->lane_bytes;
}

static void make_panel(void *arg, size_t lane, size_t item)
{
    const prefill_job *job = arg;
    const nib_cpu_problem *p = job->problem;
    const nib_cpu_gemm *gemm = job->gemm;
    const size_t m0 = item * gemm->tile_m;
    const size_t rows = least(gemm->tile_m, p->M - m0);
    float *x = (float *)(void *)lane_scratch(job, lane);
    for (size_t i = 0; i < rows; i++) {
        const nib_cpu_norm norm = nib_cpu_norm_of_row(p, m0 + i);
        job->row->normalize(&norm, x + i * p->K);
    }
    for (size_t k0 = 0; k0 < p->K; k0 += gemm->tile_k)
        gemm->pack(&p->weights[0], x + k0, rows, p->K, least(gemm->tile_k, p->K - k0),
                   packed_slice(job, item, k0));
}

/* One item of the second loop. */
typedef struct block {
    size_t which; /* matrix, and output */
    size_t n0, columns;
    size_t panel0, m0, rows;
} block;

/* Store the sums of `count` rows from row m of a block on; `gate` is NULL unless the sums are those
 * of up. */
static void store_rows(const prefill_job *job, const block *b, size_t m, size_t count,
                       const float *gate, const float *sums)
{
    const size_t tile_n = job->gemm->tile_n;
    for (size_t i = m; i < m + count; i++)
        nib_cpu_store_row(job->problem, job->row, b->which, b->m0 + i, b->n0,
                          (gate ? gate : sums) + i * tile_n, gate ? sums + i * tile_n : NULL,
                          b->columns);
}

/* Sums of a block of activation panels with the weight rows at n0. With `store`, rows are stored as
 * soon as they are finished: their sums are then still in the first-level cache, and the stores,
 * which miss it, are written while the next tile is computed. */
static void multiply(const prefill_job *job, const nib_cpu_weights *w, const block *b, void *panel,
                     const float *gate, float *sums, bool store)
{
    const nib_cpu_gemm *gemm = job->gemm;
    for (size_t k0 = 0; k0 < w->K; k0 += gemm->tile_k) {
        const size_t kc = least(gemm->tile_k, w->K - k0);
        gemm->panel(w, b->n0, k0, kc, panel);
        for (size_t m = 0, i = 0; m < b->rows; m += gemm->tile_m, i++) {
            const size_t rows = least(gemm->tile_m, b->rows - m);
            gemm->tile(rows, kc, packed_slice(job, b->panel0 + i, k0), panel,
                       sums + m * gemm->tile_n, k0 > 0);
            if (store && k0 + kc == w->K)
                store_rows(job, b, m, rows, gate, sums);
        }
    }
}

static block find_block(const prefill_job *job, size_t item)
{
    const nib_cpu_gemm *gemm = job->gemm;
    block b = {.panel0 = item / job->items_per_block * job->block_panels};
    item %= job->items_per_block;
    while (item >= job->n_panels[b.which])
        item -= job->n_panels[b.which++];
    b.n0 = item * gemm->tile_n;
    b.columns = least(gemm->tile_n, job->problem->weights[b.which].N - b.n0);
    b.m0 = b.panel0 * gemm->tile_m;
    b.rows = least(job->block_panels * gemm->tile_m, job->problem->M - b.m0);
    return b;
}

static void multiply_block(void *arg, size_t lane, size_t item)
{
    const prefill_job *job = arg;
    const nib_cpu_problem *p = job->problem;
    const nib_cpu_gemm *gemm = job->gemm;
    const block b = find_block(job, item);
    char *scratch = lane_scratch(job, lane);
    float *sums = (float *)(void *)(scratch + align_up(gemm->panel_bytes(gemm->tile_k)));
    multiply(job, &p->weights[b.which], &b, scratch, NULL, sums, !p->gated);
    if (p->gated)
        multiply(job, &p->weights[1], &b, scratch, sums, sums + sums_bytes(p, gemm) / sizeof *sums,
                 true);
}

void nib_cpu_prefill(const nib_cpu_problem *problem, const nib_cpu_row *row,
                     const nib_cpu_method *method, const nib_cpu_pool *pool,
                     const nib_cpu_workspace *space)
{
    prefill_job job = {.problem = problem, .row = row, .gemm = method->gemm, .space = space};
    job.m_panels = divide_up(problem->M, job.gemm->tile_m);
    job.block_panels = count_block_panels(problem, job.gemm);
    job.slice_bytes = align_up(job.gemm->packed_bytes(job.gemm->tile_k));
    const size_t outputs = problem->gated ? 1 : problem->weight_count;
    for (size_t i = 0; i < outputs; i++) {
        job.n_panels[i] = divide_up(problem->weights[i].N, job.gemm->tile_n);
        job.items_per_block += job.n_panels[i];
    }
    nib_cpu_pool_run(pool, job.m_panels, make_panel, &job);
    nib_cpu_pool_run(pool, job.items_per_block * divide_up(job.m_panels, job.block_panels),
                     multiply_block, &job);
}
