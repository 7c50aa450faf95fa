/* sum_rows.cu — column sums for bias and norm gradients, in two stages of fixed shape.
 *
 * Stage one: a block sums SUM_ROWS rows of 256 columns into one row of partial sums; a pass that
 * changes the matrix on the way is cut as cuda_sum_shape says instead. Stage two adds the rows of
 * partial sums to the gradient, a few columns per block: each of 32 thread rows takes every 32nd
 * partial, then they are added in order. Which rows meet in which partial depends on their number
 * and on the device alone, so the result is reproducible. The first stage is bound by memory, the
 * second one, which is tiny, by trips to it. */
#include "backend/cuda/cuda.h"

enum { SUM_ROWS = 128, SUM_Y = 8, SUM_COLS = 256, PART_COLS = 8, PART_AHEAD = 16 };

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

/* total += from[0], from[step] and so on, N in all. */
template <int N>
static __device__ __forceinline__ void add_rows(float &total, const float *from, int step) {
    float next[N];
#pragma unroll
    for (int j = 0; j < N; j++) next[j] = from[(int64_t)j * step];
#pragma unroll
    for (int j = 0; j < N; j++) total += next[j];
}

/* Block (PART_COLS, 32): a column's 32 sums lie in a column of threads. What the result is added to
 * and the next PART_AHEAD partials are asked for before any of them is waited for. */
static __global__ void __launch_bounds__(32 * PART_COLS)
    add_partials_kernel(struct cuda_sums sum, const float *partial, int rows, int cols) {
    __shared__ float part[32][PART_COLS + 1];
    int ld = sum.n * cols, i = threadIdx.y * PART_COLS + threadIdx.x, lane = i % 32;
    int col = blockIdx.x * PART_COLS + threadIdx.x, out = blockIdx.x * PART_COLS + i / 32;
    float *to = out < cols ? sum.to[0] : out < 2 * cols ? sum.to[1] - cols : sum.to[2] - 2 * cols;
    bool adds = lane == 0 && out < ld;
    float was = 0, total = 0;
    chain_wait();
    if (adds) was = to[out];
    if (col < ld) {
        int row = threadIdx.y, step = 32 * ld;
        for (; row + 32 * (PART_AHEAD - 1) < rows; row += 32 * PART_AHEAD)
            add_rows<PART_AHEAD>(total, partial + (int64_t)row * ld + col, step);
        /* The rest, of which each has its own way, so that no load waits for one before it. */
        const float *from = partial + (int64_t)row * ld + col;
        int rest = (rows - row + 31) / 32;
        if (rest & 8) add_rows<8>(total, from, step), from += 8 * (int64_t)step;
        if (rest & 4) add_rows<4>(total, from, step), from += 4 * (int64_t)step;
        if (rest & 2) add_rows<2>(total, from, step), from += 2 * (int64_t)step;
        if (rest & 1) add_rows<1>(total, from, step);
    }
    part[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    /* Transposed, so that a warp holds the 32 parts of one column. */
    float x = warp_sum(part[lane][i / 32]);
    if (adds) to[out] = was + x;
}

void cuda_add_partials(struct cuda_backend *be, const struct cuda_sums *sum, const float *partial,
                       int rows, int cols) {
    CHAIN(be, add_partials_kernel, cuda_blocks((int64_t)sum->n * cols, PART_COLS),
          dim3(PART_COLS, 32), 0, *sum, partial, rows, cols);
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
