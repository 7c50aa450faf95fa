/* acts.c — carving and loading; see acts.h. */
#include "model/acts.h"

#include <stdbool.h>

#include "backend/backend.h"
#include "base/num.h"
#include "model/transformer.h"

/* ---- carving --------------------------------------------------------------------------------- */

/* What the views of one pass over the arena are cut to. */
struct carve {
    struct arena *arena;
    const struct config *c;
    enum dtype type;
    int training;
};

static struct mat take_act(const struct carve *k, int rows, int cols) {
    return mat_take(k->arena, rows, cols, k->type);
}

static struct mat take_stat(const struct carve *k, int rows, int cols) {
    return mat_take(k->arena, rows, cols, dtype_wide(k->type));
}

static void carve_join(const struct carve *k, struct join *j, int n) {
    j->s = take_act(k, n, k->c->d_model);
    j->y = take_act(k, n, k->c->d_model);
    j->stats = take_stat(k, n, 2);
}

static void carve_self(const struct carve *k, struct self_acts *a, int n) {
    int qk = k->c->n_head * k->c->d_k, vv = k->c->n_head * k->c->d_v;
    a->qkv = take_act(k, n, 2 * qk + vv);
    a->att = take_act(k, n, vv);
    a->lse = take_stat(k, k->c->n_head, n);
    carve_join(k, &a->join, n);
}

/* What looks back in a decoder layer. */
static void carve_back(const struct carve *k, struct dec_acts *a, int n) {
    int d = k->c->d_model;
    if (k->c->decoder == DECODER_ATTENTION) {
        carve_self(k, &a->self, n);
        return;
    }
    a->ssru.g = take_act(k, n, d);
    a->ssru.x = take_act(k, n, d);
    a->ssru.c = take_stat(k, n, d);
    carve_join(k, &a->self.join, n);
}

static void carve_cross(const struct carve *k, struct cross_acts *a, int n_src, int n_tgt) {
    int qk = k->c->n_head * k->c->d_k, vv = k->c->n_head * k->c->d_v;
    a->q = take_act(k, n_tgt, qk);
    a->kv = take_act(k, n_src, qk + vv);
    a->att = take_act(k, n_tgt, vv);
    a->lse = take_stat(k, k->c->n_head, n_tgt);
    carve_join(k, &a->join, n_tgt);
}

static void carve_ff(const struct carve *k, struct ff_acts *a, int n, int decoder) {
    int d_ff = config_d_ff(k->c, decoder);
    a->h = take_act(k, n, d_ff);
    a->z = (struct mat){.type = k->type};
    if (k->c->activation != ACT_RELU) a->z = take_act(k, n, d_ff);
    carve_join(k, &a->join, n);
}

static void carve_side(const struct carve *k, struct side *side, int n_tok, int n_seq) {
    const struct config *c = k->c;
    int qkv = c->n_head * (2 * c->d_k + c->d_v);
    int wide = max_int(qkv, config_d_ff(c, side->is_tgt));
    if (side->is_tgt && c->decoder == DECODER_SSRU) wide = max_int(wide, 2 * c->d_model);
    side->ids = arena_take(k->arena, (size_t)n_tok * sizeof *side->ids);
    side->pos = arena_take(k->arena, (size_t)n_tok * sizeof *side->pos);
    side->start = arena_take(k->arena, ((size_t)n_seq + 1) * sizeof *side->start);
    side->x = take_act(k, n_tok, c->d_model);
    if (c->embed_norm) {
        side->e = take_act(k, n_tok, c->d_model);
        side->e_stats = take_stat(k, n_tok, 2);
    }
    if (c->norm == NORM_PRE) {
        side->bottom.y = take_act(k, n_tok, c->d_model);
        side->bottom.stats = take_stat(k, n_tok, 2);
    }
    if (!k->training) return;
    side->d_in = take_act(k, n_tok, c->d_model);
    side->d_out = take_act(k, n_tok, c->d_model);
    if (c->norm == NORM_PRE) side->d_res = take_act(k, n_tok, c->d_model);
    side->d_att = take_act(k, n_tok, c->n_head * c->d_v);
    side->d_wide = take_act(k, n_tok, wide);
}

/* A batch's links; nothing where nobody learns from them. */
static void carve_links(struct acts *a, int n_tgt, int n_range) {
    a->span = a->range = NULL;
    a->n_guided = 0;
    a->guided_totals = (struct mat){0};
    if (!a->training || !a->model->guided.layer) {
        a->totals = mat_take(&a->arena, 1, 3, DTYPE_F64);
        return;
    }
    struct mat all = mat_take(&a->arena, 1, 5, DTYPE_F64);
    a->totals = mat_cols(all, 0, 3);
    a->guided_totals = mat_cols(all, 3, 2);
    a->span = arena_take(&a->arena, 2 * (size_t)n_tgt * sizeof *a->span);
    a->range = arena_take(&a->arena, 2 * (size_t)n_range * sizeof *a->range);
}

/* Lays the views for a batch of this size into the arena, from its beginning. */
static void carve_all(struct acts *a, int n_seq, const struct packed *src, const struct packed *tgt,
                      int n_range) {
    const struct config *c = &a->model->config;
    int n_src = src->n_tok, n_tgt = tgt->n_tok;
    struct carve k = {&a->arena, c, a->model->type, a->training};
    a->arena.used = 0;
    carve_side(&k, &a->src, n_src, n_seq);
    a->src.rows = (struct rows){a->src.start, n_seq, n_src, src->max_len};
    for (int l = 0; l < (a->training ? c->n_layer_enc : 1); l++) {
        carve_self(&k, &a->enc[l].self, n_src);
        carve_ff(&k, &a->enc[l].ff, n_src, 0);
    }
    if (!a->training) {
        a->enc[1] = a->enc[0];
        carve_join(&k, &a->enc[1].ff.join, n_src);
    }
    if (n_tgt == 0) return;
    a->tgt.is_tgt = 1;
    carve_side(&k, &a->tgt, n_tgt, n_seq);
    a->target = arena_take(&a->arena, (size_t)n_tgt * sizeof *a->target);
    carve_links(a, n_tgt, n_range);
    a->row_nll = take_stat(&k, 1, n_tgt);
    for (int l = 0; l < (a->training ? c->n_layer_dec : 1); l++) {
        carve_back(&k, &a->dec[l], n_tgt);
        carve_cross(&k, &a->dec[l].cross, n_src, n_tgt);
        carve_ff(&k, &a->dec[l].ff, n_tgt, 1);
    }
    if (!a->training) {
        a->dec[1] = a->dec[0];
        carve_join(&k, &a->dec[1].ff.join, n_tgt);
    }
    a->tgt.rows = (struct rows){a->tgt.start, n_seq, n_tgt, tgt->max_len};
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Runs a step of the largest batch through the planning backend, so that every op states its need.
 * A tiled output matrix belongs to a model that is only run: the loss does not take it. */
static void plan_workspace(struct acts *a, const struct view *view) {
    struct model *m = a->model;
    struct params grads;
    params_init(&grads, &m->config, NULL, dtype_wide(m->type));
    backend_plan(m->be);
    struct pass pass = {.model = m,
                        .acts = a,
                        .grads = a->training ? &grads : NULL,
                        .training = a->training,
                        .view = view};
    if (a->cap_tgt) {
        transformer_fwd(&pass);
        if (!m->w.out.tiled) transformer_loss(&pass);
    } else {
        transformer_encode(&pass);
    }
    if (a->training) transformer_bwd(&pass);
    params_release(&grads);
}

void acts_spread(struct acts *a) {
    const struct config *c = &a->model->config;
    struct arena own = a->arena;
    a->arena = (struct arena){0};
    carve_all(a,
              a->cap_tgt ? min_int(a->cap_src, a->cap_tgt) : a->cap_src, /* the most there can be */
              &(struct packed){.n_tok = a->cap_src, .max_len = min_int(a->cap_src, c->max_len)},
              &(struct packed){.n_tok = a->cap_tgt, .max_len = min_int(a->cap_tgt, c->max_len)},
              batch_cap_range(a->cap_src, a->cap_tgt));
    a->n_guided = !mat_empty(&a->guided_totals);
    own.used = a->arena.used;
    a->arena = own;
}

int acts_plan(struct acts *a, const struct view *view, struct err *err) {
    plan_workspace(a, view);
    return backend_commit(a->model->be, err);
}

/* Activations carved for the largest batch over no memory, and a plan under way in the backend. */
static int measured(struct acts **out, struct model *model, int cap_src, int cap_tgt, int training,
                    struct err *err) {
    const struct config *c = &model->config;
    *out = NULL;
    if (cap_src < 1 || cap_tgt < (training ? 1 : 0))
        return err_set(err, HEED_ECONFIG,
                       "tokens: %d source and %d target tokens per batch; at least 1 each", cap_src,
                       cap_tgt);
    struct acts *a = xcalloc(1, sizeof *a);
    *a =
        (struct acts){.model = model, .training = training, .cap_src = cap_src, .cap_tgt = cap_tgt};
    a->enc = xcalloc((size_t)(training ? c->n_layer_enc : 2), sizeof *a->enc);
    a->dec = xcalloc((size_t)(training ? c->n_layer_dec : 2), sizeof *a->dec);
    acts_spread(a);
    plan_workspace(a, NULL);
    *out = a;
    return 0;
}

int acts_measure(struct acts_need *need, struct model *model, int cap_src, int cap_tgt,
                 int training, struct err *err) {
    struct acts *a;
    int rc = measured(&a, model, cap_src, cap_tgt, training, err);
    if (rc) return rc;
    *need = (struct acts_need){a->arena.used, backend_dismiss(model->be)};
    acts_free(a);
    return backend_sync(model->be, err);
}

int acts_new(struct acts **out, struct model *model, int cap_src, int cap_tgt, int training,
             struct err *err) {
    struct acts *a;
    *out = NULL;
    int rc = measured(&a, model, cap_src, cap_tgt, training, err);
    if (rc) return rc;
    size_t size = a->arena.used;
    rc = backend_commit(model->be, err);
    if (!rc) {
        a->arena.base = backend_alloc(model->be, size, NULL);
        a->arena.cap = size;
        if (!a->arena.base)
            rc = err_set(err, HEED_ENOMEM,
                         "activations for %d source and %d target tokens need %.1f MiB, beside "
                         "%.1f MiB of workspace: not enough memory; use fewer tokens per batch",
                         a->cap_src, a->cap_tgt, (double)size / 1048576.0,
                         (double)backend_workspace(model->be) / 1048576.0);
    }
    if (rc) {
        acts_free(a);
        return rc;
    }
    *out = a;
    return 0;
}

void acts_free(struct acts *a) {
    if (!a) return;
    backend_free(a->model->be, a->arena.base);
    xfree(a->enc);
    xfree(a->dec);
    xfree(a);
}

size_t acts_bytes(const struct acts *a) { return a->arena.cap; }

/* ---- loading --------------------------------------------------------------------------------- */

/* A decoder's first token may be none, -1: the zero vector in the place of its embedding. */
static int is_token(const struct packed *p, int i, int n_vocab, int decoder) {
    return p->ids[i] < n_vocab && p->ids[i] >= (decoder && p->pos[i] == 0 ? -1 : 0);
}

static int check_side(const struct packed *p, int cap, const struct config *c, int decoder,
                      struct err *err) {
    const char *side = decoder ? "target" : "source";
    int n_vocab = decoder ? c->n_vocab_tgt : c->n_vocab_src;
    if (p->n_tok < 1 || p->n_tok > cap)
        return err_set(err, HEED_ELIMIT, "batch: %d %s tokens; there is room for 1 to %d", p->n_tok,
                       side, cap);
    if (p->max_len > c->max_len)
        return err_set(err, HEED_ELIMIT, "batch: a %s sentence of %d tokens; max_len is %d", side,
                       p->max_len, c->max_len);
    for (int i = 0; i < p->n_tok; i++)
        if (!is_token(p, i, n_vocab, decoder))
            return err_set(err, HEED_EINVAL, "batch: %s token id %d; the vocabulary has %d", side,
                           (int)p->ids[i], n_vocab);
    return 0;
}

static int check_batch(const struct acts *a, const struct batch *b, struct err *err) {
    const struct config *c = &a->model->config;
    if (b->n_seq < 1) return err_set(err, HEED_EINVAL, "batch: it has no sentences");
    int rc = check_side(&b->src, a->cap_src, c, 0, err);
    if (!rc) rc = check_side(&b->tgt, a->cap_tgt, c, 1, err);
    for (int i = 0; !rc && i < b->tgt.n_tok; i++)
        if (b->tgt_out[i] >= c->n_vocab_tgt)
            rc = err_set(err, HEED_EINVAL, "batch: target token id %d; the vocabulary has %d",
                         (int)b->tgt_out[i], c->n_vocab_tgt);
    return rc;
}

/* Every range of every row within its source sentence. */
static int check_links(const struct acts *a, const struct batch *b, struct err *err) {
    if (b->n_range > batch_cap_range(a->cap_src, a->cap_tgt))
        return err_set(err, HEED_ELIMIT, "batch: %d links; there is room for %d", b->n_range,
                       batch_cap_range(a->cap_src, a->cap_tgt));
    for (int s = 0; s < b->n_seq; s++) {
        int n_src = b->src.start[s + 1] - b->src.start[s];
        for (int row = b->tgt.start[s]; row < b->tgt.start[s + 1]; row++) {
            int first = b->span[2 * row], last = b->span[2 * row + 1];
            bool good = first >= 0 && first <= last && last <= b->n_range;
            for (int r = first; good && r < last; r++)
                good = b->range[2 * r] >= 0 && b->range[2 * r] < b->range[2 * r + 1] &&
                       b->range[2 * r + 1] <= n_src;
            if (!good)
                return err_set(err, HEED_EINVAL,
                               "batch: row %d has links outside its source sentence of %d tokens",
                               row, n_src);
        }
    }
    return 0;
}

static void upload_side(struct backend *be, struct side *side, const struct packed *p, int n_seq) {
    backend_upload(be, side->ids, p->ids, (size_t)p->n_tok * sizeof *p->ids);
    backend_upload(be, side->pos, p->pos, (size_t)p->n_tok * sizeof *p->pos);
    backend_upload(be, side->start, p->start, ((size_t)n_seq + 1) * sizeof *p->start);
}

int acts_load(struct acts *a, const struct batch *b, struct err *err) {
    int rc = check_batch(a, b, err), guided = b->n_guided > 0 && a->model->guided.layer > 0;
    if (!rc && guided) rc = check_links(a, b, err);
    if (rc) return rc;
    carve_all(a, b->n_seq, &b->src, &b->tgt, guided ? b->n_range : 0);
    struct backend *be = a->model->be;
    if (guided && a->span) {
        a->n_guided = b->n_guided;
        backend_upload(be, a->span, b->span, 2 * (size_t)b->tgt.n_tok * sizeof *b->span);
        backend_upload(be, a->range, b->range, 2 * (size_t)b->n_range * sizeof *b->range);
    }
    upload_side(be, &a->src, &b->src, b->n_seq);
    upload_side(be, &a->tgt, &b->tgt, b->n_seq);
    backend_upload(be, a->target, b->tgt_out, (size_t)b->tgt.n_tok * sizeof *b->tgt_out);
    return 0;
}

int acts_load_src(struct acts *a, const struct packed *src, int n_seq, struct err *err) {
    if (n_seq < 1) return err_set(err, HEED_EINVAL, "batch: it has no sentences");
    int rc = check_side(src, a->cap_src, &a->model->config, 0, err);
    if (rc) return rc;
    carve_all(a, n_seq, src, &(struct packed){0}, 0);
    upload_side(a->model->be, &a->src, src, n_seq);
    return 0;
}
