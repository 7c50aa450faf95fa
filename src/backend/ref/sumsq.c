/* sumsq.c — the sum of squares that clipping needs. */
#include "backend/ref/ref.h"

void ref_sumsq(const struct sumsq_args *a) {
    double sum = 0;
    for (int i = 0; i < a->x.rows; i++)
        for (int j = 0; j < a->x.cols; j++) sum += get(&a->x, i, j) * get(&a->x, i, j);
    add(&a->out, 0, 0, sum);
}
