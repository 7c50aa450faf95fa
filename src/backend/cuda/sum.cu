/* sum.cu — the pairwise tree in which gradients are added.
 *
 * Bound by memory: every row is read once, four columns per thread and access. Trees that wait for
 * their right half are the ones of a binary counter: after row r, those of the ones of r + 1. */
#include "backend/cuda/cuda.h"

enum { THREADS = 256 };

/* N columns from `at`. */
template <int N>
static __device__ __forceinline__ void sum_some(float *out, const float *x, int64_t ld, int rows,
                                                int64_t at) {
    float part[SUM_DEPTH][N];
    int depth = 0;
    for (int r = 0; r < rows; r++) {
        load_pack(part[depth++], x + r * ld + at);
        for (int c = r + 1; c % 2 == 0; c /= 2, depth--)
            for (int i = 0; i < N; i++) part[depth - 2][i] += part[depth - 1][i];
    }
    for (; depth > 1; depth--)
        for (int i = 0; i < N; i++) part[depth - 2][i] += part[depth - 1][i];
    store_pack(out + at, part[0]);
}

/* Two rows, which is what accumulating gradients adds at a time. */
template <int N>
static __device__ __forceinline__ void sum_two(float *out, const float *x, const float *y,
                                               int64_t at) {
    float a[N], b[N];
    load_pack(a, x + at);
    load_pack(b, y + at);
#pragma unroll
    for (int i = 0; i < N; i++) a[i] += b[i];
    store_pack(out + at, a);
}

template <int N, bool TWO>
static __global__ void sum_kernel(float *out, const float *x, int64_t ld, int rows, int64_t n) {
    int64_t step = (int64_t)gridDim.x * THREADS, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    for (; i < n / N; i += step)
        if (TWO)
            sum_two<N>(out, x, x + ld, i * N);
        else
            sum_some<N>(out, x, ld, rows, i * N);
    i = n / N * N + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) sum_some<1>(out, x, ld, rows, i); /* the rest, fewer than N */
}

void cuda_sum(struct backend *base, const struct sum_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    float *out = cuda_data<float>(&a->out);
    const float *x = cuda_data<float>(&a->x);
    int64_t n = a->x.cols, ld = a->x.ld;
    int rows = a->x.rows, wide = cuda_grid(be, (n + 3) / 4, THREADS, 16);
    bool aligned = (uintptr_t)out % 16 == 0 && (uintptr_t)x % 16 == 0 && ld % 4 == 0;
    if (aligned && rows == 2)
        LAUNCH(be, (sum_kernel<4, true>), wide, THREADS, 0, out, x, ld, rows, n);
    else if (aligned)
        LAUNCH(be, (sum_kernel<4, false>), wide, THREADS, 0, out, x, ld, rows, n);
    else
        LAUNCH(be, (sum_kernel<1, false>), cuda_grid(be, n, THREADS, 16), THREADS, 0, out, x, ld,
               rows, n);
}
