/* attention_strips.h — what a warp does with strips of bf16 rows in shared memory, for
 * attention_tensor.cu.
 *
 * A strip is some rows of one head, D columns wide, with a pitch of D + 8: the eight rows of an
 * ldmatrix then lie in different banks for D = 16, 32, 64 and 128. Rows that do not exist are zero.
 *
 * A warp owns 16 rows of one side and meets the other side 32 rows at a time. Everything is two
 * products:
 *     strip_dot  s [16, 32] = own rows . other rows, over the D columns
 *     strip_add  sum [16, D] += w [16, 32] other rows
 * s and w have the layout of C (mma.h): with g = lane / 4, t = lane % 4 the element x[n][2 r + e]
 * is row g + 8 r, column 8 n + 2 t + e. Forward and dq own queries and meet keys; dk and dv own
 * keys and meet queries, so the transposed products need neither a transposed copy nor an exchange
 * between warps. */
#ifndef BACKEND_CUDA_ATTENTION_STRIPS_H
#define BACKEND_CUDA_ATTENTION_STRIPS_H

#include "backend/cuda/attention.h"
#include "backend/cuda/mma.h"

enum { WARP_ROWS = 16, CHUNK = 32 };

template <int D> static __host__ __device__ constexpr int strip_pitch() { return D + 8; }
template <int D> static constexpr size_t strip_bytes(int rows) {
    return sizeof(bf16) * (size_t)rows * strip_pitch<D>();
}

static __device__ __forceinline__ int chunks_up(int n) { return (n + CHUNK - 1) / CHUNK * CHUNK; }

/* Begins to copy rows row .. row + n - 1 of a head to a strip, and zeros up to `rows`; by the whole
 * block. */
template <int D>
static __device__ __forceinline__ void strip_fetch(bf16 *to, const struct attention_mat<bf16> &m,
                                                   int64_t row, int n, int rows, int head) {
    const bf16 *from = m.at + row * m.ld + (int64_t)head * D;
    for (int e = (int)threadIdx.x; e < rows * (D / 8); e += (int)blockDim.x) {
        int r = e / (D / 8), c = e % (D / 8) * 8;
        copy16_async(to + r * strip_pitch<D>() + c, from + (r < n ? r : 0) * m.ld + c, r < n);
    }
}

template <int D>
static __device__ __forceinline__ void strip_dot(float (&s)[4][4], const bf16 *own,
                                                 const bf16 *other) {
    int lane = threadIdx.x % 32;
    const bf16 *a_row = own + lane % 16 * strip_pitch<D>() + lane / 16 * 8;
    const bf16 *b_row = other + (lane % 8 + lane / 16 * 8) * strip_pitch<D>() + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int x = 0; x < 4; x++) s[n][x] = 0;
#pragma unroll
    for (int c = 0; c < D; c += 16) {
        uint32_t a[4], b[4];
        ldmatrix(a, a_row + c);
#pragma unroll
        for (int n = 0; n < 4; n += 2) {
            ldmatrix(b, b_row + n * 8 * strip_pitch<D>() + c);
            mma_add(s[n], a, b[0], b[1]);
            mma_add(s[n + 1], a, b[2], b[3]);
        }
    }
}

template <int D>
static __device__ __forceinline__ void strip_add(float (&sum)[D / 8][4], const float (&w)[4][4],
                                                 const bf16 *other) {
    int lane = threadIdx.x % 32;
    const bf16 *row = other + lane % 16 * strip_pitch<D>() + lane / 16 * 8;
#pragma unroll
    for (int half = 0; half < 2;
         half++) { /* 16 of the 32 rows: columns 2 half and 2 half + 1 of w */
        uint32_t a[4];
#pragma unroll
        for (int x = 0; x < 2; x++) {
            a[2 * x] = pack_bf16(w[2 * half + x][0], w[2 * half + x][1]);
            a[2 * x + 1] = pack_bf16(w[2 * half + x][2], w[2 * half + x][3]);
        }
#pragma unroll
        for (int c = 0; c < D; c += 16) {
            uint32_t b[4];
            ldmatrix_trans(b, row + half * 16 * strip_pitch<D>() + c);
            mma_add(sum[c / 8], a, b[0], b[1]);
            mma_add(sum[c / 8 + 1], a, b[2], b[3]);
        }
    }
}

template <int D> static __device__ __forceinline__ void sum_clear(float (&sum)[D / 8][4]) {
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int x = 0; x < 4; x++) sum[n][x] = 0;
}

/* Rows of sum, times f[0] (rows g) and f[1] (rows g + 8), to rows row .. row + n - 1 of m. They
 * pass through `stage`, 16 rows of shared memory that are this warp's alone, so that each row
 * leaves in neighbouring 16-byte pieces. */
template <int D>
static __device__ __forceinline__ void strip_store(const struct attention_mat<bf16> &m, int64_t row,
                                                   int n, int head, const float (&sum)[D / 8][4],
                                                   const float (&f)[2], bf16 *stage) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    __syncwarp(); /* what the stage held has been read */
#pragma unroll
    for (int c = 0; c < D / 8; c++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *reinterpret_cast<uint32_t *>(stage + (g + 8 * r) * strip_pitch<D>() + 8 * c + 2 * t) =
                pack_bf16(sum[c][2 * r] * f[r], sum[c][2 * r + 1] * f[r]);
    __syncwarp();
    bf16 *to = m.at + row * m.ld + (int64_t)head * D;
#pragma unroll
    for (int e = lane; e < WARP_ROWS * (D / 8); e += 32) {
        int r = e / (D / 8), c = e % (D / 8) * 8;
        if (r < n)
            *reinterpret_cast<uint4 *>(to + r * m.ld + c) =
                *reinterpret_cast<const uint4 *>(stage + r * strip_pitch<D>() + c);
    }
}

/* Walks the blocks of `step` rows from `begin` (a multiple of it) to the one that holds `end`, in
 * two stages: while use(at, stage) works on one block, fetch(at, stage) has begun to bring the
 * next. What was fetched before the call has arrived when `use` first runs. By the whole block of
 * threads. */
template <class Fetch, class Use>
static __device__ __forceinline__ void blocks_walk(int begin, int end, int step, Fetch fetch,
                                                   Use use) {
    fetch(begin, 0);
    copies_commit();
    int stage = 0;
    for (int at = begin; at <= end; at += step, stage ^= 1) {
        bool more = at + step <= end;
        if (more) fetch(at + step, stage ^ 1);
        copies_commit();
        copies_wait<1>();
        __syncthreads();
        use(at, stage);
        if (more) __syncthreads(); /* the next round fetches into this stage */
    }
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Which pairs of a 16 x 32 strip are kept: bit 2 r + e of keep[n] for element x[n][2 r + e]. The
 * philox calls of the strip, 8 keys of one query each, are shared out, two per lane.
 * Rows are queries from batch row `row`, columns keys from position j. */
static __device__ __forceinline__ void
keep_by_query(uint32_t (&keep)[4], const struct cuda_dropout &drop, int row, int j) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t own = dropout_keep8(drop, (uint32_t)(row + g), (uint32_t)(j / 8 + t));
    own |= dropout_keep8(drop, (uint32_t)(row + g + 8), (uint32_t)(j / 8 + t)) << 8;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t x = __shfl_sync(0xffffffffu, own, g * 4 + n) >> (2 * t);
        keep[n] = (x & 3u) | (x >> 8 & 3u) << 2;
    }
}

/* Rows are keys from position j (a multiple of 16), columns queries from batch row `row`. */
static __device__ __forceinline__ void
keep_by_key(uint32_t (&keep)[4], const struct cuda_dropout &drop, int row, int j) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t own = dropout_keep8(drop, (uint32_t)(row + lane), (uint32_t)(j / 8));
    own |= dropout_keep8(drop, (uint32_t)(row + lane), (uint32_t)(j / 8 + 1)) << 8;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        keep[n] = 0;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            uint32_t x = __shfl_sync(0xffffffffu, own, 8 * n + 2 * t + e) >> g;
            keep[n] |= (x & 1u) << e | (x >> 8 & 1u) << (2 + e);
        }
    }
}

#endif
