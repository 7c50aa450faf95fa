/* view.h — the attention probabilities of a forward pass, kept to be looked at.
 *
 * Training and decoding never store an n x n matrix. A pass that carries a view does: every
 * attention the view wants writes its probabilities (before dropout) into the view's memory; a pass
 * without one pays nothing.
 *
 *     view_new    once per activations: reserves the memory, and plans the backend's workspace
 *                 anew, since an op may need more when it stores probabilities
 *     view_load   after acts_load: lays out the matrices for that batch
 *     pass.view   the forward pass fills them
 *     view_read   brings one layer to the host
 *
 * Owns one block of backend memory; borrows the activations, and the model behind them. */
#ifndef MODEL_VIEW_H
#define MODEL_VIEW_H

#include "backend/mat.h"
#include "model/acts.h"

/* Encoder self-attention, decoder self-attention, and the decoder's attention to the encoder. An
 * SSRU decoder has no layers of the second kind: a recurrence has no probabilities to look at. */
enum view_kind { VIEW_ENC, VIEW_DEC, VIEW_CROSS, VIEW_KINDS };

enum { VIEW_ALL = -1, VIEW_NONE = -2 };

struct view_options {
    int layer[VIEW_KINDS]; /* from 0, or VIEW_ALL, or VIEW_NONE */
    /* of one head of one layer: query rows of a batch times its longest sentence of keys. 0: all
     * that the activations have room for */
    int64_t cells;
};

struct view {
    struct acts *acts;
    struct arena arena;
    struct mat *probs[VIEW_KINDS]; /* per layer [n_head * N, longest sentence]; absent: not kept */
    char *wanted[VIEW_KINDS];      /* per layer */
    int64_t cells;
};

static inline int view_layers(const struct config *config, enum view_kind kind) {
    if (kind == VIEW_DEC && config->decoder == DECODER_SSRU) return 0;
    return kind == VIEW_ENC ? config->n_layer_enc : config->n_layer_dec;
}

int view_new(struct view **view, struct acts *acts, const struct view_options *options,
             struct err *err);
void view_free(struct view *view);

/* Lays out the matrices for the batch loaded into the activations; HEED_ELIMIT when it has more
 * cells than there is room for. */
int view_load(struct view *view, struct err *err);

/* How many numbers view_read writes for a layer of this kind and the current batch. */
size_t view_size(const struct view *view, enum view_kind kind);

/* The probabilities of one layer that is kept, as f32: row (head * N + query), N query rows in the
 * batch, and in it one column per key of the query's sentence, zeros up to the longest sentence's.
 * Waits. */
int view_read(const struct view *view, enum view_kind kind, int layer, float *out, struct err *err);

/* The same of heads [head, head + n_head) only. */
struct view_slice {
    enum view_kind kind;
    int layer, head, n_head;
};
int view_read_slice(const struct view *view, const struct view_slice *slice, float *out,
                    struct err *err);

/* Where that attention puts its probabilities: absent without a view. For the forward pass. */
static inline struct mat view_at(const struct view *view, enum view_kind kind, int layer) {
    return view ? view->probs[kind][layer] : (struct mat){0};
}

#endif
