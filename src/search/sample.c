/* sample.c — see sample.h.
 *
 * The tokens a rule leaves are those not worse than some last token, in the order of their
 * probability, ties to the lower id. That token is found by partitioning, in time linear in the
 * vocabulary, however many are left; the draw itself goes through the ids upwards. */
#include "search/sample.h"

#include <math.h>

#include "base/rng.h"

double sample_uniform(uint64_t seed, uint64_t key, int sample, int step) {
    struct philox x =
        philox4x32(seed, (uint32_t)key, (uint32_t)(key >> 32), (uint32_t)sample, (uint32_t)step);
    uint64_t bits = (uint64_t)x.x[0] << 32 | x.x[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static int before(const float *log_prob, int32_t a, int32_t b) {
    if (log_prob[a] != log_prob[b]) return log_prob[a] > log_prob[b];
    return a < b;
}

static void swap(int32_t *order, int i, int j) {
    int32_t was = order[i];
    order[i] = order[j];
    order[j] = was;
}

/* Rearranges order[first, last) around one of its tokens; returns where that one is now. Those that
 * come before it in rank are to its left. The median of three keeps sorted input harmless. */
static int partition(int32_t *order, int first, int last, const float *log_prob) {
    int mid = first + (last - first) / 2, end = last - 1, at = first;
    if (before(log_prob, order[mid], order[first])) swap(order, mid, first);
    if (before(log_prob, order[end], order[first])) swap(order, end, first);
    if (before(log_prob, order[mid], order[end])) swap(order, mid, end); /* median to the end */
    for (int i = first; i < end; i++)
        if (before(log_prob, order[i], order[end])) swap(order, i, at++);
    swap(order, at, end);
    return at;
}

/* Brings the most probable tokens of order[0, n) to its front, as many as are needed until there
 * are `most` of them or their weights reach `mass`; returns how many. The last of them is the least
 * probable. */
static int front(int32_t *order, int n, int most, double mass, const float *log_prob,
                 const float *weight) {
    int first = 0, last = n; /* the answer ends in here; before it all are taken */
    double taken = 0;
    while (last - first > 1) {
        int at = partition(order, first, last, log_prob);
        double left = 0;
        for (int i = first; i < at; i++) left += (double)weight[order[i]];
        if (at >= most || (at > first && taken + left >= mass)) {
            last = at;
            continue;
        }
        taken += left;
        double here = (double)weight[order[at]];
        if (at + 1 == most || taken + here >= mass) return at + 1;
        taken += here;
        first = at + 1;
        if (first == last) return last;
    }
    return last;
}

/* weight = exp((log_prob - max) / temperature), their sum returned; 0 if everything is
 * forbidden. */
static double weigh(float *weight, const float *log_prob, int n, float temperature) {
    float max = -INFINITY;
    double sum = 0;
    for (int v = 0; v < n; v++) max = log_prob[v] > max ? log_prob[v] : max;
    if (max == -INFINITY) return 0;
    for (int v = 0; v < n; v++)
        sum += (double)(weight[v] = expf((log_prob[v] - max) / temperature));
    return sum;
}

int32_t sample_token(const float *log_prob, int n, const struct sample_rule *rule, double u,
                     float *weight, int32_t *order) {
    double total = weigh(weight, log_prob, n, rule->temperature);
    if (total == 0) return -1;
    int n_left = rule->top_k > 0 && rule->top_k < n ? rule->top_k : n, limited = 0;
    for (int v = 0; v < n; v++) order[v] = v;
    if (n_left < n) {
        limited = 1;
        front(order, n, n_left, INFINITY, log_prob, weight);
        total = 0;
        for (int i = 0; i < n_left; i++) total += (double)weight[order[i]];
    }
    if (rule->top_p < 1) {
        limited = 1;
        n_left = front(order, n_left, n_left, (double)rule->top_p * total, log_prob, weight);
        total = 0;
        for (int i = 0; i < n_left; i++) total += (double)weight[order[i]];
    }
    int32_t worst = order[n_left - 1], token = -1;
    double sum = 0, target = u * total;
    for (int32_t v = 0; v < n && !(sum > target); v++) {
        if (weight[v] == 0 || (limited && before(log_prob, worst, v))) continue;
        token = v; /* rounding may leave the target unpassed: then it is the last with any weight */
        sum += (double)weight[v];
    }
    return token;
}
