/* chrf.h — chrF and chrF++ (Popović 2015, 2017), equal to sacreBLEU's to the last printed
 * digit (docs/eval.md).
 *
 *   P_n, R_n   precision and recall of character n-grams, n = 1..6, spaces removed, and for chrF++
 *              also of word n-grams, n = 1..2
 *   P, R       their means over the orders that both sides have
 *   chrF       = 100 (1 + b^2) P R / (b^2 P + R), b = 2
 *
 * Of several references the one with the best score of its own counts for a segment. Used like
 * bleu.h. */
#ifndef EVAL_CHRF_H
#define EVAL_CHRF_H

#include "eval/bootstrap.h"
#include "eval/ngrams.h"

enum { CHRF_MAX_ORDER = 8, CHRF_MAX_STAT = 3 * CHRF_MAX_ORDER };

struct chrf_options {
    int char_order, word_order; /* 6 and 0: chrF, 6 and 2: chrF++; the sum at most CHRF_MAX_ORDER */
    int beta;                   /* 2: recall counts twice as much as precision */
    int lowercase;
};

/* Statistics: for each order, characters first, the number of n-grams in the hypothesis, in the
 * reference and in both. chrf_n_stat says how many. */
struct chrf {
    struct chrf_options options;
    struct codes hyp, ref, scratch, symbols;
    struct tokens hyp_words, ref_words;
    struct lexicon lexicon;
    struct ngrams ngrams;
};

void chrf_init(struct chrf *chrf, const struct chrf_options *options);
void chrf_release(struct chrf *chrf);
int chrf_n_stat(const struct chrf_options *options);

void chrf_count(struct chrf *chrf, uint64_t *stat, struct segment hyp, const struct segment *ref,
                int n_ref);

double chrf_score(const uint64_t *sum, const struct chrf_options *options); /* 0 to 100 */
double chrf_value(const uint64_t *sum, const void *options); /* the same, for bootstrap_run */

/* "chrF2", "chrF2++" and "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-0.1.0" */
void chrf_name(char *out, size_t size, const struct chrf_options *options);
void chrf_signature(char *out, size_t size, const struct chrf_options *options, int n_ref,
                    const struct resampling *resampling);

#endif
