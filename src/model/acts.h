/* acts.h — the activations of one batch: everything the forward pass keeps and the backward pass
 * needs.
 *
 * Owns one block of backend memory, reserved for a token budget before the first step. For every
 * batch the same carving code lays exact views of that batch's size into it, so nothing is
 * allocated and nothing is padded; with a NULL base the same code measures what the budget needs.
 *
 * Mirrors struct params: enc[l].self here holds what enc[l].self there computed. Symbols in the
 * shapes: S source tokens, T target tokens, N one of them; D F QK VV as in params.h. */
#ifndef MODEL_ACTS_H
#define MODEL_ACTS_H

#include "backend/mat.h"
#include "backend/ops.h"
#include "base/mem.h"
#include "data/batch.h"
#include "model/model.h"

/* A matrix out of an arena; over no memory it only measures. */
static inline struct mat mat_take(struct arena *arena, int rows, int cols, enum dtype type) {
    size_t size = size_mul(size_mul((size_t)rows, (size_t)cols), dtype_size(type));
    return mat_of(arena_take(arena, size), rows, cols, type);
}

/* The end of a sub-layer: its output s joins the residual stream, y = LayerNorm(r), r = x +
 * drop(s). */
struct join {
    struct mat s;     /* [N,D] sub-layer output; add_norm turns it into r in place */
    struct mat y;     /* [N,D] */
    struct mat stats; /* [N,2] */
};

struct self_acts {
    struct mat qkv; /* [N,2QK+VV] */
    struct mat att; /* [N,VV] */
    struct mat lse; /* [n_head,N] */
    struct join join;
};

struct ssru_acts {
    struct mat g, x; /* [N,D] gates before the sigmoid, and what they let in */
    struct mat c;    /* [N,D] states */
};

struct cross_acts {
    struct mat q;   /* [T,QK] */
    struct mat kv;  /* [S,QK+VV] of the encoder's output */
    struct mat att; /* [T,VV] */
    struct mat lse; /* [n_head,T] */
    struct join join;
};

struct ff_acts {
    struct mat h; /* [N,F] after the activation */
    struct mat z; /* [N,F] before it; absent for ReLU */
    struct join join;
};

struct enc_acts {
    struct self_acts self;
    struct ff_acts ff;
};

struct dec_acts {
    struct self_acts self; /* with an SSRU only its join */
    struct ssru_acts ssru;
    struct cross_acts cross;
    struct ff_acts ff;
};

/* One side of Figure 1: how its tokens lie, where its stack begins, and gradient scratch. */
struct side {
    struct rows rows;
    int is_tgt;                 /* the target side looks only backwards (config.mask) */
    int32_t *ids, *pos, *start; /* in backend memory */
    struct mat x;               /* [N,D] embedding + position, the bottom of the residual stream */
    struct mat e, e_stats;      /* embed_norm only: embedding + position; x is its LayerNorm */
    struct join bottom;         /* pre-norm only: y = LayerNorm(x); s absent */
    struct mat d_in;   /* [N,D] gradient reaching a sub-layer's input; training only, as below */
    struct mat d_out;  /* [N,D] gradient of a sub-layer's output */
    struct mat d_res;  /* [N,D] gradient of the residual stream, pre-norm only */
    struct mat d_att;  /* [N,VV] */
    struct mat d_wide; /* [N,max(F, 2QK+VV)], at least 2D in an SSRU decoder */
};

struct acts {
    struct model *model; /* borrowed */
    /* Without it one layer's activations are every layer's, and two ends of layers take turns:
     * only that is what the next layer reads. */
    int training;
    int cap_src, cap_tgt; /* tokens there is room for */
    struct arena arena;   /* owns arena.base through the backend */
    struct side src, tgt;
    int32_t *target;   /* [T] */
    struct mat totals; /* [1,3] F64: see xent */
    /* Guided training only: the batch's links, and what they cost; n_guided 0: there are none. */
    int n_guided;
    int32_t *span, *range;    /* [T,2], [n_range,2] */
    struct mat guided_totals; /* [1,2] F64, right behind totals: see guide */
    struct mat row_nll;       /* [1,T] */
    struct enc_acts *enc;     /* [n_layer_enc], or [2] that differ in ff.join */
    struct dec_acts *dec;
};

/* Reserves memory for batches of up to this many source and target tokens, however they are cut
 * into sentences, and the backend's workspace for every op of a step. Afterwards no step allocates.
 * cap_tgt == 0 (not for training) makes room for the encoder alone. An error says how much was
 * asked for. */
int acts_new(struct acts **acts, struct model *model, int cap_src, int cap_tgt, int training,
             struct err *err);
void acts_free(struct acts *acts);

/* What acts_new would reserve, without reserving it: activations, and the backend's workspace for a
 * step. */
struct acts_need {
    size_t acts, workspace;
};
int acts_measure(struct acts_need *need, struct model *model, int cap_src, int cap_tgt,
                 int training, struct err *err);

/* Bytes acts_new reserves for activations (the backend's workspace comes on top). */
size_t acts_bytes(const struct acts *acts);

/* For code that adds to a step what acts_new did not plan for (view.h): the first lays out the
 * largest batch, with sizes but without addresses, until the next acts_load; the second plans a
 * step of it anew, storing attention as `view` asks, and commits. */
struct view;
void acts_spread(struct acts *acts);
int acts_plan(struct acts *acts, const struct view *view, struct err *err);

/* Lays out views for this batch and uploads it. Checks every id and length against the model: a
 * batch is the last place where bad data can be named. The decoder's first token may be -1, the
 * zero vector: models of Marian begin with it. Nothing changes on error. */
int acts_load(struct acts *acts, const struct batch *batch, struct err *err);

/* The same for the source side alone, before transformer_encode. */
int acts_load_src(struct acts *acts, const struct packed *src, int n_seq, struct err *err);

/* Bytes of totals and guided_totals. */
static inline size_t acts_totals_size(const struct acts *a) {
    return (size_t)(a->totals.cols + a->guided_totals.cols) * sizeof(double);
}

static inline struct enc_acts *enc_at(const struct acts *a, int l) {
    return &a->enc[a->training ? l : l % 2];
}
static inline struct dec_acts *dec_at(const struct acts *a, int l) {
    return &a->dec[a->training ? l : l % 2];
}

#endif
