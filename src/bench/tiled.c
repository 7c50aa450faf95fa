/* tiled.c — how fast are products with tiled weights, compared with the best the machine could do?
 *
 * The shapes are those of decoding with the base model: M rows (hypotheses, or words of a batch)
 * against its weights. Two yardsticks, measured on the same threads and in turns with the products:
 * the kernel's own arithmetic on registers bounds products with many rows, and reading memory
 * bounds those with few, which must bring in all of w for little work. Other programs can only slow
 * any of them down, so each is the best of many short runs.
 *
 * Weights come in enough copies, used in turn, that none is still in a cache when its turn comes,
 * as in a model whose layers take turns: that is how decoding meets w. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/tiled.h"
#include "backend/tile.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench/products.h"

enum {
    COPIES_BYTES = 128 << 20, /* of weights: beyond the caches */
    READ_RING = 64 << 20,     /* what the reading yardstick goes over */
    READ_BYTES = 4 << 20,     /* of a run of the reading yardstick, per thread */
    MIN_RUNS = 5,
    PEAK_RUNS = 20,
};

static const int rows_of_x[] = {1, 4, 16, 32, 128, 512, 2048};
static const struct {
    int n, k;
} weights[] = {{512, 512}, {1536, 512}, {2048, 512}, {512, 2048}, {32000, 512}};
static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I8};

struct bench {
    const struct bench_gemm_options *o;
    struct cpu_backend be;
    struct tiled t;
    char *w, *ring; /* COPIES_BYTES of weights; READ_RING bytes */
    size_t w_size;
    int copies, copy;
    void *workspace;
    /* yardsticks */
    double (*peak)(int64_t iterations);
    void (*enter)(void), (*leave)(void);
    double *done;                /* per task */
    double peak_rate, read_rate; /* best so far: operations and bytes per second */
    size_t read_at;
};

struct speed {
    double seconds, rate, of_peak, read, of_read;
};

static const char *type_name(enum dtype type) {
    return type == DTYPE_I8 ? "int8" : dtype_name(type);
}

/* ---- the yardsticks -------------------------------------------------------------------------- */

static void peak_task(void *ctx, int task, int thread) {
    struct bench *s = ctx;
    (void)thread;
    if (s->enter) s->enter();
    s->done[task] = s->peak(50000);
    if (s->leave) s->leave();
}

static double peak_rate(struct bench *s) {
    const int n = pool_size(s->be.pool);
    double done = 0;
    const double start = clock_seconds();
    pool_run(s->be.pool, peak_task, s, n);
    const double seconds = clock_seconds() - start;
    for (int i = 0; i < n; i++) done += s->done[i];
    return done / seconds;
}

static void measure_yardsticks(struct bench *s) {
    const size_t span = READ_BYTES * (size_t)pool_size(s->be.pool);
    s->peak_rate = fmax(s->peak_rate, peak_rate(s));
    if (s->read_at + span > READ_RING) s->read_at = 0;
    s->read_rate = fmax(s->read_rate, bench_read_rate(s->be.pool, s->ring + s->read_at,
                                                      span < READ_RING ? span : READ_RING));
    s->read_at += span;
}

/* ---- one case -------------------------------------------------------------------------------- */

static double product_seconds(struct bench *s) {
    s->t.w.data = s->w + (size_t)s->copy * s->w_size;
    s->copy = (s->copy + 1) % s->copies;
    const double start = clock_seconds();
    tiled_run(&s->be, &s->t, s->workspace);
    return clock_seconds() - start;
}

static struct speed measure(struct bench *s) {
    struct speed v = {.seconds = product_seconds(s)};
    const double end = clock_seconds() + 1e-3 * s->o->min_ms;
    for (int i = 0; i < MIN_RUNS || clock_seconds() < end; i++) {
        const double seconds = product_seconds(s);
        if (seconds < v.seconds) v.seconds = seconds;
        if (i % 64 == 0) measure_yardsticks(s);
        if (seconds > 1) break; /* long enough to speak for itself */
    }
    v.rate = 2.0 * s->t.x.rows * s->t.w.rows * s->t.w.cols / v.seconds;
    v.read = (double)s->w_size / v.seconds;
    v.of_peak = v.rate / s->peak_rate;
    v.of_read = v.read / s->read_rate;
    return v;
}

static void report(const struct bench *s, const struct speed *v) {
    const struct tiled *t = &s->t;
    if (s->o->json)
        printf(
            "{\"bench\":\"tiled\",\"isa\":\"%s\",\"dtype\":\"%s\",\"threads\":%d,\"m\":%d,\"n\":%d,"
            "\"k\":%d,\"us\":%.2f,\"gops\":%.2f,\"ratio\":%.4f,\"gops_peak\":%.2f,\"gbs\":%.2f,"
            "\"gbs_ratio\":%.4f,\"gbs_peak\":%.2f}\n",
            s->be.isa->name, type_name(t->w.type), pool_size(s->be.pool), t->x.rows, t->w.rows,
            t->w.cols, 1e6 * v->seconds, 1e-9 * v->rate, v->of_peak, 1e-9 * s->peak_rate,
            1e-9 * v->read, v->of_read, 1e-9 * s->read_rate);
    else
        printf("%-11s %-5s %6d %6d %6d %10.1f %10.1f %7.1f%% %10.1f %7.1f%%\n", s->be.isa->name,
               type_name(t->w.type), t->x.rows, t->w.rows, t->w.cols, 1e6 * v->seconds,
               1e-9 * v->rate, 100 * v->of_peak, 1e-9 * v->read, 100 * v->of_read);
    fflush(stdout);
}

/* ---- all cases ------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Every byte pattern here is a small weight: no value is denormal, infinite or beyond its type's
 * range. */
static void fill_weights(char *w, size_t size, enum dtype type) {
    uint32_t state = 1;
    for (size_t i = 0; i + 4 <= size; i += 4) {
        const uint32_t r = next_random(&state) >> 8;
        uint32_t word = 0x3f000000u | (r & 0x7fffffu);
        if (type == DTYPE_BF16) word = 0x3f003f00u | (r & 0x7f007fu);
        if (type == DTYPE_I8) word = r & 0x3f3f3f3fu;
        memcpy(w + i, &word, 4);
    }
}

static int run_case(struct bench *s, int m, int n, int k, enum dtype type, struct err *err) {
    const enum dtype act = type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
    struct mat scale = bench_mat(1, (int)tiled_rows(n), DTYPE_F32);
    int32_t *sum = xcalloc(tiled_rows(n), sizeof *sum);
    s->t = (struct tiled){.y = bench_mat(m, n, act),
                          .x = bench_mat(m, k, act),
                          .b = bench_mat(1, n, act),
                          .w = {.ld = k, .rows = n, .cols = k, .type = type, .tiled = 1}};
    s->t.w.scale = scale.data;
    s->t.w.sum = sum;
    s->w_size = tiled_bytes(n, k, type);
    for (s->copies = 1; s->w_size * (size_t)(s->copies + 1) <= COPIES_BYTES && s->copies < 4096;)
        s->copies++;
    s->copy = 0;
    s->workspace = mem_block(tiled_workspace(&s->be, &s->t));
    int rc = 0;
    if (!s->t.y.data || !s->t.x.data || !s->t.b.data || !scale.data || !s->workspace) {
        rc = err_set(err, HEED_ENOMEM, "bench gemm: not enough memory for %d x %d x %d", m, n, k);
    } else {
        const struct speed v = measure(s);
        report(s, &v);
    }
    void *blocks[] = {s->t.y.data, s->t.x.data, s->t.b.data, scale.data, s->workspace};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mem_block_free(blocks[i]);
    xfree(sum);
    return rc;
}

/* The arithmetic of f32 and bf16 products is that of the plain ones. */
static void pick_peak(struct bench *s, enum dtype type) {
    const struct tiled_kernel *kernel = tiled_kernel_of(s->be.isa, type, INT_MAX);
    const struct gemm_kernel *plain =
        type == DTYPE_BF16 ? s->be.isa->gemm_bf16 : s->be.isa->gemm_f32;
    s->peak = kernel->peak ? kernel->peak : plain->peak;
    s->enter = kernel->enter;
    s->leave = kernel->leave;
    s->peak_rate = 0;
    for (int i = 0; i < PEAK_RUNS; i++) measure_yardsticks(s);
}

static int run_type(struct bench *s, enum dtype type, struct err *err) {
    const int *rows = s->o->m ? &s->o->m : rows_of_x;
    const int n_rows = s->o->m ? 1 : (int)(sizeof rows_of_x / sizeof *rows_of_x);
    fill_weights(s->w, COPIES_BYTES, type);
    pick_peak(s, type);
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
        for (int i = 0; i < n_rows; i++) {
            const int rc = run_case(s, rows[i], weights[w].n, weights[w].k, type, err);
            if (rc) return rc;
        }
    return 0;
}

static int run_isa(struct bench *s, struct err *err) {
    int rc = 0;
    for (int t = 0; !rc && t < (int)(sizeof types / sizeof *types); t++)
        if (!s->o->dtype || s->o->dtype == t + 1) rc = run_type(s, types[t], err);
    return rc;
}

int bench_tiled_run(const struct bench_gemm_options *o, struct err *err) {
    const struct isa *only;
    struct bench *s = xcalloc(1, sizeof *s);
    s->o = o;
    int rc = bench_products_open(&s->be, &only, o, err);
    if (rc) goto out;
    s->done = xcalloc((size_t)pool_size(s->be.pool), sizeof *s->done);
    s->w = mem_block(COPIES_BYTES);
    s->ring = mem_block(READ_RING);
    if (!s->w || !s->ring) {
        rc = err_set(err, HEED_ENOMEM, "bench gemm: not enough memory for weights");
        goto out;
    }
    memset(s->ring, 0, READ_RING);
    if (!o->json)
        printf(
            "y = x w^T + b, x [m,k], w [n,k] tiled and not in a cache, %d threads; peak: the same "
            "arithmetic on registers; read: memory read by the same threads\n"
            "%-11s %-5s %6s %6s %6s %10s %10s %8s %10s %8s\n",
            pool_size(s->be.pool), "isa", "dtype", "m", "n", "k", "us", "GOP/s", "of peak",
            "GB/s of w", "of read");
    while (!rc && bench_next_isa(&s->be, only)) rc = run_isa(s, err);
out:
    pool_free(s->be.pool);
    mem_block_free(s->w);
    mem_block_free(s->ring);
    xfree(s->done);
    xfree(s);
    return rc;
}
