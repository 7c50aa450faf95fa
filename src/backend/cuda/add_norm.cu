/* add_norm.cu — y = LayerNorm(x + drop(s)), and its reverse.        PAPER: 3.1 and 5.4.
 *
 * Bound by memory: forward moves x, s, r and y, backward dy, r, dx and ds, once each. For the
 * widths of the presets a warp keeps a row in its registers (eight neighbouring columns per lane
 * and pass, 16 bytes of bf16, one draw of the dropout mask), so the mean, the squared distances and
 * the result need no second read. Other widths and unaligned rows take a block per row that reads
 * the row again instead.
 *
 * Statistics are those of r as it is stored, since the backward pass sees no other. dgamma and
 * dbeta are summed over a block's rows first, then over the blocks (sum_rows.cu); so is dbias, for
 * which ds is at hand. Outputs may be inputs (ops.h): all reads of an element come before its
 * first write, by the same thread. */
#include "backend/cuda/cuda.h"

enum { WARPS = 8, BWD_WARPS = 4, BWD_ROWS = 64, ANY_THREADS = 256 };

template <class T> static __device__ __forceinline__ float rounded(float x) {
    return to_f32(from_f32<T>(x));
}

/* The arguments as kernels take them. Absent matrices are NULL. */
struct norm_args {
    void *y, *r, *dx, *ds;
    const void *x, *s, *gamma, *beta, *dy, *dr;
    float *stats;
    int64_t y_ld, r_ld, x_ld, s_ld, stats_ld, dy_ld, dr_ld, dx_ld, ds_ld;
    int rows, cols;
    float eps;
    struct cuda_dropout drop;
};

/* ---- forward --------------------------------------------------------------------------------- */

/* Row `row` of the residual sum, columns of this lane, as stored. PASSES * 256 columns. */
template <class T, int PASSES, bool SUM>
static __device__ __forceinline__ void load_sum(float (&v)[PASSES][8], const struct norm_args &a,
                                                int row, int lane) {
    const T *x = (const T *)a.x + row * a.x_ld, *s = (const T *)a.s + row * a.s_ld;
    T *r = (T *)a.r + row * a.r_ld;
#pragma unroll
    for (int p = 0; p < PASSES; p++) load_pack(v[p], x + p * 256 + lane * 8);
    if constexpr (SUM) {
        float add[PASSES][8];
#pragma unroll
        for (int p = 0; p < PASSES; p++) load_pack(add[p], s + p * 256 + lane * 8);
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            uint32_t keep = 0xff;
            if (a.drop.threshold) keep = dropout_keep8(a.drop, (uint32_t)row, p * 32 + lane);
#pragma unroll
            for (int j = 0; j < 8; j++)
                v[p][j] = rounded<T>(v[p][j] + (keep >> j & 1u ? a.drop.scale * add[p][j] : 0.0f));
            store_pack(r + p * 256 + lane * 8, v[p]);
        }
    }
}

template <class T, int PASSES, bool SUM>
static __global__ void __launch_bounds__(32 * WARPS)
    add_norm_fwd_kernel_warp_per_row(struct norm_args a) {
    int lane = threadIdx.x % 32, row = blockIdx.x * WARPS + threadIdx.x / 32;
    chain_wait();
    if (row >= a.rows) return;
    const float n = PASSES * 256;
    float v[PASSES][8], sum = 0, squares = 0;
    load_sum<T, PASSES, SUM>(v, a, row, lane);
#pragma unroll
    for (int p = 0; p < PASSES; p++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum += v[p][j];
    float mean = warp_sum(sum) / n;
#pragma unroll
    for (int p = 0; p < PASSES; p++)
#pragma unroll
        for (int j = 0; j < 8; j++) squares += (v[p][j] - mean) * (v[p][j] - mean);
    float rstd = 1.0f / sqrtf(warp_sum(squares) / n + a.eps);
    if (lane == 0) {
        a.stats[row * a.stats_ld] = mean;
        a.stats[row * a.stats_ld + 1] = rstd;
    }
    T *y = (T *)a.y + row * a.y_ld;
#pragma unroll
    for (int p = 0; p < PASSES; p++) {
        float gamma[8], beta[8];
        load_pack(gamma, (const T *)a.gamma + p * 256 + lane * 8);
        load_pack(beta, (const T *)a.beta + p * 256 + lane * 8);
#pragma unroll
        for (int j = 0; j < 8; j++) v[p][j] = gamma[j] * ((v[p][j] - mean) * rstd) + beta[j];
        store_pack(y + p * 256 + lane * 8, v[p]);
    }
}

/* Any width and alignment: a thread has every 256th column, and reads back what it wrote itself. */
template <class T, bool SUM>
static __global__ void add_norm_fwd_kernel_block_per_row(struct norm_args a) {
    __shared__ float slot[2][32];
    int row = blockIdx.x, n = a.cols;
    const T *x = (const T *)a.x + row * a.x_ld, *s = (const T *)a.s + row * a.s_ld;
    const T *in = SUM ? (const T *)a.r + row * a.r_ld : x;
    T *r = (T *)a.r + row * a.r_ld, *y = (T *)a.y + row * a.y_ld;
    float sum = 0, squares = 0;
    chain_wait();
    for (int j = threadIdx.x; j < n; j += ANY_THREADS) {
        float v = to_f32(x[j]);
        if (SUM) {
            v += dropout_factor1(a.drop, (uint32_t)row, (uint32_t)j) * to_f32(s[j]);
            r[j] = from_f32<T>(v);
            v = rounded<T>(v);
        }
        sum += v;
    }
    float mean = block_sum(sum, slot[0]) / n;
    for (int j = threadIdx.x; j < n; j += ANY_THREADS) {
        float v = to_f32(in[j]) - mean;
        squares += v * v;
    }
    float rstd = 1.0f / sqrtf(block_sum(squares, slot[1]) / n + a.eps);
    if (threadIdx.x == 0) {
        a.stats[row * a.stats_ld] = mean;
        a.stats[row * a.stats_ld + 1] = rstd;
    }
    for (int j = threadIdx.x; j < n; j += ANY_THREADS) {
        float rhat = (to_f32(in[j]) - mean) * rstd;
        y[j] = from_f32<T>(to_f32(((const T *)a.gamma)[j]) * rhat + to_f32(((const T *)a.beta)[j]));
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* How many blocks a multiprocessor holds: the sums of wide rows take most of its registers. */
constexpr int bwd_per_sm(int passes) { return passes == 1 ? 8 : passes == 2 ? 5 : 3; }

/* With rhat = (r - mean) rstd and t = gamma dy:  g = rstd (t - mean(t) - rhat mean(t rhat)) + dr. A
 * warp takes a row, then the row a whole grid further on. (Loading that one ahead costs more
 * registers, and with them warps, than it gains.)
 * partial[block] = (dgamma, dbeta, and if BIAS dbias) of the block's rows. */
template <class T, int PASSES, bool BIAS>
static __global__ void __launch_bounds__(32 * BWD_WARPS, bwd_per_sm(PASSES))
    add_norm_bwd_kernel_warp_per_row(float *partial, struct norm_args a) {
    const int N = PASSES * 256, SUMS = BIAS ? 3 : 2;
    __shared__ float part[BWD_WARPS][256];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, step = gridDim.x * BWD_WARPS;
    int row = blockIdx.x * BWD_WARPS + warp;
    float sums[SUMS][PASSES][8] = {}; /* of dgamma, dbeta, dbias */
    chain_wait();
    for (; row < a.rows; row += step) {
        float mean = a.stats[row * a.stats_ld], rstd = a.stats[row * a.stats_ld + 1];
        float rhat[PASSES][8], g[PASSES][8], sum = 0, sum_rhat = 0;
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            load_pack(rhat[p], (const T *)a.r + row * a.r_ld + p * 256 + lane * 8);
            load_pack(g[p], (const T *)a.dy + row * a.dy_ld + p * 256 + lane * 8);
        }
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            float gamma[8];
            load_pack(gamma, (const T *)a.gamma + p * 256 + lane * 8);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                rhat[p][j] = (rhat[p][j] - mean) * rstd;
                sums[0][p][j] += g[p][j] * rhat[p][j];
                sums[1][p][j] += g[p][j];
                g[p][j] *= gamma[j];
                sum += g[p][j];
                sum_rhat += g[p][j] * rhat[p][j];
            }
        }
        float mean_t = warp_sum(sum) / N, mean_t_rhat = warp_sum(sum_rhat) / N;
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            float dr[8] = {};
            if (a.dr) load_pack(dr, (const T *)a.dr + row * a.dr_ld + p * 256 + lane * 8);
#pragma unroll
            for (int j = 0; j < 8; j++)
                g[p][j] = rstd * (g[p][j] - mean_t - rhat[p][j] * mean_t_rhat) + dr[j];
            store_pack((T *)a.dx + row * a.dx_ld + p * 256 + lane * 8, g[p]);
            if (a.drop.threshold) {
                uint32_t keep = dropout_keep8(a.drop, (uint32_t)row, p * 32 + lane);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    g[p][j] = keep >> j & 1u ? a.drop.scale * g[p][j] : 0.0f;
            }
            if (a.ds) store_pack((T *)a.ds + row * a.ds_ld + p * 256 + lane * 8, g[p]);
            if constexpr (BIAS) {
#pragma unroll
                for (int j = 0; j < 8; j++) sums[2][p][j] += rounded<T>(g[p][j]);
            }
        }
    }
    float *out = partial + (int64_t)blockIdx.x * SUMS * N;
#pragma unroll
    for (int p = 0; p < SUMS * PASSES; p++) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++) part[warp][lane * 8 + j] = sums[p / PASSES][p % PASSES][j];
        __syncthreads();
        for (int col = threadIdx.x; col < 256; col += 32 * BWD_WARPS) {
            float total = 0;
#pragma unroll
            for (int w = 0; w < BWD_WARPS; w++) total += part[w][col];
            out[p * 256 + col] = total;
        }
    }
}

/* Any width and alignment; a thread has every 256th column of all the block's rows. */
template <class T, bool BIAS>
static __global__ void add_norm_bwd_kernel_block_per_row(float *partial, struct norm_args a) {
    __shared__ float slot[2][32];
    int n = a.cols, first = blockIdx.x * BWD_ROWS, last = min(first + BWD_ROWS, a.rows);
    float *d_gamma = partial + (int64_t)blockIdx.x * (BIAS ? 3 : 2) * n, *d_beta = d_gamma + n;
    float *d_bias = d_beta + n;
    const T *gamma = (const T *)a.gamma;
    chain_wait();
    for (int row = first; row < last; row++) {
        const T *in = (const T *)a.r + row * a.r_ld, *dy = (const T *)a.dy + row * a.dy_ld;
        float mean = a.stats[row * a.stats_ld], rstd = a.stats[row * a.stats_ld + 1];
        float sum = 0, sum_rhat = 0;
        for (int j = threadIdx.x; j < n; j += ANY_THREADS) {
            float g = to_f32(dy[j]), rhat = (to_f32(in[j]) - mean) * rstd;
            d_gamma[j] = (row == first ? 0.0f : d_gamma[j]) + g * rhat;
            d_beta[j] = (row == first ? 0.0f : d_beta[j]) + g;
            sum += to_f32(gamma[j]) * g;
            sum_rhat += to_f32(gamma[j]) * g * rhat;
        }
        __syncthreads(); /* the slots of the row before have been read */
        float mean_t = block_sum(sum, slot[0]) / n, mean_t_rhat = block_sum(sum_rhat, slot[1]) / n;
        for (int j = threadIdx.x; j < n; j += ANY_THREADS) {
            float t = to_f32(gamma[j]) * to_f32(dy[j]), rhat = (to_f32(in[j]) - mean) * rstd;
            float dr = a.dr ? to_f32(((const T *)a.dr)[row * a.dr_ld + j]) : 0.0f;
            float g = rstd * (t - mean_t - rhat * mean_t_rhat) + dr;
            ((T *)a.dx)[row * a.dx_ld + j] = from_f32<T>(g);
            T ds = from_f32<T>(dropout_factor1(a.drop, (uint32_t)row, (uint32_t)j) * g);
            if (a.ds) ((T *)a.ds)[row * a.ds_ld + j] = ds;
            if (BIAS) d_bias[j] = (row == first ? 0.0f : d_bias[j]) + to_f32(ds);
        }
    }
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* How many passes of 256 columns make a row; 0: the general kernels. */
static int passes_of(int cols) {
    return cols == 256 ? 1 : cols == 512 ? 2 : cols == 768 ? 3 : cols == 1024 ? 4 : 0;
}

template <class Body> static void with_passes(int passes, Body body) {
    if (passes == 1)
        body(std::integral_constant<int, 1>());
    else if (passes == 2)
        body(std::integral_constant<int, 2>());
    else if (passes == 3)
        body(std::integral_constant<int, 3>());
    else
        body(std::integral_constant<int, 4>());
}

void cuda_add_norm_fwd(struct backend *base, const struct add_norm_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    bool sum = !mat_empty(&a->s);
    bool wide = cuda_wide(&a->x) && cuda_wide(&a->s) && cuda_wide(&a->r) && cuda_wide(&a->y) &&
                cuda_wide(&a->gamma) && cuda_wide(&a->beta);
    struct norm_args k = {};
    k.y = a->y.data, k.y_ld = a->y.ld;
    k.x = a->x.data, k.x_ld = a->x.ld;
    if (sum) k.s = a->s.data, k.s_ld = a->s.ld, k.r = a->r.data, k.r_ld = a->r.ld;
    k.gamma = a->gamma.data, k.beta = a->beta.data;
    k.stats = cuda_data<float>(&a->stats), k.stats_ld = a->stats.ld;
    k.rows = a->x.rows, k.cols = a->x.cols;
    k.eps = a->eps;
    k.drop = cuda_dropout_of(&a->drop);
    int passes = wide ? passes_of(k.cols) : 0;
    cuda_with_type(a->x.type, [&](auto t) {
        using T = decltype(t);
        if (!passes) {
            auto kernel = sum ? add_norm_fwd_kernel_block_per_row<T, true>
                              : add_norm_fwd_kernel_block_per_row<T, false>;
            CHAIN_AS(be, "add_norm_fwd_kernel_block_per_row", kernel, k.rows, ANY_THREADS, 0, k);
            return;
        }
        with_passes(passes, [&](auto p) {
            auto kernel = sum ? add_norm_fwd_kernel_warp_per_row<T, decltype(p)::value, true>
                              : add_norm_fwd_kernel_warp_per_row<T, decltype(p)::value, false>;
            CHAIN_AS(be, "add_norm_fwd_kernel_warp_per_row", kernel, cuda_blocks(k.rows, WARPS),
                     32 * WARPS, 0, k);
        });
    });
}

/* Launches the backward kernel; returns how many rows of partial sums it leaves. */
template <class T, bool BIAS>
static int bwd_rows(struct cuda_backend *be, float *partial, const struct norm_args *k,
                    int passes) {
    int n_block = cuda_blocks(k->rows, BWD_ROWS);
    if (!passes) {
        CHAIN(be, (add_norm_bwd_kernel_block_per_row<T, BIAS>), n_block, ANY_THREADS, 0, partial,
              *k);
        return n_block;
    }
    with_passes(passes, [&](auto p) {
        const int PASSES = decltype(p)::value;
        n_block = cuda_grid(be, k->rows, BWD_WARPS, bwd_per_sm(PASSES));
        CHAIN(be, (add_norm_bwd_kernel_warp_per_row<T, PASSES, BIAS>), n_block, 32 * BWD_WARPS, 0,
              partial, *k);
    });
    return n_block;
}

void cuda_add_norm_bwd(struct backend *base, const struct add_norm_args *a) {
    struct cuda_backend *be = cuda_of(base);
    const struct mat *r = mat_empty(&a->r) ? &a->x : &a->r;
    bool bias = !mat_empty(&a->dbias);
    int rows = a->dy.rows, d = a->dy.cols, most = cuda_grid(be, rows, BWD_WARPS, bwd_per_sm(1));
    if (cuda_blocks(rows, BWD_ROWS) > most) most = cuda_blocks(rows, BWD_ROWS);
    size_t size = (size_t)most * (bias ? 3 : 2) * (size_t)d * sizeof(float);
    float *partial = (float *)cuda_workspace_beside(be, size);
    if (!partial) return;
    cuda_await(be, {&a->dx, &a->ds, &a->dgamma, &a->dbeta, &a->dbias});
    bool wide = cuda_wide(r) && cuda_wide(&a->dy) && cuda_wide(&a->dr) && cuda_wide(&a->dx) &&
                cuda_wide(&a->ds) && cuda_wide(&a->gamma);
    struct norm_args k = {};
    k.r = r->data, k.r_ld = r->ld;
    k.dy = a->dy.data, k.dy_ld = a->dy.ld;
    k.dx = a->dx.data, k.dx_ld = a->dx.ld;
    if (!mat_empty(&a->dr)) k.dr = a->dr.data, k.dr_ld = a->dr.ld;
    if (!mat_empty(&a->ds)) k.ds = a->ds.data, k.ds_ld = a->ds.ld;
    k.gamma = a->gamma.data;
    k.stats = cuda_data<float>(&a->stats), k.stats_ld = a->stats.ld;
    k.rows = rows, k.cols = d;
    k.drop = cuda_dropout_of(&a->drop);
    int passes = wide ? passes_of(d) : 0, n_partial = 0;
    cuda_with_type(a->dy.type, [&](auto t) {
        using T = decltype(t);
        n_partial = bias ? bwd_rows<T, true>(be, partial, &k, passes)
                         : bwd_rows<T, false>(be, partial, &k, passes);
    });
    struct cuda_sums sums = {{cuda_data<float>(&a->dgamma), cuda_data<float>(&a->dbeta),
                              bias ? cuda_data<float>(&a->dbias) : NULL},
                             bias ? 3 : 2};
    cuda_add_partials(be, &sums, partial, n_partial, d);
}
