/* attention_step.cu — one query per hypothesis over a cache of keys and values, for decoding.
 *
 * Bound by reading the cache: each key and value row of a head is used once, for one multiply-add
 * per element. So the kernel's only task is to keep many rows in flight. 16 bytes of a row go to
 * one lane, so D / 8 lanes (bf16) or D / 4 (f32) form a team that takes one key at a time, four of
 * them in flight; team m of n takes the steps t = m, m + n, ... with a streaming softmax of its
 * own. At the end the teams' maxima, sums and outputs are combined, in a fixed order, through
 * shuffles and shared memory. A hypothesis and head has 1, 4 or 8 warps, the more the fewer of them
 * there are: enough loads to fill the device from 4 hypotheses to 1,024. Where it is one, the four
 * warps of a block are neighbouring hypotheses with the same head: those of a sentence see the same
 * rows of its encoding, and mostly the same past, which three of them then find in the first-level
 * cache. The grid depends on the number of hypotheses alone and lengths are read on the device, so
 * a captured graph serves every step of a search.
 *
 * New rows: the team that takes the last step reads it from k_new and v_new and stores it into the
 * cache; nobody else reads that row in this call.
 *
 * Widths other than 16, 32, 64, 128 and unaligned slices take the general kernel: a thread per key,
 * then a thread per column.
 *
 * Math: docs/math/attention_step.md.   Spec: ref/attention_step.c. */
#include "backend/cuda/cuda.h"

/* The op as kernels take it. */
template <class T> struct step_view {
    T *o, *k, *v;
    const T *q, *k_new, *v_new; /* the last two NULL when nothing is added */
    int64_t ldo, ldq, ldk, ldv, ldk_new, ldv_new, index_ld;
    const int32_t *index, *start, *len;
    uint32_t k_pitch, v_pitch; /* ldk and ldv, counted in pieces of 16 bytes */
    int n_row, n_head, d_k, d_v, window;
    float scale;
};

/* Steps first .. len - 1 of hypothesis b are seen. */
struct step_range {
    int first, len;
};

template <class T>
static __device__ __forceinline__ struct step_range range_of(const struct step_view<T> &a, int b) {
    int len = a.len[b];
    return (struct step_range){a.window > 0 ? max(0, len - 1 - a.window) : 0, len};
}

template <class T>
static __device__ __forceinline__ int64_t cache_row(const struct step_view<T> &a, int b, int t) {
    return a.index ? a.index[b * a.index_ld + t] : a.start[b] + t;
}

enum { TOGETHER = 4 }; /* hypotheses of a block where each head of each has one warp */

/* ---- teams ----------------------------------------------------------------------------------- */

/* Softmax-weighted sum of N columns, as far as it has come. */
template <int N> struct partial { float top, sum, out[N]; };

/* a becomes the sum of both. Symmetric, so that lanes which exchange theirs end with the same
 * bits. */
template <int N>
static __device__ __forceinline__ void partial_join(struct partial<N> &a,
                                                    const struct partial<N> &b) {
    float top = fmaxf(a.top, b.top),
          base = top == -INFINITY ? 0 : top; /* a team may have had no key */
    float fa = expf(a.top - base), fb = expf(b.top - base);
    a.top = top;
    a.sum = a.sum * fa + b.sum * fb;
#pragma unroll
    for (int c = 0; c < N; c++) a.out[c] = a.out[c] * fa + b.out[c] * fb;
}

template <int N>
static __device__ __forceinline__ void partial_join_lanes(struct partial<N> &a, int lanes) {
    struct partial<N> b;
    b.top = __shfl_xor_sync(0xffffffffu, a.top, lanes);
    b.sum = __shfl_xor_sync(0xffffffffu, a.sum, lanes);
#pragma unroll
    for (int c = 0; c < N; c++) b.out[c] = __shfl_xor_sync(0xffffffffu, a.out[c], lanes);
    partial_join(a, b);
}

enum { FLIGHT = 4 };

/* Where the steps of a hypothesis lie in the cache: step t in row list[min(t, last)] + (t & mask),
 * that is index[t], or start + t without a branch. Steps beyond the length have rows that mean
 * nothing. */
struct row_list {
    const int32_t *list;
    int last, mask;
};

template <class T>
static __device__ __forceinline__ struct row_list row_list_of(const struct step_view<T> &a, int b) {
    const int32_t *list = a.start + b;
    if (a.index) list = a.index + b * a.index_ld;
    return (struct row_list){list, a.index ? (int)a.index_ld - 1 : 0, a.index ? 0 : -1};
}

static __device__ __forceinline__ void rows_ask(int (&row)[FLIGHT], const struct row_list &l, int t,
                                                int teams) {
#pragma unroll
    for (int m = 0; m < FLIGHT; m++) row[m] = l.list[min(t + m * teams, l.last)];
}

/* The keys of one team: steps first + team, first + team + teams, ... All lanes of a warp stay in
 * the loop together, since they shuffle; a team without a key adds nothing. Which rows these are is
 * asked for one round ahead, at first beside the length. */
template <class T, int D, int N>
static __device__ __forceinline__ struct partial<N> team_walk(const struct step_view<T> &a, int b,
                                                              uint32_t piece, int team, int teams) {
    constexpr int LANES = D / N;
    const int64_t column = (int64_t)piece * N;
    struct partial<N> p;
    struct row_list l = row_list_of(a, b);
    int t = team, row[FLIGHT];
    if (a.window > 0) t += max(0, a.len[b] - 1 - a.window);
    rows_ask(row, l, t, teams);
    uint4 raw = *reinterpret_cast<const uint4 *>(a.q + b * a.ldq + column);
    __syncwarp(); /* asked for before the length is waited for */
    int len = a.len[b], seen = a.k_new ? len - 1 : len;
    uint4 *k_at = reinterpret_cast<uint4 *>(a.k), *v_at = reinterpret_cast<uint4 *>(a.v);
    uint4 k[FLIGHT] = {}, v[FLIGHT] = {};
    float q[N], x[N];
    unpack16(q, raw);
    p.top = -INFINITY, p.sum = 0;
#pragma unroll
    for (int c = 0; c < N; c++) p.out[c] = 0, q[c] *= a.scale;
    for (; t - team < len; t += FLIGHT * teams) {
#pragma unroll
        for (int m = 0; m < FLIGHT; m++) {
            int at = t + m * teams;
            if (at >= seen) continue;
            uint32_t from = (uint32_t)(row[m] + (at & l.mask));
            k[m] = k_at[from * a.k_pitch + piece], v[m] = v_at[from * a.v_pitch + piece];
        }
        if (seen < len && (len - 1 - t) % teams == 0 && len - 1 - t < FLIGHT * teams) {
            const T *k_new = a.k_new + b * a.ldk_new + column;
            const T *v_new = a.v_new + b * a.ldv_new + column;
            uint32_t to = 0;
#pragma unroll
            for (int m = 0; m < FLIGHT; m++)
                if (t + m * teams == len - 1) {
                    k[m] = *reinterpret_cast<const uint4 *>(k_new);
                    v[m] = *reinterpret_cast<const uint4 *>(v_new);
                    to = (uint32_t)(row[m] + ((len - 1) & l.mask));
                }
#pragma unroll
            for (int m = 0; m < FLIGHT; m++)
                if (t + m * teams == len - 1) {
                    k_at[to * a.k_pitch + piece] = k[m];
                    v_at[to * a.v_pitch + piece] = v[m];
                }
        }
        rows_ask(row, l, t + FLIGHT * teams, teams);
        __syncwarp(); /* all of it is asked for before anything is used */
        float s[FLIGHT], w[FLIGHT], top = p.top;
#pragma unroll
        for (int m = 0; m < FLIGHT; m++) {
            s[m] = 0;
            unpack16(x, k[m]);
#pragma unroll
            for (int c = 0; c < N; c++) s[m] += q[c] * x[c];
#pragma unroll
            for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
                s[m] += __shfl_xor_sync(0xffffffffu, s[m], lanes);
            if (t + m * teams >= len) s[m] = -INFINITY;
            top = fmaxf(top, s[m]);
        }
        /* once for all that were in flight */
        float base = top == -INFINITY ? 0 : top, shrink = expf(p.top - base);
        p.top = top, p.sum *= shrink;
#pragma unroll
        for (int c = 0; c < N; c++) p.out[c] *= shrink;
#pragma unroll
        for (int m = 0; m < FLIGHT; m++) w[m] = expf(s[m] - base);
#pragma unroll
        for (int m = 0; m < FLIGHT; m++) {
            if (t + m * teams >= len) continue; /* not read: whatever it holds */
            unpack16(x, v[m]);
            p.sum += w[m];
#pragma unroll
            for (int c = 0; c < N; c++) p.out[c] += w[m] * x[c];
        }
    }
    return p;
}

/* o = out / sum, for a lane's N columns that all PER_WARP teams of a warp have: each divides and
 * stores its share of them. */
template <class T, int N, int PER_WARP>
static __device__ __forceinline__ void shares_store(T *o, const struct partial<N> &p, int team) {
    constexpr int SHARE = N > PER_WARP ? N / PER_WARP : 1;
    float mine[SHARE];
#pragma unroll
    for (int c = 0; c < N; c++)
        if (c / SHARE == team || c < SHARE) mine[c % SHARE] = p.out[c];
    if (team * SHARE >= N) return;
#pragma unroll
    for (int c = 0; c < SHARE; c++) mine[c] /= p.sum;
    store_pack<T, SHARE>(o + team * SHARE, mine);
}

/* Grid: (head, hypothesis); WARPS warps to an item, and one item to a block.
 * Where WARPS is 1, a block has as many hypotheses as warps. N columns to a lane. */
template <class T, int D, int WARPS>
static __global__ void __launch_bounds__(WARPS == 8 ? 256 : 128, WARPS == 8 ? 3 : 6)
    attention_step_kernel(const struct step_view<T> a) {
    constexpr int N = 16 / sizeof(T), LANES = D / N, PER_WARP = 32 / LANES;
    __shared__ float tops[WARPS], sums[WARPS], outs[WARPS][D];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int b = (int)blockIdx.y, head = (int)blockIdx.x, c0 = lane % LANES * N;
    int member = WARPS == 1 ? 0 : warp;
    uint32_t piece = (uint32_t)(head * LANES + lane % LANES); /* of a row */
    if (WARPS == 1) b = b * TOGETHER + warp;
    chain_wait();
    if (b >= a.n_row) return; /* whole warps, and only where WARPS == 1 */
    struct partial<N> p =
        team_walk<T, D, N>(a, b, piece, member * PER_WARP + lane / LANES, WARPS * PER_WARP);
#pragma unroll
    for (int lanes = LANES; lanes < 32; lanes *= 2) partial_join_lanes<N>(p, lanes);
    if (WARPS > 1) {
        if (lane < LANES) {
            tops[member] = p.top, sums[member] = p.sum;
#pragma unroll
            for (int c = 0; c < N; c++) outs[member][c0 + c] = p.out[c];
        }
        __syncthreads();
        if (member > 0) return;
        for (int w = 1; w < WARPS; w++) {
            struct partial<N> other;
            other.top = tops[w], other.sum = sums[w];
#pragma unroll
            for (int c = 0; c < N; c++) other.out[c] = outs[w][c0 + c];
            partial_join<N>(p, other);
        }
    }
    shares_store<T, N, PER_WARP>(a.o + b * a.ldo + (int64_t)piece * N, p, lane / LANES);
}

/* ---- general --------------------------------------------------------------------------------- */

enum { GENERAL = 128 }; /* threads: keys of a chunk, then columns of a slice */

/* Grid: (hypothesis, head) x slices of GENERAL columns of o. */
template <class T>
static __global__ void __launch_bounds__(GENERAL)
    attention_step_general_kernel(const struct step_view<T> a) {
    __shared__ float p[GENERAL], slot[32];
    __shared__ const T *values[GENERAL];
    int b = (int)blockIdx.x / a.n_head, head = (int)blockIdx.x % a.n_head, thread = threadIdx.x;
    int c = (int)blockIdx.y * GENERAL + thread;
    const T *q = a.q + b * a.ldq + (int64_t)head * a.d_k;
    chain_wait();
    struct step_range r = range_of(a, b);
    float top = -INFINITY, sum = 0, out = 0;
    for (int t0 = r.first; t0 < r.len; t0 += GENERAL) {
        int t = t0 + thread, n = min((int)GENERAL, r.len - t0);
        float s = -INFINITY;
        if (t < r.len) {
            bool newest = a.k_new && t == r.len - 1;
            int64_t row = newest ? b : cache_row(a, b, t);
            const T *k =
                (newest ? a.k_new + row * a.ldk_new : a.k + row * a.ldk) + (int64_t)head * a.d_k;
            values[thread] =
                (newest ? a.v_new + row * a.ldv_new : a.v + row * a.ldv) + (int64_t)head * a.d_v;
            s = 0;
            for (int e = 0; e < a.d_k; e++) s += to_f32(q[e]) * to_f32(k[e]);
            s *= a.scale;
        }
        float above = fmaxf(top, block_max(s, slot)), shrink = expf(top - above);
        p[thread] = expf(s - above);
        top = above, sum *= shrink, out *= shrink;
        __syncthreads();
        for (int j = 0; j < n; j++) {
            sum += p[j];
            if (c < a.d_v) out += p[j] * to_f32(values[j][c]);
        }
        __syncthreads();
    }
    if (c < a.d_v) a.o[b * a.ldo + (int64_t)head * a.d_v + c] = from_f32<T>(out / sum);
    if (!a.k_new) return;
    int64_t row = cache_row(a, b, r.len - 1);
    if (c < a.d_v)
        a.v[row * a.ldv + (int64_t)head * a.d_v + c] =
            a.v_new[b * a.ldv_new + (int64_t)head * a.d_v + c];
    for (int e = thread; e < a.d_k && blockIdx.y == 0; e += GENERAL)
        a.k[row * a.ldk + (int64_t)head * a.d_k + e] =
            a.k_new[b * a.ldk_new + (int64_t)head * a.d_k + e];
}

/* ---- launching ------------------------------------------------------------------------------- */

template <class T> static struct step_view<T> view_of(const struct attention_step_args *a) {
    struct step_view<T> v = {};
    v.o = cuda_data<T>(&a->o), v.q = cuda_data<T>(&a->q);
    v.k = cuda_data<T>(&a->k), v.v = cuda_data<T>(&a->v);
    if (!mat_empty(&a->k_new)) v.k_new = cuda_data<T>(&a->k_new), v.v_new = cuda_data<T>(&a->v_new);
    v.ldo = a->o.ld, v.ldq = a->q.ld, v.ldk = a->k.ld, v.ldv = a->v.ld;
    v.k_pitch = (uint32_t)(a->k.ld * (int64_t)sizeof(T) / 16);
    v.v_pitch = (uint32_t)(a->v.ld * (int64_t)sizeof(T) / 16);
    v.ldk_new = a->k_new.ld, v.ldv_new = a->v_new.ld, v.index_ld = a->index_ld;
    v.index = a->index, v.start = a->start, v.len = a->len;
    v.n_row = a->q.rows, v.n_head = a->n_head, v.window = a->window, v.scale = a->scale;
    v.d_k = a->q.cols / a->n_head, v.d_v = a->v.cols / a->n_head;
    return v;
}

template <class T, int D>
static void step_launch(struct cuda_backend *be, const struct step_view<T> &v) {
    int items = v.n_row * v.n_head;
    unsigned rows = (unsigned)v.n_row, n_head = (unsigned)v.n_head;
    if (items >= 8 * be->n_sm)
        CHAIN(be, (attention_step_kernel<T, D, 1>),
              dim3(n_head, (unsigned)cuda_blocks(v.n_row, TOGETHER)), 32 * TOGETHER, 0, v);
    else if (items > be->n_sm)
        CHAIN(be, (attention_step_kernel<T, D, 4>), dim3(n_head, rows), 128, 0, v);
    else
        CHAIN(be, (attention_step_kernel<T, D, 8>), dim3(n_head, rows), 256, 0, v);
}

void cuda_attention_step(struct backend *base, const struct attention_step_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    bool wide = cuda_aligned(&a->q, 16) && cuda_aligned(&a->k, 16) && cuda_aligned(&a->v, 16) &&
                cuda_aligned(&a->o, 16) && cuda_aligned(&a->k_new, 16) &&
                cuda_aligned(&a->v_new, 16) && a->q.cols == a->v.cols;
    cuda_with_type(a->q.type, [&](auto type) {
        typedef decltype(type) T;
        struct step_view<T> v = view_of<T>(a);
        if (wide && v.d_k == 16)
            step_launch<T, 16>(be, v);
        else if (wide && v.d_k == 32)
            step_launch<T, 32>(be, v);
        else if (wide && v.d_k == 64)
            step_launch<T, 64>(be, v);
        else if (wide && v.d_k == 128)
            step_launch<T, 128>(be, v);
        else
            CHAIN(be, attention_step_general_kernel<T>,
                  dim3((unsigned)(v.n_row * v.n_head), (unsigned)cuda_blocks(v.d_v, GENERAL)),
                  GENERAL, 0, v);
    });
}
