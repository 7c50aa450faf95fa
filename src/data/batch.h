/* batch.h — a packed batch of sentence pairs on the host: concatenated token ids and sentence
 * offsets.
 *
 * Nothing is padded. A batch has room for a fixed number of source tokens, target tokens and
 * sentences, reserved once; adding a pair that does not fit is refused, so that the caller starts
 * the next batch. The decoder's input is the target shifted right behind a begin mark: tgt_in = bos
 * y_1 .. y_n-1 (bos may be -1: the zero vector) while tgt_out = y_1 .. y_n, where y_n is normally
 * the end mark the caller put there.
 *
 * A batch for guided training also has links: for each row of the decoder the source positions that
 * its *input* is linked to, as the op guide takes them (backend/ops.h). */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include <stdint.h>

#include "base/err.h"
#include "data/piecelinks.h"

/* One side: ids[start[s] .. start[s+1]) are the tokens of sentence s, pos their place in it. */
struct packed {
    int32_t *ids, *pos; /* [cap_tok] */
    int32_t *start;     /* [cap_seq + 1] */
    int n_tok, max_len;
};

struct batch {
    struct packed src, tgt; /* tgt.ids is the decoder's input */
    int32_t *tgt_out;       /* [cap tgt tokens]: what it should predict */
    int32_t *span;  /* [cap tgt tokens, 2]: ranges of each row, none where equal; NULL: no links */
    int32_t *range; /* [cap_range, 2]: source positions within the sentence */
    int n_range, n_guided, cap_range; /* n_guided: rows with ranges */
    int n_seq;
    int cap_src, cap_tgt, cap_seq;
    int32_t bos;
};

/* Source tokens, target tokens and sentences that something has room for. */
struct batch_caps {
    int src, tgt, seq;
};

/* cap_*: tokens and sentences there is room for; all at least 1. */
int batch_init(struct batch *batch, int cap_src, int cap_tgt, int cap_seq, int32_t bos,
               struct err *err);
/* Makes room for links of any pairs the batch has room for. */
void batch_init_links(struct batch *batch);
void batch_release(struct batch *batch);
void batch_clear(struct batch *batch);

/* 1 if the pair was added, 0 if the batch has no room for it now, negative if it never will
 * (an empty side, or longer than the whole budget), with the reason in *err. */
int batch_add(struct batch *batch, const int32_t *src, int n_src, const int32_t *tgt, int n_tgt,
              struct err *err);

/* The n links of the pair added last, whose pieces they are within. Nothing happens, and the pair
 * stays without, if the batch is not for links or should ever have no room for these. */
void batch_link(struct batch *batch, const struct piece_link *link, int n);

/* Ranges there is room for in a batch of so many tokens. */
static inline int batch_cap_range(int cap_src, int cap_tgt) {
    return LINKS_PER_TOKEN * (cap_src + cap_tgt);
}

#endif
