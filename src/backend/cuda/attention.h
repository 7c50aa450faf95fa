/* attention.h — what the kernels of attention share: the arguments as kernels take them, how ragged
 * sentences become a grid, and who sees whom.
 *
 * The host knows the number of sentences, of rows and the longest length, but not the lengths. A
 * grid of strips (T rows of one sentence) is laid out in one of two ways, whichever has fewer
 * slots:
 * - every sentence has ceil(max_len / T) slots, the rest exit: best when lengths are alike, as in
 *   batches sorted by length;
 * - sentence s owns the slots start[s] / T + s up to start[s+1] / T + s, always enough for its
 *   strips and at most n_seq too many in all, however long the longest is. A block finds its
 *   sentence with a 32-way search over `start`, two rounds of one load for 1,024 sentences.
 * Heads vary fastest in the grid, so that neighbouring blocks read neighbouring columns of the same
 * rows.
 *
 * Positions i (query) and j (key) count from the first row of the sentence. */
#ifndef BACKEND_CUDA_ATTENTION_H
#define BACKEND_CUDA_ATTENTION_H

#include "backend/cuda/cuda.h"

/* A matrix in kernels; row i of head h begins at at + i * ld + h * (its d_k or d_v). */
template <class T> struct attention_mat {
    T *at;
    int64_t ld;
};

/* Passed by value. `delta` is workspace: D_i of the backward pass, laid out as lse with ld =
 * n_q. */
template <class T> struct attention_view {
    struct attention_mat<T> q, k, v, o, dout, dq, dk, dv;
    struct attention_mat<float> lse, probs;
    float *delta;
    const int32_t *q_start, *k_start;
    int n_seq, n_q, n_k; /* rows of the batch */
    int n_head, d_k, d_v, causal, window, probs_cols;
    float scale;
    struct cuda_dropout drop;
};

template <class T> static inline struct attention_mat<T> attention_mat_of(const struct mat *m) {
    return (struct attention_mat<T>){cuda_data<T>(m), m->ld};
}

template <class T>
static inline struct attention_view<T> attention_view_of(const struct attention_args *a) {
    struct attention_view<T> v = {};
    v.q = attention_mat_of<T>(&a->q), v.k = attention_mat_of<T>(&a->k);
    v.v = attention_mat_of<T>(&a->v), v.o = attention_mat_of<T>(&a->o);
    v.dout = attention_mat_of<T>(&a->dout), v.dq = attention_mat_of<T>(&a->dq);
    v.dk = attention_mat_of<T>(&a->dk), v.dv = attention_mat_of<T>(&a->dv);
    v.lse = attention_mat_of<float>(&a->lse), v.probs = attention_mat_of<float>(&a->probs);
    v.q_start = a->rq.start, v.k_start = a->rk.start;
    v.n_seq = a->rq.n_seq, v.n_q = a->rq.n_tok, v.n_k = a->rk.n_tok;
    v.n_head = a->n_head, v.d_k = a->q.cols / a->n_head, v.d_v = a->v.cols / a->n_head;
    v.causal = a->causal, v.probs_cols = a->probs.cols, v.scale = a->scale;
    /* A window never reaches beyond the longest sentence: keeps sums of positions from
     * overflowing. */
    v.window = a->window < a->rk.max_len ? a->window : a->rk.max_len;
    v.drop = cuda_dropout_of(&a->drop);
    return v;
}

/* ---- grid ------------------------------------------------------------------------------------ */

struct attention_grid {
    int n_slot;
    int per_seq; /* slots of every sentence; 0: search */
};

static inline struct attention_grid attention_grid_of(const struct rows *r, int strip) {
    int per_seq = cuda_blocks(r->max_len, strip), searched = r->n_tok / strip + r->n_seq;
    int64_t even = (int64_t)r->n_seq * per_seq;
    return even <= searched ? (struct attention_grid){(int)even, per_seq}
                            : (struct attention_grid){searched, 0};
}

/* One head of one sentence, and the first position of the block's strip in it. */
struct attention_item {
    int seq, head, first;
    int q_row, k_row, n_q, n_k; /* first rows in the batch, numbers of rows */
};

/* The sentence that owns a slot: the last s with start[s] / STRIP + s <= slot. By a whole warp. */
template <int STRIP>
static __device__ __forceinline__ int slot_owner(const int32_t *start, int n_seq, int slot) {
    int low = 0, high = n_seq, lane = threadIdx.x % 32;
    while (high - low > 1) {
        int step = (high - low + 31) / 32, s = low + lane * step;
        bool before = s < high && start[s] / STRIP + s <= slot;
        int n = __popc(__ballot_sync(0xffffffffu, before));
        low += (n - 1) * step;
        high = min(high, low + step);
    }
    return low;
}

/* What this block works on; `start` is the side (queries or keys) that strips cut. The caller
 * checks that first is still inside the sentence. */
template <int STRIP, class T>
static __device__ __forceinline__ struct attention_item
item_find(const struct attention_view<T> &a, struct attention_grid grid, const int32_t *start) {
    struct attention_item it;
    int slot = (int)blockIdx.x / a.n_head;
    it.head = (int)blockIdx.x % a.n_head;
    if (grid.per_seq) {
        it.seq = slot / grid.per_seq;
        it.first = slot % grid.per_seq * STRIP;
    } else {
        it.seq = slot_owner<STRIP>(start, a.n_seq, slot);
        it.first = (slot - (start[it.seq] / STRIP + it.seq)) * STRIP;
    }
    it.q_row = a.q_start[it.seq], it.n_q = a.q_start[it.seq + 1] - it.q_row;
    it.k_row = a.k_start[it.seq], it.n_k = a.k_start[it.seq + 1] - it.k_row;
    return it;
}

/* ---- sight ----------------------------------------------------------------------------------- */

/* Keys first .. last that query i sees, and queries that see key j. Both ends grow with i (j). */
struct span {
    int first, last;
};

template <class T>
static __device__ __forceinline__ struct span keys_of(const struct attention_view<T> &a,
                                                      const struct attention_item &it, int i) {
    struct span s = {0, it.n_k - 1};
    if (a.window) s.first = max(0, i - a.window), s.last = min(s.last, i + a.window);
    if (a.causal) s.last = min(s.last, i);
    return s;
}

template <class T>
static __device__ __forceinline__ struct span queries_of(const struct attention_view<T> &a,
                                                         const struct attention_item &it, int j) {
    struct span s = {0, it.n_q - 1};
    if (a.window) s.first = max(0, j - a.window), s.last = min(s.last, j + a.window);
    if (a.causal) s.first = max(s.first, j);
    return s;
}

static __device__ __forceinline__ bool inside(const struct span &s, int at) {
    return s.first <= at && at <= s.last;
}

/* The dropout of a head. */
template <class T>
static __device__ __forceinline__ struct cuda_dropout head_drop(const struct attention_view<T> &a,
                                                                int head) {
    struct cuda_dropout d = a.drop;
    d.site += (uint32_t)head << 16;
    return d;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* attention_tensor.cu: bf16, d_k == d_v in {16, 32, 64, 128} or d_v 64 and d_k 16 or 32, rows
 * aligned to 16 bytes. */
bool attention_tensor_fits(const struct attention_args *a, bool bwd);
void attention_tensor_fwd(struct cuda_backend *be, const struct attention_args *a);
void attention_tensor_bwd(struct cuda_backend *be, const struct attention_args *a, float *delta);

/* attention_general.cu: everything else. */
void attention_general_fwd(struct cuda_backend *be, const struct attention_args *a);
void attention_general_bwd(struct cuda_backend *be, const struct attention_args *a, float *delta);
void attention_general_probs(struct cuda_backend *be, const struct attention_args *a);

#endif
