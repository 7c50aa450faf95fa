/* stream.h — which pairs make up which batch: the deterministic half of batches.h, without threads.
 *
 * The order is described in batches.h. A stream holds one pool: for each of its draws the pair and
 * its lengths (draws.h), sorted, and where the batches are cut. Asking for a batch of another pool
 * loads that pool; ids are read from the corpus when the batch is filled. Sampled ids cannot wait
 * for that, since their lengths decide where to cut; they are kept with their pool, and as they
 * take time, each batch that is filled also loads its share of the pool that comes next. All memory
 * is taken by stream_init. */
#ifndef DATA_STREAM_H
#define DATA_STREAM_H

#include "data/draws.h"

enum { STREAM_POOL = 32768 };

struct stream_place {
    uint64_t epoch, pool, batch;
};

struct stream {
    struct drawer drawer;
    int tokens, sentences;

    bool loaded;       /* the following describe pool now.pool of epoch now.epoch */
    struct draws now;  /* all of it, in the order drawn */
    struct draws next; /* of the pool after it, what is loaded; used when sampling */
    int n_batch;
    uint32_t *order, *work; /* [cap_pool]: draws by length; scratch of the sort */
    uint32_t *cut;          /* [cap_pool + 1]: batch i is order[cut[i] .. cut[i + 1]) */
    uint32_t *turn;         /* [cap_pool]: the i-th batch given out */
    uint32_t *count;        /* [longest + 2]: scratch of the sort */
};

/* Checks the options, which are those of batches_new; `shuffled` off ignores seed and weights. */
int stream_init(struct stream *stream, const struct batches_options *options, bool shuffled,
                struct err *err);
void stream_release(struct stream *stream);

/* Fills *out with the batch at *place and moves *place on to the next one. A place that does not
 * exist is HEED_EINVAL. */
int stream_fill(struct stream *stream, struct stream_place *place, struct batch *out,
                struct err *err);

/* Moves *place on to the next batch as stream_fill does, but only says what is in this one: its ids
 * are not read. */
struct stream_size {
    int n_pair, n_src_tok, n_tgt_tok;
};
int stream_skip(struct stream *stream, struct stream_place *place, struct stream_size *size,
                struct err *err);

/* Whether there is a batch at the place. */
int stream_check(struct stream *stream, const struct stream_place *place, struct err *err);

/* A batch with room for whatever this stream gives. */
int stream_batch_init(const struct stream *stream, struct batch *batch, int32_t bos,
                      struct err *err);

/* Most pairs one batch can have. */
int stream_max_seq(const struct stream *stream);

#endif
