/* optimizer.h — one update of the parameters from one or several batches.
 *
 * Owns the training state beside the parameters: gradients and Adam's two moments, each a flat
 * buffer of the parameters' layout. Borrows the model and its activations.
 *
 * An update runs every batch forward and backward with the gradients accumulating, then one Adam
 * pass. The loss is the mean over all target tokens of the update, so k batches of n tokens give
 * the gradient of one batch of k*n. Nothing is allocated. */
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
    uint64_t seed;           /* of the dropout masks */
};
extern const struct optimizer_options optimizer_defaults;

int optimizer_options_check(const struct optimizer_options *options, struct err *err);

struct optimizer {
    struct optimizer_options options;
    struct model *model;
    struct acts *acts;
    void *grads, *m, *v; /* flat, f32 */
    double *sumsq;       /* [1] in backend memory */
    struct params g;     /* views into grads */
    int64_t step;        /* updates done */
    int64_t n_batch;     /* batches seen: numbers the dropout masks */
};

/* What one update did; sums are over all its target tokens. */
struct update_report {
    double loss, nll;     /* sums; loss is label-smoothed */
    int64_t n_tok, n_hit; /* target tokens, and how many were predicted */
    int64_t n_src_tok;
    double rate, grad_norm; /* grad_norm is 0 unless clipping or measuring is on */
};

int optimizer_new(struct optimizer **opt, struct model *model, struct acts *acts,
                  const struct optimizer_options *options, struct err *err);
void optimizer_free(struct optimizer *opt);

/* The memory that an optimizer takes, known before it is made. */
size_t optimizer_bytes(const struct model *model);

/* The gradient of n >= 1 batches, each within the activations' budget; then either apply or discard
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

#endif
