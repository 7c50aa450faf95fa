/* adam.c — the optimizer's step.        PAPER: 5.3. */
#include <math.h>

#include "backend/ref/ref.h"

void ref_adam(const struct adam_args *a) {
    double b1 = a->beta1, b2 = a->beta2, c = 1;
    double bias1 = 1 - pow(b1, (double)a->t), bias2 = 1 - pow(b2, (double)a->t);
    if (a->clip > 0) c = fmin(1, a->clip / sqrt(get(&a->sumsq, 0, 0)));
    for (int j = 0; j < a->p.cols; j++) {
        double g = c * get(&a->g, 0, j);
        double m = b1 * get(&a->m, 0, j) + (1 - b1) * g;
        double v = b2 * get(&a->v, 0, j) + (1 - b2) * g * g;
        double p = get(&a->p, 0, j) - a->lr * (m / bias1) / (sqrt(v / bias2) + a->eps);
        put(&a->m, 0, j, m);
        put(&a->v, 0, j, v);
        put(&a->p, 0, j, p);
        if (!mat_empty(&a->copy)) put(&a->copy, 0, j, get(&a->p, 0, j));
        if (!mat_empty(&a->avg)) {
            double avg = get(&a->avg, 0, j);
            put(&a->avg, 0, j, avg + a->avg_weight * (get(&a->p, 0, j) - avg));
        }
        if (a->clear) put(&a->g, 0, j, 0);
    }
}
