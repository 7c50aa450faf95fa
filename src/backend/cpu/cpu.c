/* cpu.c — the cpu backend as a device: host memory, a pool of threads, one workspace, and its op
 * table.
 *
 * There is no queue: an op has finished when its slot returns, so sync has nothing to wait for. The
 * ops are in the files named after them. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "base/mem.h"

static void cpu_close(struct backend *base) {
    struct cpu_backend *be = cpu_of(base);
    pool_free(be->pool);
    mem_block_free(be->workspace);
    xfree(be);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *cpu_alloc(struct backend *be, size_t size) {
    (void)be;
    return mem_block(size);
}

static void cpu_free(struct backend *be, void *ptr) {
    (void)be;
    mem_block_free(ptr);
}

static void cpu_upload(struct backend *be, void *dst, const void *host_src, size_t size) {
    (void)be;
    memcpy(dst, host_src, size);
}

static void cpu_download(struct backend *be, void *host_dst, const void *src, size_t size) {
    (void)be;
    memcpy(host_dst, src, size);
}

static void cpu_zero(struct backend *be, void *dst, size_t size) {
    (void)be;
    memset(dst, 0, size);
}

static void cpu_sync(struct backend *be) { (void)be; }

/* ---- workspace ------------------------------------------------------------------------------- */

static int workspace_grow(struct cpu_backend *be, size_t size) {
    mem_block_free(be->workspace);
    be->workspace = mem_block(size);
    be->workspace_size = be->workspace ? size : 0;
    if (be->workspace) return 0;
    backend_fail(&be->base, HEED_ENOMEM, "cpu: cannot allocate a workspace of %.1f MiB",
                 (double)size / 1048576.0);
    return HEED_ENOMEM;
}

static void cpu_commit(struct backend *base, size_t size) {
    struct cpu_backend *be = cpu_of(base);
    if (!be->workspace || size > be->workspace_size) workspace_grow(be, size);
}

void *cpu_workspace(struct cpu_backend *be, size_t size) {
    if (be->base.planning) {
        if (size > be->base.need) be->base.need = size;
        return NULL;
    }
    if (be->workspace && size <= be->workspace_size) return be->workspace;
    if (be->base.committed) {
        backend_fail(&be->base, HEED_EINTERNAL,
                     "cpu: an op wants a workspace of %zu bytes, %zu were planned", size,
                     be->workspace_size);
        return NULL;
    }
    return workspace_grow(be, size) == 0 ? be->workspace : NULL;
}

/* ---- shared ---------------------------------------------------------------------------------- */

/* Columns of a flat pass that one task handles; 64 KiB of f32. */
enum { FLAT = 16384, SUM_COLS = 256 };

struct sum_job {
    float *sum;
    const struct mat *x;
    const struct row_kernels *rows;
};

static void sum_task(void *ctx, int task, int thread) {
    const struct sum_job *j = ctx;
    (void)thread;
    int col = task * SUM_COLS, left = j->x->cols - col;
    j->rows->column_sums(j->sum + col, j->x, col, left < SUM_COLS ? left : SUM_COLS);
}

void cpu_sum_rows(struct cpu_backend *be, float *sum, const struct mat *x) {
    struct sum_job job = {.sum = sum, .x = x, .rows = be->isa->rows};
    pool_run(be->pool, sum_task, &job, cpu_blocks(x->cols, SUM_COLS));
}

/* ---- cast ------------------------------------------------------------------------------------ */

struct cast_job {
    const struct mat *dst, *src;
    const struct row_kernels *rows;
    int n_row, n_strip; /* rows per task; strips of FLAT columns per row */
};

static double get_wide(const void *row, enum dtype type, int j) {
    return type == DTYPE_F64   ? ((const double *)row)[j]
           : type == DTYPE_F32 ? (double)((const float *)row)[j]
                               : (double)bf16_load(((const uint16_t *)row)[j]);
}

/* F64 is a host-side visitor (totals, statistics): one element at a time will do. */
static void cast_wide(void *dst, enum dtype dst_type, const void *src, enum dtype src_type, int n) {
    for (int j = 0; j < n; j++) {
        double x = get_wide(src, src_type, j);
        if (dst_type == DTYPE_F64)
            ((double *)dst)[j] = x;
        else if (dst_type == DTYPE_F32)
            ((float *)dst)[j] = (float)x;
        else
            ((uint16_t *)dst)[j] = bf16_store((float)x);
    }
}

static void cast_task(void *ctx, int task, int thread) {
    const struct cast_job *j = ctx;
    (void)thread;
    int first = task / j->n_strip * j->n_row, col = task % j->n_strip * FLAT;
    int n = j->dst->cols - col < FLAT ? j->dst->cols - col : FLAT;
    for (int i = first; i < first + j->n_row && i < j->dst->rows; i++) {
        enum dtype to = j->dst->type, from = j->src->type;
        void *dst = (char *)mat_row(j->dst, i) + (size_t)col * dtype_size(to);
        const void *src = (char *)mat_row(j->src, i) + (size_t)col * dtype_size(from);
        if (to == DTYPE_F64 || from == DTYPE_F64)
            cast_wide(dst, to, src, from, n);
        else
            j->rows->convert(dst, to, src, from, n, 1);
    }
}

static void cpu_cast(struct backend *base, const struct mat *dst, const struct mat *src) {
    struct cpu_backend *be = cpu_of(base);
    struct cast_job job = {.dst = dst, .src = src, .rows = be->isa->rows};
    job.n_row = dst->cols < FLAT ? FLAT / dst->cols : 1;
    job.n_strip = cpu_blocks(dst->cols, FLAT);
    pool_run(be->pool, cast_task, &job, cpu_blocks(dst->rows, job.n_row) * job.n_strip);
}

/* ---- open ------------------------------------------------------------------------------------ */

static const struct backend_vtable cpu_vtable = {.name = "cpu",
                                                 .close = cpu_close,
                                                 .alloc = cpu_alloc,
                                                 .free = cpu_free,
                                                 .upload = cpu_upload,
                                                 .download = cpu_download,
                                                 .zero = cpu_zero,
                                                 .cast = cpu_cast,
                                                 .sync = cpu_sync,
                                                 .commit = cpu_commit,
#define CPU_OP_ENTRY(slot, args) .slot = cpu_##slot,
                                                 BACKEND_OPS(CPU_OP_ENTRY)
#undef CPU_OP_ENTRY
};

int cpu_open(struct backend **out, const struct backend_options *options, struct err *err) {
    const struct isa *isa;
    struct pool *pool;
    *out = NULL;
    int rc = isa_select(&isa, options->isa, err);
    if (rc) return rc;
    rc = pool_new(&pool, options->n_thread, err);
    if (rc) return rc;
    struct cpu_backend *be = xcalloc(1, sizeof *be);
    be->base.vt = &cpu_vtable;
    be->pool = pool;
    be->isa = isa;
    *out = &be->base;
    return 0;
}
