/* scorer.c — see scorer.h. */
#include "search/scorer.h"

#include "backend/backend.h"
#include "backend/ops.h"
#include "model/transformer.h"

enum { LOGITS_BYTES = 16 << 20, MAX_CHUNK = 256 };

struct scorer {
    struct model *model;
    struct acts *acts;
    struct batch batch;
    float *host;  /* [cap_tgt] log-probabilities of a batch */
    double *wide; /* [cap_tgt] the same from a backend in f64, else NULL */
    /* With a tiled output matrix only: */
    int chunk;                /* rows of logits at a time */
    void *memory;             /* the three below, in the backend */
    struct mat logits, value; /* [chunk, V], [chunk, 1] */
    int32_t *best;            /* [chunk] */
    void *host_logits;        /* [chunk, V] act type */
    float *host_value;        /* [chunk] */
    int32_t *host_best;       /* [chunk] */
};

/* ---- life ------------------------------------------------------------------------------------ */

static struct linear_args projection(const struct scorer *s, int first, int n) {
    return (struct linear_args){.y = mat_rows(s->logits, 0, n),
                                .x = mat_rows(transformer_output(s->acts), first, n),
                                .w = s->model->w.out,
                                .b = s->model->w.out_bias};
}

static struct topk_args best_of(const struct scorer *s, int n) {
    struct topk_args a = {.value = s->value, .logits = s->logits, .id = s->best};
    a.value.rows = a.logits.rows = n;
    return a;
}

static void carve(struct scorer *s, struct arena *arena) {
    const struct model *m = s->model;
    s->logits = mat_take(arena, s->chunk, m->config.n_vocab_tgt, m->type);
    s->value = mat_take(arena, s->chunk, 1, dtype_wide(m->type));
    s->best = arena_take(arena, (size_t)s->chunk * sizeof *s->best);
}

/* Memory and workspace for chunks of logits. */
static int reserve_logits(struct scorer *s, struct err *err) {
    struct model *m = s->model;
    if (m->type == DTYPE_F64)
        return err_set(err, HEED_EINVAL, "scoring: tiled weights and f64 cannot be combined");
    size_t row = (size_t)m->config.n_vocab_tgt * dtype_size(m->type);
    s->chunk = row > LOGITS_BYTES / MAX_CHUNK ? (int)(LOGITS_BYTES / row) : MAX_CHUNK;
    if (s->chunk < 1) s->chunk = 1;
    if (s->chunk > s->acts->cap_tgt) s->chunk = s->acts->cap_tgt;
    struct arena arena = {0};
    carve(s, &arena);
    acts_spread(s->acts);
    backend_plan(m->be);
    struct linear_args project = projection(s, 0, s->chunk);
    struct topk_args best = best_of(s, s->chunk);
    linear_fwd(m->be, &project);
    topk(m->be, &best);
    int rc = backend_commit(m->be, err);
    if (rc) return rc;
    if (!(s->memory = backend_alloc(m->be, arena.used, err))) return HEED_ENOMEM;
    arena = (struct arena){.base = s->memory, .cap = arena.used};
    carve(s, &arena);
    s->host_logits = xmalloc((size_t)s->chunk * row);
    s->host_value = xcalloc((size_t)s->chunk, sizeof *s->host_value);
    s->host_best = xcalloc((size_t)s->chunk, sizeof *s->host_best);
    return 0;
}

int scorer_new(struct scorer **out, struct model *model, int32_t bos, const struct batch_caps *caps,
               struct err *err) {
    *out = NULL;
    struct scorer *s = xcalloc(1, sizeof *s);
    s->model = model;
    int rc = batch_init(&s->batch, caps->src, caps->tgt, caps->seq, bos, err);
    if (!rc) rc = acts_new(&s->acts, model, caps->src, caps->tgt, 0, err);
    if (!rc && model->w.out.tiled) rc = reserve_logits(s, err);
    if (rc) {
        scorer_free(s);
        return rc;
    }
    s->host = xcalloc((size_t)caps->tgt, sizeof *s->host);
    if (model->type == DTYPE_F64) s->wide = xcalloc((size_t)caps->tgt, sizeof *s->wide);
    *out = s;
    return 0;
}

void scorer_free(struct scorer *s) {
    if (!s) return;
    backend_free(s->model->be, s->memory);
    acts_free(s->acts);
    batch_release(&s->batch);
    xfree(s->host);
    xfree(s->wide);
    xfree(s->host_logits);
    xfree(s->host_value);
    xfree(s->host_best);
    xfree(s);
}

/* ---- scoring --------------------------------------------------------------------------------- */

/* The loss op gives them as costs. */
static int read_costs(struct scorer *s, const struct pass *pass, struct err *err) {
    struct backend *be = s->model->be;
    const struct mat *nll = &s->acts->row_nll;
    int n = s->batch.tgt.n_tok;
    transformer_loss(pass);
    backend_download(be, s->wide ? (void *)s->wide : s->host, nll->data,
                     (size_t)n * dtype_size(nll->type));
    int rc = backend_sync(be, err);
    for (int i = 0; i < n && !rc; i++) s->host[i] = s->wide ? (float)-s->wide[i] : -s->host[i];
    return rc;
}

static float logit(const struct scorer *s, int row, int32_t id) {
    return f32_load(s->host_logits, s->model->type, (int64_t)row * s->logits.cols + id);
}

/* log p(t) = z_t - lse, and topk's best is z_best - lse. */
static int read_logits(struct scorer *s, struct err *err) {
    struct backend *be = s->model->be;
    int n_tok = s->batch.tgt.n_tok;
    for (int first = 0; first < n_tok; first += s->chunk) {
        int n = n_tok - first < s->chunk ? n_tok - first : s->chunk;
        struct linear_args project = projection(s, first, n);
        struct topk_args best = best_of(s, n);
        linear_fwd(be, &project);
        topk(be, &best);
        size_t row = (size_t)s->logits.cols * dtype_size(s->logits.type);
        backend_download(be, s->host_logits, s->logits.data, (size_t)n * row);
        backend_download(be, s->host_value, s->value.data, (size_t)n * sizeof *s->host_value);
        backend_download(be, s->host_best, s->best, (size_t)n * sizeof *s->host_best);
        int rc = backend_sync(be, err);
        if (rc) return rc;
        for (int i = 0; i < n; i++)
            s->host[first + i] = logit(s, i, s->batch.tgt_out[first + i]) -
                                 logit(s, i, s->host_best[i]) + s->host_value[i];
    }
    return 0;
}

static int run_batch(struct scorer *s, struct err *err) {
    struct pass pass = {.model = s->model, .acts = s->acts};
    int rc = acts_load(s->acts, &s->batch, err);
    if (rc) return rc;
    transformer_fwd(&pass);
    return s->model->w.out.tiled ? read_logits(s, err) : read_costs(s, &pass, err);
}

/* Puts the next pairs into the batch: how many. */
static int collect(struct scorer *s, const struct score_pair *pair, int n, struct err *err) {
    batch_clear(&s->batch);
    for (int k = 0; k < n; k++) {
        int rc = batch_add(&s->batch, pair[k].src, pair[k].n_src, pair[k].tgt, pair[k].n_tgt, err);
        if (rc <= 0) return rc < 0 ? rc : k;
    }
    return n;
}

int scorer_run(struct scorer *s, const struct score_pair *pair, int n, struct err *err) {
    for (int done = 0; done < n;) {
        int k = collect(s, pair + done, n - done, err);
        int rc = k < 0 ? k : run_batch(s, err);
        if (rc) return rc;
        for (int i = 0; i < k; i++)
            for (int j = 0; j < pair[done + i].n_tgt; j++)
                pair[done + i].out[j] = s->host[s->batch.tgt.start[i] + j];
        done += k;
    }
    return 0;
}
