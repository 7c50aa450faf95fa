/* block.h — the sub-layers of Figure 1, forward and backward.
 *
 * A stack is a chain of sub-layers (self-attention or an SSRU, cross-attention, feed-forward), each
 * closed by a join:
 *
 *     post-norm (the paper):  r = x + drop(f(x));  y = LN(r);  next x = y
 *     pre-norm:               r = x + drop(f(n));  n' = LN'(r);  next x = r, next n = n'
 *
 * Both are the same ops on the same buffers. What differs is which of r and y carries the residual
 * on, and whose LayerNorm closes the join: the sub-layer's own (post) or the next one's (pre).
 * `struct flow` says where the chain stands.
 *
 * Backward, per side (see struct side): the gradient reaching a sub-layer's output y is in d_in;
 * join_bwd turns it into d_out, the gradient of f's output, and the gradient of the residual
 * stream; the sub-layer turns d_out into the gradient of its input, again in d_in. Post-norm adds
 * the two there. */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "backend/mat.h"
#include "backend/ops.h"
#include "model/acts.h"
#include "model/transformer.h"

/* Where a chain of sub-layers stands: the next sub-layer's input, and the residual stream. */
struct flow {
    struct mat in, res;
};

/* The LayerNorm that closes a join; over weights and over gradients alike. */
struct norm_pair {
    struct mat gamma, beta;
};

/* Dropout sites: (stack, layer, kind), below 1 << 16 so that attention can add its head above. */
enum site_kind { SITE_SELF, SITE_SELF_ATT, SITE_CROSS, SITE_CROSS_ATT, SITE_FF, SITE_FF_ACT };
enum { SITE_ENC = 0, SITE_DEC = 1 << 14, SITE_EMBED_SRC = 1 << 15, SITE_EMBED_TGT };
static inline uint32_t site_at(uint32_t stack, int layer, enum site_kind kind) {
    return stack + 16u * (uint32_t)layer + (uint32_t)kind;
}

float attention_scale(const struct config *c); /* 1 / sqrt(d_k), or 1 */
struct dropout pass_drop(const struct pass *p, float rate, uint32_t site);

/* A sub-layer where it stands, in both directions: weights, their gradients (backward only), what
 * it keeps, its input x, and the layer's first site, site_at(stack, layer, 0). probs: where the
 * attention probabilities are kept, normally absent. */
struct self_layer {
    const struct self_params *w, *g;
    const struct self_acts *a;
    struct mat x, probs;
    uint32_t site;
};

/* s: where its output goes, the join's. */
struct ssru_layer {
    const struct ssru_params *w, *g;
    const struct ssru_acts *a;
    struct mat x, s;
};

/* memory: the encoder's output; its gradient is in the source side's d_in: added to, or written by
 * the first caller of the backward pass (memory_add == 0). */
struct cross_layer {
    const struct cross_params *w, *g;
    const struct cross_acts *a;
    struct mat x, memory, probs;
    int memory_add;
    int guided; /* this layer learns from links; backward only */
    uint32_t site;
};

struct ff_layer {
    const struct ff_params *w, *g;
    const struct ff_acts *a;
    struct mat x;
    uint32_t site;
};

void self_fwd(const struct pass *p, const struct side *side, const struct self_layer *l);
void self_bwd(const struct pass *p, const struct side *side, const struct self_layer *l);
void ssru_layer_fwd(const struct pass *p, const struct side *side, const struct ssru_layer *l);
void ssru_layer_bwd(const struct pass *p, const struct side *side, const struct ssru_layer *l);
void cross_fwd(const struct pass *p, const struct cross_layer *l);
void cross_bwd(const struct pass *p, const struct cross_layer *l);
/* The loss of the supervised head of a layer, added to acts->guided_totals; no gradient. */
void cross_guide(const struct pass *p, const struct cross_acts *a);
void ff_fwd(const struct pass *p, const struct ff_layer *l);
void ff_bwd(const struct pass *p, const struct side *side, const struct ff_layer *l);

/* The backward pass through a join. site: of its dropout, the same as for join_fwd. top: the last
 * join of a stack, whose r nobody else reads. d_bias: the gradient of the bias of the sub-layer's
 * last product, which the join sums since d_out passes through it. */
struct join_back {
    const struct join *join;
    struct norm_pair norm, d_norm;
    struct mat d_bias;
    int top;
    uint32_t site;
};

struct flow join_fwd(const struct pass *p, const struct join *j, struct flow flow,
                     struct norm_pair norm, uint32_t site);
struct flow join_flow(const struct pass *p, const struct join *j); /* where join_fwd left it */
void join_bwd(const struct pass *p, const struct side *side, const struct join_back *back);

/* Which LayerNorm closes a join: the sub-layer's own in post-norm, the next one's in pre-norm.
 * *_first_norm opens a pre-norm stack. Over the weights or over the gradients, as `params` is. */
struct norm_pair enc_first_norm(const struct params *params);
struct norm_pair enc_self_norm(const struct params *params, const struct config *c, int layer);
struct norm_pair enc_ff_norm(const struct params *params, const struct config *c, int layer);
struct norm_pair dec_first_norm(const struct params *params, const struct config *c);
struct norm_pair dec_self_norm(const struct params *params, const struct config *c, int layer);
struct norm_pair dec_cross_norm(const struct params *params, const struct config *c, int layer);
struct norm_pair dec_ff_norm(const struct params *params, const struct config *c, int layer);

/* The bottom of a stack: embedding plus position, with embed_norm its LayerNorm (dropout comes
 * before it, in the embedding); pre-norm also normalises for the first sub-layer.
 * bottom_output is that sub-layer's input. */
struct flow bottom_fwd(const struct pass *p, const struct side *side, struct norm_pair first);
void bottom_bwd(const struct pass *p, const struct side *side, struct norm_pair first,
                struct norm_pair d_first);
struct mat bottom_output(const struct pass *p, const struct side *side);

#endif
