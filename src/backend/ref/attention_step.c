/* attention_step.c — one query per hypothesis over a cache of keys and values, for decoding.
 *
 * No backward pass: nothing is trained through a search. */
#include <math.h>

#include "backend/ref/ref.h"
#include "base/mem.h"

static void append(const struct attention_step_args *a) {
    for (int b = 0; b < a->k_new.rows; b++) {
        int64_t row = attention_step_row(a, b, a->len[b] - 1);
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
                p[t] = a->scale * dot(&q, b, &k, attention_step_row(a, b, t));
                max = fmax(max, p[t]);
            }
            for (int t = first; t < len; t++) sum += p[t] = exp(p[t] - max);
            for (int c = 0; c < d_v; c++) {
                double y = 0;
                for (int t = first; t < len; t++)
                    y += p[t] / sum * get(&v, attention_step_row(a, b, t), c);
                put(&o, b, c, y);
            }
        }
    xfree(p);
}
