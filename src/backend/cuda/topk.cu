/* topk.cu — the k best tokens of each row by log-probability.
 *
 * A block per row. The first pass reads it, 16 bytes to a thread at a time, and takes of each
 * thread's columns only the maximum and the sum of exponentials: six instructions per number, so
 * that memory is the bound. What follows must be short, for a block waits for it with nothing to
 * read. The k-th largest maximum of the warps is a bar that all of the k best reach; threads whose
 * maximum reaches it look through their columns again, which are in the cache by then, and put what
 * reaches it on a list, a dozen of random rows. Each entry counts those above it, and so knows its
 * place.
 *
 * Where k is more than there are warps, or the list is too short (many equal logits), the k
 * largest different maxima of the threads are the bar, and threads keep the two best of their
 * columns. Then, k times, the block picks the best of all threads, and the thread it came from
 * offers its next one; one that has had both picked looks for the next.
 *
 * Candidates are ordered by one 64-bit number: the logit's bits, made to sort like the number,
 * above the complement of the id, so that a plain maximum prefers the larger logit and then the
 * lower id. */
#include "backend/cuda/mma.h"

enum { THREADS = 512, WARPS = THREADS / 32, LIST = 256 };

/* 0 stands for "none left": it is below every candidate, since ids are below 2^32 - 1. */
static __device__ __forceinline__ unsigned long long rank_of(float z, int id) {
    if (isnan(z)) z = -INFINITY;                        /* ranks with the impossible tokens */
    uint32_t bits = __float_as_uint(z == 0 ? 0.0f : z); /* -0 and 0 are equal */
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)bits << 32 | (0xffffffffu - (uint32_t)id);
}
static __device__ __forceinline__ float logit_of(unsigned long long rank) {
    uint32_t bits = (uint32_t)(rank >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}
static __device__ __forceinline__ int id_of(unsigned long long rank) {
    return (int)(0xffffffffu - (uint32_t)rank);
}

static __device__ __forceinline__ unsigned long long warp_best(unsigned long long x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        unsigned long long y = __shfl_xor_sync(0xffffffffu, x, step);
        x = y > x ? y : x;
    }
    return x;
}

/* In all threads; slot is used as in block_sum. */
static __device__ __forceinline__ unsigned long long block_best(unsigned long long x,
                                                                unsigned long long *slot) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x = warp_best(x);
    if (lane == 0) slot[warp] = x;
    __syncthreads();
    return warp_best(lane < THREADS / 32 ? slot[lane] : 0);
}

/* A thread's columns, N of them together: 16 bytes if WIDE (then they all exist), else one. Four
 * such loads are on their way at a time. body(z, first column) */
template <bool WIDE, class T, class Body>
static __device__ __forceinline__ void each_part(const T *row, int n, Body body) {
    constexpr int N = WIDE ? 16 / (int)sizeof(T) : 1, FLIGHT = 4, STRIDE = THREADS * N;
    for (int j0 = (int)threadIdx.x * N; j0 < n; j0 += FLIGHT * STRIDE) {
        uint4 raw[FLIGHT];
        float z[FLIGHT][N];
#pragma unroll
        for (int m = 0; m < FLIGHT; m++) {
            int j = j0 + m * STRIDE;
            if (j >= n) continue;
            if constexpr (WIDE)
                raw[m] = *reinterpret_cast<const uint4 *>(row + j);
            else
                z[m][0] = to_f32(row[j]);
        }
#pragma unroll
        for (int m = 0; m < FLIGHT; m++) {
            int j = j0 + m * STRIDE;
            if (j >= n) continue;
            if constexpr (WIDE) unpack16(z[m], raw[m]);
            body(z[m], j);
        }
    }
}

static __device__ __forceinline__ float part_max(const float (&z)[1]) { return z[0]; }
template <int N> static __device__ __forceinline__ float part_max(const float (&z)[N]) {
    float most = z[0];
#pragma unroll
    for (int i = 1; i < N; i++) most = fmaxf(most, z[i]);
    return most;
}

/* e^x to 2^-22 or so for x <= 0. The difference to the maximum has been rounded before, so this is
 * as exact as it can be. */
static __device__ __forceinline__ float exp_below(float x) { return exp2_fast(x * 1.44269504f); }

/* sum = sum of exp(z - max) over the columns seen. */
struct total {
    float max, sum;
};

template <int N>
static __device__ __forceinline__ void total_add(struct total &t, const float (&z)[N]) {
    float most = part_max(z);
    if (most > t.max) {
        t.sum *= exp_below(t.max - most);
        t.max = most;
    }
    float base = t.max == -INFINITY ? 0.0f : t.max;
#pragma unroll
    for (int i = 0; i < N; i++) t.sum += exp_below(z[i] - base);
}

/* ---- few of k: a list ------------------------------------------------------------------------ */

/* At least k <= WARPS columns of the row are not below what this returns; `slot` has the maxima of
 * the warps. */
static __device__ __forceinline__ float warps_bar(const float *slot, int k) {
    int lane = threadIdx.x % 32, above = 0;
    float mine = lane < WARPS ? slot[lane] : -INFINITY;
#pragma unroll
    for (int w = 0; w < WARPS; w++) above += slot[w] > mine || (slot[w] == mine && w < lane);
    unsigned at = __ballot_sync(0xffffffffu, lane < WARPS && above == k - 1);
    return __shfl_sync(0xffffffffu, mine, __ffs((int)at) - 1);
}

/* Puts this thread's columns that reach the bar on the list, as far as there is room, and counts
 * them. */
template <bool WIDE, class T>
static __device__ __noinline__ void list_fill(unsigned long long *list, int *found, const T *row,
                                              int n, float bar) {
    each_part<WIDE>(row, n, [&](const auto &z, int first) {
        if (part_max(z) < bar) return; /* most of them */
#pragma unroll
        for (int i = 0; i < (int)(sizeof z / sizeof *z); i++) {
            if (!(z[i] >= bar)) continue;
            int at = atomicAdd(found, 1);
            if (at < LIST) list[at] = rank_of(z[i], first + i);
        }
    });
}

/* The k best of the list to their places. */
static __device__ __forceinline__ void list_rank(float *value, int32_t *id, int k,
                                                 const unsigned long long *list, int n, float max,
                                                 float lse) {
    if ((int)threadIdx.x >= n) return;
    unsigned long long mine = list[threadIdx.x];
    int above = 0;
    for (int i = 0; i < n; i++) above += list[i] > mine;
    if (above >= k) return;
    value[above] = logit_of(mine) - max - lse;
    id[above] = id_of(mine);
}

/* ---- many: round by round -------------------------------------------------------------------- */

/* The two best, 0 where there is none. */
struct share {
    unsigned long long best, second;
};

static __device__ __forceinline__ void share_offer(struct share &x, unsigned long long rank) {
    if (rank > x.best) {
        x.second = x.best;
        x.best = rank;
    } else if (rank > x.second) {
        x.second = rank;
    }
}

/* The two best of this thread's columns below `bound`, if they are among those that reach the
 * bar. */
template <bool WIDE, class T>
static __device__ __noinline__ struct share share_find(const T *row, int n, float bar,
                                                       unsigned long long bound) {
    struct share x = {0, 0};
    each_part<WIDE>(row, n, [&](const auto &z, int first) {
        if (part_max(z) < bar) return; /* most of them; what is no number passes, and ranks low */
#pragma unroll
        for (int i = 0; i < (int)(sizeof z / sizeof *z); i++) {
            unsigned long long rank = rank_of(z[i], first + i);
            if (rank < bound) share_offer(x, rank);
        }
    });
    return x;
}

/* At least k columns of the row are not below what this returns, for most is a column of each
 * thread. */
static __device__ __forceinline__ float bar_of(float most, int k, float (*slot)[32]) {
    float bar = INFINITY;
    for (int i = 0; i < k && bar > -INFINITY; i++)
        bar = block_max(i == 0 || most < bar ? most : -INFINITY, slot[i % 2]);
    return bar;
}

template <class T, bool WIDE>
static __global__ void __launch_bounds__(THREADS)
    topk_kernel(float *value, int64_t value_ld, int32_t *id, int k, const T *logits, int64_t ld,
                int n) {
    __shared__ unsigned long long slot[2][32], list[LIST];
    __shared__ float sums[2][32], maxima[2][32];
    __shared__ int found;
    const T *row = logits + blockIdx.x * ld;
    struct total t = {-INFINITY, 0};
    if (threadIdx.x == 0) found = 0;
    chain_wait();
    each_part<WIDE>(row, n, [&](const auto &z, int) { total_add(t, z); });
    float max = block_max(t.max, sums[0]);
    /* A thread without a number adds nothing, unless that is NaN or the whole row is like that. */
    float sum = t.sum * (t.max == max ? 1.0f : exp_below(t.max - max));
    float lse = logf(block_sum(sum, sums[1]));
    float bar = k <= WARPS ? warps_bar(sums[0], k) : -INFINITY;
    if (bar > -INFINITY) {
        if (t.max >= bar) list_fill<WIDE>(list, &found, row, n, bar);
        __syncthreads();
        if (found <= LIST) {
            list_rank(value + blockIdx.x * value_ld, id + (int64_t)blockIdx.x * k, k, list, found,
                      max, lse);
            return;
        }
    }
    bar = bar_of(t.max, k, maxima);
    struct share x = {0, 0};
    if (t.max >= bar) x = share_find<WIDE>(row, n, bar, ~0ull);
    for (int i = 0; i < k; i++) {
        unsigned long long bound = block_best(x.best, slot[i % 2]); /* two slots: one barrier */
        if (threadIdx.x == 0) {
            value[blockIdx.x * value_ld + i] = logit_of(bound) - max - lse;
            id[(int64_t)blockIdx.x * k + i] = id_of(bound);
        }
        if (x.best != bound) continue;
        if (x.second)
            x = (struct share){x.second, 0};
        else
            x = share_find<WIDE>(row, n, bar, bound);
    }
}

void cuda_topk(struct backend *base, const struct topk_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!mat_empty(&a->w)) {
        struct linear_args project = {};
        project.y = a->logits;
        project.x = a->x;
        project.w = a->w;
        project.b = a->b;
        cuda_linear_fwd(base, &project);
    }
    if (!cuda_workspace(be, 0)) return;
    int n = a->logits.cols, k = a->value.cols;
    bool wide = cuda_aligned(&a->logits, 16);
    cuda_with_type(a->logits.type, [&](auto t) {
        using T = decltype(t);
        CHAIN_AS(be, "topk_kernel", (wide ? topk_kernel<T, true> : topk_kernel<T, false>),
                 a->logits.rows, THREADS, 0, cuda_data<float>(&a->value), a->value.ld, a->id, k,
                 cuda_data<T>(&a->logits), a->logits.ld, n);
    });
}
