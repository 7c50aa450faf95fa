/* scorer.h — how probable a model finds given translations: forced decoding, all positions at once.
 *
 * No label smoothing: it belongs to training. A scorer owns its activations and borrows the model;
 * it is sized once and nothing is allocated while it runs. One thread at a time.
 *
 * Models being trained and frozen ones (frozen.h) both work. The loss op wants a plain output
 * matrix; with a tiled one the logits of a chunk of rows are formed and normalised by topk, whose
 * best value gives the normaliser. On the CPU the result for a pair does not depend on the pairs
 * beside it. */
#ifndef SEARCH_SCORER_H
#define SEARCH_SCORER_H

#include "data/batch.h"
#include "model/model.h"

/* One pair; src and tgt end with their end mark. out [n_tgt] receives log P(tgt[j] | src,
 * tgt[0..j)), natural logarithm, the end mark's last; their sum is log P(tgt | src). */
struct score_pair {
    const int32_t *src, *tgt;
    int n_src, n_tgt;
    float *out;
};

struct scorer;

/* caps: of one batch. */
int scorer_new(struct scorer **scorer, struct model *model, int32_t bos,
               const struct batch_caps *caps, struct err *err);
void scorer_free(struct scorer *scorer);

/* Pairs beyond the capacity are done in several batches, in the order given; similar lengths side
 * by side are not needed, since nothing is padded. */
int scorer_run(struct scorer *scorer, const struct score_pair *pair, int n, struct err *err);

#endif
