/* rows.h — the row kernels: everything the cpu backend computes outside matrix products.
 *
 * A kernel is one op (or one half of it) on a range of rows or columns, on the calling thread, in
 * the vector code of one instruction set. It takes the op's own argument struct, so there is one
 * description of the data; cutting an op into ranges, threads and scratch memory are the business
 * of the op's file. The bodies are in rows_body.h and rows_softmax.h, written once; rows_<isa>.c
 * compiles them per set.
 *
 * Accumulation is f32, in an order fixed by the row length; a row's result depends on that row
 * alone. */
#ifndef BACKEND_CPU_ROWS_H
#define BACKEND_CPU_ROWS_H

#include "backend/ops.h"

/* Dropout as the kernels want it: threshold 0 means none. */
struct row_drop {
    uint64_t seed;
    uint32_t site, step, threshold;
    float scale;
};

static inline struct row_drop row_drop_of(const struct dropout *d) {
    return (struct row_drop){.seed = d->seed,
                             .site = d->site,
                             .step = d->step,
                             .threshold = dropout_threshold(d->p),
                             .scale = dropout_scale(d->p)};
}

/* A block of attention scores: queries q0.. (positions in the sentence) against keys k0.. . Scores
 * are f32, ATTENTION_BLOCK columns apart; the kernels replace them in place by what the next
 * product needs, rounded to the act type, and stored in it (a bf16 row begins where its f32 row
 * began) or, if `wide`, as f32. */
enum { ATTENTION_BLOCK = 64 };
struct attention_block {
    float *s;  /* [n_q, ATTENTION_BLOCK]: q . k in; drop(P) out (grad, softmax) or P out (probs) */
    float *dp; /* [n_q, ATTENTION_BLOCK]: dout . v in, ds / scale out (grad) */
    float *max, *sum;   /* [n_q] running maximum and sum (softmax) */
    float *o;           /* [n_q, d_v] f32, rescaled when the maximum rises (softmax) */
    const float *lse;   /* [n_q] (grad, probs) */
    const float *delta; /* [n_q] D_i = dout_i . o_i (grad) */
    int n_q, n_k, q0, k0, d_v;
    int causal, window; /* window is at most the sentence's length */
    float scale;
    enum dtype type; /* the act type */
    int wide;        /* s and dp stay f32 */
    struct row_drop drop;
    uint32_t row; /* row in the batch of query q0 */
};

/* Hypotheses in attention_step that see the same rows of the cache, all heads: 1, 2 or
 * ATTEND_MOST of them, each with the bits it would have alone. k and v are the whole cache, of type
 * `cache`. */
enum { ATTEND_MOST = 4 };
struct attend {
    int n;
    void *o[ATTEND_MOST];
    const void *q[ATTEND_MOST], *k, *v;
    int64_t ld_k, ld_v;
    const int32_t *index; /* cache row of step t, or NULL: start + t */
    int start, first, len, n_head, d_k, d_v;
    float scale;
    enum dtype type, cache;
    float *score; /* [len + 1, n, attend_width(n_head)] scratch */
    float *sum;   /* [n, n_head * d_v] scratch */
};

/* Heads, rounded up to whole vectors of any set. */
static inline size_t attend_width(int n_head) { return ((size_t)n_head + 15) / 16 * 16; }

/* Long rows are summed in blocks, and the blocks' sums in turn: neither is long enough for rounding
 * to pile up. */
enum { SUM_BLOCK = 1024 };

/* ssru is cut by sentences and by this many columns. */
enum { SSRU_COLUMNS = 256 };

/* What xent says about one row. */
struct xent_row {
    float loss, nll;
    int hit; /* argmax is the target */
};

/* One supervised row of guide: its n_range ranges, and the gradient's factor. */
struct guide_row {
    const int32_t *range;
    int n_range, n_k, grad; /* grad: wanted */
    float scale, factor;    /* factor: scale * grad_scale */
    enum dtype type;        /* of the gradient */
};

/* Factors of an Adam step that are the same for all parameters. */
struct adam_factors {
    float clip, beta1, beta1_rest, beta2, beta2_rest, rate, inv_bias2, eps;
};

struct row_kernels {
    /* dst = factor * src, n elements, F32 or BF16 each, or from F32 to F16. */
    void (*convert)(void *dst, enum dtype dst_type, const void *src, enum dtype src_type, int64_t n,
                    float factor);
    /* Rows first .. first + n - 1 of dst = factor[r * step] * row r of src, [n, dst->cols]
     * contiguous. */
    void (*store_rows)(const struct mat *dst, int first, int n, const float *src,
                       const float *factor, int step);
    /* Rows first .. first + n - 1 of dst += row r of src, [n, dst->cols] contiguous. */
    void (*add_rows)(const struct mat *dst, int first, int n, const float *src);
    /* sum[0..n) += the rows of x, columns [col, col + n), top to bottom. */
    void (*column_sums)(float *sum, const struct mat *x, int col, int n);
    /* out[i] = row first + i of a . the same row of b. */
    void (*row_dots)(float *out, const struct mat *a, const struct mat *b, int first, int n);

    /* Rows [first, last) of y; columns [col, col + n) of dtable and dpos, all rows in order. */
    void (*embed_fwd)(const struct embed_args *a, int first, int last);
    void (*embed_bwd)(const struct embed_args *a, int col, int n);

    /* After the product: y = drop(act(z)); ReLU has been applied, so it is y = drop(y) there.
     * Before the products: dz in place of dy, and db (may be NULL) += column sums. */
    void (*linear_fwd)(const struct linear_args *a, int first, int last);
    void (*linear_bwd)(const struct linear_args *a, int first, int last, float *db);

    void (*add_norm_fwd)(const struct add_norm_args *a, int first, int last);
    void (*add_norm_bwd)(const struct add_norm_args *a, int first, int last, float *dgamma,
                         float *dbeta, float *dbias); /* dbias may be NULL */

    /* s -> drop(P) up to the row's factor exp(max) / sum, max, sum and o brought up to date. */
    void (*attention_softmax)(const struct attention_block *t);
    /* s, dp -> drop(P), ds / scale. */
    void (*attention_grad)(const struct attention_block *t);
    /* s -> P in f32. */
    void (*attention_probs)(const struct attention_block *t);

    /* Row i from its logits z [V]; with a gradient wanted z becomes dz in the act type, in
     * place. */
    struct xent_row (*xent_row)(const struct xent_args *a, int i, float *z);

    /* The loss of a row from its products q . k, z [n_k], which become factor * (P - A) in the act
     * type, in place, if a gradient is wanted. */
    float (*guide_row)(const struct guide_row *g, float *z);

    void (*attend)(const struct attend *a);

    /* Rows [first, last), which are a sentence, and columns [col, col + n), n <= SSRU_COLUMNS. */
    void (*ssru_fwd)(const struct ssru_args *a, int first, int last, int col, int n);
    void (*ssru_bwd)(const struct ssru_args *a, int first, int last, int col, int n);
    /* Hypotheses [first, last). */
    void (*ssru_step)(const struct ssru_step_args *a, int first, int last);

    /* The largest of n <= SUM_BLOCK elements, NaNs aside, and the sum of exp(x - it); where nothing
     * is above -inf, of exp(x). */
    void (*soft_sum)(const void *x, enum dtype type, int n, float *max, float *sum);
    /* sum_i exp(max[i] - top) sum[i] of what soft_sum gave, top being the largest maximum. */
    float (*soft_join)(const float *max, const float *sum, int n, float top);
    /* The first index >= from whose element is above the bound, or n. */
    int (*find_above)(const void *x, enum dtype type, int n, int from, float bound);

    /* One row of blend, where lse [n] are the logarithms of its models' sums. */
    void (*blend)(const struct blend_args *a, int row, const float *lse);

    /* Elements first .. first + n - 1 of all rows. */
    void (*sum)(const struct sum_args *a, int64_t first, int64_t n);
    double (*sumsq)(const void *x, enum dtype type, int64_t n);
    void (*adam)(const struct adam_args *a, const struct adam_factors *f, int64_t first, int64_t n);
};

extern const struct row_kernels rows_generic, rows_avx2, rows_avx512;

#endif
