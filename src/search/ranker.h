/* ranker.h — what a sentence makes of a step of the decoder: candidates for its next token, and the
 * token that each of its hypotheses takes.
 *
 * Candidates are found in one of two ways:
 *
 * - fast: the backend's topk hands over the k best tokens of each hypothesis. For a distribution,
 *   a model's or the mean of an ensemble's, that nobody changes; forbidding the end mark or banning
 *   tokens only strikes out candidates.
 * - full: a hypothesis' logits come to the host row by row, those of every model. For sampling, the
 *   repetition penalty and no_repeat, and for the tokens of a forced prefix or of terms, which may
 *   be anywhere in the vocabulary.
 *
 * Trees (brackets.h) go the fast way where that loses nothing. Of the candidates only those that
 * may follow count, and these may be too few. What a hypothesis lacks is no better than the last
 * candidate it was given: if the beam is full of better ones, nobody misses it; else its logits are
 * read after all.
 *
 * Sentences with terms (terms.h) are ranked in their own way once the prefix is over: candidates
 * are in banks by how many terms they have or have begun, and each bank keeps its best
 * (docs/math/terms.md).
 *
 * Which way a row goes depends on the options and its own sentence alone, so that the bits of a
 * result do not depend on the neighbours. Forbidding a token leaves the other probabilities as they
 * are.
 *
 * A ranker is what all sentences of a search share: the models' facts and scratch for one row,
 * which lies in its owner's arena. Rules are what follows from the options; sentences with
 * different ones may share a step. What a sentence does not survive is reported for it alone. */
#ifndef SEARCH_RANKER_H
#define SEARCH_RANKER_H

#include "backend/beam.h"
#include "backend/mat.h"
#include "base/mem.h"
#include "search/brackets.h"
#include "search/sample.h"
#include "search/search.h"
#include "search/terms.h"

/* A candidate of a sentence with terms. */
struct rank_pick {
    struct beam_pick it;
    int bank;
    int taken;
};
enum { RANK_PICKS = SEARCH_MAX_BEAM * (SEARCH_MAX_BEAM + 2 + TERMS_NEXT) };

struct ranker {
    struct backend *be;
    int n_model, n_vocab_src, n_vocab;
    int positions; /* of the model that has the fewest */
    struct search_marks marks;
    float weight[SEARCH_MAX_MODELS];
    void *raw;                       /* [V] one row as the model has it */
    float *row, *log_prob, *weights; /* [n_model, V], [V], [V] */
    int32_t *order, *written;        /* [V], [len] */
    uint32_t *seen, stamp;           /* [V] */
    struct rank_pick *pick;          /* [RANK_PICKS] */
};

struct rank_rules {
    struct search_options options;
    struct beam_rules beam;
    struct sample_rule sampling;
    int full;        /* every row goes the full way */
    int k;           /* candidates that a hypothesis needs; more do not change anything */
    int32_t min_len; /* below this many tokens the end mark is forbidden */
};

/* A sentence under way. */
struct sentence {
    struct search_input in;
    struct beam beam;
    int number; /* for messages */
    int row;    /* of the first live hypothesis in the current step */
};

/* The candidates of all rows of a step, [row, k] on the host. */
struct candidates {
    float *value;
    int32_t *id;
    int k;
};

/* Checks models and marks. Scratch is carved later, for hypotheses of up to `len` tokens; over no
 * memory that measures. */
int ranker_init(struct ranker *ranker, const struct search_setup *setup, struct err *err);
void ranker_carve(struct ranker *ranker, struct arena *arena, int len);

/* The first of the models' steppers speaks for all. */
struct stepper;
int ranker_speak(const struct ranker *ranker, struct stepper *const *stepper, struct err *err);

/* The rules of checked options, but for the penalties: rank_penalty fills penalty [len + 1], which
 * must stay, and hands it to the rules. */
void rank_settle(struct rank_rules *rules, const struct ranker *ranker,
                 const struct search_options *options);
void rank_penalty(struct rank_rules *rules, double *penalty, int len);

/* The longest translation of n_src source tokens, end marks counted. */
int rank_longest(const struct rank_rules *rules, const struct ranker *ranker, int n_src);

/* May this be translated, where a source has room for max_src tokens? `number` names it in the
 * message. */
int rank_check(const struct ranker *ranker, const struct rank_rules *rules,
               const struct search_input *in, int number, int max_src, struct err *err);

/* What does this sentence need in the coming step: the best candidates, all logits, or both? */
enum rank_needs { RANK_TOPK = 1, RANK_LOGITS = 2 };
unsigned rank_needs(const struct rank_rules *rules, const struct sentence *sentence);

/* The next token of every live hypothesis, out of `got` or of logits [n_model], which may be read
 * by now if they are needed; `got` is scratch for those that go the full way. An error is the
 * sentence's own: the model's scores are not numbers. */
int rank_next(struct ranker *ranker, const struct rank_rules *rules, struct sentence *sentence,
              const struct mat *logits, const struct candidates *got, struct err *err);

/* That error. */
int rank_no_number(const struct sentence *sentence, struct err *err);

/* The ended hypothesis `rank`, spelled out into id and log_prob, each with room for max_len. */
struct hypothesis rank_report(const struct rank_rules *rules, const struct sentence *sentence,
                              int rank, int32_t *id, float *log_prob);

#endif
