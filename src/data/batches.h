/* batches.h — the endless, seeded, resumable stream of training batches, and the plain one for
 * validation.
 *
 * Order. An epoch holds round(weight * pairs) draws of every corpus: weight 1 is every pair once,
 * weight 2 every pair twice, weight 0.5 one half in this epoch and the other half in the next.
 * Draws are shuffled by keyed bijections (shuffle.h), so that there is no permutation in memory,
 * whatever the size of the corpora. Consecutive draws form a pool; a pool is sorted by length, cut
 * into batches of at most `tokens` source and as many target tokens (the same number of batches
 * with as small a budget as possible: none is a small remainder), and its batches are shuffled. So
 * a batch holds sentences of similar length, and everything is a function of (seed, epoch, pool): a
 * position is a few numbers.
 *
 * Sampling. With sample_src or sample_tgt the segmentation of a sentence is drawn at random, keyed
 * by (seed, epoch, draw, side), when its pool is loaded; sorting and cutting go by the lengths that
 * come out, so budgets hold. The pool that comes next is loaded little by little while batches of
 * this one are prepared, on sample_threads threads; none of this shows in the results.
 *
 * Links. Where a corpus was built with links (corpus.h), the batches have them (batch.h), in the
 * pieces as sampled.
 *
 * Shares. Where several take the batches of one stream, each runs the whole stream, in which the
 * next is known only from those before, and is given its own batches: of every `every` in a row,
 * beginning where the stream was begun or restored, n from `first` on. Positions and totals are
 * those of the whole stream: after the last own batch of a group, those behind the group.
 *
 * Time. With prefetch > 0 a thread prepares that many batches ahead. It reads and sorts; it owns
 * buffers reserved at the start and allocates nothing. Its errors appear in batches_next. The state
 * is that of the batch last taken, not of what was prepared. Results do not depend on prefetch.
 *
 * Corpora and tables of subwords are borrowed and must outlive the stream. One consumer at a
 * time. */
#ifndef DATA_BATCHES_H
#define DATA_BATCHES_H

#include "data/batch.h"
#include "data/corpus.h"

struct subword;

struct batches_source {
    const struct corpus *corpus;
    double weight; /* > 0; 0 means 1 */
    int tagged;    /* every source sentence begins with ... */
    int32_t tag;   /* ... this id */
};

struct batches_options {
    const struct batches_source *source;
    int n_source; /* at least 1 */
    uint64_t seed;
    int tokens;    /* most source tokens in a batch, and most target tokens */
    int sentences; /* most pairs in a batch; 0: no separate limit */
    int pool;      /* pairs sorted together; 0: 32768 */
    int prefetch;  /* batches prepared ahead by a thread; 0: none */
    int32_t bos;   /* what the decoder's input begins with */
    /* Draw the segmentation of this side anew in every epoch (subword.h); NULL: as in the corpus.
     * A sentence that would get longer than sample_len tokens stays as it is. */
    const struct subword *sample_src, *sample_tgt;
    int sample_len;
    int sample_threads; /* 0: 1 */
    struct batches_share {
        int every, first, n; /* all 0: all batches */
    } share;
};

/* A position between two batches, as a checkpoint keeps it: plain numbers, all meaningful
 * together. */
struct batches_state {
    uint64_t data[2]; /* identifies corpora, weights, tags and sampling, in order */
    uint64_t seed, tokens, sentences, pool_size;
    uint64_t epoch, pool, batch; /* the next batch: batch number `batch` of that pool */
    uint64_t n_batch, n_pair, n_src_tok, n_tgt_tok; /* taken since the run began */
};

/* An epoch's size. Tokens are exact when all weights are whole numbers, expected otherwise; those
 * of sampled sides are what they would be without sampling. */
struct batches_epoch {
    uint64_t n_pair, n_pool;
    double n_src_tok, n_tgt_tok;
};

struct batches;

/* HEED_EINVAL when `tokens` is less than the longest sentence, or an option makes no sense. */
int batches_new(struct batches **batches, const struct batches_options *options, struct err *err);
void batches_free(struct batches *batches); /* stops the thread; NULL is fine */

/* A batch with room for whatever this stream gives: the only kind batches_next takes. Released by
 * batch_release. Several may be held at once, as gradient accumulation wants. */
int batches_batch_init(const struct batches *batches, struct batch *batch, struct err *err);

/* The next batch, in place of what *out held. Never ends. Nothing is copied: *out trades its
 * buffers for those of the prepared batch, so pointers into its arrays do not survive the call; the
 * struct does. */
int batches_next(struct batches *batches, struct batch *out, struct err *err);

/* The position after the batch last taken. When an epoch's last batch has been taken, it is the
 * start of the next epoch: `epoch` counts finished epochs. */
void batches_state(const struct batches *batches, struct batches_state *state);

/* Continues at a saved position: the batches that follow are the ones that would have followed
 * then. Refused with HEED_EINVAL and the reason when data, seed or batch shape differ from those of
 * the state. */
int batches_restore(struct batches *batches, const struct batches_state *state, struct err *err);

/* For a run that goes on with other data or other batches, where a restore is refused: keeps the
 * state's epoch number and totals and begins that epoch from its start. */
int batches_restart_epoch(struct batches *batches, const struct batches_state *state,
                          struct err *err);

struct batches_epoch batches_epoch(const struct batches *batches);

/* ---------------------------------------------------------------------------------- validation ---
 * Every pair of one corpus once, whatever its weight, in a fixed order: windows of consecutive
 * pairs, sorted by length, cut into batches. No thread, no seed. */
struct sweep;

int sweep_new(struct sweep **sweep, const struct batches_source *source, int tokens, int32_t bos,
              struct err *err);
void sweep_free(struct sweep *sweep);

/* 1: *batch is the next batch, valid until the next call; 0: there are no more; negative: an
 * error. */
int sweep_next(struct sweep *sweep, const struct batch **batch, struct err *err);
void sweep_rewind(struct sweep *sweep);
/* The same as sweep_next without the batch. */
int sweep_skip(struct sweep *sweep, struct err *err);

#endif
