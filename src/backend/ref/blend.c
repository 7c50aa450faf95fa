/* blend.c — the mean of an ensemble's distributions. */
#include <math.h>

#include "backend/ref/ref.h"

static double log_sum(const struct mat *z, int b) {
    double max = get(z, b, 0), sum = 0;
    for (int v = 1; v < z->cols; v++) max = fmax(max, get(z, b, v));
    for (int v = 0; v < z->cols; v++) sum += exp(get(z, b, v) - max);
    return sum > 0 ? max + log(sum) : NAN;
}

void ref_blend(const struct blend_args *a) {
    for (int b = 0; b < a->out.rows; b++) {
        double lse[BLEND_MOST] = {0};
        for (int m = 0; m < a->n; m++) lse[m] = log_sum(&a->z[m], b);
        for (int v = 0; v < a->out.cols; v++) {
            double max = -INFINITY, sum = 0;
            for (int m = 0; m < a->n; m++) max = fmax(max, get(&a->z[m], b, v) - lse[m]);
            double base = max > -INFINITY ? max : 0; /* a token that is impossible to all */
            for (int m = 0; m < a->n; m++)
                sum += (double)a->weight[m] * exp(get(&a->z[m], b, v) - lse[m] - base);
            put(&a->out, b, v, base + log(sum));
        }
    }
}
