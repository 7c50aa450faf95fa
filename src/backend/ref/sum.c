/* sum.c — the pairwise tree in which gradients are added. */
#include "backend/ref/ref.h"

/* Column j of rows first .. first + n - 1. The sum of two f32 in double, rounded to f32, is their
 * sum in f32. */
static double tree(const struct mat *x, int first, int n, int j) {
    if (n == 1) return get(x, first, j);
    int p = 1;
    while (2 * p < n) p *= 2;
    double sum = tree(x, first, p, j) + tree(x, first + p, n - p, j);
    return x->type == DTYPE_F32 ? (double)(float)sum : sum;
}

void ref_sum(const struct sum_args *a) {
    for (int j = 0; j < a->x.cols; j++) put(&a->out, 0, j, tree(&a->x, 0, a->x.rows, j));
}
