/* align.c — see align.h.
 *
 * A round is one batch: as many pairs as fit its tokens, its sentences, and the memory for
 * probabilities, which is a rectangle (all target tokens times the longest source), so a long
 * source among short ones ends a round early. Rows of a sentence do not depend on the others, so
 * rounds change no bits (on the CPU). */
#include "search/align.h"

#include <string.h>

#include "base/num.h"
#include "model/transformer.h"
#include "model/view.h"

/* Source tokens per target token there is always room for, so that rounds are not tiny. */
enum { USUAL_SOURCE = 64 };

struct aligner {
    struct model *model;
    int layer, head;
    struct acts *acts;
    struct view *view;
    struct batch batch;
    float *host; /* one layer of the view */
    int64_t cells;
};

static int choose(struct aligner *a, const struct align_options *o, struct err *err) {
    const struct config *c = &a->model->config;
    int last = c->n_layer_dec;
    if (o->layer < 0 || o->layer > last)
        return err_set(err, HEED_EINVAL,
                       "alignment_layer: there is no such layer; the decoder has %d", last);
    if (o->head < 0 || o->head > c->n_head)
        return err_set(err, HEED_EINVAL, "alignment_head: there is no such head; a layer has %d",
                       c->n_head);
    a->layer = o->layer ? o->layer - 1 : last > 1 ? last - 2 : 0;
    a->head = o->head - 1; /* -1: all */
    return 0;
}

/* Room for the largest pair, and for a batch of usual ones. */
static int64_t cells_for(const struct config *c, int64_t cap_src, int64_t cap_tgt) {
    int64_t src = min_i64(cap_src, c->max_len), tgt = min_i64(cap_tgt, c->max_len);
    return max_i64(tgt * src, cap_tgt * min_i64(src, USUAL_SOURCE));
}

int aligner_new(struct aligner **out, struct model *model, int32_t bos,
                const struct align_options *options, const struct batch_caps *caps,
                struct err *err) {
    *out = NULL;
    struct aligner *a = xcalloc(1, sizeof *a);
    a->model = model;
    int rc = choose(a, options, err);
    if (!rc) rc = batch_init(&a->batch, caps->src, caps->tgt, caps->seq, bos, err);
    if (!rc) rc = acts_new(&a->acts, model, caps->src, caps->tgt, 0, err);
    if (!rc) {
        a->cells = cells_for(&model->config, caps->src, caps->tgt);
        struct view_options view = {.layer = {VIEW_NONE, VIEW_NONE, a->layer}, .cells = a->cells};
        rc = view_new(&a->view, a->acts, &view, err);
    }
    size_t n = size_mul((size_t)a->cells, (size_t)model->config.n_head);
    if (!rc && !(a->host = mem_block(size_mul(n, sizeof *a->host))))
        rc = err_set(err, HEED_ENOMEM, "alignment: not enough memory for %zu probabilities", n);
    if (rc) {
        aligner_free(a);
        return rc;
    }
    *out = a;
    return 0;
}

void aligner_free(struct aligner *a) {
    if (!a) return;
    mem_block_free(a->host);
    view_free(a->view);
    acts_free(a->acts);
    batch_release(&a->batch);
    xfree(a);
}

/* The matrix of sentence s: one head's, or the mean of all in the order of the heads. */
static void put_matrix(const struct aligner *a, int s, const struct align_pair *pair) {
    const struct packed *src = &a->batch.src, *tgt = &a->batch.tgt;
    int n_head = a->model->config.n_head;
    int first = a->head < 0 ? 0 : a->head, end = a->head < 0 ? n_head : a->head + 1;
    for (int j = 0; j < pair->n_tgt; j++) {
        float *row = pair->out + (size_t)j * (size_t)pair->n_src;
        memset(row, 0, (size_t)pair->n_src * sizeof *row);
        for (int h = first; h < end; h++) {
            size_t at = (size_t)h * (size_t)tgt->n_tok + (size_t)(tgt->start[s] + j);
            const float *p = a->host + at * (size_t)src->max_len;
            for (int i = 0; i < pair->n_src; i++) row[i] += p[i];
        }
        for (int i = 0; i < pair->n_src && end - first > 1; i++) row[i] /= (float)(end - first);
    }
}

/* Puts the next pairs into the batch: how many. */
static int collect(struct aligner *a, const struct align_pair *pair, int n, struct err *err) {
    struct batch *b = &a->batch;
    batch_clear(b);
    for (int k = 0; k < n; k++) {
        int64_t longest = max_i64(b->src.max_len, pair[k].n_src);
        if (k && (b->tgt.n_tok + (int64_t)pair[k].n_tgt) * longest > a->cells) return k;
        int rc = batch_add(b, pair[k].src, pair[k].n_src, pair[k].tgt, pair[k].n_tgt, err);
        if (rc < 0) return rc;
        if (rc == 0) return k;
    }
    return n;
}

static int round_of(struct aligner *a, struct err *err) {
    int rc = acts_load(a->acts, &a->batch, err);
    if (!rc) rc = view_load(a->view, err);
    if (rc) return rc;
    transformer_fwd(&(struct pass){.model = a->model, .acts = a->acts, .view = a->view});
    return view_read(a->view, VIEW_CROSS, a->layer, a->host, err);
}

int aligner_run(struct aligner *a, const struct align_pair *pair, int n, struct err *err) {
    for (int done = 0; done < n;) {
        int k = collect(a, pair + done, n - done, err);
        int rc = k < 0 ? k : round_of(a, err);
        if (rc) return rc;
        for (int s = 0; s < k; s++) put_matrix(a, s, &pair[done + s]);
        done += k;
    }
    return 0;
}

/* Links come by target; each is put behind those of the same or a lower source token. */
int align_links(struct align_link *link, const float *matrix, int n_src, int n_tgt) {
    int n = 0;
    for (int j = 0; j < n_tgt && n_src > 1; j++) {
        const float *row = matrix + (size_t)j * (size_t)n_src;
        int best = 0;
        for (int i = 1; i + 1 < n_src; i++)
            if (row[i] > row[best]) best = i;
        int at = n++;
        for (; at > 0 && link[at - 1].src > best; at--) link[at] = link[at - 1];
        link[at] = (struct align_link){best, j};
    }
    return n;
}
