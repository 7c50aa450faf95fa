/* linear.c — y = drop(act(x w^T + b)), and its reverse.        PAPER: 3.3 for the ReLU.
 *
 * The product, that of gemm.h or for tiled weights that of tiled.h, carries bias and ReLU in its
 * epilogue, so the paper's layers are one pass. GELU and SiLU keep z and take a second pass z -> y
 * over blocks of rows; dropout is part of it.
 *
 * Backward, one pass turns dy into dz in place and sums its columns for db, per block of rows into
 * partial sums; then two products. Without activation, dropout and bias there is nothing to do
 * before them. Where x came out of a ReLU the same pass goes over dx. Bound by the products
 * everywhere but there. */
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/tiled.h"
#include "base/mem.h"
#include "base/num.h"

struct linear_job {
    const struct linear_args *a;
    const struct row_kernels *rows;
    struct mat partial; /* [blocks of rows, out] column sums of dz; absent without db */
};

static void fwd_task(void *ctx, int task, int thread) {
    const struct linear_job *j = ctx;
    (void)thread;
    int first = task * CPU_BLOCK_ROWS, last = first + CPU_BLOCK_ROWS;
    j->rows->linear_fwd(j->a, first, min_int(last, j->a->y.rows));
}

/* z = x w^T + b with plain weights, ReLU included. Returns 0 when there is nothing to compute. */
static int fwd_plain(struct cpu_backend *be, const struct linear_args *a, const struct mat *z) {
    struct gemm product = gemm_of(z, &a->x, 0, &a->w, 1);
    product.bias = mat_empty(&a->b) ? NULL : a->b.data;
    product.bias_type = a->b.type;
    product.relu = a->act == ACT_RELU;
    void *ws = backend_scratch(&be->base, gemm_workspace(be, &product));
    if (ws) gemm_run(be, &product, ws);
    return ws != NULL;
}

static int fwd_tiled(struct cpu_backend *be, const struct linear_args *a, const struct mat *z) {
    const struct tiled product = {
        .y = *z, .x = a->x, .w = a->w, .b = a->b, .relu = a->act == ACT_RELU};
    void *ws = backend_scratch(&be->base, tiled_workspace(be, &product));
    if (ws) tiled_run(be, &product, ws);
    return ws != NULL;
}

void cpu_linear_fwd(struct backend *base, const struct linear_args *a) {
    struct cpu_backend *be = cpu_of(base);
    int smooth = act_keeps_z(a->act);
    const struct mat *z = smooth ? &a->z : &a->y;
    if (!(a->w.tiled ? fwd_tiled : fwd_plain)(be, a, z)) return;
    if (!smooth && dropout_threshold(a->drop.p) == 0) return;
    struct linear_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, fwd_task, &job, ceil_div(a->y.rows, CPU_BLOCK_ROWS));
}

static void bwd_task(void *ctx, int task, int thread) {
    const struct linear_job *j = ctx;
    (void)thread;
    int first = task * CPU_SUM_ROWS, last = first + CPU_SUM_ROWS;
    float *db = mat_empty(&j->partial) ? NULL : mat_row(&j->partial, task);
    if (db) memset(db, 0, (size_t)j->partial.cols * sizeof *db);
    j->rows->linear_bwd(j->a, first, min_int(last, j->a->dy.rows), db);
}

/* dz in place of dy, and db. */
static void bwd_rows(struct cpu_backend *be, const struct linear_args *a, void *partial) {
    struct linear_job job = {.a = a, .rows = be->isa->rows};
    int n_block = ceil_div(a->dy.rows, CPU_SUM_ROWS);
    if (a->act == ACT_NONE && dropout_threshold(a->drop.p) == 0 && mat_empty(&a->db)) return;
    if (!mat_empty(&a->db)) job.partial = mat_of(partial, n_block, a->dy.cols, DTYPE_F32);
    pool_run(be->pool, bwd_task, &job, n_block);
    if (!mat_empty(&a->db)) cpu_sum_rows(be, a->db.data, &job.partial);
}

static size_t partial_size(const struct mat *sum, int rows) {
    return size_mul((size_t)ceil_div(rows, CPU_SUM_ROWS) * sizeof(float), (size_t)sum->cols);
}

void cpu_linear_bwd(struct backend *base, const struct linear_args *a) {
    struct cpu_backend *be = cpu_of(base);
    /* The layer that made x, as far as its dz and db can be had here. */
    const struct linear_args below = {
        .y = a->x, .act = a->x_act, .drop.p = a->x_p, .dy = a->dx, .db = a->dx_sum};
    struct gemm dx = gemm_of(&a->dx, &a->dy, 0, &a->w, 0);
    struct gemm dw = gemm_of(&a->dw, &a->dy, 1, &a->x, 0);
    dx.add = a->dx_add;
    dw.add = 1;
    /* The partial sums of a pass are spent before the next product begins: one workspace does. */
    size_t size = gemm_workspace(be, &dw);
    if (!mat_empty(&a->dx)) size = max_size(size, gemm_workspace(be, &dx));
    size = max_size(size, partial_size(&a->db, a->dy.rows));
    size = max_size(size, partial_size(&a->dx_sum, a->dy.rows));
    void *ws = backend_scratch(&be->base, size);
    if (!ws) return;
    bwd_rows(be, a, ws);
    if (!mat_empty(&a->dx)) gemm_run(be, &dx, ws);
    if (a->x_act != ACT_NONE) bwd_rows(be, &below, ws);
    gemm_run(be, &dw, ws);
}
