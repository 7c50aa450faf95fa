/* transformer.h — Figure 1 of the paper, both ways. */
#ifndef MODEL_TRANSFORMER_H
#define MODEL_TRANSFORMER_H

#include "backend/mat.h"
#include "model/acts.h"

/* One pass of a loaded batch through the model. */
struct pass {
    struct model *model;
    struct acts *acts;          /* of that model; the batch is loaded */
    const struct params *grads; /* f32 views to accumulate into; NULL: loss only */
    int training;               /* dropout on */
    uint64_t seed;              /* of the dropout masks */
    uint32_t step;              /* counts batches, so that no two share masks */
    float grad_scale;           /* of the loss sum, usually 1 / target tokens of the update */
    const struct view *view;    /* keeps attention probabilities (view.h); NULL: none */
    /* Told while the way back is queued, if anybody wants to know: from this address to the end of
     * their flat buffer the gradients are final, once what is queued is done. It falls. */
    void (*final)(void *ctx, const void *from);
    void *final_ctx;
};

/* The encoder alone; its output is transformer_memory(acts). */
void transformer_encode(const struct pass *pass);

/* One layer of it, the first with what is below. All, in order, are transformer_encode. */
void transformer_encode_layer(const struct pass *pass, int layer);

/* Encoder and decoder; the decoder's output is transformer_output(acts). */
void transformer_fwd(const struct pass *pass);

/* The decoder's output [T,D] of the last forward pass, and the encoder's [S,D]. */
struct mat transformer_output(const struct acts *acts);
struct mat transformer_memory(const struct acts *acts);

/* Adds this batch to acts->totals (see xent), which are zeroed first; with grads also starts the
 * backward pass: the gradient of the decoder's output and of the output matrix. The links of a
 * guided batch are judged here if there are no grads, else on the way back, in their layer. */
void transformer_loss(const struct pass *pass);

/* Everything below the loss; parameter gradients accumulate into pass->grads. */
void transformer_bwd(const struct pass *pass);

/* logits [T,V] of the last forward pass: for tests and tools, training never forms them. */
void transformer_logits(const struct pass *pass, struct mat logits);

#endif
