/* logprob.h — one row of a model's output on the host: from logits to log-probabilities to the best
 * tokens.
 *
 * The fast way through a search never brings a row of logits to the host. These functions serve the
 * others: sampling, penalties, forced tokens. They agree with the ops topk and blend up to
 * rounding. */
#ifndef SEARCH_LOGPROB_H
#define SEARCH_LOGPROB_H

#include <stdint.h>

/* Log-probabilities in place of logits. Returns 0, or -1 if they are not finite numbers (-INFINITY
 * is allowed for single tokens); z is garbage then. */
int logprob_normalise(float *z, int n);

/* out[v] = log sum_m weight[m] exp(row[m * n + v]): the mean of n_model distributions. weight sums
 * to 1. */
void logprob_mean(float *out, const float *row, const float *weight, int n_model, int n);

/* The k best of n, best first, ties to the lower id; -INFINITY and id -1 where fewer are possible.
 * No NaN. */
void logprob_best(float *value, int32_t *id, int k, const float *log_prob, int n);

#endif
