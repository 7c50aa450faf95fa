/* gemm.c — how fast are matrix products, beside what the processor could do at best?
 *
 * y = x w^T + b for the shapes of the base model: M rows against its weights. The yardstick is a
 * loop of the kernel's own arithmetic instructions on registers, on the same threads, run in turns
 * with the product. Other programs can only slow either down, so the best of each is what the
 * machine does undisturbed, and their ratio is the kernel's share of the peak.
 *
 * Weights are packed beforehand, as for inference. The column `fresh` is the same product with the
 * weights packed inside the call, as training must do, since they change every step. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"

enum { MIN_TURNS = 3, PEAK_TASKS = 8 /* per thread */ };

static const int rows_of_x[] = {4, 64, 256, 4096};
static const struct {
    int n, k;
} weights[] = {{512, 512}, {2048, 512}, {512, 2048}, {8000, 512}, {37000, 512}};

struct bench {
    const struct bench_gemm_options *o;
    struct cpu_backend be;
    struct gemm g;
    const struct gemm_kernel *kernel;
    void *x, *w, *b, *y, *packed, *workspace;
    /* peak loop */
    int64_t iterations;
    double *peak_flops; /* per task */
};

struct speed {
    double gflops, ratio, fresh, peak;
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

static double product_gflops(struct bench *s, const void *packed, int times) {
    s->g.b_packed = packed;
    const double start = clock_seconds();
    for (int i = 0; i < times; i++) gemm_run(&s->be, &s->g, s->workspace);
    const double seconds = clock_seconds() - start;
    return 2.0 * s->g.m * s->g.n * s->g.k * times / seconds * 1e-9;
}

static double larger(double a, double b) { return a > b ? a : b; }

static struct speed measure(struct bench *s) {
    struct speed best = {0};
    const double least = 1e-3 * (s->o->min_ms > 0 ? s->o->min_ms : 100);
    product_gflops(s, s->packed, 1); /* warm up: pages, caches, threads */
    const double once = 2.0 * s->g.m * s->g.n * s->g.k / (product_gflops(s, s->packed, 1) * 1e9);
    const int times = once < 1e-3 ? (int)(1e-3 / once) + 1 : 1;
    peak_calibrate(s, once * times);

    const double end = clock_seconds() + least;
    for (int turn = 0; turn < MIN_TURNS || clock_seconds() < end; turn++) {
        best.peak = larger(best.peak, peak_gflops(s));
        best.gflops = larger(best.gflops, product_gflops(s, s->packed, times));
        best.peak = larger(best.peak, peak_gflops(s));
        best.fresh = larger(best.fresh, product_gflops(s, NULL, times));
        if (once > 1) break; /* long enough to speak for itself */
    }
    best.ratio = best.gflops / best.peak;
    return best;
}

/* ---- all cases ------------------------------------------------------------------------------- */

static void fill(void *data, size_t count, enum dtype type) {
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(int32_t)state * 0x1p-31f;
        if (type == DTYPE_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = bf16_store(x);
    }
}

static void report(const struct bench *s, enum dtype type, const struct speed *v) {
    if (s->o->json)
        printf(
            "{\"bench\":\"gemm\",\"isa\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,\"m\":%d,\"n\":%d,"
            "\"k\":%d,\"gflops\":%.2f,\"ratio\":%.4f,\"gflops_fresh\":%.2f,\"gflops_peak\":%.2f}\n",
            s->be.isa->name, type == DTYPE_F32 ? "f32" : "bf16", pool_size(s->be.pool), s->g.m,
            s->g.n, s->g.k, v->gflops, v->ratio, v->fresh, v->peak);
    else
        printf("%-11s %-5s %6d %6d %6d %10.1f %7.1f%% %10.1f %10.1f\n", s->be.isa->name,
               type == DTYPE_F32 ? "f32" : "bf16", s->g.m, s->g.n, s->g.k, v->gflops,
               100 * v->ratio, v->fresh, v->peak);
    fflush(stdout);
}

static int run_case(struct bench *s, enum dtype type, struct err *err) {
    struct gemm *g = &s->g;
    const size_t size = dtype_size(type);
    const size_t nx = (size_t)g->m * (size_t)g->k, nw = (size_t)g->n * (size_t)g->k;
    g->a = (struct gemm_operand){.ld = g->k, .type = type};
    g->b = (struct gemm_operand){.ld = g->k, .type = type, .trans = 1};
    g->ldc = g->n;
    g->c_type = g->bias_type = type;
    s->kernel = type == DTYPE_F32 ? s->be.isa->gemm_f32 : s->be.isa->gemm_bf16;
    s->x = mem_block(nx * size);
    s->w = mem_block(nw * size);
    s->b = mem_block((size_t)g->n * size);
    s->y = mem_block((size_t)g->m * (size_t)g->n * size);
    s->packed = mem_block(gemm_packed_size(s->be.isa, g->n, g->k, type));
    s->workspace = mem_block(gemm_workspace(&s->be, g));
    int rc = 0;
    if (!s->x || !s->w || !s->b || !s->y || !s->packed || !s->workspace) {
        rc = err_set(err, HEED_ENOMEM, "bench gemm: no memory for %d x %d x %d", g->m, g->n, g->k);
    } else {
        fill(s->x, nx, type);
        fill(s->w, nw, type);
        fill(s->b, (size_t)g->n, type);
        g->a.data = s->x;
        g->b.data = s->w;
        g->bias = s->b;
        g->c = s->y;
        gemm_pack_b(&s->be, s->packed, &g->b, g->n, g->k);
        const struct speed v = measure(s);
        report(s, type, &v);
    }
    void *blocks[] = {s->x, s->w, s->b, s->y, s->packed, s->workspace};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mem_block_free(blocks[i]);
    return rc;
}

static int run_isa(struct bench *s, struct err *err) {
    const char *only = s->o->dtype;
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        if (only && strcmp(only, type == DTYPE_F32 ? "f32" : "bf16") != 0) continue;
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
            for (size_t i = 0; i < sizeof rows_of_x / sizeof *rows_of_x; i++) {
                if (s->o->m && s->o->m != rows_of_x[i]) continue;
                s->g = (struct gemm){.m = rows_of_x[i], .n = weights[w].n, .k = weights[w].k};
                const int rc = run_case(s, (enum dtype)type, err);
                if (rc) return rc;
            }
    }
    return 0;
}

int bench_gemm_run(const struct bench_gemm_options *o, struct err *err) {
    if (o->dtype && strcmp(o->dtype, "f32") != 0 && strcmp(o->dtype, "bf16") != 0)
        return err_set(err, HEED_EINVAL, "bench gemm: dtype '%s' is neither f32 nor bf16",
                       o->dtype);
    const struct isa *only = NULL;
    int rc = o->isa ? isa_select(&only, o->isa, err) : 0;
    if (rc) return rc;
    struct bench *s = xcalloc(1, sizeof *s);
    s->o = o;
    rc = pool_new(&s->be.pool, o->threads, err);
    if (rc) goto out;
    s->peak_flops = xcalloc((size_t)pool_size(s->be.pool) * PEAK_TASKS, sizeof *s->peak_flops);
    if (!o->json)
        printf(
            "y = x w^T + b, x [m,k], w [n,k] packed once (fresh: packed in each call), %d threads; "
            "peak: multiply-adds on registers\n"
            "%-11s %-5s %6s %6s %6s %10s %8s %10s %10s\n",
            pool_size(s->be.pool), "isa", "dtype", "m", "n", "k", "GFLOP/s", "of peak", "fresh",
            "peak");
    for (const struct isa *const *i = isa_table; !rc && *i; i++) {
        if (only ? *i != only : !isa_usable(*i)) continue;
        s->be.isa = *i;
        rc = run_isa(s, err);
    }
out:
    pool_free(s->be.pool);
    xfree(s->peak_flops);
    xfree(s);
    return rc;
}
