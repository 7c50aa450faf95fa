/* look.c — see look.h. */
#include "search/look.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "model/transformer.h"
#include "search/defaults.h"

/* ---- sentences ------------------------------------------------------------------------------- */

/* Behind the tag, if it is not -1. */
static int encode(const struct look *l, struct look_sentence *s, const struct tokenizer *tokenizer,
                  int32_t tag, struct err *err) {
    const char *what = s == &l->src ? "the source" : "the target";
    int cap = l->engine->model[0]->config.max_len, at = tag >= 0;
    s->ids = xcalloc((size_t)cap, sizeof *s->ids);
    s->n = tokenizer_encode_end(tokenizer, s->text, strlen(s->text), s->ids + at, cap - at);
    if (s->n < 0) return err_set(err, s->n, "%s cannot be tokenised", what);
    if (at) s->ids[0] = tag;
    s->n += at;
    if (s->n > cap)
        return err_set(err, HEED_ELIMIT,
                       "%s has %d tokens with the end mark; the model has positions for %d", what,
                       s->n, cap);
    return 0;
}

int look_source(struct look *l, const char *text, struct err *err) {
    l->src.text = xstrdup(text);
    return encode(l, &l->src, l->engine->source, l->tags.source, err);
}

int look_target(struct look *l, const char *text, struct err *err) {
    l->tgt.text = xstrdup(text);
    return encode(l, &l->tgt, l->engine->target, l->tags.target, err);
}

int look_translate(struct look *l, struct err *err) {
    const struct tokenizer *t = l->engine->target;
    struct searcher *searcher;
    struct search_options options = defaults_of(l->engine).search;
    struct search_marks marks = engine_marks(l->engine);
    int lead = l->tags.target >= 0;
    struct search_input in = {.src = l->src.ids,
                              .n_src = l->src.n,
                              .prefix = &l->tags.target,
                              .n_prefix = lead,
                              .n_lead = lead};
    struct search_result result;
    struct search_setup setup = {
        .model = l->engine->model, .n_model = 1, .marks = marks, .caps = {1, l->src.n, l->src.n}};
    int rc = searcher_new(&searcher, &setup, &options, err);
    if (rc) return rc;
    rc = searcher_run(searcher, &in, 1, &result, NULL, err);
    int n = rc || !result.n ? 0 : result.best[0].n;
    n = min_int(n, l->engine->model[0]->config.max_len - 1 - lead);
    l->tgt.ids = xcalloc((size_t)n + 2, sizeof *l->tgt.ids);
    l->tgt.ids[0] = l->tags.target;
    if (n) memcpy(l->tgt.ids + lead, result.best[0].ids, (size_t)n * sizeof *l->tgt.ids);
    l->tgt.ids[n + lead] = marks.eos;
    l->tgt.n = n + lead + 1;
    searcher_free(searcher);
    int size = tokenizer_decode(t, l->tgt.ids + lead, n, NULL, 0);
    if (size < 0) size = 0;
    l->tgt.text = xcalloc((size_t)size + 1, 1);
    tokenizer_decode(t, l->tgt.ids + lead, n, l->tgt.text, (size_t)size + 1);
    return rc;
}

/* ---- looking --------------------------------------------------------------------------------- */

int look_queries(const struct look *l, enum view_kind kind) {
    return kind == VIEW_ENC ? l->src.n : l->tgt.n;
}
int look_keys(const struct look *l, enum view_kind kind) {
    return kind == VIEW_DEC ? l->tgt.n : l->src.n;
}

static int check_size(const struct look *l, const struct view_options *o, struct err *err) {
    const struct config *c = &l->engine->model[0]->config;
    double cells = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        int n = o->layer[kind] == VIEW_NONE  ? 0
                : o->layer[kind] == VIEW_ALL ? view_layers(c, kind)
                                             : 1;
        cells += (double)n * c->n_head * look_queries(l, kind) * look_keys(l, kind);
    }
    if (cells <= LOOK_MAX_CELLS) return 0;
    return err_set(err, HEED_ELIMIT,
                   "%d source and %d target tokens make %.0f probabilities, too many for one "
                   "picture; choose some with --kind and --layer",
                   l->src.n, l->tgt.n, cells);
}

static int read_layers(struct look *l, enum view_kind kind, int which, struct err *err) {
    int n = view_layers(&l->engine->model[0]->config, kind), rc = 0;
    for (int i = 0; i < n && !rc && which != VIEW_NONE; i++) {
        if (which >= 0 && which != i) continue;
        if (!l->probs[kind]) l->probs[kind] = xcalloc((size_t)n, sizeof *l->probs[kind]);
        l->probs[kind][i] = xcalloc(view_size(l->view, kind), sizeof(float));
        rc = view_read(l->view, kind, i, l->probs[kind][i], err);
    }
    return rc;
}

int look_run(struct look *l, const struct view_options *o, struct err *err) {
    struct model *m = l->engine->model[0];
    struct batch batch;
    int rc = check_size(l, o, err);
    if (!rc) rc = acts_new(&l->acts, m, l->src.n, l->tgt.n, 0, err);
    if (!rc) rc = view_new(&l->view, l->acts, o, err);
    if (rc) return rc;
    rc = batch_init(&batch, l->src.n, l->tgt.n, 1, tokenizer_bos(l->engine->target), err);
    if (rc) return rc;
    rc = batch_add(&batch, l->src.ids, l->src.n, l->tgt.ids, l->tgt.n, err);
    if (rc > 0) rc = acts_load(l->acts, &batch, err);
    if (!rc) rc = view_load(l->view, err);
    if (!rc) transformer_fwd(&(struct pass){.model = m, .acts = l->acts, .view = l->view});
    for (int kind = 0; kind < VIEW_KINDS && !rc; kind++)
        rc = read_layers(l, (enum view_kind)kind, o->layer[kind], err);
    batch_release(&batch);
    return rc;
}

void look_clear(struct look *l) {
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        for (int i = 0; l->probs[kind] && i < view_layers(&l->engine->model[0]->config, kind); i++)
            xfree(l->probs[kind][i]);
        xfree(l->probs[kind]);
    }
    view_free(l->view);
    acts_free(l->acts);
    xfree(l->src.text);
    xfree(l->src.ids);
    xfree(l->tgt.text);
    xfree(l->tgt.ids);
    *l = (struct look){.engine = l->engine, .tags = l->tags};
}
