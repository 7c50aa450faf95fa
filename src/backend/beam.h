/* beam.h — the bookkeeping of one sentence's search: which hypotheses live, which have ended, and
 * when it is over.
 *
 * Nothing here knows about models or devices. Log-probabilities of next tokens come in; the next
 * live hypotheses with their parents, the best ended ones, and the verdict "done" come out. The
 * state is plain arrays that somebody else owns; nothing is allocated and nothing of the C library
 * is called, so that the same source is compiled for the host, where src/search calls it, and for
 * devices, where the op beam_step does (BEAM_FN then says which kind of function it is). Nothing
 * can fail.
 *
 * The past is a trellis: node (t, slot) holds the t-th token of the hypothesis that was in `slot`
 * after t + 1 tokens, and the slot of its parent one token earlier. Hypotheses share their
 * beginnings in it, and a translation is read off backwards, once, when the sentence is done.
 * docs/math/search.md has the proofs. */
#ifndef BACKEND_BEAM_H
#define BACKEND_BEAM_H

#include <stdint.h>

#ifndef BEAM_FN
#define BEAM_FN
#endif

enum { BEAM_MAX = 64, BEAM_BANNED = 17 };

/* The same for all sentences of a search. */
struct beam_rules {
    int width;   /* live hypotheses kept, at most BEAM_MAX */
    int n_best;  /* ended hypotheses kept, at most width */
    int32_t eos; /* the end mark */
    int n_banned;
    int32_t banned[BEAM_BANNED]; /* [n_banned] tokens that are never written */
    int falling;                 /* the penalty falls as sentences grow (alpha < 0) */
    int run_on; /* never stop before the longest length: to prove that stopping loses nothing */
    /* [longest + 1] by which log-probabilities are divided; index: tokens, end mark counted;
     * monotone */
    const double *penalty;
};

struct beam_node {
    int32_t token, parent;
    float log_prob; /* of this token */
};

/* An ended hypothesis: `n` tokens read off the trellis from slot `hyp`, then `token`. */
struct beam_end {
    double log_prob, score;
    int32_t hyp, n;
    int32_t token; /* the end mark; another token when cut; -1 for none */
    float last;    /* log-probability of `token` */
    int cut;
};

struct beam {
    int len;     /* tokens of every live hypothesis */
    int max_len; /* the end mark counted */
    int n_live, n_end;
    int open; /* sampling only: the samples have parted */
    int done;
    double *log_prob;       /* [width] of the live; best first, unless sampled */
    int32_t *sample;        /* [width] sampling only: which sample lives in a slot */
    struct beam_node *node; /* [max_len, width] */
    struct beam_end *end;   /* [n_best] best first; equal scores in the order of ending */
};

/* One live hypothesis without tokens. The arrays are set already. */
BEAM_FN void beam_begin(struct beam *b, int max_len);

/* One more token. value, id [n_live, k]: for each live hypothesis its best next tokens, best first
 * (ties to the lower id), -INFINITY where there are no more. No NaN. k must let every row hold
 * `width` tokens beside the end mark, if it has that many. */
BEAM_FN void beam_advance(struct beam *b, const struct beam_rules *r, const float *value,
                          const int32_t *id, int k);

/* One more token where somebody else has ranked and chosen: pick [n], best first (by log_prob,
 * which is that of the longer hypothesis), at most `width` of them without an end mark. Those with
 * one end. None at all: where nothing has ended yet, hypotheses end as they are. */
struct beam_pick {
    double log_prob;
    int32_t hyp, id;
    float value; /* of the token */
};
BEAM_FN void beam_take(struct beam *b, const struct beam_rules *r, const struct beam_pick *pick,
                       int n);

/* One more token for samples: value[i], id[i] is what sample i of the live ones drew; id -1:
 * nothing was allowed. The first time there are r->width draws from the only live hypothesis, later
 * n_live. */
BEAM_FN void beam_draw(struct beam *b, const struct beam_rules *r, const float *value,
                       const int32_t *id);

/* Strikes banned tokens out of a row of k candidates, and the end mark where it may not come yet:
 * the others move up, and what is left at the end is -INFINITY and token -1. Returns -1, the row
 * half done, where a candidate is NaN. */
BEAM_FN int beam_strike(float *value, int32_t *id, int k, const struct beam_rules *r, int no_end);

/* Makes a token the only one of k candidates, and certain. */
BEAM_FN void beam_force(float *value, int32_t *id, int k, int32_t token);

/* The first n tokens of the hypothesis that was in slot `hyp` after n tokens; log_prob may be
 * NULL. */
BEAM_FN void beam_trace(int32_t *token, float *log_prob, const struct beam *b,
                        const struct beam_rules *r, int hyp, int n);

/* ---- tables ---------------------------------------------------------------------------------- */

/* The beams of many sentences side by side, in memory of a backend: the state of the op
 * beam_step. */
struct beam_head {
    int32_t len, max_len, n_live, n_end, done; /* as in struct beam */
    int32_t row;    /* of the first live hypothesis in the current step */
    int32_t broken; /* the model's scores for token `len` were not numbers; done, too */
};

struct beam_count {
    int32_t n_active; /* sentences that are not done */
    int32_t n_row;    /* their live hypotheses: rows of the next step */
    int32_t step;     /* its number */
};

struct beam_table {
    struct beam_head *head;   /* [n_seq] */
    double *log_prob;         /* [n_seq, width] */
    struct beam_node *node;   /* [n_seq, longest, width] */
    struct beam_end *end;     /* [n_seq, n_best] */
    struct beam_count *count; /* [1] */
};

/* The beam of sentence s of a table, for all functions above but beam_draw; `unused` is memory for
 * one number. */
BEAM_FN void beam_load(struct beam *b, const struct beam_table *t, const struct beam_rules *r,
                       int longest, int s, int32_t *unused);
/* Copies what has changed in b back to the head; the arrays are the table's anyway. */
BEAM_FN void beam_store(const struct beam *b, const struct beam_table *t, int s);

#endif
