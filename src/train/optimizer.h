/* optimizer.h — one update of the parameters from one or several batches.
 *
 * Owns the training state beside the parameters: gradients, Adam's two moments and, if wanted, a
 * moving average of the parameters, each a flat buffer of the parameters' layout. Borrows the model
 * and its activations.
 *
 * An update runs every batch forward and backward, then one Adam pass. The loss is the mean over
 * all target tokens of the update, so k batches of n tokens give the gradient of one batch of k*n.
 * Each batch's gradient begins at zero, and those of an update are added in the tree of the op sum:
 * the order does not depend on where a part of the tree is computed (shards.h). While they come one
 * by one, several partial sums wait: there is a buffer for each, shards_depth(accumulate) in all.
 * Nothing is allocated.
 *
 * Ranks. With a comm of W ranks each computes the gradients of its own batches and keeps moments
 * and average only of its own slices of the parameters (shards.h): partial sums of gradients go to
 * the owners of slices, who finish the tree, bucket by bucket; where messages go beside the backend
 * (comm_beside), a bucket leaves as soon as the backward pass of the rank's last batch is done with
 * it, else after that pass; the squares of all ranges and the losses of all
 * batches are added in order by everybody; each updates its slices; and the parameters as the model
 * computes with them (the bf16 copy, if there is one) come back to all. So the bits are those of
 * one rank. Where there is a copy, the f32 parameters are up to date in own slices only, until
 * optimizer_gather. Functions marked collective are called by all ranks together. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "comm/comm.h"
#include "model/acts.h"
#include "train/shards.h"
#include "train/watch.h"

struct optimizer_options {
    double beta1, beta2, eps; /* PAPER: 5.3: 0.9, 0.98, 1e-9 */
    double clip;              /* largest norm of the gradient; 0: no clipping, as in the paper */
    int measure;              /* compute the gradient's norm even without clipping */
    int64_t warmup;           /* steps of rising learning rate */
    double lr_scale;
    int64_t steps, cooldown; /* the rate falls to 0 over the last `cooldown` of `steps` updates */
    double ema; /* decay of the parameters' moving average (schedule_average); 0: none is kept */
    int accumulate;      /* most batches of an update, of all ranks together */
    struct comm *comm;   /* borrowed; NULL: alone. The number of ranks is valid (shards_valid) */
    struct watch *watch; /* of the ranks, told what this one does; or NULL */
    int64_t bucket;      /* elements that are reduced at a time (shards.h); 0: as many as usual */
    uint64_t seed;       /* of the dropout masks */
};
extern const struct optimizer_options optimizer_defaults;

int optimizer_options_check(const struct optimizer_options *options, struct err *err);

struct optimizer {
    struct optimizer_options options;
    struct model *model;
    struct acts *acts;
    struct shards shards;
    void *m, *v;      /* f32, this rank's shard; alone: flat */
    void *avg;        /* the same, or NULL: the average of the parameters */
    void *grads;      /* [n_row] flat, f32; the first is the update's gradient, else zero */
    void *received;   /* parts of a bucket of gradients from other ranks; NULL: alone */
    int shown;        /* the average stands in for the parameters, which wait in grads */
    struct params *g; /* [n_row] views into grads */
    int n_row;
    int n_reduced, under_way; /* steps of the reduction begun; is the last of them not ended? */
    double *squares; /* [n_range] in backend memory: of own slices of the gradient, by range */
    double *mine;    /* [n_mine] on the host: totals of own batches, squares of own ranges */
    double *all;     /* [ranks][n_mine] of all ranks; alone: mine */
    int n_own, n_range, n_mine; /* own batches, own ranges, numbers that each rank gives to all */
    double *sumsq;              /* [1] in backend memory: the sum of all squares */
    size_t *count;              /* [ranks]: bytes of slices */
    int64_t step;               /* updates done */
    int64_t n_batch;            /* batches seen: numbers the dropout masks */
};

/* What one update did; sums are over all its target tokens. */
struct update_report {
    double loss, nll;     /* sums; loss is label-smoothed */
    int64_t n_tok, n_hit; /* target tokens, and how many were predicted */
    int64_t n_src_tok;
    double guided;          /* sum over the rows that learn from links, ... */
    int64_t n_guided;       /* ... of which there are this many */
    double rate, grad_norm; /* grad_norm is 0 unless clipping or measuring is on */
};

/* The average begins at the model's parameters as they are. */
int optimizer_new(struct optimizer **opt, struct model *model, struct acts *acts,
                  const struct optimizer_options *options, struct err *err);
void optimizer_free(struct optimizer *opt);

/* The memory that an optimizer takes for updates of so many batches by so many ranks, with an
 * average or without, known before it is made: that of the rank which takes most. */
size_t optimizer_bytes(const struct model *model, int accumulate, int n_rank, int ema);

/* Batches that this rank takes part with, and the target tokens of all ranks' batches together. */
struct update {
    const struct batch *const *batch;
    int n;
    int64_t n_tok;
};

/* Collective. The gradient of 1 <= n <= accumulate / ranks batches, each within the activations'
 * budget; then either apply or discard it. Separate, because whoever watches for divergence must
 * look before the parameters change. */
int optimizer_gradient(struct optimizer *opt, const struct update *update,
                       struct update_report *report, struct err *err);
int optimizer_apply(struct optimizer *opt, struct update_report *report, struct err *err);
int optimizer_discard(struct optimizer *opt, struct err *err);

/* Both in one, for a rank alone. On error the parameters are as they were. */
int optimizer_update(struct optimizer *opt, const struct batch *const *batch, int n,
                     struct update_report *report, struct err *err);

/* The flat buffers of f32 that make up the state, beside the gradients. */
enum optimizer_part { OPT_PARAMS, OPT_M, OPT_V, OPT_AVERAGE };

/* Collective. Where the whole of a part lies, flat, valid until anything else is called: in place,
 * or in the gradients, which are zero again after optimizer_discard. */
const void *optimizer_gather(struct optimizer *opt, enum optimizer_part part);

/* Elements first .. first + n - 1 of a part become those in host memory, as far as this rank has
 * them. Queued; parameters that the model computes with follow after model_follow. */
void optimizer_set(struct optimizer *opt, enum optimizer_part part, size_t first, size_t n,
                   const float *from);

/* A checksum of the parameters as the model computes with them: the same on all ranks. */
int optimizer_checksum(struct optimizer *opt, uint32_t *sum, struct err *err);

/* Loss of a batch without dropout and without learning; adds to *report. */
int optimizer_evaluate(struct optimizer *opt, const struct batch *batch,
                       struct update_report *report, struct err *err);

/* The average becomes what the model's parameters are now. Queued. */
void optimizer_take_average(struct optimizer *opt);

/* Collective. Makes the average the model, to evaluate it or translate with it, and back to the
 * parameters that learn, bit for bit. In between nothing may be learnt, saved or loaded. Without an
 * average both do nothing. */
int optimizer_show_average(struct optimizer *opt, struct err *err);
int optimizer_hide_average(struct optimizer *opt, struct err *err);

#endif
