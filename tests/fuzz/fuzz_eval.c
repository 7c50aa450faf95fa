/* fuzz_eval.c — any bytes are a hypothesis and its references: scores stay in their range, a text
 * against itself gets 100, and the order of references does not matter to BLEU.
 *
 * The first byte picks the options, the rest are lines: the hypothesis, then up to three
 * references. */
#include <math.h>

#include "eval/bleu.h"
#include "eval/chrf.h"
#include "fuzz.h"

static void check_bleu(const struct bleu_options *o, struct segment hyp, struct segment *ref,
                       int n_ref) {
    struct bleu bleu;
    uint64_t stat[BLEU_N_STAT], turned[BLEU_N_STAT];
    bleu_init(&bleu, o);
    bleu_count(&bleu, stat, hyp, ref, n_ref);
    for (int k = 0; k < BLEU_ORDER; k++) want(stat[BLEU_MATCH + k] <= stat[BLEU_TOTAL + k]);
    double score = bleu_value(stat, o);
    want(score >= 0 && score <= 100.0001);
    struct segment back[3];
    for (int i = 0; i < n_ref; i++) back[i] = ref[n_ref - 1 - i];
    bleu_count(&bleu, turned, hyp, back, n_ref);
    want(memcmp(stat, turned, sizeof stat) == 0);
    bleu_count(&bleu, stat, hyp, &hyp, 1);
    want(stat[BLEU_HYP_LEN] == stat[BLEU_REF_LEN]);
    struct bleu_options effective = *o;
    effective.effective_order = 1;
    score = bleu_value(stat, &effective);
    want(stat[BLEU_HYP_LEN] ? fabs(score - 100) < 1e-6 : score == 0);
    bleu_release(&bleu);
}

static void check_chrf(const struct chrf_options *o, struct segment hyp, const struct segment *ref,
                       int n_ref) {
    struct chrf chrf;
    uint64_t stat[CHRF_MAX_STAT];
    chrf_init(&chrf, o);
    chrf_count(&chrf, stat, hyp, ref, n_ref);
    for (int k = 0; k < chrf_n_stat(o); k += 3)
        want(stat[k + 2] <= stat[k] && stat[k + 2] <= stat[k + 1]);
    double score = chrf_score(stat, o);
    want(score >= 0 && score <= 100.0001);
    chrf_count(&chrf, stat, hyp, &hyp, 1);
    score = chrf_score(stat, o);
    want(stat[0] ? fabs(score - 100) < 1e-6 : score == 0);
    chrf_release(&chrf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 1 << 16) return 0;
    unsigned options = data[0];
    struct segment part[4] = {0};
    int n = 0;
    const char *text = (const char *)data + 1, *end = (const char *)data + size;
    for (; n < 4 && text <= end; n++) {
        const char *stop = n < 3 ? memchr(text, '\n', (size_t)(end - text)) : NULL;
        part[n] = (struct segment){text, (size_t)((stop ? stop : end) - text)};
        text = (stop ? stop : end) + 1;
    }
    if (n < 2) part[n++] = (struct segment){"", 0};
    struct bleu_options bleu = {.tokenizer = (enum tokenizer_kind)(options & 3),
                                .lowercase = options >> 2 & 1,
                                .smooth = (enum bleu_smooth)(options >> 3 & 3),
                                .smooth_value = -1,
                                .effective_order = options >> 5 & 1};
    struct chrf_options chrf = {6, options >> 6 & 2, 2, options >> 2 & 1};
    check_bleu(&bleu, part[0], part + 1, n - 1);
    check_chrf(&chrf, part[0], part + 1, n - 1);
    return 0;
}
