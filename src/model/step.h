/* step.h — incremental decoding: one new token per hypothesis and call, over a cache of keys and values.
 *
 * The cache is laid out by time: all hypotheses' rows of step t lie together at t * cap.hyp, so the
 * projection of a step writes straight into it. Which rows a hypothesis reads is an index table
 * [hypothesis, t]; reordering or dropping hypotheses permutes that table and never moves a key.
 *
 * Owns one block of backend memory reserved by stepper_new; nothing is allocated later. Borrows the model,
 * and between stepper_begin and the last step the encoder's activations. */
#ifndef MODEL_STEP_H
#define MODEL_STEP_H

#include "model/acts.h"

/* What there is room for: hypotheses, tokens of each, source tokens, and best tokens asked for at a time. */
struct stepper_caps {
    int hyp, len, src, top;
};

struct stepper {
    struct model *model;
    struct stepper_caps cap;
    int t; /* steps done since stepper_begin */
    int n; /* hypotheses of the last step */
    struct arena arena;
    struct mat *self_kv;  /* [n_layer_dec] of [cap.len * cap.hyp, QK+VV] */
    struct mat *cross_kv; /* [n_layer_dec] of [cap.src, QK+VV] */
    struct side side;     /* one row per hypothesis */
    struct mat qkv;       /* [cap.hyp,2QK+VV]; cross-attention uses the first QK columns */
    struct mat att;       /* [cap.hyp,VV] */
    struct ff_acts ff;
    struct join join[2]; /* used in turn */
    struct mat out;      /* [n,D] the decoder's output of the last step */
    struct mat logits;   /* [cap.hyp,V] */
    struct mat value;    /* [cap.hyp,cap.top] and the tokens they belong to */
    int32_t *top;
    int32_t *index;               /* [cap.hyp,cap.len] in backend memory: cache rows */
    int32_t *len;                 /* [cap.hyp] rows to look at: t + 1 */
    int32_t *src_start, *src_len; /* [cap.hyp] the hypothesis' sentence */
    int32_t *host, *host_index,
        *host_old;                 /* host mirrors; host holds ids, pos, len, starts, lengths */
    const int32_t *sentence_start; /* [n_sentence + 1] on the host */
    int n_sentence;
};

int stepper_new(struct stepper **stepper, struct model *model, const struct stepper_caps *caps,
                struct err *err);
void stepper_free(struct stepper *stepper);

/* Takes over the source sentences just encoded in `acts` (transformer_encode): projects their keys and
 * values for every layer. `src` is the host side of the same batch and must stay until the last step. */
int stepper_begin(struct stepper *stepper, const struct acts *acts, const struct packed *src,
                  int n_seq, struct err *err);

/* One more token for n hypotheses: hypothesis b extends hypothesis parent[b] of the previous step (ignored in
 * the first step) by token ids[b] (in the first step the begin mark) and belongs to sentence[b]. Afterwards
 * the two functions below tell of the token after that one, for the same n hypotheses. */
int stepper_step(struct stepper *stepper, int n, const int32_t *ids, const int32_t *parent,
                 const int32_t *sentence, struct err *err);

/* The k best next tokens of every hypothesis, best first: log-probabilities value[n,k] and id[n,k] in host
 * memory. k is at most cap.top and the vocabulary. */
int stepper_topk(struct stepper *stepper, int k, float *value, int32_t *id, struct err *err);

/* The scores of all tokens: queues the output projection; the view [n,V] is in backend memory and holds until the
 * next step. */
struct mat stepper_logits(struct stepper *stepper);

#endif
