/* bleu.c — see bleu.h. */
#include "eval/bleu.h"

#include <math.h>
#include <stdio.h>

const char *const bleu_smooth_names[N_BLEU_SMOOTHS + 1] = {"exp", "floor", "add-k", "none", NULL};

void bleu_init(struct bleu *bleu, const struct bleu_options *options) {
    *bleu = (struct bleu){.options = *options};
}

void bleu_release(struct bleu *bleu) {
    tokens_release(&bleu->hyp);
    tokens_release(&bleu->ref);
    lexicon_release(&bleu->lexicon);
    ngrams_release(&bleu->ngrams);
    codes_release(&bleu->symbols);
    codes_release(&bleu->lengths);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* The nearest length; of two equally near ones the shorter. */
static size_t nearer(size_t best, size_t length, size_t hyp) {
    size_t far = best > hyp ? best - hyp : hyp - best;
    size_t distance = length > hyp ? length - hyp : hyp - length;
    return distance < far || (distance == far && length < best) ? length : best;
}

/* Tokens of all references, and into the tables with them; returns the length closest to n_hyp. */
static size_t read_references(struct bleu *bleu, const struct segment *ref, int n_ref,
                              size_t n_hyp) {
    const struct bleu_options *o = &bleu->options;
    tokens_clear(&bleu->ref);
    codes_reserve(&bleu->lengths, (size_t)n_ref);
    uint32_t *length = bleu->lengths.code;
    size_t closest = 0;
    for (int i = 0; i < n_ref; i++) {
        length[i] = (uint32_t)tokens_add(&bleu->ref, ref[i], o->tokenizer, o->lowercase);
        closest = i ? nearer(closest, length[i], n_hyp) : length[i];
    }
    size_t n = bleu->ref.n;
    codes_reserve(&bleu->symbols, n);
    uint32_t *symbol = bleu->symbols.code;
    lexicon_begin(&bleu->lexicon, n);
    lexicon_add(&bleu->lexicon, symbol, &bleu->ref, n);
    ngrams_begin(&bleu->ngrams, n, BLEU_ORDER);
    for (int i = 0; i < n_ref; symbol += length[i++])
        ngrams_add(&bleu->ngrams, symbol, length[i], BLEU_ORDER);
    return closest;
}

void bleu_count(struct bleu *bleu, uint64_t stat[BLEU_N_STAT], struct segment hyp,
                const struct segment *ref, int n_ref) {
    BUG_ON(n_ref < 1);
    const struct bleu_options *o = &bleu->options;
    tokens_clear(&bleu->hyp);
    size_t n = tokens_add(&bleu->hyp, hyp, o->tokenizer, o->lowercase);
    stat[BLEU_HYP_LEN] = n;
    stat[BLEU_REF_LEN] = read_references(bleu, ref, n_ref, n);
    codes_reserve(&bleu->symbols, n);
    lexicon_find(&bleu->lexicon, bleu->symbols.code, &bleu->ref, &bleu->hyp, n);
    ngrams_match(&bleu->ngrams, stat + BLEU_MATCH, bleu->symbols.code, n, BLEU_ORDER);
    for (size_t k = 0; k < BLEU_ORDER; k++) stat[BLEU_TOTAL + k] = n > k ? n - k : 0;
}

void bleu_add(struct bleu *bleu, struct segment hyp, const struct segment *ref, int n_ref) {
    uint64_t stat[BLEU_N_STAT];
    bleu_count(bleu, stat, hyp, ref, n_ref);
    for (int i = 0; i < BLEU_N_STAT; i++) bleu->sum[i] += stat[i];
    bleu->n_segment++;
}

/* ---- scoring --------------------------------------------------------------------------------- */

static double smooth_value(const struct bleu_options *o) {
    if (o->smooth_value >= 0) return o->smooth_value;
    return o->smooth == BLEU_SMOOTH_FLOOR ? 0.1 : 1.0;
}

/* Fills score->precision, in percent, and returns how many orders count. */
static int precisions(struct bleu_score *score, const uint64_t *sum, const struct bleu_options *o) {
    const double value = smooth_value(o);
    double halved = 1;
    int orders = BLEU_ORDER;
    for (int k = 0; k < BLEU_ORDER; k++) {
        double match = (double)sum[BLEU_MATCH + k], total = (double)sum[BLEU_TOTAL + k];
        if (o->smooth == BLEU_SMOOTH_ADD_K && k > 0) match += value, total += value;
        if (total == 0) break;
        if (o->effective_order) orders = k + 1;
        if (match != 0) {
            score->precision[k] = 100.0 * match / total;
        } else if (o->smooth == BLEU_SMOOTH_EXP) {
            halved *= 2;
            score->precision[k] = 100.0 / (halved * total);
        } else if (o->smooth == BLEU_SMOOTH_FLOOR) {
            score->precision[k] = 100.0 * value / total;
        }
    }
    return orders;
}

void bleu_score(struct bleu_score *score, const uint64_t sum[BLEU_N_STAT],
                const struct bleu_options *options) {
    *score = (struct bleu_score){.hyp_len = sum[BLEU_HYP_LEN], .ref_len = sum[BLEU_REF_LEN]};
    score->brevity_penalty = 1;
    if (score->hyp_len < score->ref_len)
        score->brevity_penalty =
            score->hyp_len ? exp(1 - (double)score->ref_len / (double)score->hyp_len) : 0;
    uint64_t any = 0;
    for (int k = 0; k < BLEU_ORDER; k++) any |= sum[BLEU_MATCH + k];
    if (!any) return; /* nothing matches: 0 however it is smoothed */
    int orders = precisions(score, sum, options);
    double logs = 0;
    for (int k = 0; k < orders; k++)
        logs += score->precision[k] > 0 ? log(score->precision[k]) : -INFINITY;
    score->score = score->brevity_penalty * exp(logs / orders);
}

double bleu_value(const uint64_t *sum, const void *options) {
    struct bleu_score score;
    bleu_score(&score, sum, options);
    return score.score;
}

/* ---- text ------------------------------------------------------------------------------------ */

void bleu_details(char *out, size_t size, const struct bleu_score *score) {
    const double *p = score->precision;
    double ratio = score->ref_len ? (double)score->hyp_len / (double)score->ref_len : 0;
    snprintf(out, size,
             "%.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %llu ref_len = %llu)", p[0],
             p[1], p[2], p[3], score->brevity_penalty, ratio, (unsigned long long)score->hyp_len,
             (unsigned long long)score->ref_len);
}

void bleu_signature(char *out, size_t size, const struct bleu_options *options, int n_ref,
                    const struct resampling *resampling) {
    char begin[96], value[32] = "";
    signature_begin(begin, sizeof begin, n_ref, resampling);
    if (options->smooth == BLEU_SMOOTH_FLOOR || options->smooth == BLEU_SMOOTH_ADD_K)
        snprintf(value, sizeof value, "[%.2f]", smooth_value(options));
    snprintf(out, size, "%scase:%s|eff:%s|tok:%s|smooth:%s%s|version:heed-%s", begin,
             options->lowercase ? "lc" : "mixed", options->effective_order ? "yes" : "no",
             tokenize_names[options->tokenizer], bleu_smooth_names[options->smooth], value,
             HEED_VERSION);
}
