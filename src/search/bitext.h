/* bitext.h — links between the words of texts and their given translations.
 *
 * Each pair goes through the decoder once, with the translation forced (align.h): that says for
 * every word of the target where it came from. The model of the opposite direction, if there is
 * one, is asked the same about the source, and both answers are put together (links.h). Words do
 * not depend on the models (words.h), so each may have a tokenizer of its own.
 *
 * Pairs of a call are sorted by length and packed into large batches; reading text and matrices is
 * spread over threads. On the CPU the links of a pair do not depend on the others. A pair with more
 * pieces than a model has positions, or with an empty side, has no links.
 *
 * A bitext borrows the engines, which must have tokenizers, and owns aligners and results. One
 * thread at a time. */
#ifndef SEARCH_BITEXT_H
#define SEARCH_BITEXT_H

#include "data/links.h"
#include "search/align.h"
#include "search/engine.h"

/* What links are between: words, what spaces separate, or the tokenizer's pieces. */
enum bitext_unit { BITEXT_WORDS, BITEXT_TOKENS, BITEXT_PIECES };
extern const char *const bitext_unit_names[]; /* NULL-terminated */

enum { BITEXT_FORWARD, BITEXT_REVERSE, BITEXT_WAYS };

struct bitext_options {
    enum bitext_unit unit;
    enum links_method method; /* for two directions */
    /* whose attention to read, per direction; each model's own where nothing is said */
    struct align_options align[BITEXT_WAYS];
    /* languages, per direction: of models that must be told (engine_tags) */
    struct engine_said said[BITEXT_WAYS];
    int tokens;               /* target pieces of a batch; more, if one text has more */
    int n_thread;             /* for reading text and matrices; 0: all CPUs */
    const volatile int *stop; /* non-zero ends a run with HEED_ECANCELLED; NULL: never */
};

struct bitext_pair {
    const char *src, *tgt; /* UTF-8 */
    size_t src_size, tgt_size;
};

struct bitext_result {
    struct links links;          /* of source and target, in that order */
    const struct span *src_word; /* [n_src] bytes of the source: its words or pieces */
    const struct span *tgt_word; /* [n_tgt] */
    int n_src, n_tgt;
    int too_long; /* for one of the models: it has no links */
};

struct bitext;

/* reverse: NULL for one direction only. Links between pieces want both to have one tokenizer. */
int bitext_new(struct bitext **bitext, const struct engine *forward, const struct engine *reverse,
               const struct bitext_options *options, struct err *err);
void bitext_free(struct bitext *bitext);

/* *result [n] is valid until the next call. */
int bitext_run(struct bitext *bitext, const struct bitext_pair *pair, int n,
               const struct bitext_result **result, struct err *err);

/* ---- choosing -------------------------------------------------------------------------------- */

/* What every layer, row, head and mean of heads of one model says about the pairs. */
struct bitext_choices {
    struct align_options *choice; /* [n] by layer, then row, then head, the mean first */
    int n;
    struct links *links; /* [n * pairs] of choice c and pair p: at c * pairs + p */
};

/* Asks both models about the pairs, of which there should be no more than thousands. Links of both
 * are source, target; thresholds do not count. */
int bitext_compare(struct bitext_choices choices[BITEXT_WAYS], struct bitext *bitext,
                   const struct bitext_pair *pair, int n, struct err *err);
void bitext_choices_release(struct bitext_choices *choices, int n_pair);

/* How far two choices agree on n pairs: 2 |A n B| / (|A| + |B|), which is 1 less the error rate of
 * either with the other for reference; 0 where neither has links. */
double bitext_agreement(const struct links *a, const struct links *b, int n);

/* How far a choice agrees with the best of the other model's for it, which is `with`. */
struct bitext_standing {
    double agreement;
    int with;
};
/* standing[way]: [choices[way].n], zero to begin with. */
void bitext_rank(struct bitext_standing *const standing[BITEXT_WAYS],
                 const struct bitext_choices choices[BITEXT_WAYS], int n_pair);
/* The first choice of n that agrees best. */
int bitext_best(const struct bitext_standing *standing, int n);

#endif
