/* sumsq.cu — the sum of squares that clipping needs.
 *
 * A block takes a range of a row, in double. */
#include "backend/cuda/cuda.h"

enum { THREADS = 256 };

template <class T>
static __global__ void sumsq_kernel(double *out, int64_t out_ld, const T *x, int64_t ld,
                                    int per_row, int cols) {
    __shared__ double slot[32];
    int row = blockIdx.x / per_row, range = blockIdx.x % per_row;
    const T *from = x + row * ld;
    int64_t first = (int64_t)range * SUMSQ_RANGE;
    double sum = 0;
    for (int64_t at = first + threadIdx.x; at < first + SUMSQ_RANGE; at += 8 * THREADS) {
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
    if (threadIdx.x == 0) out[row * out_ld + range] += sum;
}

void cuda_sumsq(struct backend *base, const struct sumsq_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    int per_row = a->out.cols, n = a->x.rows * per_row;
    cuda_with_type(a->x.type, [&](auto t) {
        using T = decltype(t);
        LAUNCH(be, sumsq_kernel<T>, n, THREADS, 0, cuda_data<double>(&a->out), a->out.ld,
               cuda_data<T>(&a->x), a->x.ld, per_row, a->x.cols);
    });
}
