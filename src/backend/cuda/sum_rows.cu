/* sum_rows.cu — column sums for bias and norm gradients, in two stages of fixed shape.
 *
 * Stage one: a block sums SUM_ROWS rows of 256 columns into one row of partial sums; a pass that
 * changes the matrix on the way is cut as cuda_sum_shape says instead. Stage two adds the rows of
 * partial sums to the gradient, 32 columns per block: each of 32 thread rows takes every 32nd
 * partial, then they are added in order. Which rows meet in which partial depends on their number
 * and on the device alone, so the result is reproducible. Both stages are bound by memory; the
 * second one is tiny. */
#include "backend/cuda/cuda.h"

enum { SUM_ROWS = 128, SUM_Y = 8, SUM_COLS = 256 };

/* No more blocks than fit the device at once: one that came late would make all wait for it. */
struct cuda_sum_shape cuda_sum_shape(const struct cuda_backend *be, int rows, int cols) {
    int across = cuda_blocks(cols, 256) * 32;
    if (across > CUDA_SUM_THREADS) across = CUDA_SUM_THREADS;
    int down = CUDA_SUM_THREADS / across, slices = cuda_blocks(cols, across * 8);
    int most = be->n_sm * CUDA_SUM_PER_SM / slices, want = cuda_blocks(rows, down * CUDA_SUM_AHEAD);
    if (most < 1) most = 1;
    return {dim3((unsigned)(want < most ? want : most), (unsigned)slices),
            dim3((unsigned)across, (unsigned)down)};
}

size_t cuda_sum_rows_size(const struct cuda_backend *be, int rows, int cols) {
    int one = cuda_blocks(rows, SUM_ROWS), other = (int)cuda_sum_shape(be, rows, cols).grid.x;
    return (size_t)(one > other ? one : other) * (size_t)cols * sizeof(float);
}

/* Block (32, SUM_Y): thread x owns 8 columns, thread y every SUM_Y-th row of the block's rows. */
template <class T, bool WIDE>
static __global__ void sum_rows_kernel(float *partial, const T *x, int64_t ld, int rows, int cols) {
    __shared__ float part[SUM_Y][SUM_COLS];
    int col = blockIdx.x * SUM_COLS + threadIdx.x * 8, n = cols - col;
    int first = blockIdx.y * SUM_ROWS, last = min(first + SUM_ROWS, rows);
    float sum[8] = {}, v[8];
    chain_wait();
    if (n > 0) {
#pragma unroll 8
        for (int i = first + threadIdx.y; i < last; i += SUM_Y) { /* many loads under way */
            load8<WIDE>(v, x + i * ld + col, n);
#pragma unroll
            for (int j = 0; j < 8; j++) sum[j] += v[j];
        }
    }
#pragma unroll
    for (int j = 0; j < 8; j++) part[threadIdx.y][threadIdx.x * 8 + j] = sum[j];
    __syncthreads();
    int at = threadIdx.y * 32 + threadIdx.x, out = blockIdx.x * SUM_COLS + at;
    if (out >= cols) return;
    float total = 0;
#pragma unroll
    for (int y = 0; y < SUM_Y; y++) total += part[y][at];
    partial[(int64_t)blockIdx.y * cols + out] = total;
}

static __global__ void add_partials_kernel(struct cuda_sums sum, const float *partial, int rows,
                                           int cols) {
    __shared__ float part[32][33];
    int col = blockIdx.x * 32 + threadIdx.x, ld = sum.n * cols;
    float total = 0;
    chain_wait();
    if (col < ld) {
#pragma unroll 8
        for (int i = threadIdx.y; i < rows; i += 32) total += partial[(int64_t)i * ld + col];
    }
    part[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    /* Transposed, so that a warp holds the 32 parts of one column. */
    float x = warp_sum(part[threadIdx.x][threadIdx.y]);
    int out = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x != 0 || out >= ld) return;
    int which = out / cols;
    float *to = which == 0 ? sum.to[0] : which == 1 ? sum.to[1] : sum.to[2];
    to[out - which * cols] += x;
}

void cuda_add_partials(struct cuda_backend *be, const struct cuda_sums *sum, const float *partial,
                       int rows, int cols) {
    CHAIN(be, add_partials_kernel, cuda_blocks((int64_t)sum->n * cols, 32), dim3(32, 32), 0, *sum,
          partial, rows, cols);
}

void cuda_sum_rows(struct cuda_backend *be, float *sum, const struct mat *x, void *scratch) {
    float *partial = (float *)scratch;
    int n_block = cuda_blocks(x->rows, SUM_ROWS);
    dim3 grid(cuda_blocks(x->cols, SUM_COLS), n_block), block(32, SUM_Y);
    cuda_with_type(x->type, [&](auto t) {
        using T = decltype(t);
        if (cuda_wide(x))
            CHAIN(be, (sum_rows_kernel<T, true>), grid, block, 0, partial, cuda_data<T>(x), x->ld,
                  x->rows, x->cols);
        else
            CHAIN(be, (sum_rows_kernel<T, false>), grid, block, 0, partial, cuda_data<T>(x), x->ld,
                  x->rows, x->cols);
    });
    struct cuda_sums into = {{sum}, 1};
    cuda_add_partials(be, &into, partial, n_block, x->cols);
}
