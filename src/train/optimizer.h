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
 * Nothing is allocated. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "model/acts.h"

struct optimizer_options {
    double beta1, beta2, eps; /* PAPER: 5.3: 0.9, 0.98, 1e-9 */
    double clip;              /* largest norm of the gradient; 0: no clipping, as in the paper */
    int measure;              /* compute the gradient's norm even without clipping */
    int64_t warmup;           /* steps of rising learning rate */
    double lr_scale;
    int64_t steps, cooldown; /* the rate falls to 0 over the last `cooldown` of `steps` updates */
    double ema; /* decay of the parameters' moving average (schedule_average); 0: none is kept */
    int accumulate; /* most batches of an update */
    uint64_t seed;  /* of the dropout masks */
};
extern const struct optimizer_options optimizer_defaults;

int optimizer_options_check(const struct optimizer_options *options, struct err *err);

struct optimizer {
    struct optimizer_options options;
    struct model *model;
    struct acts *acts;
    void *m, *v;      /* flat, f32 */
    void *grads;      /* [n_row] of the same; the first is the update's gradient, else zero */
    void *avg;        /* flat, or NULL: the average of the parameters */
    int shown;        /* the average stands in for the parameters, which wait in grads */
    struct params *g; /* [n_row] views into grads */
    int n_row;
    double *squares; /* [n_range] in backend memory: of the gradient, range by range */
    double *partial; /* the same on the host */
    int n_range;
    double *sumsq;   /* [1] in backend memory: their sum */
    int64_t step;    /* updates done */
    int64_t n_batch; /* batches seen: numbers the dropout masks */
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

/* The memory that an optimizer takes for updates of so many batches, with an average or without,
 * known before it is made. */
size_t optimizer_bytes(const struct model *model, int accumulate, int ema);

/* The gradient of 1 <= n <= accumulate batches, each within the activations' budget; then either apply or discard
 * it. Separate, because whoever watches for divergence must look before the parameters change. */
int optimizer_gradient(struct optimizer *opt, const struct batch *const *batch, int n,
                       struct update_report *report, struct err *err);
int optimizer_apply(struct optimizer *opt, struct update_report *report, struct err *err);
int optimizer_discard(struct optimizer *opt, struct err *err);

/* Both in one. On error the parameters are as they were. */
int optimizer_update(struct optimizer *opt, const struct batch *const *batch, int n,
                     struct update_report *report, struct err *err);

/* Loss of a batch without dropout and without learning; adds to *report. */
int optimizer_evaluate(struct optimizer *opt, const struct batch *batch,
                       struct update_report *report, struct err *err);

/* The average becomes what the model's parameters are now. Queued. */
void optimizer_take_average(struct optimizer *opt);

/* Makes the average the model, to evaluate it or translate with it, and back to the parameters that
 * learn, bit for bit. In between nothing may be learnt, saved or loaded. Without an average both do
 * nothing. */
int optimizer_show_average(struct optimizer *opt, struct err *err);
int optimizer_hide_average(struct optimizer *opt, struct err *err);

#endif
