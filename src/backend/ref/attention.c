/* attention.c — ragged multi-head scaled dot-product attention, and its reverse.        PAPER: 3.2.
 *
 * One head of one sentence at a time: `struct head` holds that head's column slices and where the
 * sentence's queries and keys begin. i and j are positions within the sentence throughout. */
#include <math.h>
#include <stdlib.h>

#include "backend/dropout.h"
#include "backend/ref/ref.h"
#include "base/mem.h"

struct head {
    const struct attention_args *a;
    struct mat q, k, v, o, dout, dq, dk, dv; /* this head's columns */
    struct dropout drop;                     /* this head's site */
    int h, q0, k0, n_q, n_k;                 /* first rows and numbers of rows */
};

static struct head head_of(const struct attention_args *a, int seq, int h) {
    int d_k = a->q.cols / a->n_head, d_v = a->v.cols / a->n_head;
    struct head s = {.a = a, .drop = a->drop, .h = h};
    s.q = mat_cols(a->q, h * d_k, d_k);
    s.k = mat_cols(a->k, h * d_k, d_k);
    s.v = mat_cols(a->v, h * d_v, d_v);
    s.o = mat_cols(a->o, h * d_v, d_v);
    s.dout = mat_cols(a->dout, h * d_v, d_v);
    s.dq = mat_cols(a->dq, h * d_k, d_k);
    s.dk = mat_cols(a->dk, h * d_k, d_k);
    s.dv = mat_cols(a->dv, h * d_v, d_v);
    s.drop.site += (uint32_t)h << 16;
    s.q0 = a->rq.start[seq];
    s.k0 = a->rk.start[seq];
    s.n_q = a->rq.start[seq + 1] - s.q0;
    s.n_k = a->rk.start[seq + 1] - s.k0;
    return s;
}

/* May query i see key j? */
static int sees(const struct head *s, int i, int j) {
    return (!s->a->causal || j <= i) && (s->a->window <= 0 || abs(i - j) <= s->a->window);
}

static double score(const struct head *s, int i, int j) {
    return s->a->scale * dot(&s->q, s->q0 + i, &s->k, s->k0 + j);
}

static double drop(const struct head *s, int i, int j) {
    return dropout_factor(&s->drop, s->q0 + i, j);
}

/* p[j] = softmax over the keys that i sees, 0 elsewhere. Returns the log of the sum. */
static double softmax_row(const struct head *s, int i, double *p) {
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < s->n_k; j++)
        if (sees(s, i, j)) max = fmax(max, p[j] = score(s, i, j));
    for (int j = 0; j < s->n_k; j++) sum += p[j] = sees(s, i, j) ? exp(p[j] - max) : 0;
    for (int j = 0; j < s->n_k; j++) p[j] /= sum;
    return max + log(sum); // cppcheck-suppress invalidFunctionArg ; sentences have a row, sum >= 1
}

static void head_fwd(const struct head *s, double *p) {
    const struct attention_args *a = s->a;
    for (int i = 0; i < s->n_q; i++) {
        put(&a->lse, s->h, s->q0 + i, softmax_row(s, i, p));
        for (int j = 0; j < a->probs.cols; j++)
            put(&a->probs, (int64_t)s->h * a->rq.n_tok + s->q0 + i, j, j < s->n_k ? p[j] : 0);
        for (int j = 0; j < s->n_k; j++) p[j] *= drop(s, i, j);
        for (int c = 0; c < s->o.cols; c++) {
            double sum = 0;
            for (int j = 0; j < s->n_k; j++) sum += p[j] * get(&s->v, s->k0 + j, c);
            put(&s->o, s->q0 + i, c, sum);
        }
    }
}

void ref_attention_fwd(const struct attention_args *a) {
    double *p = xmalloc((size_t)a->rk.max_len * sizeof *p);
    for (int seq = 0; seq < a->rq.n_seq; seq++)
        for (int h = 0; h < a->n_head; h++) {
            struct head s = head_of(a, seq, h);
            head_fwd(&s, p);
        }
    xfree(p);
}

/* The gradient of one head of one sentence is summed here, in double, and stored once. */
static struct mat scratch_new(int rows, int cols) {
    struct mat m = {.ld = cols, .rows = rows, .cols = cols, .type = DTYPE_F64};
    m.data = xcalloc((size_t)rows * (size_t)cols, sizeof(double));
    return m;
}

static void scratch_store(const struct mat *dst, int first_row, struct mat *m) {
    for (int i = 0; i < m->rows; i++)
        for (int c = 0; c < m->cols; c++) put(dst, first_row + i, c, get(m, i, c));
    xfree(m->data);
}

static void head_bwd(const struct head *s) {
    const struct attention_args *a = s->a;
    int d_k = s->q.cols, d_v = s->v.cols;
    struct mat dq = scratch_new(s->n_q, d_k), dk = scratch_new(s->n_k, d_k);
    struct mat dv = scratch_new(s->n_k, d_v);
    for (int i = 0; i < s->n_q; i++) {
        double di = dot(&s->dout, s->q0 + i, &s->o, s->q0 + i);
        for (int j = 0; j < s->n_k; j++) {
            if (!sees(s, i, j)) continue;
            double p = exp(score(s, i, j) - get(&a->lse, s->h, s->q0 + i)), keep = drop(s, i, j);
            double dp = keep * dot(&s->dout, s->q0 + i, &s->v, s->k0 + j);
            double ds = p * (dp - di);
            for (int c = 0; c < d_k; c++) {
                add(&dq, i, c, a->scale * ds * get(&s->k, s->k0 + j, c));
                add(&dk, j, c, a->scale * ds * get(&s->q, s->q0 + i, c));
            }
            for (int c = 0; c < d_v; c++) add(&dv, j, c, keep * p * get(&s->dout, s->q0 + i, c));
        }
    }
    scratch_store(&s->dq, s->q0, &dq);
    scratch_store(&s->dk, s->k0, &dk);
    scratch_store(&s->dv, s->k0, &dv);
}

void ref_attention_bwd(const struct attention_args *a) {
    for (int seq = 0; seq < a->rq.n_seq; seq++)
        for (int h = 0; h < a->n_head; h++) {
            struct head s = head_of(a, seq, h);
            head_bwd(&s);
        }
}
