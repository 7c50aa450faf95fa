/* bleu.h — BLEU (Papineni et al. 2002), equal to sacreBLEU's to the last printed
 * digit (docs/eval.md).
 *
 *   p_n   = n-grams of the hypotheses found in their references / n-grams of the hypotheses, n =
 *         1..4
 *   BP    = exp(min(0, 1 - ref_len / hyp_len)); ref_len adds up the references closest in length
 *   BLEU  = 100 BP (p_1 p_2 p_3 p_4)^(1/4)
 *
 * Everything follows from ten numbers per segment that add up over a corpus, so there are two ways
 * in:
 *
 *     struct bleu bleu;                       one after another, as validation does
 *     bleu_init(&bleu, &options);
 *     for (...) bleu_add(&bleu, hyp, refs, n_ref);
 *     bleu_score(&score, bleu.sum, &bleu.options);
 *     bleu_release(&bleu);
 *
 * or bleu_count per segment, for sentence scores, threads (one struct bleu each) and resampling.
 * Text is borrowed for the call. Nothing here fails; memory grows with the longest segment. */
#ifndef EVAL_BLEU_H
#define EVAL_BLEU_H

#include "eval/bootstrap.h"
#include "eval/ngrams.h"

enum { BLEU_ORDER = 4 };

/* The statistics of a segment or the sums of many. */
enum bleu_stat {
    BLEU_HYP_LEN,
    BLEU_REF_LEN,
    BLEU_MATCH, /* [BLEU_ORDER] */
    BLEU_TOTAL = BLEU_MATCH + BLEU_ORDER,
    BLEU_N_STAT = BLEU_TOTAL + BLEU_ORDER
};

/* What happens to a precision of 0 (Chen and Cherry 2014). */
enum bleu_smooth {
    BLEU_SMOOTH_EXP,   /* the k-th one becomes 1 / (2^k total) */
    BLEU_SMOOTH_FLOOR, /* value / total */
    BLEU_SMOOTH_ADD_K, /* value is added to match and total of all orders above 1 */
    BLEU_SMOOTH_NONE,
    N_BLEU_SMOOTHS
};

extern const char *const bleu_smooth_names[N_BLEU_SMOOTHS + 1]; /* NULL-terminated */

struct bleu_options {
    enum tokenizer_kind tokenizer;
    int lowercase;
    enum bleu_smooth smooth;
    double smooth_value; /* below 0: 0.1 for floor, 1 for add-k */
    int effective_order; /* leave out orders the hypothesis is too short for; for sentences */
};

struct bleu_score {
    double score; /* 0 to 100 */
    double precision[BLEU_ORDER], brevity_penalty;
    uint64_t hyp_len, ref_len;
};

struct bleu {
    struct bleu_options options;
    uint64_t sum[BLEU_N_STAT];
    uint64_t n_segment;
    struct tokens hyp, ref;
    struct lexicon lexicon;
    struct ngrams ngrams;
    struct codes symbols, lengths; /* of all references in a row; of each of them */
};

void bleu_init(struct bleu *bleu, const struct bleu_options *options);
void bleu_release(struct bleu *bleu);

void bleu_count(struct bleu *bleu, uint64_t stat[BLEU_N_STAT], struct segment hyp,
                const struct segment *ref, int n_ref);
void bleu_add(struct bleu *bleu, struct segment hyp, const struct segment *ref, int n_ref);

void bleu_score(struct bleu_score *score, const uint64_t sum[BLEU_N_STAT],
                const struct bleu_options *options);
double bleu_value(const uint64_t *sum, const void *options); /* score.score, for bootstrap_run */

/* "54.4/26.6/14.9/8.7 (BP = 1.000 ratio = 1.026 hyp_len = 62880 ref_len = 61287)" */
void bleu_details(char *out, size_t size, const struct bleu_score *score);

/* "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-0.1.0" */
void bleu_signature(char *out, size_t size, const struct bleu_options *options, int n_ref,
                    const struct resampling *resampling);

#endif
