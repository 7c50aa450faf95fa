/* ssru.c — c_i = f_i c_{i-1} + (1 - f_i) x_i along each sentence, o = max(0, c); its reverse; and
 * one step of it.
 *
 * docs/math/ssru.md has the derivation. The state carried from row to row is the stored one, so
 * that a step, which finds it in a cache, computes the same. */
#include <math.h>

#include "backend/ref/ref.h"

/* sigmoid(g); of -g it is 1 - sigmoid(g) without cancellation. */
static double sigmoid(double g) { return 1 / (1 + exp(-g)); }

static double next(double g, double x, double c) { return sigmoid(g) * c + sigmoid(-g) * x; }

static double positive(double x) { return x < 0 ? 0 : x; }

void ref_ssru_fwd(const struct ssru_args *a) {
    for (int s = 0; s < a->rows.n_seq; s++)
        for (int i = a->rows.start[s]; i < a->rows.start[s + 1]; i++)
            for (int j = 0; j < a->g.cols; j++) {
                double c = i > a->rows.start[s] ? get(&a->c, i - 1, j) : 0;
                put(&a->c, i, j, next(get(&a->g, i, j), get(&a->x, i, j), c));
                put(&a->o, i, j, positive(get(&a->c, i, j)));
            }
}

static void column_bwd(const struct ssru_args *a, int first, int last, int j) {
    double carry = 0; /* f_{i+1} dc_{i+1} */
    for (int i = last - 1; i >= first; i--) {
        double g = get(&a->g, i, j), x = get(&a->x, i, j);
        double f = sigmoid(g), rest = sigmoid(-g), c = i > first ? get(&a->c, i - 1, j) : 0;
        double dc = carry + (get(&a->c, i, j) > 0 ? get(&a->dout, i, j) : 0);
        put(&a->dx, i, j, rest * dc);
        put(&a->dg, i, j, f * rest * (c - x) * dc);
        carry = f * dc;
    }
}

void ref_ssru_bwd(const struct ssru_args *a) {
    for (int s = 0; s < a->rows.n_seq; s++)
        for (int j = 0; j < a->g.cols; j++)
            column_bwd(a, a->rows.start[s], a->rows.start[s + 1], j);
}

void ref_ssru_step(const struct ssru_step_args *a) {
    for (int b = 0; b < a->g.rows; b++) {
        const int32_t *row = a->index + b * a->index_ld;
        int n = a->len[b];
        for (int j = 0; j < a->g.cols; j++) {
            double c = n > 1 ? get(&a->c, row[n - 2], j) : 0;
            put(&a->c, row[n - 1], j, next(get(&a->g, b, j), get(&a->x, b, j), c));
            put(&a->o, b, j, positive(get(&a->c, row[n - 1], j)));
        }
    }
}
