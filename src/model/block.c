/* block.c — sub-layers as chains of ops; see block.h for the scheme, docs/math/ for the ops. */
#include "model/block.h"

#include <math.h>

struct dropout pass_drop(const struct pass *p, float rate, uint32_t site) {
    if (!p->training) return (struct dropout){0};
    return (struct dropout){.p = rate, .site = site, .step = p->step, .seed = p->seed};
}

static struct backend *be_of(const struct pass *p) { return p->model->be; }
static const struct config *config_of(const struct pass *p) { return &p->model->config; }

/* PAPER: 3.2.1, equation 1. */
float attention_scale(const struct config *c) {
    return c->score_scale == SCORE_SCALE_ONE ? 1 : (float)(1.0 / sqrt((double)c->d_k));
}

/* ---- self ------------------------------------------------------------------------------------ */

/* The attention of a self sub-layer over q|k|v stored side by side. */
static struct attention_args self_attention(const struct pass *p, const struct side *side,
                                            const struct self_layer *l) {
    const struct config *c = config_of(p);
    const struct self_acts *a = l->a;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    return (struct attention_args){
        .o = a->att,
        .q = mat_cols(a->qkv, 0, qk),
        .k = mat_cols(a->qkv, qk, qk),
        .v = mat_cols(a->qkv, 2 * qk, vv),
        .lse = a->lse,
        .rq = side->rows,
        .rk = side->rows,
        .n_head = c->n_head,
        .causal = side->is_tgt && c->mask == MASK_CAUSAL,
        .window = c->window,
        .scale = attention_scale(c),
        .drop = pass_drop(p, c->attention_dropout, l->site + SITE_SELF_ATT),
    };
}

void self_fwd(const struct pass *p, const struct side *side, const struct self_layer *l) {
    struct backend *be = be_of(p);
    const struct self_params *w = l->w;
    const struct self_acts *a = l->a;
    struct attention_args att = self_attention(p, side, l);
    att.probs = l->probs;
    linear_fwd(be, &(struct linear_args){.y = a->qkv, .x = l->x, .w = w->w_qkv, .b = w->b_qkv});
    attention_fwd(be, &att);
    linear_fwd(be, &(struct linear_args){.y = a->join.s, .x = a->att, .w = w->w_o, .b = w->b_o});
}

void self_bwd(const struct pass *p, const struct side *side, const struct self_layer *l) {
    struct backend *be = be_of(p);
    const struct config *c = config_of(p);
    const struct self_params *w = l->w, *g = l->g;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    struct mat d_qkv = mat_cols(side->d_wide, 0, 2 * qk + vv);
    struct attention_args att = self_attention(p, side, l);
    att.dout = side->d_att;
    att.dq = mat_cols(d_qkv, 0, qk);
    att.dk = mat_cols(d_qkv, qk, qk);
    att.dv = mat_cols(d_qkv, 2 * qk, vv);
    linear_bwd(
        be, &(struct linear_args){
                .x = l->a->att, .w = w->w_o, .dy = side->d_out, .dx = side->d_att, .dw = g->w_o});
    attention_bwd(be, &att);
    linear_bwd(be, &(struct linear_args){.x = l->x,
                                         .w = w->w_qkv,
                                         .dy = d_qkv,
                                         .dx = side->d_in,
                                         .dx_add = c->norm == NORM_POST,
                                         .dw = g->w_qkv,
                                         .db = g->b_qkv});
}

/* ---- ssru ------------------------------------------------------------------------------------ */

void ssru_layer_fwd(const struct pass *p, const struct side *side, const struct ssru_layer *l) {
    struct backend *be = be_of(p);
    const struct ssru_params *w = l->w;
    const struct ssru_acts *a = l->a;
    linear_fwd(be, &(struct linear_args){.y = a->g, .x = l->x, .w = w->w_f, .b = w->b_f});
    linear_fwd(be, &(struct linear_args){.y = a->x, .x = l->x, .w = w->w});
    ssru_fwd(be,
             &(struct ssru_args){.o = l->s, .g = a->g, .x = a->x, .c = a->c, .rows = side->rows});
}

void ssru_layer_bwd(const struct pass *p, const struct side *side, const struct ssru_layer *l) {
    struct backend *be = be_of(p);
    const struct ssru_params *w = l->w, *g = l->g;
    const struct ssru_acts *a = l->a;
    int d = config_of(p)->d_model;
    struct mat d_g = mat_cols(side->d_wide, 0, d), d_x = mat_cols(side->d_wide, d, d);
    ssru_bwd(be, &(struct ssru_args){.g = a->g,
                                     .x = a->x,
                                     .c = a->c,
                                     .rows = side->rows,
                                     .dout = side->d_out,
                                     .dg = d_g,
                                     .dx = d_x});
    linear_bwd(be, &(struct linear_args){.x = l->x,
                                         .w = w->w_f,
                                         .dy = d_g,
                                         .dx = side->d_in,
                                         .dx_add = config_of(p)->norm == NORM_POST,
                                         .dw = g->w_f,
                                         .db = g->b_f});
    linear_bwd(be, &(struct linear_args){
                       .x = l->x, .w = w->w, .dy = d_x, .dx = side->d_in, .dx_add = 1, .dw = g->w});
}

/* ---- cross ----------------------------------------------------------------------------------- */

static struct attention_args cross_attention(const struct pass *p, const struct cross_layer *l) {
    const struct config *c = config_of(p);
    const struct cross_acts *a = l->a;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    return (struct attention_args){
        .o = a->att,
        .q = a->q,
        .k = mat_cols(a->kv, 0, qk),
        .v = mat_cols(a->kv, qk, vv),
        .lse = a->lse,
        .rq = p->acts->tgt.rows,
        .rk = p->acts->src.rows,
        .n_head = c->n_head,
        .scale = attention_scale(c),
        .drop = pass_drop(p, c->attention_dropout, l->site + SITE_CROSS_ATT),
    };
}

void cross_fwd(const struct pass *p, const struct cross_layer *l) {
    struct backend *be = be_of(p);
    const struct cross_params *w = l->w;
    const struct cross_acts *a = l->a;
    struct attention_args att = cross_attention(p, l);
    att.probs = l->probs;
    linear_fwd(be, &(struct linear_args){.y = a->q, .x = l->x, .w = w->w_q, .b = w->b_q});
    linear_fwd(be, &(struct linear_args){.y = a->kv, .x = l->memory, .w = w->w_kv, .b = w->b_kv});
    attention_fwd(be, &att);
    linear_fwd(be, &(struct linear_args){.y = a->join.s, .x = a->att, .w = w->w_o, .b = w->b_o});
}

/* The columns of the supervised head in a matrix of all heads. */
static struct mat guided_cols(const struct pass *p, struct mat m) {
    int d_k = config_of(p)->d_k;
    return mat_cols(m, (p->model->guided.head - 1) * d_k, d_k);
}

static struct guide_args guided_head(const struct pass *p, const struct cross_acts *a) {
    const struct acts *acts = p->acts;
    return (struct guide_args){.q = guided_cols(p, a->q),
                               .k = guided_cols(p, a->kv),
                               .rq = acts->tgt.rows,
                               .rk = acts->src.rows,
                               .span = acts->span,
                               .range = acts->range,
                               .scale = attention_scale(config_of(p)),
                               .totals = acts->guided_totals};
}

void cross_guide(const struct pass *p, const struct cross_acts *a) {
    struct guide_args head = guided_head(p, a);
    guide(be_of(p), &head);
}

void cross_bwd(const struct pass *p, const struct cross_layer *l) {
    struct backend *be = be_of(p);
    const struct config *c = config_of(p);
    const struct cross_params *w = l->w, *g = l->g;
    const struct side *src = &p->acts->src, *tgt = &p->acts->tgt;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    struct mat d_q = mat_cols(tgt->d_wide, 0, qk), d_kv = mat_cols(src->d_wide, 0, qk + vv);
    struct attention_args att = cross_attention(p, l);
    att.dout = tgt->d_att;
    att.dq = d_q;
    att.dk = mat_cols(d_kv, 0, qk);
    att.dv = mat_cols(d_kv, qk, vv);
    linear_bwd(be,
               &(struct linear_args){
                   .x = l->a->att, .w = w->w_o, .dy = tgt->d_out, .dx = tgt->d_att, .dw = g->w_o});
    attention_bwd(be, &att);
    if (l->guided) {
        struct guide_args head = guided_head(p, l->a);
        head.grad_scale = p->grad_scale * p->model->guided.weight;
        head.dq = guided_cols(p, att.dq);
        head.dk = guided_cols(p, att.dk);
        guide(be, &head);
    }
    linear_bwd(be, &(struct linear_args){.x = l->memory,
                                         .w = w->w_kv,
                                         .dy = d_kv,
                                         .dx = src->d_in,
                                         .dx_add = l->memory_add,
                                         .dw = g->w_kv,
                                         .db = g->b_kv});
    linear_bwd(be, &(struct linear_args){.x = l->x,
                                         .w = w->w_q,
                                         .dy = d_q,
                                         .dx = tgt->d_in,
                                         .dx_add = c->norm == NORM_POST,
                                         .dw = g->w_q,
                                         .db = g->b_q});
}

/* ---- ff -------------------------------------------------------------------------------------- */

/* The first of the two products, with the activation; PAPER: 3.3, equation 2. */
static struct linear_args ff_inner(const struct pass *p, const struct ff_layer *l) {
    const struct config *c = config_of(p);
    return (struct linear_args){.y = l->a->h,
                                .z = l->a->z,
                                .x = l->x,
                                .w = l->w->w_1,
                                .b = l->w->b_1,
                                .act = (enum act)c->activation,
                                .drop = pass_drop(p, c->activation_dropout, l->site + SITE_FF_ACT)};
}

void ff_fwd(const struct pass *p, const struct ff_layer *l) {
    const struct ff_params *w = l->w;
    const struct ff_acts *a = l->a;
    struct linear_args inner = ff_inner(p, l);
    linear_fwd(be_of(p), &inner);
    linear_fwd(be_of(p),
               &(struct linear_args){.y = a->join.s, .x = a->h, .w = w->w_2, .b = w->b_2});
}

void ff_bwd(const struct pass *p, const struct side *side, const struct ff_layer *l) {
    struct mat d_h = mat_cols(side->d_wide, 0, l->a->h.cols);
    struct linear_args inner = ff_inner(p, l);
    struct linear_args outer = {
        .x = l->a->h, .w = l->w->w_2, .dy = side->d_out, .dx = d_h, .dw = l->g->w_2};
    inner.db = l->g->b_1;
    if (inner.act == ACT_RELU) { /* a device may do both in one pass */
        outer.x_act = inner.act;
        outer.x_p = inner.drop.p;
        outer.dx_sum = inner.db;
        inner.act = ACT_NONE;
        inner.drop = (struct dropout){0};
        inner.db = (struct mat){0};
    }
    linear_bwd(be_of(p), &outer);
    inner.dy = d_h;
    inner.dx = side->d_in;
    inner.dx_add = config_of(p)->norm == NORM_POST;
    inner.dw = l->g->w_1;
    linear_bwd(be_of(p), &inner);
}

/* ---- join ------------------------------------------------------------------------------------ */

struct flow join_flow(const struct pass *p, const struct join *j) {
    return (struct flow){.in = j->y, .res = config_of(p)->norm == NORM_PRE ? j->s : j->y};
}

struct flow join_fwd(const struct pass *p, const struct join *j, struct flow flow,
                     struct norm_pair norm, uint32_t site) {
    const struct config *c = config_of(p);
    add_norm_fwd(be_of(p), &(struct add_norm_args){.y = j->y,
                                                   .r = j->s,
                                                   .x = flow.res,
                                                   .s = j->s,
                                                   .gamma = norm.gamma,
                                                   .beta = norm.beta,
                                                   .stats = j->stats,
                                                   .eps = c->norm_eps,
                                                   .drop = pass_drop(p, c->dropout, site)});
    return join_flow(p, j);
}

void join_bwd(const struct pass *p, const struct side *side, const struct join_back *back) {
    const struct config *c = config_of(p);
    int pre = c->norm == NORM_PRE;
    add_norm_bwd(be_of(p),
                 &(struct add_norm_args){.r = back->join->s,
                                         .gamma = back->norm.gamma,
                                         .stats = back->join->stats,
                                         .eps = c->norm_eps,
                                         .drop = pass_drop(p, c->dropout, back->site),
                                         .dy = side->d_in,
                                         .dr = pre && !back->top ? side->d_res : (struct mat){0},
                                         .dx = pre ? side->d_res : side->d_in,
                                         .ds = side->d_out,
                                         .dgamma = back->d_norm.gamma,
                                         .dbeta = back->d_norm.beta,
                                         .dbias = back->d_bias});
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* The LayerNorm that closes each join: the sub-layer's own in post-norm, the next one's in
 * pre-norm. */
#define NORM_OF(part) ((struct norm_pair){(part).gamma, (part).beta})

struct norm_pair enc_self_norm(const struct params *p, const struct config *c, int l) {
    return c->norm == NORM_POST ? NORM_OF(p->enc[l].self) : NORM_OF(p->enc[l].ff);
}

struct norm_pair enc_ff_norm(const struct params *p, const struct config *c, int l) {
    if (c->norm == NORM_POST) return NORM_OF(p->enc[l].ff);
    if (l + 1 < c->n_layer_enc) return NORM_OF(p->enc[l + 1].self);
    return (struct norm_pair){p->enc_norm_gamma, p->enc_norm_beta};
}

/* Of what looks back in a decoder layer. */
static struct norm_pair dec_own_norm(const struct params *p, const struct config *c, int l) {
    return c->decoder == DECODER_SSRU ? NORM_OF(p->dec[l].ssru) : NORM_OF(p->dec[l].self);
}

struct norm_pair dec_self_norm(const struct params *p, const struct config *c, int l) {
    return c->norm == NORM_POST ? dec_own_norm(p, c, l) : NORM_OF(p->dec[l].cross);
}

struct norm_pair dec_cross_norm(const struct params *p, const struct config *c, int l) {
    return c->norm == NORM_POST ? NORM_OF(p->dec[l].cross) : NORM_OF(p->dec[l].ff);
}

struct norm_pair dec_ff_norm(const struct params *p, const struct config *c, int l) {
    if (c->norm == NORM_POST) return NORM_OF(p->dec[l].ff);
    if (l + 1 < c->n_layer_dec) return dec_own_norm(p, c, l + 1);
    return (struct norm_pair){p->dec_norm_gamma, p->dec_norm_beta};
}

static struct norm_pair embed_norm(const struct params *p, const struct side *side) {
    return side->is_tgt ? (struct norm_pair){p->tgt_embed_norm_gamma, p->tgt_embed_norm_beta}
                        : (struct norm_pair){p->src_embed_norm_gamma, p->src_embed_norm_beta};
}

struct norm_pair enc_first_norm(const struct params *p) {
    return NORM_OF(p->enc[0].self);
}
struct norm_pair dec_first_norm(const struct params *p, const struct config *c) {
    return dec_own_norm(p, c, 0);
}

/* ---- bottom ---------------------------------------------------------------------------------- */

/* What embedding a side needs, in both directions. */
static struct embed_args embedding(const struct pass *p, const struct side *side) {
    const struct model *m = p->model;
    return (struct embed_args){
        .y = m->config.embed_norm ? side->e : side->x,
        .table = side->is_tgt ? m->w.tgt_embed : m->w.src_embed,
        .pos_table = side->is_tgt ? m->tgt_pos : m->src_pos,
        .ids = side->ids,
        .pos = side->pos,
        .scale = sqrtf((float)m->config.d_model), /* PAPER: 3.4 */
        .drop = pass_drop(p, m->config.dropout, side->is_tgt ? SITE_EMBED_TGT : SITE_EMBED_SRC),
    };
}

static struct add_norm_args bottom_norm(const struct pass *p, const struct side *side,
                                        struct norm_pair norm) {
    return (struct add_norm_args){.y = side->bottom.y,
                                  .x = side->x,
                                  .gamma = norm.gamma,
                                  .beta = norm.beta,
                                  .stats = side->bottom.stats,
                                  .eps = p->model->config.norm_eps};
}

/* x = LayerNorm(e), in both directions. */
static struct add_norm_args embedding_norm(const struct pass *p, const struct side *side) {
    struct norm_pair norm = embed_norm(&p->model->w, side);
    return (struct add_norm_args){.y = side->x,
                                  .x = side->e,
                                  .gamma = norm.gamma,
                                  .beta = norm.beta,
                                  .stats = side->e_stats,
                                  .eps = p->model->config.norm_eps};
}

/* Embedding plus position, and its norm; pre-norm also normalises for the first sub-layer. */
struct flow bottom_fwd(const struct pass *p, const struct side *side, struct norm_pair first) {
    struct backend *be = p->model->be;
    struct embed_args embed = embedding(p, side);
    embed_fwd(be, &embed);
    if (p->model->config.embed_norm) {
        struct add_norm_args norm = embedding_norm(p, side);
        add_norm_fwd(be, &norm);
    }
    if (p->model->config.norm == NORM_POST) return (struct flow){side->x, side->x};
    struct add_norm_args norm = bottom_norm(p, side, first);
    add_norm_fwd(be, &norm);
    return (struct flow){side->bottom.y, side->x};
}

void bottom_bwd(const struct pass *p, const struct side *side, struct norm_pair first,
                struct norm_pair d_first) {
    const struct model *m = p->model;
    if (m->config.norm == NORM_PRE) {
        struct add_norm_args norm = bottom_norm(p, side, first);
        norm.dy = norm.dx = side->d_in;
        norm.dr = side->d_res;
        norm.dgamma = d_first.gamma;
        norm.dbeta = d_first.beta;
        add_norm_bwd(m->be, &norm);
    }
    if (m->config.embed_norm) {
        struct add_norm_args norm = embedding_norm(p, side);
        struct norm_pair d_norm = embed_norm(p->grads, side);
        norm.dy = norm.dx = side->d_in;
        norm.dgamma = d_norm.gamma;
        norm.dbeta = d_norm.beta;
        add_norm_bwd(m->be, &norm);
    }
    struct embed_args embed = embedding(p, side);
    embed.dy = side->d_in;
    embed.dtable = side->is_tgt ? p->grads->tgt_embed : p->grads->src_embed;
    embed.dpos = side->is_tgt ? p->grads->tgt_pos : p->grads->src_pos;
    embed_bwd(m->be, &embed);
}

/* The first sub-layer's input: what bottom_fwd put into flow.in. */
struct mat bottom_output(const struct pass *p, const struct side *side) {
    return p->model->config.norm == NORM_PRE ? side->bottom.y : side->x;
}
