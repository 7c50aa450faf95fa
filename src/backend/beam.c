/* beam.c — see beam.h.
 *
 * The candidates of a step are all (hypothesis, token) pairs, ranked by the log-probability of the
 * longer hypothesis, ties to the lower (hypothesis, token). Each hypothesis brings its own best
 * ones in order, so the ranking is a merge of n_live sorted rows. Of the first `width` candidates
 * those with an end mark end; the first `width` without one live on. At most n_live <= width
 * candidates have an end mark, so the merge looks at no more than 2 * width of them. */
#include "backend/beam.h"

#include <math.h>
#include <stddef.h>

BEAM_FN void beam_begin(struct beam *b, int max_len) {
    b->len = b->n_end = b->open = b->done = 0;
    b->max_len = max_len;
    b->n_live = 1;
    b->log_prob[0] = 0;
    b->sample[0] = 0;
}

/* Probabilities above 1 come only from rounding; the stop relies on sums that never grow. */
static BEAM_FN double beam_sum(double log_prob, float value) {
    return log_prob + (value < 0 ? (double)value : 0.0);
}

/* The row whose head is the best candidate left, or -1. Rows are tried upwards and a later equal
 * one is not better: ties go to the lower hypothesis. */
static BEAM_FN int beam_pick(const struct beam *b, const float *value, int k, const int *head) {
    int best = -1;
    double most = -INFINITY;
    for (int h = 0; h < b->n_live; h++) {
        double p = head[h] < k ? beam_sum(b->log_prob[h], value[h * k + head[h]]) : -INFINITY;
        if (p > most) {
            most = p;
            best = h;
        }
    }
    return best;
}

/* Keeps an ended hypothesis if it is among the n_best. Earlier ones stay before later equal
 * ones. */
static BEAM_FN void beam_keep(struct beam *b, const struct beam_rules *r, struct beam_end end) {
    int at = b->n_end;
    end.score = end.log_prob / r->penalty[end.n + (end.token >= 0)];
    while (at > 0 && b->end[at - 1].score < end.score) at--;
    if (at == r->n_best) return;
    if (b->n_end < r->n_best) b->n_end++;
    for (int i = b->n_end - 1; i > at; i--) b->end[i] = b->end[i - 1];
    b->end[at] = end;
}

/* Where no hypothesis may be continued at all, they end as they are. */
static BEAM_FN void beam_strand(struct beam *b, const struct beam_rules *r, int h) {
    struct beam_end end = {b->log_prob[h], 0, h, b->len, -1, 0, 1};
    beam_keep(b, r, end);
}

/* No descendant of a live hypothesis of log-probability p can score above p / penalty: more tokens
 * only lower p, and the penalty is the most favourable one on the way, which is that of the longest
 * length when penalties grow and that of the next length when they fall. The best live one stands
 * for all. A tie stops, since a later equal score would not displace the earlier one. */
static BEAM_FN int beam_settled(const struct beam *b, const struct beam_rules *r) {
    if (b->n_live == 0) return 1;
    if (r->run_on || b->n_end < r->n_best) return 0;
    if (r->width == 1) return 1; /* greedy: the first end is the answer, whatever the penalty */
    double most = b->log_prob[0] / r->penalty[r->falling ? b->len + 1 : b->max_len];
    return most <= b->end[r->n_best - 1].score;
}

BEAM_FN void beam_advance(struct beam *b, const struct beam_rules *r, const float *value,
                          const int32_t *id, int k) {
    int head[BEAM_MAX] = {0}, n_next = 0, rank = 0, last = b->len + 1 == b->max_len;
    double next[BEAM_MAX] = {0};
    struct beam_node *node = b->node + (size_t)b->len * (size_t)r->width;
    while (n_next < r->width && !(last && rank == r->width)) {
        int h = beam_pick(b, value, k, head);
        if (h < 0) break;
        int at = h * k + head[h]++, ends = id[at] == r->eos;
        double p = beam_sum(b->log_prob[h], value[at]);
        if (!ends && !last) {
            struct beam_node grown = {id[at], h, value[at]};
            node[n_next] = grown;
            next[n_next++] = p;
        } else if (rank < r->width) {
            struct beam_end end = {p, 0, h, b->len, id[at], value[at], !ends};
            beam_keep(b, r, end);
        }
        rank++;
    }
    for (int h = 0; h < b->n_live && rank == 0; h++) beam_strand(b, r, h);
    for (int i = 0; i < n_next; i++) b->log_prob[i] = next[i];
    b->n_live = n_next;
    b->len++;
    b->done = beam_settled(b, r);
}

BEAM_FN void beam_take(struct beam *b, const struct beam_rules *r, const struct beam_pick *pick,
                       int n) {
    int n_next = 0, last = b->len + 1 == b->max_len;
    double next[BEAM_MAX] = {0};
    struct beam_node *node = b->node + (size_t)b->len * (size_t)r->width;
    for (int i = 0; i < n; i++) {
        const struct beam_pick *p = &pick[i];
        if (p->id == r->eos || last) {
            struct beam_end end = {p->log_prob, 0,        p->hyp,         b->len,
                                   p->id,       p->value, p->id != r->eos};
            beam_keep(b, r, end);
        } else {
            struct beam_node grown = {p->id, p->hyp, p->value};
            node[n_next] = grown;
            next[n_next++] = p->log_prob;
        }
    }
    for (int h = 0; h < b->n_live && n == 0 && b->n_end == 0; h++) beam_strand(b, r, h);
    for (int i = 0; i < n_next; i++) b->log_prob[i] = next[i];
    b->n_live = n_next;
    b->len++;
    b->done = beam_settled(b, r);
}

BEAM_FN void beam_draw(struct beam *b, const struct beam_rules *r, const float *value,
                       const int32_t *id) {
    int n_draw = b->open ? b->n_live : r->width, last = b->len + 1 == b->max_len, n_next = 0;
    int32_t sample[BEAM_MAX];
    double next[BEAM_MAX];
    struct beam_node *node = b->node + (size_t)b->len * (size_t)r->width;
    for (int i = 0; i < n_draw; i++) {
        int h = b->open ? i : 0, ends = id[i] == r->eos;
        double p = beam_sum(b->log_prob[h], value[i]);
        if (id[i] < 0) {
            beam_strand(b, r, h);
        } else if (ends || last) {
            struct beam_end end = {p, 0, h, b->len, id[i], value[i], !ends};
            beam_keep(b, r, end);
        } else {
            struct beam_node grown = {id[i], h, value[i]};
            node[n_next] = grown;
            sample[n_next] = b->open ? b->sample[i] : i;
            next[n_next++] = p;
        }
    }
    for (int i = 0; i < n_next; i++) {
        b->log_prob[i] = next[i];
        b->sample[i] = sample[i];
    }
    b->n_live = n_next;
    b->open = 1;
    b->len++;
    b->done = n_next == 0;
}

BEAM_FN void beam_trace(int32_t *token, float *log_prob, const struct beam *b,
                        const struct beam_rules *r, int hyp, int n) {
    for (int t = n; t-- > 0;) {
        const struct beam_node *node = &b->node[(size_t)t * (size_t)r->width + (size_t)hyp];
        token[t] = node->token;
        if (log_prob) log_prob[t] = node->log_prob;
        hyp = node->parent;
    }
}

static BEAM_FN int beam_forbids(const struct beam_rules *r, int32_t id, int no_end) {
    if (no_end && id == r->eos) return 1;
    for (int i = 0; i < r->n_banned; i++)
        if (id == r->banned[i]) return 1;
    return 0;
}

BEAM_FN int beam_strike(float *value, int32_t *id, int k, const struct beam_rules *r, int no_end) {
    int n = 0;
    for (int i = 0; i < k; i++) {
        if (isnan(value[i])) return -1;
        if (beam_forbids(r, id[i], no_end)) continue;
        value[n] = value[i];
        id[n++] = id[i];
    }
    for (; n < k; n++) {
        value[n] = -INFINITY;
        id[n] = -1;
    }
    return 0;
}

BEAM_FN void beam_force(float *value, int32_t *id, int k, int32_t token) {
    for (int i = 0; i < k; i++) {
        value[i] = i ? -INFINITY : 0;
        id[i] = i ? -1 : token;
    }
}

BEAM_FN void beam_load(struct beam *b, const struct beam_table *t, const struct beam_rules *r,
                       int longest, int s, int32_t *unused) {
    const struct beam_head *head = &t->head[s];
    size_t first = (size_t)s * (size_t)r->width;
    b->len = head->len;
    b->max_len = head->max_len;
    b->n_live = head->n_live;
    b->n_end = head->n_end;
    b->open = 0;
    b->done = head->done;
    b->log_prob = t->log_prob + first;
    b->sample = unused;
    b->node = t->node + first * (size_t)longest;
    b->end = t->end + (size_t)s * (size_t)r->n_best;
}

BEAM_FN void beam_store(const struct beam *b, const struct beam_table *t, int s) {
    struct beam_head *head = &t->head[s];
    head->len = b->len;
    head->max_len = b->max_len;
    head->n_live = b->n_live;
    head->n_end = b->n_end;
    head->done = b->done;
}
