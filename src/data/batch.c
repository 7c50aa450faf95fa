/* batch.c — see batch.h. */
#include "data/batch.h"

#include <string.h>

#include "base/mem.h"

static void packed_init(struct packed *p, int cap_tok, int cap_seq) {
    p->ids = xcalloc((size_t)cap_tok, sizeof *p->ids);
    p->pos = xcalloc((size_t)cap_tok, sizeof *p->pos);
    p->start = xcalloc((size_t)cap_seq + 1, sizeof *p->start);
}

static void packed_release(struct packed *p) {
    xfree(p->ids);
    xfree(p->pos);
    xfree(p->start);
}

/* Room for n more tokens of sentence s; the caller writes the ids at the returned place. */
static int32_t *packed_extend(struct packed *p, int s, int n) {
    int32_t *ids = p->ids + p->n_tok;
    for (int i = 0; i < n; i++) p->pos[p->n_tok + i] = i;
    p->n_tok += n;
    p->start[s + 1] = p->n_tok;
    if (n > p->max_len) p->max_len = n;
    return ids;
}

int batch_init(struct batch *batch, int cap_src, int cap_tgt, int cap_seq, int32_t bos,
               struct err *err) {
    *batch = (struct batch){.cap_src = cap_src, .cap_tgt = cap_tgt, .cap_seq = cap_seq, .bos = bos};
    if (cap_src < 1 || cap_tgt < 1 || cap_seq < 1)
        return err_set(
            err, HEED_EINVAL,
            "batch: room for %d source tokens, %d target tokens, %d sentences; each must "
            "be at least 1",
            cap_src, cap_tgt, cap_seq);
    packed_init(&batch->src, cap_src, cap_seq);
    packed_init(&batch->tgt, cap_tgt, cap_seq);
    batch->tgt_out = xcalloc((size_t)cap_tgt, sizeof *batch->tgt_out);
    return 0;
}

void batch_init_links(struct batch *batch) {
    batch->cap_range = batch_cap_range(batch->cap_src, batch->cap_tgt);
    batch->span = xcalloc(2 * (size_t)batch->cap_tgt, sizeof *batch->span);
    batch->range = xcalloc(2 * (size_t)batch->cap_range, sizeof *batch->range);
}

void batch_release(struct batch *batch) {
    xfree(batch->span);
    xfree(batch->range);
    packed_release(&batch->src);
    packed_release(&batch->tgt);
    xfree(batch->tgt_out);
    *batch = (struct batch){0};
}

void batch_clear(struct batch *batch) {
    batch->n_seq = 0;
    batch->src.n_tok = batch->src.max_len = 0;
    batch->tgt.n_tok = batch->tgt.max_len = 0;
    batch->n_range = batch->n_guided = 0;
}

static int impossible(const struct batch *batch, int n_src, int n_tgt, struct err *err) {
    if (n_src < 1 || n_tgt < 1)
        return err_set(err, HEED_EINVAL,
                       "sentence pair with %d source and %d target tokens: neither "
                       "side may be empty",
                       n_src, n_tgt);
    if (n_src > batch->cap_src)
        return err_set(err, HEED_ELIMIT,
                       "sentence of %d source tokens is longer than the token budget of %d", n_src,
                       batch->cap_src);
    if (n_tgt > batch->cap_tgt)
        return err_set(err, HEED_ELIMIT,
                       "sentence of %d target tokens is longer than the token budget of %d", n_tgt,
                       batch->cap_tgt);
    return 0;
}

int batch_add(struct batch *batch, const int32_t *src, int n_src, const int32_t *tgt, int n_tgt,
              struct err *err) {
    int rc = impossible(batch, n_src, n_tgt, err);
    if (rc) return rc;
    if (n_src > batch->cap_src - batch->src.n_tok || n_tgt > batch->cap_tgt - batch->tgt.n_tok ||
        batch->n_seq == batch->cap_seq)
        return 0;
    int s = batch->n_seq++;
    memcpy(packed_extend(&batch->src, s, n_src), src, (size_t)n_src * sizeof *src);
    memcpy(batch->tgt_out + batch->tgt.n_tok, tgt, (size_t)n_tgt * sizeof *tgt);
    if (batch->span)
        memset(batch->span + 2 * (size_t)batch->tgt.n_tok, 0,
               2 * (size_t)n_tgt * sizeof *batch->span);
    int32_t *in = packed_extend(&batch->tgt, s, n_tgt);
    in[0] = batch->bos;
    memcpy(in + 1, tgt, (size_t)(n_tgt - 1) * sizeof *tgt);
    return 1;
}

/* Links of one target range are neighbours, and all its rows have their ranges in common. Piece t
 * is the input of row t + 1, which the last one has none of. */
void batch_link(struct batch *batch, const struct piece_link *link, int n) {
    if (!batch->span || n > batch->cap_range - batch->n_range) return;
    int first = batch->tgt.start[batch->n_seq - 1], end = batch->tgt.n_tok;
    for (int i = 0, next; i < n; i = next) {
        int begin = batch->n_range;
        for (next = i; next < n && link[next].tgt == link[i].tgt; next++) {
            int32_t *range = batch->range + 2 * (size_t)batch->n_range++;
            range[0] = link[next].src;
            range[1] = link[next].src_end;
        }
        for (int row = first + link[i].tgt + 1; row <= first + link[i].tgt_end && row < end;
             row++) {
            batch->n_guided += batch->span[2 * row] == batch->span[2 * row + 1];
            batch->span[2 * row] = begin;
            batch->span[2 * row + 1] = batch->n_range;
        }
    }
}
