/* align.h — which source tokens each target token looked at: cross-attention of a finished
 * translation.
 *
 * The translation is sent once more through the decoder, all positions at once (so this costs
 * little compared with the search), with the attention probabilities of one layer kept. An aligner
 * owns its activations and borrows the model; one thread at a time. */
#ifndef SEARCH_ALIGN_H
#define SEARCH_ALIGN_H

#include "data/batch.h"
#include "data/links.h"
#include "model/model.h"

struct align_options {
    /* of the decoder, counted from 1; 0: the last but one, where attention aligns best, or the only
     * one */
    int layer;
    int head; /* counted from 1; 0: the mean of all */
};

/* One pair; src ends with its end mark. tgt need not: the row of a token depends only on the tokens
 * before it, so a translation cut at the model's last position can be aligned without one. out
 * [n_tgt, n_src] receives P(target token looks at source token), rows summing to 1. */
struct align_pair {
    const int32_t *src, *tgt;
    int n_src, n_tgt;
    float *out;
};

struct aligner;
int aligner_new(struct aligner **aligner, struct model *model, int32_t bos,
                const struct align_options *options, const struct batch_caps *caps,
                struct err *err);
void aligner_free(struct aligner *aligner);

/* Pairs beyond the capacity are done in several rounds. */
int aligner_run(struct aligner *aligner, const struct align_pair *pair, int n, struct err *err);

/* Moses' hard alignment of one matrix: for each of the first n_tgt target tokens (the end mark is
 * not one of them) the source token of the largest probability (ties to the lower), the source's
 * end mark left out. link[k] = {i, j}: source i, target j, 0-based, in ascending (i, j). Returns
 * the number of links, at most n_tgt. */
int align_links(struct align_link *link, const float *matrix, int n_src, int n_tgt);

#endif
