/* view.c — see view.h. */
#include "model/view.h"
#include "backend/backend.h"

/* How the queries and the keys of a kind lie in the batch. */
static const struct rows *queries_of(const struct acts *a, enum view_kind kind) {
    return kind == VIEW_ENC ? &a->src.rows : &a->tgt.rows;
}
static const struct rows *keys_of(const struct acts *a, enum view_kind kind) {
    return kind == VIEW_DEC ? &a->tgt.rows : &a->src.rows;
}

static int64_t cells_of(const struct acts *a, enum view_kind kind) {
    return (int64_t)queries_of(a, kind)->n_tok * keys_of(a, kind)->max_len;
}

/* Matrices for what is laid out in the activations, from the beginning of the arena. */
static void carve(struct view *v) {
    const struct acts *a = v->acts;
    const struct config *c = &a->model->config;
    v->arena.used = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int l = 0; l < view_layers(c, kind); l++)
            if (v->wanted[kind][l])
                v->probs[kind][l] = mat_take(&v->arena, c->n_head * queries_of(a, kind)->n_tok,
                                             keys_of(a, kind)->max_len, dtype_wide(a->model->type));
}

/* Bytes for as many cells as there may be in a batch. */
static size_t block_size(const struct view *v) {
    const struct acts *a = v->acts;
    const struct config *c = &a->model->config;
    size_t size = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        int64_t cells = cells_of(a, kind);
        if (v->cells < cells) cells = v->cells;
        size_t one = size_mul(size_mul((size_t)cells, (size_t)c->n_head),
                              dtype_size(dtype_wide(a->model->type)));
        for (int l = 0; l < view_layers(c, kind); l++)
            if (v->wanted[kind][l]) size = size_add(size, size_add(one, MEM_ALIGN));
    }
    return size;
}

/* Checks the options against the model. */
static int choose(struct view *v, const struct view_options *o, struct err *err) {
    static const char *const stack[] = {"encoder", "decoder", "decoder"};
    const struct acts *a = v->acts;
    const struct config *c = &a->model->config;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        int n = view_layers(c, kind), want = o->layer[kind];
        if (want >= n || want < VIEW_NONE)
            return err_set(err, HEED_EINVAL, "layer %d: the %s has %d", want + 1, stack[kind], n);
        if (want != VIEW_NONE && kind != VIEW_ENC && !a->cap_tgt)
            return err_set(err, HEED_EINVAL,
                           "activations for the encoder alone have no decoder to look at");
        for (int l = 0; l < n; l++) v->wanted[kind][l] = want == VIEW_ALL || want == l;
    }
    int most = a->cap_src > a->cap_tgt ? a->cap_src : a->cap_tgt;
    if (most > INT32_MAX / c->n_head)
        return err_set(err, HEED_ELIMIT, "%d tokens of %d heads are too many to look at", most,
                       c->n_head);
    return 0;
}

static int reserve(struct view *v, struct err *err) {
    struct backend *be = v->acts->model->be;
    acts_spread(v->acts);
    carve(v); /* over no memory: these matrices only have sizes */
    size_t size = block_size(v);
    int rc = acts_plan(v->acts, v, err);
    if (rc) return rc;
    v->arena.base = backend_alloc(be, size, NULL);
    v->arena.cap = size;
    if (v->arena.base) return 0;
    return err_set(err, HEED_ENOMEM,
                   "attention probabilities need %.1f MiB: not enough memory; look at fewer layers "
                   "or shorter sentences",
                   (double)size / 1048576.0);
}

int view_new(struct view **out, struct acts *acts, const struct view_options *options,
             struct err *err) {
    *out = NULL;
    struct view *v = xcalloc(1, sizeof *v);
    v->acts = acts;
    v->cells = options->cells ? options->cells : INT64_MAX;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        size_t n = (size_t)view_layers(&acts->model->config, kind);
        v->probs[kind] = xcalloc(n, sizeof *v->probs[kind]);
        v->wanted[kind] = xcalloc(n, 1);
    }
    int rc = choose(v, options, err);
    if (!rc) rc = reserve(v, err);
    if (rc) {
        view_free(v);
        return rc;
    }
    *out = v;
    return 0;
}

void view_free(struct view *v) {
    if (!v) return;
    backend_free(v->acts->model->be, v->arena.base);
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        xfree(v->probs[kind]);
        xfree(v->wanted[kind]);
    }
    xfree(v);
}

int view_load(struct view *v, struct err *err) {
    const struct config *c = &v->acts->model->config;
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int l = 0; l < view_layers(c, kind); l++)
            if (v->wanted[kind][l] && cells_of(v->acts, kind) > v->cells)
                return err_set(err, HEED_ELIMIT,
                               "a batch of %d queries and up to %d keys is too large to look at",
                               queries_of(v->acts, kind)->n_tok, keys_of(v->acts, kind)->max_len);
    carve(v);
    return 0;
}

size_t view_size(const struct view *v, enum view_kind kind) {
    return (size_t)v->acts->model->config.n_head * (size_t)cells_of(v->acts, kind);
}

int view_read(const struct view *v, enum view_kind kind, int layer, float *out, struct err *err) {
    struct view_slice all = {kind, layer, 0, v->acts->model->config.n_head};
    return view_read_slice(v, &all, out, err);
}

int view_read_slice(const struct view *v, const struct view_slice *s, float *out, struct err *err) {
    struct backend *be = v->acts->model->be;
    const struct mat *probs = &v->probs[s->kind][s->layer];
    size_t one = (size_t)cells_of(v->acts, s->kind), n = one * (size_t)s->n_head;
    BUG_ON(!v->wanted[s->kind][s->layer]);
    const char *from = (const char *)probs->data + (size_t)s->head * one * dtype_size(probs->type);
    if (probs->type == DTYPE_F32) {
        backend_download(be, out, from, n * sizeof *out);
        return backend_sync(be, err);
    }
    double *wide = mem_block(n * sizeof *wide);
    if (!wide) return err_set(err, HEED_ENOMEM, "cannot allocate %zu probabilities", n);
    backend_download(be, wide, from, n * sizeof *wide);
    int rc = backend_sync(be, err);
    for (size_t i = 0; i < n && !rc; i++) out[i] = (float)wide[i];
    mem_block_free(wide);
    return rc;
}
