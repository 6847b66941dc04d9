/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefill: more activation rows, or weights that no decode kernel takes.
 *
 * First loop: the activations are normalized and packed in panels of tile_m rows, cut along K into
 * slices of tile_k columns, slice by slice. Second loop: one item is a block of activation rows
 * times a group of panels of tile_n weight rows. It goes along K slice by slice: the block's slice
 * of the activations stays in the second-level cache for the whole group, and each weight panel in
 * turn is unpacked into the first-level cache and used by all activation panels of the block. The
 * sums stay in the lane's scratch.
 */
#include "problem_row.h"
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
    /* Panels of tile_n weight rows of each matrix that is iterated, and of all. Items are groups of
     * panels of a block, then the remaining panels one by one, so that no lane has much to do when
     * the others have finished. */
    size_t n_panels[NIB_CPU_MAX_WEIGHTS], all_panels;
    size_t blocks;
    size_t group, groups; /* panels of a group; groups of a block */
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

static size_t panel_sums(const nib_cpu_problem *p, const nib_cpu_gemm *gemm)
{
    return count_block_panels(p, gemm) * gemm->tile_m * gemm->tile_n;
}

/* Of a whole group. */
static size_t sums_bytes(const nib_cpu_problem *p, const nib_cpu_gemm *gemm)
{
    return align_up(panel_sums(p, gemm) * (gemm->group_n / gemm->tile_n) * sizeof(float));
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
    size_t panel0, panel1; /* of the weights */
    size_t m_panel0, m0, rows;
} block;

/* One panel of tile_n weight rows. */
typedef struct weight_panel {
    size_t which; /* matrix, and output */
    size_t n0, columns;
    float *sums; /* [rows of the block][tile_n] */
    float *gate; /* the sums of gate when these are those of up; else NULL */
} weight_panel;

static block find_block(const prefill_job *job, size_t item)
{
    const size_t grouped = job->groups * job->group, singles = job->all_panels - grouped;
    size_t index;
    block b;
    if (item < job->blocks * job->groups) {
        index = item / job->groups;
        b.panel0 = item % job->groups * job->group;
        b.panel1 = b.panel0 + job->group;
    } else {
        item -= job->blocks * job->groups;
        index = item / singles;
        b.panel0 = grouped + item % singles;
        b.panel1 = b.panel0 + 1;
    }
    b.m_panel0 = index * job->block_panels;
    b.m0 = b.m_panel0 * job->gemm->tile_m;
    b.rows = least(job->block_panels * job->gemm->tile_m, job->problem->M - b.m0);
    return b;
}

/* Panel `panel` of all, the one at `place` of its group. */
static weight_panel find_panel(const prefill_job *job, size_t panel, size_t place, float *sums,
                               float *gate)
{
    const size_t tile_n = job->gemm->tile_n, offset = place * panel_sums(job->problem, job->gemm);
    weight_panel found = {.sums = sums + offset, .gate = gate ? gate + offset : NULL};
    while (panel >= job->n_panels[found.which])
        panel -= job->n_panels[found.which++];
    found.n0 = panel * tile_n;
    found.columns = least(tile_n, job->problem->weights[found.which].N - found.n0);
    return found;
}

/* Store the sums of `count` rows from row m of a block on. */
static void store_rows(const prefill_job *job, const block *b, const weight_panel *panel, size_t m,
                       size_t count)
{
    const size_t tile_n = job->gemm->tile_n;
    for (size_t i = m; i < m + count; i++)
        nib_cpu_store_row(job->problem, job->row, panel->which, b->m0 + i, panel->n0,
                          (panel->gate ? panel->gate : panel->sums) + i * tile_n,
                          panel->gate ? panel->sums + i * tile_n : NULL, panel->columns);
}

/* One slice of K of a block of activation panels times one weight panel. With `store`, rows are
 * stored as soon as they are finished: their sums are then still in the first-level cache, and the
 * stores, which miss it, are written while the next tile is computed. */
static void multiply_slice(const prefill_job *job, const nib_cpu_weights *w, const block *b,
                           const weight_panel *panel, size_t k0, void *unpacked, bool store)
{
    const nib_cpu_gemm *gemm = job->gemm;
    const size_t kc = least(gemm->tile_k, w->K - k0);
    gemm->panel(w, panel->n0, k0, kc, unpacked);
    for (size_t m = 0, i = 0; m < b->rows; m += gemm->tile_m, i++) {
        const size_t rows = least(gemm->tile_m, b->rows - m);
        gemm->tile(rows, kc, packed_slice(job, b->m_panel0 + i, k0), unpacked,
                   panel->sums + m * gemm->tile_n, k0 > 0);
        if (store && k0 + kc == w->K)
            store_rows(job, b, panel, m, rows);
    }
}

/* Sums of a block with a group of weight panels. `up`: with the matrix of up, after the sums of
 * gate. */
static void multiply_group(const prefill_job *job, const block *b, void *unpacked, float *gate,
                           float *sums, bool up)
{
    const nib_cpu_problem *p = job->problem;
    for (size_t k0 = 0; k0 < p->K; k0 += job->gemm->tile_k) {
        for (size_t i = b->panel0; i < b->panel1; i++) {
            const weight_panel panel = find_panel(job, i, i - b->panel0, sums, gate);
            multiply_slice(job, &p->weights[up ? 1 : panel.which], b, &panel, k0, unpacked,
                           up || !p->gated);
        }
    }
}

static void multiply_block(void *arg, size_t lane, size_t item)
{
    const prefill_job *job = arg;
    const nib_cpu_problem *p = job->problem;
    const nib_cpu_gemm *gemm = job->gemm;
    const block b = find_block(job, item);
    char *scratch = lane_scratch(job, lane);
    float *sums = (float *)(void *)(scratch + align_up(gemm->panel_bytes(gemm->tile_k)));
    if (gemm->begin)
        gemm->begin();
    multiply_group(job, &b, scratch, NULL, sums, false);
    if (p->gated)
        multiply_group(job, &b, scratch, sums, sums + sums_bytes(p, gemm) / sizeof *sums, true);
    if (gemm->end)
        gemm->end();
}

/* Groups are smaller when there would be too few of them to share out. */
static void divide_work(prefill_job *job, size_t lanes)
{
    enum { ITEMS_PER_LANE = 12 };
    const nib_cpu_problem *p = job->problem;
    const size_t outputs = p->gated ? 1 : p->weight_count,
                 most = job->gemm->group_n / job->gemm->tile_n;
    job->m_panels = divide_up(p->M, job->gemm->tile_m);
    job->block_panels = count_block_panels(p, job->gemm);
    job->blocks = divide_up(job->m_panels, job->block_panels);
    for (size_t i = 0; i < outputs; i++) {
        job->n_panels[i] = divide_up(p->weights[i].N, job->gemm->tile_n);
        job->all_panels += job->n_panels[i];
    }
    const size_t share = job->all_panels * job->blocks / (lanes * ITEMS_PER_LANE);
    job->group = least(most, share ? share : 1);
    job->groups = (job->all_panels - job->all_panels / 8) / job->group;
}

void nib_cpu_prefill(const nib_cpu_problem *problem, const nib_cpu_row *row,
                     const nib_cpu_method *method, const nib_cpu_pool *pool,
                     const nib_cpu_workspace *space)
{
    prefill_job job = {.problem = problem, .row = row, .gemm = method->gemm, .space = space};
    job.slice_bytes = align_up(job.gemm->packed_bytes(job.gemm->tile_k));
    divide_work(&job, pool->lanes);
    nib_cpu_pool_run(pool, job.m_panels, make_panel, &job);
    const size_t singles = job.all_panels - job.groups * job.group;
    nib_cpu_pool_run(pool, job.blocks * (job.groups + singles), multiply_block, &job);
}
