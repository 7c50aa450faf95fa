/* sample.h — drawing the next token at random: temperature, the k best, the nucleus.
 *
 * A draw is a pure function: of log-probabilities, a rule, and a uniform number that is itself a
 * function of (seed, sentence key, sample, step). So the same request gives the same text whatever
 * else is in the batch. */
#ifndef SEARCH_SAMPLE_H
#define SEARCH_SAMPLE_H

#include <stdint.h>

struct sample_rule {
    float temperature; /* > 0: probabilities to the power 1 / temperature */
    int top_k;         /* only the k most probable; 0: all */
    float top_p;       /* of those, the most probable that just reach this share; 1: all */
};

/* In [0, 1), 53 bits. */
double sample_uniform(uint64_t seed, uint64_t key, int sample, int step);

/* The token that u picks out of n log-probabilities (-INFINITY: forbidden; no NaN), or -1 if all
 * are forbidden. weight [n] and order [n] are scratch. */
int32_t sample_token(const float *log_prob, int n, const struct sample_rule *rule, double u,
                     float *weight, int32_t *order);

#endif
