/* constraint.h — what a hypothesis must not write, or had better not, given what it has written so
 * far. */
#ifndef SEARCH_CONSTRAINT_H
#define SEARCH_CONSTRAINT_H

#include <stdint.h>

/* The repetition penalty: the logit of every token written so far, however often, is divided by
 * `penalty` if positive and multiplied if negative. seen [vocabulary] is scratch whose entries
 * differ from `stamp`. */
void constraint_penalise(float *logit, const int32_t *written, int n, float penalty, uint32_t *seen,
                         uint32_t stamp);

/* Forbids (-INFINITY) each token that would complete an n-gram of `size` tokens for the second
 * time. */
void constraint_no_repeat(float *log_prob, const int32_t *written, int n, int size);

#endif
