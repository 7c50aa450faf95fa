/* bootstrap.c — see bootstrap.h.
 *
 * A sample is kept as how often it drew each segment, not as the list of draws: a score's sums are
 * then products of that with columns of statistics, read from front to back, where a list would
 * jump around in memory. */
#include "eval/bootstrap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"

/* ---- drawing --------------------------------------------------------------------------------- */

/* times[i] = how often n draws of [0, n) gave i. */
static void draw(uint32_t *times, uint32_t n, uint64_t seed, uint32_t sample) {
    memset(times, 0, n * sizeof *times);
    const uint32_t reject = -n % n; /* what would make some numbers likelier (Lemire) */
    uint32_t drawn = 0;
    for (uint32_t block = 0; drawn < n; block++) {
        struct philox r = philox4x32(seed, block, sample, 0, 0);
        for (int k = 0; k < 4 && drawn < n; k++) {
            uint64_t m = (uint64_t)r.x[k] * n;
            if ((uint32_t)m < reject) continue;
            times[m >> 32]++;
            drawn++;
        }
    }
}

static uint64_t dot(const uint32_t *times, const uint32_t *column, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += (uint64_t)times[i] * column[i];
    return sum;
}

struct job {
    struct bootstrap_series *series;
    uint32_t **column; /* [n_series] the statistics, [n_stat, n_segment] */
    uint32_t *times;   /* [threads, n_segment] */
    size_t n_segment;
    int n_series, seed;
};

static void run_sample(void *ctx, int sample, int thread) {
    const struct job *job = ctx;
    uint32_t *times = job->times + (size_t)thread * job->n_segment;
    draw(times, (uint32_t)job->n_segment, (uint64_t)job->seed, (uint32_t)sample);
    for (int i = 0; i < job->n_series; i++) {
        struct bootstrap_series *s = &job->series[i];
        uint64_t sum[BOOTSTRAP_MAX_STATS];
        for (int c = 0; c < s->n_stat; c++)
            sum[c] = dot(times, job->column[i] + (size_t)c * job->n_segment, job->n_segment);
        s->scores[sample] = s->score(sum, s->options);
    }
}

static uint32_t *columns_of(const struct bootstrap_series *s, size_t n_segment) {
    size_t n_stat = (size_t)s->n_stat;
    uint32_t *column = mem_block(size_mul(size_mul(n_segment, n_stat), sizeof *column));
    if (!column) return NULL;
    for (size_t i = 0; i < n_segment; i++)
        for (size_t c = 0; c < n_stat; c++) column[c * n_segment + i] = s->stat[i * n_stat + c];
    return column;
}

int bootstrap_run(struct bootstrap_series *series, int n_series, size_t n_segment,
                  const struct resampling *resampling, struct pool *pool, struct err *err) {
    BUG_ON(n_segment == 0 || n_segment > UINT32_MAX / 2 || n_series < 1);
    struct job job = {series, NULL, NULL, n_segment, n_series, resampling->seed};
    job.column = xcalloc((size_t)n_series, sizeof *job.column);
    job.times = mem_block(size_mul((size_t)pool_size(pool), n_segment * sizeof *job.times));
    int rc = job.times ? 0 : HEED_ENOMEM;
    for (int i = 0; i < n_series && !rc; i++) {
        BUG_ON(series[i].n_stat < 1 || series[i].n_stat > BOOTSTRAP_MAX_STATS);
        job.column[i] = columns_of(&series[i], n_segment);
        if (!job.column[i]) rc = HEED_ENOMEM;
    }
    if (!rc)
        pool_run(pool, run_sample, &job, resampling->n_sample);
    else
        err_fill(err, HEED_ENOMEM, "no memory to resample %zu segments", n_segment);
    for (int i = 0; i < n_series; i++) mem_block_free(job.column[i]);
    mem_block_free(job.times);
    xfree(job.column);
    return rc;
}

/* ---- judging --------------------------------------------------------------------------------- */

struct interval bootstrap_interval(const double *scores, int n) {
    BUG_ON(n < 1);
    double *sorted = xmalloc((size_t)n * sizeof *sorted), sum = 0;
    memcpy(sorted, scores, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    for (int i = 0; i < n; i++) sum += sorted[i];
    int low = n / 40, high = n - low - 1;
    struct interval result = {sum / n, 0.5 * (sorted[high] - sorted[low])};
    xfree(sorted);
    return result;
}

double bootstrap_p_value(const double *a, const double *b, int n, double distance) {
    BUG_ON(n < 1);
    double mean = 0;
    for (int i = 0; i < n; i++) mean += fabs(a[i] - b[i]);
    mean /= n;
    int beyond = 0;
    for (int i = 0; i < n; i++) beyond += fabs(a[i] - b[i]) - mean > distance;
    return (beyond + 1.0) / (n + 1.0);
}

int signature_begin(char *out, size_t size, int n_ref, const struct resampling *resampling) {
    if (!resampling) return snprintf(out, size, "nrefs:%d|", n_ref);
    return snprintf(out, size, "nrefs:%d|bs:%d|seed:%d|rng:philox|", n_ref, resampling->n_sample,
                    resampling->seed);
}
