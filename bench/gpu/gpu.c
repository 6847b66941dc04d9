/* SPDX-License-Identifier: Apache-2.0
 *
 * Benchmark of the kernel packages on a GPU. README.md beside this file says what is measured and how.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

typedef struct options {
    const char *packages, *shapes, *filter, *peer, *models, *adapter, *backend;
    bool quick, rivals;
    double seconds;
} options;

static const char *const package_names[] = {"com.microsoft.MatMulNBitsQkv", "com.microsoft.MatMulNBitsMlp",
                                            "com.microsoft.MatMulBnb4"};

static int fail(const char *what, const nib_error *error)
{
    char line[2048];
    nib_error_format(error, line, sizeof line);
    fprintf(stderr, "%s: %s\n", what, line);
    return 1;
}

/* ---- the peer ---- */

/* Milliseconds a run of ONNX Runtime's WebGPU provider takes for the model of this case; 0 when there is none. */
static double time_peer(const options *o, const bench_shape *shape)
{
    static const char *const ops[] = {"qkv", "mlp", "bnb4"};
    char command[1024], model[512], line[256];
    double best = 0;
    if (!o->peer || !shape->peer)
        return 0;
    snprintf(model, sizeof model, "%s/%s_%s_m%lld.onnx", o->models, ops[shape->op],
             shape->dtype == NIB_FLOAT16 ? "f16" : "f32", (long long)shape->M);
    snprintf(command, sizeof command, "%s %s %d %s/drain.onnx", o->peer, model, shape->M > 1 ? 10 : 100, o->models);
    FILE *pipe = popen(command, "r"); /* the command is the user's own */
    while (pipe && fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "peer %lf", &best) == 1)
            break;
    }
    if (pipe)
        pclose(pipe);
    return best;
}

/* ---- one case ---- */

typedef struct totals {
    double log_ratio, worst_choice;
    size_t ratios, failures, cases;
} totals;

/* The most an output may be off, in parts of the row's greatest: the rounding of the output, and of f16 weights. */
static double allowed(const bench_shape *s)
{
    return s->dtype == NIB_FLOAT16 ? 4e-3 : 2e-5;
}

static void print_case(const bench_context *bench, const bench_problem *p, const bench_times *t, const bench_ceilings *c, double worst, double peer,
                       totals *sum)
{
    char text[128];
    const double bandwidth = p->bytes / t->gpu, rate = p->flops / t->gpu;
    printf("%-44s %-24s %9.2f %9.2f %9.2f %6.2f | %5.2f TB/s %3.0f%% | %6.1f TFLOP/s %3.0f%% | %.1e%s",
           bench_shape_text(&p->shape, text, sizeof text), nib_plan_variant(p->plan), t->gpu_least * 1e6, t->gpu * 1e6,
           t->wall * 1e6, t->host * 1e6, bandwidth * 1e-12, 100 * bandwidth / c->bytes, rate * 1e-12,
           100 * rate / (c->matrix > 0 ? c->matrix : c->fma), worst, worst > allowed(&p->shape) ? " WRONG" : "");
    if (peer > 0) {
        printf(" | ORT %9.2f us, ratio %.2f", peer * 1e3, peer * 1e-3 / t->wall);
        sum->log_ratio += log(peer * 1e-3 / t->wall);
        sum->ratios++;
    }
    for (size_t i = 0; i < bench->tunable_count; i++)
        printf(" %s=%g", bench->tunables[i].name, bench->tunables[i].number);
    putchar('\n');
    fflush(stdout);
}

static nib_status measure(bench_context *bench, bench_timer *timer, const options *o, bench_problem *p, bench_times *times,
                          double *worst, nib_error *error)
{
    nib_status status = bench_problem_plan(bench, p, error);
    if (status == NIB_OK)
        status = bench_problem_check(bench, p, worst, error);
    if (status == NIB_OK) {
        const size_t repeats = o->quick ? 2 : bench_repeats(timer, p->calls, p->copies, o->seconds, error);
        status = bench_time_calls(timer, p->calls, p->copies, repeats, times, error);
    }
    return status;
}

/* How much longer the chosen variant takes than the best of those that could run the call, in parts of the best. */
static void compare_rivals(bench_context *bench, bench_timer *timer, const options *o, bench_problem *p, double chosen,
                           totals *sum)
{
    static const char *const fused[] = {"decode_norm", "matrix_norm", "tiled_norm", "norm", NULL};
    static const char *const bnb4[] = {"decode", "matrix", "tiled64", "gemv", "tiled", "scalar", NULL};
    char choice[80], best[80];
    double least = chosen;
    snprintf(choice, sizeof choice, "%s", nib_plan_variant(p->plan));
    snprintf(best, sizeof best, "%s", choice);
    printf("    %s %.2f us", choice, chosen * 1e6);
    for (const char *const *rival = p->shape.op == BENCH_BNB4 ? bnb4 : fused; *rival; rival++) {
        nib_error error = {0};
        bench_times times = {0};
        double worst = 0;
        bench->variant = *rival;
        if (strcmp(*rival, choice) == 0 || measure(bench, timer, o, p, &times, &worst, &error) != NIB_OK)
            continue; /* not for this call */
        printf(", %s %.2f us%s", *rival, times.gpu * 1e6, worst > allowed(&p->shape) ? " WRONG" : "");
        sum->failures += worst > allowed(&p->shape);
        if (times.gpu < least) {
            least = times.gpu;
            snprintf(best, sizeof best, "%s", *rival);
        }
    }
    bench->variant = NULL;
    printf(": best %s, the choice takes %.1f %% longer\n", best, 100 * (chosen / least - 1));
    sum->worst_choice = fmax(sum->worst_choice, chosen / least - 1);
}

static void run_plan(bench_context *bench, bench_timer *timer, const options *o, const bench_ceilings *ceilings,
                     bench_problem *p, totals *sum)
{
    nib_error error = {0};
    bench_times times = {0};
    char text[128];
    double worst = 0;
    sum->cases++;
    if (measure(bench, timer, o, p, &times, &worst, &error) != NIB_OK) {
        sum->failures++;
        fail(bench_shape_text(&p->shape, text, sizeof text), &error);
        return;
    }
    print_case(bench, p, &times, ceilings, worst, time_peer(o, &p->shape), sum);
    sum->failures += worst > allowed(&p->shape);
    if (o->rivals)
        compare_rivals(bench, timer, o, p, times.gpu, sum);
}

/* Every combination of the values of the tunables that have several, the last name fastest. */
static bool next_combination(bench_context *bench)
{
    for (size_t i = bench->tunable_count; i-- > 0;) {
        bench_choice *choice = &bench->choices[i];
        choice->at = (choice->at + 1) % choice->count;
        bench->tunables[i].number = choice->values[choice->at];
        if (choice->at > 0)
            return true;
    }
    return false;
}

static void run_case(bench_context *bench, bench_timer *timer, const options *o, const bench_ceilings *ceilings,
                     const bench_shape *shape, totals *sum)
{
    bench_problem p;
    nib_error error = {0};
    char text[128];
    const nib_status status = bench_problem_make(bench, shape, &p, &error);
    if (status == NIB_OK) {
        do
            run_plan(bench, timer, o, ceilings, &p, sum);
        while (next_combination(bench));
    } else {
        sum->cases++;
        sum->failures++;
        fail(bench_shape_text(shape, text, sizeof text), &error);
    }
    bench_problem_free(&p);
}

static int run_shapes(bench_context *bench, bench_timer *timer, const options *o)
{
    bench_ceilings ceilings;
    totals sum = {0};
    char line[256], text[128];
    FILE *file = fopen(o->shapes, "r");
    if (!file) {
        perror(o->shapes);
        return 1;
    }
    bench_measure_ceilings(timer, &ceilings);
    printf("%s\nread %.2f TB/s, f32 FMA %.1f TFLOP/s, f16 matrix %.1f TFLOP/s\n", nib_device_description(bench->gpu),
           ceilings.bytes * 1e-12, ceilings.fma * 1e-12, ceilings.matrix * 1e-12);
    printf("%-44s %-24s %9s %9s %9s %6s (us)\n", "case", "variant", "GPU least", "median", "wall", "host");
    while (fgets(line, sizeof line, file)) {
        bench_shape shape;
        if (strncmp(line, "canary", 6) == 0) {
            printf("canary: matrix products at %.1f TFLOP/s\n", bench_canary(timer) * 1e-12);
        } else if (bench_shape_parse(line, &shape)) {
            bench_shape_text(&shape, text, sizeof text);
            if (!o->filter || strstr(text, o->filter))
                run_case(bench, timer, o, &ceilings, &shape, &sum);
        } else if (line[strspn(line, " \t")] != '#' && line[strspn(line, " \t")] != '\n') {
            fprintf(stderr, "%s: not a shape: %s", o->shapes, line);
            sum.failures++;
        }
    }
    fclose(file);
    if (sum.ratios)
        printf("geometric mean of %zu ratios to ONNX Runtime: %.2f\n", sum.ratios,
               exp(sum.log_ratio / (double)sum.ratios));
    if (o->rivals)
        printf("the choice takes at most %.1f %% longer than the best variant\n", 100 * sum.worst_choice);
    printf("%zu cases, %zu failed\n", sum.cases, sum.failures);
    return sum.failures || !sum.cases;
}

/* ---- setting up ---- */

static int open_all(bench_context *bench, const options *o)
{
    nib_error error = {0};
    const nib_device_options gpu = {.backend = "webgpu", .adapter = o->adapter}, cpu = {.backend = "cpu"};
    if (nib_context_create(NULL, &bench->context, &error) != NIB_OK)
        return fail("context", &error);
    for (size_t i = 0; i < 3; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", o->packages, package_names[i]);
        if (nib_package_load(bench->context, path, NULL, &bench->package[i], &error) != NIB_OK)
            return fail(path, &error);
    }
    if (nib_device_open(bench->context, &gpu, &bench->gpu, &error) != NIB_OK)
        return fail("GPU", &error);
    if (nib_device_open(bench->context, &cpu, &bench->cpu, &error) != NIB_OK)
        return fail("CPU", &error);
    return 0;
}

static void close_all(bench_context *bench)
{
    nib_device_free(bench->gpu);
    nib_device_free(bench->cpu);
    for (size_t i = 0; i < 3; i++)
        nib_package_free(bench->package[i]);
    nib_context_free(bench->context);
}

static int usage(void)
{
    fprintf(stderr, "gpu-bench --packages DIR --shapes FILE [--filter TEXT] [--variant ID] [--tunable NAME=NUMBER[,NUMBER]...]...\n"
                    "          [--rotate MB] [--seconds S] [--adapter NAME] [--quick] [--rivals] [--peer COMMAND --models DIR]\n");
    return 2;
}

/* NAME=NUMBER,NUMBER... */
static bool add_tunable(bench_context *bench, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || bench->tunable_count == BENCH_MAX_TUNABLES)
        return false;
    bench_choice *choice = &bench->choices[bench->tunable_count];
    *choice = (bench_choice){0};
    *equals = '\0';
    for (char *at = equals; at && choice->count < BENCH_MAX_VALUES; at = strchr(at, ','))
        choice->values[choice->count++] = strtod(++at, NULL);
    bench->tunables[bench->tunable_count++] =
        (nib_named_scalar){.name = text, .kind = NIB_SCALAR_NUMBER, .number = choice->values[0]};
    return true;
}

int main(int count, char **words)
{
    options o = {.packages = "kernels/v2", .shapes = "bench/gpu/shapes.txt", .models = ".", .seconds = 0.02};
    bench_context bench = {.rotate_bytes = 200e6};
    bench_timer timer;
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *value = i + 1 < count ? words[i + 1] : "";
        const struct {
            const char *name;
            const char **slot;
        } texts[] = {{"--packages", &o.packages}, {"--shapes", &o.shapes}, {"--filter", &o.filter},
                     {"--variant", &bench.variant}, {"--adapter", &o.adapter}, {"--peer", &o.peer}, {"--models", &o.models}};
        bool known = strcmp(word, "--quick") == 0 || strcmp(word, "--rivals") == 0;
        o.quick |= strcmp(word, "--quick") == 0;
        o.rivals |= strcmp(word, "--rivals") == 0;
        for (size_t k = 0; k < sizeof texts / sizeof *texts && !known && i + 1 < count; k++) {
            if (strcmp(word, texts[k].name) == 0) {
                *texts[k].slot = value;
                known = true;
                i++;
            }
        }
        if (!known && i + 1 < count) {
            known = true;
            i++;
            if (strcmp(word, "--rotate") == 0)
                bench.rotate_bytes = 1e6 * strtod(value, NULL);
            else if (strcmp(word, "--seconds") == 0)
                o.seconds = strtod(value, NULL);
            else if (strcmp(word, "--tunable") != 0 || !add_tunable(&bench, words[i]))
                return usage();
        }
        if (!known)
            return usage();
    }
    if (open_all(&bench, &o) || !bench_timer_open(&timer, bench.gpu))
        return 1;
    const int result = run_shapes(&bench, &timer, &o);
    bench_timer_close(&timer);
    close_all(&bench);
    return result;
}
