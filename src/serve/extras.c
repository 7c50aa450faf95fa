/* extras.c — see extras.h. */
#include "serve/extras.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "model/transformer.h"
#include "model/view.h"
#include "search/scorer.h"

enum { MAX_CELLS = 1 << 24 }; /* probabilities of one answer: 64 MiB */

struct extras {
    struct task_facts facts;
    struct align_options align;
    struct aligner *aligner;
    float *matrix;
    size_t cap_matrix;
};

struct extras *extras_new(const struct task_facts *facts, const struct align_options *align) {
    struct extras *x = xcalloc(1, sizeof *x);
    *x = (struct extras){.facts = *facts, .align = *align};
    return x;
}

void extras_free(struct extras *x) {
    if (!x) return;
    aligner_free(x->aligner);
    xfree(x->matrix);
    xfree(x);
}

static struct model *model_of(const struct extras *x) { return x->facts.engine->model[0]; }

/* ---- links ----------------------------------------------------------------------------------- */

static int need_aligner(struct extras *x, struct err *err) {
    int len = model_of(x)->config.max_len;
    if (x->aligner) return 0;
    struct aligner_setup setup = {.bos = tokenizer_bos(x->facts.target),
                                  .choice = &x->align,
                                  .n_choice = 1,
                                  .caps = {2 * len, 2 * len, SEARCH_MAX_BEAM}};
    return aligner_new(&x->aligner, model_of(x), &setup, err);
}

int extras_link(struct extras *x, struct task *task, struct part *p, struct err *err) {
    struct align_pair pair[SEARCH_MAX_BEAM];
    size_t need = 0;
    int n = 0, rc = need_aligner(x, err);
    if (rc) return rc;
    for (int k = 0; k < p->n && p->best[k].ids; k++, n++) {
        /* one cut at the model's last position has no place for an end mark */
        int rows = min_int(task_leads(task) + p->best[k].n + 1, model_of(x)->config.max_len);
        pair[k] = (struct align_pair){.src = p->src,
                                      .tgt = p->best[k].ids - task_leads(task),
                                      .n_src = p->n_src,
                                      .n_tgt = rows};
        need += (size_t)rows * (size_t)p->n_src;
    }
    if (need > x->cap_matrix) {
        x->cap_matrix = need;
        x->matrix = xrealloc(x->matrix, need * sizeof *x->matrix);
    }
    need = 0;
    for (int k = 0; k < n; k++) {
        pair[k].out = x->matrix + need;
        need += (size_t)pair[k].n_tgt * (size_t)p->n_src;
    }
    if (n) rc = aligner_run(x->aligner, pair, n, err);
    for (int k = 0; k < n && !rc; k++) rc = task_link(task, &x->facts, p, k, pair[k].out, err);
    return rc;
}

/* ---- scores ---------------------------------------------------------------------------------- */

int extras_score(struct extras *x, struct task *task, int document, struct err *err) {
    struct task_pair pair;
    struct scorer *scorer = NULL;
    int rc = task_pair(task, &x->facts, document, &pair, err);
    if (rc) return rc;
    int leads = task_leads(task); /* and is not scored */
    struct batch_caps caps = {pair.n_src, pair.n_tgt + leads, 1};
    float *out = xcalloc((size_t)pair.n_tgt + (size_t)leads, sizeof *out);
    rc = scorer_new(&scorer, model_of(x), tokenizer_bos(x->facts.target), &caps, err);
    struct score_pair one = {pair.src, pair.tgt - leads, pair.n_src, pair.n_tgt + leads, out};
    if (!rc) rc = scorer_run(scorer, &one, 1, err);
    if (!rc) task_scored(task, &x->facts, document, &pair, out + leads);
    scorer_free(scorer);
    xfree(out);
    return rc;
}

/* ---- attention ------------------------------------------------------------------------------- */

static const char *const *pieces(const struct tokenizer *t, struct task *task, const int32_t *ids,
                                 int n) {
    const char **piece = keep_take(task_keep(task), (size_t)n * sizeof *piece);
    for (int i = 0; i < n; i++) {
        const char *text = tokenizer_piece(t, ids[i]);
        piece[i] = keep_text(task_keep(task), text, strlen(text)); /* the model may be gone first */
    }
    return piece;
}

/* One kind's layers, one after another. */
static int read_kind(const struct view *view, enum view_kind kind, int n_layer, struct task *task,
                     const float **out, struct err *err) {
    size_t size = view_size(view, kind);
    float *at = keep_take(task_keep(task), (size_t)n_layer * size * sizeof *at);
    int rc = 0;
    *out = at;
    for (int l = 0; l < n_layer && !rc; l++) rc = view_read(view, kind, l, at + l * size, err);
    return rc;
}

static int look(struct extras *x, struct task *task, const struct part *p, struct desk_attention *a,
                struct err *err) {
    struct model *m = model_of(x);
    struct view_options all = {.layer = {VIEW_ALL, VIEW_ALL, VIEW_ALL}};
    struct acts *acts = NULL;
    struct view *view = NULL;
    struct batch batch;
    const int32_t *written = p->best[0].ids - task_leads(task);
    int rc = batch_init(&batch, a->n_src, a->n_tgt, 1, tokenizer_bos(x->facts.target), err);
    if (rc) return rc;
    rc = acts_new(&acts, m, a->n_src, a->n_tgt, 0, err);
    if (!rc) rc = view_new(&view, acts, &all, err);
    if (!rc) rc = batch_add(&batch, p->src, a->n_src, written, a->n_tgt, err);
    if (rc > 0) rc = acts_load(acts, &batch, err);
    if (!rc) rc = view_load(view, err);
    if (!rc) {
        transformer_fwd(&(struct pass){.model = m, .acts = acts, .view = view});
        rc = read_kind(view, VIEW_ENC, a->n_layer_enc, task, &a->enc, err);
    }
    if (!rc) rc = read_kind(view, VIEW_DEC, a->n_layer_self, task, &a->dec, err);
    if (!rc) rc = read_kind(view, VIEW_CROSS, a->n_layer_dec, task, &a->cross, err);
    view_free(view);
    acts_free(acts);
    batch_release(&batch);
    return rc;
}

int extras_attend(struct extras *x, struct task *task, const struct part *p, struct err *err) {
    const struct config *c = &model_of(x)->config;
    struct desk_attention *a = keep_take(task_keep(task), sizeof *a);
    if (!p->best[0].ids) return 0;
    *a = (struct desk_attention){.n_src = p->n_src,
                                 .n_tgt = min_int(task_leads(task) + p->best[0].n + 1, c->max_len),
                                 .n_layer_enc = c->n_layer_enc,
                                 .n_layer_dec = c->n_layer_dec,
                                 .n_layer_self = view_layers(c, VIEW_DEC),
                                 .n_head = c->n_head};
    double s = a->n_src, t = a->n_tgt;
    double cells =
        c->n_head * (a->n_layer_enc * s * s + a->n_layer_self * t * t + a->n_layer_dec * t * s);
    if (cells > MAX_CELLS)
        return err_set(err, HEED_ELIMIT,
                       "%d source and %d target tokens make %.0f probabilities, too many to show",
                       a->n_src, a->n_tgt, cells);
    a->src = pieces(x->facts.source, task, p->src, a->n_src);
    a->tgt = pieces(x->facts.target, task, p->best[0].ids - task_leads(task), a->n_tgt);
    int rc = look(x, task, p, a, err);
    if (!rc) task_attention(task, a);
    return rc;
}
