/* adam.cu — the optimizer's step.        PAPER: 5.3.
 *
 * One pass over flat buffers, bound by memory: Adam reads p, g, m, v and writes p, m, v (and g, and
 * the bf16 copy), up to 34 bytes per parameter, 8 more with an average; four parameters per thread
 * and access. The clipping factor never leaves the device. */
#include "backend/cuda/cuda.h"

#include <math.h>

enum { THREADS = 256 };

struct adam_factors {
    float beta1, beta1_rest, beta2, beta2_rest, rate, inv_bias2, eps, clip, avg_weight;
    int clear;
};

struct adam_buffers {
    float *p, *g, *m, *v;
    bf16 *copy;          /* or NULL */
    float *avg;          /* or NULL */
    const double *sumsq; /* or NULL */
};

/* N parameters from `at`. */
template <int N>
static __device__ __forceinline__ void
adam_some(const struct adam_buffers &b, const struct adam_factors &f, float clip, int64_t at) {
    float p[N], g[N], m[N], v[N], avg[N];
    load_pack(p, b.p + at);
    load_pack(g, b.g + at);
    load_pack(m, b.m + at);
    load_pack(v, b.v + at);
    if (b.avg) load_pack(avg, b.avg + at);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float x = clip * g[i];
        m[i] = f.beta1 * m[i] + f.beta1_rest * x;
        v[i] = f.beta2 * v[i] + f.beta2_rest * x * x;
        p[i] -= f.rate * m[i] / (sqrtf(v[i] * f.inv_bias2) + f.eps);
        g[i] = 0;
    }
    store_pack(b.p + at, p);
    store_pack(b.m + at, m);
    store_pack(b.v + at, v);
    if (f.clear) store_pack(b.g + at, g);
    if (b.copy) store_pack(b.copy + at, p);
    if (!b.avg) return;
#pragma unroll
    for (int i = 0; i < N; i++) avg[i] += f.avg_weight * (p[i] - avg[i]);
    store_pack(b.avg + at, avg);
}

template <int N>
static __global__ void adam_kernel(struct adam_buffers b, struct adam_factors f, int64_t n) {
    __shared__ float shared_clip;
    chain_wait();
    if (threadIdx.x == 0)
        shared_clip = b.sumsq ? (float)fmin(1.0, (double)f.clip / sqrt(*b.sumsq)) : 1.0f;
    __syncthreads();
    float clip = shared_clip;
    int64_t step = (int64_t)gridDim.x * THREADS, whole = n / N, i;
    for (i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < whole; i += step)
        adam_some<N>(b, f, clip, i * N);
    i = whole * N + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) adam_some<1>(b, f, clip, i); /* the rest, fewer than N */
}

void cuda_adam(struct backend *base, const struct adam_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    double b1 = a->beta1, b2 = a->beta2;
    double bias1 = 1 - pow(b1, (double)a->t), bias2 = 1 - pow(b2, (double)a->t);
    struct adam_factors f = {
        a->beta1,           (float)(1 - b1), a->beta2, (float)(1 - b2), (float)(a->lr / bias1),
        (float)(1 / bias2), a->eps,          a->clip,  a->avg_weight,   a->clear};
    struct adam_buffers b = {cuda_data<float>(&a->p),
                             cuda_data<float>(&a->g),
                             cuda_data<float>(&a->m),
                             cuda_data<float>(&a->v),
                             mat_empty(&a->copy) ? NULL : cuda_data<bf16>(&a->copy),
                             mat_empty(&a->avg) ? NULL : cuda_data<float>(&a->avg),
                             a->clip > 0 ? cuda_data<const double>(&a->sumsq) : NULL};
    uintptr_t addresses =
        (uintptr_t)b.p | (uintptr_t)b.g | (uintptr_t)b.m | (uintptr_t)b.v | (uintptr_t)b.avg;
    bool wide = addresses % 16 == 0 && (uintptr_t)b.copy % 8 == 0;
    int64_t n = a->p.cols;
    if (wide)
        CHAIN(be, adam_kernel<4>, cuda_grid(be, (n + 3) / 4, THREADS, 16), THREADS, 0, b, f, n);
    else
        CHAIN(be, adam_kernel<1>, cuda_grid(be, n, THREADS, 16), THREADS, 0, b, f, n);
}
