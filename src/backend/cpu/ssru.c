/* ssru.c — the recurrence that stands in a decoder's self-attention's place, and its reverse.
 *
 * Time is serial, columns are not: a task is a sentence and a strip of its columns. Both directions
 * are bound by memory and by one exponential and one division per element: forward moves g, x, c
 * and o, backward also dout, dg and dx. */
#include "backend/cpu/cpu.h"
#include "base/num.h"

struct ssru_job {
    const struct ssru_args *a;
    void (*kernel)(const struct ssru_args *a, int first, int last, int col, int n);
    int n_strip;
};

static void ssru_task(void *ctx, int task, int thread) {
    const struct ssru_job *j = ctx;
    (void)thread;
    const int32_t *start = j->a->rows.start + task / j->n_strip;
    int col = task % j->n_strip * SSRU_COLUMNS;
    j->kernel(j->a, start[0], start[1], col, min_int(SSRU_COLUMNS, j->a->g.cols - col));
}

static void run(struct cpu_backend *be, struct ssru_job job) {
    if (!backend_scratch(&be->base, 0)) return;
    job.n_strip = ceil_div(job.a->g.cols, SSRU_COLUMNS);
    pool_run(be->pool, ssru_task, &job, job.a->rows.n_seq * job.n_strip);
}

void cpu_ssru_fwd(struct backend *base, const struct ssru_args *a) {
    struct cpu_backend *be = cpu_of(base);
    run(be, (struct ssru_job){.a = a, .kernel = be->isa->rows->ssru_fwd});
}

void cpu_ssru_bwd(struct backend *base, const struct ssru_args *a) {
    struct cpu_backend *be = cpu_of(base);
    run(be, (struct ssru_job){.a = a, .kernel = be->isa->rows->ssru_bwd});
}
