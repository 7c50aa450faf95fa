/* add_norm.c — y = LayerNorm(x + drop(s)), and its reverse.        PAPER: 3.1 and 5.4.
 *
 * With rhat = (r - mean) rstd and t = gamma * dy, the gradient of the normalisation is
 *     LayerNorm'(dy) = rstd (t - mean(t) - rhat mean(t * rhat)).
 * Outputs may share memory with inputs, so a row is read whole before it is written. */
#include <math.h>

#include "backend/dropout.h"
#include "backend/ref/ref.h"
#include "base/mem.h"

void ref_add_norm_fwd(const struct add_norm_args *a) {
    int d = a->x.cols, has_s = !mat_empty(&a->s);
    const struct mat *r = has_s ? &a->r : &a->x;
    for (int i = 0; i < a->x.rows; i++) {
        for (int j = 0; j < d && has_s; j++)
            put(r, i, j, get(&a->x, i, j) + dropout_factor(&a->drop, i, j) * get(&a->s, i, j));
        double mean = 0, var = 0;
        for (int j = 0; j < d; j++) mean += get(r, i, j) / d;
        for (int j = 0; j < d; j++) var += pow(get(r, i, j) - mean, 2) / d;
        double rstd = 1 / sqrt(var + a->eps);
        put(&a->stats, i, 0, mean);
        put(&a->stats, i, 1, rstd);
        for (int j = 0; j < d; j++) {
            double rhat = (get(r, i, j) - mean) * rstd;
            put(&a->y, i, j, get(&a->gamma, 0, j) * rhat + get(&a->beta, 0, j));
        }
    }
}

void ref_add_norm_bwd(const struct add_norm_args *a) {
    int n = a->dy.rows, d = a->dy.cols;
    const struct mat *r = mat_empty(&a->r) ? &a->x : &a->r;
    double *buf = xcalloc(5 * (size_t)d, sizeof *buf);
    double *g = buf, *rhat = buf + d, *dgamma = buf + 2 * d, *dbeta = buf + 3 * d,
           *dbias = buf + 4 * d;
    for (int i = 0; i < n; i++) {
        double mean = get(&a->stats, i, 0), rstd = get(&a->stats, i, 1);
        double mean_t = 0, mean_t_rhat = 0;
        for (int j = 0; j < d; j++) {
            double dy = get(&a->dy, i, j), t = get(&a->gamma, 0, j) * dy;
            rhat[j] = (get(r, i, j) - mean) * rstd;
            mean_t += t / d;
            mean_t_rhat += t * rhat[j] / d;
            dgamma[j] += dy * rhat[j];
            dbeta[j] += dy;
        }
        for (int j = 0; j < d; j++) {
            double t = get(&a->gamma, 0, j) * get(&a->dy, i, j);
            double dr = mat_empty(&a->dr) ? 0 : get(&a->dr, i, j);
            g[j] = rstd * (t - mean_t - rhat[j] * mean_t_rhat) + dr;
        }
        for (int j = 0; j < d; j++) {
            put(&a->dx, i, j, g[j]);
            if (!mat_empty(&a->ds)) put(&a->ds, i, j, dropout_factor(&a->drop, i, j) * g[j]);
            dbias[j] += get(mat_empty(&a->ds) ? &a->dx : &a->ds, i, j);
        }
    }
    for (int j = 0; j < d; j++) {
        add(&a->dgamma, 0, j, dgamma[j]);
        add(&a->dbeta, 0, j, dbeta[j]);
        if (!mat_empty(&a->dbias)) add(&a->dbias, 0, j, dbias[j]);
    }
    xfree(buf);
}
