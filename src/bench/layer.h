/* layer.h — one layer of each kind in the paper's Table 1, made of the seam's own ops (ops.h), to
 * be timed, counted and poked.
 *
 * All map x [n,d] to y [n,d], forward, for each of a batch of sequences:
 * - self-attention: q, k, v = x W; y = attention(q, k, v) O; heads of 64
 * - restricted: the same, where position i sees j only if |i - j| <= r
 * - recurrent: the gated recurrent unit without reset gate and with ReLU (Ravanelli et al. 2018),
 *       f_t = sigmoid(W_f x_t + U_f h_{t-1});  c_t = max(0, W_c x_t + U_c h_{t-1});
 *       h_t = f_t h_{t-1} + (1 - f_t) c_t
 *   two linear and one ssru_step for each t
 * - convolutional: y_i = sum of W_t x_{i + t} over t = -1, 0, 1, zero beyond the ends; rows side
 *   by side, then one linear. Dilated by D: the sum of W_t x_{i + t D} over t = -2, -1, 0
 * - separable: z_i = max(0, sum_t a_t x_{i + t}) for each column by itself, then y = z W. The
 *   kernel a is positive and sums to 1 in each column: that is what ssru makes of three rows,
 *       a_1 = 1 - f_1;  a_0 = f_1 (1 - f_0);  a_-1 = f_1 f_0
 *   in blocks of rows that caches hold
 * So no op is missing. The layer owns its memory on the backend; the backend is the caller's. */
#ifndef BENCH_LAYER_H
#define BENCH_LAYER_H

#include "backend/backend.h"
#include "backend/mat.h"
#include "base/err.h"

enum layer_kind {
    LAYER_ATTENTION,
    LAYER_RECURRENT,
    LAYER_CONV,
    LAYER_SEPARABLE,
    LAYER_RESTRICTED,
    LAYER_KINDS
};

enum { LAYER_TAPS = 3, LAYER_HEAD = 64, LAYER_MAX_PARTS = 2, LAYER_WHOLE = -1 };

struct layer_shape {
    enum layer_kind kind;
    int n, d;     /* d a multiple of 32, and of LAYER_HEAD where it is greater */
    int batch;    /* sequences; 0 is 1 */
    int r;        /* restricted only */
    int dilation; /* convolutional only; 0: not dilated */
    enum dtype type;
};

/* What the paper says of a kind, and what it is made of. A part is an op, or some, with a cost of
 * its own; exponents are those of n, d and r in it. */
struct layer_part {
    const char *name, *order;
    int n, d, r;
};
struct layer_facts {
    const char *name, *order, *sequential, *path; /* the last three: the paper's O() */
    int n_part;
    struct layer_part part[LAYER_MAX_PARTS];
    int sequential_n, path_n; /* exponents of n */
};
extern const struct layer_facts layer_facts[LAYER_KINDS];

struct layer;
int layer_new(struct layer **layer, struct backend *be, const struct layer_shape *shape,
              struct err *err);
void layer_free(struct layer *layer);

/* Queues the layer's ops, or those of one part; parts work on what the whole left. */
void layer_run(struct layer *layer, int part);

/* The longest chain of ops each of which reads what the one before it wrote: the ops that layer_run
 * calls, by the memory they read and write. */
int layer_sequential(struct layer *layer);

/* Bytes beside the weights: activations; what the ops need while they run, and blocks of rows. */
size_t layer_bytes(const struct layer *layer);
size_t layer_scratch(struct layer *layer);

/* Views on the backend: the rows of x and of y, position i of sequence s being row i * batch + s
 * (with attention s * n + i); weight i, which is, attention: [W_q; W_k; W_v] [3d,d] and O [d,d];
 * recurrent: [W_f U_f; W_c U_c] [2d,2d]; convolutional: [W_-1 W_0 W_1] [d,3d]; separable: W [d,d]
 * and the logits of f_0 and f_1 [2,d]. layer_read copies a view out, without gaps, and waits. */
struct mat layer_x(const struct layer *layer), layer_y(const struct layer *layer);
struct mat layer_weight(const struct layer *layer, int i);
int layer_read(struct layer *layer, const struct mat *view, void *out, struct err *err);

/* How many times a signal must be handed on until the last of n positions has what the first one
 * said (batch 1): by layers stacked on each other, or by steps of a recurrence. Measured: each
 * position that has it is changed in turn, and those whose bits change with it have it next.
 * Layers are dilated by 1, 3, 9 ... if `dilated`. */
int layer_path(int *length, struct backend *be, const struct layer_shape *shape, int dilated,
               struct err *err);

#endif
