/* beam_step.cu — the bookkeeping of a beam search where the scores are.
 *
 * beam.c itself, compiled for the device: double sums, the same order, hence the host's results to
 * the bit. A block per sentence brings the candidates into shared memory and strikes, a thread per
 * hypothesis; then one thread merges and ranks. That is about a hundred dependent steps, a few
 * microseconds, in which the device would wait for the host otherwise.
 *
 * The second kernel makes the rows of the next step, again a block per sentence. Where its rows
 * begin is the number of live hypotheses before it, which every block counts for itself: a few
 * hundred numbers of 28 bytes, less than another launch would cost. One block more counts for the
 * host and makes the unused rows harmless.
 *
 * Nothing here depends on numbers that the host knows only after a step: a recording serves every
 * step. */
#define BEAM_FN __device__
#include "backend/cuda/cuda.h"

#include "backend/beam.c"

enum { ADVANCE = 64 /* at least BEAM_MAX */, SETTLE = 128 };

static_assert((int)ADVANCE >= (int)BEAM_MAX, "a thread per hypothesis");

/* ---- advance --------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(ADVANCE) beam_begin_kernel(struct beam_step_args a) {
    int s = (int)blockIdx.x * ADVANCE + (int)threadIdx.x;
    int32_t unused;
    struct beam b;
    chain_wait();
    if (s >= a.n_seq) return;
    beam_load(&b, &a.table, &a.rules, a.longest, s, &unused);
    beam_begin(&b, a.max_len[s]);
    b.done = a.max_len[s] < 1;
    a.table.head[s].row = a.table.head[s].broken = 0;
    beam_store(&b, &a.table, s);
}

/* Shared memory: width * k candidates, values before tokens. */
static __global__ void __launch_bounds__(ADVANCE) beam_advance_kernel(struct beam_step_args a) {
    SHARED_ARRAY(float, value);
    int s = blockIdx.x, k = a.value.cols, thread = threadIdx.x;
    int32_t *id = (int32_t *)(value + a.rules.width * k), unused;
    struct beam_head *head = &a.table.head[s];
    struct beam b;
    chain_wait();
    if (head->done) return;
    beam_load(&b, &a.table, &a.rules, a.longest, s, &unused);
    const float *from = (const float *)a.value.data + (int64_t)head->row * k;
    const int32_t *from_id = a.id + (int64_t)head->row * k;
    for (int i = thread; i < b.n_live * k; i += ADVANCE) value[i] = from[i], id[i] = from_id[i];
    __syncthreads();
    int32_t lead = a.lead[s];
    int no_end = b.len < a.min_len + (lead >= 0);
    int bad =
        thread < b.n_live && beam_strike(value + thread * k, id + thread * k, k, &a.rules, no_end);
    bad = __syncthreads_or(bad);
    if (thread > 0) return;
    if (b.len == 0 && lead >= 0) beam_force(value, id, k, lead);
    if (bad)
        head->broken = b.done = 1;
    else
        beam_advance(&b, &a.rules, value, id, k);
    beam_store(&b, &a.table, s);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static __device__ __forceinline__ int block_count(int x, int *slot) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
    x = __reduce_add_sync(0xffffffffu, x);
    if (lane == 0) slot[warp] = x;
    __syncthreads();
    for (int w = 0; w < SETTLE / 32; w++) sum += slot[w];
    return sum;
}

/* The last block: what the host wants to know, and unused rows. */
static __device__ void settle_rest(const struct beam_step_args &a, int n_row, int n_active) {
    struct beam_count *count = a.table.count;
    int step = a.begin ? 0 : count->step + 1;
    __syncthreads(); /* everybody has read the old number */
    if (threadIdx.x == 0) {
        count->n_active = n_active;
        count->n_row = n_row;
        count->step = step;
    }
    for (int row = n_row + (int)threadIdx.x; row < a.n_row; row += SETTLE) {
        a.ids[row] = -1;
        a.pos[row] = a.src_start[row] = 0;
        a.len[row] = a.src_len[row] = 1;
        a.index[(int64_t)row * a.longest] = step * a.n_row + row;
    }
}

static __global__ void __launch_bounds__(SETTLE) beam_settle_kernel(struct beam_step_args a) {
    __shared__ int slot[2][SETTLE / 32];
    int s = blockIdx.x, thread = threadIdx.x, live = 0, active = 0;
    chain_wait();
    for (int i = thread; i < s; i += SETTLE)
        if (!a.table.head[i].done) live += a.table.head[i].n_live, active++;
    int row = block_count(live, slot[0]);
    if (s == a.n_seq) {
        settle_rest(a, row, block_count(active, slot[1]));
        return;
    }
    struct beam_head *head = &a.table.head[s];
    if (head->done) return;
    int t = head->len, n_live = head->n_live, old = head->row, width = a.rules.width;
    int32_t start = a.src[s], n_src = a.src[s + 1] - start;
    const struct beam_node *node = a.table.node + ((int64_t)s * a.longest + t - 1) * width;
    __syncthreads(); /* everybody has read the old row */
    if (thread == 0) head->row = row;
    for (int h = thread; h < n_live; h += SETTLE) {
        a.ids[row + h] = t ? node[h].token : a.bos;
        a.pos[row + h] = t;
        a.len[row + h] = t + 1;
        a.src_start[row + h] = start;
        a.src_len[row + h] = n_src;
        a.index[(int64_t)(row + h) * a.longest + t] = t * a.n_row + row + h;
    }
    for (int i = thread; i < n_live * t; i += SETTLE) {
        int h = i / t, at = i - h * t;
        a.index[(int64_t)(row + h) * a.longest + at] =
            a.old_index[(int64_t)(old + node[h].parent) * a.longest + at];
    }
}

void cuda_beam_step(struct backend *base, const struct beam_step_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    size_t shared =
        (size_t)a->rules.width * (size_t)a->value.cols * (sizeof(float) + sizeof(int32_t));
    if (a->begin)
        CHAIN(be, beam_begin_kernel, cuda_blocks(a->n_seq, ADVANCE), ADVANCE, 0, *a);
    else if (cuda_allow_shared(be, (const void *)beam_advance_kernel, shared,
                               "beam_advance_kernel"))
        CHAIN(be, beam_advance_kernel, a->n_seq, ADVANCE, shared, *a);
    CHAIN(be, beam_settle_kernel, a->n_seq + 1, SETTLE, 0, *a);
}
