/* blend.c — the mean of an ensemble's distributions.
 *
 * A task is a row. The sums of exponentials are those of topk.c, block by block; then the row is
 * gone through once more, the models side by side. Bound by exponentials: two per model and token,
 * and a logarithm. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/num.h"

struct blend_job {
    const struct blend_args *a;
    const struct row_kernels *rows;
    int n_block;
    float *block; /* [threads, 2, n_block] maxima and sums */
};

/* log sum_v exp(z_v) of a row; NaN where that is no number. */
static float log_sum(const struct blend_job *j, const struct mat *z, int row, float *max) {
    float *sum = max + j->n_block, top = -INFINITY;
    for (int i = 0; i < j->n_block; i++) {
        int col = i * SUM_BLOCK;
        struct mat part = mat_cols(mat_rows(*z, row, 1), col, min_int(SUM_BLOCK, z->cols - col));
        j->rows->soft_sum(part.data, z->type, part.cols, &max[i], &sum[i]);
        top = fmaxf(top, max[i]);
    }
    return top + logf(j->rows->soft_join(max, sum, j->n_block, top));
}

static void row_task(void *ctx, int row, int thread) {
    const struct blend_job *j = ctx;
    float lse[BLEND_MOST];
    for (int m = 0; m < j->a->n; m++)
        lse[m] = log_sum(j, &j->a->z[m], row, j->block + (size_t)thread * 2 * (size_t)j->n_block);
    j->rows->blend(j->a, row, lse);
}

void cpu_blend(struct backend *base, const struct blend_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct blend_job job = {
        .a = a, .rows = be->isa->rows, .n_block = ceil_div(a->out.cols, SUM_BLOCK)};
    size_t n = (size_t)pool_size(be->pool) * 2 * (size_t)job.n_block;
    if (!(job.block = backend_scratch(base, n * sizeof *job.block))) return;
    pool_run(be->pool, row_task, &job, a->out.rows);
}
