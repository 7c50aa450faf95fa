/* decode.c — what decoding needs beside the forward ops: attention over a cache, and the best
 * tokens.
 *
 * No backward passes: nothing is trained through a search. */
#include <math.h>

#include "backend/ref/ref.h"
#include "base/mem.h"

/* Row of the cache that holds step t of hypothesis b. */
static int64_t cache_row(const struct attention_step_args *a, int b, int t) {
    return a->index ? a->index[b * a->index_ld + t] : a->start[b] + t;
}

static void append(const struct attention_step_args *a) {
    for (int b = 0; b < a->k_new.rows; b++) {
        int64_t row = cache_row(a, b, a->len[b] - 1);
        for (int c = 0; c < a->k.cols; c++) put(&a->k, row, c, get(&a->k_new, b, c));
        for (int c = 0; c < a->v.cols; c++) put(&a->v, row, c, get(&a->v_new, b, c));
    }
}

void ref_attention_step(const struct attention_step_args *a) {
    int d_k = a->q.cols / a->n_head, d_v = a->v.cols / a->n_head;
    if (!mat_empty(&a->k_new)) append(a);
    double *p = xmalloc((size_t)a->max_len * sizeof *p);
    for (int b = 0; b < a->q.rows; b++)
        for (int h = 0; h < a->n_head; h++) {
            struct mat q = mat_cols(a->q, h * d_k, d_k), k = mat_cols(a->k, h * d_k, d_k);
            struct mat v = mat_cols(a->v, h * d_v, d_v), o = mat_cols(a->o, h * d_v, d_v);
            int len = a->len[b];
            int first = a->window > 0 && len - 1 > a->window ? len - 1 - a->window : 0;
            double max = -INFINITY, sum = 0;
            for (int t = first; t < len; t++) {
                p[t] = a->scale * dot(&q, b, &k, cache_row(a, b, t));
                max = fmax(max, p[t]);
            }
            for (int t = first; t < len; t++) sum += p[t] = exp(p[t] - max);
            for (int c = 0; c < d_v; c++) {
                double y = 0;
                for (int t = first; t < len; t++) y += p[t] / sum * get(&v, cache_row(a, b, t), c);
                put(&o, b, c, y);
            }
        }
    xfree(p);
}

/* A NaN ranks with the impossible tokens, so that every row has an order. */
static double rank(const struct mat *logits, int b, int v) {
    double z = get(logits, b, v);
    return isnan(z) ? -INFINITY : z;
}

/* Does token v of row b come before token w? By logit, then by the lower id. */
static int before(const struct mat *logits, int b, int v, int w) {
    double x = rank(logits, b, v), y = rank(logits, b, w);
    return x > y || (x == y && v < w);
}

void ref_topk(const struct topk_args *a) {
    int n_vocab = a->logits.cols, k = a->value.cols;
    for (int b = 0; b < a->logits.rows; b++) {
        double max = -INFINITY, sum = 0;
        for (int v = 0; v < n_vocab; v++) max = fmax(max, get(&a->logits, b, v));
        for (int v = 0; v < n_vocab; v++) sum += exp(get(&a->logits, b, v) - max);
        int previous = -1;
        for (int i = 0; i < k; i++) { /* the best of those after the previous best */
            int best = -1;
            for (int v = 0; v < n_vocab; v++)
                if ((previous < 0 || before(&a->logits, b, previous, v)) &&
                    (best < 0 || before(&a->logits, b, v, best)))
                    best = v;
            a->id[(int64_t)b * k + i] = best;
            put(&a->value, b, i, get(&a->logits, b, best) - max - log(sum));
            previous = best;
        }
    }
}
