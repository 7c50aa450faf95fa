/* guide.c — cross-entropy of one head's attention against known links, loss and gradient.
 *
 * A unit is a sentence. Its supervised queries go through in blocks of BLOCK rows, counted from the
 * sentence's first: their products with all keys, a row kernel that makes losses and ds of them in
 * place, and two products with ds: dq is added to at once, dk is summed in f32 over the blocks and
 * added to once. Blocks without a supervised row are skipped, other rows of a block have ds = 0.
 *
 * Short sentences are grouped, so that a task has some BLOCK rows of work. A unit writes its own
 * rows only, and losses are summed in the order of the rows, so grouping and threads change no
 * bits.
 *
 * 3 products of d_k multiplications per pair of a supervised row and a key, 1 exponential: one head
 * of one layer, below 1 % of a step. */
#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/mem.h"
#include "base/num.h"

enum { BLOCK = 64 };

/* One thread's memory. */
struct scratch {
    float *z;  /* [BLOCK, longest sentence of keys] products, then ds in the act type */
    float *dk; /* [longest sentence of keys, d_k] */
    void *gemm;
};

struct guide_job {
    const struct guide_args *a;
    const struct isa *isa;
    float *loss; /* [Nq] of the supervised rows */
    int units_per_task;
    char *scratch;
    size_t scratch_size; /* per thread */
};

static int n_range(const struct guide_args *a, int row) {
    return a->span[2 * row + 1] - a->span[2 * row];
}

/* Losses and ds of the block's rows in place of z [n, n_k]. */
static void block_rows(const struct guide_job *j, float *z, int first, int n, int n_k) {
    const struct guide_args *a = j->a;
    struct guide_row g = {.n_k = n_k, .scale = a->scale, .type = a->q.type};
    g.grad = !mat_empty(&a->dq);
    g.factor = a->scale * a->grad_scale;
    for (int r = 0; r < n; r++, z += n_k) {
        g.range = a->range + 2 * (size_t)a->span[2 * (first + r)];
        g.n_range = n_range(a, first + r);
        if (g.n_range)
            j->loss[first + r] = j->isa->rows->guide_row(&g, z);
        else
            memset(z, 0, (size_t)n_k * sizeof *z);
    }
}

static void product(const struct guide_job *j, const struct scratch *s, struct gemm g, int add) {
    g.add = add;
    gemm_serial(j->isa, &g, s->gemm);
}

static void unit(const struct guide_job *j, const struct scratch *s, int seq) {
    const struct guide_args *a = j->a;
    int end = a->rq.start[seq + 1], k0 = a->rk.start[seq], n_k = a->rk.start[seq + 1] - k0;
    int d = a->q.cols, grad = !mat_empty(&a->dq), any = 0;
    struct mat k = mat_rows(a->k, k0, n_k), dk = mat_of(s->dk, n_k, d, DTYPE_F32);
    for (int first = a->rq.start[seq]; first < end; first += BLOCK) {
        int n = min_int(BLOCK, end - first), supervised = 0;
        for (int r = 0; r < n; r++) supervised |= n_range(a, first + r) > 0;
        if (!supervised) continue;
        struct mat q = mat_rows(a->q, first, n), z = mat_of(s->z, n, n_k, DTYPE_F32), ds = z;
        product(j, s, gemm_of(&z, &q, 0, &k, 1), 0);
        block_rows(j, s->z, first, n, n_k);
        if (!grad) continue;
        ds.type = a->q.type;
        ds.ld *= ds.type == DTYPE_BF16 ? 2 : 1;
        struct mat dq = mat_rows(a->dq, first, n);
        product(j, s, gemm_of(&dq, &ds, 0, &k, 0), 1);
        product(j, s, gemm_of(&dk, &ds, 1, &q, 0), any);
        any = 1;
    }
    if (any) j->isa->rows->add_rows(&a->dk, k0, n_k, s->dk);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static struct scratch carve(struct arena *arena, const struct guide_job *j) {
    size_t longest = (size_t)j->a->rk.max_len;
    int n_k = j->a->rk.max_len, d = j->a->q.cols;
    struct scratch s = {.z = arena_take(arena, size_mul(BLOCK * sizeof *s.z, longest)),
                        .dk = arena_take(arena, size_mul((size_t)d * sizeof *s.dk, longest))};
    size_t scores = gemm_serial_workspace(j->isa, BLOCK, n_k, d);
    size_t dq = gemm_serial_workspace(j->isa, BLOCK, d, n_k);
    size_t dk = gemm_serial_workspace(j->isa, n_k, d, BLOCK);
    s.gemm = arena_take(arena, max_size(scores, max_size(dq, dk)));
    return s;
}

static void guide_task(void *ctx, int task, int thread) {
    const struct guide_job *j = ctx;
    struct arena arena = {.base = j->scratch + (size_t)thread * j->scratch_size,
                          .cap = j->scratch_size};
    struct scratch s = carve(&arena, j);
    int first = task * j->units_per_task, last = first + j->units_per_task;
    for (int seq = first; seq < last && seq < j->a->rq.n_seq; seq++) unit(j, &s, seq);
}

static void add_totals(const struct guide_job *j) {
    double *totals = j->a->totals.data;
    for (int row = 0; row < j->a->q.rows; row++) {
        if (!n_range(j->a, row)) continue;
        totals[0] += (double)j->loss[row];
        totals[1]++;
    }
}

void cpu_guide(struct backend *base, const struct guide_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct guide_job job = {.a = a, .isa = be->isa};
    struct arena one = {0};
    carve(&one, &job);
    job.scratch_size = size_add(one.used, MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
    size_t scratch = size_mul(job.scratch_size, (size_t)pool_size(be->pool));
    char *ws = backend_scratch(&be->base, size_add(scratch, (size_t)a->q.rows * sizeof(float)));
    if (!ws) return;
    job.scratch = ws;
    job.loss = (float *)(ws + scratch);
    job.units_per_task = max_int(1, (int)((int64_t)BLOCK * a->rq.n_seq / a->rq.n_tok));
    pool_run(be->pool, guide_task, &job, ceil_div(a->rq.n_seq, job.units_per_task));
    add_totals(&job);
}
