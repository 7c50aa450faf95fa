/* guide.c — cross-entropy of one head's attention against known links, loss and gradient. */
#include <math.h>

#include "backend/ref/ref.h"
#include "base/mem.h"

/* a[j] = A_ij of batch row `row`, for the n_k keys of its sentence. 0: the row is not
 * supervised. */
static int targets(const struct guide_args *a, int row, double *to, int n_k) {
    int m = 0;
    for (int j = 0; j < n_k; j++) to[j] = 0;
    for (int r = a->span[2 * row]; r < a->span[2 * row + 1]; r++)
        for (int j = a->range[2 * r]; j < a->range[2 * r + 1]; j++) to[j] = 1, m++;
    for (int j = 0; j < n_k && m; j++) to[j] /= m;
    return m;
}

/* p[j] = P_ij; returns the log of the sum. */
static double softmax_row(const struct guide_args *a, int row, int k0, int n_k, double *p) {
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < n_k; j++) max = fmax(max, p[j] = a->scale * dot(&a->q, row, &a->k, k0 + j));
    for (int j = 0; j < n_k; j++) sum += p[j] = exp(p[j] - max);
    for (int j = 0; j < n_k; j++) p[j] /= sum;
    return max + log(sum); // cppcheck-suppress invalidFunctionArg ; sentences have a row, sum >= 1
}

static void sentence(const struct guide_args *a, int seq, double *p, double *to) {
    int q0 = a->rq.start[seq], k0 = a->rk.start[seq], n_k = a->rk.start[seq + 1] - k0;
    int d = a->q.cols, grad = !mat_empty(&a->dq);
    double *dk = xcalloc((size_t)n_k * (size_t)d, sizeof *dk); /* summed here, stored once */
    for (int row = q0; row < a->rq.start[seq + 1]; row++) {
        if (!targets(a, row, to, n_k)) continue;
        double loss = softmax_row(a, row, k0, n_k, p);
        for (int j = 0; j < n_k; j++)
            if (to[j] > 0) loss -= to[j] * a->scale * dot(&a->q, row, &a->k, k0 + j);
        add(&a->totals, 0, 0, loss);
        add(&a->totals, 0, 1, 1);
        for (int c = 0; c < d && grad; c++) {
            double dq = 0;
            for (int j = 0; j < n_k; j++) {
                double ds = a->scale * a->grad_scale * (p[j] - to[j]);
                dq += ds * get(&a->k, k0 + j, c);
                dk[(size_t)j * d + c] += ds * get(&a->q, row, c);
            }
            add(&a->dq, row, c, dq);
        }
    }
    for (int j = 0; j < n_k && grad; j++)
        for (int c = 0; c < d; c++) add(&a->dk, k0 + j, c, dk[(size_t)j * d + c]);
    xfree(dk);
}

void ref_guide(const struct guide_args *a) {
    size_t longest = (size_t)a->rk.max_len;
    double *p = xcalloc(2 * longest, sizeof *p);
    for (int seq = 0; seq < a->rq.n_seq; seq++) sentence(a, seq, p, p + longest);
    xfree(p);
}
