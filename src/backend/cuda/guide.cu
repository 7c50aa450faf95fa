/* guide.cu — cross-entropy of one head's attention against known links, loss and gradient.
 *
 * A block per sentence (and per COLUMNS columns of the gradient, of which heads have fewer). First
 * a warp per query: it walks the keys, its lanes sharing the columns, with a running maximum, sum
 * and sum of p k; that yields loss, lse and dq in one pass and registers. Then a warp per key: it
 * walks the supervised queries in order with P from lse, and adds their ds q. Both orders are fixed
 * by the sentence, so nothing is atomic and every run has the same bits.
 *
 * Each pair costs two dot products of d_k over a warp. One head of one layer: tens of microseconds
 * of a step. */
#include "backend/cuda/cuda.h"

enum { WARPS = 8, PER_LANE = 4, COLUMNS = 32 * PER_LANE, TOTAL_THREADS = 1024 };

/* The arguments as the kernel takes them. */
template <class T> struct guide_view {
    const T *q, *k;
    T *dq, *dk;
    int64_t ld_q, ld_k, ld_dq, ld_dk;
    const int32_t *q_start, *k_start, *span, *range;
    float scale, factor; /* factor: scale * grad_scale */
    int d, n_q;
    float *lse, *loss; /* [chunks of columns, Nq], [Nq] */
};

template <class T>
static __device__ __forceinline__ float score(const struct guide_view<T> &a, const T *q,
                                              const T *k) {
    float s = 0;
    for (int c = threadIdx.x % 32; c < a.d; c += 32) s = fmaf(to_f32(q[c]), to_f32(k[c]), s);
    return warp_sum(s) * a.scale;
}

/* Is position j in one of the ranges [first, last)? */
static __device__ __forceinline__ bool linked_to(const int32_t *range, int first, int last, int j) {
    bool is = false;
    for (int r = first; r < last; r++) is |= j >= range[2 * r] && j < range[2 * r + 1];
    return is;
}

/* Column p of this lane's share, or -1. */
static __device__ __forceinline__ int column(int d, int p) {
    int c = blockIdx.y * COLUMNS + p * 32 + threadIdx.x % 32;
    return c < d ? c : -1;
}

/* A supervised query: loss, lse, dq. */
template <class T, bool GRAD>
static __device__ void guide_query(const struct guide_view<T> &a, int row, int k0, int n_k) {
    int first = a.span[2 * row], last = a.span[2 * row + 1], m = 0;
    const T *q = a.q + row * a.ld_q;
    float max = -INFINITY, sum = 0, linked = 0, seen[PER_LANE] = {}, want[PER_LANE] = {};
    for (int j = 0; j < n_k; j++) {
        const T *k = a.k + (k0 + j) * a.ld_k;
        float s = score(a, q, k), top = fmaxf(max, s);
        float shrink = expf(max - top), p = expf(s - top);
        bool is = linked_to(a.range, first, last, j);
        max = top;
        sum = fmaf(sum, shrink, p);
        if (is) linked += s, m++;
        if constexpr (GRAD) {
#pragma unroll
            for (int i = 0; i < PER_LANE; i++) {
                int c = column(a.d, i);
                float x = c < 0 ? 0.0f : to_f32(k[c]);
                seen[i] = fmaf(p, x, seen[i] * shrink);
                if (is) want[i] += x;
            }
        }
    }
    float lse = max + logf(sum);
    if (threadIdx.x % 32 == 0) {
        a.lse[(int64_t)blockIdx.y * a.n_q + row] = lse;
        if (blockIdx.y == 0) a.loss[row] = lse - linked / m;
    }
    if constexpr (GRAD) {
        T *dq = a.dq + row * a.ld_dq;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int c = column(a.d, i);
            if (c >= 0)
                dq[c] = from_f32<T>(to_f32(dq[c]) + a.factor * (seen[i] / sum - want[i] / m));
        }
    }
}

/* Key j: dk, from all supervised queries of its sentence. */
template <class T>
static __device__ void guide_key(const struct guide_view<T> &a, int q0, int n_q, int k0, int j) {
    const T *k = a.k + (k0 + j) * a.ld_k;
    float sum[PER_LANE] = {};
    bool any = false;
    for (int row = q0; row < q0 + n_q; row++) {
        int first = a.span[2 * row], last = a.span[2 * row + 1], m = 0;
        if (first >= last) continue;
        any = true;
        for (int r = first; r < last; r++) m += a.range[2 * r + 1] - a.range[2 * r];
        const T *q = a.q + row * a.ld_q;
        float ds = expf(score(a, q, k) - a.lse[(int64_t)blockIdx.y * a.n_q + row]);
        if (linked_to(a.range, first, last, j)) ds -= 1.0f / m;
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            int c = column(a.d, i);
            if (c >= 0) sum[i] = fmaf(ds, to_f32(q[c]), sum[i]);
        }
    }
    if (!any) return;
    T *dk = a.dk + (k0 + j) * a.ld_dk;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
        int c = column(a.d, i);
        if (c >= 0) dk[c] = from_f32<T>(fmaf(a.factor, sum[i], to_f32(dk[c])));
    }
}

template <class T, bool GRAD>
static __global__ void __launch_bounds__(32 * WARPS) guide_kernel(struct guide_view<T> a) {
    chain_wait();
    int seq = blockIdx.x, warp = threadIdx.x / 32;
    int q0 = a.q_start[seq], n_q = a.q_start[seq + 1] - q0;
    int k0 = a.k_start[seq], n_k = a.k_start[seq + 1] - k0;
    for (int i = warp; i < n_q; i += WARPS)
        if (a.span[2 * (q0 + i)] < a.span[2 * (q0 + i) + 1])
            guide_query<T, GRAD>(a, q0 + i, k0, n_k);
    if constexpr (GRAD) {
        __syncthreads(); /* lse of the whole sentence */
        for (int j = warp; j < n_k; j += WARPS) guide_key(a, q0, n_q, k0, j);
    }
}

static __global__ void __launch_bounds__(TOTAL_THREADS)
    guide_totals_kernel(double *totals, const float *loss, const int32_t *span, int n) {
    __shared__ double slot[2][32];
    double sum = 0, count = 0;
    chain_wait();
    for (int i = threadIdx.x; i < n; i += TOTAL_THREADS)
        if (span[2 * i] < span[2 * i + 1]) sum += loss[i], count++;
    sum = block_sum(sum, slot[0]);
    count = block_sum(count, slot[1]);
    if (threadIdx.x == 0) {
        totals[0] += sum;
        totals[1] += count;
    }
}

template <class T, bool GRAD>
static void launch(struct cuda_backend *be, const struct guide_args *a, float *lse, float *loss,
                   int chunks) {
    struct guide_view<T> v = {};
    v.q = cuda_data<T>(&a->q), v.ld_q = a->q.ld;
    v.k = cuda_data<T>(&a->k), v.ld_k = a->k.ld;
    v.dq = cuda_data<T>(&a->dq), v.ld_dq = a->dq.ld;
    v.dk = cuda_data<T>(&a->dk), v.ld_dk = a->dk.ld;
    v.q_start = a->rq.start, v.k_start = a->rk.start;
    v.span = a->span, v.range = a->range;
    v.scale = a->scale, v.factor = a->scale * a->grad_scale;
    v.d = a->q.cols, v.n_q = a->q.rows;
    v.lse = lse, v.loss = loss;
    CHAIN(be, (guide_kernel<T, GRAD>), dim3(a->rq.n_seq, chunks), 32 * WARPS, 0, v);
}

void cuda_guide(struct backend *base, const struct guide_args *a) {
    struct cuda_backend *be = cuda_of(base);
    bool grad = !mat_empty(&a->dq);
    int n = a->q.rows, chunks = grad ? cuda_blocks(a->q.cols, COLUMNS) : 1;
    float *loss = (float *)cuda_workspace(be, (size_t)(1 + chunks) * (size_t)n * sizeof(float));
    if (!loss) return;
    cuda_with_type(a->q.type, [&](auto t) {
        using T = decltype(t);
        grad ? launch<T, true>(be, a, loss + n, loss, chunks)
             : launch<T, false>(be, a, loss + n, loss, chunks);
    });
    CHAIN(be, guide_totals_kernel, 1, TOTAL_THREADS, 0, cuda_data<double>(&a->totals), loss,
          a->span, n);
}
