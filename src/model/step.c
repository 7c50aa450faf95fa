/* step.c — see step.h. The decoder of transformer.c, one row per hypothesis. */
#include "model/step.h"

#include <string.h>

#include "backend/backend.h"
#include "base/num.h"
#include "model/block.h"
#include "model/transformer.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static int32_t *take_ints(struct stepper *s, size_t n) {
    return arena_take(&s->arena, size_mul(n, sizeof(int32_t)));
}

static void carve_join(struct stepper *s, struct join *j) {
    enum dtype t = s->model->type;
    j->s = mat_take(&s->arena, s->cap.hyp, s->model->config.d_model, t);
    j->y = mat_take(&s->arena, s->cap.hyp, s->model->config.d_model, t);
    j->stats = mat_take(&s->arena, s->cap.hyp, 2, dtype_wide(t));
}

/* Source rows that are narrowed at a time. */
enum { FRESH_ROWS = 128 };

/* Weights with scales for activations are there to give the bits of another engine. */
static enum dtype cache_type(const struct model *m) {
    const struct mat *w = &m->w.dec[0].cross.w_kv;
    return w->type == DTYPE_I8 && !(w->x_scale > 0) ? DTYPE_F16 : m->type;
}

static void carve(struct stepper *s) {
    const struct config *c = &s->model->config;
    enum dtype t = s->model->type, kv = cache_type(s->model);
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v, n = s->cap.hyp;
    int ssru = c->decoder == DECODER_SSRU;
    s->arena.used = 0;
    for (int l = 0; l < c->n_layer_dec; l++) {
        s->past[l] = ssru ? mat_take(&s->arena, s->cap.cache, c->d_model, dtype_wide(t))
                          : mat_take(&s->arena, s->cap.cache, qk + vv, kv);
        s->cross_kv[l] = mat_take(&s->arena, s->cap.src, qk + vv, kv);
    }
    s->fresh = (struct mat){0};
    if (kv != t) s->fresh = mat_take(&s->arena, min_int(s->cap.src, FRESH_ROWS), qk + vv, t);
    s->side.is_tgt = 1;
    s->side.x = mat_take(&s->arena, n, c->d_model, t);
    if (c->embed_norm) {
        s->side.e = mat_take(&s->arena, n, c->d_model, t);
        s->side.e_stats = mat_take(&s->arena, n, 2, dtype_wide(t));
    }
    if (c->norm == NORM_PRE) {
        s->side.bottom.y = mat_take(&s->arena, n, c->d_model, t);
        s->side.bottom.stats = mat_take(&s->arena, n, 2, dtype_wide(t));
    }
    s->qkv = mat_take(&s->arena, n, ssru ? max_int(2 * c->d_model, qk) : 2 * qk + vv, t);
    s->att = mat_take(&s->arena, n, vv, t);
    s->ff.h = mat_take(&s->arena, n, config_d_ff(c, 1), t);
    s->ff.z = (struct mat){.type = t};
    if (c->activation != ACT_RELU) s->ff.z = mat_take(&s->arena, n, config_d_ff(c, 1), t);
    carve_join(s, &s->join[0]);
    carve_join(s, &s->join[1]);
    s->value = mat_take(&s->arena, n, s->cap.top, dtype_wide(t));
    s->top = take_ints(s, (size_t)n * (size_t)s->cap.top);
    size_t table = (size_t)n * (size_t)s->cap.len;
    s->rows = take_ints(s, 5 * (size_t)n + table);
    s->other_index = take_ints(s, table);
    /* last: a CPU touches it only if somebody wants to see logits */
    s->logits = mat_take(&s->arena, n, c->n_vocab_tgt, t);
}

/* ---- one step -------------------------------------------------------------------------------- */

static struct join join_of(const struct stepper *s, int which, int n) {
    const struct join *j = &s->join[which];
    return (struct join){mat_rows(j->s, 0, n), mat_rows(j->y, 0, n), mat_rows(j->stats, 0, n)};
}

/* Self-attention of the new rows, whose keys and values join the cache on the way. */
static void self_step(const struct stepper *s, const struct stepper_rows *rows, int l, int max_len,
                      struct mat x, struct join *join) {
    const struct config *c = &s->model->config;
    const struct self_params *w = &s->model->w.dec[l].self;
    struct backend *be = s->model->be;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v, n = x.rows;
    struct mat qkv = mat_rows(s->qkv, 0, n), att = mat_rows(s->att, 0, n), kv = s->past[l];
    linear_fwd(be, &(struct linear_args){.y = qkv, .x = x, .w = w->w_qkv, .b = w->b_qkv});
    attention_step(be, &(struct attention_step_args){.o = att,
                                                     .q = mat_cols(qkv, 0, qk),
                                                     .k = mat_cols(kv, 0, qk),
                                                     .v = mat_cols(kv, qk, vv),
                                                     .k_new = mat_cols(qkv, qk, qk),
                                                     .v_new = mat_cols(qkv, 2 * qk, vv),
                                                     .index = rows->index,
                                                     .index_ld = rows->index_ld,
                                                     .len = rows->len,
                                                     .max_len = max_len,
                                                     .n_head = c->n_head,
                                                     .window = c->window,
                                                     .scale = attention_scale(c)});
    linear_fwd(be, &(struct linear_args){.y = join->s, .x = att, .w = w->w_o, .b = w->b_o});
}

/* The same of an SSRU: it reads the state of the token before and leaves its own. */
static void ssru_layer_step(const struct stepper *s, const struct stepper_rows *rows, int l,
                            struct mat x, struct join *join) {
    const struct ssru_params *w = &s->model->w.dec[l].ssru;
    struct backend *be = s->model->be;
    int d = s->model->config.d_model;
    struct mat both = mat_rows(s->qkv, 0, x.rows);
    struct mat gate = mat_cols(both, 0, d), in = mat_cols(both, d, d);
    linear_fwd(be, &(struct linear_args){.y = gate, .x = x, .w = w->w_f, .b = w->b_f});
    linear_fwd(be, &(struct linear_args){.y = in, .x = x, .w = w->w});
    ssru_step(be, &(struct ssru_step_args){.o = join->s,
                                           .g = gate,
                                           .x = in,
                                           .c = s->past[l],
                                           .index = rows->index,
                                           .index_ld = rows->index_ld,
                                           .len = rows->len});
}

static void cross_step(const struct stepper *s, const struct stepper_rows *rows, int l,
                       struct mat x, struct join *join) {
    const struct config *c = &s->model->config;
    const struct cross_params *w = &s->model->w.dec[l].cross;
    struct backend *be = s->model->be;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v, n = x.rows;
    struct mat q = mat_cols(mat_rows(s->qkv, 0, n), 0, qk);
    struct mat att = mat_rows(s->att, 0, n), kv = s->cross_kv[l];
    linear_fwd(be, &(struct linear_args){.y = q, .x = x, .w = w->w_q, .b = w->b_q});
    attention_step(be, &(struct attention_step_args){.o = att,
                                                     .q = q,
                                                     .k = mat_cols(kv, 0, qk),
                                                     .v = mat_cols(kv, qk, vv),
                                                     .start = rows->src_start,
                                                     .len = rows->src_len,
                                                     .max_len = s->cap.src,
                                                     .n_head = c->n_head,
                                                     .scale = attention_scale(c)});
    linear_fwd(be, &(struct linear_args){.y = join->s, .x = att, .w = w->w_o, .b = w->b_o});
}

/* No hypothesis looks at more than max_len rows of the cache. */
static void run_step(struct stepper *s, const struct stepper_rows *rows, int n, int max_len) {
    struct model *m = s->model;
    const struct config *c = &m->config;
    struct pass pass = {.model = m};
    struct side side = s->side;
    side.ids = rows->ids;
    side.pos = rows->pos;
    side.x = mat_rows(side.x, 0, n);
    if (c->embed_norm) {
        side.e = mat_rows(side.e, 0, n);
        side.e_stats = mat_rows(side.e_stats, 0, n);
    }
    if (c->norm == NORM_PRE) {
        side.bottom.y = mat_rows(side.bottom.y, 0, n);
        side.bottom.stats = mat_rows(side.bottom.stats, 0, n);
    }
    struct ff_acts ff = {.h = mat_rows(s->ff.h, 0, n), .z = s->ff.z};
    if (!mat_empty(&ff.z)) ff.z = mat_rows(ff.z, 0, n);
    struct flow flow = bottom_fwd(&pass, &side, dec_first_norm(&m->w, c));
    int turn = 0; /* a join reads the previous one's output, so two sets of buffers take turns */
    for (int l = 0; l < c->n_layer_dec; l++) {
        struct join join = join_of(s, turn, n);
        if (c->decoder == DECODER_SSRU)
            ssru_layer_step(s, rows, l, flow.in, &join);
        else
            self_step(s, rows, l, max_len, flow.in, &join);
        flow = join_fwd(&pass, &join, flow, dec_self_norm(&m->w, c, l), 0);
        join = join_of(s, turn ^= 1, n);
        cross_step(s, rows, l, flow.in, &join);
        flow = join_fwd(&pass, &join, flow, dec_cross_norm(&m->w, c, l), 0);
        ff.join = join_of(s, turn ^= 1, n);
        ff_fwd(&pass, &(struct ff_layer){.w = &m->w.dec[l].ff, .a = &ff, .x = flow.in});
        flow = join_fwd(&pass, &ff.join, flow, dec_ff_norm(&m->w, c, l), 0);
        turn ^= 1;
    }
    s->out = flow.in;
    s->projected = 0;
}

static void project(struct stepper *s) {
    if (s->projected) return;
    s->projected = 1;
    linear_fwd(s->model->be, &(struct linear_args){.y = mat_rows(s->logits, 0, s->out.rows),
                                                   .x = s->out,
                                                   .w = s->model->w.out,
                                                   .b = s->model->w.out_bias});
}

/* mean = what all models together make of the next token. */
static void blend_all(struct stepper *s) {
    int n = s->out.rows;
    struct blend_args a = {.out = mat_rows(s->mean, 0, n), .n = 1 + s->n_other};
    for (int m = 0; m <= s->n_other; m++) {
        struct stepper *one = m ? s->other[m - 1] : s;
        project(one);
        a.z[m] = mat_rows(one->logits, 0, n);
        a.weight[m] = s->weight[m];
    }
    blend(s->model->be, &a);
}

/* The k best: of the mean, of the logits if they are there already, or of the output's. */
static void pick(struct stepper *s, int k) {
    const struct mat none = {0};
    int there = s->n_other || s->projected;
    if (s->n_other) blend_all(s);
    topk(s->model->be,
         &(struct topk_args){.logits = mat_rows(s->n_other ? s->mean : s->logits, 0, s->out.rows),
                             .x = there ? none : s->out,
                             .w = there ? none : s->model->w.out,
                             .b = there ? none : s->model->w.out_bias,
                             .value = mat_of(s->value.data, s->out.rows, k, s->value.type),
                             .id = s->top});
}

/* Keys and values of source rows for layer l, from source row `at` on. */
static void admit(struct stepper *s, int l, struct mat memory, int at) {
    const struct cross_params *w = &s->model->w.dec[l].cross;
    int narrows = !mat_empty(&s->fresh), most = narrows ? s->fresh.rows : memory.rows, n;
    for (int first = 0; first < memory.rows; first += n) {
        n = min_int(most, memory.rows - first);
        struct mat to = mat_rows(s->cross_kv[l], at + first, n);
        struct mat y = narrows ? mat_rows(s->fresh, 0, n) : to;
        linear_fwd(s->model->be,
                   &(struct linear_args){
                       .y = y, .x = mat_rows(memory, first, n), .w = w->w_kv, .b = w->b_kv});
        if (narrows) backend_cast(s->model->be, &to, &y);
    }
}

/* ---- interface ------------------------------------------------------------------------------- */

static int plan(struct stepper *s, struct err *err) {
    struct backend *be = s->model->be;
    struct stepper_rows rows = {.index_ld = s->cap.len};
    backend_plan(be);
    run_step(s, &rows, s->cap.hyp, s->cap.len);
    for (int l = 0; l < s->model->config.n_layer_dec; l++)
        admit(s, l, mat_of(NULL, s->cap.src, s->model->config.d_model, s->model->type), 0);
    pick(s, s->cap.top);
    project(s);
    pick(s, s->cap.top);
    return backend_commit(be, err);
}

int stepper_new(struct stepper **out, struct model *model, const struct stepper_caps *caps,
                struct err *err) {
    *out = NULL;
    struct stepper_caps cap = *caps;
    if (cap.hyp < 1 || cap.src < 1 || cap.len < 1 || cap.len > model->config.max_len)
        return err_set(
            err, HEED_ELIMIT,
            "decoder: %d hypotheses of %d tokens over %d source tokens; at least 1 each, "
            "and max_len is %d",
            cap.hyp, cap.len, cap.src, model->config.max_len);
    if ((int64_t)cap.hyp * cap.len > INT32_MAX)
        return err_set(err, HEED_ELIMIT, "decoder: %d hypotheses of %d tokens are too many",
                       cap.hyp, cap.len);
    if (!cap.cache) cap.cache = cap.hyp * cap.len;
    int most = model->config.n_vocab_tgt < TOPK_MAX ? model->config.n_vocab_tgt : TOPK_MAX;
    if (cap.top < 1 || cap.top > most)
        return err_set(err, HEED_ELIMIT,
                       "decoder: the best %d tokens are wanted; at most %d are possible", cap.top,
                       most);
    int n_layer = model->config.n_layer_dec;
    struct stepper *s = xcalloc(1, sizeof *s);
    *s = (struct stepper){.model = model, .cap = cap};
    s->past = xcalloc((size_t)n_layer, sizeof *s->past);
    s->cross_kv = xcalloc((size_t)n_layer, sizeof *s->cross_kv);
    size_t ints = (size_t)cap.hyp * (5 + (size_t)cap.len);
    s->host = xcalloc(ints, sizeof *s->host);
    s->host_old = xcalloc(ints, sizeof *s->host_old);
    s->read_at = xcalloc((size_t)cap.cache, sizeof *s->read_at);
    carve(s);
    size_t size = s->arena.used;
    int rc = plan(s, err);
    if (!rc && !(s->arena.base = backend_alloc(model->be, size, err))) rc = HEED_ENOMEM;
    if (rc) {
        stepper_free(s);
        return rc;
    }
    s->arena.cap = size;
    carve(s);
    *out = s;
    return 0;
}

int stepper_speak(struct stepper *s, struct stepper *const *other, int n, const float *weight,
                  struct err *err) {
    struct backend *be = s->model->be;
    BUG_ON(n < 1 || n >= BLEND_MOST);
    s->mean = mat_of(NULL, s->cap.hyp, s->logits.cols, dtype_wide(s->logits.type));
    memcpy(s->weight, weight, (size_t)(n + 1) * sizeof *weight);
    for (; s->n_other < n; s->n_other++) s->other[s->n_other] = other[s->n_other];
    backend_plan(be);
    pick(s, s->cap.top);
    int rc = backend_commit(be, err);
    size_t size =
        size_mul(size_mul((size_t)s->mean.rows, (size_t)s->mean.ld), dtype_size(s->mean.type));
    if (!rc && !(s->mean.data = backend_alloc(be, size, err))) rc = HEED_ENOMEM;
    return rc;
}

void stepper_free(struct stepper *s) {
    if (!s) return;
    backend_free(s->model->be, s->mean.data);
    backend_free(s->model->be, s->arena.base);
    xfree(s->past);
    xfree(s->cross_kv);
    xfree(s->host);
    xfree(s->host_old);
    xfree(s->read_at);
    xfree(s);
}

void stepper_admit(struct stepper *s, const struct acts *acts, int first, int n, int at) {
    struct mat memory = mat_rows(transformer_memory(acts), first, n);
    BUG_ON(at < 0 || at > s->cap.src - n);
    for (int l = 0; l < s->model->config.n_layer_dec; l++) admit(s, l, memory, at);
}

int stepper_begin(struct stepper *s, const struct packed *src, int n_seq, struct err *err) {
    if (src->n_tok > s->cap.src)
        return err_set(err, HEED_ELIMIT, "decoder: %d source tokens; there is room for %d",
                       src->n_tok, s->cap.src);
    s->sentence_start = src->start;
    s->n_sentence = n_seq;
    s->t = s->filled = 0;
    memset(s->read_at, 0, (size_t)s->cap.cache * sizeof *s->read_at);
    return backend_check(s->model->be, err);
}

/* n rows from `at` on: five arrays, then an index table with lines of `line`. */
static struct stepper_rows rows_at(int32_t *at, int n, int line) {
    return (struct stepper_rows){.ids = at,
                                 .pos = at + n,
                                 .len = at + 2 * (size_t)n,
                                 .src_start = at + 3 * (size_t)n,
                                 .src_len = at + 4 * (size_t)n,
                                 .index = at + 5 * (size_t)n,
                                 .index_ld = line};
}

/* Everything the host sends, without gaps: five numbers per row, then lines of cache rows. What it
 * sent last time becomes the old. */
static struct stepper_rows compose(struct stepper *s, int n, int line, struct stepper_rows *old) {
    int32_t *swap = s->host_old;
    *old = rows_at(s->host, s->n, s->line);
    s->host_old = s->host;
    s->host = swap;
    s->n = n;
    s->line = line;
    return rows_at(s->host, n, line);
}

static void compose_row(const struct stepper_rows *to, const struct stepper_rows *old, int b,
                        const struct stepper_row *row) {
    int32_t *line = to->index + b * to->index_ld;
    size_t pos = (size_t)row->pos;
    const int32_t *from = row->line ? row->line : old->index + row->parent * old->index_ld;
    if (pos) memcpy(line, from, pos * sizeof *line);
    line[pos] = row->cache;
    to->ids[b] = row->id;
    to->pos[b] = row->pos;
    to->len[b] = row->pos + 1;
    to->src_start[b] = row->src;
    to->src_len[b] = row->n_src;
}

static void send_and_run(struct stepper *s) {
    size_t n = (size_t)s->n * (5 + (size_t)s->line);
    struct stepper_rows rows = rows_at(s->rows, s->n, s->line);
    backend_upload(s->model->be, s->rows, s->host, n * sizeof *s->host);
    run_step(s, &rows, s->n, s->line); /* a failure is sticky: whoever asks for the result hears */
}

/* Notes the cache rows that the next step reads: all that its hypotheses extend, or, of an SSRU,
 * the last of each. */
static void mark_read(struct stepper *s, const struct stepper_rows *old, const int32_t *parent,
                      int n) {
    int first = s->model->config.decoder == DECODER_SSRU ? max_int(s->t - 1, 0) : 0;
    for (int b = 0; b < n; b++)
        for (int i = first; i < s->t; i++)
            s->read_at[old->index[parent[b] * old->index_ld + i]] = s->t + 1;
}

int stepper_step(struct stepper *s, int n, const int32_t *ids, const int32_t *parent,
                 const int32_t *sentence, struct err *err) {
    if (n < 1 || n > s->cap.hyp || s->t >= s->cap.len)
        return err_set(err, HEED_ELIMIT,
                       "decoder: step %d of %d hypotheses; there is room for %d of %d", s->t + 1, n,
                       s->cap.len, s->cap.hyp);
    struct stepper_rows old, to = compose(s, n, s->t + 1, &old);
    mark_read(s, &old, parent, n);
    for (int b = 0, cache = 0; b < n; b++, cache++) {
        const int32_t *src = s->sentence_start + sentence[b];
        while (s->read_at[cache] > s->t) cache++; /* there is room for all that can be read */
        compose_row(&to, &old, b,
                    &(struct stepper_row){.id = ids[b],
                                          .pos = s->t,
                                          .parent = parent[b],
                                          .cache = cache,
                                          .src = src[0],
                                          .n_src = src[1] - src[0]});
        s->filled = max_int(s->filled, cache + 1);
    }
    send_and_run(s);
    s->t++;
    return 0;
}

int stepper_advance(struct stepper *s, const struct stepper_row *row, int n, struct err *err) {
    int line = 0;
    for (int b = 0; b < n; b++) line = max_int(line, row[b].pos + 1);
    if (n < 1 || n > s->cap.hyp || line > s->cap.len)
        return err_set(err, HEED_ELIMIT,
                       "decoder: %d hypotheses of up to %d tokens; there is room for %d of %d", n,
                       line, s->cap.hyp, s->cap.len);
    struct stepper_rows old, to = compose(s, n, line, &old);
    for (int b = 0; b < n; b++) compose_row(&to, &old, b, &row[b]);
    send_and_run(s);
    return 0;
}

struct stepper_rows stepper_rows(const struct stepper *s, int turn) {
    struct stepper_rows rows = rows_at(s->rows, s->cap.hyp, s->cap.len);
    if (turn) rows.index = s->other_index;
    return rows;
}

void stepper_queue(struct stepper *s, int n, int k, int turn) {
    struct stepper_rows rows = stepper_rows(s, turn);
    BUG_ON(n < 1 || n > s->cap.hyp || k < 1 || k > s->cap.top);
    run_step(s, &rows, n, s->cap.len);
    for (int m = 0; m < s->n_other; m++) run_step(s->other[m], &rows, n, s->cap.len);
    pick(s, k);
}

struct mat stepper_logits(struct stepper *s) {
    project(s);
    return mat_rows(s->logits, 0, s->n);
}

int stepper_topk(struct stepper *s, int k, float *value, int32_t *id, struct err *err) {
    if (k < 1 || k > s->cap.top)
        return err_set(err, HEED_ELIMIT,
                       "decoder: the best %d tokens are wanted; there is room for %d", k,
                       s->cap.top);
    struct backend *be = s->model->be;
    size_t n = (size_t)s->n * (size_t)k;
    pick(s, k);
    backend_download(be, id, s->top, n * sizeof *id);
    if (s->value.type == DTYPE_F32) {
        backend_download(be, value, s->value.data, n * sizeof *value);
        return backend_sync(be, err);
    }
    double *wide = xmalloc(n * sizeof *wide); /* ref in double precision only */
    backend_download(be, wide, s->value.data, n * sizeof *wide);
    for (size_t i = 0; i < n; i++) value[i] = (float)wide[i];
    xfree(wide);
    return backend_sync(be, err);
}
