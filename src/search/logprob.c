/* logprob.c — see logprob.h. Sums are double, exponentials float: a log-probability is good to
 * about 1e-6. */
#include "search/logprob.h"

#include <math.h>

int logprob_normalise(float *z, int n) {
    float max = -INFINITY;
    double sum = 0;
    for (int v = 0; v < n; v++) max = z[v] > max ? z[v] : max;
    for (int v = 0; v < n; v++) sum += (double)expf(z[v] - max);
    /* A NaN anywhere, +INFINITY, or nothing above -INFINITY: each makes the sum NaN. */
    if (!isfinite(sum)) return -1;
    float log_sum = (float)log(sum);
    for (int v = 0; v < n; v++) z[v] = z[v] - max - log_sum;
    return 0;
}

void logprob_mean(float *out, const float *row, const float *weight, int n_model, int n) {
    for (int v = 0; v < n; v++) {
        float max = -INFINITY, sum = 0;
        for (int m = 0; m < n_model; m++) {
            float x = row[(int64_t)m * n + v];
            max = x > max ? x : max;
        }
        for (int m = 0; m < n_model; m++) {
            float x = row[(int64_t)m * n + v];
            sum += weight[m] * (x == max ? 1.0f : expf(x - max));
        }
        out[v] = max == -INFINITY ? max : max + logf(sum);
    }
}

void logprob_best(float *value, int32_t *id, int k, const float *log_prob, int n) {
    for (int i = 0; i < k; i++) {
        value[i] = -INFINITY;
        id[i] = -1;
    }
    for (int v = 0; v < n; v++) {
        if (!(log_prob[v] > value[k - 1])) continue; /* an equal later one is not better */
        int at = k - 1;
        for (; at > 0 && log_prob[v] > value[at - 1]; at--) {
            value[at] = value[at - 1];
            id[at] = id[at - 1];
        }
        value[at] = log_prob[v];
        id[at] = v;
    }
}
