/* draws.h — the pairs of a pool: which ones, how long, and, where segmentations are sampled, their
 * ids.
 *
 * Draw number d of epoch e, d in [0, n_draw), is first sent through the epoch's own shuffle, which
 * mixes the corpora; the result gives the corpus and j, the number of the draw among that corpus's
 * in this epoch. Over all epochs that corpus has seen g = e * (draws per epoch) + j draws, so it is
 * in its pass g / n_pair, and each pass has its own shuffle. Hence any run of n_pair consecutive
 * draws of a pass visits every pair once, whatever the weight.
 *
 * A drawer knows the corpora and owns threads and scratch; a struct draws is one pool's memory, all
 * of it taken by draws_init. A pool may be loaded in parts. Nothing depends on the parts or on the
 * number of threads. */
#ifndef DATA_DRAWS_H
#define DATA_DRAWS_H

#include <stdbool.h>

#include "data/batches.h"

struct draw {
    struct corpus_place place;
    int source;
    int32_t n_src, n_tgt; /* in a batch: tag included, as sampled */
    size_t ids;           /* sampled: where the source ids are; the target ids follow */
};

struct draws {
    uint64_t epoch, pool;
    int n, n_loaded;   /* the first n_loaded of n */
    struct draw *draw; /* [cap_pool] */
    int32_t *ids;      /* sampled: of each block of draws, one after another */
};

struct draws_source {
    struct batches_source from;
    uint64_t n_draw;     /* per epoch */
    uint64_t first_draw; /* of the epoch's draws, before they are shuffled */
};

struct drawer {
    struct draws_source *source; /* [n_source] */
    int n_source;
    bool shuffled; /* or in the order of the corpus */
    uint64_t seed;
    uint64_t n_draw, n_pool; /* per epoch */
    int cap_pool, longest;   /* pairs of a pool, tokens of a side; at most */

    const struct subword *sample[2]; /* source and target; NULL: as in the corpus */
    int sample_len;
    struct pool *threads; /* NULL: nothing is sampled */
    struct hand *hand;    /* [threads]: scratch of each */

    struct piece_link *link;  /* of one pair; NULL: no corpus has links */
    int32_t *packed;          /* the same in the file */
    int32_t *size[2], *to[2]; /* [longest + 1]: what moving links takes; NULL: nothing is sampled */
};

/* Checks the corpora and what to sample. `shuffled` off ignores seed and weights. */
int drawer_init(struct drawer *drawer, const struct batches_options *options, bool shuffled,
                struct err *err);
void drawer_release(struct drawer *drawer);
bool drawer_samples(const struct drawer *drawer);

int draws_init(struct draws *draws, const struct drawer *drawer, struct err *err);
void draws_release(struct draws *draws);

/* Turns to a pool, of which nothing is loaded; loads the first n pairs of it, or all if there are
 * not as many. */
void draws_begin(struct draws *draws, const struct drawer *drawer, uint64_t epoch, uint64_t pool);
int draws_load(struct draws *draws, struct drawer *drawer, int n, struct err *err);

/* The ids of a loaded pair, n_src and n_tgt of them; valid until the next call. */
int draws_read(const struct draws *draws, struct drawer *drawer, const struct draw *draw,
               const int32_t **src, const int32_t **tgt, struct err *err);

/* The links of a loaded pair to drawer->link, in the pieces that draws_read gives: how many, or a
 * negative status. Ends what draws_read gave. */
int draws_links(const struct draws *draws, struct drawer *drawer, const struct draw *draw,
                struct err *err);

#endif
