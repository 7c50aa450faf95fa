/* sumsq.cu — the sum of squares that clipping needs.
 *
 * Taken per range of RANGE elements, in double, and the ranges are added in order. */
#include "backend/cuda/cuda.h"

enum { THREADS = 256, RANGE = 1 << 14, ADD_THREADS = 1024 };

template <class T>
static __global__ void sumsq_kernel(double *partial, const T *x, int64_t ld, int per_row,
                                    int cols) {
    __shared__ double slot[32];
    const T *from = x + blockIdx.x / per_row * ld;
    int64_t first = (int64_t)(blockIdx.x % per_row) * RANGE;
    double sum = 0;
    for (int64_t at = first + threadIdx.x; at < first + RANGE; at += 8 * THREADS) {
        float some = 0; /* eight squares in f32, their sum in double */
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int64_t j = at + i * THREADS;
            float v = j < cols ? to_f32(from[j]) : 0.0f;
            some += v * v;
        }
        sum += some;
    }
    sum = block_sum(sum, slot);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

static __global__ void add_kernel(double *out, const double *partial, int64_t n) {
    __shared__ double slot[32];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += ADD_THREADS) sum += partial[i];
    sum = block_sum(sum, slot);
    if (threadIdx.x == 0) *out += sum;
}

void cuda_sumsq(struct backend *base, const struct sumsq_args *a) {
    struct cuda_backend *be = cuda_of(base);
    int per_row = cuda_blocks(a->x.cols, RANGE);
    int64_t n = (int64_t)a->x.rows * per_row;
    double *partial = (double *)cuda_workspace(be, (size_t)n * sizeof(double));
    if (!partial) return;
    cuda_with_type(a->x.type, [&](auto t) {
        using T = decltype(t);
        LAUNCH(be, sumsq_kernel<T>, (int)n, THREADS, 0, partial, cuda_data<T>(&a->x), a->x.ld,
               per_row, a->x.cols);
    });
    LAUNCH(be, add_kernel, 1, ADD_THREADS, 0, cuda_data<double>(&a->out), partial, n);
}
