/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode: 1 to 8 activation rows. The activations are made once, then one parallel loop goes over
 * chunks of weight rows of all matrices.
 */
#include <math.h>

#include "base/checked.h"
#include "problem_row.h"
#include "solve.h"

enum { CHUNK = 32 };

typedef struct decode_job {
    const nib_cpu_problem *problem;
    const nib_cpu_row *row;
    const nib_cpu_method *method;
    const nib_cpu_workspace *space;
    bool has_nan[NIB_CPU_DECODE_ROWS];  /* of each activation row */
    size_t chunks[NIB_CPU_MAX_WEIGHTS]; /* of each matrix that is iterated */
    size_t outputs;                     /* matrices that are iterated: gate and up go together */
} decode_job;

static bool any_nan(const float *x, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found |= isnan(x[i]);
    return found;
}

static void make_activations(decode_job *job)
{
    const nib_cpu_problem *p = job->problem;
    float *x = job->space->x;
    for (size_t m = 0; m < p->M; m++) {
        const nib_cpu_norm norm = nib_cpu_norm_of_row(p, m);
        job->row->normalize(&norm, x + m * p->K);
        job->has_nan[m] = any_nan(x + m * p->K, p->K);
    }
    job->method->gemv->arrange(&p->weights[0], x, p->M, job->space->packed);
}

/* Kernels may apply a scale to the sum of its block. That differs from the truth when a scale or an
 * activation is not finite, and always shows as a sum that is not finite: such a sum is done again
 * the plain way. */
static void repair(const decode_job *job, const nib_cpu_weights *w, size_t n0, size_t count,
                   float *y)
{
    for (size_t m = 0; m < job->problem->M; m++) {
        if (job->has_nan[m])
            continue; /* every sum is NaN already */
        for (size_t j = 0; j < count; j++) {
            if (!isfinite(y[m * CHUNK + j]))
                y[m * CHUNK + j] = nib_scalar_dot(w, n0 + j, job->space->x + m * job->problem->K);
        }
    }
}

static void multiply(const decode_job *job, const nib_cpu_weights *w, size_t n0, size_t count,
                     float *y)
{
    job->method->gemv->decode(w, job->space->packed, job->problem->M, n0, n0 + count, y, CHUNK);
    if (!job->method->int8)
        repair(job, w, n0, count, y);
}

static void decode_chunk(void *arg, size_t lane, size_t item)
{
    (void)lane;
    const decode_job *job = arg;
    const nib_cpu_problem *p = job->problem;
    size_t which = 0;
    while (item >= job->chunks[which])
        item -= job->chunks[which++];
    const nib_cpu_weights *w = &p->weights[which];
    const size_t n0 = item * CHUNK;
    const size_t count = w->N - n0 < CHUNK ? w->N - n0 : CHUNK;
    float y[NIB_CPU_DECODE_ROWS * CHUNK], up[NIB_CPU_DECODE_ROWS * CHUNK];
    multiply(job, w, n0, count, y);
    if (p->gated)
        multiply(job, &p->weights[1], n0, count, up);
    for (size_t m = 0; m < p->M; m++)
        nib_cpu_store_row(p, job->row, which, m, n0, y + m * CHUNK,
                          p->gated ? up + m * CHUNK : NULL, count);
}

bool nib_cpu_decode_sizes(const nib_cpu_problem *p, const nib_cpu_method *method,
                          nib_cpu_sizes *sizes)
{
    return nib_size_mul(p->M, p->K, &sizes->x) &&
           nib_size_mul(sizes->x, sizeof(float), &sizes->x) &&
           nib_size_mul(p->M, method->gemv->arranged_bytes(&p->weights[0]), &sizes->packed);
}

void nib_cpu_decode(const nib_cpu_problem *problem, const nib_cpu_row *row,
                    const nib_cpu_method *method, const nib_cpu_pool *pool,
                    const nib_cpu_workspace *space)
{
    decode_job job = {.problem = problem, .row = row, .method = method, .space = space};
    job.outputs = problem->gated ? 1 : problem->weight_count;
    size_t items = 0;
    for (size_t i = 0; i < job.outputs; i++) {
        job.chunks[i] = (problem->weights[i].N + CHUNK - 1) / CHUNK;
        items += job.chunks[i];
    }
    make_activations(&job);
    nib_cpu_pool_run(pool, items, decode_chunk, &job);
}
