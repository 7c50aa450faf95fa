/* sumsq.c — the sum of squares that clipping needs.
 *
 * Taken in double; a task is a few of the ranges of a row. */
#include "backend/cpu/cpu.h"
#include "base/num.h"

enum { PER_TASK = 8 }; /* ranges */

struct sumsq_job {
    const struct sumsq_args *a;
    const struct row_kernels *rows;
    int per_row; /* tasks */
};

static void sumsq_task(void *ctx, int task, int thread) {
    const struct sumsq_job *j = ctx;
    (void)thread;
    const struct mat *x = &j->a->x, *out = &j->a->out;
    const char *row = mat_row(x, task / j->per_row);
    double *to = mat_row(out, task / j->per_row);
    int begin = task % j->per_row * PER_TASK, end = (int)min_i64(begin + PER_TASK, out->cols);
    for (int i = begin; i < end; i++) {
        int64_t first = (int64_t)i * SUMSQ_RANGE;
        to[i] += j->rows->sumsq(row + (size_t)first * dtype_size(x->type), x->type,
                                min_i64(SUMSQ_RANGE, x->cols - first));
    }
}

void cpu_sumsq(struct backend *base, const struct sumsq_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct sumsq_job job = {.a = a, .rows = be->isa->rows};
    if (!backend_scratch(&be->base, 0)) return;
    job.per_row = ceil_div(a->out.cols, PER_TASK);
    pool_run(be->pool, sumsq_task, &job, a->x.rows * job.per_row);
}
