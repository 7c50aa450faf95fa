/* bootstrap.h — how far a score can be trusted: resampling of segments (Koehn 2004).
 *
 * A sample draws as many segments as there are, with replacement, and computes the score of what it
 * drew from the segments' statistics. All metrics and systems given in one call see the same draws:
 * that is what makes a comparison paired.
 *
 * The definitions are sacreBLEU's: the mean of the samples; half the distance between the samples
 * ranked n/40 from below and n/40 from above (95 %); and for a comparison the share of samples
 * whose distance |a - b| exceeds the mean distance by more than the distance on the whole text,
 * with one added to numerator and denominator. The draws are not: they come from Philox, so they
 * differ from numpy's, and signatures say so. Sums are exact.
 *
 * Sample s is a function of (seed, s): threads do not change results. */
#ifndef EVAL_BOOTSTRAP_H
#define EVAL_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pool.h"

struct resampling {
    int n_sample;
    int seed;
};

enum { BOOTSTRAP_MAX_STATS = 24 };

struct bootstrap_series {
    const uint32_t *stat; /* [n_segment, n_stat] */
    int n_stat;
    double (*score)(const uint64_t *sum, const void *options); /* of the sums of n_stat columns */
    const void *options;
    double *scores; /* out: [n_sample] */
};

/* Memory beside the scores: one copy of the statistics, and 4 bytes per segment and thread.
 * HEED_ENOMEM. */
int bootstrap_run(struct bootstrap_series *series, int n_series, size_t n_segment,
                  const struct resampling *resampling, struct pool *pool, struct err *err);

struct interval {
    double mean, half; /* 95 %: mean ± half */
};

struct interval bootstrap_interval(const double *scores, int n);

/* That a and b differ by `distance` by chance; a and b are the scores of the same samples. */
double bootstrap_p_value(const double *a, const double *b, int n, double distance);

/* What signatures of all metrics begin with; NULL: nothing was resampled. Returns the length. */
int signature_begin(char *out, size_t size, int n_ref, const struct resampling *resampling);

#endif
