/* embed.c — token embedding plus position, and its reverse.        PAPER: 3.4 and 3.5.
 *
 * Forward, a task is a block of rows: two rows in, one out, bound by memory. Backward scatters into
 * the rows of the table, where tokens collide; a task is therefore a slice of columns of the whole
 * batch, which it walks from the first token to the last: no two tasks touch the same element, and
 * sums have one order. */
#include "backend/cpu/cpu.h"
#include "base/num.h"

enum {
    SLICE = 64
}; /* columns; 256 bytes of a table row, and a multiple of the 8 that share a draw */

struct embed_job {
    const struct embed_args *a;
    const struct row_kernels *rows;
};

static void fwd_task(void *ctx, int task, int thread) {
    const struct embed_job *j = ctx;
    (void)thread;
    int first = task * CPU_BLOCK_ROWS, last = first + CPU_BLOCK_ROWS;
    j->rows->embed_fwd(j->a, first, min_int(last, j->a->y.rows));
}

void cpu_embed_fwd(struct backend *base, const struct embed_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!backend_scratch(&be->base, 0)) return;
    struct embed_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, fwd_task, &job, ceil_div(a->y.rows, CPU_BLOCK_ROWS));
}

static void bwd_task(void *ctx, int task, int thread) {
    const struct embed_job *j = ctx;
    (void)thread;
    int col = task * SLICE, left = j->a->dy.cols - col;
    j->rows->embed_bwd(j->a, col, min_int(left, SLICE));
}

void cpu_embed_bwd(struct backend *base, const struct embed_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!backend_scratch(&be->base, 0)) return;
    struct embed_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, bwd_task, &job, ceil_div(a->dy.cols, SLICE));
}
