/* sumsq.c — the sum of squares that clipping needs.
 *
 * Taken in double, per range of elements, which is a task; the ranges are added in order. */
#include "backend/cpu/cpu.h"
#include "base/mem.h"
#include "base/num.h"

enum { RANGE = 1 << 15 }; /* elements per task */

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
                                      min_i64(RANGE, j->x->cols - first));
}

void cpu_sumsq(struct backend *base, const struct sumsq_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct sumsq_job job = {.x = &a->x, .rows = be->isa->rows};
    job.per_row = ceil_div(a->x.cols, RANGE);
    int n_task = a->x.rows * job.per_row;
    job.partial = backend_scratch(&be->base, size_mul((size_t)n_task, sizeof *job.partial));
    if (!job.partial) return;
    pool_run(be->pool, sumsq_task, &job, n_task);
    double sum = 0;
    for (int i = 0; i < n_task; i++) sum += job.partial[i];
    *(double *)a->out.data += sum;
}
