/* transformer.c — Figure 1: embeddings, N encoder layers, N decoder layers, output; and the way back.
 *
 * Straight-line code in the paper's order: read it beside the figure. Sub-layers are in block.c, ops in
 * backend.h. The backward pass is the forward pass read from the bottom up. */
#include "model/transformer.h"

#include <math.h>

#include "model/block.h"

/* The LayerNorm that closes each join: the sub-layer's own in post-norm, the next one's in pre-norm. */
#define NORM_OF(part) ((struct norm_pair){(part).gamma, (part).beta})

static struct norm_pair enc_self_norm(const struct params *p, const struct config *c, int l) {
    return c->norm == NORM_POST ? NORM_OF(p->enc[l].self) : NORM_OF(p->enc[l].ff);
}

static struct norm_pair enc_ff_norm(const struct params *p, const struct config *c, int l) {
    if (c->norm == NORM_POST) return NORM_OF(p->enc[l].ff);
    if (l + 1 < c->n_layer_enc) return NORM_OF(p->enc[l + 1].self);
    return (struct norm_pair){p->enc_norm_gamma, p->enc_norm_beta};
}

static struct norm_pair dec_self_norm(const struct params *p, const struct config *c, int l) {
    return c->norm == NORM_POST ? NORM_OF(p->dec[l].self) : NORM_OF(p->dec[l].cross);
}

static struct norm_pair dec_cross_norm(const struct params *p, const struct config *c, int l) {
    return c->norm == NORM_POST ? NORM_OF(p->dec[l].cross) : NORM_OF(p->dec[l].ff);
}

static struct norm_pair dec_ff_norm(const struct params *p, const struct config *c, int l) {
    if (c->norm == NORM_POST) return NORM_OF(p->dec[l].ff);
    if (l + 1 < c->n_layer_dec) return NORM_OF(p->dec[l + 1].self);
    return (struct norm_pair){p->dec_norm_gamma, p->dec_norm_beta};
}

/* ---------------------------------------------------------------------------------- bottom ------- */

/* What embedding a side needs, in both directions. */
static struct embed_args embedding(const struct pass *p, const struct side *side) {
    const struct model *m = p->acts->model;
    int is_src = side == &p->acts->src;
    return (struct embed_args){
        .y = side->x,
        .table = is_src ? m->w.src_embed : m->w.tgt_embed,
        .pos_table = is_src ? m->src_pos : m->tgt_pos,
        .ids = side->ids,
        .pos = side->pos,
        .scale = sqrtf((float)m->config.d_model), /* PAPER: 3.4 */
        .drop = pass_drop(p, m->config.dropout, is_src ? SITE_EMBED_SRC : SITE_EMBED_TGT),
    };
}

static struct add_norm_args bottom_norm(const struct pass *p, const struct side *side,
                                        struct norm_pair norm) {
    return (struct add_norm_args){.y = side->bottom.y,
                                  .x = side->x,
                                  .gamma = norm.gamma,
                                  .beta = norm.beta,
                                  .stats = side->bottom.stats,
                                  .eps = p->acts->model->config.norm_eps};
}

/* Embedding plus position; pre-norm also normalises for the first sub-layer. */
static struct flow bottom_fwd(const struct pass *p, const struct side *side,
                              struct norm_pair first) {
    struct backend *be = p->acts->model->be;
    struct embed_args embed = embedding(p, side);
    embed_fwd(be, &embed);
    if (p->acts->model->config.norm == NORM_POST) return (struct flow){side->x, side->x};
    struct add_norm_args norm = bottom_norm(p, side, first);
    add_norm_fwd(be, &norm);
    return (struct flow){side->bottom.y, side->x};
}

static void bottom_bwd(const struct pass *p, const struct side *side, struct norm_pair first,
                       struct norm_pair d_first) {
    const struct model *m = p->acts->model;
    int is_src = side == &p->acts->src;
    if (m->config.norm == NORM_PRE) {
        struct add_norm_args norm = bottom_norm(p, side, first);
        norm.dy = norm.dx = side->d_in;
        norm.dr = side->d_res;
        norm.dgamma = d_first.gamma;
        norm.dbeta = d_first.beta;
        add_norm_bwd(m->be, &norm);
    }
    struct embed_args embed = embedding(p, side);
    embed.dy = side->d_in;
    embed.dtable = is_src ? p->grads->src_embed : p->grads->tgt_embed;
    embed.dpos = is_src ? p->grads->src_pos : p->grads->tgt_pos;
    embed_bwd(m->be, &embed);
}

/* The first sub-layer's input: what bottom_fwd put into flow.in. */
static struct mat bottom_output(const struct pass *p, const struct side *side) {
    return p->acts->model->config.norm == NORM_PRE ? side->bottom.y : side->x;
}

/* ---------------------------------------------------------------------------------- forward ------ */

struct mat transformer_memory(const struct acts *a) {
    return enc_at(a, a->model->config.n_layer_enc - 1)->ff.join.y;
}

struct mat transformer_output(const struct acts *a) {
    return dec_at(a, a->model->config.n_layer_dec - 1)->ff.join.y;
}

static void encoder_fwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &acts->model->config;
    const struct params *w = &acts->model->w;
    struct flow flow = bottom_fwd(p, &acts->src, NORM_OF(w->enc[0].self));
    for (int l = 0; l < c->n_layer_enc; l++) {
        const struct enc_params *layer = &w->enc[l];
        const struct enc_acts *a = enc_at(acts, l);
        uint32_t site = site_at(SITE_ENC, l, 0);
        self_fwd(p, &acts->src, &layer->self, &a->self, flow.in, site);
        flow = join_fwd(p, &a->self.join, flow, enc_self_norm(w, c, l), site + SITE_SELF);
        ff_fwd(p, &layer->ff, &a->ff, flow.in, site);
        flow = join_fwd(p, &a->ff.join, flow, enc_ff_norm(w, c, l), site + SITE_FF);
    }
}

static void decoder_fwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &acts->model->config;
    const struct params *w = &acts->model->w;
    struct mat memory = transformer_memory(acts);
    struct flow flow = bottom_fwd(p, &acts->tgt, NORM_OF(w->dec[0].self));
    for (int l = 0; l < c->n_layer_dec; l++) {
        const struct dec_params *layer = &w->dec[l];
        const struct dec_acts *a = dec_at(acts, l);
        uint32_t site = site_at(SITE_DEC, l, 0);
        self_fwd(p, &acts->tgt, &layer->self, &a->self, flow.in, site);
        flow = join_fwd(p, &a->self.join, flow, dec_self_norm(w, c, l), site + SITE_SELF);
        cross_fwd(p, &layer->cross, &a->cross, flow.in, memory, site);
        flow = join_fwd(p, &a->cross.join, flow, dec_cross_norm(w, c, l), site + SITE_CROSS);
        ff_fwd(p, &layer->ff, &a->ff, flow.in, site);
        flow = join_fwd(p, &a->ff.join, flow, dec_ff_norm(w, c, l), site + SITE_FF);
    }
}

void transformer_fwd(const struct pass *p) {
    encoder_fwd(p);
    decoder_fwd(p);
}

void transformer_logits(const struct pass *p, struct mat logits) {
    linear_fwd(p->acts->model->be, &(struct linear_args){.y = logits,
                                                         .x = transformer_output(p->acts),
                                                         .w = p->acts->model->w.out});
}

/* ---------------------------------------------------------------------------------- backward ----- */

void transformer_loss(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct model *m = acts->model;
    backend_zero(m->be, acts->totals.data, 3 * sizeof(double));
    struct xent_args loss = {.x = transformer_output(acts),
                             .w = m->w.out,
                             .target = acts->target,
                             .smoothing = m->config.label_smoothing,
                             .grad_scale = p->grad_scale,
                             .totals = acts->totals,
                             .row_nll = acts->row_nll};
    if (p->grads) {
        loss.dx = acts->tgt.d_in;
        loss.dw = p->grads->out;
    }
    xent(m->be, &loss);
}

static void decoder_bwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &acts->model->config;
    const struct params *w = &acts->model->w, *g = p->grads;
    const struct side *side = &acts->tgt;
    struct mat memory = transformer_memory(acts);
    for (int l = c->n_layer_dec - 1; l >= 0; l--) {
        const struct dec_acts *a = dec_at(acts, l);
        int top = l == c->n_layer_dec - 1;
        uint32_t site = site_at(SITE_DEC, l, 0);
        struct mat in = l ? dec_at(acts, l - 1)->ff.join.y : bottom_output(p, side);
        join_bwd(p, side, &a->ff.join, dec_ff_norm(w, c, l), dec_ff_norm(g, c, l), top,
                 site + SITE_FF);
        ff_bwd(p, side, &w->dec[l].ff, &g->dec[l].ff, &a->ff, a->cross.join.y, site);
        join_bwd(p, side, &a->cross.join, dec_cross_norm(w, c, l), dec_cross_norm(g, c, l), 0,
                 site + SITE_CROSS);
        cross_bwd(p, &w->dec[l].cross, &g->dec[l].cross, &a->cross, a->self.join.y, memory, !top,
                  site);
        join_bwd(p, side, &a->self.join, dec_self_norm(w, c, l), dec_self_norm(g, c, l), 0,
                 site + SITE_SELF);
        self_bwd(p, side, &w->dec[l].self, &g->dec[l].self, &a->self, in, site);
    }
    bottom_bwd(p, side, NORM_OF(w->dec[0].self), NORM_OF(g->dec[0].self));
}

/* Begins with the gradient of the encoder's output, which the decoder left in src.d_in. */
static void encoder_bwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &acts->model->config;
    const struct params *w = &acts->model->w, *g = p->grads;
    const struct side *side = &acts->src;
    for (int l = c->n_layer_enc - 1; l >= 0; l--) {
        const struct enc_acts *a = enc_at(acts, l);
        int top = l == c->n_layer_enc - 1;
        uint32_t site = site_at(SITE_ENC, l, 0);
        struct mat in = l ? enc_at(acts, l - 1)->ff.join.y : bottom_output(p, side);
        join_bwd(p, side, &a->ff.join, enc_ff_norm(w, c, l), enc_ff_norm(g, c, l), top,
                 site + SITE_FF);
        ff_bwd(p, side, &w->enc[l].ff, &g->enc[l].ff, &a->ff, a->self.join.y, site);
        join_bwd(p, side, &a->self.join, enc_self_norm(w, c, l), enc_self_norm(g, c, l), 0,
                 site + SITE_SELF);
        self_bwd(p, side, &w->enc[l].self, &g->enc[l].self, &a->self, in, site);
    }
    bottom_bwd(p, side, NORM_OF(w->enc[0].self), NORM_OF(g->enc[0].self));
}

void transformer_bwd(const struct pass *p) {
    decoder_bwd(p);
    encoder_bwd(p);
}
