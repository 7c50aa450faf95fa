/* profile.c — counts what ops cost: calls, time, operations. */
#include "backend/profile.h"

#include <stdbool.h>
#include <string.h>

#include "backend/device.h"
#include "base/clock.h"

/* ---- operations ------------------------------------------------------------------------------ */

static double flops_embed(const struct embed_args *a, bool bwd) {
    const struct mat *y = bwd ? &a->dy : &a->y;
    return 2.0 * y->rows * y->cols;
}

static double flops_linear(const struct linear_args *a, bool bwd) {
    double one = 2.0 * a->x.rows * a->x.cols * a->w.rows;
    return bwd ? one * (mat_empty(&a->dx) ? 1 : 2) : one;
}

/* Pairs (i, j) that attention looks at in a sentence of nq queries and nk keys. */
static double seen_pairs(const struct attention_args *a, double nq, double nk) {
    double r = a->window > 0 && a->window < nq ? a->window : nq - 1;
    if (a->causal) return nq * (r + 1) - r * (r + 1) / 2; /* row i sees min(i, r) + 1 keys */
    return a->window ? nq * (2 * r + 1) - r * (r + 1) : nq * nk;
}

/* Offsets in a device's memory cannot be read here: all sentences then count as of average
 * length. */
static double flops_attention(const struct backend *be, const struct attention_args *a, bool bwd) {
    double dk = a->q.cols, dv = a->v.cols, n = a->rq.n_seq, pairs = 0;
    if (backend_device_memory(be))
        pairs = n * seen_pairs(a, a->rq.n_tok / n, a->rk.n_tok / n);
    else
        for (int s = 0; s < a->rq.n_seq; s++)
            pairs += seen_pairs(a, a->rq.start[s + 1] - a->rq.start[s],
                                a->rk.start[s + 1] - a->rk.start[s]);
    return pairs * (bwd ? 6 * dk + 4 * dv : 2 * dk + 2 * dv);
}

static double flops_add_norm(const struct add_norm_args *a, bool bwd) {
    const struct mat *y = bwd ? &a->dy : &a->y;
    return (bwd ? 14.0 : 8.0) * y->rows * y->cols;
}

static double flops_xent(const struct xent_args *a) {
    return 2.0 * a->x.rows * a->x.cols * a->w.rows * (mat_empty(&a->dx) ? 1 : 3);
}

/* As if all rows were supervised, and all sentences of average length. */
static double flops_guide(const struct guide_args *a) {
    double pairs = (double)a->rq.n_tok * a->rk.n_tok / a->rq.n_seq;
    return 2.0 * pairs * a->q.cols * (mat_empty(&a->dq) ? 1 : 3);
}

static double flops_attention_step(const struct attention_step_args *a) {
    return 2.0 * a->q.rows * a->max_len * (a->q.cols + a->v.cols);
}
/* Exponential and division count as one each. */
static double flops_ssru(const struct mat *x, bool bwd) {
    return (bwd ? 13.0 : 8.0) * x->rows * x->cols;
}
static double flops_topk(const struct topk_args *a) {
    double product = mat_empty(&a->w) ? 0 : 2.0 * a->x.cols;
    return (3 + product) * a->logits.rows * a->logits.cols;
}
/* Two exponentials and a logarithm's share, one each. */
static double flops_blend(const struct blend_args *a) {
    return (5.0 * a->n + 1) * a->out.rows * a->out.cols;
}
static double flops_beam_step(const struct beam_step_args *a) {
    return 4.0 * a->rules.width * a->rules.width * a->n_seq;
}
static double flops_sum(const struct sum_args *a) { return (a->x.rows - 1.0) * a->x.cols; }
static double flops_sumsq(const struct sumsq_args *a) { return 2.0 * a->x.rows * a->x.cols; }
static double flops_adam(const struct adam_args *a) {
    return (mat_empty(&a->avg) ? 12.0 : 15.0) * a->p.cols;
}

static double flops_round_rows(const struct round_rows_args *a) {
    return 4.0 * a->w.rows * a->w.cols;
}

static double flops_of(const struct backend *be, enum op op, const void *args) {
    switch (op) {
    case OP_embed_fwd:
    case OP_embed_bwd:
        return flops_embed(args, op == OP_embed_bwd);
    case OP_linear_fwd:
    case OP_linear_bwd:
        return flops_linear(args, op == OP_linear_bwd);
    case OP_attention_fwd:
    case OP_attention_bwd:
        return flops_attention(be, args, op == OP_attention_bwd);
    case OP_add_norm_fwd:
    case OP_add_norm_bwd:
        return flops_add_norm(args, op == OP_add_norm_bwd);
    case OP_xent:
        return flops_xent(args);
    case OP_guide:
        return flops_guide(args);
    case OP_attention_step:
        return flops_attention_step(args);
    case OP_ssru_fwd:
    case OP_ssru_bwd:
        return flops_ssru(&((const struct ssru_args *)args)->x, op == OP_ssru_bwd);
    case OP_ssru_step:
        return flops_ssru(&((const struct ssru_step_args *)args)->x, false);
    case OP_topk:
        return flops_topk(args);
    case OP_blend:
        return flops_blend(args);
    case OP_beam_step:
        return flops_beam_step(args);
    case OP_sum:
        return flops_sum(args);
    case OP_sumsq:
        return flops_sumsq(args);
    case OP_adam:
        return flops_adam(args);
    case OP_round_rows:
        return flops_round_rows(args);
    case OP_COUNT:
        break;
    }
    return 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

void backend_profile(struct backend *be, int on) {
    if (be->vt->settle) be->vt->settle(be);
    be->profiling = on;
    if (on) memset(be->cost, 0, sizeof be->cost);
}

const struct op_cost *backend_cost(struct backend *be, enum op op) {
    if (be->vt->settle) be->vt->settle(be);
    return &be->cost[op];
}

double profile_begin(struct backend *be, enum op op) {
    if (be->vt->mark) {
        be->vt->mark(be, op, 0);
        return 0;
    }
    be->vt->sync(be);
    return clock_seconds();
}

void profile_end(struct backend *be, enum op op, double begin, const void *args) {
    struct op_cost *cost = &be->cost[op];
    cost->calls++;
    cost->flops += flops_of(be, op, args);
    if (be->vt->mark) {
        be->vt->mark(be, op, 1);
        return;
    }
    be->vt->sync(be);
    cost->ns += (uint64_t)(1e9 * (clock_seconds() - begin));
}
