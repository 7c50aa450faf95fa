/* scoring.h — pairs of texts, a block at a time, and how probable a model finds them (scorer.h).
 *
 * Texts are tokenised behind the tags that the model wants, which are not scored, and packed one
 * after another, since nothing is padded. An empty source is its end mark alone, and so is an empty
 * target, whose score is then that of ending at once. A pair with more tokens on a side than the
 * model has positions has no score.
 *
 * Borrows the engine, of which the first model is asked, and owns the rest. One thread at a
 * time. */
#ifndef SEARCH_SCORING_H
#define SEARCH_SCORING_H

#include "data/text.h"
#include "search/engine.h"

enum { SCORING_PAIRS = 1024 }; /* of a block, at most */

struct scoring;

/* tokens: target tokens of a batch; more, if one sentence needs them. */
int scoring_new(struct scoring **scoring, const struct engine *engine,
                const struct engine_said *said, int tokens, struct err *err);
void scoring_free(struct scoring *scoring);

/* Begins the next block. */
void scoring_clear(struct scoring *scoring);

/* The next pair of the block. n_tok: tokens of source and target with tag and end mark; negative
 * where a text cannot be tokenised. */
void scoring_add(struct scoring *scoring, const struct line *src, const struct line *tgt,
                 int n_tok[2]);

int scoring_run(struct scoring *scoring, struct err *err);

/* Pair i of the block: tokens of the target and their logarithms of probability, in order, the end
 * mark's last. Valid until the next scoring_add. */
struct scored {
    const int32_t *ids;
    const float *score;
    int n; /* 0: it has none */
};
struct scored scoring_result(const struct scoring *scoring, int i);

#endif
