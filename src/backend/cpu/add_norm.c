/* add_norm.c — y = LayerNorm(x + drop(s)), and its reverse.        PAPER: 3.1 and 5.4.
 *
 * A row is read once and stays in the first-level cache for the passes that follow (sum, squares,
 * output), so both directions are bound by memory: forward moves x, s, r and y, backward dy, r, dx
 * and ds. A task is a block of rows; backward it also sums its rows' share of dgamma, dbeta and
 * dbias into a row of partial sums. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/mem.h"
#include "base/num.h"

struct add_norm_job {
    const struct add_norm_args *a;
    const struct row_kernels *rows;
    struct mat partial; /* [blocks of rows, 2 d or 3 d]: dgamma, dbeta, and if asked for dbias */
};

static void fwd_task(void *ctx, int task, int thread) {
    const struct add_norm_job *j = ctx;
    (void)thread;
    int first = task * CPU_BLOCK_ROWS, last = first + CPU_BLOCK_ROWS;
    j->rows->add_norm_fwd(j->a, first, min_int(last, j->a->x.rows));
}

void cpu_add_norm_fwd(struct backend *base, const struct add_norm_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!backend_scratch(&be->base, 0)) return;
    struct add_norm_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, fwd_task, &job, ceil_div(a->x.rows, CPU_BLOCK_ROWS));
}

static void bwd_task(void *ctx, int task, int thread) {
    const struct add_norm_job *j = ctx;
    (void)thread;
    int first = task * CPU_SUM_ROWS, last = first + CPU_SUM_ROWS, d = j->a->dy.cols;
    float *sums = mat_row(&j->partial, task);
    memset(sums, 0, (size_t)j->partial.cols * sizeof *sums);
    j->rows->add_norm_bwd(j->a, first, min_int(last, j->a->dy.rows), sums, sums + d,
                          mat_empty(&j->a->dbias) ? NULL : sums + 2 * (size_t)d);
}

void cpu_add_norm_bwd(struct backend *base, const struct add_norm_args *a) {
    struct cpu_backend *be = cpu_of(base);
    int n_block = ceil_div(a->dy.rows, CPU_SUM_ROWS), d = a->dy.cols;
    int wide = mat_empty(&a->dbias) ? 2 * d : 3 * d;
    void *ws = backend_scratch(&be->base, size_mul((size_t)n_block * sizeof(float), (size_t)wide));
    if (!ws) return;
    struct add_norm_job job = {.a = a, .rows = be->isa->rows};
    job.partial = mat_of(ws, n_block, wide, DTYPE_F32);
    pool_run(be->pool, bwd_task, &job, n_block);
    struct mat dgamma = mat_cols(job.partial, 0, d), dbeta = mat_cols(job.partial, d, d);
    cpu_sum_rows(be, a->dgamma.data, &dgamma);
    cpu_sum_rows(be, a->dbeta.data, &dbeta);
    if (mat_empty(&a->dbias)) return;
    struct mat dbias = mat_cols(job.partial, 2 * d, d);
    cpu_sum_rows(be, a->dbias.data, &dbias);
}
