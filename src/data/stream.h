/* stream.h — which pairs make up which batch: the deterministic half of batches.h, without threads.
 *
 * The order is described in batches.h. A stream holds one pool at a time: for each of its draws the
 * pair and its lengths, sorted, and where the batches are cut. Asking for a batch of another pool
 * loads that pool; ids are read from the corpus when the batch is filled. All memory is taken by
 * stream_init. */
#ifndef DATA_STREAM_H
#define DATA_STREAM_H

#include <stdbool.h>

#include "data/batches.h"

enum { STREAM_POOL = 32768 };

/* One pair of the loaded pool. */
struct draw {
    struct corpus_place place;
    int source;
};

struct stream_source {
    const struct corpus *corpus;
    uint64_t n_draw;     /* per epoch */
    uint64_t first_draw; /* of the epoch's draws, before they are shuffled */
};

struct stream_place {
    uint64_t epoch, pool, batch;
};

struct stream {
    struct stream_source *source; /* [n_source] */
    int n_source;
    bool shuffled; /* or in the order of the corpus */
    uint64_t seed;
    int tokens, sentences;
    uint64_t n_draw, n_pool; /* per epoch */

    bool loaded; /* the following describe pool `at_pool` of epoch `at_epoch` */
    uint64_t at_epoch, at_pool;
    int n_in_pool, n_batch;
    struct draw *draw;      /* [cap_pool], in the order drawn */
    uint32_t *order, *work; /* [cap_pool]: draws by length; scratch of the sort */
    uint32_t *cut;          /* [cap_pool + 1]: batch i is order[cut[i] .. cut[i + 1]) */
    uint32_t *turn;         /* [cap_pool]: the i-th batch given out */
    uint32_t *count;        /* [longest + 2]: scratch of the sort */
    int cap_pool, longest;
    int32_t *src, *tgt; /* [longest]: one pair */
};

/* Checks the options, which are those of batches_new; `shuffled` off ignores seed and weights. */
int stream_init(struct stream *stream, const struct batches_options *options, bool shuffled,
                struct err *err);
void stream_release(struct stream *stream);

/* Fills *out with the batch at *place and moves *place on to the next one. A place that does not
 * exist is HEED_EINVAL. */
int stream_fill(struct stream *stream, struct stream_place *place, struct batch *out,
                struct err *err);

/* Whether there is a batch at the place. */
int stream_check(struct stream *stream, const struct stream_place *place, struct err *err);

/* Most pairs one batch can have. */
int stream_max_seq(const struct stream *stream);

#endif
