/* rows_softmax.h — row kernels around an exponential: attention, the loss, decoding. See rows.h.
 *
 * Included by rows_<isa>.c after rows_body.h. A softmax takes its row's maximum first and divides
 * late, so no exponential overflows; masked scores are never read as numbers (the memory behind
 * them may hold anything), their probability is an exact 0. Bound by the exponential, about 15
 * vector operations. */
#ifndef BACKEND_CPU_ROWS_SOFTMAX_H
#define BACKEND_CPU_ROWS_SOFTMAX_H

#include "backend/cpu/rows_body.h"

/* ---- attention ------------------------------------------------------------------------------- */

/* The columns of block row r that its query sees: [*lo, *hi), within [0, n_k). Empty if *lo >=
 * *hi. */
INLINE void seen(const struct attention_block *t, int r, int *lo, int *hi) {
    int i = t->q0 + r - t->k0; /* the query's own position, in block columns */
    *lo = t->window && i - t->window > 0 ? i - t->window : 0;
    *hi = t->causal && i + 1 < t->n_k ? i + 1 : t->n_k;
    if (t->window && i + t->window + 1 < *hi) *hi = i + t->window + 1;
}

INLINE float *block_row(float *block, int r) { return block + (size_t)r * ATTENTION_BLOCK; }

INLINE const uint16_t *block_draw(uint16_t *buf, const struct attention_block *t, int r) {
    return draw(buf, &t->drop, t->row + (uint32_t)r, (uint32_t)t->k0, ATTENTION_BLOCK);
}

INLINE void zero_row(void *row, int n, int bf) {
    for (int j = 0; j < n; j += W) vstore(row, j, W, bf, (vf){0});
}

/* Raises the running maximum to the row's and scales what was summed under the old one. */
INLINE void raise_max(const struct attention_block *t, int r, float max) {
    float shrink = vexp(splat(t->max[r] - max))[0]; /* 0 on the row's first block */
    float *o = t->o + (size_t)r * (size_t)t->d_v;
    t->max[r] = max;
    t->sum[r] *= shrink;
    FOR_LANES(c, m, 0, t->d_v) vstore(o, c, m, 0, vload(o, c, m, 0) * shrink);
}

INLINE void attention_softmax_body(const struct attention_block *t, int bf, int wide) {
    uint16_t buf[ATTENTION_BLOCK];
    for (int r = 0; r < t->n_q; r++) {
        float *s = block_row(t->s, r);
        int lo, hi;
        seen(t, r, &lo, &hi);
        if (lo >= hi) {
            zero_row(s, t->n_k, bf && !wide);
            continue;
        }
        vf top = splat(-INFINITY), sum = {0};
        for (int j = 0; j < t->n_k; j += W)
            top = vmax(top, vsel(between(j, lo, hi), vload(s, j, W, 0) * t->scale, top));
        float max = vmax_all(top);
        if (!(max <= t->max[r])) raise_max(t, r, max);
        max = t->max[r];
        const uint16_t *bits = block_draw(buf, t, r);
        for (int j = 0; j < t->n_k; j += W) {
            vf p = vkeep(between(j, lo, hi),
                         vexp(vfma(vload(s, j, W, 0), splat(t->scale), splat(-max))));
            sum += p;
            if (bits) p = drop(p, bits + j, &t->drop);
            vstore(s, j, W, bf && !wide, wide ? rounded(p, bf) : p);
        }
        t->sum[r] += vsum(sum);
    }
}

static void attention_softmax(const struct attention_block *t) {
    if (t->type != DTYPE_BF16)
        attention_softmax_body(t, 0, 0);
    else if (t->wide)
        attention_softmax_body(t, 1, 1);
    else
        attention_softmax_body(t, 1, 0);
}

INLINE void attention_grad_body(const struct attention_block *t, int bf, int wide) {
    const int out = bf && !wide;
    uint16_t buf[ATTENTION_BLOCK];
    for (int r = 0; r < t->n_q; r++) {
        float *s = block_row(t->s, r), *dp = block_row(t->dp, r);
        int lo, hi;
        seen(t, r, &lo, &hi);
        if (lo >= hi) {
            zero_row(s, t->n_k, out);
            zero_row(dp, t->n_k, out);
            continue;
        }
        const uint16_t *bits = block_draw(buf, t, r);
        for (int j = 0; j < t->n_k; j += W) {
            vi mask = between(j, lo, hi);
            vf p = vkeep(mask, vexp(vfma(vload(s, j, W, 0), splat(t->scale), splat(-t->lse[r]))));
            vf g = vload(dp, j, W, 0), kept = p;
            if (bits) {
                g = drop(g, bits + j, &t->drop);
                kept = drop(p, bits + j, &t->drop);
            }
            vf ds = vkeep(mask, p * (g - t->delta[r]));
            vstore(s, j, W, out, wide ? rounded(kept, bf) : kept);
            vstore(dp, j, W, out, wide ? rounded(ds, bf) : ds);
        }
    }
}

static void attention_grad(const struct attention_block *t) {
    if (t->type != DTYPE_BF16)
        attention_grad_body(t, 0, 0);
    else if (t->wide)
        attention_grad_body(t, 1, 1);
    else
        attention_grad_body(t, 1, 0);
}

static void attention_probs(const struct attention_block *t) {
    for (int r = 0; r < t->n_q; r++) {
        float *s = block_row(t->s, r);
        int lo, hi;
        seen(t, r, &lo, &hi);
        for (int j = 0; j < t->n_k; j += W) {
            vf p = vexp(vfma(vload(s, j, W, 0), splat(t->scale), splat(-t->lse[r])));
            vstore(s, j, W, 0, vkeep(between(j, lo, hi), p));
        }
    }
}

/* ---- xent ------------------------------------------------------------------------------------ */

/* Largest element and sum of a row. Within a block four (two) strands keep the adders busy. */
INLINE float max_and_sum(const void *z, int n, float *sum, int bf) {
    vp top[2] = {psplat(-INFINITY), psplat(-INFINITY)};
    vf rest = splat(-INFINITY), total = {0}; /* of the partial vectors, and all */
    for (int begin = 0; begin < n; begin += SUM_BLOCK) {
        int end = n - begin < SUM_BLOCK ? n : begin + SUM_BLOCK, i = begin;
        vp acc[2] = {psplat(0), psplat(0)};
        for (; i + 4 * W <= end; i += 4 * W)
            for (int k = 0; k < 2; k++) {
                vp x = pload(z, i + 2 * k * W, bf);
                top[k] = pmax(top[k], x);
                acc[k] = padd(acc[k], x);
            }
        vf first = plow(acc[0]);
        for (; i < end; i += W) {
            int m = lanes(end - i);
            vf x = vload(z, i, m, bf);
            rest = vmax(rest, vsel(upto(m), x, rest));
            first += x;
        }
        total += (first + phigh(acc[0])) + (plow(acc[1]) + phigh(acc[1]));
    }
    *sum = vsum(total);
    vp both = pmax(top[0], top[1]);
    return vmax_all(vmax(rest, vmax(plow(both), phigh(both))));
}

/* Sum of exp(z - max); the exponentials go to `keep` unless it is NULL (z itself will do if it is
 * f32). */
INLINE float exp_and_sum(float *keep, const void *z, int n, float max, int bf) {
    vf total = {0};
    for (int begin = 0; begin < n; begin += SUM_BLOCK) {
        int end = n - begin < SUM_BLOCK ? n : begin + SUM_BLOCK, i = begin;
        vp acc = psplat(0);
        for (; i + 2 * W <= end; i += 2 * W) {
            vp e = pexp_down(padd(pload(z, i, bf), psplat(-max)));
            if (keep) pstore(keep, i, e);
            acc = padd(acc, e);
        }
        vf first = plow(acc);
        for (; i < end; i += W) {
            int m = lanes(end - i);
            vf e = vkeep(upto(m), vexp(vload(z, i, m, bf) - max));
            if (keep) vstore(keep, i, m, 0, e);
            first += e;
        }
        total += first + phigh(acc);
    }
    return vsum(total);
}

/* The first index in [from, n) whose element is above the bound (or at it), or n. */
INLINE int find_body(const void *x, int n, int from, float bound, int or_equal, int bf) {
    while (from + 2 * W <= n && !pany_above(pload(x, from, bf), bound, or_equal)) from += 2 * W;
    FOR_LANES(i, m, from, n) {
        vf v = vload(x, i, m, bf);
        vi found = or_equal ? vless_equal(splat(bound), v) : vless(splat(bound), v);
        found &= upto(m);
        if (!vany(found)) continue;
        int l = 0;
        while (!found[l]) l++;
        return i + l;
    }
    return n;
}

/* dz = scale e - floor in place of the exponentials e. A bf16 row grows behind the f32 row it
 * replaces: element i is stored at byte 2 i, after everything up to byte 4 i has been read. */
INLINE void dz_row(float *z, int n, float scale, float floor, int bf) {
    int i = 0;
    for (; !bf && i + 2 * W <= n; i += 2 * W)
        pstore(z, i, pfma(pload(z, i, 0), psplat(scale), psplat(-floor)));
    FOR_LANES(at, m, i, n) {
        vf e = vload(z, at, m, 0);
        vstore(z, at, m, bf, vfma(e, splat(scale), splat(-floor)));
    }
}

static struct xent_row xent_row(const struct xent_args *a, int i, float *z) {
    int n = a->w.rows, t = a->target[i], grad = !mat_empty(&a->dx), bf = a->x.type == DTYPE_BF16;
    if (t < 0) {
        if (grad) memset(z, 0, (size_t)n * elem(bf));
        return (struct xent_row){0};
    }
    float sum_z, max = max_and_sum(z, n, &sum_z, 0), z_t = z[t];
    struct xent_row out = {.hit = z_t == max && find_body(z, t, 0, max, 1, 0) == t};
    float sum = exp_and_sum(grad ? z : NULL, z, n, max, 0);
    float lse = max + logf(sum), eps = a->smoothing, spread = eps / (float)n;
    out.nll = lse - z_t;
    out.loss = f32_fma(-spread, sum_z, f32_fma(eps - 1, z_t, lse));
    if (!grad) return out;
    float dz_t = a->grad_scale * (z[t] / sum - (1 - eps) - spread);
    if (bf) {
        dz_row(z, n, a->grad_scale / sum, a->grad_scale * spread, 1);
        uint16_t h = bf16_store(dz_t);
        memcpy((char *)z + 2 * (size_t)t, &h, sizeof h);
    } else {
        dz_row(z, n, a->grad_scale / sum, a->grad_scale * spread, 0);
        z[t] = dz_t;
    }
    return out;
}

/* ---- guide ----------------------------------------------------------------------------------- */

static float guide_row(const struct guide_row *g, float *z) {
    float unused, linked = 0;
    int n = g->n_k, m = 0;
    FOR_LANES(i, l, 0, n) vstore(z, i, l, 0, vload(z, i, l, 0) * g->scale);
    for (int r = 0; r < g->n_range; r++)
        for (int j = g->range[2 * r]; j < g->range[2 * r + 1]; j++, m++) linked += z[j];
    float max = max_and_sum(z, n, &unused, 0);
    float sum = exp_and_sum(g->grad ? z : NULL, z, n, max, 0);
    float loss = max + logf(sum) - linked / (float)m;
    if (!g->grad) return loss;
    dz_row(z, n, g->factor / sum, 0, 0);
    for (int r = 0; r < g->n_range; r++)
        for (int j = g->range[2 * r]; j < g->range[2 * r + 1]; j++) z[j] -= g->factor / (float)m;
    if (g->type == DTYPE_BF16) dz_row(z, n, 1, 0, 1);
    return loss;
}

/* ---- decode ---------------------------------------------------------------------------------- */

INLINE const char *cache_row(const struct attend *a, const void *base, int64_t ld, int t, int kv) {
    int64_t row = a->index ? a->index[t] : a->start + t;
    return (const char *)base + (size_t)(row * ld) * elem(kv);
}

/* Rows lie anywhere in the cache, and a processor guesses only within them: ask for the next
 * one. */
INLINE void ask_row(const struct attend *a, const void *base, int64_t ld, int t, int n, int kv) {
    if (t >= a->len) return;
    const char *row = cache_row(a, base, ld, t, kv);
    for (size_t at = 0; at < (size_t)n * elem(kv); at += 64) __builtin_prefetch(row + at);
}

/* The row of scores of hypothesis g at step t. */
INLINE float *score_row(const struct attend *a, int t, const int n, int g) {
    return a->score + ((size_t)t * (size_t)n + (size_t)g) * attend_width(a->n_head);
}

/* q . k of one head for n hypotheses, in two strands so that sums do not wait for each other. */
INLINE void attend_dot(vf *dot, const struct attend *a, const char *key, int h, const int n,
                       const int d_k, int bf, int kv) {
    vp both[ATTEND_MOST];
    vf even[ATTEND_MOST];
    int64_t at = (int64_t)h * d_k;
    int i = 0;
    for (int g = 0; g < n; g++) both[g] = psplat(0);
    for (; i + 2 * W <= d_k; i += 2 * W) {
        vp k = pload(key, at + i, kv);
        for (int g = 0; g < n; g++) both[g] = pfma(pload(a->q[g], at + i, bf), k, both[g]);
    }
    for (int g = 0; g < n; g++) even[g] = plow(both[g]);
    for (; i < d_k; i += W) {
        int m = lanes(d_k - i);
        vf k = vload(key, at + i, m, kv);
        for (int g = 0; g < n; g++) even[g] = vfma(vload(a->q[g], at + i, m, bf), k, even[g]);
    }
    for (int g = 0; g < n; g++) dot[g] = even[g] + phigh(both[g]);
}

/* Scores of all heads against every key. Lane j of a vector is head h + j. */
INLINE void attend_scores(const struct attend *a, const int n, const int d_k, int bf, int kv) {
    for (int t = a->first; t < a->len; t++) {
        const char *key = cache_row(a, a->k, a->ld_k, t, kv);
        ask_row(a, a->k, a->ld_k, t + 4, a->n_head * d_k, kv);
        int h = 0;
        for (; h + W <= a->n_head; h += W) {
            vf dot[ATTEND_MOST][W];
            for (int j = 0; j < W; j++) {
                vf one[ATTEND_MOST];
                attend_dot(one, a, key, h + j, n, d_k, bf, kv);
                for (int g = 0; g < n; g++) dot[g][j] = one[g];
            }
            for (int g = 0; g < n; g++)
                vstore(score_row(a, t, n, g), h, W, 0, vsum_each(dot[g]) * a->scale);
        }
        for (; h < a->n_head; h++) {
            vf one[ATTEND_MOST];
            attend_dot(one, a, key, h, n, d_k, bf, kv);
            for (int g = 0; g < n; g++) score_row(a, t, n, g)[h] = vsum(one[g]) * a->scale;
        }
    }
}

/* Scores to exponentials, W heads at a time; the sums over time go behind the last step's row. */
INLINE void attend_softmax(const struct attend *a, const int n, int g) {
    for (int h = 0; h < a->n_head; h += W) {
        vf max = splat(-INFINITY), sum = {0};
        for (int t = a->first; t < a->len; t++) {
            vf s = vload(score_row(a, t, n, g), h, W, 0);
            max = vsel(~vless_equal(s, max), s, max);
        }
        for (int t = a->first; t < a->len; t++) {
            float *score = score_row(a, t, n, g);
            vf e = vexp(vload(score, h, W, 0) - max);
            vstore(score, h, W, 0, e);
            sum += e;
        }
        vstore(score_row(a, a->len, n, g), h, W, 0, 1.0f / sum);
    }
}

/* `steps` steps from t on are added to the sums of all heads, in order. */
INLINE void attend_steps(const struct attend *a, int t, const int steps, const int n, const int d_v,
                         int kv) {
    const char *value[4];
    const size_t width = (size_t)a->n_head * (size_t)d_v;
    for (int j = 0; j < steps; j++) {
        value[j] = cache_row(a, a->v, a->ld_v, t + j, kv);
        ask_row(a, a->v, a->ld_v, t + steps + j, a->n_head * d_v, kv);
    }
    for (int h = 0; h < a->n_head; h++) {
        float p[ATTEND_MOST][4];
        for (int g = 0; g < n; g++)
            for (int j = 0; j < steps; j++) p[g][j] = score_row(a, t + j, n, g)[h];
        int64_t at = (int64_t)h * d_v;
        int i = 0;
        for (; i + 2 * W <= d_v; i += 2 * W) {
            vp sum[ATTEND_MOST];
            for (int g = 0; g < n; g++) sum[g] = pload(a->sum + (size_t)g * width, at + i, 0);
            for (int j = 0; j < steps; j++) {
                vp v = pload(value[j], at + i, kv);
                for (int g = 0; g < n; g++) sum[g] = pfma(psplat(p[g][j]), v, sum[g]);
            }
            for (int g = 0; g < n; g++) pstore(a->sum + (size_t)g * width, at + i, sum[g]);
        }
        FOR_LANES(c, m, i, d_v) {
            vf sum[ATTEND_MOST];
            for (int g = 0; g < n; g++) sum[g] = vload(a->sum + (size_t)g * width, at + c, m, 0);
            for (int j = 0; j < steps; j++) {
                vf v = vload(value[j], at + c, m, kv);
                for (int g = 0; g < n; g++) sum[g] = vfma(splat(p[g][j]), v, sum[g]);
            }
            for (int g = 0; g < n; g++) vstore(a->sum + (size_t)g * width, at + c, m, 0, sum[g]);
        }
    }
}

/* All heads together, step by step, so that a cached row is read as one stretch: heads apart would
 * read scattered pieces of it, and the cache is larger than the core's. Hypotheses together read it
 * once, and widen it once. */
INLINE void attend_body(const struct attend *a, const int n, const int d_k, const int d_v, int bf,
                        int kv) {
    const size_t width = (size_t)a->n_head * (size_t)d_v;
    attend_scores(a, n, d_k, bf, kv);
    for (int g = 0; g < n; g++) attend_softmax(a, n, g);
    memset(a->sum, 0, (size_t)n * width * sizeof *a->sum);
    int t = a->first;
    for (; t + 4 <= a->len; t += 4) attend_steps(a, t, 4, n, d_v, kv);
    for (; t < a->len; t++) attend_steps(a, t, 1, n, d_v, kv);
    for (int g = 0; g < n; g++) {
        const float *inv = score_row(a, a->len, n, g), *sum = a->sum + (size_t)g * width;
        for (int h = 0; h < a->n_head; h++) FOR_LANES(c, m, 0, d_v) {
                int64_t at = (int64_t)h * d_v + c;
                vstore(a->o[g], at, m, bf, vload(sum, at, m, 0) * inv[h]);
            }
    }
}

INLINE void attend_singly(const struct attend *a, const int d_k, const int d_v, int bf, int kv) {
    struct attend one = *a;
    for (int g = 0; g < a->n; g++) {
        one.q[0] = a->q[g];
        one.o[0] = a->o[g];
        attend_body(&one, 1, d_k, d_v, bf, kv);
    }
}

#ifdef __AVX2__
/* Models that translate on a CPU are int8, whose cache is f16, or f32; pairs are for those that
 * bring a beam of 2, and bf16 takes one hypothesis at a time. */
INLINE void attend_group(const struct attend *a, const int d_k, const int d_v, int bf, int kv) {
    if (a->n == ATTEND_MOST && !bf)
        attend_body(a, ATTEND_MOST, d_k, d_v, bf, kv);
    else if (a->n == 2 && kv == F16)
        attend_body(a, 2, d_k, d_v, bf, kv);
    else
        attend_singly(a, d_k, d_v, bf, kv);
}
#endif

/* Heads of 64, the paper's, and of 32, as narrow models have them, get loops of known length, and
 * are read by several hypotheses at once. */
INLINE void attend_width_known(const struct attend *a, int bf, int kv) {
#ifdef __AVX2__ /* elsewhere it hardly shows, and takes a hundred kilobytes */
    if (a->d_k == 64 && a->d_v == 64) {
        attend_group(a, 64, 64, bf, kv);
        return;
    }
    if (a->d_k == 32 && a->d_v == 32) {
        attend_group(a, 32, 32, bf, kv);
        return;
    }
#endif
    attend_singly(a, a->d_k, a->d_v, bf, kv);
}

static void attend_row(const struct attend *a) {
    if (a->type == DTYPE_BF16)
        attend_width_known(a, 1, 1);
    else if (a->cache == DTYPE_F16)
        attend_width_known(a, 0, F16);
    else
        attend_width_known(a, 0, 0);
}

INLINE void soft_sum_body(const void *x, int n, float *max, float *sum, int bf) {
    vp top[2] = {psplat(-INFINITY), psplat(-INFINITY)};
    int i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
        for (int k = 0; k < 2; k++) top[k] = pmax(pload(x, i + 2 * k * W, bf), top[k]);
    vp both = pmax(top[0], top[1]);
    vf most = vmax(plow(both), phigh(both));
    for (; i < n; i += W) {
        int m = lanes(n - i);
        most = vmax(vsel(upto(m), vload(x, i, m, bf), most), most);
    }
    *max = vmax_all(most);
    *sum = exp_and_sum(NULL, x, n, *max > -INFINITY ? *max : 0, bf);
}

static void soft_sum(const void *x, enum dtype type, int n, float *max, float *sum) {
    type == DTYPE_BF16 ? soft_sum_body(x, n, max, sum, 1) : soft_sum_body(x, n, max, sum, 0);
}

static float soft_join(const float *max, const float *sum, int n, float top) {
    vf total = {0};
    FOR_LANES(i, m, 0, n) {
        vf e = vkeep(upto(m), vexp(vload(max, i, m, 0) - top));
        total = vfma(e, vload(sum, i, m, 0), total);
    }
    return vsum(total);
}

static int find_above(const void *x, enum dtype type, int n, int from, float bound) {
    return type == DTYPE_BF16 ? find_body(x, n, from, bound, 0, 1)
                              : find_body(x, n, from, bound, 0, 0);
}

/* Of each token the likeliest model's exponential is 1, so the sum is never below its weight. Where
 * a sum of exponentials is NaN, every token of that model is, and the mean: both the exponential
 * and the logarithm hand it on. */
static void blend_row(const struct blend_args *a, int row, const float *lse) {
    float *out = mat_row(&a->out, row);
    FOR_LANES(v, m, 0, a->out.cols) {
        vf x[BLEND_MOST], top = splat(-INFINITY), sum = {0};
        for (int i = 0; i < a->n; i++) {
            const void *z = mat_row(&a->z[i], row);
            x[i] = (a->z[i].type == DTYPE_BF16 ? vload(z, v, m, 1) : vload(z, v, m, 0)) - lse[i];
            top = vmax(x[i], top);
        }
        vf base = vsel(vless(splat(-INFINITY), top), top, splat(0)); /* impossible to all */
        for (int i = 0; i < a->n; i++) sum += vexp(x[i] - base) * a->weight[i];
        vstore(out, v, m, 0, base + vlog(sum));
    }
}

/* ---- table ----------------------------------------------------------------------------------- */

#define ROW_KERNELS                                                                                \
    {                                                                                              \
        .convert = convert, .store_rows = store_rows, .column_sums = column_sums,                  \
        .row_dots = row_dots, .embed_fwd = embed_fwd_rows, .embed_bwd = embed_bwd_columns,         \
        .linear_fwd = linear_fwd_rows, .linear_bwd = linear_bwd_rows,                              \
        .add_norm_fwd = add_norm_fwd_rows, .add_norm_bwd = add_norm_bwd_rows,                      \
        .attention_softmax = attention_softmax, .attention_grad = attention_grad,                  \
        .attention_probs = attention_probs, .xent_row = xent_row, .guide_row = guide_row,          \
        .attend = attend_row, .add_rows = add_rows, .soft_sum = soft_sum, .soft_join = soft_join,  \
        .blend = blend_row, .find_above = find_above, .ssru_fwd = ssru_fwd_rows,                   \
        .ssru_bwd = ssru_bwd_rows, .ssru_step = ssru_step_rows, .sum = sum_elements,               \
        .sumsq = sumsq_elements, .adam = adam_elements,                                            \
    }

#endif
