/* chrf.c — see chrf.h. */
#include "eval/chrf.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)CHRF_MAX_ORDER <= (int)NGRAMS_MAX_ORDER, "an order that ngrams.h cannot count");
_Static_assert((int)CHRF_MAX_STAT <= (int)BOOTSTRAP_MAX_STATS, "more than bootstrap.h takes");

void chrf_init(struct chrf *chrf, const struct chrf_options *options) {
    BUG_ON(options->char_order < 1 || options->word_order < 0 || options->beta < 1 ||
           options->char_order + options->word_order > CHRF_MAX_ORDER);
    *chrf = (struct chrf){.options = *options};
}

void chrf_release(struct chrf *chrf) {
    codes_release(&chrf->hyp);
    codes_release(&chrf->ref);
    codes_release(&chrf->scratch);
    codes_release(&chrf->symbols);
    tokens_release(&chrf->hyp_words);
    tokens_release(&chrf->ref_words);
    lexicon_release(&chrf->lexicon);
    ngrams_release(&chrf->ngrams);
}

int chrf_n_stat(const struct chrf_options *options) {
    return 3 * (options->char_order + options->word_order);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Three numbers per order. Where the reference has no n-gram of an order the hypothesis's do not
 * count. */
static void fill(uint64_t *stat, const uint64_t *match, size_t n_hyp, size_t n_ref, int order) {
    for (size_t k = 0; k < (size_t)order; k++, stat += 3) {
        stat[1] = n_ref > k ? n_ref - k : 0;
        stat[0] = n_hyp > k && stat[1] ? n_hyp - k : 0;
        stat[2] = match[k];
    }
}

static void count_characters(struct chrf *chrf, uint64_t *stat, struct segment ref) {
    uint64_t match[CHRF_MAX_ORDER];
    int order = chrf->options.char_order;
    codes_decode(&chrf->ref, &chrf->scratch, ref, chrf->options.lowercase);
    codes_squeeze(&chrf->ref);
    ngrams_begin(&chrf->ngrams, chrf->ref.n, order);
    ngrams_add(&chrf->ngrams, chrf->ref.code, chrf->ref.n, order);
    ngrams_match(&chrf->ngrams, match, chrf->hyp.code, chrf->hyp.n, order);
    fill(stat, match, chrf->hyp.n, chrf->ref.n, order);
}

static void count_words(struct chrf *chrf, uint64_t *stat, struct segment ref) {
    uint64_t match[CHRF_MAX_ORDER];
    int order = chrf->options.word_order;
    struct tokens *known = &chrf->ref_words, *words = &chrf->hyp_words;
    tokens_clear(known);
    tokens_add_words(known, ref, chrf->options.lowercase);
    codes_reserve(&chrf->symbols, known->n > words->n ? known->n : words->n);
    uint32_t *symbol = chrf->symbols.code;
    lexicon_begin(&chrf->lexicon, known->n);
    lexicon_add(&chrf->lexicon, symbol, known, known->n);
    ngrams_begin(&chrf->ngrams, known->n, order);
    ngrams_add(&chrf->ngrams, symbol, known->n, order);
    lexicon_find(&chrf->lexicon, symbol, known, words, words->n);
    ngrams_match(&chrf->ngrams, match, symbol, words->n, order);
    fill(stat, match, words->n, known->n, order);
}

void chrf_count(struct chrf *chrf, uint64_t *stat, struct segment hyp, const struct segment *ref,
                int n_ref) {
    BUG_ON(n_ref < 1);
    const struct chrf_options *o = &chrf->options;
    codes_decode(&chrf->hyp, &chrf->scratch, hyp, o->lowercase);
    codes_squeeze(&chrf->hyp);
    tokens_clear(&chrf->hyp_words);
    if (o->word_order) tokens_add_words(&chrf->hyp_words, hyp, o->lowercase);
    double best = 0;
    for (int i = 0; i < n_ref; i++) {
        uint64_t found[CHRF_MAX_STAT];
        count_characters(chrf, found, ref[i]);
        if (o->word_order) count_words(chrf, found + 3 * o->char_order, ref[i]);
        double score = n_ref > 1 ? chrf_score(found, o) : 0;
        if (i > 0 && score <= best) continue;
        best = score;
        memcpy(stat, found, (size_t)chrf_n_stat(o) * sizeof *stat);
    }
}

/* ---- scoring --------------------------------------------------------------------------------- */

double chrf_score(const uint64_t *sum, const struct chrf_options *options) {
    double precision = 0, recall = 0, factor = (double)options->beta * options->beta;
    int orders = 0;
    for (int k = 0; k < options->char_order + options->word_order; k++, sum += 3) {
        if (sum[0] == 0 || sum[1] == 0) continue;
        precision += (double)sum[2] / (double)sum[0];
        recall += (double)sum[2] / (double)sum[1];
        orders++;
    }
    if (precision + recall <= 0) return 0;
    precision /= orders;
    recall /= orders;
    return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

double chrf_value(const uint64_t *sum, const void *options) { return chrf_score(sum, options); }

/* ---- text ------------------------------------------------------------------------------------ */

void chrf_name(char *out, size_t size, const struct chrf_options *options) {
    snprintf(out, size, "chrF%d%.*s", options->beta, options->word_order, "++++++++");
}

void chrf_signature(char *out, size_t size, const struct chrf_options *options, int n_ref,
                    const struct resampling *resampling) {
    char begin[96];
    signature_begin(begin, sizeof begin, n_ref, resampling);
    snprintf(out, size, "%scase:%s|eff:yes|nc:%d|nw:%d|space:no|version:heed-%s", begin,
             options->lowercase ? "lc" : "mixed", options->char_order, options->word_order,
             HEED_VERSION);
}
