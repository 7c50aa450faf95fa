/* topk.c — the k best tokens of each row by log-probability. */
#include <math.h>

#include "backend/ref/ref.h"

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
    if (!mat_empty(&a->w))
        ref_linear_fwd(&(struct linear_args){.y = a->logits, .x = a->x, .w = a->w, .b = a->b});
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
