/* plan.h — can this run be done? What is checked before a run begins: whether its memory fits, and
 * whether its model is that of the run it continues, or of the weights it begins with. */
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H

#include "data/tokenizer.h"
#include "model/acts.h"

/* Bytes, by purpose. Validation runs in the same activations and needs no more. */
struct plan_memory {
    size_t model, state, acts, workspace;
    size_t copy; /* of the state, to write checkpoints from; the host's, and no part of the total
                  * where the device has memory of its own */
    size_t total;
};

struct plan_run {
    int tokens;     /* of a batch, a side */
    int max_length; /* of a sentence */
    int accumulate; /* batches per update; 0: 1 */
    int n_rank;     /* ranks that share them; 0: 1 */
    int ema;        /* an average of the parameters is kept */
    int aside;      /* this rank copies the state to write checkpoints */
    size_t room;    /* bytes left beside the model */
    size_t host;    /* bytes the host has left, where the device has memory of its own */
};

/* What training takes. HEED_ENOMEM when that is more than there is room for: the message names the
 * tokens that would fit, or says that not even a sentence of max_length does. */
int plan_memory(struct plan_memory *memory, struct model *model, const struct plan_run *run,
                struct err *err);

/* The first field in which two configurations differ as models: what only training uses (dropout,
 * label smoothing) may differ. NULL: none. */
const struct option *plan_difference(const struct config *a, const struct config *b);

/* Is this the model of the run in `dir`? HEED_EINVAL names the field that differs. */
int plan_shape(const char *dir, const struct config *config, struct err *err);

/* Can a run with this configuration and tokenizer (NULL: the model's own) begin with the weights of
 * the model directory `dir`? They must be whole, of the same shape, and learnt with the same
 * tokenizer; tiled ones will do. Reads no weights. */
int plan_init(const char *dir, const struct config *config, const struct tokenizer *tokenizer,
              struct err *err);

#endif
