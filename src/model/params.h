/* params.h — the parameters: one table describes them, one flat buffer holds them.
 *
 * The X-macros below are the only list of parameters there is. From them follow the struct fields,
 * the order and offsets in the flat buffer, the names in checkpoints, and the initialisation.
 * Gradients, Adam's moments and the bf16 working copy have the same layout over another base, so
 * that optimiser, clipping and all-reduce are single passes over single buffers; `struct params`
 * over the gradient buffer is the gradient of `struct params` over the weights, field by field.
 *
 * A struct params holds views. It owns only its arrays of layers (params_release); the flat buffers
 * belong to whoever allocated them. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "backend/mat.h"
#include "model/config.h"

/* X(field, rows, cols, init, fan_out). Symbols: D d_model, F the stack's d_ff, QK n_head*d_k, VV
 * n_head*d_v. rows == 0: this configuration has no such parameter. Weights are [out, in]; fan_out
 * is what Xavier's bound is computed from. gamma and beta normalise after the sub-layer (post-norm)
 * or before it (pre-norm).
 *
 * PAPER: it does not say how weights are drawn. Queries, keys and values have the bound of one
 * matrix of all three (QKV), also where they are not stacked: drawn each for itself they would be
 * larger by the root of 2, and a post-norm model learns visibly more slowly
 * (docs/paper/README.md#does-pytorch-learn-faster). */
#define QKV (c->attention_init == ATTENTION_INIT_EACH ? QK : 2 * QK + VV)
#define SELF_PARAMS(X)                                                                             \
    X(w_qkv, 2 * QK + VV, D, INIT_XAVIER, QKV)                                                     \
    X(b_qkv, 1, 2 * QK + VV, INIT_ZERO, 0)                                                         \
    X(w_o, D, VV, INIT_XAVIER, D)                                                                  \
    X(b_o, 1, D, INIT_ZERO, 0)                                                                     \
    X(gamma, 1, D, INIT_ONE, 0)                                                                    \
    X(beta, 1, D, INIT_ZERO, 0)

/* In the place of a decoder layer's self-attention: gates, and what they let in. */
#define SSRU_PARAMS(X)                                                                             \
    X(w, D, D, INIT_XAVIER, D)                                                                     \
    X(w_f, D, D, INIT_XAVIER, D)                                                                   \
    X(b_f, 1, D, INIT_ZERO, 0)                                                                     \
    X(gamma, 1, D, INIT_ONE, 0)                                                                    \
    X(beta, 1, D, INIT_ZERO, 0)

#define CROSS_PARAMS(X)                                                                            \
    X(w_q, QK, D, INIT_XAVIER, QKV)                                                                \
    X(b_q, 1, QK, INIT_ZERO, 0)                                                                    \
    X(w_kv, QK + VV, D, INIT_XAVIER, QKV)                                                          \
    X(b_kv, 1, QK + VV, INIT_ZERO, 0)                                                              \
    X(w_o, D, VV, INIT_XAVIER, D)                                                                  \
    X(b_o, 1, D, INIT_ZERO, 0)                                                                     \
    X(gamma, 1, D, INIT_ONE, 0)                                                                    \
    X(beta, 1, D, INIT_ZERO, 0)

#define FF_PARAMS(X)                                                                               \
    X(w_1, F, D, INIT_XAVIER, F)                                                                   \
    X(b_1, 1, F, INIT_ZERO, 0)                                                                     \
    X(w_2, D, F, INIT_XAVIER, D)                                                                   \
    X(b_2, 1, D, INIT_ZERO, 0)                                                                     \
    X(gamma, 1, D, INIT_ONE, 0)                                                                    \
    X(beta, 1, D, INIT_ZERO, 0)

/* Outside the layers. Tied matrices exist once, under the target's name; the other fields alias it.
 * The *_norm pair closes a pre-norm stack; *_embed_norm follows the embedding. */
#define ROOT_PARAMS(X)                                                                             \
    X(tgt_embed, c->n_vocab_tgt, D, INIT_EMBED, 0)                                                 \
    X(src_embed, c->tie == TIE_ALL ? 0 : c->n_vocab_src, D, INIT_EMBED, 0)                         \
    X(out, c->tie == TIE_NONE ? c->n_vocab_tgt : 0, D, INIT_EMBED, 0)                              \
    X(src_pos, c->positions == POSITIONS_LEARNED ? c->max_len : 0, D, INIT_POSITION, 0)            \
    X(tgt_pos, c->positions == POSITIONS_LEARNED ? c->max_len : 0, D, INIT_POSITION, 0)            \
    X(enc_norm_gamma, c->norm == NORM_PRE ? 1 : 0, D, INIT_ONE, 0)                                 \
    X(enc_norm_beta, c->norm == NORM_PRE ? 1 : 0, D, INIT_ZERO, 0)                                 \
    X(dec_norm_gamma, c->norm == NORM_PRE ? 1 : 0, D, INIT_ONE, 0)                                 \
    X(dec_norm_beta, c->norm == NORM_PRE ? 1 : 0, D, INIT_ZERO, 0)                                 \
    X(src_embed_norm_gamma, c->embed_norm ? 1 : 0, D, INIT_ONE, 0)                                 \
    X(src_embed_norm_beta, c->embed_norm ? 1 : 0, D, INIT_ZERO, 0)                                 \
    X(tgt_embed_norm_gamma, c->embed_norm ? 1 : 0, D, INIT_ONE, 0)                                 \
    X(tgt_embed_norm_beta, c->embed_norm ? 1 : 0, D, INIT_ZERO, 0)                                 \
    X(out_bias, c->output_bias ? 1 : 0, c->n_vocab_tgt, INIT_ZERO, 0)

/* INIT_XAVIER: uniform in +-sqrt(6 / (cols + fan_out)). INIT_EMBED: normal, variance 1 / d_model,
 * so that embeddings times sqrt(d_model) have the size of the sinusoids and tied logits start near
 * variance 1. INIT_POSITION: drawn as INIT_EMBED. */
enum init { INIT_ZERO, INIT_ONE, INIT_XAVIER, INIT_EMBED, INIT_POSITION };

#define PARAM_FIELD(field, rows, cols, init, fan_out) struct mat field;
struct self_params {
    SELF_PARAMS(PARAM_FIELD)
};
struct ssru_params {
    SSRU_PARAMS(PARAM_FIELD)
};
struct cross_params {
    CROSS_PARAMS(PARAM_FIELD)
};
struct ff_params {
    FF_PARAMS(PARAM_FIELD)
};
struct enc_params {
    struct self_params self;
    struct ff_params ff;
};
struct dec_params {
    struct self_params self; /* one of these two; the other's views are absent */
    struct ssru_params ssru;
    struct cross_params cross;
    struct ff_params ff;
};
struct params {
    ROOT_PARAMS(PARAM_FIELD)
    struct enc_params *enc; /* [n_layer_enc] */
    struct dec_params *dec; /* [n_layer_dec] */
};
#undef PARAM_FIELD

/* One row of the table. Tensors begin at multiples of PARAM_ALIGN elements; the gaps stay zero. */
enum { PARAM_ALIGN = 32 };
struct param {
    char name[48]; /* "enc.0.self.w_qkv" */
    int rows, cols, fan_out;
    enum init init;
    size_t offset; /* elements from the start of the flat buffer */
};

struct param_table {
    struct param *param;
    int n_param;
    size_t n_elem;  /* length of the flat buffer, gaps included */
    size_t n_value; /* parameters proper */
};

void param_table_init(struct param_table *table, const struct config *config); /* checked config */
void param_table_release(struct param_table *table);
const struct param *param_table_find(const struct param_table *table, const char *name);

/* A weight of products or a table of embeddings, which may be tiled (tile.h); all else stays
 * plain. */
int param_is_matrix(const struct param *param);

/* Views of every parameter in the flat buffer `base` of the given type. */
void params_init(struct params *params, const struct config *config, void *base, enum dtype type);

/* The same from one view per row of the table, wherever each of them is. */
void params_view(struct params *params, const struct config *config, const struct mat *view);
void params_release(struct params *params);

/* Initial values into host memory [n_elem]: each tensor draws from its own stream of the seed. */
void params_draw(float *flat, const struct param_table *table, uint64_t seed);

#endif
