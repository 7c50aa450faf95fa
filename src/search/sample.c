/* sample.c — see sample.h.
 *
 * Without a limit the tokens are summed and searched in the order of their ids, twice through the vocabulary.
 * With one, a heap brings them up in the order of their probability, ties to the lower id, only as far as
 * the limit asks. */
#include "search/sample.h"

#include <math.h>
#include <stddef.h>

#include "base/rng.h"

double sample_uniform(uint64_t seed, uint64_t key, int sample, int step) {
    struct philox x =
        philox4x32(seed, (uint32_t)key, (uint32_t)(key >> 32), (uint32_t)sample, (uint32_t)step);
    uint64_t bits = (uint64_t)x.x[0] << 32 | x.x[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static int before(const float *log_prob, int32_t a, int32_t b) {
    return log_prob[a] > log_prob[b] || (log_prob[a] == log_prob[b] && a < b);
}

/* heap[0] is the most probable; restores that below `at`. */
static void sift(int32_t *heap, int n, int at, const float *log_prob) {
    int32_t moved = heap[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && before(log_prob, heap[child + 1], heap[child])) child++;
        if (!before(log_prob, heap[child], moved)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Takes the most probable token out of the heap of n and puts it behind its end. */
static int32_t pop(int32_t *heap, int n, const float *log_prob) {
    int32_t best = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = best;
    sift(heap, n - 1, 0, log_prob);
    return best;
}

/* weight = exp((log_prob - max) / temperature), their sum returned; 0 if everything is forbidden. */
static double weigh(float *weight, const float *log_prob, int n, float temperature) {
    float max = -INFINITY;
    double sum = 0;
    for (int v = 0; v < n; v++) max = log_prob[v] > max ? log_prob[v] : max;
    if (max == -INFINITY) return 0;
    for (int v = 0; v < n; v++)
        sum += (double)(weight[v] = expf((log_prob[v] - max) / temperature));
    return sum;
}

/* The first token at which the running sum passes `target`; rounding may leave it unpassed, then the last
 * that has any weight. step -1 walks backwards. */
static int32_t walk(const float *weight, const int32_t *order, int n, int step, double target) {
    int32_t token = -1;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        int32_t v = order ? order[i * step] : i;
        if (weight[v] == 0) continue;
        token = v;
        if ((sum += (double)weight[v]) > target) break;
    }
    return token;
}

int32_t sample_token(const float *log_prob, int n, const struct sample_rule *rule, double u,
                     float *weight, int32_t *order) {
    double total = weigh(weight, log_prob, n, rule->temperature);
    if (total == 0) return -1;
    int most = rule->top_k > 0 && rule->top_k < n ? rule->top_k : n;
    if (most == n && rule->top_p >= 1) return walk(weight, NULL, n, 1, u * total);
    for (int v = 0; v < n; v++) order[v] = v;
    for (int i = n / 2; i-- > 0;) sift(order, n, i, log_prob);
    int popped = 0;
    if (most < n) {
        for (total = 0; popped < most; popped++)
            total += (double)weight[pop(order, n - popped, log_prob)];
    }
    double kept = 0; /* the nucleus: taken from those popped already, or popped now */
    int n_kept = 0;
    while (n_kept < most && (kept < (double)rule->top_p * total || n_kept == 0)) {
        int32_t v = n_kept < popped ? order[n - 1 - n_kept] : pop(order, n - n_kept, log_prob);
        kept += (double)weight[v];
        n_kept++;
    }
    return walk(weight, order + n - 1, n_kept, -1, u * kept);
}
