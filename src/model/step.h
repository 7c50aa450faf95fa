/* step.h — incremental decoding: one new token per hypothesis and call, over a cache of keys and values.
 *
 * The cache is laid out by time: all hypotheses' rows of step t lie together at t * cap_hyp, so the
 * projection of a step writes straight into it. Which rows a hypothesis reads is an index table
 * [hypothesis, t]; reordering or dropping hypotheses permutes that table and never moves a key.
 *
 * Owns one block of backend memory reserved by stepper_new; nothing is allocated later. Borrows the model,
 * and between stepper_begin and the last step the encoder's activations. */
#ifndef MODEL_STEP_H
#define MODEL_STEP_H

#include "model/acts.h"

struct stepper {
    struct model *model;
    int cap_hyp, cap_len, cap_src;
    int t; /* steps done since stepper_begin */
    struct arena arena;
    struct mat *self_kv;  /* [n_layer_dec] of [cap_len * cap_hyp, QK+VV] */
    struct mat *cross_kv; /* [n_layer_dec] of [cap_src, QK+VV] */
    struct side side;     /* one row per hypothesis */
    struct mat q;         /* [cap_hyp,QK] */
    struct mat att;       /* [cap_hyp,VV] */
    struct ff_acts ff;
    struct join join[2];          /* used in turn */
    struct mat logits;            /* [cap_hyp,V] */
    int32_t *index;               /* [cap_hyp,cap_len] in backend memory: cache rows */
    int32_t *len;                 /* [cap_hyp] rows to look at: t + 1 */
    int32_t *src_start, *src_len; /* [cap_hyp] the hypothesis' sentence */
    int32_t *host, *host_index,
        *host_old;                 /* host mirrors; host holds ids, pos, len, starts, lengths */
    const int32_t *sentence_start; /* [n_sentence + 1] on the host */
    int n_sentence;
};

/* Room for cap_hyp hypotheses of at most cap_len tokens over cap_src source tokens. */
int stepper_new(struct stepper **stepper, struct model *model, int cap_hyp, int cap_len,
                int cap_src, struct err *err);
void stepper_free(struct stepper *stepper);

/* Takes over the source sentences just encoded in `acts` (transformer_encode): projects their keys and
 * values for every layer. `src` is the host side of the same batch and must stay until the last step. */
int stepper_begin(struct stepper *stepper, const struct acts *acts, const struct packed *src,
                  int n_seq, struct err *err);

/* One more token for n hypotheses: hypothesis b extends hypothesis parent[b] of the previous step (ignored in
 * the first step) by token ids[b] (in the first step the begin mark) and belongs to sentence[b].
 * Afterwards stepper->logits [n,V] scores the token after that one. */
int stepper_step(struct stepper *stepper, int n, const int32_t *ids, const int32_t *parent,
                 const int32_t *sentence, struct err *err);

#endif
