/* transformer.c — Figure 1: embeddings, N encoder layers, N decoder layers, output; and the way
 * back.
 *
 * Straight-line code in the paper's order: read it beside the figure. Sub-layers are in block.c,
 * ops of backend/ops.h. The backward pass is the forward pass read from the bottom up. */
#include "model/transformer.h"

#include "backend/backend.h"
#include "model/block.h"
#include "model/view.h"

/* ---- forward --------------------------------------------------------------------------------- */

struct mat transformer_memory(const struct acts *a) {
    return enc_at(a, a->model->config.n_layer_enc - 1)->ff.join.y;
}

struct mat transformer_output(const struct acts *a) {
    return dec_at(a, a->model->config.n_layer_dec - 1)->ff.join.y;
}

void transformer_encode_layer(const struct pass *p, int l) {
    const struct acts *acts = p->acts;
    const struct config *c = &p->model->config;
    const struct params *w = &p->model->w;
    const struct enc_params *layer = &w->enc[l];
    const struct enc_acts *a = enc_at(acts, l);
    uint32_t site = site_at(SITE_ENC, l, 0);
    struct flow flow = l ? join_flow(p, &enc_at(acts, l - 1)->ff.join)
                         : bottom_fwd(p, &acts->src, enc_first_norm(w));
    self_fwd(p, &acts->src,
             &(struct self_layer){.w = &layer->self,
                                  .a = &a->self,
                                  .x = flow.in,
                                  .probs = view_at(p->view, VIEW_ENC, l),
                                  .site = site});
    flow = join_fwd(p, &a->self.join, flow, enc_self_norm(w, c, l), site + SITE_SELF);
    ff_fwd(p, &(struct ff_layer){.w = &layer->ff, .a = &a->ff, .x = flow.in, .site = site});
    join_fwd(p, &a->ff.join, flow, enc_ff_norm(w, c, l), site + SITE_FF);
}

void transformer_encode(const struct pass *p) {
    for (int l = 0; l < p->model->config.n_layer_enc; l++) transformer_encode_layer(p, l);
}

/* What looks back in layer l of the decoder, as a sub-layer between x and the join. */
static struct self_layer dec_self(const struct pass *p, int l, struct mat x) {
    return (struct self_layer){.w = &p->model->w.dec[l].self,
                               .g = p->grads ? &p->grads->dec[l].self : NULL,
                               .a = &dec_at(p->acts, l)->self,
                               .x = x,
                               .probs = view_at(p->view, VIEW_DEC, l),
                               .site = site_at(SITE_DEC, l, 0)};
}
static struct ssru_layer dec_ssru(const struct pass *p, int l, struct mat x) {
    const struct dec_acts *a = dec_at(p->acts, l);
    return (struct ssru_layer){.w = &p->model->w.dec[l].ssru,
                               .g = p->grads ? &p->grads->dec[l].ssru : NULL,
                               .a = &a->ssru,
                               .x = x,
                               .s = a->self.join.s};
}

static void back_fwd(const struct pass *p, int l, struct mat x) {
    if (p->model->config.decoder == DECODER_SSRU) {
        struct ssru_layer layer = dec_ssru(p, l, x);
        ssru_layer_fwd(p, &p->acts->tgt, &layer);
    } else {
        struct self_layer layer = dec_self(p, l, x);
        self_fwd(p, &p->acts->tgt, &layer);
    }
}

static void back_bwd(const struct pass *p, int l, struct mat x) {
    if (p->model->config.decoder == DECODER_SSRU) {
        struct ssru_layer layer = dec_ssru(p, l, x);
        ssru_layer_bwd(p, &p->acts->tgt, &layer);
    } else {
        struct self_layer layer = dec_self(p, l, x);
        self_bwd(p, &p->acts->tgt, &layer);
    }
}

static void decoder_fwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &p->model->config;
    const struct params *w = &p->model->w;
    struct mat memory = transformer_memory(acts);
    struct flow flow = bottom_fwd(p, &acts->tgt, dec_first_norm(w, c));
    for (int l = 0; l < c->n_layer_dec; l++) {
        const struct dec_params *layer = &w->dec[l];
        const struct dec_acts *a = dec_at(acts, l);
        uint32_t site = site_at(SITE_DEC, l, 0);
        back_fwd(p, l, flow.in);
        flow = join_fwd(p, &a->self.join, flow, dec_self_norm(w, c, l), site + SITE_SELF);
        cross_fwd(p, &(struct cross_layer){.w = &layer->cross,
                                           .a = &a->cross,
                                           .x = flow.in,
                                           .memory = memory,
                                           .probs = view_at(p->view, VIEW_CROSS, l),
                                           .site = site});
        flow = join_fwd(p, &a->cross.join, flow, dec_cross_norm(w, c, l), site + SITE_CROSS);
        ff_fwd(p, &(struct ff_layer){.w = &layer->ff, .a = &a->ff, .x = flow.in, .site = site});
        flow = join_fwd(p, &a->ff.join, flow, dec_ff_norm(w, c, l), site + SITE_FF);
    }
}

void transformer_fwd(const struct pass *p) {
    transformer_encode(p);
    decoder_fwd(p);
}

void transformer_logits(const struct pass *p, struct mat logits) {
    const struct params *w = &p->model->w;
    linear_fwd(p->model->be,
               &(struct linear_args){
                   .y = logits, .x = transformer_output(p->acts), .w = w->out, .b = w->out_bias});
}

/* ---- backward -------------------------------------------------------------------------------- */

void transformer_loss(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct model *m = p->model;
    backend_zero(m->be, acts->totals.data, acts_totals_size(acts));
    struct xent_args loss = {.x = transformer_output(acts),
                             .w = m->w.out,
                             .b = m->w.out_bias,
                             .target = acts->target,
                             .smoothing = m->config.label_smoothing,
                             .grad_scale = p->grad_scale,
                             .totals = acts->totals,
                             .row_nll = acts->row_nll};
    if (p->grads) {
        loss.dx = acts->tgt.d_in;
        loss.dw = p->grads->out;
        loss.db = p->grads->out_bias;
    }
    xent(m->be, &loss);
    if (acts->n_guided && !p->grads) cross_guide(p, &dec_at(acts, m->guided.layer - 1)->cross);
}

/* Said after a join of the sub-layer above it: in pre-norm the join's LayerNorm is that one's. */
static void final_from(const struct pass *p, struct mat first) {
    if (p->final) p->final(p->final_ctx, first.data);
}

/* Where the gradients of a layer of the decoder begin. */
static struct mat dec_begin(const struct pass *p, int l) {
    const struct dec_params *d = &p->grads->dec[l];
    return p->model->config.decoder == DECODER_SSRU ? d->ssru.w : d->self.w_qkv;
}

static void decoder_bwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &p->model->config;
    const struct params *w = &p->model->w, *g = p->grads;
    const struct side *side = &acts->tgt;
    struct mat memory = transformer_memory(acts);
    int guided = p->model->guided.layer;
    for (int l = c->n_layer_dec - 1; l >= 0; l--) {
        const struct dec_params *layer = &w->dec[l], *d = &g->dec[l];
        const struct dec_acts *a = dec_at(acts, l);
        int top = l == c->n_layer_dec - 1;
        uint32_t site = site_at(SITE_DEC, l, 0);
        struct mat in = l ? dec_at(acts, l - 1)->ff.join.y : bottom_output(p, side);
        join_bwd(p, side,
                 &(struct join_back){.join = &a->ff.join,
                                     .norm = dec_ff_norm(w, c, l),
                                     .d_norm = dec_ff_norm(g, c, l),
                                     .d_bias = d->ff.b_2,
                                     .top = top,
                                     .site = site + SITE_FF});
        if (!top) final_from(p, dec_begin(p, l + 1));
        ff_bwd(p, side,
               &(struct ff_layer){
                   .w = &layer->ff, .g = &d->ff, .a = &a->ff, .x = a->cross.join.y, .site = site});
        join_bwd(p, side,
                 &(struct join_back){.join = &a->cross.join,
                                     .norm = dec_cross_norm(w, c, l),
                                     .d_norm = dec_cross_norm(g, c, l),
                                     .d_bias = d->cross.b_o,
                                     .site = site + SITE_CROSS});
        final_from(p, d->ff.w_1);
        cross_bwd(p, &(struct cross_layer){.w = &layer->cross,
                                           .g = &d->cross,
                                           .a = &a->cross,
                                           .x = a->self.join.y,
                                           .memory = memory,
                                           .memory_add = !top,
                                           .guided = acts->n_guided && l + 1 == guided,
                                           .site = site});
        join_bwd(p, side,
                 &(struct join_back){.join = &a->self.join,
                                     .norm = dec_self_norm(w, c, l),
                                     .d_norm = dec_self_norm(g, c, l),
                                     .d_bias = d->self.b_o,
                                     .site = site + SITE_SELF});
        final_from(p, d->cross.w_q);
        back_bwd(p, l, in);
    }
    bottom_bwd(p, side, dec_first_norm(w, c), dec_first_norm(g, c));
    final_from(p, dec_begin(p, 0));
}

/* Begins with the gradient of the encoder's output, which the decoder left in src.d_in. */
static void encoder_bwd(const struct pass *p) {
    const struct acts *acts = p->acts;
    const struct config *c = &p->model->config;
    const struct params *w = &p->model->w, *g = p->grads;
    const struct side *side = &acts->src;
    for (int l = c->n_layer_enc - 1; l >= 0; l--) {
        const struct enc_params *layer = &w->enc[l], *d = &g->enc[l];
        const struct enc_acts *a = enc_at(acts, l);
        int top = l == c->n_layer_enc - 1;
        uint32_t site = site_at(SITE_ENC, l, 0);
        struct mat in = l ? enc_at(acts, l - 1)->ff.join.y : bottom_output(p, side);
        join_bwd(p, side,
                 &(struct join_back){.join = &a->ff.join,
                                     .norm = enc_ff_norm(w, c, l),
                                     .d_norm = enc_ff_norm(g, c, l),
                                     .d_bias = d->ff.b_2,
                                     .top = top,
                                     .site = site + SITE_FF});
        if (!top) final_from(p, g->enc[l + 1].self.w_qkv);
        ff_bwd(p, side,
               &(struct ff_layer){
                   .w = &layer->ff, .g = &d->ff, .a = &a->ff, .x = a->self.join.y, .site = site});
        join_bwd(p, side,
                 &(struct join_back){.join = &a->self.join,
                                     .norm = enc_self_norm(w, c, l),
                                     .d_norm = enc_self_norm(g, c, l),
                                     .d_bias = d->self.b_o,
                                     .site = site + SITE_SELF});
        final_from(p, d->ff.w_1);
        self_bwd(p, side,
                 &(struct self_layer){
                     .w = &layer->self, .g = &d->self, .a = &a->self, .x = in, .site = site});
    }
    bottom_bwd(p, side, enc_first_norm(w), enc_first_norm(g));
}

void transformer_bwd(const struct pass *p) {
    decoder_bwd(p);
    encoder_bwd(p);
}
