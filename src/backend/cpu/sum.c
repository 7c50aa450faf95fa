/* sum.c — the pairwise tree in which gradients are added.
 *
 * Bound by memory: every row is read once. A task is a fixed range of elements. */
#include "backend/cpu/cpu.h"
#include "base/num.h"

enum { RANGE = 1 << 15 }; /* elements per task */

struct sum_job {
    const struct sum_args *a;
    const struct row_kernels *rows;
};

static void sum_task(void *ctx, int task, int thread) {
    const struct sum_job *j = ctx;
    (void)thread;
    int64_t first = (int64_t)task * RANGE;
    j->rows->sum(j->a, first, min_i64(RANGE, j->a->x.cols - first));
}

void cpu_sum(struct backend *base, const struct sum_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!backend_scratch(&be->base, 0)) return;
    struct sum_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, sum_task, &job, ceil_div(a->x.cols, RANGE));
}
