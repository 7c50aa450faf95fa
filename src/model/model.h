/* model.h — a model on a backend: its configuration and its parameters.
 *
 * Owns the flat f32 parameters (`flat`, the master), the bf16 working copy when activations are
 * bf16, and the table of sinusoids. Borrows the backend, which must outlive it. What a training run
 * adds (gradients, moments) belongs to train/; what a batch needs (activations) to acts.h.
 *
 * A model over frozen weights (frozen.h) has no `flat`: it holds views only, which may be tiled and
 * belong to the struct frozen, or, on a backend that wants no tiles, a copy of its own. Setting,
 * drawing, reading or training its parameters is an error. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "backend/backend.h"
#include "backend/mat.h"
#include "model/params.h"

/* Guided training: one head of one decoder layer's cross-attention learns from the links of its
 * batches (the op guide). */
struct guided {
    int layer, head; /* from 1; layer 0: none */
    float weight;    /* of the loss of a supervised row, beside that of a token */
};

struct model {
    struct config config;
    struct backend *be;
    enum dtype type; /* act type */
    struct param_table table;
    void *flat;      /* [n_elem] of dtype_wide(type): the parameters; NULL when frozen */
    void *copy;      /* [n_elem] act type: the same, rounded; NULL unless bf16, or frozen */
    void *sinusoids; /* [max_len, d_model] act type, or NULL when positions are learned */
    struct params w; /* what the ops read: views into copy or flat */
    struct mat src_pos, tgt_pos; /* [max_len, d_model]: learned or sinusoidal */
    struct guided guided;        /* set before activations are made */
    int rounds; /* matrices of the copy are rounded as by int8 (model_round); set before weights */
};

/* A model with all parameters zero. The config must have passed config_check. */
int model_new(struct model **model, const struct config *config, struct backend *be,
              enum dtype type, struct err *err);

/* The same, only for running: the parameters exist only as `copy`, in the act type, which frozen.h
 * fills; `flat` is NULL. */
int model_new_frozen(struct model **model, const struct config *config, struct backend *be,
                     enum dtype type, struct err *err);
void model_free(struct model *model);

/* Initial values from the seed. */
int model_draw(struct model *model, uint64_t seed, struct err *err);

/* All parameters from or to host memory, f32 [table.n_elem]. */
int model_set(struct model *model, const float *flat, struct err *err);
int model_get(struct model *model, float *flat, struct err *err);

/* After `flat` was written on the backend: the working copy follows. Queued. */
void model_follow(struct model *model);

/* After the copy was written: where the model rounds, its matrices become what int8 keeps of them.
 * Gradients are taken for those of the f32 parameters, which so learn to stand rounding. The values
 * are those of the copy, not of the parameters behind it, which a rank may not have. Queued. */
void model_round(struct model *model);

/* PAPER: 3.5. The sinusoids of n positions in host memory, [n, d] of the given type. */
void model_sinusoids(void *out, enum dtype type, int n, int d);

/* Bytes model_new takes from the backend for this config and type. */
size_t model_bytes(const struct config *config, enum dtype type);

#endif
