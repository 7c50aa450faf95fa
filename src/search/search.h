/* search.h — from encoded sentences to the best translations: beam search, greedy search, sampling,
 * forced prefixes, ensembles.
 *
 * PAPER: 6.1. Beam 4; hypotheses are ranked by log P(y|x) / lp(|y|), where |y| counts the end mark
 * and lp(n) = ((5 + n) / 6)^alpha, alpha 0.6; at most input length + 50 tokens. Models of other
 * toolkits may want lp(n) = n^alpha (length_rule). A sentence is finished when no live hypothesis
 * can still beat the n_best finished ones: a live one of log-probability p can reach at most
 * p / lp(L) with L the longest length allowed (p is negative and only falls; for alpha < 0 the next
 * length bounds it), so the stop loses nothing. A beam as wide as the number of
 * possible hypotheses is exhaustive search.
 *
 * Among the `beam` best continuations of a step those with an end mark end, and the `beam` best
 * without one live on. What the longest length cuts off counts as ended: it competes with its score
 * of that length, without an end mark's probability, and says so (`cut`). Beam 1 is greedy: the
 * first end mark ends it. docs/math/search.md has the proofs.
 *
 * A searcher owns all memory of searching: the encoder's activations, one stepper per model, the
 * hypotheses. It is sized once and nothing is allocated while it runs (a device's driver may, for
 * recordings). It borrows the models, which share one vocabulary and one backend. One searcher
 * serves one thread at a time.
 *
 * The result of a sentence does not depend on its neighbours in the batch: rows are independent,
 * ties go to the lower (hypothesis, token), and sampling draws from a stream keyed by (seed,
 * sentence key, step). */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "base/options.h"
#include "data/batch.h"
#include "model/model.h"

enum { SEARCH_MAX_BEAM = 64, SEARCH_MAX_MODELS = 16 };
/* Hypotheses for a sentence with terms: at least, and at most where others do not have more. */
enum { TERMS_BEAM = 8, TERMS_MAX_BEAM = 16 };

/* Where hypotheses are ranked. Auto: on a device with its own memory there, if the search is plain
 * enough (resident.h), otherwise on the host. The other two are for tests; a search that is not
 * plain is always ranked on the host. */
enum search_place { SEARCH_AUTO, SEARCH_HOST, SEARCH_BACKEND };

/* What log-probabilities are divided by, n being the tokens with the end mark: the paper's
 * ((5 + n) / 6)^alpha, or n^alpha. */
enum length_rule { LENGTH_PAPER, LENGTH_POWER };

/* Is the translation a tree (brackets.h)? As a row of tokens, or with the words of its source put
 * back, which is not for the search to do. */
enum search_trees { TREES_NONE, TREES_ROWS, TREES_WORDS };

struct search_options {
    int beam;    /* hypotheses kept; 1 is greedy */
    int n_best;  /* wanted per sentence, at most beam (or the number of samples) */
    float alpha; /* length penalty; 0: none */
    enum length_rule length_rule;
    int min_len;   /* tokens before the end mark may come; the longest length still cuts */
    int max_extra; /* at most source length + this many tokens (end marks count on both sides) */
    int max_len;   /* and at most this many; 0: as many as the model has positions */
    /* for benchmarks: exactly this many tokens, then cut, the end mark forbidden; 0: off */
    int force_len;
    int sample; /* draw instead of searching: n_best independent samples, beam is ignored */
    float temperature;
    int top_k;   /* draw among the k best; 0: all */
    float top_p; /* draw among the best that together have this probability; 1: all */
    uint64_t seed;
    int no_repeat; /* no n-gram of this size twice in a hypothesis; 0: off */
    /* divide positive and multiply negative logits of tokens already written; 1: off */
    float repetition;
    int ban_unk; /* never write the unknown mark */
    enum search_trees trees;
    enum search_place place;
};

extern const struct option search_rows[]; /* every field */

/* The paper's: beam 4, alpha 0.6, input + 50. */
struct search_options search_defaults(void);
int search_check(const struct search_options *options, struct err *err);

/* The longest translation of n_src source tokens, end marks counted, by models with that many
 * positions. */
int search_longest(const struct search_options *options, int positions, int n_src);

/* Special ids. bos may be -1, the zero vector in the place of an embedding; unk -1, none. banned
 * [n_banned] are never written. brackets, which must stay: NULL where nobody wants trees. */
struct brackets;
enum { SEARCH_MAX_BANNED = 16 };
struct search_marks {
    int32_t bos, eos, unk;
    int32_t banned[SEARCH_MAX_BANNED];
    int n_banned;
    const struct brackets *brackets;
};

/* What a searcher has room for: one call's sentences, source tokens, and source tokens of one
 * sentence. */
struct search_caps {
    int n_seq, n_tok, max_src;
};

struct hypothesis {
    const int32_t *ids; /* without begin and end mark */
    int n;
    /* of all tokens and the end mark (natural logarithm); averaged over an ensemble */
    float log_prob;
    float score; /* log_prob over the length penalty */
    /* [n + 1], the end mark last; [n] when cut off. When sampling: before temperature, top_k and
     * top_p */
    const float *token_log_prob;
    int cut; /* ended by max length, not by an end mark */
};

struct terms;

/* One sentence of a call. prefix: tokens the translation must begin with (scored, never forbidden).
 * The first n_lead of them, 0 or 1, name its language to the model: that one is neither part of the
 * translation nor of its probability, but counts in its length, as in the toolkits that have such
 * models.
 * key: chosen by the caller, decides the random stream (e.g. the line number). terms: what the
 * translation must contain (terms.h), or NULL; borrowed until the sentence is done; not for
 * samples. A sentence with terms needs a beam of at least search_terms_beam to do it well.
 * n_word: how many words its tree has; trees have neither prefix nor terms. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): an array and its length stay side by
 * side */
struct search_input {
    const int32_t *src;
    int n_src; /* with its end mark */
    const int32_t *prefix;
    int n_prefix, n_lead;
    uint64_t key;
    const struct terms *terms;
    int n_word;
};

/* How wide to search a sentence with these terms, where others are searched with the options: a
 * power of two. One hypothesis for each piece of the terms, and one more, are what it takes to let
 * every term come at any time. */
int search_terms_beam(const struct search_options *options, const struct terms *terms);

/* Best first; n is at least 1 and may be less than n_best when fewer exist. Valid until the next
 * call. */
struct search_result {
    const struct hypothesis *best;
    int n;
};

struct searcher;

/* What a searcher is made of. Everything but the models is copied. */
struct search_setup {
    struct model *const *model; /* [n_model] */
    int n_model;
    /* [n_model] of an ensemble, which uses the weighted mean of probabilities; NULL: equal */
    const float *weight;
    struct search_marks marks;
    struct search_caps caps;
};

int searcher_new(struct searcher **searcher, const struct search_setup *setup,
                 const struct search_options *options, struct err *err);
void searcher_free(struct searcher *searcher);

/* Called before every step; a non-zero return ends the search with HEED_ECANCELLED. */
struct search_poll {
    int (*call)(void *ctx);
    void *ctx;
};

/* Translates n_seq sentences. Messages identify a sentence by its index in `in`. After an error,
 * cancellation included, the searcher can be used again. poll may be NULL. */
int searcher_run(struct searcher *searcher, const struct search_input *in, int n_seq,
                 struct search_result *out, const struct search_poll *poll, struct err *err);

/* What the last call took. */
struct search_stats {
    uint64_t steps;    /* of the decoder, each for all sentences of a call */
    uint64_t rows;     /* live hypotheses in them */
    uint64_t computed; /* rows computed for these: resident searches round their number up */
    uint64_t anew;     /* steps whose ops were queued one by one, not replayed from a recording */
    double waited;     /* seconds that the host waited for a resident search */
};
const struct search_stats *searcher_stats(const struct searcher *searcher);
void search_stats_add(struct search_stats *to, const struct search_stats *stats);

#endif
