/* gemm.c — how fast are matrix products, compared with the best the processor could do?
 *
 * The products that a linear layer of the base model makes, as training runs them: y = x w^T + b
 * forward, dx = dy w and dw += dy^T x backward, for M rows. Both operands are packed inside the
 * call, since weights change every step; for weights that do not, see tiled.c. The yardstick is a
 * loop of the kernel's own arithmetic instructions on registers, on the same threads, run in turns
 * with the product. Other programs can only slow either down, so the best of each is what the
 * machine does undisturbed, and their ratio is the kernel's share of the peak. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "bench/products.h"

enum { MIN_TURNS = 3, PEAK_TASKS = 8 /* per thread */ };

static const int rows_of_x[] = {4, 64, 256, 4096};
static const struct {
    int n, k;
} weights[] = {{512, 512}, {2048, 512}, {512, 2048}, {8000, 512}, {37000, 512}};

enum { FWD, DX, DW, PRODUCTS };

struct bench {
    const struct bench_gemm_options *o;
    struct cpu_backend be;
    struct gemm g[PRODUCTS];
    const struct gemm_kernel *kernel;
    void *workspace;
    /* peak loop */
    int64_t iterations;
    double *peak_flops; /* per task */
};

struct speed {
    double gflops[PRODUCTS], peak;
};

/* ---- the yardstick --------------------------------------------------------------------------- */

/* The loop is handed out in small tasks, as a product is, so that a thread that lost its processor
 * for a while delays both in the same way. */
static void peak_task(void *ctx, int task, int thread) {
    struct bench *s = ctx;
    (void)thread;
    if (s->kernel->enter) s->kernel->enter();
    s->peak_flops[task] = s->kernel->peak(s->iterations);
    if (s->kernel->leave) s->kernel->leave();
}

static double peak_gflops(struct bench *s) {
    const int n = PEAK_TASKS * pool_size(s->be.pool);
    double flops = 0;
    const double start = clock_seconds();
    pool_run(s->be.pool, peak_task, s, n);
    const double seconds = clock_seconds() - start;
    for (int i = 0; i < n; i++) flops += s->peak_flops[i];
    return flops / seconds * 1e-9;
}

/* As long as the product beside it, but 1 to 10 ms: long enough to start all threads, short
 * enough to pass between two disturbances. */
static void peak_calibrate(struct bench *s, double seconds) {
    if (seconds < 1e-3) seconds = 1e-3;
    if (seconds > 10e-3) seconds = 10e-3;
    for (s->iterations = 1000;; s->iterations *= 4) {
        const double start = clock_seconds();
        peak_gflops(s);
        const double took = clock_seconds() - start;
        if (took < 1e-3) continue;
        s->iterations = (int64_t)((double)s->iterations * seconds / took) + 1;
        return;
    }
}

/* ---- one case -------------------------------------------------------------------------------- */

static double product_gflops(struct bench *s, int which, int times) {
    const struct gemm *g = &s->g[which];
    const double start = clock_seconds();
    for (int i = 0; i < times; i++) gemm_run(&s->be, g, s->workspace);
    const double seconds = clock_seconds() - start;
    return 2.0 * g->m * g->n * g->k * times / seconds * 1e-9;
}

static struct speed measure(struct bench *s) {
    struct speed best = {0};
    const struct gemm *g = &s->g[FWD];
    const double least = 1e-3 * (s->o->min_ms > 0 ? s->o->min_ms : 100);
    /* warm up: pages, caches, threads */
    for (int i = 0; i < PRODUCTS; i++) product_gflops(s, i, 1);
    const double once = 2.0 * g->m * g->n * g->k / (product_gflops(s, FWD, 1) * 1e9);
    const int times = once < 1e-3 ? (int)(1e-3 / once) + 1 : 1;
    peak_calibrate(s, once * times);

    const double end = clock_seconds() + least;
    for (int turn = 0; turn < MIN_TURNS || clock_seconds() < end; turn++) {
        for (int i = 0; i < PRODUCTS; i++) {
            best.peak = fmax(best.peak, peak_gflops(s));
            best.gflops[i] = fmax(best.gflops[i], product_gflops(s, i, times));
        }
        if (once > 1) break; /* long enough to speak for itself */
    }
    return best;
}

/* ---- all cases ------------------------------------------------------------------------------- */

static void report(const struct bench *s, enum dtype type, const struct speed *v) {
    const struct gemm *g = &s->g[FWD];
    const double *speed = v->gflops;
    if (s->o->json)
        printf("{\"bench\":\"gemm\",\"isa\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,\"m\":%d,"
               "\"n\":%d,\"k\":%d,\"gflops\":%.2f,\"ratio\":%.4f,\"gflops_dx\":%.2f,"
               "\"gflops_dw\":%.2f,\"gflops_peak\":%.2f}\n",
               s->be.isa->name, dtype_name(type), pool_size(s->be.pool), g->m, g->n, g->k,
               speed[FWD], speed[FWD] / v->peak, speed[DX], speed[DW], v->peak);
    else
        printf("%-11s %-5s %6d %6d %6d %10.1f %7.1f%% %10.1f %10.1f %10.1f\n", s->be.isa->name,
               dtype_name(type), g->m, g->n, g->k, speed[FWD], 100 * speed[FWD] / v->peak,
               speed[DX], speed[DW], v->peak);
    fflush(stdout);
}

/* m x k against n x k, as linear_fwd and linear_bwd multiply them. */
static int run_case(struct bench *s, int m, int n, int k, enum dtype type, struct err *err) {
    struct mat x = bench_mat(m, k, type), w = bench_mat(n, k, type), b = bench_mat(1, n, type);
    struct mat y = bench_mat(m, n, type), dx = bench_mat(m, k, type);
    struct mat dw = bench_mat(n, k, DTYPE_F32);
    size_t size = 0;
    int rc = 0;
    s->kernel = type == DTYPE_F32 ? s->be.isa->gemm_f32 : s->be.isa->gemm_bf16;
    s->g[FWD] = gemm_of(&y, &x, 0, &w, 1);
    s->g[FWD].bias = b.data;
    s->g[FWD].bias_type = type;
    s->g[DX] = gemm_of(&dx, &y, 0, &w, 0);
    s->g[DW] = gemm_of(&dw, &y, 1, &x, 0);
    s->g[DW].add = 1;
    for (int i = 0; i < PRODUCTS; i++) size = max_size(size, gemm_workspace(&s->be, &s->g[i]));
    s->workspace = mem_block(size);
    if (!x.data || !w.data || !b.data || !y.data || !dx.data || !dw.data || !s->workspace) {
        rc = err_set(err, HEED_ENOMEM, "bench gemm: not enough memory for %d x %d x %d", m, n, k);
    } else {
        const struct speed v = measure(s);
        report(s, type, &v);
    }
    void *blocks[] = {x.data, w.data, b.data, y.data, dx.data, dw.data, s->workspace};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mem_block_free(blocks[i]);
    return rc;
}

static int run_isa(struct bench *s, struct err *err) {
    const int *rows = s->o->m ? &s->o->m : rows_of_x;
    const int n_rows = s->o->m ? 1 : (int)(sizeof rows_of_x / sizeof *rows_of_x);
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        if (s->o->dtype && s->o->dtype != (type == DTYPE_F32 ? 1 : 2)) continue;
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
            for (int i = 0; i < n_rows; i++) {
                const int rc =
                    run_case(s, rows[i], weights[w].n, weights[w].k, (enum dtype)type, err);
                if (rc) return rc;
            }
    }
    return 0;
}

int bench_gemm_run(const struct bench_gemm_options *o, struct err *err) {
    if (o->dtype > 2) return err_set(err, HEED_EINVAL, "dtype: int8 is for --tiled");
    const struct isa *only;
    struct bench *s = xcalloc(1, sizeof *s);
    s->o = o;
    int rc = bench_products_open(&s->be, &only, o, err);
    if (rc) goto out;
    s->peak_flops = xcalloc((size_t)pool_size(s->be.pool) * PEAK_TASKS, sizeof *s->peak_flops);
    if (!o->json)
        printf("GFLOP/s of y = x w^T + b, dx = dy w, dw += dy^T x; x [m,k], w [n,k]; %d threads; "
               "peak: multiply-adds on registers\n"
               "%-11s %-5s %6s %6s %6s %10s %8s %10s %10s %10s\n",
               pool_size(s->be.pool), "isa", "dtype", "m", "n", "k", "y", "of peak", "dx", "dw",
               "peak");
    while (!rc && bench_next_isa(&s->be, only)) rc = run_isa(s, err);
out:
    pool_free(s->be.pool);
    xfree(s->peak_flops);
    xfree(s);
    return rc;
}
