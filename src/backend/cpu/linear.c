/* linear.c — y = drop(act(x w^T + b)), and its reverse.        PAPER: 3.3 for the ReLU.
 *
 * The product, that of gemm.h or for tiled weights that of tiled.h, carries bias and ReLU in its
 * epilogue, so the paper's layers are one pass. GELU and SiLU keep z
 * and take a second pass z -> y over blocks of rows; dropout is part of it.
 *
 * Backward, one pass turns dy into dz in place and sums its columns for db, per block of rows into
 * partial sums; then two products. Without activation, dropout and bias there is nothing to do
 * before them. Bound by the products everywhere but there. */
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/tiled.h"
#include "base/mem.h"

struct linear_job {
    const struct linear_args *a;
    const struct row_kernels *rows;
    struct mat partial; /* [blocks of rows, out] column sums of dz; absent without db */
};

static struct gemm_operand operand(const struct mat *m, int trans) {
    return (struct gemm_operand){.data = m->data, .ld = m->ld, .type = m->type, .trans = trans};
}

static void fwd_task(void *ctx, int task, int thread) {
    const struct linear_job *j = ctx;
    (void)thread;
    int first = task * CPU_BLOCK_ROWS, last = first + CPU_BLOCK_ROWS;
    j->rows->linear_fwd(j->a, first, last < j->a->y.rows ? last : j->a->y.rows);
}

/* z = x w^T + b with weights that lie plain, ReLU included. Returns 0 when nothing is to be
 * computed. */
static int fwd_plain(struct cpu_backend *be, const struct linear_args *a, const struct mat *z) {
    struct gemm product = {.m = a->x.rows,
                           .n = a->w.rows,
                           .k = a->x.cols,
                           .a = operand(&a->x, 0),
                           .b = operand(&a->w, 1),
                           .c = z->data,
                           .ldc = z->ld,
                           .c_type = z->type,
                           .bias = mat_empty(&a->b) ? NULL : a->b.data,
                           .bias_type = a->b.type,
                           .relu = a->act == ACT_RELU};
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
    int smooth = a->act == ACT_GELU || a->act == ACT_SILU;
    const struct mat *z = smooth ? &a->z : &a->y;
    if (!(a->w.tiled ? fwd_tiled : fwd_plain)(be, a, z)) return;
    if (!smooth && dropout_threshold(a->drop.p) == 0) return;
    struct linear_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, fwd_task, &job, cpu_blocks(a->y.rows, CPU_BLOCK_ROWS));
}

static void bwd_task(void *ctx, int task, int thread) {
    const struct linear_job *j = ctx;
    (void)thread;
    int first = task * CPU_SUM_ROWS, last = first + CPU_SUM_ROWS;
    float *db = mat_empty(&j->partial) ? NULL : mat_row(&j->partial, task);
    if (db) memset(db, 0, (size_t)j->partial.cols * sizeof *db);
    j->rows->linear_bwd(j->a, first, last < j->a->dy.rows ? last : j->a->dy.rows, db);
}

/* dz in place of dy, and db. */
static void bwd_rows(struct cpu_backend *be, const struct linear_args *a, void *partial) {
    struct linear_job job = {.a = a, .rows = be->isa->rows};
    int n_block = cpu_blocks(a->dy.rows, CPU_SUM_ROWS);
    if (a->act == ACT_NONE && dropout_threshold(a->drop.p) == 0 && mat_empty(&a->db)) return;
    if (!mat_empty(&a->db))
        job.partial =
            (struct mat){.data = partial, .ld = a->dy.cols, .rows = n_block, .cols = a->dy.cols};
    pool_run(be->pool, bwd_task, &job, n_block);
    if (!mat_empty(&a->db)) cpu_sum_rows(be, a->db.data, &job.partial);
}

void cpu_linear_bwd(struct backend *base, const struct linear_args *a) {
    struct cpu_backend *be = cpu_of(base);
    int n = a->x.rows, in = a->x.cols, out = a->w.rows;
    struct gemm dx = {.m = n,
                      .n = in,
                      .k = out,
                      .a = operand(&a->dy, 0),
                      .b = operand(&a->w, 0),
                      .c = a->dx.data,
                      .ldc = a->dx.ld,
                      .c_type = a->dx.type,
                      .add = a->dx_add};
    struct gemm dw = {.m = out,
                      .n = in,
                      .k = n,
                      .a = operand(&a->dy, 1),
                      .b = operand(&a->x, 0),
                      .c = a->dw.data,
                      .ldc = a->dw.ld,
                      .c_type = a->dw.type,
                      .add = 1};
    /* The partial sums are spent before the products begin, so all three share the workspace. */
    size_t size = gemm_workspace(be, &dw), other = mat_empty(&a->dx) ? 0 : gemm_workspace(be, &dx);
    if (other > size) size = other;
    other = mat_empty(&a->db)
                ? 0
                : size_mul((size_t)cpu_blocks(n, CPU_SUM_ROWS) * sizeof(float), (size_t)out);
    void *ws = backend_scratch(&be->base, other > size ? other : size);
    if (!ws) return;
    bwd_rows(be, a, ws);
    if (!mat_empty(&a->dx)) gemm_run(be, &dx, ws);
    gemm_run(be, &dw, ws);
}
