/* adam.c — the optimizer's step and the sum of squares that clipping needs.        PAPER: 5.3.
 *
 * One pass over flat buffers, bound by memory: Adam reads p, g, m, v and writes p, m, v (and g, and
 * the bf16 copy), up to 34 bytes per parameter. A task is a fixed range of elements. The sum of
 * squares is taken in double, per range, and the ranges are added in order. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/mem.h"

enum { RANGE = 1 << 15 }; /* elements per task */

static int64_t range_length(int64_t n, int64_t first) {
    return n - first < RANGE ? n - first : RANGE;
}

struct sumsq_job {
    const struct mat *x;
    const struct row_kernels *rows;
    int per_row;     /* ranges per row */
    double *partial; /* [rows * per_row] */
};

static void sumsq_task(void *ctx, int task, int thread) {
    const struct sumsq_job *j = ctx;
    (void)thread;
    int64_t first = (int64_t)(task % j->per_row) * RANGE;
    const char *row = mat_row(j->x, task / j->per_row);
    j->partial[task] = j->rows->sumsq(row + (size_t)first * dtype_size(j->x->type), j->x->type,
                                      range_length(j->x->cols, first));
}

void cpu_sumsq(struct backend *base, const struct sumsq_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct sumsq_job job = {.x = &a->x, .rows = be->isa->rows};
    job.per_row = cpu_blocks(a->x.cols, RANGE);
    int n_task = a->x.rows * job.per_row;
    job.partial = cpu_workspace(be, size_mul((size_t)n_task, sizeof *job.partial));
    if (!job.partial) return;
    pool_run(be->pool, sumsq_task, &job, n_task);
    double sum = 0;
    for (int i = 0; i < n_task; i++) sum += job.partial[i];
    *(double *)a->out.data += sum;
}

struct adam_job {
    const struct adam_args *a;
    const struct row_kernels *rows;
    struct adam_factors f;
};

static void adam_task(void *ctx, int task, int thread) {
    const struct adam_job *j = ctx;
    (void)thread;
    int64_t first = (int64_t)task * RANGE;
    j->rows->adam(j->a, &j->f, first, range_length(j->a->p.cols, first));
}

void cpu_adam(struct backend *base, const struct adam_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!cpu_workspace(be, 0)) return;
    double b1 = a->beta1, b2 = a->beta2, clip = 1;
    double bias1 = 1 - pow(b1, (double)a->t), bias2 = 1 - pow(b2, (double)a->t);
    if (a->clip > 0) clip = fmin(1, a->clip / sqrt(*(const double *)a->sumsq.data));
    struct adam_job job = {.a = a, .rows = be->isa->rows};
    job.f = (struct adam_factors){.clip = (float)clip,
                                  .beta1 = a->beta1,
                                  .beta1_rest = (float)(1 - b1),
                                  .beta2 = a->beta2,
                                  .beta2_rest = (float)(1 - b2),
                                  .rate = (float)(a->lr / bias1),
                                  .inv_bias2 = (float)(1 / bias2),
                                  .eps = a->eps};
    pool_run(be->pool, adam_task, &job, cpu_blocks(a->p.cols, RANGE));
}
