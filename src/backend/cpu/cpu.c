/* cpu.c — the cpu backend as a device: host memory, a pool of threads, and its op table.
 *
 * There is no queue: an op has finished when its slot returns, so sync has nothing to wait for. The
 * ops are in the files named after them. */
#include "backend/cpu/cpu.h"

#include <stdio.h>

#include "backend/host.h"
#include "base/mem.h"
#include "base/num.h"

static void cpu_close(struct backend *base) {
    struct cpu_backend *be = cpu_of(base);
    pool_free(be->pool);
    xfree(be);
}

static void cpu_describe(const struct backend *base, char *text, size_t size) {
    snprintf(text, size, "cpu %s", ((const struct cpu_backend *)base)->isa->name);
}

/* ---- cast ------------------------------------------------------------------------------------ */

/* Columns of a flat pass that one task handles; 64 KiB of f32. */
enum { FLAT = 16384 };

struct cast_job {
    const struct mat *dst, *src;
    const struct row_kernels *rows;
    int n_row, n_strip; /* rows per task; strips of FLAT columns per row */
};

/* F64 is a host-side visitor (totals, statistics), and nobody reads F16 but attention_step: one
 * element at a time will do. */
static void cast_wide(void *dst, enum dtype dst_type, const void *src, enum dtype src_type, int n) {
    for (int j = 0; j < n; j++) dtype_store(dst, dst_type, j, dtype_load(src, src_type, j));
}

static void cast_task(void *ctx, int task, int thread) {
    const struct cast_job *j = ctx;
    (void)thread;
    int first = task / j->n_strip * j->n_row, col = task % j->n_strip * FLAT;
    int n = min_int(FLAT, j->dst->cols - col);
    for (int i = first; i < first + j->n_row && i < j->dst->rows; i++) {
        enum dtype to = j->dst->type, from = j->src->type;
        void *dst = (char *)mat_row(j->dst, i) + (size_t)col * dtype_size(to);
        const void *src = (char *)mat_row(j->src, i) + (size_t)col * dtype_size(from);
        if (to == DTYPE_F64 || from == DTYPE_F64 || from == DTYPE_F16 ||
            (to == DTYPE_F16 && from != DTYPE_F32))
            cast_wide(dst, to, src, from, n);
        else
            j->rows->convert(dst, to, src, from, n, 1);
    }
}

static void cpu_cast(struct backend *base, const struct mat *dst, const struct mat *src) {
    struct cpu_backend *be = cpu_of(base);
    struct cast_job job = {.dst = dst, .src = src, .rows = be->isa->rows};
    job.n_row = dst->cols < FLAT ? FLAT / dst->cols : 1;
    job.n_strip = ceil_div(dst->cols, FLAT);
    pool_run(be->pool, cast_task, &job, ceil_div(dst->rows, job.n_row) * job.n_strip);
}

/* ---- open ------------------------------------------------------------------------------------ */

static const struct backend_vtable cpu_vtable = {.name = "cpu",
                                                 .wants_tiles = 1,
                                                 .describe = cpu_describe,
                                                 .close = cpu_close,
                                                 .cast = cpu_cast,
                                                 HOST_SLOTS,
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
