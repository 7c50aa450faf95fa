/* step.h — incremental decoding: one new token per hypothesis and call, over a cache of keys and
 * values, or of the states of an SSRU.
 *
 * Which rows of the cache a hypothesis reads is an index table [hypothesis, t]; reordering or
 * dropping hypotheses permutes that table and never moves a key. A new token takes the first row
 * that no hypothesis will read: those of a beam mostly begin alike, so that far fewer rows are
 * touched than there is room for. (Steps that the backend queues itself take cap.hyp rows each.)
 *
 * What a step is about (tokens, positions, lengths, sentences, the index table) lies in backend
 * memory. Either the host brings it, in one copy per step (stepper_step), or the backend writes it
 * itself (stepper_queue and the op beam_step): then steps can be queued without knowing how the
 * last one went, and recorded.
 *
 * Keys and values are cached in the act type; those of an int8 model (but Marian's) in F16, which
 * is half of that and rounds some ten times finer than the products that made them do.
 *
 * The steppers of an ensemble walk side by side; the first speaks for all (stepper_speak).
 *
 * Owns one block of backend memory reserved by stepper_new, and a speaker one for the mean; nothing
 * is allocated later. Borrows the model, and a speaker the others. */
#ifndef MODEL_STEP_H
#define MODEL_STEP_H

#include "backend/ops.h"
#include "model/acts.h"

/* What there is room for: hypotheses, tokens of each, source tokens, best tokens asked for at a
 * time, and rows of the cache; 0: hyp * len, as stepper_step and stepper_queue need. */
struct stepper_caps {
    int hyp, len, src, top, cache;
};

/* The rows of a step, in backend memory. Row b looks at the cache rows index[b * index_ld + i], i <
 * len[b]. */
struct stepper_rows {
    int32_t *ids, *pos, *len;     /* [n] */
    int32_t *src_start, *src_len; /* [n] the hypothesis' sentence */
    int32_t *index;
    int64_t index_ld;
};

struct stepper {
    struct model *model;
    struct stepper_caps cap;
    int t;         /* steps done since stepper_begin */
    int filled;    /* rows of the cache that they touched */
    int n;         /* hypotheses of the last step */
    int line;      /* of the index table it was sent */
    int projected; /* its logits are there already */
    struct arena arena;
    struct mat *past;     /* [n_layer_dec] of [cap.cache, QK+VV]; SSRU: [cap.cache, D] states */
    struct mat *cross_kv; /* [n_layer_dec] of [cap.src, QK+VV] */
    struct mat fresh;     /* [.,QK+VV] of the latter, on their way to a narrower type; or absent */
    struct side side;     /* one row per hypothesis */
    struct mat qkv;       /* [cap.hyp,2QK+VV]; cross-attention uses the first QK columns. SSRU:
                           * [cap.hyp,max(2D,QK)], gates and what they let in side by side */
    struct mat att;       /* [cap.hyp,VV] */
    struct ff_acts ff;
    struct join join[2]; /* used in turn */
    struct mat out;      /* [n,D] the decoder's output of the last step */
    struct mat logits;   /* [cap.hyp,V] */
    struct mat value;    /* [cap.hyp,cap.top] and the tokens they belong to */
    int32_t *top;
    int32_t *rows; /* [5, cap.hyp] and, behind them, [cap.hyp, cap.len] */
    /* [cap.hyp, cap.len] for the next step, while it is written from the last */
    int32_t *other_index;
    int32_t *host, *host_old; /* what stepper_step sends, now and last time: rows as above */
    int32_t *read_at; /* [cap.cache] the last step that read a row, counted from 1; 0: none */
    const int32_t *sentence_start; /* [n_sentence + 1] on the host */
    int n_sentence;
    struct stepper *other[BLEND_MOST - 1]; /* a speaker's */
    int n_other;
    float weight[BLEND_MOST]; /* its own first */
    struct mat mean;          /* [cap.hyp,V] F32 */
};

int stepper_new(struct stepper **stepper, struct model *model, const struct stepper_caps *caps,
                struct err *err);
void stepper_free(struct stepper *stepper);

/* Makes the stepper speak for an ensemble: the best tokens that it gives are those of the weighted
 * mean of the probabilities, where weight [1 + n] begins with its own, and what stepper_queue does
 * the n others do with it. They have its caps and its backend, are stepped beside it, and stay. */
int stepper_speak(struct stepper *stepper, struct stepper *const *other, int n, const float *weight,
                  struct err *err);

/* Takes over rows first .. first + n - 1 of what was encoded in `acts` (transformer_encode): their
 * keys and values for every layer go to source rows at .. at + n - 1. Afterwards `acts` may encode
 * something else. */
void stepper_admit(struct stepper *stepper, const struct acts *acts, int first, int n, int at);

/* Begins with the sentences of `src`, the host side of a batch that must stay until the last step;
 * all of its tokens are admitted, in order from source row 0 on, before the first. */
int stepper_begin(struct stepper *stepper, const struct packed *src, int n_seq, struct err *err);

/* One more token for n hypotheses: hypothesis b extends hypothesis parent[b] of the previous step
 * (ignored in the first step) by token ids[b] (in the first step the begin mark, or -1: the zero
 * vector) and belongs to sentence[b]. Afterwards the two functions below describe the token after
 * that one, for the same n hypotheses. */
int stepper_step(struct stepper *stepper, int n, const int32_t *ids, const int32_t *parent,
                 const int32_t *sentence, struct err *err);

/* The other way to step, for sentences that come and go while others are under way: every row says
 * by itself where it stands, and the caller decides which row of the cache and which rows of the
 * source a hypothesis has. Not to be mixed with stepper_begin and stepper_step.
 *
 * stepper_advance is one more token for n hypotheses; they may be at different positions.
 * Afterwards the two functions below hold as for stepper_step. */
struct stepper_row {
    int32_t id;     /* the token */
    int32_t pos;    /* tokens before it; 0: it is the begin mark, which may be -1 */
    int32_t parent; /* the row of the previous call that it extends, whose pos was one less */
    /* the cache rows of all pos tokens before it, where what it extends was not in the previous
     * call; NULL: parent says */
    const int32_t *line;
    int32_t cache;      /* where its keys and values go; nobody else's as long as it is extended */
    int32_t src, n_src; /* its sentence */
};
int stepper_advance(struct stepper *stepper, const struct stepper_row *row, int n, struct err *err);

/* The k best next tokens of every hypothesis, best first: log-probabilities value[n,k] and id[n,k]
 * in host memory. k is at most cap.top and the vocabulary. */
int stepper_topk(struct stepper *stepper, int k, float *value, int32_t *id, struct err *err);

/* Steps that the host only queues. stepper_rows: where the rows of a step are; two index tables
 * take turns (turn 0 or 1), the rest is the same. stepper_queue: one step of the n rows of that
 * turn, then its k best tokens into stepper->value ([n,k], no gaps) and stepper->top. The first
 * step is number 0 of cap.len. */
struct stepper_rows stepper_rows(const struct stepper *stepper, int turn);
void stepper_queue(struct stepper *stepper, int n, int k, int turn);

/* The scores of all tokens: queues the output projection; the view [n,V] is in backend memory and
 * holds until the next step. Who also wants the best asks for them afterwards: then they are
 * projected once. */
struct mat stepper_logits(struct stepper *stepper);

#endif
