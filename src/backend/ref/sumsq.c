/* sumsq.c — the sum of squares that clipping needs. */
#include "backend/ref/ref.h"

void ref_sumsq(const struct sumsq_args *a) {
    for (int i = 0; i < a->x.rows; i++)
        for (int j = 0; j < a->x.cols; j++)
            add(&a->out, i, j / SUMSQ_RANGE, get(&a->x, i, j) * get(&a->x, i, j));
}
