/* sum_rows.c — column sums for bias and norm gradients. */
#include "backend/cpu/cpu.h"
#include "base/num.h"

enum { SUM_COLS = 256 }; /* of a task */

struct sum_job {
    float *sum;
    const struct mat *x;
    const struct row_kernels *rows;
};

static void sum_task(void *ctx, int task, int thread) {
    const struct sum_job *j = ctx;
    (void)thread;
    int col = task * SUM_COLS;
    j->rows->column_sums(j->sum + col, j->x, col, min_int(SUM_COLS, j->x->cols - col));
}

void cpu_sum_rows(struct cpu_backend *be, float *sum, const struct mat *x) {
    struct sum_job job = {.sum = sum, .x = x, .rows = be->isa->rows};
    pool_run(be->pool, sum_task, &job, ceil_div(x->cols, SUM_COLS));
}
