/* linear.cu — y = drop(act(x w^T + b)), and its reverse.        PAPER: 3.3 for the ReLU.
 *
 * The product carries bias and ReLU in its epilogue, so the paper's layers are one kernel. GELU and
 * SiLU keep z and take a second pass z -> y; dropout is part of it.
 *
 * Backward, one pass turns dy into dz in place and sums its columns for db (per block of rows, then
 * over the blocks: sum_rows.cu); then two products. Without activation and dropout only the column
 * sums are left of that pass. All passes but the products are bound by memory: a thread handles
 * eight columns of a row at a time, 16 bytes of bf16, which share one draw of the dropout mask. */
#include "backend/cuda/cuda.h"

#include <algorithm>

enum {
    LANES = 32,
    ROWS = 8,
    COLS = 8 * LANES
}; /* forward: a block of threads; columns it covers */

static __device__ __forceinline__ float normal_cdf(float z) {
    return 0.5f * erfcf(-z * 0.70710678f);
}
static __device__ __forceinline__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }

template <enum act ACT> static __device__ __forceinline__ float act_fwd(float z) {
    if (ACT == ACT_RELU) return z <= 0 ? 0 : z; /* a NaN stays one */
    if (ACT == ACT_GELU) return z * normal_cdf(z);
    if (ACT == ACT_SILU) return z * sigmoid(z);
    return z;
}

/* For ReLU z is y = drop(relu(z)): where it is positive so is z, where dropout zeroed it nothing
 * flows. */
template <enum act ACT> static __device__ __forceinline__ float act_bwd(float z) {
    if (ACT == ACT_RELU) return z > 0 ? 1 : 0;
    if (ACT == ACT_GELU) return normal_cdf(z) + z * 0.39894228f * expf(-0.5f * z * z);
    if (ACT == ACT_SILU) {
        float s = sigmoid(z);
        return s * (1 + z * (1 - s));
    }
    return 1;
}

static __device__ __forceinline__ void drop8(float (&v)[8], const struct cuda_dropout &d, int row,
                                             int col) {
    if (d.threshold == 0) return;
    uint32_t keep = dropout_keep8(d, (uint32_t)row, (uint32_t)col / 8);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = keep >> j & 1u ? v[j] * d.scale : 0.0f;
}

/* y = drop(act(z)); z may be y. For ReLU the product has applied it already: ACT_NONE. */
template <class T, enum act ACT, bool WIDE>
static __global__ void linear_fwd_kernel(T *y, int64_t y_ld, const T *z, int64_t z_ld, int rows,
                                         int cols, struct cuda_dropout d) {
    int col = blockIdx.y * COLS + threadIdx.x * 8, row = blockIdx.x * ROWS + threadIdx.y;
    float v[8];
    chain_wait();
    if (col >= cols || row >= rows) return;
    load8<WIDE>(v, z + row * z_ld + col, cols - col);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = act_fwd<ACT>(v[j]);
    drop8(v, d, row, col);
    store8<WIDE>(y + row * y_ld + col, v, cols - col);
}

/* dy = act'(z) drop'(dy) in place; partial[block, :] = column sums of the result, unless NULL.
 * Blocks as in cuda_sum_shape. */
template <class T, enum act ACT, bool WIDE>
static __global__ void __launch_bounds__(CUDA_SUM_THREADS, CUDA_SUM_PER_SM)
    linear_bwd_kernel(float *partial, T *dy, int64_t dy_ld, const T *z, int64_t z_ld, int rows,
                      int cols, struct cuda_dropout d) {
    int col = sum_first_col(), n = cols - col;
    float sum[8] = {};
    chain_wait();
    for (int base = sum_first_row(); n > 0 && base < rows; base += sum_row_step()) {
        float g[CUDA_SUM_AHEAD][8], v[CUDA_SUM_AHEAD][8];
#pragma unroll
        for (int i = 0; i < CUDA_SUM_AHEAD; i++) { /* all loads before the first store */
            if (base + i >= rows) break;
            load8<WIDE>(g[i], dy + (base + i) * dy_ld + col, n);
            if (ACT != ACT_NONE) load8<WIDE>(v[i], z + (base + i) * z_ld + col, n);
        }
#pragma unroll
        for (int i = 0; i < CUDA_SUM_AHEAD; i++) {
            if (base + i >= rows) break;
            /* y is positive exactly where z is and dropout kept it: ReLU need not draw */
            if (ACT != ACT_RELU) drop8(g[i], d, base + i, col);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                if (ACT == ACT_RELU) g[i][j] *= d.scale;
                if (ACT != ACT_NONE) g[i][j] *= act_bwd<ACT>(v[i][j]);
                sum[j] += to_f32(from_f32<T>(g[i][j])); /* what the products will see */
            }
            store8<WIDE>(dy + (base + i) * dy_ld + col, g[i], n);
        }
    }
    if (partial) sum_store(partial, sum, cols);
}

/* Calls body with the activation as a constant. */
template <class Body> static void with_act(enum act act, Body body) {
    if (act == ACT_RELU)
        body(std::integral_constant<enum act, ACT_RELU>());
    else if (act == ACT_GELU)
        body(std::integral_constant<enum act, ACT_GELU>());
    else if (act == ACT_SILU)
        body(std::integral_constant<enum act, ACT_SILU>());
    else
        body(std::integral_constant<enum act, ACT_NONE>());
}

/* ---- ops ------------------------------------------------------------------------------------- */

static bool smooth(enum act act) { return act == ACT_GELU || act == ACT_SILU; }

void cuda_linear_fwd(struct backend *base, const struct linear_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_plain(be, &a->w, "linear") || !cuda_workspace(be, 0)) return;
    const struct mat *z = smooth(a->act) ? &a->z : &a->y;
    struct cuda_gemm product = cuda_gemm_of(z, &a->x, 0, &a->w, 1);
    product.bias = mat_empty(&a->b) ? NULL : a->b.data;
    product.relu = a->act == ACT_RELU;
    cuda_gemm_run(be, &product);
    struct cuda_dropout drop = cuda_dropout_of(&a->drop);
    if (!smooth(a->act) && drop.threshold == 0) return;
    int rows = a->y.rows, cols = a->y.cols;
    dim3 grid(cuda_blocks(rows, ROWS), cuda_blocks(cols, COLS)), block(LANES, ROWS);
    bool wide = cuda_wide(&a->y) && cuda_wide(z);
    cuda_with_type(a->y.type, [&](auto t) {
        using T = decltype(t);
        with_act(smooth(a->act) ? a->act : ACT_NONE, [&](auto act) {
            auto kernel = wide ? linear_fwd_kernel<T, decltype(act)::value, true>
                               : linear_fwd_kernel<T, decltype(act)::value, false>;
            CHAIN_AS(be, "linear_fwd_kernel", kernel, grid, block, 0, cuda_data<T>(&a->y), a->y.ld,
                     cuda_data<T>(z), z->ld, rows, cols, drop);
        });
    });
}

/* dz in place of dy, and db. */
static void bwd_rows(struct cuda_backend *be, const struct linear_args *a, float *partial) {
    struct cuda_dropout drop = cuda_dropout_of(&a->drop);
    int rows = a->dy.rows, cols = a->dy.cols;
    if (mat_empty(&a->db)) partial = NULL;
    if (a->act == ACT_NONE && drop.threshold == 0) {
        if (partial) cuda_sum_rows(be, cuda_data<float>(&a->db), &a->dy, partial);
        return;
    }
    struct mat none = {};
    const struct mat *z = smooth(a->act) ? &a->z : a->act == ACT_RELU ? &a->y : &none;
    bool wide = cuda_wide(&a->dy) && cuda_wide(z);
    struct cuda_sum_shape shape = cuda_sum_shape(be, rows, cols);
    cuda_with_type(a->dy.type, [&](auto t) {
        using T = decltype(t);
        with_act(a->act, [&](auto act) {
            auto kernel = wide ? linear_bwd_kernel<T, decltype(act)::value, true>
                               : linear_bwd_kernel<T, decltype(act)::value, false>;
            CHAIN_AS(be, "linear_bwd_kernel", kernel, shape.grid, shape.block, 0, partial,
                     cuda_data<T>(&a->dy), a->dy.ld, cuda_data<T>(z), z->ld, rows, cols, drop);
        });
    });
    struct cuda_sums db = {{cuda_data<float>(&a->db)}, 1};
    if (partial) cuda_add_partials(be, &db, partial, (int)shape.grid.x, cols);
}

/* dx, and what becomes of it in the ReLU that made x. */
static void bwd_dx(struct cuda_backend *be, const struct linear_args *a, float *partial) {
    if (mat_empty(&a->dx) || (a->x_act == ACT_RELU && cuda_through_relu(be, a, partial))) return;
    struct cuda_gemm dx = cuda_gemm_of(&a->dx, &a->dy, 0, &a->w, 0);
    dx.add = a->dx_add;
    cuda_gemm_run(be, &dx);
    struct linear_args below = {};
    below.y = a->x, below.act = a->x_act, below.drop.p = a->x_p;
    below.dy = a->dx, below.db = a->dx_sum;
    bwd_rows(be, &below, partial);
}

static size_t sums_size(const struct cuda_backend *be, const struct mat *sum, int rows) {
    return mat_empty(sum) ? 0 : cuda_sum_rows_size(be, rows, sum->cols);
}

void cuda_linear_bwd(struct backend *base, const struct linear_args *a) {
    struct cuda_backend *be = cuda_of(base);
    size_t size =
        std::max(sums_size(be, &a->db, a->dy.rows), sums_size(be, &a->dx_sum, a->dy.rows));
    if (a->x_act == ACT_RELU) size = std::max(size, cuda_through_relu_size(&a->dx));
    float *partial = (float *)cuda_workspace_beside(be, size);
    if (!partial) return;
    cuda_await(be, {&a->dy, &a->dw, &a->db, &a->dx, &a->dx_sum});
    /* dz is needed at once; db, where dz is dy as it came, by nobody before the update */
    bool db_alone = a->act == ACT_NONE && cuda_dropout_of(&a->drop).threshold == 0;
    bool later = be->beside && db_alone;
    if (!later) bwd_rows(be, a, partial);
    float *aside = (float *)cuda_beside_fork(be, size);
    bwd_dx(be, a, partial);
    if (aside) cuda_beside_begin(be);
    if (later) bwd_rows(be, a, aside ? aside : partial);
    struct cuda_gemm dw = cuda_gemm_of(&a->dw, &a->dy, 1, &a->x, 0);
    dw.add = 1;
    cuda_gemm_run(be, &dw);
    if (aside) cuda_beside_end(be, a);
}
