/* xent.c — output projection and label-smoothed cross-entropy, loss and gradient.  PAPER: 5.4. */
#include <math.h>

#include "backend/ref/ref.h"
#include "base/mem.h"

/* z = row i of x w^T + b. Returns log sum exp z. */
static double logits_row(const struct xent_args *a, int i, double *z) {
    int n_vocab = a->w.rows;
    double max = -INFINITY, sum = 0;
    for (int v = 0; v < n_vocab; v++) {
        z[v] = dot(&a->x, i, &a->w, v) + (mat_empty(&a->b) ? 0 : get(&a->b, 0, v));
        max = fmax(max, z[v]);
    }
    for (int v = 0; v < n_vocab; v++) sum += exp(z[v] - max);
    return max + log(sum);
}

static int argmax(const double *z, int n) {
    int best = 0;
    for (int v = 1; v < n; v++)
        if (z[v] > z[best]) best = v;
    return best;
}

/* dx = dz w;  dw += dz^T x;  db += column sums of dz [N,V]. */
static void project_bwd(const struct xent_args *a, const double *dz) {
    int n = a->x.rows, d = a->x.cols, n_vocab = a->w.rows;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < d; k++) {
            double sum = 0;
            for (int v = 0; v < n_vocab; v++) sum += dz[(size_t)i * n_vocab + v] * get(&a->w, v, k);
            put(&a->dx, i, k, sum);
        }
    for (int v = 0; v < n_vocab; v++) {
        for (int k = 0; k < d; k++) {
            double sum = 0;
            for (int i = 0; i < n; i++) sum += dz[(size_t)i * n_vocab + v] * get(&a->x, i, k);
            add(&a->dw, v, k, sum);
        }
        double sum = 0;
        for (int i = 0; i < n; i++) sum += dz[(size_t)i * n_vocab + v];
        if (!mat_empty(&a->db)) add(&a->db, 0, v, sum);
    }
}

void ref_xent(const struct xent_args *a) {
    int n = a->x.rows, n_vocab = a->w.rows;
    double eps = a->smoothing;
    double *dz = xcalloc((size_t)n * (size_t)n_vocab, sizeof *dz);
    for (int i = 0; i < n; i++) {
        double *z = dz + (size_t)i * n_vocab; /* z first, dz in place */
        int t = a->target[i];
        double lse = 0, loss = 0, nll = 0, sum_z = 0;
        if (t >= 0) {
            lse = logits_row(a, i, z);
            for (int v = 0; v < n_vocab; v++) sum_z += z[v];
            nll = lse - z[t];
            loss = lse - (1 - eps) * z[t] - eps / n_vocab * sum_z;
            add(&a->totals, 0, 0, loss);
            add(&a->totals, 0, 1, nll);
            add(&a->totals, 0, 2, argmax(z, n_vocab) == t);
            for (int v = 0; v < n_vocab; v++)
                z[v] = a->grad_scale * (exp(z[v] - lse) - (1 - eps) * (v == t) - eps / n_vocab);
        }
        if (!mat_empty(&a->row_nll)) put(&a->row_nll, 0, i, nll);
    }
    if (!mat_empty(&a->dx)) project_bwd(a, dz);
    xfree(dz);
}
