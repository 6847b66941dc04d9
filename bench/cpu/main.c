/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU benchmark. For each shape: check a sample of the results against the scalar kernels, then
 * time, in rounds. A round times everything there is to compare once, one after the other: the
 * kernels, the peer (if given), the machine's read bandwidth and its multiply-add peak. What is
 * printed are medians, and medians of the ratios within a round, so that a machine that changes its
 * speed in between does not change the comparison.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/detect.h"
#include "backend/cpu/rows.h"
#include "ceilings.h"
#include "hide_isa.h"
#include "ort.h"
#include "shape.h"

enum { MAX_ROUNDS = 1000 };

typedef struct options {
    const char *row, *shapes, *filter, *ort, *machine;
    size_t threads;
    double seconds; /* for each shape */
} options;

/* Everything of one run of the program. */
typedef struct bench {
    const nib_cpu_row *row;
    nib_cpu_pool pool;
    bench_ort *ort;
    char *memory; /* for the bandwidth: larger than a cache */
    size_t memory_bytes;
    double seconds;
} bench;

/* ---- checking ---- */

static float load(const void *array, bool half, size_t i)
{
    float value;
    uint16_t bits;
    if (half) {
        memcpy(&bits, (const char *)array + 2 * i, 2);
        return nib_half_to_float(bits);
    }
    memcpy(&value, (const char *)array + 4 * i, 4);
    return value;
}

/* What the scalar kernels give for one output element. */
static double scalar_output(const nib_cpu_problem *p, const float *x, size_t which, size_t n)
{
    const double sum = (double)nib_scalar_dot(&p->weights[which], n, x);
    return p->gated ? sum / (1 + exp(-sum)) * (double)nib_scalar_dot(&p->weights[1], n, x) : sum;
}

/* The largest difference to the scalar kernels over a sample of each output, relative to the
 * sample's largest value. */
static double check(const nib_cpu_problem *p)
{
    enum { SAMPLE = 24 };
    float *x = malloc(p->K * sizeof *x);
    double worst = 0;
    for (size_t which = 0; which < (p->gated ? 1 : p->weight_count); which++) {
        const size_t N = p->weights[which].N;
        double difference = 0, largest = 0;
        for (size_t i = 0; i < SAMPLE; i++) {
            const size_t m = i == 0 ? 0 : i == 1 ? p->M - 1 : i * 7919 % p->M;
            const size_t n = i == 0 ? 0 : i == 1 ? N - 1 : i * 104729 % N;
            const nib_cpu_norm norm = {.a = (const char *)p->a + m * p->K * (p->half ? 2 : 4),
                                       .gain = p->gain,
                                       .half = p->half,
                                       .epsilon = p->epsilon,
                                       .K = p->K};
            nib_cpu_scalar.normalize(&norm, x);
            const double should = scalar_output(p, x, which, n);
            difference =
                fmax(difference, fabs(should - (double)load(p->out[which], p->half, m * N + n)));
            largest = fmax(largest, fabs(should));
        }
        worst = fmax(worst, difference / largest);
    }
    free(x);
    return worst;
}

static double compare_outputs(const nib_cpu_problem *p, const bench_ort_session *session)
{
    double worst = 0;
    for (size_t which = 0; which < (p->gated ? 1 : p->weight_count); which++) {
        const size_t count = p->M * p->weights[which].N;
        double difference = 0, largest = 0;
        for (size_t i = 0; i < count; i++) {
            const double ours = (double)load(p->out[which], p->half, i);
            difference = fmax(
                difference,
                fabs(ours - (double)load(bench_ort_session_output(session, which), p->half, i)));
            largest = fmax(largest, fabs(ours));
        }
        worst = fmax(worst, difference / largest);
    }
    return worst;
}

/* ---- timing ---- */

typedef struct samples {
    double values[MAX_ROUNDS];
    size_t count;
} samples;

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* q in [0, 1] */
static double quantile(const samples *s, double q)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, s->values, s->count * sizeof *sorted);
    qsort(sorted, s->count, sizeof *sorted, compare_doubles);
    return sorted[(size_t)(q * (double)(s->count - 1) + 0.5)];
}

static void add(samples *s, double value)
{
    s->values[s->count++] = value;
}

typedef struct timing {
    samples ours, theirs, ratio, of_bandwidth, of_peak, bandwidth, peak;
} timing;

static double time_ours(const bench *b, bench_problem *problem, const nib_cpu_workspace *space,
                        size_t runs, size_t *copy)
{
    const double start = bench_now();
    for (size_t i = 0; i < runs; i++) {
        bench_problem_use(problem, (*copy)++);
        nib_cpu_solve(&problem->problem, b->row, &b->pool, space);
    }
    return (bench_now() - start) / (double)runs;
}

static double time_theirs(bench_ort_session *session, size_t runs)
{
    const double start = bench_now();
    for (size_t i = 0; i < runs; i++)
        bench_ort_session_run(session);
    return (bench_now() - start) / (double)runs;
}

/* The peer's threads go on spinning for a while after a run, at the cost of whatever is timed next.
 */
static void let_threads_sleep(void)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
}

static void time_rounds(const bench *b, bench_problem *problem, const nib_cpu_workspace *space,
                        bench_ort_session *session, timing *t)
{
    size_t copy = 0;
    const double once = time_ours(b, problem, space, 1, &copy);
    const size_t runs = once < 0.02 ? (size_t)(0.02 / once) + 1 : 1;
    const double end = bench_now() + b->seconds;
    do {
        const double bandwidth = bench_read_bandwidth(&b->pool, b->memory, b->memory_bytes);
        const double peak = bench_fma_peak(&b->pool, b->row->name);
        const double ours = time_ours(b, problem, space, runs, &copy);
        add(&t->ours, ours);
        add(&t->bandwidth, bandwidth);
        add(&t->peak, peak);
        add(&t->of_bandwidth, problem->bytes / ours / bandwidth);
        add(&t->of_peak, problem->operations / ours / peak);
        if (session) {
            const double theirs = time_theirs(session, runs);
            add(&t->theirs, theirs);
            add(&t->ratio, theirs / ours);
            let_threads_sleep();
        }
    } while ((bench_now() < end || t->ours.count < 5) && t->ours.count < MAX_ROUNDS);
}

static void print_timing(const bench *b, const bench_problem *problem, const timing *t)
{
    const double ours = quantile(&t->ours, 0.5);
    printf("  nibble %s: %.3f ms (quartiles %.3f to %.3f, %zu rounds), %.1f GB/s, %.1f GFLOP/s\n",
           b->row->name, ours * 1e3, quantile(&t->ours, 0.25) * 1e3, quantile(&t->ours, 0.75) * 1e3,
           t->ours.count, problem->bytes / ours * 1e-9, problem->operations / ours * 1e-9);
    printf("  machine: reads %.1f GB/s, multiply-adds %.1f GFLOP/s; reached %.0f %% and %.0f %% of "
           "them\n",
           quantile(&t->bandwidth, 0.5) * 1e-9, quantile(&t->peak, 0.5) * 1e-9,
           quantile(&t->of_bandwidth, 0.5) * 100, quantile(&t->of_peak, 0.5) * 100);
    if (t->ratio.count)
        printf("  ONNX Runtime %s: %.3f ms (quartiles %.3f to %.3f); it takes %.2f times as long "
               "(quartiles %.2f to "
               "%.2f)\n",
               bench_ort_version(b->ort), quantile(&t->theirs, 0.5) * 1e3,
               quantile(&t->theirs, 0.25) * 1e3, quantile(&t->theirs, 0.75) * 1e3,
               quantile(&t->ratio, 0.5), quantile(&t->ratio, 0.25), quantile(&t->ratio, 0.75));
}

/* ---- one shape ---- */

static bench_ort_session *open_peer(const bench *b, bench_problem *problem,
                                    const bench_shape *shape)
{
    if (!b->ort || shape->copies > 1)
        return NULL;
    bench_ort_session *session =
        bench_ort_session_make(b->ort, &problem->problem, shape->quant_type, b->pool.lanes);
    if (!session || !bench_ort_session_run(session)) {
        bench_ort_session_free(session);
        return NULL;
    }
    let_threads_sleep();
    const double difference = compare_outputs(&problem->problem, session);
    printf("  ONNX Runtime differs by %.1e of the largest output\n", difference);
    return session;
}

static bool run_shape(const bench *b, const bench_shape *shape)
{
    bench_problem problem;
    nib_cpu_workspace space;
    nib_error error = {0};
    bench_problem_make(&problem, shape);
    if (nib_cpu_workspace_make(&space, &nib_default_allocator, b->row, &b->pool, &problem.problem,
                               &error) != NIB_OK) {
        fprintf(stderr, "%s\n", error.message);
        return false;
    }
    nib_cpu_solve(&problem.problem, b->row, &b->pool, &space);
    const nib_cpu_method method = nib_cpu_choose_method(&problem.problem, b->row);
    const double difference = check(&problem.problem);
    const double allowed = method.int8 ? 3e-2 : shape->half ? 2e-3 : 2e-5;
    printf("%s: %s, differs from scalar by %.1e\n", shape->text, nib_cpu_method_text(&method),
           difference);
    bool good = difference <= allowed;
    if (good) {
        bench_ort_session *session = open_peer(b, &problem, shape);
        timing *t = calloc(1, sizeof *t);
        time_rounds(b, &problem, &space, session, t);
        print_timing(b, &problem, t);
        free(t);
        bench_ort_session_free(session);
    } else {
        printf("  WRONG: the bound is %.1e\n", allowed);
    }
    fflush(stdout);
    nib_cpu_workspace_free(&space);
    bench_problem_free(&problem);
    return good;
}

static bool run_file(const bench *b, const options *o)
{
    FILE *file = fopen(o->shapes, "r");
    if (!file) {
        fprintf(stderr, "cannot read %s\n", o->shapes);
        return false;
    }
    bench_shape shape;
    bool good = true;
    int status;
    while ((status = bench_shape_read(file, &shape)) == 1) {
        if (!o->filter || strstr(shape.text, o->filter))
            good = run_shape(b, &shape) && good;
    }
    fclose(file);
    return good && status == 0;
}

/* ---- the program ---- */

static int usage(void)
{
    fprintf(
        stderr,
        "usage: bench-cpu [--shapes FILE] [--only TEXT] [--row NAME] [--threads N] [--seconds S]\n"
        "                 [--read-bytes N] [--ort LIBRARY] [--machine avx2]\n");
    return 2;
}

static bool parse_options(int argc, char **argv, options *o, size_t *read_bytes)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--shapes") == 0)
            o->shapes = value;
        else if (strcmp(name, "--only") == 0)
            o->filter = value;
        else if (strcmp(name, "--row") == 0)
            o->row = value;
        else if (strcmp(name, "--threads") == 0)
            o->threads = strtoul(value, NULL, 10);
        else if (strcmp(name, "--seconds") == 0)
            o->seconds = strtod(value, NULL);
        else if (strcmp(name, "--read-bytes") == 0)
            *read_bytes = strtoul(value, NULL, 10);
        else if (strcmp(name, "--ort") == 0)
            o->ort = value;
        else if (strcmp(name, "--machine") == 0 && strcmp(value, "avx2") == 0)
            o->machine = value;
        else
            return false;
    }
    return argc % 2 == 1;
}

/* Before anything asks the processor what it is. */
static bool become(const char *machine)
{
    const char *why = machine ? bench_hide_isa() : NULL;
    if (why)
        fprintf(stderr, "--machine %s: CANNOT HIDE AVX-512 on this machine: %s\n", machine, why);
    return !why;
}

int main(int argc, char **argv)
{
    options o = {.shapes = BENCH_SHAPES, .seconds = 3};
    bench b = {.memory_bytes = (size_t)1 << 29};
    if (!parse_options(argc, argv, &o, &b.memory_bytes))
        return usage();
    if (!become(o.machine))
        return 3;
    const nib_device_options device = {.threads = (uint32_t)o.threads};
    b.row = nib_cpu_choose_row(o.row, nib_cpu_detect());
    nib_error error = {0};
    if (!b.row || nib_cpu_pool_open(&b.pool, &device, &error) != NIB_OK) {
        fprintf(stderr, "%s\n", b.row ? error.message : "there is no such kernel row");
        return 1;
    }
    b.seconds = o.seconds;
    b.memory = malloc(b.memory_bytes);
    if (!b.memory)
        return 1;
    memset(b.memory, 1, b.memory_bytes);
    b.ort = o.ort ? bench_ort_open(o.ort) : NULL;
    if (o.ort && !b.ort)
        return 1;
    printf("row %s, %zu threads, bandwidth over %zu MB%s\n", b.row->name, b.pool.lanes,
           b.memory_bytes >> 20,
           o.machine ? "; AVX-512, VNNI and AMX hidden from all that runs here" : "");
    const bool good = run_file(&b, &o);
    bench_ort_close(b.ort);
    free(b.memory);
    nib_cpu_pool_close(&b.pool);
    return good ? 0 : 1;
}
