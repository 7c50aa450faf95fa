/* topk.cu — the k best tokens of each row by log-probability.
 *
 * A block per row. Candidates are ordered by one 64-bit number: the logit's bits, made to sort like the
 * number, above the complement of the id, so that a plain maximum prefers the larger logit and then the
 * lower id. Every thread knows the best of its own columns; k times the block picks the best of all threads,
 * and the thread it came from looks for its next one, which must be below. One pass over the row for the
 * maxima and the sum of exponentials, which is kept in shared memory where it fits. */
#include "backend/cuda/cuda.h"

enum { THREADS = 512 };

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

/* The best of this thread's columns below `bound`. */
static __device__ __forceinline__ unsigned long long best_below(const float *z, int n,
                                                                unsigned long long bound) {
    unsigned long long best = 0;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        unsigned long long rank = rank_of(z[j], j);
        if (rank < bound && rank > best) best = rank;
    }
    return best;
}

template <class T>
static __device__ __forceinline__ unsigned long long best_below_global(const T *z, int n,
                                                                       unsigned long long bound) {
    unsigned long long best = 0;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        unsigned long long rank = rank_of(to_f32(z[j]), j);
        if (rank < bound && rank > best) best = rank;
    }
    return best;
}

template <class T, bool CACHED>
static __global__ void __launch_bounds__(THREADS)
    topk_kernel(float *value, int64_t value_ld, int32_t *id, int k, const T *logits, int64_t ld,
                int n) {
    extern __shared__ float cache[]; /* [n] */
    __shared__ unsigned long long slot[2][32];
    __shared__ float sums[2][32];
    const T *row = logits + blockIdx.x * ld;
    float max = -INFINITY, sum = 0;
    for (int j = threadIdx.x; j < n; j += THREADS) {
        float z = to_f32(row[j]);
        if (CACHED) cache[j] = z;
        max = fmaxf(max, z);
    }
    max = block_max(max, sums[0]);
    for (int j = threadIdx.x; j < n; j += THREADS)
        sum += expf((CACHED ? cache[j] : to_f32(row[j])) - max);
    float lse = logf(block_sum(sum, sums[1]));
    unsigned long long bound = ~0ull, mine;
    mine = CACHED ? best_below(cache, n, bound) : best_below_global(row, n, bound);
    for (int i = 0; i < k; i++) {
        bound = block_best(mine, slot[i % 2]); /* two slots: one barrier per round is enough */
        if (threadIdx.x == 0) {
            value[blockIdx.x * value_ld + i] = logit_of(bound) - max - lse;
            id[(int64_t)blockIdx.x * k + i] = id_of(bound);
        }
        if (mine == bound)
            mine = CACHED ? best_below(cache, n, bound) : best_below_global(row, n, bound);
    }
}

void cuda_topk(struct backend *base, const struct topk_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    int n = a->logits.cols, k = a->value.cols;
    size_t shared = (size_t)n * sizeof(float);
    bool cached = shared + 2048 <= (size_t)be->shared_max; /* beside the slots */
    if (!cached) shared = 0;
    cuda_with_type(a->logits.type, [&](auto t) {
        using T = decltype(t);
        auto kernel = cached ? topk_kernel<T, true> : topk_kernel<T, false>;
        if (!cuda_allow_shared(be, (const void *)kernel, shared, "topk_kernel")) return;
        LAUNCH_AS(be, "topk_kernel", kernel, a->logits.rows, THREADS, shared,
                  cuda_data<float>(&a->value), a->value.ld, a->id, k, cuda_data<T>(&a->logits),
                  a->logits.ld, n);
    });
}
