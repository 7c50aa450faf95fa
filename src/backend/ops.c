/* ops.c — the ops as the model calls them: checks the arguments, calls the device, counts the cost.
 *
 * A backend's own code may rely on everything checked here. The checks read only the descriptions
 * of the arguments (struct mat, struct rows), never device memory, so they cost nothing beside the
 * ops. A violated shape is a programming error of the caller, yet it is reported like any failure
 * of the backend instead of aborting: a library must not take its host down. */
#include "backend/ops.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "backend/device.h"
#include "backend/tile.h"
#include "base/num.h"

const char *op_name(enum op op) {
    static const char *const name[OP_COUNT] = {
#define OP_NAME(slot, args) #slot,
        BACKEND_OPS(OP_NAME)
#undef OP_NAME
    };
    return name[op];
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* The caller: the op that messages name. */
struct caller {
    struct backend *be;
    const char *op;
};

/* An argument that is not what the contract says: the message names op, argument, its shape and the
 * one expected. */
static bool mismatch(struct caller by, const char *name, const struct mat *m, int rows, int cols,
                     enum dtype type) {
    backend_fail(by.be, HEED_EINVAL,
                 "%s: %s is [%d,%d] %s%s (row stride %lld), expected [%d,%d] %s", by.op, name,
                 m->rows, m->cols, m->tiled ? "tiled " : "", dtype_name(m->type), (long long)m->ld,
                 rows, cols, dtype_name(type));
    return false;
}

static bool is(struct caller by, const char *name, const struct mat *m, int rows, int cols,
               enum dtype type) {
    if (m->rows == rows && m->cols == cols && m->type == type && m->ld >= cols && rows >= 1 &&
        cols >= 1 && !m->tiled)
        return true;
    return mismatch(by, name, m, rows, cols, type);
}

static bool rule(struct caller by, bool ok, const char *what) {
    if (!ok) backend_fail(by.be, HEED_EINVAL, "%s: %s", by.op, what);
    return ok;
}

/* A weight of linear_fwd, embed_fwd or topk: plain, or tiled. Activations of type t; I8 weights go
 * with f32. */
static bool is_weight(struct caller by, const char *name, const struct mat *m, int rows, int cols,
                      enum dtype t) {
    if (!m->tiled) return is(by, name, m, rows, cols, t);
    bool quantised = m->type == DTYPE_I8;
    struct mat shape = *m;
    shape.tiled = 0;
    if (!is(by, name, &shape, rows, cols, quantised && t == DTYPE_F32 ? DTYPE_I8 : t)) return false;
    if (quantised && cols > TILE_I8_COLS) {
        backend_fail(by.be, HEED_EINVAL, "%s: %s is %d wide; i8 weights may be at most %d", by.op,
                     name, cols, TILE_I8_COLS);
        return false;
    }
    if (!(m->x_scale >= 0) || (m->x_scale > 0 && !(m->unit && m->zero)))
        return rule(by, false, "a scale of x is positive and has units and zeros");
    return rule(by,
                t != DTYPE_F64 && (!quantised || backend_planning(by.be) || (m->scale && m->sum)),
                "tiled weights are f32, bf16, or i8 with scales and sums");
}

static bool is_or_absent(struct caller by, const char *name, const struct mat *m, int rows,
                         int cols, enum dtype type) {
    return mat_empty(m) || is(by, name, m, rows, cols, type);
}

static bool is_absent(struct caller by, const char *name, const struct mat *m) {
    if (mat_empty(m)) return true;
    backend_fail(by.be, HEED_EINVAL, "%s: %s must be absent here", by.op, name);
    return false;
}

static bool drop_ok(struct caller by, const struct dropout *d) {
    if (d->p >= 0 && d->p < 1 && dropout_threshold(d->p) < 65536) return true;
    backend_fail(by.be, HEED_EINVAL, "%s: dropout %g is not in [0, 1)", by.op, (double)d->p);
    return false;
}

static bool act_type_ok(struct caller by, enum dtype type) {
    bool f64 = type == DTYPE_F64 && strcmp(by.be->vt->name, "ref") == 0;
    return rule(by, type == DTYPE_F32 || type == DTYPE_BF16 || f64,
                "activations must be f32 or bf16 (f64 on ref only)");
}

/* Spelled out so that a call reads as the contract: IS(y, N, out, t) checks a->y. */
#define IS(field, r, c, t)           is(by, #field, &a->field, r, c, t)
#define IS_OR_ABSENT(field, r, c, t) is_or_absent(by, #field, &a->field, r, c, t)
#define IS_ABSENT(field)             is_absent(by, #field, &a->field)
#define IS_WEIGHT(field, r, c, t)    is_weight(by, #field, &a->field, r, c, t)
#define RULE(cond)                   rule(by, cond, "expected " #cond)

static bool check_embed(struct caller by, const struct embed_args *a, bool bwd) {
    const struct mat *y = bwd ? &a->dy : &a->y;
    enum dtype t = y->type, w = dtype_wide(t);
    int n = y->rows, d = y->cols;
    if (!act_type_ok(by, t) || !drop_ok(by, &a->drop)) return false;
    if (!bwd)
        return IS(y, n, d, t) && IS_WEIGHT(table, a->table.rows, d, t) &&
               IS(pos_table, a->pos_table.rows, d, t);
    return IS(dy, n, d, t) && IS(dtable, a->dtable.rows, d, w) &&
           IS_OR_ABSENT(dpos, a->dpos.rows, d, w);
}

static bool check_linear(struct caller by, const struct linear_args *a, bool bwd) {
    int n = a->x.rows, in = a->x.cols, out = a->w.rows;
    enum dtype t = a->x.type, w = dtype_wide(t);
    if (!act_type_ok(by, t) || !drop_ok(by, &a->drop)) return false;
    if (!IS(x, n, in, t)) return false;
    if (bwd ? !IS(w, out, in, t) : !IS_WEIGHT(w, out, in, t)) return false;
    if (act_keeps_z(a->act) ? !IS(z, n, out, t) : !IS_ABSENT(z)) return false;
    if (!bwd) return IS(y, n, out, t) && IS_OR_ABSENT(b, 1, out, t);
    bool y_needed = a->act == ACT_RELU;
    if (a->x_act == ACT_NONE
            ? !IS_ABSENT(dx_sum)
            : !RULE(a->x_act == ACT_RELU) || !drop_ok(by, &(struct dropout){.p = a->x_p}) ||
                  !IS(dx, n, in, t) || !RULE(!a->dx_add) || !IS_OR_ABSENT(dx_sum, 1, in, w))
        return false;
    return (!y_needed || IS(y, n, out, t)) && IS(dy, n, out, t) && IS_OR_ABSENT(dx, n, in, t) &&
           IS(dw, out, in, w) && IS_OR_ABSENT(db, 1, out, w);
}

static bool rows_ok(struct caller by, const struct rows *r, int n_tok) {
    return rule(by,
                r->n_tok == n_tok && r->n_seq >= 1 && r->n_seq <= n_tok && r->max_len >= 1 &&
                    r->max_len <= n_tok,
                "sentence offsets do not fit the rows");
}

static bool check_attention(struct caller by, const struct attention_args *a, bool bwd) {
    int nq = a->q.rows, nk = a->k.rows, h = a->n_head;
    enum dtype t = a->q.type, w = dtype_wide(t);
    if (!act_type_ok(by, t) || !drop_ok(by, &a->drop)) return false;
    if (!RULE(a->n_head >= 1) || !RULE(a->n_head < 32768) || !RULE(a->q.cols % a->n_head == 0) ||
        !RULE(a->v.cols % a->n_head == 0) || !RULE(a->window >= 0))
        return false;
    if (!(IS(q, nq, a->q.cols, t) && IS(k, nk, a->q.cols, t) && IS(v, nk, a->v.cols, t) &&
          IS(o, nq, a->v.cols, t) && IS(lse, h, nq, w)))
        return false;
    if (!rows_ok(by, &a->rq, nq) || !rows_ok(by, &a->rk, nk)) return false;
    if (!RULE(a->rq.n_seq == a->rk.n_seq)) return false;
    if ((a->causal || a->window) && !(RULE(a->q.rows == a->k.rows))) return false;
    if (!bwd)
        return mat_empty(&a->probs) ||
               (RULE(a->n_head <= INT_MAX / a->q.rows) && IS(probs, h * nq, a->rk.max_len, w));
    return IS(dout, nq, a->v.cols, t) && IS(dq, nq, a->q.cols, t) && IS(dk, nk, a->q.cols, t) &&
           IS(dv, nk, a->v.cols, t);
}

static bool check_add_norm(struct caller by, const struct add_norm_args *a, bool bwd) {
    bool sum = !mat_empty(bwd ? &a->r : &a->s);
    const struct mat *in = bwd ? (sum ? &a->r : &a->x) : &a->x;
    int n = in->rows, d = in->cols;
    enum dtype t = in->type, w = dtype_wide(t);
    if (!act_type_ok(by, t) || !drop_ok(by, &a->drop)) return false;
    if (!(IS(gamma, 1, d, t) && IS(stats, n, 2, w) && RULE(a->eps > 0))) return false;
    if (!bwd)
        return IS(x, n, d, t) && IS(beta, 1, d, t) && IS(y, n, d, t) &&
               (sum ? IS(s, n, d, t) && IS(r, n, d, t) : IS_ABSENT(r));
    if (sum ? a->drop.p > 0 && !IS(ds, n, d, t) : !(IS_ABSENT(ds) && IS_ABSENT(dbias)))
        return false;
    return (sum || IS(x, n, d, t)) && IS_OR_ABSENT(r, n, d, t) && IS(dy, n, d, t) &&
           IS_OR_ABSENT(dr, n, d, t) && IS(dx, n, d, t) && IS_OR_ABSENT(ds, n, d, t) &&
           IS(dgamma, 1, d, w) && IS(dbeta, 1, d, w) && IS_OR_ABSENT(dbias, 1, d, w);
}

static bool check_xent(struct caller by, const struct xent_args *a) {
    int n = a->x.rows, d = a->x.cols, v = a->w.rows;
    enum dtype t = a->x.type, w = dtype_wide(t);
    if (!act_type_ok(by, t)) return false;
    if (!RULE(a->smoothing >= 0 && a->smoothing < 1)) return false;
    if (!(IS(x, n, d, t) && IS(w, v, d, t) && IS_OR_ABSENT(b, 1, v, t) &&
          IS(totals, 1, 3, DTYPE_F64) && IS_OR_ABSENT(row_nll, 1, n, w)))
        return false;
    if (mat_empty(&a->dx)) return IS_ABSENT(dw) && IS_ABSENT(db);
    return IS(dx, n, d, t) && IS(dw, v, d, w) && IS_OR_ABSENT(db, 1, v, w);
}

static bool check_guide(struct caller by, const struct guide_args *a) {
    int nq = a->q.rows, nk = a->k.rows, d = a->q.cols;
    enum dtype t = a->q.type;
    if (!act_type_ok(by, t)) return false;
    if (!(IS(q, nq, d, t) && IS(k, nk, d, t) && IS(totals, 1, 2, DTYPE_F64))) return false;
    if (!rows_ok(by, &a->rq, nq) || !rows_ok(by, &a->rk, nk)) return false;
    if (!RULE(a->rq.n_seq == a->rk.n_seq)) return false;
    if (!backend_planning(by.be) && !(RULE(a->span) && RULE(a->range))) return false;
    if (mat_empty(&a->dq)) return IS_ABSENT(dk);
    return IS(dq, nq, d, t) && IS(dk, nk, d, t);
}

static bool check_attention_step(struct caller by, const struct attention_step_args *a) {
    int n = a->q.rows, cache = a->k.rows;
    enum dtype t = a->q.type, kv = t;
    if (!act_type_ok(by, t)) return false;
    if (t == DTYPE_F32 && !backend_device_memory(by.be) && a->k.type == DTYPE_F16) kv = DTYPE_F16;
    if (!RULE(a->n_head >= 1) || !RULE(a->q.cols % a->n_head == 0) ||
        !RULE(a->v.cols % a->n_head == 0) || !RULE(a->window >= 0) || !RULE(a->max_len >= 1))
        return false;
    if (a->index && !RULE(a->index_ld >= a->max_len)) return false;
    if (!backend_planning(by.be) && (!RULE(a->len) || !RULE(a->index || a->start))) return false;
    if (!RULE(mat_empty(&a->k_new) == mat_empty(&a->v_new))) return false;
    return IS(q, n, a->q.cols, t) && IS(k, cache, a->q.cols, kv) && IS(v, cache, a->v.cols, kv) &&
           IS(o, n, a->v.cols, t) && IS_OR_ABSENT(k_new, n, a->q.cols, t) &&
           IS_OR_ABSENT(v_new, n, a->v.cols, t);
}

static bool check_ssru(struct caller by, const struct ssru_args *a, bool bwd) {
    int n = a->g.rows, d = a->g.cols;
    enum dtype t = a->g.type;
    if (!act_type_ok(by, t) || !rows_ok(by, &a->rows, n)) return false;
    if (!(IS(g, n, d, t) && IS(x, n, d, t) && IS(c, n, d, dtype_wide(t)))) return false;
    if (!bwd) return IS(o, n, d, t);
    return IS(dout, n, d, t) && IS(dg, n, d, t) && IS(dx, n, d, t);
}

static bool check_ssru_step(struct caller by, const struct ssru_step_args *a) {
    int n = a->g.rows, d = a->g.cols;
    enum dtype t = a->g.type;
    if (!act_type_ok(by, t) || !RULE(a->index_ld >= 1)) return false;
    if (!backend_planning(by.be) && !(RULE(a->index) && RULE(a->len))) return false;
    return IS(g, n, d, t) && IS(x, n, d, t) && IS(o, n, d, t) && IS(c, a->c.rows, d, dtype_wide(t));
}

static bool check_topk(struct caller by, const struct topk_args *a) {
    int n = a->logits.rows, v = a->logits.cols, k = a->value.cols;
    enum dtype t = a->logits.type;
    if (!mat_empty(&a->w) &&
        !(IS(x, n, a->x.cols, t) && IS_WEIGHT(w, v, a->x.cols, t) && IS_OR_ABSENT(b, 1, v, t)))
        return false;
    return act_type_ok(by, t) && IS(logits, n, v, t) && IS(value, n, k, dtype_wide(t)) &&
           rule(by, k >= 1 && k <= v && k <= TOPK_MAX, "k is not in [1, min(V, TOPK_MAX)]");
}

static bool check_blend(struct caller by, const struct blend_args *a) {
    int n = a->out.rows, v = a->out.cols;
    if (!rule(by, a->n >= 1 && a->n <= BLEND_MOST, "n is not in [1, BLEND_MOST]")) return false;
    for (int m = 0; m < a->n; m++) {
        enum dtype t = a->z[m].type;
        if (!act_type_ok(by, t) || !IS(z[m], n, v, t) || !IS(out, n, v, dtype_wide(t)) ||
            !RULE(a->weight[m] > 0))
            return false;
    }
    return true;
}

static bool check_beam_step(struct caller by, const struct beam_step_args *a) {
    const struct beam_rules *r = &a->rules;
    if (!RULE(r->width >= 1) || !RULE(r->width <= BEAM_MAX) || !RULE(r->n_best >= 1) ||
        !RULE(r->n_best <= r->width) || !RULE(a->n_seq >= 1) || !RULE(a->longest >= 1) ||
        !RULE(a->n_row >= a->n_seq) || !RULE(a->n_row <= INT_MAX / a->longest) ||
        !RULE(a->n_row / r->width >= a->n_seq) || !RULE(r->n_banned >= 0) ||
        !RULE(r->n_banned <= BEAM_BANNED))
        return false;
    return a->begin || (IS(value, a->value.rows, a->value.cols, DTYPE_F32) &&
                        RULE(a->value.ld == a->value.cols));
}

static bool check_sumsq(struct caller by, const struct sumsq_args *a) {
    int n_range = ceil_div(a->x.cols, SUMSQ_RANGE);
    return act_type_ok(by, a->x.type) && IS(out, a->x.rows, n_range, DTYPE_F64) &&
           IS(x, a->x.rows, a->x.cols, a->x.type);
}

static bool check_sum(struct caller by, const struct sum_args *a) {
    int n = a->x.cols, k = a->x.rows;
    enum dtype t = a->x.type;
    if (!rule(by, t == dtype_wide(t), "rows must be f32 (f64 on ref only)")) return false;
    return act_type_ok(by, t) && IS(x, k, n, t) && IS(out, 1, n, t) &&
           rule(by, k >= 1 && k <= SUM_MOST, "k is not in [1, SUM_MOST]");
}

static bool check_adam(struct caller by, const struct adam_args *a) {
    int n = a->p.cols;
    enum dtype t = a->p.type;
    if (!rule(by, t == dtype_wide(t), "parameters must be f32 (f64 on ref only)")) return false;
    if (!act_type_ok(by, t) || !RULE(a->t >= 1)) return false;
    if (a->clip > 0 && !IS(sumsq, 1, 1, DTYPE_F64)) return false;
    return IS(p, 1, n, t) && IS(g, 1, n, t) && IS(m, 1, n, t) && IS(v, 1, n, t) &&
           IS_OR_ABSENT(copy, 1, n, DTYPE_BF16) && IS_OR_ABSENT(avg, 1, n, t) &&
           RULE(a->avg_weight >= 0 && a->avg_weight <= 1);
}

static bool check_round_rows(struct caller by, const struct round_rows_args *a) {
    enum dtype t = a->w.type;
    return rule(by, t == DTYPE_F32 || t == DTYPE_BF16, "w is neither f32 nor bf16") &&
           IS(w, a->w.rows, a->w.cols, t);
}

void backend_cast(struct backend *be, const struct mat *dst, const struct mat *src) {
    if (be->err.code || backend_planning(be)) return;
    struct caller by = {be, "cast"};
    if (rule(by, !backend_device_memory(be) || (src->type != DTYPE_F16 && dst->type != DTYPE_F16),
             "f16 is for host memory") &&
        is(by, "src", src, dst->rows, dst->cols, src->type) &&
        is(by, "dst", dst, dst->rows, dst->cols, dst->type))
        be->vt->cast(be, dst, src);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Each public op: nothing while an error is pending; check; call; count. */
#define OP_DEFINE(slot, args, check)                                                               \
    void slot(struct backend *be, const struct args *a) {                                          \
        struct caller by = {be, #slot};                                                            \
        if (be->err.code || !(check)) return;                                                      \
        bool timed = be->profiling && !backend_planning(be);                                       \
        double begin = timed ? profile_begin(be, OP_##slot) : 0;                                   \
        be->vt->slot(be, a);                                                                       \
        if (timed) profile_end(be, OP_##slot, begin, a);                                           \
    }

OP_DEFINE(embed_fwd, embed_args, check_embed(by, a, false))
OP_DEFINE(embed_bwd, embed_args, check_embed(by, a, true))
OP_DEFINE(linear_fwd, linear_args, check_linear(by, a, false))
OP_DEFINE(linear_bwd, linear_args, check_linear(by, a, true))
OP_DEFINE(attention_fwd, attention_args, check_attention(by, a, false))
OP_DEFINE(attention_bwd, attention_args, check_attention(by, a, true))
OP_DEFINE(add_norm_fwd, add_norm_args, check_add_norm(by, a, false))
OP_DEFINE(add_norm_bwd, add_norm_args, check_add_norm(by, a, true))
OP_DEFINE(xent, xent_args, check_xent(by, a))
OP_DEFINE(guide, guide_args, check_guide(by, a))
OP_DEFINE(attention_step, attention_step_args, check_attention_step(by, a))
OP_DEFINE(ssru_fwd, ssru_args, check_ssru(by, a, false))
OP_DEFINE(ssru_bwd, ssru_args, check_ssru(by, a, true))
OP_DEFINE(ssru_step, ssru_step_args, check_ssru_step(by, a))
OP_DEFINE(topk, topk_args, check_topk(by, a))
OP_DEFINE(blend, blend_args, check_blend(by, a))
OP_DEFINE(beam_step, beam_step_args, check_beam_step(by, a))
OP_DEFINE(sum, sum_args, check_sum(by, a))
OP_DEFINE(sumsq, sumsq_args, check_sumsq(by, a))
OP_DEFINE(adam, adam_args, check_adam(by, a))
OP_DEFINE(round_rows, round_rows_args, check_round_rows(by, a))
