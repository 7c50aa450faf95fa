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

const char *const align_row_names[] = {"auto", "input", "output", NULL};

struct align_options align_default(int n_layer) {
    enum { DEEP = 4 };
    return n_layer < DEEP ? (struct align_options){n_layer, 0, ALIGN_OUTPUT, 0}
                          : (struct align_options){ceil_div(n_layer, 2), 0, ALIGN_INPUT, 0};
}

struct aligner {
    struct model *model;
    struct align_options *choice; /* [n_choice], layers from 0, heads from 0 or -1 */
    int n_choice;
    struct acts *acts;
    struct view *view;
    struct batch batch;
    float *host; /* one layer of the view */
    int64_t cells;
    struct pool *pool;
    const volatile int *stop;
};

static int choose(struct align_options *choice, const struct align_options *o,
                  const struct config *c, struct err *err) {
    int last = c->n_layer_dec;
    if (o->layer < 0 || o->layer > last)
        return err_set(err, HEED_EINVAL,
                       "alignment_layer: there is no such layer; the decoder has %d", last);
    if (o->head < 0 || o->head > c->n_head)
        return err_set(err, HEED_EINVAL, "alignment_head: there is no such head; a layer has %d",
                       c->n_head);
    struct align_options usual = align_default(last);
    *choice = (struct align_options){(o->layer ? o->layer : usual.layer) - 1, o->head - 1,
                                     o->row ? o->row : usual.row, 0};
    return 0;
}

/* Room for the largest pair, and for a batch of usual ones. */
static int64_t cells_for(const struct config *c, int64_t cap_src, int64_t cap_tgt) {
    int64_t src = min_i64(cap_src, c->max_len), tgt = min_i64(cap_tgt, c->max_len);
    return max_i64(tgt * src, cap_tgt * min_i64(src, USUAL_SOURCE));
}

/* The layers of all choices; activations, their probabilities, and room for those of a layer. */
static int reserve(struct aligner *a, const struct batch_caps *caps, struct err *err) {
    const struct config *c = &a->model->config;
    int layer = a->choice[0].layer;
    for (int k = 1; k < a->n_choice; k++)
        if (a->choice[k].layer != layer) layer = VIEW_ALL;
    int rc = acts_new(&a->acts, a->model, caps->src, caps->tgt, 0, err);
    if (rc) return rc;
    a->cells = cells_for(c, caps->src, caps->tgt);
    struct view_options view = {.layer = {VIEW_NONE, VIEW_NONE, layer}, .cells = a->cells};
    if ((rc = view_new(&a->view, a->acts, &view, err))) return rc;
    size_t n = size_mul((size_t)a->cells, (size_t)c->n_head);
    if ((a->host = mem_block(size_mul(n, sizeof *a->host)))) return 0;
    return err_set(err, HEED_ENOMEM, "alignment: not enough memory for %zu probabilities", n);
}

int aligner_new(struct aligner **out, struct model *model, const struct aligner_setup *setup,
                struct err *err) {
    const struct batch_caps *caps = &setup->caps;
    *out = NULL;
    struct aligner *a = xcalloc(1, sizeof *a);
    a->model = model;
    a->n_choice = setup->n_choice;
    a->pool = setup->pool;
    a->stop = setup->stop;
    a->choice = xcalloc((size_t)a->n_choice, sizeof *a->choice);
    int rc = 0;
    for (int k = 0; k < a->n_choice && !rc; k++)
        rc = choose(&a->choice[k], &setup->choice[k], &model->config, err);
    if (!rc) rc = batch_init(&a->batch, caps->src, caps->tgt, caps->seq, setup->bos, err);
    if (!rc) rc = reserve(a, caps, err);
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
    xfree(a->choice);
    xfree(a);
}

/* Which heads of a layer are needed: [first, end). */
struct heads {
    int first, end;
};

static struct heads heads_of(const struct aligner *a, int layer) {
    struct heads all = {0, a->model->config.n_head}, h = {all.end, 0};
    for (int k = 0; k < a->n_choice; k++) {
        const struct align_options *c = &a->choice[k];
        if (c->layer != layer) continue;
        if (c->head < 0) return all;
        h = (struct heads){min_int(h.first, c->head), max_int(h.end, c->head + 1)};
    }
    return h;
}

/* The matrix of sentence s by one choice: one head's, or the mean of all in the order of the heads.
 * The heads read are in host. */
static void put_matrix(const struct aligner *a, int s, const struct align_pair *pair,
                       const struct align_options *c, struct heads read, float *out) {
    const struct packed *src = &a->batch.src, *tgt = &a->batch.tgt;
    struct heads h = c->head < 0 ? read : (struct heads){c->head, c->head + 1};
    for (int j = 0; j < pair->n_tgt; j++) {
        int from = c->row == ALIGN_OUTPUT ? j : min_int(j + 1, pair->n_tgt - 1);
        float *row = out + (size_t)j * (size_t)pair->n_src;
        memset(row, 0, (size_t)pair->n_src * sizeof *row);
        for (int k = h.first; k < h.end; k++) {
            size_t at =
                (size_t)(k - read.first) * (size_t)tgt->n_tok + (size_t)(tgt->start[s] + from);
            const float *p = a->host + at * (size_t)src->max_len;
            for (int i = 0; i < pair->n_src; i++) row[i] += p[i];
        }
        for (int i = 0; i < pair->n_src && h.end - h.first > 1; i++)
            row[i] /= (float)(h.end - h.first);
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

/* The probabilities of a layer that are in host. */
struct layer {
    const struct aligner *a;
    int layer;
    struct heads read;
    const struct align_pair *pair; /* of the batch */
    int n;
};

enum { TASK = 16 }; /* pairs that a thread takes at a time */

static void put_task(void *ctx, int task, int thread) {
    const struct layer *l = ctx;
    (void)thread;
    for (int s = task * TASK; s < min_int((task + 1) * TASK, l->n); s++)
        for (int c = 0; c < l->a->n_choice; c++) {
            const struct align_pair *pair = &l->pair[s];
            size_t size = (size_t)pair->n_tgt * (size_t)pair->n_src;
            if (l->a->choice[c].layer == l->layer)
                put_matrix(l->a, s, pair, &l->a->choice[c], l->read, pair->out + (size_t)c * size);
        }
}

/* All that one layer says about the k pairs of the batch. */
static int read_layer(struct aligner *a, int layer, const struct align_pair *pair, int k,
                      struct err *err) {
    struct layer l = {a, layer, heads_of(a, layer), pair, k};
    if (l.read.first >= l.read.end) return 0;
    struct view_slice slice = {VIEW_CROSS, layer, l.read.first, l.read.end - l.read.first};
    int rc = view_read_slice(a->view, &slice, a->host, err), n_task = ceil_div(k, TASK);
    if (!rc && a->pool) pool_run(a->pool, put_task, &l, n_task);
    for (int task = 0; task < n_task && !rc && !a->pool; task++) put_task(&l, task, 0);
    return rc;
}

static int round_of(struct aligner *a, const struct align_pair *pair, int k, struct err *err) {
    int rc = acts_load(a->acts, &a->batch, err);
    if (!rc) rc = view_load(a->view, err);
    if (rc) return rc;
    transformer_fwd(&(struct pass){.model = a->model, .acts = a->acts, .view = a->view});
    for (int l = 0; l < a->model->config.n_layer_dec && !rc; l++)
        rc = read_layer(a, l, pair, k, err);
    return rc;
}

int aligner_run(struct aligner *a, const struct align_pair *pair, int n, struct err *err) {
    for (int done = 0; done < n;) {
        if (a->stop && *a->stop) return err_set(err, HEED_ECANCELLED, "stopped");
        int k = collect(a, pair + done, n - done, err);
        int rc = k < 0 ? k : round_of(a, pair + done, k, err);
        if (rc) return rc;
        done += k;
    }
    return 0;
}

/* ---- reading a matrix ------------------------------------------------------------------------ */

void align_to_words(float *out, const struct align_matrix *m, const struct align_words *w) {
    memset(out, 0, (size_t)w->n_tgt_word * (size_t)w->n_src_word * sizeof *out);
    for (int j = 0, n = 0; j < m->n_row; j++) {
        const float *row = m->at + (size_t)j * (size_t)m->stride;
        if (w->tgt_of[j] < 0) continue;
        float *to = out + (size_t)w->tgt_of[j] * (size_t)w->n_src_word;
        for (int i = 0; i < m->n_col; i++)
            if (w->src_of[i] >= 0) to[w->src_of[i]] += row[i];
        n++;
        if (j + 1 < m->n_row && w->tgt_of[j + 1] == w->tgt_of[j]) continue;
        for (int i = 0; i < w->n_src_word && n > 1; i++) to[i] /= (float)n;
        n = 0;
    }
}

/* Links come by target; each is put behind those of the same or a lower source token. */
int align_links(struct align_link *link, const struct align_matrix *m, float threshold) {
    int n = 0;
    for (int j = 0; j < m->n_row; j++) {
        const float *row = m->at + (size_t)j * (size_t)m->stride;
        int best = 0;
        for (int i = 1; i < m->n_col; i++)
            if (row[i] > row[best]) best = i;
        if (m->n_col < 1 || !(row[best] > 0) || row[best] < threshold) continue;
        int at = n++;
        for (; at > 0 && link[at - 1].src > best; at--) link[at] = link[at - 1];
        link[at] = (struct align_link){best, j};
    }
    return n;
}
