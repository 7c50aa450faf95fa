/* round_rows.cu — weights as int8 will hold them.
 *
 * A warp per row, which it reads twice, the second time from a cache. Bound by memory: an element
 * in and one out. No operation may be merged with another, since the bits are those of other
 * backends. */
#include "backend/cuda/cuda.h"

enum { THREADS = 256 };

static __device__ __forceinline__ void put(float *to, float x) { *to = x; }
static __device__ __forceinline__ void put(bf16 *to, float x) { *to = __float2bfloat16_rn(x); }

template <class T>
static __global__ void __launch_bounds__(THREADS)
    round_rows_kernel(T *w, int64_t ld, int rows, int cols) {
    int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    T *at = w + row * ld;
    float most = 0;
    bool sick = false;
    for (int j = lane; j < cols; j += 32) {
        float size = fabsf(to_f32(at[j]));
        sick |= !isfinite(size);
        most = fmaxf(most, size);
    }
    if (__any_sync(~0u, sick)) return;
    most = warp_max(most);
    float factor = __fdiv_rn(127, most), step = __fdiv_rn(most, 127);
    for (int j = lane; j < cols; j += 32)
        put(at + j,
            isfinite(factor) ? __fmul_rn(rintf(__fmul_rn(to_f32(at[j]), factor)), step) : 0.0f);
}

void cuda_round_rows(struct backend *base, const struct round_rows_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    int grid = (a->w.rows + THREADS / 32 - 1) / (THREADS / 32);
    if (a->w.type == DTYPE_BF16)
        LAUNCH(be, round_rows_kernel<bf16>, grid, THREADS, 0, cuda_data<bf16>(&a->w), a->w.ld,
               a->w.rows, a->w.cols);
    else
        LAUNCH(be, round_rows_kernel<float>, grid, THREADS, 0, cuda_data<float>(&a->w), a->w.ld,
               a->w.rows, a->w.cols);
}
