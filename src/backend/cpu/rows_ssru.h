/* rows_ssru.h — row kernels of the recurrence that stands in self-attention's place: see rows.h.
 *
 * Included by rows_<isa>.c. Columns know nothing of each other, so a vector holds neighbouring
 * columns and the rows of a sentence follow in order. The state of a row is read where the row
 * before stored it: it is still in L1. */
#ifndef BACKEND_CPU_ROWS_SSRU_H
#define BACKEND_CPU_ROWS_SSRU_H

#include "backend/cpu/rows_body.h"

/* f = sigmoid(g) and 1 - f. The smaller of the two is computed as such, from e^-|g|, and not as a
 * difference from 1, which would leave nothing of it where |g| is large. */
INLINE vf gates(vf g, vf *rest) {
    vf e = vexp(-vabs(g)), large = 1.0f / (1.0f + e), small = e * large;
    vi negative = vless(g, splat(0));
    *rest = vsel(negative, large, small);
    return vsel(negative, small, large);
}

/* The state after one that is c. */
INLINE vf next_state(vf g, vf x, vf c) {
    vf rest, f = gates(g, &rest);
    return vfma(f, c, rest * x);
}

INLINE vf positive(vf x) { return vmax(splat(0), x); } /* NaN stays NaN */

INLINE void ssru_fwd_body(const struct ssru_args *a, int first, int last, int col, int n, int bf) {
    const float *before = NULL;
    for (int r = first; r < last; r++) {
        const void *g = mat_row(&a->g, r), *x = mat_row(&a->x, r);
        float *c = mat_row(&a->c, r);
        void *o = mat_row(&a->o, r);
        FOR_LANES(i, m, col, col + n) {
            vf state = before ? vload(before, i, m, 0) : splat(0);
            state = next_state(vload(g, i, m, bf), vload(x, i, m, bf), state);
            vstore(c, i, m, 0, state);
            vstore(o, i, m, bf, positive(state));
        }
        before = c;
    }
}

static void ssru_fwd_rows(const struct ssru_args *a, int first, int last, int col, int n) {
    a->g.type == DTYPE_BF16 ? ssru_fwd_body(a, first, last, col, n, 1)
                            : ssru_fwd_body(a, first, last, col, n, 0);
}

INLINE void ssru_bwd_body(const struct ssru_args *a, int first, int last, int col, int n, int bf) {
    float carry[SSRU_COLUMNS]; /* what reaches c of this row from the row behind */
    memset(carry, 0, sizeof carry);
    for (int r = last - 1; r >= first; r--) {
        const void *g = mat_row(&a->g, r), *x = mat_row(&a->x, r), *dout = mat_row(&a->dout, r);
        const float *c = mat_row(&a->c, r), *before = r > first ? mat_row(&a->c, r - 1) : NULL;
        void *dg = mat_row(&a->dg, r), *dx = mat_row(&a->dx, r);
        FOR_LANES(i, m, col, col + n) {
            vf rest, f = gates(vload(g, i, m, bf), &rest);
            vf past = before ? vload(before, i, m, 0) : splat(0);
            vf dc = vkeep(vless(splat(0), vload(c, i, m, 0)), vload(dout, i, m, bf)) +
                    vload(carry, i - col, m, 0);
            vstore(dx, i, m, bf, rest * dc);
            vstore(dg, i, m, bf, f * rest * (past - vload(x, i, m, bf)) * dc);
            vstore(carry, i - col, m, 0, f * dc);
        }
    }
}

static void ssru_bwd_rows(const struct ssru_args *a, int first, int last, int col, int n) {
    a->g.type == DTYPE_BF16 ? ssru_bwd_body(a, first, last, col, n, 1)
                            : ssru_bwd_body(a, first, last, col, n, 0);
}

INLINE void ssru_step_body(const struct ssru_step_args *a, int first, int last, int bf) {
    for (int b = first; b < last; b++) {
        const int32_t *row = a->index + b * a->index_ld + a->len[b] - 1;
        const float *before = a->len[b] > 1 ? mat_row(&a->c, row[-1]) : NULL;
        const void *g = mat_row(&a->g, b), *x = mat_row(&a->x, b);
        float *c = mat_row(&a->c, row[0]);
        void *o = mat_row(&a->o, b);
        FOR_LANES(i, m, 0, a->g.cols) {
            vf state = before ? vload(before, i, m, 0) : splat(0);
            state = next_state(vload(g, i, m, bf), vload(x, i, m, bf), state);
            vstore(c, i, m, 0, state);
            vstore(o, i, m, bf, positive(state));
        }
    }
}

static void ssru_step_rows(const struct ssru_step_args *a, int first, int last) {
    a->g.type == DTYPE_BF16 ? ssru_step_body(a, first, last, 1) : ssru_step_body(a, first, last, 0);
}

#endif
