/* predict.h — how long an update of many ranks would take, by the alpha-beta model.
 *
 * An update of W ranks, `inside` of them on each machine, with one batch each (train/optimizer.h):
 *
 *     T(W) = gradient + apply / W + exchange + gather + words + sums
 *
 * gradient and apply (Adam) were measured on a rank that talks to nobody. A call of a level with m
 * members, which have b bytes together, takes
 *
 *     call(m, b) = alpha + (m - 1) o + b (m - 1) / m / beta        (nothing if m = 1)
 *
 * where alpha is what a call takes at least, o what one more message takes, and beta how many bytes
 * a rank sends per second while it receives as many. Of n parameters, in buckets (train/shards.h):
 *
 *     exchange   per bucket: its gradients inside, then its 1 / inside of them across
 *     gather     per bucket: its parameters, likewise
 *     words      PREDICT_WORDS times a few numbers go to all, in log2 W rounds of alpha each; the
 *                squares of the gradient's ranges, 8 bytes for each, come along with one of them
 *     sums       what a rank adds up of others' gradients and clears of its own, at the rate of the
 *                op sum
 *
 * Overlap: where messages go beside the backend (comm_beside), the exchange of buckets that the
 * backward pass has finished goes on beside the rest of it, which is 2 / 3 of `gradient`; then only
 * the exchange of what is finished last costs time, the buckets of the embeddings, and what does
 * not fit beside it.
 *
 * Pure numbers; seconds and bytes. Nothing fails. */
#ifndef BENCH_PREDICT_H
#define BENCH_PREDICT_H

#include <stdint.h>

enum { PREDICT_WORDS = 3 };

struct predict_link {
    double alpha, message, rate; /* seconds, seconds, bytes per second */
};

struct predict_model {
    int64_t n;                 /* parameters */
    int grad_size, param_size; /* bytes of one on the wire */
    double late;               /* share of them in buckets that the backward pass finishes last */
    double sum_rate;           /* bytes per second that the op sum reads and writes */
};

/* What one rank measured. */
struct predict_step {
    int tokens;
    double gradient, apply;
};

struct predict_cost {
    double compute, exchange, gather, words, sums;
    double total, overlapped; /* of an update one after the other, and with overlap */
};

/* link[] is of both levels: inside a machine and across machines (comm.h). `inside` divides
 * ranks. */
struct predict_cost predict_update(const struct predict_model *model,
                                   const struct predict_link link[2],
                                   const struct predict_step *step, int ranks, int inside);

/* Bytes that a rank gives to others in the exchange and the gather of an update. */
double predict_sent(const struct predict_model *model, int ranks);

#endif
