/* adam.c — the optimizer's step.        PAPER: 5.3.
 *
 * One pass over flat buffers, bound by memory: Adam reads p, g, m, v and writes p, m, v (and g, and
 * the bf16 copy), up to 34 bytes per parameter, 8 more with an average. A task is a fixed range
 * of elements. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/num.h"

enum { RANGE = 1 << 15 }; /* elements per task */

struct adam_job {
    const struct adam_args *a;
    const struct row_kernels *rows;
    struct adam_factors f;
};

static void adam_task(void *ctx, int task, int thread) {
    const struct adam_job *j = ctx;
    (void)thread;
    int64_t first = (int64_t)task * RANGE;
    j->rows->adam(j->a, &j->f, first, min_i64(RANGE, j->a->p.cols - first));
}

void cpu_adam(struct backend *base, const struct adam_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!backend_scratch(&be->base, 0)) return;
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
    pool_run(be->pool, adam_task, &job, ceil_div(a->p.cols, RANGE));
}
