/* xent.c — output projection and label-smoothed cross-entropy, loss and gradient.  PAPER: 5.4.
 *
 * The rows go through in chunks, so that the logits [N,V] never exist as a whole: project a chunk,
 * turn its logits into dz in place (row by row, a row of 37,000 logits fits the second-level
 * cache), then use dz for both gradients. The chunk's length depends on V alone and bounds the
 * logits to 64 MiB: long, because dw is read and written once per chunk.
 *
 * Bound by three products of N V d; the rows between cost one exponential per logit. */
#include "backend/cpu/gemm.h"
#include "base/mem.h"
#include "base/num.h"

enum { LOGITS_BYTES = 64 << 20, CHUNK_ROWS = 1024, CHUNK_UNIT = 16, TASK_LOGITS = 1 << 15 };

struct xent_job {
    const struct xent_args *a;
    const struct row_kernels *rows;
    float *z; /* [chunk, V] logits, then dz; a bf16 dz row begins where its f32 row began */
    struct xent_row *row;
    int first, n, rows_per_task; /* rows [first, first + n) are in the chunk */
};

static int chunk_rows(int n_vocab) {
    int64_t rows = LOGITS_BYTES / (4 * (int64_t)n_vocab) / CHUNK_UNIT * CHUNK_UNIT;
    return (int)max_i64(CHUNK_UNIT, min_i64(rows, CHUNK_ROWS));
}

static void row_task(void *ctx, int task, int thread) {
    const struct xent_job *j = ctx;
    (void)thread;
    int first = task * j->rows_per_task, last = first + j->rows_per_task;
    for (int r = first; r < last && r < j->n; r++)
        j->row[r] = j->rows->xent_row(j->a, j->first + r, j->z + (int64_t)r * j->a->w.rows);
}

/* Totals in double, in the order of the rows. */
static void add_totals(const struct xent_job *j) {
    double *totals = j->a->totals.data;
    float *nll = mat_empty(&j->a->row_nll) ? NULL : j->a->row_nll.data;
    for (int r = 0; r < j->n; r++) {
        totals[0] += (double)j->row[r].loss;
        totals[1] += (double)j->row[r].nll;
        totals[2] += j->row[r].hit;
        if (nll) nll[j->first + r] = j->row[r].nll;
    }
}

/* The three products of a chunk of n rows from `first`. */
struct products {
    struct gemm logits, dx, dw;
};

static struct products products(const struct xent_args *a, float *z, int first, int n) {
    struct mat logits = mat_of(z, n, a->w.rows, DTYPE_F32), dz = logits;
    dz.type = a->x.type;
    dz.ld *= a->x.type == DTYPE_BF16 ? 2 : 1;
    const struct mat x = mat_rows(a->x, first, n), dx = mat_rows(a->dx, first, n);
    struct products p = {.logits = gemm_of(&logits, &x, 0, &a->w, 1),
                         .dx = gemm_of(&dx, &dz, 0, &a->w, 0),
                         .dw = gemm_of(&a->dw, &dz, 1, &x, 0)};
    p.logits.bias = mat_empty(&a->b) ? NULL : a->b.data;
    p.logits.bias_type = a->b.type;
    p.dw.add = 1;
    return p;
}

static size_t products_workspace(const struct cpu_backend *be, const struct xent_args *a, int n) {
    struct products p = products(a, NULL, 0, n);
    size_t size = gemm_workspace(be, &p.logits);
    if (mat_empty(&a->dx)) return size;
    return max_size(size, max_size(gemm_workspace(be, &p.dx), gemm_workspace(be, &p.dw)));
}

static void chunk(struct cpu_backend *be, struct xent_job *j, void *gemm_ws) {
    const struct xent_args *a = j->a;
    struct products p = products(a, j->z, j->first, j->n);
    gemm_run(be, &p.logits, gemm_ws);
    pool_run(be->pool, row_task, j, ceil_div(j->n, j->rows_per_task));
    add_totals(j);
    if (mat_empty(&a->dx)) return;
    gemm_run(be, &p.dx, gemm_ws);
    gemm_run(be, &p.dw, gemm_ws);
    if (mat_empty(&a->db)) return;
    struct mat dz = {
        .data = j->z, .ld = p.dx.a.ld, .rows = j->n, .cols = a->w.rows, .type = a->x.type};
    cpu_sum_rows(be, a->db.data, &dz);
}

/* The op's workspace; returns the part for the products. Over an empty arena it only measures. */
static void *carve(struct arena *arena, struct cpu_backend *be, struct xent_job *j, int rows) {
    j->z = arena_take(arena, size_mul((size_t)rows * sizeof *j->z, (size_t)j->a->w.rows));
    j->row = arena_take(arena, (size_t)rows * sizeof *j->row);
    return arena_take(arena, products_workspace(be, j->a, rows));
}

void cpu_xent(struct backend *base, const struct xent_args *a) {
    struct cpu_backend *be = cpu_of(base);
    int n = a->x.rows, n_vocab = a->w.rows, rows = min_int(n, chunk_rows(n_vocab));
    struct xent_job job = {.a = a, .rows = be->isa->rows};
    job.rows_per_task = n_vocab < TASK_LOGITS ? TASK_LOGITS / n_vocab : 1;
    struct arena arena = {0};
    carve(&arena, be, &job, rows);
    arena = (struct arena){.base = backend_scratch(&be->base, arena.used), .cap = arena.used};
    if (!arena.base) return;
    void *gemm_ws = carve(&arena, be, &job, rows);
    for (job.first = 0; job.first < n; job.first += job.n) {
        job.n = min_int(rows, n - job.first);
        chunk(be, &job, gemm_ws);
    }
}
