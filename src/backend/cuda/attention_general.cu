/* attention_general.cu — attention for every type, width and alignment, in f32 arithmetic.
 *
 * A block of 4 warps owns 16 rows of one head of one sentence (queries, or keys where dk and dv are
 * gathered), 4 rows per warp, and walks the other side 32 rows at a time, one per lane. All kernels
 * are made of two steps over slices of 64 columns in shared memory:
 *     rows_dot   s[row] of lane j = own row . row j of the other side
 *     rows_add   sum[row] of lane c += sum over j of w[row, j] * (row j of the other side)[c]
 * so neither registers nor shared memory depend on d_k and d_v; results wider than 64 columns are
 * cut into slices along the second grid dimension, each of which computes the scores again.
 *
 * Bound by shared-memory reads: a rows_dot step of 64 columns reads 5 words per 4 multiply-adds.
 * Good for a few TFLOP/s, which is enough for checking and for f32 decoding; training in bf16 never
 * comes here. Every sum runs in a fixed order. */
#include "backend/cuda/attention.h"

enum { STRIP = 16, WARPS = 4, ROWS = STRIP / WARPS, CHUNK = 32, SLICE = 64, PITCH = SLICE + 1 };

/* One block's shared memory. An odd pitch keeps 32 rows of a column in 32 banks. */
struct slices {
    float own[STRIP][PITCH], other[CHUNK][PITCH];
};

/* Some rows of one head: row r at at + r * ld, rows n and beyond do not exist. */
template <class T> struct strip {
    const T *at;
    int64_t ld;
    int n, d;
};

template <class T>
static __device__ __forceinline__ struct strip<T> strip_of(const struct attention_mat<T> &m,
                                                           int64_t row, int n, int head, int d) {
    return (struct strip<T>){m.at + row * m.ld + (int64_t)head * d, m.ld, n, d};
}

/* Columns c0 .. c0 + SLICE - 1 of the first `rows` rows, zero where there are none. */
template <class T>
static __device__ void slice_load(float (*to)[PITCH], int rows, const struct strip<T> &s, int c0) {
    for (int e = threadIdx.x; e < rows * SLICE; e += WARPS * 32) {
        int r = e / SLICE, c = e % SLICE;
        to[r][c] = r < s.n && c0 + c < s.d ? to_f32(s.at[r * s.ld + c0 + c]) : 0.0f;
    }
}

template <class T>
static __device__ void rows_dot(float (&s)[ROWS], struct slices &sh, const struct strip<T> &own,
                                const struct strip<T> &other) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) s[r] = 0;
    for (int c0 = 0; c0 < own.d; c0 += SLICE) {
        __syncthreads();
        slice_load(sh.own, STRIP, own, c0);
        slice_load(sh.other, CHUNK, other, c0);
        __syncthreads();
        for (int c = 0; c < min(SLICE, own.d - c0); c++) {
            float x = sh.other[lane][c];
#pragma unroll
            for (int r = 0; r < ROWS; r++) s[r] += sh.own[warp * ROWS + r][c] * x;
        }
    }
}

/* Columns c0 + lane and c0 + 32 + lane. */
template <class T>
static __device__ void rows_add(float (&sum)[ROWS][2], struct slices &sh, const float (&w)[ROWS],
                                const struct strip<T> &other, int c0) {
    int lane = threadIdx.x % 32;
    __syncthreads();
    slice_load(sh.other, CHUNK, other, c0);
    __syncthreads();
    for (int j = 0; j < CHUNK; j++) {
        float x0 = sh.other[j][lane], x1 = sh.other[j][32 + lane];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float f = __shfl_sync(0xffffffffu, w[r], j);
            sum[r][0] += f * x0;
            sum[r][1] += f * x1;
        }
    }
}

/* Row r of this warp times f[r] into rows first .. of m, as far as they exist. */
template <class T>
static __device__ void rows_put(const struct attention_mat<T> &m, int64_t row, int n, int head,
                                int d, int c0, const float (&sum)[ROWS][2],
                                const float (&f)[ROWS]) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = warp * ROWS + r, c = c0 + 32 * half + lane;
            if (at < n && c < d)
                m.at[(row + at) * m.ld + (int64_t)head * d + c] = from_f32<T>(sum[r][half] * f[r]);
        }
}

/* The rows that this thread has a part in: n (0: none) of a sentence, queries or keys, from
 * `first`. */
struct own : attention_item {
    int n, warp, lane;
};

template <class T>
static __device__ __forceinline__ struct own own_find(const struct attention_view<T> &a,
                                                      struct attention_grid grid, bool keys) {
    struct own w = {item_find<STRIP>(a, grid, keys ? a.k_start : a.q_start), 0,
                    (int)threadIdx.x / 32, (int)threadIdx.x % 32};
    w.n = max(0, min((int)STRIP, (keys ? w.n_k : w.n_q) - w.first));
    return w;
}

/* The chunks of keys that n queries from `first` see: begin, begin + CHUNK, ... up to last. */
template <class T>
static __device__ __forceinline__ struct span keys_seen(const struct attention_view<T> &a,
                                                        const struct own &w) {
    return (struct span){keys_of(a, w, w.first).first / CHUNK * CHUNK,
                         keys_of(a, w, w.first + w.n - 1).last};
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Streaming softmax: the running maximum and sum of each row, and the output so far. */
template <class T>
static __global__ void __launch_bounds__(WARPS * 32)
    attention_fwd_general_kernel(const struct attention_view<T> a,
                                 const struct attention_grid grid) {
    __shared__ struct slices sh;
    const int c0 = (int)blockIdx.y * SLICE;
    const struct own w = own_find(a, grid, false);
    if (w.n == 0) return;
    struct cuda_dropout drop = head_drop(a, w.head);
    struct strip<T> q = strip_of(a.q, w.q_row + w.first, w.n, w.head, a.d_k);
    float top[ROWS], sum[ROWS], out[ROWS][2], s[ROWS];
    for (int r = 0; r < ROWS; r++) top[r] = -INFINITY, sum[r] = out[r][0] = out[r][1] = 0;
    struct span keys = keys_seen(a, w);
    for (int j0 = keys.first; j0 <= keys.last; j0 += CHUNK) {
        int j = j0 + w.lane;
        rows_dot(s, sh, q, strip_of(a.k, w.k_row + j0, w.n_k - j0, w.head, a.d_k));
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int i = w.first + w.warp * ROWS + r;
            float x = inside(keys_of(a, w, i), j) ? s[r] * a.scale : -INFINITY;
            float above = fmaxf(top[r], warp_max(x)), base = above == -INFINITY ? 0 : above;
            float p = expf(x - base), shrink = expf(top[r] - base);
            sum[r] = sum[r] * shrink + p;
            out[r][0] *= shrink, out[r][1] *= shrink, top[r] = above;
            s[r] = p * dropout_factor1(drop, (uint32_t)(w.q_row + i), (uint32_t)j);
        }
        rows_add(out, sh, s, strip_of(a.v, w.k_row + j0, w.n_k - j0, w.head, a.d_v), c0);
    }
    float f[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float total = warp_sum(sum[r]);
        int i = w.first + w.warp * ROWS + r;
        f[r] = 1 / total;
        if (i < w.n_q && w.lane == 0 && blockIdx.y == 0)
            a.lse.at[w.head * a.lse.ld + w.q_row + i] = top[r] + logf(total);
    }
    rows_put(a.o, w.q_row + w.first, w.n, w.head, a.d_v, c0, out, f);
}

/* P from lse, for viewing: all columns of the output, zero where a query does not see. */
template <class T>
static __global__ void __launch_bounds__(WARPS * 32)
    attention_probs_kernel(const struct attention_view<T> a, const struct attention_grid grid) {
    __shared__ struct slices sh;
    const struct own w = own_find(a, grid, false);
    if (w.n == 0) return;
    struct strip<T> q = strip_of(a.q, w.q_row + w.first, w.n, w.head, a.d_k);
    for (int j0 = 0; j0 < a.probs_cols; j0 += CHUNK) {
        float s[ROWS] = {0};
        if (j0 < w.n_k) rows_dot(s, sh, q, strip_of(a.k, w.k_row + j0, w.n_k - j0, w.head, a.d_k));
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int i = w.first + w.warp * ROWS + r, j = j0 + w.lane;
            if (i >= w.n_q || j >= a.probs_cols) continue;
            int64_t row = (int64_t)w.head * a.n_q + w.q_row + i;
            float lse = a.lse.at[w.head * a.lse.ld + w.q_row + i];
            a.probs.at[row * a.probs.ld + j] =
                inside(keys_of(a, w, i), j) ? expf(s[r] * a.scale - lse) : 0.0f;
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* D_i = dout_i . o_i: a warp per head and query. */
template <class T>
static __global__ void __launch_bounds__(WARPS * 32)
    attention_delta_kernel(const struct attention_view<T> a) {
    int64_t item = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (item >= (int64_t)a.n_head * a.n_q) return;
    int head = (int)(item / a.n_q), row = (int)(item % a.n_q);
    const T *o = a.o.at + row * a.o.ld + (int64_t)head * a.d_v;
    const T *dout = a.dout.at + row * a.dout.ld + (int64_t)head * a.d_v;
    float sum = 0;
    for (int c = threadIdx.x % 32; c < a.d_v; c += 32) sum += to_f32(dout[c]) * to_f32(o[c]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) a.delta[item] = sum;
}

/* What pair (i, j) sends back, from s = q_i . k_j and dp = dout_i . v_j: its weight in dv_j, and
 * ds_ij. */
struct pair_grad {
    float p, ds;
};
template <class T>
static __device__ __forceinline__ struct pair_grad
pair_grad_of(const struct attention_view<T> &a, const struct attention_item &it,
             const struct cuda_dropout &drop, int i, int j, float s, float dp) {
    if (i >= it.n_q || !inside(keys_of(a, it, i), j)) return (struct pair_grad){0, 0};
    int64_t row = it.q_row + i;
    float p = expf(s * a.scale - a.lse.at[it.head * a.lse.ld + row]);
    float keep = dropout_factor1(drop, (uint32_t)row, (uint32_t)j);
    float delta = a.delta[(int64_t)it.head * a.n_q + row];
    return (struct pair_grad){keep * p, p * (keep * dp - delta)};
}

/* dq_i = scale * sum over j of ds_ij k_j. */
template <class T>
static __global__ void __launch_bounds__(WARPS * 32)
    attention_dq_general_kernel(const struct attention_view<T> a,
                                const struct attention_grid grid) {
    __shared__ struct slices sh;
    const int c0 = (int)blockIdx.y * SLICE;
    const struct own w = own_find(a, grid, false);
    if (w.n == 0) return;
    int64_t row = w.q_row + w.first;
    struct cuda_dropout drop = head_drop(a, w.head);
    float s[ROWS], dp[ROWS], dq[ROWS][2] = {{0}}, f[ROWS];
    struct span keys = keys_seen(a, w);
    for (int j0 = keys.first; j0 <= keys.last; j0 += CHUNK) {
        struct strip<T> k = strip_of(a.k, w.k_row + j0, w.n_k - j0, w.head, a.d_k);
        rows_dot(s, sh, strip_of(a.q, row, w.n, w.head, a.d_k), k);
        rows_dot(dp, sh, strip_of(a.dout, row, w.n, w.head, a.d_v),
                 strip_of(a.v, w.k_row + j0, w.n_k - j0, w.head, a.d_v));
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            s[r] =
                pair_grad_of(a, w, drop, w.first + w.warp * ROWS + r, j0 + w.lane, s[r], dp[r]).ds;
        rows_add(dq, sh, s, k, c0);
    }
    for (int r = 0; r < ROWS; r++) f[r] = a.scale;
    rows_put(a.dq, row, w.n, w.head, a.d_k, c0, dq, f);
}

/* dk_j = scale * sum over i of ds_ij q_i, in the first slices; dv_j = sum of drop(P)_ij dout_i in
 * the rest. */
template <class T>
static __global__ void __launch_bounds__(WARPS * 32)
    attention_dkv_general_kernel(const struct attention_view<T> a,
                                 const struct attention_grid grid) {
    __shared__ struct slices sh;
    const struct own w = own_find(a, grid, true);
    if (w.n == 0) return;
    int k_slices = (a.d_k + SLICE - 1) / SLICE, values = (int)blockIdx.y >= k_slices;
    int c0 = ((int)blockIdx.y - (values ? k_slices : 0)) * SLICE;
    int64_t row = w.k_row + w.first;
    struct cuda_dropout drop = head_drop(a, w.head);
    float s[ROWS], dp[ROWS], sum[ROWS][2] = {{0}}, f[ROWS];
    int begin = queries_of(a, w, w.first).first / CHUNK * CHUNK;
    int end = queries_of(a, w, w.first + w.n - 1).last;
    for (int i0 = begin; i0 <= end; i0 += CHUNK) {
        struct strip<T> q = strip_of(a.q, w.q_row + i0, w.n_q - i0, w.head, a.d_k);
        struct strip<T> dout = strip_of(a.dout, w.q_row + i0, w.n_q - i0, w.head, a.d_v);
        rows_dot(s, sh, strip_of(a.k, row, w.n, w.head, a.d_k), q);
        rows_dot(dp, sh, strip_of(a.v, row, w.n, w.head, a.d_v), dout);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            struct pair_grad g =
                pair_grad_of(a, w, drop, i0 + w.lane, w.first + w.warp * ROWS + r, s[r], dp[r]);
            s[r] = values ? g.p : g.ds;
        }
        rows_add(sum, sh, s, values ? dout : q, c0);
    }
    for (int r = 0; r < ROWS; r++) f[r] = values ? 1 : a.scale;
    rows_put(values ? a.dv : a.dk, row, w.n, w.head, values ? a.d_v : a.d_k, c0, sum, f);
}

/* ---- launching ------------------------------------------------------------------------------- */

static dim3 grid_of(const struct attention_args *a, struct attention_grid grid, int slices) {
    return dim3((unsigned)(grid.n_slot * a->n_head), (unsigned)slices);
}

void attention_general_fwd(struct cuda_backend *be, const struct attention_args *a) {
    cuda_with_type(a->q.type, [&](auto type) {
        typedef decltype(type) T;
        struct attention_view<T> v = attention_view_of<T>(a);
        struct attention_grid grid = attention_grid_of(&a->rq, STRIP);
        LAUNCH(be, attention_fwd_general_kernel<T>, grid_of(a, grid, cuda_blocks(v.d_v, SLICE)),
               WARPS * 32, 0, v, grid);
    });
}

void attention_general_probs(struct cuda_backend *be, const struct attention_args *a) {
    cuda_with_type(a->q.type, [&](auto type) {
        typedef decltype(type) T;
        struct attention_grid grid = attention_grid_of(&a->rq, STRIP);
        LAUNCH(be, attention_probs_kernel<T>, grid_of(a, grid, 1), WARPS * 32, 0,
               attention_view_of<T>(a), grid);
    });
}

void attention_general_bwd(struct cuda_backend *be, const struct attention_args *a, float *delta) {
    cuda_with_type(a->q.type, [&](auto type) {
        typedef decltype(type) T;
        struct attention_view<T> v = attention_view_of<T>(a);
        v.delta = delta;
        LAUNCH(be, attention_delta_kernel<T>, cuda_blocks((int64_t)v.n_head * v.n_q, WARPS),
               WARPS * 32, 0, v);
        int k_slices = cuda_blocks(v.d_k, SLICE), v_slices = cuda_blocks(v.d_v, SLICE);
        struct attention_grid queries = attention_grid_of(&a->rq, STRIP);
        LAUNCH(be, attention_dq_general_kernel<T>, grid_of(a, queries, k_slices), WARPS * 32, 0, v,
               queries);
        struct attention_grid keys = attention_grid_of(&a->rk, STRIP);
        LAUNCH(be, attention_dkv_general_kernel<T>, grid_of(a, keys, k_slices + v_slices),
               WARPS * 32, 0, v, keys);
    });
}
