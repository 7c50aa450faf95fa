/* eval.h — whole texts against references: counting on all threads, scores, resampling.
 *
 * All files are read side by side, a block of segments at a time; what stays are sums per system
 * and metric, and the statistics of every segment only where they are going to be resampled. */
#ifndef EVAL_EVAL_H
#define EVAL_EVAL_H

#include "eval/bleu.h"
#include "eval/chrf.h"
#include "eval/parseval.h"

enum { EVAL_MAX_METRICS = 4, EVAL_MAX_FILES = 64, EVAL_MAX_STATS = BOOTSTRAP_MAX_STATS };

struct eval_metric {
    enum { METRIC_BLEU, METRIC_CHRF, METRIC_PARSEVAL } kind;
    struct bleu_options bleu;
    struct chrf_options chrf;
    const struct parseval_rules *rules;
    int n_stat;
    char name[16], signature[256];
};

/* Of one system under one metric. */
struct eval_result {
    uint64_t sum[EVAL_MAX_STATS];
    uint32_t *stat; /* [n_segment, n_stat], when they are kept */
    size_t room;    /* in numbers */
    double *sample; /* [n_sample] */
    struct interval interval;
    double p_value; /* against the first system; below 0: not computed */
};

struct eval {
    struct eval_metric metric[EVAL_MAX_METRICS];
    int n_metric;
    const char *const *hyp, *const *ref; /* paths */
    int n_hyp, n_ref;
    struct eval_result *result; /* [n_hyp, n_metric], from eval_run */
    size_t n_segment;

    const struct resampling *resampling; /* NULL: none */
    int paired;                          /* resampled: each system against the first */

    /* NULL, or called for every segment in order with stat[n_metric][EVAL_MAX_STATS] of the first
     * system. */
    void (*on_segment)(const struct eval *eval, const uint32_t *stat);
    /* NULL, or called after counting for every file in which n bytes or sequences were not UTF-8
     * and were replaced. */
    void (*on_replaced)(const char *path, uint64_t n);

    struct parseval_rules rules;
    int width, score_only; /* for reports */
};

/* "bleu", "chrf", "chrf++", "parseval": what eval_add adds, once each. References and resampling
 * are set before. bleu: also says whether the others ignore case; evalb: a file of PARSEVAL's
 * rules, or NULL. A message of HEED_EINVAL begins with "metric". */
extern const char *const eval_metric_names[];
int eval_add(struct eval *eval, int which, const struct bleu_options *bleu, const char *evalb,
             struct err *err);

/* Reads and counts everything, resamples if asked to, and fills result[] and n_segment. The caller
 * frees with eval_release, also after an error. */
int eval_run(struct eval *eval, struct pool *pool, struct err *err);
void eval_release(struct eval *eval);

double eval_value(const struct eval_metric *metric, const uint64_t *sum);

#endif
