/* attention_tensor.cu — attention in bf16 on tensor cores: forward and backward, any lengths.
 *
 * Sentences are short (30 tokens), so the op is bound by moving q k v o through memory, 128 bytes
 * per row and head, not by arithmetic: at length 32 a token needs 8 KiB and 0.07 MFLOP per layer
 * forward (8 heads of 64), an eighth of what would keep the tensor cores busy. What counts is to
 * read every row once, in whole lines, with enough of them on their way: blocks are small (1 to 4
 * warps) so that many fit a multiprocessor and one's loads hide another's arithmetic.
 *
 * Forward: a block owns 16 W queries of one head of one sentence, a warp 16 of them; keys and
 * values come in blocks of 32 or 64 through two stages (one where no sentence is longer), with
 * streaming softmax in base 2.
 *
 * Backward, sentences up to 128: a block owns a whole sentence and head. Each warp first takes 16
 * queries and gathers dq over keys, then 16 keys and gathers dk, dv over queries, recomputing the
 * scores transposed: 7 products instead of 5, but nothing passes between warps, and rows are read
 * once. Sentences of different lengths run in launches for lengths (0, 16], (16, 32], (32, 64],
 * (64, 128], of which the host picks those that the average and the longest length call for; a
 * block whose sentence belongs to another launch ends. Longer sentences: one kernel gathers dq by
 * blocks of 64 queries and leaves D for the other, which gathers dk and dv by blocks of 64 keys.
 *
 * Kernels are made for pairs of widths: K of queries and keys, V of values and of what comes out.
 * They differ only in models that are made so (Table 3, B).
 *
 * All sums have one owner and a fixed order: the same bits every time, independent of the other
 * sentences of the batch, up to the choice of strip sizes. */
#include "backend/cuda/attention_strips.h"

#define LOG2E 1.44269504088896341f
#define LN2   0.69314718055994531f

/* What a warp knows of its 16 queries; entry r is for row g + 8 r. lse is in base 2. */
struct query_rows {
    int first; /* position */
    struct span see[2];
    float lse[2], delta[2];
};

static __device__ __forceinline__ struct query_rows
query_rows_of(const struct attention_view<bf16> &a, const struct attention_item &it, int first) {
    int g = threadIdx.x % 32 / 4;
    struct query_rows w;
    w.first = first;
#pragma unroll
    for (int r = 0; r < 2; r++) w.see[r] = keys_of(a, it, first + g + 8 * r);
    return w;
}

/* All keys that some of 16 queries see, and the reverse. */
static __device__ __forceinline__ struct span keys_of_16(const struct attention_view<bf16> &a,
                                                         const struct attention_item &it, int i) {
    return (struct span){keys_of(a, it, i).first,
                         keys_of(a, it, min(i + WARP_ROWS, it.n_q) - 1).last};
}
static __device__ __forceinline__ struct span
queries_of_16(const struct attention_view<bf16> &a, const struct attention_item &it, int j) {
    return (struct span){queries_of(a, it, j).first,
                         queries_of(a, it, min(j + WARP_ROWS, it.n_k) - 1).last};
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Scores of 16 x 32 become weights exp2(s - top), masked and dropped; raises top and sum, returns
 * in `shrink` what sums so far must be multiplied by. sum is this lane's share of the row. The
 * scale of dropout waits for the end, so that the weights round to bf16 as without dropout (1 stays
 * 1). */
template <bool DROP>
static __device__ __forceinline__ void
softmax_chunk(float (&s)[4][4], float (&top)[2], float (&sum)[2], float (&shrink)[2],
              const struct query_rows &w, float scale, int j0, const uint32_t (&keep)[4]) {
    int t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float above = top[r];
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = s[n][2 * r + e];
                x = inside(w.see[r], j0 + 8 * n + 2 * t + e) ? x * scale : -INFINITY;
                above = fmaxf(above, x);
            }
        above = fmaxf(above, __shfl_xor_sync(0xffffffffu, above, 1));
        above = fmaxf(above, __shfl_xor_sync(0xffffffffu, above, 2));
        float base = above == -INFINITY ? 0 : above; /* a row may see none of these keys */
        shrink[r] = exp2_fast(top[r] - base);
        top[r] = above;
        sum[r] *= shrink[r];
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float p = exp2_fast(s[n][2 * r + e] - base);
                sum[r] += p;
                if (DROP) p = keep[n] >> (2 * r + e) & 1u ? p : 0;
                s[n][2 * r + e] = p;
            }
    }
}

/* Warps that must fit a multiprocessor at once; bounds registers to what spills nothing that
 * matters. */
template <int V, bool DROP> static constexpr int fwd_warps() {
    return V <= 32 ? 24 : V == 64 && !DROP ? 18 : V == 64 ? 16 : 12;
}

/* Bytes of q and, of each of `stages`, `step` keys and as many values; where a warp's 16 rows of q
 * are too narrow for what it stores there in the end, as many of V. */
template <int K, int V, int W> static constexpr size_t fwd_bytes(int rows_of_stages) {
    return strip_bytes<K>(WARP_ROWS * W + rows_of_stages) + strip_bytes<V>(rows_of_stages) +
           (V > K ? strip_bytes<V>(WARP_ROWS * W) : 0);
}

/* Grid: (strip, head), heads fastest. Shared memory: W strips of 16 queries, then per stage `step`
 * keys and as many values. Bytes: q k v in, o out, 4 (K + V) per token and head, keys again for
 * every further strip. */
template <int K, int V, int W, bool DROP>
static __global__ void __launch_bounds__(32 * W, fwd_warps<V, DROP>() / W)
    attention_fwd_kernel(const struct attention_view<bf16> a, const struct attention_grid grid,
                         const int step, const int stages_end) {
    SHARED_ARRAY(uint4, shared);
    constexpr int K_PITCH = strip_pitch<K>(), V_PITCH = strip_pitch<V>();
    chain_wait();
    struct attention_item it = item_find<WARP_ROWS * W>(a, grid, a.q_start);
    if (it.first >= it.n_q) return;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = min(WARP_ROWS * W, it.n_q - it.first);
    bf16 *q = reinterpret_cast<bf16 *>(shared), *stages = q + WARP_ROWS * W * K_PITCH;
    struct cuda_dropout drop = head_drop(a, it.head);
    struct query_rows w = query_rows_of(a, it, it.first + warp * WARP_ROWS);
    struct span mine = keys_of_16(a, it, w.first);
    bool idle = w.first >= it.n_q;
    bf16 *own = q + warp * WARP_ROWS * K_PITCH;
    float out[V / 8][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    sum_clear<V>(out);
    strip_fetch<K>(q, a.q, it.q_row + it.first, n, WARP_ROWS * W, it.head);
    blocks_walk(
        keys_of(a, it, it.first).first / step * step, keys_of(a, it, it.first + n - 1).last, step,
        [&](int at, int stage) {
            int rows = min(step, chunks_up(it.n_k - at));
            bf16 *k = stages + stage * step * (K_PITCH + V_PITCH);
            strip_fetch<K>(k, a.k, it.k_row + at, it.n_k - at, rows, it.head);
            strip_fetch<V>(k + step * K_PITCH, a.v, it.k_row + at, it.n_k - at, rows, it.head);
        },
        [&](int at, int stage) {
            const bf16 *k = stages + stage * step * (K_PITCH + V_PITCH), *v = k + step * K_PITCH;
            for (int j = at; j < at + step;
                 j += CHUNK, k += CHUNK * K_PITCH, v += CHUNK * V_PITCH) {
                if (idle || j > mine.last || j + CHUNK <= mine.first) continue;
                float s[4][4], shrink[2];
                uint32_t keep[4] = {0, 0, 0, 0};
                if (DROP) keep_by_query(keep, drop, it.q_row + w.first, j);
                strip_dot<K>(s, own, k);
                softmax_chunk<DROP>(s, top, sum, shrink, w, a.scale * LOG2E, j, keep);
#pragma unroll
                for (int c = 0; c < V / 8; c++)
#pragma unroll
                    for (int x = 0; x < 4; x++) out[c][x] *= shrink[x / 2];
                strip_add<V>(out, s, v);
            }
        });
    if (idle) return;
    float f[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        f[r] = drop.scale / sum[r];
        int i = w.first + lane / 4 + 8 * r;
        if (lane % 4 == 0 && i < it.n_q)
            a.lse.at[it.head * a.lse.ld + it.q_row + i] = (top[r] + log2f(sum[r])) * LN2;
    }
    bf16 *stage = V > K ? stages + stages_end + warp * WARP_ROWS * V_PITCH : own;
    strip_store<V>(a.o, it.q_row + w.first, it.n_q - w.first, it.head, out, f, stage);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* D_i = dout_i . o_i of a warp's 16 queries, V / 8 lanes to a row. o is asked for before dout has
 * arrived. */
template <int V> struct delta_rows { uint4 o[V / 16]; };

template <int V>
static __device__ __forceinline__ struct delta_rows<V>
delta_ask(const struct attention_view<bf16> &a, const struct attention_item &it, int first) {
    struct delta_rows<V> x;
    const bf16 *from = a.o.at + (int64_t)(it.q_row + first) * a.o.ld + (int64_t)it.head * V;
#pragma unroll
    for (int e = 0; e < V / 16; e++) {
        int at = e * 32 + (int)threadIdx.x % 32, r = at / (V / 8), c = at % (V / 8) * 8;
        x.o[e] = make_uint4(0, 0, 0, 0);
        if (first + r < it.n_q) x.o[e] = *reinterpret_cast<const uint4 *>(from + r * a.o.ld + c);
    }
    return x;
}

static __device__ __forceinline__ float
dot2(uint32_t x, uint32_t y) {
    float low = __uint_as_float(x << 16) * __uint_as_float(y << 16);
    return low + __uint_as_float(x & 0xffff0000u) * __uint_as_float(y & 0xffff0000u);
}

/* Writes delta[0 .. 15]; dout is the warp's strip. */
template <int V>
static __device__ __forceinline__ void delta_write(float *delta, const struct delta_rows<V> &x,
                                                   const bf16 *dout) {
#pragma unroll
    for (int e = 0; e < V / 16; e++) {
        int at = e * 32 + (int)threadIdx.x % 32, r = at / (V / 8), c = at % (V / 8) * 8;
        uint4 y = *reinterpret_cast<const uint4 *>(dout + r * strip_pitch<V>() + c);
        float sum =
            dot2(x.o[e].x, y.x) + dot2(x.o[e].y, y.y) + dot2(x.o[e].z, y.z) + dot2(x.o[e].w, y.w);
#pragma unroll
        for (int lanes = V / 16; lanes > 0; lanes /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        if (c == 0) delta[r] = sum;
    }
}

/* dq of a warp's queries gathers 32 keys from position j. */
template <int K, int V, bool DROP>
static __device__ __forceinline__ void dq_chunk(float (&dq)[K / 8][4], const struct query_rows &w,
                                                float scale, const bf16 *q, const bf16 *dout,
                                                const bf16 *k, const bf16 *v, int j, int row,
                                                const struct cuda_dropout &drop) {
    int t = threadIdx.x % 4;
    float s[4][4], dp[4][4];
    uint32_t keep[4];
    if (DROP) keep_by_query(keep, drop, row, j);
    strip_dot<K>(s, q, k);
    strip_dot<V>(dp, dout, v);
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int x = 0; x < 4; x++) {
            float g = dp[n][x], p = exp2_fast(s[n][x] * scale - w.lse[x / 2]);
            if (DROP) g = keep[n] >> x & 1u ? g * drop.scale : 0;
            bool seen = inside(w.see[x / 2], j + 8 * n + 2 * t + x % 2);
            s[n][x] = seen ? p * (g - w.delta[x / 2]) : 0;
        }
    strip_add<K>(dq, s, k);
}

/* dk and dv of a warp's keys, seen by queries see[r], gather 32 queries from position i, whose lse
 * (base 2) and delta lie in shared memory. dv still wants the scale of dropout. */
template <int K, int V, bool DROP>
static __device__ __forceinline__ void
dkv_chunk(float (&dk)[K / 8][4], float (&dv)[V / 8][4], const struct span (&see)[2], float scale,
          const bf16 *k, const bf16 *v, const bf16 *q, const bf16 *dout, const float *lse,
          const float *delta, int i, int row, int j, const struct cuda_dropout &drop) {
    int t = threadIdx.x % 4;
    float s[4][4], dp[4][4];
    uint32_t keep[4];
    if (DROP) keep_by_key(keep, drop, row, j);
    strip_dot<K>(s, k, q);
    strip_dot<V>(dp, v, dout);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        int c = 8 * n + 2 * t;
        float2 l = *reinterpret_cast<const float2 *>(lse + c);
        float2 d = *reinterpret_cast<const float2 *>(delta + c);
#pragma unroll
        for (int x = 0; x < 4; x++) {
            bool seen = inside(see[x / 2], i + c + x % 2);
            float g = dp[n][x], p = exp2_fast(s[n][x] * scale - (x % 2 ? l.y : l.x));
            float kept = p;
            if (DROP) {
                bool is_kept = keep[n] >> x & 1u;
                kept = is_kept ? p : 0, g = is_kept ? g * drop.scale : 0;
            }
            s[n][x] = seen ? kept : 0;
            dp[n][x] = seen ? p * (g - (x % 2 ? d.y : d.x)) : 0;
        }
    }
    strip_add<V>(dv, s, dout);
    strip_add<K>(dk, dp, q);
}

/* Shared memory of the kernel below: q, k, v, dout, a stage per warp, lse and delta. */
template <int W> static __host__ __device__ constexpr int whole_rows() {
    return W == 1 ? CHUNK : WARP_ROWS * W;
}
template <int K, int V> static __host__ __device__ constexpr int wider() { return K > V ? K : V; }
template <int K, int V, int W> static constexpr size_t whole_bytes() {
    return 2 * strip_bytes<K>(whole_rows<W>()) + 2 * strip_bytes<V>(whole_rows<W>()) +
           strip_bytes<wider<K, V>()>(WARP_ROWS * W) + 2 * sizeof(float) * (size_t)whole_rows<W>();
}

/* As fwd_warps, of the wider. */
template <int D, bool DROP> static constexpr int bwd_warps() {
    return D <= 32 ? 16 : D == 64 && !DROP ? 16 : D == 64 ? 12 : 8;
}

/* Grid: (sentence, head). Takes the sentences whose longer side is in (longer_than, 16 W]. Bytes: q
 * k v o dout in, dq dk dv out, 8 (K + V) per token and head, each once. */
template <int K, int V, int W, bool DROP>
static __global__ void __launch_bounds__(32 * W, bwd_warps<wider<K, V>(), DROP>() / W)
    attention_bwd_whole_kernel(const struct attention_view<bf16> a, const int longer_than) {
    SHARED_ARRAY(uint4, shared);
    constexpr int K_PITCH = strip_pitch<K>(), V_PITCH = strip_pitch<V>(), ROWS = whole_rows<W>();
    constexpr int STAGE = WARP_ROWS * strip_pitch<wider<K, V>()>();
    chain_wait();
    struct attention_item it = item_find<1>(a, (struct attention_grid){0, 1}, a.q_start);
    int length = max(it.n_q, it.n_k);
    if (length <= longer_than || length > WARP_ROWS * W) return;
    bf16 *q = reinterpret_cast<bf16 *>(shared), *k = q + ROWS * K_PITCH, *v = k + ROWS * K_PITCH;
    bf16 *dout = v + ROWS * V_PITCH, *stages = dout + ROWS * V_PITCH;
    float *lse = reinterpret_cast<float *>(stages + STAGE * W), *delta = lse + ROWS;
    int lane = threadIdx.x % 32, g = lane / 4, first = (int)threadIdx.x / 32 * WARP_ROWS;
    bf16 *stage = stages + first / WARP_ROWS * STAGE;
    strip_fetch<K>(q, a.q, it.q_row, it.n_q, chunks_up(it.n_q), it.head);
    strip_fetch<K>(k, a.k, it.k_row, it.n_k, chunks_up(it.n_k), it.head);
    strip_fetch<V>(v, a.v, it.k_row, it.n_k, chunks_up(it.n_k), it.head);
    strip_fetch<V>(dout, a.dout, it.q_row, it.n_q, chunks_up(it.n_q), it.head);
    copies_commit();
    struct delta_rows<V> o = delta_ask<V>(a, it, first);
    if (lane < WARP_ROWS && first + lane < it.n_q)
        lse[first + lane] = a.lse.at[it.head * a.lse.ld + it.q_row + first + lane] * LOG2E;
    copies_wait<0>();
    __syncthreads();
    if (first < it.n_q) delta_write<V>(delta + first, o, dout + first * V_PITCH);
    __syncthreads();
    struct cuda_dropout drop = head_drop(a, it.head);
    float scale = a.scale * LOG2E, scaled[2] = {a.scale, a.scale};
    float kept[2] = {drop.scale, drop.scale};
    if (first < it.n_q) {
        struct query_rows w = query_rows_of(a, it, first);
        struct span keys = keys_of_16(a, it, first);
        float dq[K / 8][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
            w.lse[r] = lse[first + g + 8 * r], w.delta[r] = delta[first + g + 8 * r];
        sum_clear<K>(dq);
        for (int j = keys.first / CHUNK * CHUNK; j <= keys.last; j += CHUNK)
            dq_chunk<K, V, DROP>(dq, w, scale, q + first * K_PITCH, dout + first * V_PITCH,
                                 k + j * K_PITCH, v + j * V_PITCH, j, it.q_row + first, drop);
        strip_store<K>(a.dq, it.q_row + first, it.n_q - first, it.head, dq, scaled, stage);
    }
    if (first < it.n_k) {
        struct span see[2], queries = queries_of_16(a, it, first);
        float dk[K / 8][4], dv[V / 8][4];
#pragma unroll
        for (int r = 0; r < 2; r++) see[r] = queries_of(a, it, first + g + 8 * r);
        sum_clear<K>(dk), sum_clear<V>(dv);
        for (int i = queries.first / CHUNK * CHUNK; i <= queries.last; i += CHUNK)
            dkv_chunk<K, V, DROP>(dk, dv, see, scale, k + first * K_PITCH, v + first * V_PITCH,
                                  q + i * K_PITCH, dout + i * V_PITCH, lse + i, delta + i, i,
                                  it.q_row + i, first, drop);
        strip_store<V>(a.dv, it.k_row + first, it.n_k - first, it.head, dv, kept, stage);
        strip_store<K>(a.dk, it.k_row + first, it.n_k - first, it.head, dk, scaled, stage);
    }
}

/* Sentences longer than 128. */
enum { LONG_WARPS = 4, LONG_ROWS = WARP_ROWS * LONG_WARPS };

/* Own strips (two), two stages of two strips, and lse and delta of the queries of each stage. */
template <int K, int V> static constexpr size_t long_bytes() {
    return 3 * (strip_bytes<K>(LONG_ROWS) + strip_bytes<V>(LONG_ROWS)) +
           4 * sizeof(float) * LONG_ROWS;
}

/* Grid: (64 queries, head). Reads keys and values once per 64 queries, from L2. Leaves D in
 * a.delta. */
template <int K, int V, bool DROP>
static __global__ void __launch_bounds__(32 * LONG_WARPS)
    attention_dq_kernel(const struct attention_view<bf16> a, const struct attention_grid grid,
                        const int longer_than) {
    SHARED_ARRAY(uint4, shared);
    constexpr int K_PITCH = strip_pitch<K>(), K_STRIP = LONG_ROWS * K_PITCH;
    constexpr int V_PITCH = strip_pitch<V>(), V_STRIP = LONG_ROWS * V_PITCH;
    chain_wait();
    struct attention_item it = item_find<LONG_ROWS>(a, grid, a.q_start);
    if (it.first >= it.n_q || max(it.n_q, it.n_k) <= longer_than) return;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
        n = min((int)LONG_ROWS, it.n_q - it.first);
    bf16 *q = reinterpret_cast<bf16 *>(shared), *dout = q + K_STRIP, *stages = dout + V_STRIP;
    float *delta = reinterpret_cast<float *>(stages + 2 * (K_STRIP + V_STRIP));
    struct cuda_dropout drop = head_drop(a, it.head);
    struct query_rows w = query_rows_of(a, it, it.first + warp * WARP_ROWS);
    struct span mine = keys_of_16(a, it, w.first);
    bool idle = w.first >= it.n_q, ready = false;
    bf16 *own = q + warp * WARP_ROWS * K_PITCH, *own_dout = dout + warp * WARP_ROWS * V_PITCH;
    float dq[K / 8][4];
    sum_clear<K>(dq);
    strip_fetch<K>(q, a.q, it.q_row + it.first, n, LONG_ROWS, it.head);
    strip_fetch<V>(dout, a.dout, it.q_row + it.first, n, LONG_ROWS, it.head);
    struct delta_rows<V> o = delta_ask<V>(a, it, w.first);
    auto prepare = [&]() { /* when dout has arrived */
                           delta_write<V>(delta + warp * WARP_ROWS, o, own_dout);
                           __syncwarp();
#pragma unroll
                           for (int r = 0; r < 2; r++) {
                               int i = w.first + lane / 4 + 8 * r;
                               int64_t row = it.q_row + i;
                               w.delta[r] = delta[i - it.first];
                               w.lse[r] =
                                   i < it.n_q ? a.lse.at[it.head * a.lse.ld + row] * LOG2E : 0;
                               if (lane % 4 == 0 && i < it.n_q)
                                   a.delta[(int64_t)it.head * a.n_q + row] = w.delta[r];
                           }
    };
    blocks_walk(
        keys_of(a, it, it.first).first / LONG_ROWS * LONG_ROWS,
        keys_of(a, it, it.first + n - 1).last, LONG_ROWS,
        [&](int at, int stage) {
            int rows = min((int)LONG_ROWS, chunks_up(it.n_k - at));
            bf16 *k = stages + stage * (K_STRIP + V_STRIP);
            strip_fetch<K>(k, a.k, it.k_row + at, it.n_k - at, rows, it.head);
            strip_fetch<V>(k + K_STRIP, a.v, it.k_row + at, it.n_k - at, rows, it.head);
        },
        [&](int at, int stage) {
            if (!ready) prepare(), ready = true;
            const bf16 *k = stages + stage * (K_STRIP + V_STRIP), *v = k + K_STRIP;
            for (int j = at; j < at + LONG_ROWS;
                 j += CHUNK, k += CHUNK * K_PITCH, v += CHUNK * V_PITCH)
                if (!idle && j <= mine.last && j + CHUNK > mine.first)
                    dq_chunk<K, V, DROP>(dq, w, a.scale * LOG2E, own, own_dout, k, v, j,
                                         it.q_row + w.first, drop);
        });
    float scaled[2] = {a.scale, a.scale};
    if (!idle) strip_store<K>(a.dq, it.q_row + w.first, it.n_q - w.first, it.head, dq, scaled, own);
}

/* Grid: (64 keys, head). Reads queries and their gradients once per 64 keys, from L2. */
template <int K, int V, bool DROP>
static __global__ void __launch_bounds__(32 * LONG_WARPS)
    attention_dkv_kernel(const struct attention_view<bf16> a, const struct attention_grid grid,
                         const int longer_than) {
    SHARED_ARRAY(uint4, shared);
    constexpr int K_PITCH = strip_pitch<K>(), K_STRIP = LONG_ROWS * K_PITCH;
    constexpr int V_PITCH = strip_pitch<V>(), V_STRIP = LONG_ROWS * V_PITCH;
    chain_wait();
    struct attention_item it = item_find<LONG_ROWS>(a, grid, a.k_start);
    if (it.first >= it.n_k || max(it.n_q, it.n_k) <= longer_than) return;
    int g = threadIdx.x % 32 / 4, warp = threadIdx.x / 32,
        n = min((int)LONG_ROWS, it.n_k - it.first);
    bf16 *k = reinterpret_cast<bf16 *>(shared), *v = k + K_STRIP, *stages = v + V_STRIP;
    float *statistics = reinterpret_cast<float *>(stages + 2 * (K_STRIP + V_STRIP));
    struct cuda_dropout drop = head_drop(a, it.head);
    int first = it.first + warp * WARP_ROWS;
    bf16 *own_k = k + warp * WARP_ROWS * K_PITCH, *own_v = v + warp * WARP_ROWS * V_PITCH;
    struct span see[2], mine = queries_of_16(a, it, first);
    bool idle = first >= it.n_k;
    float dk[K / 8][4], dv[V / 8][4];
#pragma unroll
    for (int r = 0; r < 2; r++) see[r] = queries_of(a, it, first + g + 8 * r);
    sum_clear<K>(dk), sum_clear<V>(dv);
    strip_fetch<K>(k, a.k, it.k_row + it.first, n, LONG_ROWS, it.head);
    strip_fetch<V>(v, a.v, it.k_row + it.first, n, LONG_ROWS, it.head);
    blocks_walk(
        queries_of(a, it, it.first).first / LONG_ROWS * LONG_ROWS,
        queries_of(a, it, it.first + n - 1).last, LONG_ROWS,
        [&](int at, int stage) {
            int rows = min((int)LONG_ROWS, chunks_up(it.n_q - at));
            bf16 *q = stages + stage * (K_STRIP + V_STRIP);
            strip_fetch<K>(q, a.q, it.q_row + at, it.n_q - at, rows, it.head);
            strip_fetch<V>(q + K_STRIP, a.dout, it.q_row + at, it.n_q - at, rows, it.head);
            int r = threadIdx.x;
            if (r >= LONG_ROWS || at + r >= it.n_q) return;
            float *lse = statistics + stage * 2 * LONG_ROWS;
            int64_t row = it.q_row + at + r;
            lse[r] = a.lse.at[it.head * a.lse.ld + row] * LOG2E;
            lse[LONG_ROWS + r] = a.delta[(int64_t)it.head * a.n_q + row];
        },
        [&](int at, int stage) {
            const bf16 *q = stages + stage * (K_STRIP + V_STRIP), *dout = q + K_STRIP;
            const float *lse = statistics + stage * 2 * LONG_ROWS;
            for (int i = at; i < at + LONG_ROWS;
                 i += CHUNK, q += CHUNK * K_PITCH, dout += CHUNK * V_PITCH, lse += CHUNK)
                if (!idle && i <= mine.last && i + CHUNK > mine.first)
                    dkv_chunk<K, V, DROP>(dk, dv, see, a.scale * LOG2E, own_k, own_v, q, dout, lse,
                                          lse + LONG_ROWS, i, it.q_row + i, first, drop);
        });
    if (idle) return;
    float kept[2] = {drop.scale, drop.scale}, scaled[2] = {a.scale, a.scale};
    strip_store<V>(a.dv, it.k_row + first, it.n_k - first, it.head, dv, kept, own_v);
    strip_store<K>(a.dk, it.k_row + first, it.n_k - first, it.head, dk, scaled, own_k);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* The pairs of widths that there are kernels for: calls body(K, V) with them as types, or not. */
template <int N> struct number { static constexpr int value = N; };
template <class Body> static bool with_widths(const struct attention_args *a, Body body) {
    int k = a->q.cols / a->n_head, v = a->v.cols / a->n_head;
    auto offer = [&](auto k_here, auto v_here) {
        bool same = k == k_here.value && v == v_here.value;
        if (same) body(k_here, v_here);
        return same;
    };
    return offer(number<16>(), number<16>()) || offer(number<32>(), number<32>()) ||
           offer(number<64>(), number<64>()) || offer(number<128>(), number<128>()) ||
           offer(number<16>(), number<64>()) || offer(number<32>(), number<64>());
}

bool attention_tensor_fits(const struct attention_args *a, bool bwd) {
    bool wide = cuda_aligned(&a->q, 16) && cuda_aligned(&a->k, 16) && cuda_aligned(&a->v, 16) &&
                cuda_aligned(&a->o, 16);
    if (bwd)
        wide = wide && cuda_aligned(&a->dout, 16) && cuda_aligned(&a->dq, 16) &&
               cuda_aligned(&a->dk, 16) && cuda_aligned(&a->dv, 16);
    return wide && a->q.type == DTYPE_BF16 && with_widths(a, [](auto, auto) {});
}

/* Calls body with the widths and with whether there is dropout, as types. */
template <class Body> static void with_shape(const struct attention_args *a, Body body) {
    bool drop = dropout_threshold(a->drop.p) > 0;
    with_widths(a, [&](auto k, auto v) {
        if (drop)
            body(k, v, number<1>());
        else
            body(k, v, number<0>());
    });
}

static struct cuda_shape shape_of(int blocks, int warps, size_t shared) {
    return cuda_shape_of(dim3((unsigned)blocks), dim3(32u * (unsigned)warps), shared);
}

template <class... Formal, class... Actual>
static void launch(struct cuda_backend *be, const char *what, void (*kernel)(Formal...),
                   const struct cuda_shape &shape, Actual... arguments) {
    if (shape.shared > 48 * 1024 &&
        !cuda_allow_shared(be, reinterpret_cast<const void *>(kernel), shape.shared, what))
        return;
    cuda_launch(be, what, true, kernel, shape, arguments...);
}

static int average(const struct rows *r) { return (r->n_tok + r->n_seq - 1) / r->n_seq; }

template <int K, int V, int W, bool DROP>
static void fwd_launch(struct cuda_backend *be, const struct attention_args *a) {
    int step = W < 4 ? CHUNK : 2 * CHUNK, stages = a->rk.max_len > step ? 2 : 1;
    struct attention_grid grid = attention_grid_of(&a->rq, WARP_ROWS * W);
    int end = stages * step * (strip_pitch<K>() + strip_pitch<V>());
    struct cuda_shape shape =
        shape_of(grid.n_slot * a->n_head, W, fwd_bytes<K, V, W>(stages * step));
    launch(be, "attention_fwd_kernel", attention_fwd_kernel<K, V, W, DROP>, shape,
           attention_view_of<bf16>(a), grid, step, end);
}

/* Strips as tall as most sentences: a shorter strip would read keys again, a taller one leaves
 * warps idle. */
void attention_tensor_fwd(struct cuda_backend *be, const struct attention_args *a) {
    int n = average(&a->rq);
    with_shape(a, [&](auto k, auto v, auto drop) {
        constexpr int K = decltype(k)::value, V = decltype(v)::value;
        constexpr bool DROP = decltype(drop)::value;
        if (a->rq.max_len <= 16 || n <= 10)
            fwd_launch<K, V, 1, DROP>(be, a);
        else if (a->rq.max_len <= 32 || n <= 36)
            fwd_launch<K, V, 2, DROP>(be, a);
        else
            fwd_launch<K, V, 4, DROP>(be, a);
    });
}

/* The sentences with lengths in (longer_than, 16 W], when the batch can have any and the average
 * does not say that they are few enough to go with the next size. Returns the length that is
 * done. */
template <int K, int V, int W, bool DROP>
static int whole_launch(struct cuda_backend *be, const struct attention_view<bf16> &v,
                        int longer_than, int mean, int longest) {
    bool last = longest <= WARP_ROWS * W;
    if (longest <= longer_than || (!last && mean > WARP_ROWS * W)) return longer_than;
    launch(be, "attention_bwd_whole_kernel", attention_bwd_whole_kernel<K, V, W, DROP>,
           shape_of(v.n_seq * v.n_head, W, whole_bytes<K, V, W>()), v, longer_than);
    return WARP_ROWS * W;
}

template <int K, int V, bool DROP>
static void long_launch(struct cuda_backend *be, const struct attention_args *a,
                        const struct attention_view<bf16> &v, int longer_than) {
    struct attention_grid queries = attention_grid_of(&a->rq, LONG_ROWS);
    launch(be, "attention_dq_kernel", attention_dq_kernel<K, V, DROP>,
           shape_of(queries.n_slot * a->n_head, LONG_WARPS, long_bytes<K, V>()), v, queries,
           longer_than);
    struct attention_grid keys = attention_grid_of(&a->rk, LONG_ROWS);
    launch(be, "attention_dkv_kernel", attention_dkv_kernel<K, V, DROP>,
           shape_of(keys.n_slot * a->n_head, LONG_WARPS, long_bytes<K, V>()), v, keys, longer_than);
}

void attention_tensor_bwd(struct cuda_backend *be, const struct attention_args *a, float *delta) {
    struct attention_view<bf16> v = attention_view_of<bf16>(a);
    v.delta = delta;
    int mean = max(average(&a->rq), average(&a->rk)), longest = max(a->rq.max_len, a->rk.max_len);
    with_shape(a, [&](auto k_width, auto v_width, auto drop) {
        constexpr int K = decltype(k_width)::value, V = decltype(v_width)::value;
        constexpr bool DROP = decltype(drop)::value;
        int done = whole_launch<K, V, 1, DROP>(be, v, 0, mean, longest);
        done = whole_launch<K, V, 2, DROP>(be, v, done, mean, longest);
        done = whole_launch<K, V, 4, DROP>(be, v, done, mean, longest);
        done = whole_launch<K, V, 8, DROP>(be, v, done, mean, longest);
        if (longest > done) long_launch<K, V, DROP>(be, a, v, done);
    });
}
