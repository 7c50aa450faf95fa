/* ssru_step.c — one row per hypothesis of ssru over a cache of states, for decoding.
 *
 * Each hypothesis reads one row of the cache and writes one, however long it is. */
#include "backend/cpu/cpu.h"
#include "base/num.h"

enum { SSRU_STEP_WORK = 1 << 13 }; /* elements of a task: fewer are not worth handing out */

struct ssru_step_job {
    const struct ssru_step_args *a;
    const struct row_kernels *rows;
    int rows_per_task;
};

static void step_task(void *ctx, int task, int thread) {
    const struct ssru_step_job *j = ctx;
    (void)thread;
    int first = task * j->rows_per_task, last = first + j->rows_per_task;
    j->rows->ssru_step(j->a, first, min_int(last, j->a->g.rows));
}

void cpu_ssru_step(struct backend *base, const struct ssru_step_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!backend_scratch(&be->base, 0)) return;
    struct ssru_step_job job = {.a = a, .rows = be->isa->rows};
    job.rows_per_task = ceil_div(SSRU_STEP_WORK, a->g.cols);
    pool_run(be->pool, step_task, &job, ceil_div(a->g.rows, job.rows_per_task));
}
