/* attention.c — ragged multi-head scaled dot-product attention, and its reverse.        PAPER: 3.2.
 *
 * Scores exist one block at a time: BLOCK queries against BLOCK keys, both counted from the
 * sentence's first row, so what a sentence yields depends on the sentence alone. Blocks that no
 * query of theirs may see (causal, window) are skipped; inside the others the kernels mask.
 *
 * Forward, streaming softmax: a block of queries walks the blocks of keys; each block raises the
 * rows' running maxima, rescales the sums and outputs collected so far, and adds its own share. A
 * unit of work is one block of queries of one head.
 *
 * Backward, probabilities are computed again from lse. A unit is one head of one sentence: for each
 * block of keys it walks the blocks of queries that see it, keeping dk and dv of the block and dq
 * of the whole sentence in f32. Scratch is linear in the longest sentence.
 *
 * Short sentences are grouped, so that a task has some BLOCK rows of work. A unit writes its own
 * rows only, so grouping and threads change no bits.
 *
 * Per visible pair: 2 products forward, 5 backward, of d_k or d_v multiplications each, and 1
 * exponential. Where that is faster, blocks are multiplied as they lie (little.h); elsewhere by
 * gemm_serial. Products of probabilities are of the act type's values; statistics and sums f32. */
#include <math.h>
#include <string.h>

#include "backend/cpu/little.h"
#include "base/mem.h"
#include "base/num.h"

enum { BLOCK = ATTENTION_BLOCK };

/* One thread's memory. */
struct scratch {
    float *s, *dp;    /* [BLOCK, BLOCK] scores and what becomes of them; dp backward only */
    float *max, *sum; /* [BLOCK] forward */
    float *o;         /* [BLOCK, d_v] forward */
    float *dq;        /* [longest sentence, d_k] backward */
    float *dk, *dv;   /* [BLOCK, d_k], [BLOCK, d_v] backward */
    float *delta;     /* [longest sentence] backward */
    void *gemm;
    int little; /* of the unit: see suits_little */
};

struct unit {
    int seq, first; /* first query of the block; forward only */
};

struct attention_job {
    const struct attention_args *a;
    const struct isa *isa;
    int bwd, d_k, d_v;
    struct unit *unit; /* [n_unit] forward; backward unit u is sentence u */
    int n_unit, units_per_task;
    char *scratch;
    size_t scratch_size; /* per thread */
};

/* One head of one sentence: the head's columns, the sentence's rows. */
struct head {
    struct mat q, k, v, o, dout, dq, dk, dv;
    int h, q_row, k_row, n_q, n_k, window;
};

static struct head head_of(const struct attention_job *j, int seq, int h) {
    const struct attention_args *a = j->a;
    struct head x = {.h = h, .q_row = a->rq.start[seq], .k_row = a->rk.start[seq]};
    x.n_q = a->rq.start[seq + 1] - x.q_row;
    x.n_k = a->rk.start[seq + 1] - x.k_row;
    x.window = min_int(a->window, x.n_k); /* no further than the sentence reaches */
    x.q = mat_cols(a->q, h * j->d_k, j->d_k);
    x.k = mat_cols(a->k, h * j->d_k, j->d_k);
    x.v = mat_cols(a->v, h * j->d_v, j->d_v);
    x.o = mat_cols(a->o, h * j->d_v, j->d_v);
    if (!j->bwd) return x;
    x.dout = mat_cols(a->dout, h * j->d_v, j->d_v);
    x.dq = mat_cols(a->dq, h * j->d_k, j->d_k);
    x.dk = mat_cols(a->dk, h * j->d_k, j->d_k);
    x.dv = mat_cols(a->dv, h * j->d_v, j->d_v);
    return x;
}

/* Whether little.h's product is the faster one for this sentence. Sets without bf16 instructions
 * have the same bits either way, and so has f32; others sum bf16 in an order of their own. */
static int suits_little(const struct attention_job *j, const struct head *x) {
    if (!j->isa->little || max_int(j->d_k, j->d_v) > LITTLE_DEPTH) return 0;
    return j->a->q.type == DTYPE_F32 || max_int(x->n_q, x->n_k) <= j->isa->little_bf16;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static struct attention_block block_of(const struct attention_job *j, const struct scratch *s,
                                       const struct head *x) {
    const struct attention_args *a = j->a;
    struct attention_block t = {.s = s->s,
                                .dp = s->dp,
                                .max = s->max,
                                .sum = s->sum,
                                .o = s->o,
                                .d_v = j->d_v,
                                .causal = a->causal,
                                .window = x->window,
                                .scale = a->scale,
                                .type = a->q.type,
                                .wide = s->little,
                                .drop = row_drop_of(&a->drop)};
    t.drop.site += (uint32_t)x->h << 16;
    return t;
}

static void block_queries(struct attention_block *t, const struct head *x, int first) {
    t->q0 = first;
    t->n_q = min_int(BLOCK, x->n_q - first);
    t->row = (uint32_t)(x->q_row + first);
}

static void block_keys(struct attention_block *t, const struct head *x, int first) {
    t->k0 = first;
    t->n_k = min_int(BLOCK, x->n_k - first);
}

/* The block's rows of a matrix of queries, and of one of keys. */
static struct mat queries_of(const struct mat *m, const struct head *x,
                             const struct attention_block *t) {
    return mat_rows(*m, x->q_row + t->q0, t->n_q);
}

static struct mat keys_of(const struct mat *m, const struct head *x,
                          const struct attention_block *t) {
    return mat_rows(*m, x->k_row + t->k0, t->n_k);
}

/* The block [n_q, n_k]: scores in f32, or what a kernel has replaced them by, of the act type or
 * wide, rows where the f32 rows were. */
static struct mat block_mat(const struct attention_block *t, float *block, enum dtype type) {
    struct mat m = mat_of(block, t->n_q, t->n_k, type);
    m.ld = type == DTYPE_BF16 ? 2 * BLOCK : BLOCK;
    return m;
}

static enum dtype replaced_type(const struct attention_block *t) {
    return t->wide ? DTYPE_F32 : t->type;
}

static void multiply(const struct attention_job *j, const struct scratch *s, struct gemm g) {
    if (s->little)
        little_run(j->isa, &g, s->gemm);
    else
        gemm_serial(j->isa, &g, s->gemm);
}

static void multiply_add(const struct attention_job *j, const struct scratch *s, struct gemm g) {
    g.add = 1;
    multiply(j, s, g);
}

static void scores(const struct attention_job *j, const struct scratch *s, const struct head *x,
                   const struct attention_block *t) {
    struct mat q = queries_of(&x->q, x, t), k = keys_of(&x->k, x, t);
    struct mat z = block_mat(t, s->s, DTYPE_F32);
    multiply(j, s, gemm_of(&z, &q, 0, &k, 1));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* The keys that some query of the block sees lie in [*begin, *end), *begin at the start of a
 * block. */
static void keys_seen(const struct attention_block *t, const struct head *x, int *begin, int *end) {
    int last = t->q0 + t->n_q - 1;
    *begin = x->window ? max_int(0, t->q0 - x->window) / BLOCK * BLOCK : 0;
    *end = t->causal ? min_int(x->n_k, last + 1) : x->n_k;
    if (x->window) *end = min_int(*end, last + x->window + 1);
}

static void store_probs(const struct attention_job *j, const struct scratch *s,
                        const struct head *x, struct attention_block *t) {
    const struct attention_args *a = j->a;
    int64_t row = (int64_t)x->h * a->rq.n_tok + x->q_row + t->q0;
    int begin, end;
    keys_seen(t, x, &begin, &end);
    t->lse = (float *)mat_row(&a->lse, x->h) + x->q_row + t->q0;
    for (int r = 0; r < t->n_q; r++)
        memset(mat_row(&a->probs, row + r), 0, (size_t)a->probs.cols * sizeof(float));
    for (int k0 = begin; k0 < end; k0 += BLOCK) {
        block_keys(t, x, k0);
        scores(j, s, x, t);
        j->isa->rows->attention_probs(t);
        for (int r = 0; r < t->n_q; r++)
            memcpy((float *)mat_row(&a->probs, row + r) + k0, s->s + r * BLOCK,
                   (size_t)t->n_k * sizeof(float));
    }
}

static void unit_fwd(const struct attention_job *j, const struct scratch *s, const struct head *x,
                     int first) {
    struct attention_block t = block_of(j, s, x);
    int begin, end;
    block_queries(&t, x, first);
    keys_seen(&t, x, &begin, &end);
    for (int r = 0; r < t.n_q; r++) {
        s->max[r] = -INFINITY;
        s->sum[r] = 0;
    }
    struct mat o = mat_of(s->o, t.n_q, j->d_v, DTYPE_F32);
    memset(s->o, 0, (size_t)t.n_q * (size_t)j->d_v * sizeof *s->o);
    for (int k0 = begin; k0 < end; k0 += BLOCK) {
        block_keys(&t, x, k0);
        scores(j, s, x, &t);
        j->isa->rows->attention_softmax(&t);
        struct mat p = block_mat(&t, s->s, replaced_type(&t)), v = keys_of(&x->v, x, &t);
        multiply_add(j, s, gemm_of(&o, &p, 0, &v, 0));
    }
    float *lse = (float *)mat_row(&j->a->lse, x->h) + x->q_row + first;
    for (int r = 0; r < t.n_q; r++) {
        lse[r] = s->max[r] + logf(s->sum[r]);
        s->sum[r] = 1 / s->sum[r];
    }
    j->isa->rows->store_rows(&x->o, x->q_row + first, t.n_q, s->o, s->sum, 1);
    if (!mat_empty(&j->a->probs)) store_probs(j, s, x, &t);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The queries that see some key of the block lie in [*begin, *end), *begin at the start of a
 * block. */
static void queries_seen(const struct attention_block *t, const struct head *x, int *begin,
                         int *end) {
    int last = t->k0 + t->n_k - 1;
    *begin = t->causal ? t->k0 : x->window ? max_int(0, t->k0 - x->window) / BLOCK * BLOCK : 0;
    *end = x->window ? min_int(x->n_q, last + x->window + 1) : x->n_q;
}

static void block_bwd(const struct attention_job *j, const struct scratch *s, const struct head *x,
                      struct attention_block *t) {
    struct mat q = queries_of(&x->q, x, t), dout = queries_of(&x->dout, x, t);
    struct mat k = keys_of(&x->k, x, t), v = keys_of(&x->v, x, t);
    struct mat dp = block_mat(t, s->dp, DTYPE_F32);
    scores(j, s, x, t);
    multiply(j, s, gemm_of(&dp, &dout, 0, &v, 1));
    t->lse = (float *)mat_row(&j->a->lse, x->h) + x->q_row + t->q0;
    t->delta = s->delta + t->q0;
    j->isa->rows->attention_grad(t);
    const enum dtype type = replaced_type(t);
    struct mat p = block_mat(t, s->s, type), ds = block_mat(t, s->dp, type);
    struct mat dv = mat_of(s->dv, t->n_k, j->d_v, DTYPE_F32);
    struct mat dk = mat_of(s->dk, t->n_k, j->d_k, DTYPE_F32);
    struct mat dq = mat_of(s->dq + (size_t)t->q0 * (size_t)j->d_k, t->n_q, j->d_k, DTYPE_F32);
    multiply_add(j, s, gemm_of(&dv, &p, 1, &dout, 0));
    multiply_add(j, s, gemm_of(&dk, &ds, 1, &q, 0));
    multiply_add(j, s, gemm_of(&dq, &ds, 0, &k, 0));
}

static void unit_bwd(const struct attention_job *j, const struct scratch *s, const struct head *x) {
    struct attention_block t = block_of(j, s, x);
    const struct row_kernels *rows = j->isa->rows;
    const float one = 1, scale = j->a->scale;
    rows->row_dots(s->delta, &x->dout, &x->o, x->q_row, x->n_q);
    memset(s->dq, 0, (size_t)x->n_q * (size_t)j->d_k * sizeof *s->dq);
    for (int k0 = 0; k0 < x->n_k; k0 += BLOCK) {
        int begin, end;
        block_keys(&t, x, k0);
        queries_seen(&t, x, &begin, &end);
        memset(s->dk, 0, (size_t)t.n_k * (size_t)j->d_k * sizeof *s->dk);
        memset(s->dv, 0, (size_t)t.n_k * (size_t)j->d_v * sizeof *s->dv);
        for (int q0 = begin; q0 < end; q0 += BLOCK) {
            block_queries(&t, x, q0);
            block_bwd(j, s, x, &t);
        }
        rows->store_rows(&x->dk, x->k_row + k0, t.n_k, s->dk, &scale, 0);
        rows->store_rows(&x->dv, x->k_row + k0, t.n_k, s->dv, &one, 0);
    }
    rows->store_rows(&x->dq, x->q_row, x->n_q, s->dq, &scale, 0);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static float *take(struct arena *arena, size_t rows, int cols) {
    return arena_take(arena, size_mul(rows * sizeof(float), (size_t)cols));
}

static struct scratch carve(struct arena *arena, const struct attention_job *j) {
    size_t longest = (size_t)j->a->rq.max_len;
    int d = max_int(j->d_k, j->d_v);
    struct scratch s = {.s = take(arena, BLOCK, BLOCK)};
    if (j->bwd) {
        s.dp = take(arena, BLOCK, BLOCK);
        s.dq = take(arena, longest, j->d_k);
        s.dk = take(arena, BLOCK, j->d_k);
        s.dv = take(arena, BLOCK, j->d_v);
        s.delta = take(arena, longest, 1);
    } else {
        s.max = take(arena, BLOCK, 1);
        s.sum = take(arena, BLOCK, 1);
        s.o = take(arena, BLOCK, j->d_v);
    }
    size_t wide = gemm_serial_workspace(j->isa, BLOCK, BLOCK, d);
    size_t deep = gemm_serial_workspace(j->isa, BLOCK, d, BLOCK);
    size_t little = max_size(little_workspace(BLOCK, BLOCK, d), little_workspace(BLOCK, d, BLOCK));
    s.gemm = arena_take(arena, max_size(little, max_size(wide, deep)));
    return s;
}

static void attention_task(void *ctx, int task, int thread) {
    const struct attention_job *j = ctx;
    struct arena arena = {.base = j->scratch + (size_t)thread * j->scratch_size,
                          .cap = j->scratch_size};
    struct scratch s = carve(&arena, j);
    int h = task % j->a->n_head, first = task / j->a->n_head * j->units_per_task;
    for (int u = first; u < first + j->units_per_task && u < j->n_unit; u++) {
        struct head x = head_of(j, j->bwd ? u : j->unit[u].seq, h);
        s.little = suits_little(j, &x);
        if (j->bwd)
            unit_bwd(j, &s, &x);
        else
            unit_fwd(j, &s, &x, j->unit[u].first);
    }
}

static void list_units(struct attention_job *j) {
    const struct rows *r = &j->a->rq;
    if (j->bwd) {
        j->n_unit = r->n_seq;
    } else {
        for (int seq = 0; seq < r->n_seq; seq++)
            for (int first = 0; first < r->start[seq + 1] - r->start[seq]; first += BLOCK)
                j->unit[j->n_unit++] = (struct unit){seq, first};
    }
    j->units_per_task = max_int(1, (int)((int64_t)BLOCK * j->n_unit / r->n_tok));
}

static void attention(struct backend *base, const struct attention_args *a, int bwd) {
    struct cpu_backend *be = cpu_of(base);
    struct attention_job job = {.a = a, .isa = be->isa, .bwd = bwd};
    job.d_k = a->q.cols / a->n_head;
    job.d_v = a->v.cols / a->n_head;
    struct arena one = {0};
    carve(&one, &job);
    job.scratch_size = size_add(one.used, MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
    size_t scratch = size_mul(job.scratch_size, (size_t)pool_size(be->pool));
    /* At most one unit per row: a bound that holds for any cut of the planned rows into
     * sentences. */
    size_t units = bwd ? 0 : (size_t)a->rq.n_tok * sizeof *job.unit;
    char *ws = backend_scratch(&be->base, size_add(scratch, units));
    if (!ws) return;
    job.scratch = ws;
    job.unit = (struct unit *)(ws + scratch);
    list_units(&job);
    pool_run(be->pool, attention_task, &job, ceil_div(job.n_unit, job.units_per_task) * a->n_head);
}

void cpu_attention_fwd(struct backend *be, const struct attention_args *a) { attention(be, a, 0); }
void cpu_attention_bwd(struct backend *be, const struct attention_args *a) { attention(be, a, 1); }
